// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/scopes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/frontend/shared/wrapper.h"

namespace thunderc::onnx_frontend {
namespace {

constexpr std::string_view scopes_key = "pkg.torch.onnx.name_scopes";
constexpr std::string_view classes_key = "pkg.torch.onnx.class_hierarchy";

std::string last_part(const std::string& path) {
    const std::size_t dot = path.rfind('.');
    return dot == std::string::npos ? path : path.substr(dot + 1);
}

std::string first_part(const std::string& path) {
    return path.substr(0, path.find('.'));
}

// "/model/layers.0/self_attn/q_proj/MatMul" -> "model.layers.0.self_attn.q_proj". A container that is called itself
// appears twice ("/net/net.0/Gemm"): the longer name replaces the shorter.
std::string scope_of_path(const std::string& name) {
    std::vector<std::string> parts;
    std::size_t begin = 1;
    while (true) {
        const std::size_t end = name.find('/', begin);
        if (end == std::string::npos) break;  // the last part is the operator
        std::string part = name.substr(begin, end - begin);
        begin = end + 1;
        if (!parts.empty() && part.starts_with(parts.back() + ".")) parts.pop_back();
        parts.push_back(std::move(part));
    }
    std::string scope;
    for (const std::string& part : parts) scope += (scope.empty() ? "" : ".") + part;
    return scope;
}

}  // namespace

const std::string* metadata(const onnx::NodeProto& node, std::string_view key) {
    for (const auto& entry : node.metadata_props())
        if (entry.key() == key) return &entry.value();
    return nullptr;
}

std::string plain(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\') c = '_';
    return text;
}

std::vector<std::string> parse_string_list(std::string_view text) {
    std::vector<std::string> out;
    for (std::size_t k = 0; k < text.size(); ++k) {
        const char quote = text[k];
        if (quote != '\'' && quote != '"') continue;
        std::string item;
        for (++k; k < text.size() && text[k] != quote; ++k) {
            if (text[k] == '\\' && k + 1 < text.size()) ++k;
            item += text[k];
        }
        out.push_back(std::move(item));
    }
    return out;
}

Provenance provenance_of(const onnx::NodeProto& node) {
    Provenance out;
    const std::string* scopes = metadata(node, scopes_key);
    const std::string* classes = metadata(node, classes_key);
    if (scopes != nullptr) {
        // The last entry is the traced program's own node; the first is the root, which has no name.
        std::vector<std::string> path = parse_string_list(*scopes);
        if (path.size() >= 2 && !path.front().starts_with("_empty_nn_module_stack")) {
            out.scope = path[path.size() - 2];
            if (classes != nullptr) {
                const std::vector<std::string> names = parse_string_list(*classes);
                if (names.size() == path.size()) out.module_class = last_part(names[names.size() - 2]);
            }
        }
    } else if (node.name().starts_with("/")) {
        out.scope = scope_of_path(node.name());
    }
    out.scope = plain(std::move(out.scope));
    out.module_class = plain(std::move(out.module_class));
    out.nodes = {plain(node.name().empty() ? (node.output_size() > 0 ? node.output(0) : std::string()) : node.name())};
    out.node_ops = {plain(node.op_type())};
    return out;
}

std::string place_of(const onnx::NodeProto& node) {
    const Provenance from = provenance_of(node);
    return from.scope.empty() ? from.nodes.front() : from.scope;
}

std::string wrapper_prefix(const onnx::GraphProto& graph) {
    std::set<std::string> firsts;
    std::map<std::string, std::string> classes;  // of scopes of one part, where known; qualified
    for (const auto& tensor : graph.initializer()) {
        const std::string& name = tensor.name();
        const bool dotted = name.find('.') != std::string::npos && name.find('/') == std::string::npos &&
                            name.find(':') == std::string::npos;
        if (!dotted) continue;
        firsts.insert(first_part(name));
    }
    for (const auto& node : graph.node()) {
        const Provenance from = provenance_of(node);
        if (!from.scope.empty()) firsts.insert(first_part(from.scope));
        const std::string* scopes = metadata(node, scopes_key);
        const std::string* names = metadata(node, classes_key);
        if (scopes == nullptr || names == nullptr) continue;
        const std::vector<std::string> path = parse_string_list(*scopes);
        const std::vector<std::string> hierarchy = parse_string_list(*names);
        for (std::size_t k = 0; k + 1 < path.size() && k < hierarchy.size(); ++k)
            if (!path[k].empty() && path[k].find('.') == std::string::npos) classes[path[k]] = hierarchy[k];
    }
    return thunderc::wrapper_prefix(firsts, classes);
}

std::string class_of_module(const onnx::NodeProto& node) {
    const std::string* text = metadata(node, "pkg.torch.onnx.class_hierarchy");
    if (text == nullptr) return "";
    const std::vector<std::string> classes = parse_string_list(*text);
    return classes.size() < 2 ? "" : classes[classes.size() - 2];
}

}  // namespace thunderc::onnx_frontend

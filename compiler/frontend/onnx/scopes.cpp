#include "compiler/frontend/onnx/scopes.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace thunderc::onnx_frontend {
namespace {

const std::string* metadata(const onnx::NodeProto& node, std::string_view key) {
    for (const auto& entry : node.metadata_props())
        if (entry.key() == key) return &entry.value();
    return nullptr;
}

constexpr std::string_view scopes_key = "pkg.torch.onnx.name_scopes";
constexpr std::string_view classes_key = "pkg.torch.onnx.class_hierarchy";

// Names of nodes and modules stand in comments of generated text: a new line would end one, a backslash would continue
// it.
std::string plain(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\') c = '_';
    return text;
}

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

TracedInput traced_input(const onnx::NodeProto& node, std::string_view name) {
    const std::string* text = metadata(node, "pkg.torch.onnx.fx_node");
    if (text == nullptr) return TracedInput::unknown;
    std::string mangled(name);
    std::replace(mangled.begin(), mangled.end(), '.', '_');
    auto mentions = [&](const std::string& word) {
        for (std::size_t at = text->find(word); at != std::string::npos; at = text->find(word, at + 1)) {
            const std::size_t end = at + word.size();
            if (end == text->size() ||
                (std::isalnum(static_cast<unsigned char>((*text)[end])) == 0 && (*text)[end] != '_'))
                return true;
        }
        return false;
    };
    if (mentions("%p_" + mangled)) return TracedInput::parameter;
    if (mentions("%b_" + mangled)) return TracedInput::buffer;
    return TracedInput::unknown;
}

std::optional<std::int64_t> padding_index(const onnx::NodeProto& node) {
    const std::string* text = metadata(node, "pkg.torch.onnx.fx_node");
    if (text == nullptr) return std::nullopt;
    constexpr std::string_view call = "aten.embedding.default](args = (";
    const std::size_t begin = text->find(call);
    if (begin == std::string::npos) return std::nullopt;
    const std::string_view arguments = std::string_view(*text).substr(begin + call.size());
    const std::size_t ids = arguments.find(", ");
    const std::size_t row = ids == std::string_view::npos ? ids : arguments.find(", ", ids + 2);
    const std::size_t end = arguments.find_first_of(",)", row == std::string_view::npos ? row : row + 2);
    if (row == std::string_view::npos || end == std::string_view::npos || arguments.find(')') < row)
        return std::nullopt;
    const std::string_view digits = arguments.substr(row + 2, end - row - 2);
    std::int64_t index = 0;
    const auto [at, error] = std::from_chars(digits.begin(), digits.end(), index);
    // Without one, torch passes -1.
    return error == std::errc() && at == digits.end() && index >= 0 ? std::optional(index) : std::nullopt;
}

TracedParameters::TracedParameters(const onnx::GraphProto& graph) {
    constexpr std::string_view kind = ": PARAMETER target='";
    for (const auto& entry : graph.metadata_props()) {
        if (entry.key() != "pkg.torch.export.ExportedProgram.graph_signature") continue;
        const std::string_view text = entry.value();
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = std::min(text.find('\n', begin), text.size());
            const std::string_view line = text.substr(begin, end - begin);
            begin = end + 1;
            const std::size_t at = line.find(kind);
            if (at == std::string_view::npos) continue;
            const std::size_t name = at + kind.size();
            const std::size_t close = line.find('\'', name);
            if (close != std::string_view::npos)
                names_[std::string(line.substr(0, at))] = plain(std::string(line.substr(name, close - name)));
        }
    }
}

std::vector<std::string> TracedParameters::read_by(const onnx::NodeProto& node) const {
    std::vector<std::string> out;
    const std::string* text = names_.empty() ? nullptr : metadata(node, "pkg.torch.onnx.fx_node");
    if (text == nullptr) return out;
    for (std::size_t at = text->find('%'); at != std::string::npos; at = text->find('%', at + 1)) {
        std::size_t end = at + 1;
        while (end < text->size() &&
               (std::isalnum(static_cast<unsigned char>((*text)[end])) != 0 || (*text)[end] == '_'))
            ++end;
        const auto found = names_.find(std::string_view(*text).substr(at + 1, end - at - 1));
        if (found != names_.end() && std::find(out.begin(), out.end(), found->second) == out.end())
            out.push_back(found->second);
    }
    return out;
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
    if (firsts.size() != 1) return "";
    const std::string& first = *firsts.begin();
    const auto known = classes.find(first);
    if (known != classes.end()) return known->second.starts_with("torch.nn.") ? "" : first + ".";
    return first == "model" || first == "module" ? first + "." : "";
}

}  // namespace thunderc::onnx_frontend

// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/traced_program.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "compiler/frontend/onnx/scopes.h"

namespace thunderc::onnx_frontend {
namespace {

constexpr std::string_view signature_key = "pkg.torch.export.ExportedProgram.graph_signature";

bool in_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::string trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return std::string(text);
}

// "a, [b, c], d" -> "a", "[b, c]", "d"; up to the bracket that closes the list, behind which `at` is left: npos where
// there is none. Only strings may hold a bracket that is none.
std::vector<std::string> parse_list(std::string_view text, std::size_t& at) {
    std::vector<std::string> out;
    std::size_t begin = at;
    int depth = 0;
    auto take = [&] {
        if (std::string part = trimmed(text.substr(begin, at - begin)); !part.empty()) out.push_back(std::move(part));
        begin = at + 1;
    };
    for (; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '\'' || c == '"') {
            const std::size_t end = text.find(c, at + 1);
            if (end == std::string_view::npos) break;
            at = end;
        } else if (c == '(' || c == '[' || c == '{') {
            ++depth;
        } else if (c == ')' || c == ']' || c == '}') {
            if (depth-- == 0) {
                take();
                ++at;
                return out;
            }
        } else if (c == ',' && depth == 0) {
            take();
        }
    }
    at = std::string_view::npos;
    return out;
}

void add_mentions(std::string_view text, std::vector<std::string>& out) {
    for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 1)) {
        std::size_t end = at + 1;
        while (end < text.size() && in_word(text[end])) ++end;
        if (end > at + 1) out.emplace_back(text.substr(at + 1, end - at - 1));
    }
}

// The values behind each % of the call, but for its own result.
std::vector<std::string> operands_of(const onnx::NodeProto& node) {
    std::vector<std::string> out;
    if (const std::string* text = metadata(node, traced_call_key); text != nullptr && !text->empty())
        add_mentions(std::string_view(*text).substr(1), out);
    return out;
}

}  // namespace

std::string TracedCall::argument(std::size_t position, std::string_view name) const {
    if (position < arguments.size()) return arguments[position];
    for (const auto& [key, value] : keywords)
        if (key == name) return value;
    return {};
}

std::vector<std::string> TracedCall::mentions() const {
    std::vector<std::string> out;
    for (const std::string& argument : arguments) add_mentions(argument, out);
    for (const auto& [key, value] : keywords) add_mentions(value, out);
    return out;
}

std::optional<TracedCall> parse_traced_call(std::string_view text) {
    constexpr std::string_view target = "call_function[target=", torch = "torch.ops.", arguments = "](args = (",
                               keywords = ", kwargs = {";
    TracedCall call;
    if (!text.starts_with('%')) return std::nullopt;
    std::size_t at = 1;
    while (at < text.size() && in_word(text[at])) ++at;
    call.result = text.substr(1, at - 1);
    if (constexpr std::string_view count = " : [num_users="; text.substr(at).starts_with(count))
        std::from_chars(text.data() + at + count.size(), text.data() + text.size(), call.users);
    at = text.find(target, at);
    if (at == std::string_view::npos) return std::nullopt;
    at += target.size();
    const std::size_t end = text.find(arguments, at);
    if (end == std::string_view::npos) return std::nullopt;
    call.target = text.substr(at, end - at);
    if (call.target.starts_with(torch)) call.target.erase(0, torch.size());
    at = end + arguments.size();
    call.arguments = parse_list(text, at);
    if (at == std::string_view::npos || !text.substr(at).starts_with(keywords)) return std::nullopt;
    at += keywords.size();
    for (const std::string& entry : parse_list(text, at))
        if (const std::size_t colon = entry.find(": "); colon != std::string::npos)
            call.keywords.emplace_back(entry.substr(0, colon), entry.substr(colon + 2));
    if (at == std::string_view::npos || !text.substr(at).starts_with(')')) return std::nullopt;
    return call;
}

std::optional<TracedCall> traced_call(const onnx::NodeProto& node) {
    const std::string* text = metadata(node, traced_call_key);
    return text == nullptr ? std::nullopt : parse_traced_call(*text);
}

std::string traced_function(const onnx::NodeProto& node) {
    std::optional<TracedCall> call = traced_call(node);
    return call ? std::move(call->target) : "";
}

TracedInput traced_input(const onnx::NodeProto& node, std::string_view name) {
    const std::string* text = metadata(node, traced_call_key);
    if (text == nullptr) return TracedInput::unknown;
    std::string mangled(name);
    std::replace(mangled.begin(), mangled.end(), '.', '_');
    auto mentions = [&](const std::string& word) {
        for (std::size_t at = text->find(word); at != std::string::npos; at = text->find(word, at + 1)) {
            const std::size_t end = at + word.size();
            if (end == text->size() || !in_word((*text)[end])) return true;
        }
        return false;
    };
    if (mentions("%p_" + mangled)) return TracedInput::parameter;
    if (mentions("%b_" + mangled) || mentions("%c_" + mangled)) return TracedInput::constant;
    return TracedInput::unknown;
}

TracedProgram::TracedProgram(const onnx::GraphProto& graph) {
    for (const auto& entry : graph.metadata_props()) {
        if (entry.key() != signature_key) continue;
        const std::string_view text = entry.value();
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = std::min(text.find('\n', begin), text.size());
            const std::string_view line = text.substr(begin, end - begin);
            begin = end + 1;
            constexpr std::string_view target = " target='";
            const std::size_t colon = line.find(": "), at = line.find(target);
            if (colon == std::string_view::npos) continue;
            const std::string value(line.substr(0, colon));
            if (line.substr(colon + 2).starts_with("USER_OUTPUT")) outputs_.push_back(value);
            if (line.substr(colon + 2).starts_with("USER_INPUT")) inputs_of_user_.insert(value);
            if (at == std::string_view::npos || at < colon) continue;
            const std::size_t close = line.find('\'', at + target.size());
            if (close == std::string_view::npos) continue;
            const std::string_view kind = line.substr(colon + 2, at - colon - 2);
            std::string name = plain(std::string(line.substr(at + target.size(), close - at - target.size())));
            if (kind == "PARAMETER") {
                parameter_by_name_[value] = name;
                if (inputs_.emplace(name, TracedInput::parameter).second) parameters_.push_back(std::move(name));
            } else if (kind == "BUFFER_MUTATION" || kind == "PARAMETER_MUTATION") {
                changed_.push_back(std::move(name));
            } else if (kind == "BUFFER" || kind == "CONSTANT_TENSOR") {
                constant_by_name_[value] = name;
                if (inputs_.emplace(name, TracedInput::constant).second) constants_.push_back(std::move(name));
            }
        }
    }
}

TracedInput TracedProgram::input(std::string_view name) const {
    const auto at = inputs_.find(name);
    return at == inputs_.end() ? TracedInput::unknown : at->second;
}

const std::string* TracedProgram::parameter(std::string_view argument) const {
    if (!argument.starts_with('%')) return nullptr;
    const auto at = parameter_by_name_.find(argument.substr(1));
    return at == parameter_by_name_.end() ? nullptr : &at->second;
}

bool TracedProgram::constant(std::string_view argument) const {
    return argument.starts_with('%') && constant_by_name_.contains(argument.substr(1));
}

std::string TracedProgram::traced_name(const std::string& name) const {
    for (const auto* names : {&parameter_by_name_, &constant_by_name_})
        for (const auto& [traced, own] : *names)
            if (own == name) return traced;
    return "";
}

std::vector<std::string> TracedProgram::read_by(const onnx::NodeProto& node) const {
    std::vector<std::string> out;
    for (const std::string& word : operands_of(node)) {
        const std::string* name = parameter("%" + word);
        if (name != nullptr && std::find(out.begin(), out.end(), *name) == out.end()) out.push_back(*name);
    }
    return out;
}

std::vector<std::string> TracedProgram::values_read_by(const onnx::NodeProto& node) const {
    std::vector<std::string> out = operands_of(node);
    std::erase_if(out, [this](const std::string& word) { return is_input(word); });
    return out;
}

bool TracedProgram::is_input(std::string_view value) const {
    return parameter_by_name_.contains(value) || constant_by_name_.contains(value) || inputs_of_user_.contains(value);
}

}  // namespace thunderc::onnx_frontend

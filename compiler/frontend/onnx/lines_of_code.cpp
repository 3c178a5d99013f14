// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/lines_of_code.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>

#include "compiler/frontend/onnx/scopes.h"
#include "compiler/frontend/onnx/traced_program.h"

namespace thunderc::onnx_frontend {
namespace {

// Functions that stop no gradient, as they are written in a line of Python: methods of tensors and of Python, ...
constexpr std::string_view methods[] = {"abs",        "add",         "addmm",     "amax",        "arange",
                                        "baddbmm",    "bmm",         "cat",       "chunk",       "clone",
                                        "contiguous", "cos",         "cumsum",    "dim",         "div",
                                        "einsum",     "exp",         "expand",    "expand_as",   "flatten",
                                        "flip",       "float",       "gather",    "int",         "len",
                                        "log",        "log_softmax", "logsumexp", "masked_fill", "matmul",
                                        "max",        "mean",        "min",       "mm",          "movedim",
                                        "mul",        "narrow",      "numel",     "ones",        "permute",
                                        "pow",        "range",       "relu",      "repeat",      "repeat_interleave",
                                        "reshape",    "roll",        "rsqrt",     "select",      "sigmoid",
                                        "sin",        "size",        "softmax",   "split",       "sqrt",
                                        "square",     "squeeze",     "stack",     "sub",         "sum",
                                        "swapaxes",   "t",           "tanh",      "to",          "transpose",
                                        "tril",       "triu",        "type_as",   "unbind",      "unflatten",
                                        "unsqueeze",  "view",        "view_as",   "where",       "zeros"};
// ... and of torch.nn.functional. (Not dropout: an export in eval() mode leaves it out, of which there is to be a
// word.)
constexpr std::string_view functions[] = {
    "cross_entropy", "gelu", "layer_norm", "linear", "mse_loss", "silu", "scaled_dot_product_attention"};
// What begins a line that runs not once, or not at all.
constexpr std::string_view compound[] = {"for",   "while",  "if",      "elif",  "else",  "with",
                                         "try",   "except", "finally", "def",   "class", "async",
                                         "match", "case",   "return",  "yield", "raise", "del"};

template <std::size_t n>
bool listed(const std::string_view (&names)[n], std::string_view name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool in_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
    return text;
}

bool has_word(std::string_view text, std::string_view word) {
    for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
        const std::size_t end = at + word.size();
        if ((at == 0 || !in_name(text[at - 1])) && (end == text.size() || !in_name(text[end]))) return true;
    }
    return false;
}

// Without its comment and what its strings hold: "-inf", "bhqd,bhkd->bhqk"; "" where a string may be more than words.
std::string bare(std::string_view code) {
    std::string out;
    for (std::size_t at = 0; at < code.size() && code[at] != '#'; ++at) {
        out += code[at];
        if (code[at] != '\'' && code[at] != '"') continue;
        const std::size_t end = code.find(code[at], at + 1);
        if (end == std::string_view::npos || end == at + 1) return "";  // over several lines, perhaps
        for (const char c : code.substr(at + 1, end - at - 1))
            if (!in_name(c) && std::string_view(" ,.+->").find(c) == std::string_view::npos) return "";
        out += code[at];
        at = end;
    }
    return std::string(trimmed(out));
}

// Whether the line is a statement by itself, or the last of one: no bracket is open at its end, nor closed that it did
// not open, and it goes on nowhere.
bool is_whole(std::string_view code) {
    if (code.empty() || code.back() == '\\' || code.front() == '.') return false;
    int depth = 0;
    for (const char c : code) {
        if (c == '(' || c == '[' || c == '{') ++depth;
        if ((c == ')' || c == ']' || c == '}') && --depth < 0) return false;
    }
    return depth == 0;
}

// Whether the line is one statement that runs where the one before did, and gives names of the function alone what it
// computes: what an attribute holds may be read behind a property.
bool is_straight(std::string_view code) {
    std::size_t end = 0;
    while (end < code.size() && in_name(code[end])) ++end;
    if (listed(compound, code.substr(0, end))) return false;
    int depth = 0;
    for (std::size_t at = 0; at < code.size(); ++at) {
        const char c = code[at];
        if (c == '(' || c == '[' || c == '{') ++depth;
        if (c == ')' || c == ']' || c == '}') --depth;
        if (c == ';' || (c == ':' && depth == 0)) return false;
        if (c != '=' || depth > 0 || at == 0) continue;
        if (code.substr(at).starts_with("==") || std::string_view("=!<>").find(code[at - 1]) != std::string_view::npos)
            continue;
        if (code.substr(0, at).find_first_of(".[") != std::string_view::npos) return false;
    }
    return true;
}

// Whether the line says by itself that it begins a statement: an expression alone may stand within brackets that other
// lines open and close, and go on behind it.
bool begins_statement(std::string_view code) {
    if (code.starts_with("return ")) return true;
    int depth = 0;
    for (std::size_t at = 0; at < code.size(); ++at) {
        const char c = code[at];
        if (c == '(' || c == '[' || c == '{') ++depth;
        if (c == ')' || c == ']' || c == '}') --depth;
        // (`a=b` gives an argument of a call.)
        if (c == '=' && depth == 0 && at > 0 && std::string_view(" +-*/@").find(code[at - 1]) != std::string_view::npos)
            return !code.substr(at).starts_with("==");
    }
    return false;
}

bool is_of_torch(const std::string& module_class) {
    return module_class.starts_with("torch.nn.modules.") && !module_class.starts_with("torch.nn.modules.container.");
}

// "torch/nn/modules/linear.py" of "torch.nn.modules.linear.Linear".
std::string file_of(const std::string& module_class) {
    std::string file = module_class.substr(0, module_class.rfind('.'));
    std::replace(file.begin(), file.end(), '.', '/');
    return file + ".py";
}

}  // namespace

std::optional<ModulePath> module_path(const onnx::NodeProto& node) {
    const std::string* scopes = metadata(node, "pkg.torch.onnx.name_scopes");
    const std::string* classes = metadata(node, "pkg.torch.onnx.class_hierarchy");
    if (scopes == nullptr || classes == nullptr) return std::nullopt;
    ModulePath out{parse_string_list(*scopes), parse_string_list(*classes)};
    if (out.scopes.size() != out.classes.size() || out.scopes.size() < 2) return std::nullopt;
    out.scopes.pop_back();  // the call itself
    out.classes.pop_back();
    return out;
}

LinesOfCode::LinesOfCode(const onnx::GraphProto& graph) {
    std::set<std::string, std::less<>> others;
    for (const auto& node : graph.node()) {
        for (const std::string& value : node.input()) readers_[value].push_back(&node);
        const std::optional<ModulePath> path = module_path(node);
        const std::optional<TracedCall> call = traced_call(node);
        if (!path || !call) continue;
        Call& known = calls_[&node];
        known.frames = frames_of(node);
        known.path = *path;
        known.target = call->target;
        bool torch_alone = true;  // from here down: an encoder of torch's runs layers of the author's, perhaps
        for (std::size_t k = path->scopes.size(); k-- > 0;) {
            torch_alone = torch_alone && is_of_torch(path->classes[k]);
            (torch_alone ? torch_modules_ : others).insert(path->scopes[k]);
        }
        for (const Frame& frame : known.frames) {
            known.key += frame.file + ":" + std::to_string(frame.line) + ":" + frame.code + "\n";
            if (frame.line < 0) continue;
            std::string& text = lines_.try_emplace({frame.file, frame.line}, frame.code).first->second;
            if (text != frame.code) text.clear();
        }
        known.key += path->scopes.back();
        results_[known.key][known.target].insert(call->result);
    }
    for (const std::string& scope : others) torch_modules_.erase(scope);
}

// "File "model.py", line 8, in forward", and the code in the next line.
std::vector<LinesOfCode::Frame> LinesOfCode::frames_of(const onnx::NodeProto& node) {
    const std::string* trace = metadata(node, "pkg.torch.onnx.stack_trace");
    if (trace == nullptr) return {};
    std::vector<Frame> out;
    bool expected = false;  // a line of code
    for (std::size_t begin = 0; begin <= trace->size();) {
        const std::size_t end = std::min(trace->find('\n', begin), trace->size());
        const std::string_view line = trimmed(std::string_view(*trace).substr(begin, end - begin));
        begin = end + 1;
        constexpr std::string_view file = "File \"", number = ", line ", in = ", in ";
        if (line.starts_with(file)) {
            Frame frame;
            const std::size_t close = line.find('"', file.size());
            if (close == std::string_view::npos) return {};
            frame.file = line.substr(file.size(), close - file.size());
            std::string_view rest = line.substr(close + 1);
            if (rest.starts_with(number)) {
                rest.remove_prefix(number.size());
                std::from_chars(rest.data(), rest.data() + rest.size(), frame.line);
            }
            if (const std::size_t at = rest.find(in); at != std::string_view::npos)
                frame.function = rest.substr(at + in.size());
            out.push_back(std::move(frame));
            expected = true;
        } else if (expected) {
            out.back().code = line;
            expected = false;
        }
    }
    return out;
}

int LinesOfCode::frame_at(const Call& call, std::size_t common) {
    const int last = static_cast<int>(call.frames.size()) - 1;
    if (call.path.classes.size() == common) return last;
    for (std::size_t k = common; k < call.path.classes.size(); ++k)
        if (!is_of_torch(call.path.classes[k])) return -1;
    // Right below it stands the forward() of the first module that it calls.
    const std::string file = file_of(call.path.classes[common]);
    for (int k = 1; k <= last; ++k)
        if (call.frames[static_cast<std::size_t>(k)].file.ends_with(file)) return k - 1;
    return -1;
}

// A loop that runs its line again leaves each call of the line again, of other operands: where one that is made of this
// result is there once, the line ran once.
bool LinesOfCode::ran_once(const onnx::NodeProto& node) const {
    const Call& call = calls_.at(&node);
    const auto& of_line = results_.at(call.key);
    std::set<const onnx::NodeProto*> seen{&node};
    for (std::vector<const onnx::NodeProto*> next{&node}; !next.empty();) {
        const onnx::NodeProto* at = next.back();
        next.pop_back();
        const auto known = calls_.find(at);
        if (known == calls_.end() || known->second.key != call.key) continue;
        if (of_line.at(known->second.target).size() == 1) return true;
        for (const std::string& value : at->output())
            if (const auto readers = readers_.find(value); readers != readers_.end())
                for (const onnx::NodeProto* reader : readers->second)
                    if (seen.insert(reader).second) next.push_back(reader);
    }
    return false;
}

bool LinesOfCode::is_module_of_torch(std::string_view chain, const std::string& scope) const {
    const std::size_t dot = chain.find('.');
    if (dot == std::string_view::npos) return false;
    return torch_modules_.contains((scope.empty() ? "" : scope + ".") + std::string(chain.substr(dot + 1)));
}

// Whether the line calls nothing that could stop a gradient. `scope`: of the module whose code it is.
bool LinesOfCode::is_harmless(std::string_view text, const std::string& scope) const {
    const std::string bared = bare(text);
    const std::string_view code = bared;
    if (!is_whole(code) || !begins_statement(code) || code.find(":=") != std::string_view::npos ||
        code.find(".data") != std::string_view::npos || has_word(code, "lambda"))
        return false;
    for (std::size_t at = code.find('('); at != std::string_view::npos; at = code.find('(', at + 1)) {
        std::size_t begin = at;
        while (begin > 0 && in_name(code[begin - 1])) --begin;
        const std::string_view function = code.substr(begin, at - begin);
        if (function.empty()) {  // parentheses, or a call of what an expression gives
            const std::size_t before = begin == 0 ? begin : code.find_last_not_of(' ', begin - 1);
            if (begin > 0 && before != std::string_view::npos && (code[before] == ')' || code[before] == ']'))
                return false;
            continue;
        }
        while (begin > 0 && (in_name(code[begin - 1]) || code[begin - 1] == '.')) --begin;
        const std::string_view chain = code.substr(begin, at - begin);
        if (is_module_of_torch(chain, scope)) continue;
        if (chain.starts_with("self.")) return false;  // a module, or a method of the author's
        const bool of_torch = chain == function || chain.starts_with("F.") || chain.starts_with("torch.") ||
                              chain.starts_with("nn.") || chain.starts_with("functional.");
        if (!listed(methods, function) && !(of_torch && listed(functions, function))) return false;
    }
    return true;
}

bool LinesOfCode::nothing_between(const onnx::NodeProto& from, const onnx::NodeProto& to) const {
    const auto a = calls_.find(&from), b = calls_.find(&to);
    if (a == calls_.end() || b == calls_.end() || a->second.frames.empty() || b->second.frames.empty()) return false;
    const Call &gives = a->second, &reads = b->second;
    std::size_t common = 0;
    while (common < std::min(gives.path.scopes.size(), reads.path.scopes.size()) &&
           gives.path.scopes[common] == reads.path.scopes[common])
        ++common;
    if (common == 0) return false;
    // The function in whose lines both calls stand, called by the same lines.
    const int depth = frame_at(gives, common);
    if (depth < 0 || depth != frame_at(reads, common)) return false;
    const auto at = static_cast<std::size_t>(depth);
    if (!std::equal(gives.frames.begin(), gives.frames.begin() + depth, reads.frames.begin())) return false;
    const Frame &first = gives.frames[at], &last = reads.frames[at];
    if (first.file != last.file || first.function != last.function || !ran_once(to)) return false;
    const std::string& scope = gives.path.scopes[common - 1];
    if (first == last) return is_harmless(first.code, scope);
    if (first.line < 0 || first.line >= last.line) return false;
    for (int line = first.line; line <= last.line; ++line) {
        const auto known = lines_.find({first.file, line});
        if (known == lines_.end() || !is_harmless(known->second, scope)) return false;
        if (line < last.line && !is_straight(bare(known->second))) return false;
    }
    return true;
}

}  // namespace thunderc::onnx_frontend

#include "compiler/transforms/kernel_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "compiler/analysis/views.h"
#include "compiler/ir/print.h"
#include "compiler/ops/op.h"

namespace thunderc {
namespace {

// A name made of words.
std::string snake_case(std::string_view text) {
    std::string out;
    for (char c : text) {
        const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
        if (letter) {
            out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        } else if (!out.empty() && out.back() != '_') {
            out += '_';
        }
    }
    while (!out.empty() && out.back() == '_') out.pop_back();
    return out;
}

// The last part of a module path that is no number: "input_layernorm" of "model.layers.0.input_layernorm".
std::string scope_leaf(const std::string& scope) {
    std::size_t end = scope.size();
    while (end > 0) {
        const std::size_t dot = scope.rfind('.', end - 1);
        const std::size_t begin = dot == std::string::npos ? 0 : dot + 1;
        const std::string part = scope.substr(begin, end - begin);
        if (!part.empty() && std::isalpha(static_cast<unsigned char>(part.front())) != 0) return snake_case(part);
        if (dot == std::string::npos) break;
        end = dot;
    }
    return {};
}

// The ops that say most about a kernel: a reduction, what is costly, what comes last.
std::string dominant_ops(const Function& kernel) {
    std::string last, costly, reduction;
    for (const Op& op : kernel.ops) {
        if (op.name == "constant" || is_view(op)) continue;
        last = op.name;
        if (op.name.starts_with("reduce_")) reduction = op.name.substr(7);
        const auto& rule = op_def(op.name).elementwise;
        if (rule && rule->code.find("vec_math::") != std::string_view::npos) costly = op.name;
    }
    if (last.empty()) {
        for (const Op& op : kernel.ops) last = op.name;
        return last;
    }
    if (last.starts_with("reduce_")) last.clear();
    std::vector<std::string> words;
    for (const std::string& word : {last, costly, reduction}) {
        if (!word.empty() && std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    }
    return fmt::format("{}", fmt::join(words, "_"));
}

std::string what_of(const std::string& kind) {
    if (kind == "row_reduction") return "rows";
    if (kind == "column_reduction") return "columns";
    if (kind == "reduction") return "all";
    return "elements";
}

// Names of a composite's kernel that several modules share say nothing of the first one:
// "post_attention_layernorm_weight" is "weight", the module's own output "y", the gradients of these "dweight" and
// "dy".
void drop_module_names(Extracted& kernel) {
    std::set<std::string> leaves;
    for (const Op& op : kernel.function.ops) leaves.insert(scope_leaf(op.provenance.scope));
    leaves.erase("");
    std::set<Value> arguments(kernel.function.arguments.begin(), kernel.function.arguments.end());
    for (std::size_t k = 0; k < kernel.function.values.size(); ++k) {
        ValueInfo& info = kernel.function.values[k];
        std::string name = info.name;
        std::replace(name.begin(), name.end(), '.', '_');
        const bool argument = arguments.count(Value{static_cast<std::uint32_t>(k)}) != 0;
        for (const std::string& leaf : leaves) {
            const std::size_t at = name.find(leaf);
            if (at == std::string::npos) continue;
            const std::string before = name.substr(0, at), after = name.substr(at + leaf.size());
            if (before.empty() && after.empty()) {
                name = argument ? "x" : "y";
            } else if (before == "d" && after.empty()) {
                name = argument ? "dy" : "dx";
            } else if ((before.empty() || before == "d" || before == "grad_" || before.back() == '_') &&
                       after.starts_with("_")) {
                name = (before == "d" || before.starts_with("grad_") ? "d" : "") + after.substr(1);
            }
            if (name != info.name && !name.empty()) info.name = name;
            break;
        }
    }
}

}  // namespace

KernelFunctions::KernelFunctions(const Module& module) {
    for (const Function& f : module.functions) taken_.insert(f.name);
}

std::string KernelFunctions::add(Extracted& kernel) {
    Function canonical = kernel.function;
    for (ValueInfo& info : canonical.values) info.name = "v";
    canonical.name.clear();
    PrintOptions options;
    options.provenance = false;
    const std::string key = to_string(canonical, options);
    if (auto at = known_.find(key); at != known_.end()) return at->second;

    if (!kernel.composite.empty()) drop_module_names(kernel);
    Function function = kernel.function;
    const KernelDescription description = describe_kernel(function);
    function.kind = "kernel:" + description.kind;
    function.scope = kernel.provenance.scope;
    const std::string leaf = scope_leaf(kernel.provenance.scope);
    std::string wanted, second;
    if (!kernel.composite.empty()) {
        // rms_norm_forward beside rms_norm_backward; where another kernel has that name, with the module's before
        // it. A part of what the menu has a call for does not take the call's name.
        const OpDef* whole = find_op(kernel.composite);
        const bool called = whole != nullptr && whole->call;
        const bool both = find_op(kernel.composite + "_backward") != nullptr;
        wanted = kernel.composite + (called ? "_" + dominant_ops(function) : both ? "_forward" : "");
        second = leaf.empty() ? wanted : leaf + "_" + wanted;
    } else {
        // Without a module's name a single word would be an operator of C++ or a function of its library.
        wanted = dominant_ops(function);
        wanted = leaf.empty() ? wanted + "_" + what_of(description.kind) : leaf == wanted ? leaf : leaf + "_" + wanted;
        second = wanted;
    }
    function.name = wanted;
    if (!taken_.insert(function.name).second) {
        function.name = second;
        for (int k = 2; !taken_.insert(function.name).second; ++k) function.name = fmt::format("{}_{}", second, k);
    }
    known_[key] = function.name;
    functions_.push_back(std::move(function));
    return functions_.back().name;
}

}  // namespace thunderc

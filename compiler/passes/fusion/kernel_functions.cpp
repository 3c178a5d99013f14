// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/kernel_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>

#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/print.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/fusion/claim.h"
#include "compiler/passes/fusion/kernel_places.h"
#include "compiler/passes/precision/widen_kernel.h"

namespace thunderc {
namespace {

// To or from a narrow type, which says nothing of what a kernel computes.
bool is_rounding(const Function& kernel, const Op& op) {
    return kernel.ops.size() > 1 && op.name == "cast" &&
           (is_widening(kernel, op) || is_narrow(kernel.type(op.results[0]).dtype));
}

// The ops that say most about a kernel: a reduction, what is costly, what comes last.
std::string dominant_ops(const Function& kernel) {
    std::string last, costly, reduction;
    for (const Op& op : kernel.ops) {
        if (is_constant_op(op) || is_view(op) || is_rounding(kernel, op)) continue;
        last = op.name;
        if (op.name.starts_with("reduce_")) reduction = op.name.substr(7);
        const auto& rule = op_def(op.name).elementwise;
        if (rule && rule->is_costly()) costly = op.name;
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

// What a value of a kernel is to the composite that the kernel computes: "x", "weight", "dy"; and to the accumulation
// of a gradient. A value has a name of these where it alone has that role, and no other.
class Roles {
  public:
    explicit Roles(const Extracted& kernel) {
        // What is stored in a narrow type has the role of what is computed with.
        for (const Op& op : kernel.function.ops) {
            if (is_widening(kernel.function, op))
                outside_[op.results[0]] = op.operands[0];
            else if (op.name == "cast" && is_narrow(kernel.function.type(op.results[0]).dtype))
                outside_[op.operands[0]] = op.results[0];
        }
        for (const Op& op : kernel.function.ops) {
            const std::string whole = op.attributes.string(part_of, "");
            const bool accumulates = whole == "accumulate_gradient";
            // The backward pass has the same names for what it computes again.
            const bool named = whole == kernel.composite || whole + "_backward" == kernel.composite;
            if (!accumulates && (whole.empty() || !named)) continue;
            if (op.attributes.has(operand_roles)) {
                const std::vector<std::string> roles = op.attributes.strings(operand_roles);
                for (std::size_t k = 0; k < roles.size(); ++k) add(op.operands[k], roles[k], accumulates);
            }
            if (!op.results.empty()) add(op.results[0], op.attributes.string(result_role, ""), accumulates);
        }
    }

    // Names values of the kernel function after their roles.
    void name(Function& kernel) const {
        for (const auto& [v, role] : roles_) {
            if (role.size() != 1 || holders_.at(*role.begin()).size() != 1) continue;
            kernel.info(v).name = *role.begin();
        }
        // first ? gradient : before + gradient
        for (const Accumulation& a : accumulations_) {
            if (!a.gradient || !a.before || !a.after) continue;
            const std::string gradient = kernel.info(a.gradient).name;
            const bool given =
                std::find(kernel.arguments.begin(), kernel.arguments.end(), a.gradient) != kernel.arguments.end();
            rename_whole(kernel, a.gradient, gradient + (given ? "" : "_step"));  // of this micro-step
            kernel.info(a.after).name = given ? gradient + "_after" : gradient;
            kernel.info(a.before).name = gradient + "_before";
        }
    }

  private:
    // Also what the value is a view of under the same name.
    static void rename_whole(Function& kernel, Value v, const std::string& name) {
        const std::string before = kernel.info(v).name;
        kernel.info(v).name = name;
        for (std::size_t k = kernel.ops.size(); k-- > 0;) {
            const Op& op = kernel.ops[k];
            if (op.results[0] != v || !is_view(op) || kernel.info(op.operands[0]).name != before) continue;
            v = op.operands[0];
            kernel.info(v).name = name;
        }
    }

    struct Accumulation {
        Value gradient, before, after;
    };

    void add(Value v, const std::string& role, bool accumulates) {
        if (!v || role.empty()) return;
        if (accumulates) {
            // The two ops of an accumulation: the sum reads both, the choice reads the gradient and gives the result.
            if (role == "before") pending_.before = v;
            if (role == "gradient") pending_.gradient = v;
            if (role == "after") {
                pending_.after = v;
                accumulations_.push_back(pending_);
                pending_ = {};
            }
            return;
        }
        if (const auto at = outside_.find(v); at != outside_.end()) v = at->second;
        roles_[v].insert(role);
        holders_[role].insert(v);
    }

    std::map<Value, Value> outside_;  // what is stored in a narrow type that a value is cast from or to
    std::map<Value, std::set<std::string>> roles_;
    std::map<std::string, std::set<Value>> holders_;
    std::vector<Accumulation> accumulations_;
    Accumulation pending_;
};

// What a kernel of a backward pass does besides, by the same names: y, computed again from what the composite reads,
// and dx, with what comes in along the residual stream added. Whoever calls the kernel may call them otherwise.
void name_beside(Function& kernel, const std::string& composite) {
    const OpDef* forward =
        composite.ends_with("_backward") ? find_op(composite.substr(0, composite.size() - 9)) : nullptr;
    const OpDef* backward = find_op(composite);
    if (forward == nullptr || backward == nullptr || forward->result_names.empty() || backward->operand_names.empty())
        return;
    const std::vector<std::string>& read = backward->operand_names;
    // By value: whether it depends on operands of the backward pass alone, but not on the first, the cotangent.
    std::vector<bool> again(kernel.values.size(), false);
    for (Value v : kernel.arguments) {
        const std::string& name = kernel.info(v).name;
        const auto same = [&](Value other) { return kernel.info(other).name == name; };
        again[v.index] = std::find(read.begin() + 1, read.end(), name) != read.end() &&
                         std::count_if(kernel.arguments.begin(), kernel.arguments.end(), same) == 1;
    }
    std::set<std::string> taken;
    for (const ValueInfo& info : kernel.values) taken.insert(info.name);
    const auto is_result = [&](Value v) {
        return std::find(kernel.results.begin(), kernel.results.end(), v) != kernel.results.end();
    };
    const auto rename = [&](Value v, const std::string& name) {
        if (taken.insert(name).second) kernel.info(v).name = name;
    };
    for (const Op& op : kernel.ops) {
        const bool outside = op.attributes.string(part_of, "").empty();
        again[op.results[0].index] =
            outside && !is_constant_op(op) && !op.operands.empty() &&
            std::all_of(op.operands.begin(), op.operands.end(), [&](Value v) { return v && again[v.index]; });
        if (!outside || !is_result(op.results[0])) continue;
        if (again[op.results[0].index] && !is_view(op)) rename(op.results[0], forward->result_names[0]);
        if (op.name != "add" || backward->result_names.empty()) continue;
        const std::string& dx = backward->result_names[0];
        for (std::size_t k = 0; k < 2; ++k) {
            ValueInfo& own = kernel.info(op.operands[k]);
            if (own.name != dx || is_result(op.operands[k])) continue;
            own.name = dx + "_own";
            taken.erase(kernel.info(op.results[0]).name);
            kernel.info(op.results[0]).name = dx;
            const Value other = op.operands[1 - k];
            if (std::find(kernel.arguments.begin(), kernel.arguments.end(), other) != kernel.arguments.end())
                rename(other, "dresidual_in");
            break;
        }
    }
}

// What a kernel that is called after a composite quantises, by its name there: y_e4m3 = e4m3(y * y_scale), y_maxima.
void name_codes(Function& kernel) {
    const Uses uses(kernel);
    const auto definition = [&](Value v) {
        const std::int32_t k = uses.definition[v.index];
        return k < 0 ? nullptr : &kernel.ops[static_cast<std::size_t>(k)];
    };
    const auto stored_name = [&](Value v) {
        if (const Op* op = definition(v); op != nullptr && is_widening(kernel, *op))
            kernel.info(v).name = kernel.info(op->operands[0]).name;
        return kernel.info(v).name;
    };
    for (const Op& op : kernel.ops) {
        if (op.name == "fp8_code") {
            const std::string x = stored_name(op.operands[0]);
            kernel.info(op.results[0]).name = x + "_" + std::string(name_of(kernel.type(op.results[0]).dtype));
            if (definition(op.operands[1]) == nullptr) kernel.info(op.operands[1]).name = x + "_scale";
        } else if (op.name == "reduce_max") {
            const Op* of = definition(op.operands[0]);
            if (of != nullptr && of->name == "fp8_magnitude" && uses.is_result[op.results[0].index])
                kernel.info(op.results[0]).name = stored_name(of->operands[0]) + "_maxima";
        }
    }
}

bool gives_codes(const Function& kernel) {
    return std::any_of(kernel.results.begin(), kernel.results.end(),
                       [&](Value v) { return is_quantised(kernel.type(v).dtype); });
}

// Parameters whose gradients the kernel accumulates, by the names that it gives to these.
std::vector<std::string> accumulated(const Extracted& kernel, const Function& named) {
    std::vector<std::string> out;
    for (const Op& op : kernel.function.ops)
        if (op.attributes.string(result_role, "") == "after") {
            std::string name = snake_words(named.info(op.results[0]).name);
            if (name.starts_with("d")) name.erase(0, 1);
            // Parameters of nn.Sequential begin with a number, which no function of C++ does: as codegen writes them.
            if (!name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) != 0) name = "x" + name;
            out.push_back(std::move(name));
        }
    return out;
}

// The one operator of the exported graph that the kernel is the backward pass of: it reads r and dr, and comes of that
// operator alone.
std::string way_back_of(const Extracted& kernel) {
    const Function& f = kernel.function;
    const std::vector<std::string>& nodes = kernel.provenance.node_ops;
    if (nodes.empty() || std::any_of(nodes.begin(), nodes.end(), [&](const auto& n) { return n != nodes[0]; }))
        return {};
    std::set<std::string> names;
    for (Value v : f.arguments) names.insert(f.info(v).name);
    const bool both =
        std::any_of(names.begin(), names.end(), [&](const auto& name) { return names.contains("d" + name); });
    return both ? snake_words(nodes[0]) + "_backward" : std::string();
}

// What alone the kernel adds to, "loss_sum"; "" where it does something else.
std::string sum_that_goes_on(const Function& named) {
    std::string name;
    for (const Op& op : named.ops) {
        if (is_view(op)) continue;
        if (op.name != "add" || !name.empty() || op.results != named.results) return {};
        name = named.info(op.results[0]).name;
    }
    if (!name.ends_with("_after")) return {};
    name.resize(name.size() - std::string_view("_after").size());
    const auto is_before = [&](Value v) { return named.info(v).name == name; };
    return std::any_of(named.arguments.begin(), named.arguments.end(), is_before) ? snake_words(name) : std::string();
}

std::string name_of_kernel(const Extracted& kernel, const Function& named, const std::string& kind,
                           const std::string& leaf) {
    if (!kernel.composite.empty()) {
        // rms_norm_forward beside rms_norm_backward. A part of what the runtime API has a call for does not take the
        // call's name.
        const OpDef* whole = find_op(kernel.composite);
        const bool called = whole != nullptr && whole->call;
        const bool both = find_op(kernel.composite + "_backward") != nullptr;
        std::string name = kernel.composite + (called ? "_" + dominant_ops(named) : both ? "_forward" : "");
        // With a sum of tensors before or after it that is no part of it: the residual stream's.
        bool begun = false;
        for (const Op& op : kernel.function.ops) {
            const std::string whole_name = op.attributes.string(part_of, "");
            begun = begun || whole_name == kernel.composite;
            if (op.name == "add" && whole_name.empty() && named.type(op.results[0]).rank() > 0)
                return begun ? name + "_add" : "add_" + name;
        }
        return name;
    }
    if (const std::vector<std::string> gradients = accumulated(kernel, named); !gradients.empty()) {
        if (gradients.size() == 1) return gradients[0] + "_gradient";
        if (gradients.size() == 2) return fmt::format("{}_and_{}_gradients", gradients[0], gradients[1]);
        return fmt::format("{}_and_{}_more_gradients", gradients[0], gradients.size() - 1);
    }
    // loss_sum_after = loss_sum + loss
    if (const std::string sum = sum_that_goes_on(named); !sum.empty()) return "add_to_" + sum;
    if (!kernel.place.empty() && way_back_of(kernel).empty()) return kernel.place;
    // Without a module's name a single word would be an operator of C++ or a function of its library.
    const std::string back = way_back_of(kernel);
    const std::string ops = back.empty() ? dominant_ops(named) : back;
    if (leaf.empty()) return ops + (back.empty() ? "_" + what_of(kind) : "");
    return leaf == ops ? leaf : leaf + "_" + ops;
}

}  // namespace

KernelFunctions::KernelFunctions(const Module& module) {
    for (const Function& f : module.functions) taken_.insert(f.name);
}

std::string KernelFunctions::add(const Extracted& kernel) {
    Function canonical = kernel.function;
    for (Op& op : canonical.ops) forget_origin(op);
    for (ValueInfo& info : canonical.values) info.name = "v";
    canonical.name.clear();
    PrintOptions options;
    options.provenance = false;
    const std::string key = to_string(canonical, options);
    if (auto at = known_.find(key); at != known_.end()) {
        if (auto place = places_.find(at->second); place != places_.end() && place->second.name != kernel.place)
            place->second.several = true;
        return at->second;
    }

    Function function = kernel.function;
    Roles(kernel).name(function);
    name_beside(function, kernel.composite);
    if (!kernel.composite.empty()) name_codes(function);
    for (Op& op : function.ops) forget_origin(op);
    const KernelDescription description = describe_kernel(function);
    function.kind = "kernel:" + description.kind;
    function.scope = kernel.provenance.scope;
    const std::string leaf = scope_leaf(kernel.provenance.scope);
    std::string wanted = name_of_kernel(kernel, function, description.kind, leaf);
    // Beside the same one of a product that reads numbers as they are.
    if (!kernel.composite.empty() && gives_codes(function)) wanted += "_fp8";
    const bool of_module = leaf.empty() || wanted.starts_with(leaf);
    const std::string second = of_module ? wanted : leaf + "_" + wanted;
    function.name = unique(wanted, second);
    if (!kernel.place.empty() && wanted == kernel.place)
        places_[function.name] = {kernel.place, dominant_ops(function) + "_" + what_of(description.kind), false};
    known_[key] = function.name;
    functions_.push_back(std::move(function));
    return functions_.back().name;
}

std::string KernelFunctions::unique(const std::string& wanted, const std::string& second) {
    std::string name = wanted;
    if (taken_.insert(name).second) return name;
    name = second;
    for (int k = 2; !taken_.insert(name).second; ++k) name = fmt::format("{}_{}", second, k);
    return name;
}

std::map<std::string, std::string> KernelFunctions::rename_shared() {
    std::map<std::string, std::string> renamed;
    for (Function& f : functions_) {
        const auto at = places_.find(f.name);
        if (at == places_.end() || !at->second.several) continue;
        const std::string name = unique(at->second.by_ops, at->second.by_ops);
        renamed[f.name] = name;
        f.name = name;
    }
    return renamed;
}

}  // namespace thunderc

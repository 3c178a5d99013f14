// SPDX-License-Identifier: Apache-2.0
#include "compiler/cost_model/step_costs.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/kernels/costs.h"
#include "compiler/ops/fp8_once.h"
#include "compiler/planned/planned_kernels.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

const Function& callee(const Module& module, const std::string& name) {
    const Function* function = module.find(name);
    check(function != nullptr, "there is no function " + name);
    return *function;
}

// Calls `visit` for each op that is no call or loop, with the number of times that it runs.
void each_op(const Module& module, const Function& function, std::int64_t times,
             const std::function<void(const Function&, const Op&, std::int64_t)>& visit) {
    for (const Op& op : function.ops) {
        if (is_loop(op))
            each_op(module, callee(module, loop_body(op)), times * loop_count(op), visit);
        else if (is_function_call(op))
            each_op(module, callee(module, called_function(op)), times, visit);
        else
            visit(function, op, times);
    }
}

// What it multiplies, by its first operand of floating point or of codes.
DType multiplied(const Op& op, const Function& f) {
    if (!op.attributes.string("blocks_a", "").empty()) return DType::f32;  // by plain threads, on any GPU
    for (const Value v : op.operands)
        if (v && (is_float(f.type(v).dtype) || is_quantised(f.type(v).dtype))) return f.type(v).dtype;
    return DType::f32;
}

// Calls that no executor has claimed, which all are of FP8, by what they do.
std::string group_of(const Op& op, const Function& f, const OpDef& def) {
    const auto quantised = [&](Value v) { return v && is_quantised(f.type(v).dtype); };
    if (def.flops && std::any_of(op.operands.begin(), op.operands.end(), quantised)) return "products";
    if (std::any_of(op.results.begin(), op.results.end(), quantised)) return "quantise";
    return "runtime";
}

double bytes_of(const Type& type) {
    return static_cast<double>(type.bytes()) * static_cast<double>(type.is_family() ? type.count : 1);
}

// Of a call: every operand and result once, but
//   - a gradient that the first micro-step overwrites is not read. Such calls take the flag that says so last;
//   - of a table that integers index, no more is read than is written. A call that has products, or says that it has
//     none, is no look-up.
double bytes_of_call(const Op& op, const Function& f, const OpDef& def, bool first_micro_step) {
    const bool first_overwrites = first_micro_step && !op.operands.empty() && op.operands.back() &&
                                  f.type(op.operands.back()) == Type::tensor(DType::boolean, {});
    const bool looks_up = !def.flops && std::any_of(op.operands.begin(), op.operands.end(),
                                                    [&](Value v) { return v && is_integer(f.type(v).dtype); });
    std::vector<bool> overwritten(op.operands.size(), false);
    if (first_overwrites)
        for (const auto& [r, o] : in_place_of(op)) overwritten[o] = true;
    double written = 0, read = 0;
    for (const Value v : op.results) written += bytes_of(f.type(v));
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
        const Value v = op.operands[k];
        if (!v || std::find(op.operands.begin(), op.operands.begin() + static_cast<std::ptrdiff_t>(k), v) !=
                      op.operands.begin() + static_cast<std::ptrdiff_t>(k))
            continue;
        if (overwritten[k]) continue;
        read += looks_up && is_float(f.type(v).dtype) ? std::min(bytes_of(f.type(v)), written) : bytes_of(f.type(v));
    }
    return def.reads * read + written + (def.moves_again ? def.moves_again(op, f) : 0);
}

}  // namespace

std::optional<KernelCost> op_cost(const Module& planned, const Function& f, const Op& op, bool first_micro_step) {
    const OpDef& def = op_def(op.name);
    if (is_kernel_call(op)) {
        const std::string name = called_kernel(op);
        const KernelDescription kernel = describe_planned_kernel(callee(planned, name), f, op);
        if (stands_already(kernel)) return std::nullopt;
        return KernelCost{.group = "fused",
                          .name = name,
                          .calls = 1,
                          .bytes = static_cast<double>(bytes_moved(kernel)),
                          .operations = work(kernel)};
    }
    // A family of tensors that were made one by one; one tensor of members that lie apart.
    const bool stacks = is_stack(op) && !stack_in_place(f, op);
    if (is_copy(op) || is_family_op(op) || stacks)
        return KernelCost{
            .group = "copy",
            .name = op.name,
            .calls = stacks ? f.type(op.operands[0]).count : static_cast<std::int64_t>(op.operands.size()),
            .bytes = bytes_of_call(op, f, def, first_micro_step)};
    if (!def.call) return std::nullopt;
    const std::string group = op.attributes.string("executor", group_of(op, f, def));
    if (is_once_a_step(op) && !first_micro_step)
        return KernelCost{.group = group, .name = op.name, .products = DType::f32, .calls = 0};
    return KernelCost{.group = group,
                      .name = op.name,
                      .products = def.flops ? multiplied(op, f) : DType::f32,
                      .calls = def.inner_calls ? def.inner_calls(op, f) : 1,
                      .bytes = bytes_of_call(op, f, def, first_micro_step),
                      .flops = def.flops ? def.flops(op, f) : 0};
}

namespace {

// Sums by kernel, in the order of first calls.
class Sums {
  public:
    void add(const KernelCost& one, std::int64_t times) {
        const auto n = static_cast<double>(times);
        KernelCost& row = row_of(one);
        row.calls += times * one.calls;
        row.bytes += n * one.bytes;
        row.flops += n * one.flops;
        row.operations += n * one.operations;
    }

    std::vector<KernelCost> take() { return std::move(rows_); }

  private:
    KernelCost& row_of(const KernelCost& one) {
        const auto same = [&](const KernelCost& row) {
            return std::tie(row.group, row.name, row.products) == std::tie(one.group, one.name, one.products);
        };
        auto at = std::find_if(rows_.begin(), rows_.end(), same);
        if (at == rows_.end())
            at = rows_.insert(rows_.end(), KernelCost{.group = one.group, .name = one.name, .products = one.products});
        return *at;
    }

    std::vector<KernelCost> rows_;
};

}  // namespace

std::optional<KernelCost> graph_op_cost(const Function& f, const Op& op, DType compute) {
    const OpDef& def = op_def(op.name);
    if (is_view(op) || runs_function(op)) return std::nullopt;
    const auto bytes = [&](Value v) {
        const Type& type = f.type(v);
        const auto members = static_cast<double>(type.is_family() ? type.count : 1);
        return members * static_cast<double>(type.elements()) *
               static_cast<double>(size_of(is_float(type.dtype) ? compute : type.dtype));
    };
    KernelCost out{.group = "", .name = op.name, .products = def.flops ? compute : DType::f32, .calls = 1};
    for (const Value v : op.operands)
        if (v) out.bytes += bytes(v);
    for (const Value v : op.results) out.bytes += bytes(v);
    if (def.flops) out.flops = def.flops(op, f);
    return out;
}

std::vector<KernelCost> step_costs(const Module& planned) {
    check(planned.phase == Module::Phase::planned, "costs are those of a planned module");
    Sums sums;
    for (const Function& entry : planned.functions)
        if (!entry.argument_info.empty() && entry.name != evaluate_function)
            each_op(planned, entry, 1, [&](const Function& f, const Op& op, std::int64_t times) {
                if (const std::optional<KernelCost> cost = op_cost(planned, f, op)) sums.add(*cost, times);
            });
    return sums.take();
}

double product_flops(const Module& module, bool masked) {
    double total = 0;
    each_op(module, module.main(), 1, [&](const Function& f, const Op& op, std::int64_t times) {
        const OpDef& def = op_def(op.name);
        if (!def.flops) return;
        Op counted = op;
        if (!masked) {
            counted.attributes.erase("causal");
            counted.attributes.erase("window");
        }
        total += static_cast<double>(times) * def.flops(counted, f);
    });
    return total;
}

std::int64_t step_tokens(const Function& main) {
    std::int64_t tokens = 1;
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const ArgInfo& info = main.argument_info[k];
        const Type& type = main.type(main.arguments[k]);
        if (info.kind != ArgInfo::Kind::input || !info.batched || type.rank() == 0) continue;
        const bool positions = type.rank() >= 2 && is_integer(type.dtype);
        tokens = std::max(tokens, positions ? type.dims[0] * type.dims[1] : type.dims[0]);
    }
    return tokens;
}

namespace {

double moving(const KernelCost& k, const Machine& m, double reach) {
    return k.bytes / (m.bytes * reach);
}

double computing(const KernelCost& k, const Machine& m, double reach) {
    return k.flops / (m.flops_of(k.products) * reach) + k.operations / m.f32_flops;
}

}  // namespace

KernelTime time_of(const KernelCost& kernel, const Machine& machine, const Reach& reach) {
    double computed = is_quantised(kernel.products) ? reach.fp8_products : reach.products, moved = reach.memory;
    if (kernel.group == "attention")
        computed = kernel.name == "sdpa" ? reach.attention_forward : reach.attention_backward;
    if (kernel.group == "optimizer") moved = reach.optimizer;
    if (kernel.group == "embedding" || kernel.group == "cross_entropy") moved = reach.lookups;
    return {moving(kernel, machine, moved), computing(kernel, machine, computed),
            reach.seconds_per_call * static_cast<double>(kernel.calls)};
}

double seconds(const KernelCost& kernel, const Machine& machine, const Reach& reach) {
    return time_of(kernel, machine, reach).seconds();
}

bool bound_by_bytes(const KernelCost& kernel, const Machine& machine) {
    return moving(kernel, machine, 1) >= computing(kernel, machine, 1);
}

}  // namespace thunderc

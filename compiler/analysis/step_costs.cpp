#include "compiler/analysis/step_costs.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "compiler/analysis/kernel_costs.h"
#include "compiler/ops/op.h"
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
        if (op.name == "repeat")
            each_op(module, callee(module, op.attributes.string("body")), times * op.attributes.integer("n"), visit);
        else if (op.name == "call")
            each_op(module, callee(module, op.attributes.string("callee")), times, visit);
        else
            visit(function, op, times);
    }
}

// What it multiplies, by its first operand of floating point.
DType multiplied(const Op& op, const Function& f) {
    for (const Value v : op.operands)
        if (v && is_float(f.type(v).dtype)) return f.type(v).dtype;
    return DType::f32;
}

double bytes_of(const Type& type) {
    return static_cast<double>(type.bytes()) * static_cast<double>(type.is_family() ? type.count : 1);
}

// Of a call: every operand and result once, but
//   - a gradient that the first micro-step overwrites is not read. Such calls take the flag that says so last;
//   - of a table that integers index, no more is read than is written. A call that has products, or says that it has
//     none, is no look-up.
double bytes_of_call(const Op& op, const Function& f, const OpDef& def) {
    const bool first_overwrites =
        !op.operands.empty() && op.operands.back() && f.type(op.operands.back()) == Type::tensor(DType::boolean, {});
    const bool looks_up = !def.flops && std::any_of(op.operands.begin(), op.operands.end(),
                                                    [&](Value v) { return v && is_integer(f.type(v).dtype); });
    double written = 0, read = 0;
    for (const Value v : op.results) written += bytes_of(f.type(v));
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
        const Value v = op.operands[k];
        if (!v || std::find(op.operands.begin(), op.operands.begin() + static_cast<std::ptrdiff_t>(k), v) !=
                      op.operands.begin() + static_cast<std::ptrdiff_t>(k))
            continue;
        const bool overwritten =
            first_overwrites && std::any_of(def.in_place.begin(), def.in_place.end(), [&](const auto& pair) {
                return pair.second == k && pair.first < op.results.size();
            });
        if (overwritten) continue;
        read += looks_up && is_float(f.type(v).dtype) ? std::min(bytes_of(f.type(v)), written) : bytes_of(f.type(v));
    }
    return read + written;
}

class Costs {
  public:
    explicit Costs(const Module& module) : module_(module) {}

    void add(const Function& f, const Op& op, std::int64_t times) {
        const OpDef& def = op_def(op.name);
        const auto n = static_cast<double>(times);
        if (op.name == "fused") {
            const std::string name = op.attributes.string("kernel");
            const KernelDescription kernel = describe_kernel(callee(module_, name));
            KernelCost& row = row_of("fused", name, DType::f32);
            row.calls += times;
            row.bytes += n * static_cast<double>(bytes_moved(kernel));
            row.operations += n * work(kernel);
        } else if (op.name == "copy" || op.name == "family") {  // a family of tensors that were made one by one
            KernelCost& row = row_of("copy", op.name, DType::f32);
            row.calls += times * static_cast<std::int64_t>(op.operands.size());
            row.bytes += n * bytes_of_call(op, f, def);
        } else if (def.call) {
            const std::string group = op.attributes.string("executor", "menu");
            KernelCost& row = row_of(group, op.name, def.flops ? multiplied(op, f) : DType::f32);
            row.calls += times;
            row.bytes += n * bytes_of_call(op, f, def);
            if (def.flops) row.flops += n * def.flops(op, f);
        }
    }

    std::vector<KernelCost> take() { return std::move(rows_); }

  private:
    KernelCost& row_of(const std::string& group, const std::string& name, DType products) {
        const auto same = [&](const KernelCost& row) {
            return std::tie(row.group, row.name, row.products) == std::tie(group, name, products);
        };
        auto at = std::find_if(rows_.begin(), rows_.end(), same);
        if (at == rows_.end())
            at = rows_.insert(rows_.end(), KernelCost{.group = group, .name = name, .products = products});
        return *at;
    }

    const Module& module_;
    std::vector<KernelCost> rows_;
};

}  // namespace

std::vector<KernelCost> step_costs(const Module& planned) {
    check(planned.phase == Module::Phase::planned, "costs are those of a planned module");
    Costs costs(planned);
    for (const Function& entry : planned.functions)
        if (!entry.argument_info.empty())
            each_op(planned, entry, 1,
                    [&costs](const Function& f, const Op& op, std::int64_t times) { costs.add(f, op, times); });
    return costs.take();
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

// ---- machines
// ------------------------------------------------------------------------------------------------------

const std::vector<Machine>& machines() {
    constexpr std::int64_t GB = 1'000'000'000;
    // NVIDIA's data sheets: dense rates, without sparsity. f32: on CUDA cores.
    static const std::vector<Machine> all = {
        {"h100", "H100 SXM", 3.35e12, 989.4e12, 66.9e12, 80 * GB},
        {"h200", "H200 SXM", 4.8e12, 989.4e12, 66.9e12, 141 * GB},
        {"h100-pcie", "H100 PCIe", 2.0e12, 756e12, 51.2e12, 80 * GB},
        {"a100", "A100 SXM 80 GB", 2.039e12, 312e12, 19.5e12, 80 * GB},
        {"b200", "B200", 8.0e12, 2250e12, 80e12, 180 * GB},
        {"rtx4090", "RTX 4090", 1.008e12, 165.2e12, 82.6e12, 24 * GB},
    };
    return all;
}

const Machine* find_machine(std::string_view name) {
    const auto at =
        std::find_if(machines().begin(), machines().end(), [&](const Machine& m) { return m.name == name; });
    return at == machines().end() ? nullptr : &*at;
}

namespace {

double moving(const KernelCost& k, const Machine& m, double reach) {
    return k.bytes / (m.bytes * reach);
}

double computing(const KernelCost& k, const Machine& m, double reach) {
    return k.flops / ((k.products == DType::bf16 ? m.bf16_flops : m.f32_flops) * reach) + k.operations / m.f32_flops;
}

}  // namespace

double seconds(const KernelCost& kernel, const Machine& machine, const Reach& reach) {
    const double share = kernel.group == "attention" ? reach.attention : reach.products;
    return std::max(moving(kernel, machine, reach.memory), computing(kernel, machine, share)) +
           reach.seconds_per_call * static_cast<double>(kernel.calls);
}

bool bound_by_bytes(const KernelCost& kernel, const Machine& machine) {
    return moving(kernel, machine, 1) >= computing(kernel, machine, 1);
}

}  // namespace thunderc

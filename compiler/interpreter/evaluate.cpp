// SPDX-License-Identifier: Apache-2.0
#include "compiler/interpreter/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "compiler/interpreter/constant_value.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/user_ops.h"
#include "compiler/support/lazy_check.h"

namespace thunderc {
namespace {

// Values are shared between the frames of calls, so passing a weight to a function copies nothing.
using Shared = std::shared_ptr<Tensor>;
using Slot = std::vector<Shared>;  // members

class Evaluator {
  public:
    Evaluator(const Module& module, const EvaluateOptions& options) : module_(module), options_(options) {}

    std::vector<Slot> run(const Function& function, std::vector<Slot> arguments) {
        check(arguments.size() == function.arguments.size(), [&] {
            return fmt::format("@{} takes {} arguments, {} given", function.name, function.arguments.size(),
                               arguments.size());
        });
        std::vector<Slot> frame(function.values.size());
        for (std::size_t k = 0; k < arguments.size(); ++k) {
            check_type(function, function.arguments[k], arguments[k]);
            frame[function.arguments[k].index] = std::move(arguments[k]);
        }
        const std::vector<std::vector<Value>>& dead = dead_after(function);
        for (std::size_t k = 0; k < function.ops.size(); ++k) {
            step(function, function.ops[k], dead[k], frame);
            for (Value v : dead[k]) frame[v.index].clear();
        }
        std::vector<Slot> results;
        for (Value v : function.results) results.push_back(frame[v.index]);
        return results;
    }

  private:
    // For each op, the values that nobody reads after it.
    const std::vector<std::vector<Value>>& dead_after(const Function& function) {
        auto [at, fresh] = dead_.try_emplace(&function);
        if (!fresh) return at->second;
        std::vector<std::int64_t> last(function.values.size(), -1);
        for (std::size_t k = 0; k < function.ops.size(); ++k) {
            for (Value v : function.ops[k].results) last[v.index] = static_cast<std::int64_t>(k);
            for (Value v : function.ops[k].operands)
                if (v) last[v.index] = static_cast<std::int64_t>(k);
        }
        for (Value v : function.results) last[v.index] = -1;
        at->second.resize(function.ops.size());
        for (std::size_t v = 0; v < last.size(); ++v)
            if (last[v] >= 0) at->second[static_cast<std::size_t>(last[v])].push_back({static_cast<std::uint32_t>(v)});
        return at->second;
    }

    void check_type(const Function& function, Value v, const Slot& slot) const {
        const Type& type = function.type(v);
        bool fits = slot.size() == static_cast<std::size_t>(type.is_family() ? type.count : 1);
        for (const Shared& member : slot) fits = fits && member != nullptr && member->type == type.member();
        check(fits, [&] {
            return fmt::format("a value of another type is given for %{} of @{}, which is {}{}", function.info(v).name,
                               function.name, to_string(type),
                               slot.empty() || slot[0] == nullptr ? "" : "; it is " + to_string(slot[0]->type));
        });
    }

    const Function& callee(const Op& op, std::string_view attribute) const {
        std::string name = op.attributes.string(attribute);
        const Function* function = module_.find(name);
        check(function != nullptr,
              [&] { return fmt::format("{} names @{}, which is not in the module", op.name, name); });
        return *function;
    }

    void step(const Function& function, const Op& op, const std::vector<Value>& dead, std::vector<Slot>& frame) {
        std::vector<Slot> results;
        if (options_.before && !runs_function(op)) options_.before(function, op, copies_of(op.operands, frame));
        const bool pads = options_.at_stop && op.attributes.has("padding_idx");
        Tensor ids;  // as they are before the op, which may take what nothing else reads
        if (pads) ids = *frame[op.operands[1].index].at(0);
        if (is_constant_op(op)) {
            results = {{constant(op.attributes.constant("value"))}};
        } else if (is_function_call(op)) {
            results = run(callee(op, "callee"), operands_of(op, frame));
        } else if (is_kernel_call(op)) {
            results = run(callee(op, "kernel"), operands_of(op, frame));
        } else if (is_loop(op)) {
            results = repeat(op, operands_of(op, frame));
        } else if (is_family_op(op)) {
            results.resize(1);
            for (Value v : op.operands) results[0].push_back(frame[v.index].at(0));
        } else if (is_member_op(op)) {
            results = {{frame[op.operands[0].index].at(static_cast<std::size_t>(op.attributes.integer("index")))}};
        } else if (is_unstack(op)) {
            results.resize(1);
            for (Tensor& part : unstacked(*frame[op.operands[0].index].at(0)))
                results[0].push_back(std::make_shared<Tensor>(std::move(part)));
        } else if (is_stack(op)) {
            std::vector<const Tensor*> parts;
            for (const Shared& part : frame[op.operands[0].index]) parts.push_back(part.get());
            results = {{std::make_shared<Tensor>(stacked(parts))}};
        } else {
            results = apply(function, op, dead, frame);
        }
        check(results.size() == op.results.size(), [&] {
            return fmt::format("{} gives {} results, {} expected", op.name, results.size(), op.results.size());
        });
        for (std::size_t k = 0; k < results.size(); ++k) frame[op.results[k].index] = std::move(results[k]);
        if (options_.at_stop && op.name == "stop_gradient") options_.at_stop(*frame[op.results[0].index].at(0));
        if (pads) hold_padding(ids, op.attributes.integer("padding_idx"), *frame[op.results[0].index].at(0));
        if (options_.observe) options_.observe(function, op, copies_of(op.results, frame));
    }

    // Rows that a table gives where the id pads have no gradient, as what a stop gives.
    void hold_padding(const Tensor& ids, std::int64_t padding, Tensor& rows) const {
        Tensor held = rows;
        options_.at_stop(held);
        const std::int64_t width = ids.size() == 0 ? 0 : rows.size() / ids.size();
        for (std::int64_t k = 0; k < ids.size(); ++k) {
            if (ids.i[static_cast<std::size_t>(k)] != padding) continue;
            for (std::int64_t j = k * width; j < (k + 1) * width; ++j) rows.set(j, held.at(j));
        }
    }

    std::vector<Slot> operands_of(const Op& op, const std::vector<Slot>& frame) const {
        std::vector<Slot> operands;
        for (Value v : op.operands) {
            check(static_cast<bool>(v), [&] { return op.name + " with an absent operand"; });
            operands.push_back(frame[v.index]);
        }
        return operands;
    }

    // One tensor for each ConstExpr: bodies of loops use theirs again and again.
    Shared constant(const ConstPtr& expr) {
        auto [at, fresh] = constants_.try_emplace(expr.get());
        if (fresh) {
            at->second = std::make_shared<Tensor>(materialize(*expr));
            if (options_.round_to_dtype) round_to_dtype(*at->second);
        }
        return at->second;
    }

    std::vector<Slot> repeat(const Op& op, const std::vector<Slot>& operands) {
        const Function& body = callee(op, "body");
        auto n = static_cast<std::size_t>(loop_count(op));
        auto carried = loop_carried(op);
        auto per_layer = loop_per_layer(op);
        bool reverse = loop_reversed(op);
        std::vector<Slot> arguments = operands, results(op.results.size());
        for (std::size_t k = carried; k < results.size(); ++k) results[k].resize(n);
        for (std::size_t step = 0; step < n; ++step) {
            std::size_t i = reverse ? n - 1 - step : step;
            for (std::size_t k = carried; k < carried + per_layer; ++k) arguments[k] = {operands[k].at(i)};
            std::vector<Slot> out = run(body, arguments);
            check(out.size() == results.size(), [&] {
                return fmt::format("@{} gives {} results, {} expected", body.name, out.size(), results.size());
            });
            for (std::size_t k = 0; k < carried; ++k) arguments[k] = std::move(out[k]);
            for (std::size_t k = carried; k < out.size(); ++k) results[k][i] = std::move(out[k].at(0));
        }
        for (std::size_t k = 0; k < carried; ++k) results[k] = std::move(arguments[k]);
        return results;
    }

    std::vector<Slot> apply(const Function& function, const Op& op, const std::vector<Value>& dead,
                            std::vector<Slot>& frame) const {
        const OpDef& def = op_def(op.name);
        if (!def.reference && is_user_op(op.name)) refuse_to_evaluate(op.name);
        check(static_cast<bool>(def.reference), [&] { return op.name + " cannot be evaluated"; });
        // Ops that take families (over all tensors at once) see their members, in order.
        std::vector<Tensor> operands;
        for (std::size_t k = 0; k < op.operands.size(); ++k) {
            Value v = op.operands[k];
            if (!v) {
                operands.emplace_back();
                continue;
            }
            // An operand that dies here, and that no other frame or later operand holds, is moved instead of copied.
            bool last = std::find(dead.begin(), dead.end(), v) != dead.end() &&
                        std::find(op.operands.begin() + static_cast<std::ptrdiff_t>(k) + 1, op.operands.end(), v) ==
                            op.operands.end();
            for (Shared& held : frame[v.index])
                operands.push_back(last && held.use_count() == 1 ? std::move(*held) : *held);
        }
        std::vector<Type> types;
        for (Value v : op.results) {
            const Type& type = function.type(v);
            types.insert(types.end(), static_cast<std::size_t>(type.is_family() ? type.count : 1), type.member());
        }
        std::vector<Tensor> made = def.reference(op, operands, types);
        check(made.size() == types.size(), [&] {
            return fmt::format("the reference of {} gives {} tensors where the shape rule says {}", op.name,
                               made.size(), types.size());
        });
        std::vector<Slot> results;
        std::size_t next = 0;
        for (Value v : op.results) {
            results.emplace_back();
            const Type& type = function.type(v);
            for (std::int64_t k = 0; k < (type.is_family() ? type.count : 1); ++k, ++next) {
                check(made[next].type == types[next], [&] {
                    return fmt::format("the reference of {} gives {}, not what the shape rule says", op.name,
                                       to_string(made[next].type));
                });
                wrap_integers(made[next]);
                if (options_.round_to_dtype) round_to_dtype(made[next]);
                results.back().push_back(std::make_shared<Tensor>(std::move(made[next])));
            }
        }
        return results;
    }

    // What an observer may keep; of a value that is absent no members.
    static std::vector<Members> copies_of(const std::vector<Value>& values, const std::vector<Slot>& frame) {
        std::vector<Members> copies;
        for (Value v : values) {
            copies.emplace_back();
            if (!v) continue;
            for (const Shared& member : frame[v.index]) copies.back().push_back(*member);
        }
        return copies;
    }

    const Module& module_;
    const EvaluateOptions& options_;
    std::map<const Function*, std::vector<std::vector<Value>>> dead_;
    std::map<const ConstExpr*, Shared> constants_;
};

}  // namespace

std::vector<Members> evaluate(const Module& module, const Function& function, std::span<const Members> arguments,
                              const EvaluateOptions& options) {
    std::vector<Slot> slots;
    for (const Members& members : arguments) {
        slots.emplace_back();
        for (const Tensor& member : members) {
            slots.back().push_back(std::make_shared<Tensor>(member));
            if (options.round_to_dtype) round_to_dtype(*slots.back().back());
        }
    }
    std::vector<Members> results;
    for (const Slot& slot : Evaluator(module, options).run(function, std::move(slots))) {
        results.emplace_back();
        for (const Shared& member : slot) results.back().push_back(*member);
    }
    return results;
}

std::vector<Tensor> evaluate(const Module& module, const Function& function, std::span<const Tensor> arguments,
                             const EvaluateOptions& options) {
    std::vector<Members> members;
    for (const Tensor& argument : arguments) members.push_back({argument});
    std::vector<Tensor> results;
    for (Members& result : evaluate(module, function, std::span<const Members>(members), options)) {
        check(result.size() == 1, "a family where a tensor was expected");
        results.push_back(std::move(result[0]));
    }
    return results;
}

void round_to_dtype(Tensor& tensor) {
    if (tensor.type.dtype == DType::f64) return;
    for (double& value : tensor.f) value = convert(value, tensor.type.dtype);
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/check/autocast.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/passes/autodiff/remove_stops.h"
#include "compiler/passes/step/compose_step.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

class Caster {
  public:
    Caster(Function& function, DType low) : f_(function), low_(low), b_(function) {}

    void run() {
        for (const Op& op : std::exchange(f_.ops, {})) {
            check(!runs_function(op), "autocast of a function that calls another");
            b_.set_provenance(op.provenance);
            if (op.name == "swiglu")
                place_swiglu(op);
            else
                place(op);
        }
        for (Value& v : f_.results) v = as(now(v), DType::f32);  // the loss is of the type that it always has
        remove_dead_ops(f_);
        compact_values(f_);
    }

  private:
    Value now(Value v) const {
        const auto at = now_.find(v);
        return at == now_.end() ? v : at->second;
    }
    bool is_floating(Value v) const { return v && is_float(f_.type(v).dtype); }

    // For each reader anew, so that gradients which come back through the casts are added up behind them; but PyTorch
    // keeps the copies of parameters.
    Value as(Value v, DType dtype) {
        if (!is_floating(v) || f_.type(v).dtype == dtype) return v;
        if (std::find(f_.arguments.begin(), f_.arguments.end(), v) == f_.arguments.end()) return b_.cast(v, dtype);
        auto [at, fresh] = casts_.try_emplace({v, dtype});
        if (fresh) at->second = b_.cast(v, dtype);
        return at->second;
    }

    // A number of the program's text: what it is combined with says the type.
    bool is_number(Value v) const {
        if (f_.type(v).rank() == 0) return true;
        const auto at = constants_.find(v);
        return at != constants_.end() && at->second;
    }

    // The type of what an op gives that is on no list: the widest of those that it reads.
    DType promoted(const Op& op, const std::vector<Value>& operands) const {
        const std::vector<std::size_t>& counted = op_def(op.name).precision.low_operands;
        bool low = false, wide = false;
        for (std::size_t k = 0; k < operands.size(); ++k) {
            if (!is_floating(operands[k]) || is_number(operands[k])) continue;
            if (!counted.empty() && std::find(counted.begin(), counted.end(), k) == counted.end()) continue;
            (f_.type(operands[k]).dtype == low_ ? low : wide) = true;
        }
        return low && !wide ? low_ : DType::f32;
    }

    // Two operators of PyTorch, of which exports have the first in pieces: so it is recognised, and taken apart here.
    void place_swiglu(const Op& op) {
        Op silu = op, product = op;
        const Value activated = f_.add_value(f_.type(op.operands[0]), "silu");
        silu.name = "silu";
        silu.operands = {op.operands[0]};
        silu.results = {activated};
        product.name = "mul";
        product.operands = {activated, op.operands[1]};
        place(silu);
        place(product);
    }

    void place(const Op& op) {
        const OpDef& def = op_def(op.name);
        std::vector<Value> operands;
        for (Value v : op.operands) operands.push_back(v ? now(v) : v);
        DType reads = DType::f32, gives = DType::f32;
        const bool moves = def.view || (def.moves && op.operands.size() == 1);
        if (def.autocast == Autocast::low) {
            reads = gives = low_;
        } else if (def.autocast == Autocast::promotes) {
            gives = promoted(op, operands);
            if (moves) reads = gives;
        }
        const bool converts = op.name == "cast";
        if (!converts)
            for (Value& v : operands) v = as(v, reads);
        const std::vector<Value> results = b_.emit(op.name, operands, op.attributes);
        const std::size_t given = results.size() - def.statistics;  // what only a backward op reads stays as it is
        for (std::size_t r = 0; r < results.size(); ++r) {
            f_.info(results[r]).name = f_.info(op.results[r]).name;
            now_[op.results[r]] = r < given && !converts ? as(results[r], gives) : results[r];
        }
        if (is_constant_op(op))
            constants_[now(op.results[0])] = splat_value(*op.attributes.constant("value")).has_value();
    }

    Function& f_;
    const DType low_;
    Builder b_;
    std::map<Value, Value> now_;  // by old value
    std::map<std::pair<Value, DType>, Value> casts_;
    std::map<Value, bool> constants_;  // by new value: whether all elements are one number
};

}  // namespace

Module autocast(const Module& module, DType low) {
    Module out = module;
    out.functions = {module.main()};
    Caster(out.main(), low).run();
    return out;
}

std::set<std::string> passes_beyond_pytorch() {
    return {"raise_rotary", "merge_siblings"};
}

Module autocast_step(const Module& module, DType low, const std::string& optimizer) {
    Report unheard;
    Module out = differentiate(autocast(module, low), {}, unheard);
    return compose_step(remove_stops(std::move(out), unheard), StepOptions{optimizer}, unheard);
}

}  // namespace thunderc

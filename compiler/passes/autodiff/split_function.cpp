// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/autodiff/split_function.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/analysis/views.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Writes backward ops into another function (or behind the forward ops of their own), with what is missing of forward
// computed again right before its first use.
class BackwardWriter {
  public:
    // `to_value`: by value of `from`, where it is given in `to`.
    BackwardWriter(const Function& from, std::size_t forward_ops, Function& to, std::vector<Value> to_value)
        : from_(from),
          forward_ops_(forward_ops),
          to_(to),
          b_(to),
          to_value_(std::move(to_value)),
          producer_(from.values.size(), none) {
        for (std::size_t k = 0; k < from.ops.size(); ++k)
            for (Value v : from.ops[k].results) producer_[v.index] = k;
    }

    // By value: what backward reads of forward.
    static Mask needed(const Function& f, std::size_t forward_ops, const std::vector<Value>& results) {
        Mask used(f.values.size(), false);
        for (Value v : results)
            if (v) used[v.index] = true;
        for (std::size_t k = f.ops.size(); k-- > forward_ops;) {
            if (!live(f.ops[k], used)) continue;
            for (Value v : f.ops[k].operands)
                if (v) used[v.index] = true;
        }
        return used;
    }

    void write(const Mask& used) {
        for (std::size_t k = forward_ops_; k < from_.ops.size(); ++k) {
            if (!live(from_.ops[k], used)) continue;
            copy(from_.ops[k]);
        }
    }

    Value resolve(Value v) {
        if (!v) return v;
        // A stack instead of recursion: a chain of recomputed ops may be as long as the program.
        std::vector<Value> open = {v};
        while (!open.empty()) {
            Value top = open.back();
            if (to_value_[top.index]) {
                open.pop_back();
                continue;
            }
            check(producer_[top.index] < forward_ops_,
                  "backward reads " + from_.info(top).name + " before it is defined");
            const Op& op = from_.ops[producer_[top.index]];
            std::size_t before = open.size();
            for (Value operand : op.operands) {
                if (operand && !to_value_[operand.index]) open.push_back(operand);
            }
            if (open.size() != before) continue;
            again_.push_back(producer_[top.index]);
            again(op);
        }
        return to_value_[v.index];
    }

    // Ops of forward, by index, in the order in which they are written again.
    const std::vector<std::size_t>& computed_again() const { return again_; }

  private:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    static bool live(const Op& op, const Mask& used) {
        return std::any_of(op.results.begin(), op.results.end(), [&](Value v) { return used[v.index]; });
    }

    void copy(const Op& op) {
        std::vector<Value> operands;
        for (Value v : op.operands) operands.push_back(resolve(v));
        std::vector<Value> results = b_.clone(op, operands, from_);
        for (std::size_t k = 0; k < results.size(); ++k)
            if (!to_value_[op.results[k].index]) to_value_[op.results[k].index] = results[k];
    }

    // A forward op again. Where some of its results are saved (the statistic of a normalisation), what it consists of
    // is written instead, reading those.
    void again(const Op& op) {
        bool part_saved = std::any_of(op.results.begin(), op.results.end(),
                                      [&](Value v) { return static_cast<bool>(to_value_[v.index]); });
        const OpDef& def = op_def(op.name);
        if (!part_saved || !def.decompose) return copy(op);
        Op local = op;
        for (Value& v : local.operands)
            if (v) v = to_value_[v.index];
        for (Value& v : local.results) v = to_.add_value(from_.type(v), from_.info(v).name);
        const std::size_t begin = to_.ops.size();
        b_.set_provenance(op.provenance);
        std::vector<Value> results = def.decompose(b_, local);
        b_.set_provenance({});
        std::map<Value, Value> replaced;
        for (std::size_t k = 0; k < results.size(); ++k) {
            Value& known = to_value_[op.results[k].index];
            if (known) {
                use_saved(begin, results[k], known, replaced);
                continue;
            }
            known = results[k];
            const bool made = std::any_of(to_.ops.begin() + static_cast<std::ptrdiff_t>(begin), to_.ops.end(),
                                          [&](const Op& one) { return one.results[0] == known; });
            if (made) to_.info(known).name = from_.info(op.results[k]).name;
        }
        for (std::size_t k = begin; k < to_.ops.size(); ++k)
            for (Value& v : to_.ops[k].operands)
                if (auto at = replaced.find(v); at != replaced.end() && to_.ops[k].results[0] != at->second)
                    v = at->second;
    }

    // In ops from `begin` on, `made` is the saved value; where `made` is a reshape of x, so is x.
    void use_saved(std::size_t begin, Value made, Value saved, std::map<Value, Value>& replaced) {
        replaced[made] = saved;
        for (std::size_t k = begin; k < to_.ops.size(); ++k) {
            if (to_.ops[k].name != "reshape" || to_.ops[k].results[0] != made) continue;
            Value x = to_.ops[k].operands[0];
            Value reshaped = b_.reshape(saved, Dims(to_.type(x).dims));
            if (reshaped != saved)  // it was appended last, and is read from `begin` on
                std::rotate(to_.ops.begin() + static_cast<std::ptrdiff_t>(begin), to_.ops.end() - 1, to_.ops.end());
            replaced[x] = reshaped;
            return;
        }
    }

    const Function& from_;
    std::size_t forward_ops_;
    Function& to_;
    Builder b_;
    std::vector<Value> to_value_;
    std::vector<std::size_t> producer_;
    std::vector<std::size_t> again_;
};

}  // namespace

SplitFunction split_function(const Function& joint, std::size_t forward_ops, const BackwardSignature& signature,
                             const SplitOptions& options) {
    const Mask used = BackwardWriter::needed(joint, forward_ops, signature.results);
    Mask available(joint.values.size(), false);
    for (std::size_t k = 0; k < joint.arguments.size(); ++k) available[joint.arguments[k].index] = options.available[k];
    Mask needed(joint.values.size(), false);  // of `used`, the forward values
    for (Value v : joint.arguments) needed[v.index] = used[v.index];
    for (std::size_t k = 0; k < forward_ops; ++k)
        for (Value v : joint.ops[k].results) needed[v.index] = used[v.index];
    const SplitPoint split{joint, forward_ops, needed, available};
    const Mask chosen = choose_saved(split, options.keeping);
    Mask saved = chosen;  // those that are to become results of forward

    SplitFunction out;
    Function& backward = out.backward;
    backward.scope = joint.scope;
    backward.module_class = joint.module_class;
    std::vector<Value> to_value(joint.values.size());
    auto give = [&](Value v) {
        Value given = backward.add_value(joint.type(v), joint.info(v).name);
        to_value[v.index] = given;
        return given;
    };
    for (Value v : signature.first) backward.arguments.push_back(give(v));

    std::vector<Value> extra;  // further results of forward
    Mask reused(joint.values.size(), false);
    for (std::size_t k = 0; k < joint.arguments.size(); ++k)
        if (options.arguments_pass && saved[joint.arguments[k].index]) saved[joint.arguments[k].index] = false;
    for (std::size_t k = options.first_reusable_result; k < joint.results.size(); ++k) {
        Value v = joint.results[k];
        if (!saved[v.index]) continue;
        saved[v.index] = false;
        reused[v.index] = true;
        out.saved_results.push_back(k);
        backward.arguments.push_back(give(v));
    }
    auto save = [&](Value v) {
        if (!saved[v.index]) return;
        extra.push_back(v);
        out.saved_types.push_back(joint.type(v));
        out.saved_names.push_back(joint.info(v).name);
        backward.arguments.push_back(give(v));
    };
    for (Value v : joint.arguments) save(v);
    for (std::size_t k = 0; k < forward_ops; ++k)
        for (Value v : joint.ops[k].results) save(v);
    for (Value v : signature.behind_saved) backward.arguments.push_back(give(v));
    for (Value v : joint.arguments)
        if (!to_value[v.index]) give(v);

    BackwardWriter writer(joint, forward_ops, backward, to_value);
    writer.write(used);
    for (Value v : signature.results) backward.results.push_back(writer.resolve(v));
    if (options.keeping.on_split) options.keeping.on_split(split, chosen, writer.computed_again());
    remove_dead_ops(backward);
    const Uses uses(backward);
    for (std::size_t k = 0; k < joint.arguments.size(); ++k) {
        Value v = joint.arguments[k];
        const std::size_t given = to_value[v.index].index;
        bool is_given = reused[v.index] || std::find(extra.begin(), extra.end(), v) != extra.end();
        if (is_given || (uses.users[given].empty() && !uses.is_result[given])) continue;
        out.arguments.push_back(k);
        backward.arguments.push_back(to_value[v.index]);
    }
    compact_values(backward);

    out.forward = joint;
    out.forward.ops.resize(forward_ops);
    out.forward.results.insert(out.forward.results.end(), extra.begin(), extra.end());
    out.forward.result_names.clear();
    remove_dead_code(out.forward);
    return out;
}

namespace {

// By value: what the backward half reads and the forward half has made, with what views are views of.
Mask read_by_backward(const SplitPoint& split) {
    Mask out = split.needed;
    for (Value v : split.function.arguments) out[v.index] = false;
    for (std::size_t k = split.forward_ops; k-- > 0;) {
        const Op& op = split.function.ops[k];
        const Value v = op.results[0];
        if (!out[v.index] || !(is_view(op) || is_constant_op(op))) continue;
        out[v.index] = false;
        if (is_view(op)) out[op.operands[0].index] = true;
    }
    for (Value v : split.function.arguments) out[v.index] = false;
    return out;
}

}  // namespace

void recompute_in_place(Function& joint, std::size_t forward_ops, std::vector<Value>& results, const Keeping& keeping) {
    const Mask used = BackwardWriter::needed(joint, forward_ops, results);
    Mask needed(joint.values.size(), false), available(joint.values.size(), false);
    std::vector<Value> to_value(joint.values.size());
    std::vector<bool> is_forward(joint.values.size(), false);
    for (Value v : joint.arguments) {
        available[v.index] = true;
        is_forward[v.index] = true;
        to_value[v.index] = v;
    }
    for (std::size_t k = 0; k < forward_ops; ++k)
        for (Value v : joint.ops[k].results) is_forward[v.index] = true;
    for (std::size_t k = 0; k < used.size(); ++k) needed[k] = used[k] && is_forward[k];
    const SplitPoint split{joint, forward_ops, needed, available};
    if (keeping.policy == RecomputePolicy::none) {
        if (keeping.on_split) keeping.on_split(split, read_by_backward(split), {});
        return;
    }
    const Mask saved = choose_saved(split, keeping);

    Function to = joint;
    to.ops.resize(forward_ops);
    Mask produced(joint.values.size(), false);
    for (const Op& op : joint.ops)
        for (Value v : op.results) produced[v.index] = true;
    for (std::uint32_t k = 0; k < to_value.size(); ++k)
        if (saved[k] || !produced[k]) to_value[k] = {k};  // kept; arguments and seeds are there anyway
    BackwardWriter writer(joint, forward_ops, to, to_value);
    writer.write(used);
    for (Value& v : results) v = writer.resolve(v);
    if (keeping.on_split) keeping.on_split(split, saved, writer.computed_again());
    joint = std::move(to);
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/claim.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/analysis/result_names.h"
#include "compiler/analysis/views.h"
#include "compiler/executors/executor.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/plain_call.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

class FunctionClaimer {
  public:
    FunctionClaimer(Function& function, const std::vector<const Executor*>& executors, bool plain, Report& report)
        : f_(function), executors_(executors), plain_(plain), report_(report) {}

    void run() {
        std::vector<Op> ops = std::exchange(f_.ops, {});
        before_ = f_.values.size();
        for (Op& op : ops) place(std::move(op));
        for (Value& v : f_.results) v = now(v);
        // What was there, and perhaps differentiated, has its name: its cotangent is called after it.
        number_names_of_ops(f_, [&](Value v) { return v.index >= before_ && !takes_place_.contains(v); });
        remove_dead_code(f_);
    }

  private:
    Value now(Value v) const {
        if (!v || v.index >= now_.size() || !now_[v.index]) return v;
        return now_[v.index];
    }

    void stand_for(Value old, Value by) {
        if (old == by) return;
        if (now_.size() <= old.index) now_.resize(old.index + 1);
        now_[old.index] = by;
    }

    void place(Op op) {
        for (Value& v : op.operands) v = now(v);
        const OpDef& def = op_def(op.name);
        if (def.level == OpLevel::structural || !def.decompose || claimed(op, def)) {
            put(std::move(op), def);
            return;
        }
        decompose(op, def);
    }

    // In its last form. What the runtime API carries out, and no executor before `reference` has, is done in plain
    // loops.
    void put(Op op, const OpDef& def) {
        if (plain_ && def.level == OpLevel::primitive && def.call) op.attributes.set("executor", reference_name);
        require_call(op, def);
        f_.ops.push_back(std::move(op));
    }

    // What is computed by a call of its own, never within a kernel, needs one for its types.
    void require_call(const Op& op, const OpDef& def) const {
        if (!def.call || is_kernel_call(op)) return;
        const RuntimeCall call = def.call(op, f_);
        if (!call.function.empty() || !call.comment.empty()) return;
        Diagnostic d;
        d.message = fmt::format("a program cannot compute {} of these types", op.name);
        for (Value v : op.operands)
            if (v) d.actual += (d.actual.empty() ? "" : ", ") + to_string(f_.type(v));
        d.module = op.provenance.scope;
        if (!op.provenance.nodes.empty()) d.node = op.provenance.nodes.front();
        if (!op.provenance.node_ops.empty()) d.op = op.provenance.node_ops.front();
        d.help = "cast its operands to float32 in the model";
        throw UserError(std::move(d));
    }

    std::string result_name(const Op& op) const {
        return op.results.empty() || !op.results[0] ? ""
                                                    : fmt::format("{} of @{}", f_.info(op.results[0]).name, f_.name);
    }

    bool claimed(Op& op, const OpDef& def) {
        if (def.level == OpLevel::primitive) return false;
        const std::string where = op.provenance.scope.empty() ? "@" + f_.name : op.provenance.scope;
        for (const Executor* e : executors_) {
            std::optional<std::string> reason = e->declines(op, f_);
            if (!reason) {
                // What is done to whole arenas is done so by any program, the reference too.
                if (e->name != "optimizer" &&
                    !report_.may(op.name, where, fmt::format("{} for {}", e->name, result_name(op))))
                    return false;
                op.attributes.set("executor", e->name);
                report_.done(op.name, where, e->note ? fmt::format("{}; {}", e->name, e->note(op, f_)) : e->name);
                return true;
            }
            if (!reason->empty()) report_.declined(op.name, where, fmt::format("{}: {}", e->name, *reason));
        }
        return false;
    }

    void decompose(const Op& op, const OpDef& def) {
        const std::size_t start = f_.ops.size();
        Builder b(f_);
        b.set_provenance(op.provenance);
        std::vector<Value> results = def.decompose(b, op);
        check(results.size() == op.results.size(),
              fmt::format("the decomposition of {} has {} results, {} are expected", op.name, results.size(),
                          op.results.size()));
        name_roles(op, def, results, start);
        std::vector<Op> produced(std::make_move_iterator(f_.ops.begin() + static_cast<std::ptrdiff_t>(start)),
                                 std::make_move_iterator(f_.ops.end()));
        f_.ops.resize(start);
        // Kernels are named after what their ops were part of.
        const std::string whole = op.name + (op.attributes.boolean("inverse", false) ? "_inverse" : "");
        for (Op& made : produced) {
            const bool primitive = op_def(made.name).level == OpLevel::primitive;
            if (def.level == OpLevel::composite && primitive) made.attributes.set(part_of, whole);
            // What a composite's parts are decomposed into belongs to it as well.
            if (const Attribute* outer = op.attributes.find(part_of)) made.attributes.set(part_of, *outer);
        }
        for (std::size_t r = 0; r < results.size(); ++r) {
            stand_for(op.results[r], results[r]);
            // a new value takes the name that the old one had; an operand that is passed through keeps its own
            for (const Op& made : produced)
                for (Value v : made.results) {
                    if (v != results[r]) continue;
                    f_.info(v).name = f_.info(op.results[r]).name;
                    if (op.results[r].index < before_ || takes_place_.contains(op.results[r])) takes_place_.insert(v);
                }
        }
        // A primitive whose decomposition is itself is in its last form.
        if (def.level == OpLevel::primitive && produced.size() == 1 && produced[0].name == op.name) {
            put(std::move(produced[0]), def);
            return;
        }
        for (Op& made : produced) {
            if (made.name == op.name)
                put(std::move(made), def);
            else
                place(std::move(made));
        }
        for (Value v : op.results) stand_for(v, now(now(v)));
    }

    // What operands and results of the ops from `start` on are to the composite that they were made of.
    void name_roles(const Op& op, const OpDef& def, const std::vector<Value>& results, std::size_t start) {
        const bool whole = def.level == OpLevel::composite;
        const std::vector<std::string> of_operands = op.attributes.has(operand_roles)
                                                         ? op.attributes.strings(operand_roles)
                                                     : whole ? def.operand_names
                                                             : std::vector<std::string>{};
        auto role_of = [&](Value v) -> std::string {
            for (std::size_t k = 0; k < op.operands.size() && k < of_operands.size(); ++k)
                if (v && op.operands[k] == v) return of_operands[k];
            return {};
        };
        auto of_result = [&](std::size_t r) -> std::string {
            if (op.attributes.has(result_role)) return op.attributes.string(result_role);
            return whole && r < def.result_names.size() ? def.result_names[r] : std::string{};
        };
        for (std::size_t k = f_.ops.size(); k-- > start;) {
            Op& made = f_.ops[k];
            if (op_def(made.name).level != OpLevel::primitive) continue;
            std::vector<std::string> roles;
            for (Value v : made.operands) roles.push_back(role_of(v));
            if (std::any_of(roles.begin(), roles.end(), [](const std::string& role) { return !role.empty(); }))
                made.attributes.set(operand_roles, roles);
        }
        for (std::size_t r = 0; r < results.size(); ++r) {
            if (of_result(r).empty()) continue;
            // Behind views and casts of the result is what a kernel computes.
            Value v = results[r];
            for (std::size_t k = f_.ops.size(); k-- > start;) {
                Op& made = f_.ops[k];
                if (made.results.size() != 1 || made.results[0] != v) continue;
                if (op_def(made.name).level != OpLevel::primitive) break;
                made.attributes.set(result_role, of_result(r));
                if (!is_view(made)) break;
                v = made.operands[0];
            }
        }
    }

    Function& f_;
    const std::vector<const Executor*>& executors_;
    bool plain_;  // what none of them has is the executor `reference`'s
    Report& report_;
    std::vector<Value> now_;       // by replaced value
    std::size_t before_ = 0;       // values that were there
    std::set<Value> takes_place_;  // values that are called as one of these was
};

}  // namespace

Module claim(Module module, const std::vector<std::string>& executors, Report& report) {
    check(module.phase == Module::Phase::values, "executors claim before the plan");
    std::vector<const Executor*> list;
    bool plain = false;
    for (const std::string& name : executors) {
        const Executor& e = executor(name);
        plain = e.name == reference_name;
        if (plain) break;
        list.push_back(&e);
    }
    for (Function& f : module.functions)
        if (!f.kind.starts_with("kernel:")) FunctionClaimer(f, list, plain, report).run();
    return module;
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/autodiff/differentiate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "compiler/analysis/result_names.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/print.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/autodiff/cotangents.h"
#include "compiler/passes/autodiff/split_function.h"
#include "compiler/passes/layers/unroll_repeats.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// How a function is called, as far as it decides what its backward function looks like.
struct CallShape {
    bool loop = false;
    std::size_t carried = 0, per_layer = 0;  // of a loop
    Mask active;                             // by argument: its cotangent is wanted
    Mask seeded;                             // by result: its cotangent is there
    Mask available;                          // by argument: backward is given it at no cost, so it need not be saved

    auto operator<=>(const CallShape&) const = default;
};

// The two functions that one differentiated function becomes.
struct Pair {
    std::string forward, backward;
    std::vector<Type> saved_types;  // results that forward has besides the function's own
    std::vector<std::string> saved_names;
    std::vector<std::size_t> saved_results;  // the function's own results that backward reads
    std::vector<std::size_t> arguments;      // what backward takes of the function's arguments, in its order
    std::vector<std::size_t> gradients;      // the arguments that backward gives gradients of, in its order
    Mask zero;                               // by gradient: it is zero, and there only because it is carried
    std::vector<Type> gradient_types;
    std::vector<std::string> gradient_names;
};

// Forward and backward in one function.
struct Joint {
    Function f;
    std::size_t forward_ops = 0;
    std::vector<Value> seeds;      // by result; none where not seeded. Defined by nothing: whoever splits f places them
    std::vector<Value> gradients;  // by argument; none where there is none
};

class Differentiator {
  public:
    Differentiator(const Module& module, const DifferentiateOptions& options, Report& report)
        : in_(module), options_(options), report_(report) {}

    Module run();

  private:
    Mask depending(const Function& f, Mask arguments);
    Mask reaching(const Function& f, const Mask& results, const Mask& depends);
    Mask results_of_call(const Function& f, const Op& op, const Mask& depends, Mask& carried);
    bool stops(const Function& f, const Op& op, Value result);

    Joint join(const Function& source, const Mask& active, const Mask& seeded);
    void give_rules(Function& f, const Mask& active);
    void pull_back_op(Builder& b, Cotangents& cotangents, const Op& op, const Mask& depends);
    void pull_back_call(Builder& b, Cotangents& cotangents, std::size_t index, const Mask& depends);
    void pull_back_repeat(Builder& b, Cotangents& cotangents, std::size_t index, const Mask& depends);
    const Pair& pair(const Function& g, const CallShape& shape);
    void extend_forward(Function& f, std::size_t index, const Pair& p, bool loop);
    std::vector<Value> saved_operands(const Op& forward, const Pair& p) const;
    void order_functions();

    const Module& in_;
    const DifferentiateOptions& options_;
    Report& report_;
    Module out_;
    std::map<std::pair<std::string, CallShape>, Pair> pairs_;
    std::map<std::string, std::string> backward_of_;  // by forward function
    // What backward computes again, in this function; one that may not has what it reads saved.
    Keeping keeping_of(const Function& f) const {
        Keeping keeping = options_.keeping;
        if (keeping.policy == RecomputePolicy::none) return keeping;
        const std::string where = f.scope.empty() ? "@" + f.name : f.scope;
        if (!report_.may("recompute", where)) keeping.policy = RecomputePolicy::none;
        return keeping;
    }

    std::set<std::string> warned_;
};

// ---- which values depend on what is differentiated, which reach the loss --------------------------------------------

// Whether a gradient ends at this result of an op, because there is none to speak of.
bool Differentiator::stops(const Function& f, const Op& op, Value result) {
    if (!is_float(f.type(result).dtype)) return true;
    const OpDef& def = op_def(op.name);
    if (def.not_differentiable.empty()) return false;
    std::string where = op.provenance.scope.empty() ? f.info(result).name : op.provenance.scope;
    if (!warned_.insert(op.name + " " + where).second) return true;
    const std::string why = "no gradient passes through it: " + def.not_differentiable;
    if (op.name == "stop_gradient")
        report_.done(op.name, where, why);  // that is what it is for
    else
        report_.warning(op.name, where, why);
    return true;
}

Mask Differentiator::results_of_call(const Function& f, const Op& op, const Mask& depends, Mask& carried) {
    const Function& g = callee(in_, op);
    Mask arguments(op.operands.size(), false);
    for (std::size_t k = 0; k < arguments.size(); ++k)
        arguments[k] = op.operands[k] && depends[op.operands[k].index] && is_float(f.type(op.operands[k]).dtype);
    const auto count = is_loop(op) ? loop_carried(op) : 0;
    while (true) {
        Mask inside = depending(g, arguments);
        Mask results(g.results.size());
        bool more = false;
        for (std::size_t k = 0; k < results.size(); ++k) {
            results[k] = inside[g.results[k].index];
            if (k >= count || !results[k] || arguments[k]) continue;
            arguments[k] = more = true;  // what one layer makes depend comes in at the next
        }
        if (more) continue;
        carried.assign(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(count));
        return results;
    }
}

Mask Differentiator::depending(const Function& f, Mask arguments) {
    Mask depends(f.values.size(), false);
    for (std::size_t k = 0; k < f.arguments.size(); ++k) depends[f.arguments[k].index] = arguments[k];
    for (const Op& op : f.ops) {
        bool any = false;
        for (Value v : op.operands) any = any || (v && depends[v.index]);
        if (!any) continue;
        if (runs_function(op)) {
            Mask carried;
            Mask results = results_of_call(f, op, depends, carried);
            for (std::size_t k = 0; k < results.size(); ++k) depends[op.results[k].index] = results[k];
            continue;
        }
        for (Value v : op.results) depends[v.index] = !stops(f, op, v);
    }
    return depends;
}

// Values that depend on an active argument and reach a seeded result.
Mask Differentiator::reaching(const Function& f, const Mask& results, const Mask& depends) {
    Mask reaches(f.values.size(), false);
    for (std::size_t k = 0; k < f.results.size(); ++k)
        if (results[k] && depends[f.results[k].index]) reaches[f.results[k].index] = true;
    for (std::size_t k = f.ops.size(); k-- > 0;) {
        const Op& op = f.ops[k];
        bool any = false;
        for (Value v : op.results) any = any || reaches[v.index];
        if (!any) continue;
        // Calls count as if each result read each operand: a cotangent too many is zero, not wrong.
        for (Value v : op.operands)
            if (v && depends[v.index]) reaches[v.index] = true;
    }
    return reaches;
}

// ---- the joint function ---------------------------------------------------------------------------------------------

// Ops that have no rule of their own become what they consist of, as deep as needed.
void Differentiator::give_rules(Function& f, const Mask& active) {
    const Mask depends = depending(f, active);
    std::vector<Op> open(std::make_move_iterator(f.ops.rbegin()), std::make_move_iterator(f.ops.rend()));
    f.ops.clear();
    std::map<Value, Value> replaced;
    while (!open.empty()) {  // the next op is the last
        Op op = std::move(open.back());
        open.pop_back();
        const OpDef& def = op_def(op.name);
        bool on_path = false;
        for (Value v : op.results) on_path = on_path || v.index >= depends.size() || depends[v.index];
        if (!on_path || def.vjp || !def.not_differentiable.empty() || def.level == OpLevel::structural) {
            f.ops.push_back(std::move(op));
            continue;
        }
        check(static_cast<bool>(def.decompose), op.name + " has neither a VJP nor a decomposition");
        std::vector<Op> before = std::exchange(f.ops, {});
        Builder b(f);
        b.set_provenance(op.provenance);
        std::vector<Value> results = def.decompose(b, op);
        for (std::size_t k = 0; k < results.size(); ++k) {
            replaced[op.results[k]] = results[k];
            for (Op& other : open)
                for (Value& v : other.operands)
                    if (v == op.results[k]) v = results[k];
        }
        std::vector<Op> made = std::exchange(f.ops, std::move(before));
        std::move(made.rbegin(), made.rend(), std::back_inserter(open));
    }
    substitute(f, replaced);
}

Joint Differentiator::join(const Function& source, const Mask& active, const Mask& seeded) {
    Joint joint;
    joint.f = source;
    Function& f = joint.f;
    give_rules(f, active);
    name_after_modules(f);
    number_names(f);  // so that the gradient of the second of two sums is not called after the first
    joint.forward_ops = f.ops.size();
    const Mask depends = depending(f, active);
    const Mask reaches = reaching(f, seeded, depends);
    std::size_t seeds = 0;
    for (std::size_t k = 0; k < f.results.size(); ++k) {
        joint.seeds.emplace_back();
        if (!seeded[k]) continue;
        joint.seeds[k] = f.add_value(f.type(f.results[k]), "d" + f.info(f.results[k]).name);
        ++seeds;
    }
    Builder b(f);
    Cotangents cotangents(b, seeds);
    for (std::size_t k = 0; k < f.results.size(); ++k)
        if (seeded[k]) cotangents.add(f.results[k], joint.seeds[k]);
    for (std::size_t k = joint.forward_ops; k-- > 0;) {
        bool any = false;
        for (Value v : f.ops[k].results) any = any || (reaches[v.index] && cotangents.has(v));
        if (!any || is_constant_op(f.ops[k])) continue;
        b.set_provenance(f.ops[k].provenance);
        if (is_function_call(f.ops[k]))
            pull_back_call(b, cotangents, k, depends);
        else if (is_loop(f.ops[k]))
            pull_back_repeat(b, cotangents, k, depends);
        else
            pull_back_op(b, cotangents, Op(f.ops[k]), depends);  // a copy: the list grows
    }
    b.set_provenance({});
    for (std::size_t k = 0; k < f.arguments.size(); ++k)
        joint.gradients.push_back(active[k] ? cotangents.read(f.arguments[k]) : Value{});
    return joint;
}

void Differentiator::pull_back_op(Builder& b, Cotangents& cotangents, const Op& op, const Mask& depends) {
    if (is_member_op(op)) {
        cotangents.add_member(op.operands[0], op.attributes.integer("index"), cotangents.read(op.results[0]));
        return;
    }
    if (is_family_op(op)) {
        for (std::size_t k = 0; k < op.operands.size(); ++k) {
            if (!depends[op.operands[k].index]) continue;
            Value member = cotangents.read_member(op.results[0], static_cast<std::int64_t>(k));
            if (member) cotangents.add(op.operands[k], member);
        }
        return;
    }
    if (is_stack(op) || is_unstack(op)) {
        if (!depends[op.operands[0].index]) return;
        const Value given = cotangents.read(op.results[0]);
        if (given)
            cotangents.add(op.operands[0],
                           b.op(is_stack(op) ? "unstack" : "stack", {given}, {}, b.function().info(given).name));
        return;
    }
    const OpDef& def = op_def(op.name);
    check(static_cast<bool>(def.vjp), op.name + " has no VJP");
    std::vector<Value> given;
    for (Value v : op.results) given.push_back(depends[v.index] ? cotangents.read(v) : Value{});
    auto wanted = std::make_unique<bool[]>(op.operands.size());
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
        Value v = op.operands[k];
        wanted[k] = v && depends[v.index] && is_float(b.type(v).dtype);
    }
    VjpResult result = def.vjp({b, op, given, std::span<const bool>(wanted.get(), op.operands.size())});
    for (std::size_t k = 0; k < op.operands.size() && k < result.size(); ++k)
        if (wanted[k] && result[k]) cotangents.add(op.operands[k], result[k]);
}

// ---- calls and loops ------------------------------------------------------------------------------------------------

// The forward op calls the extended function and has what that saves as further results.
void Differentiator::extend_forward(Function& f, std::size_t index, const Pair& p, bool loop) {
    f.ops[index].attributes.set(loop ? "body" : "callee", p.forward);
    const std::int64_t n = loop ? loop_count(f.ops[index]) : 1;
    for (std::size_t k = 0; k < p.saved_types.size(); ++k) {
        Type t = p.saved_types[k];
        Value v = f.add_value(loop ? Type::family(n, t.dtype, t.dims) : t, p.saved_names[k]);
        f.ops[index].results.push_back(v);
    }
}

std::vector<Value> Differentiator::saved_operands(const Op& forward, const Pair& p) const {
    std::vector<Value> out;
    for (std::size_t k : p.saved_results) out.push_back(forward.results[k]);
    out.insert(out.end(), forward.results.end() - static_cast<std::ptrdiff_t>(p.saved_types.size()),
               forward.results.end());
    return out;
}

void Differentiator::pull_back_call(Builder& b, Cotangents& cotangents, std::size_t index, const Mask& depends) {
    Function& f = b.function();
    const Op op = f.ops[index];
    std::set<Value> arguments(f.arguments.begin(), f.arguments.end());
    for (const Op& other : f.ops)
        if (is_member_op(other) && arguments.contains(other.operands[0])) arguments.insert(other.results[0]);
    CallShape shape;
    std::vector<Value> operands;
    for (Value v : op.operands) {
        shape.active.push_back(depends[v.index] && is_float(f.type(v).dtype));
        shape.available.push_back(arguments.contains(v));
    }
    for (Value v : op.results) {
        shape.seeded.push_back(depends[v.index] && cotangents.has(v));
        if (shape.seeded.back()) operands.push_back(cotangents.read(v));
    }
    const Pair& p = pair(callee(in_, op), shape);
    extend_forward(f, index, p, false);
    for (Value v : saved_operands(f.ops[index], p)) operands.push_back(v);
    for (std::size_t k : p.arguments) operands.push_back(op.operands[k]);
    std::vector<Value> gradients =
        b.emit_typed("call", operands, {{"callee", p.backward}}, p.gradient_types, p.gradient_names);
    for (std::size_t k = 0; k < gradients.size(); ++k) cotangents.add(op.operands[p.gradients[k]], gradients[k]);
}

void Differentiator::pull_back_repeat(Builder& b, Cotangents& cotangents, std::size_t index, const Mask& depends) {
    Function& f = b.function();
    const Op op = f.ops[index];
    const Function& g = callee(in_, op);
    const std::int64_t n = loop_count(op);
    CallShape shape;
    shape.loop = true;
    shape.carried = loop_carried(op);
    shape.per_layer = loop_per_layer(op);
    Mask carried_depends;
    results_of_call(f, op, depends, carried_depends);
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
        Value v = op.operands[k];
        bool active = k < shape.carried ? carried_depends[k] : static_cast<bool>(depends[v.index]);
        shape.active.push_back(active && is_float(f.type(v).dtype));
        shape.available.push_back(k >= shape.carried);
    }
    for (Value v : op.results) shape.seeded.push_back(depends[v.index] && cotangents.has(v));
    // What one layer reads of a carried value reaches the loss through the layer before it.
    const Mask inside = depending(g, shape.active);
    for (bool more = true; more;) {
        more = false;
        const Mask reaches = reaching(g, shape.seeded, inside);
        for (std::size_t k = 0; k < shape.carried; ++k) {
            if (shape.seeded[k] || !shape.active[k] || !reaches[g.arguments[k].index]) continue;
            shape.seeded[k] = more = true;
        }
    }
    const Pair& p = pair(g, shape);
    extend_forward(f, index, p, true);

    std::vector<Value> operands;
    for (std::size_t k = 0; k < shape.carried; ++k) {
        if (!shape.seeded[k]) continue;
        Value cotangent = cotangents.read(op.results[k]);
        operands.push_back(cotangent ? cotangent : zeros(b, f.type(op.results[k])));
    }
    auto shared = [&](std::size_t argument) { return argument >= shape.carried + shape.per_layer; };
    auto family = [&](std::size_t argument) { return argument >= shape.carried && !shared(argument); };
    for (std::size_t k : p.gradients) {  // sums of shared values go on from what was collected so far, which they take
        if (!shared(k)) continue;
        Value sum = cotangents.take(op.operands[k]);
        operands.push_back(sum ? sum : zeros(b, f.type(op.operands[k])));
    }
    const std::size_t carried = operands.size();
    for (Value v : saved_operands(f.ops[index], p)) operands.push_back(v);
    for (std::size_t k = shape.carried; k < op.results.size(); ++k)
        if (shape.seeded[k]) operands.push_back(cotangents.read(op.results[k]));
    for (std::size_t k : p.arguments)
        if (family(k)) operands.push_back(op.operands[k]);
    const std::size_t per_layer = operands.size() - carried;
    for (std::size_t k : p.arguments)
        if (shared(k)) operands.push_back(op.operands[k]);

    std::vector<Type> types = p.gradient_types;
    for (std::size_t k = 0; k < types.size(); ++k)
        if (family(p.gradients[k])) types[k] = Type::family(n, types[k].dtype, types[k].dims);
    Attributes attributes = {{"body", p.backward},
                             {"carried", static_cast<std::int64_t>(carried)},
                             {"n", n},
                             {"per_layer", static_cast<std::int64_t>(per_layer)},
                             {"reverse", !loop_reversed(op)}};
    std::vector<Value> gradients = b.emit_typed("repeat", operands, attributes, types, p.gradient_names);
    for (std::size_t k = 0; k < gradients.size(); ++k) {
        Value operand = op.operands[p.gradients[k]];
        if (depends[operand.index] && !p.zero[k]) cotangents.add(operand, gradients[k]);
    }
}

const Pair& Differentiator::pair(const Function& g, const CallShape& shape) {
    auto key = std::make_pair(g.name, shape);
    if (auto at = pairs_.find(key); at != pairs_.end()) return at->second;
    Joint joint = join(g, shape.active, shape.seeded);
    Function& f = joint.f;
    Builder b(f);
    Pair p;

    // Arguments and results of backward, in the order that differentiate.h gives.
    BackwardSignature signature;
    std::vector<Value> collected_seeds;
    for (std::size_t k = 0; k < joint.seeds.size(); ++k)
        if (joint.seeds[k] && shape.loop && k >= shape.carried)
            collected_seeds.push_back(joint.seeds[k]);
        else if (joint.seeds[k])
            signature.first.push_back(joint.seeds[k]);
    auto gradient = [&](std::size_t k, Value value) {
        p.zero.push_back(!joint.gradients[k]);
        p.gradients.push_back(k);
        p.gradient_types.push_back(f.type(f.arguments[k]));
        p.gradient_names.push_back("d" + f.info(f.arguments[k]).name);
        signature.results.push_back(value);
    };
    auto is_shared = [&](std::size_t k) { return shape.loop && k >= shape.carried + shape.per_layer; };
    for (std::size_t k = 0; shape.loop && k < shape.carried; ++k)
        if (joint.seeds[k]) gradient(k, joint.gradients[k] ? joint.gradients[k] : zeros(b, f.type(f.arguments[k])));
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        if (!is_shared(k) || !joint.gradients[k]) continue;
        Value before = f.add_value(f.type(f.arguments[k]), "d" + f.info(f.arguments[k]).name + "_sum");
        signature.first.push_back(before);
        Value sum = add_values(b, before, joint.gradients[k]);
        const std::string name = "d" + f.info(f.arguments[k]).name;
        if (std::string& own = f.info(joint.gradients[k]).name; own == name) own += "_part";
        f.info(sum).name = name;
        gradient(k, sum);
    }
    for (std::size_t k = shape.loop ? shape.carried : 0; k < f.arguments.size(); ++k)
        if (!is_shared(k) && joint.gradients[k]) gradient(k, joint.gradients[k]);
    signature.behind_saved = collected_seeds;
    name_after_modules(f, joint.forward_ops);
    number_names(f, joint.seeds);

    SplitOptions split_options;
    split_options.keeping = keeping_of(f);
    split_options.available = shape.available;
    split_options.arguments_pass = !shape.loop;
    split_options.first_reusable_result = shape.loop ? shape.carried : 0;
    SplitFunction split = split_function(f, joint.forward_ops, signature, split_options);
    p.saved_types = split.saved_types;
    p.saved_names = split.saved_names;
    p.saved_results = split.saved_results;
    p.arguments = split.arguments;

    std::string kept;
    std::size_t bytes = 0;
    for (std::size_t k = 0; k < p.saved_types.size(); ++k) {
        kept += fmt::format("{}{} {}", kept.empty() ? "" : ", ", p.saved_names[k], to_string(p.saved_types[k]));
        bytes += p.saved_types[k].bytes();
    }
    report_.done("saved", g.scope.empty() ? g.name : g.scope,
                 kept.empty() ? "nothing" : fmt::format("{}: {} bytes for each call", kept, bytes));
    const std::string name = g.name;
    split.forward.name = p.forward = out_.unique_function_name(name + "_forward");
    out_.functions.push_back(std::move(split.forward));
    split.backward.name = p.backward = out_.unique_function_name(name + "_backward");
    out_.functions.push_back(std::move(split.backward));
    backward_of_[p.forward] = p.backward;
    return pairs_.emplace(std::move(key), std::move(p)).first->second;
}

// ---- the module -----------------------------------------------------------------------------------------------------

// Functions in the order in which main first calls them, each with its backward function behind it.
void Differentiator::order_functions() {
    std::vector<std::string> order = {out_.main().name};
    std::set<std::string> seen(order.begin(), order.end());
    std::vector<std::string> beside;  // entries that are no part of a step, behind all else
    for (std::size_t k = 1; k < out_.functions.size(); ++k)
        if (!out_.functions[k].argument_info.empty()) beside.push_back(out_.functions[k].name);
    auto visit = [&](const std::string& name) {
        if (seen.insert(name).second) order.push_back(name);
    };
    for (std::size_t k = 0, entry = 0; k < order.size() || entry < beside.size(); ++k) {
        if (k == order.size()) visit(beside[entry++]);
        for (const Op& op : out_.find(order[k])->ops) {
            if (!runs_function(op)) continue;
            const std::string name = callee(out_, op).name;
            visit(name);
            // Nothing calls a backward function whose gradients nobody reads.
            if (auto backward = backward_of_.find(name);
                backward != backward_of_.end() && out_.find(backward->second) != nullptr)
                visit(backward->second);
        }
    }
    std::vector<Function> functions;
    for (const std::string& name : order) functions.push_back(std::move(*out_.find(name)));
    out_.functions = std::move(functions);
}

Module Differentiator::run() {
    out_ = in_;
    out_.spares_memory = options_.keeping.spares_memory();
    const Function& main = in_.main();
    Mask active;
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const ArgInfo& info = main.argument_info.at(k);
        bool wanted = options_.wanted ? options_.wanted(info) : info.kind == ArgInfo::Kind::parameter && info.trainable;
        active.push_back(wanted && is_float(main.type(main.arguments[k]).dtype));
    }
    Mask seeded;
    for (std::size_t k = 0; k < main.results.size(); ++k) {
        const Type& type = main.type(main.results[k]);
        seeded.push_back(is_float(type.dtype) && (k == 0 || options_.cotangent_for_each_result));
    }
    const bool scalar = !main.results.empty() && main.type(main.results[0]).is_tensor() &&
                        main.type(main.results[0]).dims.empty() && seeded[0];
    if (!options_.cotangent_for_each_result && !scalar) {
        Diagnostic d;
        d.message = "the graph does not end in a scalar loss";
        d.expected = "f32[] as the first result";
        d.actual = main.results.empty() ? "no result" : to_string(main.type(main.results[0]));
        d.help = "export the model with its loss, or add one with --loss";
        throw UserError(std::move(d));
    }
    if (options_.cotangent_for_each_result && std::none_of(seeded.begin(), seeded.end(), [](bool s) { return s; })) {
        Diagnostic d;
        d.message = "there is nothing to differentiate: no output of the model is a float";
        d.help = "export a model that ends in logits or in a loss";
        throw UserError(std::move(d));
    }
    std::vector<std::string> names = main.result_names;
    for (std::size_t k = names.size(); k < main.results.size(); ++k) {
        if (options_.cotangent_for_each_result)
            names.push_back(main.info(main.results[k]).name);
        else
            names.push_back(k == 0 ? "loss" : k == 1 ? "weight" : main.info(main.results[k]).name);
    }
    Joint joint = join(main, active, seeded);
    Function& f = joint.f;
    name_after_modules(f, joint.forward_ops);
    number_names(f, joint.seeds);
    // Where main is all there is, it is no block, whose inputs alone could be kept.
    if (std::none_of(f.ops.begin(), f.ops.end(), runs_function)) {
        Keeping keeping = keeping_of(f);
        if (keeping.policy == RecomputePolicy::block) keeping.policy = RecomputePolicy::selective;
        recompute_in_place(f, joint.forward_ops, joint.gradients, keeping);
    }
    for (std::size_t k = 0; k < main.results.size(); ++k) {
        if (!joint.seeds[k]) continue;
        ArgInfo info;
        info.kind = ArgInfo::Kind::scalar;
        if (options_.cotangent_for_each_result) {
            info.kind = ArgInfo::Kind::input;
            info.source = "cotangent";
        }
        info.names = {options_.cotangent_for_each_result ? "d" + names[k] : "dloss"};
        f.info(joint.seeds[k]).name = info.names[0];
        f.arguments.push_back(joint.seeds[k]);
        f.argument_info.push_back(std::move(info));
    }
    const std::vector<std::string> unique = unique_names(main);
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        if (!active[k]) continue;
        Value gradient = joint.gradients[k];
        if (!gradient && options_.cotangent_for_each_result) {
            Builder b(f);
            gradient = zeros(b, f.type(f.arguments[k]));
            report_.warning("differentiate", name_pattern(f.argument_info[k].names),
                            "no output depends on it: its gradient is zero");
        }
        if (!gradient) {
            f.argument_info[k].trainable = false;
            report_.warning("differentiate", name_pattern(f.argument_info[k].names), unreached_parameter);
            continue;
        }
        f.results.push_back(gradient);
        names.push_back("d" + unique[main.arguments[k].index]);
    }
    f.result_names = std::move(names);
    remove_dead_code(f);
    out_.functions.front() = std::move(f);
    const auto behind = std::stable_partition(out_.functions.begin() + 1, out_.functions.end(),
                                              [](const Function& g) { return !g.argument_info.empty(); });
    remove_unreached_functions(out_, static_cast<std::size_t>(behind - out_.functions.begin()));
    order_functions();
    return std::move(out_);
}

}  // namespace

Module differentiate(Module module, const DifferentiateOptions& options, Report& report) {
    module = unroll_nested_repeats(std::move(module));
    return Differentiator(module, options, report).run();
}

}  // namespace thunderc

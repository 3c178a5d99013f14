// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/precision/lower_precision_function.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "compiler/analysis/views.h"
#include "compiler/interpreter/constant_fold.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

constexpr DType full_precision = DType::f32;
using Kind = Precision::Kind;

// One function anew, op by op.
class Lowering {
  public:
    Lowering(const LoweringContext& context, const Function& from, Request request)
        : context_(context),
          from_(from),
          request_(std::move(request)),
          low_(context.options.compute),
          low_has_range_(covers(low_, full_precision)),
          gradient_(gradient_values(context.module, from, request_.gradients)),
          b_(out_) {}

    Lowered run() {
        out_.name = from_.name;
        out_.kind = from_.kind;
        out_.scope = from_.scope;
        out_.module_class = from_.module_class;
        out_.result_names = from_.result_names;
        now_.resize(from_.values.size());
        of_parameters_.assign(from_.values.size(), false);
        far_.assign(from_.values.size(), false);
        for (std::size_t k = 0; k < from_.arguments.size(); ++k) add_argument(k);
        for (const Op& op : from_.ops) place(op);
        for (std::size_t r = 0; r < from_.results.size(); ++r) {
            Value v = now(from_.results[r]);
            if (r < request_.carried) v = as(v, out_.type(arguments_[r]).dtype);
            out_.results.push_back(v);
        }
        return finish();
    }

  private:
    Value now(Value v) const { return v ? now_[v.index] : Value{}; }
    bool is_low(Value v) const { return v && is_float(out_.type(v).dtype) && out_.type(v).dtype == low_; }
    bool is_floating(Value v) const { return v && is_float(out_.type(v).dtype); }

    void add_argument(std::size_t k) {
        const Value old = from_.arguments[k];
        Type type = from_.type(old);
        type.dtype = request_.dtypes[k];
        const Value v = out_.add_value(type, from_.info(old).name);
        arguments_.push_back(v);
        now_[old.index] = v;
        of_parameters_[old.index] = request_.of_parameters[k];
        Value narrow_copy;
        if (request_.masters[k]) {
            type.dtype = low_;
            narrow_copy = out_.add_value(type, "narrow_copy_" + from_.info(old).name);
            narrow_copy_of_[v] = narrow_copy;
        }
        narrow_copies_.push_back(narrow_copy);
    }

    // ---- types ----

    // The op of the new function that gives v; nullptr for arguments.
    const Op* definition(Value v) const {
        const auto at = defined_by_.find(v);
        return at == defined_by_.end() ? nullptr : &out_.ops[at->second];
    }
    void note_definitions() {
        for (; noted_ < out_.ops.size(); ++noted_)
            for (Value v : out_.ops[noted_].results) defined_by_[v] = noted_;
    }

    // In this type of floating point. A constant has its type, a cast is made once.
    Value as(Value v, DType dtype) {
        if (!is_floating(v) || out_.type(v).dtype == dtype) return v;
        if (const auto at = casts_.find({v, dtype}); at != casts_.end()) return at->second;
        const Op* op = definition(v);
        Value made;
        if (op != nullptr && is_constant_op(*op)) {
            ConstExpr expr = *op->attributes.constant("value");
            expr.type.dtype = dtype;
            if (is_plain_constant(v)) made = b_.constant(std::make_shared<const ConstExpr>(expr), out_.info(v).name);
        }
        if (!made) {
            check(out_.type(v).is_tensor(), fmt::format("@{}: a family of {} is read as {}", from_.name,
                                                        name_of(out_.type(v).dtype), name_of(dtype)));
            made = b_.cast(v, dtype);
            out_.info(made).name = out_.info(v).name;
        }
        note_definitions();
        return casts_[{v, dtype}] = made;
    }

    // As products read it: of a parameter, or a view of one, that is the narrow copy.
    Value for_product(Value v) {
        if (!is_floating(v) || is_low(v)) return v;
        if (const auto at = narrow_copy_of_.find(v); at != narrow_copy_of_.end()) return at->second;
        const Op* op = definition(v);
        if (op == nullptr || (!is_view(*op) && !is_member_op(*op))) return as(v, low_);
        const Op view = *op;
        if (!has_narrow_copy(view.operands[0])) return as(v, low_);
        const Value whole = for_product(view.operands[0]);
        const Value made = b_.emit(view.name, {whole}, view.attributes, out_.info(v).name).front();
        note_definitions();
        return narrow_copy_of_[v] = made;
    }
    bool has_narrow_copy(Value v) const {
        while (!narrow_copy_of_.contains(v)) {
            const Op* op = definition(v);
            if (op == nullptr || (!is_view(*op) && !is_member_op(*op))) return false;
            v = op->operands[0];
        }
        return true;
    }

    // ---- ops ----

    void place(const Op& op) {
        b_.set_provenance(op.provenance);
        bool reached = false;
        for (Value v : op.operands) reached = reached || (v && of_parameters_[v.index]);
        for (Value v : op.results) of_parameters_[v.index] = reached;
        if (runs_function(op)) return place_call(op);
        const OpDef& def = op_def(op.name);
        if (op.name == "accumulate_gradient") {
            const Value before = now(op.operands[0]);
            return emit(op, {before, as(now(op.operands[1]), out_.type(before).dtype), now(op.operands[2])});
        }
        if (def.level == OpLevel::structural) return place_structure(op);
        switch (def.precision.kind) {
            case Kind::follows: return place_follower(op);
            case Kind::product: return place_product(op, def.precision);
            case Kind::island: return place_island(op, def.precision);
        }
    }

    void emit(const Op& op, std::vector<Value> operands, std::optional<Attributes> attributes = std::nullopt) {
        const std::vector<Value> results =
            b_.emit(op.name, std::move(operands), attributes ? *attributes : op.attributes, {});
        keep(op, results);
    }
    void keep(const Op& op, const std::vector<Value>& results) {
        for (std::size_t r = 0; r < results.size(); ++r) {
            now_[op.results[r].index] = results[r];
            out_.info(results[r]).name = from_.info(op.results[r]).name;
        }
        note_definitions();
    }

    void place_structure(const Op& op) {
        std::vector<Value> operands;
        bool low = false;
        for (Value v : op.operands) {
            operands.push_back(now(v));
            low = low || is_low(operands.back());
        }
        if (low && is_family_op(op))
            for (Value& v : operands) v = as(v, low_);
        emit(op, std::move(operands));
    }

    // A constant that has its type anew in each kernel, at no cost.
    bool is_plain_constant(Value v) const {
        const Op* op = definition(v);
        if (op == nullptr || !is_constant_op(*op)) return false;
        const ConstExpr::Kind kind = op->attributes.constant("value")->kind;
        return kind == ConstExpr::Kind::splat || kind == ConstExpr::Kind::affine;
    }

    // A constant that `low_` does not hold, as the least number of f32 in a mask, or that is not looked through.
    bool is_far_constant(Value v) const {
        const Op* op = definition(v);
        if (op == nullptr || !is_constant_op(*op) || !is_floating(v)) return false;
        const std::optional<double> number = splat_value(*op->attributes.constant("value"));
        return number ? std::isfinite(*number) && !std::isfinite(rounded_to(low_, *number)) : !is_plain_constant(v);
    }
    // Where `low_` has less range than f32: whether an op's result may be of any size. Whoever reads that computes in
    // f32 and stores so, until a product reads it.
    bool goes_far(const Op& op, const std::vector<Value>& operands) const {
        if (low_has_range_) return false;
        const auto& leaves = op_def(op.name).precision.leaves_range;
        bool far = leaves && leaves(op);
        for (std::size_t k = 0; k < operands.size(); ++k)
            far = far || (op.operands[k] && (far_[op.operands[k].index] || is_far_constant(operands[k])));
        return far;
    }

    // Narrow where an operand is; scalars stay what they are in f32. What there is in f32 is not rounded to be read:
    // its readers would have to share a tensor in bf16, or would compute with different numbers.
    void place_follower(const Op& op) {
        std::vector<Value> operands;
        bool low = false, wide = false, widest = false;
        for (Value v : op.operands) {
            const Value here = operands.emplace_back(now(v));
            if (!is_floating(here)) continue;
            low = low || is_low(here);
            widest = widest || out_.type(here).dtype == DType::f64;
            wide = wide || (!is_low(here) && !is_plain_constant(here));
        }
        const bool far = goes_far(op, operands);
        DType to = low && !wide && !far ? low_ : full_precision;
        if (widest) to = DType::f64;
        const Value result = op.results[0];
        const bool floating = is_float(from_.type(result).dtype);
        far_[result.index] = far && floating;
        const bool scalar = floating && from_.type(result).rank() == 0;
        if (scalar && !widest) to = full_precision;
        const bool gradient = gradient_[result.index];
        if (gradient) to = context_.options.gradient;
        for (Value& v : operands) v = as(v, to);
        emit(op, std::move(operands));
        const bool rounds = low && wide && floating && !scalar && !gradient && !widest && !far && op.name != "cast";
        if (rounds) now_[result.index] = as(now(result), low_);
    }

    static bool listed(const std::vector<std::size_t>& indices, std::size_t k) {
        return std::find(indices.begin(), indices.end(), k) != indices.end();
    }

    void place_product(const Op& op, const Precision& precision) {
        auto lowers = [&](std::size_t k) {
            return precision.low_operands.empty() || listed(precision.low_operands, k);
        };
        bool reached = false;
        std::vector<Value> operands;
        for (std::size_t k = 0; k < op.operands.size(); ++k) {
            operands.push_back(now(op.operands[k]));
            const bool counts = op.operands[k] && is_floating(operands[k]) && lowers(k);
            reached = reached || (counts && (is_low(operands[k]) || of_parameters_[op.operands[k].index]));
        }
        if (!reached) {
            for (Value& v : operands) v = as(v, full_precision);
            say(op, "f32: what it multiplies comes of inputs and constants alone, as angles of positions do");
            return emit(op, std::move(operands));
        }
        if (!may_lower(op)) {
            for (Value& v : operands) v = as(v, full_precision);
            return emit(op, std::move(operands));
        }
        for (std::size_t k = 0; k < operands.size(); ++k)
            operands[k] = lowers(k) ? for_product(operands[k]) : as(operands[k], full_precision);
        Attributes attributes = op.attributes;
        const bool gradient =
            std::any_of(op.results.begin(), op.results.end(), [&](Value v) { return gradient_[v.index]; });
        const bool own = precision.gradient && gradient && context_.options.gradient != low_;
        if (own) attributes.set("dtype", context_.options.gradient);
        say(op, own ? fmt::format("{}, its result {}: a gradient of parameters", name_of(low_),
                                  name_of(context_.options.gradient))
                    : std::string(name_of(low_)));
        emit(op, std::move(operands), attributes);
    }

    bool may_lower(const Op& op) const {
        return context_.report.may(
            op.name, op.provenance.scope.empty() ? "@" + from_.name : op.provenance.scope,
            fmt::format("{} for {} of @{}", name_of(low_), from_.info(op.results[0]).name, from_.name));
    }

    void place_island(const Op& op, const Precision& precision) {
        std::vector<Value> operands;
        bool low = false;
        for (std::size_t k = 0; k < op.operands.size(); ++k) {
            operands.push_back(now(op.operands[k]));
            low = low || (is_low(operands[k]) && (precision.low_operands.empty() || listed(precision.low_operands, k)));
        }
        const bool floating = std::any_of(operands.begin(), operands.end(), [&](Value v) { return is_floating(v); });
        if (floating) say(op, "f32: " + precision.why);
        const bool mixed = !precision.low_operands.empty();
        for (std::size_t k = 0; k < operands.size(); ++k)
            operands[k] = as(operands[k], mixed && low && listed(precision.low_operands, k) ? low_ : full_precision);
        emit(op, std::move(operands));
        if (mixed || precision.stays || !low) return;
        for (Value v : op.results)
            if (is_floating(now(v)) && out_.type(now(v)).rank() > 0) now_[v.index] = as(now(v), low_);
    }

    void say(const Op& op, const std::string& text) {
        context_.report.done(op.name, op.provenance.scope.empty() ? "@" + from_.name : op.provenance.scope, text);
    }

    // ---- calls and loops ----

    void place_call(const Op& op) {
        const bool loop = is_loop(op);
        const std::string attribute = loop ? "body" : "callee";
        Request request;
        request.carried = loop ? loop_carried(op) : 0;
        for (Value v : op.operands) {
            request.dtypes.push_back(v ? out_.type(now(v)).dtype : full_precision);
            request.masters.push_back(v && narrow_copy_of_.contains(now(v)));
            request.of_parameters.push_back(v && of_parameters_[v.index]);
        }
        for (Value v : op.results) request.gradients.push_back(gradient_[v.index]);
        const Lowered* lowered = nullptr;
        for (bool again = true; again;) {  // a carried value is bf16 from the first layer on if a layer makes it that
            again = false;
            lowered = &context_.body(op.attributes.string(attribute), request);
            const Function& body = lowered->function;
            for (std::size_t k = 0; k < request.carried; ++k) {
                again = again || (!request.of_parameters[k] && lowered->of_parameters[k]);
                request.of_parameters[k] = request.of_parameters[k] || lowered->of_parameters[k];
                if (unrounded(body, k, request) == request.dtypes[k] || request.dtypes[k] == low_) continue;
                request.dtypes[k] = low_;
                again = true;
            }
        }
        Attributes attributes = op.attributes;
        attributes.set(attribute, lowered->function.name);
        std::vector<Value> operands;
        std::int64_t per_layer = loop ? op.attributes.integer("per_layer") : 0;
        const std::size_t shared = request.carried + static_cast<std::size_t>(per_layer);
        for (std::size_t k = 0; k < op.operands.size(); ++k) {
            const Value v = now(op.operands[k]);
            if (lowered->reads_master[k]) operands.push_back(v ? as(v, request.dtypes[k]) : v);
            if (lowered->reads_narrow_copy[k]) operands.push_back(narrow_copy_of_.at(v));
            if (lowered->reads_master[k] && lowered->reads_narrow_copy[k] && k < shared) ++per_layer;
        }
        if (loop) attributes.set("per_layer", per_layer);
        std::vector<Type> types;
        std::vector<std::string> names;
        for (std::size_t r = 0; r < op.results.size(); ++r) {
            Type type = from_.type(op.results[r]);
            type.dtype = lowered->function.type(lowered->function.results[r]).dtype;
            types.push_back(type);
            names.push_back(from_.info(op.results[r]).name);
            of_parameters_[op.results[r].index] = lowered->of_parameters[r];
        }
        keep(op, b_.emit_typed(op.name, operands, attributes, types, names));
    }

    // The type in which a body makes carried value k, before it is cast to that of the argument.
    static DType unrounded(const Function& body, std::size_t k, const Request& request) {
        Value v = body.results[k];
        for (const Op& op : body.ops)
            if (op.name == "cast" && op.results[0] == v && body.type(v).dtype == request.dtypes[k])
                return body.type(op.operands[0]).dtype;
        return body.type(v).dtype;
    }

    // ---- the end ----

    Lowered finish() {
        Lowered lowered;
        std::vector<bool> read(out_.values.size(), false);
        remove_dead_ops(out_);
        for (const Op& op : out_.ops)
            for (Value v : op.operands)
                if (v) read[v.index] = true;
        for (Value v : out_.results) read[v.index] = true;
        for (std::size_t k = 0; k < arguments_.size(); ++k) {
            const bool narrow_copy = narrow_copies_[k] && read[narrow_copies_[k].index];
            const bool master = !narrow_copy || read[arguments_[k].index];
            lowered.reads_master.push_back(master);
            lowered.reads_narrow_copy.push_back(narrow_copy);
            if (master) out_.arguments.push_back(arguments_[k]);
            if (narrow_copy) out_.arguments.push_back(narrow_copies_[k]);
        }
        for (Value v : from_.results) lowered.of_parameters.push_back(of_parameters_[v.index]);
        compact_values(out_);
        lowered.function = std::move(out_);
        return lowered;
    }

    const LoweringContext& context_;
    const Function& from_;
    const Request request_;
    const DType low_;
    const bool low_has_range_;
    const Mask gradient_;
    Function out_;
    Builder b_;
    std::vector<Value> now_;                        // by old value
    Mask of_parameters_;                            // by old value: parameters reach it
    Mask far_;                                      // by old value: `low_` may not have its range
    std::vector<Value> arguments_, narrow_copies_;  // by argument
    std::map<Value, Value> narrow_copy_of_;         // by new value: a parameter or a view of one
    std::map<std::pair<Value, DType>, Value> casts_;
    std::map<Value, std::size_t> defined_by_;
    std::size_t noted_ = 0;
};

}  // namespace

Lowered lower_function(const Function& f, Request request, const LoweringContext& context) {
    return Lowering(context, f, std::move(request)).run();
}

}  // namespace thunderc

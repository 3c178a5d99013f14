#include "compiler/transforms/lower_precision.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "compiler/analysis/views.h"
#include "compiler/ir/builder.h"
#include "compiler/ops/op.h"
#include "compiler/support/error.h"
#include "compiler/transforms/compose_step.h"
#include "compiler/transforms/gradient_paths.h"

namespace thunderc {
namespace {

constexpr DType high = DType::f32;
using Kind = Precision::Kind;

// How a function is lowered: by argument its type, and what the values are that come in.
struct Request {
    std::vector<DType> dtypes;
    Mask masters;        // by argument: a parameter in f32, whose shadow can be had
    Mask of_parameters;  // by argument: parameters reach it
    Mask gradients;      // by result: becomes a gradient of a parameter and nothing else
    std::size_t carried = 0;

    auto operator<=>(const Request&) const = default;
};

struct Lowered {
    Function function;
    Mask reads_master, reads_shadow;  // by argument of the request: what the function takes in its place
    Mask of_parameters;               // by result
};

class Lowering;

class ModuleLowering {
  public:
    ModuleLowering(const Module& module, const PrecisionOptions& options, Report& report)
        : module_(module), options_(options), report_(report) {}

    Module run();
    // The body or callee of this name, lowered as asked; the module of the result has it.
    const Lowered& body(const std::string& name, const Request& request);

    const Module& module() const { return module_; }
    const PrecisionOptions& options() const { return options_; }
    Report& report() { return report_; }

  private:
    Function entry(const Function& f);
    Function update(const Function& f);

    const Module& module_;
    const PrecisionOptions& options_;
    Report& report_;
    std::map<std::pair<std::string, Request>, Lowered> known_;
    bool shadows_read_ = false;  // by forward_backward, which stands before update
};

// One function anew, op by op.
class Lowering {
  public:
    Lowering(ModuleLowering& all, const Function& from, Request request)
        : all_(all),
          from_(from),
          request_(std::move(request)),
          low_(all.options().compute),
          gradient_(gradient_values(all.module(), from, request_.gradients)),
          b_(out_) {}

    Lowered run() {
        out_.name = from_.name;
        out_.kind = from_.kind;
        out_.scope = from_.scope;
        out_.module_class = from_.module_class;
        out_.result_names = from_.result_names;
        now_.resize(from_.values.size());
        of_parameters_.assign(from_.values.size(), false);
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
        Value shadow;
        if (request_.masters[k]) {
            type.dtype = low_;
            shadow = out_.add_value(type, "shadow_" + from_.info(old).name);
            shadow_of_[v] = shadow;
        }
        shadows_.push_back(shadow);
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
        if (op != nullptr && op->name == "constant") {
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

    // As products read it: of a parameter, or a view of one, that is the shadow.
    Value for_product(Value v) {
        if (!is_floating(v) || is_low(v)) return v;
        if (const auto at = shadow_of_.find(v); at != shadow_of_.end()) return at->second;
        const Op* op = definition(v);
        if (op == nullptr || (!is_view(*op) && op->name != "member")) return as(v, low_);
        const Op view = *op;
        const Value whole = for_product(view.operands[0]);
        if (whole == view.operands[0] || definition_is_cast(whole)) return as(v, low_);
        const Value made = b_.emit(view.name, {whole}, view.attributes, out_.info(v).name).front();
        note_definitions();
        return shadow_of_[v] = made;
    }
    bool definition_is_cast(Value v) const {
        const Op* op = definition(v);
        return op != nullptr && op->name == "cast";
    }

    // ---- ops ----

    void place(const Op& op) {
        b_.set_provenance(op.provenance);
        bool reached = false;
        for (Value v : op.operands) reached = reached || (v && of_parameters_[v.index]);
        for (Value v : op.results) of_parameters_[v.index] = reached;
        if (is_call(op)) return place_call(op);
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
        if (low && op.name == "family")
            for (Value& v : operands) v = as(v, low_);
        emit(op, std::move(operands));
    }

    // A constant that has its type anew in each kernel, at no cost.
    bool is_plain_constant(Value v) const {
        const Op* op = definition(v);
        if (op == nullptr || op->name != "constant") return false;
        const ConstExpr::Kind kind = op->attributes.constant("value")->kind;
        return kind == ConstExpr::Kind::splat || kind == ConstExpr::Kind::affine;
    }

    // bf16 where an operand is; scalars stay what they are in f32. What there is in f32 is not rounded to be read: its
    // readers would have to share a tensor in bf16, or would compute with different numbers.
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
        DType to = low && !wide ? low_ : high;
        if (widest) to = DType::f64;
        const Value result = op.results[0];
        const bool floating = is_float(from_.type(result).dtype);
        const bool scalar = floating && from_.type(result).rank() == 0;
        if (scalar && !widest) to = high;
        const bool gradient = gradient_[result.index];
        if (gradient) to = all_.options().gradient;
        for (Value& v : operands) v = as(v, to);
        emit(op, std::move(operands));
        const bool rounds = low && wide && floating && !scalar && !gradient && !widest && op.name != "cast";
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
            for (Value& v : operands) v = as(v, high);
            say(op, "f32: what it multiplies comes of inputs and constants alone, as angles of positions do");
            return emit(op, std::move(operands));
        }
        for (std::size_t k = 0; k < operands.size(); ++k)
            operands[k] = lowers(k) ? for_product(operands[k]) : as(operands[k], high);
        Attributes attributes = op.attributes;
        const bool gradient =
            std::any_of(op.results.begin(), op.results.end(), [&](Value v) { return gradient_[v.index]; });
        const bool own = precision.gradient && gradient && all_.options().gradient != low_;
        if (own) attributes.set("dtype", all_.options().gradient);
        say(op, own ? fmt::format("bf16, its result {}: a gradient of parameters", name_of(all_.options().gradient))
                    : "bf16");
        emit(op, std::move(operands), attributes);
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
            operands[k] = as(operands[k], mixed && low && listed(precision.low_operands, k) ? low_ : high);
        emit(op, std::move(operands));
        if (mixed || precision.stays || !low) return;
        for (Value v : op.results)
            if (is_floating(now(v)) && out_.type(now(v)).rank() > 0) now_[v.index] = as(now(v), low_);
    }

    void say(const Op& op, const std::string& text) {
        all_.report().done(op.name, op.provenance.scope.empty() ? "@" + from_.name : op.provenance.scope, text);
    }

    // ---- calls and loops ----

    void place_call(const Op& op) {
        const bool loop = op.name == "repeat";
        const std::string attribute = loop ? "body" : "callee";
        Request request;
        request.carried = loop ? static_cast<std::size_t>(op.attributes.integer("carried")) : 0;
        for (Value v : op.operands) {
            request.dtypes.push_back(v ? out_.type(now(v)).dtype : high);
            request.masters.push_back(v && shadow_of_.contains(now(v)));
            request.of_parameters.push_back(v && of_parameters_[v.index]);
        }
        for (Value v : op.results) request.gradients.push_back(gradient_[v.index]);
        const Lowered* lowered = nullptr;
        for (bool again = true; again;) {  // a carried value is bf16 from the first layer on if a layer makes it that
            again = false;
            lowered = &all_.body(op.attributes.string(attribute), request);
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
            if (lowered->reads_shadow[k]) operands.push_back(shadow_of_.at(v));
            if (lowered->reads_master[k] && lowered->reads_shadow[k] && k < shared) ++per_layer;
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
            const bool shadow = shadows_[k] && read[shadows_[k].index];
            const bool master = !shadow || read[arguments_[k].index];
            lowered.reads_master.push_back(master);
            lowered.reads_shadow.push_back(shadow);
            if (master) out_.arguments.push_back(arguments_[k]);
            if (shadow) out_.arguments.push_back(shadows_[k]);
        }
        for (Value v : from_.results) lowered.of_parameters.push_back(of_parameters_[v.index]);
        compact_values(out_);
        lowered.function = std::move(out_);
        return lowered;
    }

    ModuleLowering& all_;
    const Function& from_;
    const Request request_;
    const DType low_;
    const Mask gradient_;
    Function out_;
    Builder b_;
    std::vector<Value> now_;                  // by old value
    Mask of_parameters_;                      // by old value: parameters reach it
    std::vector<Value> arguments_, shadows_;  // by argument
    std::map<Value, Value> shadow_of_;        // by new value: a parameter or a view of one
    std::map<std::pair<Value, DType>, Value> casts_;
    std::map<Value, std::size_t> defined_by_;
    std::size_t noted_ = 0;
};

const Lowered& ModuleLowering::body(const std::string& name, const Request& request) {
    const auto key = std::make_pair(name, request);
    if (const auto at = known_.find(key); at != known_.end()) return at->second;
    Lowered lowered = Lowering(*this, *module_.find(name), request).run();
    // Until it is known which versions are called.
    lowered.function.name = fmt::format("{}#{}", name, known_.size());
    return known_.emplace(key, std::move(lowered)).first->second;
}

// forward_backward: shadows stand behind its arguments.
Function ModuleLowering::entry(const Function& f) {
    Request request;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        const ArgInfo& info = f.argument_info[k];
        DType dtype = f.type(f.arguments[k]).dtype;
        const bool parameter = info.kind == ArgInfo::Kind::parameter && dtype == high;
        if (parameter && !options_.master) dtype = options_.compute;
        if (info.kind == ArgInfo::Kind::state && is_float(dtype)) dtype = options_.gradient;
        request.dtypes.push_back(dtype);
        request.masters.push_back(parameter && options_.master);
        request.of_parameters.push_back(parameter);
    }
    request.gradients.assign(f.results.size(), false);
    Lowered lowered = Lowering(*this, f, request).run();
    Function& out = lowered.function;
    // A master that nobody reads is an argument still: where it lies is where its gradient and its shadow lie.
    std::vector<Value> arguments, shadows;
    std::vector<ArgInfo> infos, shadow_infos;
    std::size_t at = 0;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        const ArgInfo& info = f.argument_info[k];
        arguments.push_back(
            lowered.reads_master[k]
                ? out.arguments[at++]
                : out.add_value(f.type(f.arguments[k]), unique_value_name(out, f.info(f.arguments[k]).name)));
        infos.push_back(info);
        if (!lowered.reads_shadow[k]) continue;
        shadows.push_back(out.arguments[at++]);
        shadow_infos.push_back(state_info(info, "shadow"));
    }
    arguments.insert(arguments.end(), shadows.begin(), shadows.end());
    infos.insert(infos.end(), shadow_infos.begin(), shadow_infos.end());
    shadows_read_ = !shadow_infos.empty();
    if (options_.master && !shadows_read_)
        report_.declined("lower_precision", "", "no product reads a parameter: there are no shadows");
    out.arguments = std::move(arguments);
    out.argument_info = std::move(infos);
    compact_values(out);
    return out;
}

// Parameters, gradients and states in their types; the optimizer writes the shadows.
Function ModuleLowering::update(const Function& f) {
    Function out = f;
    std::vector<std::size_t> parameters;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        const ArgInfo& info = f.argument_info[k];
        DType& dtype = out.info(out.arguments[k]).type.dtype;
        if (info.kind == ArgInfo::Kind::parameter) parameters.push_back(k);
        if (info.kind == ArgInfo::Kind::parameter && !options_.master) dtype = options_.compute;
        if (info.kind == ArgInfo::Kind::state)
            dtype = info.names.front().starts_with("grad.") ? options_.gradient : options_.optimizer;
    }
    std::vector<Op> ops = std::exchange(out.ops, {});
    Builder b(out);
    std::map<Value, Value> replaced;
    for (Op& op : ops) {
        for (Value& v : op.operands)
            if (const auto at = replaced.find(v); at != replaced.end()) v = at->second;
        const bool optimizer = op_def(op.name).result_names.size() > 1;  // adamw, sgd: parameters, then states
        if (optimizer && shadows_read_) op.attributes.set("shadows", true);
        const std::vector<Value> results = b.emit(op.name, op.operands, op.attributes);
        for (std::size_t r = 0; r < op.results.size(); ++r) {
            out.info(results[r]).name = out.info(op.results[r]).name;
            replaced[op.results[r]] = results[r];
        }
        for (std::size_t r = op.results.size(); r < results.size(); ++r) {
            const Value parameter = out.arguments[parameters[r - op.results.size()]];
            const std::string name = unique_value_name(out, "shadow_" + out.info(parameter).name);
            const Value shadow = out.add_argument(
                out.type(results[r]), name, state_info(out.argument_info[parameters[r - op.results.size()]], "shadow"));
            out.info(results[r]).name = out.info(shadow).name + "_after";
            out.results.push_back(results[r]);
            out.result_names.push_back(out.info(shadow).name);
        }
    }
    for (Value& v : out.results)
        if (const auto at = replaced.find(v); at != replaced.end()) v = at->second;
    compact_values(out);
    return out;
}

Module ModuleLowering::run() {
    Module out = module_;
    out.functions.clear();
    std::vector<Function> entries;
    for (const Function& f : module_.functions) {
        if (f.argument_info.empty()) continue;
        if (f.name == "forward_backward")
            entries.push_back(entry(f));
        else if (f.name == "update")
            entries.push_back(update(f));
        else
            entries.push_back(f);
    }
    out.functions = std::move(entries);
    // Bodies in the order in which they stood; what no call reaches was lowered on the way to a fixed point.
    const std::size_t entry_count = out.functions.size();
    for (const Function& f : module_.functions)
        for (const auto& [key, lowered] : known_)
            if (key.first == f.name) out.functions.push_back(lowered.function);
    remove_unreached_functions(out, entry_count);
    std::map<std::string, std::string> names;
    for (Function& f : out.functions) {
        const std::size_t mark = f.name.rfind('#');
        if (mark == std::string::npos) continue;
        const std::string versioned = std::exchange(f.name, "");
        names[versioned] = f.name = out.unique_function_name(versioned.substr(0, mark));
    }
    for (Function& f : out.functions)
        for (Op& op : f.ops)
            for (const char* attribute : {"callee", "body"})
                if (op.attributes.has(attribute))
                    op.attributes.set(attribute, names.at(op.attributes.string(attribute)));
    return out;
}

// Who asks for bf16 here and there, and has no step in bf16, thinks that there is one.
void expect_nothing_of_bf16(const PrecisionOptions& options) {
    std::vector<std::string> asked;
    if (!options.master) asked.push_back("--master none");
    if (options.gradient != high) asked.push_back(fmt::format("--grad-dtype {}", name_of(options.gradient)));
    if (options.optimizer != high) asked.push_back(fmt::format("--optim-dtype {}", name_of(options.optimizer)));
    if (asked.empty()) return;
    Diagnostic d;
    d.message = fmt::format("{} {} for a step in bf16, and this one is in f32", fmt::join(asked, " and "),
                            asked.size() == 1 ? "is" : "are");
    d.help = fmt::format("{} --dtype bf16, or leave {} out",
                         options.compute_given ? fmt::format("instead of --dtype {} give", name_of(options.compute))
                                               : std::string("add"),
                         asked.size() == 1 ? "it" : "them");
    throw UsageError(std::move(d));
}

}  // namespace

DType stored_dtype(const Module& module) {
    bool any = false, all = true;
    for (const ArgInfo& info : module.main().argument_info) {
        if (info.kind != ArgInfo::Kind::parameter) continue;
        for (const auto& source : info.sources) {
            if (source == nullptr || !is_float(source->type.dtype)) continue;
            any = true;
            all = all && source->bf16;
        }
    }
    return any && all ? DType::bf16 : DType::f32;
}

Module lower_precision(Module module, const PrecisionOptions& options, Report& report) {
    if (options.compute == DType::f32) {
        expect_nothing_of_bf16(options);
        return module;
    }
    check(module.find("forward_backward") != nullptr && module.find("update") != nullptr,
          "lower_precision needs the functions of a training step");
    return ModuleLowering(module, options, report).run();
}

}  // namespace thunderc

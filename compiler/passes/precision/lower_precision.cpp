// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/precision/lower_precision.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ir/op_def.h"
#include "compiler/passes/precision/lower_precision_function.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

class ModuleLowering {
  public:
    ModuleLowering(const Module& module, const PrecisionOptions& options, Report& report)
        : module_(module), options_(options), report_(report) {}

    Module run();

  private:
    const Lowered& body(const std::string& name, const Request& request);
    Lowered lower(const Function& f, const Request& request);
    Request entry_request(const Function& f) const;
    Function entry(const Function& f);
    bool frozen_in_low(const Function& f, const Lowered& lowered) const;
    Function update(const Function& f);

    const Module& module_;
    const PrecisionOptions& options_;
    Report& report_;
    std::map<std::pair<std::string, Request>, Lowered> known_;
    // What forward_backward decides, which stands before all else: whether it reads narrow copies, and whether frozen
    // parameters are held in the narrow type alone. What evaluate reads, it reads as well.
    bool narrow_copies_read_ = false, low_alone_ = false;
};

Lowered ModuleLowering::lower(const Function& f, const Request& request) {
    const auto called = [this](const std::string& name, const Request& r) -> const Lowered& { return body(name, r); };
    return lower_function(f, request, {module_, options_, report_, called});
}

// The body or callee of this name, lowered as asked; the module of the result has it.
const Lowered& ModuleLowering::body(const std::string& name, const Request& request) {
    const auto key = std::make_pair(name, request);
    if (const auto at = known_.find(key); at != known_.end()) return at->second;
    Lowered lowered = lower(*module_.find(name), request);
    // Until it is known which versions are called.
    lowered.function.name = fmt::format("{}#{}", name, known_.size());
    return known_.emplace(key, std::move(lowered)).first->second;
}

// Whether frozen parameters of which products read the narrow copy alone have no master. All or none: products take
// some of them side by side, and what lies so lies in one arena.
bool ModuleLowering::frozen_in_low(const Function& f, const Lowered& lowered) const {
    std::size_t held = 0;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        const ArgInfo& info = f.argument_info[k];
        if (info.trainable || !lowered.reads_narrow_copy[k]) continue;
        if (lowered.reads_master[k]) {
            report_.declined("lower_precision", info.names.front(),
                             fmt::format("f32 and {0} both: it is frozen, and read in both; so frozen parameters keep "
                                         "masters in f32 beside what products read",
                                         name_of(options_.compute)));
            return false;
        }
        held += info.names.size();
    }
    if (held > 0)
        report_.done("lower_precision", "",
                     fmt::format("{} frozen parameter{} held in {} alone", held, held == 1 ? " is" : "s are",
                                 name_of(options_.compute)));
    return true;
}

Request ModuleLowering::entry_request(const Function& f) const {
    Request request;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        const ArgInfo& info = f.argument_info[k];
        DType dtype = f.type(f.arguments[k]).dtype;
        const bool parameter = info.kind == ArgInfo::Kind::parameter && dtype == DType::f32;
        if (parameter && !options_.master) dtype = options_.compute;
        if (info.kind == ArgInfo::Kind::state && is_float(dtype)) dtype = options_.gradient;
        request.dtypes.push_back(dtype);
        request.masters.push_back(parameter && options_.master);
        request.of_parameters.push_back(parameter);
    }
    request.gradients.assign(f.results.size(), false);
    return request;
}

// forward_backward, or evaluate: narrow copies stand behind its arguments.
Function ModuleLowering::entry(const Function& f) {
    Request request = entry_request(f);
    if (options_.gathered && options_.master) {
        Report unheard;
        unheard.decisions = report_.decisions;
        const Lowered lowered = ModuleLowering(module_, options_, unheard).lower(f, request);
        for (std::size_t k = 0; k < f.arguments.size(); ++k) {
            if (!lowered.reads_narrow_copy[k] || !lowered.reads_master[k]) continue;
            request.masters[k] = false;
            report_.done("lower_precision", f.argument_info[k].names.front(),
                         fmt::format("gathered in f32, which other readers than products need, and rounded to {} in "
                                     "the step",
                                     name_of(options_.compute)));
        }
    }
    Lowered lowered = lower(f, request);
    Function& out = lowered.function;
    const bool trains = f.name == forward_backward_function;
    if (trains) low_alone_ = frozen_in_low(f, lowered);
    // A master that nobody reads is an argument still: where it lies is where its gradient and its narrow copy lie.
    std::vector<Value> arguments, narrow_copies;
    std::vector<ArgInfo> infos, narrow_copy_infos;
    std::size_t at = 0;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        const ArgInfo& info = f.argument_info[k];
        if (low_alone_ && !info.trainable && lowered.reads_narrow_copy[k]) {
            // Frozen: no optimizer needs more digits than products read.
            arguments.push_back(out.arguments[at++]);
            out.info(arguments.back()).name.clear();
            out.info(arguments.back()).name = unique_value_name(out, f.info(f.arguments[k]).name);
            infos.push_back(info);
            continue;
        }
        arguments.push_back(
            lowered.reads_master[k]
                ? out.arguments[at++]
                : out.add_value(f.type(f.arguments[k]), unique_value_name(out, f.info(f.arguments[k]).name)));
        infos.push_back(info);
        if (!lowered.reads_narrow_copy[k]) continue;
        narrow_copies.push_back(out.arguments[at++]);
        narrow_copy_infos.push_back(state_info(info, narrow_copy_state));
    }
    arguments.insert(arguments.end(), narrow_copies.begin(), narrow_copies.end());
    infos.insert(infos.end(), narrow_copy_infos.begin(), narrow_copy_infos.end());
    if (trains) narrow_copies_read_ = !narrow_copy_infos.empty();
    if (trains && options_.master && !narrow_copies_read_)
        report_.declined(
            "lower_precision", "",
            fmt::format("no product reads a parameter: there are no {} copies", name_of(options_.compute)));
    out.arguments = std::move(arguments);
    out.argument_info = std::move(infos);
    compact_values(out);
    return out;
}

// Parameters, gradients and states in their types; the optimizer writes the narrow copies.
Function ModuleLowering::update(const Function& f) {
    Function out = f;
    std::vector<std::size_t> parameters;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        const ArgInfo& info = f.argument_info[k];
        DType& dtype = out.info(out.arguments[k]).type.dtype;
        if (info.kind == ArgInfo::Kind::parameter) parameters.push_back(k);
        if (info.kind == ArgInfo::Kind::parameter && !options_.master) dtype = options_.compute;
        if (info.kind == ArgInfo::Kind::state && is_float(dtype))
            dtype = is_state(info, gradient_state) ? options_.gradient : options_.optimizer;
    }
    std::vector<Op> ops = std::exchange(out.ops, {});
    Builder b(out);
    std::map<Value, Value> replaced;
    for (Op& op : ops) {
        for (Value& v : op.operands)
            if (const auto at = replaced.find(v); at != replaced.end()) v = at->second;
        if (op_def(op.name).optimizer && narrow_copies_read_) op.attributes.set("narrow_copies", options_.compute);
        const std::vector<Value> results = b.emit(op.name, op.operands, op.attributes);
        for (std::size_t r = 0; r < op.results.size(); ++r) {
            out.info(results[r]).name = out.info(op.results[r]).name;
            replaced[op.results[r]] = results[r];
        }
        for (std::size_t r = op.results.size(); r < results.size(); ++r) {
            const Value parameter = out.arguments[parameters[r - op.results.size()]];
            const std::string name = unique_value_name(out, "narrow_copy_" + out.info(parameter).name);
            const Value narrow_copy =
                out.add_argument(out.type(results[r]), name,
                                 state_info(out.argument_info[parameters[r - op.results.size()]], narrow_copy_state));
            out.info(results[r]).name = out.info(narrow_copy).name + "_after";
            out.results.push_back(results[r]);
            out.result_names.push_back(out.info(narrow_copy).name);
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
        if (f.name == forward_backward_function || f.name == evaluate_function)
            entries.push_back(entry(f));
        else if (f.name == update_function)
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

// Who asks for a narrow type here and there, and has no step in it, thinks that there is one.
void expect_nothing_else(const PrecisionOptions& options) {
    std::vector<std::string> asked;
    DType of = DType::bf16;
    const auto ask = [&](const char* option, DType dtype) {
        if (!is_narrow(dtype) || dtype == options.compute) return;
        of = dtype;
        asked.push_back(fmt::format("{} {}", option, name_of(dtype)));
    };
    if (!options.master && !is_narrow(options.compute)) asked.emplace_back("--master none");
    ask("--grad-dtype", options.gradient);
    ask("--optim-dtype", options.optimizer);
    if (asked.empty()) return;
    Diagnostic d;
    d.message = fmt::format("{} {} for a step in {}, and this one is in {}", fmt::join(asked, " and "),
                            asked.size() == 1 ? "is" : "are", name_of(of), name_of(options.compute));
    d.help = fmt::format("{} --dtype {}, or leave {} out",
                         options.compute_given ? fmt::format("instead of --dtype {} give", name_of(options.compute))
                                               : std::string("add"),
                         name_of(of), asked.size() == 1 ? "it" : "them");
    throw UsageError(std::move(d));
}

// The optimizer's states are made of gradients that no scale of the loss multiplies any more, most of them of squares.
void warn_of_states(const Module& module, const PrecisionOptions& options, Report& report) {
    if (covers(options.optimizer, DType::f32) || rule_of(module).states.empty()) return;
    const DTypeRow& row = row_of(options.optimizer);
    const double least = std::ldexp(1.0, row.least_exponent - row.digits + 1);
    report.warning(fmt::format("--optim-dtype {}", row.name), "",
                   fmt::format("the optimizer's states are of gradients that are not scaled, and {} has no number "
                               "between 0 and {:.0e}: where a gradient is below {:.0e}, its square is 0, and a step "
                               "that is divided by a root of such squares is far too large; without it states are f32",
                               row.name, least, std::sqrt(least)));
}

}  // namespace

DType stored_dtype(const Module& module) {
    std::optional<DType> stored;
    for (const ArgInfo& info : module.main().argument_info) {
        if (info.kind != ArgInfo::Kind::parameter) continue;
        for (const auto& source : info.sources) {
            if (source == nullptr || !is_float(source->type.dtype)) continue;
            if (stored && *stored != source->stored) return DType::f32;
            stored = source->stored;
        }
    }
    return stored && row_of(*stored).as_exported ? *stored : DType::f32;
}

Module lower_precision(Module module, const PrecisionOptions& options, Report& report) {
    expect_nothing_else(options);
    if (!is_narrow(options.compute)) return module;
    check(module.find(forward_backward_function) != nullptr && module.find(update_function) != nullptr,
          "lower_precision needs the functions of a training step");
    warn_of_states(module, options, report);
    PrecisionOptions may = options;
    may.master = options.master ||
                 !report.may("parameters", "", fmt::format("{}, and no masters in f32", name_of(options.compute)));
    if (is_narrow(may.gradient) && !report.may("gradients", "", std::string(name_of(may.gradient))))
        may.gradient = DType::f32;
    if (is_narrow(may.optimizer) && !report.may("optimizer states", "", std::string(name_of(may.optimizer))))
        may.optimizer = DType::f32;
    return ModuleLowering(module, may, report).run();
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/check/precision_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "compiler/check/gradient_check.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/fp8.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

double epsilon_of(DType dtype) {
    return std::ldexp(1.0, 1 - row_of(dtype).digits);
}

double squared(double x) {
    return std::isfinite(x) ? x * x : 0;
}

double relative(double squares, double of) {
    return squares == 0 ? 0 : of == 0 ? std::numeric_limits<double>::infinity() : std::sqrt(squares / of);
}

// By itself: what kernels and calls behind them make of codes is compared with the same in double.
bool gives_codes(const Function& f, const Op& op) {
    if (!op.name.starts_with("fp8_quantise") && op.name != "fp8_requantise") return false;
    return std::any_of(op.results.begin(), op.results.end(), [&](Value v) { return is_quantised(f.type(v).dtype); });
}

DType narrowest(std::span<const Members> results) {
    DType out = DType::f64;
    for (const Members& result : results) {
        const DType dtype = result.at(0).type.dtype;
        if ((is_float(dtype) || is_quantised(dtype)) && row_of(dtype).digits < row_of(out).digits) out = dtype;
    }
    return out;
}

// Whether an op computes something that is rounded.
bool is_computed(const Function& f, const Op& op) {
    if (f.is_kernel() || runs_function(op) || is_constant_op(op) || arranges_members(op) || is_copy(op)) return false;
    if (is_kernel_call(op)) return true;
    const OpDef& def = op_def(op.name);
    return !def.view && !def.moves && !is_start(op) && !is_await(op);
}

// What a function gives in the place of its arguments, those of a kind alone.
Function only_states(const Function& from, std::string_view prefix) {
    Function out = from;
    out.results.clear();
    out.result_names.clear();
    for (std::size_t r = 0; r < from.results.size(); ++r)
        for (std::size_t k = 0; k < from.arguments.size(); ++k)
            if (from.info(from.arguments[k]).name == from.result_names[r] && is_state(from.argument_info[k], prefix)) {
                out.results.push_back(from.results[r]);
                out.result_names.push_back(from.result_names[r]);
            }
    remove_dead_ops(out);
    return out;
}

}  // namespace

void OpWatch::Sums::add(const Tensor& actual, const Tensor& in_double) {
    for (std::int64_t k = 0; k < actual.size(); ++k) {
        const double x = in_double.at(k), y = actual.at(k);
        const bool same = x == y || (std::isnan(x) && std::isnan(y));  // infinite, too
        if (!same && !(std::isfinite(x) && std::isfinite(y))) {
            off = std::numeric_limits<double>::infinity();
            continue;
        }
        exact += squared(x);
        off += same ? 0 : squared(x - y);
        off_once += squared(rounded_to(dtype, x) - x);
    }
}

EvaluateOptions OpWatch::options() {
    EvaluateOptions out;
    out.round_to_dtype = true;
    out.before = [this](const Function& f, const Op& op, std::span<const Members> operands) {
        if (is_computed(f, op)) operands_.assign(operands.begin(), operands.end());
    };
    out.observe = [this](const Function& f, const Op& op, std::span<const Members> results) {
        if (is_computed(f, op)) compare(f, op, results);
    };
    return out;
}

std::vector<OpError> OpWatch::errors() const {
    std::vector<OpError> out;
    for (const auto& [key, row] : rows_) {
        OpError worst;
        for (const Sums& sums : row.results) {
            OpError error{std::get<0>(key),
                          std::get<1>(key),
                          sums.dtype,
                          row.calls,
                          relative(sums.off, sums.exact),
                          relative(sums.off_once, sums.exact)};
            if (worst.calls == 0 || error.ratio() > worst.ratio()) worst = std::move(error);
        }
        if (worst.calls > 0) out.push_back(std::move(worst));
    }
    std::stable_sort(out.begin(), out.end(), [](const OpError& a, const OpError& b) {
        return std::pair(a.excess(), a.error) > std::pair(b.excess(), b.error);
    });
    return out;
}

// The op as a function of its operands, with what it names in the module.
std::vector<Members> OpWatch::in_double(const Function& f, const Op& op) const {
    Function alone;
    alone.name = "alone";
    Op copy = op;
    std::vector<Members> given;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
        if (!op.operands[k]) continue;
        copy.operands[k] = alone.add_argument(f.type(op.operands[k]), "x");
        given.push_back(operands_[k]);
    }
    for (std::size_t r = 0; r < op.results.size(); ++r) copy.results[r] = alone.add_value(f.type(op.results[r]), "y");
    alone.results = copy.results;
    alone.ops.push_back(std::move(copy));
    return evaluate(module_, alone, std::span<const Members>(given));
}

void OpWatch::compare(const Function& f, const Op& op, std::span<const Members> results) {
    const bool codes = gives_codes(f, op);
    const std::vector<Members> exact = codes ? fp8_in_double(op, operands_, results) : in_double(f, op);
    Row& row = rows_[{is_kernel_call(op) ? called_kernel(op) : op.name, op.provenance.scope,
                      codes ? std::string(name_of(op.attributes.dtype("dtype"))) : ""}];
    std::size_t at = 0;
    for (std::size_t r = 0; r < results.size(); ++r) {
        const DType dtype = results[r].at(0).type.dtype;
        if (!is_float(dtype) && !is_quantised(dtype)) continue;
        if (row.results.size() <= at) row.results.push_back({narrowest(results)});
        for (std::size_t m = 0; m < results[r].size(); ++m) row.results[at].add(results[r][m], exact[r].at(m));
        ++at;
    }
    ++row.calls;
}

bool StepResult::finite() const {
    return std::isfinite(loss) && std::all_of(gradients.begin(), gradients.end(), [](const auto& named) {
               const std::vector<double>& f = named.second.f;
               return std::all_of(f.begin(), f.end(), [](double x) { return std::isfinite(x); });
           });
}

double OpError::epsilon() const {
    return epsilon_of(dtype);
}

double OpError::ratio() const {
    return error / std::max(rounded_once, epsilon() / 8);
}

double OpError::excess() const {
    return error > rounded_once ? std::sqrt(error * error - rounded_once * rounded_once) : 0;
}

StepEvaluation::StepEvaluation(const Module& composed, const NamedTensors& tensors, bool rounds)
    : module_(composed), rounds_(rounds) {
    const std::string grad = state_name(gradient_state, ""), narrow_copy = state_name(narrow_copy_state, "");
    for (const Function& f : module_.functions)
        for (std::size_t k = 0; k < f.argument_info.size(); ++k) {
            const ArgInfo& info = f.argument_info[k];
            for (const std::string& name : info.names) {
                Tensor t(f.type(f.arguments[k]).member());
                const bool copy = is_state(info, narrow_copy_state);
                const auto at = tensors.find(copy ? name.substr(narrow_copy.size()) : name);
                if (at != tensors.end()) {
                    const Type type = t.type;
                    t = at->second;
                    t.type = type;
                } else if (is_state(info, scaling_state) && name.ends_with("_scale")) {
                    t.set(0, 1);  // before any amax is known
                }
                if (rounds_) round_to_dtype(t);
                values_.insert_or_assign(name, std::move(t));
            }
        }
}

void StepEvaluation::set_scalar(const std::string& name, double value) {
    if (const auto at = values_.find(name); at != values_.end()) at->second.set(0, value);
}

std::vector<Members> StepEvaluation::arguments_of(const Function& f) const {
    std::vector<Members> out;
    for (const ArgInfo& info : f.argument_info) {
        out.emplace_back();
        for (const std::string& name : info.names) out.back().push_back(values_.at(name));
    }
    return out;
}

void StepEvaluation::evaluate_and_keep(const Function& f, const EvaluateOptions& options) {
    const std::vector<Members> arguments = arguments_of(f);
    const std::vector<Members> results = evaluate(module_, f, std::span<const Members>(arguments), options);
    for (std::size_t r = 0; r < results.size(); ++r) {
        // A result is named after the argument's value that it replaces, or after a scalar.
        std::vector<std::string> names = {f.result_names.at(r)};
        for (std::size_t k = 0; k < f.arguments.size(); ++k)
            if (f.info(f.arguments[k]).name == f.result_names[r]) names = f.argument_info[k].names;
        for (std::size_t m = 0; m < names.size(); ++m) values_.insert_or_assign(names[m], results[r].at(m));
    }
}

StepResult StepEvaluation::run(double loss_scale, const EvaluateOptions& options) {
    const LossForm form = loss_form(module_);
    EvaluateOptions plain;
    plain.round_to_dtype = rounds_;
    for (const std::string& weight : form.weights) set_scalar(weight, 0);
    if (form.kind != LossForm::Kind::average) evaluate_and_keep(*module_.find(loss_weight_function), plain);
    std::vector<double> weights;
    for (const std::string& weight : form.weights) weights.push_back(values_.at(weight).at(0));
    const double divisor = loss_divisor(form, weights, 1);
    set_scalar("dloss", loss_scale / divisor);
    set_scalar("loss_sum", 0);
    set_scalar("first_micro_step", 1);
    evaluate_and_keep(*module_.find(forward_backward_function), options);
    StepResult out;
    out.loss = values_.at("loss_sum").at(0) / divisor;
    const std::string prefix = state_name(gradient_state, "");
    for (const auto& [name, value] : values_) {
        if (!name.starts_with(prefix)) continue;
        Tensor gradient = value;
        for (double& x : gradient.f) x /= loss_scale;
        out.gradients.emplace(name.substr(prefix.size()), std::move(gradient));
    }
    return out;
}

StepResult StepEvaluation::run(double loss_scale) {
    EvaluateOptions plain;
    plain.round_to_dtype = rounds_;
    return run(loss_scale, plain);
}

StepResult StepEvaluation::run(double loss_scale, OpWatch& watch) {
    check(rounds_, "what an op is off by, where nothing is rounded");
    return run(loss_scale, watch.options());
}

bool StepEvaluation::has_scales() const {
    const std::string prefix = state_name(scaling_state, "");
    return std::any_of(values_.begin(), values_.end(),
                       [&](const auto& named) { return named.first.starts_with(prefix); });
}

void StepEvaluation::update_scales() {
    const Function* update = module_.find(update_function);
    if (update == nullptr) return;
    EvaluateOptions plain;
    plain.round_to_dtype = rounds_;
    const Function scales = only_states(*update, scaling_state);
    if (!scales.results.empty()) evaluate_and_keep(scales, plain);
}

StepError step_error(const StepResult& actual, const StepResult& exact) {
    constexpr double nothing = 1e-12;  // of all gradients: fp64 has 16 digits
    StepError out;
    out.loss = relative(std::pow(actual.loss - exact.loss, 2), exact.loss * exact.loss);
    double all_off = 0, all = 0;
    std::map<std::string, std::pair<double, double>> squares;
    for (const auto& [name, expected] : exact.gradients) {
        const auto at = actual.gradients.find(name);
        check(at != actual.gradients.end(), "there is no gradient of " + name);
        auto& [off, size] = squares[name];
        for (std::int64_t k = 0; k < expected.size(); ++k) {
            off += std::pow(at->second.at(k) - expected.at(k), 2);
            size += std::pow(expected.at(k), 2);
        }
        all_off += off;
        all += size;
    }
    // A number that is none is as far off as can be.
    const auto error = [](double off, double of) {
        return std::isfinite(off) ? relative(off, of) : std::numeric_limits<double>::infinity();
    };
    for (const auto& [name, pair] : squares)
        if (std::sqrt(pair.second) > nothing * std::sqrt(all)) out.parameters[name] = error(pair.first, pair.second);
    out.loss = std::isfinite(actual.loss) ? out.loss : std::numeric_limits<double>::infinity();
    out.gradients = error(all_off, all);
    return out;
}

double PrecisionReport::Measure::ratio() const {
    return error == 0 ? 0 : error / counted();
}

double PrecisionReport::Measure::counted() const {
    return std::max(yardstick, least);
}

namespace {

// Mixed, so that runs of neighbouring seeds have no batch in common.
std::uint64_t seed_of_batch(std::uint64_t seed, std::int64_t batch) {
    std::seed_seq mixed{seed & 0xffffffffU, seed >> 32, static_cast<std::uint64_t>(batch)};
    std::array<std::uint32_t, 2> words{};
    mixed.generate(words.begin(), words.end());
    return std::uint64_t{words[1]} << 32 | words[0];
}

// Parameters and inputs as a program is given them: in f32.
NamedTensors random_tensors(const Function& main, std::uint64_t seed) {
    NamedTensors out;
    const std::vector<Members> drawn = random_arguments(main, seed);
    for (std::size_t k = 0; k < drawn.size(); ++k) {
        const ArgInfo& info = main.argument_info[k];
        if (info.kind == ArgInfo::Kind::state || info.kind == ArgInfo::Kind::scalar) continue;
        for (std::size_t m = 0; m < info.names.size(); ++m) {
            Tensor t = drawn[k].at(m);
            round_to_dtype(t);
            out.insert_or_assign(info.names[m], std::move(t));
        }
    }
    return out;
}

// The largest power of two up to torch.amp.GradScaler's first one with which the step has no overflow; 1 where it has
// one with any, and where `low` has f32's range.
double largest_scale(StepEvaluation& step, DType low) {
    if (covers(low, DType::f32)) return 1;
    double scale = 0x1p16;
    while (scale > 1 && !step.run(scale).finite()) scale /= 2;
    return scale;
}

// The type with the fewest digits of those that a program computes with.
DType coarsest(const Module& program, DType low) {
    DType out = low;
    for (const Function& f : program.functions)
        for (const ValueInfo& info : f.values)
            if (is_quantised(info.type.dtype) && row_of(info.type.dtype).digits > row_of(DType::e5m2).digits)
                out = info.type.dtype;
    return out;
}

// Root mean squares over batches.
struct Squares {
    double loss = 0, gradients = 0;
    std::map<std::string, std::pair<double, std::int64_t>> parameters;

    void add(const StepError& e) {
        loss += e.loss * e.loss;
        gradients += e.gradients * e.gradients;
        for (const auto& [name, error] : e.parameters) {
            parameters[name].first += error * error;
            ++parameters[name].second;
        }
    }
};

}  // namespace

PrecisionReport compare_precision(const Module& composed, const Module& program, const Module& yardstick, DType low,
                                  std::uint64_t seed, std::int64_t batches) {
    PrecisionReport out;
    OpWatch watch(program);
    Squares ours, theirs;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
        const NamedTensors tensors = random_tensors(composed.main(), seed_of_batch(seed, batch));
        const StepResult exact = StepEvaluation(composed, tensors, false).run();
        if (!exact.finite())
            fail("the loss or a gradient is no number in double precision: there is nothing to compare with",
                 "inputs of another --seed may give one");
        StepEvaluation step(program, tensors, true), other(yardstick, tensors, true);
        if (step.has_scales()) {  // a step before, which they follow from
            step.run();
            step.update_scales();
        }
        const double scale = largest_scale(step, low);
        if (batch == 0 || scale < out.loss_scale) out.loss_scale = scale;
        ours.add(step_error(step.run(scale, watch), exact));
        theirs.add(step_error(other.run(largest_scale(other, low)), exact));
    }
    if (!std::isfinite(theirs.loss) || !std::isfinite(theirs.gradients))
        fail(fmt::format(
                 "a loss or a gradient of this step is larger than {} can hold, with PyTorch's roundings as well",
                 name_of(low)),
             "there is nothing to compare with: inputs of another --seed may be smaller, and bf16 has f32's range");
    out.ops = watch.errors();
    const double least = epsilon_of(coarsest(program, low)) / 16;
    const auto measure = [&](std::string name, double a, double b, std::int64_t count) {
        const auto n = static_cast<double>(count);
        return PrecisionReport::Measure{std::move(name), std::sqrt(a / n), std::sqrt(b / n), least};
    };
    out.loss = measure("loss", ours.loss, theirs.loss, batches);
    out.gradients = measure("all gradients", ours.gradients, theirs.gradients, batches);
    for (const auto& [name, pair] : ours.parameters)
        out.parameters.push_back(measure(name, pair.first, theirs.parameters.at(name).first, pair.second));
    std::stable_sort(out.parameters.begin(), out.parameters.end(),
                     [](const auto& a, const auto& b) { return a.ratio() > b.ratio(); });
    return out;
}

}  // namespace thunderc

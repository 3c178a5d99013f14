// SPDX-License-Identifier: Apache-2.0
#include "cli/verify_precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "compiler/check/autocast.h"
#include "compiler/check/autocast_fp8.h"
#include "compiler/check/precision_check.h"
#include "compiler/cost_model/step_costs.h"
#include "compiler/ir/dtype.h"
#include "compiler/support/error.h"
#include "compiler/user_functions/user_functions.h"
#include "support/json.h"

namespace thunderc {
namespace {

// Products of all evaluations; the evaluator does some 3e8 a second.
constexpr double most_flops = 1e12;

std::string quoted(const std::string& text) {
    return thunder::json_quote(text);
}

// JSON has no infinity.
std::string number(double x) {
    return std::isfinite(x) ? fmt::format("{:.6g}", x) : "null";
}

std::string json_of(const PrecisionReport& report, const ModelOptions& model, const PrecisionChoices& choices,
                    const std::string& wrong) {
    std::string out = fmt::format("{{\n  \"dtype\": {},\n  \"fp8\": {},\n  \"batches\": {},\n  \"ops\": [",
                                  quoted(std::string(model.compile.dtype)), quoted(model.compile.fp8), choices.batches);
    const char* separator = "\n";
    for (const OpError& e : report.ops) {
        out += fmt::format(
            "{}    {{\"op\": {}, \"where\": {}, \"calls\": {}, \"dtype\": {}, \"error\": {}, \"epsilons\": {}, "
            "\"rounded_once\": {}, \"ratio\": {}}}",
            std::exchange(separator, ",\n"), quoted(e.op), quoted(e.where), e.calls,
            quoted(std::string(name_of(e.dtype))), number(e.error), number(e.error / e.epsilon()),
            number(e.rounded_once), number(e.ratio()));
    }
    const auto measure = [](const PrecisionReport::Measure& m) {
        return fmt::format("\"error\": {}, \"pytorch\": {}, \"counted_as\": {}, \"ratio\": {}", number(m.error),
                           number(m.yardstick), number(m.counted()), number(m.ratio()));
    };
    out += fmt::format("\n  ],\n  \"loss\": {{{}}},\n  \"gradients\": {{{}}},\n  \"parameters\": [",
                       measure(report.loss), measure(report.gradients));
    separator = "\n";
    for (const PrecisionReport::Measure& m : report.parameters)
        out += fmt::format("{}    {{\"name\": {}, {}}}", std::exchange(separator, ",\n"), quoted(m.name), measure(m));
    return out + fmt::format("\n  ],\n  \"factor\": {},\n  \"passes\": {}\n}}\n", number(choices.factor),
                             wrong.empty() ? "true" : "false");
}

std::string where_text(const OpError& e) {
    return e.where.empty() ? "the model itself" : e.where;
}

void print_ops(const PrecisionReport& report, const PrecisionChoices& choices) {
    std::vector<const OpError*> rows;
    std::size_t op_width = 2, where_width = 5, exact = 0, more = 0;
    double next = 0;
    for (const OpError& e : report.ops) {
        if (e.error == 0) {
            ++exact;
        } else if (rows.size() < static_cast<std::size_t>(choices.rows)) {
            rows.push_back(&e);
            op_width = std::max(op_width, e.op.size());
            where_width = std::max(where_width, where_text(e).size());
        } else {
            next = std::max(next, e.ratio());
            ++more;
        }
    }
    fmt::print("{:<{}}  {:<{}}  {:>5}  {:>5}  {:>8}  {:>8}  {:>12}  {:>7}\n", "op", op_width, "where", where_width,
               "calls", "type", "error", "epsilons", "rounded once", "ratio");
    for (const OpError* e : rows)
        fmt::print("{:<{}}  {:<{}}  {:>5}  {:>5}  {:>8.1e}  {:>8.3g}  {:>12.1e}  {:>7.3g}\n", e->op, op_width,
                   where_text(*e), where_width, e->calls, name_of(e->dtype), e->error, e->error / e->epsilon(),
                   e->rounded_once, e->ratio());
    if (more > 0) fmt::print("and {} more, of a ratio of {:.3g} at most (--rows)\n", more, next);
    if (exact > 0) fmt::print("and {} that lose nothing\n", exact);
}

void print_step(const PrecisionReport& report, const PrecisionChoices& choices) {
    std::size_t width = 13;
    std::vector<const PrecisionReport::Measure*> rows = {&report.loss, &report.gradients};
    for (const PrecisionReport::Measure& m : report.parameters)
        if (rows.size() < static_cast<std::size_t>(choices.rows) + 2) rows.push_back(&m);
    for (const PrecisionReport::Measure* m : rows) width = std::max(width, m->name.size());
    fmt::print("\n{:<{}}  {:>8}  {:>8}  {:>6}\n", "since the batch", width, "error", "PyTorch", "ratio");
    bool floored = false;
    for (const PrecisionReport::Measure* m : rows) {
        const bool least = m->yardstick < m->least;
        floored = floored || least;
        fmt::print("{:<{}}  {:>8.1e}  {:>8.1e}  {:>6.3g}{}\n", m->name, width, m->error, m->yardstick, m->ratio(),
                   least ? " *" : "");
    }
    if (floored)
        fmt::print("* PyTorch's counts as {:.1e}, a sixteenth of an epsilon: less is luck\n", report.loss.least);
    const std::size_t left = report.parameters.size() + 2 - rows.size();
    if (left > 0) fmt::print("and {} gradient{} more, of smaller ratios (--rows)\n", left, left == 1 ? "" : "s");
    const auto far = std::count_if(report.parameters.begin(), report.parameters.end(),
                                   [&](const PrecisionReport::Measure& m) { return m.ratio() > choices.factor; });
    if (far > 0)
        fmt::print(
            "{} gradient{} by itself more than {:.3g} times as far off: a single one is not judged, which may be a "
            "small "
            "part of its terms\n",
            far, far == 1 ? " is" : "s are each", choices.factor);
}

// What of the whole step is further off than it may be; "" where nothing is.
std::string what_is_wrong(const PrecisionReport& report, double factor) {
    for (const PrecisionReport::Measure* m : {&report.gradients, &report.loss})
        if (!(m->ratio() <= factor))
            return fmt::format("{} {:.1e} off, {:.3g} times the {:.1e} that PyTorch's roundings leave, {:.3g} at most",
                               m->name, m->error, m->ratio(), m->yardstick, factor);
    return "";
}

// Where to look, if the program is too far off.
std::string what_to_do(const PrecisionReport& report) {
    constexpr double large = 2;  // a binary digit beyond one rounding
    const OpError* worst = nullptr;
    for (const OpError& e : report.ops)
        if (e.error > 0 && (worst == nullptr || e.ratio() > worst->ratio())) worst = &e;
    const std::string more = "more --batches tell luck apart, and a larger --factor lets it pass";
    if (worst != nullptr && !(worst->ratio() <= large))
        return fmt::format("{} in {}, of a ratio of {:.3g}, is where to look; {}", worst->op, where_text(*worst),
                           worst->ratio(), more);
    return fmt::format(
        "no op by itself is more than {:.3g} times as far off as one rounding is: it is which values are rounded, or "
        "luck; {}",
        large, more);
}

}  // namespace

PrecisionSteps precision_steps(ModelOptions model, const PrecisionChoices& choices) {
    model.compile.calls_user_functions = false;  // what is evaluated is what their patterns say
    // An op is evaluated as one, which rounds its results: the head, its loss and their gradients are to be seen apart.
    model.compile.logits_chunk = "whole";
    PrecisionSteps out;
    ModelOptions plain = model;
    plain.silent = true;
    plain.compile.roll = false;
    plain.compile.fp8.clear();
    PassOptions without;
    without.disabled = passes_beyond_pytorch();
    const Module forward = compile(plain, without, "forget_statistics").module;
    if (const std::vector<const UserFunction*> unknown = user_functions_of(forward); !unknown.empty())
        fail(fmt::format("{}, {}: there is no pattern, so that there is nothing to evaluate it by in other types",
                         unknown.front()->file, unknown.front()->name),
             "give \"pattern\", a file of text IR that says what it computes, or leave --dtype away");
    // Forward and backward; of each batch the step in fp64, in the program's types with each op once more, in torch's.
    const double flops = 3 * 4 * static_cast<double>(choices.batches) * product_flops(forward, false);
    if (flops > most_flops)
        fail(
            fmt::format(
                "verify --dtype evaluates each op by plain loops in double: {:.1e} operations of products here, "
                "{:.0e} at most",
                flops, most_flops),
            "make it smaller with --batch, --seq and --dim, or with fewer --batches; where the model itself is larger, "
            "export one of fewer layers and narrower ones: rounding is the same");
    out.yardstick = autocast_step(forward, parse_dtype(model.compile.dtype).value(), model.compile.optimizer);
    PassOptions keep;
    keep.after = [&](const Module& m, const PassRun& pass) {
        if (pass.name == "simplify_step") out.composed = m;
    };
    out.program = compile(model, keep, "name_results").module;
    if (!model.compile.fp8.empty())
        out.yardstick =
            quantise_like_pytorch(std::move(out.yardstick), fp8_modules(out.program), model.compile.fp8_wgrad == "fp8");
    return out;
}

void verify_precision(const PrecisionSteps& steps, const ModelOptions& model, const PrecisionChoices& choices) {
    const DType low = parse_dtype(model.compile.dtype).value();
    const PrecisionReport report =
        compare_precision(steps.composed, steps.program, steps.yardstick, low, choices.seed, choices.batches);
    const std::string wrong = what_is_wrong(report, choices.factor);
    if (choices.json) {
        fmt::print("{}", json_of(report, model, choices, wrong));
    } else {
        fmt::print("what {}{} costs, beside fp64, over {} random batch{} with weights of their own\n\n", name_of(low),
                   model.compile.fp8.empty() ? "" : " with --fp8 " + model.compile.fp8, choices.batches,
                   choices.batches == 1 ? "" : "es");
        print_ops(report, choices);
        print_step(report, choices);
    }
    if (!wrong.empty()) {
        Diagnostic d;
        d.message = "the program loses more by rounding than PyTorch would: " + wrong;
        d.help = what_to_do(report);
        throw UserError(std::move(d));
    }
    if (choices.json) return;
    // What is above three quarters of what passes may fail with another seed.
    const bool close = std::max(report.gradients.ratio(), report.loss.ratio()) > 0.75 * choices.factor;
    fmt::print(
        "\nthe gradients are {:.3g} times as far from fp64 as by PyTorch's roundings, the loss {:.3g} times: "
        "{:.3g} times passes{}\n",
        report.gradients.ratio(), report.loss.ratio(), choices.factor,
        close ? ", and this is close: more --batches tell luck apart" : "");
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// thunderc verify: the loss that a program will compute against its definition, and its gradients against differences
// of the loss, in fp64; and functions that the user brings, in a program that calls them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/own_test.h"
#include "cli/training_program.h"
#include "cli/verify_precision.h"
#include "compiler/check/gradient_check.h"
#include "compiler/check/loss_check.h"
#include "compiler/ir/function_tools.h"
#include "compiler/passes/autodiff/remove_stops.h"
#include "compiler/passes/step/compose_step.h"
#include "compiler/support/error.h"
#include "compiler/user_functions/user_functions.h"

namespace thunderc {
namespace {

struct VerifyOptions {
    ModelOptions model;
    GradientCheckOptions check;
    double tolerance = 1e-6;
    bool no_program = false;             // functions of --user-executor are not run
    std::vector<std::string> for_cmake;  // of the program that calls them
    PrecisionChoices precision;
    std::string about_types;  // an option of these that is given; "" where none is
};

// All checks of one parameter, or of one direction through all of them.
struct Row {
    std::string name;
    std::vector<GradientCheck> checks;

    const GradientCheck& worst() const {
        // A gradient that is no number is worse than any other.
        return *std::max_element(checks.begin(), checks.end(), [](const GradientCheck& a, const GradientCheck& b) {
            return !std::isnan(a.error) && (std::isnan(b.error) || a.error < b.error);
        });
    }
};

// In the order of the checks; the elements of a parameter ("w[3]") make one row.
std::vector<Row> rows_of(const std::vector<GradientCheck>& checks) {
    std::vector<Row> rows;
    std::map<std::string, std::size_t> by_name;
    for (const GradientCheck& c : checks) {
        const std::string name = c.what.substr(0, c.what.rfind('['));
        auto [found, fresh] = by_name.try_emplace(name, rows.size());
        if (fresh) rows.push_back({name, {}});
        rows[found->second].checks.push_back(c);
    }
    return rows;
}

Module step_of(const VerifyOptions& o, Module differentiated) {
    Report unheard;
    return compose_step(remove_stops(std::move(differentiated), unheard), StepOptions{o.model.compile.optimizer},
                        unheard);
}

// "my.json, snake"
std::string named(const UserFunction& f) {
    return fmt::format("{}, {}", f.file, f.name);
}

// The functions that the program would call are run in it, beside what they are to compute.
void verify_functions(VerifyOptions o) {
    o.model.silent = true;
    DeviceOptions device;
    device.devices = {"cpu"};
    const TrainingProgram program = training_program(o.model, device, {}, false);
    const std::vector<const UserFunction*> called = user_functions_of(program.compiled.module);
    if (called.empty()) return;
    std::string names;
    for (const UserFunction* f : called) names += (names.empty() ? "" : ", ") + f->name;
    fmt::print(stderr, "building a program that calls {}, and running its own test\n", names);
    std::fflush(stderr);
    fmt::print("\nfunctions: {}, in a program of their own\n{}", names, run_own_test(program, o.for_cmake));
}

// The functions that nobody says of what they compute: then there is nothing to evaluate.
bool says_unknown(const VerifyOptions& o, const Module& module) {
    const std::vector<const UserFunction*> unknown = user_functions_of(module);
    if (unknown.empty()) return false;
    const std::string why =
        fmt::format("{}: there is no pattern{}, so that there is nothing to evaluate it by", named(*unknown.front()),
                    unknown.front()->pattern.empty() ? "" : " for the attributes that a node of the model has");
    if (o.no_program) {
        Diagnostic d;
        d.message = why;
        d.help =
            "give \"pattern\", a file of text IR that says what it computes; without one the program's own test holds "
            "its gradients against differences: leave --no-program away";
        throw UserError(std::move(d));
    }
    fmt::print("{}: the model is not evaluated in double precision\n", why);
    return true;
}

// In fp64, with patterns in the place of the user's functions.
int verify_model(VerifyOptions o) {
    o.model.compile.calls_user_functions = false;  // what is evaluated is what their patterns say
    if (o.check.directions == 0 && o.check.elements == 0) {
        Diagnostic d;
        d.message = "--directions 0 and --elements 0 leave nothing to compare";
        d.help = "leave one of the two out";
        throw UsageError(std::move(d));
    }
    Module graph, before_loss;  // as it was imported, with the framework's names; as add_loss is given it
    PassOptions keep;
    keep.after = [&](const Module& m, const PassRun& pass) {
        if (pass.name == "simplify") graph = m;
        if (pass.name == "raise_poles") before_loss = outputs_alone(m);
    };
    const Module module = compile(o.model, keep, "differentiate").module;
    if (says_unknown(o, module)) return 0;
    const std::vector<Members> arguments = random_arguments(module.main(), o.check.seed);
    const std::vector<Row> rows = rows_of(check_gradients(module, arguments, o.check));
    // What is 0 whatever its rule is has not been compared.
    const bool nothing = std::all_of(rows.begin(), rows.end(), [](const Row& row) {
        return std::all_of(row.checks.begin(), row.checks.end(),
                           [](const GradientCheck& c) { return c.actual == 0 && c.expected == 0; });
    });
    LossCheck loss;
    std::string alone;  // why one micro-batch is compared by itself
    if (!nothing) {
        const ChosenLoss chosen = choose_loss(before_loss, o.model.compile.loss);
        std::optional<Module> joined;
        const std::int64_t rows = o.model.compile.batch;
        if (chosen.has_own() && chosen.whole && rows > 0)
            joined = compile_with_batch(o.model, checked_micro_batches * rows, "simplify");
        if (chosen.has_own() && !joined)
            alone = chosen.whole ? "that of several is not compared, since the graph's batch is not bound by --batch"
                                 : "that of several is no loss of one larger batch, as the warning or the report of "
                                   "thunderc inspect says";
        // What is drawn is no part of the loss: both sides take what it is on average.
        ModelOptions without = o.model;
        without.compile.draws = false;
        without.silent = true;
        const bool drops = std::any_of(module.main().argument_info.begin(), module.main().argument_info.end(),
                                       [](const ArgInfo& info) { return info.source == sample_numbers_source; });
        loss = check_loss(graph, joined ? &*joined : nullptr, chosen,
                          step_of(o, drops ? compile(without, {}, "differentiate").module : module), o.check.seed);
    }
    const bool loss_ok = loss.error <= o.tolerance;
    if (!nothing)
        fmt::print("loss: {}, over {} micro-batch{}: error {:.1e}, {:.8e} by the step, {:.8e} by definition{}\n\n",
                   loss.what, loss.micro_batches, loss.micro_batches == 1 ? "" : "es", loss.error, loss.actual,
                   loss.expected, loss_ok ? "" : "  wrong");
    if (const auto dtype = parse_dtype(o.model.compile.dtype); dtype && is_narrow(*dtype))
        fmt::print("this is compared in fp64: what --dtype {} rounds comes below\n\n", name_of(*dtype));
    std::size_t width = 9, failed = 0;
    for (const Row& row : rows) width = std::max(width, row.name.size());
    fmt::print("{:<{}}  {:>9}  {:>9}  {:>15}  {:>15}\n", "gradient", width, "compared", "error", "by gradients",
               "by differences");
    for (const Row& row : rows) {
        const GradientCheck& worst = row.worst();
        const bool ok = worst.error <= o.tolerance;
        failed += ok ? 0 : 1;
        fmt::print("{:<{}}  {:>9}  {:>9.1e}  {:>15.8e}  {:>15.8e}{}\n", row.name, width, row.checks.size(), worst.error,
                   worst.actual, worst.expected,
                   !ok          ? fmt::format("  wrong, at {}", worst.what)
                   : worst.kink ? "  between the slopes of a kink"
                                : "");
    }
    if (!loss_ok) {
        Diagnostic d;
        d.message = fmt::format("the step's loss is not what it is by definition within {:.0e}", o.tolerance);
        if (failed > 0)
            d.message += fmt::format(", and {} of {} gradients do not agree with differences of the loss within {:.0e}",
                                     failed, rows.size(), o.tolerance);
        d.expected = fmt::format("{}, {:.8e} by definition", loss.what, loss.expected);
        d.actual = fmt::format("{:.8e}", loss.actual);
        d.help =
            "where it is no number, inputs of another --seed may give one; else a program would train on another loss "
            "than the model's: please report it";
        throw UserError(std::move(d));
    }
    if (nothing) {
        Diagnostic d;
        d.message = "nothing has been compared: all gradients and all differences are 0";
        d.help =
            "no change of a parameter changes the loss; where that is so at these random inputs alone, use another "
            "--seed";
        throw UserError(std::move(d));
    }
    if (failed == 0) {
        fmt::print("the loss{} agrees with its definition, {} gradients agree with differences within {:.0e}\n",
                   alone.empty() ? "" : " of one micro-batch", rows.size(), o.tolerance);
        if (!alone.empty()) fmt::print("{}\n", alone);
        return 0;
    }
    Diagnostic d;
    d.message = fmt::format("{} of {} gradients do not agree with differences of the loss within {:.0e}", failed,
                            rows.size(), o.tolerance);
    d.help =
        "where the loss jumps (comparisons, rounding, an index that is computed) another --seed may avoid it; else the "
        "rule of an op is wrong: please report it";
    throw UserError(std::move(d));
}

// Options that say how it is told what types cost, without types.
void require_dtype(const VerifyOptions& o) {
    if (o.model.compile.dtype != "auto" || o.about_types.empty()) return;
    Diagnostic d;
    d.message = o.about_types + " is about what the types of a program cost, and none is given";
    d.help = fmt::format("add --dtype bf16{}, or leave it away", o.model.compile.fp8.empty() ? ", f16 or f32" : "");
    throw UsageError(std::move(d));
}

// --master, --grad-dtype and --optim-dtype are refused by a pass behind what is evaluated in fp64.
void require_fitting_types(ModelOptions model) {
    const CompileOptions &c = model.compile, defaults;
    if (c.dtype != "auto" ||
        (c.master == defaults.master && c.grad_dtype == defaults.grad_dtype && c.optim_dtype == defaults.optim_dtype))
        return;
    model.silent = true;
    model.compile.calls_user_functions = false;
    compile_until(model, "lower_precision");
}

int verify_command(VerifyOptions o) {
    o.model.finish();
    require_dtype(o);
    require_fitting_types(o.model);
    const bool types = o.model.compile.dtype != "auto";
    // As JSON the types' cost alone; and where nothing else is asked for.
    const bool types_alone = o.precision.json || (types && o.check.directions == 0 && o.check.elements == 0);
    o.precision.seed = o.check.seed;
    std::optional<PrecisionSteps> steps;
    if (types) {  // first: what is wrong with the options is said before anything is evaluated
        ModelOptions model = o.model;
        model.silent = !types_alone;  // else warnings come with what is compared in fp64
        steps = precision_steps(std::move(model), o.precision);
    }
    const int status = types_alone ? 0 : verify_model(o);
    if (steps) {
        if (!types_alone) fmt::print("\n");
        verify_precision(*steps, o.model, o.precision);
    }
    if (status == 0 && !o.no_program && !o.precision.json && !o.model.user_executors.empty()) verify_functions(o);
    return status;
}

}  // namespace

void add_verify(CLI::App& app, Action& action) {
    auto o = std::make_shared<VerifyOptions>();
    CLI::App* sub =
        app.add_subcommand("verify",
                           "check the loss of a model's step against its definition, and its gradients against finite "
                           "differences of it, in double precision");
    sub->footer(
        "The loss of a step of three micro-batches is compared with the graph's own, as it was imported, of all their\n"
        "rows (of one micro-batch, where --batch binds no dimension or the loss is averaged), or, where --loss adds "
        "it,\n"
        "with its definition over the graph's results. Every trainable parameter's gradient is checked\n"
        "at a few random elements, and all of them together along random directions; weights and inputs are random.\n"
        "Exit status 1 where the loss or a gradient is wrong. For a large model choose a small --batch and --seq.\n\n"
        "With --user-executor the program that calls the functions is built as well, with CMake in a temporary "
        "folder,\n"
        "and its own test is run: what the functions compute is held against their patterns, or against the bodies\n"
        "that the model has for them, and where there is neither their gradients against differences.\n\n"
        "With --dtype what rounding costs is said as well: of each op by itself, beside fp64 of the same operands, "
        "and\n"
        "of the loss and the gradients, beside what torch.autocast's casts would leave of them. --directions 0\n"
        "--elements 0 asks for that alone.\n\n"
        "  thunderc verify model.onnx --batch 1 --seq 16\n"
        "  thunderc verify model.onnx --batch 1 --seq 16 --dtype bf16");
    o->model.add_to(*sub);
    sub->add_option("--seed", o->check.seed, "of weights, inputs and what is compared")
        ->check(at_least(0))
        ->capture_default_str();
    sub->add_option("--directions", o->check.directions, "random directions through all parameters")
        ->check(at_least(0))
        ->capture_default_str();
    sub->add_option("--elements", o->check.elements, "random elements of each parameter, at most all of them")
        ->check(at_least(0))
        ->capture_default_str();
    sub->add_option("--tolerance", o->tolerance, "the largest relative error that passes")
        ->check(positive_number())
        ->capture_default_str();
    sub->add_flag("--no-program", o->no_program,
                  "evaluate alone: build no program where functions of --user-executor are called");
    sub->add_option("--cmake", o->for_cmake,
                    "an argument for CMake, where that program is configured: --cmake=-DTHUNDERC_CPU=x86-64-v3; may be "
                    "repeated")
        ->type_name("ARG")
        ->allow_extra_args(false);
    sub->add_option("--batches", o->precision.batches,
                    "with --dtype: random batches over which errors are averaged, each with weights of its own")
        ->check(at_least_one())
        ->capture_default_str();
    sub->add_option(
           "--factor", o->precision.factor,
           "with --dtype: how many times as far from fp64 as by PyTorch's roundings the loss, and all gradients "
           "together, may be")
        ->check(positive_number())
        ->capture_default_str();
    sub->add_option("--rows", o->precision.rows, "with --dtype: of the tables, the worst")
        ->check(at_least_one())
        ->capture_default_str();
    sub->add_flag("--json", o->precision.json, "with --dtype: what the types cost alone, as JSON");
    sub->callback([o, sub, &action] {
        for (const char* option : {"--batches", "--factor", "--rows", "--json", "--fp8"})
            if (sub->count(option) > 0) o->about_types = option;
        action = [o] { return verify_command(*o); };
    });
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// thunderc bisect: the first decision of the compiler from which a program trains otherwise than the reference.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/bisection.h"
#include "compiler/ir/dtype.h"
#include "compiler/support/error.h"
#include "support/text.h"

namespace thunderc {
namespace {

struct BisectOptions {
    ModelOptions model;
    BisectionOptions search;
    std::string against = "reference";
    bool list = false;
};

// Before anything is built.
void require_file(const char* option, const std::filesystem::path& file) {
    if (file.empty() || std::filesystem::exists(file)) return;
    Diagnostic d;
    d.message = fmt::format("{}: there is no {}", option, file.string());
    d.help = "check the name, or leave it out: batches and parameters are drawn then";
    throw UserError(std::move(d));
}

// Losses and norms are f32 in every program, whatever its products are: below their distance
// one is as good as the next.
void require_tolerance(std::optional<double> tolerance) {
    const double least = std::ldexp(1.0, 1 - row_of(DType::f32).digits);
    if (!tolerance || *tolerance >= least) return;
    Diagnostic d;
    d.message =
        fmt::format("--tolerance {:g} is less than the {:.1e} from one number of f32 to the next, and losses are f32",
                    *tolerance, least);
    d.help = "leave it out, for what rounding moves losses by, or give more than that";
    throw UsageError(std::move(d));
}

int bisect_command(BisectOptions o) {
    o.model.finish();
    require_tolerance(o.search.tolerance);
    require_file("--feed", o.search.feed);
    // A part of a file is named behind a #.
    if (const std::string init = o.search.init; init.find('#') == std::string::npos) require_file("--init", init);
    if (o.list) {
        std::size_t number = 0;
        for (const CountedDecision& decision : decisions_of(o.model))
            fmt::print("{:>5}  {}\n", ++number, printed(to_string(decision)));
        return 0;
    }
    const Bisection found = bisect(o.model, o.search, [](const std::string& line) {
        fmt::print(stderr, "{}\n", line);
        std::fflush(stderr);
    });
    const std::size_t all = o.model.compile.decisions.value_or(found.decisions.size());
    if (!found.found) {
        fmt::print("{}, {}: losses and norms of gradients are the reference's within {}\n",
                   thunder::count_text(all, "decision"),
                   thunder::count_text(static_cast<std::uint64_t>(o.search.steps), "step"),
                   o.search.tolerance ? fmt::format("{:g} of their size", *o.search.tolerance)
                                      : "what rounding moves them by");
        return 0;
    }
    const auto& [first, departure] = *found.found;
    if (first == 0) {
        fmt::print("the program departs at step {} without any of the {} decisions: {}\n", departure.step, all,
                   departure.what);
        fmt::print("  what is wrong is in what it shares with every program: printing, planning, the runtime\n");
        return 1;
    }
    fmt::print("decision {} of {}: {}\n", first, all, printed(to_string(found.decisions[first - 1])));
    fmt::print("  with it the program departs at step {}: {}\n", departure.step, departure.what);
    if (!found.line.empty()) fmt::print("  {}\n", found.line);
    if (found.without)
        fmt::print("  without it alone the program departs as well, at step {}: {}\n", found.without->step,
                   found.without->what);
    else
        fmt::print("  without it alone the program does as the reference\n");
    fmt::print(
        "  thunderc train with the options of this command and --without-decision {} -o DIR writes the program "
        "without it\n",
        first);
    return 1;
}

}  // namespace

void add_bisect(CLI::App& app, Action& action) {
    auto o = std::make_shared<BisectOptions>();
    CLI::App* sub = app.add_subcommand(
        "bisect", "find the first decision of the compiler from which a program trains otherwise than the reference");
    sub->footer(
        "Casts, recipes, merged products, epilogues, claims of executors and fused kernels are decisions with a "
        "number,\n"
        "in the order of the passes. Programs with the first N of them are built with CMake in a temporary folder and\n"
        "trained for some steps from the same parameters on the same batches as the naive program in f32. Exit status "
        "1\n"
        "where the program with all of them departs: then the first one from which it does is named, by halves.\n\n"
        "  thunderc bisect model.onnx --batch 2 --seq 16 --dtype bf16\n"
        "  thunderc bisect model.onnx --list                             what was decided, building nothing");
    o->model.add_to(*sub);
    sub->add_option("--against", o->against, "what losses are held against: the naive program in f32")
        ->check(one_of({"reference"}))
        ->capture_default_str();
    sub->add_option("--steps", o->search.steps, "that each program trains")
        ->check(between(1, 100'000))
        ->type_name("K")
        ->capture_default_str();
    sub->add_option("--tolerance", o->search.tolerance,
                    "the largest relative error of a loss or a norm; without it three times what rounding moves the "
                    "reference's, at least 1e-5 and 1e-4")
        ->check(positive_number());
    sub->add_option("--feed", o->search.feed, "the batches of the steps; without it they are drawn")
        ->check(not_empty())
        ->type_name("FILE");
    sub->add_option("--init", o->search.init, "the parameters, as programs take them; without it they are drawn")
        ->check(not_empty())
        ->type_name("FILE|DIR");
    sub->add_option("--decisions", o->model.compile.decisions, "look among the first N decisions alone")
        ->check(at_least(0))
        ->type_name("N");
    sub->add_flag("--list", o->list, "print the decisions with their numbers, and build nothing");
    sub->add_option("--cmake", o->search.for_cmake,
                    "an argument for CMake, where programs are configured: --cmake=-DTHUNDERC_RUNTIME=DIR; may be "
                    "repeated")
        ->type_name("ARG")
        ->allow_extra_args(false);
    sub->callback([o, &action] { action = [o] { return bisect_command(*o); }; });
}

}  // namespace thunderc

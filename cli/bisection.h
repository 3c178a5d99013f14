// SPDX-License-Identifier: Apache-2.0
// Finds the first decision of the compiler from which a program's losses are not the reference's any more.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/step_bounds.h"
#include "codegen/program/program.h"
#include "compiler/support/counted_decisions.h"

namespace thunderc {

struct BisectionOptions {
    int steps = 10;
    std::optional<double> tolerance;     // relative, of losses and norms of gradients; none: what rounding moves them
    std::filesystem::path feed;          // of the steps; "": one that is drawn
    std::string init;                    // as programs take it; "": parameters are drawn
    std::vector<std::string> for_cmake;  // arguments for CMake
};

// A program of so many decisions departs, and that of one less does not; 0: it departs without any of them, and what is
// wrong is none of them.
struct FirstDeparture {
    std::size_t decisions = 0;
    Departure departure;
};

struct Bisection {
    std::vector<CountedDecision> decisions;  // all that the compiler takes
    std::optional<FirstDeparture> found;     // none: the program with all of them does as the reference
    // Of the program with all but the one that was found; none: it does as the reference.
    std::optional<Departure> without;
    // "blocks.cpp:41: linear_forward(...": of the program with all of them, what that without this one has otherwise.
    std::string line;
};

// The decisions that the compiler takes for the model, in order; nothing is built.
std::vector<CountedDecision> decisions_of(const ModelOptions& model);

// By halves, of programs with 0 to `all` decisions, where that with all departs; each is probed once at most. Whether a
// program departs need not be in order: what is found is such a pair all the same.
std::optional<FirstDeparture> first_departure(
    std::size_t all, const std::function<std::optional<Departure>(std::size_t decisions)>& probe);

// What a reader is shown of how a program differs from that without the decision: "blocks.cpp:41: linear_forward(…)",
// of the statements that the other does not have the one that has the most words of the decision, its module and its
// value; calls before all else, and the first of several. "" where nothing differs.
std::string differing_line(const std::vector<OutputFile>& program, const std::vector<OutputFile>& other,
                           const CountedDecision& decision);

// Among the first decisions of the model's options, where these have a number, else among all of them. Builds programs
// for the CPU with CMake in a temporary folder, which is gone afterwards: that with all decisions, the
// naive one in f32, and one for each probe of a search by halves. All train on the same batches from the same
// parameters. `say` is given a line of progress for each. Throws UserError where one cannot be built.
Bisection bisect(const ModelOptions& model, const BisectionOptions& options,
                 const std::function<void(const std::string&)>& say);

}  // namespace thunderc

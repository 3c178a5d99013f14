// SPDX-License-Identifier: Apache-2.0
// The text of a whole program: every file of the output folder but the tables of numbers.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/analysis/tieable_weights.h"
#include "compiler/ir/module.h"
#include "compiler/options.h"
#include "compiler/passes/autodiff/remove_stops.h"

namespace thunderc {

std::vector<std::string> default_architectures();  // sm_90a, sm_80, sm_100

struct EmitOptions {
    std::string model_name;  // "llama"
    std::string version;     // for train.json and emit.json alone
    std::string command;     // how to make the program again, with the names of files but no folders
    CompileOptions compile;
    std::vector<std::string> recompute{};  // what --recompute auto chose, a line for each kind of layer
    std::int64_t default_grad_accum = 1;
    std::string default_loss_scale = "off";  // of a run: --loss-scale
    bool token_entropy = false;              // the loss is the mean cross entropy of tokens alone
    bool stops_gradients = false;  // what the loss does beside its gradient: the program's own test leaves that out
    std::vector<PaddedRow> padded_rows{};  // the same, of these rows alone
    std::optional<TieableWeights> tieable{};
    bool cuda = true;                                                  // kernels for GPUs too
    std::vector<std::string> architectures = default_architectures();  // of GPUs; grids are cut for the first
};

struct OutputFile {
    std::string path;  // below the output folder
    std::string text;
};

// Calls of the runtime that many programs make none of, by what their names begin with: their bodies lie in a folder of
// this name below a device's, which a program that makes none of them comes without. One that several families need is
// named with each.
struct CallFamily {
    std::string_view folder, calls;
};
std::span<const CallFamily> call_families();

// The sources of the runtime that a program needs which makes these calls, below runtime/: one that trains, or a
// library of one function; for several ranks, or for one.
std::vector<OutputFile> runtime_files(bool trains, bool sharded, const std::set<std::string>& calls);

// Sorted by path. The same module gives the same bytes. `reference`: the same model planned with the executor
// `reference`, which the program's own tests compare it with.
std::vector<OutputFile> print_program(const Module& planned, const Module& reference, const EmitOptions& options);

// The same for a function library, a planned module with the entry function `forward` or `vjp`.
std::vector<OutputFile> print_library(const Module& planned, const EmitOptions& options);

// Text of a file of templates/, by its name; throws InternalError.
const std::string& bundled_template(const std::string& name);

}  // namespace thunderc

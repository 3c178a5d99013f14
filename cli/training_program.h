// SPDX-License-Identifier: Apache-2.0
// The files of a training program, as `thunderc train` writes them and `thunderc verify` builds them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/output_folder.h"

namespace thunderc {

struct TrainingProgram {
    Compiled compiled;
    std::string model_name;
    std::vector<OutputFile> files;
    std::vector<TensorFile> tensors;
    DType compute = DType::f32;  // of products: what --dtype auto is
    std::string missing;         // the file that the weights would have come from, where it is not there
};

// What a run of the program does unless it is told otherwise.
struct RunDefaults {
    std::int64_t grad_accum = 1;
    std::string loss_scale = "auto";  // off, dynamic, a number; auto: dynamic where products have less range than f32
};

// Compiles the model, with warnings on stderr, and prints the program and the reference program of its own tests.
// `weights`: the export's are among the tensors, where they are there.
TrainingProgram training_program(const ModelOptions& model, const DeviceOptions& device, const RunDefaults& defaults,
                                 bool weights);

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// Says what is drawn for each dropout: by a number of its own, and by those of the samples that the batch has.
//
//   in:   %y = unplaced_dropout(%x) {rate = 0.1} : f32[2,8,16]
//         %z = unplaced_dropout(%h) {rate = 0.1} : f32[8,2,16]       // rows along axis 1
//   out:  %sample_numbers: i64[2] input {batched}, %seed: i64[] scalar
//         %y = dropout(%x, %seed, 0, %sample_numbers) {rate = 0.1}
//         %z = transpose(dropout(transpose(%h), %seed, 1, %sample_numbers) {rate = 0.1})
//
// So what is drawn for a sample depends on the sample, the seed and the dropout alone: not on the micro-step, the rank,
// or what else is in the batch. Dropouts have numbers in the order of the graph: constants, of which a loop over layers
// has one for each layer.
// What does not have the batch's rows (a dropout of a weight) is drawn by the number of the micro-batch's first sample.
//
// The trainer fills sample_numbers with the running numbers of the samples, and StepScalars has the seed; functions of
// a library have both as inputs. Requires: phase values, main alone. A graph without dropout stays as it is.
#pragma once

#include <optional>

#include "compiler/passes/pass_manager.h"

namespace thunderc {

struct PlaceRandomOptions {
    bool step = true;                    // a training step is made of the module, not a library
    std::optional<double> dropout = {};  // the rate of each, 0: none; without one its own
};

Module place_random(Module module, const PlaceRandomOptions& options, Report& report);

}  // namespace thunderc

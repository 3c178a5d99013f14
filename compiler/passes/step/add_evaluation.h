// SPDX-License-Identifier: Apache-2.0
// Adds what a model is judged by, where the forward pass of a step is not that: the function `evaluate`, which is the
// model in evaluation.
//
//     evaluate(the arguments of main that it reads, loss_sum, label_count and label_hits where classes are told)
//         -> (loss_sum after, label_count after, label_hits after)
//
// It is main without dropout, with each batch norm by its running statistics (keep_statistics has told it which), and
// with nothing that only a backward pass or a buffer needs: functions that it calls are copies ("block_evaluation")
// which give and take what is read. Of scores of classes, and of tokens where that is asked for
// (options.token_accuracy), it counts labels, and those whose score is the row's largest, the first of equal ones.
//
// It is there where the model drops, moves statistics, or scores classes, and where the step's own forward pass will be
// none that stands by itself (options.of_its_own). Nowhere, with a note, where that would not
// be the model in evaluation: something else is drawn, or a buffer is moved that no batch norm would read; and not for
// naive programs (options.function).
//
// Requires: phase values, functions of layers, add_loss and keep_statistics; before differentiate, which leaves
// `evaluate` as it is.
#pragma once

#include "compiler/passes/pass_manager.h"

namespace thunderc {

struct EvaluationOptions {
    bool function = true;         // whether there may be one
    bool of_its_own = false;      // whatever the model does
    bool token_accuracy = false;  // tokens are counted as classes are, for one more pass over their scores
};

Module add_evaluation(Module module, const EvaluationOptions& options, Report& report);

}  // namespace thunderc

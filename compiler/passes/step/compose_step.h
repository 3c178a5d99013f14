// SPDX-License-Identifier: Apache-2.0
// From a function that gives a loss and gradients to the three functions of a training step.
//
// Requires what differentiate leaves: main(inputs, parameters, buffers, dloss) -> (loss, weights, what buffers will be,
// gradients), with the weights that add_loss gave. Guarantees, with the arguments' ArgInfo names in brackets:
//
//     forward_backward(main's own arguments,                    the first function of the module
//                      gradients before (state "grad.<name>"), first (scalar "first_micro_step"), loss_sum)
//         -> (gradients after, buffers after, loss_sum)
//     loss_weight(the inputs that it reads, loss_weight before) -> (loss_weight), where the loss has a weight
//     update(parameters, gradients, the rule's states ("first_moment.<name>"), its numbers ("adamw.beta2"), scalars of
//            StepScalars)
//         -> (parameters, states, grad_norm)
//     evaluate(...), where add_evaluation left one, as it is
//
// Each gradient passes accumulate_gradient(before, dw, first). A result that takes
// the place of an argument is named (result_names) like the argument's value; the planner gives both one place.
// `first_micro_step` and `decay_all` are booleans that the host knows. Scalars are named as the fields of the runtime's
// StepScalars. Codes have scales ("first_moment_scales.<name>") behind all states.
#pragma once

#include <string>

#include "compiler/passes/pass_manager.h"

namespace thunderc {

struct StepOptions {
    std::string optimizer = "adamw";  // the name of a rule of runtime-lib/optim/rules/list.h
    bool coded_states = false;        // those of matrices are codes of 8 bits: compiler/ops/state_codes.h
};

Module compose_step(Module module, const StepOptions& options, Report& report);

}  // namespace thunderc

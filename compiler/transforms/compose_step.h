// From a function that gives a loss and gradients to the three functions of a training step.
//
// Requires what differentiate leaves: main(inputs, parameters, dloss) -> (loss, weights, gradients), with the weights
// that add_loss gave. Guarantees, with the arguments' ArgInfo names in brackets:
//
//     forward_backward(main's own arguments,                    the first function of the module
//                      gradients before (state "grad.<name>"), first (scalar "first_micro_step"), loss_sum)
//         -> (gradients after, loss_sum)
//     loss_weight(the inputs that it reads, loss_weight before) -> (loss_weight), where the loss has a weight
//     update(parameters, gradients, states ("first_moment.<name>", "second_moment.<name>"; "momentum.<name>"),
//            scalars of StepScalars)
//         -> (parameters, states, grad_norm)
//
// Each gradient passes accumulate_gradient(before, dw, first). A result that takes
// the place of an argument is named (result_names) like the argument's value; the planner gives both one place.
// `first_micro_step` and `decay_all` are booleans that the host knows. Scalars are named as the fields of the runtime's
// StepScalars.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/transforms/pass_manager.h"

namespace thunderc {

struct StepOptions {
    std::string optimizer = "adamw";  // or "sgd"
    bool momentum = true;             // of sgd: whether there are momentum buffers
};

// What a step's loss is of what its micro-steps add up to loss_sum, and what seeds the way back: the scalar dloss, by
// which loss_sum is multiplied in the end. The functions of the step say it, and everyone asks here.
struct LossForm {
    enum class Kind : std::uint8_t {
        average,  // dloss = 1 / micro-steps of all ranks: there is no function loss_weight
        mean,     // dloss = 1 / loss_weight, which the function loss_weight adds up first
        terms,    // dloss = 1: main divides each term by its own weight, loss_weights[k], added up first as well
    };
    Kind kind = Kind::average;
    std::vector<std::string> weights = {};  // the scalars that loss_weight adds to
};
LossForm loss_form(const Module& composed);
// What loss_sum is divided by: 1 / dloss. The weights are the step's sums; micro_batches are those of all ranks.
double loss_divisor(const LossForm& form, const std::vector<double>& weights, std::size_t micro_batches);

// Of a loss of terms: as many weights as StepScalars has room for, and their names.
inline constexpr std::size_t max_loss_weights = 16;
inline constexpr std::int64_t step_scalars_bytes = 176;  // of StepScalars
std::string loss_weight_scalar(std::size_t k);

// What belongs to a parameter: its gradient or a state of the optimizer, named "<prefix>.<parameter>".
ArgInfo state_info(const ArgInfo& parameter, std::string_view prefix);

Module compose_step(Module module, const StepOptions& options, Report& report);

}  // namespace thunderc

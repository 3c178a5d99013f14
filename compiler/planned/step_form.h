// SPDX-License-Identifier: Apache-2.0
// What the functions of a training step say of it: how its loss is put together of micro-steps, how what belongs to a
// parameter is called, and which scalars the host gives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/module.h"
#include "runtime-lib/optim/rules/info.h"

namespace thunderc {

// The functions of a step, by their names: the weights of its loss, where it has any (once for each micro-batch before
// all else), forward and backward pass (for each micro-batch), and the optimizer's update (once). Beside them, where
// the forward pass of a step is not what a model is judged by, there is a function of no step: evaluate.
inline constexpr const char* loss_weight_function = "loss_weight";
inline constexpr const char* evaluate_function = "evaluate";
inline constexpr const char* forward_backward_function = "forward_backward";
inline constexpr const char* update_function = "update";
// Whether a module is a training step that is put together: it has an update.
bool is_step(const Module& module);

// How many ops of forward_backward are the forward pass: all up to the one that adds the loss to loss_sum. What comes
// behind it computes gradients.
std::size_t end_of_forward(const Function& forward_backward);

// What a step's loss is of what its micro-steps add up to loss_sum, and what seeds the backward pass: the scalar dloss,
// by which loss_sum is multiplied in the end. The functions of the step say it, and everyone asks here.
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

// Of a loss of terms: what its weights are called. As many as there are lie behind StepScalars.
std::string loss_weight_scalar(std::size_t k);
inline constexpr std::int64_t step_scalars_bytes = 176;  // of StepScalars
std::int64_t step_scalars_bytes_with(const LossForm& form);

// The scalar by which numbers are drawn: the seed of the run.
inline constexpr const char* seed_scalar = "seed";
inline constexpr const char* seed_source = "seed";  // of the input that a library has in its place
bool is_seed(const ArgInfo& info);

// What belongs to a parameter: its gradient or a state of the optimizer, named "<prefix>.<parameter>".
ArgInfo state_info(const ArgInfo& parameter, std::string_view prefix);

// What an argument of kind `scalar` is called that is a number of an optimizer's rule: "adamw.beta2".
std::string rule_scalar(std::string_view rule, std::string_view number);

// Byte offset of a field of StepScalars or of a weight behind them, by the name that an argument of kind `scalar` has;
// nullopt: there is none. And the name of what lies at an offset, where a rule's numbers are "rule[0]" and so on.
std::optional<std::int64_t> step_scalar_offset(std::string_view name);
std::optional<std::string> step_scalar_at(std::int64_t offset);
// What lies there is stored as, whatever type the IR gives the scalar.
DType step_scalar_dtype(std::int64_t offset);

// The states of the optimizer by their prefixes, in the order in which they lie in its arena: that in which arguments
// of the module's functions name them.
std::vector<std::string> optimizer_states(const Module& composed);
// All that a name of what belongs to a parameter may begin with: "" and "grad.", the states', "narrow_copy.".
std::vector<std::string> prefixes_of_parameters(const Module& composed);
// Which of the states a name "<prefix>.<parameter>" is of; nullopt: none.
std::optional<std::size_t> state_of_name(const std::vector<std::string>& states, std::string_view name);
// The rule that steps the module's parameters.
const thunder::RuleInfo& rule_of(const Module& composed);
// Whether states of its matrices are codes of 8 bits: compiler/ops/state_codes.h.
bool has_coded_states(const Module& composed);
// Whether each state has an element for each of its parameter's, and they are numbers: then they lie like what trains.
bool states_as_parameters(const Module& composed);

}  // namespace thunderc

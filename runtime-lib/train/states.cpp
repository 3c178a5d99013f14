// SPDX-License-Identifier: Apache-2.0
#include "train/states.h"

#include "optim/rules/info.h"
#include "train/groups.h"

namespace thunder {

std::int64_t trained_elements(const ProgramSpec& program) {
    return static_cast<std::int64_t>(program.arena_bytes[static_cast<std::size_t>(Arena::gradients)] /
                                     size_of(program.gradient_dtype));
}

OptimizerStates states_of(const ProgramSpec& program, const Options& options, int rank) {
    const RuleInfo& rule = rule_of(program);
    OptimizerStates out;
    std::vector<SteppedTensor> tensors;
    for (const ParameterSpec& parameter : program.parameters) {
        if (!parameter.trainable) continue;
        const Piece piece = piece_of(program, parameter, rank);
        const rules::Stepped stepped = stepped_as(program, options, group_of(options.groups, parameter), parameter);
        out.parameters.push_back({&parameter, piece, stepped, {}});
        tensors.push_back({piece.at, {parameter.shape.begin(), parameter.shape.end()}, stepped});
    }
    const std::int64_t trained = trained_elements(program);
    const StateLayout layout = lay_out_states(rule, tensors, trained);
    out.elements = layout.elements;
    for (std::size_t t = 0; t < tensors.size(); ++t)
        for (std::size_t k = 0; k < rule.states.size(); ++k)
            out.parameters[t].further[k] = layout.begins[t][k] - tensors[t].begin;
    return out;
}

std::vector<std::int64_t> dims_of_state(const ProgramSpec& program, const OptimizerStates::OfParameter& of,
                                        std::size_t state) {
    return dims_of_state(rule_of(program).shape_of_state(state, of.stepped), of.parameter->shape);
}

}  // namespace thunder

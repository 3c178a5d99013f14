// SPDX-License-Identifier: Apache-2.0
#include "train/states.h"

#include "device/api.h"
#include "optim/rules/info.h"
#include "program/transfer.h"
#include "support/error.h"
#include "support/text.h"
#include "train/groups.h"

namespace thunder {

const RuleInfo& rule_of(const ProgramSpec& program) {
    const RuleInfo* rule = find_rule(program.optimizer);
    if (rule == nullptr)
        fail(cat(program.name, " is stepped by ", program.optimizer, ", which its runtime does not have"));
    return *rule;
}

std::int64_t trained_elements(const ProgramSpec& program) {
    return static_cast<std::int64_t>(program.arena_bytes[static_cast<std::size_t>(Arena::gradients)] /
                                     size_of(program.gradient_dtype));
}

namespace {

// Shards of units, which hold several parameters each: what is a matrix is in units of matrices.
std::vector<SteppedTensor> shards_of_units(const ProgramSpec& program) {
    std::vector<SteppedTensor> tensors(program.units.size());
    for (const ParameterSpec& parameter : program.parameters) {
        if (parameter.unit < 0) continue;  // a buffer
        const UnitSpec& unit = program.units[static_cast<std::size_t>(parameter.unit)];
        SteppedTensor& of = tensors[static_cast<std::size_t>(parameter.unit)];
        of.begin = static_cast<std::int64_t>(unit.offset / size_of(parameter.dtype));
        of.shape = {parameter.trainable ? unit.elements : 0};
        of.coded = parameter.trainable && is_coded(parameter.shape.size(), rules::Stepped::by_element);
    }
    return tensors;
}

}  // namespace

OptimizerStates states_of(const ProgramSpec& program, const Options& options, int rank) {
    const RuleInfo& rule = rule_of(program);
    const bool in_shards = program.coded_states && !program.units.empty();
    OptimizerStates out;
    std::vector<SteppedTensor> tensors;
    if (in_shards) tensors = shards_of_units(program);
    for (const ParameterSpec& parameter : program.parameters) {
        if (!parameter.trainable) continue;
        const Piece piece = piece_of(program, parameter, rank);
        const rules::Stepped stepped = stepped_as(program, options, group_of(options.groups, parameter), parameter);
        const bool coded = program.coded_states && is_coded(parameter.shape.size(), stepped);
        out.parameters.push_back({&parameter, piece, stepped, coded, {}, {}});
        if (!in_shards) tensors.push_back({piece.at, {parameter.shape.begin(), parameter.shape.end()}, stepped, coded});
    }
    const auto width = static_cast<std::int64_t>(size_of(program.optimizer_dtype));
    const StateLayout layout = lay_out_states(rule, tensors, trained_elements(program), width);
    out.bytes = layout.bytes;
    for (std::size_t p = 0; p < out.parameters.size(); ++p) {
        OptimizerStates::OfParameter& of = out.parameters[p];
        const std::size_t t = in_shards ? static_cast<std::size_t>(of.parameter->unit) : p;
        const std::int64_t further = of.piece.at - tensors[t].begin;
        for (std::size_t k = 0; k < rule.states.size(); ++k) {
            of.begins[k] = layout.begins[t][k] + further * (of.coded ? 1 : width);
            of.scales[k] = layout.scales[t][k] + further / rules::block_elements * 4;
        }
    }
    return out;
}

std::vector<std::int64_t> dims_of_state(const ProgramSpec& program, const OptimizerStates::OfParameter& of,
                                        std::size_t state) {
    return dims_of_state(rule_of(program).shape_of_state(state, of.stepped), of.parameter->shape);
}

void make_narrow_copies(const ProgramSpec& program, const TrainingArenas& arenas, Stream& stream) {
    const std::size_t bytes = program.bytes_of(Arena::narrow_copies);
    if (bytes == 0) return;
    Output copies;
    copies.data = arenas.narrow_copies;
    copies.dtype = program.compute;
    convert(copies, reinterpret_cast<const float*>(arenas.parameters),
            static_cast<std::int64_t>(bytes / size_of(program.compute)), stream);
}

void begin_scaling(const ProgramSpec& program, const TrainingArenas& arenas, Stream& stream) {
    for (const ParameterSpec& state : program.scaling.states) {
        const std::vector<float> numbers(state.bytes / sizeof(float),
                                         state.init == ParameterSpec::Init::ones ? 1.F : 0.F);
        to_device(arenas.scaling + state.offset, reinterpret_cast<const std::byte*>(numbers.data()), state.bytes,
                  stream);
    }
    forget_amaxes(program, arenas, stream);
}

void forget_amaxes(const ProgramSpec& program, const TrainingArenas& arenas, Stream& stream) {
    const std::size_t bytes = program.scaling.tensors.size() * sizeof(float);
    if (bytes > 0) fill_zero(arenas.scaling, bytes, stream);
}

}  // namespace thunder

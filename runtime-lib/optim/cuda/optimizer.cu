// SPDX-License-Identifier: Apache-2.0
// The optimizers, the gradient's norm and the step's scalars.
#include <algorithm>

#include "device/api.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/driver/require.h"
#include "device/cuda/launch.h"
#include "optim/cuda/optimizer.cuh"
#include "optim/cuda/pieces.h"
#include "optim/describe.h"
#include "optim/loss_scale.h"
#include "optim/matrices.h"

namespace thunder {

std::vector<std::int64_t> cut_segments(std::span<const ParameterSegment> segments) {
    std::vector<std::int64_t> numbers;
    for (const ParameterSegment& s : segments) {
        for (std::int64_t begin = s.begin; begin < s.end; begin += piece_elements)
            numbers.insert(numbers.end(), {begin, std::min(begin + piece_elements, s.end), s.decay ? 1 : 0,
                                           numbers_of_group(s.group), static_cast<std::int64_t>(s.tensor),
                                           s.first + begin - s.begin, s.shift[0], s.shift[1], s.shift[2]});
        static_assert(rules::most_states == 3);
    }
    return numbers;
}

namespace {

// The kernel of a rule for what is stored as P, G and S.
#define THUNDER_STEP_KERNEL(name, Rule, suffix, P, G, S) \
    auto* kernel_of(const Rule*, P*, G*, S*) {           \
        return &bundled::bundled_##name##_##suffix;      \
    }
#define THUNDER_STEP_KERNELS(name, Rule) BUNDLED_STORED_TYPES(THUNDER_STEP_KERNEL, name, Rule)
THUNDER_RULES(THUNDER_STEP_KERNELS)
#undef THUNDER_STEP_KERNELS
#undef THUNDER_STEP_KERNEL

#define THUNDER_MATRIX_KERNELS(name, Rule)                             \
    [[maybe_unused]] auto* direction_of(const Rule*, float*, float*) { \
        return &bundled::bundled_##name##_direction_f32_f32;           \
    }                                                                  \
    [[maybe_unused]] auto* direction_of(const Rule*, float*, bf16*) {  \
        return &bundled::bundled_##name##_direction_f32_bf16;          \
    }                                                                  \
    [[maybe_unused]] auto* direction_of(const Rule*, bf16*, float*) {  \
        return &bundled::bundled_##name##_direction_bf16_f32;          \
    }                                                                  \
    [[maybe_unused]] auto* direction_of(const Rule*, bf16*, bf16*) {   \
        return &bundled::bundled_##name##_direction_bf16_bf16;         \
    }                                                                  \
    [[maybe_unused]] auto* move_of(const Rule*, float*) {              \
        return &bundled::bundled_##name##_move_float;                  \
    }                                                                  \
    [[maybe_unused]] auto* move_of(const Rule*, bf16*) {               \
        return &bundled::bundled_##name##_move_bf16;                   \
    }
THUNDER_MATRIX_RULES(THUNDER_MATRIX_KERNELS)
#undef THUNDER_MATRIX_KERNELS

// body(a null pointer of the type that is stored)
template <typename Body>
void with_type(const char* name, const Input& tensor, Body&& body) {
    require_float(name, tensor);
    tensor.dtype == DType::bf16 ? body(static_cast<bf16*>(nullptr)) : body(static_cast<float*>(nullptr));
}
Input stored_as(const Output& tensor) {
    Input in;
    in.data = tensor.data;
    in.dtype = tensor.dtype;
    return in;
}

// body(parameters, gradients, states) for the types of the three arenas
template <typename Body>
void with_types(const Output& parameters, const Input& gradients, const Output& states, Body&& body) {
    with_type("parameters", stored_as(parameters), [&](auto* p) {
        with_type("gradients", gradients,
                  [&](auto* g) { with_type("states", stored_as(states), [&](auto* s) { body(p, g, s); }); });
    });
}

std::int64_t blocks_of(std::int64_t elements) {
    return (elements + 255) / 256;
}

}  // namespace

template <typename Rule>
void take_direction(const MatrixStep& step, Stream& stream) {
    const OptimizerUpdate& call = step.call;
    with_type("gradients", call.gradients, [&](auto* g) {
        with_type("states", stored_as(call.states[0]), [&](auto* s) {
            launch("direction", direction_of(static_cast<const Rule*>(nullptr), g, s), blocks_of(step.elements), 256,
                   stream, step.x, static_cast<decltype(g)>(const_cast<void*>(call.gradients.data)),
                   static_cast<decltype(s)>(call.states[0].data) + step.of.shift[0], step.of.begin, step.elements,
                   numbers_of_group(step.of.group), step.of.decay, call.scalars->rule, &call.scalars->clip_factor);
        });
    });
    constexpr std::int64_t leaf = 16384;
    const std::int64_t leaves = (step.elements + leaf - 1) / leaf;
    launch("squares", bundled::bundled_squares_f32, leaves, 256, stream, step.sums, step.x, step.elements);
    launch("norm_factor", bundled::bundled_norm_factor, 1, 512, stream, step.sums, leaves, Rule::least_norm);
    launch("scale", bundled::bundled_scale, blocks_of(step.elements), 256, stream, step.x, step.sums + leaves,
           step.elements);
}

void combine(float* x, float a, const float* y, float b, std::int64_t elements, Stream& stream) {
    launch("combine", bundled::bundled_combine, blocks_of(elements), 256, stream, x, y, a, b, elements);
}

template <typename Rule>
void move_along(const MatrixStep& step, Stream& stream) {
    const OptimizerUpdate& call = step.call;
    const auto rows = static_cast<double>(step.of.rows), columns = static_cast<double>(step.of.columns);
    with_type("parameters", stored_as(call.parameters), [&](auto* p) {
        launch("move", move_of(static_cast<const Rule*>(nullptr), p), blocks_of(step.elements), 256, stream,
               static_cast<decltype(p)>(call.parameters.data), static_cast<bf16*>(call.bf16_copies.data), step.x,
               step.of.begin, step.elements, numbers_of_group(step.of.group), step.of.decay, call.scalars->rule,
               &call.scalars->clip_factor, &call.scalars->rounding, step.of.tensor, step.of.first,
               static_cast<float>(Rule::by_shape(rows, columns)), static_cast<float>(Rule::by_size(rows, columns)));
    });
}

namespace {

template <typename Rule>
void update(const OptimizerUpdate& call, Stream& stream) {
    issue(Rule::name, call, stream, [&] {
        const PieceTable pieces = pieces_of(by_element(call.segments), stream);
        const Output parameters = call.parameters, bf16_copies = call.bf16_copies;
        require_dtype("bf16_copies", bf16_copies, DType::bf16);
        const Input gradients = call.gradients;
        for (int k = 1; k < rules::states<Rule>; ++k) require_dtype("states", call.states[k], call.states[0].dtype);
        with_types(parameters, gradients, call.states[0], [&](auto* p, auto* g, auto* s) {
            const auto state = [&](int k) { return static_cast<decltype(s)>(call.states[k].data); };
            static_assert(rules::most_states == 3);
            launch(Rule::name, kernel_of(static_cast<const Rule*>(nullptr), p, g, s), pieces.count, 256, stream,
                   static_cast<decltype(p)>(parameters.data),
                   static_cast<decltype(g)>(const_cast<void*>(gradients.data)), state(0), state(1), state(2),
                   static_cast<bf16*>(bf16_copies.data), pieces.numbers, call.scalars->rule, &call.scalars->clip_factor,
                   &call.scalars->rounding);
        });
        if constexpr (rules::steps_matrices<Rule>)
            for (const ParameterSegment& segment : call.segments)
                if (segment.is_matrix()) step_matrix<Rule>({call, segment}, stream);
    });
}

}  // namespace

#define THUNDER_DEFINE_UPDATE(name, Rule)                    \
    void name(const OptimizerUpdate& call, Stream& stream) { \
        update<Rule>(call, stream);                          \
    }
THUNDER_RULES(THUNDER_DEFINE_UPDATE)
#undef THUNDER_DEFINE_UPDATE

void global_norm(StepScalars* scalars, const Input& gradients, std::int64_t elements, Stream& stream) {
    global_norm(scalars, gradients, elements, nullptr, stream);
}

void global_norm(StepScalars* scalars, const Input& gradients, std::int64_t elements, RankSums* ranks, Stream& stream) {
    const GlobalNorm call{scalars, gradients, elements};
    issue("global_norm", call, stream, [&] {
        constexpr std::int64_t leaf = 16384;
        const std::int64_t leaves = (elements + leaf - 1) / leaf;
        auto* sums = reinterpret_cast<double*>(
            stream.workspace(static_cast<std::size_t>(std::max<std::int64_t>(leaves, 1)) * sizeof(double)));
        require_float("gradients", gradients);
        if (gradients.dtype == DType::bf16) {
            launch("squares", bundled::bundled_squares_bf16, leaves, 256, stream, sums,
                   static_cast<const bf16*>(gradients.data), elements);
        } else {
            launch("squares", bundled::bundled_squares_f32, leaves, 256, stream, sums,
                   static_cast<const float*>(gradients.data), elements);
        }
        if (ranks != nullptr) ranks->add(sums, leaves, stream);
        launch("clip_factor", bundled::bundled_clip_factor, 1, 512, stream, &scalars->grad_norm, &scalars->clip_factor,
               &scalars->max_grad_norm, &scalars->loss_scale, sums, leaves);
    });
}

void average_parameters(const AverageUpdate& call, Stream& stream) {
    issue("average_parameters", call, stream, [&] {
        const PieceTable pieces = pieces_of(call.segments, stream);
        require_float("parameters", call.parameters);
        if (call.parameters.dtype == DType::bf16) {
            launch("average", bundled::bundled_average_bf16, pieces.count, 256, stream, call.averages,
                   static_cast<const bf16*>(call.parameters.data), pieces.numbers, call.part, call.part_of_step);
        } else {
            launch("average", bundled::bundled_average_f32, pieces.count, 256, stream, call.averages,
                   static_cast<const float*>(call.parameters.data), pieces.numbers, call.part, call.part_of_step);
        }
    });
}

void seed_loss(StepScalars* scalars, Stream& stream) {
    launch("seed_loss", bundled::bundled_seed_loss, 1, 32, stream, &scalars->dloss, &scalars->loss_weight);
}

void scale_loss(const ScaleLoss& call, Stream& stream) {
    launch("scale_loss", bundled::bundled_scale_loss, 1, 256, stream, &call.scalars->dloss, &call.scalars->loss_scale,
           call.scalars->rule, &call.scale->scale, &call.scale->last_skipped, call.numbers_after_skip, call.groups,
           numbers_of_group(1));
}

void next_loss_scale(const NextLossScale& call, Stream& stream) {
    LossScale* const of = call.scale;
    launch("next_loss_scale", bundled::bundled_next_loss_scale, 1, 32, stream, &call.scalars->clip_factor, &of->scale,
           &of->good, &of->skipped, &of->last_skipped, &of->averages, &of->average_part, call.interval,
           call.average_part);
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// The optimizers, the gradient's norm and the step's scalars.
#include <algorithm>

#include "device/api.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/driver/require.h"
#include "device/cuda/launch.h"
#include "optim/cuda/coded.cuh"
#include "optim/cuda/optimizer.cuh"
#include "optim/cuda/pieces.h"
#include "optim/cuda/tensors.cuh"
#include "optim/describe.h"
#include "optim/loss_scale.h"
#include "optim/matrices.h"
#include "optim/tensors.h"
#include "optim/walk_segments.h"

namespace thunder {

std::vector<std::int64_t> cut_segments(std::span<const ParameterSegment> segments) {
    std::vector<std::int64_t> numbers;
    for (const ParameterSegment& s : segments) {
        static_assert(piece_elements % rules::block_elements == 0);
        for (std::int64_t begin = s.begin; begin < s.end; begin += piece_elements) {
            const std::int64_t further = begin - s.begin;
            numbers.insert(numbers.end(),
                           {begin, std::min(begin + piece_elements, s.end), s.decay ? 1 : 0, numbers_of_group(s.group),
                            static_cast<std::int64_t>(s.tensor), s.first + further});
            for (int k = 0; k < rules::most_states; ++k) numbers.push_back(s.coded ? s.codes[k] + further : s.shift[k]);
            for (const std::int64_t scales : s.scales) numbers.push_back(scales + further / rules::block_elements);
        }
    }
    return numbers;
}

namespace {

// The kernel of a rule for what is stored as P, G and S.
#define THUNDER_STEP_KERNEL(name, Rule, suffix, P, G, S, C) \
    auto* kernel_of(const Rule*, P*, G*, S*, C*) {          \
        return &bundled::bundled_##name##_##suffix;         \
    }
#define THUNDER_STEP_KERNELS(name, Rule) BUNDLED_STORED_TYPES(THUNDER_STEP_KERNEL, name, Rule)
THUNDER_ELEMENT_RULES(THUNDER_STEP_KERNELS)
#undef THUNDER_STEP_KERNELS
#undef THUNDER_STEP_KERNEL

// The same where states are codes.
#define THUNDER_CODED_KERNEL(name, Rule, suffix, P, G, C) \
    auto* coded_kernel_of(const Rule*, P*, G*, C*) {      \
        return &bundled::bundled_##name##_coded_##suffix; \
    }
#define THUNDER_CODED_KERNELS(name, Rule) BUNDLED_CODED_TYPES(THUNDER_CODED_KERNEL, name, Rule)
THUNDER_ELEMENT_RULES(THUNDER_CODED_KERNELS)
#undef THUNDER_CODED_KERNELS
#undef THUNDER_CODED_KERNEL

#define THUNDER_MATRIX_KERNELS_AS(name, Rule, C)                   \
    [[maybe_unused]] auto* direction_of(const Rule*, float*, C*) { \
        return &bundled::bundled_##name##_direction_f32_##C;       \
    }                                                              \
    [[maybe_unused]] auto* direction_of(const Rule*, C*, float*) { \
        return &bundled::bundled_##name##_direction_##C##_f32;     \
    }                                                              \
    [[maybe_unused]] auto* direction_of(const Rule*, C*, C*) {     \
        return &bundled::bundled_##name##_direction_##C##_##C;     \
    }                                                              \
    [[maybe_unused]] auto* move_of(const Rule*, float*, C*) {      \
        return &bundled::bundled_##name##_move_float_##C;          \
    }                                                              \
    [[maybe_unused]] auto* move_of(const Rule*, C*, C*) {          \
        return &bundled::bundled_##name##_move_##C##_##C;          \
    }
#define THUNDER_MATRIX_KERNELS(name, Rule)                             \
    [[maybe_unused]] auto* direction_of(const Rule*, float*, float*) { \
        return &bundled::bundled_##name##_direction_f32_f32;           \
    }                                                                  \
    THUNDER_MATRIX_KERNELS_AS(name, Rule, bf16)                        \
    THUNDER_MATRIX_KERNELS_AS(name, Rule, f16)
THUNDER_MATRIX_RULES(THUNDER_MATRIX_KERNELS)
#undef THUNDER_MATRIX_KERNELS
#undef THUNDER_MATRIX_KERNELS_AS

// body(a null pointer of the type that is stored), which is f32 or the program's narrow one, C
template <typename C, typename Body>
void with_type(const char* name, const Input& tensor, Body&& body) {
    if (tensor && tensor.dtype != DType::f32) require_dtype(name, tensor, dtype_of<C>::value);
    tensor.dtype == DType::f32 ? body(static_cast<float*>(nullptr)) : body(static_cast<C*>(nullptr));
}
// body(a null pointer of the narrow type of a call, which has no more than one; of any where it has none)
template <typename Body>
void with_narrow_of(const OptimizerUpdate& call, Body&& body) {
    DType narrow = DType::bf16;
    for (const DType type : {call.parameters.dtype, call.gradients.dtype, call.states[0].dtype,
                             call.narrow_copies ? call.narrow_copies.dtype : DType::f32})
        if (type != DType::f32) narrow = type;
    if (!with_narrow(narrow, body)) fail("no provider on a GPU for an optimizer of that type");
}
Input stored_as(const Output& tensor) {
    Input in;
    in.data = tensor.data;
    in.dtype = tensor.dtype;
    return in;
}

// body(parameters, gradients, states) for the types of the three arenas
template <typename C, typename Body>
void with_types(const Output& parameters, const Input& gradients, const Output& states, Body&& body) {
    with_type<C>("parameters", stored_as(parameters), [&](auto* p) {
        with_type<C>("gradients", gradients,
                     [&](auto* g) { with_type<C>("states", stored_as(states), [&](auto* s) { body(p, g, s); }); });
    });
}

std::int64_t blocks_of(std::int64_t elements) {
    return (elements + 255) / 256;
}

}  // namespace

template <typename Rule>
void take_direction(const MatrixStep& step, Stream& stream) {
    const OptimizerUpdate& call = step.call;
    with_narrow_of(call, [&]<typename C>(C*) {
        with_type<C>("gradients", call.gradients, [&](auto* g) {
            with_type<C>("states", stored_as(call.states[0]), [&](auto* s) {
                launch("direction", direction_of(static_cast<const Rule*>(nullptr), g, s), blocks_of(step.elements),
                       256, stream, step.x, static_cast<decltype(g)>(const_cast<void*>(call.gradients.data)),
                       static_cast<decltype(s)>(call.states[0].data) + step.of.shift[0], step.of.begin, step.elements,
                       numbers_of_group(step.of.group), step.of.decay, call.scalars->rule, &call.scalars->clip_factor);
            });
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
    with_narrow_of(call, [&]<typename C>(C*) {
        with_type<C>("parameters", stored_as(call.parameters), [&](auto* p) {
            launch("move", move_of(static_cast<const Rule*>(nullptr), p, static_cast<C*>(nullptr)),
                   blocks_of(step.elements), 256, stream, static_cast<decltype(p)>(call.parameters.data),
                   static_cast<C*>(call.narrow_copies.data), step.x, step.of.begin, step.elements,
                   numbers_of_group(step.of.group), step.of.decay, call.scalars->rule, &call.scalars->clip_factor,
                   &call.scalars->rounding, step.of.tensor, step.of.first,
                   static_cast<float>(Rule::by_shape(rows, columns)), static_cast<float>(Rule::by_size(rows, columns)));
        });
    });
}

namespace {

template <typename Rule>
void update_blocks(const OptimizerUpdate& call, std::span<const ParameterSegment> coded, Stream& stream) {
    const PieceTable pieces = pieces_of(coded, stream);
    with_narrow_of(call, [&]<typename C>(C* narrow) {
        with_type<C>("parameters", stored_as(call.parameters), [&](auto* p) {
            with_type<C>("gradients", call.gradients, [&](auto* g) {
                launch(Rule::name, coded_kernel_of(static_cast<const Rule*>(nullptr), p, g, narrow), pieces.count, 256,
                       stream, static_cast<decltype(p)>(call.parameters.data),
                       static_cast<decltype(g)>(const_cast<void*>(call.gradients.data)),
                       static_cast<std::uint8_t*>(call.states[0].data), static_cast<float*>(call.states[0].data),
                       static_cast<C*>(call.narrow_copies.data), pieces.numbers, call.scalars->rule,
                       &call.scalars->clip_factor, &call.scalars->rounding);
            });
        });
    });
}

template <typename Rule>
void update_elements(const OptimizerUpdate& call, std::span<const ParameterSegment> segments, Stream& stream) {
    const PieceTable pieces = pieces_of(segments, stream);
    const Output parameters = call.parameters, narrow_copies = call.narrow_copies;
    const Input gradients = call.gradients;
    with_narrow_of(call, [&]<typename C>(C*) {
        with_types<C>(parameters, gradients, call.states[0], [&](auto* p, auto* g, auto* s) {
            const auto state = [&](int k) { return static_cast<decltype(s)>(call.states[k].data); };
            static_assert(rules::most_states == 3);
            launch(Rule::name, kernel_of(static_cast<const Rule*>(nullptr), p, g, s, static_cast<C*>(nullptr)),
                   pieces.count, 256, stream, static_cast<decltype(p)>(parameters.data),
                   static_cast<decltype(g)>(const_cast<void*>(gradients.data)), state(0), state(1), state(2),
                   static_cast<C*>(narrow_copies.data), pieces.numbers, call.scalars->rule, &call.scalars->clip_factor,
                   &call.scalars->rounding);
        });
    });
}

// A model may have segments of some kinds alone: only matrices, say.
template <typename Rule>
void update(const OptimizerUpdate& call, Stream& stream) {
    issue(Rule::name, call, stream, [&] {
        for (int k = 1; k < rules::states<Rule>; ++k) require_dtype("states", call.states[k], call.states[0].dtype);
        with_narrow_of(call, [&]<typename C>(C*) {
            if (call.narrow_copies) require_dtype("narrow_copies", call.narrow_copies, dtype_of<C>::value);
        });
        const auto numbers = by_element(call.segments), coded = by_block(call.segments);
        if (!numbers.empty()) update_elements<Rule>(call, numbers, stream);
        if (!coded.empty()) update_blocks<Rule>(call, coded, stream);
        if constexpr (rules::steps_matrices<Rule>)
            for (const ParameterSegment& segment : call.segments)
                if (segment.is_whole()) step_matrix<Rule>({call, segment}, stream);
    });
}

}  // namespace

#define THUNDER_DEFINE_UPDATE(name, Rule)                    \
    void name(const OptimizerUpdate& call, Stream& stream) { \
        update<Rule>(call, stream);                          \
    }
THUNDER_ELEMENT_RULES(THUNDER_DEFINE_UPDATE)
#undef THUNDER_DEFINE_UPDATE

// ---- every tensor as a whole ----

#define THUNDER_TENSOR_KERNELS_AS(name, Rule, C)                  \
    [[maybe_unused]] auto* rows_of(const Rule*, float*, C*) {     \
        return &bundled::bundled_##name##_rows_f32_##C;           \
    }                                                             \
    [[maybe_unused]] auto* rows_of(const Rule*, C*, float*) {     \
        return &bundled::bundled_##name##_rows_##C##_f32;         \
    }                                                             \
    [[maybe_unused]] auto* rows_of(const Rule*, C*, C*) {         \
        return &bundled::bundled_##name##_rows_##C##_##C;         \
    }                                                             \
    [[maybe_unused]] auto* factored_of(const Rule*, float*, C*) { \
        return &bundled::bundled_##name##_factored_f32_##C;       \
    }                                                             \
    [[maybe_unused]] auto* factored_of(const Rule*, C*, float*) { \
        return &bundled::bundled_##name##_factored_##C##_f32;     \
    }                                                             \
    [[maybe_unused]] auto* factored_of(const Rule*, C*, C*) {     \
        return &bundled::bundled_##name##_factored_##C##_##C;     \
    }                                                             \
    [[maybe_unused]] auto* vector_of(const Rule*, float*, C*) {   \
        return &bundled::bundled_##name##_vector_f32_##C;         \
    }                                                             \
    [[maybe_unused]] auto* vector_of(const Rule*, C*, float*) {   \
        return &bundled::bundled_##name##_vector_##C##_f32;       \
    }                                                             \
    [[maybe_unused]] auto* vector_of(const Rule*, C*, C*) {       \
        return &bundled::bundled_##name##_vector_##C##_##C;       \
    }                                                             \
    [[maybe_unused]] auto* columns_of(const Rule*, C*) {          \
        return &bundled::bundled_##name##_columns_##C;            \
    }                                                             \
    [[maybe_unused]] auto* take_of(const Rule*, float*, C*) {     \
        return &bundled::bundled_##name##_take_float_##C;         \
    }                                                             \
    [[maybe_unused]] auto* take_of(const Rule*, C*, C*) {         \
        return &bundled::bundled_##name##_take_##C##_##C;         \
    }
#define THUNDER_TENSOR_KERNELS(name, Rule)                            \
    [[maybe_unused]] auto* rows_of(const Rule*, float*, float*) {     \
        return &bundled::bundled_##name##_rows_f32_f32;               \
    }                                                                 \
    [[maybe_unused]] auto* factored_of(const Rule*, float*, float*) { \
        return &bundled::bundled_##name##_factored_f32_f32;           \
    }                                                                 \
    [[maybe_unused]] auto* vector_of(const Rule*, float*, float*) {   \
        return &bundled::bundled_##name##_vector_f32_f32;             \
    }                                                                 \
    [[maybe_unused]] auto* columns_of(const Rule*, float*) {          \
        return &bundled::bundled_##name##_columns_f32;                \
    }                                                                 \
    [[maybe_unused]] auto* way_of(const Rule*) {                      \
        return &bundled::bundled_##name##_way;                        \
    }                                                                 \
    THUNDER_TENSOR_KERNELS_AS(name, Rule, bf16)                       \
    THUNDER_TENSOR_KERNELS_AS(name, Rule, f16)
namespace {

THUNDER_TENSOR_RULES(THUNDER_TENSOR_KERNELS)
#undef THUNDER_TENSOR_KERNELS
#undef THUNDER_TENSOR_KERNELS_AS

// The kernels that are no rule's, by the types of what they read.
static_assert(bundled::leaf_elements == tensor_leaf && bundled::chunk_rows == tensor_chunk);
#define THUNDER_TENSOR_PASSES_OF(suffix, T)             \
    [[maybe_unused]] auto* column_sums_of(T*) {         \
        return &bundled::bundled_column_sums_##suffix;  \
    }                                                   \
    [[maybe_unused]] auto* row_means_of(T*) {           \
        return &bundled::bundled_row_means_##suffix;    \
    }                                                   \
    [[maybe_unused]] auto* leaf_squares_of(T*) {        \
        return &bundled::bundled_leaf_squares_##suffix; \
    }
#define THUNDER_TENSOR_PASSES(T) THUNDER_TENSOR_PASSES_OF(T, T)
THUNDER_TENSOR_PASSES_OF(f32, float)
THUNDER_NARROW_TYPES(THUNDER_TENSOR_PASSES)
#undef THUNDER_TENSOR_PASSES
#undef THUNDER_TENSOR_PASSES_OF

}  // namespace

template <typename Rule>
void step_tensor(const TensorStep& s, Stream& stream) {
    const OptimizerUpdate& call = s.call;
    const auto* rule = static_cast<const Rule*>(nullptr);
    const std::int64_t numbers = numbers_of_group(s.of.group);
    const float* clip = &call.scalars->clip_factor;
    with_narrow_of(call, [&]<typename C>(C* c_type) {
        with_types<C>(call.parameters, call.gradients, call.states[0], [&](auto* p_type, auto* g_type, auto* s_type) {
            auto* p = static_cast<decltype(p_type)>(call.parameters.data) + s.of.begin;
            auto* g = static_cast<decltype(g_type)>(const_cast<void*>(call.gradients.data)) + s.of.begin;
            const auto state = [&](int k) { return static_cast<decltype(s_type)>(call.states[k].data) + s.state(k); };
            launch("squares", leaf_squares_of(p_type), s.leaves, 256, stream, s.squares_of_parameter, p, s.elements);
            if (s.factored) {
                launch("rows", rows_of(rule, g_type, s_type), s.matrices * s.rows, 256, stream, state(0), g, s.columns,
                       numbers, call.scalars->rule, clip);
                launch("column_sums", column_sums_of(g_type), s.matrices * s.chunks * blocks_of(s.columns), 256, stream,
                       s.partial, g, s.rows, s.columns, s.chunks, clip);
                launch("columns", columns_of(rule, s_type), blocks_of(s.matrices * s.columns), 256, stream, state(1),
                       s.partial, s.matrices * s.columns, s.rows, s.columns, s.chunks, numbers, call.scalars->rule,
                       clip);
                launch("row_means", row_means_of(s_type), s.matrices, 256, stream, s.means, state(0), s.rows);
                launch("factored", factored_of(rule, g_type, s_type), blocks_of(s.elements), 256, stream, s.x, g,
                       state(0), state(1), s.means, s.elements, s.rows, s.columns, numbers, call.scalars->rule, clip);
            } else {
                launch("vector", vector_of(rule, g_type, s_type), blocks_of(s.elements), 256, stream, s.x, g, state(2),
                       s.elements, numbers, call.scalars->rule, clip);
            }
            launch("squares", bundled::bundled_leaf_squares_f32, s.leaves, 256, stream, s.squares_of_x, s.x,
                   s.elements);
            launch("way", way_of(rule), 1, 512, stream, s.way, s.squares_of_parameter, s.squares_of_x, s.leaves,
                   s.elements, numbers, call.scalars->rule);
            launch("take", take_of(rule, p_type, c_type), blocks_of(s.elements), 256, stream,
                   static_cast<decltype(p_type)>(call.parameters.data), static_cast<C*>(call.narrow_copies.data), s.x,
                   s.way, s.of.begin, s.elements, numbers, s.of.decay, call.scalars->rule, clip,
                   &call.scalars->rounding, s.of.tensor, s.of.first);
        });
    });
}

namespace {

template <typename Rule>
[[maybe_unused]] void update_tensors(const OptimizerUpdate& call, Stream& stream) {
    issue(Rule::name, call, stream, [&] {
        with_narrow_of(call, [&]<typename C>(C*) {
            if (call.narrow_copies) require_dtype("narrow_copies", call.narrow_copies, dtype_of<C>::value);
        });
        for (int k = 1; k < rules::states<Rule>; ++k) require_dtype("states", call.states[k], call.states[0].dtype);
        for (const ParameterSegment& segment : call.segments) step_tensor<Rule>({call, segment}, stream);
    });
}

}  // namespace

#define THUNDER_DEFINE_UPDATE(name, Rule)                    \
    void name(const OptimizerUpdate& call, Stream& stream) { \
        update_tensors<Rule>(call, stream);                  \
    }
THUNDER_TENSOR_RULES(THUNDER_DEFINE_UPDATE)
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
        const auto squares = [&](auto* kernel, auto* from) {
            launch("squares", kernel, leaves, 256, stream, sums, from, elements);
        };
        if (gradients.dtype == DType::f32)
            squares(bundled::bundled_squares_f32, static_cast<const float*>(gradients.data));
#define THUNDER_SQUARES(T) \
    if (gradients.dtype == DType::T) squares(bundled::bundled_squares_##T, static_cast<const T*>(gradients.data));
        THUNDER_NARROW_TYPES(THUNDER_SQUARES)
#undef THUNDER_SQUARES
        if (ranks != nullptr) ranks->add(sums, leaves, stream);
        launch("clip_factor", bundled::bundled_clip_factor, 1, 512, stream, &scalars->grad_norm, &scalars->clip_factor,
               &scalars->max_grad_norm, &scalars->loss_scale, &scalars->most_grad_norm, &scalars->loss_sum, sums,
               leaves);
    });
}

void average_parameters(const AverageUpdate& call, Stream& stream) {
    issue("average_parameters", call, stream, [&] {
        const PieceTable pieces = pieces_of(call.segments, stream);
        require_float("parameters", call.parameters);
        const auto average = [&](auto* kernel, auto* parameters) {
            launch("average", kernel, pieces.count, 256, stream, call.averages, parameters, pieces.numbers, call.part,
                   call.part_of_step);
        };
        if (call.parameters.dtype == DType::f32)
            average(bundled::bundled_average_f32, static_cast<const float*>(call.parameters.data));
#define THUNDER_AVERAGE(T)                 \
    if (call.parameters.dtype == DType::T) \
        average(bundled::bundled_average_##T, static_cast<const T*>(call.parameters.data));
        THUNDER_NARROW_TYPES(THUNDER_AVERAGE)
#undef THUNDER_AVERAGE
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
    launch("next_loss_scale", bundled::bundled_next_loss_scale, 1, 32, stream, &call.scalars->clip_factor,
           &call.scalars->grad_norm, &of->scale, &of->good, &of->skipped, &of->last_skipped, &of->averages,
           &of->average_part, call.interval, call.average_part);
}

}  // namespace thunder

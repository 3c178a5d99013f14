// SPDX-License-Identifier: Apache-2.0
#include "optim/update.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "device/cpu/elements.h"
#include "optim/clipping.h"
#include "optim/describe.h"
#include "optim/global_norm.h"
#include "optim/matrices.h"
#include "optim/rounding.h"
#include "optim/walk_segments.h"

namespace thunder {

namespace {

using rules::fields_of;

// Of parameters in bf16, which `rounding` decides of.
void put_back_at_random(const Output& parameters, std::int64_t at, const float* from, std::int64_t n,
                        std::uint64_t rounding, const ParameterSegment& segment) {
    bf16* to = static_cast<bf16*>(parameters.data) + at;
    const auto first = static_cast<std::uint64_t>(segment.first + at - segment.begin);
    for (std::int64_t i = 0; i < n; ++i)
        to[i].bits = rounded_at_random(std::bit_cast<std::uint32_t>(from[i]),
                                       rounding_bits(rounding, segment.tensor, first + static_cast<std::uint64_t>(i)));
}

using rules::Indices;
using rules::IndicesBelow;

// How a call rounds what it puts back of a segment.
void put_back_parameters(const OptimizerUpdate& call, std::int64_t at, const float* from, std::int64_t n,
                         const ParameterSegment& segment) {
    if (call.scalars->rounding != 0 && call.parameters.dtype == DType::bf16)
        put_back_at_random(call.parameters, at, from, n, call.scalars->rounding, segment);
    else
        put_back(call.parameters, at, from, n);
    put_back(call.narrow_copies, at, from, n);
}

template <typename Rule>
auto numbers_of(const OptimizerUpdate& call, const ParameterSegment& segment) {
    auto numbers = fields_of<Rule::template Numbers, float>(call.scalars->rule + numbers_of_group(segment.group));
    Rule::decay_where(segment.decay, numbers);
    return numbers;
}

// Elements that pass at once, some of them of bf16.
std::int64_t piece_of_call(const OptimizerUpdate& call, std::int64_t n) {
    return piece_of(n, {call.parameters.dtype, call.gradients.dtype, call.states[0].dtype,
                        call.narrow_copies ? call.narrow_copies.dtype : DType::f32});
}

template <typename Rule, int... k>
void update(const OptimizerUpdate& call, Stream& stream, Indices<k...>) {
    const Timed timed = timed_call(Rule::name, call, stream);
    require_float(Rule::name, "parameters", call.parameters);
    require_float(Rule::name, "gradients", call.gradients);
    require_float(Rule::name, "states", call.states[0]);
    (require_dtype(Rule::name, "states", call.states[k], call.states[0].dtype), ...);
    require_float(Rule::name, "narrow_copies", call.narrow_copies);
    const float clip = call.scalars->clip_factor;
    if (is_skipped(clip)) return;
    walk_segments(
        by_element(call.segments), [&](std::int64_t begin, std::int64_t end, const ParameterSegment& segment) {
            const auto numbers = numbers_of<Rule>(call, segment);
            float buffers[2 + sizeof...(k)][piece_elements];
            const std::int64_t piece = piece_of_call(call, end - begin);
            for (std::int64_t at = begin; at < end; at += piece) {
                const std::int64_t n = std::min(piece, end - at);
                float* __restrict p = elements(call.parameters, at, n, buffers[0]);
                const float* __restrict g = elements(call.gradients, at, n, buffers[1]);
                float* s[] = {elements(call.states[k], at + segment.shift[k], n, buffers[2 + k])..., nullptr};
#pragma omp simd
                for (std::int64_t i = 0; i < n; ++i)
                    Rule::element(p[i], clip * g[i], typename Rule::template States<float&>{s[k][i]...}, numbers);
                put_back_parameters(call, at, p, n, segment);
                (put_back(call.states[k], at + segment.shift[k], s[k], n), ...);
            }
        });
    if constexpr (rules::steps_matrices<Rule>)
        for (const ParameterSegment& segment : call.segments)
            if (segment.is_matrix()) step_matrix<Rule>({call, segment}, stream);
}

// body(first element of the arenas, how many, first element of the matrix) for pieces of it
template <typename Body>
void walk_matrix(const MatrixStep& step, Body&& body) {
    walk_segments({&step.of, 1}, [&](std::int64_t begin, std::int64_t end, const ParameterSegment& segment) {
        const std::int64_t piece = piece_of_call(step.call, end - begin);
        for (std::int64_t at = begin; at < end; at += piece) body(at, std::min(piece, end - at), at - segment.begin);
    });
}

}  // namespace

template <typename Rule>
void take_direction(const MatrixStep& step, Stream& stream) {
    const OptimizerUpdate& call = step.call;
    const auto numbers = numbers_of<Rule>(call, step.of);
    const float clip = call.scalars->clip_factor;
    walk_matrix(step, [&](std::int64_t at, std::int64_t n, std::int64_t first) {
        float buffers[2][piece_elements];
        const float* __restrict g = elements(call.gradients, at, n, buffers[0]);
        float* __restrict m = elements(call.states[0], at + step.of.shift[0], n, buffers[1]);
        float* __restrict x = step.x + first;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) x[i] = Rule::direction(clip * g[i], m[i], numbers);
        put_back(call.states[0], at + step.of.shift[0], m, n);
    });
    sum_of_squares(step.sums, step.x, step.elements, stream);
    const auto factor = static_cast<float>(1 / std::max(std::sqrt(*step.sums), Rule::least_norm));
    parallel_for(step.elements, 16384, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) step.x[i] *= factor;
    });
}

void combine(float* x, float a, const float* y, float b, std::int64_t elements, Stream&) {
    parallel_for(elements, 16384, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) x[i] = a * x[i] + b * y[i];
    });
}

template <typename Rule>
void move_along(const MatrixStep& step, Stream&) {
    const OptimizerUpdate& call = step.call;
    const auto numbers = numbers_of<Rule>(call, step.of);
    const auto rows = static_cast<double>(step.of.rows), columns = static_cast<double>(step.of.columns);
    const auto shape = static_cast<float>(Rule::by_shape(rows, columns)),
               size = static_cast<float>(Rule::by_size(rows, columns));
    walk_matrix(step, [&](std::int64_t at, std::int64_t n, std::int64_t first) {
        float buffer[piece_elements];
        float* __restrict p = elements(call.parameters, at, n, buffer);
        const float* __restrict x = step.x + first;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) Rule::move(p[i], x[i], numbers, shape, size);
        put_back_parameters(call, at, p, n, step.of);
    });
}

#define THUNDER_DEFINE_UPDATE(name, Rule)                                               \
    static_assert(rules::states<Rule> <= rules::most_states);                           \
    static_assert(rules::count<Rule::template Numbers> <= rules::most_numbers);         \
    void name(const OptimizerUpdate& call, Stream& stream) {                            \
        update<Rule>(call, stream, typename IndicesBelow<rules::states<Rule>>::type()); \
    }
THUNDER_RULES(THUNDER_DEFINE_UPDATE)
#undef THUNDER_DEFINE_UPDATE

}  // namespace thunder

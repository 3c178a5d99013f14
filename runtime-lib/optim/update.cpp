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
#include "optim/tensors.h"
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
        to[i] = bf16{rounded_at_random(std::bit_cast<std::uint32_t>(from[i]),
                                       rounding_bits(rounding, segment.tensor, first + static_cast<std::uint64_t>(i)))};
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

// ---- states as codes, block by block ----

// A block's state k as numbers.
template <bool signs>
void read_block(float* __restrict to, const OptimizerUpdate& call, const ParameterSegment& segment, int k,
                std::int64_t block, std::int64_t n) {
    const auto* codes =
        static_cast<const std::uint8_t*>(call.states[k].data) + segment.codes[k] + block * rules::block_elements;
    const float scale = static_cast<const float*>(call.states[k].data)[segment.scales[k] + block];
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) to[i] = scale * rules::number_of_code<signs>(codes[i]);
}
// And back. A number that is not finite is seen: its block's scale is none, then.
template <bool signs>
void write_block(const OptimizerUpdate& call, const ParameterSegment& segment, int k, std::int64_t block,
                 const float* __restrict from, std::int64_t n) {
    float largest = 0, none = 0;
#pragma omp simd reduction(max : largest) reduction(+ : none)
    for (std::int64_t i = 0; i < n; ++i) {
        const float magnitude = std::abs(from[i]);
        largest = magnitude > largest ? magnitude : largest;
        none += 0 * from[i];
    }
    static_cast<float*>(call.states[k].data)[segment.scales[k] + block] = largest + none;
    auto* __restrict codes =
        static_cast<std::uint8_t*>(call.states[k].data) + segment.codes[k] + block * rules::block_elements;
    const float by = rules::scaling(largest + none);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
        codes[i] = static_cast<std::uint8_t>(rules::code_of_number<signs>(from[i] * by));
}

template <typename Rule, int... k>
void update_blocks(const OptimizerUpdate& call, Indices<k...>) {
    const float clip = call.scalars->clip_factor;
    walk_blocks(by_block(call.segments), [&](std::int64_t begin, std::int64_t end, const ParameterSegment& segment,
                                             std::int64_t block) {
        const auto numbers = numbers_of<Rule>(call, segment);
        float buffers[2 + sizeof...(k)][rules::block_elements];
        const std::int64_t n = end - begin;
        float* __restrict p = elements(call.parameters, begin, n, buffers[0]);
        const float* __restrict g = elements(call.gradients, begin, n, buffers[1]);
        (read_block<rules::state_has_sign<Rule, k>()>(buffers[2 + k], call, segment, k, block, n), ...);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            Rule::element(p[i], clip * g[i], typename Rule::template States<float&>{buffers[2 + k][i]...}, numbers);
        put_back_parameters(call, begin, p, n, segment);
        (write_block<rules::state_has_sign<Rule, k>()>(call, segment, k, block, buffers[2 + k], n), ...);
    });
}

// ---- element by element, then matrices as wholes ----

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
    if constexpr (sizeof...(k) > 0) update_blocks<Rule>(call, Indices<k...>());
    if constexpr (rules::steps_matrices<Rule>)
        for (const ParameterSegment& segment : call.segments)
            if (segment.is_whole()) step_matrix<Rule>({call, segment}, stream);
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
THUNDER_ELEMENT_RULES(THUNDER_DEFINE_UPDATE)
#undef THUNDER_DEFINE_UPDATE

// ---- every tensor as a whole ----

namespace {

// Elements of a state, one by one: there are far fewer than of parameters.
float load_one(const Output& state, std::int64_t at) {
    float buffer = 0;
    return *elements(as_input(state), at, 1, &buffer);
}
void store_one(const Output& state, std::int64_t at, float x) {
    float buffer = 0;
    *place_of(state, at, &buffer) = x;
    put_back(state, at, &buffer, 1);
}

// Calls body(first element, how many, gradients) for pieces of n elements from `first` of the tensor on.
template <typename Body>
void walk_gradients(const TensorStep& s, std::int64_t first, std::int64_t n, Body&& body) {
    float buffer[piece_elements];
    const std::int64_t piece = piece_of(n, {s.call.gradients.dtype});
    for (std::int64_t at = 0; at < n; at += piece) {
        const std::int64_t some = std::min(piece, n - at);
        body(first + at, some, elements(s.call.gradients, s.of.begin + first + at, some, buffer));
    }
}

template <typename Rule, typename Numbers>
void follow_rows(const TensorStep& s, const Numbers& numbers, float clip) {
    parallel_for(s.matrices * s.rows, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            double sum = 0;
            walk_gradients(s, row * s.columns, s.columns, [&](std::int64_t, std::int64_t n, const float* g) {
#pragma omp simd reduction(+ : sum)
                for (std::int64_t i = 0; i < n; ++i) {
                    const auto x = static_cast<double>(clip * g[i]);
                    sum += x * x;
                }
            });
            const auto mean = static_cast<float>(sum / static_cast<double>(s.columns));
            const std::int64_t at = s.state(0) + row;
            store_one(s.call.states[0], at, Rule::followed(load_one(s.call.states[0], at), mean, numbers));
        }
    });
    for (std::int64_t m = 0; m < s.matrices; ++m) {
        double sum = 0;
        for (std::int64_t r = 0; r < s.rows; ++r)
            sum += static_cast<double>(load_one(s.call.states[0], s.state(0) + m * s.rows + r));
        s.means[m] = sum / static_cast<double>(s.rows);
    }
}

// Chunks of rows, then these: the same sums at any number of threads.
template <typename Rule, typename Numbers>
void follow_columns(const TensorStep& s, const Numbers& numbers, float clip) {
    parallel_for(s.matrices * s.chunks, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t k = begin; k < end; ++k) {
            double* const sums = s.partial + k * s.columns;
            std::fill(sums, sums + s.columns, 0.0);
            const std::int64_t matrix = k / s.chunks, first = k % s.chunks * tensor_chunk;
            for (std::int64_t row = first; row < std::min(first + tensor_chunk, s.rows); ++row) {
                const std::int64_t at = (matrix * s.rows + row) * s.columns;
                walk_gradients(s, at, s.columns, [&](std::int64_t from, std::int64_t n, const float* g) {
                    double* const to = sums + (from - at);
#pragma omp simd
                    for (std::int64_t i = 0; i < n; ++i) {
                        const auto x = static_cast<double>(clip * g[i]);
                        to[i] += x * x;
                    }
                });
            }
        }
    });
    parallel_for(s.matrices * s.columns, 256, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t k = begin; k < end; ++k) {
            double sum = 0;
            for (std::int64_t c = 0; c < s.chunks; ++c)
                sum += s.partial[(k / s.columns * s.chunks + c) * s.columns + k % s.columns];
            const auto mean = static_cast<float>(sum / static_cast<double>(s.rows));
            const std::int64_t at = s.state(1) + k;
            store_one(s.call.states[1], at, Rule::followed(load_one(s.call.states[1], at), mean, numbers));
        }
    });
}

}  // namespace

template <typename Rule>
void step_tensor(const TensorStep& s, Stream& stream) {
    const OptimizerUpdate& call = s.call;
    const auto numbers = numbers_of<Rule>(call, s.of);
    const float clip = call.scalars->clip_factor;
    sum_of_squares(s.squares_of_parameter, advanced(as_input(call.parameters), s.of.begin), s.elements, stream);
    if (s.factored) {
        follow_rows<Rule>(s, numbers, clip);
        follow_columns<Rule>(s, numbers, clip);
        parallel_for(s.matrices * s.rows, 16, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t matrix = row / s.rows, first = row * s.columns;
                const float of_row = load_one(call.states[0], s.state(0) + row),
                            mean = rules::at_least(static_cast<float>(s.means[matrix]), numbers.eps1);
                walk_gradients(s, first, s.columns, [&](std::int64_t from, std::int64_t n, const float* g) {
                    float buffer[piece_elements];
                    const std::int64_t piece = piece_of(n, {call.states[1].dtype});
                    for (std::int64_t at = 0; at < n; at += piece) {
                        const std::int64_t some = std::min(piece, n - at);
                        const float* column =
                            elements(as_input(call.states[1]), s.state(1) + matrix * s.columns + from - first + at,
                                     some, buffer);
                        float* __restrict x = s.x + from + at;
#pragma omp simd
                        for (std::int64_t i = 0; i < some; ++i)
                            x[i] = Rule::direction(clip * g[at + i], of_row * column[i] / mean, numbers);
                    }
                });
            }
        });
    } else {
        parallel_for(s.elements, 16384, [&](std::int64_t begin, std::int64_t end) {
            walk_gradients(s, begin, end - begin, [&](std::int64_t from, std::int64_t n, const float* g) {
                for (std::int64_t i = 0; i < n; ++i) {
                    const std::int64_t at = s.state(2) + from + i;
                    const float x = clip * g[i], v = Rule::followed(load_one(call.states[2], at), x * x, numbers);
                    store_one(call.states[2], at, v);
                    s.x[from + i] = Rule::direction(x, v, numbers);
                }
            });
        });
    }
    sum_of_squares(s.squares_of_x, s.x, s.elements, stream);
    const auto rms = [&](const double* squares) {
        return static_cast<float>(std::sqrt(*squares / static_cast<double>(s.elements)));
    };
    const float way = Rule::way(rms(s.squares_of_parameter), rms(s.squares_of_x), numbers);
    walk_segments({&s.of, 1}, [&](std::int64_t begin, std::int64_t end, const ParameterSegment& segment) {
        float buffer[piece_elements];
        const std::int64_t piece = piece_of_call(call, end - begin);
        for (std::int64_t at = begin; at < end; at += piece) {
            const std::int64_t n = std::min(piece, end - at);
            float* __restrict p = elements(call.parameters, at, n, buffer);
            const float* __restrict x = s.x + (at - segment.begin);
#pragma omp simd
            for (std::int64_t i = 0; i < n; ++i) p[i] = numbers.kept * p[i] - way * x[i];
            put_back_parameters(call, at, p, n, segment);
        }
    });
}

namespace {

template <typename Rule>
void update_tensors(const OptimizerUpdate& call, Stream& stream) {
    const Timed timed = timed_call(Rule::name, call, stream);
    require_float(Rule::name, "parameters", call.parameters);
    require_float(Rule::name, "gradients", call.gradients);
    for (int k = 0; k < rules::states<Rule>; ++k) require_float(Rule::name, "states", call.states[k]);
    require_float(Rule::name, "narrow_copies", call.narrow_copies);
    if (is_skipped(call.scalars->clip_factor)) return;
    for (const ParameterSegment& segment : call.segments) step_tensor<Rule>({call, segment}, stream);
}

}  // namespace

#define THUNDER_DEFINE_UPDATE(name, Rule)                                       \
    static_assert(rules::count<Rule::template Numbers> <= rules::most_numbers); \
    void name(const OptimizerUpdate& call, Stream& stream) {                    \
        update_tensors<Rule>(call, stream);                                     \
    }
THUNDER_TENSOR_RULES(THUNDER_DEFINE_UPDATE)
#undef THUNDER_DEFINE_UPDATE

}  // namespace thunder

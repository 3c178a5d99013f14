// SPDX-License-Identifier: Apache-2.0
// Optimizers' steps of every tensor as a whole: passes over its elements, its rows and its columns (optim/tensors.h).
// Where a step is skipped, states and parameters stay; what scratch holds then nobody reads.
#pragma once

#include "optim/cuda/stepping.h"

namespace thunder::bundled {

// As tensor_leaf and tensor_chunk of the host, which optimizer.cu holds them against.
constexpr std::int64_t leaf_elements = 16384, chunk_rows = 256;

// Sums of squares of leaves of 16 Ki elements, which begin anywhere.
template <typename T>
THUNDER_FUNCTION void leaf_squares(Global<double> sums, Global<const T> of, std::int64_t elements) {
    THUNDER_SHARED(double, shared, 8);
    const std::int64_t begin = block_index() * leaf_elements;
    const std::int64_t end = begin + leaf_elements < elements ? begin + leaf_elements : elements;
    double sum = 0;
    for (std::int64_t i = begin + thread_index(); i < end; i += 256) {
        const auto x = static_cast<double>(wide(of[i]));
        sum += x * x;
    }
    sum = block_sum<256>(sum, shared);
    if (thread_index() == 0) sums[block_index()] = sum;
}
#define BUNDLED_LEAF_SQUARES(T)                                                                \
    THUNDER_KERNEL(256)                                                                        \
    bundled_leaf_squares_##T(Global<double> sums, Global<const T> of, std::int64_t elements) { \
        wait_for_previous_kernel();                                                            \
        leaf_squares(sums, of, elements);                                                      \
    }
THUNDER_FLOAT_TYPES(BUNDLED_LEAF_SQUARES)
#undef BUNDLED_LEAF_SQUARES

// The squares of columns over chunks of 256 rows: a thread for each column and chunk.
template <typename G>
THUNDER_FUNCTION void column_sums(Global<double> sums, Global<const G> gradients, std::int64_t rows,
                                  std::int64_t columns, std::int64_t chunks, Global<const float> clip_factor) {
    const std::int64_t wide_blocks = (columns + 255) / 256, chunk = block_index() / wide_blocks,
                       column = block_index() % wide_blocks * 256 + thread_index();
    if (column >= columns) return;
    const std::int64_t matrix = chunk / chunks, first = chunk % chunks * chunk_rows,
                       last = first + chunk_rows < rows ? first + chunk_rows : rows;
    double sum = 0;
    for (std::int64_t row = first; row < last; ++row) {
        const auto x = static_cast<double>(clip_factor[0] * wide(gradients[(matrix * rows + row) * columns + column]));
        sum += x * x;
    }
    sums[chunk * columns + column] = sum;
}
#define BUNDLED_COLUMN_SUMS(T)                                                                                       \
    THUNDER_KERNEL(256)                                                                                              \
    bundled_column_sums_##T(Global<double> sums, Global<const T> gradients, std::int64_t rows, std::int64_t columns, \
                            std::int64_t chunks, Global<const float> clip_factor) {                                  \
        wait_for_previous_kernel();                                                                                  \
        column_sums(sums, gradients, rows, columns, chunks, clip_factor);                                            \
    }
THUNDER_FLOAT_TYPES(BUNDLED_COLUMN_SUMS)
#undef BUNDLED_COLUMN_SUMS

// The mean of the states of a matrix's rows: a block for each matrix.
template <typename S>
THUNDER_FUNCTION void row_means(Global<double> means, Global<const S> states, std::int64_t rows) {
    THUNDER_SHARED(double, shared, 8);
    double sum = 0;
    for (std::int64_t r = thread_index(); r < rows; r += 256)
        sum += static_cast<double>(wide(states[block_index() * rows + r]));
    sum = block_sum<256>(sum, shared);
    if (thread_index() == 0) means[block_index()] = sum / static_cast<double>(rows);
}
#define BUNDLED_ROW_MEANS(T)                                                                 \
    THUNDER_KERNEL(256)                                                                      \
    bundled_row_means_##T(Global<double> means, Global<const T> states, std::int64_t rows) { \
        wait_for_previous_kernel();                                                          \
        row_means(means, states, rows);                                                      \
    }
THUNDER_FLOAT_TYPES(BUNDLED_ROW_MEANS)
#undef BUNDLED_ROW_MEANS

// A block for each row.
template <typename Rule, typename G, typename S>
THUNDER_FUNCTION void follow_rows(Global<S> states, Global<const G> gradients, std::int64_t columns,
                                  Global<const double> rule, Global<const float> clip_factor) {
    THUNDER_SHARED(double, shared, 8);
    const float clip = clip_factor[0];
    if (is_skipped(clip)) return;
    double sum = 0;
    for (std::int64_t i = thread_index(); i < columns; i += 256) {
        const auto x = static_cast<double>(clip * wide(gradients[block_index() * columns + i]));
        sum += x * x;
    }
    sum = block_sum<256>(sum, shared);
    if (thread_index() != 0) return;
    const auto numbers = rules::fields_of<Rule::template Numbers, float>(rule);
    const auto mean = static_cast<float>(sum / static_cast<double>(columns));
    states[block_index()] = narrow<S>(Rule::followed(wide(states[block_index()]), mean, numbers));
}
#define BUNDLED_ROWS_OF(name, Rule, suffix, G, S)                                                                      \
    THUNDER_KERNEL(256)                                                                                                \
    bundled_##name##_rows_##suffix(Global<S> states, Global<const G> gradients, std::int64_t columns,                  \
                                   std::int64_t numbers, Global<const double> rule, Global<const float> clip_factor) { \
        wait_for_previous_kernel();                                                                                    \
        follow_rows<Rule, G, S>(states, gradients, columns, rule + numbers, clip_factor);                              \
    }

// A thread for each column.
template <typename Rule, typename S>
THUNDER_FUNCTION void follow_columns(Global<S> states, Global<const double> sums, std::int64_t all, std::int64_t rows,
                                     std::int64_t columns, std::int64_t chunks, Global<const double> rule,
                                     Global<const float> clip_factor) {
    const std::int64_t i = element_index();
    if (i >= all || is_skipped(clip_factor[0])) return;
    double sum = 0;
    for (std::int64_t c = 0; c < chunks; ++c) sum += sums[(i / columns * chunks + c) * columns + i % columns];
    const auto numbers = rules::fields_of<Rule::template Numbers, float>(rule);
    const auto mean = static_cast<float>(sum / static_cast<double>(rows));
    states[i] = narrow<S>(Rule::followed(wide(states[i]), mean, numbers));
}
#define BUNDLED_COLUMNS_OF(name, Rule, suffix, S)                                                                \
    THUNDER_KERNEL(256)                                                                                          \
    bundled_##name##_columns_##suffix(                                                                           \
        Global<S> states, Global<const double> sums, std::int64_t all, std::int64_t rows, std::int64_t columns,  \
        std::int64_t chunks, std::int64_t numbers, Global<const double> rule, Global<const float> clip_factor) { \
        wait_for_previous_kernel();                                                                              \
        follow_columns<Rule, S>(states, sums, all, rows, columns, chunks, rule + numbers, clip_factor);          \
    }

template <typename Rule, typename G, typename S>
THUNDER_FUNCTION void factored(Global<float> x, Global<const G> gradients, Global<const S> row, Global<const S> column,
                               Global<const double> means, std::int64_t elements, std::int64_t rows,
                               std::int64_t columns, Global<const double> rule, Global<const float> clip_factor) {
    const std::int64_t i = element_index();
    if (i >= elements) return;
    const auto numbers = rules::fields_of<Rule::template Numbers, float>(rule);
    const std::int64_t matrix = i / (rows * columns);
    const float mean = rules::at_least(static_cast<float>(means[matrix]), numbers.eps1),
                estimate = wide(row[i / columns]) * wide(column[matrix * columns + i % columns]) / mean;
    x[i] = Rule::direction(clip_factor[0] * wide(gradients[i]), estimate, numbers);
}
#define BUNDLED_FACTORED_OF(name, Rule, suffix, G, S)                                                                 \
    THUNDER_KERNEL(256)                                                                                               \
    bundled_##name##_factored_##suffix(Global<float> x, Global<const G> gradients, Global<const S> row,               \
                                       Global<const S> column, Global<const double> means, std::int64_t elements,     \
                                       std::int64_t rows, std::int64_t columns, std::int64_t numbers,                 \
                                       Global<const double> rule, Global<const float> clip_factor) {                  \
        wait_for_previous_kernel();                                                                                   \
        factored<Rule, G, S>(x, gradients, row, column, means, elements, rows, columns, rule + numbers, clip_factor); \
    }

template <typename Rule, typename G, typename S>
THUNDER_FUNCTION void follow_vector(Global<float> x, Global<const G> gradients, Global<S> states, std::int64_t elements,
                                    Global<const double> rule, Global<const float> clip_factor) {
    const std::int64_t i = element_index();
    const float clip = clip_factor[0];
    if (i >= elements || is_skipped(clip)) return;
    const auto numbers = rules::fields_of<Rule::template Numbers, float>(rule);
    const float g = clip * wide(gradients[i]), v = Rule::followed(wide(states[i]), g * g, numbers);
    states[i] = narrow<S>(v);
    x[i] = Rule::direction(g, v, numbers);
}
#define BUNDLED_VECTOR_OF(name, Rule, suffix, G, S)                                                          \
    THUNDER_KERNEL(256)                                                                                      \
    bundled_##name##_vector_##suffix(Global<float> x, Global<const G> gradients, Global<S> states,           \
                                     std::int64_t elements, std::int64_t numbers, Global<const double> rule, \
                                     Global<const float> clip_factor) {                                      \
        wait_for_previous_kernel();                                                                          \
        follow_vector<Rule, G, S>(x, gradients, states, elements, rule + numbers, clip_factor);              \
    }

// What the direction is multiplied with, by one block.
template <typename Rule>
THUNDER_FUNCTION void find_way(Global<double> way, Global<const double> of_parameter, Global<const double> of_x,
                               std::int64_t leaves, std::int64_t elements, Global<const double> rule) {
    THUNDER_SHARED(double, shared, 16);
    THUNDER_SHARED(double, also_shared, 16);
    double sums[2] = {};
    for (std::int64_t i = thread_index(); i < leaves; i += 512) {
        sums[0] += of_parameter[i];
        sums[1] += of_x[i];
    }
    const double first = block_sum<512>(sums[0], shared), second = block_sum<512>(sums[1], also_shared);
    if (thread_index() != 0) return;
    const auto numbers = rules::fields_of<Rule::template Numbers, float>(rule);
    way[0] = static_cast<double>(Rule::way(static_cast<float>(sqrt(first / static_cast<double>(elements))),
                                           static_cast<float>(sqrt(second / static_cast<double>(elements))), numbers));
}
#define BUNDLED_WAY_OF(name, Rule)                                                                         \
    THUNDER_KERNEL(512)                                                                                    \
    bundled_##name##_way(Global<double> way, Global<const double> of_parameter, Global<const double> of_x, \
                         std::int64_t leaves, std::int64_t elements, std::int64_t numbers,                 \
                         Global<const double> rule) {                                                      \
        wait_for_previous_kernel();                                                                        \
        find_way<Rule>(way, of_parameter, of_x, leaves, elements, rule + numbers);                         \
    }

template <typename Rule, typename P, typename C>
THUNDER_FUNCTION void take_way(Global<P> parameters, Global<C> narrow_copies, Global<const float> x,
                               Global<const double> way, const OfMatrix& tensor, Global<const double> rule,
                               Global<const float> clip_factor, const Rounding& rounding) {
    const std::int64_t i = element_index();
    if (i >= tensor.elements || is_skipped(clip_factor[0])) return;
    const float kept = numbers_of<Rule>(rule, tensor).kept;
    const float p = kept * wide(parameters[tensor.begin + i]) - static_cast<float>(way[0]) * x[i];
    const P stored = rounded<P>(p, rounding, tensor.begin + i);
    parameters[tensor.begin + i] = stored;
    if (narrow_copies) narrow_copies[tensor.begin + i] = narrow<C>(wide(stored));
}
#define BUNDLED_TAKE_OF(name, Rule, P, C)                                                                              \
    THUNDER_KERNEL(256)                                                                                                \
    bundled_##name##_take_##P##_##C(Global<P> parameters, Global<C> narrow_copies, Global<const float> x,              \
                                    Global<const double> way, std::int64_t begin, std::int64_t elements,               \
                                    std::int64_t numbers, bool decays, Global<const double> rule,                      \
                                    Global<const float> clip_factor, Global<const std::uint64_t> of_step,              \
                                    std::uint64_t tensor, std::int64_t first) {                                        \
        wait_for_previous_kernel();                                                                                    \
        take_way<Rule, P, C>(parameters, narrow_copies, x, way, {begin, elements, numbers, decays}, rule, clip_factor, \
                             {of_step[0], tensor, first - begin});                                                     \
    }

#define BUNDLED_TENSOR_RULE_AS(name, Rule, C)          \
    BUNDLED_ROWS_OF(name, Rule, f32_##C, float, C)     \
    BUNDLED_ROWS_OF(name, Rule, C##_f32, C, float)     \
    BUNDLED_ROWS_OF(name, Rule, C##_##C, C, C)         \
    BUNDLED_COLUMNS_OF(name, Rule, C, C)               \
    BUNDLED_FACTORED_OF(name, Rule, f32_##C, float, C) \
    BUNDLED_FACTORED_OF(name, Rule, C##_f32, C, float) \
    BUNDLED_FACTORED_OF(name, Rule, C##_##C, C, C)     \
    BUNDLED_VECTOR_OF(name, Rule, f32_##C, float, C)   \
    BUNDLED_VECTOR_OF(name, Rule, C##_f32, C, float)   \
    BUNDLED_VECTOR_OF(name, Rule, C##_##C, C, C)       \
    BUNDLED_TAKE_OF(name, Rule, float, C)              \
    BUNDLED_TAKE_OF(name, Rule, C, C)
#define BUNDLED_TENSOR_RULE(name, Rule)                    \
    BUNDLED_ROWS_OF(name, Rule, f32_f32, float, float)     \
    BUNDLED_COLUMNS_OF(name, Rule, f32, float)             \
    BUNDLED_FACTORED_OF(name, Rule, f32_f32, float, float) \
    BUNDLED_VECTOR_OF(name, Rule, f32_f32, float, float)   \
    BUNDLED_WAY_OF(name, Rule)                             \
    BUNDLED_TENSOR_RULE_AS(name, Rule, bf16)               \
    BUNDLED_TENSOR_RULE_AS(name, Rule, f16)
THUNDER_TENSOR_RULES(BUNDLED_TENSOR_RULE)
#undef BUNDLED_TENSOR_RULE
#undef BUNDLED_TENSOR_RULE_AS
#undef BUNDLED_TAKE_OF
#undef BUNDLED_WAY_OF
#undef BUNDLED_VECTOR_OF
#undef BUNDLED_FACTORED_OF
#undef BUNDLED_COLUMNS_OF
#undef BUNDLED_ROWS_OF

}  // namespace thunder::bundled

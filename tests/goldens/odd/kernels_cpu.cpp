// kernels_cpu.cpp: the model's kernels for CPUs. Sums have fixed trees: the same bits on any number of threads.
// In formulas x1, x2, ... are pieces of x and xᵀ is its transpose; sum_C goes along C, row_sum(x) is of each row of x,
// column_sum(x) of each column, sum(x) of all; silu' is the slope of silu. "dw +=" adds to what dw holds, or
// overwrites it as the WriteMode says.
#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "device/cpu/row_reduction.h"  // row_sum, row_max: fixed trees
#include "device/cpu/vec_math.h"       // exp, tanh, ... that vectorise
#include "device/parallel.h"           // parallel_for, parallel_rows, column_reduction
#include "device/timed.h"              // what --profile and --numerics see of a kernel

namespace vec_math = thunder::math;

using namespace thunder;

// basins_forward:
//   largest = row_max(gauge)
//   added = gauge + softplus(difference) / largest
//   softplus = softplus(difference_2)
//   sigmoid = sigmoid(difference_2)
//   cosine = cos(product_2)
//   sigmoid_2 = sigmoid(difference)
//   cosine_2 = cos(gauge * basins_0_period)
//   where difference = sin(gauge * basins_0_period) - basins_0_level
//   where product_2 = added * basins_1_period
//   where difference_2 = sin(product_2) - basins_1_level
// From the graph's Mul, Sin, Sub, Softplus, ReduceMax, Div, Add
void basins_forward(float* largest, float* added, float* softplus, float* sigmoid, float* cosine, float* sigmoid_2,
    float* cosine_2, const float* gauge, const float* basins_0_period, const float* basins_0_level,
    const float* basins_1_period, const float* basins_1_level, Stream& stream) {
    const Timed timed("basins_forward", {.bytes = 1832, .flops = 9540},
        {largest, added, softplus, sigmoid, cosine, sigmoid_2, cosine_2}, stream);
    constexpr std::int64_t rows = 6, width = 10;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* gauge_row = gauge + row * width;
            float* added_row = added + row * width;
            float* softplus_row = softplus + row * width;
            float* sigmoid_row = sigmoid + row * width;
            float* cosine_row = cosine + row * width;
            float* sigmoid_2_row = sigmoid_2 + row * width;
            float* cosine_2_row = cosine_2 + row * width;
            const float basins_0_level_of_row = basins_0_level[row];
            const float largest_of_row = row_max<float>(width, [&](std::int64_t c) {
                return gauge_row[c];
            });
            const float basins_1_level_of_row = basins_1_level[row];
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float product = gauge_row[c] * basins_0_period[c];
                const float difference = vec_math::sin(product) - basins_0_level_of_row;
                const float softplus_2 = vec_math::relu<float>(difference) +
                    vec_math::log(vec_math::exp(-vec_math::abs(difference)) + 1.0F);
                const float added_c = gauge_row[c] + softplus_2 / largest_of_row;
                const float product_2 = added_c * basins_1_period[c];
                const float difference_2 = vec_math::sin(product_2) - basins_1_level_of_row;
                const float softplus_c = vec_math::relu<float>(difference_2) +
                    vec_math::log(vec_math::exp(-vec_math::abs(difference_2)) + 1.0F);
                const float sigmoid_c = vec_math::sigmoid(difference_2);
                const float cosine_c = vec_math::cos(product_2);
                const float sigmoid_2_c = vec_math::sigmoid(difference);
                const float cosine_2_c = vec_math::cos(product);
                added_row[c] = added_c;
                softplus_row[c] = softplus_c;
                sigmoid_row[c] = sigmoid_c;
                cosine_row[c] = cosine_c;
                sigmoid_2_row[c] = sigmoid_2_c;
                cosine_2_row[c] = cosine_2_c;
            }
            largest[row] = largest_of_row;
        }
    });
}

// log_sum_rows:
//   largest_2 = row_max(added)
//   added_3 = abs(added + softplus / largest_2) + 1
//   logarithm = log(added_3)
//   total_2 = row_sum(added == largest_2)
// From the graph's ReduceMax, Div, Add, Abs, Log
void log_sum_rows(float* largest_2, float* added_3, float* logarithm, float* total_2, const float* added,
    const float* softplus, Stream& stream) {
    const Timed timed("log_sum_rows", {.bytes = 1008, .flops = 1860}, {largest_2, added_3, logarithm, total_2}, stream);
    constexpr std::int64_t rows = 6, width = 10;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* added_row = added + row * width;
            const float* softplus_row = softplus + row * width;
            float* added_3_row = added_3 + row * width;
            float* logarithm_row = logarithm + row * width;
            const float largest_2_of_row = row_max<float>(width, [&](std::int64_t c) {
                return added_row[c];
            });
            const float total_2_of_row = row_sum<float>(width, [&](std::int64_t c) {
                return vec_math::number<float>(added_row[c] == largest_2_of_row);
            });
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float added_3_c = vec_math::abs(added_row[c] + softplus_row[c] / largest_2_of_row) + 1.0F;
                const float logarithm_c = vec_math::log(added_3_c);
                added_3_row[c] = added_3_c;
                logarithm_row[c] = logarithm_c;
            }
            largest_2[row] = largest_2_of_row;
            total_2[row] = total_2_of_row;
        }
    });
}

// shore_forward:
//   total = column_sum(cos(chosen))
//   sine = sin(chosen)
//   where chosen = logarithmᵀ * shore_slope > 0.5 ? logarithmᵀ * shore_slope : 1 / logarithmᵀ
// From the graph's Mul, Greater, Reciprocal, Where, Cos, ReduceSum
void shore_forward(float* total, float* sine, const float* logarithm, const float* shore_slope, Stream& stream) {
    const Timed timed("shore_forward", {.bytes = 744, .flops = 1740}, {total, sine}, stream);
    constexpr std::int64_t rows = 10, width = 6;
    column_reduction(
        rows, width, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* logarithm_column = logarithm + row;
                const float* shore_slope_row = shore_slope + row * width;
                float* sine_row = sine + row * width;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float product_3 = logarithm_column[c * rows] * shore_slope_row[c];
                    const float chosen =
                        vec_math::choose<float>(product_3 > 0.5F, product_3, 1.0F / logarithm_column[c * rows]);
                    partial[c] += vec_math::cos(chosen);
                    sine_row[c] = vec_math::sin(chosen);
                }
            }
        },
        [&](std::int64_t column, float sum) {
            total[column] = sum;
        });
}

// loss_forward_backward:
//   loss_sum += log_sum_exp
//   dtotal = exp(total - log_sum_exp) * dloss
//   where most = abs(max(total)) == inf ? 0 : max(total)
//   where log_sum_exp = log(sum(exp(total - most))) + most
// From the graph's ReduceLogSumExp
void loss_forward_backward(float* loss_sum, float* dtotal, const float* total, const float* dloss, Stream& stream) {
    const Timed timed("loss_forward_backward", {.bytes = 60, .flops = 202}, {loss_sum, dtotal}, stream);
    constexpr std::int64_t width = 6;
    const float dloss_value = dloss[0];
    const float loss_sum_before = loss_sum[0];
    const float largest = row_max<float>(width, [&](std::int64_t c) { return total[c]; });
    const float most = vec_math::abs(largest) == std::numeric_limits<float>::infinity() ? 0.0F : largest;
    const float sum = row_sum<float>(width, [&](std::int64_t c) {
        return vec_math::exp(total[c] - most);
    });
    const float log_sum_exp = vec_math::log(sum) + most;
    const float loss_sum_value = loss_sum_before + log_sum_exp;
    #pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) {
        dtotal[c] = vec_math::exp(total[c] - log_sum_exp) * dloss_value;
    }
    loss_sum[0] = loss_sum_value;
}

// shore_slope_and_basins_1_period_gradients:
//   dshore_slope += (logarithmᵀ * shore_slope > 0.5 ? -(dtotal * sine) : 0) * logarithmᵀ
//   dadded_2 = dlogarithm / added_3 * sign(added + softplus / largest_2)
//   dbasins_1_level_terms = -ddifference_2
//   dadded_part_2 = ddifference_2 * cosine * basins_1_period
//   dbasins_1_period += column_sum(ddifference_2 * cosine * added)
//   where greater = logarithm * shore_slopeᵀ > 0.5
//   where dchosen = -(dtotalᵀ * sineᵀ)
//   where dlogarithm = -((greater ? 0 : dchosen) * (1 / logarithm)^2) + (greater ? dchosen : 0) * shore_slopeᵀ
//   where ddifference_2 = dadded_2 / largest_2 * sigmoid
// From the graph's Cos, Mul, Greater, Where, Reciprocal, Transpose, Log, Div, Add, Abs, Softplus, Sub, Sin
void shore_slope_and_basins_1_period_gradients(float* dshore_slope, float* dadded_2, float* dbasins_1_level_terms,
    float* dadded_part_2, float* dbasins_1_period, const float* dtotal, const float* sine, const float* logarithm,
    const float* shore_slope, const float* added_3, const float* softplus, const float* largest_2, const float* added,
    const float* sigmoid, const float* cosine, const float* basins_1_period, WriteMode mode, Stream& stream) {
    const Timed timed("shore_slope_and_basins_1_period_gradients", {.bytes = 3288, .flops = 3130},
        {dshore_slope, dadded_2, dbasins_1_level_terms, dadded_part_2, dbasins_1_period}, stream);
    {
        // dshore_slope
        constexpr std::int64_t rows = 10, width = 6;
        const bool overwrite = mode == WriteMode::overwrite;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* logarithm_column = logarithm + row;
                const float* shore_slope_row = shore_slope + row * width;
                const float* sine_row = sine + row * width;
                float* dshore_slope_row = dshore_slope + row * width;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float dproduct_3 =
                        vec_math::choose<float>(logarithm_column[c * rows] * shore_slope_row[c] > 0.5F,
                        -(dtotal[c] * sine_row[c]), 0.0F);
                    const float dshore_slope_step = dproduct_3 * logarithm_column[c * rows];
                    dshore_slope_row[c] = overwrite ? dshore_slope_step : dshore_slope_row[c] + dshore_slope_step;
                }
            }
        });
    }
    {
        // dadded_2, dbasins_1_level_terms, dadded_part_2
        constexpr std::int64_t rows = 6, width = 10;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* logarithm_row = logarithm + row * width;
                const float* shore_slope_column = shore_slope + row;
                const float* sine_column = sine + row;
                const float* added_3_row = added_3 + row * width;
                const float* added_row = added + row * width;
                const float* softplus_row = softplus + row * width;
                const float* sigmoid_row = sigmoid + row * width;
                const float* cosine_row = cosine + row * width;
                float* dadded_2_row = dadded_2 + row * width;
                float* dbasins_1_level_terms_row = dbasins_1_level_terms + row * width;
                float* dadded_part_2_row = dadded_part_2 + row * width;
                const float dtotal_of_row = dtotal[row];
                const float largest_2_of_row = largest_2[row];
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const bool greater = logarithm_row[c] * shore_slope_column[c * rows] > 0.5F;
                    const float dchosen = -(dtotal_of_row * sine_column[c * rows]);
                    const float inverse = 1.0F / logarithm_row[c];
                    const float dlogarithm = -(vec_math::choose<float>(greater, 0.0F, dchosen) * (inverse * inverse)) +
                        vec_math::choose<float>(greater, dchosen, 0.0F) * shore_slope_column[c * rows];
                    const float added_2 = added_row[c] + softplus_row[c] / largest_2_of_row;
                    const float dadded_2_c = dlogarithm / added_3_row[c] *
                        static_cast<float>((added_2 > 0) - (added_2 < 0));
                    const float ddifference_2 = dadded_2_c / largest_2_of_row * sigmoid_row[c];
                    const float dbasins_1_level_terms_c = -ddifference_2;
                    const float dadded_part_2_c = ddifference_2 * cosine_row[c] * basins_1_period[c];
                    dadded_2_row[c] = dadded_2_c;
                    dbasins_1_level_terms_row[c] = dbasins_1_level_terms_c;
                    dadded_part_2_row[c] = dadded_part_2_c;
                }
            }
        });
    }
    {
        // dbasins_1_period
        constexpr std::int64_t n = 10;
        const bool overwrite = mode == WriteMode::overwrite;
        parallel_for(n, 4096, [&](std::int64_t begin, std::int64_t end) {
            #pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) {
                float dbasins_1_period_step = 0.0F;
                for (std::int64_t r = 0; r < 6; ++r) {
                    const bool greater = logarithm[r * n + i] * shore_slope[i * 6 + r] > 0.5F;
                    const float dchosen = -(dtotal[r] * sine[i * 6 + r]);
                    const float inverse = 1.0F / logarithm[r * n + i];
                    const float dlogarithm = -(vec_math::choose<float>(greater, 0.0F, dchosen) * (inverse * inverse)) +
                        vec_math::choose<float>(greater, dchosen, 0.0F) * shore_slope[i * 6 + r];
                    const float added_2 = added[r * n + i] + softplus[r * n + i] / largest_2[r];
                    const float ddifference_2 = dlogarithm / added_3[r * n + i] *
                        static_cast<float>((added_2 > 0) - (added_2 < 0)) / largest_2[r] * sigmoid[r * n + i];
                    dbasins_1_period_step += ddifference_2 * cosine[r * n + i] * added[r * n + i];
                }
                dbasins_1_period[i] = overwrite ? dbasins_1_period_step : dbasins_1_period[i] + dbasins_1_period_step;
            }
        });
    }
}

// basins_1_level_gradient:
//   dbasins_1_level += row_sum(dbasins_1_level_terms)
// From the graph's Sub
void basins_1_level_gradient(float* dbasins_1_level, const float* dbasins_1_level_terms, WriteMode mode,
    Stream& stream) {
    const Timed timed("basins_1_level_gradient", {.bytes = 288, .flops = 72}, {dbasins_1_level}, stream);
    constexpr std::int64_t rows = 6, width = 10;
    const bool overwrite = mode == WriteMode::overwrite;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* dbasins_1_level_terms_row = dbasins_1_level_terms + row * width;
            const float dbasins_1_level_step = row_sum<float>(width, [&](std::int64_t c) {
                return dbasins_1_level_terms_row[c];
            });
            dbasins_1_level[row] = overwrite ? dbasins_1_level_step : dbasins_1_level[row] + dbasins_1_level_step;
        }
    });
}

// basins_0_level_gradient:
//   dbasins_0_level += row_sum(-ddifference)
//   dbasins_0_period_terms = ddifference * cosine_2 * gauge
//   where dadded = dadded_2 + (added == largest_2) * (row_sum(-(dadded_2 * (softplus / largest_2) / largest_2)) /
//       total_2) + dadded_part_2
//   where ddifference = dadded / largest * sigmoid_2
// From the graph's Div, ReduceMax, Add, Softplus, Sub, Sin, Mul
void basins_0_level_gradient(float* dbasins_0_level, float* dbasins_0_period_terms, const float* softplus,
    const float* largest_2, const float* dadded_2, const float* total_2, const float* added, const float* dadded_part_2,
    const float* largest, const float* sigmoid_2, const float* cosine_2, const float* gauge, WriteMode mode,
    Stream& stream) {
    const Timed timed("basins_0_level_gradient", {.bytes = 2040, .flops = 1398},
        {dbasins_0_level, dbasins_0_period_terms}, stream);
    constexpr std::int64_t rows = 6, width = 10;
    const bool overwrite = mode == WriteMode::overwrite;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* dadded_2_row = dadded_2 + row * width;
            const float* added_row = added + row * width;
            const float* softplus_row = softplus + row * width;
            const float* dadded_part_2_row = dadded_part_2 + row * width;
            const float* sigmoid_2_row = sigmoid_2 + row * width;
            const float* cosine_2_row = cosine_2 + row * width;
            const float* gauge_row = gauge + row * width;
            float* dbasins_0_period_terms_row = dbasins_0_period_terms + row * width;
            const float largest_2_of_row = largest_2[row];
            const float sum = row_sum<float>(width, [&](std::int64_t c) {
                return -(dadded_2_row[c] * (softplus_row[c] / largest_2_of_row) / largest_2_of_row);
            });
            const float quotient_4 = sum / total_2[row];
            const float largest_of_row = largest[row];
            const float dbasins_0_level_step = row_sum<float>(width, [&](std::int64_t c) {
                const float dadded = dadded_2_row[c] + vec_math::number<float>(added_row[c] == largest_2_of_row) *
                    quotient_4 + dadded_part_2_row[c];
                return -(dadded / largest_of_row * sigmoid_2_row[c]);
            });
            const float dbasins_0_level_of_row = overwrite ? dbasins_0_level_step
                : dbasins_0_level[row] + dbasins_0_level_step;
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float dadded = dadded_2_row[c] + vec_math::number<float>(added_row[c] == largest_2_of_row) *
                    quotient_4 + dadded_part_2_row[c];
                dbasins_0_period_terms_row[c] = dadded / largest_of_row * sigmoid_2_row[c] * cosine_2_row[c] *
                    gauge_row[c];
            }
            dbasins_0_level[row] = dbasins_0_level_of_row;
        }
    });
}

// basins_0_period_gradient:
//   dbasins_0_period += column_sum(dbasins_0_period_terms)
// From the graph's Mul
void basins_0_period_gradient(float* dbasins_0_period, const float* dbasins_0_period_terms, WriteMode mode,
    Stream& stream) {
    const Timed timed("basins_0_period_gradient", {.bytes = 320, .flops = 70}, {dbasins_0_period}, stream);
    constexpr std::int64_t n = 10;
    const bool overwrite = mode == WriteMode::overwrite;
    parallel_for(n, 16384, [&](std::int64_t begin, std::int64_t end) {
        #pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            float dbasins_0_period_step = 0.0F;
            for (std::int64_t r = 0; r < 6; ++r) {
                dbasins_0_period_step += dbasins_0_period_terms[r * n + i];
            }
            dbasins_0_period[i] = overwrite ? dbasins_0_period_step : dbasins_0_period[i] + dbasins_0_period_step;
        }
    });
}

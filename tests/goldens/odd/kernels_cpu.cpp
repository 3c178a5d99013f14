// kernels_cpu.cpp: the model's kernels for CPUs. Sums have fixed trees: the same bits on any number of threads.
// In formulas x1, x2, ... are pieces of x. "dw +=" adds to dw_before, but for a step's first micro-step.
#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "device/cpu/row_reduction.h"  // row_sum, row_max: fixed trees
#include "device/cpu/vec_math.h"       // exp, tanh, ... that vectorise
#include "device/parallel.h"           // parallel_for, parallel_rows, column_reduction
#include "device/timed.h"              // what --profile shows of a kernel

namespace vec_math = thunder::math;

using namespace thunder;

// cos_sum_rows:
//   largest = max(gauge)
//   added = gauge + (max(difference, 0) + log(exp(-abs(difference)) + 1)) / max(gauge)
//   largest_2 = largest_3
//   quotient = (max(difference_2, 0) + log(exp(-abs(difference_2)) + 1)) / largest_3
//   added_2 = abs(added + quotient) + 1
//   logarithm = log(added_2)
//   total = sum((added == largest_3))
//   sigmoid = sigmoid(difference_2)
//   cosine = cos(product)
//   sigmoid_2 = sigmoid(difference)
//   cosine_2 = cos(gauge * basins_0_period)
//   where difference = sin(gauge * basins_0_period) - basins_0_level
//   where product = added * basins_1_period
//   where difference_2 = sin(product) - basins_1_level
//   where largest_3 = max(added)
// Replaces Mul, Sin, Sub, Softplus, ReduceMax, Div, Add, Abs, Log
void cos_sum_rows(float* largest, float* added, float* largest_2, float* quotient, float* added_2, float* logarithm,
    float* total, float* sigmoid, float* cosine, float* sigmoid_2, float* cosine_2, const float* gauge,
    const float* basins_0_period, const float* basins_0_level, const float* basins_1_period,
    const float* basins_1_level, Stream& stream) {
    const Timed timed("cos_sum_rows", {.bytes = 2360, .flops = 18120}, stream);
    constexpr std::int64_t rows = 6, width = 10;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* gauge_row = gauge + row * width;
            float* added_row = added + row * width;
            float* quotient_row = quotient + row * width;
            float* added_2_row = added_2 + row * width;
            float* logarithm_row = logarithm + row * width;
            float* sigmoid_row = sigmoid + row * width;
            float* cosine_row = cosine + row * width;
            float* sigmoid_2_row = sigmoid_2 + row * width;
            float* cosine_2_row = cosine_2 + row * width;
            const float basins_0_level_row = basins_0_level[row];
            const float largest_row = row_max<float>(width, [&](std::int64_t c) {
                return gauge_row[c];
            });
            const float basins_1_level_row = basins_1_level[row];
            const float largest_row_2 = row_max<float>(width, [&](std::int64_t c) {
                const float difference = vec_math::sin(gauge_row[c] * basins_0_period[c]) - basins_0_level_row;
                const float softplus = std::max<float>(difference, 0) +
                    vec_math::log(vec_math::exp(-vec_math::abs(difference)) + 1.0F);
                return gauge_row[c] + softplus / largest_row;
            });
            const float sum = row_sum<float>(width, [&](std::int64_t c) {
                const float difference = vec_math::sin(gauge_row[c] * basins_0_period[c]) - basins_0_level_row;
                const float softplus = std::max<float>(difference, 0) +
                    vec_math::log(vec_math::exp(-vec_math::abs(difference)) + 1.0F);
                return static_cast<float>(gauge_row[c] + softplus / largest_row == largest_row_2);
            });
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float product = gauge_row[c] * basins_0_period[c];
                const float difference = vec_math::sin(product) - basins_0_level_row;
                const float softplus = std::max<float>(difference, 0) +
                    vec_math::log(vec_math::exp(-vec_math::abs(difference)) + 1.0F);
                const float added_c = gauge_row[c] + softplus / largest_row;
                const float product_2 = added_c * basins_1_period[c];
                const float difference_2 = vec_math::sin(product_2) - basins_1_level_row;
                const float softplus_2 = std::max<float>(difference_2, 0) +
                    vec_math::log(vec_math::exp(-vec_math::abs(difference_2)) + 1.0F);
                const float quotient_c = softplus_2 / largest_row_2;
                const float added_c_2 = vec_math::abs(added_c + quotient_c) + 1.0F;
                const float logarithm_c = vec_math::log(added_c_2);
                const float sigmoid_c = vec_math::sigmoid(difference_2);
                const float cosine_c = vec_math::cos(product_2);
                const float sigmoid_c_2 = vec_math::sigmoid(difference);
                const float cosine_c_2 = vec_math::cos(product);
                added_row[c] = added_c;
                quotient_row[c] = quotient_c;
                added_2_row[c] = added_c_2;
                logarithm_row[c] = logarithm_c;
                sigmoid_row[c] = sigmoid_c;
                cosine_row[c] = cosine_c;
                sigmoid_2_row[c] = sigmoid_c_2;
                cosine_2_row[c] = cosine_c_2;
            }
            largest[row] = largest_row;
            largest_2[row] = largest_row_2;
            total[row] = sum;
        }
    });
}

// sin_sum_columns:
//   total = sum over rows(cos(chosen))
//   sine = sin(chosen)
//   where chosen = logarithm * shore_slope > 0.5 ? logarithm * shore_slope : 1 / logarithm
// Replaces Mul, Greater, Reciprocal, Where, Cos, ReduceSum
void sin_sum_columns(float* total, float* sine, const float* logarithm, const float* shore_slope, Stream& stream) {
    const Timed timed("sin_sum_columns", {.bytes = 744, .flops = 1740}, stream);
    constexpr std::int64_t rows = 10, width = 6;
    column_reduction(
        rows, width, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* logarithm_row = logarithm + row;
                const float* shore_slope_row = shore_slope + row * width;
                float* sine_row = sine + row * width;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float product = logarithm_row[c * 10] * shore_slope_row[c];
                    const float chosen = product > 0.5F ? product : 1.0F / logarithm_row[c * 10];
                    partial[c] += vec_math::cos(chosen);
                    sine_row[c] = vec_math::sin(chosen);
                }
            }
        },
        [&](std::int64_t column, float sum) {
            total[column] = sum;
        });
}

// add_exp_sum_rows:
//   dtotal = exp(total - log_sum_exp) * dloss
//   loss_sum_after = loss_sum + log_sum_exp
//   where most = abs(max(total)) == inf ? 0 : max(total)
//   where log_sum_exp = log(sum(exp(total - most))) + most
// Replaces ReduceLogSumExp
void add_exp_sum_rows(float* dtotal, float* loss_sum_after, const float* total, const float* dloss,
    const float* loss_sum, Stream& stream) {
    const Timed timed("add_exp_sum_rows", {.bytes = 60, .flops = 202}, stream);
    constexpr std::int64_t width = 6;
    const float dloss_value = dloss[0];
    const float loss_sum_value = loss_sum[0];
    const float largest = row_max<float>(width, [&](std::int64_t c) { return total[c]; });
    const float most = vec_math::abs(largest) == std::numeric_limits<float>::infinity() ? 0.0F : largest;
    const float sum = row_sum<float>(width, [&](std::int64_t c) {
        return vec_math::exp(total[c] - most);
    });
    const float log_sum_exp = vec_math::log(sum) + most;
    const float loss_sum_after_value = loss_sum_value + log_sum_exp;
    #pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) {
        dtotal[c] = vec_math::exp(total[c] - log_sum_exp) * dloss_value;
    }
    loss_sum_after[0] = loss_sum_after_value;
}

// shore_slope_and_basins_1_period_gradients:
//   dshore_slope += (logarithm1 * shore_slope1 > 0.5 ? -(dtotal1 * sine1) : 0) * logarithm1
//   dadded = (-((greater ? 0 : -(dtotal1 * sine1)) * (1 / logarithm1)^2) + (greater ? -(dtotal1 * sine1) : 0) *
//       shore_slope1) / added1 * sign(added_2_1 + quotient1)
//   negated = -ddifference
//   product = ddifference * cosine1 * basins_1_period
//   where greater = logarithm1 * shore_slope1 > 0.5
//   where ddifference = dadded / largest1 * sigmoid1
//   dbasins_1_period += (-((greater ? 0 : -(dtotal1 * sine1)) * (1 / logarithm1)^2) + (greater ? -(dtotal1 * sine1) :
//       0) * shore_slope1) / added1 * sign(added_2_1 + quotient1) / largest1 * sigmoid1 * cosine1 * added_2_1 +
//       (-((greater_2 ? 0 : -(dtotal2 * sine2)) * (1 / logarithm2)^2) + (greater_2 ? -(dtotal2 * sine2) : 0) *
//       shore_slope2) / added2 * sign(added_2_2 + quotient2) / largest2 * sigmoid2 * cosine2 * added_2_2 +
//       (-((greater_3 ? 0 : -(dtotal3 * sine3)) * (1 / logarithm3)^2) + (greater_3 ? -(dtotal3 * sine3) : 0) *
//       shore_slope3) / added3 * sign(added_2_3 + quotient3) / largest3 * sigmoid3 * cosine3 * added_2_3 +
//       (-((greater_4 ? 0 : -(dtotal4 * sine4)) * (1 / logarithm4)^2) + (greater_4 ? -(dtotal4 * sine4) : 0) *
//       shore_slope4) / added4 * sign(added_2_4 + quotient4) / largest4 * sigmoid4 * cosine4 * added_2_4 +
//       (-((greater_5 ? 0 : -(dtotal5 * sine5)) * (1 / logarithm5)^2) + (greater_5 ? -(dtotal5 * sine5) : 0) *
//       shore_slope5) / added5 * sign(added_2_5 + quotient5) / largest5 * sigmoid5 * cosine5 * added_2_5 +
//       (-((greater_6 ? 0 : -(dtotal6 * sine6)) * (1 / logarithm6)^2) + (greater_6 ? -(dtotal6 * sine6) : 0) *
//       shore_slope6) / added6 * sign(added_2_6 + quotient6) / largest6 * sigmoid6 * cosine6 * added_2_6
//   where greater = logarithm1 * shore_slope1 > 0.5
//   where greater_2 = logarithm2 * shore_slope2 > 0.5
//   where greater_3 = logarithm3 * shore_slope3 > 0.5
//   where greater_4 = logarithm4 * shore_slope4 > 0.5
//   where greater_5 = logarithm5 * shore_slope5 > 0.5
//   where greater_6 = logarithm6 * shore_slope6 > 0.5
// Replaces Cos, Mul, Greater, Where, Reciprocal, Transpose, Log, Add, Abs, Div, Softplus, Sub, Sin
void shore_slope_and_basins_1_period_gradients(float* dshore_slope, float* dadded, float* negated, float* product,
    float* dbasins_1_period, const float* dtotal, const float* sine, const float* logarithm, const float* shore_slope,
    const float* dshore_slope_before, const bool* first_micro_step, const float* added, const float* added_2,
    const float* quotient, const float* largest, const float* sigmoid, const float* cosine,
    const float* basins_1_period, const float* dbasins_1_period_before, Stream& stream) {
    const Timed timed("shore_slope_and_basins_1_period_gradients", {.bytes = 3289, .flops = 3010}, stream);
    {
        // dshore_slope
        constexpr std::int64_t rows = 10, width = 6;
        const bool first_micro_step_value = first_micro_step[0];
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* logarithm_row = logarithm + row;
                const float* shore_slope_row = shore_slope + row * width;
                const float* sine_row = sine + row * width;
                const float* dshore_slope_before_row = dshore_slope_before + row * width;
                float* dshore_slope_row = dshore_slope + row * width;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float dproduct = logarithm_row[c * 10] * shore_slope_row[c] > 0.5F
                        ? -(dtotal[c] * sine_row[c]) : 0.0F;
                    const float dshore_slope_step = dproduct * logarithm_row[c * 10];
                    dshore_slope_row[c] = first_micro_step_value ? dshore_slope_step : dshore_slope_before_row[c] +
                        dshore_slope_step;
                }
            }
        });
    }
    {
        // dadded, negated, product
        constexpr std::int64_t rows = 6, width = 10;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* logarithm_row = logarithm + row * width;
                const float* shore_slope_row = shore_slope + row;
                const float* sine_row = sine + row;
                const float* added_row = added + row * width;
                const float* added_2_row = added_2 + row * width;
                const float* quotient_row = quotient + row * width;
                const float* sigmoid_row = sigmoid + row * width;
                const float* cosine_row = cosine + row * width;
                float* dadded_row = dadded + row * width;
                float* negated_row = negated + row * width;
                float* product_row = product + row * width;
                const float dtotal_row = dtotal[row];
                const float largest_row = largest[row];
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const bool greater = logarithm_row[c] * shore_slope_row[c * 6] > 0.5F;
                    const float dchosen = -(dtotal_row * sine_row[c * 6]);
                    const float inverse = 1.0F / logarithm_row[c];
                    const float dlogarithm = -((greater ? 0.0F : dchosen) * (inverse * inverse)) +
                        (greater ? dchosen : 0.0F) * shore_slope_row[c * 6];
                    const float added_c = added_2_row[c] + quotient_row[c];
                    const float dadded_c = dlogarithm / added_row[c] *
                        static_cast<float>((added_c > 0) - (added_c < 0));
                    const float ddifference = dadded_c / largest_row * sigmoid_row[c];
                    const float negated_c = -ddifference;
                    const float product_c = ddifference * cosine_row[c] * basins_1_period[c];
                    dadded_row[c] = dadded_c;
                    negated_row[c] = negated_c;
                    product_row[c] = product_c;
                }
            }
        });
    }
    {
        // dbasins_1_period
        constexpr std::int64_t n = 10;
        const bool first_micro_step_value = first_micro_step[0];
        const float dtotal_value = dtotal[0];
        const float largest_value = largest[0];
        const float dtotal_value_2 = dtotal[1];
        const float largest_value_2 = largest[1];
        const float dtotal_value_3 = dtotal[2];
        const float largest_value_3 = largest[2];
        const float dtotal_value_4 = dtotal[3];
        const float largest_value_4 = largest[3];
        const float dtotal_value_5 = dtotal[4];
        const float largest_value_5 = largest[4];
        const float dtotal_value_6 = dtotal[5];
        const float largest_value_6 = largest[5];
        parallel_for(n, 4096, [&](std::int64_t begin, std::int64_t end) {
            #pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) {
                const bool greater = logarithm[i] * shore_slope[i * 6] > 0.5F;
                const float dchosen = -(dtotal_value * sine[i * 6]);
                const float inverse = 1.0F / logarithm[i];
                const float dlogarithm = -((greater ? 0.0F : dchosen) * (inverse * inverse)) +
                    (greater ? dchosen : 0.0F) * shore_slope[i * 6];
                const float added_i = added_2[i] + quotient[i];
                const float ddifference = dlogarithm / added[i] * static_cast<float>((added_i > 0) - (added_i < 0)) /
                    largest_value * sigmoid[i];
                const bool greater_2 = logarithm[i + 10] * shore_slope[i * 6 + 1] > 0.5F;
                const float dchosen_2 = -(dtotal_value_2 * sine[i * 6 + 1]);
                const float inverse_2 = 1.0F / logarithm[i + 10];
                const float dlogarithm_2 = -((greater_2 ? 0.0F : dchosen_2) * (inverse_2 * inverse_2)) +
                    (greater_2 ? dchosen_2 : 0.0F) * shore_slope[i * 6 + 1];
                const float added_i_2 = added_2[i + 10] + quotient[i + 10];
                const float ddifference_2 = dlogarithm_2 / added[i + 10] *
                    static_cast<float>((added_i_2 > 0) - (added_i_2 < 0)) / largest_value_2 * sigmoid[i + 10];
                const float added_i_3 = ddifference * cosine[i] * added_2[i] + ddifference_2 * cosine[i + 10] *
                    added_2[i + 10];
                const bool greater_3 = logarithm[i + 20] * shore_slope[i * 6 + 2] > 0.5F;
                const float dchosen_3 = -(dtotal_value_3 * sine[i * 6 + 2]);
                const float inverse_3 = 1.0F / logarithm[i + 20];
                const float dlogarithm_3 = -((greater_3 ? 0.0F : dchosen_3) * (inverse_3 * inverse_3)) +
                    (greater_3 ? dchosen_3 : 0.0F) * shore_slope[i * 6 + 2];
                const float added_i_4 = added_2[i + 20] + quotient[i + 20];
                const float ddifference_3 = dlogarithm_3 / added[i + 20] *
                    static_cast<float>((added_i_4 > 0) - (added_i_4 < 0)) / largest_value_3 * sigmoid[i + 20];
                const bool greater_4 = logarithm[i + 30] * shore_slope[i * 6 + 3] > 0.5F;
                const float dchosen_4 = -(dtotal_value_4 * sine[i * 6 + 3]);
                const float inverse_4 = 1.0F / logarithm[i + 30];
                const float dlogarithm_4 = -((greater_4 ? 0.0F : dchosen_4) * (inverse_4 * inverse_4)) +
                    (greater_4 ? dchosen_4 : 0.0F) * shore_slope[i * 6 + 3];
                const float added_i_5 = added_2[i + 30] + quotient[i + 30];
                const float ddifference_4 = dlogarithm_4 / added[i + 30] *
                    static_cast<float>((added_i_5 > 0) - (added_i_5 < 0)) / largest_value_4 * sigmoid[i + 30];
                const float added_i_6 = added_i_3 + ddifference_3 * cosine[i + 20] * added_2[i + 20] + ddifference_4 *
                    cosine[i + 30] * added_2[i + 30];
                const bool greater_5 = logarithm[i + 40] * shore_slope[i * 6 + 4] > 0.5F;
                const float dchosen_5 = -(dtotal_value_5 * sine[i * 6 + 4]);
                const float inverse_5 = 1.0F / logarithm[i + 40];
                const float dlogarithm_5 = -((greater_5 ? 0.0F : dchosen_5) * (inverse_5 * inverse_5)) +
                    (greater_5 ? dchosen_5 : 0.0F) * shore_slope[i * 6 + 4];
                const float added_i_7 = added_2[i + 40] + quotient[i + 40];
                const float ddifference_5 = dlogarithm_5 / added[i + 40] *
                    static_cast<float>((added_i_7 > 0) - (added_i_7 < 0)) / largest_value_5 * sigmoid[i + 40];
                const bool greater_6 = logarithm[i + 50] * shore_slope[i * 6 + 5] > 0.5F;
                const float dchosen_6 = -(dtotal_value_6 * sine[i * 6 + 5]);
                const float inverse_6 = 1.0F / logarithm[i + 50];
                const float dlogarithm_6 = -((greater_6 ? 0.0F : dchosen_6) * (inverse_6 * inverse_6)) +
                    (greater_6 ? dchosen_6 : 0.0F) * shore_slope[i * 6 + 5];
                const float added_i_8 = added_2[i + 50] + quotient[i + 50];
                const float ddifference_6 = dlogarithm_6 / added[i + 50] *
                    static_cast<float>((added_i_8 > 0) - (added_i_8 < 0)) / largest_value_6 * sigmoid[i + 50];
                const float dbasins_1_period_step = added_i_6 + ddifference_5 * cosine[i + 40] * added_2[i + 40] +
                    ddifference_6 * cosine[i + 50] * added_2[i + 50];
                dbasins_1_period[i] = first_micro_step_value ? dbasins_1_period_step : dbasins_1_period_before[i] +
                    dbasins_1_period_step;
            }
        });
    }
}

// basins_1_level_gradient:
//   dbasins_1_level += sum(negated)
// Replaces Sub
void basins_1_level_gradient(float* dbasins_1_level, const float* negated, const float* dbasins_1_level_before,
    const bool* first_micro_step, Stream& stream) {
    const Timed timed("basins_1_level_gradient", {.bytes = 289, .flops = 72}, stream);
    constexpr std::int64_t rows = 6, width = 10;
    const bool first_micro_step_value = first_micro_step[0];
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* negated_row = negated + row * width;
            const float sum = row_sum<float>(width, [&](std::int64_t c) { return negated_row[c]; });
            dbasins_1_level[row] = first_micro_step_value ? sum : dbasins_1_level_before[row] + sum;
        }
    });
}

// basins_0_level_gradient:
//   dbasins_0_level += sum(-ddifference)
//   product = ddifference * cosine * gauge
//   where ddifference = (dadded + (added == largest) * (sum(-(dadded * quotient / largest)) / total) + product_2) / largest_2
//       * sigmoid
// Replaces Div, ReduceMax, Add, Softplus, Sub, Sin, Mul
void basins_0_level_gradient(float* dbasins_0_level, float* product, const float* dadded, const float* quotient,
    const float* largest, const float* total, const float* added, const float* product_2, const float* largest_2,
    const float* sigmoid, const float* dbasins_0_level_before, const bool* first_micro_step, const float* cosine,
    const float* gauge, Stream& stream) {
    const Timed timed("basins_0_level_gradient", {.bytes = 2041, .flops = 1338}, stream);
    constexpr std::int64_t rows = 6, width = 10;
    const bool first_micro_step_value = first_micro_step[0];
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* dadded_row = dadded + row * width;
            const float* added_row = added + row * width;
            const float* quotient_row = quotient + row * width;
            const float* product_2_row = product_2 + row * width;
            const float* sigmoid_row = sigmoid + row * width;
            const float* cosine_row = cosine + row * width;
            const float* gauge_row = gauge + row * width;
            float* product_row = product + row * width;
            const float largest_row = largest[row];
            const float sum = row_sum<float>(width, [&](std::int64_t c) {
                return -(dadded_row[c] * quotient_row[c] / largest_row);
            });
            const float quotient_row_2 = sum / total[row];
            const float largest_2_row = largest_2[row];
            const float sum_2 = row_sum<float>(width, [&](std::int64_t c) {
                const float dadded_c = dadded_row[c] + static_cast<float>(added_row[c] == largest_row) *
                    quotient_row_2 + product_2_row[c];
                return -(dadded_c / largest_2_row * sigmoid_row[c]);
            });
            const float dbasins_0_level_2 = first_micro_step_value ? sum_2 : dbasins_0_level_before[row] + sum_2;
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float dadded_c = dadded_row[c] + static_cast<float>(added_row[c] == largest_row) *
                    quotient_row_2 + product_2_row[c];
                product_row[c] = dadded_c / largest_2_row * sigmoid_row[c] * cosine_row[c] * gauge_row[c];
            }
            dbasins_0_level[row] = dbasins_0_level_2;
        }
    });
}

// basins_0_period_gradient:
//   dbasins_0_period += product1 + product2 + product3 + product4 + product5 + product6
// Replaces Mul
void basins_0_period_gradient(float* dbasins_0_period, const float* product, const float* dbasins_0_period_before,
    const bool* first_micro_step, Stream& stream) {
    const Timed timed("basins_0_period_gradient", {.bytes = 321, .flops = 70}, stream);
    constexpr std::int64_t n = 10;
    const bool first_micro_step_value = first_micro_step[0];
    parallel_for(n, 16384, [&](std::int64_t begin, std::int64_t end) {
        #pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            const float dbasins_0_period_step = product[i] + product[i + 10] + product[i + 20] + product[i + 30] +
                product[i + 40] + product[i + 50];
            dbasins_0_period[i] = first_micro_step_value ? dbasins_0_period_step : dbasins_0_period_before[i] +
                dbasins_0_period_step;
        }
    });
}

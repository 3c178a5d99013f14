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
//   reduce_max = max(gauge)
//   add = gauge + (max(sub, 0) + log(exp(-abs(sub)) + 1)) / max(gauge)
//   reduce_max_2 = reduce_max_3
//   div = (max(sub_2, 0) + log(exp(-abs(sub_2)) + 1)) / reduce_max_3
//   add_2 = abs(add + div) + 1
//   log = log(add_2)
//   reduce_sum = sum((add == reduce_max_3))
//   sigmoid = sigmoid(sub_2)
//   cos = cos(mul)
//   sigmoid_2 = sigmoid(sub)
//   cos_2 = cos(gauge * basins_0_period)
//   where sub = sin(gauge * basins_0_period) - basins_0_level
//   where mul = add * basins_1_period
//   where sub_2 = sin(mul) - basins_1_level
//   where reduce_max_3 = max(add)
// Replaces Mul, Sin, Sub, Softplus, ReduceMax, Div, Add, Abs, Log
void cos_sum_rows(float* reduce_max, float* add, float* reduce_max_2, float* div, float* add_2, float* log,
    float* reduce_sum, float* sigmoid, float* cos, float* sigmoid_2, float* cos_2, const float* gauge,
    const float* basins_0_period, const float* basins_0_level, const float* basins_1_period,
    const float* basins_1_level, Stream& stream) {
    const Timed timed("cos_sum_rows", {.bytes = 2360, .flops = 18120}, stream);
    constexpr std::int64_t rows = 6, width = 10;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* gauge_row = gauge + row * width;
            float* add_row = add + row * width;
            float* div_row = div + row * width;
            float* add_2_row = add_2 + row * width;
            float* log_row = log + row * width;
            float* sigmoid_row = sigmoid + row * width;
            float* cos_row = cos + row * width;
            float* sigmoid_2_row = sigmoid_2 + row * width;
            float* cos_2_row = cos_2 + row * width;
            const float basins_0_level_row = basins_0_level[row];
            const float max = row_max<float>(width, [&](std::int64_t c) { return gauge_row[c]; });
            const float basins_1_level_row = basins_1_level[row];
            const float max_2 = row_max<float>(width, [&](std::int64_t c) {
                const float sub = vec_math::sin(gauge_row[c] * basins_0_period[c]) - basins_0_level_row;
                const float softplus = std::max<float>(sub, 0) +
                    vec_math::log(vec_math::exp(-vec_math::abs(sub)) + 1.0F);
                return gauge_row[c] + softplus / max;
            });
            const float sum = row_sum<float>(width, [&](std::int64_t c) {
                const float sub = vec_math::sin(gauge_row[c] * basins_0_period[c]) - basins_0_level_row;
                const float softplus = std::max<float>(sub, 0) +
                    vec_math::log(vec_math::exp(-vec_math::abs(sub)) + 1.0F);
                return static_cast<float>(gauge_row[c] + softplus / max == max_2);
            });
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float mul = gauge_row[c] * basins_0_period[c];
                const float sub = vec_math::sin(mul) - basins_0_level_row;
                const float softplus = std::max<float>(sub, 0) +
                    vec_math::log(vec_math::exp(-vec_math::abs(sub)) + 1.0F);
                const float add_3 = gauge_row[c] + softplus / max;
                const float mul_2 = add_3 * basins_1_period[c];
                const float sub_2 = vec_math::sin(mul_2) - basins_1_level_row;
                const float softplus_2 = std::max<float>(sub_2, 0) +
                    vec_math::log(vec_math::exp(-vec_math::abs(sub_2)) + 1.0F);
                const float div_2 = softplus_2 / max_2;
                const float add_4 = vec_math::abs(add_3 + div_2) + 1.0F;
                const float log_2 = vec_math::log(add_4);
                const float sigmoid_3 = vec_math::sigmoid(sub_2);
                const float cos_3 = vec_math::cos(mul_2);
                const float sigmoid_4 = vec_math::sigmoid(sub);
                const float cos_4 = vec_math::cos(mul);
                add_row[c] = add_3;
                div_row[c] = div_2;
                add_2_row[c] = add_4;
                log_row[c] = log_2;
                sigmoid_row[c] = sigmoid_3;
                cos_row[c] = cos_3;
                sigmoid_2_row[c] = sigmoid_4;
                cos_2_row[c] = cos_4;
            }
            reduce_max[row] = max;
            reduce_max_2[row] = max_2;
            reduce_sum[row] = sum;
        }
    });
}

// sin_sum_columns:
//   reduce_sum = sum over rows(cos(select))
//   sin = sin(select)
//   where select = log * shore_slope > 0.5 ? log * shore_slope : 1 / log
// Replaces Mul, Greater, Reciprocal, Where, Cos, ReduceSum
void sin_sum_columns(float* reduce_sum, float* sin, const float* log, const float* shore_slope, Stream& stream) {
    const Timed timed("sin_sum_columns", {.bytes = 744, .flops = 1740}, stream);
    constexpr std::int64_t rows = 10, width = 6;
    column_reduction(
        rows, width, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* log_row = log + row;
                const float* shore_slope_row = shore_slope + row * width;
                float* sin_row = sin + row * width;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float mul = log_row[c * 10] * shore_slope_row[c];
                    const float select = mul > 0.5F ? mul : 1.0F / log_row[c * 10];
                    partial[c] += vec_math::cos(select);
                    sin_row[c] = vec_math::sin(select);
                }
            }
        },
        [&](std::int64_t column, float sum) {
            reduce_sum[column] = sum;
        });
}

// add_exp_sum_rows:
//   dreduce_sum = exp(reduce_sum - log_sum_exp) * dloss
//   loss_sum_after = loss_sum + log_sum_exp
//   where most = abs(max(reduce_sum)) == inf ? 0 : max(reduce_sum)
//   where log_sum_exp = log(sum(exp(reduce_sum - most))) + most
// Replaces ReduceLogSumExp
void add_exp_sum_rows(float* dreduce_sum, float* loss_sum_after, const float* reduce_sum, const float* dloss,
    const float* loss_sum, Stream& stream) {
    const Timed timed("add_exp_sum_rows", {.bytes = 60, .flops = 202}, stream);
    constexpr std::int64_t width = 6;
    const float dloss_value = dloss[0];
    const float loss_sum_value = loss_sum[0];
    const float max = row_max<float>(width, [&](std::int64_t c) { return reduce_sum[c]; });
    const float most = vec_math::abs(max) == std::numeric_limits<float>::infinity() ? 0.0F : max;
    const float sum = row_sum<float>(width, [&](std::int64_t c) {
        return vec_math::exp(reduce_sum[c] - most);
    });
    const float log_sum_exp = vec_math::log(sum) + most;
    const float loss_sum_after_2 = loss_sum_value + log_sum_exp;
    #pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) {
        dreduce_sum[c] = vec_math::exp(reduce_sum[c] - log_sum_exp) * dloss_value;
    }
    loss_sum_after[0] = loss_sum_after_2;
}

// shore_slope_and_basins_1_period_gradients:
//   dshore_slope += (log1 * shore_slope1 > 0.5 ? -(dreduce_sum1 * sin1) : 0) * log1
//   dadd = (-((gt ? 0 : -(dreduce_sum1 * sin1)) * (1 / log1)^2) + (gt ? -(dreduce_sum1 * sin1) : 0) * shore_slope1) / add1
//       * sign(add_2_1 + div1)
//   neg = -dsub
//   mul = dsub * cos1 * basins_1_period
//   where gt = log1 * shore_slope1 > 0.5
//   where dsub = dadd / reduce_max1 * sigmoid1
//   dbasins_1_period += (-((gt ? 0 : -(dreduce_sum1 * sin1)) * (1 / log1)^2) + (gt ? -(dreduce_sum1 * sin1) : 0) *
//       shore_slope1) / add1 * sign(add_2_1 + div1) / reduce_max1 * sigmoid1 * cos1 * add_2_1 + (-((gt_2 ? 0 :
//       -(dreduce_sum2 * sin2)) * (1 / log2)^2) + (gt_2 ? -(dreduce_sum2 * sin2) : 0) * shore_slope2) / add2 *
//       sign(add_2_2 + div2) / reduce_max2 * sigmoid2 * cos2 * add_2_2 + (-((gt_3 ? 0 : -(dreduce_sum3 * sin3)) * (1 / log3)^2)
//       + (gt_3 ? -(dreduce_sum3 * sin3) : 0) * shore_slope3) / add3 * sign(add_2_3 + div3) / reduce_max3 * sigmoid3 *
//       cos3 * add_2_3 + (-((gt_4 ? 0 : -(dreduce_sum4 * sin4)) * (1 / log4)^2) + (gt_4 ? -(dreduce_sum4 * sin4) : 0) *
//       shore_slope4) / add4 * sign(add_2_4 + div4) / reduce_max4 * sigmoid4 * cos4 * add_2_4 + (-((gt_5 ? 0 :
//       -(dreduce_sum5 * sin5)) * (1 / log5)^2) + (gt_5 ? -(dreduce_sum5 * sin5) : 0) * shore_slope5) / add5 *
//       sign(add_2_5 + div5) / reduce_max5 * sigmoid5 * cos5 * add_2_5 + (-((gt_6 ? 0 : -(dreduce_sum6 * sin6)) * (1 / log6)^2)
//       + (gt_6 ? -(dreduce_sum6 * sin6) : 0) * shore_slope6) / add6 * sign(add_2_6 + div6) / reduce_max6 * sigmoid6 *
//       cos6 * add_2_6
//   where gt = log1 * shore_slope1 > 0.5
//   where gt_2 = log2 * shore_slope2 > 0.5
//   where gt_3 = log3 * shore_slope3 > 0.5
//   where gt_4 = log4 * shore_slope4 > 0.5
//   where gt_5 = log5 * shore_slope5 > 0.5
//   where gt_6 = log6 * shore_slope6 > 0.5
// Replaces Cos, Mul, Greater, Where, Reciprocal, Transpose, Log, Add, Abs, Div, Softplus, Sub, Sin
void shore_slope_and_basins_1_period_gradients(float* dshore_slope, float* dadd, float* neg, float* mul,
    float* dbasins_1_period, const float* dreduce_sum, const float* sin, const float* log, const float* shore_slope,
    const float* dshore_slope_before, const bool* first_micro_step, const float* add, const float* add_2,
    const float* div, const float* reduce_max, const float* sigmoid, const float* cos, const float* basins_1_period,
    const float* dbasins_1_period_before, Stream& stream) {
    const Timed timed("shore_slope_and_basins_1_period_gradients", {.bytes = 3289, .flops = 3010}, stream);
    {
        // dshore_slope
        constexpr std::int64_t rows = 10, width = 6;
        const bool first_micro_step_value = first_micro_step[0];
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* log_row = log + row;
                const float* shore_slope_row = shore_slope + row * width;
                const float* sin_row = sin + row * width;
                const float* dshore_slope_before_row = dshore_slope_before + row * width;
                float* dshore_slope_row = dshore_slope + row * width;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float dmul = log_row[c * 10] * shore_slope_row[c] > 0.5F ? -(dreduce_sum[c] * sin_row[c])
                        : 0.0F;
                    const float dshore_slope_step = dmul * log_row[c * 10];
                    dshore_slope_row[c] = first_micro_step_value ? dshore_slope_step : dshore_slope_before_row[c] +
                        dshore_slope_step;
                }
            }
        });
    }
    {
        // dadd, neg, mul
        constexpr std::int64_t rows = 6, width = 10;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* log_row = log + row * width;
                const float* shore_slope_row = shore_slope + row;
                const float* sin_row = sin + row;
                const float* add_row = add + row * width;
                const float* add_2_row = add_2 + row * width;
                const float* div_row = div + row * width;
                const float* sigmoid_row = sigmoid + row * width;
                const float* cos_row = cos + row * width;
                float* dadd_row = dadd + row * width;
                float* neg_row = neg + row * width;
                float* mul_row = mul + row * width;
                const float dreduce_sum_row = dreduce_sum[row];
                const float reduce_max_row = reduce_max[row];
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const bool gt = log_row[c] * shore_slope_row[c * 6] > 0.5F;
                    const float dselect = -(dreduce_sum_row * sin_row[c * 6]);
                    const float reciprocal = 1.0F / log_row[c];
                    const float dlog = -((gt ? 0.0F : dselect) * (reciprocal * reciprocal)) + (gt ? dselect : 0.0F) *
                        shore_slope_row[c * 6];
                    const float add_3 = add_2_row[c] + div_row[c];
                    const float dadd_2 = dlog / add_row[c] * static_cast<float>((add_3 > 0) - (add_3 < 0));
                    const float dsub = dadd_2 / reduce_max_row * sigmoid_row[c];
                    const float neg_2 = -dsub;
                    const float mul_2 = dsub * cos_row[c] * basins_1_period[c];
                    dadd_row[c] = dadd_2;
                    neg_row[c] = neg_2;
                    mul_row[c] = mul_2;
                }
            }
        });
    }
    {
        // dbasins_1_period
        constexpr std::int64_t n = 10;
        const bool first_micro_step_value = first_micro_step[0];
        const float dreduce_sum_value = dreduce_sum[0];
        const float reduce_max_value = reduce_max[0];
        const float dreduce_sum_value_2 = dreduce_sum[1];
        const float reduce_max_value_2 = reduce_max[1];
        const float dreduce_sum_value_3 = dreduce_sum[2];
        const float reduce_max_value_3 = reduce_max[2];
        const float dreduce_sum_value_4 = dreduce_sum[3];
        const float reduce_max_value_4 = reduce_max[3];
        const float dreduce_sum_value_5 = dreduce_sum[4];
        const float reduce_max_value_5 = reduce_max[4];
        const float dreduce_sum_value_6 = dreduce_sum[5];
        const float reduce_max_value_6 = reduce_max[5];
        parallel_for(n, 4096, [&](std::int64_t begin, std::int64_t end) {
            #pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) {
                const bool gt = log[i] * shore_slope[i * 6] > 0.5F;
                const float dselect = -(dreduce_sum_value * sin[i * 6]);
                const float reciprocal = 1.0F / log[i];
                const float dlog = -((gt ? 0.0F : dselect) * (reciprocal * reciprocal)) + (gt ? dselect : 0.0F) *
                    shore_slope[i * 6];
                const float add_3 = add_2[i] + div[i];
                const float dsub = dlog / add[i] * static_cast<float>((add_3 > 0) - (add_3 < 0)) / reduce_max_value *
                    sigmoid[i];
                const bool gt_2 = log[i + 10] * shore_slope[i * 6 + 1] > 0.5F;
                const float dselect_2 = -(dreduce_sum_value_2 * sin[i * 6 + 1]);
                const float reciprocal_2 = 1.0F / log[i + 10];
                const float dlog_2 = -((gt_2 ? 0.0F : dselect_2) * (reciprocal_2 * reciprocal_2)) +
                    (gt_2 ? dselect_2 : 0.0F) * shore_slope[i * 6 + 1];
                const float add_4 = add_2[i + 10] + div[i + 10];
                const float dsub_2 = dlog_2 / add[i + 10] * static_cast<float>((add_4 > 0) - (add_4 < 0)) /
                    reduce_max_value_2 * sigmoid[i + 10];
                const float dbasins_1_period_step = dsub * cos[i] * add_2[i] + dsub_2 * cos[i + 10] * add_2[i + 10];
                const bool gt_3 = log[i + 20] * shore_slope[i * 6 + 2] > 0.5F;
                const float dselect_3 = -(dreduce_sum_value_3 * sin[i * 6 + 2]);
                const float reciprocal_3 = 1.0F / log[i + 20];
                const float dlog_3 = -((gt_3 ? 0.0F : dselect_3) * (reciprocal_3 * reciprocal_3)) +
                    (gt_3 ? dselect_3 : 0.0F) * shore_slope[i * 6 + 2];
                const float add_5 = add_2[i + 20] + div[i + 20];
                const float dsub_3 = dlog_3 / add[i + 20] * static_cast<float>((add_5 > 0) - (add_5 < 0)) /
                    reduce_max_value_3 * sigmoid[i + 20];
                const bool gt_4 = log[i + 30] * shore_slope[i * 6 + 3] > 0.5F;
                const float dselect_4 = -(dreduce_sum_value_4 * sin[i * 6 + 3]);
                const float reciprocal_4 = 1.0F / log[i + 30];
                const float dlog_4 = -((gt_4 ? 0.0F : dselect_4) * (reciprocal_4 * reciprocal_4)) +
                    (gt_4 ? dselect_4 : 0.0F) * shore_slope[i * 6 + 3];
                const float add_6 = add_2[i + 30] + div[i + 30];
                const float dsub_4 = dlog_4 / add[i + 30] * static_cast<float>((add_6 > 0) - (add_6 < 0)) /
                    reduce_max_value_4 * sigmoid[i + 30];
                const float dbasins_1_period_step_2 = dbasins_1_period_step + dsub_3 * cos[i + 20] * add_2[i + 20] +
                    dsub_4 * cos[i + 30] * add_2[i + 30];
                const bool gt_5 = log[i + 40] * shore_slope[i * 6 + 4] > 0.5F;
                const float dselect_5 = -(dreduce_sum_value_5 * sin[i * 6 + 4]);
                const float reciprocal_5 = 1.0F / log[i + 40];
                const float dlog_5 = -((gt_5 ? 0.0F : dselect_5) * (reciprocal_5 * reciprocal_5)) +
                    (gt_5 ? dselect_5 : 0.0F) * shore_slope[i * 6 + 4];
                const float add_7 = add_2[i + 40] + div[i + 40];
                const float dsub_5 = dlog_5 / add[i + 40] * static_cast<float>((add_7 > 0) - (add_7 < 0)) /
                    reduce_max_value_5 * sigmoid[i + 40];
                const bool gt_6 = log[i + 50] * shore_slope[i * 6 + 5] > 0.5F;
                const float dselect_6 = -(dreduce_sum_value_6 * sin[i * 6 + 5]);
                const float reciprocal_6 = 1.0F / log[i + 50];
                const float dlog_6 = -((gt_6 ? 0.0F : dselect_6) * (reciprocal_6 * reciprocal_6)) +
                    (gt_6 ? dselect_6 : 0.0F) * shore_slope[i * 6 + 5];
                const float add_8 = add_2[i + 50] + div[i + 50];
                const float dsub_6 = dlog_6 / add[i + 50] * static_cast<float>((add_8 > 0) - (add_8 < 0)) /
                    reduce_max_value_6 * sigmoid[i + 50];
                const float dbasins_1_period_step_3 = dbasins_1_period_step_2 + dsub_5 * cos[i + 40] * add_2[i + 40] +
                    dsub_6 * cos[i + 50] * add_2[i + 50];
                dbasins_1_period[i] = first_micro_step_value ? dbasins_1_period_step_3 : dbasins_1_period_before[i] +
                    dbasins_1_period_step_3;
            }
        });
    }
}

// basins_1_level_gradient:
//   dbasins_1_level += sum(neg)
// Replaces Sub
void basins_1_level_gradient(float* dbasins_1_level, const float* neg, const float* dbasins_1_level_before,
    const bool* first_micro_step, Stream& stream) {
    const Timed timed("basins_1_level_gradient", {.bytes = 289, .flops = 72}, stream);
    constexpr std::int64_t rows = 6, width = 10;
    const bool first_micro_step_value = first_micro_step[0];
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* neg_row = neg + row * width;
            const float sum = row_sum<float>(width, [&](std::int64_t c) { return neg_row[c]; });
            dbasins_1_level[row] = first_micro_step_value ? sum : dbasins_1_level_before[row] + sum;
        }
    });
}

// basins_0_level_gradient:
//   dbasins_0_level += sum(-dsub)
//   mul = dsub * cos * gauge
//   where dsub = (dadd + (add == reduce_max) * (sum(-(dadd * div / reduce_max)) / reduce_sum) + mul_2) / reduce_max_2 *
//       sigmoid
// Replaces Div, ReduceMax, Add, Softplus, Sub, Sin, Mul
void basins_0_level_gradient(float* dbasins_0_level, float* mul, const float* dadd, const float* div,
    const float* reduce_max, const float* reduce_sum, const float* add, const float* mul_2, const float* reduce_max_2,
    const float* sigmoid, const float* dbasins_0_level_before, const bool* first_micro_step, const float* cos,
    const float* gauge, Stream& stream) {
    const Timed timed("basins_0_level_gradient", {.bytes = 2041, .flops = 1338}, stream);
    constexpr std::int64_t rows = 6, width = 10;
    const bool first_micro_step_value = first_micro_step[0];
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* dadd_row = dadd + row * width;
            const float* add_row = add + row * width;
            const float* div_row = div + row * width;
            const float* mul_2_row = mul_2 + row * width;
            const float* sigmoid_row = sigmoid + row * width;
            const float* cos_row = cos + row * width;
            const float* gauge_row = gauge + row * width;
            float* mul_row = mul + row * width;
            const float reduce_max_row = reduce_max[row];
            const float sum = row_sum<float>(width, [&](std::int64_t c) {
                return -(dadd_row[c] * div_row[c] / reduce_max_row);
            });
            const float div_2 = sum / reduce_sum[row];
            const float reduce_max_2_row = reduce_max_2[row];
            const float sum_2 = row_sum<float>(width, [&](std::int64_t c) {
                const float dadd_2 = dadd_row[c] + static_cast<float>(add_row[c] == reduce_max_row) * div_2 +
                    mul_2_row[c];
                return -(dadd_2 / reduce_max_2_row * sigmoid_row[c]);
            });
            const float dbasins_0_level_2 = first_micro_step_value ? sum_2 : dbasins_0_level_before[row] + sum_2;
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float dadd_2 = dadd_row[c] + static_cast<float>(add_row[c] == reduce_max_row) * div_2 +
                    mul_2_row[c];
                mul_row[c] = dadd_2 / reduce_max_2_row * sigmoid_row[c] * cos_row[c] * gauge_row[c];
            }
            dbasins_0_level[row] = dbasins_0_level_2;
        }
    });
}

// basins_0_period_gradient:
//   dbasins_0_period += mul1 + mul2 + mul3 + mul4 + mul5 + mul6
// Replaces Mul
void basins_0_period_gradient(float* dbasins_0_period, const float* mul, const float* dbasins_0_period_before,
    const bool* first_micro_step, Stream& stream) {
    const Timed timed("basins_0_period_gradient", {.bytes = 321, .flops = 70}, stream);
    constexpr std::int64_t n = 10;
    const bool first_micro_step_value = first_micro_step[0];
    parallel_for(n, 16384, [&](std::int64_t begin, std::int64_t end) {
        #pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            const float dbasins_0_period_step = mul[i] + mul[i + 10] + mul[i + 20] + mul[i + 30] + mul[i + 40] +
                mul[i + 50];
            dbasins_0_period[i] = first_micro_step_value ? dbasins_0_period_step : dbasins_0_period_before[i] +
                dbasins_0_period_step;
        }
    });
}

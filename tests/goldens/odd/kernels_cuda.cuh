// kernels_cuda.cuh: the model's kernels for GPUs, device code alone; kernels_cuda.cu launches them. Sums have
// fixed trees and there are no atomics: the same bits in every run. Grids are cut for sm_90a.
// In formulas x1, x2, ... are pieces of x. "dw +=" adds to dw_before, but for a step's first micro-step.
#pragma once

#include "device/cuda/device.h"
#include "sizes.h"

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
// A warp for each row; a row stays in registers.
THUNDER_KERNEL(256) cos_sum_rows_kernel(Aliased<float> reduce_max, Aliased<float> add, Aliased<float> reduce_max_2,
    Aliased<float> div, Aliased<float> add_2, Aliased<float> log, Aliased<float> reduce_sum, Aliased<float> sigmoid,
    Aliased<float> cos, Aliased<float> sigmoid_2, Aliased<float> cos_2, Aliased<const float> gauge,
    Global<const float> basins_0_period, Aliased<const float> basins_0_level, Global<const float> basins_1_period,
    Aliased<const float> basins_1_level) {
    constexpr int rows = 6, width = 10;
    const int c = lane() * 2;
    const int row = block_index() * 8 + warp();
    if (row >= rows) return;
    Vec<float, 2> gauge_v;
    Vec<float, 2> basins_0_period_v;
    const float basins_0_level_row = basins_0_level[row];
    const float basins_1_level_row = basins_1_level[row];
    float max = -math::infinity();
    if (c < width) {
        gauge_v = load<2>(gauge + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            max = math::max<float>(max, gauge_v[e]);
        }
    }
    max = warp_max(max);
    float max_2 = -math::infinity();
    if (c < width) {
        basins_0_period_v = load<2>(basins_0_period + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float sub = math::sin(gauge_v[e] * basins_0_period_v[e]) - basins_0_level_row;
            const float softplus = math::max<float>(sub, 0) + math::log(math::exp(-math::abs(sub)) + 1.0F);
            max_2 = math::max<float>(max_2, gauge_v[e] + softplus / max);
        }
    }
    max_2 = warp_max(max_2);
    float sum = 0.0F;
    if (c < width) {
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float sub = math::sin(gauge_v[e] * basins_0_period_v[e]) - basins_0_level_row;
            const float softplus = math::max<float>(sub, 0) + math::log(math::exp(-math::abs(sub)) + 1.0F);
            sum += static_cast<float>(gauge_v[e] + softplus / max == max_2);
        }
    }
    sum = warp_sum(sum);
    if (c < width) {
        const auto basins_1_period_v = load<2>(basins_1_period + c);
        Vec<float, 2> add_v;
        Vec<float, 2> div_v;
        Vec<float, 2> add_2_v;
        Vec<float, 2> log_v;
        Vec<float, 2> sigmoid_v;
        Vec<float, 2> cos_v;
        Vec<float, 2> sigmoid_2_v;
        Vec<float, 2> cos_2_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float mul = gauge_v[e] * basins_0_period_v[e];
            const float sub = math::sin(mul) - basins_0_level_row;
            const float softplus = math::max<float>(sub, 0) + math::log(math::exp(-math::abs(sub)) + 1.0F);
            const float add_3 = gauge_v[e] + softplus / max;
            const float mul_2 = add_3 * basins_1_period_v[e];
            const float sub_2 = math::sin(mul_2) - basins_1_level_row;
            const float softplus_2 = math::max<float>(sub_2, 0) + math::log(math::exp(-math::abs(sub_2)) + 1.0F);
            const float div_2 = softplus_2 / max_2;
            const float add_4 = math::abs(add_3 + div_2) + 1.0F;
            add_v[e] = add_3;
            div_v[e] = div_2;
            add_2_v[e] = add_4;
            log_v[e] = math::log(add_4);
            sigmoid_v[e] = math::sigmoid(sub_2);
            cos_v[e] = math::cos(mul_2);
            sigmoid_2_v[e] = math::sigmoid(sub);
            cos_2_v[e] = math::cos(mul);
        }
        store(add + row * width + c, add_v);
        store(div + row * width + c, div_v);
        store(add_2 + row * width + c, add_2_v);
        store(log + row * width + c, log_v);
        store(sigmoid + row * width + c, sigmoid_v);
        store(cos + row * width + c, cos_v);
        store(sigmoid_2 + row * width + c, sigmoid_2_v);
        store(cos_2 + row * width + c, cos_2_v);
    }
    warp_barrier();
    if (lane() == 0) {
        reduce_max[row] = max;
        reduce_max_2[row] = max_2;
        reduce_sum[row] = sum;
    }
}

// sin_sum_columns:
//   reduce_sum = sum over rows(cos(select))
//   sin = sin(select)
//   where select = log * shore_slope > 0.5 ? log * shore_slope : 1 / log
// Replaces Mul, Greater, Reciprocal, Where, Cos, ReduceSum
// A block for each 64 columns, whose 8 warps take row after row; their sums are added in order.
THUNDER_KERNEL(256) sin_sum_columns_kernel(Aliased<float> sin, Global<const float> log,
    Aliased<const float> shore_slope, Global<float> partials) {
    constexpr int rows = 10, width = 6;
    const int c = lane() * 2;
    Vec<float, 2> column_sum = {};
    if (c < width) {
        for (int row = warp(); row < rows; row += 8) {
            const auto shore_slope_v = load<2>(shore_slope + row * width + c);
            Vec<float, 2> sin_v;
            THUNDER_UNROLL
            for (int e = 0; e < 2; ++e) {
                const float mul = log[row + (c + e) * 10] * shore_slope_v[e];
                const float select = mul > 0.5F ? mul : 1.0F / log[row + (c + e) * 10];
                column_sum[e] += math::cos(select);
                sin_v[e] = math::sin(select);
            }
            store(sin + row * width + c, sin_v);
        }
    }
    THUNDER_SHARED(float, shared_2, 512);
    store(shared_2 + warp() * 64 + lane() * 2, column_sum);
    barrier();
    for (int p = thread_index(); p < 64; p += 256) {
        float sum = shared_2[p];
        THUNDER_UNROLL
        for (int w = 1; w < 8; ++w) sum += shared_2[w * 64 + p];
        if (p < width) partials[p] = sum;
    }
}

// Finishes the sums.
THUNDER_KERNEL(256) sin_sum_columns_finish(Global<float> reduce_sum, Global<const float> partials) {
    constexpr int total = 6;
    THUNDER_SHARED(float, shared, 256);
    const int p = block_index() * 32 + lane();
    float sum = 0.0F;
    for (int b = warp(); p < total && b < 1; b += 8) {
        sum += partials[b * 8 + p];
    }
    shared[thread_index()] = sum;
    barrier();
    if (warp() != 0 || p >= total) return;
    THUNDER_UNROLL
    for (int w = 1; w < 8; ++w) sum += shared[w * 32 + lane()];
    reduce_sum[p] = sum;
}

// add_exp_sum_rows:
//   dreduce_sum = exp(reduce_sum - log_sum_exp) * dloss
//   loss_sum_after = loss_sum + log_sum_exp
//   where most = abs(max(reduce_sum)) == inf ? 0 : max(reduce_sum)
//   where log_sum_exp = log(sum(exp(reduce_sum - most))) + most
// Replaces ReduceLogSumExp
// One warp, which stays in registers.
THUNDER_KERNEL(32) add_exp_sum_rows_kernel(Aliased<float> dreduce_sum, Aliased<float> loss_sum_after,
    Aliased<const float> reduce_sum, Aliased<const float> dloss, Aliased<const float> loss_sum) {
    constexpr int width = 6;
    const float dloss_value = dloss[0];
    const float loss_sum_value = loss_sum[0];
    const int c = lane() * 2;
    Vec<float, 2> reduce_sum_v;
    float max = -math::infinity();
    if (c < width) {
        reduce_sum_v = load<2>(reduce_sum + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            max = math::max<float>(max, reduce_sum_v[e]);
        }
    }
    max = warp_max(max);
    const float most = math::abs(max) == math::infinity() ? 0.0F : max;
    float sum = 0.0F;
    if (c < width) {
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            sum += math::exp(reduce_sum_v[e] - most);
        }
    }
    sum = warp_sum(sum);
    const float log_sum_exp = math::log(sum) + most;
    const float loss_sum_after_2 = loss_sum_value + log_sum_exp;
    if (c < width) {
        Vec<float, 2> dreduce_sum_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            dreduce_sum_v[e] = math::exp(reduce_sum_v[e] - log_sum_exp) * dloss_value;
        }
        store(dreduce_sum + c, dreduce_sum_v);
    }
    warp_barrier();
    if (lane() == 0) {
        loss_sum_after[0] = loss_sum_after_2;
    }
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
// A thread for each 2 elements.
THUNDER_KERNEL(256) shore_slope_and_basins_1_period_gradients_1(Aliased<float> dshore_slope,
    Global<const float> dreduce_sum, Global<const float> sin, Global<const float> log, Global<const float> shore_slope,
    Aliased<const float> dshore_slope_before, Global<const bool> first_micro_step) {
    constexpr int rows = 10, width = 6;
    const int i = block_index() * 256 + thread_index();
    if (i >= rows * (width / 2)) return;
    const int row = i / (width / 2);
    const int c = i % (width / 2) * 2;
    const bool first_micro_step_value = first_micro_step[0];
    const auto shore_slope_v = load<2>(shore_slope + row * width + c);
    const auto dreduce_sum_v = load<2>(dreduce_sum + c);
    const auto sin_v = load<2>(sin + row * width + c);
    const auto dshore_slope_before_v = load<2>(dshore_slope_before + row * width + c);
    Vec<float, 2> dshore_slope_v;
    THUNDER_UNROLL
    for (int e = 0; e < 2; ++e) {
        const float dmul = log[row + (c + e) * 10] * shore_slope_v[e] > 0.5F ? -(dreduce_sum_v[e] * sin_v[e]) : 0.0F;
        const float dshore_slope_step = dmul * log[row + (c + e) * 10];
        dshore_slope_v[e] = first_micro_step_value ? dshore_slope_step : dshore_slope_before_v[e] + dshore_slope_step;
    }
    store(dshore_slope + row * width + c, dshore_slope_v);
}

// A thread for each 2 elements.
THUNDER_KERNEL(256) shore_slope_and_basins_1_period_gradients_2(Global<float> dadd, Global<float> neg,
    Global<float> mul, Global<const float> dreduce_sum, Global<const float> sin, Global<const float> log,
    Global<const float> shore_slope, Global<const float> add, Global<const float> add_2, Global<const float> div,
    Global<const float> reduce_max, Global<const float> sigmoid, Global<const float> cos,
    Aliased<const float> basins_1_period) {
    constexpr int rows = 6, width = 10;
    const int i = block_index() * 256 + thread_index();
    if (i >= rows * (width / 2)) return;
    const int row = i / (width / 2);
    const int c = i % (width / 2) * 2;
    const auto log_v = load<2>(log + row * width + c);
    const auto add_v = load<2>(add + row * width + c);
    const auto add_2_v = load<2>(add_2 + row * width + c);
    const auto div_v = load<2>(div + row * width + c);
    const auto sigmoid_v = load<2>(sigmoid + row * width + c);
    const auto cos_v = load<2>(cos + row * width + c);
    const auto basins_1_period_v = load<2>(basins_1_period + c);
    Vec<float, 2> dadd_v;
    Vec<float, 2> neg_v;
    Vec<float, 2> mul_v;
    THUNDER_UNROLL
    for (int e = 0; e < 2; ++e) {
        const bool gt = log_v[e] * shore_slope[row + (c + e) * 6] > 0.5F;
        const float dselect = -(dreduce_sum[row] * sin[row + (c + e) * 6]);
        const float reciprocal = 1.0F / log_v[e];
        const float dlog = -((gt ? 0.0F : dselect) * (reciprocal * reciprocal)) + (gt ? dselect : 0.0F) *
            shore_slope[row + (c + e) * 6];
        const float add_3 = add_2_v[e] + div_v[e];
        const float dadd_2 = dlog / add_v[e] * static_cast<float>((add_3 > 0) - (add_3 < 0));
        const float dsub = dadd_2 / reduce_max[row] * sigmoid_v[e];
        dadd_v[e] = dadd_2;
        neg_v[e] = -dsub;
        mul_v[e] = dsub * cos_v[e] * basins_1_period_v[e];
    }
    store(dadd + row * width + c, dadd_v);
    store(neg + row * width + c, neg_v);
    store(mul + row * width + c, mul_v);
}

// A thread for each 2 elements.
THUNDER_KERNEL(256) shore_slope_and_basins_1_period_gradients_3(Aliased<float> dbasins_1_period,
    Global<const float> dreduce_sum, Global<const float> sin, Global<const float> log, Global<const float> shore_slope,
    Global<const bool> first_micro_step, Global<const float> add, Global<const float> add_2, Global<const float> div,
    Global<const float> reduce_max, Global<const float> sigmoid, Global<const float> cos,
    Aliased<const float> dbasins_1_period_before) {
    constexpr int n = 10;
    const int i = (block_index() * 256 + thread_index()) * 2;
    if (i >= n) return;
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
    const auto log_v = load<2>(log + i);
    const auto add_v = load<2>(add + i);
    const auto add_2_v = load<2>(add_2 + i);
    const auto div_v = load<2>(div + i);
    const auto sigmoid_v = load<2>(sigmoid + i);
    const auto cos_v = load<2>(cos + i);
    const auto log_v_2 = load<2>(log + i + 10);
    const auto add_v_2 = load<2>(add + i + 10);
    const auto add_2_v_2 = load<2>(add_2 + i + 10);
    const auto div_v_2 = load<2>(div + i + 10);
    const auto sigmoid_v_2 = load<2>(sigmoid + i + 10);
    const auto cos_v_2 = load<2>(cos + i + 10);
    const auto log_v_3 = load<2>(log + i + 20);
    const auto add_v_3 = load<2>(add + i + 20);
    const auto add_2_v_3 = load<2>(add_2 + i + 20);
    const auto div_v_3 = load<2>(div + i + 20);
    const auto sigmoid_v_3 = load<2>(sigmoid + i + 20);
    const auto cos_v_3 = load<2>(cos + i + 20);
    const auto log_v_4 = load<2>(log + i + 30);
    const auto add_v_4 = load<2>(add + i + 30);
    const auto add_2_v_4 = load<2>(add_2 + i + 30);
    const auto div_v_4 = load<2>(div + i + 30);
    const auto sigmoid_v_4 = load<2>(sigmoid + i + 30);
    const auto cos_v_4 = load<2>(cos + i + 30);
    const auto log_v_5 = load<2>(log + i + 40);
    const auto add_v_5 = load<2>(add + i + 40);
    const auto add_2_v_5 = load<2>(add_2 + i + 40);
    const auto div_v_5 = load<2>(div + i + 40);
    const auto sigmoid_v_5 = load<2>(sigmoid + i + 40);
    const auto cos_v_5 = load<2>(cos + i + 40);
    const auto log_v_6 = load<2>(log + i + 50);
    const auto add_v_6 = load<2>(add + i + 50);
    const auto add_2_v_6 = load<2>(add_2 + i + 50);
    const auto div_v_6 = load<2>(div + i + 50);
    const auto sigmoid_v_6 = load<2>(sigmoid + i + 50);
    const auto cos_v_6 = load<2>(cos + i + 50);
    const auto dbasins_1_period_before_v = load<2>(dbasins_1_period_before + i);
    Vec<float, 2> dbasins_1_period_v;
    THUNDER_UNROLL
    for (int e = 0; e < 2; ++e) {
        const bool gt = log_v[e] * shore_slope[(i + e) * 6] > 0.5F;
        const float dselect = -(dreduce_sum_value * sin[(i + e) * 6]);
        const float reciprocal = 1.0F / log_v[e];
        const float dlog = -((gt ? 0.0F : dselect) * (reciprocal * reciprocal)) + (gt ? dselect : 0.0F) *
            shore_slope[(i + e) * 6];
        const float add_3 = add_2_v[e] + div_v[e];
        const float dsub = dlog / add_v[e] * static_cast<float>((add_3 > 0) - (add_3 < 0)) / reduce_max_value *
            sigmoid_v[e];
        const bool gt_2 = log_v_2[e] * shore_slope[(i + e) * 6 + 1] > 0.5F;
        const float dselect_2 = -(dreduce_sum_value_2 * sin[(i + e) * 6 + 1]);
        const float reciprocal_2 = 1.0F / log_v_2[e];
        const float dlog_2 = -((gt_2 ? 0.0F : dselect_2) * (reciprocal_2 * reciprocal_2)) + (gt_2 ? dselect_2 : 0.0F) *
            shore_slope[(i + e) * 6 + 1];
        const float add_4 = add_2_v_2[e] + div_v_2[e];
        const float dsub_2 = dlog_2 / add_v_2[e] * static_cast<float>((add_4 > 0) - (add_4 < 0)) / reduce_max_value_2 *
            sigmoid_v_2[e];
        const float dbasins_1_period_step = dsub * cos_v[e] * add_2_v[e] + dsub_2 * cos_v_2[e] * add_2_v_2[e];
        const bool gt_3 = log_v_3[e] * shore_slope[(i + e) * 6 + 2] > 0.5F;
        const float dselect_3 = -(dreduce_sum_value_3 * sin[(i + e) * 6 + 2]);
        const float reciprocal_3 = 1.0F / log_v_3[e];
        const float dlog_3 = -((gt_3 ? 0.0F : dselect_3) * (reciprocal_3 * reciprocal_3)) + (gt_3 ? dselect_3 : 0.0F) *
            shore_slope[(i + e) * 6 + 2];
        const float add_5 = add_2_v_3[e] + div_v_3[e];
        const float dsub_3 = dlog_3 / add_v_3[e] * static_cast<float>((add_5 > 0) - (add_5 < 0)) / reduce_max_value_3 *
            sigmoid_v_3[e];
        const bool gt_4 = log_v_4[e] * shore_slope[(i + e) * 6 + 3] > 0.5F;
        const float dselect_4 = -(dreduce_sum_value_4 * sin[(i + e) * 6 + 3]);
        const float reciprocal_4 = 1.0F / log_v_4[e];
        const float dlog_4 = -((gt_4 ? 0.0F : dselect_4) * (reciprocal_4 * reciprocal_4)) + (gt_4 ? dselect_4 : 0.0F) *
            shore_slope[(i + e) * 6 + 3];
        const float add_6 = add_2_v_4[e] + div_v_4[e];
        const float dsub_4 = dlog_4 / add_v_4[e] * static_cast<float>((add_6 > 0) - (add_6 < 0)) / reduce_max_value_4 *
            sigmoid_v_4[e];
        const float dbasins_1_period_step_2 = dbasins_1_period_step + dsub_3 * cos_v_3[e] * add_2_v_3[e] + dsub_4 *
            cos_v_4[e] * add_2_v_4[e];
        const bool gt_5 = log_v_5[e] * shore_slope[(i + e) * 6 + 4] > 0.5F;
        const float dselect_5 = -(dreduce_sum_value_5 * sin[(i + e) * 6 + 4]);
        const float reciprocal_5 = 1.0F / log_v_5[e];
        const float dlog_5 = -((gt_5 ? 0.0F : dselect_5) * (reciprocal_5 * reciprocal_5)) + (gt_5 ? dselect_5 : 0.0F) *
            shore_slope[(i + e) * 6 + 4];
        const float add_7 = add_2_v_5[e] + div_v_5[e];
        const float dsub_5 = dlog_5 / add_v_5[e] * static_cast<float>((add_7 > 0) - (add_7 < 0)) / reduce_max_value_5 *
            sigmoid_v_5[e];
        const bool gt_6 = log_v_6[e] * shore_slope[(i + e) * 6 + 5] > 0.5F;
        const float dselect_6 = -(dreduce_sum_value_6 * sin[(i + e) * 6 + 5]);
        const float reciprocal_6 = 1.0F / log_v_6[e];
        const float dlog_6 = -((gt_6 ? 0.0F : dselect_6) * (reciprocal_6 * reciprocal_6)) + (gt_6 ? dselect_6 : 0.0F) *
            shore_slope[(i + e) * 6 + 5];
        const float add_8 = add_2_v_6[e] + div_v_6[e];
        const float dsub_6 = dlog_6 / add_v_6[e] * static_cast<float>((add_8 > 0) - (add_8 < 0)) / reduce_max_value_6 *
            sigmoid_v_6[e];
        const float dbasins_1_period_step_3 = dbasins_1_period_step_2 + dsub_5 * cos_v_5[e] * add_2_v_5[e] + dsub_6 *
            cos_v_6[e] * add_2_v_6[e];
        dbasins_1_period_v[e] = first_micro_step_value ? dbasins_1_period_step_3 : dbasins_1_period_before_v[e] +
            dbasins_1_period_step_3;
    }
    store(dbasins_1_period + i, dbasins_1_period_v);
}

// basins_1_level_gradient:
//   dbasins_1_level += sum(neg)
// Replaces Sub
// A warp for each row.
THUNDER_KERNEL(256) basins_1_level_gradient_kernel(Aliased<float> dbasins_1_level, Global<const float> neg,
    Aliased<const float> dbasins_1_level_before, Global<const bool> first_micro_step) {
    constexpr int rows = 6, width = 10;
    const bool first_micro_step_value = first_micro_step[0];
    const int c = lane() * 2;
    const int row = block_index() * 8 + warp();
    if (row >= rows) return;
    float sum = 0.0F;
    if (c < width) {
        const auto neg_v = load<2>(neg + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            sum += neg_v[e];
        }
    }
    sum = warp_sum(sum);
    warp_barrier();
    if (lane() == 0) {
        dbasins_1_level[row] = first_micro_step_value ? sum : dbasins_1_level_before[row] + sum;
    }
}

// basins_0_level_gradient:
//   dbasins_0_level += sum(-dsub)
//   mul = dsub * cos * gauge
//   where dsub = (dadd + (add == reduce_max) * (sum(-(dadd * div / reduce_max)) / reduce_sum) + mul_2) / reduce_max_2 *
//       sigmoid
// Replaces Div, ReduceMax, Add, Softplus, Sub, Sin, Mul
// A warp for each row; a row stays in registers.
THUNDER_KERNEL(256) basins_0_level_gradient_kernel(Aliased<float> dbasins_0_level, Aliased<float> mul,
    Aliased<const float> dadd, Aliased<const float> div, Aliased<const float> reduce_max,
    Aliased<const float> reduce_sum, Aliased<const float> add, Aliased<const float> mul_2,
    Aliased<const float> reduce_max_2, Aliased<const float> sigmoid, Aliased<const float> dbasins_0_level_before,
    Global<const bool> first_micro_step, Aliased<const float> cos, Aliased<const float> gauge) {
    constexpr int rows = 6, width = 10;
    const bool first_micro_step_value = first_micro_step[0];
    const int c = lane() * 2;
    const int row = block_index() * 8 + warp();
    if (row >= rows) return;
    Vec<float, 2> dadd_v;
    Vec<float, 2> add_v;
    Vec<float, 2> mul_2_v;
    Vec<float, 2> sigmoid_v;
    const float reduce_max_row = reduce_max[row];
    const float reduce_max_2_row = reduce_max_2[row];
    float sum = 0.0F;
    if (c < width) {
        dadd_v = load<2>(dadd + row * width + c);
        const auto div_v = load<2>(div + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            sum += -(dadd_v[e] * div_v[e] / reduce_max_row);
        }
    }
    sum = warp_sum(sum);
    const float div_2 = sum / reduce_sum[row];
    float sum_2 = 0.0F;
    if (c < width) {
        add_v = load<2>(add + row * width + c);
        mul_2_v = load<2>(mul_2 + row * width + c);
        sigmoid_v = load<2>(sigmoid + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float dadd_2 = dadd_v[e] + static_cast<float>(add_v[e] == reduce_max_row) * div_2 + mul_2_v[e];
            sum_2 += -(dadd_2 / reduce_max_2_row * sigmoid_v[e]);
        }
    }
    sum_2 = warp_sum(sum_2);
    const float dbasins_0_level_2 = first_micro_step_value ? sum_2 : dbasins_0_level_before[row] + sum_2;
    if (c < width) {
        const auto cos_v = load<2>(cos + row * width + c);
        const auto gauge_v = load<2>(gauge + row * width + c);
        Vec<float, 2> mul_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float dadd_2 = dadd_v[e] + static_cast<float>(add_v[e] == reduce_max_row) * div_2 + mul_2_v[e];
            mul_v[e] = dadd_2 / reduce_max_2_row * sigmoid_v[e] * cos_v[e] * gauge_v[e];
        }
        store(mul + row * width + c, mul_v);
    }
    warp_barrier();
    if (lane() == 0) {
        dbasins_0_level[row] = dbasins_0_level_2;
    }
}

// basins_0_period_gradient:
//   dbasins_0_period += mul1 + mul2 + mul3 + mul4 + mul5 + mul6
// Replaces Mul
// A thread for each 2 elements.
THUNDER_KERNEL(256) basins_0_period_gradient_kernel(Aliased<float> dbasins_0_period, Global<const float> mul,
    Aliased<const float> dbasins_0_period_before, Global<const bool> first_micro_step) {
    constexpr int n = 10;
    const int i = (block_index() * 256 + thread_index()) * 2;
    if (i >= n) return;
    const bool first_micro_step_value = first_micro_step[0];
    const auto mul_v = load<2>(mul + i);
    const auto mul_v_2 = load<2>(mul + i + 10);
    const auto mul_v_3 = load<2>(mul + i + 20);
    const auto mul_v_4 = load<2>(mul + i + 30);
    const auto mul_v_5 = load<2>(mul + i + 40);
    const auto mul_v_6 = load<2>(mul + i + 50);
    const auto dbasins_0_period_before_v = load<2>(dbasins_0_period_before + i);
    Vec<float, 2> dbasins_0_period_v;
    THUNDER_UNROLL
    for (int e = 0; e < 2; ++e) {
        const float dbasins_0_period_step = mul_v[e] + mul_v_2[e] + mul_v_3[e] + mul_v_4[e] + mul_v_5[e] + mul_v_6[e];
        dbasins_0_period_v[e] = first_micro_step_value ? dbasins_0_period_step : dbasins_0_period_before_v[e] +
            dbasins_0_period_step;
    }
    store(dbasins_0_period + i, dbasins_0_period_v);
}

// kernels_cuda.cuh: the model's kernels for GPUs, device code alone; kernels_cuda.cu launches them. Sums have
// fixed trees and there are no atomics: the same bits in every run. Grids are cut for sm_90a.
// In formulas x1, x2, ... are pieces of x. "dw +=" adds to dw_before, but for a step's first micro-step.
#pragma once

#include "device/cuda/device.h"
#include "sizes.h"

using namespace thunder;

// cos_sum_rows:
//   largest = max(gauge)
//   added = gauge + (max(difference, 0) + log(exp(-abs(difference)) + 1)) / max(gauge)
//   largest_2 = largest_3
//   quotient = (max(difference_2, 0) + log(exp(-abs(difference_2)) + 1)) / largest_3
//   added_2 = abs(added + quotient) + 1
//   logarithm = log(added_2)
//   total_2 = sum((added == largest_3))
//   sigmoid = sigmoid(difference_2)
//   cosine = cos(product)
//   sigmoid_2 = sigmoid(difference)
//   cosine_2 = cos(gauge * basins_0_period)
//   where difference = sin(gauge * basins_0_period) - basins_0_level
//   where product = added * basins_1_period
//   where difference_2 = sin(product) - basins_1_level
//   where largest_3 = max(added)
// Replaces Mul, Sin, Sub, Softplus, ReduceMax, Div, Add, Abs, Log
// A warp for each row; a row stays in registers.
THUNDER_KERNEL(256) cos_sum_rows_kernel(Aliased<float> largest, Aliased<float> added, Aliased<float> largest_2,
    Aliased<float> quotient, Aliased<float> added_2, Aliased<float> logarithm, Aliased<float> total_2,
    Aliased<float> sigmoid, Aliased<float> cosine, Aliased<float> sigmoid_2, Aliased<float> cosine_2,
    Aliased<const float> gauge, Global<const float> basins_0_period, Aliased<const float> basins_0_level,
    Global<const float> basins_1_period, Aliased<const float> basins_1_level) {
    constexpr int rows = 6, width = 10;
    const int c = lane() * 2;
    const int row = block_index() * 8 + warp();
    if (row >= rows) return;
    Vec<float, 2> gauge_v;
    Vec<float, 2> basins_0_period_v;
    const float basins_0_level_row = basins_0_level[row];
    const float basins_1_level_row = basins_1_level[row];
    float largest_row = -math::infinity();
    if (c < width) {
        gauge_v = load<2>(gauge + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            largest_row = math::max<float>(largest_row, gauge_v[e]);
        }
    }
    largest_row = warp_max(largest_row);
    float largest_row_2 = -math::infinity();
    if (c < width) {
        basins_0_period_v = load<2>(basins_0_period + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float difference = math::sin(gauge_v[e] * basins_0_period_v[e]) - basins_0_level_row;
            const float softplus = math::max<float>(difference, 0) +
                math::log(math::exp(-math::abs(difference)) + 1.0F);
            largest_row_2 = math::max<float>(largest_row_2, gauge_v[e] + softplus / largest_row);
        }
    }
    largest_row_2 = warp_max(largest_row_2);
    float sum = 0.0F;
    if (c < width) {
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float difference = math::sin(gauge_v[e] * basins_0_period_v[e]) - basins_0_level_row;
            const float softplus = math::max<float>(difference, 0) +
                math::log(math::exp(-math::abs(difference)) + 1.0F);
            sum += static_cast<float>(gauge_v[e] + softplus / largest_row == largest_row_2);
        }
    }
    sum = warp_sum(sum);
    if (c < width) {
        const auto basins_1_period_v = load<2>(basins_1_period + c);
        Vec<float, 2> added_v;
        Vec<float, 2> quotient_v;
        Vec<float, 2> added_2_v;
        Vec<float, 2> logarithm_v;
        Vec<float, 2> sigmoid_v;
        Vec<float, 2> cosine_v;
        Vec<float, 2> sigmoid_2_v;
        Vec<float, 2> cosine_2_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float product = gauge_v[e] * basins_0_period_v[e];
            const float difference = math::sin(product) - basins_0_level_row;
            const float softplus = math::max<float>(difference, 0) +
                math::log(math::exp(-math::abs(difference)) + 1.0F);
            const float added_c = gauge_v[e] + softplus / largest_row;
            const float product_2 = added_c * basins_1_period_v[e];
            const float difference_2 = math::sin(product_2) - basins_1_level_row;
            const float softplus_2 = math::max<float>(difference_2, 0) +
                math::log(math::exp(-math::abs(difference_2)) + 1.0F);
            const float quotient_c = softplus_2 / largest_row_2;
            const float added_c_2 = math::abs(added_c + quotient_c) + 1.0F;
            added_v[e] = added_c;
            quotient_v[e] = quotient_c;
            added_2_v[e] = added_c_2;
            logarithm_v[e] = math::log(added_c_2);
            sigmoid_v[e] = math::sigmoid(difference_2);
            cosine_v[e] = math::cos(product_2);
            sigmoid_2_v[e] = math::sigmoid(difference);
            cosine_2_v[e] = math::cos(product);
        }
        store(added + row * width + c, added_v);
        store(quotient + row * width + c, quotient_v);
        store(added_2 + row * width + c, added_2_v);
        store(logarithm + row * width + c, logarithm_v);
        store(sigmoid + row * width + c, sigmoid_v);
        store(cosine + row * width + c, cosine_v);
        store(sigmoid_2 + row * width + c, sigmoid_2_v);
        store(cosine_2 + row * width + c, cosine_2_v);
    }
    warp_barrier();
    if (lane() == 0) {
        largest[row] = largest_row;
        largest_2[row] = largest_row_2;
        total_2[row] = sum;
    }
}

// sin_sum_columns:
//   total_2 = sum over rows(cos(chosen))
//   sine = sin(chosen)
//   where chosen = logarithm * shore_slope > 0.5 ? logarithm * shore_slope : 1 / logarithm
// Replaces Mul, Greater, Reciprocal, Where, Cos, ReduceSum
// A block for each 64 columns, whose 8 warps take row after row; their sums are added in order.
THUNDER_KERNEL(256) sin_sum_columns_kernel(Aliased<float> sine, Global<const float> logarithm,
    Aliased<const float> shore_slope, Global<float> partials) {
    constexpr int rows = 10, width = 6;
    const int c = lane() * 2;
    Vec<float, 2> column_sum = {};
    if (c < width) {
        for (int row = warp(); row < rows; row += 8) {
            const auto shore_slope_v = load<2>(shore_slope + row * width + c);
            Vec<float, 2> sine_v;
            THUNDER_UNROLL
            for (int e = 0; e < 2; ++e) {
                const float product = logarithm[row + (c + e) * 10] * shore_slope_v[e];
                const float chosen = product > 0.5F ? product : 1.0F / logarithm[row + (c + e) * 10];
                column_sum[e] += math::cos(chosen);
                sine_v[e] = math::sin(chosen);
            }
            store(sine + row * width + c, sine_v);
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
THUNDER_KERNEL(256) sin_sum_columns_finish(Global<float> total_2, Global<const float> partials) {
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
    total_2[p] = sum;
}

// add_exp_sum_rows:
//   dtotal = exp(total_2 - log_sum_exp) * dloss
//   loss_sum_after = loss_sum + log_sum_exp
//   where most = abs(max(total_2)) == inf ? 0 : max(total_2)
//   where log_sum_exp = log(sum(exp(total_2 - most))) + most
// Replaces ReduceLogSumExp
// One warp, which stays in registers.
THUNDER_KERNEL(32) add_exp_sum_rows_kernel(Aliased<float> dtotal, Aliased<float> loss_sum_after,
    Aliased<const float> total_2, Aliased<const float> dloss, Aliased<const float> loss_sum) {
    constexpr int width = 6;
    const float dloss_value = dloss[0];
    const float loss_sum_value = loss_sum[0];
    const int c = lane() * 2;
    Vec<float, 2> total_2_v;
    float largest = -math::infinity();
    if (c < width) {
        total_2_v = load<2>(total_2 + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            largest = math::max<float>(largest, total_2_v[e]);
        }
    }
    largest = warp_max(largest);
    const float most = math::abs(largest) == math::infinity() ? 0.0F : largest;
    float sum = 0.0F;
    if (c < width) {
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            sum += math::exp(total_2_v[e] - most);
        }
    }
    sum = warp_sum(sum);
    const float log_sum_exp = math::log(sum) + most;
    const float loss_sum_after_value = loss_sum_value + log_sum_exp;
    if (c < width) {
        Vec<float, 2> dtotal_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            dtotal_v[e] = math::exp(total_2_v[e] - log_sum_exp) * dloss_value;
        }
        store(dtotal + c, dtotal_v);
    }
    warp_barrier();
    if (lane() == 0) {
        loss_sum_after[0] = loss_sum_after_value;
    }
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
// A thread for each 2 elements.
THUNDER_KERNEL(256) shore_slope_and_basins_1_period_gradients_1(Aliased<float> dshore_slope, Global<const float> dtotal,
    Global<const float> sine, Global<const float> logarithm, Global<const float> shore_slope,
    Aliased<const float> dshore_slope_before, Global<const bool> first_micro_step) {
    constexpr int rows = 10, width = 6;
    const int i = block_index() * 256 + thread_index();
    if (i >= rows * (width / 2)) return;
    const int row = i / (width / 2);
    const int c = i % (width / 2) * 2;
    const bool first_micro_step_value = first_micro_step[0];
    const auto shore_slope_v = load<2>(shore_slope + row * width + c);
    const auto dtotal_v = load<2>(dtotal + c);
    const auto sine_v = load<2>(sine + row * width + c);
    const auto dshore_slope_before_v = load<2>(dshore_slope_before + row * width + c);
    Vec<float, 2> dshore_slope_v;
    THUNDER_UNROLL
    for (int e = 0; e < 2; ++e) {
        const float dproduct = logarithm[row + (c + e) * 10] * shore_slope_v[e] > 0.5F ? -(dtotal_v[e] * sine_v[e]) : 0.0F;
        const float dshore_slope_step = dproduct * logarithm[row + (c + e) * 10];
        dshore_slope_v[e] = first_micro_step_value ? dshore_slope_step : dshore_slope_before_v[e] + dshore_slope_step;
    }
    store(dshore_slope + row * width + c, dshore_slope_v);
}

// A thread for each 2 elements.
THUNDER_KERNEL(256) shore_slope_and_basins_1_period_gradients_2(Global<float> dadded, Global<float> negated,
    Global<float> product, Global<const float> dtotal, Global<const float> sine, Global<const float> logarithm,
    Global<const float> shore_slope, Global<const float> added, Global<const float> added_2,
    Global<const float> quotient, Global<const float> largest, Global<const float> sigmoid, Global<const float> cosine,
    Aliased<const float> basins_1_period) {
    constexpr int rows = 6, width = 10;
    const int i = block_index() * 256 + thread_index();
    if (i >= rows * (width / 2)) return;
    const int row = i / (width / 2);
    const int c = i % (width / 2) * 2;
    const auto logarithm_v = load<2>(logarithm + row * width + c);
    const auto added_v = load<2>(added + row * width + c);
    const auto added_2_v = load<2>(added_2 + row * width + c);
    const auto quotient_v = load<2>(quotient + row * width + c);
    const auto sigmoid_v = load<2>(sigmoid + row * width + c);
    const auto cosine_v = load<2>(cosine + row * width + c);
    const auto basins_1_period_v = load<2>(basins_1_period + c);
    Vec<float, 2> dadded_v;
    Vec<float, 2> negated_v;
    Vec<float, 2> product_v;
    THUNDER_UNROLL
    for (int e = 0; e < 2; ++e) {
        const bool greater = logarithm_v[e] * shore_slope[row + (c + e) * 6] > 0.5F;
        const float dchosen = -(dtotal[row] * sine[row + (c + e) * 6]);
        const float inverse = 1.0F / logarithm_v[e];
        const float dlogarithm = -((greater ? 0.0F : dchosen) * (inverse * inverse)) + (greater ? dchosen : 0.0F) *
            shore_slope[row + (c + e) * 6];
        const float added_c = added_2_v[e] + quotient_v[e];
        const float dadded_c = dlogarithm / added_v[e] * static_cast<float>((added_c > 0) - (added_c < 0));
        const float ddifference = dadded_c / largest[row] * sigmoid_v[e];
        dadded_v[e] = dadded_c;
        negated_v[e] = -ddifference;
        product_v[e] = ddifference * cosine_v[e] * basins_1_period_v[e];
    }
    store(dadded + row * width + c, dadded_v);
    store(negated + row * width + c, negated_v);
    store(product + row * width + c, product_v);
}

// A thread for each 2 elements.
THUNDER_KERNEL(256) shore_slope_and_basins_1_period_gradients_3(Aliased<float> dbasins_1_period,
    Global<const float> dtotal, Global<const float> sine, Global<const float> logarithm,
    Global<const float> shore_slope, Global<const bool> first_micro_step, Global<const float> added,
    Global<const float> added_2, Global<const float> quotient, Global<const float> largest, Global<const float> sigmoid,
    Global<const float> cosine, Aliased<const float> dbasins_1_period_before) {
    constexpr int n = 10;
    const int i = (block_index() * 256 + thread_index()) * 2;
    if (i >= n) return;
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
    const auto logarithm_v = load<2>(logarithm + i);
    const auto added_v = load<2>(added + i);
    const auto added_2_v = load<2>(added_2 + i);
    const auto quotient_v = load<2>(quotient + i);
    const auto sigmoid_v = load<2>(sigmoid + i);
    const auto cosine_v = load<2>(cosine + i);
    const auto logarithm_v_2 = load<2>(logarithm + i + 10);
    const auto added_v_2 = load<2>(added + i + 10);
    const auto added_2_v_2 = load<2>(added_2 + i + 10);
    const auto quotient_v_2 = load<2>(quotient + i + 10);
    const auto sigmoid_v_2 = load<2>(sigmoid + i + 10);
    const auto cosine_v_2 = load<2>(cosine + i + 10);
    const auto logarithm_v_3 = load<2>(logarithm + i + 20);
    const auto added_v_3 = load<2>(added + i + 20);
    const auto added_2_v_3 = load<2>(added_2 + i + 20);
    const auto quotient_v_3 = load<2>(quotient + i + 20);
    const auto sigmoid_v_3 = load<2>(sigmoid + i + 20);
    const auto cosine_v_3 = load<2>(cosine + i + 20);
    const auto logarithm_v_4 = load<2>(logarithm + i + 30);
    const auto added_v_4 = load<2>(added + i + 30);
    const auto added_2_v_4 = load<2>(added_2 + i + 30);
    const auto quotient_v_4 = load<2>(quotient + i + 30);
    const auto sigmoid_v_4 = load<2>(sigmoid + i + 30);
    const auto cosine_v_4 = load<2>(cosine + i + 30);
    const auto logarithm_v_5 = load<2>(logarithm + i + 40);
    const auto added_v_5 = load<2>(added + i + 40);
    const auto added_2_v_5 = load<2>(added_2 + i + 40);
    const auto quotient_v_5 = load<2>(quotient + i + 40);
    const auto sigmoid_v_5 = load<2>(sigmoid + i + 40);
    const auto cosine_v_5 = load<2>(cosine + i + 40);
    const auto logarithm_v_6 = load<2>(logarithm + i + 50);
    const auto added_v_6 = load<2>(added + i + 50);
    const auto added_2_v_6 = load<2>(added_2 + i + 50);
    const auto quotient_v_6 = load<2>(quotient + i + 50);
    const auto sigmoid_v_6 = load<2>(sigmoid + i + 50);
    const auto cosine_v_6 = load<2>(cosine + i + 50);
    const auto dbasins_1_period_before_v = load<2>(dbasins_1_period_before + i);
    Vec<float, 2> dbasins_1_period_v;
    THUNDER_UNROLL
    for (int e = 0; e < 2; ++e) {
        const bool greater = logarithm_v[e] * shore_slope[(i + e) * 6] > 0.5F;
        const float dchosen = -(dtotal_value * sine[(i + e) * 6]);
        const float inverse = 1.0F / logarithm_v[e];
        const float dlogarithm = -((greater ? 0.0F : dchosen) * (inverse * inverse)) + (greater ? dchosen : 0.0F) *
            shore_slope[(i + e) * 6];
        const float added_c = added_2_v[e] + quotient_v[e];
        const float ddifference = dlogarithm / added_v[e] * static_cast<float>((added_c > 0) - (added_c < 0)) /
            largest_value * sigmoid_v[e];
        const bool greater_2 = logarithm_v_2[e] * shore_slope[(i + e) * 6 + 1] > 0.5F;
        const float dchosen_2 = -(dtotal_value_2 * sine[(i + e) * 6 + 1]);
        const float inverse_2 = 1.0F / logarithm_v_2[e];
        const float dlogarithm_2 = -((greater_2 ? 0.0F : dchosen_2) * (inverse_2 * inverse_2)) +
            (greater_2 ? dchosen_2 : 0.0F) * shore_slope[(i + e) * 6 + 1];
        const float added_c_2 = added_2_v_2[e] + quotient_v_2[e];
        const float ddifference_2 = dlogarithm_2 / added_v_2[e] * static_cast<float>((added_c_2 > 0) - (added_c_2 < 0)) /
            largest_value_2 * sigmoid_v_2[e];
        const float added_c_3 = ddifference * cosine_v[e] * added_2_v[e] + ddifference_2 * cosine_v_2[e] * added_2_v_2[e];
        const bool greater_3 = logarithm_v_3[e] * shore_slope[(i + e) * 6 + 2] > 0.5F;
        const float dchosen_3 = -(dtotal_value_3 * sine[(i + e) * 6 + 2]);
        const float inverse_3 = 1.0F / logarithm_v_3[e];
        const float dlogarithm_3 = -((greater_3 ? 0.0F : dchosen_3) * (inverse_3 * inverse_3)) +
            (greater_3 ? dchosen_3 : 0.0F) * shore_slope[(i + e) * 6 + 2];
        const float added_c_4 = added_2_v_3[e] + quotient_v_3[e];
        const float ddifference_3 = dlogarithm_3 / added_v_3[e] * static_cast<float>((added_c_4 > 0) - (added_c_4 < 0)) /
            largest_value_3 * sigmoid_v_3[e];
        const bool greater_4 = logarithm_v_4[e] * shore_slope[(i + e) * 6 + 3] > 0.5F;
        const float dchosen_4 = -(dtotal_value_4 * sine[(i + e) * 6 + 3]);
        const float inverse_4 = 1.0F / logarithm_v_4[e];
        const float dlogarithm_4 = -((greater_4 ? 0.0F : dchosen_4) * (inverse_4 * inverse_4)) +
            (greater_4 ? dchosen_4 : 0.0F) * shore_slope[(i + e) * 6 + 3];
        const float added_c_5 = added_2_v_4[e] + quotient_v_4[e];
        const float ddifference_4 = dlogarithm_4 / added_v_4[e] * static_cast<float>((added_c_5 > 0) - (added_c_5 < 0)) /
            largest_value_4 * sigmoid_v_4[e];
        const float added_c_6 = added_c_3 + ddifference_3 * cosine_v_3[e] * added_2_v_3[e] + ddifference_4 * cosine_v_4[e] *
            added_2_v_4[e];
        const bool greater_5 = logarithm_v_5[e] * shore_slope[(i + e) * 6 + 4] > 0.5F;
        const float dchosen_5 = -(dtotal_value_5 * sine[(i + e) * 6 + 4]);
        const float inverse_5 = 1.0F / logarithm_v_5[e];
        const float dlogarithm_5 = -((greater_5 ? 0.0F : dchosen_5) * (inverse_5 * inverse_5)) +
            (greater_5 ? dchosen_5 : 0.0F) * shore_slope[(i + e) * 6 + 4];
        const float added_c_7 = added_2_v_5[e] + quotient_v_5[e];
        const float ddifference_5 = dlogarithm_5 / added_v_5[e] * static_cast<float>((added_c_7 > 0) - (added_c_7 < 0)) /
            largest_value_5 * sigmoid_v_5[e];
        const bool greater_6 = logarithm_v_6[e] * shore_slope[(i + e) * 6 + 5] > 0.5F;
        const float dchosen_6 = -(dtotal_value_6 * sine[(i + e) * 6 + 5]);
        const float inverse_6 = 1.0F / logarithm_v_6[e];
        const float dlogarithm_6 = -((greater_6 ? 0.0F : dchosen_6) * (inverse_6 * inverse_6)) +
            (greater_6 ? dchosen_6 : 0.0F) * shore_slope[(i + e) * 6 + 5];
        const float added_c_8 = added_2_v_6[e] + quotient_v_6[e];
        const float ddifference_6 = dlogarithm_6 / added_v_6[e] * static_cast<float>((added_c_8 > 0) - (added_c_8 < 0)) /
            largest_value_6 * sigmoid_v_6[e];
        const float dbasins_1_period_step = added_c_6 + ddifference_5 * cosine_v_5[e] * added_2_v_5[e] + ddifference_6 *
            cosine_v_6[e] * added_2_v_6[e];
        dbasins_1_period_v[e] = first_micro_step_value ? dbasins_1_period_step : dbasins_1_period_before_v[e] +
            dbasins_1_period_step;
    }
    store(dbasins_1_period + i, dbasins_1_period_v);
}

// basins_1_level_gradient:
//   dbasins_1_level += sum(negated)
// Replaces Sub
// A warp for each row.
THUNDER_KERNEL(256) basins_1_level_gradient_kernel(Aliased<float> dbasins_1_level, Global<const float> negated,
    Aliased<const float> dbasins_1_level_before, Global<const bool> first_micro_step) {
    constexpr int rows = 6, width = 10;
    const bool first_micro_step_value = first_micro_step[0];
    const int c = lane() * 2;
    const int row = block_index() * 8 + warp();
    if (row >= rows) return;
    float sum = 0.0F;
    if (c < width) {
        const auto negated_v = load<2>(negated + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            sum += negated_v[e];
        }
    }
    sum = warp_sum(sum);
    warp_barrier();
    if (lane() == 0) {
        dbasins_1_level[row] = first_micro_step_value ? sum : dbasins_1_level_before[row] + sum;
    }
}

// basins_0_level_gradient:
//   dbasins_0_level += sum(-ddifference)
//   product = ddifference * cosine * gauge
//   where ddifference = (dadded + (added == largest) * (sum(-(dadded * quotient / largest)) / total_2) + product_2) / largest_2
//       * sigmoid
// Replaces Div, ReduceMax, Add, Softplus, Sub, Sin, Mul
// A warp for each row; a row stays in registers.
THUNDER_KERNEL(256) basins_0_level_gradient_kernel(Aliased<float> dbasins_0_level, Aliased<float> product,
    Aliased<const float> dadded, Aliased<const float> quotient, Aliased<const float> largest,
    Aliased<const float> total_2, Aliased<const float> added, Aliased<const float> product_2,
    Aliased<const float> largest_2, Aliased<const float> sigmoid, Aliased<const float> dbasins_0_level_before,
    Global<const bool> first_micro_step, Aliased<const float> cosine, Aliased<const float> gauge) {
    constexpr int rows = 6, width = 10;
    const bool first_micro_step_value = first_micro_step[0];
    const int c = lane() * 2;
    const int row = block_index() * 8 + warp();
    if (row >= rows) return;
    Vec<float, 2> dadded_v;
    Vec<float, 2> added_v;
    Vec<float, 2> product_2_v;
    Vec<float, 2> sigmoid_v;
    const float largest_row = largest[row];
    const float largest_2_row = largest_2[row];
    float sum = 0.0F;
    if (c < width) {
        dadded_v = load<2>(dadded + row * width + c);
        const auto quotient_v = load<2>(quotient + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            sum += -(dadded_v[e] * quotient_v[e] / largest_row);
        }
    }
    sum = warp_sum(sum);
    const float quotient_row = sum / total_2[row];
    float sum_2 = 0.0F;
    if (c < width) {
        added_v = load<2>(added + row * width + c);
        product_2_v = load<2>(product_2 + row * width + c);
        sigmoid_v = load<2>(sigmoid + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float dadded_c = dadded_v[e] + static_cast<float>(added_v[e] == largest_row) * quotient_row +
                product_2_v[e];
            sum_2 += -(dadded_c / largest_2_row * sigmoid_v[e]);
        }
    }
    sum_2 = warp_sum(sum_2);
    const float dbasins_0_level_2 = first_micro_step_value ? sum_2 : dbasins_0_level_before[row] + sum_2;
    if (c < width) {
        const auto cosine_v = load<2>(cosine + row * width + c);
        const auto gauge_v = load<2>(gauge + row * width + c);
        Vec<float, 2> product_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float dadded_c = dadded_v[e] + static_cast<float>(added_v[e] == largest_row) * quotient_row +
                product_2_v[e];
            product_v[e] = dadded_c / largest_2_row * sigmoid_v[e] * cosine_v[e] * gauge_v[e];
        }
        store(product + row * width + c, product_v);
    }
    warp_barrier();
    if (lane() == 0) {
        dbasins_0_level[row] = dbasins_0_level_2;
    }
}

// basins_0_period_gradient:
//   dbasins_0_period += product1 + product2 + product3 + product4 + product5 + product6
// Replaces Mul
// A thread for each 2 elements.
THUNDER_KERNEL(256) basins_0_period_gradient_kernel(Aliased<float> dbasins_0_period, Global<const float> product,
    Aliased<const float> dbasins_0_period_before, Global<const bool> first_micro_step) {
    constexpr int n = 10;
    const int i = (block_index() * 256 + thread_index()) * 2;
    if (i >= n) return;
    const bool first_micro_step_value = first_micro_step[0];
    const auto product_v = load<2>(product + i);
    const auto product_v_2 = load<2>(product + i + 10);
    const auto product_v_3 = load<2>(product + i + 20);
    const auto product_v_4 = load<2>(product + i + 30);
    const auto product_v_5 = load<2>(product + i + 40);
    const auto product_v_6 = load<2>(product + i + 50);
    const auto dbasins_0_period_before_v = load<2>(dbasins_0_period_before + i);
    Vec<float, 2> dbasins_0_period_v;
    THUNDER_UNROLL
    for (int e = 0; e < 2; ++e) {
        const float dbasins_0_period_step = product_v[e] + product_v_2[e] + product_v_3[e] + product_v_4[e] +
            product_v_5[e] + product_v_6[e];
        dbasins_0_period_v[e] = first_micro_step_value ? dbasins_0_period_step : dbasins_0_period_before_v[e] +
            dbasins_0_period_step;
    }
    store(dbasins_0_period + i, dbasins_0_period_v);
}

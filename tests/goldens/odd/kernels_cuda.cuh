// kernels_cuda.cuh: the model's kernels for GPUs, device code alone; kernels_cuda.cu launches them. Sums have
// fixed trees and there are no atomics: the same bits in every run. Grids are cut for sm_90a. A result
// may lie over an operand that it is computed from element by element, where both are Aliased; nothing lies over
// what is Global.
// In formulas x1, x2, ... are pieces of x and xᵀ is its transpose; sum_C goes along C, row_sum(x) is of each row of x,
// column_sum(x) of each column, sum(x) of all; silu' is the slope of silu. "dw +=" adds to what dw holds, or
// overwrites it as the WriteMode says.
#pragma once

#include "device/cuda/device.h"
#include "sizes.h"

using namespace thunder;

namespace kernels {

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
// A warp for each row; a row stays in registers.
THUNDER_KERNEL(256) basins_forward_kernel(Aliased<float> largest, Aliased<float> added, Aliased<float> softplus,
    Aliased<float> sigmoid, Aliased<float> cosine, Aliased<float> sigmoid_2, Aliased<float> cosine_2,
    Aliased<const float> gauge, Global<const float> basins_0_period, Aliased<const float> basins_0_level,
    Global<const float> basins_1_period, Aliased<const float> basins_1_level) {
    wait_for_previous_kernel();
    constexpr int rows = 6, width = 10;
    const int c = lane() * 2;
    const int row = block_index() * 8 + warp();
    if (row >= rows) return;
    Vec<float, 2> gauge_v;
    const float basins_0_level_of_row = basins_0_level[row];
    const float basins_1_level_of_row = basins_1_level[row];
    float largest_of_row = -math::infinity();
    if (c < width) {
        gauge_v = load<2>(gauge + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            largest_of_row = math::max<float>(largest_of_row, gauge_v[e]);
        }
    }
    largest_of_row = warp_max(largest_of_row);
    if (c < width) {
        const auto basins_0_period_v = load<2>(basins_0_period + c);
        const auto basins_1_period_v = load<2>(basins_1_period + c);
        Vec<float, 2> added_v;
        Vec<float, 2> softplus_v;
        Vec<float, 2> sigmoid_v;
        Vec<float, 2> cosine_v;
        Vec<float, 2> sigmoid_2_v;
        Vec<float, 2> cosine_2_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float product = gauge_v[e] * basins_0_period_v[e];
            const float difference = math::sin(product) - basins_0_level_of_row;
            const float softplus_2 = math::relu<float>(difference) +
                math::log(math::exp(-math::abs(difference)) + 1.0F);
            const float added_c = gauge_v[e] + softplus_2 / largest_of_row;
            const float product_2 = added_c * basins_1_period_v[e];
            const float difference_2 = math::sin(product_2) - basins_1_level_of_row;
            added_v[e] = added_c;
            softplus_v[e] = math::relu<float>(difference_2) +
                math::log(math::exp(-math::abs(difference_2)) + 1.0F);
            sigmoid_v[e] = math::sigmoid(difference_2);
            cosine_v[e] = math::cos(product_2);
            sigmoid_2_v[e] = math::sigmoid(difference);
            cosine_2_v[e] = math::cos(product);
        }
        store(added + row * width + c, added_v);
        store(softplus + row * width + c, softplus_v);
        store(sigmoid + row * width + c, sigmoid_v);
        store(cosine + row * width + c, cosine_v);
        store(sigmoid_2 + row * width + c, sigmoid_2_v);
        store(cosine_2 + row * width + c, cosine_2_v);
    }
    warp_barrier();
    if (lane() == 0) {
        largest[row] = largest_of_row;
    }
}

// log_sum_rows:
//   largest_2 = row_max(added)
//   added_3 = abs(added + softplus / largest_2) + 1
//   logarithm = log(added_3)
//   total_2 = row_sum(added == largest_2)
// From the graph's ReduceMax, Div, Add, Abs, Log
// A warp for each row; a row stays in registers.
THUNDER_KERNEL(256) log_sum_rows_kernel(Global<float> largest_2, Aliased<float> added_3, Aliased<float> logarithm,
    Global<float> total_2, Aliased<const float> added, Aliased<const float> softplus) {
    wait_for_previous_kernel();
    constexpr int rows = 6, width = 10;
    const int c = lane() * 2;
    const int row = block_index() * 8 + warp();
    if (row >= rows) return;
    Vec<float, 2> added_v;
    Vec<float, 2> softplus_v;
    float largest_2_of_row = -math::infinity();
    if (c < width) {
        added_v = load<2>(added + row * width + c);
        softplus_v = load<2>(softplus + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            largest_2_of_row = math::max<float>(largest_2_of_row, added_v[e]);
        }
    }
    largest_2_of_row = warp_max(largest_2_of_row);
    float total_2_of_row = 0.0F;
    if (c < width) {
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            total_2_of_row += math::number<float>(added_v[e] == largest_2_of_row);
        }
    }
    total_2_of_row = warp_sum(total_2_of_row);
    if (c < width) {
        Vec<float, 2> added_3_v;
        Vec<float, 2> logarithm_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float added_3_c = math::abs(added_v[e] + softplus_v[e] / largest_2_of_row) + 1.0F;
            added_3_v[e] = added_3_c;
            logarithm_v[e] = math::log(added_3_c);
        }
        store(added_3 + row * width + c, added_3_v);
        store(logarithm + row * width + c, logarithm_v);
    }
    if (lane() == 0) {
        largest_2[row] = largest_2_of_row;
        total_2[row] = total_2_of_row;
    }
}

// shore_forward:
//   total = column_sum(cos(chosen))
//   sine = sin(chosen)
//   where chosen = logarithmᵀ * shore_slope > 0.5 ? logarithmᵀ * shore_slope : 1 / logarithmᵀ
// From the graph's Mul, Greater, Reciprocal, Where, Cos, ReduceSum
// A block for each 64 columns, whose 8 warps take row after row; their sums are added in order.
THUNDER_KERNEL(256) shore_forward_kernel(Aliased<float> sine, Global<const float> logarithm,
    Aliased<const float> shore_slope, Global<float> partials) {
    wait_for_previous_kernel();
    constexpr int rows = 10, width = 6;
    const int c = lane() * 2;
    Vec<float, 2> column_sum = {};
    if (c < width) {
        for (int row = warp(); row < rows; row += 8) {
            const auto shore_slope_v = load<2>(shore_slope + row * width + c);
            Vec<float, 2> sine_v;
            THUNDER_UNROLL
            for (int e = 0; e < 2; ++e) {
                const float product_3 = logarithm[row + (c + e) * rows] * shore_slope_v[e];
                const float chosen =
                    math::choose<float>(product_3 > 0.5F, product_3, 1.0F / logarithm[row + (c + e) * rows]);
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

// Writes the sums: one block has added up all rows.
THUNDER_KERNEL(256) shore_forward_finish(Global<float> total, Global<const float> partials) {
    wait_for_previous_kernel();
    constexpr int sums = 6;
    THUNDER_SHARED(float, shared, 256);
    const int p = block_index() * 32 + lane();
    float sum = 0.0F;
    for (int b = warp(); p < sums && b < 1; b += 8) {
        sum += partials[b * 8 + p];
    }
    shared[thread_index()] = sum;
    barrier();
    if (warp() != 0 || p >= sums) return;
    THUNDER_UNROLL
    for (int w = 1; w < 8; ++w) sum += shared[w * 32 + lane()];
    total[p] = sum;
}

// loss_forward_backward:
//   loss_sum += log_sum_exp
//   dtotal = exp(total - log_sum_exp) * dloss
//   where most = abs(max(total)) == inf ? 0 : max(total)
//   where log_sum_exp = log(sum(exp(total - most))) + most
// From the graph's ReduceLogSumExp
// One warp, which stays in registers.
THUNDER_KERNEL(32) loss_forward_backward_kernel(Aliased<float> loss_sum, Aliased<float> dtotal,
    Aliased<const float> total, Aliased<const float> dloss) {
    wait_for_previous_kernel();
    constexpr int width = 6;
    const float dloss_value = dloss[0];
    const float loss_sum_before = loss_sum[0];
    const int c = lane() * 2;
    Vec<float, 2> total_v;
    float largest = -math::infinity();
    if (c < width) {
        total_v = load<2>(total + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            largest = math::max<float>(largest, total_v[e]);
        }
    }
    largest = warp_max(largest);
    const float most = math::abs(largest) == math::infinity() ? 0.0F : largest;
    float sum = 0.0F;
    if (c < width) {
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            sum += math::exp(total_v[e] - most);
        }
    }
    sum = warp_sum(sum);
    const float log_sum_exp = math::log(sum) + most;
    const float loss_sum_value = loss_sum_before + log_sum_exp;
    if (c < width) {
        Vec<float, 2> dtotal_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            dtotal_v[e] = math::exp(total_v[e] - log_sum_exp) * dloss_value;
        }
        store(dtotal + c, dtotal_v);
    }
    warp_barrier();
    if (lane() == 0) {
        loss_sum[0] = loss_sum_value;
    }
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
// A thread for each 2 elements.
THUNDER_KERNEL(256) shore_slope_and_basins_1_period_gradients_1(Aliased<float> dshore_slope, Global<const float> dtotal,
    Global<const float> sine, Global<const float> logarithm, Global<const float> shore_slope, WriteMode mode) {
    wait_for_previous_kernel();
    constexpr int rows = 10, width = 6;
    const int i = block_index() * 256 + thread_index();
    if (i >= rows * (width / 2)) return;
    const int row = i / (width / 2);
    const int c = i % (width / 2) * 2;
    const bool overwrite = mode == WriteMode::overwrite;
    const auto shore_slope_v = load<2>(shore_slope + row * width + c);
    const auto dtotal_v = load<2>(dtotal + c);
    const auto sine_v = load<2>(sine + row * width + c);
    const auto dshore_slope_before_v = load<2>(dshore_slope + row * width + c);
    Vec<float, 2> dshore_slope_v;
    THUNDER_UNROLL
    for (int e = 0; e < 2; ++e) {
        const float dproduct_3 =
            math::choose<float>(logarithm[row + (c + e) * rows] * shore_slope_v[e] > 0.5F,
            -(dtotal_v[e] * sine_v[e]), 0.0F);
        const float dshore_slope_step = dproduct_3 * logarithm[row + (c + e) * rows];
        dshore_slope_v[e] = overwrite ? dshore_slope_step : dshore_slope_before_v[e] + dshore_slope_step;
    }
    store(dshore_slope + row * width + c, dshore_slope_v);
}

// A thread for each 2 elements.
THUNDER_KERNEL(256) shore_slope_and_basins_1_period_gradients_2(Global<float> dadded_2,
    Global<float> dbasins_1_level_terms, Global<float> dadded_part_2, Global<const float> dtotal,
    Global<const float> sine, Global<const float> logarithm, Global<const float> shore_slope,
    Global<const float> added_3, Global<const float> softplus, Global<const float> largest_2, Global<const float> added,
    Global<const float> sigmoid, Global<const float> cosine, Aliased<const float> basins_1_period) {
    wait_for_previous_kernel();
    constexpr int rows = 6, width = 10;
    const int i = block_index() * 256 + thread_index();
    if (i >= rows * (width / 2)) return;
    const int row = i / (width / 2);
    const int c = i % (width / 2) * 2;
    const auto logarithm_v = load<2>(logarithm + row * width + c);
    const auto added_3_v = load<2>(added_3 + row * width + c);
    const auto added_v = load<2>(added + row * width + c);
    const auto softplus_v = load<2>(softplus + row * width + c);
    const auto sigmoid_v = load<2>(sigmoid + row * width + c);
    const auto cosine_v = load<2>(cosine + row * width + c);
    const auto basins_1_period_v = load<2>(basins_1_period + c);
    Vec<float, 2> dadded_2_v;
    Vec<float, 2> dbasins_1_level_terms_v;
    Vec<float, 2> dadded_part_2_v;
    THUNDER_UNROLL
    for (int e = 0; e < 2; ++e) {
        const bool greater = logarithm_v[e] * shore_slope[row + (c + e) * rows] > 0.5F;
        const float dchosen = -(dtotal[row] * sine[row + (c + e) * rows]);
        const float inverse = 1.0F / logarithm_v[e];
        const float dlogarithm = -(math::choose<float>(greater, 0.0F, dchosen) * (inverse * inverse)) +
            math::choose<float>(greater, dchosen, 0.0F) * shore_slope[row + (c + e) * rows];
        const float added_2 = added_v[e] + softplus_v[e] / largest_2[row];
        const float dadded_2_c = dlogarithm / added_3_v[e] * static_cast<float>((added_2 > 0) - (added_2 < 0));
        const float ddifference_2 = dadded_2_c / largest_2[row] * sigmoid_v[e];
        dadded_2_v[e] = dadded_2_c;
        dbasins_1_level_terms_v[e] = -ddifference_2;
        dadded_part_2_v[e] = ddifference_2 * cosine_v[e] * basins_1_period_v[e];
    }
    store(dadded_2 + row * width + c, dadded_2_v);
    store(dbasins_1_level_terms + row * width + c, dbasins_1_level_terms_v);
    store(dadded_part_2 + row * width + c, dadded_part_2_v);
}

// A thread for each 2 elements.
THUNDER_KERNEL(256) shore_slope_and_basins_1_period_gradients_3(Aliased<float> dbasins_1_period,
    Global<const float> dtotal, Global<const float> sine, Global<const float> logarithm,
    Global<const float> shore_slope, Global<const float> added_3, Global<const float> softplus,
    Global<const float> largest_2, Global<const float> added, Global<const float> sigmoid, Global<const float> cosine,
    WriteMode mode) {
    wait_for_previous_kernel();
    constexpr int n = 10;
    const int i = (block_index() * 256 + thread_index()) * 2;
    if (i >= n) return;
    const bool overwrite = mode == WriteMode::overwrite;
    Vec<float, 2> logarithm_v[6];
    THUNDER_UNROLL
    for (int r = 0; r < 6; ++r) logarithm_v[r] = load<2>(logarithm + r * n + i);
    Vec<float, 2> added_3_v[6];
    THUNDER_UNROLL
    for (int r = 0; r < 6; ++r) added_3_v[r] = load<2>(added_3 + r * n + i);
    Vec<float, 2> added_v[6];
    THUNDER_UNROLL
    for (int r = 0; r < 6; ++r) added_v[r] = load<2>(added + r * n + i);
    Vec<float, 2> softplus_v[6];
    THUNDER_UNROLL
    for (int r = 0; r < 6; ++r) softplus_v[r] = load<2>(softplus + r * n + i);
    Vec<float, 2> sigmoid_v[6];
    THUNDER_UNROLL
    for (int r = 0; r < 6; ++r) sigmoid_v[r] = load<2>(sigmoid + r * n + i);
    Vec<float, 2> cosine_v[6];
    THUNDER_UNROLL
    for (int r = 0; r < 6; ++r) cosine_v[r] = load<2>(cosine + r * n + i);
    const auto dbasins_1_period_before_v = load<2>(dbasins_1_period + i);
    Vec<float, 2> dbasins_1_period_v;
    THUNDER_UNROLL
    for (int e = 0; e < 2; ++e) {
        float dbasins_1_period_step = 0.0F;
        THUNDER_UNROLL
        for (int r = 0; r < 6; ++r) {
            const bool greater = logarithm_v[r][e] * shore_slope[(i + e) * 6 + r] > 0.5F;
            const float dchosen = -(dtotal[r] * sine[(i + e) * 6 + r]);
            const float inverse = 1.0F / logarithm_v[r][e];
            const float dlogarithm = -(math::choose<float>(greater, 0.0F, dchosen) * (inverse * inverse)) +
                math::choose<float>(greater, dchosen, 0.0F) * shore_slope[(i + e) * 6 + r];
            const float added_2 = added_v[r][e] + softplus_v[r][e] / largest_2[r];
            const float ddifference_2 = dlogarithm / added_3_v[r][e] *
                static_cast<float>((added_2 > 0) - (added_2 < 0)) / largest_2[r] * sigmoid_v[r][e];
            dbasins_1_period_step += ddifference_2 * cosine_v[r][e] * added_v[r][e];
        }
        dbasins_1_period_v[e] = overwrite ? dbasins_1_period_step
            : dbasins_1_period_before_v[e] + dbasins_1_period_step;
    }
    store(dbasins_1_period + i, dbasins_1_period_v);
}

// basins_1_level_gradient:
//   dbasins_1_level += row_sum(dbasins_1_level_terms)
// From the graph's Sub
// A warp for each row.
THUNDER_KERNEL(256) basins_1_level_gradient_kernel(Aliased<float> dbasins_1_level,
    Global<const float> dbasins_1_level_terms, WriteMode mode) {
    wait_for_previous_kernel();
    constexpr int rows = 6, width = 10;
    const bool overwrite = mode == WriteMode::overwrite;
    const int c = lane() * 2;
    const int row = block_index() * 8 + warp();
    if (row >= rows) return;
    float dbasins_1_level_step = 0.0F;
    if (c < width) {
        const auto dbasins_1_level_terms_v = load<2>(dbasins_1_level_terms + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            dbasins_1_level_step += dbasins_1_level_terms_v[e];
        }
    }
    dbasins_1_level_step = warp_sum(dbasins_1_level_step);
    warp_barrier();
    if (lane() == 0) {
        dbasins_1_level[row] = overwrite ? dbasins_1_level_step : dbasins_1_level[row] + dbasins_1_level_step;
    }
}

// basins_0_level_gradient:
//   dbasins_0_level += row_sum(-ddifference)
//   dbasins_0_period_terms = ddifference * cosine_2 * gauge
//   where dadded = dadded_2 + (added == largest_2) * (row_sum(-(dadded_2 * (softplus / largest_2) / largest_2)) /
//       total_2) + dadded_part_2
//   where ddifference = dadded / largest * sigmoid_2
// From the graph's Div, ReduceMax, Add, Softplus, Sub, Sin, Mul
// A warp for each row; a row stays in registers.
THUNDER_KERNEL(256) basins_0_level_gradient_kernel(Aliased<float> dbasins_0_level,
    Aliased<float> dbasins_0_period_terms, Aliased<const float> softplus, Aliased<const float> largest_2,
    Aliased<const float> dadded_2, Aliased<const float> total_2, Aliased<const float> added,
    Aliased<const float> dadded_part_2, Aliased<const float> largest, Aliased<const float> sigmoid_2,
    Aliased<const float> cosine_2, Aliased<const float> gauge, WriteMode mode) {
    wait_for_previous_kernel();
    constexpr int rows = 6, width = 10;
    const bool overwrite = mode == WriteMode::overwrite;
    const int c = lane() * 2;
    const int row = block_index() * 8 + warp();
    if (row >= rows) return;
    Vec<float, 2> dadded_2_v;
    Vec<float, 2> added_v;
    Vec<float, 2> dadded_part_2_v;
    Vec<float, 2> sigmoid_2_v;
    Vec<float, 2> cosine_2_v;
    Vec<float, 2> gauge_v;
    const float largest_2_of_row = largest_2[row];
    const float largest_of_row = largest[row];
    float sum = 0.0F;
    if (c < width) {
        dadded_2_v = load<2>(dadded_2 + row * width + c);
        const auto softplus_v = load<2>(softplus + row * width + c);
        added_v = load<2>(added + row * width + c);
        dadded_part_2_v = load<2>(dadded_part_2 + row * width + c);
        sigmoid_2_v = load<2>(sigmoid_2 + row * width + c);
        cosine_2_v = load<2>(cosine_2 + row * width + c);
        gauge_v = load<2>(gauge + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            sum += -(dadded_2_v[e] * (softplus_v[e] / largest_2_of_row) / largest_2_of_row);
        }
    }
    sum = warp_sum(sum);
    const float quotient_4 = sum / total_2[row];
    float dbasins_0_level_step = 0.0F;
    if (c < width) {
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float dadded = dadded_2_v[e] + math::number<float>(added_v[e] == largest_2_of_row) * quotient_4 +
                dadded_part_2_v[e];
            dbasins_0_level_step += -(dadded / largest_of_row * sigmoid_2_v[e]);
        }
    }
    dbasins_0_level_step = warp_sum(dbasins_0_level_step);
    const float dbasins_0_level_of_row = overwrite ? dbasins_0_level_step : dbasins_0_level[row] + dbasins_0_level_step;
    if (c < width) {
        Vec<float, 2> dbasins_0_period_terms_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float dadded = dadded_2_v[e] + math::number<float>(added_v[e] == largest_2_of_row) * quotient_4 +
                dadded_part_2_v[e];
            dbasins_0_period_terms_v[e] = dadded / largest_of_row * sigmoid_2_v[e] * cosine_2_v[e] * gauge_v[e];
        }
        store(dbasins_0_period_terms + row * width + c, dbasins_0_period_terms_v);
    }
    warp_barrier();
    if (lane() == 0) {
        dbasins_0_level[row] = dbasins_0_level_of_row;
    }
}

// basins_0_period_gradient:
//   dbasins_0_period += column_sum(dbasins_0_period_terms)
// From the graph's Mul
// A thread for each 2 elements.
THUNDER_KERNEL(256) basins_0_period_gradient_kernel(Aliased<float> dbasins_0_period,
    Global<const float> dbasins_0_period_terms, WriteMode mode) {
    wait_for_previous_kernel();
    constexpr int n = 10;
    const int i = (block_index() * 256 + thread_index()) * 2;
    if (i >= n) return;
    const bool overwrite = mode == WriteMode::overwrite;
    Vec<float, 2> dbasins_0_period_terms_v[6];
    THUNDER_UNROLL
    for (int r = 0; r < 6; ++r) dbasins_0_period_terms_v[r] = load<2>(dbasins_0_period_terms + r * n + i);
    const auto dbasins_0_period_before_v = load<2>(dbasins_0_period + i);
    Vec<float, 2> dbasins_0_period_v;
    THUNDER_UNROLL
    for (int e = 0; e < 2; ++e) {
        float dbasins_0_period_step = 0.0F;
        THUNDER_UNROLL
        for (int r = 0; r < 6; ++r) {
            dbasins_0_period_step += dbasins_0_period_terms_v[r][e];
        }
        dbasins_0_period_v[e] = overwrite ? dbasins_0_period_step
            : dbasins_0_period_before_v[e] + dbasins_0_period_step;
    }
    store(dbasins_0_period + i, dbasins_0_period_v);
}

}  // namespace kernels

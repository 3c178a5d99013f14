// model.cpp: a training step of tides.loss.
// A formula before the call of a kernel is in the names of the call's arguments, where it does not say otherwise;
// before a call with fields, `.x = ...`, in theirs. x1, x2, ... are pieces of x.
// "dx =" says that a call overwrites a gradient, "dx +=" that it adds to it. Those of parameters are sums over
// micro-steps: a call with WriteMode::overwrite begins one, the others add to it.
// wait_for_update(part): where the update of the step before runs beside the forward pass, that part of it is done,
// which writes what is read next.
#include "model.h"

#include "kernels.h"             // the kernels generated for this model
#include "optim/global_norm.h"   // the norm of all gradients
#include "optim/step_scalars.h"  // what changes from step to step, on the device
#include "optim/update.h"        // one pass over all parameters

using namespace thunder;

void Model::forward([[maybe_unused]] WriteMode mode) {
    [[maybe_unused]] Stream& stream = stream_;
    const Range range("forward");  // as a GPU's profilers show it

    namespace offset = layout::forward_backward;

    // the micro-batch
    const float* const gauge = at<float>(arenas_.batch, offset::gauge);  // (6,10)

    // parameters
    const float* const w_basins_0_period = at<float>(arenas_.parameters, offset::w_basins_0_period);  // (10)
    const float* const w_basins_0_level = at<float>(arenas_.parameters, offset::w_basins_0_level);  // (6,1)
    const float* const w_basins_1_period = at<float>(arenas_.parameters, offset::w_basins_1_period);  // (10)
    const float* const w_basins_1_level = at<float>(arenas_.parameters, offset::w_basins_1_level);  // (6,1)
    const float* const w_shore_slope = at<float>(arenas_.parameters, offset::w_shore_slope);  // (10,6)

    // activations, in memory that is reused
    float* const largest = at<float>(arenas_.scratch, offset::largest);  // (6,1)
    float* const added = at<float>(arenas_.scratch, offset::added);  // (6,10)
    float* const softplus = at<float>(arenas_.scratch, offset::softplus);  // (6,10)
    float* const sigmoid = at<float>(arenas_.scratch, offset::sigmoid);  // (6,10)
    float* const cosine = at<float>(arenas_.scratch, offset::cosine);  // (6,10)
    float* const sigmoid_2 = at<float>(arenas_.scratch, offset::sigmoid_2);  // (6,10)
    float* const cosine_2 = at<float>(arenas_.scratch, offset::cosine_2);  // (6,10)
    float* const largest_2 = at<float>(arenas_.scratch, offset::largest_2);  // (6,1)
    float* const added_3 = at<float>(arenas_.scratch, offset::added_3);  // (6,10)
    float* const logarithm = at<float>(arenas_.scratch, offset::logarithm);  // (6,10)
    float* const total_2 = at<float>(arenas_.scratch, offset::total_2);  // (6,1)
    float* const total = at<float>(arenas_.scratch, offset::total);  // (6)
    float* const sine = at<float>(arenas_.scratch, offset::sine);  // (10,6)
    float* const dtotal = at<float>(arenas_.scratch, offset::dtotal);  // (6)

    wait_for_update(arenas_, update_part::fused, stream);
    // the kernel's text begins with its 10 equations
    basins_forward(largest, added, softplus, sigmoid, cosine, sigmoid_2, cosine_2, gauge, w_basins_0_period,
        w_basins_0_level, w_basins_1_period, w_basins_1_level, stream);
    // largest_2 = row_max(added)
    // added_3 = abs(added + softplus / largest_2) + 1
    // logarithm = log(added_3)
    // total_2 = row_sum(added == largest_2)
    log_sum_rows(largest_2, added_3, logarithm, total_2, added, softplus, stream);
    // total = column_sum(cos(chosen))
    // sine = sin(chosen)
    // where chosen = logarithmᵀ * w_shore_slope > 0.5 ? logarithmᵀ * w_shore_slope : 1 / logarithmᵀ
    shore_forward(total, sine, logarithm, w_shore_slope, stream);
    // scalars->loss_sum += log_sum_exp
    // dtotal = exp(total - log_sum_exp) * scalars->dloss
    // where most = abs(max(total)) == inf ? 0 : max(total)
    // where log_sum_exp = log(sum(exp(total - most))) + most
    loss_forward_backward(&arenas_.scalars->loss_sum, dtotal, total, &arenas_.scalars->dloss, stream);
}

void Model::backward([[maybe_unused]] WriteMode mode) {
    [[maybe_unused]] Stream& stream = stream_;
    const Range range("backward");  // as a GPU's profilers show it
    // The trainer has set arenas_.scalars->dloss: 1 / the number of micro-batches in the step.

    namespace offset = layout::forward_backward;

    // the micro-batch
    const float* const gauge = at<float>(arenas_.batch, offset::gauge);  // (6,10)

    // parameters
    const float* const w_basins_1_period = at<float>(arenas_.parameters, offset::w_basins_1_period);  // (10)
    const float* const w_shore_slope = at<float>(arenas_.parameters, offset::w_shore_slope);  // (10,6)

    // their gradients
    float* const g_basins_0_period = at<float>(arenas_.gradients, offset::g_basins_0_period);  // (10)
    float* const g_basins_0_level = at<float>(arenas_.gradients, offset::g_basins_0_level);  // (6,1)
    float* const g_basins_1_period = at<float>(arenas_.gradients, offset::g_basins_1_period);  // (10)
    float* const g_basins_1_level = at<float>(arenas_.gradients, offset::g_basins_1_level);  // (6,1)
    float* const g_shore_slope = at<float>(arenas_.gradients, offset::g_shore_slope);  // (10,6)

    // activations, in memory that is reused
    float* const largest = at<float>(arenas_.scratch, offset::largest);  // (6,1)
    float* const added = at<float>(arenas_.scratch, offset::added);  // (6,10)
    float* const softplus = at<float>(arenas_.scratch, offset::softplus);  // (6,10)
    float* const sigmoid = at<float>(arenas_.scratch, offset::sigmoid);  // (6,10)
    float* const cosine = at<float>(arenas_.scratch, offset::cosine);  // (6,10)
    float* const sigmoid_2 = at<float>(arenas_.scratch, offset::sigmoid_2);  // (6,10)
    float* const cosine_2 = at<float>(arenas_.scratch, offset::cosine_2);  // (6,10)
    float* const largest_2 = at<float>(arenas_.scratch, offset::largest_2);  // (6,1)
    float* const added_3 = at<float>(arenas_.scratch, offset::added_3);  // (6,10)
    float* const logarithm = at<float>(arenas_.scratch, offset::logarithm);  // (6,10)
    float* const total_2 = at<float>(arenas_.scratch, offset::total_2);  // (6,1)
    float* const sine = at<float>(arenas_.scratch, offset::sine);  // (10,6)
    float* const dtotal = at<float>(arenas_.scratch, offset::dtotal);  // (6)
    float* const dadded_2 = at<float>(arenas_.scratch, offset::dadded_2);  // (6,10)
    float* const dbasins_1_level_terms = at<float>(arenas_.scratch, offset::dbasins_1_level_terms);  // (6,10)
    float* const dadded_part_2 = at<float>(arenas_.scratch, offset::dadded_part_2);  // (6,10)
    float* const dbasins_0_period_terms = at<float>(arenas_.scratch, offset::dbasins_0_period_terms);  // (6,10)

    // the update of the step before reads the gradients, which are written from here on
    wait_for_updates(arenas_, stream);
    // the kernel's text begins with its 9 equations
    shore_slope_and_basins_1_period_gradients(g_shore_slope, dadded_2, dbasins_1_level_terms, dadded_part_2,
        g_basins_1_period, dtotal, sine, logarithm, w_shore_slope, added_3, softplus, largest_2, added, sigmoid, cosine,
        w_basins_1_period, mode, stream);
    // g_basins_1_level += row_sum(dbasins_1_level_terms)
    basins_1_level_gradient(g_basins_1_level, dbasins_1_level_terms, mode, stream);
    // g_basins_0_level += row_sum(-ddifference)
    // dbasins_0_period_terms = ddifference * cosine_2 * gauge
    // where dadded = dadded_2 + (added == largest_2) * (row_sum(-(dadded_2 * (softplus / largest_2) / largest_2)) /
    // total_2) + dadded_part_2
    // where ddifference = dadded / largest * sigmoid_2
    basins_0_level_gradient(g_basins_0_level, dbasins_0_period_terms, softplus, largest_2, dadded_2, total_2, added,
        dadded_part_2, largest, sigmoid_2, cosine_2, gauge, mode, stream);
    // g_basins_0_period += column_sum(dbasins_0_period_terms)
    basins_0_period_gradient(g_basins_0_period, dbasins_0_period_terms, mode, stream);
}

void Model::clip() {
    [[maybe_unused]] Stream& stream = stream_;
    const Range range("clip");  // as a GPU's profilers show it

    // the norm of all gradients, and the factor that clips them
    global_norm({.scalars = arenas_.scalars, .gradients = at<float>(arenas_.gradients, 0),
        .elements = PARAMETER_BYTES / static_cast<std::int64_t>(sizeof(float))}, stream);
}

void Model::update([[maybe_unused]] const UpdatePart& part, [[maybe_unused]] Stream& stream) {
    const Range range("update");  // as a GPU's profilers show it

    // AdamW on the part's parameters, in one pass over memory; states: first_moment, second_moment
    adamw({.parameters = at<float>(arenas_.parameters, 0), .gradients = at<float>(arenas_.gradients, 0),
        .states = {at<float>(arenas_.optimizer, 0), at<float>(arenas_.optimizer, PARAMETER_BYTES)},
        .segments = part.segments, .scalars = part.scalars}, stream);
}

// model.cpp: a training step of tides.loss.
// A formula before the call of a kernel is in the names of the call's arguments, where it does not say otherwise;
// before a call with fields, `.x = ...`, in theirs. x1, x2, ... are pieces of x.
// "dx =" says that a call overwrites a gradient, "dx +=" that it adds to it. Those of parameters are sums over
// micro-steps: a call with Gradient::overwrite begins one, the others add to it.
#include "model.h"

#include "kernels.h"             // the kernels generated for this model
#include "optim/global_norm.h"   // the norm of all gradients
#include "optim/step_scalars.h"  // what changes from step to step, on the device
#include "optim/update.h"        // one pass over all parameters

using namespace thunder;

void Model::forward_backward([[maybe_unused]] Gradient gradient) {
    [[maybe_unused]] Stream& stream = stream_;
    const Range range("forward_backward");  // as a GPU's profilers show it
    begin_micro_step(arenas_.scalars, gradient, stream);  // call 0, before those that LAYOUT counts
    // The trainer has set arenas_.scalars->dloss: 1 / the number of micro-batches in the step.

    namespace offset = layout::forward_backward;

    // the micro-batch
    const float* const gauge = at<float>(arenas_.batch, offset::gauge);  // (6,10)

    // parameters
    const float* const w_basins_0_period = at<float>(arenas_.parameters, offset::w_basins_0_period);  // (10)
    const float* const w_basins_0_level = at<float>(arenas_.parameters, offset::w_basins_0_level);  // (6,1)
    const float* const w_basins_1_period = at<float>(arenas_.parameters, offset::w_basins_1_period);  // (10)
    const float* const w_basins_1_level = at<float>(arenas_.parameters, offset::w_basins_1_level);  // (6,1)
    const float* const w_shore_slope = at<float>(arenas_.parameters, offset::w_shore_slope);  // (10,6)

    // their gradients
    float* const g_basins_0_period = at<float>(arenas_.gradients, offset::g_basins_0_period);  // (10)
    float* const g_basins_0_level = at<float>(arenas_.gradients, offset::g_basins_0_level);  // (6,1)
    float* const g_basins_1_period = at<float>(arenas_.gradients, offset::g_basins_1_period);  // (10)
    float* const g_basins_1_level = at<float>(arenas_.gradients, offset::g_basins_1_level);  // (6,1)
    float* const g_shore_slope = at<float>(arenas_.gradients, offset::g_shore_slope);  // (10,6)

    // activations, in memory that is reused
    float* const reduce_max = at<float>(arenas_.scratch, offset::reduce_max);  // (6,1)
    float* const add = at<float>(arenas_.scratch, offset::add);  // (6,10)
    float* const reduce_max_2 = at<float>(arenas_.scratch, offset::reduce_max_2);  // (6,1)
    float* const div = at<float>(arenas_.scratch, offset::div);  // (6,10)
    float* const add_2 = at<float>(arenas_.scratch, offset::add_2);  // (6,10)
    float* const log = at<float>(arenas_.scratch, offset::log);  // (6,10)
    float* const reduce_sum = at<float>(arenas_.scratch, offset::reduce_sum);  // (6,1)
    float* const sigmoid = at<float>(arenas_.scratch, offset::sigmoid);  // (6,10)
    float* const cos = at<float>(arenas_.scratch, offset::cos);  // (6,10)
    float* const sigmoid_2 = at<float>(arenas_.scratch, offset::sigmoid_2);  // (6,10)
    float* const cos_2 = at<float>(arenas_.scratch, offset::cos_2);  // (6,10)
    float* const reduce_sum_2 = at<float>(arenas_.scratch, offset::reduce_sum_2);  // (6)
    float* const sin = at<float>(arenas_.scratch, offset::sin);  // (10,6)
    float* const dreduce_sum = at<float>(arenas_.scratch, offset::dreduce_sum);  // (6)
    float* const dadd = at<float>(arenas_.scratch, offset::dadd);  // (6,10)
    float* const neg = at<float>(arenas_.scratch, offset::neg);  // (6,10)
    float* const mul = at<float>(arenas_.scratch, offset::mul);  // (6,10)
    float* const mul_2 = at<float>(arenas_.scratch, offset::mul_2);  // (6,10)

    // the 15 equations stand with the kernel
    cos_sum_rows(reduce_max, add, reduce_max_2, div, add_2, log, reduce_sum, sigmoid, cos, sigmoid_2, cos_2, gauge,
        w_basins_0_period, w_basins_0_level, w_basins_1_period, w_basins_1_level, stream);
    // reduce_sum_2 = sum over rows(cos(select))
    // sin = sin(select)
    // where select = log * w_shore_slope > 0.5 ? log * w_shore_slope : 1 / log
    sin_sum_columns(reduce_sum_2, sin, log, w_shore_slope, stream);
    // dreduce_sum = exp(reduce_sum_2 - log_sum_exp) * scalars->dloss
    // scalars->loss_sum = scalars->loss_sum + log_sum_exp
    // where most = abs(max(reduce_sum_2)) == inf ? 0 : max(reduce_sum_2)
    // where log_sum_exp = log(sum(exp(reduce_sum_2 - most))) + most
    add_exp_sum_rows(dreduce_sum, &arenas_.scalars->loss_sum, reduce_sum_2, &arenas_.scalars->dloss,
        &arenas_.scalars->loss_sum, stream);
    // the 13 equations stand with the kernel
    shore_slope_and_basins_1_period_gradients(g_shore_slope, dadd, neg, mul, g_basins_1_period, dreduce_sum, sin, log,
        w_shore_slope, g_shore_slope, &arenas_.scalars->first_micro_step, add_2, add, div, reduce_max_2, sigmoid, cos,
        w_basins_1_period, g_basins_1_period, stream);
    // g_basins_1_level += sum(neg)
    basins_1_level_gradient(g_basins_1_level, neg, g_basins_1_level, &arenas_.scalars->first_micro_step, stream);
    // g_basins_0_level += sum(-dsub)
    // mul_2 = dsub * cos_2 * gauge
    // where dsub = (dadd + (add == reduce_max_2) * (sum(-(dadd * div / reduce_max_2)) / reduce_sum) + mul) / reduce_max
    // * sigmoid_2
    basins_0_level_gradient(g_basins_0_level, mul_2, dadd, div, reduce_max_2, reduce_sum, add, mul, reduce_max,
        sigmoid_2, g_basins_0_level, &arenas_.scalars->first_micro_step, cos_2, gauge, stream);
    // g_basins_0_period += mul_2_1 + mul_2_2 + mul_2_3 + mul_2_4 + mul_2_5 + mul_2_6
    basins_0_period_gradient(g_basins_0_period, mul_2, g_basins_0_period, &arenas_.scalars->first_micro_step, stream);
}

void Model::update() {
    [[maybe_unused]] Stream& stream = stream_;
    const Range range("update");  // as a GPU's profilers show it

    // the norm of all gradients, and the factor that clips them
    global_norm({.scalars = arenas_.scalars, .gradients = at<float>(arenas_.gradients, 0),
        .elements = PARAMETER_BYTES / static_cast<std::int64_t>(sizeof(float))}, stream);
    // AdamW on all parameters, in one pass over memory; states: first_moment, second_moment
    adamw({.parameters = at<float>(arenas_.parameters, 0), .gradients = at<float>(arenas_.gradients, 0),
        .states = {at<float>(arenas_.optimizer, 0), at<float>(arenas_.optimizer, PARAMETER_BYTES)},
        .segments = arenas_.segments, .scalars = arenas_.scalars}, stream);
}

// model.cpp: a training step of dynamo.logits.
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
    const float* const x = at<float>(arenas_.batch, offset::x);  // (B,12)
    const std::int64_t* const labels = at<std::int64_t>(arenas_.batch, offset::labels);  // (B)

    // parameters
    const float* const w_net_0 = at<float>(arenas_.parameters, offset::w_net_0);  // (16,12)
    const float* const w_net_0_bias = at<float>(arenas_.parameters, offset::w_net_0_bias);  // (16)
    const float* const w_net_2 = at<float>(arenas_.parameters, offset::w_net_2);  // (16,16)
    const float* const w_net_2_bias = at<float>(arenas_.parameters, offset::w_net_2_bias);  // (16)
    const float* const w_net_4 = at<float>(arenas_.parameters, offset::w_net_4);  // (5,16)
    const float* const w_net_4_bias = at<float>(arenas_.parameters, offset::w_net_4_bias);  // (5)

    // activations, in memory that is reused
    float* const relu = at<float>(arenas_.scratch, offset::relu);  // (B,16)
    float* const tanh = at<float>(arenas_.scratch, offset::tanh);  // (B,16)
    float* const linear_3 = at<float>(arenas_.scratch, offset::linear_3);  // (B,5)
    float* const loss = at<float>(arenas_.scratch, offset::loss);  // scalar
    float* const loss_lse = at<float>(arenas_.scratch, offset::loss_lse);  // (B)

    wait_for_update(arenas_, update_part::net, stream);
    // net: y = relu(x Wᵀ + bias)
    linear_forward({.y = relu, .x = x, .weight = w_net_0, .bias = w_net_0_bias, .activation = Activation::relu,
        .rows = B, .in = 12, .out = 16}, stream);
    // net: y = tanh(x Wᵀ + bias)
    linear_forward({.y = tanh, .x = relu, .weight = w_net_2, .bias = w_net_2_bias, .activation = Activation::tanh,
        .rows = B, .in = 16, .out = 16}, stream);
    // net.4: y = x Wᵀ + bias
    linear_forward({.y = linear_3, .x = tanh, .weight = w_net_4, .bias = w_net_4_bias, .rows = B, .in = 16, .out = 5},
        stream);
    // loss: loss = sum of log-sum-exp minus the label's logit, over rows with a label
    cross_entropy_forward({.loss = loss, .lse = loss_lse, .logits = linear_3, .labels = labels, .ignore_index = -100,
        .rows = B, .classes = 5}, stream);
    // scalars->loss_sum += loss
    add_to_loss_sum(&arenas_.scalars->loss_sum, loss, stream);
}

void Model::backward([[maybe_unused]] WriteMode mode) {
    [[maybe_unused]] Stream& stream = stream_;
    const Range range("backward");  // as a GPU's profilers show it
    // The trainer has set arenas_.scalars->dloss: 1 / loss_weight, summed over the step's micro-batches.

    namespace offset = layout::forward_backward;

    // the micro-batch
    const float* const x = at<float>(arenas_.batch, offset::x);  // (B,12)
    const std::int64_t* const labels = at<std::int64_t>(arenas_.batch, offset::labels);  // (B)

    // parameters
    const float* const w_net_2 = at<float>(arenas_.parameters, offset::w_net_2);  // (16,16)
    const float* const w_net_4 = at<float>(arenas_.parameters, offset::w_net_4);  // (5,16)

    // their gradients
    float* const g_net_4 = at<float>(arenas_.gradients, offset::g_net_4);  // (5,16)
    float* const g_net_4_bias = at<float>(arenas_.gradients, offset::g_net_4_bias);  // (5)
    float* const g_net_2 = at<float>(arenas_.gradients, offset::g_net_2);  // (16,16)
    float* const g_net_2_bias = at<float>(arenas_.gradients, offset::g_net_2_bias);  // (16)
    float* const g_net_0 = at<float>(arenas_.gradients, offset::g_net_0);  // (16,12)
    float* const g_net_0_bias = at<float>(arenas_.gradients, offset::g_net_0_bias);  // (16)

    // activations, in memory that is reused
    float* const relu = at<float>(arenas_.scratch, offset::relu);  // (B,16)
    float* const tanh = at<float>(arenas_.scratch, offset::tanh);  // (B,16)
    float* const linear_3 = at<float>(arenas_.scratch, offset::linear_3);  // (B,5)
    float* const loss_lse = at<float>(arenas_.scratch, offset::loss_lse);  // (B)
    float* const dlinear_3 = at<float>(arenas_.scratch, offset::dlinear_3);  // (B,5)
    float* const dtanh = at<float>(arenas_.scratch, offset::dtanh);  // (B,16)
    float* const dlinear_2 = at<float>(arenas_.scratch, offset::dlinear_2);  // (B,16)
    float* const drelu = at<float>(arenas_.scratch, offset::drelu);  // (B,16)
    float* const dlinear = at<float>(arenas_.scratch, offset::dlinear);  // (B,16)

    // loss: dlogits = (softmax(logits) - one_hot(label)) dloss
    cross_entropy_backward({.dlogits = dlinear_3, .logits = linear_3, .labels = labels, .lse = loss_lse,
        .dloss = &arenas_.scalars->dloss, .ignore_index = -100, .rows = B, .classes = 5}, stream);
    // net.4: dx = dy W
    linear_backward_input({.dx = dtanh, .dy = dlinear_3, .weight = w_net_4, .rows = B, .in = 16, .out = 5}, stream);
    // the update of the step before reads the gradients, which are written from here on
    wait_for_updates(arenas_, stream);
    // net.4: dW += dyᵀ x, dbias += column sums of dy
    linear_backward_weight({.dweight = g_net_4, .dbias = g_net_4_bias, .dy = dlinear_3, .x = tanh, .mode = mode,
        .rows = B, .in = 16, .out = 5}, stream);
    // net.3: dlinear_2 = dtanh - dtanh * tanh^2
    net_tanh_backward(dlinear_2, tanh, dtanh, stream);
    // net.2: dx = dy W
    linear_backward_input({.dx = drelu, .dy = dlinear_2, .weight = w_net_2, .rows = B, .in = 16, .out = 16}, stream);
    // net.2: dW += dyᵀ x, dbias += column sums of dy
    linear_backward_weight({.dweight = g_net_2, .dbias = g_net_2_bias, .dy = dlinear_2, .x = relu, .mode = mode,
        .rows = B, .in = 16, .out = 16}, stream);
    // net.1: dlinear = relu > 0 ? drelu : 0
    net_relu_backward(dlinear, relu, drelu, stream);
    // net.0: dW += dyᵀ x, dbias += column sums of dy
    linear_backward_weight({.dweight = g_net_0, .dbias = g_net_0_bias, .dy = dlinear, .x = x, .mode = mode, .rows = B,
        .in = 12, .out = 16}, stream);
}

void Model::loss_weight() {
    [[maybe_unused]] Stream& stream = stream_;
    const Range range("loss_weight");  // as a GPU's profilers show it

    namespace offset = layout::loss_weight;

    // the micro-batch
    const std::int64_t* const labels = at<std::int64_t>(arenas_.batch, offset::labels);  // (B)

    // loss: scalars->loss_weight += sum(labels != -100)
    cross_entropy_weight(&arenas_.scalars->loss_weight, labels, stream);
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

void Model::evaluate() {
    [[maybe_unused]] Stream& stream = stream_;
    const Range range("evaluate");  // as a GPU's profilers show it

    namespace offset = layout::evaluate;

    // the micro-batch
    const float* const x = at<float>(arenas_.batch, offset::x);  // (B,12)
    const std::int64_t* const labels = at<std::int64_t>(arenas_.batch, offset::labels);  // (B)

    // parameters
    const float* const w_net_0 = at<float>(arenas_.parameters, offset::w_net_0);  // (16,12)
    const float* const w_net_0_bias = at<float>(arenas_.parameters, offset::w_net_0_bias);  // (16)
    const float* const w_net_2 = at<float>(arenas_.parameters, offset::w_net_2);  // (16,16)
    const float* const w_net_2_bias = at<float>(arenas_.parameters, offset::w_net_2_bias);  // (16)
    const float* const w_net_4 = at<float>(arenas_.parameters, offset::w_net_4);  // (5,16)
    const float* const w_net_4_bias = at<float>(arenas_.parameters, offset::w_net_4_bias);  // (5)

    // activations, in memory that is reused
    float* const relu = at<float>(arenas_.scratch, offset::relu);  // (B,16)
    float* const tanh = at<float>(arenas_.scratch, offset::tanh);  // (B,16)
    float* const linear = at<float>(arenas_.scratch, offset::linear);  // (B,5)
    float* const loss = at<float>(arenas_.scratch, offset::loss);  // scalar
    float* const loss_lse = at<float>(arenas_.scratch, offset::loss_lse);  // (B)

    // net: y = relu(x Wᵀ + bias)
    linear_forward({.y = relu, .x = x, .weight = w_net_0, .bias = w_net_0_bias, .activation = Activation::relu,
        .rows = B, .in = 12, .out = 16}, stream);
    // net: y = tanh(x Wᵀ + bias)
    linear_forward({.y = tanh, .x = relu, .weight = w_net_2, .bias = w_net_2_bias, .activation = Activation::tanh,
        .rows = B, .in = 16, .out = 16}, stream);
    // net.4: y = x Wᵀ + bias
    linear_forward({.y = linear, .x = tanh, .weight = w_net_4, .bias = w_net_4_bias, .rows = B, .in = 16, .out = 5},
        stream);
    // loss: loss = sum of log-sum-exp minus the label's logit, over rows with a label
    cross_entropy_forward({.loss = loss, .lse = loss_lse, .logits = linear, .labels = labels, .ignore_index = -100,
        .rows = B, .classes = 5}, stream);
    // loss: scalars->loss_sum += loss
    add_to_loss_sum(&arenas_.scalars->loss_sum, loss, stream);
    // loss:
    //   scalars->label_count += sum_B(labels != -100)
    //   scalars->label_hits += sum_B(-row_max((linear == row_max(linear) or isnan(linear)) ? index : -5) == labels)
    loss_add_sum(&arenas_.scalars->label_count, &arenas_.scalars->label_hits, labels, linear, stream);
}

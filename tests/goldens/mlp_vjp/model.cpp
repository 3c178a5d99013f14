// model.cpp: vjp of dynamo.logits, in one call.
// A formula before the call of a kernel is in the names of the call's arguments, where it does not say otherwise;
// before a call with fields, `.x = ...`, in theirs. x1, x2, ... are pieces of x.
#include "model.h"

#include "kernels.h"             // the kernels generated for this model

using namespace thunder;

void Model::vjp() {
    [[maybe_unused]] Stream& stream = stream_;
    const Range range("vjp");  // as a GPU's profilers show it

    namespace offset = layout::vjp;

    // inputs
    const float* const x = at<float>(arenas_.batch, offset::x);  // (B,12)
    const float* const dlogits = at<float>(arenas_.batch, offset::dlogits);  // (B,5)

    // results
    float* const logits = at<float>(arenas_.results, offset::logits);  // (B,5)
    float* const dx = at<float>(arenas_.results, offset::dx);  // (B,12)

    // parameters
    const float* const w_net_0 = at<float>(arenas_.parameters, offset::w_net_0);  // (16,12)
    const float* const w_net_0_bias = at<float>(arenas_.parameters, offset::w_net_0_bias);  // (16)
    const float* const w_net_2 = at<float>(arenas_.parameters, offset::w_net_2);  // (16,16)
    const float* const w_net_2_bias = at<float>(arenas_.parameters, offset::w_net_2_bias);  // (16)
    const float* const w_net_4 = at<float>(arenas_.parameters, offset::w_net_4);  // (5,16)
    const float* const w_net_4_bias = at<float>(arenas_.parameters, offset::w_net_4_bias);  // (5)

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
    float* const dtanh = at<float>(arenas_.scratch, offset::dtanh);  // (B,16)
    float* const dlinear_2 = at<float>(arenas_.scratch, offset::dlinear_2);  // (B,16)
    float* const drelu = at<float>(arenas_.scratch, offset::drelu);  // (B,16)
    float* const dlinear = at<float>(arenas_.scratch, offset::dlinear);  // (B,16)

    // net: y = relu(x Wᵀ + bias)
    linear_forward({.y = relu, .x = x, .weight = w_net_0, .bias = w_net_0_bias, .activation = Activation::relu,
        .rows = B, .in = 12, .out = 16}, stream);
    // net: y = tanh(x Wᵀ + bias)
    linear_forward({.y = tanh, .x = relu, .weight = w_net_2, .bias = w_net_2_bias, .activation = Activation::tanh,
        .rows = B, .in = 16, .out = 16}, stream);
    // net.4: y = x Wᵀ + bias
    linear_forward({.y = logits, .x = tanh, .weight = w_net_4, .bias = w_net_4_bias, .rows = B, .in = 16, .out = 5},
        stream);
    // net.4: dx = dy W
    linear_backward_input({.dx = dtanh, .dy = dlogits, .weight = w_net_4, .rows = B, .in = 16, .out = 5}, stream);
    // net.4: dW = dyᵀ x, dbias = column sums of dy
    linear_backward_weight({.dweight = g_net_4, .dbias = g_net_4_bias, .dy = dlogits, .x = tanh, .rows = B, .in = 16,
        .out = 5}, stream);
    // net.3: dlinear_2 = dtanh - dtanh * tanh^2
    net_tanh_backward(dlinear_2, tanh, dtanh, stream);
    // net.2: dx = dy W
    linear_backward_input({.dx = drelu, .dy = dlinear_2, .weight = w_net_2, .rows = B, .in = 16, .out = 16}, stream);
    // net.2: dW = dyᵀ x, dbias = column sums of dy
    linear_backward_weight({.dweight = g_net_2, .dbias = g_net_2_bias, .dy = dlinear_2, .x = relu, .rows = B, .in = 16,
        .out = 16}, stream);
    // net.1: dlinear = relu > 0 ? drelu : 0
    net_relu_backward(dlinear, relu, drelu, stream);
    // net.0: dx = dy W
    linear_backward_input({.dx = dx, .dy = dlinear, .weight = w_net_0, .rows = B, .in = 12, .out = 16}, stream);
    // net.0: dW = dyᵀ x, dbias = column sums of dy
    linear_backward_weight({.dweight = g_net_0, .dbias = g_net_0_bias, .dy = dlinear, .x = x, .rows = B, .in = 12,
        .out = 16}, stream);
}

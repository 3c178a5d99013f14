// blocks.cpp: one function for each kind of repeated layer, forward and backward.
#include "kernels.h"
#include "model.h"

// LlamaDecoderLayer: model.layers.{0..1}
void decoder_layer_forward(const Arenas& arenas_, float* y /* (B,T,C) */, const float* x /* (B,T,C) */,
    const DecoderLayerWeights& w, const DecoderLayerSaved& saved, std::byte* scratch, Stream& stream) {
    namespace offset = layout::decoder_layer_forward;

    // tables
    const float* const cos = at<float>(arenas_.constants, offset::cos);  // (1,T,4)
    const float* const sin = at<float>(arenas_.constants, offset::sin);  // (1,T,4)

    // reused from layer to layer
    float* const input_layernorm = at<float>(scratch, offset::input_layernorm);  // (B,T,C)
    float* const rotary_2 = at<float>(scratch, offset::rotary_2);  // (B,T,NH,4)
    float* const rotary_3 = at<float>(scratch, offset::rotary_3);  // (B,T,KVH,4)
    float* const post_attention_layernorm = at<float>(scratch, offset::post_attention_layernorm);  // (B,T,C)
    float* const swiglu = at<float>(scratch, offset::swiglu);  // (B,T,H)

    // input_layernorm: rstd = rsqrt(mean(x^2) + 1e-05); y = x * rstd * weight
    input_layernorm_rms_norm_forward(saved.input_layernorm_rstd, input_layernorm, x, w.input_layernorm, stream);
    // self_attn: y = x Wᵀ for 3 weights that lie side by side
    linear_forward({.y = saved.qkv_proj, .x = input_layernorm, .weight = w.q_proj, .rows = B * T, .in = C,
        .out = (NH + 2 * KVH) * HS}, stream);
    // self_attn
    rotary(rotary_2, rotary_3, saved.qkv_proj, sin, cos, stream);
    // self_attn: causal attention; keeps the log-sum-exp of each row of scores
    attention_forward({.out = saved.sdpa, .lse = saved.sdpa_lse, .q = rotary_2, .k = rotary_3, .v = saved.qkv_proj + 24,
        .causal = true, .scale = 0.5F, .B = B, .T = T, .S = T, .NH = NH, .KVH = KVH, .HS = HS,
        .ld_v = (NH + 2 * KVH) * HS}, stream);
    // self_attn.o_proj: y = x Wᵀ + residual
    linear_forward({.y = saved.residual, .x = saved.sdpa, .weight = w.o_proj, .residual = x, .rows = B * T, .in = C,
        .out = C}, stream);
    // post_attention_layernorm: rstd = rsqrt(mean(x^2) + 1e-05); y = x * rstd * weight
    input_layernorm_rms_norm_forward(saved.post_attention_layernorm_rstd, post_attention_layernorm, saved.residual,
        w.post_attention_layernorm, stream);
    // mlp: y = x Wᵀ for 2 weights that lie side by side
    linear_forward({.y = saved.gate_up_proj, .x = post_attention_layernorm, .weight = w.gate_proj, .rows = B * T,
        .in = C, .out = 2 * H}, stream);
    // mlp: y = gate_up_proj1 * sigmoid(gate_up_proj1) * gate_up_proj2
    swiglu_forward(swiglu, saved.gate_up_proj, stream);
    // mlp.down_proj: y = x Wᵀ + residual
    linear_forward({.y = y, .x = swiglu, .weight = w.down_proj, .residual = saved.residual, .rows = B * T, .in = H,
        .out = C}, stream);
}

// LlamaDecoderLayer: model.layers.{0..1}
void decoder_layer_backward(const Arenas& arenas_, float* dx /* (B,T,C) */, const float* dy /* (B,T,C) */,
    const DecoderLayerSaved& saved, const DecoderLayerWeights& w, const DecoderLayerGradients& g,
    const bool* first_micro_step /* scalar */, std::byte* scratch, Gradient gradient, Stream& stream) {
    namespace offset = layout::decoder_layer_backward;

    // tables
    const float* const sin = at<float>(arenas_.constants, offset::sin);  // (1,T,4)
    const float* const cos = at<float>(arenas_.constants, offset::cos);  // (1,T,4)

    // reused from layer to layer
    float* const dswiglu = at<float>(scratch, offset::dswiglu);  // (B,T,H)
    float* const swiglu = at<float>(scratch, offset::swiglu);  // (B,T,H)
    float* const dgate_up_proj = at<float>(scratch, offset::dgate_up_proj);  // (B,T,V)
    float* const dpost_attention_layernorm = at<float>(scratch, offset::dpost_attention_layernorm);  // (B,T,C)
    float* const mul = at<float>(scratch, offset::mul);  // (B,T,C)
    float* const dresidual = at<float>(scratch, offset::dresidual);  // (B,T,C)
    float* const dsdpa = at<float>(scratch, offset::dsdpa);  // (B,T,C)
    float* const dsdpa_2 = dsdpa;  // (B,T,NH,4)
    float* const rotary_2 = at<float>(scratch, offset::rotary_2);  // (B,T,NH,4)
    float* const rotary_3 = at<float>(scratch, offset::rotary_3);  // (B,T,KVH,4)
    float* const drotary = at<float>(scratch, offset::drotary);  // (B,T,NH,4)
    float* const drotary_2 = at<float>(scratch, offset::drotary_2);  // (B,T,KVH,4)
    float* const dv_proj = at<float>(scratch, offset::dv_proj);  // (B,T,KVH,4)
    float* const dqkv_proj = at<float>(scratch, offset::dqkv_proj);  // (B,T,2*C)
    float* const dinput_layernorm = at<float>(scratch, offset::dinput_layernorm);  // (B,T,C)
    float* const mul_2 = at<float>(scratch, offset::mul_2);  // (B,T,C)

    // mlp.down_proj: dx = dy W
    linear_backward_input({.dx = dswiglu, .dy = dy, .weight = w.down_proj, .rows = B * T, .in = H, .out = C}, stream);
    // mlp
    swiglu_backward(swiglu, dgate_up_proj, saved.gate_up_proj, dswiglu, stream);
    // mlp.down_proj: dW += dyᵀ x
    linear_backward_weight({.dweight = g.down_proj, .dy = dy, .x = swiglu, .gradient = gradient, .rows = B * T, .in = H,
        .out = C}, stream);
    // mlp: dx = dy W
    linear_backward_input({.dx = dpost_attention_layernorm, .dy = dgate_up_proj, .weight = w.gate_proj, .rows = B * T,
        .in = C, .out = 2 * H}, stream);
    layers_rms_norm_backward(mul, dresidual, g.post_attention_layernorm, saved.residual,
        saved.post_attention_layernorm_rstd, w.post_attention_layernorm, dpost_attention_layernorm, dy,
        g.post_attention_layernorm, first_micro_step, stream);
    // mlp: dW += dyᵀ x
    linear_backward_weight({.dweight = g.gate_proj, .dy = dgate_up_proj, .x = mul, .gradient = gradient, .rows = B * T,
        .in = C, .out = 2 * H}, stream);
    // self_attn.o_proj: dx = dy W
    linear_backward_input({.dx = dsdpa, .dy = dresidual, .weight = w.o_proj, .rows = B * T, .in = C, .out = C}, stream);
    // self_attn.o_proj: dW += dyᵀ x
    linear_backward_weight({.dweight = g.o_proj, .dy = dresidual, .x = saved.sdpa, .gradient = gradient, .rows = B * T,
        .in = C, .out = C}, stream);
    // self_attn
    rotary(rotary_2, rotary_3, saved.qkv_proj, sin, cos, stream);
    // self_attn: dq, dk, dv of causal attention
    attention_backward({.dq = drotary, .dk = drotary_2, .dv = dv_proj, .dout = dsdpa_2, .q = rotary_2, .k = rotary_3,
        .v = saved.qkv_proj + 24, .out = saved.sdpa, .lse = saved.sdpa_lse, .causal = true, .scale = 0.5F, .B = B,
        .T = T, .S = T, .NH = NH, .KVH = KVH, .HS = HS, .ld_v = (NH + 2 * KVH) * HS}, stream);
    // self_attn
    rotary_inverse(dqkv_proj, drotary_2, sin, cos, drotary, dv_proj, stream);
    // self_attn: dx = dy W
    linear_backward_input({.dx = dinput_layernorm, .dy = dqkv_proj, .weight = w.q_proj, .rows = B * T, .in = C,
        .out = (NH + 2 * KVH) * HS}, stream);
    // input_layernorm
    layers_rms_norm_backward(mul_2, dx, g.input_layernorm, saved.x, saved.input_layernorm_rstd, w.input_layernorm,
        dinput_layernorm, dresidual, g.input_layernorm, first_micro_step, stream);
    // self_attn: dW += dyᵀ x
    linear_backward_weight({.dweight = g.q_proj, .dy = dqkv_proj, .x = mul_2, .gradient = gradient, .rows = B * T,
        .in = C, .out = (NH + 2 * KVH) * HS}, stream);
}


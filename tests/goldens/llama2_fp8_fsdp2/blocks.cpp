// blocks.cpp: one function for each kind of repeated layer, forward and backward.
// B=2 sequences in a micro-batch, T=8 positions in a sequence, L=2 layers, V=48 entries of the vocabulary, C=16 width
// of the residual stream, NH=4 query heads, KVH=2 key and value heads, HS=4 size of a head, H=24 width inside the MLP.
// A formula before the call of a kernel is in the names of the call's arguments, where it does not say otherwise;
// before a call with fields, `.x = ...`, in theirs. x1, x2, ... are pieces of x.
// "dx =" says that a call overwrites a gradient, "dx +=" that it adds to it. Those of parameters are sums over
// micro-steps: a call with WriteMode::overwrite begins one, the others add to it.
// A kernel computes in f32 whatever it reads, and rounds once what it stores as bf16; products of bf16 add up in f32.
// Gradients of parameters are f32. Parameters are f32, `w.`; products read their bf16 copies, `w16.`, which the
// optimizer writes with them. Products by `fp8_` calls read numbers of eight bits: each tensor times its scale of
// `fp8.`, which follows from the largest |x| of before, in model.cpp. README.md says why.
#include "kernels.h"
#include "model.h"

// LlamaDecoderLayer: model.layers.{0..1}
void decoder_layer_forward(const Arenas& arenas, bf16* y /* (B,T,C) */, const bf16* x /* (B,T,C) */,
    const DecoderLayerWeights& w, const DecoderLayerNarrowCopies& w16, const DecoderLayerScaling& fp8,
    const DecoderLayerSaved& saved, std::byte* scratch, Stream& stream) {
    const Range range("decoder_layer_forward");  // as a GPU's profilers show it
    namespace offset = layout::decoder_layer_forward;

    // tables
    const float* const cos = at<float>(arenas.constants, offset::cos);  // (1,T,HS)
    const float* const sin = at<float>(arenas.constants, offset::sin);  // (1,T,HS)

    // reused from layer to layer
    e4m3* const input_layernorm_e4m3 = at<e4m3>(scratch, offset::input_layernorm_e4m3);  // (B,T,C)
    float* const input_layernorm_maxima = at<float>(scratch, offset::input_layernorm_maxima);  // (B,T)
    float* const input_layernorm_inverse = at<float>(scratch, offset::input_layernorm_inverse);  // scalar
    float* const qkv_proj_weight_inverse = at<float>(scratch, offset::qkv_proj_weight_inverse);  // scalar
    e4m3* const qkv_proj_weight_e4m3 = at<e4m3>(scratch, offset::qkv_proj_weight_e4m3);  // (C+2*KVH*HS,C)
    float* const sdpa_inverse = at<float>(scratch, offset::sdpa_inverse);  // scalar
    e4m3* const sdpa_e4m3 = at<e4m3>(scratch, offset::sdpa_e4m3);  // (B,T,C)
    float* const o_proj_weight_inverse = at<float>(scratch, offset::o_proj_weight_inverse);  // scalar
    e4m3* const o_proj_weight_e4m3 = at<e4m3>(scratch, offset::o_proj_weight_e4m3);  // (C,C)
    e4m3* const post_attention_layernorm_e4m3 = at<e4m3>(scratch, offset::post_attention_layernorm_e4m3);  // (B,T,C)
    float* const post_attention_layernorm_maxima = at<float>(scratch, offset::post_attention_layernorm_maxima);  // (B,T)
    float* const post_attention_layernorm_inverse = at<float>(scratch, offset::post_attention_layernorm_inverse);  // scalar
    float* const gate_up_proj_weight_inverse = at<float>(scratch, offset::gate_up_proj_weight_inverse);  // scalar
    e4m3* const gate_up_proj_weight_e4m3 = at<e4m3>(scratch, offset::gate_up_proj_weight_e4m3);  // (2*H,C)
    bf16* const swiglu = at<bf16>(scratch, offset::swiglu);  // (B,T,H)

    // input_layernorm:
    //   saved.input_layernorm_rstd = rsqrt(mean_C(x^2) + 1e-05)
    //   input_layernorm_e4m3 = e4m3(y * fp8.qkv_proj_input_scale)
    //   input_layernorm_maxima = max_C(abs(y))
    //   where y = (x * saved.input_layernorm_rstd * w.input_layernorm)
    rms_norm_forward_fp8(saved.input_layernorm_rstd, input_layernorm_e4m3, input_layernorm_maxima, x, w.input_layernorm,
        fp8.qkv_proj_input_scale, stream);
    // self_attn.{q,k,v}_proj: amax = max |x|, for the scale of the next time
    fp8_finish({.amax = fp8.qkv_proj_input_amax, .inverse = input_layernorm_inverse, .maxima = input_layernorm_maxima,
        .scale = fp8.qkv_proj_input_scale, .rows = B * T}, stream);
    // self_attn.{q,k,v}_proj: q = e4m3(x * scale); amax = max |x|, for the scale of the next time
    fp8_quantise({.q = qkv_proj_weight_e4m3, .amax = fp8.qkv_proj_weight_amax, .inverse = qkv_proj_weight_inverse,
        .x = w16.q_proj, .scale = fp8.qkv_proj_weight_scale, .rows = C + 2 * KVH * HS, .width = C}, stream);
    // self_attn.{q,k,v}_proj: c = a bᵀ * inverse_a * inverse_b
    fp8_product({.c = saved.qkv_proj_rotated, .a = input_layernorm_e4m3, .b = qkv_proj_weight_e4m3,
        .inverse_a = input_layernorm_inverse, .inverse_b = qkv_proj_weight_inverse, .m = 16, .n = C + 2 * KVH * HS,
        .k = C}, stream);
    // self_attn:
    //   q1 = q_proj1 * cos1 - q_proj2 * sin1
    //   q2 = q_proj2 * cos2 + q_proj1 * sin2
    //   k1 = k_proj1 * cos1 - k_proj2 * sin1
    //   k2 = k_proj2 * cos2 + k_proj1 * sin2
    //   where saved.qkv_proj_rotated = q1, q2, k1, k2, in place of q_proj1, q_proj2, k_proj1, k_proj2
    rotary(saved.qkv_proj_rotated, sin, cos, stream);
    // self_attn: causal attention; keeps the log-sum-exp of each row of scores
    attention_forward({.out = saved.sdpa, .lse = saved.sdpa_lse, .q = saved.qkv_proj_rotated,
        .k = saved.qkv_proj_rotated + C, .v = saved.qkv_proj_rotated + C + KVH * HS, .causal = true, .scale = 0.5F,
        .B = B, .T = T, .S = T, .NH = NH, .KVH = KVH, .HS = HS, .ld_q = C + 2 * KVH * HS, .ld_k = C + 2 * KVH * HS,
        .ld_v = C + 2 * KVH * HS}, stream);
    // self_attn.o_proj: q = e4m3(x * scale); amax = max |x|, for the scale of the next time
    fp8_quantise({.q = sdpa_e4m3, .amax = fp8.o_proj_input_amax, .inverse = sdpa_inverse, .x = saved.sdpa,
        .scale = fp8.o_proj_input_scale, .rows = B * T, .width = C}, stream);
    // self_attn.o_proj: q = e4m3(x * scale); amax = max |x|, for the scale of the next time
    fp8_quantise({.q = o_proj_weight_e4m3, .amax = fp8.o_proj_weight_amax, .inverse = o_proj_weight_inverse,
        .x = w16.o_proj, .scale = fp8.o_proj_weight_scale, .rows = C, .width = C}, stream);
    // self_attn.o_proj: c = a bᵀ * inverse_a * inverse_b + residual
    fp8_product({.c = saved.residual, .a = sdpa_e4m3, .b = o_proj_weight_e4m3, .inverse_a = sdpa_inverse,
        .inverse_b = o_proj_weight_inverse, .residual = x, .m = 16, .n = C, .k = C}, stream);
    // post_attention_layernorm:
    //   saved.post_attention_layernorm_rstd = rsqrt(mean_C(saved.residual^2) + 1e-05)
    //   post_attention_layernorm_e4m3 = e4m3(y * fp8.gate_up_proj_input_scale)
    //   post_attention_layernorm_maxima = max_C(abs(y))
    //   where y = (saved.residual * saved.post_attention_layernorm_rstd * w.post_attention_layernorm)
    rms_norm_forward_fp8(saved.post_attention_layernorm_rstd, post_attention_layernorm_e4m3,
        post_attention_layernorm_maxima, saved.residual, w.post_attention_layernorm, fp8.gate_up_proj_input_scale,
        stream);
    // mlp.{gate,up}_proj: amax = max |x|, for the scale of the next time
    fp8_finish({.amax = fp8.gate_up_proj_input_amax, .inverse = post_attention_layernorm_inverse,
        .maxima = post_attention_layernorm_maxima, .scale = fp8.gate_up_proj_input_scale, .rows = B * T}, stream);
    // mlp.{gate,up}_proj: q = e4m3(x * scale); amax = max |x|, for the scale of the next time
    fp8_quantise({.q = gate_up_proj_weight_e4m3, .amax = fp8.gate_up_proj_weight_amax,
        .inverse = gate_up_proj_weight_inverse, .x = w16.gate_proj, .scale = fp8.gate_up_proj_weight_scale,
        .rows = 2 * H, .width = C}, stream);
    // mlp.{gate,up}_proj: c = a bᵀ * inverse_a * inverse_b
    fp8_product({.c = saved.gate_up_proj, .a = post_attention_layernorm_e4m3, .b = gate_up_proj_weight_e4m3,
        .inverse_a = post_attention_layernorm_inverse, .inverse_b = gate_up_proj_weight_inverse, .m = 16, .n = 2 * H,
        .k = C}, stream);
    // mlp: swiglu = silu(gate) * up; where gate, up = saved.gate_up_proj
    swiglu_forward(swiglu, saved.gate_up_proj, stream);
    // mlp.down_proj: y = x Wᵀ + residual
    linear_forward({.y = y, .x = swiglu, .weight = w16.down_proj, .residual = saved.residual, .rows = B * T, .in = H,
        .out = C}, stream);
}

// LlamaDecoderLayer: model.layers.{0..1}
void decoder_layer_backward(const Arenas& arenas, bf16* dx /* (B,T,C) */, const bf16* dy /* (B,T,C) */,
    const DecoderLayerSaved& saved, const DecoderLayerWeights& w, const DecoderLayerNarrowCopies& w16,
    const DecoderLayerGradients& g, const DecoderLayerScaling& fp8, std::byte* scratch, WriteMode mode,
    Stream& stream) {
    const Range range("decoder_layer_backward");  // as a GPU's profilers show it
    namespace offset = layout::decoder_layer_backward;

    // tables
    const float* const cos = at<float>(arenas.constants, offset::cos);  // (1,T,HS)
    const float* const sin = at<float>(arenas.constants, offset::sin);  // (1,T,HS)

    // reused from layer to layer
    bf16* const dswiglu = at<bf16>(scratch, offset::dswiglu);  // (B,T,H)
    bf16* const swiglu = at<bf16>(scratch, offset::swiglu);  // (B,T,H)
    e5m2* const dgate_up_proj_e5m2 = at<e5m2>(scratch, offset::dgate_up_proj_e5m2);  // (B,T,2*H)
    float* const dgate_up_proj_maxima = at<float>(scratch, offset::dgate_up_proj_maxima);  // (B,T)
    float* const dgate_up_proj_inverse = at<float>(scratch, offset::dgate_up_proj_inverse);  // scalar
    e5m2* const dgate_up_proj_e5m2_transposed = at<e5m2>(scratch, offset::dgate_up_proj_e5m2_transposed);  // (2*H,16)
    float* const gate_up_proj_weight_inverse = at<float>(scratch, offset::gate_up_proj_weight_inverse);  // scalar
    e4m3* const gate_up_proj_weight_e4m3_transposed = at<e4m3>(scratch, offset::gate_up_proj_weight_e4m3_transposed);  // (C,2*H)
    bf16* const dpost_attention_layernorm = at<bf16>(scratch, offset::dpost_attention_layernorm);  // (B,T,C)
    e4m3* const post_attention_layernorm_e4m3 = at<e4m3>(scratch, offset::post_attention_layernorm_e4m3);  // (B,T,C)
    bf16* const dresidual = at<bf16>(scratch, offset::dresidual);  // (B,T,C)
    e5m2* const dresidual_e5m2 = at<e5m2>(scratch, offset::dresidual_e5m2);  // (B,T,C)
    float* const dresidual_maxima = at<float>(scratch, offset::dresidual_maxima);  // (B,T)
    float* const post_attention_layernorm_inverse = at<float>(scratch, offset::post_attention_layernorm_inverse);  // scalar
    e4m3* const post_attention_layernorm_e4m3_transposed = at<e4m3>(scratch, offset::post_attention_layernorm_e4m3_transposed);  // (C,16)
    float* const dresidual_inverse = at<float>(scratch, offset::dresidual_inverse);  // scalar
    e5m2* const dresidual_e5m2_transposed = at<e5m2>(scratch, offset::dresidual_e5m2_transposed);  // (C,16)
    float* const o_proj_weight_inverse = at<float>(scratch, offset::o_proj_weight_inverse);  // scalar
    e4m3* const o_proj_weight_e4m3_transposed = at<e4m3>(scratch, offset::o_proj_weight_e4m3_transposed);  // (C,C)
    bf16* const dsdpa = at<bf16>(scratch, offset::dsdpa);  // (B,T,C)
    float* const sdpa_inverse = at<float>(scratch, offset::sdpa_inverse);  // scalar
    e4m3* const sdpa_e4m3_transposed = at<e4m3>(scratch, offset::sdpa_e4m3_transposed);  // (C,16)
    bf16* const dqkv_proj = at<bf16>(scratch, offset::dqkv_proj);  // (B,T,C+2*KVH*HS)
    bf16* const dq_rotated = dqkv_proj;  // (B,T,NH,HS)
    bf16* const dk_rotated = dqkv_proj + C;  // (B,T,KVH,HS)
    bf16* const dv_proj = dqkv_proj + C + KVH * HS;  // (B,T,KVH,HS)
    float* const dqkv_proj_inverse = at<float>(scratch, offset::dqkv_proj_inverse);  // scalar
    e5m2* const dqkv_proj_e5m2 = at<e5m2>(scratch, offset::dqkv_proj_e5m2);  // (B,T,C+2*KVH*HS)
    e5m2* const dqkv_proj_e5m2_transposed = at<e5m2>(scratch, offset::dqkv_proj_e5m2_transposed);  // (C+2*KVH*HS,16)
    float* const qkv_proj_weight_inverse = at<float>(scratch, offset::qkv_proj_weight_inverse);  // scalar
    e4m3* const qkv_proj_weight_e4m3_transposed = at<e4m3>(scratch, offset::qkv_proj_weight_e4m3_transposed);  // (C,C+2*KVH*HS)
    bf16* const dinput_layernorm = at<bf16>(scratch, offset::dinput_layernorm);  // (B,T,C)
    e4m3* const input_layernorm_e4m3 = at<e4m3>(scratch, offset::input_layernorm_e4m3);  // (B,T,C)
    float* const input_layernorm_inverse = at<float>(scratch, offset::input_layernorm_inverse);  // scalar
    e4m3* const input_layernorm_e4m3_transposed = at<e4m3>(scratch, offset::input_layernorm_e4m3_transposed);  // (C,16)

    // mlp.down_proj: dx = dy W
    linear_backward_input({.dx = dswiglu, .dy = dy, .weight = w16.down_proj, .rows = B * T, .in = H, .out = C}, stream);
    // mlp: the kernel's text begins with its 7 equations
    mlp_backward(swiglu, dgate_up_proj_e5m2, dgate_up_proj_maxima, saved.gate_up_proj, dswiglu,
        fp8.gate_up_proj_gradient_scale, stream);
    // mlp.down_proj: dW += dyᵀ x
    linear_backward_weight({.dweight = g.down_proj, .dy = dy, .x = swiglu, .mode = mode, .rows = B * T, .in = H,
        .out = C}, stream);
    // mlp.{gate,up}_proj: the codes transposed; amax = max |x|, for the scale of the next time
    fp8_finish({.q_transposed = dgate_up_proj_e5m2_transposed, .amax = fp8.gate_up_proj_gradient_amax,
        .inverse = dgate_up_proj_inverse, .q = dgate_up_proj_e5m2, .maxima = dgate_up_proj_maxima,
        .scale = fp8.gate_up_proj_gradient_scale, .rows = B * T, .width = 2 * H}, stream);
    // mlp.{gate,up}_proj: q = e4m3(x * scale), transposed; by the scale that it had in the forward pass
    fp8_quantise({.q_transposed = gate_up_proj_weight_e4m3_transposed, .inverse = gate_up_proj_weight_inverse,
        .x = w16.gate_proj, .scale = fp8.gate_up_proj_weight_scale, .rows = 48, .width = C}, stream);
    // mlp.{gate,up}_proj: c = a bᵀ * inverse_a * inverse_b
    fp8_product({.c = dpost_attention_layernorm, .a = dgate_up_proj_e5m2, .b = gate_up_proj_weight_e4m3_transposed,
        .inverse_a = dgate_up_proj_inverse, .inverse_b = gate_up_proj_weight_inverse, .m = 16, .n = C, .k = 2 * H},
        stream);
    // post_attention_layernorm: the kernel's text begins with its 7 equations
    rms_norm_backward_add_fp8(post_attention_layernorm_e4m3, dresidual, dresidual_e5m2, dresidual_maxima,
        g.post_attention_layernorm, saved.residual, saved.post_attention_layernorm_rstd, w.post_attention_layernorm,
        fp8.gate_up_proj_input_scale, dpost_attention_layernorm, dy, fp8.o_proj_gradient_scale, mode, stream);
    // mlp.{gate,up}_proj: the codes transposed
    fp8_finish({.q_transposed = post_attention_layernorm_e4m3_transposed, .inverse = post_attention_layernorm_inverse,
        .q = post_attention_layernorm_e4m3, .scale = fp8.gate_up_proj_input_scale, .rows = B * T, .width = C}, stream);
    // mlp.{gate,up}_proj: c += a bᵀ * inverse_a * inverse_b, the gradient of weights
    fp8_product({.c = g.gate_proj, .a = dgate_up_proj_e5m2_transposed, .b = post_attention_layernorm_e4m3_transposed,
        .inverse_a = dgate_up_proj_inverse, .inverse_b = post_attention_layernorm_inverse, .mode = mode, .m = 48,
        .n = C, .k = 16}, stream);
    // self_attn.o_proj: the codes transposed; amax = max |x|, for the scale of the next time
    fp8_finish({.q_transposed = dresidual_e5m2_transposed, .amax = fp8.o_proj_gradient_amax,
        .inverse = dresidual_inverse, .q = dresidual_e5m2, .maxima = dresidual_maxima,
        .scale = fp8.o_proj_gradient_scale, .rows = B * T, .width = C}, stream);
    // self_attn.o_proj: q = e4m3(x * scale), transposed; by the scale that it had in the forward pass
    fp8_quantise({.q_transposed = o_proj_weight_e4m3_transposed, .inverse = o_proj_weight_inverse, .x = w16.o_proj,
        .scale = fp8.o_proj_weight_scale, .rows = C, .width = C}, stream);
    // self_attn.o_proj: c = a bᵀ * inverse_a * inverse_b
    fp8_product({.c = dsdpa, .a = dresidual_e5m2, .b = o_proj_weight_e4m3_transposed, .inverse_a = dresidual_inverse,
        .inverse_b = o_proj_weight_inverse, .m = 16, .n = C, .k = C}, stream);
    // self_attn.o_proj: q = e4m3(x * scale), transposed; by the scale that it had in the forward pass
    fp8_quantise({.q_transposed = sdpa_e4m3_transposed, .inverse = sdpa_inverse, .x = saved.sdpa,
        .scale = fp8.o_proj_input_scale, .rows = B * T, .width = C}, stream);
    // self_attn.o_proj: c += a bᵀ * inverse_a * inverse_b, the gradient of weights
    fp8_product({.c = g.o_proj, .a = dresidual_e5m2_transposed, .b = sdpa_e4m3_transposed,
        .inverse_a = dresidual_inverse, .inverse_b = sdpa_inverse, .mode = mode, .m = 16, .n = C, .k = 16}, stream);
    // self_attn: dq, dk, dv of causal attention
    attention_backward({.dq = dq_rotated, .dk = dk_rotated, .dv = dv_proj, .dout = dsdpa, .q = saved.qkv_proj_rotated,
        .k = saved.qkv_proj_rotated + C, .v = saved.qkv_proj_rotated + C + KVH * HS, .out = saved.sdpa,
        .lse = saved.sdpa_lse, .causal = true, .scale = 0.5F, .B = B, .T = T, .S = T, .NH = NH, .KVH = KVH, .HS = HS,
        .ld_dq = C + 2 * KVH * HS, .ld_dk = C + 2 * KVH * HS, .ld_dv = C + 2 * KVH * HS, .ld_q = C + 2 * KVH * HS,
        .ld_k = C + 2 * KVH * HS, .ld_v = C + 2 * KVH * HS}, stream);
    // self_attn:
    //   dq_proj1 = dq_rotated1 * cos1 + dq_rotated2 * sin2
    //   dq_proj2 = dq_rotated2 * cos2 - dq_rotated1 * sin1
    //   dk_proj1 = dk_rotated1 * cos1 + dk_rotated2 * sin2
    //   dk_proj2 = dk_rotated2 * cos2 - dk_rotated1 * sin1
    //   where dqkv_proj = dq_proj1, dq_proj2, dk_proj1, dk_proj2, in place of dk_rotated, dq_rotated
    rotary_inverse(dqkv_proj, sin, cos, stream);
    // self_attn.{q,k,v}_proj: q = e5m2(x * scale), and transposed; amax = max |x|, for the scale of the next time
    fp8_quantise({.q = dqkv_proj_e5m2, .q_transposed = dqkv_proj_e5m2_transposed, .amax = fp8.qkv_proj_gradient_amax,
        .inverse = dqkv_proj_inverse, .x = dqkv_proj, .scale = fp8.qkv_proj_gradient_scale, .rows = B * T,
        .width = C + 2 * KVH * HS}, stream);
    // self_attn.{q,k,v}_proj: q = e4m3(x * scale), transposed; by the scale that it had in the forward pass
    fp8_quantise({.q_transposed = qkv_proj_weight_e4m3_transposed, .inverse = qkv_proj_weight_inverse, .x = w16.q_proj,
        .scale = fp8.qkv_proj_weight_scale, .rows = 32, .width = C}, stream);
    // self_attn.{q,k,v}_proj: c = a bᵀ * inverse_a * inverse_b
    fp8_product({.c = dinput_layernorm, .a = dqkv_proj_e5m2, .b = qkv_proj_weight_e4m3_transposed,
        .inverse_a = dqkv_proj_inverse, .inverse_b = qkv_proj_weight_inverse, .m = 16, .n = C, .k = C + 2 * KVH * HS},
        stream);
    // input_layernorm:
    //   input_layernorm_e4m3 = e4m3((normed * w.input_layernorm) * fp8.qkv_proj_input_scale) (recomputed)
    //   dx = dresidual + saved.input_layernorm_rstd * (dnormed - normed * mean_C(dnormed * normed))
    //   g.input_layernorm += sum_{B,T}(dinput_layernorm * normed)
    //   where normed = saved.x * saved.input_layernorm_rstd
    //   where dnormed = dinput_layernorm * w.input_layernorm
    input_layernorm_rms_norm_backward_add_fp8(input_layernorm_e4m3, dx, g.input_layernorm, saved.x,
        saved.input_layernorm_rstd, w.input_layernorm, fp8.qkv_proj_input_scale, dinput_layernorm, dresidual, mode,
        stream);
    // self_attn.{q,k,v}_proj: the codes transposed
    fp8_finish({.q_transposed = input_layernorm_e4m3_transposed, .inverse = input_layernorm_inverse,
        .q = input_layernorm_e4m3, .scale = fp8.qkv_proj_input_scale, .rows = B * T, .width = C}, stream);
    // self_attn.{q,k,v}_proj: c += a bᵀ * inverse_a * inverse_b, the gradient of weights
    fp8_product({.c = g.q_proj, .a = dqkv_proj_e5m2_transposed, .b = input_layernorm_e4m3_transposed,
        .inverse_a = dqkv_proj_inverse, .inverse_b = input_layernorm_inverse, .mode = mode, .m = 32, .n = C, .k = 16},
        stream);
}

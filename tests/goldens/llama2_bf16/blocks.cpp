// blocks.cpp: one function for each kind of repeated layer, forward and backward.
// B=2 sequences in a micro-batch, T=8 positions in a sequence, L=2 layers, V=48 entries of the vocabulary, C=16 width
// of the residual stream, NH=4 query heads, KVH=2 key and value heads, HS=4 size of a head, H=24 width inside the MLP.
// A formula before the call of a kernel is in the names of the call's arguments, where it does not say otherwise;
// before a call with fields, `.x = ...`, in theirs. x1, x2, ... are pieces of x.
// "dx =" says that a call overwrites a gradient, "dx +=" that it adds to it. Those of parameters are sums over
// micro-steps: a call with WriteMode::overwrite begins one, the others add to it.
// A kernel computes in f32 whatever it reads, and rounds once what it stores as bf16; products of bf16 add up in f32.
// Gradients of parameters are f32. Parameters are f32, `w.`; products read their bf16 copies, `w16.`, which the
// optimizer writes with them. README.md says why.
#include "kernels.h"
#include "model.h"

// LlamaDecoderLayer: model.layers.{0..1}
void decoder_layer_forward(const Arenas& arenas, bf16* y /* (B,T,C) */, const bf16* x /* (B,T,C) */,
    const DecoderLayerWeights& w, const DecoderLayerNarrowCopies& w16, const DecoderLayerSaved& saved,
    std::byte* scratch, Stream& stream) {
    const Range range("decoder_layer_forward");  // as a GPU's profilers show it
    namespace offset = layout::decoder_layer_forward;

    // tables
    const float* const cos = at<float>(arenas.constants, offset::cos);  // (1,T,HS)
    const float* const sin = at<float>(arenas.constants, offset::sin);  // (1,T,HS)

    // reused from layer to layer
    bf16* const input_layernorm = at<bf16>(scratch, offset::input_layernorm);  // (B,T,C)
    bf16* const post_attention_layernorm = at<bf16>(scratch, offset::post_attention_layernorm);  // (B,T,C)
    bf16* const swiglu = at<bf16>(scratch, offset::swiglu);  // (B,T,H)

    // input_layernorm:
    //   saved.input_layernorm_rstd = rsqrt(mean_C(x^2) + 1e-05)
    //   input_layernorm = x * saved.input_layernorm_rstd * w.input_layernorm
    rms_norm_forward(saved.input_layernorm_rstd, input_layernorm, x, w.input_layernorm, stream);
    // self_attn.{q,k,v}_proj: y = x Wᵀ for 3 weights that lie side by side
    linear_forward({.y = saved.qkv_proj_rotated, .x = input_layernorm, .weight = w16.q_proj, .rows = B * T, .in = C,
        .out = (NH + 2 * KVH) * HS}, stream);
    // self_attn:
    //   q1 = q_proj1 * cos1 - q_proj2 * sin1
    //   q2 = q_proj2 * cos2 + q_proj1 * sin2
    //   k1 = k_proj1 * cos1 - k_proj2 * sin1
    //   k2 = k_proj2 * cos2 + k_proj1 * sin2
    //   where saved.qkv_proj_rotated = q1, q2, k1, k2, in place of q_proj1, q_proj2, k_proj1, k_proj2
    rotary(saved.qkv_proj_rotated, sin, cos, stream);
    // self_attn: causal attention; keeps the log-sum-exp of each row of scores
    attention_forward({.out = saved.sdpa, .lse = saved.sdpa_lse, .q = saved.qkv_proj_rotated,
        .k = saved.qkv_proj_rotated + NH * HS, .v = saved.qkv_proj_rotated + (NH + KVH) * HS, .causal = true,
        .scale = 0.5F, .B = B, .T = T, .S = T, .NH = NH, .KVH = KVH, .HS = HS, .ld_q = (NH + 2 * KVH) * HS,
        .ld_k = (NH + 2 * KVH) * HS, .ld_v = (NH + 2 * KVH) * HS}, stream);
    // self_attn.o_proj: y = x Wᵀ + residual
    linear_forward({.y = saved.residual, .x = saved.sdpa, .weight = w16.o_proj, .residual = x, .rows = B * T,
        .in = NH * HS, .out = C}, stream);
    // post_attention_layernorm:
    //   saved.post_attention_layernorm_rstd = rsqrt(mean_C(saved.residual^2) + 1e-05)
    //   post_attention_layernorm = saved.residual * saved.post_attention_layernorm_rstd * w.post_attention_layernorm
    rms_norm_forward(saved.post_attention_layernorm_rstd, post_attention_layernorm, saved.residual,
        w.post_attention_layernorm, stream);
    // mlp.{gate,up}_proj: y = x Wᵀ for 2 weights that lie side by side
    linear_forward({.y = saved.gate_up_proj, .x = post_attention_layernorm, .weight = w16.gate_proj, .rows = B * T,
        .in = C, .out = 2 * H}, stream);
    // mlp: swiglu = silu(gate) * up; where gate, up = saved.gate_up_proj
    swiglu_forward(swiglu, saved.gate_up_proj, stream);
    // mlp.down_proj: y = x Wᵀ + residual
    linear_forward({.y = y, .x = swiglu, .weight = w16.down_proj, .residual = saved.residual, .rows = B * T, .in = H,
        .out = C}, stream);
}

// LlamaDecoderLayer: model.layers.{0..1}
void decoder_layer_backward(const Arenas& arenas, bf16* dx /* (B,T,C) */, const bf16* dy /* (B,T,C) */,
    const DecoderLayerSaved& saved, const DecoderLayerWeights& w, const DecoderLayerNarrowCopies& w16,
    const DecoderLayerGradients& g, std::byte* scratch, WriteMode mode, Stream& stream) {
    const Range range("decoder_layer_backward");  // as a GPU's profilers show it
    namespace offset = layout::decoder_layer_backward;

    // tables
    const float* const cos = at<float>(arenas.constants, offset::cos);  // (1,T,HS)
    const float* const sin = at<float>(arenas.constants, offset::sin);  // (1,T,HS)

    // reused from layer to layer
    bf16* const dswiglu = at<bf16>(scratch, offset::dswiglu);  // (B,T,H)
    bf16* const swiglu = at<bf16>(scratch, offset::swiglu);  // (B,T,H)
    bf16* const dgate_up_proj = at<bf16>(scratch, offset::dgate_up_proj);  // (B,T,2*H)
    bf16* const dpost_attention_layernorm = at<bf16>(scratch, offset::dpost_attention_layernorm);  // (B,T,C)
    bf16* const post_attention_layernorm = at<bf16>(scratch, offset::post_attention_layernorm);  // (B,T,C)
    bf16* const dresidual = at<bf16>(scratch, offset::dresidual);  // (B,T,C)
    bf16* const dsdpa = at<bf16>(scratch, offset::dsdpa);  // (B,T,NH*HS)
    bf16* const dqkv_proj = at<bf16>(scratch, offset::dqkv_proj);  // (B,T,(NH+2*KVH)*HS)
    bf16* const dq_rotated = dqkv_proj;  // (B,T,NH,HS)
    bf16* const dk_rotated = dqkv_proj + NH * HS;  // (B,T,KVH,HS)
    bf16* const dv_proj = dqkv_proj + (NH + KVH) * HS;  // (B,T,KVH,HS)
    bf16* const dinput_layernorm = at<bf16>(scratch, offset::dinput_layernorm);  // (B,T,C)
    bf16* const input_layernorm = at<bf16>(scratch, offset::input_layernorm);  // (B,T,C)

    // mlp.down_proj: dx = dy W
    linear_backward_input({.dx = dswiglu, .dy = dy, .weight = w16.down_proj, .rows = B * T, .in = H, .out = C}, stream);
    // mlp:
    //   swiglu = silu(gate) * up (recomputed)
    //   dgate = dswiglu * up * silu'(gate)
    //   dup = dswiglu * silu(gate)
    //   where gate, up = saved.gate_up_proj
    //   where dgate_up_proj = dgate, dup
    swiglu_backward(swiglu, dgate_up_proj, saved.gate_up_proj, dswiglu, stream);
    // mlp.down_proj: dW += dyᵀ x
    linear_backward_weight({.dweight = g.down_proj, .dy = dy, .x = swiglu, .mode = mode, .rows = B * T, .in = H,
        .out = C}, stream);
    // mlp.{gate,up}_proj: dx = dy W
    linear_backward_input({.dx = dpost_attention_layernorm, .dy = dgate_up_proj, .weight = w16.gate_proj, .rows = B * T,
        .in = C, .out = 2 * H}, stream);
    // post_attention_layernorm, in the kernel's names:
    //   post_attention_layernorm = normed * weight (recomputed)
    //   dresidual = dy_2 + rstd * (dnormed - normed * mean_C(dnormed * normed))
    //   dweight += sum_{B,T}(dy * normed)
    //   where normed = x * rstd
    //   where dnormed = dy * weight
    rms_norm_backward_add(post_attention_layernorm, dresidual, g.post_attention_layernorm, saved.residual,
        saved.post_attention_layernorm_rstd, w.post_attention_layernorm, dpost_attention_layernorm, dy, mode, stream);
    // mlp.{gate,up}_proj: dW += dyᵀ x
    linear_backward_weight({.dweight = g.gate_proj, .dy = dgate_up_proj, .x = post_attention_layernorm, .mode = mode,
        .rows = B * T, .in = C, .out = 2 * H}, stream);
    // self_attn.o_proj: dx = dy W
    linear_backward_input({.dx = dsdpa, .dy = dresidual, .weight = w16.o_proj, .rows = B * T, .in = NH * HS, .out = C},
        stream);
    // self_attn.o_proj: dW += dyᵀ x
    linear_backward_weight({.dweight = g.o_proj, .dy = dresidual, .x = saved.sdpa, .mode = mode, .rows = B * T,
        .in = NH * HS, .out = C}, stream);
    // self_attn: dq, dk, dv of causal attention
    attention_backward({.dq = dq_rotated, .dk = dk_rotated, .dv = dv_proj, .dout = dsdpa, .q = saved.qkv_proj_rotated,
        .k = saved.qkv_proj_rotated + NH * HS, .v = saved.qkv_proj_rotated + (NH + KVH) * HS, .out = saved.sdpa,
        .lse = saved.sdpa_lse, .causal = true, .scale = 0.5F, .B = B, .T = T, .S = T, .NH = NH, .KVH = KVH, .HS = HS,
        .ld_dq = (NH + 2 * KVH) * HS, .ld_dk = (NH + 2 * KVH) * HS, .ld_dv = (NH + 2 * KVH) * HS,
        .ld_q = (NH + 2 * KVH) * HS, .ld_k = (NH + 2 * KVH) * HS, .ld_v = (NH + 2 * KVH) * HS}, stream);
    // self_attn:
    //   dq_proj1 = dq_rotated1 * cos1 + dq_rotated2 * sin2
    //   dq_proj2 = dq_rotated2 * cos2 - dq_rotated1 * sin1
    //   dk_proj1 = dk_rotated1 * cos1 + dk_rotated2 * sin2
    //   dk_proj2 = dk_rotated2 * cos2 - dk_rotated1 * sin1
    //   where dqkv_proj = dq_proj1, dq_proj2, dk_proj1, dk_proj2, in place of dk_rotated, dq_rotated
    rotary_inverse(dqkv_proj, sin, cos, stream);
    // self_attn.{q,k,v}_proj: dx = dy W
    linear_backward_input({.dx = dinput_layernorm, .dy = dqkv_proj, .weight = w16.q_proj, .rows = B * T, .in = C,
        .out = (NH + 2 * KVH) * HS}, stream);
    // input_layernorm:
    //   input_layernorm = normed * w.input_layernorm (recomputed)
    //   dx = dresidual + saved.input_layernorm_rstd * (dnormed - normed * mean_C(dnormed * normed))
    //   g.input_layernorm += sum_{B,T}(dinput_layernorm * normed)
    //   where normed = saved.x * saved.input_layernorm_rstd
    //   where dnormed = dinput_layernorm * w.input_layernorm
    rms_norm_backward_add(input_layernorm, dx, g.input_layernorm, saved.x, saved.input_layernorm_rstd,
        w.input_layernorm, dinput_layernorm, dresidual, mode, stream);
    // self_attn.{q,k,v}_proj: dW += dyᵀ x
    linear_backward_weight({.dweight = g.q_proj, .dy = dqkv_proj, .x = input_layernorm, .mode = mode, .rows = B * T,
        .in = C, .out = (NH + 2 * KVH) * HS}, stream);
}

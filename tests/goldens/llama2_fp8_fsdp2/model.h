// noopt.logits: sizes, tensors and where they lie; the functions of a training step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/units.h"       // Unit: what ranks gather, and sum the gradients of, as one
#include "device/api.h"       // linear_forward, attention_forward, ...: the calls that a device provides
#include "device/stream.h"    // Stream: where calls run, in order
#include "train/arenas.h"     // Arenas: the memory, one piece for each class of lifetime
#include "train/program.h"    // ProgramSpec: what the trainer has to know of this program
#include "sizes.h"            // B, T, C, ...: what shapes are made of

// ---- sizes ----------------------------------------------------------------------------------------------------------
// Elements of the parameter arena; bf16 copies, gradients and each optimizer state have as many, of their types.
inline constexpr std::int64_t PARAMETER_ELEMENTS = 2784;

using thunder::bf16;
using thunder::e4m3;
using thunder::e5m2;

// The tensor at a byte offset of an arena.
template <typename Element>
inline Element* at(std::byte* arena, std::int64_t offset) {
    return reinterpret_cast<Element*>(arena + offset);
}

// ---- DecoderLayerWeights --------------------------------------------------------------------------------------------
// model.layers.{0..1}: 2 layers
struct DecoderLayerWeights {
    float* input_layernorm;  // (C)  model.layers.{0..1}.input_layernorm.weight
    float* post_attention_layernorm;  // (C)  model.layers.{0..1}.post_attention_layernorm.weight
};
namespace layout::decoder_layer_weights {
// bytes, of the first layer's tensors
inline constexpr std::int64_t input_layernorm = 1536;
inline constexpr std::int64_t post_attention_layernorm = 1664;
inline constexpr std::int64_t stride = 256;  // from one layer's to the next one's
}
inline DecoderLayerWeights decoder_layer_weights(const thunder::Arenas& arenas, std::int64_t layer) {
    namespace offset = layout::decoder_layer_weights;
    return {
        .input_layernorm = at<float>(arenas.gathered, offset::input_layernorm + layer * offset::stride),
        .post_attention_layernorm =
            at<float>(arenas.gathered, offset::post_attention_layernorm + layer * offset::stride),
    };
}

// ---- DecoderLayerNarrowCopies ---------------------------------------------------------------------------------------
// model.layers.{0..1}: 2 layers
struct DecoderLayerNarrowCopies {
    bf16* q_proj;  // (16,C)  model.layers.{0..1}.self_attn.q_proj.weight
    bf16* k_proj;  // (8,C)  model.layers.{0..1}.self_attn.k_proj.weight
    bf16* v_proj;  // (8,C)  model.layers.{0..1}.self_attn.v_proj.weight
    bf16* o_proj;  // (C,C)  model.layers.{0..1}.self_attn.o_proj.weight
    bf16* gate_proj;  // (24,C)  model.layers.{0..1}.mlp.gate_proj.weight
    bf16* up_proj;  // (24,C)  model.layers.{0..1}.mlp.up_proj.weight
    bf16* down_proj;  // (C,H)  model.layers.{0..1}.mlp.down_proj.weight
};
namespace layout::decoder_layer_narrow_copies {
// bytes, of the first layer's tensors
inline constexpr std::int64_t q_proj = 3840;
inline constexpr std::int64_t k_proj = 4352;
inline constexpr std::int64_t v_proj = 4608;
inline constexpr std::int64_t o_proj = 4864;
inline constexpr std::int64_t gate_proj = 5376;
inline constexpr std::int64_t up_proj = 6144;
inline constexpr std::int64_t down_proj = 6912;
inline constexpr std::int64_t stride = 3840;  // from one layer's to the next one's
}
inline DecoderLayerNarrowCopies decoder_layer_narrow_copies(const thunder::Arenas& arenas, std::int64_t layer) {
    namespace offset = layout::decoder_layer_narrow_copies;
    return {
        .q_proj = at<bf16>(arenas.gathered, offset::q_proj + layer * offset::stride),
        .k_proj = at<bf16>(arenas.gathered, offset::k_proj + layer * offset::stride),
        .v_proj = at<bf16>(arenas.gathered, offset::v_proj + layer * offset::stride),
        .o_proj = at<bf16>(arenas.gathered, offset::o_proj + layer * offset::stride),
        .gate_proj = at<bf16>(arenas.gathered, offset::gate_proj + layer * offset::stride),
        .up_proj = at<bf16>(arenas.gathered, offset::up_proj + layer * offset::stride),
        .down_proj = at<bf16>(arenas.gathered, offset::down_proj + layer * offset::stride),
    };
}

// ---- DecoderLayerScaling --------------------------------------------------------------------------------------------
// model.layers.{0..1}: 2 layers. Of what is quantised, its scale and the largest |x| since that was made: `fp8.` in
// blocks.cpp
struct DecoderLayerScaling {
    float* qkv_proj_input_scale;  // scalar  model.layers.{0..1}.self_attn.qkv_proj.input_scale
    float* qkv_proj_input_amax;  // scalar  model.layers.{0..1}.self_attn.qkv_proj.input_amax
    float* qkv_proj_weight_scale;  // scalar  model.layers.{0..1}.self_attn.qkv_proj.weight_scale
    float* qkv_proj_weight_amax;  // scalar  model.layers.{0..1}.self_attn.qkv_proj.weight_amax
    float* o_proj_input_scale;  // scalar  model.layers.{0..1}.self_attn.o_proj.input_scale
    float* o_proj_input_amax;  // scalar  model.layers.{0..1}.self_attn.o_proj.input_amax
    float* o_proj_weight_scale;  // scalar  model.layers.{0..1}.self_attn.o_proj.weight_scale
    float* o_proj_weight_amax;  // scalar  model.layers.{0..1}.self_attn.o_proj.weight_amax
    float* gate_up_proj_input_scale;  // scalar  model.layers.{0..1}.mlp.gate_up_proj.input_scale
    float* gate_up_proj_input_amax;  // scalar  model.layers.{0..1}.mlp.gate_up_proj.input_amax
    float* gate_up_proj_weight_scale;  // scalar  model.layers.{0..1}.mlp.gate_up_proj.weight_scale
    float* gate_up_proj_weight_amax;  // scalar  model.layers.{0..1}.mlp.gate_up_proj.weight_amax
    float* gate_up_proj_gradient_scale;  // scalar  model.layers.{0..1}.mlp.gate_up_proj.gradient_scale
    float* gate_up_proj_gradient_amax;  // scalar  model.layers.{0..1}.mlp.gate_up_proj.gradient_amax
    float* o_proj_gradient_scale;  // scalar  model.layers.{0..1}.self_attn.o_proj.gradient_scale
    float* o_proj_gradient_amax;  // scalar  model.layers.{0..1}.self_attn.o_proj.gradient_amax
    float* qkv_proj_gradient_scale;  // scalar  model.layers.{0..1}.self_attn.qkv_proj.gradient_scale
    float* qkv_proj_gradient_amax;  // scalar  model.layers.{0..1}.self_attn.qkv_proj.gradient_amax
};
namespace layout::decoder_layer_scaling {
// bytes, of the first layer's tensors
inline constexpr std::int64_t qkv_proj_input_scale = 72;
inline constexpr std::int64_t qkv_proj_input_amax = 0;
inline constexpr std::int64_t qkv_proj_weight_scale = 120;
inline constexpr std::int64_t qkv_proj_weight_amax = 48;
inline constexpr std::int64_t o_proj_input_scale = 80;
inline constexpr std::int64_t o_proj_input_amax = 8;
inline constexpr std::int64_t o_proj_weight_scale = 128;
inline constexpr std::int64_t o_proj_weight_amax = 56;
inline constexpr std::int64_t gate_up_proj_input_scale = 88;
inline constexpr std::int64_t gate_up_proj_input_amax = 16;
inline constexpr std::int64_t gate_up_proj_weight_scale = 136;
inline constexpr std::int64_t gate_up_proj_weight_amax = 64;
inline constexpr std::int64_t gate_up_proj_gradient_scale = 96;
inline constexpr std::int64_t gate_up_proj_gradient_amax = 24;
inline constexpr std::int64_t o_proj_gradient_scale = 104;
inline constexpr std::int64_t o_proj_gradient_amax = 32;
inline constexpr std::int64_t qkv_proj_gradient_scale = 112;
inline constexpr std::int64_t qkv_proj_gradient_amax = 40;
inline constexpr std::int64_t stride = 4;  // from one layer's to the next one's
}
inline DecoderLayerScaling decoder_layer_scaling(const thunder::Arenas& arenas, std::int64_t layer) {
    namespace offset = layout::decoder_layer_scaling;
    return {
        .qkv_proj_input_scale = at<float>(arenas.scaling, offset::qkv_proj_input_scale + layer * offset::stride),
        .qkv_proj_input_amax = at<float>(arenas.scaling, offset::qkv_proj_input_amax + layer * offset::stride),
        .qkv_proj_weight_scale = at<float>(arenas.scaling, offset::qkv_proj_weight_scale + layer * offset::stride),
        .qkv_proj_weight_amax = at<float>(arenas.scaling, offset::qkv_proj_weight_amax + layer * offset::stride),
        .o_proj_input_scale = at<float>(arenas.scaling, offset::o_proj_input_scale + layer * offset::stride),
        .o_proj_input_amax = at<float>(arenas.scaling, offset::o_proj_input_amax + layer * offset::stride),
        .o_proj_weight_scale = at<float>(arenas.scaling, offset::o_proj_weight_scale + layer * offset::stride),
        .o_proj_weight_amax = at<float>(arenas.scaling, offset::o_proj_weight_amax + layer * offset::stride),
        .gate_up_proj_input_scale =
            at<float>(arenas.scaling, offset::gate_up_proj_input_scale + layer * offset::stride),
        .gate_up_proj_input_amax = at<float>(arenas.scaling, offset::gate_up_proj_input_amax + layer * offset::stride),
        .gate_up_proj_weight_scale =
            at<float>(arenas.scaling, offset::gate_up_proj_weight_scale + layer * offset::stride),
        .gate_up_proj_weight_amax =
            at<float>(arenas.scaling, offset::gate_up_proj_weight_amax + layer * offset::stride),
        .gate_up_proj_gradient_scale =
            at<float>(arenas.scaling, offset::gate_up_proj_gradient_scale + layer * offset::stride),
        .gate_up_proj_gradient_amax =
            at<float>(arenas.scaling, offset::gate_up_proj_gradient_amax + layer * offset::stride),
        .o_proj_gradient_scale = at<float>(arenas.scaling, offset::o_proj_gradient_scale + layer * offset::stride),
        .o_proj_gradient_amax = at<float>(arenas.scaling, offset::o_proj_gradient_amax + layer * offset::stride),
        .qkv_proj_gradient_scale = at<float>(arenas.scaling, offset::qkv_proj_gradient_scale + layer * offset::stride),
        .qkv_proj_gradient_amax = at<float>(arenas.scaling, offset::qkv_proj_gradient_amax + layer * offset::stride),
    };
}

// ---- DecoderLayerSaved ----------------------------------------------------------------------------------------------
// model.layers.{0..1}: 2 layers
struct DecoderLayerSaved {
    bf16* x;  // (B,T,C)
    float* input_layernorm_rstd;  // (B,T)
    bf16* qkv_proj_rotated;  // (B,T,C+2*KVH*HS)
    bf16* sdpa;  // (B,T,NH,HS)
    float* sdpa_lse;  // (B,NH,T)
    bf16* residual;  // (B,T,C)
    float* post_attention_layernorm_rstd;  // (B,T)
    bf16* gate_up_proj;  // (B,T,2*H)
};
namespace layout::decoder_layer_saved {
// bytes, of the first layer's tensors
inline constexpr std::int64_t x = 7936;
inline constexpr std::int64_t input_layernorm_rstd = 0;
inline constexpr std::int64_t qkv_proj_rotated = 64;
inline constexpr std::int64_t sdpa = 1088;
inline constexpr std::int64_t sdpa_lse = 1600;
inline constexpr std::int64_t residual = 1856;
inline constexpr std::int64_t post_attention_layernorm_rstd = 2368;
inline constexpr std::int64_t gate_up_proj = 2432;
inline constexpr std::int64_t x_stride = 512;  // from one layer's to the next one's
inline constexpr std::int64_t stride = 3968;  // from one layer's to the next one's
}
inline DecoderLayerSaved decoder_layer_saved(const thunder::Arenas& arenas, std::int64_t layer) {
    namespace offset = layout::decoder_layer_saved;
    return {
        .x = at<bf16>(arenas.saved, offset::x + layer * offset::x_stride),
        .input_layernorm_rstd = at<float>(arenas.saved, offset::input_layernorm_rstd + layer * offset::stride),
        .qkv_proj_rotated = at<bf16>(arenas.saved, offset::qkv_proj_rotated + layer * offset::stride),
        .sdpa = at<bf16>(arenas.saved, offset::sdpa + layer * offset::stride),
        .sdpa_lse = at<float>(arenas.saved, offset::sdpa_lse + layer * offset::stride),
        .residual = at<bf16>(arenas.saved, offset::residual + layer * offset::stride),
        .post_attention_layernorm_rstd =
            at<float>(arenas.saved, offset::post_attention_layernorm_rstd + layer * offset::stride),
        .gate_up_proj = at<bf16>(arenas.saved, offset::gate_up_proj + layer * offset::stride),
    };
}

// ---- DecoderLayerGradients ------------------------------------------------------------------------------------------
// model.layers.{0..1}: 2 layers
struct DecoderLayerGradients {
    float* input_layernorm;  // (C)  model.layers.{0..1}.input_layernorm.weight
    float* q_proj;  // (16,C)  model.layers.{0..1}.self_attn.q_proj.weight
    float* k_proj;  // (8,C)  model.layers.{0..1}.self_attn.k_proj.weight
    float* v_proj;  // (8,C)  model.layers.{0..1}.self_attn.v_proj.weight
    float* o_proj;  // (C,C)  model.layers.{0..1}.self_attn.o_proj.weight
    float* post_attention_layernorm;  // (C)  model.layers.{0..1}.post_attention_layernorm.weight
    float* gate_proj;  // (24,C)  model.layers.{0..1}.mlp.gate_proj.weight
    float* up_proj;  // (24,C)  model.layers.{0..1}.mlp.up_proj.weight
    float* down_proj;  // (C,H)  model.layers.{0..1}.mlp.down_proj.weight
};
namespace layout::decoder_layer_gradients {
// bytes, of the first layer's tensors
inline constexpr std::int64_t input_layernorm = 3072;
inline constexpr std::int64_t q_proj = 6912;
inline constexpr std::int64_t k_proj = 7936;
inline constexpr std::int64_t v_proj = 8448;
inline constexpr std::int64_t o_proj = 8960;
inline constexpr std::int64_t post_attention_layernorm = 3200;
inline constexpr std::int64_t gate_proj = 9984;
inline constexpr std::int64_t up_proj = 11520;
inline constexpr std::int64_t down_proj = 13056;
inline constexpr std::int64_t input_layernorm_stride = 256;  // from one layer's to the next one's
inline constexpr std::int64_t stride = 7680;  // from one layer's to the next one's
}
inline DecoderLayerGradients decoder_layer_gradients(const thunder::Arenas& arenas, std::int64_t layer) {
    namespace offset = layout::decoder_layer_gradients;
    return {
        .input_layernorm =
            at<float>(arenas.unit_gradients, offset::input_layernorm + layer * offset::input_layernorm_stride),
        .q_proj = at<float>(arenas.unit_gradients, offset::q_proj + layer * offset::stride),
        .k_proj = at<float>(arenas.unit_gradients, offset::k_proj + layer * offset::stride),
        .v_proj = at<float>(arenas.unit_gradients, offset::v_proj + layer * offset::stride),
        .o_proj = at<float>(arenas.unit_gradients, offset::o_proj + layer * offset::stride),
        .post_attention_layernorm =
            at<float>(arenas.unit_gradients, offset::post_attention_layernorm + layer * offset::input_layernorm_stride),
        .gate_proj = at<float>(arenas.unit_gradients, offset::gate_proj + layer * offset::stride),
        .up_proj = at<float>(arenas.unit_gradients, offset::up_proj + layer * offset::stride),
        .down_proj = at<float>(arenas.unit_gradients, offset::down_proj + layer * offset::stride),
    };
}

// ---- units ----------------------------------------------------------------------------------------------------------
// Parameters that ranks gather as one, and gradients that they sum as one: `elements` is what a rank has of them, its
// shard; `whole` is all of it. Offsets and strides, from one layer's to the next one's, are in bytes; in `slots` layers
// take turns.
namespace unit {
using thunder::Arenas, thunder::DType, thunder::Group;
inline constexpr thunder::Unit model_embed_tokens{.what = "model.embed_tokens", .elements = 384, .group = Group::shard,
    .whole = {.arena = &Arenas::gathered, .offset = 0, .dtype = DType::bf16},
    .shard = {.arena = &Arenas::narrow_copies, .offset = 0, .dtype = DType::bf16}};
inline constexpr thunder::Unit norms{.what = "all vectors", .elements = 96, .group = Group::shard,
    .whole = {.arena = &Arenas::gathered, .offset = 1536}, .shard = {.arena = &Arenas::parameters, .offset = 1536}};
inline constexpr thunder::Unit lm_head{.what = "lm_head", .elements = 384, .group = Group::shard,
    .whole = {.arena = &Arenas::gathered, .offset = 2304, .dtype = DType::bf16},
    .shard = {.arena = &Arenas::narrow_copies, .offset = 4800, .dtype = DType::bf16}};
inline constexpr thunder::Unit layers{.what = "model.layers.{0..1}", .elements = 960, .group = Group::shard,
    .whole = {.arena = &Arenas::gathered, .offset = 3840, .stride = 3840, .dtype = DType::bf16},
    .shard = {.arena = &Arenas::narrow_copies, .offset = 960, .stride = 1920, .dtype = DType::bf16}};
inline constexpr thunder::Unit lm_head_gradients{.what = "gradients of lm_head", .elements = 384, .group = Group::shard,
    .whole = {.arena = &Arenas::unit_gradients, .offset = 0}, .shard = {.arena = &Arenas::gradients, .offset = 9600}};
inline constexpr thunder::Unit layers_gradients{.what = "gradients of model.layers.{0..1}", .elements = 960,
    .group = Group::shard, .whole = {.arena = &Arenas::unit_gradients, .offset = 6912, .stride = 7680},
    .shard = {.arena = &Arenas::gradients, .offset = 1920, .stride = 3840}};
inline constexpr thunder::Unit norms_gradients{.what = "gradients of all vectors", .elements = 96,
    .group = Group::shard, .whole = {.arena = &Arenas::unit_gradients, .offset = 3072},
    .shard = {.arena = &Arenas::gradients, .offset = 1536}};
inline constexpr thunder::Unit model_embed_tokens_gradients{.what = "gradients of model.embed_tokens", .elements = 384,
    .group = Group::shard, .whole = {.arena = &Arenas::unit_gradients, .offset = 3840},
    .shard = {.arena = &Arenas::gradients, .offset = 0}};
}

// ---- offsets --------------------------------------------------------------------------------------------------------
// In bytes from the start of an arena, or of a layer's scratch: by function, then by the name of the tensor in it.
namespace layout::forward_backward {
inline constexpr std::int64_t input_ids = 0;
inline constexpr std::int64_t labels = 128;
inline constexpr std::int64_t w16_embed_tokens = 0;
inline constexpr std::int64_t w_norm = 2048;
inline constexpr std::int64_t w16_lm_head = 2304;
inline constexpr std::int64_t embed_tokens = 7936;
inline constexpr std::int64_t residual = 8960;
inline constexpr std::int64_t rstd = 2560;
inline constexpr std::int64_t norm = 1536;
inline constexpr std::int64_t lm_head = 0;
inline constexpr std::int64_t loss = 2048;
inline constexpr std::int64_t loss_lse = 2112;
inline constexpr std::int64_t g_lm_head = 0;
inline constexpr std::int64_t g_norm = 3584;
inline constexpr std::int64_t g_embed_tokens = 3840;
inline constexpr std::int64_t dlm_head = 0;
inline constexpr std::int64_t dnorm = 2048;
inline constexpr std::int64_t dresidual = 2944;
inline constexpr std::int64_t dembed_tokens = 2944;
inline constexpr std::int64_t decoder_layer_forward_scratch = 0;  // 1152 bytes
inline constexpr std::int64_t x_slot = 7936, x_slot_stride = 512;  // (B,T,C)
inline constexpr std::int64_t decoder_layer_backward_scratch = 0;  // 2944 bytes
inline constexpr std::int64_t dy_slot = 2944, dy_slot_stride = 512;  // (B,T,C)
}
namespace layout::loss_weight {
inline constexpr std::int64_t labels = 128;
}
namespace layout::decoder_layer_forward {
inline constexpr std::int64_t cos = 0;
inline constexpr std::int64_t sin = 128;
inline constexpr std::int64_t input_layernorm_e4m3 = 512;
inline constexpr std::int64_t input_layernorm_maxima = 0;
inline constexpr std::int64_t input_layernorm_inverse = 768;
inline constexpr std::int64_t qkv_proj_weight_inverse = 832;
inline constexpr std::int64_t qkv_proj_weight_e4m3 = 0;
inline constexpr std::int64_t sdpa_inverse = 512;
inline constexpr std::int64_t sdpa_e4m3 = 0;
inline constexpr std::int64_t o_proj_weight_inverse = 576;
inline constexpr std::int64_t o_proj_weight_e4m3 = 256;
inline constexpr std::int64_t post_attention_layernorm_e4m3 = 768;
inline constexpr std::int64_t post_attention_layernorm_maxima = 0;
inline constexpr std::int64_t post_attention_layernorm_inverse = 1024;
inline constexpr std::int64_t gate_up_proj_weight_inverse = 1088;
inline constexpr std::int64_t gate_up_proj_weight_e4m3 = 0;
inline constexpr std::int64_t swiglu = 0;
}
namespace layout::decoder_layer_backward {
inline constexpr std::int64_t cos = 0;
inline constexpr std::int64_t sin = 128;
inline constexpr std::int64_t dswiglu = 0;
inline constexpr std::int64_t swiglu = 768;
inline constexpr std::int64_t dgate_up_proj_e5m2 = 1536;
inline constexpr std::int64_t dgate_up_proj_maxima = 2304;
inline constexpr std::int64_t dgate_up_proj_inverse = 2816;
inline constexpr std::int64_t dgate_up_proj_e5m2_transposed = 0;
inline constexpr std::int64_t gate_up_proj_weight_inverse = 2880;
inline constexpr std::int64_t gate_up_proj_weight_e4m3_transposed = 768;
inline constexpr std::int64_t dpost_attention_layernorm = 2304;
inline constexpr std::int64_t post_attention_layernorm_e4m3 = 768;
inline constexpr std::int64_t dresidual = 1024;
inline constexpr std::int64_t dresidual_e5m2 = 2048;
inline constexpr std::int64_t dresidual_maxima = 1792;
inline constexpr std::int64_t post_attention_layernorm_inverse = 1856;
inline constexpr std::int64_t post_attention_layernorm_e4m3_transposed = 1536;
inline constexpr std::int64_t dresidual_inverse = 512;
inline constexpr std::int64_t dresidual_e5m2_transposed = 0;
inline constexpr std::int64_t o_proj_weight_inverse = 576;
inline constexpr std::int64_t o_proj_weight_e4m3_transposed = 256;
inline constexpr std::int64_t dsdpa = 1536;
inline constexpr std::int64_t sdpa_inverse = 576;
inline constexpr std::int64_t sdpa_e4m3_transposed = 256;
inline constexpr std::int64_t dqkv_proj = 0;
inline constexpr std::int64_t dqkv_proj_inverse = 2560;
inline constexpr std::int64_t dqkv_proj_e5m2 = 1536;
inline constexpr std::int64_t dqkv_proj_e5m2_transposed = 2048;
inline constexpr std::int64_t qkv_proj_weight_inverse = 2624;
inline constexpr std::int64_t qkv_proj_weight_e4m3_transposed = 0;
inline constexpr std::int64_t dinput_layernorm = 512;
inline constexpr std::int64_t input_layernorm_e4m3 = 0;
inline constexpr std::int64_t input_layernorm_inverse = 512;
inline constexpr std::int64_t input_layernorm_e4m3_transposed = 256;
}

// ---- blocks.cpp -----------------------------------------------------------------------------------------------------
// Outputs first, the stream last.
using namespace thunder;
void decoder_layer_forward(const Arenas& arenas, bf16* y /* (B,T,C) */, const bf16* x /* (B,T,C) */,
    const DecoderLayerWeights& w, const DecoderLayerNarrowCopies& w16, const DecoderLayerScaling& fp8,
    const DecoderLayerSaved& saved, std::byte* scratch, Stream& stream);
void decoder_layer_backward(const Arenas& arenas, bf16* dx /* (B,T,C) */, const bf16* dy /* (B,T,C) */,
    const DecoderLayerSaved& saved, const DecoderLayerWeights& w, const DecoderLayerNarrowCopies& w16,
    const DecoderLayerGradients& g, const DecoderLayerScaling& fp8, std::byte* scratch, WriteMode mode, Stream& stream);

// ---- model.cpp ------------------------------------------------------------------------------------------------------
class Model {
  public:
    Model(const thunder::TrainingArenas& arenas, const thunder::Streams& streams) : arenas_(arenas),
        streams_(streams) {}

    // Adds the weight of the micro-batch's loss to the step's.
    void loss_weight();
    // Adds the loss of the micro-batch to the step's.
    void forward(thunder::MicroStep micro_step);
    // Its gradients, overwritten in the first micro-step and added to later.
    // In the last one of a step they become the sums of all ranks'.
    void backward(thunder::MicroStep micro_step);
    // One micro-step.
    void forward_backward(thunder::MicroStep micro_step) {
        forward(micro_step);
        backward(micro_step);
    }
    // The norm of the gradients, and the factor that clips them.
    void clip();
    // The optimizer's step, of a part of the parameters.
    void update(const thunder::UpdatePart& part, thunder::Stream& stream);
    // The loss of a batch that is not trained on.
    void evaluate() { forward({thunder::WriteMode::overwrite, true}); }

  private:
    thunder::TrainingArenas arenas_;
    thunder::Streams streams_;
    // What one stream records and another one waits for.
    thunder::Event begin_;
    thunder::Event model_embed_tokens_done_;
    thunder::Event norms_done_;
    thunder::Event lm_head_done_;
    thunder::Event lm_head_gradients_ready_;
    thunder::Event norms_gradients_ready_;
    thunder::Event model_embed_tokens_gradients_ready_;
    thunder::Event model_embed_tokens_gradients_done_;
    thunder::Event layers_done_[2];
    thunder::Event layers_gradients_ready_;
};
extern const thunder::ProgramSpec PROGRAM;  // spec.cpp

// ---- LAYOUT ---------------------------------------------------------------------------------------------------------
// Every tensor that the program names; one that is kept in the place of a layer's, as what enters a loop is in that of
// the first layer's input, is in that row. `shape` is in the names of sizes.h, as far as these go; `offset` is in bytes
// from the start of the arena, `bytes` of one tensor. A tensor of n `layers` lies n times, one `stride` of bytes apart.
// `lifetime` says when its bytes hold it: in the arena `scratch` from one call to another in the text of a function in
// blocks.cpp or model.cpp, whose calls are counted from 1, on from forward to backward, a loop over layers as one call,
// collectives and events of streams as none. A bf16 copy that is "not read" is there because the optimizer writes one
// for each parameter: who reads that, reads it in `parameters`. `shares` names tensors that have some of the same bytes
// at other times, those of the same function without its name and first.
struct LayoutRow {
    const char *name, *shape, *type, *arena;
    std::size_t offset, bytes;
    std::int64_t layers;
    std::size_t stride;
    const char *lifetime, *shares;
};
inline constexpr LayoutRow LAYOUT[] = {
    {"w_model_embed_tokens_shard", "(384)", "f32", "parameters", 0, 1536, 1, 0, "always", "-"},
    {"w_norms_shard", "(96)", "f32", "parameters", 1536, 384, 1, 0, "always", "-"},
    {"w_x0_1_shard", "(960)", "f32", "parameters", 1920, 3840, 2, 3840, "always", "-"},
    {"w_lm_head_shard", "(384)", "f32", "parameters", 9600, 1536, 1, 0, "always", "-"},
    {"g_model_embed_tokens_shard", "(384)", "f32", "gradients", 0, 1536, 1, 0, "always", "-"},
    {"g_norms_shard", "(96)", "f32", "gradients", 1536, 384, 1, 0, "always", "-"},
    {"g_x0_1_shard", "(960)", "f32", "gradients", 1920, 3840, 2, 3840, "always", "-"},
    {"g_lm_head_shard", "(384)", "f32", "gradients", 9600, 1536, 1, 0, "always", "-"},
    {"first_moment_model_embed_tokens_shard", "(384)", "f32", "optimizer", 0, 1536, 1, 0, "always", "-"},
    {"first_moment_norms_shard", "(96)", "f32", "optimizer", 1536, 384, 1, 0, "always", "-"},
    {"first_moment_x0_1_shard", "(960)", "f32", "optimizer", 1920, 3840, 2, 3840, "always", "-"},
    {"first_moment_lm_head_shard", "(384)", "f32", "optimizer", 9600, 1536, 1, 0, "always", "-"},
    {"second_moment_model_embed_tokens_shard", "(384)", "f32", "optimizer", 11136, 1536, 1, 0, "always", "-"},
    {"second_moment_norms_shard", "(96)", "f32", "optimizer", 12672, 384, 1, 0, "always", "-"},
    {"second_moment_x0_1_shard", "(960)", "f32", "optimizer", 13056, 3840, 2, 3840, "always", "-"},
    {"second_moment_lm_head_shard", "(384)", "f32", "optimizer", 20736, 1536, 1, 0, "always", "-"},
    {"decoder_layer_saved.input_layernorm_rstd", "(B,T)", "f32", "saved", 0, 64, 2, 3968, "forward to backward", "-"},
    {"decoder_layer_saved.qkv_proj_rotated", "(B,T,C+2*KVH*HS)", "bf16", "saved", 64, 1024, 2, 3968,
    "forward to backward", "-"},
    {"decoder_layer_saved.sdpa", "(B,T,NH,HS)", "bf16", "saved", 1088, 512, 2, 3968, "forward to backward", "-"},
    {"decoder_layer_saved.sdpa_lse", "(B,NH,T)", "f32", "saved", 1600, 256, 2, 3968, "forward to backward", "-"},
    {"decoder_layer_saved.residual", "(B,T,C)", "bf16", "saved", 1856, 512, 2, 3968, "forward to backward", "-"},
    {"decoder_layer_saved.post_attention_layernorm_rstd", "(B,T)", "f32", "saved", 2368, 64, 2, 3968,
    "forward to backward", "-"},
    {"decoder_layer_saved.gate_up_proj", "(B,T,2*H)", "bf16", "saved", 2432, 1536, 2, 3968, "forward to backward", "-"},
    {"decoder_layer_saved.x", "(B,T,C)", "bf16", "saved", 7936, 512, 2, 512, "forward to backward", "-"},
    {"residual", "(B,T,C)", "bf16", "saved", 8960, 512, 1, 0, "forward to backward", "-"},
    {"forward_backward.lm_head", "(B,T,V)", "bf16", "scratch", 0, 1536, 1, 0, "forward_backward, calls 4 to 7",
    "dlm_head, decoder_layer_forward.input_layernorm_maxima and 32 more"},
    {"forward_backward.dlm_head", "(B*T,V)", "bf16", "scratch", 0, 1536, 1, 0, "forward_backward, calls 7 to 9",
    "lm_head, decoder_layer_forward.input_layernorm_maxima and 32 more"},
    {"decoder_layer_forward.input_layernorm_maxima", "(B,T)", "f32", "scratch", 0, 64, 1, 0,
    "decoder_layer_forward, calls 1 to 2",
    "qkv_proj_weight_e4m3, sdpa_e4m3, post_attention_layernorm_maxima and 10 more"},
    {"decoder_layer_forward.qkv_proj_weight_e4m3", "(C+2*KVH*HS,C)", "e4m3", "scratch", 0, 512, 1, 0,
    "decoder_layer_forward, calls 3 to 4", "input_layernorm_maxima, sdpa_e4m3 and 15 more"},
    {"decoder_layer_forward.sdpa_e4m3", "(B,T,C)", "e4m3", "scratch", 0, 256, 1, 0,
    "decoder_layer_forward, calls 7 to 9", "input_layernorm_maxima, qkv_proj_weight_e4m3 and 11 more"},
    {"decoder_layer_forward.post_attention_layernorm_maxima", "(B,T)", "f32", "scratch", 0, 64, 1, 0,
    "decoder_layer_forward, calls 10 to 11", "input_layernorm_maxima, qkv_proj_weight_e4m3, sdpa_e4m3 and 10 more"},
    {"decoder_layer_forward.gate_up_proj_weight_e4m3", "(2*H,C)", "e4m3", "scratch", 0, 768, 1, 0,
    "decoder_layer_forward, calls 12 to 13", "input_layernorm_maxima, qkv_proj_weight_e4m3, sdpa_e4m3 and 22 more"},
    {"decoder_layer_forward.swiglu", "(B,T,H)", "bf16", "scratch", 0, 768, 1, 0,
    "decoder_layer_forward, calls 14 to 15", "input_layernorm_maxima, qkv_proj_weight_e4m3, sdpa_e4m3 and 22 more"},
    {"decoder_layer_backward.dswiglu", "(B,T,H)", "bf16", "scratch", 0, 768, 1, 0,
    "decoder_layer_backward, calls 1 to 2", "dgate_up_proj_e5m2_transposed, dresidual_e5m2_transposed and 23 more"},
    {"decoder_layer_backward.dgate_up_proj_e5m2_transposed", "(2*H,16)", "e5m2", "scratch", 0, 768, 1, 0,
    "decoder_layer_backward, calls 4 to 9", "dswiglu, dresidual_e5m2_transposed, dqkv_proj and 22 more"},
    {"decoder_layer_backward.dresidual_e5m2_transposed", "(C,16)", "e5m2", "scratch", 0, 256, 1, 0,
    "decoder_layer_backward, calls 10 to 14", "dswiglu, dgate_up_proj_e5m2_transposed, dqkv_proj and 10 more"},
    {"decoder_layer_backward.dqkv_proj", "(B,T,C+2*KVH*HS)", "bf16", "scratch", 0, 1024, 1, 0,
    "decoder_layer_backward, calls 15 to 17",
    "dswiglu, dgate_up_proj_e5m2_transposed, dresidual_e5m2_transposed and 28 more"},
    {"decoder_layer_backward.qkv_proj_weight_e4m3_transposed", "(C,C+2*KVH*HS)", "e4m3", "scratch", 0, 512, 1, 0,
    "decoder_layer_backward, calls 18 to 19",
    "dswiglu, dgate_up_proj_e5m2_transposed, dresidual_e5m2_transposed and 14 more"},
    {"decoder_layer_backward.input_layernorm_e4m3", "(B,T,C)", "e4m3", "scratch", 0, 256, 1, 0,
    "decoder_layer_backward, calls 20 to 21",
    "dswiglu, dgate_up_proj_e5m2_transposed, dresidual_e5m2_transposed and 10 more"},
    {"decoder_layer_forward.o_proj_weight_e4m3", "(C,C)", "e4m3", "scratch", 256, 256, 1, 0,
    "decoder_layer_forward, calls 8 to 9", "qkv_proj_weight_e4m3, gate_up_proj_weight_e4m3, swiglu and 9 more"},
    {"decoder_layer_backward.o_proj_weight_e4m3_transposed", "(C,C)", "e4m3", "scratch", 256, 256, 1, 0,
    "decoder_layer_backward, calls 11 to 12", "dswiglu, dgate_up_proj_e5m2_transposed, dqkv_proj and 9 more"},
    {"decoder_layer_backward.sdpa_e4m3_transposed", "(C,16)", "e4m3", "scratch", 256, 256, 1, 0,
    "decoder_layer_backward, calls 13 to 14", "dswiglu, dgate_up_proj_e5m2_transposed, dqkv_proj and 9 more"},
    {"decoder_layer_backward.input_layernorm_e4m3_transposed", "(C,16)", "e4m3", "scratch", 256, 256, 1, 0,
    "decoder_layer_backward, calls 21 to 22", "dswiglu, dgate_up_proj_e5m2_transposed, dqkv_proj and 9 more"},
    {"decoder_layer_forward.input_layernorm_e4m3", "(B,T,C)", "e4m3", "scratch", 512, 256, 1, 0,
    "decoder_layer_forward, calls 1 to 4", "gate_up_proj_weight_e4m3, swiglu, sdpa_inverse and 11 more"},
    {"decoder_layer_forward.sdpa_inverse", "scalar", "f32", "scratch", 512, 4, 1, 0,
    "decoder_layer_forward, calls 7 to 9", "gate_up_proj_weight_e4m3, swiglu, input_layernorm_e4m3 and 8 more"},
    {"decoder_layer_backward.dresidual_inverse", "scalar", "f32", "scratch", 512, 4, 1, 0,
    "decoder_layer_backward, calls 10 to 14", "dswiglu, dgate_up_proj_e5m2_transposed, dqkv_proj and 8 more"},
    {"decoder_layer_backward.dinput_layernorm", "(B,T,C)", "bf16", "scratch", 512, 512, 1, 0,
    "decoder_layer_backward, calls 19 to 20", "dswiglu, dgate_up_proj_e5m2_transposed, dqkv_proj and 17 more"},
    {"decoder_layer_backward.input_layernorm_inverse", "scalar", "f32", "scratch", 512, 4, 1, 0,
    "decoder_layer_backward, calls 21 to 22", "dswiglu, dgate_up_proj_e5m2_transposed, dqkv_proj and 8 more"},
    {"decoder_layer_forward.o_proj_weight_inverse", "scalar", "f32", "scratch", 576, 4, 1, 0,
    "decoder_layer_forward, calls 8 to 9", "gate_up_proj_weight_e4m3, swiglu, input_layernorm_e4m3 and 8 more"},
    {"decoder_layer_backward.o_proj_weight_inverse", "scalar", "f32", "scratch", 576, 4, 1, 0,
    "decoder_layer_backward, calls 11 to 12", "dswiglu, dgate_up_proj_e5m2_transposed, dqkv_proj and 8 more"},
    {"decoder_layer_backward.sdpa_inverse", "scalar", "f32", "scratch", 576, 4, 1, 0,
    "decoder_layer_backward, calls 13 to 14", "dswiglu, dgate_up_proj_e5m2_transposed, dqkv_proj and 8 more"},
    {"decoder_layer_forward.input_layernorm_inverse", "scalar", "f32", "scratch", 768, 4, 1, 0,
    "decoder_layer_forward, calls 2 to 4", "post_attention_layernorm_e4m3, forward_backward.lm_head and 6 more"},
    {"decoder_layer_forward.post_attention_layernorm_e4m3", "(B,T,C)", "e4m3", "scratch", 768, 256, 1, 0,
    "decoder_layer_forward, calls 10 to 13", "input_layernorm_inverse, qkv_proj_weight_inverse and 7 more"},
    {"decoder_layer_backward.swiglu", "(B,T,H)", "bf16", "scratch", 768, 768, 1, 0,
    "decoder_layer_backward, calls 2 to 3",
    "dqkv_proj, dinput_layernorm, gate_up_proj_weight_e4m3_transposed and 9 more"},
    {"decoder_layer_backward.gate_up_proj_weight_e4m3_transposed", "(C,2*H)", "e4m3", "scratch", 768, 768, 1, 0,
    "decoder_layer_backward, calls 5 to 6", "dqkv_proj, dinput_layernorm, swiglu and 9 more"},
    {"decoder_layer_backward.post_attention_layernorm_e4m3", "(B,T,C)", "e4m3", "scratch", 768, 256, 1, 0,
    "decoder_layer_backward, calls 7 to 8", "dqkv_proj, dinput_layernorm, swiglu and 6 more"},
    {"decoder_layer_forward.qkv_proj_weight_inverse", "scalar", "f32", "scratch", 832, 4, 1, 0,
    "decoder_layer_forward, calls 3 to 4", "post_attention_layernorm_e4m3, forward_backward.lm_head and 6 more"},
    {"decoder_layer_forward.post_attention_layernorm_inverse", "scalar", "f32", "scratch", 1024, 4, 1, 0,
    "decoder_layer_forward, calls 11 to 13", "forward_backward.lm_head, forward_backward.dlm_head and 3 more"},
    {"decoder_layer_backward.dresidual", "(B,T,C)", "bf16", "scratch", 1024, 512, 1, 0,
    "decoder_layer_backward, calls 7 to 20", "swiglu, gate_up_proj_weight_e4m3_transposed and 4 more"},
    {"decoder_layer_forward.gate_up_proj_weight_inverse", "scalar", "f32", "scratch", 1088, 4, 1, 0,
    "decoder_layer_forward, calls 12 to 13", "forward_backward.lm_head, forward_backward.dlm_head and 3 more"},
    {"forward_backward.norm", "(B,T,C)", "bf16", "scratch", 1536, 512, 1, 0, "forward_backward, calls 3 to 9",
    "decoder_layer_backward.dgate_up_proj_e5m2 and 5 more"},
    {"decoder_layer_backward.dgate_up_proj_e5m2", "(B,T,2*H)", "e5m2", "scratch", 1536, 768, 1, 0,
    "decoder_layer_backward, calls 2 to 6",
    "post_attention_layernorm_e4m3_transposed, dsdpa, dqkv_proj_e5m2 and 8 more"},
    {"decoder_layer_backward.post_attention_layernorm_e4m3_transposed", "(C,16)", "e4m3", "scratch", 1536, 256, 1, 0,
    "decoder_layer_backward, calls 8 to 9", "dgate_up_proj_e5m2, dsdpa, dqkv_proj_e5m2 and 1 more"},
    {"decoder_layer_backward.dsdpa", "(B,T,C)", "bf16", "scratch", 1536, 512, 1, 0,
    "decoder_layer_backward, calls 12 to 15",
    "dgate_up_proj_e5m2, post_attention_layernorm_e4m3_transposed and 4 more"},
    {"decoder_layer_backward.dqkv_proj_e5m2", "(B,T,C+2*KVH*HS)", "e5m2", "scratch", 1536, 512, 1, 0,
    "decoder_layer_backward, calls 17 to 19",
    "dgate_up_proj_e5m2, post_attention_layernorm_e4m3_transposed and 4 more"},
    {"decoder_layer_backward.dresidual_maxima", "(B,T)", "f32", "scratch", 1792, 64, 1, 0,
    "decoder_layer_backward, calls 7 to 10", "dgate_up_proj_e5m2, dsdpa, dqkv_proj_e5m2 and 1 more"},
    {"decoder_layer_backward.post_attention_layernorm_inverse", "scalar", "f32", "scratch", 1856, 4, 1, 0,
    "decoder_layer_backward, calls 8 to 9", "dgate_up_proj_e5m2, dsdpa, dqkv_proj_e5m2 and 1 more"},
    {"forward_backward.loss", "scalar", "f32", "scratch", 2048, 4, 1, 0, "forward_backward, calls 5 to 6",
    "dnorm, decoder_layer_backward.dgate_up_proj_e5m2 and 2 more"},
    {"forward_backward.dnorm", "(B,T,C)", "bf16", "scratch", 2048, 512, 1, 0, "forward_backward, calls 8 to 10",
    "loss, loss_lse, decoder_layer_backward.dgate_up_proj_e5m2 and 4 more"},
    {"decoder_layer_backward.dresidual_e5m2", "(B,T,C)", "e5m2", "scratch", 2048, 256, 1, 0,
    "decoder_layer_backward, calls 7 to 12", "dgate_up_proj_e5m2, dqkv_proj_e5m2_transposed and 3 more"},
    {"decoder_layer_backward.dqkv_proj_e5m2_transposed", "(C+2*KVH*HS,16)", "e5m2", "scratch", 2048, 512, 1, 0,
    "decoder_layer_backward, calls 17 to 22", "dgate_up_proj_e5m2, dresidual_e5m2, dgate_up_proj_maxima and 4 more"},
    {"forward_backward.loss_lse", "(B*T)", "f32", "scratch", 2112, 64, 1, 0, "forward_backward, calls 5 to 7",
    "dnorm, decoder_layer_backward.dgate_up_proj_e5m2 and 2 more"},
    {"decoder_layer_backward.dgate_up_proj_maxima", "(B,T)", "f32", "scratch", 2304, 64, 1, 0,
    "decoder_layer_backward, calls 2 to 4", "dqkv_proj_e5m2_transposed, dpost_attention_layernorm and 1 more"},
    {"decoder_layer_backward.dpost_attention_layernorm", "(B,T,C)", "bf16", "scratch", 2304, 512, 1, 0,
    "decoder_layer_backward, calls 6 to 7", "dqkv_proj_e5m2_transposed, dgate_up_proj_maxima and 4 more"},
    {"forward_backward.rstd", "(B,T,1)", "f32", "scratch", 2560, 64, 1, 0, "forward_backward, calls 3 to 10",
    "decoder_layer_backward.dpost_attention_layernorm and 1 more"},
    {"decoder_layer_backward.dqkv_proj_inverse", "scalar", "f32", "scratch", 2560, 4, 1, 0,
    "decoder_layer_backward, calls 17 to 22", "dpost_attention_layernorm, forward_backward.rstd"},
    {"decoder_layer_backward.qkv_proj_weight_inverse", "scalar", "f32", "scratch", 2624, 4, 1, 0,
    "decoder_layer_backward, calls 18 to 19", "dpost_attention_layernorm"},
    {"decoder_layer_backward.dgate_up_proj_inverse", "scalar", "f32", "scratch", 2816, 4, 1, 0,
    "decoder_layer_backward, calls 4 to 9", "-"},
    {"decoder_layer_backward.gate_up_proj_weight_inverse", "scalar", "f32", "scratch", 2880, 4, 1, 0,
    "decoder_layer_backward, calls 5 to 6", "-"},
    {"forward_backward.dresidual", "(B,T,C)", "bf16", "scratch", 2944, 512, 1, 0, "forward_backward, calls 10 to 11",
    "dembed_tokens, dy_slot"},
    {"forward_backward.dembed_tokens", "(B,T,C)", "bf16", "scratch", 2944, 512, 1, 0,
    "forward_backward, calls 11 to 12", "dresidual, dy_slot"},
    {"forward_backward.dy_slot", "(B,T,C)", "bf16", "scratch", 2944, 512, 2, 512, "forward_backward, calls 10 to 12",
    "dresidual, dembed_tokens"},
    {"cos", "(1,T,HS)", "f32", "constants", 0, 128, 1, 0, "always", "-"},
    {"sin", "(1,T,HS)", "f32", "constants", 128, 128, 1, 0, "always", "-"},
    {"overwrite", "scalar", "bool", "constants", 256, 1, 1, 0, "always", "-"},
    {"input_ids", "(B,T)", "i64", "batch", 0, 128, 1, 0, "the micro-batch", "-"},
    {"labels", "(B,T)", "i64", "batch", 128, 128, 1, 0, "the micro-batch", "-"},
    {"w16_model_embed_tokens_shard", "(384)", "bf16", "narrow_copies", 0, 768, 1, 0, "always", "-"},
    {"w16_norms_shard", "(96)", "bf16", "narrow_copies", 768, 192, 1, 0, "always", "-"},
    {"w16_x0_1_shard", "(960)", "bf16", "narrow_copies", 960, 1920, 2, 1920, "always", "-"},
    {"w16_lm_head_shard", "(384)", "bf16", "narrow_copies", 4800, 768, 1, 0, "always", "-"},
    {"model_embed_tokens_unit", "(768)", "bf16", "gathered", 0, 1536, 1, 0, "from its gather to its release", "-"},
    {"decoder_layer_weights.input_layernorm", "(C)", "f32", "gathered", 1536, 64, 2, 256,
    "from its gather to its release", "-"},
    {"decoder_layer_weights.post_attention_layernorm", "(C)", "f32", "gathered", 1664, 64, 2, 256,
    "from its gather to its release", "-"},
    {"w_norm", "(C)", "f32", "gathered", 2048, 64, 1, 0, "from its gather to its release", "-"},
    {"lm_head_unit", "(768)", "bf16", "gathered", 2304, 1536, 1, 0, "from its gather to its release", "-"},
    {"decoder_layer_narrow_copies.q_proj", "(16,C)", "bf16", "gathered", 3840, 512, 2, 3840,
    "from its gather to its release", "-"},
    {"decoder_layer_narrow_copies.k_proj", "(8,C)", "bf16", "gathered", 4352, 256, 2, 3840,
    "from its gather to its release", "-"},
    {"decoder_layer_narrow_copies.v_proj", "(8,C)", "bf16", "gathered", 4608, 256, 2, 3840,
    "from its gather to its release", "-"},
    {"decoder_layer_narrow_copies.o_proj", "(C,C)", "bf16", "gathered", 4864, 512, 2, 3840,
    "from its gather to its release", "-"},
    {"decoder_layer_narrow_copies.gate_proj", "(24,C)", "bf16", "gathered", 5376, 768, 2, 3840,
    "from its gather to its release", "-"},
    {"decoder_layer_narrow_copies.up_proj", "(24,C)", "bf16", "gathered", 6144, 768, 2, 3840,
    "from its gather to its release", "-"},
    {"decoder_layer_narrow_copies.down_proj", "(C,H)", "bf16", "gathered", 6912, 768, 2, 3840,
    "from its gather to its release", "-"},
    {"dlm_head_unit", "(768)", "f32", "unit_gradients", 0, 3072, 1, 0, "until they are summed", "-"},
    {"decoder_layer_gradients.input_layernorm", "(C)", "f32", "unit_gradients", 3072, 64, 2, 256,
    "until they are summed", "-"},
    {"decoder_layer_gradients.post_attention_layernorm", "(C)", "f32", "unit_gradients", 3200, 64, 2, 256,
    "until they are summed", "-"},
    {"g_norm", "(C)", "f32", "unit_gradients", 3584, 64, 1, 0, "until they are summed", "-"},
    {"dmodel_embed_tokens_unit", "(768)", "f32", "unit_gradients", 3840, 3072, 1, 0, "until they are summed", "-"},
    {"decoder_layer_gradients.q_proj", "(16,C)", "f32", "unit_gradients", 6912, 1024, 2, 7680, "until they are summed",
    "-"},
    {"decoder_layer_gradients.k_proj", "(8,C)", "f32", "unit_gradients", 7936, 512, 2, 7680, "until they are summed",
    "-"},
    {"decoder_layer_gradients.v_proj", "(8,C)", "f32", "unit_gradients", 8448, 512, 2, 7680, "until they are summed",
    "-"},
    {"decoder_layer_gradients.o_proj", "(C,C)", "f32", "unit_gradients", 8960, 1024, 2, 7680, "until they are summed",
    "-"},
    {"decoder_layer_gradients.gate_proj", "(24,C)", "f32", "unit_gradients", 9984, 1536, 2, 7680,
    "until they are summed", "-"},
    {"decoder_layer_gradients.up_proj", "(24,C)", "f32", "unit_gradients", 11520, 1536, 2, 7680,
    "until they are summed", "-"},
    {"decoder_layer_gradients.down_proj", "(C,H)", "f32", "unit_gradients", 13056, 1536, 2, 7680,
    "until they are summed", "-"},
    {"decoder_layer_scaling.qkv_proj_input_amax", "scalar", "f32", "scaling", 0, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.o_proj_input_amax", "scalar", "f32", "scaling", 8, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.gate_up_proj_input_amax", "scalar", "f32", "scaling", 16, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.gate_up_proj_gradient_amax", "scalar", "f32", "scaling", 24, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.o_proj_gradient_amax", "scalar", "f32", "scaling", 32, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.qkv_proj_gradient_amax", "scalar", "f32", "scaling", 40, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.qkv_proj_weight_amax", "scalar", "f32", "scaling", 48, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.o_proj_weight_amax", "scalar", "f32", "scaling", 56, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.gate_up_proj_weight_amax", "scalar", "f32", "scaling", 64, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.qkv_proj_input_scale", "scalar", "f32", "scaling", 72, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.o_proj_input_scale", "scalar", "f32", "scaling", 80, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.gate_up_proj_input_scale", "scalar", "f32", "scaling", 88, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.gate_up_proj_gradient_scale", "scalar", "f32", "scaling", 96, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.o_proj_gradient_scale", "scalar", "f32", "scaling", 104, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.qkv_proj_gradient_scale", "scalar", "f32", "scaling", 112, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.qkv_proj_weight_scale", "scalar", "f32", "scaling", 120, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.o_proj_weight_scale", "scalar", "f32", "scaling", 128, 4, 2, 4, "always", "-"},
    {"decoder_layer_scaling.gate_up_proj_weight_scale", "scalar", "f32", "scaling", 136, 4, 2, 4, "always", "-"},
    {"fp8_qkv_proj_input_history", "(1024)", "f32", "scaling", 144, 4096, 2, 4096, "always", "-"},
    {"fp8_o_proj_input_history", "(1024)", "f32", "scaling", 8336, 4096, 2, 4096, "always", "-"},
    {"fp8_gate_up_proj_input_history", "(1024)", "f32", "scaling", 16528, 4096, 2, 4096, "always", "-"},
    {"fp8_gate_up_proj_gradient_history", "(1024)", "f32", "scaling", 24720, 4096, 2, 4096, "always", "-"},
    {"fp8_o_proj_gradient_history", "(1024)", "f32", "scaling", 32912, 4096, 2, 4096, "always", "-"},
    {"fp8_qkv_proj_gradient_history", "(1024)", "f32", "scaling", 41104, 4096, 2, 4096, "always", "-"},
    {"fp8_qkv_proj_weight_history", "(1024)", "f32", "scaling", 49296, 4096, 2, 4096, "always", "-"},
    {"fp8_o_proj_weight_history", "(1024)", "f32", "scaling", 57488, 4096, 2, 4096, "always", "-"},
    {"fp8_gate_up_proj_weight_history", "(1024)", "f32", "scaling", 65680, 4096, 2, 4096, "always", "-"},
};

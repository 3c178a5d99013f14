// noopt.logits: sizes, tensors and where they lie; the functions of a training step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/api.h"       // linear_forward, attention_forward, ...: the calls that a device provides
#include "device/stream.h"    // Stream: where calls run, in order
#include "train/arenas.h"     // Arenas: the memory, one piece for each class of lifetime
#include "train/program.h"    // ProgramSpec: what the trainer has to know of this program
#include "sizes.h"            // B, T, C, ...: what shapes are made of

// ---- sizes ----------------------------------------------------------------------------------------------------------
// Elements of the parameter arena; bf16 copies, gradients and each optimizer state have as many, of their types.
inline constexpr std::int64_t PARAMETER_ELEMENTS = 5536;

using thunder::bf16;

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
inline constexpr std::int64_t input_layernorm = 3072;
inline constexpr std::int64_t post_attention_layernorm = 6272;
inline constexpr std::int64_t stride = 7936;  // from one layer's to the next one's
}
inline DecoderLayerWeights decoder_layer_weights(const thunder::Arenas& arenas, std::int64_t layer) {
    namespace offset = layout::decoder_layer_weights;
    return {
        .input_layernorm = at<float>(arenas.parameters, offset::input_layernorm + layer * offset::stride),
        .post_attention_layernorm =
            at<float>(arenas.parameters, offset::post_attention_layernorm + layer * offset::stride),
    };
}

// ---- DecoderLayerNarrowCopies ---------------------------------------------------------------------------------------
// model.layers.{0..1}: 2 layers. Parameters once more in bf16, as products read them: `w16.` in blocks.cpp
struct DecoderLayerNarrowCopies {
    bf16* q_proj;  // (NH*HS,C)  model.layers.{0..1}.self_attn.q_proj.weight
    bf16* k_proj;  // (KVH*HS,C)  model.layers.{0..1}.self_attn.k_proj.weight
    bf16* v_proj;  // (KVH*HS,C)  model.layers.{0..1}.self_attn.v_proj.weight
    bf16* o_proj;  // (C,NH*HS)  model.layers.{0..1}.self_attn.o_proj.weight
    bf16* gate_proj;  // (H,C)  model.layers.{0..1}.mlp.gate_proj.weight
    bf16* up_proj;  // (H,C)  model.layers.{0..1}.mlp.up_proj.weight
    bf16* down_proj;  // (C,H)  model.layers.{0..1}.mlp.down_proj.weight
};
namespace layout::decoder_layer_narrow_copies {
// bytes, of the first layer's tensors
inline constexpr std::int64_t q_proj = 1600;
inline constexpr std::int64_t k_proj = 2112;
inline constexpr std::int64_t v_proj = 2368;
inline constexpr std::int64_t o_proj = 2624;
inline constexpr std::int64_t gate_proj = 3200;
inline constexpr std::int64_t up_proj = 3968;
inline constexpr std::int64_t down_proj = 4736;
inline constexpr std::int64_t stride = 3968;  // from one layer's to the next one's
}
inline DecoderLayerNarrowCopies decoder_layer_narrow_copies(const thunder::Arenas& arenas, std::int64_t layer) {
    namespace offset = layout::decoder_layer_narrow_copies;
    return {
        .q_proj = at<bf16>(arenas.narrow_copies, offset::q_proj + layer * offset::stride),
        .k_proj = at<bf16>(arenas.narrow_copies, offset::k_proj + layer * offset::stride),
        .v_proj = at<bf16>(arenas.narrow_copies, offset::v_proj + layer * offset::stride),
        .o_proj = at<bf16>(arenas.narrow_copies, offset::o_proj + layer * offset::stride),
        .gate_proj = at<bf16>(arenas.narrow_copies, offset::gate_proj + layer * offset::stride),
        .up_proj = at<bf16>(arenas.narrow_copies, offset::up_proj + layer * offset::stride),
        .down_proj = at<bf16>(arenas.narrow_copies, offset::down_proj + layer * offset::stride),
    };
}

// ---- DecoderLayerSaved ----------------------------------------------------------------------------------------------
// model.layers.{0..1}: 2 layers
struct DecoderLayerSaved {
    bf16* x;  // (B,T,C)
    float* input_layernorm_rstd;  // (B,T)
    bf16* qkv_proj_rotated;  // (B,T,(NH+2*KVH)*HS)
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
    float* q_proj;  // (NH*HS,C)  model.layers.{0..1}.self_attn.q_proj.weight
    float* k_proj;  // (KVH*HS,C)  model.layers.{0..1}.self_attn.k_proj.weight
    float* v_proj;  // (KVH*HS,C)  model.layers.{0..1}.self_attn.v_proj.weight
    float* o_proj;  // (C,NH*HS)  model.layers.{0..1}.self_attn.o_proj.weight
    float* post_attention_layernorm;  // (C)  model.layers.{0..1}.post_attention_layernorm.weight
    float* gate_proj;  // (H,C)  model.layers.{0..1}.mlp.gate_proj.weight
    float* up_proj;  // (H,C)  model.layers.{0..1}.mlp.up_proj.weight
    float* down_proj;  // (C,H)  model.layers.{0..1}.mlp.down_proj.weight
};
namespace layout::decoder_layer_gradients {
// bytes, of the first layer's tensors
inline constexpr std::int64_t input_layernorm = 3072;
inline constexpr std::int64_t q_proj = 3200;
inline constexpr std::int64_t k_proj = 4224;
inline constexpr std::int64_t v_proj = 4736;
inline constexpr std::int64_t o_proj = 5248;
inline constexpr std::int64_t post_attention_layernorm = 6272;
inline constexpr std::int64_t gate_proj = 6400;
inline constexpr std::int64_t up_proj = 7936;
inline constexpr std::int64_t down_proj = 9472;
inline constexpr std::int64_t stride = 7936;  // from one layer's to the next one's
}
inline DecoderLayerGradients decoder_layer_gradients(const thunder::Arenas& arenas, std::int64_t layer) {
    namespace offset = layout::decoder_layer_gradients;
    return {
        .input_layernorm = at<float>(arenas.gradients, offset::input_layernorm + layer * offset::stride),
        .q_proj = at<float>(arenas.gradients, offset::q_proj + layer * offset::stride),
        .k_proj = at<float>(arenas.gradients, offset::k_proj + layer * offset::stride),
        .v_proj = at<float>(arenas.gradients, offset::v_proj + layer * offset::stride),
        .o_proj = at<float>(arenas.gradients, offset::o_proj + layer * offset::stride),
        .post_attention_layernorm =
            at<float>(arenas.gradients, offset::post_attention_layernorm + layer * offset::stride),
        .gate_proj = at<float>(arenas.gradients, offset::gate_proj + layer * offset::stride),
        .up_proj = at<float>(arenas.gradients, offset::up_proj + layer * offset::stride),
        .down_proj = at<float>(arenas.gradients, offset::down_proj + layer * offset::stride),
    };
}

// ---- update parts ---------------------------------------------------------------------------------------------------
// The parameters, cut where the forward pass waits for their update, in this order; of layers each is a part.
// UPDATE_PARTS in spec.cpp says which lie in which.
namespace update_part {
inline constexpr std::int64_t embed_tokens = 0;
inline constexpr std::int64_t layers = 1;  // of the first of 2 layers
inline constexpr std::int64_t norm = 3;
}

// ---- offsets --------------------------------------------------------------------------------------------------------
// In bytes from the start of an arena, or of a layer's scratch: by function, then by the name of the tensor in it.
namespace layout::forward_backward {
inline constexpr std::int64_t input_ids = 0;
inline constexpr std::int64_t labels = 128;
inline constexpr std::int64_t w_norm = 18944;
inline constexpr std::int64_t w16_embed_tokens = 0;
inline constexpr std::int64_t w16_lm_head = 9536;
inline constexpr std::int64_t embed_tokens = 7936;
inline constexpr std::int64_t residual = 8960;
inline constexpr std::int64_t rstd = 2560;
inline constexpr std::int64_t norm = 1536;
inline constexpr std::int64_t lm_head = 0;
inline constexpr std::int64_t loss = 2048;
inline constexpr std::int64_t loss_lse = 2112;
inline constexpr std::int64_t g_norm = 18944;
inline constexpr std::int64_t g_lm_head = 19072;
inline constexpr std::int64_t g_embed_tokens = 0;
inline constexpr std::int64_t dlm_head = 0;
inline constexpr std::int64_t dnorm = 2048;
inline constexpr std::int64_t dresidual = 3072;
inline constexpr std::int64_t dembed_tokens = 3072;
inline constexpr std::int64_t decoder_layer_forward_scratch = 0;  // 768 bytes
inline constexpr std::int64_t x_slot = 7936, x_slot_stride = 512;  // (B,T,C)
inline constexpr std::int64_t decoder_layer_backward_scratch = 0;  // 3072 bytes
inline constexpr std::int64_t dy_slot = 3072, dy_slot_stride = 512;  // (B,T,C)
}
namespace layout::loss_weight {
inline constexpr std::int64_t labels = 128;
}
namespace layout::decoder_layer_forward {
inline constexpr std::int64_t cos = 0;
inline constexpr std::int64_t sin = 128;
inline constexpr std::int64_t input_layernorm = 0;
inline constexpr std::int64_t post_attention_layernorm = 0;
inline constexpr std::int64_t swiglu = 0;
}
namespace layout::decoder_layer_backward {
inline constexpr std::int64_t cos = 0;
inline constexpr std::int64_t sin = 128;
inline constexpr std::int64_t dswiglu = 1536;
inline constexpr std::int64_t swiglu = 2304;
inline constexpr std::int64_t dgate_up_proj = 0;
inline constexpr std::int64_t dpost_attention_layernorm = 1536;
inline constexpr std::int64_t post_attention_layernorm = 2048;
inline constexpr std::int64_t dresidual = 2560;
inline constexpr std::int64_t dsdpa = 1024;
inline constexpr std::int64_t dqkv_proj = 0;
inline constexpr std::int64_t dinput_layernorm = 1024;
inline constexpr std::int64_t input_layernorm = 1536;
}

// ---- blocks.cpp -----------------------------------------------------------------------------------------------------
// Outputs first, the stream last.
using namespace thunder;
void decoder_layer_forward(const Arenas& arenas, bf16* y /* (B,T,C) */, const bf16* x /* (B,T,C) */,
    const DecoderLayerWeights& w, const DecoderLayerNarrowCopies& w16, const DecoderLayerSaved& saved,
    std::byte* scratch, Stream& stream);
void decoder_layer_backward(const Arenas& arenas, bf16* dx /* (B,T,C) */, const bf16* dy /* (B,T,C) */,
    const DecoderLayerSaved& saved, const DecoderLayerWeights& w, const DecoderLayerNarrowCopies& w16,
    const DecoderLayerGradients& g, std::byte* scratch, WriteMode mode, Stream& stream);

// ---- model.cpp ------------------------------------------------------------------------------------------------------
class Model {
  public:
    Model(const thunder::TrainingArenas& arenas, thunder::Stream& stream) : arenas_(arenas), stream_(stream) {}

    // Adds the weight of the micro-batch's loss to the step's.
    void loss_weight();
    // Adds the loss of the micro-batch to the step's.
    void forward(thunder::WriteMode mode);
    // Its gradients, overwritten in the first micro-step and added to later.
    void backward(thunder::WriteMode mode);
    // One micro-step.
    void forward_backward(thunder::WriteMode mode) {
        forward(mode);
        backward(mode);
    }
    // The norm of the gradients, and the factor that clips them.
    void clip();
    // The optimizer's step, of a part of the parameters.
    void update(const thunder::UpdatePart& part, thunder::Stream& stream);
    // The loss of a batch that is not trained on.
    void evaluate() { forward(thunder::WriteMode::overwrite); }

  private:
    thunder::TrainingArenas arenas_;
    thunder::Stream& stream_;
};
extern const thunder::ProgramSpec PROGRAM;  // spec.cpp

// ---- LAYOUT ---------------------------------------------------------------------------------------------------------
// Every tensor that the program names; one that is kept in the place of a layer's, as what enters a loop is in that of
// the first layer's input, is in that row. `shape` is in the names of sizes.h, as far as these go; `offset` is in bytes
// from the start of the arena, `bytes` of one tensor. A tensor of n `layers` lies n times, one `stride` of bytes apart.
// `lifetime` says when its bytes hold it: in the arena `scratch` from one call to another in the text of a function in
// blocks.cpp or model.cpp, whose calls are counted from 1, on from forward to backward, a loop over layers as one call.
// A bf16 copy that is "not read" is there because the optimizer writes one for each parameter: who reads that, reads it
// in `parameters`. `shares` names tensors that have some of the same bytes at other times, those of the same function
// without its name and first.
struct LayoutRow {
    const char *name, *shape, *type, *arena;
    std::size_t offset, bytes;
    std::int64_t layers;
    std::size_t stride;
    const char *lifetime, *shares;
};
inline constexpr LayoutRow LAYOUT[] = {
    {"w_embed_tokens", "(V,C)", "f32", "parameters", 0, 3072, 1, 0, "always", "-"},
    {"decoder_layer_weights.input_layernorm", "(C)", "f32", "parameters", 3072, 64, 2, 7936, "always", "-"},
    {"w_q_proj", "(NH*HS,C)", "f32", "parameters", 3200, 1024, 2, 7936, "always", "-"},
    {"w_k_proj", "(KVH*HS,C)", "f32", "parameters", 4224, 512, 2, 7936, "always", "-"},
    {"w_v_proj", "(KVH*HS,C)", "f32", "parameters", 4736, 512, 2, 7936, "always", "-"},
    {"w_o_proj", "(C,NH*HS)", "f32", "parameters", 5248, 1024, 2, 7936, "always", "-"},
    {"decoder_layer_weights.post_attention_layernorm", "(C)", "f32", "parameters", 6272, 64, 2, 7936, "always", "-"},
    {"w_gate_proj", "(H,C)", "f32", "parameters", 6400, 1536, 2, 7936, "always", "-"},
    {"w_up_proj", "(H,C)", "f32", "parameters", 7936, 1536, 2, 7936, "always", "-"},
    {"w_down_proj", "(C,H)", "f32", "parameters", 9472, 1536, 2, 7936, "always", "-"},
    {"w_norm", "(C)", "f32", "parameters", 18944, 64, 1, 0, "always", "-"},
    {"w_lm_head", "(V,C)", "f32", "parameters", 19072, 3072, 1, 0, "always", "-"},
    {"g_embed_tokens", "(V,C)", "f32", "gradients", 0, 3072, 1, 0, "always", "-"},
    {"decoder_layer_gradients.input_layernorm", "(C)", "f32", "gradients", 3072, 64, 2, 7936, "always", "-"},
    {"decoder_layer_gradients.q_proj", "(NH*HS,C)", "f32", "gradients", 3200, 1024, 2, 7936, "always", "-"},
    {"decoder_layer_gradients.k_proj", "(KVH*HS,C)", "f32", "gradients", 4224, 512, 2, 7936, "always", "-"},
    {"decoder_layer_gradients.v_proj", "(KVH*HS,C)", "f32", "gradients", 4736, 512, 2, 7936, "always", "-"},
    {"decoder_layer_gradients.o_proj", "(C,NH*HS)", "f32", "gradients", 5248, 1024, 2, 7936, "always", "-"},
    {"decoder_layer_gradients.post_attention_layernorm", "(C)", "f32", "gradients", 6272, 64, 2, 7936, "always", "-"},
    {"decoder_layer_gradients.gate_proj", "(H,C)", "f32", "gradients", 6400, 1536, 2, 7936, "always", "-"},
    {"decoder_layer_gradients.up_proj", "(H,C)", "f32", "gradients", 7936, 1536, 2, 7936, "always", "-"},
    {"decoder_layer_gradients.down_proj", "(C,H)", "f32", "gradients", 9472, 1536, 2, 7936, "always", "-"},
    {"g_norm", "(C)", "f32", "gradients", 18944, 64, 1, 0, "always", "-"},
    {"g_lm_head", "(V,C)", "f32", "gradients", 19072, 3072, 1, 0, "always", "-"},
    {"first_moment_embed_tokens", "(V,C)", "f32", "optimizer", 0, 3072, 1, 0, "always", "-"},
    {"first_moment_input_layernorm", "(C)", "f32", "optimizer", 3072, 64, 2, 7936, "always", "-"},
    {"first_moment_q_proj", "(NH*HS,C)", "f32", "optimizer", 3200, 1024, 2, 7936, "always", "-"},
    {"first_moment_k_proj", "(KVH*HS,C)", "f32", "optimizer", 4224, 512, 2, 7936, "always", "-"},
    {"first_moment_v_proj", "(KVH*HS,C)", "f32", "optimizer", 4736, 512, 2, 7936, "always", "-"},
    {"first_moment_o_proj", "(C,NH*HS)", "f32", "optimizer", 5248, 1024, 2, 7936, "always", "-"},
    {"first_moment_post_attention_layernorm", "(C)", "f32", "optimizer", 6272, 64, 2, 7936, "always", "-"},
    {"first_moment_gate_proj", "(H,C)", "f32", "optimizer", 6400, 1536, 2, 7936, "always", "-"},
    {"first_moment_up_proj", "(H,C)", "f32", "optimizer", 7936, 1536, 2, 7936, "always", "-"},
    {"first_moment_down_proj", "(C,H)", "f32", "optimizer", 9472, 1536, 2, 7936, "always", "-"},
    {"first_moment_norm", "(C)", "f32", "optimizer", 18944, 64, 1, 0, "always", "-"},
    {"first_moment_lm_head", "(V,C)", "f32", "optimizer", 19072, 3072, 1, 0, "always", "-"},
    {"second_moment_embed_tokens", "(V,C)", "f32", "optimizer", 22144, 3072, 1, 0, "always", "-"},
    {"second_moment_input_layernorm", "(C)", "f32", "optimizer", 25216, 64, 2, 7936, "always", "-"},
    {"second_moment_q_proj", "(NH*HS,C)", "f32", "optimizer", 25344, 1024, 2, 7936, "always", "-"},
    {"second_moment_k_proj", "(KVH*HS,C)", "f32", "optimizer", 26368, 512, 2, 7936, "always", "-"},
    {"second_moment_v_proj", "(KVH*HS,C)", "f32", "optimizer", 26880, 512, 2, 7936, "always", "-"},
    {"second_moment_o_proj", "(C,NH*HS)", "f32", "optimizer", 27392, 1024, 2, 7936, "always", "-"},
    {"second_moment_post_attention_layernorm", "(C)", "f32", "optimizer", 28416, 64, 2, 7936, "always", "-"},
    {"second_moment_gate_proj", "(H,C)", "f32", "optimizer", 28544, 1536, 2, 7936, "always", "-"},
    {"second_moment_up_proj", "(H,C)", "f32", "optimizer", 30080, 1536, 2, 7936, "always", "-"},
    {"second_moment_down_proj", "(C,H)", "f32", "optimizer", 31616, 1536, 2, 7936, "always", "-"},
    {"second_moment_norm", "(C)", "f32", "optimizer", 41088, 64, 1, 0, "always", "-"},
    {"second_moment_lm_head", "(V,C)", "f32", "optimizer", 41216, 3072, 1, 0, "always", "-"},
    {"decoder_layer_saved.input_layernorm_rstd", "(B,T)", "f32", "saved", 0, 64, 2, 3968, "forward to backward", "-"},
    {"decoder_layer_saved.qkv_proj_rotated", "(B,T,(NH+2*KVH)*HS)", "bf16", "saved", 64, 1024, 2, 3968,
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
    "dlm_head, decoder_layer_forward.input_layernorm and 6 more"},
    {"forward_backward.dlm_head", "(B*T,V)", "bf16", "scratch", 0, 1536, 1, 0, "forward_backward, calls 7 to 9",
    "lm_head, decoder_layer_forward.input_layernorm and 6 more"},
    {"decoder_layer_forward.input_layernorm", "(B,T,C)", "bf16", "scratch", 0, 512, 1, 0,
    "decoder_layer_forward, calls 1 to 2", "post_attention_layernorm, swiglu, forward_backward.lm_head and 3 more"},
    {"decoder_layer_forward.post_attention_layernorm", "(B,T,C)", "bf16", "scratch", 0, 512, 1, 0,
    "decoder_layer_forward, calls 6 to 7", "input_layernorm, swiglu, forward_backward.lm_head and 3 more"},
    {"decoder_layer_forward.swiglu", "(B,T,H)", "bf16", "scratch", 0, 768, 1, 0, "decoder_layer_forward, calls 8 to 9",
    "input_layernorm, post_attention_layernorm and 4 more"},
    {"decoder_layer_backward.dgate_up_proj", "(B,T,2*H)", "bf16", "scratch", 0, 1536, 1, 0,
    "decoder_layer_backward, calls 2 to 6", "dqkv_proj, dsdpa, dinput_layernorm and 5 more"},
    {"decoder_layer_backward.dqkv_proj", "(B,T,(NH+2*KVH)*HS)", "bf16", "scratch", 0, 1024, 1, 0,
    "decoder_layer_backward, calls 9 to 13", "dgate_up_proj, forward_backward.lm_head and 4 more"},
    {"decoder_layer_backward.dsdpa", "(B,T,NH*HS)", "bf16", "scratch", 1024, 512, 1, 0,
    "decoder_layer_backward, calls 7 to 9", "dgate_up_proj, dinput_layernorm, forward_backward.lm_head and 1 more"},
    {"decoder_layer_backward.dinput_layernorm", "(B,T,C)", "bf16", "scratch", 1024, 512, 1, 0,
    "decoder_layer_backward, calls 11 to 12", "dgate_up_proj, dsdpa, forward_backward.lm_head and 1 more"},
    {"forward_backward.norm", "(B,T,C)", "bf16", "scratch", 1536, 512, 1, 0, "forward_backward, calls 3 to 9",
    "decoder_layer_backward.dswiglu and 2 more"},
    {"decoder_layer_backward.dswiglu", "(B,T,H)", "bf16", "scratch", 1536, 768, 1, 0,
    "decoder_layer_backward, calls 1 to 2", "dpost_attention_layernorm, input_layernorm and 5 more"},
    {"decoder_layer_backward.dpost_attention_layernorm", "(B,T,C)", "bf16", "scratch", 1536, 512, 1, 0,
    "decoder_layer_backward, calls 4 to 5", "dswiglu, input_layernorm, forward_backward.norm"},
    {"decoder_layer_backward.input_layernorm", "(B,T,C)", "bf16", "scratch", 1536, 512, 1, 0,
    "decoder_layer_backward, calls 12 to 13", "dswiglu, dpost_attention_layernorm, forward_backward.norm"},
    {"forward_backward.loss", "scalar", "f32", "scratch", 2048, 4, 1, 0, "forward_backward, calls 5 to 6",
    "dnorm, decoder_layer_backward.dswiglu and 1 more"},
    {"forward_backward.dnorm", "(B,T,C)", "bf16", "scratch", 2048, 512, 1, 0, "forward_backward, calls 8 to 10",
    "loss, loss_lse, decoder_layer_backward.dswiglu and 2 more"},
    {"decoder_layer_backward.post_attention_layernorm", "(B,T,C)", "bf16", "scratch", 2048, 512, 1, 0,
    "decoder_layer_backward, calls 5 to 6", "dswiglu, swiglu, forward_backward.loss and 2 more"},
    {"forward_backward.loss_lse", "(B*T)", "f32", "scratch", 2112, 64, 1, 0, "forward_backward, calls 5 to 7",
    "dnorm, decoder_layer_backward.dswiglu and 1 more"},
    {"decoder_layer_backward.swiglu", "(B,T,H)", "bf16", "scratch", 2304, 768, 1, 0,
    "decoder_layer_backward, calls 2 to 3", "post_attention_layernorm, dresidual, forward_backward.dnorm and 1 more"},
    {"forward_backward.rstd", "(B,T,1)", "f32", "scratch", 2560, 64, 1, 0, "forward_backward, calls 3 to 10",
    "decoder_layer_backward.swiglu, decoder_layer_backward.dresidual"},
    {"decoder_layer_backward.dresidual", "(B,T,C)", "bf16", "scratch", 2560, 512, 1, 0,
    "decoder_layer_backward, calls 5 to 12", "swiglu, forward_backward.rstd"},
    {"forward_backward.dresidual", "(B,T,C)", "bf16", "scratch", 3072, 512, 1, 0, "forward_backward, calls 10 to 11",
    "dembed_tokens, dy_slot"},
    {"forward_backward.dembed_tokens", "(B,T,C)", "bf16", "scratch", 3072, 512, 1, 0,
    "forward_backward, calls 11 to 12", "dresidual, dy_slot"},
    {"forward_backward.dy_slot", "(B,T,C)", "bf16", "scratch", 3072, 512, 2, 512, "forward_backward, calls 10 to 12",
    "dresidual, dembed_tokens"},
    {"cos", "(1,T,HS)", "f32", "constants", 0, 128, 1, 0, "always", "-"},
    {"sin", "(1,T,HS)", "f32", "constants", 128, 128, 1, 0, "always", "-"},
    {"input_ids", "(B,T)", "i64", "batch", 0, 128, 1, 0, "the micro-batch", "-"},
    {"labels", "(B,T)", "i64", "batch", 128, 128, 1, 0, "the micro-batch", "-"},
    {"w16_embed_tokens", "(V,C)", "bf16", "narrow_copies", 0, 1536, 1, 0, "always", "-"},
    {"w16_input_layernorm", "(C)", "bf16", "narrow_copies", 1536, 32, 2, 3968, "always; not read", "-"},
    {"decoder_layer_narrow_copies.q_proj", "(NH*HS,C)", "bf16", "narrow_copies", 1600, 512, 2, 3968, "always", "-"},
    {"decoder_layer_narrow_copies.k_proj", "(KVH*HS,C)", "bf16", "narrow_copies", 2112, 256, 2, 3968, "always", "-"},
    {"decoder_layer_narrow_copies.v_proj", "(KVH*HS,C)", "bf16", "narrow_copies", 2368, 256, 2, 3968, "always", "-"},
    {"decoder_layer_narrow_copies.o_proj", "(C,NH*HS)", "bf16", "narrow_copies", 2624, 512, 2, 3968, "always", "-"},
    {"w16_post_attention_layernorm", "(C)", "bf16", "narrow_copies", 3136, 32, 2, 3968, "always; not read", "-"},
    {"decoder_layer_narrow_copies.gate_proj", "(H,C)", "bf16", "narrow_copies", 3200, 768, 2, 3968, "always", "-"},
    {"decoder_layer_narrow_copies.up_proj", "(H,C)", "bf16", "narrow_copies", 3968, 768, 2, 3968, "always", "-"},
    {"decoder_layer_narrow_copies.down_proj", "(C,H)", "bf16", "narrow_copies", 4736, 768, 2, 3968, "always", "-"},
    {"w16_norm", "(C)", "bf16", "narrow_copies", 9472, 32, 1, 0, "always; not read", "-"},
    {"w16_lm_head", "(V,C)", "bf16", "narrow_copies", 9536, 1536, 1, 0, "always", "-"},
};

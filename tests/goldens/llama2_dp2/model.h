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
// Bytes of the parameter arena; gradients and each optimizer state are as large.
inline constexpr std::int64_t PARAMETER_BYTES = 21824;

// The tensor at a byte offset of an arena.
template <typename Element>
inline Element* at(std::byte* arena, std::int64_t offset) {
    return reinterpret_cast<Element*>(arena + offset);
}

// ---- DecoderLayerWeights --------------------------------------------------------------------------------------------
// model.layers.{0..1}: 2 layers
struct DecoderLayerWeights {
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
namespace layout::decoder_layer_weights {
// bytes, of the first layer's tensors
inline constexpr std::int64_t input_layernorm = 3072;
inline constexpr std::int64_t q_proj = 3136;
inline constexpr std::int64_t k_proj = 4160;
inline constexpr std::int64_t v_proj = 4672;
inline constexpr std::int64_t o_proj = 5184;
inline constexpr std::int64_t post_attention_layernorm = 6208;
inline constexpr std::int64_t gate_proj = 6272;
inline constexpr std::int64_t up_proj = 7808;
inline constexpr std::int64_t down_proj = 9344;
inline constexpr std::int64_t stride = 7808;  // from one layer's to the next one's
}
inline DecoderLayerWeights decoder_layer_weights(const thunder::Arenas& arenas, std::int64_t layer) {
    namespace offset = layout::decoder_layer_weights;
    return {
        .input_layernorm = at<float>(arenas.parameters, offset::input_layernorm + layer * offset::stride),
        .q_proj = at<float>(arenas.parameters, offset::q_proj + layer * offset::stride),
        .k_proj = at<float>(arenas.parameters, offset::k_proj + layer * offset::stride),
        .v_proj = at<float>(arenas.parameters, offset::v_proj + layer * offset::stride),
        .o_proj = at<float>(arenas.parameters, offset::o_proj + layer * offset::stride),
        .post_attention_layernorm =
            at<float>(arenas.parameters, offset::post_attention_layernorm + layer * offset::stride),
        .gate_proj = at<float>(arenas.parameters, offset::gate_proj + layer * offset::stride),
        .up_proj = at<float>(arenas.parameters, offset::up_proj + layer * offset::stride),
        .down_proj = at<float>(arenas.parameters, offset::down_proj + layer * offset::stride),
    };
}

// ---- DecoderLayerSaved ----------------------------------------------------------------------------------------------
// model.layers.{0..1}: 2 layers
struct DecoderLayerSaved {
    float* x;  // (B,T,C)
    float* input_layernorm_rstd;  // (B,T)
    float* qkv_proj_rotated;  // (B,T,(NH+2*KVH)*HS)
    float* sdpa;  // (B,T,NH,HS)
    float* sdpa_lse;  // (B,NH,T)
    float* residual;  // (B,T,C)
    float* post_attention_layernorm_rstd;  // (B,T)
    float* gate_up_proj;  // (B,T,2*H)
};
namespace layout::decoder_layer_saved {
// bytes, of the first layer's tensors
inline constexpr std::int64_t x = 15104;
inline constexpr std::int64_t input_layernorm_rstd = 0;
inline constexpr std::int64_t qkv_proj_rotated = 64;
inline constexpr std::int64_t sdpa = 2112;
inline constexpr std::int64_t sdpa_lse = 3136;
inline constexpr std::int64_t residual = 3392;
inline constexpr std::int64_t post_attention_layernorm_rstd = 4416;
inline constexpr std::int64_t gate_up_proj = 4480;
inline constexpr std::int64_t x_stride = 1024;  // from one layer's to the next one's
inline constexpr std::int64_t stride = 7552;  // from one layer's to the next one's
}
inline DecoderLayerSaved decoder_layer_saved(const thunder::Arenas& arenas, std::int64_t layer) {
    namespace offset = layout::decoder_layer_saved;
    return {
        .x = at<float>(arenas.saved, offset::x + layer * offset::x_stride),
        .input_layernorm_rstd = at<float>(arenas.saved, offset::input_layernorm_rstd + layer * offset::stride),
        .qkv_proj_rotated = at<float>(arenas.saved, offset::qkv_proj_rotated + layer * offset::stride),
        .sdpa = at<float>(arenas.saved, offset::sdpa + layer * offset::stride),
        .sdpa_lse = at<float>(arenas.saved, offset::sdpa_lse + layer * offset::stride),
        .residual = at<float>(arenas.saved, offset::residual + layer * offset::stride),
        .post_attention_layernorm_rstd =
            at<float>(arenas.saved, offset::post_attention_layernorm_rstd + layer * offset::stride),
        .gate_up_proj = at<float>(arenas.saved, offset::gate_up_proj + layer * offset::stride),
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
inline constexpr std::int64_t q_proj = 3136;
inline constexpr std::int64_t k_proj = 4160;
inline constexpr std::int64_t v_proj = 4672;
inline constexpr std::int64_t o_proj = 5184;
inline constexpr std::int64_t post_attention_layernorm = 6208;
inline constexpr std::int64_t gate_proj = 6272;
inline constexpr std::int64_t up_proj = 7808;
inline constexpr std::int64_t down_proj = 9344;
inline constexpr std::int64_t stride = 7808;  // from one layer's to the next one's
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
inline constexpr std::int64_t w_embed_tokens = 0;
inline constexpr std::int64_t w_norm = 18688;
inline constexpr std::int64_t w_lm_head = 18752;
inline constexpr std::int64_t embed_tokens = 15104;
inline constexpr std::int64_t residual = 17152;
inline constexpr std::int64_t rstd = 5120;
inline constexpr std::int64_t norm = 3072;
inline constexpr std::int64_t lm_head = 0;
inline constexpr std::int64_t loss = 4096;
inline constexpr std::int64_t loss_lse = 4160;
inline constexpr std::int64_t g_norm = 18688;
inline constexpr std::int64_t g_lm_head = 18752;
inline constexpr std::int64_t g_embed_tokens = 0;
inline constexpr std::int64_t dlm_head = 0;
inline constexpr std::int64_t dnorm = 4096;
inline constexpr std::int64_t dresidual = 6144;
inline constexpr std::int64_t dembed_tokens = 6144;
inline constexpr std::int64_t decoder_layer_forward_scratch = 0;  // 1536 bytes
inline constexpr std::int64_t x_slot = 15104, x_slot_stride = 1024;  // (B,T,C)
inline constexpr std::int64_t bucket_0_elements = 784;
inline constexpr std::int64_t decoder_layer_backward_scratch = 0;  // 6144 bytes
inline constexpr std::int64_t bucket_1_elements = 1952;  // of one layer
inline constexpr std::int64_t dy_slot = 6144, dy_slot_stride = 1024;  // (B,T,C)
inline constexpr std::int64_t bucket_2_elements = 768;
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
inline constexpr std::int64_t dswiglu = 3072;
inline constexpr std::int64_t swiglu = 4608;
inline constexpr std::int64_t dgate_up_proj = 0;
inline constexpr std::int64_t dpost_attention_layernorm = 3072;
inline constexpr std::int64_t post_attention_layernorm = 4096;
inline constexpr std::int64_t dresidual = 5120;
inline constexpr std::int64_t dsdpa = 2048;
inline constexpr std::int64_t dqkv_proj = 0;
inline constexpr std::int64_t dinput_layernorm = 2048;
inline constexpr std::int64_t input_layernorm = 3072;
}

// ---- blocks.cpp -----------------------------------------------------------------------------------------------------
// Outputs first, the stream last.
using namespace thunder;
void decoder_layer_forward(const Arenas& arenas, float* y /* (B,T,C) */, const float* x /* (B,T,C) */,
    const DecoderLayerWeights& w, const DecoderLayerSaved& saved, std::byte* scratch, Stream& stream);
void decoder_layer_backward(const Arenas& arenas, float* dx /* (B,T,C) */, const float* dy /* (B,T,C) */,
    const DecoderLayerSaved& saved, const DecoderLayerWeights& w, const DecoderLayerGradients& g, std::byte* scratch,
    WriteMode mode, Stream& stream);

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
    thunder::Event bucket_0_ready_;
    thunder::Event bucket_2_ready_;
    thunder::Event bucket_2_done_;
    thunder::Event bucket_1_ready_;
};
extern const thunder::ProgramSpec PROGRAM;  // spec.cpp

// ---- LAYOUT ---------------------------------------------------------------------------------------------------------
// Every tensor that the program names; one that is kept in the place of a layer's, as what enters a loop is in that of
// the first layer's input, is in that row. `shape` is in the names of sizes.h, as far as these go; `offset` is in bytes
// from the start of the arena, `bytes` of one tensor. A tensor of n `layers` lies n times, one `stride` of bytes apart.
// `lifetime` says when its bytes hold it: in the arena `scratch` from one call to another in the text of a function in
// blocks.cpp or model.cpp, whose calls are counted from 1, on from forward to backward, a loop over layers as one call,
// collectives and events of streams as none. `shares` names tensors that have some of the same bytes at other times,
// those of the same function without its name and first.
struct LayoutRow {
    const char *name, *shape, *type, *arena;
    std::size_t offset, bytes;
    std::int64_t layers;
    std::size_t stride;
    const char *lifetime, *shares;
};
inline constexpr LayoutRow LAYOUT[] = {
    {"w_embed_tokens", "(V,C)", "f32", "parameters", 0, 3072, 1, 0, "always", "-"},
    {"decoder_layer_weights.input_layernorm", "(C)", "f32", "parameters", 3072, 64, 2, 7808, "always", "-"},
    {"decoder_layer_weights.q_proj", "(NH*HS,C)", "f32", "parameters", 3136, 1024, 2, 7808, "always", "-"},
    {"decoder_layer_weights.k_proj", "(KVH*HS,C)", "f32", "parameters", 4160, 512, 2, 7808, "always", "-"},
    {"decoder_layer_weights.v_proj", "(KVH*HS,C)", "f32", "parameters", 4672, 512, 2, 7808, "always", "-"},
    {"decoder_layer_weights.o_proj", "(C,NH*HS)", "f32", "parameters", 5184, 1024, 2, 7808, "always", "-"},
    {"decoder_layer_weights.post_attention_layernorm", "(C)", "f32", "parameters", 6208, 64, 2, 7808, "always", "-"},
    {"decoder_layer_weights.gate_proj", "(H,C)", "f32", "parameters", 6272, 1536, 2, 7808, "always", "-"},
    {"decoder_layer_weights.up_proj", "(H,C)", "f32", "parameters", 7808, 1536, 2, 7808, "always", "-"},
    {"decoder_layer_weights.down_proj", "(C,H)", "f32", "parameters", 9344, 1536, 2, 7808, "always", "-"},
    {"w_norm", "(C)", "f32", "parameters", 18688, 64, 1, 0, "always", "-"},
    {"w_lm_head", "(V,C)", "f32", "parameters", 18752, 3072, 1, 0, "always", "-"},
    {"g_embed_tokens", "(V,C)", "f32", "gradients", 0, 3072, 1, 0, "always", "-"},
    {"decoder_layer_gradients.input_layernorm", "(C)", "f32", "gradients", 3072, 64, 2, 7808, "always", "-"},
    {"decoder_layer_gradients.q_proj", "(NH*HS,C)", "f32", "gradients", 3136, 1024, 2, 7808, "always", "-"},
    {"decoder_layer_gradients.k_proj", "(KVH*HS,C)", "f32", "gradients", 4160, 512, 2, 7808, "always", "-"},
    {"decoder_layer_gradients.v_proj", "(KVH*HS,C)", "f32", "gradients", 4672, 512, 2, 7808, "always", "-"},
    {"decoder_layer_gradients.o_proj", "(C,NH*HS)", "f32", "gradients", 5184, 1024, 2, 7808, "always", "-"},
    {"decoder_layer_gradients.post_attention_layernorm", "(C)", "f32", "gradients", 6208, 64, 2, 7808, "always", "-"},
    {"decoder_layer_gradients.gate_proj", "(H,C)", "f32", "gradients", 6272, 1536, 2, 7808, "always", "-"},
    {"decoder_layer_gradients.up_proj", "(H,C)", "f32", "gradients", 7808, 1536, 2, 7808, "always", "-"},
    {"decoder_layer_gradients.down_proj", "(C,H)", "f32", "gradients", 9344, 1536, 2, 7808, "always", "-"},
    {"g_norm", "(C)", "f32", "gradients", 18688, 64, 1, 0, "always", "-"},
    {"g_lm_head", "(V,C)", "f32", "gradients", 18752, 3072, 1, 0, "always", "-"},
    {"first_moment_embed_tokens", "(V,C)", "f32", "optimizer", 0, 3072, 1, 0, "always", "-"},
    {"first_moment_input_layernorm", "(C)", "f32", "optimizer", 3072, 64, 2, 7808, "always", "-"},
    {"first_moment_q_proj", "(NH*HS,C)", "f32", "optimizer", 3136, 1024, 2, 7808, "always", "-"},
    {"first_moment_k_proj", "(KVH*HS,C)", "f32", "optimizer", 4160, 512, 2, 7808, "always", "-"},
    {"first_moment_v_proj", "(KVH*HS,C)", "f32", "optimizer", 4672, 512, 2, 7808, "always", "-"},
    {"first_moment_o_proj", "(C,NH*HS)", "f32", "optimizer", 5184, 1024, 2, 7808, "always", "-"},
    {"first_moment_post_attention_layernorm", "(C)", "f32", "optimizer", 6208, 64, 2, 7808, "always", "-"},
    {"first_moment_gate_proj", "(H,C)", "f32", "optimizer", 6272, 1536, 2, 7808, "always", "-"},
    {"first_moment_up_proj", "(H,C)", "f32", "optimizer", 7808, 1536, 2, 7808, "always", "-"},
    {"first_moment_down_proj", "(C,H)", "f32", "optimizer", 9344, 1536, 2, 7808, "always", "-"},
    {"first_moment_norm", "(C)", "f32", "optimizer", 18688, 64, 1, 0, "always", "-"},
    {"first_moment_lm_head", "(V,C)", "f32", "optimizer", 18752, 3072, 1, 0, "always", "-"},
    {"second_moment_embed_tokens", "(V,C)", "f32", "optimizer", 21824, 3072, 1, 0, "always", "-"},
    {"second_moment_input_layernorm", "(C)", "f32", "optimizer", 24896, 64, 2, 7808, "always", "-"},
    {"second_moment_q_proj", "(NH*HS,C)", "f32", "optimizer", 24960, 1024, 2, 7808, "always", "-"},
    {"second_moment_k_proj", "(KVH*HS,C)", "f32", "optimizer", 25984, 512, 2, 7808, "always", "-"},
    {"second_moment_v_proj", "(KVH*HS,C)", "f32", "optimizer", 26496, 512, 2, 7808, "always", "-"},
    {"second_moment_o_proj", "(C,NH*HS)", "f32", "optimizer", 27008, 1024, 2, 7808, "always", "-"},
    {"second_moment_post_attention_layernorm", "(C)", "f32", "optimizer", 28032, 64, 2, 7808, "always", "-"},
    {"second_moment_gate_proj", "(H,C)", "f32", "optimizer", 28096, 1536, 2, 7808, "always", "-"},
    {"second_moment_up_proj", "(H,C)", "f32", "optimizer", 29632, 1536, 2, 7808, "always", "-"},
    {"second_moment_down_proj", "(C,H)", "f32", "optimizer", 31168, 1536, 2, 7808, "always", "-"},
    {"second_moment_norm", "(C)", "f32", "optimizer", 40512, 64, 1, 0, "always", "-"},
    {"second_moment_lm_head", "(V,C)", "f32", "optimizer", 40576, 3072, 1, 0, "always", "-"},
    {"decoder_layer_saved.input_layernorm_rstd", "(B,T)", "f32", "saved", 0, 64, 2, 7552, "forward to backward", "-"},
    {"decoder_layer_saved.qkv_proj_rotated", "(B,T,(NH+2*KVH)*HS)", "f32", "saved", 64, 2048, 2, 7552,
    "forward to backward", "-"},
    {"decoder_layer_saved.sdpa", "(B,T,NH,HS)", "f32", "saved", 2112, 1024, 2, 7552, "forward to backward", "-"},
    {"decoder_layer_saved.sdpa_lse", "(B,NH,T)", "f32", "saved", 3136, 256, 2, 7552, "forward to backward", "-"},
    {"decoder_layer_saved.residual", "(B,T,C)", "f32", "saved", 3392, 1024, 2, 7552, "forward to backward", "-"},
    {"decoder_layer_saved.post_attention_layernorm_rstd", "(B,T)", "f32", "saved", 4416, 64, 2, 7552,
    "forward to backward", "-"},
    {"decoder_layer_saved.gate_up_proj", "(B,T,2*H)", "f32", "saved", 4480, 3072, 2, 7552, "forward to backward", "-"},
    {"decoder_layer_saved.x", "(B,T,C)", "f32", "saved", 15104, 1024, 2, 1024, "forward to backward", "-"},
    {"residual", "(B,T,C)", "f32", "saved", 17152, 1024, 1, 0, "forward to backward", "-"},
    {"forward_backward.lm_head", "(B,T,V)", "f32", "scratch", 0, 3072, 1, 0, "forward_backward, calls 4 to 7",
    "dlm_head, decoder_layer_forward.input_layernorm and 6 more"},
    {"forward_backward.dlm_head", "(B*T,V)", "f32", "scratch", 0, 3072, 1, 0, "forward_backward, calls 7 to 9",
    "lm_head, decoder_layer_forward.input_layernorm and 6 more"},
    {"decoder_layer_forward.input_layernorm", "(B,T,C)", "f32", "scratch", 0, 1024, 1, 0,
    "decoder_layer_forward, calls 1 to 2", "post_attention_layernorm, swiglu, forward_backward.lm_head and 3 more"},
    {"decoder_layer_forward.post_attention_layernorm", "(B,T,C)", "f32", "scratch", 0, 1024, 1, 0,
    "decoder_layer_forward, calls 6 to 7", "input_layernorm, swiglu, forward_backward.lm_head and 3 more"},
    {"decoder_layer_forward.swiglu", "(B,T,H)", "f32", "scratch", 0, 1536, 1, 0, "decoder_layer_forward, calls 8 to 9",
    "input_layernorm, post_attention_layernorm and 4 more"},
    {"decoder_layer_backward.dgate_up_proj", "(B,T,2*H)", "f32", "scratch", 0, 3072, 1, 0,
    "decoder_layer_backward, calls 2 to 6", "dqkv_proj, dsdpa, dinput_layernorm and 5 more"},
    {"decoder_layer_backward.dqkv_proj", "(B,T,(NH+2*KVH)*HS)", "f32", "scratch", 0, 2048, 1, 0,
    "decoder_layer_backward, calls 9 to 13", "dgate_up_proj, forward_backward.lm_head and 4 more"},
    {"decoder_layer_backward.dsdpa", "(B,T,NH*HS)", "f32", "scratch", 2048, 1024, 1, 0,
    "decoder_layer_backward, calls 7 to 9", "dgate_up_proj, dinput_layernorm, forward_backward.lm_head and 1 more"},
    {"decoder_layer_backward.dinput_layernorm", "(B,T,C)", "f32", "scratch", 2048, 1024, 1, 0,
    "decoder_layer_backward, calls 11 to 12", "dgate_up_proj, dsdpa, forward_backward.lm_head and 1 more"},
    {"forward_backward.norm", "(B,T,C)", "f32", "scratch", 3072, 1024, 1, 0, "forward_backward, calls 3 to 9",
    "decoder_layer_backward.dswiglu and 2 more"},
    {"decoder_layer_backward.dswiglu", "(B,T,H)", "f32", "scratch", 3072, 1536, 1, 0,
    "decoder_layer_backward, calls 1 to 2", "dpost_attention_layernorm, input_layernorm and 5 more"},
    {"decoder_layer_backward.dpost_attention_layernorm", "(B,T,C)", "f32", "scratch", 3072, 1024, 1, 0,
    "decoder_layer_backward, calls 4 to 5", "dswiglu, input_layernorm, forward_backward.norm"},
    {"decoder_layer_backward.input_layernorm", "(B,T,C)", "f32", "scratch", 3072, 1024, 1, 0,
    "decoder_layer_backward, calls 12 to 13", "dswiglu, dpost_attention_layernorm, forward_backward.norm"},
    {"forward_backward.loss", "scalar", "f32", "scratch", 4096, 4, 1, 0, "forward_backward, calls 5 to 6",
    "dnorm, decoder_layer_backward.dswiglu and 1 more"},
    {"forward_backward.dnorm", "(B,T,C)", "f32", "scratch", 4096, 1024, 1, 0, "forward_backward, calls 8 to 10",
    "loss, loss_lse, decoder_layer_backward.dswiglu and 2 more"},
    {"decoder_layer_backward.post_attention_layernorm", "(B,T,C)", "f32", "scratch", 4096, 1024, 1, 0,
    "decoder_layer_backward, calls 5 to 6", "dswiglu, swiglu, forward_backward.loss and 2 more"},
    {"forward_backward.loss_lse", "(B*T)", "f32", "scratch", 4160, 64, 1, 0, "forward_backward, calls 5 to 7",
    "dnorm, decoder_layer_backward.dswiglu and 1 more"},
    {"decoder_layer_backward.swiglu", "(B,T,H)", "f32", "scratch", 4608, 1536, 1, 0,
    "decoder_layer_backward, calls 2 to 3", "post_attention_layernorm, dresidual, forward_backward.dnorm and 1 more"},
    {"forward_backward.rstd", "(B,T,1)", "f32", "scratch", 5120, 64, 1, 0, "forward_backward, calls 3 to 10",
    "decoder_layer_backward.swiglu, decoder_layer_backward.dresidual"},
    {"decoder_layer_backward.dresidual", "(B,T,C)", "f32", "scratch", 5120, 1024, 1, 0,
    "decoder_layer_backward, calls 5 to 12", "swiglu, forward_backward.rstd"},
    {"forward_backward.dresidual", "(B,T,C)", "f32", "scratch", 6144, 1024, 1, 0, "forward_backward, calls 10 to 11",
    "dembed_tokens, dy_slot"},
    {"forward_backward.dembed_tokens", "(B,T,C)", "f32", "scratch", 6144, 1024, 1, 0,
    "forward_backward, calls 11 to 12", "dresidual, dy_slot"},
    {"forward_backward.dy_slot", "(B,T,C)", "f32", "scratch", 6144, 1024, 2, 1024, "forward_backward, calls 10 to 12",
    "dresidual, dembed_tokens"},
    {"cos", "(1,T,HS)", "f32", "constants", 0, 128, 1, 0, "always", "-"},
    {"sin", "(1,T,HS)", "f32", "constants", 128, 128, 1, 0, "always", "-"},
    {"input_ids", "(B,T)", "i64", "batch", 0, 128, 1, 0, "the micro-batch", "-"},
    {"labels", "(B,T)", "i64", "batch", 128, 128, 1, 0, "the micro-batch", "-"},
};

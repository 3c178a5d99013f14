// spec.cpp: the parameters, inputs and tables of noopt.logits, for the trainer.
#include "model.h"

using namespace thunder;

namespace {

constexpr std::int64_t SHAPE_1_8_4[] = {1, 8, 4};
constexpr std::int64_t SHAPE_2_8[] = {2, 8};
constexpr std::int64_t SHAPE_8_16[] = {8, 16};
constexpr std::int64_t SHAPE_16[] = {16};
constexpr std::int64_t SHAPE_16_16[] = {16, 16};
constexpr std::int64_t SHAPE_16_24[] = {16, 24};
constexpr std::int64_t SHAPE_24_16[] = {24, 16};
constexpr std::int64_t SHAPE_48_16[] = {48, 16};

using Init = ParameterSpec::Init;
constexpr ParameterSpec PARAMETERS[] = {
    // name, type, shape, offset and bytes in the arena, has a gradient, starts as
    {"model.embed_tokens.weight", DType::f32, SHAPE_48_16, 0, 3072, true, Init::normal},
    {"model.layers.0.input_layernorm.weight", DType::f32, SHAPE_16, 3072, 64, true, Init::ones},
    {"model.layers.0.self_attn.q_proj.weight", DType::f32, SHAPE_16_16, 3136, 1024, true, Init::normal},
    {"model.layers.0.self_attn.k_proj.weight", DType::f32, SHAPE_8_16, 4160, 512, true, Init::normal},
    {"model.layers.0.self_attn.v_proj.weight", DType::f32, SHAPE_8_16, 4672, 512, true, Init::normal},
    {"model.layers.0.self_attn.o_proj.weight", DType::f32, SHAPE_16_16, 5184, 1024, true, Init::normal},
    {"model.layers.0.post_attention_layernorm.weight", DType::f32, SHAPE_16, 6208, 64, true, Init::ones},
    {"model.layers.0.mlp.gate_proj.weight", DType::f32, SHAPE_24_16, 6272, 1536, true, Init::normal},
    {"model.layers.0.mlp.up_proj.weight", DType::f32, SHAPE_24_16, 7808, 1536, true, Init::normal},
    {"model.layers.0.mlp.down_proj.weight", DType::f32, SHAPE_16_24, 9344, 1536, true, Init::normal},
    {"model.layers.1.input_layernorm.weight", DType::f32, SHAPE_16, 10880, 64, true, Init::ones},
    {"model.layers.1.self_attn.q_proj.weight", DType::f32, SHAPE_16_16, 10944, 1024, true, Init::normal},
    {"model.layers.1.self_attn.k_proj.weight", DType::f32, SHAPE_8_16, 11968, 512, true, Init::normal},
    {"model.layers.1.self_attn.v_proj.weight", DType::f32, SHAPE_8_16, 12480, 512, true, Init::normal},
    {"model.layers.1.self_attn.o_proj.weight", DType::f32, SHAPE_16_16, 12992, 1024, true, Init::normal},
    {"model.layers.1.post_attention_layernorm.weight", DType::f32, SHAPE_16, 14016, 64, true, Init::ones},
    {"model.layers.1.mlp.gate_proj.weight", DType::f32, SHAPE_24_16, 14080, 1536, true, Init::normal},
    {"model.layers.1.mlp.up_proj.weight", DType::f32, SHAPE_24_16, 15616, 1536, true, Init::normal},
    {"model.layers.1.mlp.down_proj.weight", DType::f32, SHAPE_16_24, 17152, 1536, true, Init::normal},
    {"model.norm.weight", DType::f32, SHAPE_16, 18688, 64, true, Init::ones},
    {"lm_head.weight", DType::f32, SHAPE_48_16, 18752, 3072, true, Init::normal},
};

constexpr ConstantSpec CONSTANTS[] = {
    // name, type, shape, offset and bytes in the arena
    {"table_0", DType::f32, SHAPE_1_8_4, 0, 128},
    {"table_128", DType::f32, SHAPE_1_8_4, 128, 128},
};

constexpr InputSpec INPUTS[] = {
    // name, type, shape, offset and bytes in the arena, batched, ids below (-1: no ids), the id that is ignored where
    // there are ids, default of --map
    {"input_ids", DType::i64, SHAPE_2_8, 0, 128, true, 48, 0, "tokens"},
    {"labels", DType::i64, SHAPE_2_8, 128, 128, true, 48, -100, "next_tokens"},
};

constexpr std::string_view STREAMS[] = {
    "reduce",
};

constexpr ResultSpec RESULTS_OF_forward[] = {
    // which call, its name; field or number of the result; what the text calls it; module; shape; rows, width and
    // distance of rows in memory
    {0, "embedding_forward", "y", 0, "embed_tokens", "model.embed_tokens", "[2,8,16]", 1, 256, 256},
    {1, "rms_norm_forward", "", 0, "rstd", "model.norm", "[2,8,1]", 1, 16, 16},
    {1, "rms_norm_forward", "", 1, "norm", "model.norm", "[2,8,16]", 1, 256, 256},
    {2, "linear_forward", "y", 0, "lm_head", "lm_head", "[2,8,48]", 1, 768, 768},
    {3, "cross_entropy_forward", "lse", 1, "loss_lse", "loss", "[16]", 1, 16, 16},
};

constexpr ResultSpec RESULTS_OF_backward[] = {
    {0, "cross_entropy_backward", "dlogits", 0, "dlm_head", "loss", "[16,48]", 1, 768, 768},
    {1, "linear_backward_input", "dx", 0, "dnorm", "lm_head", "[2,8,16]", 1, 256, 256},
    {2, "linear_backward_weight", "dweight", 0, "g_lm_head", "lm_head", "[48,16]", 1, 768, 768},
    {3, "rms_norm_backward", "", 0, "dresidual", "model.norm", "[2,8,16]", 1, 256, 256},
    {3, "rms_norm_backward", "", 1, "g_norm", "model.norm", "[16]", 1, 16, 16},
    {4, "embedding_backward", "dweight", 0, "g_embed_tokens", "model.embed_tokens", "[48,16]", 1, 768, 768},
};

constexpr std::string_view MODULES_OF_decoder_layer_forward[] = {
    "model.layers.0",
    "model.layers.1",
};

constexpr ResultSpec RESULTS_OF_decoder_layer_forward[] = {
    {0, "rms_norm_forward", "", 0, "input_layernorm_rstd", "input_layernorm", "[2,8,1]", 1, 16, 16},
    {0, "rms_norm_forward", "", 1, "input_layernorm", "input_layernorm", "[2,8,16]", 1, 256, 256},
    {1, "linear_forward", "y", 0, "qkv_proj_rotated", "self_attn.{q,k,v}_proj", "[2,8,32]", 1, 512, 512},
    {2, "rotary", "", 0, "qkv_proj_rotated", "self_attn", "[2,8,32]", 1, 512, 512},
    {3, "attention_forward", "out", 0, "sdpa", "self_attn", "[2,8,4,4]", 1, 256, 256},
    {3, "attention_forward", "lse", 1, "sdpa_lse", "self_attn", "[2,4,8]", 1, 64, 64},
    {4, "linear_forward", "y", 0, "residual", "self_attn.o_proj", "[2,8,16]", 1, 256, 256},
    {5, "rms_norm_forward", "", 0, "post_attention_layernorm_rstd", "post_attention_layernorm", "[2,8,1]", 1, 16, 16},
    {5, "rms_norm_forward", "", 1, "post_attention_layernorm", "post_attention_layernorm", "[2,8,16]", 1, 256, 256},
    {6, "linear_forward", "y", 0, "gate_up_proj", "mlp.{gate,up}_proj", "[2,8,48]", 1, 768, 768},
    {7, "swiglu_forward", "", 0, "swiglu", "mlp", "[2,8,24]", 1, 384, 384},
    {8, "linear_forward", "y", 0, "y", "mlp.down_proj", "[2,8,16]", 1, 256, 256},
};

constexpr std::string_view MODULES_OF_decoder_layer_backward[] = {
    "model.layers.1",
    "model.layers.0",
};

constexpr ResultSpec RESULTS_OF_decoder_layer_backward[] = {
    {0, "linear_backward_input", "dx", 0, "dswiglu", "mlp.down_proj", "[2,8,24]", 1, 384, 384},
    {1, "swiglu_backward", "", 0, "swiglu", "mlp", "[2,8,24]", 1, 384, 384},
    {1, "swiglu_backward", "", 1, "dgate_up_proj", "mlp", "[2,8,48]", 1, 768, 768},
    {2, "linear_backward_weight", "dweight", 0, "g.down_proj", "mlp.down_proj", "[16,24]", 1, 384, 384},
    {3, "linear_backward_input", "dx", 0, "dpost_attention_layernorm", "mlp.{gate,up}_proj", "[2,8,16]", 1, 256, 256},
    {4, "rms_norm_backward_add", "", 0, "post_attention_layernorm", "post_attention_layernorm", "[2,8,16]", 1, 256,
        256},
    {4, "rms_norm_backward_add", "", 1, "dresidual", "post_attention_layernorm", "[2,8,16]", 1, 256, 256},
    {4, "rms_norm_backward_add", "", 2, "g.post_attention_layernorm", "post_attention_layernorm", "[16]", 1, 16, 16},
    {5, "linear_backward_weight", "dweight", 0, "g.gate_proj", "mlp.{gate,up}_proj", "[24,16]", 1, 384, 384},
    {6, "linear_backward_input", "dx", 0, "dsdpa", "self_attn.o_proj", "[2,8,16]", 1, 256, 256},
    {7, "linear_backward_weight", "dweight", 0, "g.o_proj", "self_attn.o_proj", "[16,16]", 1, 256, 256},
    {8, "attention_backward", "dq", 0, "dq_rotated", "self_attn", "[2,8,4,4]", 16, 16, 32},
    {8, "attention_backward", "dk", 1, "dk_rotated", "self_attn", "[2,8,2,4]", 16, 8, 32},
    {8, "attention_backward", "dv", 2, "dv_proj", "self_attn", "[2,8,2,4]", 16, 8, 32},
    {9, "rotary_inverse", "", 0, "dqkv_proj", "self_attn", "[2,8,32]", 1, 512, 512},
    {10, "linear_backward_input", "dx", 0, "dinput_layernorm", "self_attn.{q,k,v}_proj", "[2,8,16]", 1, 256, 256},
    {11, "rms_norm_backward_add", "", 0, "input_layernorm", "input_layernorm", "[2,8,16]", 1, 256, 256},
    {11, "rms_norm_backward_add", "", 1, "dx", "input_layernorm", "[2,8,16]", 1, 256, 256},
    {11, "rms_norm_backward_add", "", 2, "g.input_layernorm", "input_layernorm", "[16]", 1, 16, 16},
    {12, "linear_backward_weight", "dweight", 0, "g.q_proj", "self_attn.{q,k,v}_proj", "[16,16]", 1, 256, 256},
};

constexpr FunctionResults RESULTS[] = {
    // what --numerics looks at: function, modules, results
    {"forward", {}, RESULTS_OF_forward},
    {"backward", {}, RESULTS_OF_backward},
    {"decoder_layer_forward", MODULES_OF_decoder_layer_forward, RESULTS_OF_decoder_layer_forward},
    {"decoder_layer_backward", MODULES_OF_decoder_layer_backward, RESULTS_OF_decoder_layer_backward},
};

constexpr UpdateRange UPDATE_PARTS[] = {
    // part, layers, elements of the arena from and to, and from one layer's to the next one's
    {0, 1, 0, 768, 0},
    {1, 2, 768, 2720, 1952},
    {3, 1, 4672, 5456, 0},
};

}  // namespace

const ProgramSpec PROGRAM = {
    .name = "noopt.logits",
    .optimizer = "adamw",
    .parameters = PARAMETERS,
    .constants = CONSTANTS,
    .inputs = INPUTS,
    // parameters, gradients, optimizer, saved, scratch, constants, batch
    .arena_bytes = {21824, 21824, 43648, 18176, 8192, 256, 256},
    .batch = 2,
    .tokens = 16,
    .loss = Loss::mean,
    .token_entropy = true,
    .default_grad_accum = 1,
    .flops_per_micro_step = 474624,
    .providers = {.products = true, .attention = true},
    .tieable = {.embedding = "model.embed_tokens.weight", .logits = "lm_head.weight"},
    .results = RESULTS,
    .update_parts = UPDATE_PARTS,
    .mesh = {.replicas = 2, .shards = 1},
    .streams = STREAMS,
    .schedule =
        "1 x all_reduce bucket 0 of 784 over world in the last micro-step; "
        "1 x all_reduce bucket 1 of 3904 over world in the last micro-step, 2 layers backward, 2 at once; "
        "1 x all_reduce bucket 2 of 768 over world in the last micro-step; ",
};

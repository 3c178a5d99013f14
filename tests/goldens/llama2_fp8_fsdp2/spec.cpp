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
constexpr std::int64_t SHAPE_18[] = {18};
constexpr std::int64_t SHAPE_18_1024[] = {18, 1024};
constexpr std::int64_t SHAPE_24_16[] = {24, 16};
constexpr std::int64_t SHAPE_48_16[] = {48, 16};

using Init = ParameterSpec::Init;
constexpr ParameterSpec PARAMETERS[] = {
    // name, type, shape, offset and bytes in the arena, has a gradient, starts as; aliases, note, unit
    {"model.embed_tokens.weight", DType::f32, SHAPE_48_16, 0, 3072, true, Init::normal, {}, "", 0},
    {"model.layers.0.input_layernorm.weight", DType::f32, SHAPE_16, 0, 64, true, Init::ones, {}, "", 1},
    {"model.layers.0.post_attention_layernorm.weight", DType::f32, SHAPE_16, 128, 64, true, Init::ones, {}, "", 1},
    {"model.layers.1.input_layernorm.weight", DType::f32, SHAPE_16, 256, 64, true, Init::ones, {}, "", 1},
    {"model.layers.1.post_attention_layernorm.weight", DType::f32, SHAPE_16, 384, 64, true, Init::ones, {}, "", 1},
    {"model.norm.weight", DType::f32, SHAPE_16, 512, 64, true, Init::ones, {}, "", 1},
    {"model.layers.0.self_attn.q_proj.weight", DType::f32, SHAPE_16_16, 0, 1024, true, Init::normal, {}, "", 2},
    {"model.layers.0.self_attn.k_proj.weight", DType::f32, SHAPE_8_16, 1024, 512, true, Init::normal, {}, "", 2},
    {"model.layers.0.self_attn.v_proj.weight", DType::f32, SHAPE_8_16, 1536, 512, true, Init::normal, {}, "", 2},
    {"model.layers.0.self_attn.o_proj.weight", DType::f32, SHAPE_16_16, 2048, 1024, true, Init::normal, {}, "", 2},
    {"model.layers.0.mlp.gate_proj.weight", DType::f32, SHAPE_24_16, 3072, 1536, true, Init::normal, {}, "", 2},
    {"model.layers.0.mlp.up_proj.weight", DType::f32, SHAPE_24_16, 4608, 1536, true, Init::normal, {}, "", 2},
    {"model.layers.0.mlp.down_proj.weight", DType::f32, SHAPE_16_24, 6144, 1536, true, Init::normal, {}, "", 2},
    {"model.layers.1.self_attn.q_proj.weight", DType::f32, SHAPE_16_16, 0, 1024, true, Init::normal, {}, "", 3},
    {"model.layers.1.self_attn.k_proj.weight", DType::f32, SHAPE_8_16, 1024, 512, true, Init::normal, {}, "", 3},
    {"model.layers.1.self_attn.v_proj.weight", DType::f32, SHAPE_8_16, 1536, 512, true, Init::normal, {}, "", 3},
    {"model.layers.1.self_attn.o_proj.weight", DType::f32, SHAPE_16_16, 2048, 1024, true, Init::normal, {}, "", 3},
    {"model.layers.1.mlp.gate_proj.weight", DType::f32, SHAPE_24_16, 3072, 1536, true, Init::normal, {}, "", 3},
    {"model.layers.1.mlp.up_proj.weight", DType::f32, SHAPE_24_16, 4608, 1536, true, Init::normal, {}, "", 3},
    {"model.layers.1.mlp.down_proj.weight", DType::f32, SHAPE_16_24, 6144, 1536, true, Init::normal, {}, "", 3},
    {"lm_head.weight", DType::f32, SHAPE_48_16, 0, 3072, true, Init::normal, {}, "", 4},
};

constexpr ConstantSpec CONSTANTS[] = {
    // name, type, shape, offset and bytes in the arena
    {"table_0", DType::f32, SHAPE_1_8_4, 0, 128},
    {"table_128", DType::f32, SHAPE_1_8_4, 128, 128},
    {"table_256", DType::boolean, {}, 256, 1},
};

constexpr InputSpec INPUTS[] = {
    // name, type, shape, offset and bytes in the arena, batched, ids below (-1: no ids), the id that is ignored where
    // there are ids, default of --map
    {"input_ids", DType::i64, SHAPE_2_8, 0, 128, true, 48, 0, "tokens"},
    {"labels", DType::i64, SHAPE_2_8, 128, 128, true, 48, -100, "next_tokens"},
};

constexpr std::string_view SCALED_TENSORS[] = {
    "model.layers.0.self_attn.qkv_proj.input",
    "model.layers.1.self_attn.qkv_proj.input",
    "model.layers.0.self_attn.o_proj.input",
    "model.layers.1.self_attn.o_proj.input",
    "model.layers.0.mlp.gate_up_proj.input",
    "model.layers.1.mlp.gate_up_proj.input",
    "model.layers.0.mlp.gate_up_proj.gradient",
    "model.layers.1.mlp.gate_up_proj.gradient",
    "model.layers.0.self_attn.o_proj.gradient",
    "model.layers.1.self_attn.o_proj.gradient",
    "model.layers.0.self_attn.qkv_proj.gradient",
    "model.layers.1.self_attn.qkv_proj.gradient",
    "model.layers.0.self_attn.qkv_proj.weight",
    "model.layers.1.self_attn.qkv_proj.weight",
    "model.layers.0.self_attn.o_proj.weight",
    "model.layers.1.self_attn.o_proj.weight",
    "model.layers.0.mlp.gate_up_proj.weight",
    "model.layers.1.mlp.gate_up_proj.weight",
};

constexpr ParameterSpec SCALING_STATES[] = {
    // of all of these, in the arena of scales, whole on each rank
    {"scale", DType::f32, SHAPE_18, 72, 72, false, Init::ones},
    {"history", DType::f32, SHAPE_18_1024, 144, 73728, false, Init::zeros},
};

constexpr UnitSpec UNITS[] = {
    // name, elements of a shard, its offset in the arena in bytes, type
    {"model.embed_tokens", 384, 0, DType::f32},
    {"norms", 96, 1536, DType::f32},
    {"layers.0", 960, 1920, DType::f32},
    {"layers.1", 960, 5760, DType::f32},
    {"lm_head", 384, 9600, DType::f32},
};

constexpr std::string_view STREAMS[] = {
    "gather",
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
    {0, "rms_norm_forward_fp8", "", 0, "input_layernorm_rstd", "input_layernorm", "[2,8,1]", 1, 16, 16},
    {0, "rms_norm_forward_fp8", "", 1, "input_layernorm_e4m3", "input_layernorm", "[2,8,16]", 1, 256, 256},
    {0, "rms_norm_forward_fp8", "", 2, "input_layernorm_maxima", "input_layernorm", "[2,8]", 1, 16, 16},
    {2, "fp8_quantise", "q", 2, "qkv_proj_weight_e4m3", "self_attn.{q,k,v}_proj", "[32,16]", 1, 512, 512},
    {3, "fp8_product", "c", 0, "qkv_proj_rotated", "self_attn.{q,k,v}_proj", "[2,8,32]", 1, 512, 512},
    {4, "rotary", "", 0, "qkv_proj_rotated", "self_attn", "[2,8,32]", 1, 512, 512},
    {5, "attention_forward", "out", 0, "sdpa", "self_attn", "[2,8,4,4]", 1, 256, 256},
    {5, "attention_forward", "lse", 1, "sdpa_lse", "self_attn", "[2,4,8]", 1, 64, 64},
    {6, "fp8_quantise", "q", 2, "sdpa_e4m3", "self_attn.o_proj", "[2,8,16]", 1, 256, 256},
    {7, "fp8_quantise", "q", 2, "o_proj_weight_e4m3", "self_attn.o_proj", "[16,16]", 1, 256, 256},
    {8, "fp8_product", "c", 0, "residual", "self_attn.o_proj", "[2,8,16]", 1, 256, 256},
    {9, "rms_norm_forward_fp8", "", 0, "post_attention_layernorm_rstd", "post_attention_layernorm", "[2,8,1]", 1, 16,
        16},
    {9, "rms_norm_forward_fp8", "", 1, "post_attention_layernorm_e4m3", "post_attention_layernorm", "[2,8,16]", 1, 256,
        256},
    {9, "rms_norm_forward_fp8", "", 2, "post_attention_layernorm_maxima", "post_attention_layernorm", "[2,8]", 1, 16,
        16},
    {11, "fp8_quantise", "q", 2, "gate_up_proj_weight_e4m3", "mlp.{gate,up}_proj", "[48,16]", 1, 768, 768},
    {12, "fp8_product", "c", 0, "gate_up_proj", "mlp.{gate,up}_proj", "[2,8,48]", 1, 768, 768},
    {13, "swiglu_forward", "", 0, "swiglu", "mlp", "[2,8,24]", 1, 384, 384},
    {14, "linear_forward", "y", 0, "y", "mlp.down_proj", "[2,8,16]", 1, 256, 256},
};

constexpr std::string_view MODULES_OF_decoder_layer_backward[] = {
    "model.layers.1",
    "model.layers.0",
};

constexpr ResultSpec RESULTS_OF_decoder_layer_backward[] = {
    {0, "linear_backward_input", "dx", 0, "dswiglu", "mlp.down_proj", "[2,8,24]", 1, 384, 384},
    {1, "mlp_backward", "", 0, "swiglu", "mlp", "[2,8,24]", 1, 384, 384},
    {1, "mlp_backward", "", 1, "dgate_up_proj_e5m2", "mlp", "[2,8,48]", 1, 768, 768},
    {1, "mlp_backward", "", 2, "dgate_up_proj_maxima", "mlp", "[2,8]", 1, 16, 16},
    {2, "linear_backward_weight", "dweight", 0, "g.down_proj", "mlp.down_proj", "[16,24]", 1, 384, 384},
    {3, "fp8_finish", "q_transposed", 2, "dgate_up_proj_e5m2_transposed", "mlp.{gate,up}_proj", "[48,16]", 1, 768, 768},
    {4, "fp8_quantise", "q_transposed", 1, "gate_up_proj_weight_e4m3_transposed", "mlp.{gate,up}_proj", "[16,48]", 1,
        768, 768},
    {5, "fp8_product", "c", 0, "dpost_attention_layernorm", "mlp.{gate,up}_proj", "[2,8,16]", 1, 256, 256},
    {6, "rms_norm_backward_add_fp8", "", 0, "post_attention_layernorm_e4m3", "post_attention_layernorm", "[2,8,16]", 1,
        256, 256},
    {6, "rms_norm_backward_add_fp8", "", 1, "dresidual", "post_attention_layernorm", "[2,8,16]", 1, 256, 256},
    {6, "rms_norm_backward_add_fp8", "", 2, "dresidual_e5m2", "post_attention_layernorm", "[2,8,16]", 1, 256, 256},
    {6, "rms_norm_backward_add_fp8", "", 3, "dresidual_maxima", "post_attention_layernorm", "[2,8]", 1, 16, 16},
    {6, "rms_norm_backward_add_fp8", "", 4, "g.post_attention_layernorm", "post_attention_layernorm", "[16]", 1, 16,
        16},
    {7, "fp8_finish", "q_transposed", 1, "post_attention_layernorm_e4m3_transposed", "mlp.{gate,up}_proj", "[16,16]", 1,
        256, 256},
    {8, "fp8_product", "c", 0, "g.gate_proj", "mlp.{gate,up}_proj", "[24,16]", 1, 384, 384},
    {9, "fp8_finish", "q_transposed", 2, "dresidual_e5m2_transposed", "self_attn.o_proj", "[16,16]", 1, 256, 256},
    {10, "fp8_quantise", "q_transposed", 1, "o_proj_weight_e4m3_transposed", "self_attn.o_proj", "[16,16]", 1, 256,
        256},
    {11, "fp8_product", "c", 0, "dsdpa", "self_attn.o_proj", "[2,8,16]", 1, 256, 256},
    {12, "fp8_quantise", "q_transposed", 1, "sdpa_e4m3_transposed", "self_attn.o_proj", "[16,16]", 1, 256, 256},
    {13, "fp8_product", "c", 0, "g.o_proj", "self_attn.o_proj", "[16,16]", 1, 256, 256},
    {14, "attention_backward", "dq", 0, "dq_rotated", "self_attn", "[2,8,4,4]", 16, 16, 32},
    {14, "attention_backward", "dk", 1, "dk_rotated", "self_attn", "[2,8,2,4]", 16, 8, 32},
    {14, "attention_backward", "dv", 2, "dv_proj", "self_attn", "[2,8,2,4]", 16, 8, 32},
    {15, "rotary_inverse", "", 0, "dqkv_proj", "self_attn", "[2,8,32]", 1, 512, 512},
    {16, "fp8_quantise", "q", 2, "dqkv_proj_e5m2", "self_attn.{q,k,v}_proj", "[2,8,32]", 1, 512, 512},
    {16, "fp8_quantise", "q_transposed", 3, "dqkv_proj_e5m2_transposed", "self_attn.{q,k,v}_proj", "[32,16]", 1, 512,
        512},
    {17, "fp8_quantise", "q_transposed", 1, "qkv_proj_weight_e4m3_transposed", "self_attn.{q,k,v}_proj", "[16,32]", 1,
        512, 512},
    {18, "fp8_product", "c", 0, "dinput_layernorm", "self_attn.{q,k,v}_proj", "[2,8,16]", 1, 256, 256},
    {19, "input_layernorm_rms_norm_backward_add_fp8", "", 0, "input_layernorm_e4m3", "input_layernorm", "[2,8,16]", 1,
        256, 256},
    {19, "input_layernorm_rms_norm_backward_add_fp8", "", 1, "dx", "input_layernorm", "[2,8,16]", 1, 256, 256},
    {19, "input_layernorm_rms_norm_backward_add_fp8", "", 2, "g.input_layernorm", "input_layernorm", "[16]", 1, 16, 16},
    {20, "fp8_finish", "q_transposed", 1, "input_layernorm_e4m3_transposed", "self_attn.{q,k,v}_proj", "[16,16]", 1,
        256, 256},
    {21, "fp8_product", "c", 0, "g.q_proj", "self_attn.{q,k,v}_proj", "[16,16]", 1, 256, 256},
};

constexpr FunctionResults RESULTS[] = {
    // what --numerics looks at: function, modules, results
    {"forward", {}, RESULTS_OF_forward},
    {"backward", {}, RESULTS_OF_backward},
    {"decoder_layer_forward", MODULES_OF_decoder_layer_forward, RESULTS_OF_decoder_layer_forward},
    {"decoder_layer_backward", MODULES_OF_decoder_layer_backward, RESULTS_OF_decoder_layer_backward},
};

}  // namespace

const ProgramSpec PROGRAM = {
    .name = "noopt.logits",
    .optimizer = "adamw",
    .parameters = PARAMETERS,
    .constants = CONSTANTS,
    .inputs = INPUTS,
    // parameters, gradients, optimizer, saved, scratch, constants, batch, narrow_copies, gathered, unit_gradients,
    // scaling
    .arena_bytes = {11136, 11136, 22272, 9472, 3968, 320, 256, 5568, 11520, 22272, 73872},
    .gradient_dtype = DType::f32,
    .optimizer_dtype = DType::f32,
    .compute = DType::bf16,
    .batch = 2,
    .tokens = 16,
    .loss = Loss::mean,
    .token_entropy = true,
    .default_grad_accum = 1,
    .flops_per_micro_step = 474624,
    .providers = {.products = true, .attention = true},
    .tieable = {.embedding = "model.embed_tokens.weight", .logits = "lm_head.weight"},
    .scaling = {.recipe = "delayed", .tensors = SCALED_TENSORS, .states = SCALING_STATES},
    .results = RESULTS,
    .mesh = {.replicas = 1, .shards = 2},
    .units = UNITS,
    .streams = STREAMS,
    .schedule =
        "1 x all_gather model.embed tokens of 768 over shard in the first micro-step; "
        "1 x all_gather norms of 192 over shard in the first micro-step; "
        "1 x all_gather lm head of 768 over shard in the first micro-step; "
        "2 x all_gather layers of 1920 over shard, 2 layers forward, 1 ahead, 2 slots; "
        "1 x reduce_scatter lm head gradients of 768 over shard; "
        "2 x reduce_scatter layers gradients of 1920 over shard, 2 layers backward; "
        "1 x reduce_scatter norms gradients of 192 over shard; "
        "1 x reduce_scatter model.embed tokens gradients of 768 over shard; "
        "1 x all_reduce norm of 1 over shard in the update; ",
};

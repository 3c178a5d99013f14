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

}  // namespace

const ProgramSpec PROGRAM = {
    .name = "noopt.logits",
    .optimizer = "adamw",
    .parameters = PARAMETERS,
    .constants = CONSTANTS,
    .inputs = INPUTS,
    // parameters, gradients, optimizer, saved, scratch, constants, batch, narrow_copies, gathered, unit_gradients,
    // scaling
    .arena_bytes = {11136, 11136, 22272, 9472, 4160, 320, 256, 5568, 11520, 22272, 73872},
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

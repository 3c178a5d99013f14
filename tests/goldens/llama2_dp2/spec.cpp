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
    .mesh = {.replicas = 2, .shards = 1},
    .streams = STREAMS,
    .schedule =
        "1 x all_reduce bucket 0 of 784 over world in the last micro-step; "
        "1 x all_reduce bucket 1 of 3904 over world in the last micro-step, 2 layers backward, 2 at once; "
        "1 x all_reduce bucket 2 of 768 over world in the last micro-step; ",
};

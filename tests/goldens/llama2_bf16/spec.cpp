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
    {"model.layers.0.self_attn.q_proj.weight", DType::f32, SHAPE_16_16, 3200, 1024, true, Init::normal},
    {"model.layers.0.self_attn.k_proj.weight", DType::f32, SHAPE_8_16, 4224, 512, true, Init::normal},
    {"model.layers.0.self_attn.v_proj.weight", DType::f32, SHAPE_8_16, 4736, 512, true, Init::normal},
    {"model.layers.0.self_attn.o_proj.weight", DType::f32, SHAPE_16_16, 5248, 1024, true, Init::normal},
    {"model.layers.0.post_attention_layernorm.weight", DType::f32, SHAPE_16, 6272, 64, true, Init::ones},
    {"model.layers.0.mlp.gate_proj.weight", DType::f32, SHAPE_24_16, 6400, 1536, true, Init::normal},
    {"model.layers.0.mlp.up_proj.weight", DType::f32, SHAPE_24_16, 7936, 1536, true, Init::normal},
    {"model.layers.0.mlp.down_proj.weight", DType::f32, SHAPE_16_24, 9472, 1536, true, Init::normal},
    {"model.layers.1.input_layernorm.weight", DType::f32, SHAPE_16, 11008, 64, true, Init::ones},
    {"model.layers.1.self_attn.q_proj.weight", DType::f32, SHAPE_16_16, 11136, 1024, true, Init::normal},
    {"model.layers.1.self_attn.k_proj.weight", DType::f32, SHAPE_8_16, 12160, 512, true, Init::normal},
    {"model.layers.1.self_attn.v_proj.weight", DType::f32, SHAPE_8_16, 12672, 512, true, Init::normal},
    {"model.layers.1.self_attn.o_proj.weight", DType::f32, SHAPE_16_16, 13184, 1024, true, Init::normal},
    {"model.layers.1.post_attention_layernorm.weight", DType::f32, SHAPE_16, 14208, 64, true, Init::ones},
    {"model.layers.1.mlp.gate_proj.weight", DType::f32, SHAPE_24_16, 14336, 1536, true, Init::normal},
    {"model.layers.1.mlp.up_proj.weight", DType::f32, SHAPE_24_16, 15872, 1536, true, Init::normal},
    {"model.layers.1.mlp.down_proj.weight", DType::f32, SHAPE_16_24, 17408, 1536, true, Init::normal},
    {"model.norm.weight", DType::f32, SHAPE_16, 18944, 64, true, Init::ones},
    {"lm_head.weight", DType::f32, SHAPE_48_16, 19072, 3072, true, Init::normal},
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

}  // namespace

const ProgramSpec PROGRAM = {
    .name = "noopt.logits",
    .optimizer = "adamw",
    .parameters = PARAMETERS,
    .constants = CONSTANTS,
    .inputs = INPUTS,
    // parameters, gradients, optimizer, saved, scratch, constants, batch, narrow_copies
    .arena_bytes = {22144, 22144, 44288, 9472, 4096, 256, 256, 11072},
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
};

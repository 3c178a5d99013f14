// spec.cpp: the parameters, inputs and tables of dynamo.logits, for the trainer.
#include "model.h"

using namespace thunder;

namespace {

constexpr std::int64_t SHAPE_4[] = {4};
constexpr std::int64_t SHAPE_4_12[] = {4, 12};
constexpr std::int64_t SHAPE_5[] = {5};
constexpr std::int64_t SHAPE_5_16[] = {5, 16};
constexpr std::int64_t SHAPE_16[] = {16};
constexpr std::int64_t SHAPE_16_12[] = {16, 12};
constexpr std::int64_t SHAPE_16_16[] = {16, 16};

using Init = ParameterSpec::Init;
constexpr ParameterSpec PARAMETERS[] = {
    // name, type, shape, offset and bytes in the arena, has a gradient, starts as
    {"net.0.weight", DType::f32, SHAPE_16_12, 0, 768, true, Init::normal},
    {"net.0.bias", DType::f32, SHAPE_16, 768, 64, true, Init::zeros},
    {"net.2.weight", DType::f32, SHAPE_16_16, 832, 1024, true, Init::normal},
    {"net.2.bias", DType::f32, SHAPE_16, 1856, 64, true, Init::zeros},
    {"net.4.weight", DType::f32, SHAPE_5_16, 1920, 320, true, Init::normal},
    {"net.4.bias", DType::f32, SHAPE_5, 2240, 20, true, Init::zeros},
};

constexpr InputSpec INPUTS[] = {
    // name, type, shape, offset and bytes in the arena, batched, ids below (-1: no ids), the id that is ignored where
    // there are ids, default of --map
    {"x", DType::f32, SHAPE_4_12, 0, 192, true, -1, 0, ""},
    {"labels", DType::i64, SHAPE_4, 192, 32, true, 5, -100, ""},
};

}  // namespace

const ProgramSpec PROGRAM = {
    .name = "dynamo.logits",
    .optimizer = "adamw",
    .parameters = PARAMETERS,
    .constants = {},
    .inputs = INPUTS,
    // parameters, gradients, optimizer, saved, scratch, constants, batch
    .arena_bytes = {2304, 2304, 4608, 0, 1024, 0, 256},
    .batch = 4,
    .tokens = 4,
    .loss = Loss::mean,
    .counts_hits = true,
    .default_grad_accum = 1,
    .flops_per_micro_step = 11136,
    .providers = {.products = true},
};

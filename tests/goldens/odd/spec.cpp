// spec.cpp: the parameters, inputs and tables of tides.loss, for the trainer.
#include "model.h"

using namespace thunder;

namespace {

constexpr std::int64_t SHAPE_6_1[] = {6, 1};
constexpr std::int64_t SHAPE_6_10[] = {6, 10};
constexpr std::int64_t SHAPE_10[] = {10};
constexpr std::int64_t SHAPE_10_6[] = {10, 6};

using Init = ParameterSpec::Init;
constexpr ParameterSpec PARAMETERS[] = {
    // name, type, shape, offset and bytes in the arena, has a gradient, starts as
    {"basins.0.period", DType::f32, SHAPE_10, 0, 40, true, Init::ones},
    {"basins.0.level", DType::f32, SHAPE_6_1, 64, 24, true, Init::zeros},
    {"basins.1.period", DType::f32, SHAPE_10, 128, 40, true, Init::ones},
    {"basins.1.level", DType::f32, SHAPE_6_1, 192, 24, true, Init::zeros},
    {"shore.slope", DType::f32, SHAPE_10_6, 256, 240, true, Init::normal},
};

constexpr InputSpec INPUTS[] = {
    // name, type, shape, offset and bytes in the arena, batched, ids below (-1: no ids), the id that is ignored where
    // there are ids, default of --map
    {"gauge", DType::f32, SHAPE_6_10, 0, 240, true, -1, 0, ""},
};

}  // namespace

const ProgramSpec PROGRAM = {
    .name = "tides.loss",
    .optimizer = "adamw",
    .parameters = PARAMETERS,
    .constants = {},
    .inputs = INPUTS,
    // parameters, gradients, optimizer, saved, scratch, constants, batch
    .arena_bytes = {512, 512, 1024, 0, 3328, 0, 256},
    .batch = 6,
    .tokens = 6,
    .loss = Loss::average,
    .default_grad_accum = 1,
    .flops_per_micro_step = 0,
};

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

constexpr ResultSpec RESULTS_OF_forward[] = {
    // which call, its name; field or number of the result; what the text calls it; module; shape; rows, width and
    // distance of rows in memory
    {0, "basins_forward", "", 0, "largest", "", "[6,1]", 1, 6, 6},
    {0, "basins_forward", "", 1, "added", "", "[6,10]", 1, 60, 60},
    {0, "basins_forward", "", 2, "softplus", "", "[6,10]", 1, 60, 60},
    {0, "basins_forward", "", 3, "sigmoid", "", "[6,10]", 1, 60, 60},
    {0, "basins_forward", "", 4, "cosine", "", "[6,10]", 1, 60, 60},
    {0, "basins_forward", "", 5, "sigmoid_2", "", "[6,10]", 1, 60, 60},
    {0, "basins_forward", "", 6, "cosine_2", "", "[6,10]", 1, 60, 60},
    {1, "log_sum_rows", "", 0, "largest_2", "", "[6,1]", 1, 6, 6},
    {1, "log_sum_rows", "", 1, "added_3", "", "[6,10]", 1, 60, 60},
    {1, "log_sum_rows", "", 2, "logarithm", "", "[6,10]", 1, 60, 60},
    {1, "log_sum_rows", "", 3, "total_2", "", "[6,1]", 1, 6, 6},
    {2, "shore_forward", "", 0, "total", "", "[6]", 1, 6, 6},
    {2, "shore_forward", "", 1, "sine", "", "[10,6]", 1, 60, 60},
    {3, "loss_forward_backward", "", 1, "dtotal", "", "[6]", 1, 6, 6},
};

constexpr ResultSpec RESULTS_OF_backward[] = {
    {0, "shore_slope_and_basins_1_period_gradients", "", 0, "g_shore_slope", "", "[10,6]", 1, 60, 60},
    {0, "shore_slope_and_basins_1_period_gradients", "", 1, "dadded_2", "", "[6,10]", 1, 60, 60},
    {0, "shore_slope_and_basins_1_period_gradients", "", 2, "dbasins_1_level_terms", "", "[6,10]", 1, 60, 60},
    {0, "shore_slope_and_basins_1_period_gradients", "", 3, "dadded_part_2", "", "[6,10]", 1, 60, 60},
    {0, "shore_slope_and_basins_1_period_gradients", "", 4, "g_basins_1_period", "", "[10]", 1, 10, 10},
    {1, "basins_1_level_gradient", "", 0, "g_basins_1_level", "", "[6,1]", 1, 6, 6},
    {2, "basins_0_level_gradient", "", 0, "g_basins_0_level", "", "[6,1]", 1, 6, 6},
    {2, "basins_0_level_gradient", "", 1, "dbasins_0_period_terms", "", "[6,10]", 1, 60, 60},
    {3, "basins_0_period_gradient", "", 0, "g_basins_0_period", "", "[10]", 1, 10, 10},
};

constexpr FunctionResults RESULTS[] = {
    // what --numerics looks at: function, modules, results
    {"forward", {}, RESULTS_OF_forward},
    {"backward", {}, RESULTS_OF_backward},
};

constexpr UpdateRange UPDATE_PARTS[] = {
    // part, layers, elements of the arena from and to, and from one layer's to the next one's
    {0, 1, 0, 54, 0},
    {0, 1, 64, 124, 0},
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
    .results = RESULTS,
    .update_parts = UPDATE_PARTS,
};

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

constexpr ResultSpec RESULTS_OF_forward[] = {
    // which call, its name; field or number of the result; what the text calls it; module; shape; rows, width and
    // distance of rows in memory
    {0, "linear_forward", "y", 0, "relu", "net", "[4,16]", 1, 64, 64},
    {1, "linear_forward", "y", 0, "tanh", "net", "[4,16]", 1, 64, 64},
    {2, "linear_forward", "y", 0, "linear_3", "net.4", "[4,5]", 1, 20, 20},
    {3, "cross_entropy_forward", "lse", 1, "loss_lse", "loss", "[4]", 1, 4, 4},
};

constexpr ResultSpec RESULTS_OF_backward[] = {
    {0, "cross_entropy_backward", "dlogits", 0, "dlinear_3", "loss", "[4,5]", 1, 20, 20},
    {1, "linear_backward_input", "dx", 0, "dtanh", "net.4", "[4,16]", 1, 64, 64},
    {2, "linear_backward_weight", "dweight", 0, "g_net_4", "net.4", "[5,16]", 1, 80, 80},
    {2, "linear_backward_weight", "dbias", 1, "g_net_4_bias", "net.4", "[5]", 1, 5, 5},
    {3, "net_tanh_backward", "", 0, "dlinear_2", "net.3", "[4,16]", 1, 64, 64},
    {4, "linear_backward_input", "dx", 0, "drelu", "net.2", "[4,16]", 1, 64, 64},
    {5, "linear_backward_weight", "dweight", 0, "g_net_2", "net.2", "[16,16]", 1, 256, 256},
    {5, "linear_backward_weight", "dbias", 1, "g_net_2_bias", "net.2", "[16]", 1, 16, 16},
    {6, "net_relu_backward", "", 0, "dlinear", "net.1", "[4,16]", 1, 64, 64},
    {7, "linear_backward_weight", "dweight", 0, "g_net_0", "net.0", "[16,12]", 1, 192, 192},
    {7, "linear_backward_weight", "dbias", 1, "g_net_0_bias", "net.0", "[16]", 1, 16, 16},
};

constexpr FunctionResults RESULTS[] = {
    // what --numerics looks at: function, modules, results
    {"forward", {}, RESULTS_OF_forward},
    {"backward", {}, RESULTS_OF_backward},
};

constexpr UpdateRange UPDATE_PARTS[] = {
    // part, layers, elements of the arena from and to, and from one layer's to the next one's
    {0, 1, 0, 565, 0},
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
    .results = RESULTS,
    .update_parts = UPDATE_PARTS,
};

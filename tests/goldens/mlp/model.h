// dynamo.logits: sizes, tensors and where they lie; the functions of a training step.
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
inline constexpr std::int64_t PARAMETER_BYTES = 2304;

// The tensor at a byte offset of an arena.
template <typename Element>
inline Element* at(std::byte* arena, std::int64_t offset) {
    return reinterpret_cast<Element*>(arena + offset);
}

// ---- update parts ---------------------------------------------------------------------------------------------------
// The parameters, cut where the forward pass waits for their update, in this order; of layers each is a part.
// UPDATE_PARTS in spec.cpp says which lie in which.
namespace update_part {
inline constexpr std::int64_t net = 0;
}

// ---- offsets --------------------------------------------------------------------------------------------------------
// In bytes from the start of an arena, or of a layer's scratch: by function, then by the name of the tensor in it.
namespace layout::forward_backward {
inline constexpr std::int64_t x = 0;
inline constexpr std::int64_t labels = 192;
inline constexpr std::int64_t w_net_0 = 0;
inline constexpr std::int64_t w_net_0_bias = 768;
inline constexpr std::int64_t w_net_2 = 832;
inline constexpr std::int64_t w_net_2_bias = 1856;
inline constexpr std::int64_t w_net_4 = 1920;
inline constexpr std::int64_t w_net_4_bias = 2240;
inline constexpr std::int64_t relu = 0;
inline constexpr std::int64_t tanh = 256;
inline constexpr std::int64_t linear_3 = 768;
inline constexpr std::int64_t loss = 512;
inline constexpr std::int64_t loss_lse = 576;
inline constexpr std::int64_t g_net_4 = 1920;
inline constexpr std::int64_t g_net_4_bias = 2240;
inline constexpr std::int64_t g_net_2 = 832;
inline constexpr std::int64_t g_net_2_bias = 1856;
inline constexpr std::int64_t g_net_0 = 0;
inline constexpr std::int64_t g_net_0_bias = 768;
inline constexpr std::int64_t dlinear_3 = 768;
inline constexpr std::int64_t dtanh = 512;
inline constexpr std::int64_t dlinear_2 = 768;
inline constexpr std::int64_t drelu = 256;
inline constexpr std::int64_t dlinear = 512;
}
namespace layout::loss_weight {
inline constexpr std::int64_t labels = 192;
}
namespace layout::evaluate {
inline constexpr std::int64_t x = 0;
inline constexpr std::int64_t labels = 192;
inline constexpr std::int64_t w_net_0 = 0;
inline constexpr std::int64_t w_net_0_bias = 768;
inline constexpr std::int64_t w_net_2 = 832;
inline constexpr std::int64_t w_net_2_bias = 1856;
inline constexpr std::int64_t w_net_4 = 1920;
inline constexpr std::int64_t w_net_4_bias = 2240;
inline constexpr std::int64_t relu = 0;
inline constexpr std::int64_t tanh = 256;
inline constexpr std::int64_t linear = 0;
inline constexpr std::int64_t loss = 128;
inline constexpr std::int64_t loss_lse = 192;
}

// ---- model.cpp ------------------------------------------------------------------------------------------------------
class Model {
  public:
    Model(const thunder::TrainingArenas& arenas, thunder::Stream& stream) : arenas_(arenas), stream_(stream) {}

    // Adds the weight of the micro-batch's loss to the step's.
    void loss_weight();
    // Adds the loss of the micro-batch to the step's.
    void forward(thunder::WriteMode mode);
    // Its gradients, overwritten in the first micro-step and added to later.
    void backward(thunder::WriteMode mode);
    // One micro-step.
    void forward_backward(thunder::WriteMode mode) {
        forward(mode);
        backward(mode);
    }
    // The norm of the gradients, and the factor that clips them.
    void clip();
    // The optimizer's step, of a part of the parameters.
    void update(const thunder::UpdatePart& part, thunder::Stream& stream);
    // The model in evaluation, for batches that are not trained on: adds up the loss of one.
    void evaluate();

  private:
    thunder::TrainingArenas arenas_;
    thunder::Stream& stream_;
};
extern const thunder::ProgramSpec PROGRAM;  // spec.cpp

// ---- LAYOUT ---------------------------------------------------------------------------------------------------------
// Every tensor that the program names; one that is kept in the place of a layer's, as what enters a loop is in that of
// the first layer's input, is in that row. `shape` is in the names of sizes.h, as far as these go; `offset` is in bytes
// from the start of the arena, `bytes` of one tensor. A tensor of n `layers` lies n times, one `stride` of bytes apart.
// `lifetime` says when its bytes hold it: in the arena `scratch` from one call to another in the text of a function in
// blocks.cpp or model.cpp, whose calls are counted from 1, on from forward to backward, a loop over layers as one call.
// `shares` names tensors that have some of the same bytes at other times, those of the same function without its name
// and first.
struct LayoutRow {
    const char *name, *shape, *type, *arena;
    std::size_t offset, bytes;
    std::int64_t layers;
    std::size_t stride;
    const char *lifetime, *shares;
};
inline constexpr LayoutRow LAYOUT[] = {
    {"w_net_0", "(16,12)", "f32", "parameters", 0, 768, 1, 0, "always", "-"},
    {"w_net_0_bias", "(16)", "f32", "parameters", 768, 64, 1, 0, "always", "-"},
    {"w_net_2", "(16,16)", "f32", "parameters", 832, 1024, 1, 0, "always", "-"},
    {"w_net_2_bias", "(16)", "f32", "parameters", 1856, 64, 1, 0, "always", "-"},
    {"w_net_4", "(5,16)", "f32", "parameters", 1920, 320, 1, 0, "always", "-"},
    {"w_net_4_bias", "(5)", "f32", "parameters", 2240, 20, 1, 0, "always", "-"},
    {"g_net_0", "(16,12)", "f32", "gradients", 0, 768, 1, 0, "always", "-"},
    {"g_net_0_bias", "(16)", "f32", "gradients", 768, 64, 1, 0, "always", "-"},
    {"g_net_2", "(16,16)", "f32", "gradients", 832, 1024, 1, 0, "always", "-"},
    {"g_net_2_bias", "(16)", "f32", "gradients", 1856, 64, 1, 0, "always", "-"},
    {"g_net_4", "(5,16)", "f32", "gradients", 1920, 320, 1, 0, "always", "-"},
    {"g_net_4_bias", "(5)", "f32", "gradients", 2240, 20, 1, 0, "always", "-"},
    {"first_moment_net_0", "(16,12)", "f32", "optimizer", 0, 768, 1, 0, "always", "-"},
    {"first_moment_net_0_bias", "(16)", "f32", "optimizer", 768, 64, 1, 0, "always", "-"},
    {"first_moment_net_2", "(16,16)", "f32", "optimizer", 832, 1024, 1, 0, "always", "-"},
    {"first_moment_net_2_bias", "(16)", "f32", "optimizer", 1856, 64, 1, 0, "always", "-"},
    {"first_moment_net_4", "(5,16)", "f32", "optimizer", 1920, 320, 1, 0, "always", "-"},
    {"first_moment_net_4_bias", "(5)", "f32", "optimizer", 2240, 20, 1, 0, "always", "-"},
    {"second_moment_net_0", "(16,12)", "f32", "optimizer", 2304, 768, 1, 0, "always", "-"},
    {"second_moment_net_0_bias", "(16)", "f32", "optimizer", 3072, 64, 1, 0, "always", "-"},
    {"second_moment_net_2", "(16,16)", "f32", "optimizer", 3136, 1024, 1, 0, "always", "-"},
    {"second_moment_net_2_bias", "(16)", "f32", "optimizer", 4160, 64, 1, 0, "always", "-"},
    {"second_moment_net_4", "(5,16)", "f32", "optimizer", 4224, 320, 1, 0, "always", "-"},
    {"second_moment_net_4_bias", "(5)", "f32", "optimizer", 4544, 20, 1, 0, "always", "-"},
    {"forward_backward.relu", "(B,16)", "f32", "scratch", 0, 256, 1, 0, "forward_backward, calls 1 to 12",
    "evaluate.relu, evaluate.linear, evaluate.loss and 1 more"},
    {"evaluate.relu", "(B,16)", "f32", "scratch", 0, 256, 1, 0, "evaluate, calls 1 to 2",
    "linear, loss, loss_lse and 1 more"},
    {"evaluate.linear", "(B,5)", "f32", "scratch", 0, 80, 1, 0, "evaluate, calls 3 to 6",
    "relu, forward_backward.relu"},
    {"evaluate.loss", "scalar", "f32", "scratch", 128, 4, 1, 0, "evaluate, calls 4 to 5",
    "relu, forward_backward.relu"},
    {"evaluate.loss_lse", "(B)", "f32", "scratch", 192, 16, 1, 0, "evaluate, call 4", "relu, forward_backward.relu"},
    {"forward_backward.tanh", "(B,16)", "f32", "scratch", 256, 256, 1, 0, "forward_backward, calls 2 to 9",
    "drelu, evaluate.tanh"},
    {"forward_backward.drelu", "(B,16)", "f32", "scratch", 256, 256, 1, 0, "forward_backward, calls 10 to 12",
    "tanh, evaluate.tanh"},
    {"evaluate.tanh", "(B,16)", "f32", "scratch", 256, 256, 1, 0, "evaluate, calls 2 to 3",
    "forward_backward.tanh, forward_backward.drelu"},
    {"forward_backward.loss", "scalar", "f32", "scratch", 512, 4, 1, 0, "forward_backward, calls 4 to 5",
    "dtanh, dlinear"},
    {"forward_backward.dtanh", "(B,16)", "f32", "scratch", 512, 256, 1, 0, "forward_backward, calls 7 to 9",
    "loss, dlinear, loss_lse"},
    {"forward_backward.dlinear", "(B,16)", "f32", "scratch", 512, 256, 1, 0, "forward_backward, calls 12 to 13",
    "loss, dtanh, loss_lse"},
    {"forward_backward.loss_lse", "(B)", "f32", "scratch", 576, 16, 1, 0, "forward_backward, calls 4 to 6",
    "dtanh, dlinear"},
    {"forward_backward.linear_3", "(B,5)", "f32", "scratch", 768, 80, 1, 0, "forward_backward, calls 3 to 6",
    "dlinear_3, dlinear_2"},
    {"forward_backward.dlinear_3", "(B,5)", "f32", "scratch", 768, 80, 1, 0, "forward_backward, calls 6 to 8",
    "linear_3, dlinear_2"},
    {"forward_backward.dlinear_2", "(B,16)", "f32", "scratch", 768, 256, 1, 0, "forward_backward, calls 9 to 11",
    "linear_3, dlinear_3"},
    {"x", "(B,12)", "f32", "batch", 0, 192, 1, 0, "the micro-batch", "-"},
    {"labels", "(B)", "i64", "batch", 192, 32, 1, 0, "the micro-batch", "-"},
};

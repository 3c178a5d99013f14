// tides.loss: sizes, tensors and where they lie; the functions of a training step.
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
inline constexpr std::int64_t PARAMETER_BYTES = 512;

// The tensor at a byte offset of an arena.
template <typename Element>
inline Element* at(std::byte* arena, std::int64_t offset) {
    return reinterpret_cast<Element*>(arena + offset);
}

// ---- update parts ---------------------------------------------------------------------------------------------------
// The parameters, cut where the forward pass waits for their update, in this order; of layers each is a part.
// UPDATE_PARTS in spec.cpp says which lie in which.
namespace update_part {
inline constexpr std::int64_t fused = 0;
}

// ---- offsets --------------------------------------------------------------------------------------------------------
// In bytes from the start of an arena, or of a layer's scratch: by function, then by the name of the tensor in it.
namespace layout::forward_backward {
inline constexpr std::int64_t gauge = 0;
inline constexpr std::int64_t w_basins_0_period = 0;
inline constexpr std::int64_t w_basins_0_level = 64;
inline constexpr std::int64_t w_basins_1_period = 128;
inline constexpr std::int64_t w_basins_1_level = 192;
inline constexpr std::int64_t w_shore_slope = 256;
inline constexpr std::int64_t largest = 3072;
inline constexpr std::int64_t added = 0;
inline constexpr std::int64_t softplus = 256;
inline constexpr std::int64_t sigmoid = 512;
inline constexpr std::int64_t cosine = 768;
inline constexpr std::int64_t sigmoid_2 = 1024;
inline constexpr std::int64_t cosine_2 = 1280;
inline constexpr std::int64_t largest_2 = 3136;
inline constexpr std::int64_t added_3 = 1536;
inline constexpr std::int64_t logarithm = 1792;
inline constexpr std::int64_t total_2 = 3200;
inline constexpr std::int64_t total = 2304;
inline constexpr std::int64_t sine = 2048;
inline constexpr std::int64_t dtotal = 3264;
inline constexpr std::int64_t g_basins_0_period = 0;
inline constexpr std::int64_t g_basins_0_level = 64;
inline constexpr std::int64_t g_basins_1_period = 128;
inline constexpr std::int64_t g_basins_1_level = 192;
inline constexpr std::int64_t g_shore_slope = 256;
inline constexpr std::int64_t dadded_2 = 2304;
inline constexpr std::int64_t dbasins_1_level_terms = 2560;
inline constexpr std::int64_t dadded_part_2 = 2816;
inline constexpr std::int64_t dbasins_0_period_terms = 512;
}

// ---- model.cpp ------------------------------------------------------------------------------------------------------
class Model {
  public:
    Model(const thunder::TrainingArenas& arenas, thunder::Stream& stream) : arenas_(arenas), stream_(stream) {}

    // Each micro-batch counts the same: there is no weight of its loss to be added up.
    void loss_weight() {}
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
    // The loss of a batch that is not trained on.
    void evaluate() { forward(thunder::WriteMode::overwrite); }

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
    {"w_basins_0_period", "(10)", "f32", "parameters", 0, 40, 1, 0, "always", "-"},
    {"w_basins_0_level", "(6,1)", "f32", "parameters", 64, 24, 1, 0, "always", "-"},
    {"w_basins_1_period", "(10)", "f32", "parameters", 128, 40, 1, 0, "always", "-"},
    {"w_basins_1_level", "(6,1)", "f32", "parameters", 192, 24, 1, 0, "always", "-"},
    {"w_shore_slope", "(10,6)", "f32", "parameters", 256, 240, 1, 0, "always", "-"},
    {"g_basins_0_period", "(10)", "f32", "gradients", 0, 40, 1, 0, "always", "-"},
    {"g_basins_0_level", "(6,1)", "f32", "gradients", 64, 24, 1, 0, "always", "-"},
    {"g_basins_1_period", "(10)", "f32", "gradients", 128, 40, 1, 0, "always", "-"},
    {"g_basins_1_level", "(6,1)", "f32", "gradients", 192, 24, 1, 0, "always", "-"},
    {"g_shore_slope", "(10,6)", "f32", "gradients", 256, 240, 1, 0, "always", "-"},
    {"first_moment_basins_0_period", "(10)", "f32", "optimizer", 0, 40, 1, 0, "always", "-"},
    {"first_moment_basins_0_level", "(6,1)", "f32", "optimizer", 64, 24, 1, 0, "always", "-"},
    {"first_moment_basins_1_period", "(10)", "f32", "optimizer", 128, 40, 1, 0, "always", "-"},
    {"first_moment_basins_1_level", "(6,1)", "f32", "optimizer", 192, 24, 1, 0, "always", "-"},
    {"first_moment_shore_slope", "(10,6)", "f32", "optimizer", 256, 240, 1, 0, "always", "-"},
    {"second_moment_basins_0_period", "(10)", "f32", "optimizer", 512, 40, 1, 0, "always", "-"},
    {"second_moment_basins_0_level", "(6,1)", "f32", "optimizer", 576, 24, 1, 0, "always", "-"},
    {"second_moment_basins_1_period", "(10)", "f32", "optimizer", 640, 40, 1, 0, "always", "-"},
    {"second_moment_basins_1_level", "(6,1)", "f32", "optimizer", 704, 24, 1, 0, "always", "-"},
    {"second_moment_shore_slope", "(10,6)", "f32", "optimizer", 768, 240, 1, 0, "always", "-"},
    {"forward_backward.added", "(6,10)", "f32", "scratch", 0, 240, 1, 0, "forward_backward, calls 1 to 7", "-"},
    {"forward_backward.softplus", "(6,10)", "f32", "scratch", 256, 240, 1, 0, "forward_backward, calls 1 to 7", "-"},
    {"forward_backward.sigmoid", "(6,10)", "f32", "scratch", 512, 240, 1, 0, "forward_backward, calls 1 to 5",
    "dbasins_0_period_terms"},
    {"forward_backward.dbasins_0_period_terms", "(6,10)", "f32", "scratch", 512, 240, 1, 0,
    "forward_backward, calls 7 to 8", "sigmoid"},
    {"forward_backward.cosine", "(6,10)", "f32", "scratch", 768, 240, 1, 0, "forward_backward, calls 1 to 5", "-"},
    {"forward_backward.sigmoid_2", "(6,10)", "f32", "scratch", 1024, 240, 1, 0, "forward_backward, calls 1 to 7", "-"},
    {"forward_backward.cosine_2", "(6,10)", "f32", "scratch", 1280, 240, 1, 0, "forward_backward, calls 1 to 7", "-"},
    {"forward_backward.added_3", "(6,10)", "f32", "scratch", 1536, 240, 1, 0, "forward_backward, calls 2 to 5", "-"},
    {"forward_backward.logarithm", "(6,10)", "f32", "scratch", 1792, 240, 1, 0, "forward_backward, calls 2 to 5", "-"},
    {"forward_backward.sine", "(10,6)", "f32", "scratch", 2048, 240, 1, 0, "forward_backward, calls 3 to 5", "-"},
    {"forward_backward.total", "(6)", "f32", "scratch", 2304, 24, 1, 0, "forward_backward, calls 3 to 4", "dadded_2"},
    {"forward_backward.dadded_2", "(6,10)", "f32", "scratch", 2304, 240, 1, 0, "forward_backward, calls 5 to 7",
    "total"},
    {"forward_backward.dbasins_1_level_terms", "(6,10)", "f32", "scratch", 2560, 240, 1, 0,
    "forward_backward, calls 5 to 6", "-"},
    {"forward_backward.dadded_part_2", "(6,10)", "f32", "scratch", 2816, 240, 1, 0, "forward_backward, calls 5 to 7",
    "-"},
    {"forward_backward.largest", "(6,1)", "f32", "scratch", 3072, 24, 1, 0, "forward_backward, calls 1 to 7", "-"},
    {"forward_backward.largest_2", "(6,1)", "f32", "scratch", 3136, 24, 1, 0, "forward_backward, calls 2 to 7", "-"},
    {"forward_backward.total_2", "(6,1)", "f32", "scratch", 3200, 24, 1, 0, "forward_backward, calls 2 to 7", "-"},
    {"forward_backward.dtotal", "(6)", "f32", "scratch", 3264, 24, 1, 0, "forward_backward, calls 4 to 5", "-"},
    {"gauge", "(6,10)", "f32", "batch", 0, 240, 1, 0, "the micro-batch", "-"},
};

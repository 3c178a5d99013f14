// dynamo.logits: sizes, tensors and where they lie; the function vjp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/api.h"       // linear_forward, attention_forward, ...: the calls that a device provides
#include "device/stream.h"    // Stream: where calls run, in order
#include "program/arenas.h"   // Arenas: the memory, one piece for each class of lifetime
#include "run/function.h"     // FunctionSpec: what a caller has to know of this function
#include "sizes.h"            // B, T, C, ...: what shapes are made of

// The tensor at a byte offset of an arena.
template <typename Element>
inline Element* at(std::byte* arena, std::int64_t offset) {
    return reinterpret_cast<Element*>(arena + offset);
}

// ---- offsets --------------------------------------------------------------------------------------------------------
// In bytes from the start of an arena, or of a layer's scratch: by function, then by the name of the tensor in it.
namespace layout::vjp {
inline constexpr std::int64_t x = 0;
inline constexpr std::int64_t dlogits = 192;
inline constexpr std::int64_t logits = 0;
inline constexpr std::int64_t dx = 128;
inline constexpr std::int64_t w_net_0 = 0;
inline constexpr std::int64_t w_net_0_bias = 768;
inline constexpr std::int64_t w_net_2 = 832;
inline constexpr std::int64_t w_net_2_bias = 1856;
inline constexpr std::int64_t w_net_4 = 1920;
inline constexpr std::int64_t w_net_4_bias = 2240;
inline constexpr std::int64_t g_net_4 = 1920;
inline constexpr std::int64_t g_net_4_bias = 2240;
inline constexpr std::int64_t g_net_2 = 832;
inline constexpr std::int64_t g_net_2_bias = 1856;
inline constexpr std::int64_t g_net_0 = 0;
inline constexpr std::int64_t g_net_0_bias = 768;
inline constexpr std::int64_t relu = 0;
inline constexpr std::int64_t tanh = 256;
inline constexpr std::int64_t dtanh = 512;
inline constexpr std::int64_t dlinear_2 = 768;
inline constexpr std::int64_t drelu = 256;
inline constexpr std::int64_t dlinear = 512;
}

// ---- model.cpp ------------------------------------------------------------------------------------------------------
class Model {
  public:
    Model(const thunder::Arenas& arenas, thunder::Stream& stream) : arenas_(arenas), stream_(stream) {}

    // From the arenas `batch` and `parameters` to `results` and `gradients`: logits, dx, and a gradient for each
    // parameter.
    void vjp();
    // The same, under the one name that run.cpp knows.
    void call() { vjp(); }

  private:
    thunder::Arenas arenas_;
    thunder::Stream& stream_;
};
extern const thunder::FunctionSpec FUNCTION;  // spec.cpp

// ---- LAYOUT ---------------------------------------------------------------------------------------------------------
// Every tensor that the program names; one that is kept in the place of a layer's, as what enters a loop is in that of
// the first layer's input, is in that row. `shape` is in the names of sizes.h, as far as these go; `offset` is in bytes
// from the start of the arena, `bytes` of one tensor. A tensor of n `layers` lies n times, one `stride` of bytes apart.
// `lifetime` says when its bytes hold it: in the arena `scratch` from one call to another in the text of a function in
// blocks.cpp or model.cpp, whose calls are counted from 1, a loop over layers as one call. `shares` names tensors that
// have some of the same bytes at other times, those of the same function without its name and first.
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
    {"vjp.relu", "(B,16)", "f32", "scratch", 0, 256, 1, 0, "vjp, calls 1 to 9", "-"},
    {"vjp.tanh", "(B,16)", "f32", "scratch", 256, 256, 1, 0, "vjp, calls 2 to 6", "drelu"},
    {"vjp.drelu", "(B,16)", "f32", "scratch", 256, 256, 1, 0, "vjp, calls 7 to 9", "tanh"},
    {"vjp.dtanh", "(B,16)", "f32", "scratch", 512, 256, 1, 0, "vjp, calls 4 to 6", "dlinear"},
    {"vjp.dlinear", "(B,16)", "f32", "scratch", 512, 256, 1, 0, "vjp, calls 9 to 11", "dtanh"},
    {"vjp.dlinear_2", "(B,16)", "f32", "scratch", 768, 256, 1, 0, "vjp, calls 6 to 8", "-"},
    {"x", "(B,12)", "f32", "batch", 0, 192, 1, 0, "the call", "-"},
    {"dlogits", "(B,5)", "f32", "batch", 192, 80, 1, 0, "the call", "-"},
    {"logits", "(B,5)", "f32", "results", 0, 80, 1, 0, "until the next call", "-"},
    {"dx", "(B,12)", "f32", "results", 128, 192, 1, 0, "until the next call", "-"},
};

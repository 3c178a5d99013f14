// sizes.h: what shapes are made of, for the model and its kernels.
#pragma once

#include <cstdint>

inline constexpr std::int64_t B = 2;  // sequences in a micro-batch
inline constexpr std::int64_t T = 8;  // positions in a sequence
inline constexpr std::int64_t L = 5;  // layers
inline constexpr std::int64_t V = 48;  // entries of the vocabulary
inline constexpr std::int64_t C = 16;  // width of the residual stream
inline constexpr std::int64_t NH = 4;  // query heads
inline constexpr std::int64_t KVH = 2;  // key and value heads
inline constexpr std::int64_t HS = 4;  // size of a head
inline constexpr std::int64_t H = 24;  // width inside the MLP

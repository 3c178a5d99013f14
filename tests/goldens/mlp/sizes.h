// sizes.h: what shapes are made of, for the model and its kernels.
#pragma once

#include <cstdint>

inline constexpr std::int64_t B = 4;  // rows in a micro-batch

// SPDX-License-Identifier: Apache-2.0
// What kernels are handed by value or point to, beside the types of C++: NVRTC compiles this too, without any header of
// the standard library (device/cuda/device.h has its names).
#pragma once

#include <cstdint>

namespace thunder {

// Whether a call overwrites a gradient, as the first micro-step of a step does, or adds to it: the beta of BLAS, 0
// or 1.
enum class WriteMode : std::uint8_t { overwrite, add };

// Numbers that are stored alone are enumerations of their bits, bf16{0x3f80}: scalars to the compiler, which makes no
// vectors of a loop that copies a struct or names one.

// A bfloat16 as it lies in memory: the upper half of an IEEE binary32. Arithmetic happens in f32.
enum class bf16 : std::uint16_t {};  // NOLINT(readability-identifier-naming): a scalar type, named like int

// An IEEE binary16 as it lies in memory.
enum class f16 : std::uint16_t {};  // NOLINT(readability-identifier-naming)

// Numbers of eight bits, which mean something with a scale beside them (device/fp8.h): four bits of exponent and three
// of fraction without infinities ("fn": 448 is the largest, all ones is NaN); five and two, as the upper half of an
// f16; and a scale that is a power of two, 2^(bits - 127), without a sign or a zero, all ones is NaN. OCP 8-bit
// Floating Point Specification (OFP8), revision 1.0, and Microscaling Formats (MX) Specification, version 1.0.
enum class e4m3 : std::uint8_t {};  // NOLINT(readability-identifier-naming)
enum class e5m2 : std::uint8_t {};  // NOLINT(readability-identifier-naming)
enum class e8m0 : std::uint8_t {};  // NOLINT(readability-identifier-naming)

// Types that are storage alone: what is computed with them is widened to f32 first, and rounded where it is stored.
#define THUNDER_NARROW_TYPES(X) X(bf16) X(f16)

// All that kernels of the runtime are made for; their names end in these words.
#define THUNDER_FLOAT_TYPES(X) X(f32) THUNDER_NARROW_TYPES(X)
namespace bundled {
using f32 = float;  // NOLINT(readability-identifier-naming)
}

}  // namespace thunder

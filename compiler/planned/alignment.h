// SPDX-License-Identifier: Apache-2.0
// What the addresses of a planned program's tensors are multiples of.
#pragma once

#include <cstdint>

#include "compiler/ir/module.h"
#include "compiler/ir/structure.h"

namespace thunderc {

// Bytes, a power of two and at most 64: of the value's address wherever the function runs, in every layer of a loop.
// Arenas begin at multiples of 64 and more.
std::int64_t alignment_of(const CallSites& calls, const Function& function, Value v);

namespace planning {

inline constexpr std::int64_t alignment = 64;  // bytes: a cache line, and the widest vector

inline std::int64_t aligned(std::int64_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

inline std::int64_t bytes_of(const Type& type) {
    return static_cast<std::int64_t>(type.bytes());
}

}  // namespace planning

}  // namespace thunderc

// What the addresses of a planned program's tensors are multiples of.
#pragma once

#include <cstdint>

#include "compiler/ir/module.h"

namespace thunderc {

// Bytes, a power of two and at most 64: of the value's address wherever the function runs, in every layer of a loop.
// Arenas begin at multiples of 64 and more.
std::int64_t alignment_of(const Module& planned, const Function& function, Value v);

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// Where the values lie that a planned loop carries from one iteration to the next.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compiler/ir/module.h"

namespace thunderc {

// Slots of a carried value: attributes carry_arena, carry_base, carry_stride, carry_period of a planned repeat. Slot s
// is at base + (period > 0 ? s % period : s) * stride; iteration i reads slot i and writes slot i + 1.
struct CarrySlots {
    Placement::Arena arena = Placement::Arena::scratch;
    std::int64_t base = 0, stride = 0, period = 0;
    std::int64_t at(std::int64_t slot) const { return base + (period > 0 ? slot % period : slot) * stride; }
};
CarrySlots carry_slots(const Op& repeat, std::size_t carried);

}  // namespace thunderc

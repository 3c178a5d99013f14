// SPDX-License-Identifier: Apache-2.0
#include "compiler/planned/carry_slots.h"

namespace thunderc {

CarrySlots carry_slots(const Op& repeat, std::size_t carried) {
    CarrySlots slots;
    slots.arena = parse_arena(repeat.attributes.strings("carry_arena").at(carried)).value();
    slots.base = repeat.attributes.integers("carry_base").at(carried);
    slots.stride = repeat.attributes.integers("carry_stride").at(carried);
    slots.period = repeat.attributes.integers("carry_period").at(carried);
    return slots;
}

}  // namespace thunderc

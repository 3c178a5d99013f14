// SPDX-License-Identifier: Apache-2.0
// Any type of floating point as f32, and back: for code that is a template over it.
#pragma once

#include "device/cpu/bf16.h"
#include "device/cpu/f16.h"
#include "device/types.h"

namespace thunder {

inline float to_float(float x) {
    return x;
}

template <typename T>
T narrowed(float x);
template <>
inline float narrowed<float>(float x) {
    return x;
}
#define THUNDER_NARROWED(type)            \
    template <>                           \
    inline type narrowed<type>(float x) { \
        return to_##type(x);              \
    }
THUNDER_NARROW_TYPES(THUNDER_NARROWED)
#undef THUNDER_NARROWED

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// What the runtime's own kernels share. They stand on the primitives of device.h, as generated ones do, so that the
// emulated GPU of the compiler's tests runs them too. Their names begin with bundled_: kernels have C linkage.
#pragma once

#include "device/cuda/device.h"

#ifdef THUNDER_EMULATION
#define THUNDER_FUNCTION inline
#else
#define THUNDER_FUNCTION __device__ inline
#endif

namespace thunder::bundled {

THUNDER_FUNCTION float wide(float x) {
    return x;
}
template <typename T>
THUNDER_FUNCTION T narrow(float x);
template <>
THUNDER_FUNCTION float narrow<float>(float x) {
    return x;
}
#define BUNDLED_CONVERSIONS(type)                 \
    THUNDER_FUNCTION float wide(type x) {         \
        return to_float(x);                       \
    }                                             \
    template <>                                   \
    THUNDER_FUNCTION type narrow<type>(float x) { \
        return to_##type(x);                      \
    }
THUNDER_NARROW_TYPES(BUNDLED_CONVERSIONS)
#undef BUNDLED_CONVERSIONS

// This thread among all of the grid, in blocks of `threads`.
template <int threads>
THUNDER_FUNCTION std::int64_t global_index() {
    return static_cast<std::int64_t>(block_index()) * threads + thread_index();
}

}  // namespace thunder::bundled

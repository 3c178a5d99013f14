// SPDX-License-Identifier: Apache-2.0
// One message for what no provider on this device computes.
#pragma once

#include <string>

#include "device/types.h"
#include "support/error.h"

namespace thunder {

template <typename Tensor>  // Input or Output; absent ones pass
void require_dtype(const char* call, const char* tensor, const Tensor& t, DType expected) {
    if (t && t.dtype != expected) {
        fail(std::string(call) + " on a cpu: no provider for " + tensor + " of type " + name_of(t.dtype) +
             ", expected " + name_of(expected));
    }
}

// The typed pointer of a tensor, null where it is absent.
inline float* f32(const char* call, const char* name, const Output& t) {
    require_dtype(call, name, t, DType::f32);
    return static_cast<float*>(t.data);
}
inline const float* f32(const char* call, const char* name, const Input& t) {
    require_dtype(call, name, t, DType::f32);
    return static_cast<const float*>(t.data);
}

inline std::int64_t or_dense(std::int64_t ld, std::int64_t dense) {
    return ld == 0 ? dense : ld;
}

}  // namespace thunder

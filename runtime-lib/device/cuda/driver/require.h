// SPDX-License-Identifier: Apache-2.0
// One message for types that no provider on a GPU takes.
#pragma once

#include "device/types.h"
#include "support/error.h"

namespace thunder {

template <typename Tensor>  // Input or Output; absent ones pass
void require_dtype(const char* tensor, const Tensor& t, DType expected) {
    if (t && t.dtype != expected) fail(std::string("no provider on a GPU for ") + tensor + " of that type");
}

template <typename Tensor>
void require_float(const char* tensor, const Tensor& t) {
    if (t && !is_float(t.dtype))
        fail(std::string("no provider on a GPU for ") + tensor + " of that type", "floating point is computed with");
}

inline std::int64_t or_dense(std::int64_t ld, std::int64_t dense) {
    return ld == 0 ? dense : ld;
}

}  // namespace thunder

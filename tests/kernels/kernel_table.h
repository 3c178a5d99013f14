// SPDX-License-Identifier: Apache-2.0
// The compiled kernels of all cases, by "case.kernel".
#pragma once

#include <map>
#include <string>

#include "device/stream.h"

using KernelCall = void (*)(void* const* outputs, void* const* inputs, thunder::Stream& stream);

std::map<std::string, KernelCall>& kernel_table();
bool list_kernel(const std::string& name, KernelCall call);

// A pointer to whatever type the kernel takes.
struct AnyPointer {
    void* data;
    template <typename T>
    operator T*() const {  // NOLINT(google-explicit-constructor)
        return static_cast<T*>(data);
    }
};
inline AnyPointer to(void* data) {
    return {data};
}

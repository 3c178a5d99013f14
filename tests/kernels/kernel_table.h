// SPDX-License-Identifier: Apache-2.0
// The compiled kernels of all cases, by "case.kernel".
#pragma once

#include <map>
#include <string>

#include "device/stream.h"
#include "device/types.h"

using KernelCall = void (*)(void* const* outputs, void* const* inputs, thunder::Stream& stream);

std::map<std::string, KernelCall>& kernel_table();
bool list_kernel(const std::string& name, KernelCall call);

// A pointer to whatever type the kernel takes, or what a flag there says.
struct AnyPointer {
    void* data;
    template <typename T>
    operator T*() const {  // NOLINT(google-explicit-constructor)
        return static_cast<T*>(data);
    }
    operator thunder::WriteMode() const {  // NOLINT(google-explicit-constructor): of a flag
        return *static_cast<const bool*>(data) ? thunder::WriteMode::overwrite : thunder::WriteMode::add;
    }
};
inline AnyPointer to(void* data) {
    return {data};
}

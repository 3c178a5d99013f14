// SPDX-License-Identifier: Apache-2.0
// How generated launchers start their kernels: launch("scale", scale_kernel, blocks, 256, stream, y, x). The name is
// for messages, profiles and traces.
#pragma once

#include <cstdint>
#include <type_traits>

#ifdef THUNDER_EMULATION
#include "emulation/launch.h"  // in the tests
#else

namespace thunder {

class Stream;

// `arguments`: the address of each of the kernel's arguments. The kernel may begin before the one in front of it has
// ended, since wait_for_previous_kernel() stands first in it (device.h; programmatic dependent launch of the CUDA
// Programming Guide). Fails with the kernel's name where the device refuses.
void launch_kernel(const char* name, const void* kernel, std::int64_t blocks, int threads, void** arguments,
                   Stream& stream);

// Gives the arguments the types of the kernel's parameters.
template <typename... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), std::int64_t blocks, int threads, Stream& stream,
            std::type_identity_t<Parameters>... arguments) {
    void* addresses[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
    launch_kernel(name, reinterpret_cast<const void*>(kernel), blocks, threads, addresses, stream);
}

}  // namespace thunder

#endif

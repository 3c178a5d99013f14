// SPDX-License-Identifier: Apache-2.0
// The emulated counterpart of device/cuda/launch.h: runs a kernel on the emulated GPU, to its end.
#pragma once

#include <cstdint>
#include <type_traits>

#include "emulation/device.h"

namespace thunder {

class Stream;

namespace emulation {

// Tells pointers by the parameter that they came through; which of them are Global, as bits.
template <typename... Parameters>
std::uint64_t number_parameters(Parameters&... parameters) {
    std::uint64_t exclusive = 0;
    int number = 0;
    auto visit = [&](auto& parameter) {
        if constexpr (requires { parameter.set_parameter(number); }) {
            parameter.set_parameter(number);
            if (parameter.space == Space::global) exclusive |= std::uint64_t{1} << number;
        }
        ++number;
    };
    (visit(parameters), ...);
    return exclusive;
}

}  // namespace emulation

template <typename... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), std::int64_t blocks, int threads, Stream& /*stream*/,
            std::type_identity_t<Parameters>... arguments) {
    const std::uint64_t exclusive = emulation::number_parameters(arguments...);
    emulation::Machine::instance().launch(
        name, blocks, threads, [&] { kernel(arguments...); }, exclusive);
}

}  // namespace thunder

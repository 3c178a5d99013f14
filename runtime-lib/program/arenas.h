// SPDX-License-Identifier: Apache-2.0
// The memory of a generated program, as its model sees it.
#pragma once

#include <cstddef>

namespace thunder {

// One arena for each class of lifetime, on the device; offsets into them are in the program's model.h and spec.cpp. An
// arena that a program does not need is null.
struct Arenas {
    std::byte* parameters = nullptr;
    std::byte* narrow_copies = nullptr;   // the parameters as products read them
    std::byte* gradients = nullptr;       // laid out like the parameters
    std::byte* gathered = nullptr;        // units of parameters that ranks have pieces of, each whole
    std::byte* unit_gradients = nullptr;  // their gradients, until these are summed over the ranks
    std::byte* scaling = nullptr;         // amaxes, scales and histories of what is quantised
    std::byte* saved = nullptr;           // activations kept from forward to backward
    std::byte* scratch = nullptr;         // reused within forward and backward
    std::byte* constants = nullptr;       // tables that are read from constants.safetensors at start
    std::byte* batch = nullptr;           // the inputs that were loaded last
    std::byte* results = nullptr;         // what a function gives beside the gradients of its parameters
};

}  // namespace thunder

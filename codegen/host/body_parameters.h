// SPDX-License-Identifier: Apache-2.0
// The parameters of functions in blocks.cpp, and what their values are called in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/host/layout.h"

namespace thunderc {

struct BodyParameter {
    enum class Kind : std::uint8_t {
        arenas,  // where tables lie
        carried_out,
        carried_in,
        structure,
        family,
        shared,
        scratch,
        gradient,
        stream
    } kind;
    std::string declaration;  // "const float* x"
    std::size_t index = 0;    // of the argument or result
    const LayerStruct* structure = nullptr;
};

// Outputs first: carried values out and in, then the layer's structs, then what all layers share, scratch, stream. The
// same walk gives the arguments of the call. `expressions` gets what the parameters' values are called in the body.
std::vector<BodyParameter> body_parameters(const ProgramLayout& layout, const Function& body,
                                           std::map<Value, std::string>& expressions);

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// What the structure of a graph says where names and module scopes are gone: which initializers are parameters, and
// what modules there are.
//
// The patterns are raised on a copy in which every open initializer counts as a parameter; then each is what it is an
// operand of:
//
//     linear: weight, bias      embedding: table      rms_norm, layer_norm: scale, shift      parameters
//     rotary: cos, sin          only cosines and sines are taken of it                        constants
//
// Layers are what find_blocks finds in that copy; products are called after what reads them or what they read:
//
//     layers.0.attention.query    layers.0.mlp.down    layers.0.norm_1    embedding    head
//
// Parameters that still have their framework's name lend its path ("model.layers.0") to the layer and its modules.
// Nothing is changed: lift_parameters decides. What is an operand of nothing above stays open.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/ir/module.h"

namespace thunderc {

// What is known of an argument of main beforehand.
struct GivenArgument {
    enum class Kind : std::uint8_t { open, parameter, constant } kind = Kind::open;
    ConstPtr value;             // of a constant; null where its numbers are not there
    bool numbers_read = false;  // and do not look like a table's
};

struct StructureSays {
    enum class Verdict : std::uint8_t { nothing, parameter, constant } verdict = Verdict::nothing;
    std::string what;  // "weight of a product"; with no verdict: "operand of sub"
};

struct ModulePath {
    std::string scope, module_class;
};

struct Structure {
    std::vector<StructureSays> arguments;  // by argument of main
    std::vector<ModulePath> modules;       // by op of main
    std::size_t layers = 0;                // that repeat
};

Structure read_structure(const Module& module, const std::vector<GivenArgument>& given);

}  // namespace thunderc

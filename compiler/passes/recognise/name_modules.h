// SPDX-License-Identifier: Apache-2.0
// Names for the modules of a graph that names none, from what its ops are raised to and from its repeated layers.
//
//     layers.0.norm_1, layers.0.attention.query, layers.0.mlp.gate, …, norm, embedding, head, linear_2
//
// A path that is known from a parameter's own name ("model.layers.0.input_layernorm.weight") is taken instead, also for
// the same place in the other layers.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/passes/recognise/read_structure.h"

namespace thunderc {

struct NamedModules {
    std::vector<ModulePath> modules;  // by op of `original`
    std::size_t layers = 0;           // that repeat
};

// `raised` is a copy of `original` with the patterns raised and arguments in the same order; the nodes of its ops'
// provenance are the indices of the original ops that they stand for.
NamedModules name_modules(const Function& raised, const Function& original);

}  // namespace thunderc

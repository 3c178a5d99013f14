// SPDX-License-Identifier: Apache-2.0
// Where each parameter lies in the arenas of a program that is being planned.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "compiler/ir/module.h"

namespace thunderc::planning {

// Where each parameter lies, by its first framework name, in elements from `base` on, which is in bytes. What trains
// comes first: its gradients, states and narrow copies lie at the same elements of their arenas, whatever their types,
// and these arenas end with it. What is frozen and has a narrow copy comes next, and lies at the same element of the
// arena of narrow copies. Behind that `base` is not 0: what is frozen and has nothing beside it, type by type.
struct ParameterPlace {
    std::int64_t offset = 0, layer_stride = 0, base = 0;
    bool trained = true;
};
struct ParameterPlaces {
    std::map<std::string, ParameterPlace> by_name;
    std::map<std::string, std::string> behind;  // by name: what a parameter has to lie directly behind
    std::int64_t trained = 0,
                 with_narrow_copy = 0;  // elements: of what trains; with those that are frozen and have a narrow copy
    std::int64_t bytes = 0;             // of the parameters' arena
};

// Tensors of one layer lie together, layer after layer, those that train and those that are frozen each for themselves,
// and weights that a product takes as one lie side by side.
ParameterPlaces place_parameters(const Module& module);

}  // namespace thunderc::planning

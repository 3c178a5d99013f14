// SPDX-License-Identifier: Apache-2.0
// Where amaxes, scales and histories of what is quantised lie, and weights in codes. Tensors whose scales are updated
// by one call lie behind one another; the amaxes of all of them, then their scales, then their histories, so that ranks
// compare all amaxes at once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc::planning {

struct ScalingPlaces {
    struct Place {
        std::int64_t offset = 0, layer_stride = 0;  // bytes
    };
    std::map<std::string, Place> by_name;  // by the first name of a state
    // "model.layers.0.mlp.down_proj.input": the tensors, in the order in which their amaxes lie; so do the others.
    std::vector<std::string> tensors;
    std::int64_t history = 0;  // amaxes of each
    std::int64_t codes = 0;    // bytes of codes that are kept, with the scales of their own, behind all that
    std::int64_t bytes = 0;    // of the arena
};

// Of a module of which nothing is quantised: nothing.
ScalingPlaces place_scaling(const Module& module);

}  // namespace thunderc::planning

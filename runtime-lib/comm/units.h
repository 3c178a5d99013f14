// SPDX-License-Identifier: Apache-2.0
// Units: parameters that ranks gather as one, and gradients that they sum as one. A rank has a shard of each. The table
// of a program's units stands in its model.h, and its model.cpp calls collectives by their names.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/collectives.h"
#include "program/arenas.h"

namespace thunder {

// Of a unit that there is for each layer of a loop: the first layer's, or the first slot's.
struct UnitPlace {
    std::byte* Arenas::*arena = nullptr;
    std::int64_t offset = 0;  // in bytes, and so is the stride: from one layer's to the next one's
    std::int64_t stride = 0;
    std::int64_t slots = 0;  // in so many places layers take turns; 0: each layer has its own
    DType dtype = DType::f32;

    std::byte* in(const Arenas& arenas, std::int64_t layer) const {
        const std::int64_t slot = slots > 0 ? layer % slots : layer;
        return arenas.*arena + offset + (slot > 0 ? slot * stride : 0);
    }
    Output output(const Arenas& arenas, std::int64_t layer) const {
        Output tensor;
        tensor.data = in(arenas, layer);
        tensor.dtype = dtype;
        return tensor;
    }
    Input input(const Arenas& arenas, std::int64_t layer) const {
        Input tensor;
        tensor.data = in(arenas, layer);
        tensor.dtype = dtype;
        return tensor;
    }
};

struct Unit {
    const char* what = "";      // for messages and timelines
    std::int64_t elements = 0;  // of a shard
    Group group = Group::shard;
    UnitPlace whole{}, shard{};
};

// `layer`: which one's; -1: the unit stands in no loop.
inline void all_gather(const Arenas& arenas, const Unit& unit, std::int64_t layer, Stream& stream) {
    all_gather({.unit = unit.whole.output(arenas, layer),
                .shard = unit.shard.input(arenas, layer),
                .elements = unit.elements,
                .group = unit.group,
                .what = unit.what,
                .layer = static_cast<int>(layer)},
               stream);
}
inline void all_gather(const Arenas& arenas, const Unit& unit, Stream& stream) {
    all_gather(arenas, unit, -1, stream);
}

inline void reduce_scatter(const Arenas& arenas, const Unit& unit, std::int64_t layer, WriteMode mode, Stream& stream) {
    reduce_scatter({.shard = unit.shard.output(arenas, layer),
                    .unit = unit.whole.input(arenas, layer),
                    .elements = unit.elements,
                    .mode = mode,
                    .group = unit.group,
                    .what = unit.what,
                    .layer = static_cast<int>(layer)},
                   stream);
}
inline void reduce_scatter(const Arenas& arenas, const Unit& unit, WriteMode mode, Stream& stream) {
    reduce_scatter(arenas, unit, -1, mode, stream);
}

// Of what each rank of the group has the same shard of.
inline void all_reduce(const Arenas& arenas, const Unit& unit, std::int64_t layer, Stream& stream) {
    all_reduce({.buffer = unit.shard.output(arenas, layer),
                .elements = unit.elements,
                .group = unit.group,
                .what = unit.what,
                .layer = static_cast<int>(layer)},
               stream);
}
inline void all_reduce(const Arenas& arenas, const Unit& unit, Stream& stream) {
    all_reduce(arenas, unit, -1, stream);
}

}  // namespace thunder

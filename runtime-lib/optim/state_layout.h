// SPDX-License-Identifier: Apache-2.0
// Where the states of an optimizer lie in their arena: for the compiler, which plans it, and for programs, which know
// what a run steps in which way.
//
// Where all states are shaped as their parameters, they lie one behind the other, each laid out like what trains in the
// parameter arena: so do shards of them. Else what there is of each state lies parameter by parameter, in the order of
// these in their arena, behind the state before it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "rules/info.h"

namespace thunder {

// The dimensions of a state of a parameter; {0} where there is none.
inline std::vector<std::int64_t> dims_of_state(rules::StateShape shape, std::span<const std::int64_t> parameter) {
    std::vector<std::int64_t> dims(parameter.begin(), parameter.end());
    switch (shape) {
        case rules::StateShape::as_parameter: break;
        case rules::StateShape::rows: dims.pop_back(); break;
        case rules::StateShape::columns: dims.erase(dims.end() - 2); break;
        case rules::StateShape::scalar: dims.clear(); break;
        case rules::StateShape::none: dims = {0}; break;
    }
    return dims;
}

// A parameter that a rule steps, or a shard of one.
struct SteppedTensor {
    std::int64_t begin = 0;           // its first element in the parameter arena
    std::vector<std::int64_t> shape;  // of the parameter
    rules::Stepped stepped = rules::Stepped::by_element;
};

struct StateLayout {
    // Of each tensor by state: from which element of the arena on it lies.
    std::vector<std::array<std::int64_t, rules::most_states>> begins;
    std::int64_t elements = 0;  // of the arena
};

// `trained`: the elements of what trains in the parameter arena.
inline StateLayout lay_out_states(const RuleInfo& rule, std::span<const SteppedTensor> tensors, std::int64_t trained) {
    StateLayout out;
    out.begins.resize(tensors.size());
    if (rule.states_as_parameters()) {
        for (std::size_t t = 0; t < tensors.size(); ++t)
            for (std::size_t k = 0; k < rule.states.size(); ++k)
                out.begins[t][k] = static_cast<std::int64_t>(k) * trained + tensors[t].begin;
        out.elements = static_cast<std::int64_t>(rule.states.size()) * trained;
        return out;
    }
    std::vector<std::size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return tensors[a].begin < tensors[b].begin; });
    // A state begins in a line where its parameter does: vectors of both are aligned alike.
    constexpr std::int64_t line = 16;
    for (std::size_t k = 0; k < rule.states.size(); ++k)
        for (const std::size_t t : order) {
            const rules::StateShape shape = rule.shape_of_state(k, tensors[t].stepped);
            const std::vector<std::int64_t> dims = dims_of_state(shape, tensors[t].shape);
            out.begins[t][k] = out.elements + (shape == rules::StateShape::as_parameter ? tensors[t].begin % line : 0);
            const std::int64_t end =
                out.begins[t][k] + std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
            if (shape != rules::StateShape::none) out.elements = (end + line - 1) / line * line;
        }
    return out;
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Where the states of an optimizer lie in their arena: for the compiler, which plans it, and for programs, which know
// what a run steps in which way.
//
// Where all states are numbers and shaped as their parameters, they lie one behind the other, each laid out like what
// trains in the parameter arena: so do shards of them. Else what there is of each state lies tensor by tensor, in the
// order of these in their arena, behind the state before it; codes (rules/codes.h) have their scales behind them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "rules/codes.h"
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

// A parameter that a rule steps, or a shard of one, or of several that are sharded as one.
struct SteppedTensor {
    std::int64_t begin = 0;           // its first element in the parameter arena
    std::vector<std::int64_t> shape;  // of the parameter
    rules::Stepped stepped = rules::Stepped::by_element;
    bool coded = false;  // its states are codes
};

struct StateLayout {
    // Of each tensor by state: from which byte of the arena on it lies, and where the scales of codes do.
    std::vector<std::array<std::int64_t, rules::most_states>> begins, scales;
    std::int64_t bytes = 0;  // of the arena
};

// Whether a parameter's states are codes where a program keeps such: those of matrices that are stepped by element.
inline bool is_coded(std::size_t dimensions, rules::Stepped stepped) {
    return dimensions >= 2 && stepped == rules::Stepped::by_element;
}
// What the scales of a state's codes are called.
inline std::string scales_of(const std::string& state) {
    return state + "_scales";
}
// The scales of so many codes.
inline std::int64_t blocks_of_codes(std::int64_t codes) {
    return (codes + rules::block_elements - 1) / rules::block_elements;
}

// `trained`: the elements of what trains in the parameter arena. `width`: bytes of a number.
inline StateLayout lay_out_states(const RuleInfo& rule, std::span<const SteppedTensor> tensors, std::int64_t trained,
                                  std::int64_t width) {
    StateLayout out;
    out.begins.resize(tensors.size());
    out.scales.resize(tensors.size());
    const bool coded = std::any_of(tensors.begin(), tensors.end(), [](const SteppedTensor& t) { return t.coded; });
    if (rule.states_as_parameters() && !coded) {
        for (std::size_t t = 0; t < tensors.size(); ++t)
            for (std::size_t k = 0; k < rule.states.size(); ++k)
                out.begins[t][k] = (static_cast<std::int64_t>(k) * trained + tensors[t].begin) * width;
        out.bytes = static_cast<std::int64_t>(rule.states.size()) * trained * width;
        return out;
    }
    std::vector<std::size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return tensors[a].begin < tensors[b].begin; });
    // Numbers of a state begin in a line where those of the parameter do: vectors of both are aligned alike.
    constexpr std::int64_t line = 16;
    const auto rounded_up = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
    for (std::size_t k = 0; k < rule.states.size(); ++k)
        for (const std::size_t t : order) {
            const rules::StateShape shape = rule.shape_of_state(k, tensors[t].stepped);
            const std::vector<std::int64_t> dims = dims_of_state(shape, tensors[t].shape);
            const std::int64_t elements =
                std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
            if (tensors[t].coded) {
                out.begins[t][k] = out.bytes;
                out.scales[t][k] = rounded_up(out.bytes + elements, line * 4);
                out.bytes = rounded_up(out.scales[t][k] + blocks_of_codes(elements) * 4, line * 4);
                continue;
            }
            const std::int64_t behind = shape == rules::StateShape::as_parameter ? tensors[t].begin % line * width : 0;
            out.begins[t][k] = out.bytes + behind;
            if (shape != rules::StateShape::none)
                out.bytes = rounded_up(out.begins[t][k] + elements * width, line * width);
        }
    return out;
}

}  // namespace thunder

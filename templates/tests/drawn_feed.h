// SPDX-License-Identifier: Apache-2.0
// A step's inputs, drawn: what gradients_test.cpp trains on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "model.h"  // PROGRAM: what the inputs are
#include "program/inputs.h"

namespace thunder {

inline std::uint64_t next(std::uint64_t& state) {  // splitmix64
    std::uint64_t z = state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

// A step's micro-batches of a rank: more than one, since the first writes the gradients and others add to them.
inline constexpr int micro_batches = 2;

// The k-th integer of an input's micro-batches: an id anywhere in its range, a label or at times the mark of one that
// is ignored, a mask's 0 or 1. The first row of all has no ignored labels, so that no term of the loss is without any;
// a mask begins with a 1, and so do its rows, so that none of them is without any. Of other integers nothing is
// known: 1.
template <typename T>
T integer(const InputSpec& input, std::size_t k, std::uint64_t bits) {
    const std::size_t elements = input.bytes / size_of(input.dtype);
    std::size_t row = 1, rows = 1;  // the innermost dimension of more than one element, and the first dimension
    for (const std::int64_t n : input.shape)
        if (n > 1) row = static_cast<std::size_t>(n);
    if (!input.shape.empty()) rows = static_cast<std::size_t>(input.shape.front());
    const IdRange ids = ids_at(input, static_cast<std::int64_t>(k % elements));
    if (input.dtype == DType::boolean || (ids.entries < 0 && input.source == "ones"))
        return static_cast<T>((row > 1 && k % row == 0) || k == 0 || bits % 4 != 0);
    if (ids.ignore_index != 0 && k >= elements / rows && bits >> 61U == 0) return static_cast<T>(ids.ignore_index);
    return static_cast<T>(ids.entries > 0 ? bits % static_cast<std::uint64_t>(ids.entries) : 1);
}

// The micro-batches of all ranks.
inline void write_feed(const std::string& path) {
    std::vector<TensorToWrite> tensors;
    const auto micro_batches_of = [](const InputSpec& input) {
        return input.batched ? micro_batches * PROGRAM.mesh.world() : 1;
    };
    for (const InputSpec& input : PROGRAM.inputs) {
        tensors.push_back({std::string(input.name) + "_0",
                           is_float(input.dtype) ? DType::f32 : input.dtype,
                           {input.shape.begin(), input.shape.end()}});
        if (input.batched) tensors.back().shape.front() *= micro_batches_of(input);
    }
    SafetensorsWriter writer(path, tensors);
    // Floats behind the first micro-batches are those of these, a row further and a tenth smaller: as far from where a
    // model is steep, as a logarithm is.
    std::uint64_t state = 1, state_behind = 2;
    for (const InputSpec& input : PROGRAM.inputs) {
        const std::size_t n = input.bytes / size_of(input.dtype) * static_cast<std::size_t>(micro_batches_of(input));
        const std::size_t first = input.batched ? n / micro_batches : n;
        const std::size_t row =
            input.batched ? n / static_cast<std::size_t>(micro_batches_of(input) * input.shape[0]) : 0;
        std::vector<float> floats;
        const auto append = [&](auto value) { writer.append(&value, sizeof value); };
        // Where norms take the rows of all ranks, which the reference, one rank, has one micro-batch after the other
        // of, all have the same ones.
        const std::size_t once = PROGRAM.synced_norms && input.batched ? input.bytes / size_of(input.dtype) : n;
        const std::uint64_t begin = state;
        for (std::size_t at = 0; at < n; ++at) {
            const std::size_t k = at % once;
            if (k == 0) state = begin;
            const std::uint64_t bits = next(k < first ? state : state_behind);
            switch (input.dtype) {
                default:  // of floating point
                    if (at < std::min(first, once))
                        floats.push_back(static_cast<float>(static_cast<double>(bits >> 11) * 0x1p-52 - 1));
                    append(k < first ? floats[k] : 0.9F * floats[(k + row) % first]);
                    break;
                case DType::i64: append(integer<std::int64_t>(input, k, bits)); break;
                case DType::i32: append(integer<std::int32_t>(input, k, bits)); break;
                case DType::boolean: append(integer<std::uint8_t>(input, k, bits)); break;
            }
        }
    }
    writer.commit();
}

}  // namespace thunder

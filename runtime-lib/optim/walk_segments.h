// SPDX-License-Identifier: Apache-2.0
// Spreads the elements of all segments evenly over the threads.
#pragma once

#include <algorithm>
#include <span>

#include "device/parallel.h"
#include "optim/segments.h"
#include "rules/codes.h"

namespace thunder {

// The segments that are stepped element by element, by the kind of their states, in the order in which they come: as
// numbers, as codes; those that are stepped as wholes come behind.
inline std::span<const ParameterSegment> by_element(std::span<const ParameterSegment> segments) {
    const auto end = std::find_if(segments.begin(), segments.end(),
                                  [](const ParameterSegment& s) { return s.coded || s.is_whole(); });
    return segments.first(static_cast<std::size_t>(end - segments.begin()));
}
inline std::span<const ParameterSegment> by_block(std::span<const ParameterSegment> segments) {
    const std::span<const ParameterSegment> others = segments.subspan(by_element(segments).size());
    const auto end = std::find_if(others.begin(), others.end(), [](const ParameterSegment& s) { return s.is_whole(); });
    return others.first(static_cast<std::size_t>(end - others.begin()));
}

// Calls body(begin, end, segment) for pieces of segments; each element is in one piece.
template <typename Body>
void walk_segments(std::span<const ParameterSegment> segments, Body&& body) {
    std::int64_t total = 0;
    for (const ParameterSegment& s : segments) total += s.end - s.begin;
    parallel_for(total, 16384, [&](std::int64_t first, std::int64_t last) {
        std::int64_t before = 0;  // elements of the segments passed so far
        for (const ParameterSegment& s : segments) {
            const std::int64_t length = s.end - s.begin;
            const std::int64_t begin = std::max(first - before, std::int64_t{0}), end = std::min(last - before, length);
            if (begin < end) body(s.begin + begin, s.begin + end, s);
            before += length;
            if (before >= last) break;
        }
    });
}

// Calls body(begin, end, segment, block) for the blocks of segments, of which the first one of each is 0.
template <typename Body>
void walk_blocks(std::span<const ParameterSegment> segments, Body&& body) {
    constexpr std::int64_t size = rules::block_elements;
    const auto blocks = [](const ParameterSegment& s) { return (s.end - s.begin + size - 1) / size; };
    std::int64_t total = 0;
    for (const ParameterSegment& s : segments) total += blocks(s);
    parallel_for(total, 16384 / size, [&](std::int64_t first, std::int64_t last) {
        std::int64_t before = 0;
        for (const ParameterSegment& s : segments) {
            const std::int64_t to = std::min(last - before, blocks(s));
            for (std::int64_t block = std::max(first - before, std::int64_t{0}); block < to; ++block) {
                const std::int64_t begin = s.begin + block * size;
                body(begin, std::min(begin + size, s.end), s, block);
            }
            before += blocks(s);
            if (before >= last) break;
        }
    });
}

}  // namespace thunder

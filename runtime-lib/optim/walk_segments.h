// SPDX-License-Identifier: Apache-2.0
// Spreads the elements of all segments evenly over the threads.
#pragma once

#include <algorithm>
#include <span>

#include "device/parallel.h"
#include "optim/segments.h"

namespace thunder {

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

}  // namespace thunder

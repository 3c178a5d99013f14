// SPDX-License-Identifier: Apache-2.0
// What the numbers of a tensor say of its type: how large and how small they are, and how many of them it cannot hold.
#pragma once

#include <cstdint>

#include "device/call_observer.h"
#include "device/types.h"

namespace thunder {

// Of the elements that are numbers; sums are in double. `overflow` are infinite ones and, of codes, those at the
// type's largest number, since quantising saturates (clipped_of knows better where x is there); `underflow` those below
// the type's least normal number, which have fewer digits than it. Plain data: ranks give each other theirs.
struct TensorStatistics {
    std::int64_t elements = 0, zeros = 0, underflow = 0, overflow = 0, nans = 0;
    double amax = 0;            // of finite ones
    double least = 0;           // the least magnitude that is not 0; 0: there is none
    double sum_of_squares = 0;  // of finite ones

    void add(const TensorStatistics& other);
    double mean_square() const;  // of all elements
};

// Elements in host memory, in rows that lie `ld` apart; on the threads of the team, the same on any number of them.
// `divided_by`: each element is, in double; what it is counted as does not change.
TensorStatistics statistics_of(const void* data, DType dtype, std::int64_t rows, std::int64_t width, std::int64_t ld,
                               double divided_by = 1);

// How many of the codes of this type (e4m3, e5m2) were clipped: those whose number, had the type no end, would have
// been rounded to more than its largest one, infinities among them. One that is rounded to the largest is not: by a
// tensor's own amax that is where the amax lies. x and its scales are in host memory.
std::int64_t clipped_of(const Quantised& from, DType codes);

// Whether statistics_of() takes it.
bool has_statistics(DType dtype);

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Who looks on at the calls of a step, one by one: what times them (device/profiler.h), or what looks at the numbers
// that they write (watch/numerics.h). Most runs have nobody: a call then tests one pointer.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "device/types.h"

namespace thunder {

class Stream;
struct Recomputation;  // device/recomputation.h

// What a call moves and computes at least; 0 where that is not known.
struct Cost {
    double bytes = 0, flops = 0;
    enum class Arithmetic : std::uint8_t { f32, tf32, narrow } arithmetic = Arithmetic::f32;
};

// What codes of eight bits were made of: each element of x times a scale, rounded. Either one scale for all of x, or
// one for each block of the codes, by which those are to be multiplied.
struct Quantised {
    Input x{};  // (rows, width), rows that lie ld apart; null: the result is made of nothing that is known
    std::int64_t rows = 0, width = 0, ld = 0;
    Input scale{};         // one f32
    Input block_scales{};  // dense: a row of them for each row of blocks
    std::int64_t block_rows = 1, block_columns = 1;
    bool transposed = false;  // the codes, and their blocks, are those of x with rows and columns changed
};

// A tensor that a call writes.
struct CallResult {
    const char* field = "";  // of the call's struct; of a kernel "": its results have their order
    Output tensor{};
    Output inverse{};  // one f32 by which codes of eight bits are to be multiplied; null: by nothing, or in blocks
    Quantised from{};  // of codes
};

struct ObservedCall {
    std::string_view name;  // "linear_forward y f32 (16, 48), ...", or a kernel's name
    const Cost& cost;
    std::span<const CallResult> results;
    const Recomputation* recomputation = nullptr;  // of one of the results; null: none is known, or none was asked for
};

class CallObserver {
  public:
    virtual ~CallObserver() = default;

    // The call is about to be issued; what it reads is as the call will read it. By the thread that issues it: those of
    // communication have calls of their own. False: its end is not to be told.
    virtual bool begin(const ObservedCall& call, Stream& stream) = 0;
    virtual void end(Stream& stream) = 0;
    // Whether begin() is to have recomputations.
    virtual bool recomputes() const { return false; }
};

// Who is told of the functions of a program that begin and end around calls (Range).
class RangeObserver {
  public:
    virtual ~RangeObserver() = default;
    virtual void begin_range(const char* name) = 0;
    virtual void end_range() = 0;
};

// Null: nobody.
extern RangeObserver* range_observer;

}  // namespace thunder

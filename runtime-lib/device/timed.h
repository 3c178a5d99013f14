// SPDX-License-Identifier: Apache-2.0
// Times calls one by one, where --profile asks for it: a name, and what the call moves and computes at least.
#pragma once

#include <cstdint>
#include <string_view>

#include "device/stream.h"

namespace thunder {

// 0 where that is not known.
struct Cost {
    double bytes = 0, flops = 0;
    enum class Arithmetic : std::uint8_t { f32, tf32, narrow } arithmetic = Arithmetic::f32;
};

// Times what is issued in its lifetime; what other timed calls do within it is part of it.
class Timed {
  public:
    Timed(std::string_view name, const Cost& cost, Stream& stream)
        : profiler_(stream.device().profiler()), stream_(stream) {
        if (profiler_ != nullptr) begin(name, cost);
    }
    // Times nothing.
    explicit Timed(Stream& stream) : stream_(stream) {}
    ~Timed() noexcept(false) {
        if (profiler_ != nullptr) end();
    }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

  private:
    void begin(std::string_view name, const Cost& cost);
    void end();

    Profiler* profiler_ = nullptr;
    Stream& stream_;
};

}  // namespace thunder

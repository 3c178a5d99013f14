// SPDX-License-Identifier: Apache-2.0
// What the checks of providers share: tensors of the GPU, how far numbers are off, how long a call takes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "device/api.h"
#include "device/stream.h"

namespace providers {

using namespace thunder;
using Doubles = std::vector<double>;

// ||actual - expected|| / ||expected||; no number is as far off as can be.
inline double distance(const Doubles& expected, const Doubles& actual) {
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    const double relative = std::sqrt(error / norm);
    return std::isfinite(relative) ? relative : INFINITY;
}

class Tensor {  // of the GPU
  public:
    Tensor(Device& device, std::size_t bytes) : memory_(device.allocate(bytes)) {}
    void* at(std::int64_t bytes = 0) const { return memory_.data() + bytes; }
    void set(const void* from, Stream& stream) const {
        copy(memory_.data(), from, memory_.bytes(), stream);
        stream.synchronize();
    }
    template <typename T>
    std::vector<T> get(Stream& stream) const {
        std::vector<T> out(memory_.bytes() / sizeof(T));
        copy(out.data(), memory_.data(), memory_.bytes(), stream);
        stream.synchronize();
        return out;
    }

  private:
    Memory memory_;
};

inline Input input(const void* data, DType dtype) {
    Input in;
    in.data = data;
    in.dtype = dtype;
    return in;
}

inline Output output(void* data, DType dtype) {
    Output out;
    out.data = data;
    out.dtype = dtype;
    return out;
}

// The fastest of some runs, in milliseconds, each of several calls.
inline double milliseconds(const std::function<void()>& call, Stream& stream) {
    call();
    stream.synchronize();
    double best = INFINITY;
    for (int round = 0; round < 5; ++round) {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < 10; ++i) call();
        stream.synchronize();
        const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
        best = std::min(best, taken.count() / 10);
    }
    return best;
}

}  // namespace providers

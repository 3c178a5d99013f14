// SPDX-License-Identifier: Apache-2.0
// What the benchmarks share: one device, memory that is warm and not zero.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <random>

#include "device/check_cpu.h"
#include "device/stream.h"

namespace thunder::benchmarks {

inline Device& device() {
    static Device device(std::getenv("THREADS") == nullptr ? 0 : std::atoi(std::getenv("THREADS")));
    return device;
}

// `elements` floats from an arena of the device.
class Tensor {
  public:
    explicit Tensor(std::int64_t elements)
        : memory_(device().allocate(static_cast<std::size_t>(elements) * sizeof(float))) {
        std::minstd_rand engine(1);
        for (std::int64_t i = 0; i < elements; ++i) data()[i] = static_cast<float>(engine() % 2001) * 1e-3F - 1.0F;
    }
    float* data() const { return memory_.at<float>(0); }

  private:
    Memory memory_;
};

inline void flops(benchmark::State& state, double per_iteration) {
    state.counters["GFLOP/s"] = benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}
inline void bytes(benchmark::State& state, double per_iteration) {
    state.counters["GB/s"] = benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace thunder::benchmarks

#define THUNDER_BENCHMARK_MAIN()                                                         \
    int main(int argc, char** argv) {                                                    \
        thunder::check_cpu();                                                            \
        benchmark::Initialize(&argc, argv);                                              \
        benchmark::AddCustomContext("device", thunder::benchmarks::device().describe()); \
        benchmark::RunSpecifiedBenchmarks();                                             \
        return 0;                                                                        \
    }

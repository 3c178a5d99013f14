// Times calls on a stream one by one, and adds up what they cost: --profile.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "device/cuda/gpu.h"

namespace thunder {

// What a call moves and computes at least; 0 where that is not known.
struct Cost {
    double bytes = 0, flops = 0;
    enum class Arithmetic : std::uint8_t { f32, tf32, bf16 } arithmetic = Arithmetic::f32;
};

class Profiler {
  public:
    explicit Profiler(Roof roof) : roof_(roof) {}
    ~Profiler();
    Profiler(const Profiler&) = delete;
    Profiler& operator=(const Profiler&) = delete;

    // Around the work of a call; calls within a call are part of it.
    void begin(const std::string& name, const Cost& cost, cudaStream_t stream);
    void end(cudaStream_t stream);

    // A line for each name, longest first: calls, time, share, bytes and FLOPs a second, share of the roof. The first
    // call of each name is left out: in it libraries make their plans.
    std::string report();

  private:
    struct Pending {
        std::size_t row;
        cudaEvent_t begin, end;
    };
    struct Row {
        std::string name;
        std::int64_t calls = 0, timed = 0;
        double milliseconds = 0, bytes = 0, flops = 0, roof_seconds = 0;
        Cost cost;
    };
    void collect();
    cudaEvent_t take_event();

    Roof roof_;
    int depth_ = 0;
    std::map<std::string, std::size_t> index_;
    std::vector<Row> rows_;
    std::vector<Pending> pending_;
    std::vector<cudaEvent_t> free_;
};

}  // namespace thunder

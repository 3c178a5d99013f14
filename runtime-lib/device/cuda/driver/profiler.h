// SPDX-License-Identifier: Apache-2.0
// The clock of --profile on a GPU: events before and after each call.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "device/profiler.h"

namespace thunder {

class EventProfiler : public Profiler {
  public:
    explicit EventProfiler(Roof roof) : Profiler(roof) {}
    ~EventProfiler() override;

  private:
    void start(Stream& stream) override;
    void stop(std::size_t row, Stream& stream) override;
    void collect() override;
    cudaEvent_t take_event();

    struct Pending {
        std::size_t row;
        cudaEvent_t begin, end;
    };
    cudaEvent_t begin_ = nullptr;
    std::vector<Pending> pending_;
    std::vector<cudaEvent_t> free_;
};

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// The products of a 110M Llama (512 rows) and of a tiny one (256 rows), in their three orientations.
#include "common.h"
#include "device/api.h"

namespace thunder::benchmarks {
namespace {

enum Direction { forward, input, weight };

template <Direction direction>
void linear(benchmark::State& state) {
    const std::int64_t rows = state.range(0), out = state.range(1), in = state.range(2);
    const Tensor x(rows * in), w(out * in), y(rows * out);
    Stream stream(device());
    for (auto _ : state) {
        if (direction == forward)
            linear_forward({.y = y.data(), .x = x.data(), .weight = w.data(), .rows = rows, .in = in, .out = out},
                           stream);
        if (direction == input)
            linear_backward_input(
                {.dx = x.data(), .dy = y.data(), .weight = w.data(), .rows = rows, .in = in, .out = out}, stream);
        if (direction == weight)
            linear_backward_weight(
                {.dweight = w.data(), .dy = y.data(), .x = x.data(), .rows = rows, .in = in, .out = out}, stream);
    }
    flops(state, 2.0 * static_cast<double>(rows) * static_cast<double>(out) * static_cast<double>(in));
}

void shapes(benchmark::internal::Benchmark* b) {
    b->Unit(benchmark::kMicrosecond)->UseRealTime();
    for (const auto& [rows, out, in] : {std::tuple{512, 768, 768},
                                        {512, 2304, 768},
                                        {512, 4096, 768},
                                        {512, 768, 2048},
                                        {512, 32000, 768},
                                        {256, 64, 64},
                                        {256, 192, 64},
                                        {256, 344, 64},
                                        {256, 64, 172}}) {
        b->Args({rows, out, in});
    }
}
BENCHMARK(linear<forward>)->Apply(shapes);
BENCHMARK(linear<input>)->Apply(shapes);
BENCHMARK(linear<weight>)->Apply(shapes);

}  // namespace
}  // namespace thunder::benchmarks

THUNDER_BENCHMARK_MAIN()

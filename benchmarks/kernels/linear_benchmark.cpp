// SPDX-License-Identifier: Apache-2.0
// The products of a 110M Llama (512 rows) and of a tiny one (256 rows), in their three orientations.
#include <tuple>
#include <vector>

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

// A head of `classes` and the cross entropy of its logits, with all gradients, `chunk` rows at a time.
void head_in_chunks(benchmark::State& state) {
    const std::int64_t rows = state.range(0), in = state.range(1), classes = state.range(2), chunk = state.range(3);
    const Tensor x(rows * in), w(classes * in), dx(rows * in), dw(classes * in), logits(chunk * classes), lse(chunk),
        losses(rows / chunk);
    // Logits below 10: of larger ones probabilities are subnormal numbers, with which products take fifty times as
    // long.
    for (std::int64_t k = 0; k < classes * in; ++k) w.data()[k] *= 0.03F;
    const std::vector<std::int64_t> labels(static_cast<std::size_t>(rows), 5);
    const float dloss = 1e-3F;
    Stream stream(device());
    for (auto _ : state)
        linear_cross_entropy({.losses = losses.data(),
                              .dx = dx.data(),
                              .dweight = dw.data(),
                              .logits = logits.data(),
                              .lse = lse.data(),
                              .x = x.data(),
                              .weight = w.data(),
                              .labels = labels.data(),
                              .dloss = &dloss,
                              .chunk = chunk,
                              .rows = rows,
                              .in = in,
                              .classes = classes},
                             stream);
    flops(state, 6.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(classes));
}
BENCHMARK(head_in_chunks)
    ->ArgsProduct({{1024}, {288, 768}, {32000}, {1024, 512, 256, 128, 64}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace thunder::benchmarks

THUNDER_BENCHMARK_MAIN()

// SPDX-License-Identifier: Apache-2.0
// What memory bounds: cross entropy, AdamW, the norm, embedding, elementary functions. The rate is of the bytes that
// must move.
#include "common.h"
#include "device/api.h"
#include "device/cpu/activations.h"
#include "device/parallel.h"
#include "optim/global_norm.h"
#include "optim/rules/info.h"
#include "optim/update.h"

namespace thunder::benchmarks {
namespace {

void cross_entropy(benchmark::State& state) {
    const std::int64_t rows = state.range(0), classes = state.range(1);
    const Tensor logits(rows * classes), lse(rows);
    const std::vector<std::int64_t> labels(static_cast<std::size_t>(rows), 5);
    float loss = 0;
    const float dloss = 1;
    Stream stream(device());
    for (auto _ : state) {
        cross_entropy_forward({.loss = &loss,
                               .lse = lse.data(),
                               .logits = logits.data(),
                               .labels = labels.data(),
                               .rows = rows,
                               .classes = classes},
                              stream);
        cross_entropy_backward({.dlogits = logits.data(),
                                .logits = logits.data(),
                                .labels = labels.data(),
                                .lse = lse.data(),
                                .dloss = &dloss,
                                .rows = rows,
                                .classes = classes},
                               stream);
    }
    bytes(state, 4.0 * 3 * static_cast<double>(rows * classes));
}
BENCHMARK(cross_entropy)->Args({512, 32000})->Args({256, 256})->Unit(benchmark::kMicrosecond)->UseRealTime();

void adamw_step(benchmark::State& state) {
    const std::int64_t n = state.range(0);
    const Tensor p(n), g(n), m(n), v(n);
    std::fill(v.data(), v.data() + n, 0.5F);
    const ParameterSegment segments[] = {{0, n, true}};
    StepScalars scalars;
    const RuleInfo& rule = *find_rule("adamw");
    const std::vector<double> numbers = rule.step_numbers(usual_options(rule), {1e-3, 0, 1});
    std::copy(numbers.begin(), numbers.end(), scalars.rule);
    Stream stream(device());
    for (auto _ : state) {
        adamw({.parameters = p.data(),
               .gradients = g.data(),
               .states = {m.data(), v.data()},
               .segments = segments,
               .scalars = &scalars},
              stream);
    }
    bytes(state, 4.0 * 7 * static_cast<double>(n));
}
BENCHMARK(adamw_step)->Arg(110000000)->Arg(20000000)->Arg(200000)->Unit(benchmark::kMicrosecond)->UseRealTime();

void norm(benchmark::State& state) {
    const std::int64_t n = state.range(0);
    const Tensor g(n);
    StepScalars scalars;
    Stream stream(device());
    for (auto _ : state) global_norm(&scalars, g.data(), n, stream);
    bytes(state, 4.0 * static_cast<double>(n));
}
BENCHMARK(norm)->Arg(110000000)->Arg(20000000)->Arg(200000)->Unit(benchmark::kMicrosecond)->UseRealTime();

void embedding(benchmark::State& state) {
    const std::int64_t rows = 512, entries = 32000, width = 768;
    const Tensor weight(entries * width), y(rows * width);
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < rows; ++i) ids.push_back(i * 7919 % entries);
    Stream stream(device());
    for (auto _ : state) {
        embedding_backward({.dweight = weight.data(),
                            .dy = y.data(),
                            .ids = ids.data(),
                            .mode = state.range(0) != 0 ? WriteMode::add : WriteMode::overwrite,
                            .rows = rows,
                            .entries = entries,
                            .width = width},
                           stream);
    }
}
BENCHMARK(embedding)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond)->UseRealTime();

template <float (*function)(float)>
void elementary(benchmark::State& state) {
    const std::int64_t n = 1 << 14;
    const Tensor x(n), y(n);
    for (auto _ : state) {
        float* __restrict out = y.data();
        const float* __restrict in = x.data();
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) out[i] = function(in[i]);
        benchmark::ClobberMemory();
    }
    state.counters["elements/s"] =
        benchmark::Counter(static_cast<double>(n), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(elementary<math::exp>);
BENCHMARK(elementary<math::log>);
BENCHMARK(elementary<math::tanh>);
BENCHMARK(elementary<math::sigmoid>);
BENCHMARK(elementary<math::erf>);
BENCHMARK(elementary<math::sin>);
BENCHMARK(elementary<math::silu>);
BENCHMARK(elementary<math::gelu>);

}  // namespace
}  // namespace thunder::benchmarks

THUNDER_BENCHMARK_MAIN()

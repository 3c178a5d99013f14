// SPDX-License-Identifier: Apache-2.0
// Causal attention; the rate counts the scores that the mask leaves (half of the square): 2 products forward, 5
// backward.
#include "common.h"
#include "device/api.h"

namespace thunder::benchmarks {
namespace {

template <bool backward>
void attention(benchmark::State& state) {
    const std::int64_t B = state.range(0), T = state.range(1), NH = state.range(2), KVH = state.range(3),
                       HS = state.range(4);
    const Tensor q(B * T * NH * HS), k(B * T * KVH * HS), v(B * T * KVH * HS), out(B * T * NH * HS), lse(B * NH * T);
    const Tensor dq(B * T * NH * HS), dk(B * T * KVH * HS), dv(B * T * KVH * HS), dout(B * T * NH * HS);
    Stream stream(device());
    const auto run_forward = [&] {
        attention_forward({.out = out.data(),
                           .lse = lse.data(),
                           .q = q.data(),
                           .k = k.data(),
                           .v = v.data(),
                           .causal = true,
                           .scale = 0.125F,
                           .B = B,
                           .T = T,
                           .S = T,
                           .NH = NH,
                           .KVH = KVH,
                           .HS = HS},
                          stream);
    };
    run_forward();
    for (auto _ : state) {
        if (!backward) run_forward();
        if (backward) {
            attention_backward({.dq = dq.data(),
                                .dk = dk.data(),
                                .dv = dv.data(),
                                .dout = dout.data(),
                                .q = q.data(),
                                .k = k.data(),
                                .v = v.data(),
                                .out = out.data(),
                                .lse = lse.data(),
                                .causal = true,
                                .scale = 0.125F,
                                .B = B,
                                .T = T,
                                .S = T,
                                .NH = NH,
                                .KVH = KVH,
                                .HS = HS},
                               stream);
        }
    }
    const auto scores = static_cast<double>(B * NH * T) * static_cast<double>(T + 1) / 2;
    flops(state, (backward ? 5 : 2) * 2 * scores * static_cast<double>(HS));
}

void shapes(benchmark::internal::Benchmark* b) {
    b->Unit(benchmark::kMicrosecond)->UseRealTime();
    b->Args({2, 256, 12, 12, 64})
        ->Args({1, 1024, 8, 2, 128})
        ->Args({4, 64, 4, 4, 16})
        ->Args({4, 64, 4, 2, 16})
        ->Args({2, 256, 6, 6, 48});
}
BENCHMARK(attention<false>)->Apply(shapes);
BENCHMARK(attention<true>)->Apply(shapes);

}  // namespace
}  // namespace thunder::benchmarks

THUNDER_BENCHMARK_MAIN()

// SPDX-License-Identifier: Apache-2.0
// The calls of a naive program on a GPU: a thread for each element of the result, the sums in double.
#pragma once

#include "device/cuda/kernels/bundled.h"

namespace thunder::bundled {

struct ReferenceProduct {
    std::int64_t elements, m, n, k;                // of c in all; (m, k) times (k, n)
    std::int64_t step_a, step_b, row_a, column_b;  // from one k to the next; of a row, of a column
    std::int64_t stride_a, stride_b, stride_c;     // from one matrix of the batch to the next
    bool add;
};

// A sum, rounded once. By way of a float it is rounded twice, which differs where the float lies halfway between two
// numbers of a narrow type, `near` and its mirror image beyond the float: the sum says which is nearer.
template <typename C>
THUNDER_FUNCTION C rounded(double sum) {
    const float between = static_cast<float>(sum);
    const C near = narrow<C>(between);
    const float other = 2 * between - wide(near);  // exact where it is a number of that type
    const double off = sum - static_cast<double>(wide(near)), other_off = sum - static_cast<double>(other);
    const bool nearer = other_off * other_off < off * off;
    return nearer && wide(narrow<C>(other)) == other ? narrow<C>(other) : near;
}

template <typename C, typename A>
THUNDER_FUNCTION void reference_matmul(Global<C> c, Global<const A> a, Global<const A> b, ReferenceProduct p) {
    const std::int64_t at = global_index<256>();
    if (at >= p.elements) return;
    const std::int64_t batch = at / (p.m * p.n), i = at / p.n % p.m, j = at % p.n;
    const std::int64_t to = batch * p.stride_c + i * p.n + j;
    double sum = 0;
    for (std::int64_t l = 0; l < p.k; ++l) {
        const double x = wide(a[batch * p.stride_a + i * p.row_a + l * p.step_a]);
        const double y = wide(b[batch * p.stride_b + j * p.column_b + l * p.step_b]);
        sum += x * y;
    }
    if (p.add) sum += static_cast<double>(wide(c[to]));
    c[to] = rounded<C>(sum);
}

// An element is a word of its size.
template <typename Word, typename Id>
THUNDER_FUNCTION void reference_gather(Global<Word> y, Global<const Word> x, Global<const Id> index,
                                       std::int64_t elements, std::int64_t entries, std::int64_t count,
                                       std::int64_t inner) {
    const std::int64_t at = global_index<256>();
    if (at >= elements) return;
    const std::int64_t o = at / (count * inner), i = at / inner % count, k = at % inner;
    y[at] = x[(o * entries + index[i]) * inner + k];
}

template <typename Id>
THUNDER_FUNCTION void reference_scatter_add(Global<float> y, Global<const float> x, Global<const Id> index,
                                            std::int64_t elements, std::int64_t entries, std::int64_t count,
                                            std::int64_t inner) {
    const std::int64_t at = global_index<256>();
    if (at >= elements) return;
    const std::int64_t o = at / (entries * inner), e = at / inner % entries, k = at % inner;
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i)
        if (static_cast<std::int64_t>(index[i]) == e) sum += static_cast<double>(x[(o * count + i) * inner + k]);
    y[at] = static_cast<float>(sum);
}

// What philox({place / 4, number}, {draw, seed}) has in word place % 4, as a multiple of 2^-24 in [0, 1).
THUNDER_FUNCTION double reference_drawn(std::int64_t seed, std::int64_t draw, std::int64_t number, std::int64_t place) {
    const std::uint64_t counter = static_cast<std::uint64_t>(place) / 4, row = static_cast<std::uint64_t>(number);
    const std::uint64_t first = static_cast<std::uint64_t>(draw), second = static_cast<std::uint64_t>(seed);
    const std::uint64_t low = 0xFFFFFFFF;
    std::uint64_t x[4] = {counter & low, counter >> 32, row & low, row >> 32};
    for (std::uint64_t round = 0; round < 10; ++round) {
        const std::uint64_t a = 0xD2511F53 * x[0], b = 0xCD9E8D57 * x[2];
        const std::uint64_t k0 = (first + round * 0x9E3779B9) & low, k1 = (second + round * 0xBB67AE85) & low;
        x[0] = (b >> 32) ^ x[1] ^ k0;
        x[1] = b & low;
        x[2] = (a >> 32) ^ x[3] ^ k1;
        x[3] = a & low;
    }
    return static_cast<double>(x[place % 4] >> 8) * 0x1p-24;
}

THUNDER_KERNEL(256)
bundled_reference_random_uniform(Global<float> y, Global<const std::int64_t> seed, Global<const std::int64_t> draw,
                                 Global<const std::int64_t> numbers, std::int64_t elements, std::int64_t width) {
    wait_for_previous_kernel();
    const std::int64_t at = global_index<256>();
    if (at < elements) y[at] = static_cast<float>(reference_drawn(seed[0], draw[0], numbers[at / width], at % width));
}

THUNDER_KERNEL(256)
bundled_reference_random_bernoulli(Global<bool> y, Global<const std::int64_t> seed, Global<const std::int64_t> draw,
                                   Global<const std::int64_t> numbers, std::int64_t elements, std::int64_t width,
                                   double p) {
    wait_for_previous_kernel();
    const std::int64_t at = global_index<256>();
    if (at < elements) y[at] = reference_drawn(seed[0], draw[0], numbers[at / width], at % width) < p;
}

#define BUNDLED_REFERENCE_MATMUL(suffix, C, A)                                                                 \
    THUNDER_KERNEL(256)                                                                                        \
    bundled_reference_matmul_##suffix(Global<C> c, Global<const A> a, Global<const A> b, ReferenceProduct p) { \
        wait_for_previous_kernel();                                                                            \
        reference_matmul(c, a, b, p);                                                                          \
    }
BUNDLED_REFERENCE_MATMUL(f32_f32, float, float)
#define BUNDLED_NARROW_REFERENCE_MATMUL(T)      \
    BUNDLED_REFERENCE_MATMUL(f32_##T, float, T) \
    BUNDLED_REFERENCE_MATMUL(T##_##T, T, T)
THUNDER_NARROW_TYPES(BUNDLED_NARROW_REFERENCE_MATMUL)
#undef BUNDLED_NARROW_REFERENCE_MATMUL
#undef BUNDLED_REFERENCE_MATMUL

#define BUNDLED_REFERENCE_GATHER(suffix, Word, Id)                                                     \
    THUNDER_KERNEL(256)                                                                                \
    bundled_reference_gather_##suffix(Global<Word> y, Global<const Word> x, Global<const Id> index,    \
                                      std::int64_t elements, std::int64_t entries, std::int64_t count, \
                                      std::int64_t inner) {                                            \
        wait_for_previous_kernel();                                                                    \
        reference_gather(y, x, index, elements, entries, count, inner);                                \
    }
BUNDLED_REFERENCE_GATHER(1_i64, std::uint8_t, std::int64_t)
BUNDLED_REFERENCE_GATHER(2_i64, std::uint16_t, std::int64_t)
BUNDLED_REFERENCE_GATHER(4_i64, std::uint32_t, std::int64_t)
BUNDLED_REFERENCE_GATHER(8_i64, std::uint64_t, std::int64_t)
BUNDLED_REFERENCE_GATHER(1_i32, std::uint8_t, std::int32_t)
BUNDLED_REFERENCE_GATHER(2_i32, std::uint16_t, std::int32_t)
BUNDLED_REFERENCE_GATHER(4_i32, std::uint32_t, std::int32_t)
BUNDLED_REFERENCE_GATHER(8_i32, std::uint64_t, std::int32_t)
#undef BUNDLED_REFERENCE_GATHER

#define BUNDLED_REFERENCE_SCATTER_ADD(suffix, Id)                                                           \
    THUNDER_KERNEL(256)                                                                                     \
    bundled_reference_scatter_add_##suffix(Global<float> y, Global<const float> x, Global<const Id> index,  \
                                           std::int64_t elements, std::int64_t entries, std::int64_t count, \
                                           std::int64_t inner) {                                            \
        wait_for_previous_kernel();                                                                         \
        reference_scatter_add(y, x, index, elements, entries, count, inner);                                \
    }
BUNDLED_REFERENCE_SCATTER_ADD(i64, std::int64_t)
BUNDLED_REFERENCE_SCATTER_ADD(i32, std::int32_t)
#undef BUNDLED_REFERENCE_SCATTER_ADD

}  // namespace thunder::bundled

// SPDX-License-Identifier: Apache-2.0
// Cross entropy: a block of 512 threads for a row of logits, read once on the forward pass (online softmax: Milakov and
// Gimelshein 2018) and once in the backward pass, which may be in place. V adjacent elements a thread at once, whatever
// the row's length is.
#pragma once

#include "device/cuda/kernels/bundled.h"

namespace thunder::bundled {

inline constexpr int row_threads = 512;

// Of one thread, then of the block: the largest logit so far, and the sum of exp(logit - largest).
struct OnlineSum {
    float largest, sum;
};

// Some logits at once: one exponential for what was summed before, whatever the order in which they grow.
template <int V>
THUNDER_FUNCTION void take(OnlineSum& s, const float (&x)[V]) {
    float largest = x[0];
    THUNDER_UNROLL
    for (int k = 1; k < V; ++k) largest = math::max(largest, x[k]);
    if (largest > s.largest || largest != largest) {
        s.sum *= math::exp(s.largest - largest);
        s.largest = largest;
    }
    THUNDER_UNROLL
    for (int k = 0; k < V; ++k) s.sum += math::exp(x[k] - s.largest);
}

// Calls vector(j) for the columns of row i in groups of V that begin at multiples of V elements from the matrix's
// begin, and one(j) for those before and behind: rows of any length are read in whole vectors.
template <int V, typename Vector, typename One>
THUNDER_FUNCTION void walk_row(std::int64_t i, std::int64_t classes, Vector&& vector, One&& one) {
    const std::int64_t before = (V - i * classes % V) % V, head = before < classes ? before : classes;
    const std::int64_t tail = head + (classes - head) / V * V;
    for (std::int64_t j = thread_index(); j < head; j += row_threads) one(j);
    for (std::int64_t j = head + thread_index() * V; j < tail; j += row_threads * V) vector(j);
    for (std::int64_t j = tail + thread_index(); j < classes; j += row_threads) one(j);
}

template <int V, typename T>
THUNDER_FUNCTION void cross_entropy_forward(Global<double> losses, Global<float> lse, Global<const T> logits,
                                            Global<const std::int64_t> labels, std::int64_t ignore_index,
                                            std::int64_t classes) {
    THUNDER_SHARED(float, shared, row_threads / 32);
    const std::int64_t i = block_index(), label = labels[i];
    if (label == ignore_index) {  // for all threads of the block
        if (thread_index() == 0) {
            losses[i] = 0;
            lse[i] = 0;
        }
        return;
    }
    const auto row = logits + i * classes;
    OnlineSum mine{math::lowest<float>(), 0.0F};
    const auto take_one = [&](std::int64_t j) {
        const float x[1] = {wide(row[j])};
        take(mine, x);
    };
    const auto take_vector = [&](std::int64_t j) {
        const Vec<T, V> read = load<V>(row + j);
        float x[V];
        THUNDER_UNROLL
        for (int k = 0; k < V; ++k) x[k] = wide(read[k]);
        take(mine, x);
    };
    walk_row<V>(i, classes, take_vector, take_one);
    const float largest = block_max<row_threads>(mine.largest, shared);
    const float sum = block_sum<row_threads>(mine.sum * math::exp(mine.largest - largest), shared);
    if (thread_index() == 0) {
        const float result = largest + math::log(sum);
        lse[i] = result;
        losses[i] = static_cast<double>(result) - static_cast<double>(wide(row[label]));
    }
}

// The losses of the rows, in double, as a fixed tree.
THUNDER_KERNEL(512)
bundled_cross_entropy_sum(Global<float> loss, Global<const double> losses, std::int64_t rows) {
    wait_for_previous_kernel();
    THUNDER_SHARED(double, shared, row_threads / 32);
    double sum = 0;
    for (std::int64_t i = thread_index(); i < rows; i += row_threads) sum += losses[i];
    sum = block_sum<row_threads>(sum, shared);
    if (thread_index() == 0) loss[0] = static_cast<float>(sum);
}

// Columns [j, j + V). Each element is read before it is written, by the thread that writes it: in place is safe.
template <int V, typename D, typename T>
THUNDER_FUNCTION void cross_entropy_columns(Aliased<D> dlogits, Aliased<const T> logits, std::int64_t j,
                                            std::int64_t label, bool ignored, float shift, float scale) {
    Vec<D, V> out{};
    if (!ignored) {
        const Vec<T, V> x = load<V>(logits + j);
        THUNDER_UNROLL
        for (int k = 0; k < V; ++k) {
            const float probability = math::exp(wide(x[k]) - shift);
            out[k] = narrow<D>((j + k == label ? probability - 1.0F : probability) * scale);
        }
    } else {
        THUNDER_UNROLL
        for (int k = 0; k < V; ++k) out[k] = narrow<D>(0.0F);
    }
    store(dlogits + j, out);
}

template <int V, typename D, typename T>
THUNDER_FUNCTION void cross_entropy_backward(Aliased<D> dlogits, Aliased<const T> logits,
                                             Global<const std::int64_t> labels, Global<const float> lse,
                                             Global<const float> dloss, std::int64_t ignore_index,
                                             std::int64_t classes) {
    const std::int64_t i = block_index(), label = labels[i];
    const bool ignored = label == ignore_index;
    const float scale = dloss[0], shift = lse[i];
    const Aliased<D> to = dlogits + i * classes;
    const Aliased<const T> from = logits + i * classes;
    walk_row<V>(
        i, classes, [&](std::int64_t j) { cross_entropy_columns<V, D, T>(to, from, j, label, ignored, shift, scale); },
        [&](std::int64_t j) { cross_entropy_columns<1, D, T>(to, from, j, label, ignored, shift, scale); });
}

#define BUNDLED_CROSS_ENTROPY_FORWARD(name, V, T)                                                             \
    THUNDER_KERNEL(512)                                                                                       \
    name(Global<double> losses, Global<float> lse, Global<const T> logits, Global<const std::int64_t> labels, \
         std::int64_t ignore_index, std::int64_t classes) {                                                   \
        wait_for_previous_kernel();                                                                           \
        cross_entropy_forward<V>(losses, lse, logits, labels, ignore_index, classes);                         \
    }
#define BUNDLED_CROSS_ENTROPY_BACKWARD(name, V, D, T)                                                             \
    THUNDER_KERNEL(512)                                                                                           \
    name(Aliased<D> dlogits, Aliased<const T> logits, Global<const std::int64_t> labels, Global<const float> lse, \
         Global<const float> dloss, std::int64_t ignore_index, std::int64_t classes) {                            \
        wait_for_previous_kernel();                                                                               \
        cross_entropy_backward<V>(dlogits, logits, labels, lse, dloss, ignore_index, classes);                    \
    }
BUNDLED_CROSS_ENTROPY_FORWARD(bundled_cross_entropy_forward_f32, 1, float)
BUNDLED_CROSS_ENTROPY_FORWARD(bundled_cross_entropy_forward_f32_4, 4, float)
BUNDLED_CROSS_ENTROPY_BACKWARD(bundled_cross_entropy_backward_f32, 1, float, float)
BUNDLED_CROSS_ENTROPY_BACKWARD(bundled_cross_entropy_backward_f32_4, 4, float, float)
#define BUNDLED_NARROW_CROSS_ENTROPY(T)                                         \
    BUNDLED_CROSS_ENTROPY_FORWARD(bundled_cross_entropy_forward_##T, 1, T)      \
    BUNDLED_CROSS_ENTROPY_FORWARD(bundled_cross_entropy_forward_##T##_8, 8, T)  \
    BUNDLED_CROSS_ENTROPY_BACKWARD(bundled_cross_entropy_backward_##T, 1, T, T) \
    BUNDLED_CROSS_ENTROPY_BACKWARD(bundled_cross_entropy_backward_##T##_8, 8, T, T)
THUNDER_NARROW_TYPES(BUNDLED_NARROW_CROSS_ENTROPY)
#undef BUNDLED_NARROW_CROSS_ENTROPY
#undef BUNDLED_CROSS_ENTROPY_FORWARD
#undef BUNDLED_CROSS_ENTROPY_BACKWARD

}  // namespace thunder::bundled

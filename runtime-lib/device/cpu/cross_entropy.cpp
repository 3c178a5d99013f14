// SPDX-License-Identifier: Apache-2.0
// Cross entropy over rows of logits: a row is read twice while it is in cache, for its maximum and for the sum of
// exponentials; the backward pass is one pass, in place if asked.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/api.h"
#include "device/call_types.h"
#include "device/cpu/elements.h"
#include "device/cpu/require.h"
#include "device/cpu/vec_math.h"
#include "device/describe.h"
#include "device/parallel.h"

namespace thunder {

namespace {

// log(sum(exp(x))) over n logits from `first` on.
float log_sum_exp(const Input& logits, std::int64_t first, std::int64_t n) {
    float buffer[piece_elements];
    const std::int64_t piece = piece_of(n, {logits.dtype}), end = first + n;
    float largest = *elements(logits, first, 1, buffer);
    for (std::int64_t at = first; at < end; at += piece) {
        const std::int64_t count = std::min(piece, end - at);
        const float* x = elements(logits, at, count, buffer);
#pragma omp simd reduction(max : largest)
        for (std::int64_t j = 0; j < count; ++j) largest = x[j] > largest ? x[j] : largest;
    }
    float sum = 0;
    for (std::int64_t at = first; at < end; at += piece) {
        const std::int64_t count = std::min(piece, end - at);
        const float* x = elements(logits, at, count, buffer);
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < count; ++j) sum += math::exp(x[j] - largest);
    }
    return largest + std::log(sum);
}

}  // namespace

void cross_entropy_forward(const CrossEntropyForward& call, Stream& stream) {
    const Timed timed = timed_call("cross_entropy_forward", call, stream);
    check_types(call);
    auto* lse = static_cast<float*>(call.lse.data);
    auto* loss = static_cast<float*>(call.loss.data);
    const auto* labels = static_cast<const std::int64_t*>(call.labels.data);
    auto* losses = reinterpret_cast<double*>(stream.workspace(static_cast<std::size_t>(call.rows) * sizeof(double)));
    parallel_rows(call.rows, call.classes, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            losses[i] = 0;
            lse[i] = 0;
            if (labels[i] == call.ignore_index) continue;
            lse[i] = log_sum_exp(call.logits, i * call.classes, call.classes);
            float buffer = 0;
            const float of_label = *elements(call.logits, i * call.classes + labels[i], 1, &buffer);
            losses[i] = static_cast<double>(lse[i]) - static_cast<double>(of_label);
        }
    });
    double sum = 0;  // in row order
    for (std::int64_t i = 0; i < call.rows; ++i) sum += losses[i];
    *loss = static_cast<float>(sum);
}

void cross_entropy_backward(const CrossEntropyBackward& call, Stream& stream) {
    const Timed timed = timed_call("cross_entropy_backward", call, stream);
    check_types(call);
    const auto* lse = static_cast<const float*>(call.lse.data);
    const float dloss = *static_cast<const float*>(call.dloss.data);
    const auto* labels = static_cast<const std::int64_t*>(call.labels.data);
    const std::int64_t piece = piece_of(call.classes, {call.logits.dtype});
    parallel_rows(call.rows, call.classes, [&](std::int64_t begin, std::int64_t end) {
        float read[piece_elements], made[piece_elements];
        for (std::int64_t i = begin; i < end; ++i) {
            if (labels[i] == call.ignore_index) {
                const std::size_t size = size_of(call.dlogits.dtype);
                std::memset(advanced(call.dlogits, i * call.classes).data, 0,
                            static_cast<std::size_t>(call.classes) * size);
                continue;
            }
            const float shift = lse[i];
            for (std::int64_t at = 0; at < call.classes; at += piece) {
                const std::int64_t n = std::min(piece, call.classes - at), first = i * call.classes + at;
                const float* x = elements(call.logits, first, n, read);
                float* out = place_of(call.dlogits, first, made);
                // element j is read before it is written, whatever the vector's width: in place is safe
#pragma omp simd
                for (std::int64_t j = 0; j < n; ++j) out[j] = math::exp(x[j] - shift) * dloss;
                if (labels[i] >= at && labels[i] < at + n) out[labels[i] - at] -= dloss;
                put_back(call.dlogits, first, out, n);
            }
        }
    });
}

}  // namespace thunder

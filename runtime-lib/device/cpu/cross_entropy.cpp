// Cross entropy over rows of logits: a row is read twice while it is in cache, for its maximum and for the sum of
// exponentials; the way back is one pass, in place if asked.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/cpu/bf16.h"
#include "device/cpu/require.h"
#include "device/cpu/vec_math.h"
#include "device/menu.h"
#include "device/parallel.h"

namespace thunder {

namespace {

// log(sum(exp(row)))
template <typename T>
float log_sum_exp(const T* row, std::int64_t n) {
    float largest = to_float(row[0]);
#pragma omp simd reduction(max : largest)
    for (std::int64_t j = 0; j < n; ++j) largest = to_float(row[j]) > largest ? to_float(row[j]) : largest;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < n; ++j) sum += math::exp(to_float(row[j]) - largest);
    return largest + std::log(sum);
}

}  // namespace

void cross_entropy_forward(const CrossEntropyForward& call, Stream& stream) {
    constexpr const char* name = "cross_entropy_forward";
    float* lse = f32(name, "lse", call.lse);
    float* loss = f32(name, "loss", call.loss);
    require_dtype(name, "labels", call.labels, DType::i64);
    const auto* labels = static_cast<const std::int64_t*>(call.labels.data);
    auto* losses = reinterpret_cast<double*>(stream.workspace(static_cast<std::size_t>(call.rows) * sizeof(double)));
    with_elements(name, "logits", call.logits, [&](const auto* logits) {
        parallel_rows(call.rows, call.classes, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                losses[i] = 0;
                lse[i] = 0;
                if (labels[i] == call.ignore_index) continue;
                const auto* row = logits + i * call.classes;
                lse[i] = log_sum_exp(row, call.classes);
                losses[i] = static_cast<double>(lse[i]) - static_cast<double>(to_float(row[labels[i]]));
            }
        });
    });
    double sum = 0;  // in row order
    for (std::int64_t i = 0; i < call.rows; ++i) sum += losses[i];
    *loss = static_cast<float>(sum);
}

void cross_entropy_backward(const CrossEntropyBackward& call, Stream&) {
    constexpr const char* name = "cross_entropy_backward";
    require_dtype(name, "dlogits", call.dlogits, call.logits.dtype);
    const float* lse = f32(name, "lse", call.lse);
    const float dloss = *f32(name, "dloss", call.dloss);
    require_dtype(name, "labels", call.labels, DType::i64);
    const auto* labels = static_cast<const std::int64_t*>(call.labels.data);
    with_elements(name, "dlogits", call.dlogits, [&](auto* dlogits) {
        const auto* logits = static_cast<decltype(dlogits)>(const_cast<void*>(call.logits.data));
        parallel_rows(call.rows, call.classes, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                auto* out = dlogits + i * call.classes;
                const auto* row = logits + i * call.classes;
                const std::int64_t label = labels[i];
                if (label == call.ignore_index) {
                    std::memset(out, 0, static_cast<std::size_t>(call.classes) * sizeof *out);
                    continue;
                }
                const float shift = lse[i];
                const float of_label = math::exp(to_float(row[label]) - shift) * dloss - dloss;
                // element j is read before it is written, whatever the vector's width: in place is safe
#pragma omp simd
                for (std::int64_t j = 0; j < call.classes; ++j)
                    store(out[j], math::exp(to_float(row[j]) - shift) * dloss);
                store(out[label], of_label);
            }
        });
    });
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Indexed reads and writes: embedding, gather, scatter_add. What is added to one element is added in the order of the
// rows: threads share columns (or outer blocks), never the rows that one element receives.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "device/api.h"
#include "device/call_types.h"
#include "device/cpu/elements.h"
#include "device/cpu/require.h"
#include "device/describe.h"
#include "device/parallel.h"

namespace thunder {

namespace {

// The ids as i64 or i32.
template <typename Body>
void with_ids(const Input& ids, Body&& body) {
    if (ids.dtype == DType::i32) return body(static_cast<const std::int32_t*>(ids.data));
    body(static_cast<const std::int64_t*>(ids.data));
}

// Columns that a thread at least takes: whole cache lines, some 16 Ki elements over all rows.
std::int64_t column_grain(std::int64_t rows) {
    const std::int64_t columns = 16384 / std::max<std::int64_t>(1, rows);
    return std::max<std::int64_t>(16, (columns + 15) / 16 * 16);
}

// y[index[i], :] += x[i, :] for rows i in order.
template <typename Id>
void scatter_rows(float* y, const Input& x, const Id* index, std::int64_t rows, std::int64_t width) {
    const std::int64_t piece = piece_of(width, {x.dtype});
    parallel_for(width, column_grain(rows), [&](std::int64_t begin, std::int64_t end) {
        float buffer[piece_elements];
        for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t at = begin; at < end; at += piece) {
                const std::int64_t n = std::min(piece, end - at);
                float* out = y + static_cast<std::int64_t>(index[i]) * width + at;
                const float* in = elements(x, i * width + at, n, buffer);
#pragma omp simd
                for (std::int64_t c = 0; c < n; ++c) out[c] += in[c];
            }
        }
    });
}

// The same where y is bf16: the rows of one id are added up in f32 to what y has there, and rounded once. `order` is
// where the rows are put in the order of their ids.
template <typename Id>
void scatter_rows_rounded(const Output& y, const Input& x, const Id* index, std::int64_t* order, std::int64_t rows,
                          std::int64_t width) {
    std::iota(order, order + rows, std::int64_t{0});
    std::sort(order, order + rows,
              [index](std::int64_t a, std::int64_t b) { return std::pair(index[a], a) < std::pair(index[b], b); });
    const std::int64_t piece = piece_of(width, {x.dtype, y.dtype});
    parallel_for(width, column_grain(rows), [&](std::int64_t begin, std::int64_t end) {
        float sums[piece_elements], read[piece_elements];
        for (std::int64_t first = 0, last = 0; first < rows; first = last) {
            const auto id = static_cast<std::int64_t>(index[order[first]]);
            for (last = first; last < rows && static_cast<std::int64_t>(index[order[last]]) == id;) ++last;
            for (std::int64_t at = begin; at < end; at += piece) {
                const std::int64_t n = std::min(piece, end - at), to = id * width + at;
                std::copy_n(elements(as_input(y), to, n, read), n, sums);
                for (std::int64_t k = first; k < last; ++k) {
                    const float* in = elements(x, order[k] * width + at, n, read);
#pragma omp simd
                    for (std::int64_t c = 0; c < n; ++c) sums[c] += in[c];
                }
                put_back(y, to, sums, n);
            }
        }
    });
}

}  // namespace

void embedding_forward(const EmbeddingForward& call, Stream& stream) {
    const Timed timed = timed_call("embedding_forward", call, stream);
    check_types(call);
    const std::size_t bytes = static_cast<std::size_t>(call.width) * size_of(call.y.dtype);
    auto* y = static_cast<std::byte*>(call.y.data);
    const auto* weight = static_cast<const std::byte*>(call.weight.data);
    with_ids(call.ids, [&](const auto* ids) {
        parallel_rows(call.rows, call.width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                std::memcpy(y + static_cast<std::size_t>(i) * bytes, weight + static_cast<std::size_t>(ids[i]) * bytes,
                            bytes);
            }
        });
    });
}

void embedding_backward(const EmbeddingBackward& call, Stream& stream) {
    const Timed timed = timed_call("embedding_backward", call, stream);
    check_types(call);
    if (call.mode == WriteMode::overwrite) {
        const auto elements = static_cast<std::size_t>(call.entries * call.width);
        fill_zero(call.dweight.data, elements * size_of(call.dweight.dtype), stream);
    }
    with_ids(call.ids, [&](const auto* ids) {
        if (call.dweight.dtype == DType::f32)
            return scatter_rows(static_cast<float*>(call.dweight.data), call.dy, ids, call.rows, call.width);
        auto* order = reinterpret_cast<std::int64_t*>(
            stream.workspace(static_cast<std::size_t>(call.rows) * sizeof(std::int64_t)));
        scatter_rows_rounded(call.dweight, call.dy, ids, order, call.rows, call.width);
    });
}

void gather(const Gather& call, Stream& stream) {
    const Timed timed = timed_call("gather", call, stream);
    check_types(call);  // any type whose size is known: the bytes are moved as they are
    const std::size_t bytes = static_cast<std::size_t>(call.inner) * size_of(call.y.dtype);
    auto* y = static_cast<std::byte*>(call.y.data);
    const auto* x = static_cast<const std::byte*>(call.x.data);
    with_ids(call.index, [&](const auto* index) {
        parallel_rows(call.outer * call.count, call.inner, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t o = row / call.count, i = row % call.count;
                const auto from = static_cast<std::size_t>(o * call.entries + index[i]);
                std::memcpy(y + static_cast<std::size_t>(row) * bytes, x + from * bytes, bytes);
            }
        });
    });
}

void scatter_add(const ScatterAdd& call, Stream& stream) {
    const Timed timed = timed_call("scatter_add", call, stream);
    check_types(call);
    auto* y = static_cast<float*>(call.y.data);
    const auto* x = static_cast<const float*>(call.x.data);
    fill_zero(y, static_cast<std::size_t>(call.outer * call.entries * call.inner) * sizeof(float), stream);
    with_ids(call.index, [&](const auto* index) {
        if (call.outer == 1) return scatter_rows(y, x, index, call.count, call.inner);
        parallel_rows(call.outer, call.count * call.inner, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t o = begin; o < end; ++o) {
                for (std::int64_t i = 0; i < call.count; ++i) {
                    float* out = y + (o * call.entries + index[i]) * call.inner;
                    const float* in = x + (o * call.count + i) * call.inner;
                    for (std::int64_t c = 0; c < call.inner; ++c) out[c] += in[c];
                }
            }
        });
    });
}

}  // namespace thunder

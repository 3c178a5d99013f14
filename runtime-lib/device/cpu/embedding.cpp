// Indexed reads and writes: embedding, gather, scatter_add. What is added to one element is added in the order of the
// rows: threads share columns (or outer blocks), never the rows that one element receives.
#include <algorithm>
#include <cstring>

#include "device/cpu/elements.h"
#include "device/cpu/require.h"
#include "device/describe.h"
#include "device/menu.h"
#include "device/parallel.h"

namespace thunder {

namespace {

// The ids as i64 or i32.
template <typename Body>
void with_ids(const char* call, const char* name, const Input& ids, Body&& body) {
    if (ids.dtype == DType::i32) return body(static_cast<const std::int32_t*>(ids.data));
    require_dtype(call, name, ids, DType::i64);
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

}  // namespace

void embedding_forward(const EmbeddingForward& call, Stream& stream) {
    const Timed timed = timed_call("embedding_forward", call, stream);
    constexpr const char* name = "embedding_forward";
    require_float(name, "weight", call.weight);
    require_dtype(name, "y", call.y, call.weight.dtype);
    const std::size_t bytes = static_cast<std::size_t>(call.width) * size_of(call.y.dtype);
    auto* y = static_cast<std::byte*>(call.y.data);
    const auto* weight = static_cast<const std::byte*>(call.weight.data);
    with_ids(name, "ids", call.ids, [&](const auto* ids) {
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
    constexpr const char* name = "embedding_backward";
    require_float(name, "dweight", call.dweight);
    require_float(name, "dy", call.dy);
    const std::int64_t elements = call.entries * call.width;
    // A gradient in bf16 is summed in f32 and rounded once.
    const bool rounded = call.dweight.dtype == DType::bf16;
    auto* sums = static_cast<float*>(call.dweight.data);
    if (rounded) sums = reinterpret_cast<float*>(stream.workspace(static_cast<std::size_t>(elements) * sizeof(float)));
    if (call.gradient == Gradient::overwrite) {
        fill_zero(sums, static_cast<std::size_t>(elements) * sizeof(float), stream);
    } else if (rounded) {
        convert(sums, as_input(call.dweight), elements, stream);
    }
    with_ids(name, "ids", call.ids, [&](const auto* ids) { scatter_rows(sums, call.dy, ids, call.rows, call.width); });
    if (rounded) convert(call.dweight, sums, elements, stream);
}

void gather(const Gather& call, Stream& stream) {
    const Timed timed = timed_call("gather", call, stream);
    constexpr const char* name = "gather";
    // any type whose size is known: the bytes are moved as they are
    if (call.y.dtype != call.x.dtype) require_dtype(name, "x", call.x, call.y.dtype);
    const std::size_t bytes = static_cast<std::size_t>(call.inner) * size_of(call.y.dtype);
    auto* y = static_cast<std::byte*>(call.y.data);
    const auto* x = static_cast<const std::byte*>(call.x.data);
    with_ids(name, "index", call.index, [&](const auto* index) {
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
    constexpr const char* name = "scatter_add";
    float* y = f32(name, "y", call.y);
    const float* x = f32(name, "x", call.x);
    fill_zero(y, static_cast<std::size_t>(call.outer * call.entries * call.inner) * sizeof(float), stream);
    with_ids(name, "index", call.index, [&](const auto* index) {
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

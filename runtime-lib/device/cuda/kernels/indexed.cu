// SPDX-License-Identifier: Apache-2.0
// Embedding, gather, scatter_add.
#include <algorithm>

#include "device/api.h"
#include "device/call_types.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/kernels/indexed.cuh"
#include "device/cuda/launch.h"

namespace thunder {

namespace {

std::int64_t blocks_of(std::int64_t n, std::int64_t threads = 256) {
    return (n + threads - 1) / threads;
}

// The ids as i64 or i32, with the kernel for each.
template <typename Wide, typename Narrow, typename Body>
void with_ids(const Input& ids, Wide* wide, Narrow* narrow, Body&& body) {
    if (ids.dtype == DType::i32) return body(narrow, static_cast<const std::int32_t*>(ids.data));
    body(wide, static_cast<const std::int64_t*>(ids.data));
}

// Moves rows of `bytes` bytes: y[o][i] = x[o][index[i]].
void gather_rows(void* y, const void* x, const Input& index, std::int64_t outer, std::int64_t entries,
                 std::int64_t count, std::int64_t bytes, Stream& stream) {
    using namespace bundled;
    const auto all =
        reinterpret_cast<std::uintptr_t>(y) | reinterpret_cast<std::uintptr_t>(x) | static_cast<std::uintptr_t>(bytes);
    const auto move = [&](auto* wide, auto* narrow, auto word) {
        using Word = decltype(word);
        const std::int64_t inner = bytes / static_cast<std::int64_t>(sizeof(Word));
        with_ids(index, wide, narrow, [&](auto* kernel, const auto* ids) {
            const std::int64_t words = outer * count * inner;
            launch("gather", kernel, blocks_of(words), 256, stream, static_cast<Word*>(y), static_cast<const Word*>(x),
                   ids, words, entries, count, inner);
        });
    };
    if (all % 8 == 0) return move(bundled_gather_8_i64, bundled_gather_8_i32, std::uint64_t{});
    if (all % 4 == 0) return move(bundled_gather_4_i64, bundled_gather_4_i32, std::uint32_t{});
    if (all % 2 == 0) return move(bundled_gather_2_i64, bundled_gather_2_i32, std::uint16_t{});
    move(bundled_gather_1_i64, bundled_gather_1_i32, std::uint8_t{});
}

}  // namespace

void embedding_forward(const EmbeddingForward& call, Stream& stream) {
    using namespace bundled;
    issue("embedding_forward", call, stream, [&] {
        check_types(call);
        gather_rows(call.y.data, call.weight.data, call.ids, 1, call.entries, call.rows,
                    call.width * static_cast<std::int64_t>(size_of(call.y.dtype)), stream);
    });
}

void embedding_backward(const EmbeddingBackward& call, Stream& stream) {
    using namespace bundled;
    issue("embedding_backward", call, stream, [&] {
        check_types(call);
        const bool add = call.mode == WriteMode::add;
        if (!add) {
            fill_zero(call.dweight.data,
                      static_cast<std::size_t>(call.entries * call.width) * size_of(call.dweight.dtype), stream);
        }
        if (call.rows == 0) return;
        const std::int64_t pieces = (call.rows + piece_rows - 1) / piece_rows;
        const std::int64_t column_blocks = blocks_of(call.width, 128);
        // in the workspace: the parts, the rows in order, their ids
        const std::size_t parts_bytes = static_cast<std::size_t>(2 * pieces * call.width) * sizeof(float);
        const std::size_t rows_bytes = static_cast<std::size_t>((call.rows + 63) / 64 * 64) * sizeof(std::int32_t);
        const std::size_t parts_end = (parts_bytes + 255) / 256 * 256;
        std::byte* const workspace = stream.workspace(parts_end + 2 * rows_bytes);
        auto* parts = reinterpret_cast<float*>(workspace);
        auto* order = reinterpret_cast<std::int32_t*>(workspace + parts_end);
        auto* sorted = reinterpret_cast<std::int32_t*>(workspace + parts_end + rows_bytes);
        with_ids(call.ids, bundled_sort_rows_i64, bundled_sort_rows_i32, [&](auto* kernel, const auto* ids) {
            launch("sort_rows", kernel, blocks_of(call.rows), 256, stream, order, sorted, ids, call.rows);
        });
        const auto sum = [&](auto* in_pieces, auto* over_pieces, auto* dweight, auto* dy) {
            launch("embedding_pieces", in_pieces, pieces * column_blocks, 128, stream, dweight, parts, dy, order,
                   sorted, call.rows, call.width, add);
            launch("embedding_parts", over_pieces, pieces * column_blocks, 128, stream, dweight, parts, sorted,
                   call.rows, call.width, add);
        };
        auto* f32 = static_cast<float*>(call.dweight.data);
        const bool wide = call.dweight.dtype == DType::f32;
        if (call.dy.dtype == DType::f32)
            sum(bundled_embedding_pieces_f32_f32, bundled_embedding_parts_f32, f32,
                static_cast<const float*>(call.dy.data));
#define THUNDER_SUM(T)                                                                                                \
    if (call.dy.dtype == DType::T && wide)                                                                            \
        sum(bundled_embedding_pieces_f32_##T, bundled_embedding_parts_f32, f32, static_cast<const T*>(call.dy.data)); \
    if (call.dy.dtype == DType::T && !wide)                                                                           \
        sum(bundled_embedding_pieces_##T##_##T, bundled_embedding_parts_##T, static_cast<T*>(call.dweight.data),      \
            static_cast<const T*>(call.dy.data));
        THUNDER_NARROW_TYPES(THUNDER_SUM)
#undef THUNDER_SUM
    });
}

void gather(const Gather& call, Stream& stream) {
    issue("gather", call, stream, [&] {
        check_types(call);
        gather_rows(call.y.data, call.x.data, call.index, call.outer, call.entries, call.count,
                    call.inner * static_cast<std::int64_t>(size_of(call.y.dtype)), stream);
    });
}

void scatter_add(const ScatterAdd& call, Stream& stream) {
    using namespace bundled;
    issue("scatter_add", call, stream, [&] {
        check_types(call);
        auto* y = static_cast<float*>(call.y.data);
        fill_zero(y, static_cast<std::size_t>(call.outer * call.entries * call.inner) * sizeof(float), stream);
        with_ids(call.index, bundled_scatter_add_i64, bundled_scatter_add_i32, [&](auto* kernel, const auto* index) {
            launch("scatter_add", kernel, blocks_of(call.outer * call.inner), 256, stream, y,
                   static_cast<const float*>(call.x.data), index, call.outer, call.entries, call.count, call.inner);
        });
    });
}

}  // namespace thunder

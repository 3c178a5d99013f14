// SPDX-License-Identifier: Apache-2.0
// Grouped linear layers on a CPU: rows are put in the order of their groups, and the rows of a group are one product.
//
// Rows are multiplied as f32, whatever they are stored as. The library compiles a product for each number of rows that
// it meets, and the numbers of rows of groups are data: they are rounded up by rows of zeros, so that there are few.
#include <algorithm>
#include <cstring>

#include "device/api.h"
#include "device/call_types.h"
#include "device/cpu/elements.h"
#include "device/cpu/products.h"
#include "device/describe.h"
#include "device/parallel.h"

namespace thunder {

namespace {

constexpr std::int64_t rows_at_once = 512, rows_multiple = 16;

std::int64_t rounded_up(std::int64_t rows) {
    return (rows + rows_multiple - 1) / rows_multiple * rows_multiple;
}

// The workspace of one call: where rows of each group are, and the rows of one product.
struct Workspace {
    std::int64_t* order = nullptr;  // (rows), by group, those of a group in their own order
    std::int64_t* begin = nullptr;  // (groups + 1), into order
    float* x = nullptr;             // (rows_at_once, in)
    float* y = nullptr;             // (rows_at_once, out)
    float* matrix = nullptr;        // (out, in), where the call's is narrow

    template <typename Call>
    Workspace(const Call& call, DType matrix_type, Stream& stream) {
        const std::int64_t most = std::min(rows_at_once, rounded_up(call.rows));
        const std::int64_t numbers = (call.rows + call.groups + 1 + 7) / 8 * 8;  // what follows is aligned
        const std::int64_t floats = most * (call.in + call.out) + (matrix_type == DType::f32 ? 0 : call.in * call.out);
        order =
            reinterpret_cast<std::int64_t*>(stream.workspace(static_cast<std::size_t>(numbers) * sizeof(std::int64_t) +
                                                             static_cast<std::size_t>(floats) * sizeof(float)));
        begin = order + call.rows;
        x = reinterpret_cast<float*>(order + numbers);
        y = x + most * call.in;
        matrix = y + most * call.out;
        if (call.ids.dtype == DType::i32)
            sort(static_cast<const std::int32_t*>(call.ids.data), call.rows, call.groups);
        else
            sort(static_cast<const std::int64_t*>(call.ids.data), call.rows, call.groups);
    }

  private:
    template <typename Id>
    void sort(const Id* ids, std::int64_t rows, std::int64_t groups) {
        std::fill_n(begin, groups + 1, 0);
        for (std::int64_t i = 0; i < rows; ++i) ++begin[ids[i] + 1];
        for (std::int64_t e = 0; e < groups; ++e) begin[e + 1] += begin[e];
        for (std::int64_t i = 0; i < rows; ++i) order[begin[ids[i]]++] = i;
        for (std::int64_t e = groups; e > 0; --e) begin[e] = begin[e - 1];
        begin[0] = 0;
    }
};

// Rows that one product takes, of one group.
struct Piece {
    const std::int64_t* order;
    std::int64_t rows;

    std::int64_t padded() const { return rounded_up(rows); }
};

// Calls body(piece, whether it is the group's first) for all rows of a group.
template <typename Body>
void for_each_piece(const Workspace& own, std::int64_t group, Body&& body) {
    const std::int64_t begin = own.begin[group], end = own.begin[group + 1];
    for (std::int64_t first = begin; first < end; first += rows_at_once)
        body(Piece{own.order + first, std::min(rows_at_once, end - first)}, first == begin);
}

// Rows of zeros behind them.
void take_rows(float* to, const Input& from, const Piece& piece, std::int64_t width) {
    parallel_rows(piece.padded(), width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            if (i < piece.rows)
                load_elements(to + i * width, from, piece.order[i] * width, width);
            else
                std::memset(to + i * width, 0, static_cast<std::size_t>(width) * sizeof(float));
        }
    });
}

void put_rows(const Output& to, const float* from, const Piece& piece, std::int64_t width) {
    parallel_rows(piece.rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) store_elements(to, piece.order[i] * width, from + i * width, width);
    });
}

}  // namespace

void grouped_linear(const GroupedLinear& call, Stream& stream) {
    const Timed timed = timed_call("grouped_linear", call, stream);
    check_types(call);
    const Workspace own(call, call.weight.dtype, stream);
    const std::int64_t size = call.in * call.out;
    for (std::int64_t e = 0; e < call.groups; ++e) {
        if (own.begin[e] == own.begin[e + 1]) continue;
        const float* matrix = own.matrix;
        if (call.weight.dtype == DType::f32)
            matrix = static_cast<const float*>(call.weight.data) + e * size;
        else
            parallel_rows(size, 1, [&](std::int64_t begin, std::int64_t end) {
                load_elements(own.matrix + begin, call.weight, e * size + begin, end - begin);
            });
        for_each_piece(own, e, [&](const Piece& piece, bool) {
            take_rows(own.x, call.x, piece, call.in);
            plain_product({.c = own.y,
                           .a = static_cast<const float*>(own.x),
                           .b = matrix,
                           .transpose_b = !call.transpose,
                           .m = piece.padded(),
                           .n = call.out,
                           .k = call.in,
                           .ld_a = call.in,
                           .ld_b = call.transpose ? call.out : call.in,
                           .ld_c = call.out},
                          stream);
            put_rows(call.y, own.y, piece, call.out);
        });
    }
}

void grouped_linear_backward_weight(const GroupedLinearBackwardWeight& call, Stream& stream) {
    const Timed timed = timed_call("grouped_linear_backward_weight", call, stream);
    check_types(call);
    const Workspace own(call, call.dweight.dtype, stream);
    const std::int64_t size = call.in * call.out;
    const bool add = call.mode == WriteMode::add, is_f32 = call.dweight.dtype == DType::f32;
    for (std::int64_t e = 0; e < call.groups; ++e) {
        if (own.begin[e] == own.begin[e + 1]) {
            if (!add)
                fill_zero(advanced(call.dweight, e * size).data,
                          static_cast<std::size_t>(size) * size_of(call.dweight.dtype), stream);
            continue;
        }
        float* matrix = is_f32 ? static_cast<float*>(call.dweight.data) + e * size : own.matrix;
        if (add && !is_f32) load_elements(matrix, as_input(call.dweight), e * size, size);
        for_each_piece(own, e, [&](const Piece& piece, bool first) {
            take_rows(own.x, call.x, piece, call.in);
            take_rows(own.y, call.dy, piece, call.out);
            const auto *x = static_cast<const float*>(own.x), *dy = static_cast<const float*>(own.y);
            plain_product({.c = matrix,
                           .a = call.transpose ? x : dy,
                           .b = call.transpose ? dy : x,
                           .transpose_a = true,
                           .accumulate = add || !first,
                           .m = call.transpose ? call.in : call.out,
                           .n = call.transpose ? call.out : call.in,
                           .k = piece.padded(),
                           .ld_a = call.transpose ? call.in : call.out,
                           .ld_b = call.transpose ? call.out : call.in,
                           .ld_c = call.transpose ? call.out : call.in},
                          stream);
        });
        if (!is_f32) store_elements(call.dweight, e * size, matrix, size);
    }
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Grouped linear layers.
#include <algorithm>

#include "device/api.h"
#include "device/call_types.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/grouped/grouped.cuh"
#include "device/cuda/launch.h"

namespace thunder {

namespace {

std::int64_t tiles_of(std::int64_t n) {
    return (n + bundled::grouped_tile - 1) / bundled::grouped_tile;
}

template <typename Call>
bundled::GroupedSizes sizes_of(const Call& call) {
    return {call.rows, call.groups, call.in, call.out, call.transpose};
}

// In the workspace: rows by group, and where each group begins.
struct Groups {
    std::int32_t *order, *begin;
};

Groups find_groups(const Input& ids, std::int64_t rows, std::int64_t groups, Stream& stream) {
    using namespace bundled;
    auto* order = reinterpret_cast<std::int32_t*>(
        stream.workspace(static_cast<std::size_t>(2 * rows + groups + 1) * sizeof(std::int32_t)));
    std::int32_t *sorted = order + rows, *begin = sorted + rows;
    const std::int64_t blocks = (rows + 255) / 256;
    if (ids.dtype == DType::i32)
        launch("sort_rows", bundled_grouped_sort_i32, blocks, 256, stream, order, sorted,
               static_cast<const std::int32_t*>(ids.data), rows);
    else
        launch("sort_rows", bundled_grouped_sort_i64, blocks, 256, stream, order, sorted,
               static_cast<const std::int64_t*>(ids.data), rows);
    launch("find_groups", bundled_grouped_find, groups / 256 + 1, 256, stream, begin, sorted, rows, groups);
    return {order, begin};
}

// Calls body(kernel of grouped_linear, of the gradient, the result, a null pointer of the factors' type) with those
// that fit the types.
template <typename Body>
void with_types(const Output& result, const Input& factor, Body&& body) {
    using namespace bundled;
    if (factor.dtype == DType::f32)
        body(bundled_grouped_linear_f32_f32, bundled_grouped_backward_weight_f32_f32, static_cast<float*>(result.data),
             static_cast<const float*>(nullptr));
#define THUNDER_WITH(T)                                                                   \
    if (factor.dtype == DType::T && result.dtype == DType::f32)                           \
        body(bundled_grouped_linear_f32_##T, bundled_grouped_backward_weight_f32_##T,     \
             static_cast<float*>(result.data), static_cast<const T*>(nullptr));           \
    if (factor.dtype == DType::T && result.dtype == DType::T)                             \
        body(bundled_grouped_linear_##T##_##T, bundled_grouped_backward_weight_##T##_##T, \
             static_cast<T*>(result.data), static_cast<const T*>(nullptr));
    THUNDER_NARROW_TYPES(THUNDER_WITH)
#undef THUNDER_WITH
}

}  // namespace

void grouped_linear(const GroupedLinear& call, Stream& stream) {
    if (call.rows <= 0 || call.out <= 0) return;
    issue("grouped_linear", call, stream, [&] {
        check_types(call);
        const Groups at = find_groups(call.ids, call.rows, call.groups, stream);
        // As many tiles of rows as there can be: a group's last one may be partly empty.
        const std::int64_t tiles = call.rows / bundled::grouped_tile + std::min(call.rows, call.groups);
        with_types(call.y, call.x, [&](auto* kernel, auto*, auto* y, const auto* factor) {
            using Factor = decltype(factor);
            launch("grouped_linear", kernel, tiles * tiles_of(call.out), 256, stream, y,
                   static_cast<Factor>(call.x.data), static_cast<Factor>(call.weight.data), at.order, at.begin,
                   sizes_of(call));
        });
    });
}

void grouped_linear_backward_weight(const GroupedLinearBackwardWeight& call, Stream& stream) {
    if (call.groups <= 0 || call.out <= 0 || call.in <= 0) return;
    issue("grouped_linear_backward_weight", call, stream, [&] {
        check_types(call);
        const Groups at = find_groups(call.ids, call.rows, call.groups, stream);
        with_types(call.dweight, call.x, [&](auto*, auto* kernel, auto* dweight, const auto* factor) {
            using Factor = decltype(factor);
            launch("grouped_backward_weight", kernel, call.groups * tiles_of(call.out) * tiles_of(call.in), 256, stream,
                   dweight, static_cast<Factor>(call.dy.data), static_cast<Factor>(call.x.data), at.order, at.begin,
                   sizes_of(call), call.mode == WriteMode::add);
        });
    });
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// What device/reference.h declares, on a GPU.
#include "device/call_types.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/launch.h"
#include "device/cuda/reference/reference.cuh"
#include "device/reference.h"

namespace thunder {

namespace {

std::int64_t reference_blocks(std::int64_t elements) {
    return (elements + 255) / 256;
}

template <typename Wide, typename Narrow, typename Body>
void with_reference_ids(const Input& ids, Wide* wide, Narrow* narrow, Body&& body) {
    if (ids.dtype == DType::i32) return body(narrow, static_cast<const std::int32_t*>(ids.data));
    body(wide, static_cast<const std::int64_t*>(ids.data));
}

}  // namespace

void reference_matmul(const Matmul& call, Stream& stream) {
    using namespace bundled;
    issue("reference_matmul", call, stream, [&] {
        check_types(call);
        if (call.batch <= 0 || call.m <= 0 || call.n <= 0) return;
        ReferenceProduct p{};
        p.elements = call.batch * call.m * call.n;
        p.m = call.m;
        p.n = call.n;
        p.k = call.k;
        p.step_a = call.transpose_a ? call.m : 1;
        p.row_a = call.transpose_a ? 1 : call.k;
        p.step_b = call.transpose_b ? 1 : call.n;
        p.column_b = call.transpose_b ? call.k : 1;
        p.stride_a = call.stride_a;
        p.stride_b = call.stride_b;
        p.stride_c = call.stride_c != 0 ? call.stride_c : call.m * call.n;
        p.add = call.mode == WriteMode::add;
        const auto with = [&](auto* kernel, auto* c, auto* a) {
            launch("reference_matmul", kernel, reference_blocks(p.elements), 256, stream, c, a,
                   static_cast<decltype(a)>(call.b.data), p);
        };
        if (call.a.dtype == DType::f32)
            with(bundled_reference_matmul_f32_f32, static_cast<float*>(call.c.data),
                 static_cast<const float*>(call.a.data));
#define THUNDER_PRODUCT(T)                                                                                            \
    if (call.a.dtype == DType::T && call.c.dtype == DType::f32)                                                       \
        with(bundled_reference_matmul_f32_##T, static_cast<float*>(call.c.data), static_cast<const T*>(call.a.data)); \
    if (call.a.dtype == DType::T && call.c.dtype == DType::T)                                                         \
        with(bundled_reference_matmul_##T##_##T, static_cast<T*>(call.c.data), static_cast<const T*>(call.a.data));
        THUNDER_NARROW_TYPES(THUNDER_PRODUCT)
#undef THUNDER_PRODUCT
    });
}

void reference_gather(const Gather& call, Stream& stream) {
    using namespace bundled;
    issue("reference_gather", call, stream, [&] {
        check_types(call);
        const std::int64_t elements = call.outer * call.count * call.inner;
        if (elements == 0) return;
        const auto move = [&](auto* wide, auto* narrow, auto word) {
            using Word = decltype(word);
            with_reference_ids(call.index, wide, narrow, [&](auto* kernel, const auto* ids) {
                launch("reference_gather", kernel, reference_blocks(elements), 256, stream,
                       static_cast<Word*>(call.y.data), static_cast<const Word*>(call.x.data), ids, elements,
                       call.entries, call.count, call.inner);
            });
        };
        switch (size_of(call.y.dtype)) {
            case 1: return move(bundled_reference_gather_1_i64, bundled_reference_gather_1_i32, std::uint8_t{});
            case 2: return move(bundled_reference_gather_2_i64, bundled_reference_gather_2_i32, std::uint16_t{});
            case 4: return move(bundled_reference_gather_4_i64, bundled_reference_gather_4_i32, std::uint32_t{});
            default: return move(bundled_reference_gather_8_i64, bundled_reference_gather_8_i32, std::uint64_t{});
        }
    });
}

void reference_scatter_add(const ScatterAdd& call, Stream& stream) {
    using namespace bundled;
    issue("reference_scatter_add", call, stream, [&] {
        check_types(call);
        const std::int64_t elements = call.outer * call.entries * call.inner;
        if (elements == 0) return;
        with_reference_ids(call.index, bundled_reference_scatter_add_i64, bundled_reference_scatter_add_i32,
                           [&](auto* kernel, const auto* ids) {
                               launch("reference_scatter_add", kernel, reference_blocks(elements), 256, stream,
                                      static_cast<float*>(call.y.data), static_cast<const float*>(call.x.data), ids,
                                      elements, call.entries, call.count, call.inner);
                           });
    });
}

void reference_random_uniform(const RandomUniform& call, Stream& stream) {
    issue("reference_random_uniform", call, stream, [&] {
        check_types(call);
        const std::int64_t elements = call.rows * call.width;
        if (elements == 0) return;
        launch("reference_random_uniform", bundled::bundled_reference_random_uniform, reference_blocks(elements), 256,
               stream, static_cast<float*>(call.y.data), static_cast<const std::int64_t*>(call.seed.data),
               static_cast<const std::int64_t*>(call.draw.data), static_cast<const std::int64_t*>(call.numbers.data),
               elements, call.width);
    });
}

void reference_random_bernoulli(const RandomBernoulli& call, Stream& stream) {
    issue("reference_random_bernoulli", call, stream, [&] {
        check_types(call);
        const std::int64_t elements = call.rows * call.width;
        if (elements == 0) return;
        launch("reference_random_bernoulli", bundled::bundled_reference_random_bernoulli, reference_blocks(elements),
               256, stream, static_cast<bool*>(call.y.data), static_cast<const std::int64_t*>(call.seed.data),
               static_cast<const std::int64_t*>(call.draw.data), static_cast<const std::int64_t*>(call.numbers.data),
               elements, call.width, call.p);
    });
}

}  // namespace thunder

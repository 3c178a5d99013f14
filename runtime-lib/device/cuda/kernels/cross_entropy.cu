// SPDX-License-Identifier: Apache-2.0
#include "device/api.h"
#include "device/call_types.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/kernels/cross_entropy.cuh"
#include "device/cuda/launch.h"

namespace thunder {

namespace {

bool aligned(const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

}  // namespace

void cross_entropy_forward(const CrossEntropyForward& call, Stream& stream) {
    using namespace bundled;
    issue("cross_entropy_forward", call, stream, [&] {
        check_types(call);
        auto* losses =
            reinterpret_cast<double*>(stream.workspace(static_cast<std::size_t>(call.rows) * sizeof(double)));
        const auto forward = [&](auto* one, auto* vector, auto* logits) {
            launch("cross_entropy_forward", aligned(logits) ? vector : one, call.rows, row_threads, stream, losses,
                   static_cast<float*>(call.lse.data), logits, static_cast<const std::int64_t*>(call.labels.data),
                   call.ignore_index, call.classes);
        };
        if (call.logits.dtype == DType::f32)
            forward(bundled_cross_entropy_forward_f32, bundled_cross_entropy_forward_f32_4,
                    static_cast<const float*>(call.logits.data));
#define THUNDER_FORWARD(T)                                                                \
    if (call.logits.dtype == DType::T)                                                    \
        forward(bundled_cross_entropy_forward_##T, bundled_cross_entropy_forward_##T##_8, \
                static_cast<const T*>(call.logits.data));
        THUNDER_NARROW_TYPES(THUNDER_FORWARD)
#undef THUNDER_FORWARD
        launch("cross_entropy_sum", bundled_cross_entropy_sum, 1, row_threads, stream,
               static_cast<float*>(call.loss.data), losses, call.rows);
    });
}

void cross_entropy_backward(const CrossEntropyBackward& call, Stream& stream) {
    using namespace bundled;
    issue("cross_entropy_backward", call, stream, [&] {
        check_types(call);
        const auto backward = [&](auto* one, auto* vector, auto* dlogits, auto* logits) {
            const bool vectors = aligned(logits) && aligned(dlogits);
            launch("cross_entropy_backward", vectors ? vector : one, call.rows, row_threads, stream, dlogits, logits,
                   static_cast<const std::int64_t*>(call.labels.data), static_cast<const float*>(call.lse.data),
                   static_cast<const float*>(call.dloss.data), call.ignore_index, call.classes);
        };
        if (call.logits.dtype == DType::f32)
            backward(bundled_cross_entropy_backward_f32, bundled_cross_entropy_backward_f32_4,
                     static_cast<float*>(call.dlogits.data), static_cast<const float*>(call.logits.data));
#define THUNDER_BACKWARD(T)                                                                  \
    if (call.logits.dtype == DType::T)                                                       \
        backward(bundled_cross_entropy_backward_##T, bundled_cross_entropy_backward_##T##_8, \
                 static_cast<T*>(call.dlogits.data), static_cast<const T*>(call.logits.data));
        THUNDER_NARROW_TYPES(THUNDER_BACKWARD)
#undef THUNDER_BACKWARD
    });
}

}  // namespace thunder

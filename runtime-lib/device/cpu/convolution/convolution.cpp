// SPDX-License-Identifier: Apache-2.0
// The calls of the runtime API: who computes them.
#include <algorithm>
#include <type_traits>

#include "device/api.h"
#include "device/call_types.h"
#include "device/convolution/widened.h"
#include "device/cpu/convolution/providers.h"
#include "device/cpu/elements.h"
#include "device/cpu/products.h"
#include "device/describe.h"
#include "device/parallel.h"

namespace thunder {

namespace {

template <typename Call>
void compute_f32(const Call& call, std::size_t taken, Stream& stream) {
#ifdef THUNDER_PRODUCTS_ONEDNN
    if (products_by_library() && onednn::convolution(call, stream)) return;
#endif
    if constexpr (std::is_same_v<Call, ConvolutionBackwardWeight>)
        if (by_channel::convolution(call, taken, stream)) return;
    by_rows::convolution(call, taken, stream);
}

template <typename Call>
void compute(const char* name, const Call& call, bool f32, Stream& stream) {
    const Timed timed = timed_call(name, call, stream);
    check_types(call);
    if (f32) return compute_f32(call, 0, stream);
    convolution_widened(
        call, stream, [&](const Call& widened, std::size_t taken) { compute_f32(widened, taken, stream); },
        [&](const ConvolutionForm& form) {
            return std::max(by_rows::workspace_bytes(form), by_channel::workspace_bytes(form, stream.threads()));
        });
}

}  // namespace

void widen(float* to, const Input& from, std::int64_t first, std::int64_t n, Stream&) {
    parallel_rows(n, 1, [&](std::int64_t begin, std::int64_t end) {
        load_elements(to + begin, from, first + begin, end - begin);
    });
}

void round_to(const Output& to, std::int64_t first, const float* from, std::int64_t n, WriteMode mode, Stream&) {
    parallel_rows(n, 1, [&](std::int64_t begin, std::int64_t end) {
        if (mode == WriteMode::overwrite) return store_elements(to, first + begin, from + begin, end - begin);
        float sums[piece_elements];
        for (std::int64_t i = begin; i < end; i += piece_elements) {
            const std::int64_t size = std::min(piece_elements, end - i);
            load_elements(sums, as_input(to), first + i, size);
            for (std::int64_t k = 0; k < size; ++k) sums[k] += from[i + k];
            store_elements(to, first + i, sums, size);
        }
    });
}

void convolution_forward(const ConvolutionForward& call, Stream& stream) {
    compute("convolution_forward", call, call.x.dtype == DType::f32, stream);
}

void convolution_backward_input(const ConvolutionBackwardInput& call, Stream& stream) {
    compute("convolution_backward_input", call, call.dy.dtype == DType::f32, stream);
}

void convolution_backward_weight(const ConvolutionBackwardWeight& call, Stream& stream) {
    compute("convolution_backward_weight", call, call.dy.dtype == DType::f32, stream);
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN, and where it takes none as products by cuBLASLt, of a few images at a time: what the window
// sees is the rows of a matrix.
#include "device/cuda/convolution/convolution.h"

#include <algorithm>

#include "device/call_types.h"
#include "device/convolution/by_rows.h"
#include "device/convolution/widened.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/gemm/cublaslt.h"

namespace thunder {

namespace {

// Elements of rows that are in memory at once: products of some thousand rows are long enough.
constexpr std::int64_t elements_at_once = std::int64_t{16} << 20;

}  // namespace

void multiply(const ProductOfRows& p, Stream& stream) {
    product({.c = p.c,
             .a = p.a,
             .b = p.b,
             .transpose_a = p.transpose_a,
             .transpose_b = p.transpose_b,
             .addend = p.add ? Input(static_cast<const float*>(p.c)) : Input(),
             .batch = p.batch,
             .m = p.m,
             .n = p.n,
             .k = p.k,
             .ld_a = p.ld_a,
             .ld_b = p.ld_b,
             .ld_c = p.ld_c,
             .ld_addend = p.add ? p.ld_c : 0,
             .stride_a = p.stride_a,
             .stride_b = p.stride_b,
             .stride_c = p.stride_c},
            stream);
}

void convolution_by_rows(const ConvolutionForward& call, std::size_t taken, Stream& stream) {
    convolution_by_rows(call, elements_at_once, taken, stream);
}
void convolution_by_rows(const ConvolutionBackwardInput& call, std::size_t taken, Stream& stream) {
    convolution_by_rows(call, elements_at_once, taken, stream);
}
void convolution_by_rows(const ConvolutionBackwardWeight& call, std::size_t taken, Stream& stream) {
    convolution_by_rows(call, elements_at_once, taken, stream);
}

namespace {

// Of f32; `exact`: of numbers that tensor cores do not round.
template <typename Call>
void compute_f32(const Call& call, bool exact, std::size_t taken, Stream& stream) {
    if (!cudnn_convolution(call, exact, taken, stream)) convolution_by_rows(call, taken, stream);
}

template <typename Call>
void compute(const Call& call, bool f32, Stream& stream) {
    check_types(call);
    if (f32) return compute_f32(call, false, 0, stream);
    convolution_widened(
        call, stream, [&](const Call& widened, std::size_t taken) { compute_f32(widened, true, taken, stream); },
        [](const ConvolutionForm& form) {
            const auto weight = static_cast<std::size_t>(form.M * form.depth()) * sizeof(float);
            return std::max({bytes_of_parts(form, elements_at_once), weight, bytes_to_add_up(form.N, form.M)});
        });
}

}  // namespace

void convolution_forward(const ConvolutionForward& call, Stream& stream) {
    issue("convolution_forward", call, stream, [&] { compute(call, call.x.dtype == DType::f32, stream); });
}

void convolution_backward_input(const ConvolutionBackwardInput& call, Stream& stream) {
    issue("convolution_backward_input", call, stream, [&] { compute(call, call.dy.dtype == DType::f32, stream); });
}

void convolution_backward_weight(const ConvolutionBackwardWeight& call, Stream& stream) {
    issue("convolution_backward_weight", call, stream, [&] { compute(call, call.dy.dtype == DType::f32, stream); });
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN, and where it takes none as products by cuBLASLt, of a few images at a time: what the window
// sees is the rows of a matrix.
//
//   rows[(n, s), (c, k)] = x[n, c, s * strides + k * dilations - before]
//   y = rows weightᵀ,  drows = dy weight,  dweight = dyᵀ rows,  with y and dy by steps: (n, s), m
#include "device/cuda/convolution/convolution.h"

#include <algorithm>

#include "device/call_types.h"
#include "device/convolution/parts.h"
#include "device/convolution/widened.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/gemm/cublaslt.h"

namespace thunder {

namespace {

// Elements of rows that are in memory at once: products of some thousand rows are long enough.
constexpr std::int64_t elements_at_once = std::int64_t{16} << 20;

}  // namespace

void convolution_by_rows(const ConvolutionForward& call, std::size_t taken, Stream& stream) {
    const ConvolutionForm& f = call.form;
    const auto* x = static_cast<const float*>(call.x.data);
    const auto* weight = static_cast<const float*>(call.weight.data);
    auto* y = static_cast<float*>(call.y.data);
    in_parts(f, elements_at_once, taken, stream, [&](const Part& part, std::int64_t n) {
        see(part.seen, x + n * f.C * count(f.in), f, part.images, stream);
        product({.c = part.by_steps,
                 .a = static_cast<const float*>(part.seen),
                 .b = weight,
                 .transpose_b = true,
                 .batch = f.groups,
                 .m = part.rows,
                 .n = f.M / f.groups,
                 .k = f.depth(),
                 .ld_a = f.C * count(f.window),
                 .ld_b = f.depth(),
                 .ld_c = f.M,
                 .stride_a = f.depth(),
                 .stride_b = f.M / f.groups * f.depth(),
                 .stride_c = f.M / f.groups},
                stream);
        turn(y + n * f.M * f.steps(), part.by_steps, part.images, f.steps(), f.M, stream);
    });
}

void convolution_by_rows(const ConvolutionBackwardInput& call, std::size_t taken, Stream& stream) {
    const ConvolutionForm& f = call.form;
    const auto* dy = static_cast<const float*>(call.dy.data);
    const auto* weight = static_cast<const float*>(call.weight.data);
    auto* dx = static_cast<float*>(call.dx.data);
    in_parts(f, elements_at_once, taken, stream, [&](const Part& part, std::int64_t n) {
        turn(part.by_steps, dy + n * f.M * f.steps(), part.images, f.M, f.steps(), stream);
        product({.c = part.seen,
                 .a = static_cast<const float*>(part.by_steps),
                 .b = weight,
                 .batch = f.groups,
                 .m = part.rows,
                 .n = f.depth(),
                 .k = f.M / f.groups,
                 .ld_a = f.M,
                 .ld_b = f.depth(),
                 .ld_c = f.C * count(f.window),
                 .stride_a = f.M / f.groups,
                 .stride_b = f.M / f.groups * f.depth(),
                 .stride_c = f.depth()},
                stream);
        put_back(dx + n * f.C * count(f.in), part.seen, f, part.images, stream);
    });
}

void convolution_by_rows(const ConvolutionBackwardWeight& call, std::size_t taken, Stream& stream) {
    const ConvolutionForm& f = call.form;
    const auto* dy = static_cast<const float*>(call.dy.data);
    const auto* x = static_cast<const float*>(call.x.data);
    auto* dweight = static_cast<float*>(call.dweight.data);
    in_parts(f, elements_at_once, taken, stream, [&](const Part& part, std::int64_t n) {
        turn(part.by_steps, dy + n * f.M * f.steps(), part.images, f.M, f.steps(), stream);
        see(part.seen, x + n * f.C * count(f.in), f, part.images, stream);
        float* c = dweight;
        const bool add = n > 0 || call.mode == WriteMode::add;
        product({.c = c,
                 .a = static_cast<const float*>(part.by_steps),
                 .b = static_cast<const float*>(part.seen),
                 .transpose_a = true,
                 .addend = add ? Input(static_cast<const float*>(c)) : Input(),
                 .batch = f.groups,
                 .m = f.M / f.groups,
                 .n = f.depth(),
                 .k = part.rows,
                 .ld_a = f.M,
                 .ld_b = f.C * count(f.window),
                 .ld_c = f.depth(),
                 .ld_addend = f.depth(),
                 .stride_a = f.M / f.groups,
                 .stride_b = f.depth(),
                 .stride_c = f.M / f.groups * f.depth()},
                stream);
    });
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
            return std::max(bytes_of_parts(form, elements_at_once), weight);
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

// SPDX-License-Identifier: Apache-2.0
// The linear layer's three products and the general product: what they are as matrices, and the bundled kernels for
// what cuBLASLt cannot do within the product.
#include "device/api.h"
#include "device/call_types.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/driver/require.h"
#include "device/cuda/gemm/cublaslt.h"
#include "device/cuda/gemm/epilogue.h"

namespace thunder {

namespace {

Input as_input(const Output& t) {
    Input in;
    in.data = t.data;
    in.dtype = t.dtype;
    return in;
}

// The product with all that belongs to it: by the library as a whole, or by the library and a kernel over its result.
// `residual` is added after the activation; `accumulate`: to what c holds.
void run(Product p, Input residual, std::int64_t ld_residual, bool accumulate, Stream& stream) {
    if (residual && residual.data == p.c.data && ld_residual == p.ld_c && !accumulate) {
        residual = {};  // c += act(..) is the same sum
        accumulate = true;
    }
    if (accumulate || residual) {  // the library adds one of them
        p.addend = accumulate ? as_input(p.c) : residual;
        p.ld_addend = accumulate ? p.ld_c : ld_residual;
    }
    const bool one_addend = !(accumulate && residual), types_fit = !p.addend || p.addend.dtype == p.c.dtype;
    if (one_addend && types_fit && product(p, stream)) return;

    Product plain = p;
    plain.addend = plain.bias = {};
    plain.activation = Activation::none;
    plain.pre_activation = {};
    const bool over_residual = residual && residual.data == p.c.data;
    if (accumulate || over_residual || is_narrow(p.c.dtype)) {
        // what c holds is still needed, or the sum would be rounded twice: the product goes elsewhere first
        plain.c = reinterpret_cast<float*>(stream.workspace(static_cast<std::size_t>(p.m * p.n) * sizeof(float)));
        plain.ld_c = p.n;
    } else if (p.pre_activation) {
        plain.c = p.pre_activation;
        plain.ld_c = p.n;
    }
    product(plain, stream);
    epilogue({.y = p.c,
              .pre_activation = p.pre_activation,
              .source = as_input(plain.c),
              .bias = p.bias,
              .residual = residual,
              .accumulate = accumulate,
              .activation = p.activation,
              .rows = p.m,
              .columns = p.n,
              .ld_y = p.ld_c,
              .ld_source = plain.ld_c,
              .ld_residual = ld_residual},
             stream);
}

}  // namespace

void linear_forward(const LinearForward& call, Stream& stream) {
    if (call.rows <= 0 || call.out <= 0) return;
    issue("linear_forward", call, stream, [&] {
        check_types(call);
        run({.c = call.y,
             .a = call.x,
             .b = call.weight,
             .transpose_b = true,
             .bias = call.bias,
             .activation = call.activation,
             .pre_activation = call.pre_activation,
             .m = call.rows,
             .n = call.out,
             .k = call.in,
             .ld_a = or_dense(call.ld_x, call.in),
             .ld_b = call.in,
             .ld_c = or_dense(call.ld_y, call.out)},
            call.residual, or_dense(call.ld_residual, call.out), false, stream);
    });
}

void linear_backward_input(const LinearBackwardInput& call, Stream& stream) {
    if (call.rows <= 0 || call.in <= 0) return;
    issue("linear_backward_input", call, stream, [&] {
        check_types(call);
        const std::int64_t ld_dx = or_dense(call.ld_dx, call.in), ld_residual = or_dense(call.ld_residual, call.in);
        const bool accumulate = call.mode == WriteMode::add;
        run({.c = call.dx,
             .a = call.dy,
             .b = call.weight,
             .m = call.rows,
             .n = call.in,
             .k = call.out,
             .ld_a = or_dense(call.ld_dy, call.out),
             .ld_b = call.in,
             .ld_c = ld_dx},
            call.residual, ld_residual, accumulate, stream);
    });
}

// The bias's gradient is a kernel of our own: cuBLASLt's epilogue promises no order of its sum, and cannot add to what
// is there.
void linear_backward_weight(const LinearBackwardWeight& call, Stream& stream) {
    if (call.out <= 0) return;
    issue("linear_backward_weight", call, stream, [&] {
        check_types(call);
        const std::int64_t ld_dy = or_dense(call.ld_dy, call.out);
        if (call.dweight && call.in > 0) {
            run({.c = call.dweight,
                 .a = call.dy,
                 .b = call.x,
                 .transpose_a = true,
                 .m = call.out,
                 .n = call.in,
                 .k = call.rows,
                 .ld_a = ld_dy,
                 .ld_b = or_dense(call.ld_x, call.in),
                 .ld_c = call.in},
                {}, 0, call.mode == WriteMode::add, stream);
        }
        if (call.dbias) column_sums(call.dbias, call.dy, call.rows, call.out, ld_dy, call.mode, stream);
    });
}

void matmul(const Matmul& call, Stream& stream) {
    if (call.batch <= 0 || call.m <= 0 || call.n <= 0) return;
    issue("matmul", call, stream, [&] {
        check_types(call);
        run({.c = call.c,
             .a = call.a,
             .b = call.b,
             .transpose_a = call.transpose_a,
             .transpose_b = call.transpose_b,
             .batch = call.batch,
             .m = call.m,
             .n = call.n,
             .k = call.k,
             .ld_a = call.transpose_a ? call.m : call.k,
             .ld_b = call.transpose_b ? call.k : call.n,
             .ld_c = call.n,
             .stride_a = call.stride_a,
             .stride_b = call.stride_b,
             .stride_c = or_dense(call.stride_c, call.m * call.n)},
            {}, 0, call.mode == WriteMode::add, stream);
    });
}

}  // namespace thunder

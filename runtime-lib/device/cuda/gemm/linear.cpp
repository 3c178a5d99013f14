// SPDX-License-Identifier: Apache-2.0
// The linear layer's three products and the general product: what they are as matrices.
#include "device/api.h"
#include "device/call_types.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/driver/require.h"
#include "device/cuda/gemm/epilogue.h"
#include "device/cuda/gemm/whole_product.h"

namespace thunder {

void linear_forward(const LinearForward& call, Stream& stream) {
    if (call.rows <= 0 || call.out <= 0) return;
    issue("linear_forward", call, stream, [&] {
        check_types(call);
        whole_product({.c = call.y,
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
        whole_product({.c = call.dx,
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
            whole_product({.c = call.dweight,
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
        whole_product({.c = call.c,
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

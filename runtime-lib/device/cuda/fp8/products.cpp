// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/fp8/products.h"

#include <cstdio>

#include "device/call_types.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/gemm/whole_product.h"

namespace thunder {

// The factors lie as tensor cores want them: both with the dimension that is summed along as the inner one.
void fp8_product(const Fp8Product& call, Stream& stream) {
    if (call.m <= 0 || call.n <= 0) return;
    issue("fp8_product", call, stream, [&] {
        check_types(call);
        const Product p{.c = call.c,
                        .a = call.a,
                        .b = call.b,
                        .scale_a = call.inverse_a,
                        .scale_b = call.inverse_b,
                        .transpose_b = true,
                        .bias = call.bias,
                        .m = call.m,
                        .n = call.n,
                        .k = call.k,
                        .ld_a = call.k,
                        .ld_b = call.k,
                        .ld_c = call.n};
        if (whole_product(p, call.residual, call.n, call.mode == WriteMode::add, stream)) return;
        static bool told = false;
        if (!told)
            std::fprintf(stderr,
                         "fp8_product %s: cuBLASLt has no such product on this GPU; it is computed by plain threads, "
                         "which is slow\n",
                         describe(call).c_str());
        told = true;
        fp8_product_by_threads(call, stream);
    });
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/fp8/products.h"

#include <cstdio>

#include "device/call_types.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/gemm/whole_product.h"

namespace thunder {

// The factors lie as tensor cores want them: both with the dimension that is summed along as the inner one.
bool fp8_product_by_library(const Fp8Product& call, bool fast_sums, Stream& stream) {
    return whole_product({.c = call.c,
                          .a = call.a,
                          .b = call.b,
                          .scale_a = call.inverse_a,
                          .scale_b = call.inverse_b,
                          .transpose_b = true,
                          .fast_sums = fast_sums,
                          .bias = call.bias,
                          .m = call.m,
                          .n = call.n,
                          .k = call.k,
                          .ld_a = call.k,
                          .ld_b = call.k,
                          .ld_c = call.n},
                         call.residual, call.n, call.mode == WriteMode::add, stream);
}

void fp8_product(const Fp8Product& call, Stream& stream) {
    if (call.m <= 0 || call.n <= 0) return;
    issue("fp8_product", call, stream, [&] {
        check_types(call);
        if (fp8_product_by_library(call, false, stream)) return;
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

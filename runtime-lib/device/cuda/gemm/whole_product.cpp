// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/gemm/whole_product.h"

#include "device/cuda/gemm/epilogue.h"

namespace thunder {

bool whole_product(Product p, Input residual, std::int64_t ld_residual, bool accumulate, Stream& stream) {
    if (residual && residual.data == p.c.data && ld_residual == p.ld_c && !accumulate) {
        residual = {};  // c += act(..) is the same sum
        accumulate = true;
    }
    if (accumulate || residual) {  // the library adds one of them
        p.addend = accumulate ? as_input(p.c) : residual;
        p.ld_addend = accumulate ? p.ld_c : ld_residual;
    }
    const bool one_addend = !(accumulate && residual), types_fit = !p.addend || p.addend.dtype == p.c.dtype;
    if (one_addend && types_fit && product(p, stream)) return true;

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
    if (!product(plain, stream)) return false;
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
    return true;
}

}  // namespace thunder

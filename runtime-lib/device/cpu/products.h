// SPDX-License-Identifier: Apache-2.0
// Matrix products on a CPU, as the calls of the runtime API ask for them, and who computes them.
#pragma once

#include <cstdint>
#include <string>

#include "device/api.h"

namespace thunder {

// c = activation(op(a) op(b) + bias) + residual, or c += ...; op transposes where asked. a and b are of one type, f32
// or narrow, the others of either; sums are f32, and what is stored in a narrow type is rounded once.
struct Product {
    Output c{};  // (batch, m, n), rows ld_c apart
    Input a{};   // (batch, m, k), or (batch, k, m) where transpose_a
    Input b{};   // (batch, k, n), or (batch, n, k) where transpose_b
    bool transpose_a = false, transpose_b = false;
    bool accumulate = false;  // c is added to, after everything else
    Input bias{};             // (n); with batch 1 alone, as all that follows
    Activation activation = Activation::none;
    Input residual{};  // (m, n), rows ld_residual apart; not the memory of c
    std::int64_t batch = 1, m = 0, n = 0, k = 0;
    std::int64_t ld_a = 0, ld_b = 0, ld_c = 0, ld_residual = 0;  // elements, never 0
    std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;       // 0: one matrix for the whole batch
};

// By the provider: one of f32 without bias, activation and residual.
void plain_product(const Product& call, Stream& stream);

// Whether the library multiplies, in this process.
bool products_by_library();

// Its name and version, for the log; and how a narrow type is multiplied.
std::string products_provider();
std::string narrow_provider(DType narrow);

// Whether products are the library's: where there is one. `asked`, the value of THUNDER_PRODUCTS in the environment
// (null: unset), decides otherwise: onednn, or reference for plain loops, which are slow and give the same bits on any
// number of threads. Fails for another value, and for onednn where it was not built in.
bool products_by_library(const char* asked);

// Whether products of a narrow type are the provider's own: where the CPU has instructions for them. Without these
// oneDNN is several times slower than in f32, and operands are widened instead. `asked`, the value of THUNDER_BF16 (of
// THUNDER_F16: products_variable()) in the environment (null: unset), decides otherwise: native or emulated. Fails for
// another value, and for native where there is no such product.
bool native_products(DType narrow, const char* asked);
std::string products_variable(DType narrow);

// A provider computes the product as a whole, or says false and leaves c as it was; what has no bias, activation and
// residual is never refused, where it is of f32 alone or the provider multiplies the narrow type natively.
namespace reference {
bool product(const Product& call, Stream& stream);
}
namespace onednn {
bool has_instructions(DType narrow);  // of the CPU, that the library knows
bool multiplies(DType narrow);        // the library on this CPU, however slowly
bool product(const Product& call, Stream& stream);
// Of a narrow type, by products of f32, as a whole; false where it is too small for that.
bool widened_product(const Product& call, Stream& stream);
std::string version();
}  // namespace onednn

// c = activation(source) + residual; residual may be null, and be the memory of c. All rows x columns.
void apply_epilogue(const Output& c, std::int64_t ld_c, const Input& source, std::int64_t ld_source, const Input& bias,
                    Activation activation, const Input& residual, std::int64_t ld_residual, std::int64_t rows,
                    std::int64_t columns);

// c[i .. i + rows, j .. j + columns) of a product of one matrix (batch 1), of `sums`, the sums alone, in rows `ld`
// apart: bias, activation, residual, and what c holds where the product is added to it; rounded once. `sums` may lie in
// c, where nothing is added to it. On the calling thread.
void finish_tile(const Product& product, std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t columns,
                 const float* sums, std::int64_t ld);

}  // namespace thunder

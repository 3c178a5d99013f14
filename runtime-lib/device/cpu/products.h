// Matrix products on a CPU, as the calls of the menu ask for them, and who computes them.
#pragma once

#include <cstdint>
#include <string>

#include "device/menu.h"

namespace thunder {

// c = activation(op(a) op(b) + bias) + residual, or c += ...; op transposes where asked. All f32.
struct Product {
    float* c = nullptr;        // (batch, m, n), rows ld_c apart
    const float* a = nullptr;  // (batch, m, k), or (batch, k, m) where transpose_a
    const float* b = nullptr;  // (batch, k, n), or (batch, n, k) where transpose_b
    bool transpose_a = false, transpose_b = false;
    bool accumulate = false;      // c is added to, after everything else
    const float* bias = nullptr;  // (n); with batch 1 alone, as all that follows
    Activation activation = Activation::none;
    const float* residual = nullptr;  // (m, n), rows ld_residual apart; not the memory of c
    std::int64_t batch = 1, m = 0, n = 0, k = 0;
    std::int64_t ld_a = 0, ld_b = 0, ld_c = 0, ld_residual = 0;  // elements, never 0
    std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;       // 0: one matrix for the whole batch
};

// Its name and version, for the log.
std::string products_provider();

// A provider computes the product as a whole, or says false and leaves c as it was; what has no bias, activation and
// residual is never refused.
namespace reference {
bool product(const Product& call, Stream& stream);
}
namespace onednn {
bool product(const Product& call, Stream& stream);
std::string version();
}  // namespace onednn

// c = activation(source) + residual; residual may be null, and be the memory of c. All rows x columns.
void apply_epilogue(float* c, std::int64_t ld_c, const float* source, std::int64_t ld_source, const float* bias,
                    Activation activation, const float* residual, std::int64_t ld_residual, std::int64_t rows,
                    std::int64_t columns);

}  // namespace thunder

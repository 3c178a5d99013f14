// SPDX-License-Identifier: Apache-2.0
// The bundled kernels beside products.
#pragma once

#include "device/api.h"

namespace thunder {

// pre = source + bias; y = activation(pre) + residual, and + y where `accumulate`.
struct Epilogue {
    Output y{};               // (rows, columns)
    Output pre_activation{};  // dense
    Input source{};           // of y's type, then it may be y or pre_activation; or f32
    Input bias{};
    Input residual{};  // may be y
    bool accumulate = false;
    Activation activation = Activation::none;
    std::int64_t rows = 0, columns = 0;
    std::int64_t ld_y = 0, ld_source = 0, ld_residual = 0;
};
void epilogue(const Epilogue& call, Stream& stream);

// sums[j] = or += sum over rows of x[i][j], over partials of fixed blocks of rows that are added in order.
void column_sums(const Output& sums, const Input& x, std::int64_t rows, std::int64_t columns, std::int64_t ld_x,
                 WriteMode mode, Stream& stream);

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/products.h"

namespace thunderc {

Value numpy_matmul(Builder& b, Value x, Value y) {
    const Dims dims_x = b.type(x).dims, dims_y = b.type(y).dims;
    const bool row = dims_x.size() == 1, column = dims_y.size() == 1;
    if (row) x = b.reshape(x, {1, dims_x[0]});
    if (column) y = b.reshape(y, {dims_y[0], 1});
    const Value v = b.op("matmul", {x, y}, {{"transpose_a", false}, {"transpose_b", false}});
    if (!row && !column) return v;
    Dims dims = b.type(v).dims;
    if (column) dims.pop_back();
    if (row) dims.erase(dims.end() - (column ? 1 : 2));
    return b.reshape(v, dims);
}

}  // namespace thunderc

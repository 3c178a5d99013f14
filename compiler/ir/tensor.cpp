// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/tensor.h"

#include <utility>

namespace thunderc {

Tensor::Tensor(Type tensor_type) : type(std::move(tensor_type)) {
    auto n = static_cast<std::size_t>(type.elements());
    if (floating())
        f.resize(n);
    else
        i.resize(n);
}

Tensor Tensor::scalar(DType dtype, double value) {
    Tensor t(Type::tensor(dtype, {}));
    t.set(0, value);
    return t;
}

Tensor Tensor::ints(const std::vector<std::int64_t>& values) {
    Tensor t;
    t.type = Type::tensor(DType::i64, {static_cast<std::int64_t>(values.size())});
    t.i = values;
    return t;
}

Tensor Tensor::floats(const Dims& dims, std::vector<double> values, DType dtype) {
    Tensor t;
    t.type = Type::tensor(dtype, dims);
    t.f = std::move(values);
    return t;
}

}  // namespace thunderc

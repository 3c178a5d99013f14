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

std::vector<Tensor> unstacked(const Tensor& whole) {
    const Type part = Type::tensor(whole.type.dtype, {whole.type.dims.begin() + 1, whole.type.dims.end()});
    std::vector<Tensor> out;
    for (std::int64_t k = 0; k < whole.type.dims[0]; ++k) {
        Tensor& made = out.emplace_back(part);
        const std::int64_t begin = k * made.size(), end = begin + made.size();
        if (made.floating())
            made.f.assign(whole.f.begin() + begin, whole.f.begin() + end);
        else
            made.i.assign(whole.i.begin() + begin, whole.i.begin() + end);
    }
    return out;
}

Tensor stacked(std::span<const Tensor* const> parts) {
    Tensor out;
    out.type = parts[0]->type;
    out.type.dims.insert(out.type.dims.begin(), static_cast<std::int64_t>(parts.size()));
    for (const Tensor* part : parts) {
        out.f.insert(out.f.end(), part->f.begin(), part->f.end());
        out.i.insert(out.i.end(), part->i.begin(), part->i.end());
    }
    return out;
}

}  // namespace thunderc

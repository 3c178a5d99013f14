// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/constant.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

bool same(double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b));
}

bool same_element(const Tensor& a, std::int64_t k, const Tensor& b, std::int64_t j) {
    if (a.floating()) return same(a.at(k), b.at(j));
    return a.i[static_cast<std::size_t>(k)] == b.i[static_cast<std::size_t>(j)];
}

// Integers of which sums and differences are exact as doubles as well.
bool are_small(const Tensor& tensor) {
    constexpr std::int64_t most = std::int64_t{1} << 51;
    return std::all_of(tensor.i.begin(), tensor.i.end(), [](std::int64_t v) { return -most <= v && v <= most; });
}

// base and step where the elements are base + sum of step[d] * index[d], exactly.
bool find_affine(const Tensor& tensor, double& base, std::vector<double>& step) {
    const Dims& dims = tensor.type.dims;
    const Dims strides = dense_strides(dims);
    base = tensor.at(0);
    if (!std::isfinite(base)) return false;
    step.assign(dims.size(), 0);
    for (std::size_t d = 0; d < dims.size(); ++d)
        if (dims[d] > 1) step[d] = tensor.at(strides[d]) - base;
    for (std::int64_t k = 0; k < tensor.size(); ++k) {
        double expected = base;
        for (std::size_t d = 0; d < dims.size(); ++d)
            expected += step[d] * static_cast<double>(k / strides[d] % dims[d]);
        if (tensor.at(k) != expected) return false;
    }
    return true;
}

ConstPtr make(ConstExpr expr) {
    for (const ConstPtr& operand : expr.operands) expr.nodes += operand->nodes;
    return std::make_shared<const ConstExpr>(std::move(expr));
}

}  // namespace

ConstPtr ConstExpr::splat(Type type, double value) {
    ConstExpr e;
    e.kind = Kind::splat;
    e.type = std::move(type);
    e.value = value;
    return make(std::move(e));
}

ConstPtr ConstExpr::affine(Type type, double base, std::vector<double> step) {
    check(step.size() == type.dims.size(), "an affine constant has one step for each dimension");
    bool constant = true;
    for (std::size_t d = 0; d < step.size(); ++d) {
        if (type.dims[d] <= 1) step[d] = 0;
        constant = constant && step[d] == 0;
    }
    if (constant) return splat(std::move(type), base);
    ConstExpr e;
    e.kind = Kind::affine;
    e.type = std::move(type);
    e.base = base;
    e.step = std::move(step);
    return make(std::move(e));
}

ConstPtr ConstExpr::dense(Tensor tensor) {
    if (tensor.size() > 0) {
        bool constant = tensor.floating() || is_exact(tensor.i[0]);
        for (std::int64_t k = 1; k < tensor.size() && constant; ++k) constant = same_element(tensor, k, tensor, 0);
        if (constant) return splat(tensor.type, tensor.at(0));
        double base = 0;
        std::vector<double> step;
        // Two floats are always "affine"; that would hide data behind a formula that nobody wrote.
        if ((tensor.floating() ? tensor.size() > 2 : are_small(tensor)) && find_affine(tensor, base, step))
            return affine(tensor.type, base, std::move(step));
    }
    ConstExpr e;
    e.kind = Kind::dense;
    e.type = tensor.type;
    e.data = std::make_shared<const Tensor>(std::move(tensor));
    return make(std::move(e));
}

ConstPtr ConstExpr::elementwise(Type type, std::string op_name, std::vector<ConstPtr> operands) {
    ConstExpr e;
    e.kind = Kind::elementwise;
    e.type = std::move(type);
    e.op_name = std::move(op_name);
    e.operands = std::move(operands);
    return make(std::move(e));
}

ConstPtr ConstExpr::select(ConstPtr condition, ConstPtr then, ConstPtr otherwise) {
    ConstExpr e;
    e.kind = Kind::select;
    e.type = then->type;
    e.operands = {std::move(condition), std::move(then), std::move(otherwise)};
    return make(std::move(e));
}

bool equal(const ConstExpr& a, const ConstExpr& b) {
    if (&a == &b) return true;
    if (a.kind != b.kind || a.type != b.type || !same(a.value, b.value) || a.base != b.base || a.step != b.step ||
        a.op_name != b.op_name || a.operands.size() != b.operands.size())
        return false;
    for (std::size_t k = 0; k < a.operands.size(); ++k)
        if (!equal(*a.operands[k], *b.operands[k])) return false;
    if (a.kind != ConstExpr::Kind::dense || a.data == b.data) return true;
    for (std::int64_t k = 0; k < a.data->size(); ++k)
        if (!same_element(*a.data, k, *b.data, k)) return false;
    return true;
}

bool is_exact(std::int64_t value) {
    Tensor t = Tensor::ints({0});
    t.set(0, static_cast<double>(value));
    return t.i[0] == value;
}

}  // namespace thunderc

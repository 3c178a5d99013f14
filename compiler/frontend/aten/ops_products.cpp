// SPDX-License-Identifier: Apache-2.0
// Products of matrices.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/shared/einsum.h"
#include "compiler/frontend/shared/products.h"

namespace thunderc::aten {
namespace {

// Products of integers and booleans have no op: sums of the products of elements.
void take_floats_only(Node& n, std::string_view name) {
    const Type type = n.type(name);
    if (!is_float(type.dtype))
        n.fail(fmt::format("{} of integers is not supported", n.call().target),
               "cast its operands to float32 in the model, and its result back", {}, to_string(type));
}

void matrix_product(Node& n) {
    const std::string other = n.op() == "matmul" ? "other"
                              : n.op() == "mv"   ? "vec"
                              : n.op() == "dot"  ? "tensor"
                                                 : "mat2";
    take_floats_only(n, "self");
    if (n.type("self").dims.empty() || n.type(other).dims.empty()) n.fail("a product of matrices of a scalar");
    n.give(numpy_matmul(n.b(), n.tensor("self"), n.tensor(other)));
}

// x Wᵀ + bias
void linear_op(Node& n) {
    Builder& b = n.b();
    const Value w = n.tensor("weight");
    const bool vector = b.type(w).rank() == 1;
    Value y = numpy_matmul(b, n.tensor("input"), vector ? w : b.transpose(w, {1, 0}));
    if (n.has("bias")) y = b.add(y, n.tensor("bias"));
    n.give(y);
}

// beta self + alpha product
Value added(Node& n, Value product) {
    Builder& b = n.b();
    const double alpha = n.number("alpha", 1), beta = n.number("beta", 1);
    if (alpha != 1) product = b.mul(product, alpha);
    if (beta == 0) return product;
    const Value self = n.tensor("self");
    return b.add(product, beta == 1 ? self : b.mul(self, beta));
}

void add_matrix_product(Node& n) {
    const bool batched = n.op() == "baddbmm";
    const Value x = n.tensor(batched ? "batch1" : "mat1"), y = n.tensor(batched             ? "batch2"
                                                                        : n.op() == "addmv" ? "vec"
                                                                                            : "mat2");
    n.give(added(n, numpy_matmul(n.b(), x, y)));
}

void outer_product(Node& n) {
    Builder& b = n.b();
    const Dims x = n.type("self").dims, y = n.type("vec2").dims;
    n.give(b.mul(b.reshape(n.tensor("self"), {x[0], 1}), b.reshape(n.tensor("vec2"), {1, y[0]})));
}

void einsum_op(Node& n) {
    n.give(einsum(n.b(), n.text("equation", ""), n.tensors("tensors")));
}

constexpr OpImporter product_importers[] = {
    {"matmul", matrix_product},    {"mm", matrix_product},          {"bmm", matrix_product},
    {"mv", matrix_product},        {"dot", matrix_product},         {"linear", linear_op},
    {"addmm", add_matrix_product}, {"baddbmm", add_matrix_product}, {"addmv", add_matrix_product},
    {"outer", outer_product},      {"einsum", einsum_op},
};

}  // namespace

std::span<const OpImporter> product_ops() {
    return product_importers;
}

}  // namespace thunderc::aten

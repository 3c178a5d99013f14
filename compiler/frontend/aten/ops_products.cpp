// SPDX-License-Identifier: Apache-2.0
// Products of matrices.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/promotion.h"
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
                              : n.op() == "vdot" ? "other"
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
    const bool batched = n.op() == "baddbmm", vector = n.op() == "addmv";
    const Value x = n.tensor(batched ? "batch1" : vector ? "mat" : "mat1");
    const Value y = n.tensor(batched ? "batch2" : vector ? "vec" : "mat2");
    n.give(added(n, numpy_matmul(n.b(), x, y)));
}

void outer_product(Node& n) {
    Builder& b = n.b();
    const Dims x = n.shape("self", 1), y = n.shape("vec2", 1);
    n.give(b.mul(b.reshape(n.tensor("self"), {x[0], 1}), b.reshape(n.tensor("vec2"), {1, y[0]})));
}

void einsum_op(Node& n) {
    n.give(einsum(n.b(), n.text("equation", ""), n.tensors("tensors")));
}

// Rows in groups, one after the other, each group with a matrix of its own; `offs` says where each ends. Each row is
// multiplied with a matrix of its own, whose number is how many groups end before it; a row behind all groups is 0, as
// are those of PyTorch's experts without a library.
void grouped_product(Node& n) {
    Builder& b = n.b();
    const bool ours = n.has("input");  // transformers' names of the same
    const Value x = n.tensor(ours ? "input" : "self"), w = n.tensor(ours ? "weight" : "mat2");
    const Type rows = b.type(x), matrices = b.type(w);
    if (rows.rank() != 2 || matrices.rank() != 3 || !n.has("offs") || n.has("bias"))
        n.fail("a grouped product is supported of rows and one matrix for each group",
               "the model's configuration may choose another way for its experts: experts_implementation",
               "[S,K] and [G,K,N]", fmt::format("{} and {}", to_string(rows), to_string(matrices)));
    const std::int64_t count = rows.dims[0], width = rows.dims[1], groups = matrices.dims[0], out = matrices.dims[2];
    const Value row = b.constant(ConstExpr::affine(Type::tensor(DType::i64, {count, 1}), 0, {1, 0}));
    const Value ends = b.reshape(n.tensor("offs", DType::i64), {1, groups});
    const Value last = b.slice(ends, 1, groups - 1, groups);
    const Value placed = b.op("select", {b.op("lt", {row, last}), x, b.scalar(rows.dtype, 0)});
    const Value is_behind = b.op("ge", {row, b.slice(ends, 1, 0, groups - 1)});
    const Value ids = b.reduce_sum(b.cast(is_behind, DType::i64), {1});
    const Value of_rows = b.op("gather", {w, ids}, {{"axis", std::int64_t{0}}});
    n.give(b.reshape(numpy_matmul(b, b.reshape(placed, {count, 1, width}), of_rows), {count, out}));
}

// y[o] = sum over i, j of x1[i] w[o, i, j] x2[j] + bias[o]
void bilinear_op(Node& n) {
    Builder& b = n.b();
    const Value y = einsum(b, "...i,oij,...j->...o", {n.tensor("input1"), n.tensor("weight"), n.tensor("input2")});
    n.give(n.has("bias") ? b.add(y, n.tensor("bias")) : y);
}

// Each element of the one times all of the other, in blocks.
void blocks_of_products(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"self", "other"});
    const Value x = n.tensor("self", dtype), y = n.tensor("other", dtype);
    Dims left = b.type(x).dims, right = b.type(y).dims;
    const std::size_t rank = std::max(left.size(), right.size());
    left.insert(left.begin(), rank - left.size(), 1);
    right.insert(right.begin(), rank - right.size(), 1);
    Dims of_x, of_y, whole;
    for (std::size_t d = 0; d < rank; ++d) {
        of_x.insert(of_x.end(), {left[d], 1});
        of_y.insert(of_y.end(), {1, right[d]});
        std::int64_t& extent = whole.emplace_back(0);
        if (__builtin_mul_overflow(left[d], right[d], &extent)) n.fail("kron gives a shape that no tensor can have");
    }
    if (!countable(whole)) n.fail("kron gives a shape that no tensor can have");
    n.give(b.reshape(b.mul(b.reshape(x, of_x), b.reshape(y, of_y)), whole));
}

constexpr OpImporter product_importers[] = {
    {"matmul", matrix_product},
    {"mm", matrix_product},
    {"bmm", matrix_product},
    {"mv", matrix_product},
    {"dot", matrix_product},
    {"vdot", matrix_product},
    {"linear", linear_op},
    {"addmm", add_matrix_product},
    {"baddbmm", add_matrix_product},
    {"addmv", add_matrix_product},
    {"outer", outer_product},
    {"einsum", einsum_op},
    {"bilinear", bilinear_op},
    {"kron", blocks_of_products, own_memory, computed},
    {"_grouped_mm", grouped_product},
    {"transformers.grouped_mm_fallback.default", grouped_product},
};

}  // namespace

std::span<const OpImporter> product_ops() {
    return product_importers;
}

}  // namespace thunderc::aten

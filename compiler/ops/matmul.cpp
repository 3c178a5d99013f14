// SPDX-License-Identifier: Apache-2.0
// Matrix product of the last two dimensions, batched over the others with numpy's broadcasting.
//
//   c[…, i, j] = Σ_k A[…, i, k] B[…, k, j], where A is a or its transpose (transpose_a), B likewise
//   da = dc Bᵀ, db = Aᵀ dc, each transposed as its operand is, and summed over repeated batches
#include <fmt/format.h>

#include "compiler/ops/composite.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/plain_call.h"
#include "compiler/ops/rules.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

struct Product {
    bool transpose_a, transpose_b;
    std::int64_t m, n, k;          // (m, k) times (k, n)
    Dims batch_a, batch_b, batch;  // batch: the result's
};

Product product_of(const Type& a, const Type& b, const Attributes& attributes) {
    require(a.rank() >= 2 && b.rank() >= 2,
            fmt::format("matrices of two or more dimensions expected, {} and {} given", to_string(a), to_string(b)));
    Product p{};
    p.transpose_a = attributes.boolean("transpose_a");
    p.transpose_b = attributes.boolean("transpose_b");
    auto rows = [](const Type& t) { return t.dims[t.dims.size() - 2]; };
    p.m = p.transpose_a ? a.dims.back() : rows(a);
    p.k = p.transpose_a ? rows(a) : a.dims.back();
    p.n = p.transpose_b ? rows(b) : b.dims.back();
    std::int64_t inner = p.transpose_b ? b.dims.back() : rows(b);
    require(p.k == inner, fmt::format("the inner dimensions of {}{} and {}{} differ: {} and {}", to_string(a),
                                      p.transpose_a ? " transposed" : "", to_string(b),
                                      p.transpose_b ? " transposed" : "", p.k, inner));
    p.batch_a = Dims(a.dims.begin(), a.dims.end() - 2);
    p.batch_b = Dims(b.dims.begin(), b.dims.end() - 2);
    p.batch = require_broadcast(p.batch_a, p.batch_b);
    return p;
}

Dims joined(Dims batch, std::int64_t rows, std::int64_t columns) {
    batch.push_back(rows);
    batch.push_back(columns);
    return batch;
}

// Row-major (rows, columns) of a matrix that is stored as (columns, rows).
std::vector<double> transposed(const double* from, std::int64_t rows, std::int64_t columns) {
    std::vector<double> to(static_cast<std::size_t>(rows * columns));
    for (std::int64_t c = 0; c < columns; ++c)
        for (std::int64_t r = 0; r < rows; ++r) to[static_cast<std::size_t>(r * columns + c)] = from[c * rows + r];
    return to;
}

// c += a b, every element in ascending order of k whatever the shapes.
void multiply(const double* a, const double* b, double* c, std::int64_t m, std::int64_t n, std::int64_t k) {
    for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t l = 0; l < k; ++l) {
            double factor = a[i * k + l];
            const double* row = b + l * n;
            double* out = c + i * n;
            for (std::int64_t j = 0; j < n; ++j) out[j] += factor * row[j];
        }
}

std::vector<Tensor> reference_matmul(const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
    Product p = product_of(x[0].type, x[1].type, op.attributes);
    Tensor out(y[0]);
    auto scaled = [&](const Dims& batch, std::int64_t matrix) {
        Dims strides = broadcast_strides(batch, p.batch);
        for (std::int64_t& s : strides) s *= matrix;
        return strides;
    };
    std::array<Dims, 3> strides = {scaled(p.batch_a, p.m * p.k), scaled(p.batch_b, p.k * p.n),
                                   scaled(p.batch, p.m * p.n)};
    for_each_run<3>(p.batch, strides, {}, [&](const auto& at, const auto& step, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
            const double* a = x[0].f.data() + at[0] + i * step[0];
            const double* b = x[1].f.data() + at[1] + i * step[1];
            std::vector<double> ta, tb;
            if (p.transpose_a) a = (ta = transposed(a, p.m, p.k)).data();
            if (p.transpose_b) b = (tb = transposed(b, p.k, p.n)).data();
            multiply(a, b, out.f.data() + at[2] + i * step[2], p.m, p.n, p.k);
        }
    });
    return {std::move(out)};
}

VjpResult matmul_vjp(const VjpInput& in) {
    Builder& b = in.b;
    Value x = in.operand(0), y = in.operand(1), dc = in.cotangent();
    const Type tx = in.type(x), ty = in.type(y);
    Product p = product_of(tx, ty, in.op.attributes);
    VjpResult d(2);
    if (in.wants(0)) {
        Value dx = p.transpose_a ? matmul(b, y, dc, p.transpose_b, true) : matmul(b, dc, y, false, !p.transpose_b);
        d[0] = b.sum_to(dx, tx.dims);
    }
    if (in.wants(1)) {
        // One matrix for the whole batch: batch and rows are one long dimension to sum over, in one product.
        if (element_count(p.batch_b) == 1 && !p.transpose_a && p.batch_a == p.batch && !p.batch.empty()) {
            std::int64_t rows = element_count(p.batch) * p.m;
            x = b.reshape(x, {rows, p.k});
            dc = b.reshape(dc, {rows, p.n});
        }
        Value dy = p.transpose_b ? matmul(b, dc, x, true, p.transpose_a) : matmul(b, x, dc, !p.transpose_a, false);
        d[1] = b.type(dy).elements() == ty.elements() ? b.reshape(dy, ty.dims) : b.sum_to(dy, ty.dims);
    }
    return d;
}

bool repeats(const Dims& batch, const Dims& common) {
    return element_count(batch) == 1 && element_count(common) != 1;
}

// The runtime API repeats one matrix or walks both batches alike; what repeats in part is made explicit first.
std::vector<Value> decompose_matmul(Builder& b, const Op& op) {
    Value x = op.operands[0], y = op.operands[1];
    const Type tx = b.type(x), ty = b.type(y);
    Product p = product_of(tx, ty, op.attributes);
    auto explicit_batch = [&](Value v, const Type& type, const Dims& batch) {
        if (repeats(batch, p.batch) || element_count(batch) == element_count(p.batch)) return v;
        return b.broadcast_to(v, joined(p.batch, type.dims[type.dims.size() - 2], type.dims.back()));
    };
    return b.emit("matmul", {explicit_batch(x, tx, p.batch_a), explicit_batch(y, ty, p.batch_b)}, op.attributes);
}

// No function where the batches repeat in part: decompose_matmul it first.
RuntimeCall call(const Op& op, const Function& function) {
    Product p = product_of(function.type(op.operands[0]), function.type(op.operands[1]), op.attributes);
    std::int64_t batch = element_count(p.batch), count_a = element_count(p.batch_a), count_b = element_count(p.batch_b);
    if ((count_a != batch && count_a != 1) || (count_b != batch && count_b != 1)) return {};
    // Rows of all matrices of a are one tall matrix where b is the same for all.
    if (count_b == 1 && count_a == batch && !p.transpose_a) {
        p.m *= batch;
        batch = count_a = 1;
    }
    auto number = [](std::string name, std::int64_t value) {
        return CallField{std::move(name), CallField::Kind::literal, 0, fmt::format("{}", value), "", 1};
    };
    auto boolean = [](std::string name, bool value) {
        return CallField{std::move(name), CallField::Kind::literal, 0, value ? "true" : "false", "", 1};
    };
    RuntimeCall out;
    out.function = "matmul";
    out.fields = {{"c", CallField::Kind::result, 0, "", "", 1},
                  {"a", CallField::Kind::operand, 0, "", "", 1},
                  {"b", CallField::Kind::operand, 1, "", "", 1}};
    if (p.transpose_a) out.fields.push_back(boolean("transpose_a", true));
    if (p.transpose_b) out.fields.push_back(boolean("transpose_b", true));
    if (batch != 1) out.fields.push_back(number("batch", batch));
    out.fields.push_back(number("m", p.m));
    out.fields.push_back(number("n", p.n));
    out.fields.push_back(number("k", p.k));
    if (batch != 1) {
        out.fields.push_back(number("stride_a", count_a == 1 ? 0 : p.m * p.k));
        out.fields.push_back(number("stride_b", count_b == 1 ? 0 : p.k * p.n));
        out.fields.push_back(number("stride_c", p.m * p.n));
    }
    out.comment = fmt::format("c = a{} b{}", p.transpose_a ? "ᵀ" : "", p.transpose_b ? "ᵀ" : "");
    return by_executor(std::move(out), op);
}

}  // namespace

std::vector<OpDef> define_matmul() {
    OpDef def;
    def.name = "matmul";
    def.level = OpLevel::primitive;
    def.summary =
        "Matrix product of the last two dimensions, batched over the others with broadcasting; either operand "
        "transposed where asked; of the element type `dtype` where that is given.";
    def.formula = "c = a b; da = dc bᵀ, db = aᵀ dc, summed over repeated batches";
    def.source = "ONNX MatMul (operands of two or more dimensions)";
    def.precision = {.kind = Precision::Kind::product, .gradient = true};
    def.autocast = Autocast::low;
    def.recompute = Recompute::expensive;
    def.linear_in = {0, 1};
    def.sums = [](const Attributes& attributes, std::span<const Type> operands) {
        if (operands.size() != 2 || operands[0].rank() != 2 || operands[1].rank() != 2)
            return std::vector<SummedAxis>{};
        return std::vector<SummedAxis>{{0, attributes.boolean("transpose_a") ? std::size_t{0} : std::size_t{1}},
                                       {1, attributes.boolean("transpose_b") ? std::size_t{1} : std::size_t{0}}};
    };
    def.parameter_roles = {ParameterRole::other, ParameterRole::product};
    def.infer = [](const InferInput& in) {
        require_operands(in, 2);
        const Type& a = float_operand(in, 0);
        const Type& b = float_operand(in, 1);
        require_same_dtype(a, b);
        Product p = product_of(a, b, in.attributes);
        return std::vector<Type>{Type::tensor(gradient_dtype(in.attributes, a.dtype), joined(p.batch, p.m, p.n))};
    };
    def.reference = reference_matmul;
    def.vjp = matmul_vjp;
    def.decompose = decompose_matmul;
    def.call = call;
    def.flops = [](const Op& op, const Function& function) {
        Product p = product_of(function.type(op.operands[0]), function.type(op.operands[1]), op.attributes);
        return 2.0 * static_cast<double>(element_count(p.batch)) * static_cast<double>(p.m) * static_cast<double>(p.n) *
               static_cast<double>(p.k);
    };
    auto turned = [](bool a, bool b) { return Attributes{{"transpose_a", a}, {"transpose_b", b}}; };
    Attributes in_f32 = turned(false, false);
    in_f32.set("dtype", DType::f32);
    def.samples = {{"plain", {f32({3, 5}), f32({5, 2})}, turned(false, false)},
                   {"transpose_b", {f32({3, 5}), f32({2, 5})}, turned(false, true)},
                   {"transpose_a", {f32({5, 3}), f32({5, 2})}, turned(true, false)},
                   {"transpose_both", {f32({5, 3}), f32({2, 5})}, turned(true, true)},
                   {"batched", {f32({2, 3, 1, 5}), f32({2, 3, 5, 2})}, turned(false, false)},
                   {"batched_transposed", {f32({2, 5, 3}), f32({2, 4, 5})}, turned(true, true)},
                   {"linear", {f32({2, 3, 5}), f32({4, 5})}, turned(false, true)},
                   {"shared_right", {f32({2, 2, 3, 5}), f32({1, 5, 2})}, turned(false, false)},
                   {"shared_left", {f32({2, 3}), f32({2, 3, 5})}, turned(false, false)},
                   {"shared_transposed_left", {f32({2, 3, 2}), f32({3, 4})}, turned(true, false)},
                   {"broadcast", {f32({2, 1, 3, 2}), f32({1, 2, 2, 3})}, turned(false, false)},
                   {"of bf16, in f32", {bf16({3, 5}), bf16({5, 2})}, in_f32},
                   {"grouped", {f32({2, 1, 3, 2}), f32({2, 2, 2, 3})}, turned(false, false)}};
    def.smooth = "a polynomial";
    def.errors = {
        {{f32_type({3, 5}), f32_type({4, 2})},
         turned(false, false),
         "the inner dimensions of f32[3,5] and f32[4,2] differ: 5 and 4"},
        {{f32_type({3, 5}), f32_type({5, 2})},
         turned(false, true),
         "the inner dimensions of f32[3,5] and f32[5,2] transposed differ: 5 and 2"},
        {{f32_type({2, 3, 5}), f32_type({3, 5, 2})}, turned(false, false), "shapes [2] and [3] do not broadcast"},
        {{f32_type({5}), f32_type({5, 2})},
         turned(false, false),
         "matrices of two or more dimensions expected, f32[5] and f32[5,2] given"},
        {{i64_type({3, 5}), i64_type({5, 2})},
         turned(false, false),
         "operand 0 is to be floating point, i64[3,5] given"}};
    return {std::move(def)};
}

}  // namespace thunderc

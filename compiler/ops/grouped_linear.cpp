// SPDX-License-Identifier: Apache-2.0
// Linear layers side by side, of which each row takes one: the experts of a mixture.
//
//   y[i] = W[ids[i]] x[i];   dx[i] = W[ids[i]]ᵀ dy[i];   dW[e] = sum over i with ids[i] = e of dy[i] x[i]ᵀ
//
// dx is the same with the matrices turned round. Shazeer et al., "Outrageously Large Neural Networks: The
// Sparsely-Gated Mixture-of-Experts Layer", 2017; that rows of one expert are one product: Gale et al., "MegaBlocks:
// Efficient Sparse Training with Mixture-of-Experts", 2023.
#include <fmt/format.h>

#include "compiler/ops/composite.h"
#include "compiler/ops/dense.h"

namespace thunderc {
namespace {

bool turned(const Attributes& attributes) {
    return attributes.boolean("transpose", false);
}

void require_rows(const Type& x, const Type& ids) {
    require(x.rank() >= 1 && leading_dims(x.dims) == ids.dims,
            fmt::format("x is {}, ids are {}: one for each row expected", dims_text(x.dims), dims_text(ids.dims)));
}

// (out, in) of each matrix.
std::pair<std::int64_t, std::int64_t> sizes_of(const Dims& weight, const Attributes& attributes) {
    return turned(attributes) ? std::pair(weight[2], weight[1]) : std::pair(weight[1], weight[2]);
}

double flops_of(const Type& x, std::int64_t other) {
    return 2.0 * static_cast<double>(x.elements()) * static_cast<double>(other);
}

void add_sizes(RuntimeCall& call, const Attributes& attributes, const Type& x, std::int64_t groups, std::int64_t in,
               std::int64_t out) {
    if (turned(attributes)) call.fields.push_back(literal_field("transpose", "true"));
    call.fields.push_back(literal_field("rows", row_count(x.dims)));
    call.fields.push_back(literal_field("groups", groups));
    call.fields.push_back(literal_field("in", in));
    call.fields.push_back(literal_field("out", out));
}

OpDef grouped_linear() {
    OpDef def;
    def.name = "grouped_linear";
    def.level = OpLevel::composite;
    def.rows = {.kind = Rows::Kind::but_last, .operands = {0, 2}};
    def.summary =
        "Each row of x (..., in) times the matrix of a weight (groups, out, in) that ids (...) name: (..., out). With "
        "`transpose` the weight is (groups, in, out).";
    def.formula = "y[i] = W[ids[i]] x[i]; dx[i] = W[ids[i]]ᵀ dy[i]; dW[e] = sum of dy[i] x[i]ᵀ where ids[i] = e";
    def.source = "Shazeer et al., Outrageously Large Neural Networks, 2017; torch's grouped_mm";
    def.infer = [](const InferInput& in) {
        require_operands(in, 3);
        const Type &x = float_operand(in, 0), &w = float_operand(in, 1), &ids = integer_operand(in, 2);
        require_same_dtype(x, w);
        require_rows(x, ids);
        const char* form = turned(in.attributes) ? "in, out" : "out, in";
        require(w.rank() == 3 && sizes_of(w.dims, in.attributes).second == x.dims.back(),
                fmt::format("the weight is {}, x is {}: the weight is (groups, {}), and in is the last dimension of x",
                            dims_text(w.dims), dims_text(x.dims), form));
        return std::vector<Type>{Type::tensor(x.dtype, with_last(x.dims, sizes_of(w.dims, in.attributes).first))};
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        const Tensor &x = operands[0], &w = operands[1], &ids = operands[2];
        const auto [out, in] = sizes_of(w.type.dims, op.attributes);
        const std::int64_t by_out = turned(op.attributes) ? 1 : in, by_in = turned(op.attributes) ? out : 1;
        Tensor y(types[0]);
        for (std::int64_t i = 0; i < ids.size(); ++i) {
            const std::int64_t matrix = checked_index(ids.i[static_cast<std::size_t>(i)], w.type.dims[0]) * out * in;
            for (std::int64_t o = 0; o < out; ++o) {
                double sum = 0;
                for (std::int64_t k = 0; k < in; ++k) sum += x.at(i * in + k) * w.at(matrix + o * by_out + k * by_in);
                y.set(i * out + o, sum);
            }
        }
        return std::vector<Tensor>{y};
    };
    def.vjp = [](const VjpInput& in) {
        VjpResult result(3);
        const bool transpose = turned(in.op.attributes);
        if (in.wants(0))
            result[0] =
                in.b.op("grouped_linear", {in.cotangent(), in.operand(1), in.operand(2)}, {{"transpose", !transpose}});
        if (in.wants(1))
            result[1] = in.b.op("grouped_linear_backward_weight", {in.cotangent(), in.operand(0), in.operand(2)},
                                {{"groups", in.type(in.operand(1)).dims[0]}, {"transpose", transpose}});
        return result;
    };
    def.decompose = [](Builder& b, const Op& op) {
        const Type x = b.type(op.operands[0]);
        const std::int64_t rows = row_count(x.dims);
        const Value ids = b.reshape(op.operands[2], {rows});
        const Value matrices = b.op("gather", {op.operands[1], ids}, {{"axis", std::int64_t{0}}});
        const Value y = matmul(b, b.reshape(op.operands[0], {rows, 1, last_dim(x.dims)}), matrices, false,
                               !turned(op.attributes), statistics_dtype(x.dtype));
        return std::vector<Value>{b.cast(b.reshape(y, with_last(x.dims, b.type(y).dims.back())), x.dtype)};
    };
    def.call = [](const Op& op, const Function& f) {
        const Type &x = f.type(op.operands[0]), &w = f.type(op.operands[1]);
        const auto [out, in] = sizes_of(w.dims, op.attributes);
        RuntimeCall call{"grouped_linear", {}, "y = x Wᵀ, each row by the matrix of its group"};
        call.fields = {result_field("y", 0).shaped("... out"), operand_field("x", 0).shaped("... in"),
                       operand_field("weight", 1).shaped(turned(op.attributes) ? "groups in out" : "groups out in"),
                       operand_field("ids", 2).shaped("...")};
        if (turned(op.attributes)) call.comment = "y = x W, each row by the matrix of its group";
        add_sizes(call, op.attributes, x, w.dims[0], in, out);
        return call;
    };
    def.flops = [](const Op& op, const Function& f) {
        return flops_of(f.type(op.operands[0]), last_dim(f.type(op.results[0]).dims));
    };
    def.precision = {.kind = Precision::Kind::product};
    def.autocast = Autocast::low;
    def.recompute = Recompute::expensive;
    def.linear_in = {0, 1};
    def.lookup = [](const Attributes&, const Dims&, const Dims&) {
        return Lookup{.kind = Lookup::Kind::matrices, .table = 1, .index = 2};
    };
    def.parameter_roles = {ParameterRole::other, ParameterRole::product, ParameterRole::other};
    def.samples = {
        {.name = "plain", .operands = {f32({5, 4}), f32({3, 2, 4}), i64_of({5}, {2, 0, 2, 2, 0})}},
        {.name = "several dimensions",
         .operands = {f32({2, 3, 4}), f32({2, 5, 4}), i64_of({2, 3}, {1, 1, 0, 1, 0, 1})}},
        {.name = "turned round",
         .operands = {f32({5, 4}), f32({3, 4, 2}), i64_of({5}, {1, 0, 2, 1, 0})},
         .attributes = {{"transpose", true}}},
        {.name = "one row", .operands = {f32({4}), f32({2, 3, 4}), i64_of({}, {1})}},
        {.name = "of bf16", .operands = {bf16({5, 4}), bf16({3, 2, 4}), i64_of({5}, {2, 0, 2, 2, 0})}},
    };
    def.smooth = "a polynomial";
    def.errors = {
        {{f32_type({5, 4}), f32_type({3, 2, 5}), i64_type({5})},
         {},
         "the weight is (3,2,5), x is (5,4): the weight is (groups, out, in), and in is the last dimension of x"},
        {{f32_type({5, 4}), f32_type({3, 2, 4}), i64_type({5})},
         {{"transpose", true}},
         "the weight is (3,2,4), x is (5,4): the weight is (groups, in, out), and in is the last dimension of x"},
        {{f32_type({5, 4}), f32_type({3, 2, 4}), i64_type({4})},
         {},
         "x is (5,4), ids are (4): one for each row expected"},
    };
    return def;
}

OpDef backward_weight() {
    OpDef def;
    def.name = "grouped_linear_backward_weight";
    def.level = OpLevel::composite;
    def.summary =
        "The cotangent of a grouped linear layer's weight (groups, out, in): products of the rows of dy (..., out) and "
        "x "
        "(..., in), summed by ids (...), overwritten or added to; of the element type `dtype` where that is given. "
        "With "
        "`transpose` it is (groups, in, out).";
    def.formula = "dW[e] = before[e] + sum of dy[i] x[i]ᵀ where ids[i] = e; nothing is before where `first` holds";
    def.source = "the VJP of grouped_linear";
    def.infer = [](const InferInput& in) {
        require_operands(in, 3, 5);
        const Type &dy = float_operand(in, 0), &x = float_operand(in, 1), &ids = integer_operand(in, 2);
        require_same_dtype(dy, x);
        require_rows(x, ids);
        require(dy.rank() == x.rank() && leading_dims(dy.dims) == ids.dims,
                fmt::format("dy is {}, x is {}", dims_text(dy.dims), dims_text(x.dims)));
        Dims dims = {in.attributes.integer("groups"), dy.dims.back(), x.dims.back()};
        if (turned(in.attributes)) std::swap(dims[1], dims[2]);
        Type dw = Type::tensor(gradient_dtype(in.attributes, dy.dtype), std::move(dims));
        if (in.has(3))
            require(in.operand(3) == dw,
                    fmt::format("the gradient before is {}, the sum is {}", to_string(in.operand(3)), to_string(dw)));
        if (in.has(4)) require(boolean_operand(in, 4).rank() == 0, "first is to be bool[]");
        return std::vector<Type>{dw};
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        const Tensor &dy = operands[0], &x = operands[1], &ids = operands[2];
        Tensor dw(types[0]);
        if (has_operand(op, 3) && !(has_operand(op, 4) && operands[4].at(0) != 0)) dw = operands[3];
        const auto [out, in] = sizes_of(types[0].dims, op.attributes);
        const std::int64_t by_out = turned(op.attributes) ? 1 : in, by_in = turned(op.attributes) ? out : 1;
        for (std::int64_t i = 0; i < ids.size(); ++i) {
            const std::int64_t matrix = checked_index(ids.i[static_cast<std::size_t>(i)], types[0].dims[0]) * out * in;
            for (std::int64_t o = 0; o < out; ++o)
                for (std::int64_t k = 0; k < in; ++k) {
                    const std::int64_t at = matrix + o * by_out + k * by_in;
                    dw.set(at, dw.at(at) + dy.at(i * out + o) * x.at(i * in + k));
                }
        }
        return std::vector<Tensor>{dw};
    };
    def.not_differentiable = "a gradient of first order only: its decomposition can be differentiated";
    def.decompose = [](Builder& b, const Op& op) {
        const DType dtype = gradient_dtype(op.attributes, b.type(op.operands[0]).dtype);
        const DType wide = statistics_dtype(b.type(op.operands[0]).dtype);
        Value dy = b.cast(op.operands[0], wide), x = b.cast(op.operands[1], wide);
        if (turned(op.attributes)) std::swap(dy, x);
        const std::int64_t rows = row_count(b.type(x).dims);
        const Value products = b.mul(b.reshape(dy, {rows, last_dim(b.type(dy).dims), 1}),
                                     b.reshape(x, {rows, 1, last_dim(b.type(x).dims)}));
        Value dw = b.op("scatter_add", {b.reshape(op.operands[2], {rows}), products},
                        {{"axis", std::int64_t{0}}, {"entries", op.attributes.integer("groups")}});
        if (has_operand(op, 3)) dw = add_before(b, b.cast(op.operands[3], wide), dw, operand_or_none(op, 4));
        return std::vector<Value>{b.cast(dw, dtype)};
    };
    def.call = [](const Op& op, const Function& f) {
        const Type &dy = f.type(op.operands[0]), &x = f.type(op.operands[1]);
        const bool adds = has_operand(op, 3), transpose = turned(op.attributes);
        RuntimeCall call{"grouped_linear_backward_weight", {}, adds ? "dW += " : "dW = "};
        call.comment += transpose ? "xᵀ dy of each group's rows" : "dyᵀ x of each group's rows";
        call.fields = {result_field("dweight", 0).shaped(transpose ? "groups in out" : "groups out in"),
                       operand_field("dy", 0).shaped("... out"), operand_field("x", 1).shaped("... in"),
                       operand_field("ids", 2).shaped("...")};
        gradient_field(call, op, 3, 1);
        add_sizes(call, op.attributes, x, op.attributes.integer("groups"), last_dim(x.dims), last_dim(dy.dims));
        return call;
    };
    def.flops = [](const Op& op, const Function& f) {
        return flops_of(f.type(op.operands[1]), last_dim(f.type(op.operands[0]).dims));
    };
    def.precision = {.kind = Precision::Kind::product, .gradient = true};
    def.recompute = Recompute::expensive;
    def.result_names = {"dw"};
    def.in_place = {{0, 3}};
    def.addend = {.operand = 3, .over_steps = true};
    const Attributes three = {{"groups", std::int64_t{3}}};
    const auto with = [&three](const char* name, auto value) {
        Attributes attributes = three;
        attributes.set(name, value);
        return attributes;
    };
    const SampleOperand ids = i64_of({5}, {2, 0, 2, 2, 0});
    def.samples = {
        {.name = "plain", .operands = {f32({5, 2}), f32({5, 4}), ids}, .attributes = three},
        {.name = "turned round", .operands = {f32({5, 2}), f32({5, 4}), ids}, .attributes = with("transpose", true)},
        {.name = "added to", .operands = {f32({5, 2}), f32({5, 4}), ids, f32({3, 2, 4})}, .attributes = three},
        {.name = "first micro-step",
         .operands = {f32({5, 2}), f32({5, 4}), ids, f32({3, 2, 4}), bool_of({}, {1})},
         .attributes = three},
        {.name = "later micro-step",
         .operands = {f32({5, 2}), f32({5, 4}), ids, f32({3, 2, 4}), bool_of({}, {0})},
         .attributes = three},
        {.name = "of bf16, in f32",
         .operands = {bf16({5, 2}), bf16({5, 4}), ids, f32({3, 2, 4})},
         .attributes = with("dtype", DType::f32)},
        {.name = "of bf16", .operands = {bf16({5, 2}), bf16({5, 4}), ids, bf16({3, 2, 4})}, .attributes = three},
    };
    def.errors = {{{f32_type({4, 2}), f32_type({5, 4}), i64_type({5})}, three, "dy is (4,2), x is (5,4)"},
                  {{f32_type({5, 2}), f32_type({5, 4}), i64_type({5}), f32_type({3, 4, 2})},
                   three,
                   "the gradient before is f32[3,4,2], the sum is f32[3,2,4]"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_grouped_linear() {
    return {grouped_linear(), backward_weight()};
}

}  // namespace thunderc

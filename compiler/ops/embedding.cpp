// SPDX-License-Identifier: Apache-2.0
// Rows of a table by id.
//
//   y[i, :] = w[ids[i], :];   dw[e, :] = sum over i with ids[i] = e of dy[i, :], in the order of i
//
// Where the module has a `padding_idx`, that row has no gradient: torch.nn.Embedding.
#include <fmt/format.h>

#include "compiler/ops/composite.h"
#include "compiler/ops/dense.h"

namespace thunderc {
namespace {

Dims looked_up(const Dims& ids, std::int64_t width) {
    Dims dims = ids;
    dims.push_back(width);
    return dims;
}

void emb_fields(RuntimeCall& call, const Dims& ids, std::int64_t entries, std::int64_t width) {
    call.fields.push_back(literal_field("rows", element_count(ids)));
    call.fields.push_back(literal_field("entries", entries));
    call.fields.push_back(literal_field("width", width));
}

OpDef embedding() {
    OpDef def;
    def.name = "embedding";
    def.level = OpLevel::composite;
    def.summary = "The rows of w (entries, width) that ids (...) name: (..., width).";
    def.formula = "y[i] = w[ids[i]]; dw[e] = sum of dy[i] where ids[i] = e, or 0 where e is `padding_idx`";
    def.source = "torch.nn.Embedding";
    def.infer = [](const InferInput& in) {
        require_operands(in, 2);
        const Type &w = float_operand(in, 0), &ids = integer_operand(in, 1);
        require(w.rank() == 2, fmt::format("the table is {}: (entries, width) expected", dims_text(w.dims)));
        return std::vector<Type>{Type::tensor(w.dtype, looked_up(ids.dims, w.dims[1]))};
    };
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type> types) {
        const Tensor &w = operands[0], &ids = operands[1];
        const std::int64_t width = w.type.dims[1];
        Tensor y(types[0]);
        for (std::int64_t i = 0; i < ids.size(); ++i) {
            const std::int64_t id = checked_index(ids.i[static_cast<std::size_t>(i)], w.type.dims[0]);
            for (std::int64_t j = 0; j < width; ++j) y.set(i * width + j, w.at(id * width + j));
        }
        return std::vector<Tensor>{y};
    };
    def.vjp = [](const VjpInput& in) {
        VjpResult result(2);
        if (in.wants(0))
            result[0] = in.b.op("embedding_backward",
                                {without_padding(in.b, in.op.attributes, in.cotangent(), in.operand(1)), in.operand(1)},
                                {{"entries", in.type(in.operand(0)).dims[0]}});
        return result;
    };
    def.decompose = [](Builder& b, const Op& op) {
        Attributes attributes = op.attributes;
        attributes.set("axis", std::int64_t{0});
        return b.emit("gather", {op.operands[0], op.operands[1]}, std::move(attributes));
    };
    def.call = [](const Op& op, const Function& f) {
        const Type &w = f.type(op.operands[0]), &ids = f.type(op.operands[1]);
        RuntimeCall call{"embedding_forward", {}, "y = rows of the table by id"};
        call.fields = {result_field("y", 0).shaped("... width"), operand_field("weight", 0).shaped("entries width"),
                       operand_field("ids", 1).shaped("...")};
        emb_fields(call, ids.dims, w.dims[0], w.dims[1]);
        return call;
    };
    def.precision = {.kind = Precision::Kind::product};
    def.recompute = Recompute::cheap;
    def.moves = {.operands = {0}};
    def.lookup = [](const Attributes&, const Dims&, const Dims&) { return Lookup{}; };
    def.linear_in = {0};
    def.samples = {
        {.name = "sequence", .operands = {f32({5, 3}), i64_of({2, 4}, {0, 4, 2, 2, 1, 4, 4, 0})}},
        {.name = "one", .operands = {f32({3, 1}), i64_of({}, {2})}},
    };
    def.smooth = "linear";
    def.errors = {
        {{f32_type({5}), i64_type({2})}, {}, "the table is (5): (entries, width) expected"},
        {{f32_type({5, 3}), f32_type({2})}, {}, "operand 1 is to hold integers, f32[2] given"},
    };
    return def;
}

OpDef embedding_backward() {
    OpDef def;
    def.name = "embedding_backward";
    def.level = OpLevel::composite;
    def.summary =
        "The cotangent of an embedding's table (entries, width): rows of dy (..., width) summed by ids (...), "
        "overwritten or added to; of the element type `dtype` where that is given.";
    def.formula = "dw[e] = before[e] + sum of dy[i] where ids[i] = e; nothing is before where `first` holds";
    def.source = "the VJP of embedding";
    def.infer = [](const InferInput& in) {
        require_operands(in, 2, 4);
        const Type &dy = float_operand(in, 0), &ids = integer_operand(in, 1);
        require(dy.rank() >= 1 && leading_dims(dy.dims) == ids.dims,
                fmt::format("dy is {}, ids are {}", dims_text(dy.dims), dims_text(ids.dims)));
        Type dw =
            Type::tensor(gradient_dtype(in.attributes, dy.dtype), {in.attributes.integer("entries"), dy.dims.back()});
        if (in.has(2))
            require(in.operand(2) == dw,
                    fmt::format("the gradient before is {}, the sum is {}", to_string(in.operand(2)), to_string(dw)));
        if (in.has(3)) require(boolean_operand(in, 3).rank() == 0, "first is to be bool[]");
        return std::vector<Type>{dw};
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        const Tensor &dy = operands[0], &ids = operands[1];
        Tensor dw(types[0]);
        if (has_operand(op, 2) && !(has_operand(op, 3) && operands[3].at(0) != 0)) dw = operands[2];
        const std::int64_t width = types[0].dims[1];
        for (std::int64_t i = 0; i < ids.size(); ++i) {
            const std::int64_t id = checked_index(ids.i[static_cast<std::size_t>(i)], types[0].dims[0]);
            for (std::int64_t j = 0; j < width; ++j)
                dw.set(id * width + j, dw.at(id * width + j) + dy.at(i * width + j));
        }
        return std::vector<Tensor>{dw};
    };
    def.not_differentiable = "a gradient of first order only: its decomposition can be differentiated";
    def.decompose = [](Builder& b, const Op& op) {
        const DType dtype = gradient_dtype(op.attributes, b.type(op.operands[0]).dtype);
        const DType wide = statistics_dtype(dtype);
        Value dw = b.op("scatter_add", {op.operands[1], b.cast(op.operands[0], wide)},
                        {{"axis", std::int64_t{0}}, {"entries", op.attributes.integer("entries")}});
        if (has_operand(op, 2)) dw = add_before(b, b.cast(op.operands[2], wide), dw, operand_or_none(op, 3));
        return std::vector<Value>{b.cast(dw, dtype)};
    };
    def.call = [](const Op& op, const Function& f) {
        const Type &dy = f.type(op.operands[0]), &ids = f.type(op.operands[1]);
        const bool adds = has_operand(op, 2);
        RuntimeCall call{"embedding_backward", {}, adds ? "dW += rows of dy by id" : "dW = rows of dy by id"};
        call.fields = {result_field("dweight", 0).shaped("entries width"), operand_field("dy", 0).shaped("... width"),
                       operand_field("ids", 1).shaped("...")};
        gradient_field(call, op, 2, 1);
        emb_fields(call, ids.dims, op.attributes.integer("entries"), dy.dims.back());
        return call;
    };
    def.precision = {.kind = Precision::Kind::product, .gradient = true};
    def.recompute = Recompute::expensive;
    def.in_place = {{0, 2}};
    def.addend = {.operand = 2, .over_steps = true};
    def.sums = sums_over_rows;
    def.samples = {
        {.name = "sequence",
         .operands = {f32({2, 4, 3}), i64_of({2, 4}, {0, 4, 2, 2, 1, 4, 4, 0})},
         .attributes = {{"entries", std::int64_t{5}}}},
        {.name = "added to",
         .operands = {f32({3, 2}), i64_of({3}, {1, 1, 0}), f32({4, 2})},
         .attributes = {{"entries", std::int64_t{4}}}},
    };
    def.samples.push_back({.name = "of bf16, in f32",
                           .operands = {bf16({2, 4, 3}), i64_of({2, 4}, {0, 4, 2, 2, 1, 4, 4, 0})},
                           .attributes = {{"entries", std::int64_t{5}}, {"dtype", DType::f32}}});
    def.samples.push_back({.name = "of bf16, added to",
                           .operands = {bf16({2, 4, 3}), i64_of({2, 4}, {0, 4, 2, 2, 1, 4, 4, 0}), bf16({5, 3})},
                           .attributes = {{"entries", std::int64_t{5}}}});
    Sample first = def.samples[1];
    first.name = "first micro-step";
    first.operands.push_back(bool_of({}, {1}));
    def.samples.push_back(first);
    def.errors = {{{f32_type({5, 3}), i64_type({2})}, {{"entries", std::int64_t{4}}}, "dy is (5,3), ids are (2)"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_embedding() {
    return {embedding(), embedding_backward()};
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// Access by index, and what decomposes into it.
//
// gather is numpy's take along one axis: with x seen as (outer, entries, inner) and count indices,
//   y[o, c, i] = x[o, index[c], i];   dx[o, e, i] = Σ dy[o, c, i] over the c with index[c] = e, in the order of c
// Its cotangent is scatter_add, whose cotangent is gather. Indices lie in [-entries, entries), negative ones counting
// from the end; programs that run get them in [0, entries).
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/composite.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/plain_call.h"
#include "compiler/ops/rules.h"

namespace thunderc {
namespace {

struct Take {
    std::int64_t outer, entries, count, inner;
};

Take take_of(const Dims& table, std::size_t axis, std::int64_t count) {
    Dims before(table.begin(), table.begin() + static_cast<std::ptrdiff_t>(axis));
    Dims behind(table.begin() + static_cast<std::ptrdiff_t>(axis) + 1, table.end());
    return {element_count(before), table[axis], count, element_count(behind)};
}

std::int64_t entry(std::int64_t index, std::int64_t entries) {
    return index < 0 && index >= -entries ? index + entries : checked_index(index, entries);
}

CallField literal(std::string name, std::int64_t value) {
    return {std::move(name), CallField::Kind::literal, 0, fmt::format("{}", value), "", 1};
}

RuntimeCall runtime_call(std::string function, std::size_t values, std::size_t index, const Take& take,
                         std::string comment) {
    RuntimeCall call;
    call.function = std::move(function);
    call.fields = {{"y", CallField::Kind::result, 0, "", "", 1},
                   {"x", CallField::Kind::operand, values, "", "", 1},
                   {"index", CallField::Kind::operand, index, "", "", 1}};
    if (take.outer != 1) call.fields.push_back(literal("outer", take.outer));
    call.fields.push_back(literal("entries", take.entries));
    call.fields.push_back(literal("count", take.count));
    if (take.inner != 1) call.fields.push_back(literal("inner", take.inner));
    call.comment = std::move(comment);
    return call;
}

OpDef gather() {
    OpDef def;
    def.name = "gather";
    def.moves = {.operands = {0}};
    def.lookup = [](const Attributes& attributes, const Dims& table, const Dims&) {
        const auto rank = static_cast<std::int64_t>(table.size());
        return Lookup{.kind = Lookup::Kind::rows,
                      .axis = static_cast<std::size_t>(*normalize_axis(attributes.integer("axis"), rank))};
    };
    def.linear_in = {0};
    def.level = OpLevel::primitive;
    def.summary = "The slices of the first operand along `axis` that the second, of integers of any shape, names.";
    def.formula = "y[…, c…, …] = x[…, index[c…], …]; dx = scatter_add of dy, without rows of `padding_idx`";
    def.source = "ONNX Gather; numpy.take";
    def.infer = [](const InferInput& in) {
        require_operands(in, 2);
        const Type& x = tensor_operand(in, 0);
        const Type& index = integer_operand(in, 1);
        auto axis = static_cast<std::ptrdiff_t>(require_axis(in.attributes.integer("axis"), x));
        Dims dims(x.dims.begin(), x.dims.begin() + axis);
        dims.insert(dims.end(), index.dims.begin(), index.dims.end());
        dims.insert(dims.end(), x.dims.begin() + axis + 1, x.dims.end());
        return std::vector<Type>{Type::tensor(x.dtype, std::move(dims))};
    };
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        const Type& type = x[0].type;
        Take t = take_of(type.dims, require_axis(op.attributes.integer("axis"), type), x[1].size());
        Tensor out(y[0]);
        for (std::int64_t c = 0; c < t.count; ++c)
            copy_strided(x[0], entry(x[1].i[static_cast<std::size_t>(c)], t.entries) * t.inner,
                         {t.entries * t.inner, 1}, out, c * t.inner, {t.count * t.inner, 1}, {t.outer, t.inner});
        return std::vector<Tensor>{std::move(out)};
    };
    def.vjp = [](const VjpInput& in) {
        const Type x = in.type(in.operand(0));
        auto axis = static_cast<std::int64_t>(require_axis(in.op.attributes.integer("axis"), x));
        Value dy = without_padding(in.b, in.op.attributes, in.cotangent(), in.operand(1));
        Value dx = in.b.op("scatter_add", {in.operand(1), dy},
                           {{"axis", axis}, {"entries", x.dims[static_cast<std::size_t>(axis)]}});
        return VjpResult{dx, Value{}};
    };
    def.call = [](const Op& op, const Function& f) -> RuntimeCall {
        const Type& x = f.type(op.operands[0]);
        const Type& index = f.type(op.operands[1]);
        Take t = take_of(x.dims, require_axis(op.attributes.integer("axis"), x), index.elements());
        return by_executor(runtime_call("gather", 0, 1, t, "y[o, c, i] = x[o, index[c], i]"), op);
    };
    auto along = [](std::int64_t axis) { return Attributes{{"axis", axis}}; };
    def.samples = {{"rows", {f32({5, 3}), i64_of({4}, {0, 4, 0, 2})}, along(0)},
                   {"columns", {f32({2, 5}), i64_of({2, 3}, {4, 4, 4, 1, 0, 3})}, along(1)},
                   {"middle", {f32({2, 4, 3}), i64_of({2}, {3, 1})}, along(-2)},
                   {"one", {f32({4, 2}), i64_of({}, {2})}, along(0)},
                   {"from_the_end", {f32({4}), i64_of({2}, {-1, -4})}, along(0)},
                   {"integers", {i64_of({3}, {7, 8, 9}), i64_of({1}, {2})}, along(0)}};
    def.smooth = "it moves and adds elements";
    def.errors = {{{f32_type({5, 3}), f32_type({2})}, along(0), "operand 1 is to hold integers, f32[2] given"},
                  {{f32_type({5, 3}), i64_type({2})}, along(2), "f32[5,3] has no axis 2"}};
    return def;
}

OpDef scatter_add() {
    OpDef def;
    def.name = "scatter_add";
    def.linear_in = {1};
    def.precision = {
        .kind = Precision::Kind::island, .why = "a sum of as many terms as rows have one index", .stays = true};
    def.level = OpLevel::primitive;
    def.summary =
        "Sums the slices of the second operand along `axis` into the `entries` that the first, of integers, names; the "
        "rest is 0.";
    def.formula = "y[…, e, …] = Σ x[…, c…, …] over index[c…] = e, in the order of c; dx = gather of dy";
    def.source = "the transpose of ONNX Gather";
    // The updates have the index's dimensions where the result has the one that is indexed.
    def.infer = [](const InferInput& in) {
        require_operands(in, 2);
        const Type& index = integer_operand(in, 0);
        const Type& x = number_operand(in, 1);
        std::int64_t axis = in.attributes.integer("axis"), entries = in.attributes.integer("entries");
        bool fits = axis >= 0 && axis + index.rank() <= x.rank() && entries >= 0 &&
                    std::equal(index.dims.begin(), index.dims.end(), x.dims.begin() + axis);
        require(fits,
                fmt::format("{} does not have the dimensions of {} at axis {}", to_string(x), to_string(index), axis));
        Dims dims(x.dims.begin(), x.dims.begin() + axis);
        dims.push_back(entries);
        dims.insert(dims.end(), x.dims.begin() + axis + index.rank(), x.dims.end());
        return std::vector<Type>{Type::tensor(x.dtype, std::move(dims))};
    };
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        Take t = take_of(y[0].dims, static_cast<std::size_t>(op.attributes.integer("axis")), x[0].size());
        Tensor out(y[0]);
        for (std::int64_t o = 0; o < t.outer; ++o)
            for (std::int64_t c = 0; c < t.count; ++c) {
                std::int64_t to = (o * t.entries + entry(x[0].i[static_cast<std::size_t>(c)], t.entries)) * t.inner;
                std::int64_t from = (o * t.count + c) * t.inner;
                for (std::int64_t i = 0; i < t.inner; ++i) {
                    auto source = static_cast<std::size_t>(from + i), target = static_cast<std::size_t>(to + i);
                    if (out.floating())
                        out.f[target] += x[1].f[source];
                    else
                        out.i[target] = wrapping_sum(out.i[target], x[1].i[source]);
                }
            }
        return std::vector<Tensor>{std::move(out)};
    };
    def.vjp = [](const VjpInput& in) {
        Value dx = in.b.op("gather", {in.cotangent(), in.operand(0)}, {{"axis", in.op.attributes.integer("axis")}});
        return VjpResult{Value{}, dx};
    };
    def.call = [](const Op& op, const Function& f) -> RuntimeCall {
        const Type& index = f.type(op.operands[0]);
        const Type& y = f.type(op.results[0]);
        if (y.dtype != DType::f32) return {};
        Take t = take_of(y.dims, static_cast<std::size_t>(op.attributes.integer("axis")), index.elements());
        return by_executor(runtime_call("scatter_add", 1, 0, t, "y[o, index[c], i] += x[o, c, i], from 0"), op);
    };
    auto into = [](std::int64_t axis, std::int64_t entries) {
        return Attributes{{"axis", axis}, {"entries", entries}};
    };
    def.samples = {{"rows", {i64_of({4}, {0, 4, 0, 2}), f32({4, 3})}, into(0, 5)},
                   {"columns", {i64_of({2, 3}, {4, 4, 4, 1, 0, 3}), f32({2, 2, 3})}, into(1, 5)},
                   {"middle", {i64_of({2}, {3, 1}), f32({2, 2, 3})}, into(1, 4)},
                   {"one", {i64_of({}, {1}), f32({2})}, into(0, 3)},
                   {"integers", {i64_of({3}, {1, 1, 0}), i64_of({3}, {9007199254740991, 1, 5})}, into(0, 2)}};
    def.smooth = "it moves and adds elements";
    def.errors = {
        {{i64_type({4}), f32_type({3, 4})}, into(0, 5), "f32[3,4] does not have the dimensions of i64[4] at axis 0"},
        {{f32_type({4}), f32_type({4})}, into(0, 5), "operand 0 is to hold integers, f32[4] given"}};
    return def;
}

// Each row of indices, its last dimension, names a slice of the data; the first batch_dims dimensions go in step.
// Decomposed into one gather from the data seen as (prefixes, slice) by row-major prefix numbers.
OpDef gather_nd() {
    OpDef def;
    def.name = "gather_nd";
    def.moves = {.operands = {0}};
    def.lookup = [](const Attributes& attributes, const Dims&, const Dims& index) {
        return Lookup{.kind = Lookup::Kind::coordinates,
                      .axis = static_cast<std::size_t>(attributes.integer("batch_dims", 0)),
                      .coordinates = index.back()};
    };
    def.linear_in = {0};
    def.level = OpLevel::imported;
    def.summary =
        "The slices of the first operand that the rows of the second, of integers, name; the first `batch_dims` "
        "dimensions go in step.";
    def.formula = "y[b…, c…, …] = x[b…, index[b…, c…, 0], index[b…, c…, 1], …, …]";
    def.source = "ONNX GatherND";
    struct Parts {
        std::size_t batch, width;  // dimensions in step; dimensions that a row of indices names
    };
    auto parts = [](const Type& x, const Type& index, const Attributes& attributes) {
        std::int64_t batch = attributes.integer("batch_dims"), width = index.rank() > 0 ? index.dims.back() : 0;
        bool fits = batch >= 0 && batch < index.rank() && batch + width <= x.rank() && width > 0 &&
                    std::equal(x.dims.begin(), x.dims.begin() + batch, index.dims.begin());
        require(fits,
                fmt::format("{} cannot index {} with {} dimensions in step", to_string(index), to_string(x), batch));
        return Parts{static_cast<std::size_t>(batch), static_cast<std::size_t>(width)};
    };
    def.infer = [parts](const InferInput& in) {
        require_operands(in, 2);
        const Type& x = tensor_operand(in, 0);
        const Type& index = integer_operand(in, 1);
        Parts p = parts(x, index, in.attributes);
        Dims dims(index.dims.begin(), index.dims.end() - 1);
        dims.insert(dims.end(), x.dims.begin() + static_cast<std::ptrdiff_t>(p.batch + p.width), x.dims.end());
        return std::vector<Type>{Type::tensor(x.dtype, std::move(dims))};
    };
    def.reference = [parts](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        const Dims& dims = x[0].type.dims;
        Parts p = parts(x[0].type, x[1].type, op.attributes);
        Dims strides = dense_strides(dims);
        Dims slice(dims.begin() + static_cast<std::ptrdiff_t>(p.batch + p.width), dims.end());
        std::int64_t inner = element_count(slice), rows = x[1].size() / static_cast<std::int64_t>(p.width);
        std::int64_t batches = element_count(Dims(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(p.batch)));
        Tensor out(y[0]);
        for (std::int64_t r = 0; r < rows; ++r) {
            std::int64_t from = p.batch == 0 ? 0 : r / (rows / batches) * strides[p.batch - 1];
            for (std::size_t w = 0; w < p.width; ++w)
                from +=
                    entry(x[1].i[static_cast<std::size_t>(r) * p.width + w], dims[p.batch + w]) * strides[p.batch + w];
            copy_strided(x[0], from, {1}, out, r * inner, {1}, {inner});
        }
        return std::vector<Tensor>{std::move(out)};
    };
    // number: for each row of indices, the row-major number of the prefix of x that it names.
    def.decompose = [parts](Builder& b, const Op& op) {
        Value x = op.operands[0], index = op.operands[1];
        const Type type = b.type(x), index_type = b.type(index);
        Parts p = parts(type, index_type, op.attributes);
        Dims rows(index_type.dims.begin(), index_type.dims.end() - 1);
        std::int64_t last = index_type.rank() - 1, stride = 1;
        Value number;
        auto accumulate = [&](Value v) { number = number ? b.add(number, v) : v; };
        for (std::size_t w = p.width; w-- > 0;) {
            auto column = static_cast<std::int64_t>(w);
            Value named = b.reshape(b.slice(index, last, column, column + 1), rows);
            accumulate(stride == 1 ? named : b.mul(named, static_cast<double>(stride)));
            stride *= type.dims[p.batch + w];
        }
        std::int64_t entries = stride;
        if (p.batch > 0) {
            std::vector<double> step(rows.size(), 0);
            for (std::size_t d = p.batch; d-- > 0; entries *= type.dims[d]) step[d] = static_cast<double>(entries);
            accumulate(b.constant(ConstExpr::affine(Type::tensor(index_type.dtype, rows), 0, step), "batch_offset"));
        }
        Dims table = {entries};
        table.insert(table.end(), type.dims.begin() + static_cast<std::ptrdiff_t>(p.batch + p.width), type.dims.end());
        return b.emit("gather", {b.reshape(x, table), number}, {{"axis", std::int64_t{0}}});
    };
    auto batched = [](std::int64_t dims) { return Attributes{{"batch_dims", dims}}; };
    def.samples = {{"elements", {f32({3, 4}), i64_of({3, 2}, {0, 3, 2, 1, 2, 1})}, batched(0)},
                   {"rows", {f32({3, 4}), i64_of({2, 1, 1}, {2, 0})}, batched(0)},
                   {"batched", {f32({2, 3, 2}), i64_of({2, 2, 1}, {2, 0, 1, 1})}, batched(1)},
                   {"batched_twice", {f32({2, 2, 3}), i64_of({2, 2, 1}, {2, 0, 1, 1})}, batched(2)}};
    def.smooth = "it moves and adds elements";
    def.errors = {
        {{f32_type({3, 4}), i64_type({2, 3})}, batched(0), "i64[2,3] cannot index f32[3,4] with 0 dimensions in step"},
        {{f32_type({3, 4}), i64_type({2, 1})}, batched(1), "i64[2,1] cannot index f32[3,4] with 1 dimensions in step"}};
    return def;
}

// Decomposed into one gather from x as a line: every element's own row-major number, with the index along `axis`.
OpDef gather_elements() {
    OpDef def;
    def.name = "gather_elements";
    def.moves = {.operands = {0}};
    def.lookup = [](const Attributes& attributes, const Dims& table, const Dims&) {
        const auto rank = static_cast<std::int64_t>(table.size());
        return Lookup{.kind = Lookup::Kind::elements,
                      .axis = static_cast<std::size_t>(*normalize_axis(attributes.integer("axis"), rank))};
    };
    def.linear_in = {0};
    def.level = OpLevel::imported;
    def.rows = {.kind = Rows::Kind::but_axis};
    def.summary =
        "For each index, the element of the first operand at its own place but for `axis`, where the index says.";
    def.formula = "y[i, j, …] = x[index[i, j, …], j, …] for axis 0";
    def.source = "ONNX GatherElements; torch.gather";
    def.infer = [](const InferInput& in) {
        require_operands(in, 2);
        const Type& x = tensor_operand(in, 0);
        const Type& index = integer_operand(in, 1);
        std::size_t axis = require_axis(in.attributes.integer("axis"), x);
        bool fits = x.rank() == index.rank();
        for (std::size_t d = 0; fits && d < x.dims.size(); ++d) fits = d == axis || index.dims[d] <= x.dims[d];
        require(fits,
                fmt::format("{} cannot index the elements of {} along axis {}", to_string(index), to_string(x), axis));
        return std::vector<Type>{Type::tensor(x.dtype, index.dims)};
    };
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        std::size_t axis = require_axis(op.attributes.integer("axis"), x[0].type);
        Dims from = dense_strides(x[0].type.dims), to = dense_strides(y[0].dims);
        Tensor out(y[0]);
        for (std::int64_t k = 0; k < out.size(); ++k) {
            std::int64_t at = 0;
            for (std::size_t d = 0; d < to.size(); ++d) {
                std::int64_t own = k / to[d] % y[0].dims[d];
                at += from[d] * (d == axis ? entry(x[1].i[static_cast<std::size_t>(k)], x[0].type.dims[d]) : own);
            }
            if (out.floating())
                out.f[static_cast<std::size_t>(k)] = x[0].f[static_cast<std::size_t>(at)];
            else
                out.i[static_cast<std::size_t>(k)] = x[0].i[static_cast<std::size_t>(at)];
        }
        return std::vector<Tensor>{std::move(out)};
    };
    def.decompose = [](Builder& b, const Op& op) {
        Value x = op.operands[0], index = op.operands[1];
        const Type type = b.type(x), index_type = b.type(index);
        std::size_t axis = require_axis(op.attributes.integer("axis"), type);
        Dims strides = dense_strides(type.dims);
        std::vector<double> step(strides.begin(), strides.end());
        step[axis] = 0;
        Value own = b.constant(ConstExpr::affine(index_type, 0, step), "own_place");
        Value along = strides[axis] == 1 ? index : b.mul(index, static_cast<double>(strides[axis]));
        return b.emit("gather", {b.reshape(x, {type.elements()}), b.add(along, own)}, {{"axis", std::int64_t{0}}});
    };
    auto along = [](std::int64_t axis) { return Attributes{{"axis", axis}}; };
    def.samples = {{"labels", {f32({4, 5}), i64_of({4, 1}, {0, 4, 2, 2})}, along(1)},
                   {"rows", {f32({3, 2}), i64_of({2, 2}, {2, 0, 2, 1})}, along(0)},
                   {"middle", {f32({2, 3, 2}), i64_of({2, 1, 2}, {0, 2, 1, 1})}, along(1)}};
    def.smooth = "it moves and adds elements";
    def.errors = {
        {{f32_type({4, 5}), i64_type({4})}, along(1), "i64[4] cannot index the elements of f32[4,5] along axis 1"},
        {{f32_type({4, 5}), i64_type({5, 1})},
         along(1),
         "i64[5,1] cannot index the elements of f32[4,5] along axis 1"}};
    return def;
}

OpDef one_hot() {
    OpDef def;
    def.name = "one_hot";
    def.range = [](const RangeInput& in) {
        ValueSet out = ValueSet::number(in.attributes.number("on"));
        out.add(ValueSet::number(in.attributes.number("off")));
        return is_float(in.dtype()) ? ValueSet::any(in.dtype()) : out;
    };
    def.range_of_types = true;
    def.level = OpLevel::imported;
    def.rows = {.kind = Rows::Kind::but_last};
    def.summary =
        "A new last dimension of `depth` elements of type `dtype`: `on` where its index equals the operand, else "
        "`off`.";
    def.formula = "y[…, i] = on where x[…] = i, else off";
    def.source = "ONNX OneHot (axis = -1)";
    def.not_differentiable = "its operand is integer";
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        Dims dims = integer_operand(in, 0).dims;
        std::int64_t depth = in.attributes.integer("depth");
        require(depth > 0, fmt::format("a depth of {} is not positive", depth));
        dims.push_back(depth);
        in.attributes.number("on");
        in.attributes.number("off");
        return std::vector<Type>{Type::tensor(in.attributes.dtype("dtype"), std::move(dims))};
    };
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        Tensor out(y[0]);
        std::int64_t depth = y[0].dims.back();
        for (std::int64_t k = 0; k < out.size(); ++k)
            out.set(k, op.attributes.number(x[0].i[static_cast<std::size_t>(k / depth)] == k % depth ? "on" : "off"));
        return std::vector<Tensor>{std::move(out)};
    };
    def.decompose = [](Builder& b, const Op& op) {
        const Type type = b.type(op.operands[0]);
        std::int64_t depth = op.attributes.integer("depth");
        DType dtype = op.attributes.dtype("dtype");
        Dims column = type.dims;
        column.push_back(1);
        Value classes = b.constant(ConstExpr::affine(Type::tensor(type.dtype, {depth}), 0, {1}), "classes");
        Value hit = b.op("eq", {b.reshape(op.operands[0], column), classes});
        return b.emit("select",
                      {hit, b.scalar(dtype, op.attributes.number("on")), b.scalar(dtype, op.attributes.number("off"))});
    };
    auto coded = [](std::int64_t depth, double on, double off, DType dtype) {
        return Attributes{{"depth", depth}, {"on", on}, {"off", off}, {"dtype", dtype}};
    };
    def.samples = {{"labels", {i64_of({2, 3}, {0, 4, 2, 2, -1, 7})}, coded(5, 1, 0, DType::f32)},
                   {"smoothed", {i64_of({3}, {2, 0, 1})}, coded(3, 0.9, 0.05, DType::f32)},
                   {"one", {i64_of({}, {1})}, coded(2, 1, 0, DType::i64)}};
    def.errors = {{{f32_type({2})}, coded(5, 1, 0, DType::f32), "operand 0 is to hold integers, f32[2] given"},
                  {{i64_type({2})}, coded(0, 1, 0, DType::f32), "a depth of 0 is not positive"}};
    return def;
}

// The mask is a lazy predicate over row and column, never a tensor.
OpDef trilu() {
    OpDef def;
    def.name = "trilu";
    def.moves = {.operands = {0}, .fill = [](const Attributes&) { return 0.0; }};
    def.linear_in = {0};
    def.level = OpLevel::imported;
    def.summary =
        "The upper (column - row >= k) or lower (column - row <= k) triangle of the last two dimensions; 0 elsewhere.";
    def.formula = "y = x in the triangle, else 0; dx = dy in the triangle, else 0";
    def.source = "ONNX Trilu";
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        const Type& x = tensor_operand(in, 0);
        require(x.rank() >= 2, fmt::format("two or more dimensions expected, {} given", to_string(x)));
        in.attributes.boolean("upper");
        in.attributes.integer("k");
        return std::vector<Type>{x};
    };
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        Tensor out = x[0];
        bool upper = op.attributes.boolean("upper");
        std::int64_t k = op.attributes.integer("k"), rows = y[0].dims[y[0].dims.size() - 2], columns = y[0].dims.back();
        for (std::int64_t e = 0; e < out.size(); ++e) {
            std::int64_t distance = e % columns - e / columns % rows;
            if (upper ? distance < k : distance > k) out.set(e, 0);
        }
        return std::vector<Tensor>{std::move(out)};
    };
    def.decompose = [](Builder& b, const Op& op) {
        Value x = op.operands[0];
        const Type type = b.type(x);
        Dims matrix(type.dims.end() - 2, type.dims.end());
        ConstPtr distance = ConstExpr::affine(i64_type(matrix), 0, {-1, 1});
        ConstPtr k = ConstExpr::splat(i64_type(matrix), static_cast<double>(op.attributes.integer("k")));
        Value inside = b.constant(
            ConstExpr::elementwise(bool_type(matrix), op.attributes.boolean("upper") ? "ge" : "le", {distance, k}),
            "triangle");
        return b.emit("select", {inside, x, b.scalar(type.dtype, 0)});
    };
    def.in_place = {{0, 0}};
    auto triangle = [](bool upper, std::int64_t k) { return Attributes{{"upper", upper}, {"k", k}}; };
    def.samples = {{"upper", {f32({3, 5})}, triangle(true, 0)},
                   {"lower", {f32({2, 4, 3})}, triangle(false, 0)},
                   {"above", {f32({4, 4})}, triangle(true, 1)},
                   {"band", {f32({4, 3})}, triangle(false, -1)},
                   {"integers", {i64_of({2, 2}, {1, 2, 3, 4})}, triangle(true, 1)}};
    def.smooth = "it moves and adds elements";
    def.errors = {{{f32_type({3})}, triangle(true, 0), "two or more dimensions expected, f32[3] given"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_index() {
    return {gather(), scatter_add(), gather_nd(), gather_elements(), one_hot(), trilu()};
}

}  // namespace thunderc

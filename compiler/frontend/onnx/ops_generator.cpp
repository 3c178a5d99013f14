// SPDX-License-Identifier: Apache-2.0
// Operators that make constants, and If on a condition that is one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/frontend/onnx/check_model.h"
#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/onnx/narrow_integers.h"

namespace thunderc::onnx_frontend {
namespace {

void constant(Node& n) {
    if (const auto* value = n.attribute("value")) {
        // A number of the code is a double in torch, and takes the type of what it is combined with.
        const auto& dims = value->t().dims();
        const bool one = std::all_of(dims.begin(), dims.end(), [](std::int64_t d) { return d == 1; });
        if (!one || !dtype_of(value->t().data_type()))
            n.importer().dtype(value->t().data_type(), "the constant " + n.proto().name());
        check_tensor(value->t());
        return n.output_constant(0, n.importer().reader().tensor(value->t()), narrow_type(value->t().data_type()));
    }
    if (const auto* value = n.attribute("value_float"))
        return n.output_constant(0, Tensor::scalar(DType::f32, static_cast<double>(value->f())));
    if (const auto* value = n.attribute("value_int")) {
        Tensor out(Type::tensor(DType::i64, {}));
        out.i[0] = value->i();
        return n.output_constant(0, std::move(out));
    }
    if (const auto* value = n.attribute("value_ints"))
        return n.output_constant(0, Tensor::ints({value->ints().begin(), value->ints().end()}));
    if (const auto* value = n.attribute("value_floats")) {
        const std::vector<double> values(value->floats().begin(), value->floats().end());
        return n.output_constant(0, Tensor::floats({static_cast<std::int64_t>(values.size())}, values));
    }
    n.fail("a Constant of strings or of a sparse tensor is not supported", "use a dense numeric constant");
}

// An integer that is not what a double makes of it has to be held as data.
bool needs_data(const Tensor& t) {
    return !t.floating() && !std::all_of(t.i.begin(), t.i.end(), is_exact);
}

// One element of a constant, as a scalar.
Value element(Builder& b, const Tensor& t, std::int64_t k) {
    Tensor out(Type::tensor(t.type.dtype, {}));
    if (t.floating())
        out.f[0] = t.f[static_cast<std::size_t>(k)];
    else
        out.i[0] = t.i[static_cast<std::size_t>(k)];
    return b.constant(ConstExpr::dense(std::move(out)));
}

void constant_of_shape(Node& n) {
    const Dims dims = n.integers(0, "shape");
    Type type = Type::tensor(DType::f32, dims);
    double value = 0;
    std::int32_t narrow = 0;
    if (const auto* given = n.attribute("value")) {
        narrow = narrow_type(given->t().data_type());
        check_tensor(given->t());
        const Tensor one = n.importer().reader().tensor(given->t());
        if (one.size() != 1) n.fail("the value of ConstantOfShape is to be one element");
        if (needs_data(one)) return n.output(0, n.b().broadcast_to(element(n.b(), one, 0), dims), narrow);
        type.dtype = one.type.dtype;
        value = one.at(0);
    }
    n.output(0, n.b().constant(ConstExpr::splat(std::move(type), value)), narrow);
}

// Of integers that no double holds.
Tensor whole_range(Node& n, std::int64_t start, std::int64_t limit, std::int64_t delta) {
    constexpr std::int64_t most = 1 << 16;
    Tensor out = Tensor::ints({});
    for (std::int64_t at = start; delta > 0 ? at < limit : at > limit;) {
        if (std::ssize(out.i) == most)
            n.fail(fmt::format("Range of more than {} integers beyond 2^53 is not supported", most),
                   "start at 0 in the model, and add the start");
        out.i.push_back(at);
        if (__builtin_add_overflow(at, delta, &at)) break;
    }
    return Tensor::ints(out.i);
}

// What is no number has a sign, which depends on the machine.
std::string number(double v) {
    return std::isnan(v) ? "nan" : fmt::format("{}", v);
}

void range(Node& n) {
    const std::optional<Tensor> start = n.known(0), limit = n.known(1), delta = n.known(2);
    if (!start || !limit || !delta || start->size() != 1 || limit->size() != 1 || delta->size() != 1)
        n.fail("the bounds of Range depend on the model's data; shapes are fixed when compiling",
               "export the model so that its shapes follow from the shapes of its inputs alone");
    if (delta->at(0) == 0) n.fail("Range with a step of 0");
    const double steps = std::ceil((limit->at(0) - start->at(0)) / delta->at(0));
    if (!(steps <= 0x1p40))  // no tensor has more; an infinite bound, or one that is no number
        n.fail("Range does not end", {}, {},
               fmt::format("from {} to {} in steps of {}", number(start->at(0)), number(limit->at(0)),
                           number(delta->at(0))));
    // All sums of doubles below are exact up to there.
    if (!start->floating() && std::max(std::abs(start->at(0)), std::abs(limit->at(0))) >= 0x1p53)
        return n.output(0, n.b().constant(ConstExpr::dense(whole_range(n, start->i[0], limit->i[0], delta->i[0]))));
    const auto count = static_cast<std::int64_t>(std::max(0.0, steps));
    n.output(0,
             n.b().constant(ConstExpr::affine(Type::tensor(start->type.dtype, {count}), start->at(0), {delta->at(0)})));
}

void trilu(Node& n) {
    std::int64_t k = 0;
    if (n.has(1)) k = n.integer(1, "diagonal");
    n.output(0, n.b().op("trilu", {n.input(0)}, {{"upper", n.integer("upper", 1) != 0}, {"k", k}}));
}

void eye_like(Node& n) {
    const Type like = n.type(0);
    if (like.rank() != 2) n.fail("EyeLike takes a matrix");
    DType dtype = like.dtype;
    std::int32_t narrow = n.narrow(0);
    if (n.attribute("dtype") != nullptr) {
        const auto given = static_cast<std::int32_t>(n.integer("dtype", 1));
        dtype = n.importer().dtype(given, "EyeLike");
        narrow = narrow_type(given);
    }
    const Type index = Type::tensor(DType::i64, like.dims);
    const ConstPtr diagonal = ConstExpr::elementwise(
        Type::tensor(DType::boolean, like.dims), "eq",
        {ConstExpr::affine(index, 0, {-1, 1}), ConstExpr::splat(index, static_cast<double>(n.integer("k", 0)))});
    const Type type = Type::tensor(dtype, like.dims);
    n.output(0, n.b().constant(ConstExpr::select(diagonal, ConstExpr::splat(type, 1), ConstExpr::splat(type, 0))),
             narrow);
}

void one_hot(Node& n) {
    const std::int64_t depth = n.integer(1, "depth");
    if (depth < 1 || !countable({depth})) n.fail(fmt::format("OneHot with a depth of {}", depth));
    const std::optional<Tensor> values = n.known(2);  // off, on
    if (!values || values->size() != 2)
        n.fail("the values of OneHot are to be two constants", "use torch.nn.functional.one_hot");
    const std::int64_t rank = n.type(0).rank();
    const std::int64_t axis = n.axis(n.integer("axis", -1), rank + 1);
    // Negative ones count from the end; what is outside names nothing.
    Value i = n.b().cast(n.input(0), DType::i64);
    const Value negative = n.b().op("lt", {i, n.b().scalar(DType::i64, 0)});
    i = n.b().op("select", {negative, n.b().add(i, static_cast<double>(depth)), i});
    Value last;
    if (needs_data(*values)) {
        const Value hit =
            n.b().op("one_hot", {i}, {{"depth", depth}, {"off", 0.0}, {"on", 1.0}, {"dtype", DType::boolean}});
        last = n.b().op("select", {hit, element(n.b(), *values, 1), element(n.b(), *values, 0)});
    } else
        last =
            n.b().op("one_hot", {i},
                     {{"depth", depth}, {"off", values->at(0)}, {"on", values->at(1)}, {"dtype", values->type.dtype}});
    Dims permutation;
    for (std::int64_t d = 0; d < rank; ++d) permutation.push_back(d);
    permutation.insert(permutation.begin() + axis, rank);
    n.output(0, n.b().transpose(last, permutation));
}

void if_node(Node& n) {
    const std::optional<std::vector<std::int64_t>> condition = n.known_integers(0);
    if (!condition || condition->size() != 1)
        n.fail("the condition of If depends on the model's data; nothing in a training step branches on data",
               "export the model so that the branch is fixed, or compute both sides and choose with torch.where");
    const auto* branch = n.attribute(condition->front() != 0 ? "then_branch" : "else_branch");
    if (branch == nullptr) n.fail("If has no such branch", "the graph is damaged: export the model again");
    const std::vector<Binding> outputs = n.importer().import_subgraph(branch->g());
    for (std::size_t k = 0; k < outputs.size() && k < n.outputs(); ++k)
        if (n.wants(k)) n.importer().bind(n.proto().output(static_cast<int>(k)), outputs[k]);
}

constexpr OpImporter generator_importers[] = {
    {"Constant", 13, last_opset, constant, own}, {"ConstantOfShape", 13, last_opset, constant_of_shape, own},
    {"Range", 13, last_opset, range, computed},  {"Trilu", 14, last_opset, trilu, moved},
    {"EyeLike", 13, last_opset, eye_like, own},  {"OneHot", 13, last_opset, one_hot, Integers::of_operand(2, false)},
    {"If", 13, last_opset, if_node, own},
};

}  // namespace

std::span<const OpImporter> generator_ops() {
    return generator_importers;
}

}  // namespace thunderc::onnx_frontend

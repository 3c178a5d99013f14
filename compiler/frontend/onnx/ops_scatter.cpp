// SPDX-License-Identifier: Apache-2.0
// Operators that write elements by index, or turn parts of a tensor around by it.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/shared/scatter.h"

namespace thunderc::onnx_frontend {
namespace {

std::string scatter_reduction(Node& n) {
    return n.one_of("reduction", {"none", "add", "mul", "max", "min"});
}

// Of an operand of indices that is known, each place as a number from 0 on.
std::optional<Tensor> known_places(Node& n, Value at, std::int64_t rows) {
    const Tensor* known = n.known(1) ? n.importer().integer_values().find(at) : nullptr;
    if (known == nullptr) return std::nullopt;
    const bool inside =
        std::all_of(known->i.begin(), known->i.end(), [&](std::int64_t k) { return k >= 0 && k < rows; });
    return inside ? std::optional(*known) : std::nullopt;
}

// Indices name elements as those of GatherElements do: their places are its results of the elements' own numbers, which
// are bounded and counted from the end like them.
void scatter_elements(Node& n) {
    Builder& b = n.b();
    const Type type = n.type(0), index = n.type(1);
    const std::int64_t axis = n.axis(n.integer("axis", 0), type.rank());
    if (n.type(2).dims != index.dims)
        n.fail(fmt::format("{} has updates of another shape than its indices", n.proto().op_type()), {},
               to_string(index), to_string(n.type(2)));
    const Value at = b.op("gather_elements", {numbers_of_elements(b, type.dims), n.input(1)}, {{"axis", axis}});
    const std::int64_t rows = type.elements(), count = index.elements();
    const Value places = b.reshape(at, {count});
    const RowWrites w{b.reshape(n.input(0), {rows, 1}),
                      places,
                      b.reshape(n.input(2), {count, 1}),
                      rows,
                      1,
                      count,
                      scatter_reduction(n)};
    n.output(0, b.reshape(written(n.b(), w, known_places(n, places, rows)), type.dims));
}

void scatter_nd(Node& n) {
    Builder& b = n.b();
    const Type type = n.type(0), index = n.type(1);
    const std::int64_t named = index.rank() == 0 ? 0 : index.dims.back();
    if (named < 1 || named > type.rank())
        n.fail("the indices of ScatterND name more dimensions than there are, or none", {}, to_string(type),
               to_string(index));
    const Dims table(type.dims.begin(), type.dims.begin() + named), inner(type.dims.begin() + named, type.dims.end());
    Dims updates(index.dims.begin(), index.dims.end() - 1);
    const std::int64_t rows = element_count(table), width = element_count(inner), count = element_count(updates);
    updates.insert(updates.end(), inner.begin(), inner.end());
    if (n.type(2).dims != updates)
        n.fail("the updates of ScatterND do not fit its indices", {}, fmt::format("[{}]", to_string(updates)),
               to_string(n.type(2)));
    const Value at = b.op("gather_nd", {numbers_of_elements(b, table), n.input(1)}, {{"batch_dims", std::int64_t{0}}});
    const Value places = b.reshape(at, {count});
    const RowWrites w{b.reshape(n.input(0), {rows, width}),
                      places,
                      b.reshape(n.input(2), {count, width}),
                      rows,
                      width,
                      count,
                      scatter_reduction(n)};
    n.output(0, b.reshape(written(n.b(), w, known_places(n, places, rows)), type.dims));
}

// The first elements of each row the other way round, as many as a number says.
void reverse_sequence(Node& n) {
    Builder& b = n.b();
    const Type type = n.type(0);
    const std::int64_t batch = n.axis(n.integer("batch_axis", 1), type.rank());
    const std::int64_t time = n.axis(n.integer("time_axis", 0), type.rank());
    const Dims rows = {type.dims[static_cast<std::size_t>(batch)]};
    if (batch == time || n.type(1).dims != rows)
        n.fail("ReverseSequence takes a length for each row of its batch", {}, fmt::format("[{}]", to_string(rows)),
               to_string(n.type(1)));
    Dims line(type.dims.size(), 1);
    line[static_cast<std::size_t>(batch)] = rows[0];
    const Value length = b.reshape(b.cast(n.input(1), DType::i64), line);
    std::vector<double> step(type.dims.size(), 0);
    step[static_cast<std::size_t>(time)] = 1;
    const Value own = b.constant(ConstExpr::affine(Type::tensor(DType::i64, type.dims), 0, step));
    const Value turned = b.sub(b.add(length, -1), own);
    const Value from = b.op("select", {b.op("lt", {own, length}), turned, own});
    const auto last = static_cast<double>(type.dims[static_cast<std::size_t>(time)] - 1);
    const Value inside = b.op("clip", {from, b.scalar(DType::i64, 0), b.scalar(DType::i64, last)});
    n.output(0, b.op("gather_elements", {n.input(0), inside}, {{"axis", time}}));
}

// Each row of a cache with its update from the place on that a number says; a circular one goes on at its beginning.
void tensor_scatter(Node& n) {
    Builder& b = n.b();
    const Type type = n.type(0), update = n.type(1);
    const std::int64_t axis = n.axis(n.integer("axis", -2), type.rank());
    const auto at = static_cast<std::size_t>(axis);
    Dims fits = type.dims;
    if (update.dims.size() == fits.size()) fits[at] = update.dims[at];
    if (axis == 0 || update.dims != fits || fits[at] > type.dims[at] || fits[at] == 0)
        n.fail("the update of TensorScatter does not fit its cache", {}, to_string(type), to_string(update));
    std::vector<double> step(type.dims.size(), 0);
    step[at] = 1;
    Value from = b.constant(ConstExpr::affine(Type::tensor(DType::i64, type.dims), 0, step));
    if (n.has(2)) {
        Dims rows(type.dims.size(), 1);
        rows[0] = type.dims[0];
        from = b.sub(from, b.reshape(b.cast(n.input(2), DType::i64), rows));
    }
    const auto number = [&](std::int64_t v) { return b.scalar(DType::i64, static_cast<double>(v)); };
    if (n.one_of("mode", {"linear", "circular"}) == "circular") from = b.op("mod", {from, number(type.dims[at])});
    const Value written = b.op("and", {b.op("ge", {from, number(0)}), b.op("lt", {from, number(fits[at])})});
    const Value inside = b.op("clip", {from, number(0), number(fits[at] - 1)});
    const Value chosen = b.op("gather_elements", {n.input(1), inside}, {{"axis", axis}});
    n.output(0, b.op("select", {written, chosen, n.input(0)}));
}

// What a constant condition chooses along an axis, or of all elements in a line.
void compress(Node& n) {
    Builder& b = n.b();
    const std::vector<std::int64_t> condition = n.integers(1, "condition");
    Value v = n.input(0);
    std::int64_t axis = 0;
    if (n.attribute("axis") != nullptr)
        axis = n.axis(n.integer("axis", 0), n.type(0).rank());
    else
        v = b.reshape(v, {n.type(0).elements()});
    const std::int64_t size = b.type(v).dims[static_cast<std::size_t>(axis)];
    std::vector<std::int64_t> chosen;
    for (std::size_t k = 0; k < condition.size(); ++k)
        if (condition[k] != 0) chosen.push_back(static_cast<std::int64_t>(k));
    if (!chosen.empty() && chosen.back() >= size)
        n.fail(fmt::format("Compress chooses element {} of {}", chosen.back(), size));
    n.output(0, b.op("gather", {v, b.constant(ConstExpr::dense(Tensor::ints(chosen)))}, {{"axis", axis}}));
}

// What MaxPool took, back at the places of all elements that it names; 0 elsewhere. Places that several windows took
// have one number, which is written once.
void max_unpool(Node& n) {
    Builder& b = n.b();
    const Type type = n.type(0);
    const std::int64_t spatial = type.rank() - 2;
    const Dims kernel = n.integers("kernel_shape").value_or(Dims{});
    const Dims strides = n.integers("strides").value_or(Dims(kernel.size(), 1));
    const Dims pads = n.integers("pads").value_or(Dims(2 * kernel.size(), 0));
    if (spatial < 1 || std::ssize(kernel) != spatial || std::ssize(strides) != spatial ||
        std::ssize(pads) != 2 * spatial || n.type(1).dims != type.dims)
        n.fail("MaxUnpool takes rows of channels, an index for each element, and a window's extents", {}, {},
               fmt::format("{}, {}", to_string(type), to_string(n.type(1))));
    Dims whole = type.dims;
    for (std::int64_t d = 0; d < spatial; ++d) {
        const auto k = static_cast<std::size_t>(d);
        whole[k + 2] = (type.dims[k + 2] - 1) * strides[k] + kernel[k] - pads[k] - pads[k + kernel.size()];
    }
    if (!countable(whole)) n.fail("MaxUnpool gives no tensor", {}, {}, to_string(whole));
    const std::int64_t rows = element_count(whole), count = type.elements();
    const Value at = b.reshape(n.input(1), {count});
    const auto add_up = [&](Value updates) {
        return b.op("scatter_add", {at, updates}, {{"axis", std::int64_t{0}}, {"entries", rows}});
    };
    const Value sum = add_up(b.reshape(n.input(0), {count, 1}));
    const Value hits = add_up(b.splat(Type::tensor(type.dtype, {count, 1}), 1));
    Value y = b.reshape(b.div(sum, b.op("max", {hits, b.scalar(type.dtype, 1)})), whole);
    if (n.has(2)) {
        const Dims wanted = n.integers(2, "output shape");
        const bool fits = wanted.size() == whole.size() &&
                          std::equal(whole.begin(), whole.end(), wanted.begin(), [](auto a, auto w) { return a <= w; });
        if (!fits)
            n.fail("the output shape of MaxUnpool is smaller than what the windows cover", {}, to_string(whole),
                   to_string(wanted));
        Dims high = wanted;
        for (std::size_t d = 0; d < high.size(); ++d) high[d] -= whole[d];
        y = b.op("pad", {y}, {{"low", Dims(whole.size(), 0)}, {"high", high}, {"value", 0.0}});
    }
    n.output(0, y);
}

constexpr OpImporter scatter_importers[] = {
    {"ScatterElements", 13, last_opset, scatter_elements, computed},
    {"ScatterND", 13, last_opset, scatter_nd, computed},
    {"TensorScatter", 24, last_opset, tensor_scatter, moved},
    {"ReverseSequence", 13, last_opset, reverse_sequence, moved},
    {"Compress", 13, last_opset, compress, moved},
    {"MaxUnpool", 13, last_opset, max_unpool, own},
};

}  // namespace

std::span<const OpImporter> scatter_ops() {
    return scatter_importers;
}

}  // namespace thunderc::onnx_frontend

// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/aten/indices.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/error.h"

namespace thunderc::aten {

Value wrapped_indices(Node& n, Value index, std::int64_t size) {
    const Tensor* known = n.importer().known(index);
    if (known == nullptr || known->floating()) return index;
    Tensor fixed = *known;
    bool negative = false;
    for (std::int64_t& k : fixed.i) {
        if (k < -size || k >= size)
            n.fail(fmt::format("{} asks for element {} of {}", n.call().target, k, size),
                   fmt::format("where this is a table of {0} positions, --seq can be {0} at most without a longer "
                               "table; else export the model again with these shapes",
                               size));
        negative = negative || k < 0;
        if (k < 0) k += size;
    }
    return negative ? n.b().constant(ConstExpr::dense(std::move(fixed))) : index;
}

Indexed indexed(Node& n, const Dims& data, const std::vector<std::optional<Value>>& given) {
    Indexed out;
    for (std::size_t k = 0; k < given.size(); ++k) {
        if (!given[k]) continue;
        if (k >= data.size()) n.fail("more indices than dimensions");
        const Type type = n.importer().type(*given[k]);
        if (type.dtype == DType::boolean)
            n.fail("elements are chosen by a mask, so that their number depends on the data",
                   "write it with torch.where in the model", "indices of integers", to_string(type));
        const std::optional<Dims> both = out.axes.empty() ? type.dims : broadcast(out.shape, type.dims);
        if (!both) n.fail("the indices do not broadcast to one another", {}, to_string(out.shape), to_string(type));
        out.shape = *both;
        out.axes.push_back(static_cast<std::int64_t>(k));
        out.indices.push_back(wrapped_indices(n, *given[k], data[k]));
    }
    if (out.axes.empty()) n.fail("no dimension is indexed");
    out.adjacent = out.axes.back() - out.axes.front() + 1 == static_cast<std::int64_t>(out.axes.size());
    out.permutation = out.axes;
    for (std::size_t d = 0; d < data.size(); ++d) {
        if (std::find(out.axes.begin(), out.axes.end(), static_cast<std::int64_t>(d)) != out.axes.end()) continue;
        out.permutation.push_back(static_cast<std::int64_t>(d));
        out.rest.push_back(data[d]);
    }
    return out;
}

Value Indexed::rows(Builder& b) const {
    Dims column = shape;
    column.push_back(1);
    std::vector<Value> columns;
    for (const Value index : indices)
        columns.push_back(b.reshape(b.broadcast_to(b.cast(index, DType::i64), shape), column));
    return columns.size() == 1 ? columns[0]
                               : b.op("concat", columns, {{"axis", static_cast<std::int64_t>(shape.size())}});
}

Value part_written(Builder& b, Value whole, Value part, std::int64_t axis, std::int64_t begin, std::int64_t end,
                   std::int64_t step) {
    Dims dims = b.type(whole).dims;
    const std::int64_t size = dims[static_cast<std::size_t>(axis)];
    const std::int64_t count = end <= begin ? 0 : (end - begin - 1) / step + 1;
    if (count == 0) return whole;
    dims[static_cast<std::size_t>(axis)] = count;
    part = b.reshape(part, dims);
    if (step == 1) {
        std::vector<Value> parts;
        if (begin > 0) parts.push_back(b.slice(whole, axis, 0, begin));
        parts.push_back(part);
        if (end < size) parts.push_back(b.slice(whole, axis, end, size));
        return parts.size() == 1 ? part : b.op("concat", parts, {{"axis", axis}});
    }
    constexpr std::int64_t most = std::int64_t{1} << 24U;  // numbers, which are compiled in
    if (size > most)
        fail(fmt::format("a write in steps of {} to {} elements is not supported", step, size),
             "write to elements that lie in order");
    std::vector<std::int64_t> from;
    for (std::int64_t k = 0; k < size; ++k)
        from.push_back(k >= begin && k < end && (k - begin) % step == 0 ? size + (k - begin) / step : k);
    const Value both = b.op("concat", {whole, part}, {{"axis", axis}});
    return b.op("gather", {both, b.constant(ConstExpr::dense(Tensor::ints(from)))}, {{"axis", axis}});
}

Dims Indexed::result_permutation() const {
    const auto lead = static_cast<std::int64_t>(shape.size());
    const std::int64_t before = adjacent ? axes.front() : 0;
    Dims out;
    for (std::int64_t d = 0; d < before; ++d) out.push_back(lead + d);
    for (std::int64_t d = 0; d < lead; ++d) out.push_back(d);
    for (auto d = before; d < static_cast<std::int64_t>(rest.size()); ++d) out.push_back(lead + d);
    return out;
}

// Of both dimensions as one, every (columns + 1)-th element.
Value diagonal_of(Builder& b, Value matrices, std::int64_t offset) {
    Dims dims = b.type(matrices).dims;
    const std::int64_t height = dims[dims.size() - 2], width = dims.back(), k = std::clamp(offset, -height, width);
    const std::int64_t count =
        std::max<std::int64_t>(0, k >= 0 ? std::min(height, width - k) : std::min(height + k, width));
    const std::int64_t begin = k >= 0 ? k : -k * width;
    dims.pop_back();
    dims.back() = height * width;
    const Value flat = b.reshape(matrices, dims);
    return b.slice(flat, static_cast<std::int64_t>(dims.size()) - 1, begin,
                   count == 0 ? begin : begin + (count - 1) * (width + 1) + 1, width + 1);
}

}  // namespace thunderc::aten

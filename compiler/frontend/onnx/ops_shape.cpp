// SPDX-License-Identifier: Apache-2.0
// Operators that move data or ask for its shape. Their shape operands are evaluated here: every shape is static
// afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/frontend/onnx/dropped_arguments.h"
#include "compiler/frontend/onnx/gradient_stops.h"
#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/onnx/traced_program.h"
#include "compiler/frontend/onnx/training_mode.h"

namespace thunderc::onnx_frontend {
namespace {

void shape(Node& n) {
    const Dims dims = n.type(0).dims;
    const auto rank = static_cast<std::int64_t>(dims.size());
    auto bound = [rank](std::int64_t k) { return std::clamp<std::int64_t>(k < 0 ? k + rank : k, 0, rank); };
    const std::int64_t begin = bound(n.integer("start", 0));
    const std::int64_t end = std::max(begin, bound(n.integer("end", rank)));
    n.output_constant(0, Tensor::ints({dims.begin() + begin, dims.begin() + end}));
}

void size(Node& n) {
    n.output_constant(0, Tensor::scalar(DType::i64, static_cast<double>(n.type(0).elements())));
}

void identity(Node& n) {
    const bool stops = is_float(n.type(0).dtype) && is_detach(n.proto());
    const double dropout = n.importer().options().dropout.value_or(0);
    if (!stops && dropout > 0 && is_float(n.type(0).dtype) && is_switched_off_dropout(n.proto()))
        return n.output(0, n.b().op("unplaced_dropout", {n.input(0)}, {{"rate", dropout}}));
    n.output(0, stops ? n.b().op("stop_gradient", {n.input(0)}) : n.input(0));
}

void reshape(Node& n) {
    const Dims from = n.type(0).dims;
    Dims dims = n.integers(1, "shape");
    const bool allow_zero = n.integer("allowzero", 0) != 0;
    const std::int64_t total = element_count(from);
    Dims known;
    std::size_t open = dims.size();
    for (std::size_t d = 0; d < dims.size(); ++d) {
        if (dims[d] == 0 && !allow_zero) {
            if (d >= from.size()) n.fail("Reshape keeps a dimension that its input does not have");
            dims[d] = from[d];
        }
        if (dims[d] == -1) {
            if (open != dims.size()) n.fail("Reshape leaves two dimensions open");
            open = d;
        } else {
            known.push_back(dims[d]);
        }
    }
    const bool natural = std::all_of(known.begin(), known.end(), [](std::int64_t d) { return d >= 0; });
    if (open != dims.size() && natural) dims[open] = element_count(known) == 0 ? 0 : total / element_count(known);
    if (!natural || element_count(dims) != total)
        n.fail("Reshape changes the number of elements",
               "where the exported shapes are baked in, leave --batch and --seq out",
               fmt::format("{} elements: [{}]", total, to_string(from)), fmt::format("[{}]", to_string(dims)));
    n.output(0, n.b().reshape(n.input(0), dims));
}

void flatten(Node& n) {
    const Dims from = n.type(0).dims;
    const auto rank = static_cast<std::int64_t>(from.size());
    const std::int64_t given = n.integer("axis", 1), axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis > rank)
        n.fail(fmt::format("the axis {} of Flatten is out of range", given), {}, fmt::format("{} to {}", -rank, rank),
               std::to_string(given));
    const std::int64_t rows = element_count(Dims(from.begin(), from.begin() + axis));
    const std::int64_t columns = element_count(Dims(from.begin() + axis, from.end()));
    n.output(0, n.b().reshape(n.input(0), {rows, columns}));
}

void unsqueeze(Node& n) {
    const Dims from = n.type(0).dims;
    const std::vector<std::int64_t> axes = n.integers(1, "axes");
    const auto rank = static_cast<std::int64_t>(from.size() + axes.size());
    std::vector<bool> added(static_cast<std::size_t>(rank), false);
    for (const std::int64_t axis : n.axes(axes, rank)) added[static_cast<std::size_t>(axis)] = true;
    Dims dims;
    std::size_t next = 0;
    for (bool one : added) dims.push_back(one || next >= from.size() ? 1 : from[next++]);
    n.output(0, n.b().reshape(n.input(0), dims));
}

void squeeze(Node& n) {
    const Dims from = n.type(0).dims;
    std::vector<bool> gone(from.size(), false);
    if (n.has(1)) {
        for (const std::int64_t axis : n.axes(n.integers(1, "axes"), n.type(0).rank()))
            gone[static_cast<std::size_t>(axis)] = true;
    } else {
        for (std::size_t d = 0; d < from.size(); ++d) gone[d] = from[d] == 1;
    }
    Dims dims;
    for (std::size_t d = 0; d < from.size(); ++d) {
        if (gone[d] && from[d] != 1)
            n.fail(fmt::format("Squeeze removes dimension {}, which is not 1", d), {}, "1", std::to_string(from[d]));
        if (!gone[d]) dims.push_back(from[d]);
    }
    n.output(0, n.b().reshape(n.input(0), dims));
}

void transpose(Node& n) {
    const auto rank = static_cast<std::size_t>(n.type(0).rank());
    Dims permutation(rank);
    std::iota(permutation.rbegin(), permutation.rend(), 0);
    if (const auto given = n.integers("perm")) permutation = *given;
    n.output(0, n.b().transpose(n.input(0), permutation));
}

void expand(Node& n) {
    const Dims from = n.type(0).dims;
    const std::vector<std::int64_t> to = n.integers(1, "shape");
    const std::optional<Dims> dims = broadcast(from, to);
    if (!dims)
        n.fail("Expand cannot broadcast its input",
               "where the exported shapes are baked in, leave --batch and --seq out",
               fmt::format("[{}]", to_string(to)), fmt::format("[{}]", to_string(from)));
    n.output(0, n.b().broadcast_to(n.input(0), *dims));
}

// Elements begin to end of an axis that the model chooses by number. Of an axis of one element that is all of it, and
// yet no batch: `x[0]` of a batch of one row is the first row of any batch, which batch_shares is to see.
Value chosen(Node& n, Value v, std::int64_t axis, std::int64_t begin, std::int64_t end) {
    const bool whole = begin == 0 && end == n.importer().type(v).dims[static_cast<std::size_t>(axis)];
    if (!whole || end != 1 || !n.importer().stored_tensor(n.proto().input(0)).empty())
        return n.b().slice(v, axis, begin, end);
    return n.b().op("slice", {v}, {{"axis", axis}, {"begin", begin}, {"end", end}, {"step", std::int64_t{1}}});
}

// One axis of Slice. A negative step counts down from begin, which is a gather.
Value slice_axis(Node& n, Value v, std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step) {
    const std::int64_t size = n.importer().type(v).dims[static_cast<std::size_t>(axis)];
    if (step == 0) n.fail("Slice with a step of 0");
    step = std::clamp(step, -size - 1, size + 1);  // more is past either end as well
    if (begin < 0) begin += size;
    if (end < 0 && end > std::numeric_limits<std::int64_t>::min() + size) end += size;
    if (size == 0) return v;
    if (step > 0) {
        begin = std::clamp<std::int64_t>(begin, 0, size);
        end = std::clamp<std::int64_t>(end, begin, size);
        if (begin == end) return n.b().slice(v, axis, begin, begin);
        const std::int64_t count = (end - begin - 1) / step + 1;
        return n.b().slice(v, axis, begin, step == 1 ? end : begin + (count - 1) * step + 1, step);
    }
    begin = std::clamp<std::int64_t>(begin, 0, size - 1);
    end = std::clamp<std::int64_t>(end, -1, size - 1);
    const std::int64_t count = begin > end ? (begin - end - step - 1) / -step : 0;
    const Value indices = n.b().constant(
        ConstExpr::affine(Type::tensor(DType::i64, {count}), static_cast<double>(begin), {static_cast<double>(step)}));
    return n.b().op("gather", {v, indices}, {{"axis", axis}});
}

void slice(Node& n) {
    Value v = n.input(0);
    const std::int64_t rank = n.type(0).rank();
    const std::vector<std::int64_t> begins = n.integers(1, "starts");
    const std::vector<std::int64_t> ends = n.integers(2, "ends");
    std::vector<std::int64_t> axes(begins.size());
    std::iota(axes.begin(), axes.end(), 0);
    if (n.has(3)) axes = n.axes(n.integers(3, "axes"), rank);
    std::vector<std::int64_t> steps(begins.size(), 1);
    if (n.has(4)) steps = n.integers(4, "steps");
    if (ends.size() != begins.size() || axes.size() != begins.size() || steps.size() != begins.size())
        n.fail("the operands of Slice are of different lengths", "the graph is damaged: export the model again");
    for (std::size_t k = 0; k < begins.size(); ++k) {
        const std::int64_t axis = axes[k];
        // From the front, and not to the end, which exporters write as the largest number of 32 or 64 bits.
        const std::int64_t size = n.type(0).dims[static_cast<std::size_t>(axis)];
        if (begins[k] == 0 && steps[k] == 1 && ends[k] > size && ends[k] < std::numeric_limits<std::int32_t>::max())
            n.importer().note_short(n.proto().input(0), size, ends[k]);
        // x[:1] and x[-1:]; not x[:], nor x[:n] where n is computed of shapes, the batch's perhaps.
        const bool one = size == 1 && steps[k] > 0 && (begins[k] == 0 ? ends[k] == 1 : begins[k] == -1 && ends[k] > 0);
        if (one && !n.importer().made_of_shapes(n.proto().input(1)) && !n.importer().made_of_shapes(n.proto().input(2)))
            v = chosen(n, v, axis, 0, 1);
        else
            v = slice_axis(n, v, axis, begins[k], ends[k], steps[k]);
    }
    n.output(0, v);
}

void concat(Node& n) {
    std::vector<Value> operands;
    for (std::size_t i = 0; i < n.inputs(); ++i)  // a cache that is empty yet adds nothing
        if (n.type(i).elements() > 0) operands.push_back(n.input(i));
    if (operands.empty()) operands.push_back(n.input(0));
    const std::int64_t axis = n.axis(n.integer("axis", 0), n.type(0).rank());
    n.output(0, operands.size() == 1 ? operands[0] : n.b().op("concat", std::move(operands), {{"axis", axis}}));
}

void split(Node& n) {
    const std::int64_t axis = n.axis(n.integer("axis", 0), n.type(0).rank());
    const std::int64_t size = n.type(0).dims[static_cast<std::size_t>(axis)];
    std::vector<std::int64_t> sizes;
    if (n.has(1)) {
        sizes = n.integers(1, "sizes");
    } else {  // equal parts; from opset 18 on the last one may be smaller
        const auto outputs = static_cast<std::int64_t>(n.outputs());
        const std::int64_t parts = n.integer("num_outputs", outputs);
        if (parts != outputs || parts == 0)
            n.fail(fmt::format("Split makes {} parts and has {} outputs", parts, outputs));
        const std::int64_t part = (size + parts - 1) / parts;
        for (std::int64_t k = 0; k < parts; ++k) sizes.push_back(std::min(part, size - k * part));
    }
    std::int64_t left = size;  // a size that is out of range leaves something over
    for (std::int64_t part : sizes) left -= part < 0 || part > left ? size + 1 : part;
    if (left != 0 || sizes.size() != n.outputs())
        n.fail("the sizes of Split do not add up, or are not one for each output", {},
               fmt::format("{} sizes, together {}", n.outputs(), size), fmt::format("[{}]", to_string(sizes)));
    std::int64_t begin = 0;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
        if (n.wants(k)) n.output(k, n.b().slice(n.input(0), axis, begin, begin + sizes[k]));
        begin += sizes[k];
    }
}

// Fails where one of these indices, which may count from the end, names no element of a dimension of this size.
void require_inside(Node& n, const std::vector<std::int64_t>& indices, std::int64_t size) {
    const auto beyond = [](std::int64_t k) { return k < 0 ? -(k + 1) : k; };
    std::optional<std::int64_t> outside;  // the one that is farthest out
    for (const std::int64_t k : indices)
        if (beyond(k) >= size && (!outside || beyond(k) > beyond(*outside))) outside = k;
    if (!outside) return;
    const std::string table = n.importer().stored_tensor(n.proto().input(0));
    n.fail(fmt::format("{} asks for element {} of {}{}", n.proto().op_type(), *outside, size,
                       table.empty() ? "" : " in the table " + table),
           fmt::format("where this is a table of {0} positions, --seq can be {0} at most without a longer table; else "
                       "export the model again with these shapes",
                       size));
}

// An index that may count from the end, as one from 0; whether it did.
bool wrap_index(Node& n, std::int64_t& index, std::int64_t size) {
    require_inside(n, {index}, size);
    if (index >= 0) return false;
    index += size;
    return true;
}

// Indices that may count from the end, as ones from 0. Known ones are rewritten; ids that are data are taken as they
// are, as loading them checks their range.
Value indices(Node& n, std::size_t i, std::int64_t size) {
    const std::optional<Tensor> known = n.known(i);
    if (!known || known->floating()) return n.input(i);
    Tensor fixed = *known;
    require_inside(n, fixed.i, size);
    bool negative = false;
    for (std::int64_t& k : fixed.i) negative = wrap_index(n, k, size) || negative;
    return negative ? n.b().constant(ConstExpr::dense(std::move(fixed))) : n.input(i);
}

void gather(Node& n) {
    const Dims from = n.type(0).dims;
    const std::int64_t axis = n.axis(n.integer("axis", 0), n.type(0).rank());
    const std::int64_t size = from[static_cast<std::size_t>(axis)];
    const std::optional<std::int64_t> padding = axis == 0 ? padding_index(n.proto()) : std::nullopt;
    if (const auto known = n.known_integers(1); known && n.type(1).dims.empty()) {  // one element: a slice
        std::int64_t k = known->front();
        wrap_index(n, k, size);
        Dims dims = from;
        dims.erase(dims.begin() + axis);
        const Value row = n.b().reshape(chosen(n, n.input(0), axis, k, k + 1), dims);
        n.output(0, padding == k ? n.b().op("stop_gradient", {row}) : row);
        return;
    }
    Attributes attributes{{"axis", axis}};
    if (padding && *padding < size) attributes.set("padding_idx", *padding);
    n.output(0, n.b().op("gather", {n.input(0), indices(n, 1, size)}, std::move(attributes)));
}

void gather_nd(Node& n) {
    const Dims from = n.type(0).dims, to = n.type(1).dims;
    const std::int64_t batch_dims = n.integer("batch_dims", 0);
    Value index = n.input(1);
    const auto rank = static_cast<std::int64_t>(from.size());
    const bool fits = batch_dims >= 0 && !to.empty() && to.back() > 0 && batch_dims + to.back() <= rank;
    if (std::optional<Tensor> known = n.known(1); known && fits && !known->floating()) {
        bool negative = false;
        for (std::size_t k = 0; k < known->i.size(); ++k) {
            const std::int64_t size =
                from[static_cast<std::size_t>(batch_dims) + k % static_cast<std::size_t>(to.back())];
            negative = wrap_index(n, known->i[k], size) || negative;
        }
        if (negative) index = n.b().constant(ConstExpr::dense(std::move(*known)));
    }
    n.output(0, n.b().op("gather_nd", {n.input(0), index}, {{"batch_dims", batch_dims}}));
}

// Indices may be fewer than the data along any axis: what is behind them is not looked at.
void gather_elements(Node& n) {
    const std::int64_t rank = n.type(0).rank();
    const std::int64_t axis = n.axis(n.integer("axis", 0), rank);
    const Dims from = n.type(0).dims, to = n.type(1).dims;
    if (to.size() != from.size())
        n.fail("GatherElements takes indices of its data's rank", {}, std::to_string(rank), std::to_string(to.size()));
    Value data = n.input(0);
    for (std::int64_t d = 0; d < rank; ++d) {
        const auto at = static_cast<std::size_t>(d);
        if (d == axis || to[at] == from[at]) continue;
        if (to[at] > from[at])
            n.fail("GatherElements has more indices than data", {}, fmt::format("[{}]", to_string(from)),
                   fmt::format("[{}]", to_string(to)));
        data = n.b().slice(data, d, 0, to[at]);
    }
    const Value wanted = indices(n, 1, from[static_cast<std::size_t>(axis)]);
    n.output(0, n.b().op("gather_elements", {data, wanted}, {{"axis", axis}}));
}

constexpr std::int64_t most_padding = std::int64_t{1} << 40;  // no tensor is larger

// The element that stands at `at`, before or behind a dimension of this size.
std::int64_t repeated(const std::string& mode, std::int64_t at, std::int64_t size) {
    const auto modulo = [](std::int64_t a, std::int64_t b) { return (a % b + b) % b; };
    if (mode == "edge" || size == 1) return std::clamp<std::int64_t>(at, 0, size - 1);
    if (mode == "wrap") return modulo(at, size);
    const std::int64_t k = modulo(at, 2 * (size - 1));  // reflect: the edge itself stands once
    return k < size ? k : 2 * (size - 1) - k;
}

// Along one axis, with elements of it; negative pads cut.
Value pad_by_index(Node& n, const std::string& mode, Value v, std::int64_t axis, std::int64_t begin, std::int64_t end) {
    const std::int64_t size = n.importer().type(v).dims[static_cast<std::size_t>(axis)];
    if (begin == 0 && end == 0) return v;
    if (size == 0) n.fail(fmt::format("Pad in the mode {} of a dimension without elements", mode));
    constexpr std::int64_t most = 1 << 24;
    if (size + begin + end > most)
        n.fail(fmt::format("Pad in the mode {} to {} elements is not supported", mode, size + begin + end));
    std::vector<std::int64_t> from;
    for (std::int64_t at = -begin; at < size + end; ++at) from.push_back(repeated(mode, at, size));
    return n.b().op("gather", {v, n.b().constant(ConstExpr::dense(Tensor::ints(from)))}, {{"axis", axis}});
}

void pad(Node& n) {
    const std::string mode = n.one_of("mode", {"constant", "edge", "reflect", "wrap"});
    const std::int64_t rank = n.type(0).rank();
    const std::vector<std::int64_t> pads = n.integers(1, "pads");
    std::vector<std::int64_t> axes(static_cast<std::size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
    if (n.has(3)) axes = n.axes(n.integers(3, "axes"), rank);
    if (pads.size() != 2 * axes.size()) n.fail("Pad has pads for another number of axes");
    Dims low(static_cast<std::size_t>(rank), 0), high(static_cast<std::size_t>(rank), 0);
    Value v = n.input(0);
    for (std::size_t k = 0; k < axes.size(); ++k) {
        const std::int64_t axis = axes[k];
        const std::int64_t begin = pads[k];
        const std::int64_t end = pads[k + axes.size()];
        // Negative pads cut.
        const std::int64_t size = n.importer().type(v).dims[static_cast<std::size_t>(axis)];
        if (begin < -size || end < -size || begin + end < -size || begin > most_padding || end > most_padding)
            n.fail(fmt::format("Pad adds {} and {} elements to a dimension of {}", begin, end, size));
        if (mode != "constant") {
            v = pad_by_index(n, mode, v, axis, begin, end);
            continue;
        }
        v = n.b().slice(v, axis, std::max<std::int64_t>(0, -begin), size - std::max<std::int64_t>(0, -end));
        low[static_cast<std::size_t>(axis)] = std::max<std::int64_t>(0, begin);
        high[static_cast<std::size_t>(axis)] = std::max<std::int64_t>(0, end);
    }
    if (mode != "constant") return n.output(0, v);
    double value = 0;
    if (n.has(2)) {
        const std::optional<Tensor> known = n.known(2);
        if (!known || known->size() != 1)
            n.fail("the value that Pad pads with is to be a constant", "pad with a number");
        if (!known->floating() && !is_exact(known->i[0]))
            n.fail(fmt::format("Pad with {} is not supported: no double is that number", known->i[0]),
                   "pad with 0, and write the number in its place with torch.where");
        value = known->at(0);
    }
    n.output(0, n.b().op("pad", {v}, {{"low", low}, {"high", high}, {"value", value}}));
}

void tile(Node& n) {
    const Dims from = n.type(0).dims;
    const std::vector<std::int64_t> repeats = n.integers(1, "repeats");
    if (repeats.size() != from.size()) n.fail("Tile has repeats for another number of dimensions");
    // [a, b] -> [1, a, 1, b] -> [ra, a, rb, b] -> [ra a, rb b]
    Dims split, wide, joined;
    for (std::size_t d = 0; d < from.size(); ++d) {
        if (repeats[d] < 0 || __builtin_mul_overflow(repeats[d], from[d], &joined.emplace_back()))
            n.fail(fmt::format("Tile repeats a dimension of {} {} times", from[d], repeats[d]));
        split.insert(split.end(), {1, from[d]});
        wide.insert(wide.end(), {repeats[d], from[d]});
    }
    n.output(0, n.b().reshape(n.b().broadcast_to(n.b().reshape(n.input(0), split), wide), joined));
}

std::int64_t block_of(Node& n) {
    constexpr std::int64_t largest = 1 << 15;  // the square of which is a size
    const std::int64_t block = n.integer("blocksize", 0);
    if (n.type(0).rank() != 4 || block < 1 || block > largest)
        n.fail(
            fmt::format("{} takes images (N, C, H, W), and blocks of a size that divides theirs", n.proto().op_type()),
            {}, fmt::format("a size from 1 to {}", largest), fmt::format("{} and {}", to_string(n.type(0)), block));
    return block;
}

// Blocks of channels become blocks of the image: of neighbouring channels with CRD, else of those that are as far apart
// as there are channels in the result.
void depth_to_space(Node& n) {
    const std::int64_t block = block_of(n);
    const Dims d = n.type(0).dims;
    const std::int64_t channels = d[1] / (block * block);
    if (d[1] % (block * block) != 0)
        n.fail(fmt::format("DepthToSpace cannot make blocks of {} of {} channels", block, d[1]));
    const bool neighbours = n.one_of("mode", {"DCR", "CRD"}) == "CRD";
    const Dims apart =
        neighbours ? Dims{d[0], channels, block, block, d[2], d[3]} : Dims{d[0], block, block, channels, d[2], d[3]};
    const Value v =
        n.b().transpose(n.b().reshape(n.input(0), apart), neighbours ? Dims{0, 1, 4, 2, 5, 3} : Dims{0, 3, 4, 1, 5, 2});
    n.output(0, n.b().reshape(v, {d[0], channels, d[2] * block, d[3] * block}));
}

// And back. DCR and CRD are orders of the channels, as they are there.
void space_to_depth(Node& n) {
    const std::int64_t block = block_of(n);
    const bool neighbours = n.one_of("mode", {"DCR", "CRD"}) == "CRD";
    const Dims d = n.type(0).dims;
    if (d[2] % block != 0 || d[3] % block != 0)
        n.fail(fmt::format("SpaceToDepth cannot make blocks of {} of an image of {} by {}", block, d[2], d[3]));
    const Value apart = n.b().reshape(n.input(0), {d[0], d[1], d[2] / block, block, d[3] / block, block});
    n.output(0, n.b().reshape(n.b().transpose(apart, neighbours ? Dims{0, 1, 3, 5, 2, 4} : Dims{0, 3, 5, 1, 2, 4}),
                              {d[0], d[1] * block * block, d[2] / block, d[3] / block}));
}

constexpr OpImporter shape_importers[] = {
    {"Shape", 13, 14, shape, own},
    {"Shape", 15, last_opset, shape, own},
    {"Size", 13, last_opset, size, own},
    {"Identity", 13, last_opset, identity, moved},
    {"Reshape", 13, last_opset, reshape, moved},
    {"Flatten", 13, last_opset, flatten, moved},
    {"Unsqueeze", 13, last_opset, unsqueeze, moved},
    {"Squeeze", 13, last_opset, squeeze, moved},
    {"Transpose", 13, last_opset, transpose, moved},
    {"Expand", 13, last_opset, expand, moved},
    {"Slice", 13, last_opset, slice, moved},
    {"Concat", 13, last_opset, concat, moved},
    {"Split", 13, last_opset, split, moved},
    {"Gather", 13, last_opset, gather, moved},
    {"GatherND", 13, last_opset, gather_nd, moved},
    {"GatherElements", 13, last_opset, gather_elements, moved},
    {"Pad", 13, last_opset, pad, moved},
    {"Tile", 13, last_opset, tile, moved},
    {"DepthToSpace", 13, last_opset, depth_to_space, moved},
    {"SpaceToDepth", 13, last_opset, space_to_depth, moved},
};

}  // namespace

std::span<const OpImporter> shape_ops() {
    return shape_importers;
}

}  // namespace thunderc::onnx_frontend

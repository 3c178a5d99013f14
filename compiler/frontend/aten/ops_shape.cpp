// SPDX-License-Identifier: Apache-2.0
// Operators that rearrange elements and compute none.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/indices.h"
#include "compiler/frontend/aten/promotion.h"

namespace thunderc::aten {
namespace {

void give_transposed(Node& n, const Dims& permutation) {
    Builder& b = n.b();
    Dims sorted = permutation, inverse(permutation.size());
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t d = 0; d < sorted.size(); ++d)
        if (sorted[d] != static_cast<std::int64_t>(d))
            n.fail(fmt::format("{} names a dimension twice", n.call().target));
    for (std::size_t d = 0; d < permutation.size(); ++d)
        inverse[static_cast<std::size_t>(permutation[d])] = static_cast<std::int64_t>(d);
    n.give_view(b.transpose(n.tensor("self"), permutation),
                [&b, inverse](Value, Value written) { return b.transpose(written, inverse); });
}

void transposed_pair(Node& n) {
    const std::int64_t rank = n.type("self").rank();
    Dims permutation(static_cast<std::size_t>(rank));
    std::iota(permutation.begin(), permutation.end(), 0);
    if (rank > 0) {
        const bool named = n.has("dim0");
        std::swap(permutation[static_cast<std::size_t>(n.axis(named ? "dim0" : "axis0", rank))],
                  permutation[static_cast<std::size_t>(n.axis(named ? "dim1" : "axis1", rank))]);
    }
    give_transposed(n, permutation);
}

// All dimensions the other way round; of "mT" the last two.
void transposed_matrix(Node& n) {
    const std::int64_t rank = n.type("self").rank();
    Dims permutation(static_cast<std::size_t>(rank));
    std::iota(permutation.begin(), permutation.end(), 0);
    const bool last_two = n.op() == "mT" || n.op() == "adjoint" || n.op() == "mH";
    if (last_two && rank < 2) n.fail(fmt::format("{} of a tensor of {} dimensions", n.call().target, rank));
    if (last_two)
        std::swap(permutation[static_cast<std::size_t>(rank) - 1], permutation[static_cast<std::size_t>(rank) - 2]);
    else
        std::reverse(permutation.begin(), permutation.end());
    give_transposed(n, permutation);
}

void permuted(Node& n) {
    const std::int64_t rank = n.type("self").rank();
    Dims permutation = n.integers("dims").value_or(Dims{});
    for (std::int64_t& d : permutation) d = n.axis(d, rank);
    if (static_cast<std::int64_t>(permutation.size()) != rank) n.fail("a permutation of another number of dimensions");
    give_transposed(n, permutation);
}

void moved_dimensions(Node& n) {
    const std::int64_t rank = n.type("self").rank();
    const Dims from = n.integers("source").value_or(Dims{}), to = n.integers("destination").value_or(Dims{});
    if (from.size() != to.size()) n.fail("movedim has sources and destinations of another number");
    Dims permutation(static_cast<std::size_t>(rank), -1);
    std::vector<bool> taken(permutation.size(), false);
    for (std::size_t k = 0; k < from.size(); ++k) {
        const std::int64_t source = n.dimension(from[k], rank);
        permutation[static_cast<std::size_t>(n.dimension(to[k], rank))] = source;
        taken[static_cast<std::size_t>(source)] = true;
    }
    std::size_t next = 0;
    for (std::int64_t& d : permutation) {
        while (d < 0 && next < taken.size() && taken[next]) ++next;
        if (d < 0) d = static_cast<std::int64_t>(next++);
    }
    give_transposed(n, permutation);
}

// A begin or an end, which may count from the end, inside the dimension.
std::int64_t inside(std::int64_t at, std::int64_t size) {
    if (at < 0) at += size;
    return std::clamp<std::int64_t>(at, 0, size);
}

void slice_op(Node& n) {
    const Type type = n.type("self");
    const std::int64_t axis = n.dimension("dim", type.rank(), 0);
    const std::int64_t size = type.dims[static_cast<std::size_t>(axis)];
    const std::int64_t begin = inside(n.integer("start", 0), size);
    const std::int64_t end = std::max(begin, inside(n.integer("end", INT64_MAX), size));
    const std::int64_t step = n.integer("step", 1);
    Builder& b = n.b();
    n.give_view(b.slice(n.tensor("self"), axis, begin, end, step),
                [=, &b](Value base, Value written) { return part_written(b, base, written, axis, begin, end, step); });
}

void narrow_op(Node& n) {
    const Type type = n.type("self");
    const std::int64_t axis = n.dimension("dim", type.rank());
    const std::int64_t size = type.dims[static_cast<std::size_t>(axis)];
    const std::int64_t begin = n.integer("start") < 0 ? n.integer("start") + size : n.integer("start");
    const std::int64_t length = n.integer("length");
    if (begin < 0 || begin > size || length < 0 || length > size - begin)
        n.fail(fmt::format("narrow asks for {} elements from {} on, of {}", length, begin, size));
    const std::int64_t end = begin + length;
    Builder& b = n.b();
    n.give_view(b.slice(n.tensor("self"), axis, begin, end),
                [=, &b](Value base, Value written) { return part_written(b, base, written, axis, begin, end, 1); });
}

void select_op(Node& n) {
    const Type type = n.type("self");
    const std::int64_t axis = n.dimension("dim", type.rank());
    const std::int64_t size = type.dims[static_cast<std::size_t>(axis)];
    std::int64_t at = n.integer("index");
    if (at < -size || at >= size) n.fail(fmt::format("select asks for element {} of {}", at, size));
    if (at < 0) at += size;
    Dims dims = type.dims;
    dims.erase(dims.begin() + axis);
    Builder& b = n.b();
    n.give_view(b.reshape(b.slice(n.tensor("self"), axis, at, at + 1), dims),
                [=, &b](Value base, Value written) { return part_written(b, base, written, axis, at, at + 1, 1); });
}

constexpr std::int64_t most_parts = std::int64_t{1} << 16U;  // each is a value of its own

// Where parts of a dimension end: by the size of each, by how many there are, by where they are cut.
Dims ends_of_parts(Node& n, std::int64_t size) {
    Dims ends;
    const std::string op = n.op();
    const auto each_of = [&](std::int64_t part) {
        if (part < 0 || (part == 0 && size != 0)) n.fail(fmt::format("{} into parts of {}", n.call().target, part));
        if (size == 0) return ends.push_back(0);
        part = std::min(part, size);
        if (size / part > most_parts) n.fail(fmt::format("{} of {} into parts of {}", n.call().target, size, part));
        for (std::int64_t at = part; at - part < size; at += part) ends.push_back(std::min(at, size));
    };
    if (op.starts_with("unbind")) {
        if (size > most_parts) n.fail(fmt::format("{} of {} elements", n.call().target, size));
        for (std::int64_t k = 1; k <= size; ++k) ends.push_back(k);
    } else if (op.ends_with("chunk") || n.has("sections")) {
        const std::int64_t count = n.integer(n.has("chunks") ? "chunks" : "sections");
        if (count < 1 || count > most_parts) n.fail(fmt::format("{} into {}", n.call().target, count));
        if (n.has("chunks"))
            each_of((size + count - 1) / count);
        else  // the first ones have one more
            for (std::int64_t k = 1; k <= count; ++k) ends.push_back(size / count * k + std::min(k, size % count));
    } else if (n.has("indices")) {
        for (const std::int64_t at : n.integers("indices").value_or(Dims{}))
            ends.push_back(std::max(inside(at, size), ends.empty() ? 0 : ends.back()));
        ends.push_back(size);
    } else if (const char* name = n.has("split_sizes") ? "split_sizes" : "split_size"; n.is_list(name)) {
        std::int64_t end = 0;
        for (const std::int64_t part : n.integers(name).value_or(Dims{})) {
            if (part < 0 || part > size - end) n.fail(fmt::format("the parts of {} do not add up", n.call().target));
            ends.push_back(end += part);
        }
        if (end != size) n.fail(fmt::format("the parts of {} do not add up", n.call().target));
    } else {
        each_of(n.integer(name));
    }
    return ends;
}

void parts(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("self");
    const bool bare = n.op().starts_with("unbind");
    const std::int64_t axis = n.dimension("dim", type.rank(), 0);
    std::int64_t begin = 0;
    std::size_t k = 0;
    for (const std::int64_t end : ends_of_parts(n, type.dims[static_cast<std::size_t>(axis)])) {
        if (n.wants(k)) {
            Value part = b.slice(n.tensor("self"), axis, begin, end);
            Dims dims = b.type(part).dims;
            if (bare) dims.erase(dims.begin() + axis);
            n.give_view(
                b.reshape(part, dims),
                [=, &b](Value base, Value written) { return part_written(b, base, written, axis, begin, end, 1); }, k);
        }
        begin = end;
        ++k;
    }
    if (n.results() > k)
        n.fail(fmt::format("{} gives {} parts, and the program names {}", n.call().target, k, n.results()));
}

void concatenated(Node& n) {
    const std::vector<Value> all = n.tensors("tensors");
    if (all.empty()) n.fail(fmt::format("{} of no tensors", n.call().target));
    const DType dtype = promoted(n, all);
    std::vector<Value> operands;
    Dims dims = {0};  // of what is there: one that is empty adds nothing, whatever its shape
    for (const Value v : all) {
        const Type type = n.importer().type(v);
        if (type.dims != Dims{0}) dims = type.dims;
        if (type.elements() > 0) operands.push_back(n.b().cast(v, dtype));
    }
    const std::int64_t axis = n.dimension("dim", static_cast<std::int64_t>(dims.size()), 0);
    if (operands.empty()) {
        std::int64_t& extent = dims[static_cast<std::size_t>(axis)] = 0;
        for (const Value v : all)
            if (const Type type = n.importer().type(v); type.dims.size() == dims.size())
                extent += type.dims[static_cast<std::size_t>(axis)];
        return n.give(n.b().splat(Type::tensor(dtype, dims), 0));
    }
    n.give(operands.size() == 1 ? operands[0] : n.b().op("concat", std::move(operands), {{"axis", axis}}));
}

void stacked(Node& n) {
    const std::vector<Value> all = n.tensors("tensors");
    if (all.empty()) n.fail("stack of no tensors");
    const DType dtype = promoted(n, all);
    const Dims first = n.importer().type(all[0]).dims;
    const std::int64_t axis = n.axis("dim", static_cast<std::int64_t>(first.size()) + 1, 0);
    std::vector<Value> operands;
    for (const Value v : all) {
        Dims dims = n.importer().type(v).dims;
        if (dims != first) n.fail("a stack of tensors of different shapes", {}, to_string(first), to_string(dims));
        dims.insert(dims.begin() + axis, 1);
        operands.push_back(n.b().reshape(n.b().cast(v, dtype), dims));
    }
    n.give(operands.size() == 1 ? operands[0] : n.b().op("concat", std::move(operands), {{"axis", axis}}));
}

// [a, b] -> [1, a, 1, b] -> [r, a, s, b] -> [r a, s b]
void repeated(Node& n) {
    Dims from = n.type("self").dims;
    Dims repeats = n.integers(n.has("repeats") ? "repeats" : "dims").value_or(Dims{});
    if (repeats.size() < from.size() && n.op() == "tile")
        repeats.insert(repeats.begin(), from.size() - repeats.size(), 1);
    if (repeats.size() < from.size()) n.fail("repeat has numbers for fewer dimensions than its operand");
    from.insert(from.begin(), repeats.size() - from.size(), 1);
    Dims split, wide, whole;
    for (std::size_t d = 0; d < from.size(); ++d) {
        split.insert(split.end(), {1, from[d]});
        wide.insert(wide.end(), {repeats[d], from[d]});
        std::int64_t& extent = whole.emplace_back(0);
        if (repeats[d] < 0 || __builtin_mul_overflow(repeats[d], from[d], &extent))
            n.fail(fmt::format("{} {} times", n.call().target, repeats[d]));
    }
    if (!countable(whole)) n.fail(fmt::format("{} gives a shape that no tensor can have", n.call().target));
    n.give(n.b().reshape(n.b().broadcast_to(n.b().reshape(n.tensor("self"), split), wide), whole));
}

// Each element several times in a row.
void repeated_in_a_row(Node& n) {
    Value v = n.tensor("self");
    const std::int64_t times = n.integer("repeats");
    if (!n.has("dim")) v = n.b().reshape(v, {n.importer().type(v).elements()});
    Dims dims = n.importer().type(v).dims;
    const std::int64_t axis = n.dimension("dim", static_cast<std::int64_t>(dims.size()), 0);
    Dims split = dims;
    split.insert(split.begin() + axis + 1, 1);
    Dims wide = split;
    wide[static_cast<std::size_t>(axis) + 1] = times;
    std::int64_t& extent = dims[static_cast<std::size_t>(axis)];
    if (times < 0 || __builtin_mul_overflow(extent, times, &extent) || !countable(dims))
        n.fail(fmt::format("{} {} times", n.call().target, times));
    n.give(n.b().reshape(n.b().broadcast_to(n.b().reshape(v, split), wide), dims));
}

// Each element as often as a number of it says, which is known.
void repeated_by_numbers(Node& n) {
    Builder& b = n.b();
    const Tensor* times = n.known("repeats");
    if (times == nullptr)
        n.fail("how often elements are repeated depends on the data, and so does the result's shape",
               "repeat by numbers that are constants of the model");
    Value v = n.tensor("self");
    if (!n.has("dim")) v = b.reshape(v, {b.type(v).elements()});
    const std::int64_t axis = n.axis("dim", b.type(v).rank(), 0);
    const std::int64_t size = b.type(v).dims.empty() ? 0 : b.type(v).dims[static_cast<std::size_t>(axis)];
    if (times->size() != 1 && times->size() != size)
        n.fail(fmt::format("{} has {} numbers for {} elements", n.call().target, times->size(), size));
    constexpr std::size_t most = std::size_t{1} << 24;
    std::vector<std::int64_t> from;
    for (std::int64_t k = 0; k < size; ++k) {
        const std::int64_t count = times->i[times->size() == 1 ? 0 : static_cast<std::size_t>(k)];
        if (count < 0 || static_cast<std::size_t>(count) > most - from.size())
            n.fail(fmt::format("{} {} times", n.call().target, count));
        from.insert(from.end(), static_cast<std::size_t>(count), k);
    }
    n.give(b.op("gather", {v, b.constant(ConstExpr::dense(Tensor::ints(from)))}, {{"axis", axis}}));
}

Value reversed(Builder& b, Value v, std::int64_t axis) {
    const std::int64_t size = b.type(v).dims[static_cast<std::size_t>(axis)];
    const ConstPtr index = ConstExpr::affine(Type::tensor(DType::i64, {size}), static_cast<double>(size - 1), {-1});
    return b.op("gather", {v, b.constant(index)}, {{"axis", axis}});
}

void flipped(Node& n) {
    Value v = n.tensor("self");
    const Dims fixed = {n.op() == "fliplr" ? 1 : 0};
    for (const std::int64_t d : n.op() == "flip" ? n.integers("dims").value_or(Dims{}) : fixed)
        v = reversed(n.b(), v, n.dimension(d, n.type("self").rank()));
    n.give(v);
}

void rolled(Node& n) {
    Builder& b = n.b();
    const Dims shifts = n.integers("shifts").value_or(Dims{});
    const Dims dims = n.integers("dims").value_or(Dims{});
    Value v = n.tensor("self");
    const Dims all = n.type("self").dims;
    if (shifts.size() != (dims.empty() ? 1 : dims.size())) n.fail("roll takes as many shifts as dimensions");
    if (dims.empty()) v = b.reshape(v, {n.type("self").elements()});
    for (std::size_t k = 0; k < shifts.size(); ++k) {
        const std::int64_t axis = dims.empty() ? 0 : n.dimension(dims[k], static_cast<std::int64_t>(all.size()));
        const std::int64_t size = b.type(v).dims[static_cast<std::size_t>(axis)];
        const std::int64_t by = size == 0 ? 0 : (shifts[k] % size + size) % size;
        if (by == 0) continue;
        v = b.op("concat", {b.slice(v, axis, size - by, size), b.slice(v, axis, 0, size - by)}, {{"axis", axis}});
    }
    n.give(b.reshape(v, all));
}

// What a mode of padding has at `at`, before or behind a dimension of this size.
std::int64_t from_inside(const std::string& mode, std::int64_t at, std::int64_t size) {
    const auto modulo = [](std::int64_t a, std::int64_t b) { return (a % b + b) % b; };
    if (mode == "replicate" || size == 1) return std::clamp<std::int64_t>(at, 0, size - 1);
    if (mode == "circular") return modulo(at, size);
    const std::int64_t k = modulo(at, 2 * (size - 1));  // reflect: the edge itself stands once
    return k < size ? k : 2 * (size - 1) - k;
}

// (begin, end) for each dimension, from the last one on; negative numbers cut.
void padded_op(Node& n) {
    Builder& b = n.b();
    const std::string op = n.op();
    const std::string mode = op == "pad"                       ? n.text("mode", "constant")
                             : op.starts_with("reflection")    ? "reflect"
                             : op.starts_with("replication")   ? "replicate"
                             : op.starts_with("_pad_circular") ? "circular"
                                                               : "constant";
    const Dims pads = n.integers(n.has("pad") ? "pad" : "padding").value_or(Dims{});
    Value v = n.tensor("self");
    const std::int64_t rank = n.type("self").rank();
    if (pads.size() % 2 != 0 || static_cast<std::int64_t>(pads.size()) > 2 * rank)
        n.fail("a padding of more dimensions than there are");
    Dims low(static_cast<std::size_t>(rank), 0), high = low;
    for (std::size_t k = 0; k < pads.size() / 2; ++k) {
        const std::int64_t axis = rank - 1 - static_cast<std::int64_t>(k);
        const auto at = static_cast<std::size_t>(axis);
        std::int64_t begin = pads[2 * k], end = pads[2 * k + 1], size = b.type(v).dims[at];
        constexpr std::int64_t most = std::int64_t{1} << 40U, most_numbers = std::int64_t{1} << 24U;
        const auto far = [](std::int64_t count) { return count < -most || count > most; };
        if (far(begin) || far(end) || (mode != "constant" && begin + end > most_numbers - size))
            n.fail(fmt::format("a padding of {} and {} elements", begin, end));
        if (begin < -size || end < -size || begin + end < -size)
            n.fail(fmt::format("a padding takes {} and {} elements off a dimension of {}", -begin, -end, size));
        if (mode == "circular" && (begin < 0 || end < 0)) {  // what is cut off does not come round again
            v = b.slice(v, axis, std::max<std::int64_t>(0, -begin), size - std::max<std::int64_t>(0, -end));
            size = b.type(v).dims[at];
            begin = std::max<std::int64_t>(0, begin);
            end = std::max<std::int64_t>(0, end);
        }
        if (mode != "constant") {
            if (size == 0 || (begin == 0 && end == 0)) continue;
            std::vector<std::int64_t> from;
            for (std::int64_t k2 = -begin; k2 < size + end; ++k2) from.push_back(from_inside(mode, k2, size));
            v = b.op("gather", {v, b.constant(ConstExpr::dense(Tensor::ints(from)))}, {{"axis", axis}});
            continue;
        }
        v = b.slice(v, axis, std::max<std::int64_t>(0, -begin), size - std::max<std::int64_t>(0, -end));
        low[at] = std::max<std::int64_t>(0, begin);
        high[at] = std::max<std::int64_t>(0, end);
    }
    const auto none = [](const Dims& widths) {
        return std::all_of(widths.begin(), widths.end(), [](auto w) { return w == 0; });
    };
    if (none(low) && none(high)) return n.give(v);
    n.give(b.op("pad", {v}, {{"low", low}, {"high", high}, {"value", n.number("value", 0)}}));
}

void triangle(Node& n) {
    n.give(n.b().op("trilu", {n.tensor("self")}, {{"upper", n.op() == "triu"}, {"k", n.integer("diagonal", 0)}}));
}

// Blocks of channels become blocks of the image, and back.
void shuffled_pixels(Node& n) {
    const std::int64_t block = n.integer(n.op() == "pixel_shuffle" ? "upscale_factor" : "downscale_factor");
    const Dims in = n.type("self").dims;
    if (in.size() < 3) n.fail("pixels are shuffled in images (C, H, W)");
    const bool up = n.op() == "pixel_shuffle";
    if (block < 1 || block > (std::int64_t{1} << 15)) n.fail(fmt::format("pixels are shuffled by {}", block));
    Dims out = in;
    for (std::size_t k = 3; k > 0; --k) {
        std::int64_t& extent = out[in.size() - k];
        const std::int64_t by = k == 3 ? block * block : block;
        const bool divides = (k == 3) == up;
        if (divides && extent % by != 0)
            n.fail(fmt::format("{} elements are not shuffled by {}", extent, block), {}, {}, to_string(n.type("self")));
        extent = divides ? extent / by : extent * by;
    }
    const Dims& small = up ? out : in;  // with fewer channels
    const Dims& coarse = up ? in : out;
    const std::size_t rank = in.size();
    Dims apart(in.begin(), in.end() - 3), permutation;
    const auto lead = static_cast<std::int64_t>(apart.size());
    for (std::int64_t d = 0; d < lead; ++d) permutation.push_back(d);
    const std::int64_t c = small[rank - 3], h = coarse[rank - 2], w = coarse[rank - 1];
    if (up) {
        apart.insert(apart.end(), {c, block, block, h, w});
        for (const std::int64_t d : {0, 3, 1, 4, 2}) permutation.push_back(lead + d);
    } else {
        apart.insert(apart.end(), {c, h, block, w, block});
        for (const std::int64_t d : {0, 2, 4, 1, 3}) permutation.push_back(lead + d);
    }
    n.give(n.b().reshape(n.b().transpose(n.b().reshape(n.tensor("self"), apart), permutation), out));
}

void turned_by_quarters(Node& n) {
    const std::int64_t times = ((n.integer("k", 1) % 4) + 4) % 4;
    const std::int64_t rank = n.type("self").rank();
    const Dims dims = n.integers("dims").value_or(Dims{0, 1});
    if (dims.size() != 2) n.fail(fmt::format("{} in a plane of {} dimensions", n.call().target, dims.size()));
    const std::int64_t a = n.dimension(dims[0], rank), c = n.dimension(dims[1], rank);
    Dims swap(static_cast<std::size_t>(rank));
    std::iota(swap.begin(), swap.end(), 0);
    std::swap(swap[static_cast<std::size_t>(a)], swap[static_cast<std::size_t>(c)]);
    Value v = n.tensor("self");
    if (times == 1) v = n.b().transpose(reversed(n.b(), v, c), swap);
    if (times == 2) v = reversed(n.b(), reversed(n.b(), v, a), c);
    if (times == 3) v = reversed(n.b(), n.b().transpose(v, swap), c);
    n.give(v);
}

// Windows along a dimension, each a new last dimension.
void unfolded_dimension(Node& n) {
    const Type type = n.type("self");
    const std::int64_t axis = n.axis("dimension", type.rank()), size = n.integer("size"), step = n.integer("step");
    const std::int64_t extent = type.dims.empty() ? 1 : type.dims[static_cast<std::size_t>(axis)];
    if (size < 1 || step < 1 || size > extent)
        n.fail(fmt::format("windows of {} elements in steps of {} along {}", size, step, extent));
    if (type.dims.empty()) return n.give(n.b().reshape(n.tensor("self"), {1}));
    const std::int64_t count = (extent - size) / step + 1;
    const ConstPtr index =
        ConstExpr::affine(Type::tensor(DType::i64, {count, size}), 0, {static_cast<double>(step), 1});
    const Value v = n.b().op("gather", {n.tensor("self"), n.b().constant(index)}, {{"axis", axis}});
    Dims permutation(static_cast<std::size_t>(type.rank()) + 1);
    std::iota(permutation.begin(), permutation.end(), 0);
    permutation.erase(permutation.begin() + axis + 1);
    permutation.push_back(axis + 1);
    n.give(n.b().transpose(v, permutation));
}

void broadcast_together(Node& n) {
    const std::vector<Value> all = n.tensors("tensors");
    Dims dims;
    for (const Value v : all) {
        const std::optional<Dims> both = broadcast(dims, n.importer().type(v).dims);
        if (!both) n.fail("tensors that do not broadcast to one another");
        dims = *both;
    }
    for (std::size_t k = 0; k < all.size(); ++k)
        if (n.wants(k)) n.give(n.b().broadcast_to(all[k], dims), k);
}

// Each tensor of one dimension along a dimension of its own; "xy" has the first two the other way round.
void mesh_grid(Node& n) {
    const std::vector<Value> all = n.tensors("tensors");
    const bool swapped = n.text("indexing", "ij") == "xy" && all.size() > 1;
    const auto along = [&](std::size_t k) { return swapped && k < 2 ? 1 - k : k; };
    Dims dims(all.size());
    for (std::size_t k = 0; k < all.size(); ++k) dims[along(k)] = n.importer().type(all[k]).elements();
    for (std::size_t k = 0; k < all.size(); ++k) {
        if (!n.wants(k)) continue;
        Dims line(all.size(), 1);
        line[along(k)] = dims[along(k)];
        n.give(n.b().broadcast_to(n.b().reshape(all[k], line), dims), k);
    }
}

void diagonal_op(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("self");
    const std::int64_t rank = type.rank();
    const bool named = n.has("dim1") || n.has("dim2");
    const std::int64_t rows = n.dimension(named ? n.integer("dim1", 0) : 0, rank),
                       columns = n.dimension(named ? n.integer("dim2", 1) : 1, rank);
    Dims permutation;
    for (std::int64_t d = 0; d < rank; ++d)
        if (d != rows && d != columns) permutation.push_back(d);
    permutation.insert(permutation.end(), {rows, columns});
    n.give(diagonal_of(b, b.transpose(n.tensor("self"), permutation), n.integer("offset", 0)));
}

constexpr OpImporter shape_importers[] = {
    {"transpose", transposed_pair, view},
    {"transpose_copy", transposed_pair},
    {"swapaxes", transposed_pair, view},
    {"swapdims", transposed_pair, view},
    {"t", transposed_matrix, view},
    {"t_copy", transposed_matrix},
    {"numpy_T", transposed_matrix, view},
    {"mT", transposed_matrix, view},
    {"mH", transposed_matrix, view},
    {"matrix_H", transposed_matrix, view},
    {"adjoint", transposed_matrix, view},
    {"permute", permuted, view},
    {"permute_copy", permuted},
    {"movedim", moved_dimensions, view},
    {"moveaxis", moved_dimensions, view},
    {"slice", slice_op, view},
    {"slice_copy", slice_op},
    {"narrow", narrow_op, view},
    {"narrow_copy", narrow_op},
    {"select", select_op, view},
    {"select_copy", select_op},
    {"split", parts, view},
    {"split_with_sizes", parts, view},
    {"split_with_sizes_copy", parts},
    {"split_copy", parts},
    {"chunk", parts, view},
    {"tensor_split", parts, view},
    {"unsafe_split", parts},
    {"unsafe_chunk", parts},
    {"unbind", parts, view},
    {"unbind_copy", parts},
    {"cat", concatenated},
    {"concat", concatenated},
    {"concatenate", concatenated},
    {"stack", stacked},
    {"repeat", repeated},
    {"tile", repeated},
    {"repeat_interleave.self_int", repeated_in_a_row},
    {"repeat_interleave.self_Tensor", repeated_by_numbers},
    {"flip", flipped},
    {"fliplr", flipped},
    {"flipud", flipped},
    {"roll", rolled},
    {"rot90", turned_by_quarters},
    {"pad", padded_op},
    {"constant_pad_nd", padded_op},
    {"reflection_pad1d", padded_op},
    {"reflection_pad2d", padded_op},
    {"reflection_pad3d", padded_op},
    {"replication_pad1d", padded_op},
    {"replication_pad2d", padded_op},
    {"replication_pad3d", padded_op},
    {"tril", triangle},
    {"triu", triangle},
    {"pixel_shuffle", shuffled_pixels},
    {"pixel_unshuffle", shuffled_pixels},
    {"unfold", unfolded_dimension, view},
    {"unfold_copy", unfolded_dimension},
    {"broadcast_tensors", broadcast_together, view},
    {"meshgrid", mesh_grid, view},
    {"diagonal", diagonal_op, view},
    {"diagonal_copy", diagonal_op},
};

}  // namespace

std::span<const OpImporter> shape_ops() {
    return shape_importers;
}

}  // namespace thunderc::aten

// SPDX-License-Identifier: Apache-2.0
// Operators that look at their operand in another shape, or as it is.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/frontend/aten/importer.h"

namespace thunderc::aten {
namespace {

// One size may be -1: what is left for it.
Dims with_the_rest(Node& n, Dims size, std::int64_t elements) {
    std::int64_t product = 1;
    std::optional<std::size_t> open;
    for (std::size_t d = 0; d < size.size(); ++d) {
        if (size[d] == -1 && !open)
            open = d;
        else if (size[d] < 0 || __builtin_mul_overflow(product, size[d], &product))
            n.fail(fmt::format("{} to a shape that no tensor can have", n.call().target), {}, {}, to_string(size));
    }
    if (open && (product == 0 || elements % product != 0))
        n.fail(fmt::format("{} of {} elements to another number of them", n.call().target, elements), {}, {},
               to_string(size));
    if (open) size[*open] = elements / product;
    return size;
}

Dims without_ones(Node& n, const Dims& dims) {
    Dims axes;
    for (const std::int64_t d : n.integers("dim").value_or(Dims{}))
        axes.push_back(n.axis(d, static_cast<std::int64_t>(dims.size())));
    Dims out;
    for (std::size_t d = 0; d < dims.size(); ++d) {
        const bool named = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) != axes.end();
        if (dims[d] != 1 || (n.has("dim") && !named)) out.push_back(dims[d]);
    }
    return out;
}

Dims flattened(Node& n, const Dims& dims) {
    const auto rank = static_cast<std::int64_t>(dims.size());
    if (rank == 0) return {1};
    const std::int64_t begin = n.axis("start_dim", rank, 0), end = n.axis("end_dim", rank, -1) + 1;
    if (end <= begin) n.fail(fmt::format("{} from dimension {} to {}", n.call().target, begin, end - 1));
    Dims out(dims.begin(), dims.begin() + begin);
    out.push_back(element_count(Dims(dims.begin() + begin, dims.begin() + end)));
    out.insert(out.end(), dims.begin() + end, dims.end());
    return out;
}

// The shape in which an operator looks at its operand.
Dims other_shape(Node& n) {
    const std::string op = n.op();
    const Type type = n.type("self");
    Dims dims = type.dims;
    const std::int64_t rank = type.rank();
    if (op == "view_as" || op == "reshape_as") return n.type("other").dims;
    if (op.starts_with("squeeze")) return without_ones(n, dims);
    if (op == "flatten") return flattened(n, dims);
    if (op == "ravel") return {type.elements()};
    if (op == "atleast_1d") return dims.empty() ? Dims{1} : dims;
    if (op.starts_with("unsqueeze")) {
        dims.insert(dims.begin() + n.axis(n.integer("dim"), rank + 1), 1);
        return dims;
    }
    if (op == "unflatten") {
        const std::int64_t axis = n.dimension("dim", rank);
        const Dims sizes = with_the_rest(n, n.integers("sizes").value_or(Dims{}), dims[static_cast<std::size_t>(axis)]);
        dims.erase(dims.begin() + axis);
        dims.insert(dims.begin() + axis, sizes.begin(), sizes.end());
        return dims;
    }
    const std::optional<Dims> size = n.integers(n.has("shape") ? "shape" : "size");
    if (!size) n.fail(fmt::format("{} as another type", n.call().target), "convert it with .to() in the model");
    return with_the_rest(n, *size, type.elements());
}

// What only looks at its operand in another shape.
void reshaped(Node& n) {
    Builder& b = n.b();
    const std::string op = n.op();
    const Dims dims = other_shape(n);
    if (element_count(dims) != n.type("self").elements())
        n.fail(fmt::format("{} to another number of elements", n.call().target), {}, {},
               fmt::format("{} to [{}]", to_string(n.type("self")), to_string(dims)));
    const Value v = b.reshape(n.tensor("self"), dims);
    // Where elements lie otherwise, these may have to copy them: then nothing is known of what a write does.
    const bool may_copy = op == "reshape" || op == "flatten" || op == "reshape_as" || op == "ravel";
    if (may_copy && n.is_dense() != true) return n.give(v);
    n.give_view(v, [&b](Value base, Value written) { return b.reshape(written, b.type(base).dims); });
}

// The operand itself, or a copy of it.
void same(Node& n) {
    const std::string op = n.op();
    if (op == "clone") return n.give(n.tensor("self"));
    if (op == "contiguous" && n.is_dense() == false) return n.give(n.tensor("self"));
    // Of code nothing says whether it is a copy: a write to it is one to what nobody may read any more.
    if (op == "contiguous" && !n.is_dense()) return n.give_perhaps_shared(n.tensor("self"));
    n.give_view(n.tensor("self"), [](Value, Value written) { return written; });
}

void expanded(Node& n) {
    const Dims from = n.type("self").dims;
    Dims size = n.op() == "expand_as" ? n.type("other").dims : n.integers("size").value_or(Dims{});
    if (size.size() < from.size()) n.fail(fmt::format("{} to fewer dimensions", n.call().target));
    const std::size_t more = size.size() - from.size();
    for (std::size_t d = more; d < size.size(); ++d)
        if (size[d] == -1) size[d] = from[d - more];
    if (!countable(size) || broadcast(from, size) != size)
        n.fail(fmt::format("{} to a shape that does not fit", n.call().target), {}, {},
               fmt::format("[{}] to [{}]", to_string(from), to_string(size)));
    n.give(n.b().broadcast_to(n.tensor("self"), size));
}

constexpr OpImporter reshape_importers[] = {
    {"view", reshaped, view},       {"_unsafe_view", reshaped, view},
    {"reshape", reshaped, view},    {"_reshape_copy", reshaped},
    {"view_copy", reshaped},        {"view_as", reshaped, view},
    {"reshape_as", reshaped, view}, {"flatten", reshaped, view},
    {"unflatten", reshaped, view},  {"ravel", reshaped, view},
    {"unsqueeze", reshaped, view},  {"unsqueeze_copy", reshaped},
    {"squeeze", reshaped, view},    {"squeeze_copy", reshaped},
    {"atleast_1d", reshaped, view}, {"alias", same, view},
    {"alias_copy", same},           {"clone", same},
    {"contiguous", same},           {"lift_fresh", same, view},
    {"lift_fresh_copy", same},      {"positive", same, view},
    {"resolve_conj", same, view},   {"resolve_neg", same, view},
    {"real", same, view},           {"conj", same, view},
    {"expand", expanded, view},     {"expand_copy", expanded},
    {"expand_as", expanded, view},  {"broadcast_to", expanded, view},
};

}  // namespace

std::span<const OpImporter> reshape_ops() {
    return reshape_importers;
}

}  // namespace thunderc::aten

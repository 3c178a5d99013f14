// SPDX-License-Identifier: Apache-2.0
// Tensors that are made of numbers, and conversions between types.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler/frontend/aten/complex.h"
#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/promotion.h"
#include "compiler/frontend/shared/ranking.h"

namespace thunderc::aten {
namespace {

// As an operand is, where there is one, but for what is given: (size, dtype), (self, dtype), (self, size, dtype).
Type created(Node& n, DType otherwise = DType::f32) {
    const bool like = n.has("self");
    const std::optional<Dims> size = n.integers("size");
    if (!like && !size)
        n.fail(fmt::format("{} has no shape", n.call().target), "the program is damaged: save it again");
    const Type type =
        Type::tensor(dtype_or(n, like ? n.type("self").dtype : otherwise), size ? *size : n.type("self").dims);
    if (!countable(type.dims)) n.fail(fmt::format("{} gives a shape that no tensor can have", n.call().target));
    return type;
}

// The type of the program that a tensor is converted to, where it says.
std::optional<ScalarType> wanted_type(Node& n) {
    if (const std::optional<ScalarType> said = n.scalar_type("dtype")) return said;
    const Argument* other = n.argument("other");
    const ScalarType of = other == nullptr ? ScalarType::unknown : n.importer().torch_type(other->text);
    return of == ScalarType::unknown ? std::nullopt : std::optional(of);
}

// Integers of 8, 16 and 32 bits that are wider here wrap around as they do there.
Value wrapped(Node& n, Value v, ScalarType to) {
    const TensorMeta* own = n.importer().meta(n.argument("self")->text);
    const bool same = own != nullptr && own->type == to;
    if (!is_widened(to) || bits_of(to) > 32 || same || n.importer().type(v).dtype == DType::boolean) return v;
    Builder& b = n.b();
    const double count = std::ldexp(1.0, bits_of(to)), low = is_signed(to) ? count / 2 : 0;
    const auto number = [&](double x) { return b.scalar(DType::i64, x); };
    const Value from = b.add(b.cast(v, DType::i64), number(low));
    return b.add(b.op("mod", {from, number(count)}), number(-low));
}

// A number that is given for elements of a type is one of it.
void require_held(Node& n, std::optional<ScalarType> type, double number) {
    if (type && !holds(*type, number))
        n.fail(fmt::format("{} is no number of {}", number, name_of(*type)), "compute with torch.int64 in the model");
}

// Whether the operand is of that type in PyTorch, where several of its types are one of ours.
bool is_of(Node& n, ScalarType type) {
    const ScalarType own = n.importer().torch_type(n.argument("self")->text);
    return own != ScalarType::unknown ? own == type
                                      : !is_widened(type) && stored_float(type).value_or(DType::f32) == DType::f32;
}

// To its own type a tensor is itself.
void converted(Node& n) {
    const Value v = n.tensor("self");
    const DType like = n.has("other") ? n.type("other").dtype : n.type("self").dtype;
    const std::optional<ScalarType> to = wanted_type(n);
    if (to == ScalarType::c64 || to == ScalarType::c128) {
        const Value real = n.b().cast(v, DType::f32);
        return n.give(complex_of(real, n.b().splat(n.importer().type(real), 0)));
    }
    const Value now = n.b().cast(to ? wrapped(n, v, *to) : v, dtype_or(n, like));
    if (now == v && (!to || is_of(n, *to)) && n.op() != "_to_copy" && !n.boolean("copy", false))
        return n.give_view(v, [](Value, Value written) { return written; });
    n.give(now);
}

void range(Node& n) {
    const double start = n.number("start", 0), end = n.number("end"), step = n.number("step", 1);
    if (step == 0) n.fail("a range without a step");
    const double count = std::max(0.0, std::ceil((end - start) / step));
    if (!(count < 0x1p40)) n.fail(fmt::format("a range of {} numbers", count), "choose a shorter one");
    bool whole = true;
    for (const char* name : {"start", "end", "step"}) whole = whole && n.is_whole(name);
    const Type type = Type::tensor(dtype_or(n, whole ? DType::i64 : DType::f32), {static_cast<std::int64_t>(count)});
    if (count > 0) require_held(n, n.scalar_type("dtype"), start);
    if (count > 0) require_held(n, n.scalar_type("dtype"), start + step * (count - 1));
    n.give(n.b().constant(ConstExpr::affine(type, start, {step})));
}

void evenly_spaced(Node& n) {
    const Type type = Type::tensor(dtype_or(n, DType::f32), {n.integer("steps")});
    const auto computed_end = [&](const char* name) { return n.is_tensor(name) && n.known(name) == nullptr; };
    if (is_float(type.dtype) && (computed_end("start") || computed_end("end"))) {
        // start (1 - t) + end t, t from 0 to 1
        Builder& b = n.b();
        const double step = type.elements() > 1 ? 1 / static_cast<double>(type.elements() - 1) : 0;
        const Value t = b.constant(ConstExpr::affine(type, 0, {step}));
        const Value from = b.mul(n.operand("start", type.dtype), b.add(b.neg(t), 1));
        return n.give(b.add(from, b.mul(n.operand("end", type.dtype), t)));
    }
    const double start = n.number("start"), end = n.number("end");
    const auto count = static_cast<double>(type.elements());
    n.give(n.b().constant(ConstExpr::affine(type, start, {count > 1 ? (end - start) / (count - 1) : 0})));
}

// What `empty` holds is nobody's to know: zeros do as well.
void filled_with_zeros(Node& n) {
    n.give(n.b().splat(created(n), 0));
}

void filled_with_ones(Node& n) {
    n.give(n.b().splat(created(n), 1));
}

// full(size, fill_value), full_like, new_full, fill(self, value), scalar_tensor(s)
void filled(Node& n) {
    const char* name = n.has("fill_value") ? "fill_value" : n.has("value") ? "value" : "s";
    const bool scalar = n.op() == "scalar_tensor";
    const DType said = n.op() == "full" ? promoted(n, {name}) : DType::f32;
    const Type type = scalar ? Type::tensor(dtype_or(n, said), {}) : created(n, said);
    if (n.has(name) && !n.is_tensor(name))
        require_held(n, n.scalar_type("dtype"), n.importer().resolve(*n.argument(name)).number);
    n.give(n.b().broadcast_to(n.operand(name, type.dtype), type.dims));
}

void identity_matrix(Node& n) {
    const std::int64_t rows = n.integer("n");
    const Type type = Type::tensor(dtype_or(n, DType::f32), {rows, n.integer("m", rows)});
    const Type index = Type::tensor(DType::i64, type.dims);
    const ConstPtr same =
        ConstExpr::elementwise(Type::tensor(DType::boolean, type.dims), "eq",
                               {ConstExpr::affine(index, 0, {1, 0}), ConstExpr::affine(index, 0, {0, 1})});
    n.give(n.b().cast(n.b().constant(same), type.dtype));
}

void one_hot_op(Node& n) {
    const std::int64_t classes = n.integer("num_classes", -1);
    if (classes < 0)
        n.fail("one_hot of as many classes as its data has", "say how many classes there are: one_hot(x, classes)");
    n.give(n.b().op("one_hot", {n.tensor("self")},
                    {{"depth", classes}, {"on", 1.0}, {"off", 0.0}, {"dtype", DType::i64}}));
}

// self, with src's elements in its place.
void copied(Node& n) {
    n.give(n.b().broadcast_to(n.b().cast(n.tensor("src"), n.type("self").dtype), n.type("self").dims));
}

void random_like(Node& n) {
    const Type type = created(n);
    n.give(n.b().op("unplaced_uniform", {n.has("self") ? n.tensor("self") : n.b().splat(type, 0)}));
}

// The numbers below n in the order of as many random ones.
void random_order(Node& n) {
    Builder& b = n.b();
    const Type type = Type::tensor(DType::f32, {n.integer("n")});
    if (type.dims[0] < 0) n.fail(fmt::format("{} of {}", n.call().target, type.dims[0]));
    const Value drawn = b.op("unplaced_uniform", {b.splat(type, 0)});
    n.give(b.cast(top_k(b, drawn, 0, type.dims[0], false).numbers, dtype_or(n, DType::i64)));
}

// Box and Muller's: two uniform numbers make a radius and an angle. The first is drawn below 1.
void random_normal(Node& n) {
    Builder& b = n.b();
    const Type type = created(n);
    const auto uniform = [&] {
        return b.op("unplaced_uniform", {n.has("self") ? n.tensor("self") : b.splat(type, 0)});
    };
    const Value left = b.op("log", {b.add(b.neg(uniform()), 1)});
    n.give(b.mul(b.op("sqrt", {b.mul(left, -2)}), b.op("cos", {b.mul(uniform(), 2 * std::numbers::pi)})));
}

constexpr OpImporter creation_importers[] = {
    {"to", converted},
    {"_to_copy", converted},
    {"type_as", converted},
    {"arange", range},
    {"linspace", evenly_spaced},
    {"zeros", filled_with_zeros},
    {"zeros_like", filled_with_zeros},
    {"new_zeros", filled_with_zeros},
    {"zero", filled_with_zeros},
    {"empty", filled_with_zeros},
    {"empty_like", filled_with_zeros},
    {"empty_strided", filled_with_zeros},
    {"empty_permuted", filled_with_zeros},
    {"new_empty", filled_with_zeros},
    {"new_empty_strided", filled_with_zeros},
    {"ones", filled_with_ones},
    {"ones_like", filled_with_ones},
    {"new_ones", filled_with_ones},
    {"full", filled},
    {"full_like", filled},
    {"new_full", filled},
    {"fill", filled},
    {"scalar_tensor", filled},
    {"eye", identity_matrix},
    {"one_hot", one_hot_op},
    {"copy", copied},
    {"rand_like", random_like},
    {"rand", random_like},
    {"randn", random_normal},
    {"randperm", random_order},
    {"randn_like", random_normal},
};

}  // namespace

std::span<const OpImporter> creation_ops() {
    return creation_importers;
}

}  // namespace thunderc::aten

// SPDX-License-Identifier: Apache-2.0
// Tensors that are made of numbers, and conversions between types.
#include <fmt/format.h>

#include <cmath>

#include "compiler/frontend/aten/importer.h"

namespace thunderc::aten {
namespace {

Type result_type(Node& n) {
    return Type::tensor(n.result_dtype(), n.result_dims());
}

Type result_type(Node& n, std::int64_t rank) {
    const Type type = result_type(n);
    if (type.rank() != rank)
        n.fail(fmt::format("{} gives {} dimensions", n.call().target, rank), "the program is damaged: save it again",
               {}, to_string(type));
    return type;
}

// To its own type a tensor is itself.
void converted(Node& n) {
    const Value v = n.tensor("self"), now = n.b().cast(v, n.result_dtype());
    if (now == v && n.op() != "_to_copy" && !n.boolean("copy", false))
        return n.give_view(v, [](Value, Value written) { return written; });
    n.give(now);
}

void range(Node& n) {
    const Type type = result_type(n, 1);
    const double start = n.number("start", 0), step = n.number("step", 1);
    n.give(n.b().constant(ConstExpr::affine(type, start, {step})));
}

void evenly_spaced(Node& n) {
    const Type type = result_type(n, 1);
    const double start = n.number("start"), end = n.number("end");
    const auto count = static_cast<double>(type.elements());
    n.give(n.b().constant(ConstExpr::affine(type, start, {count > 1 ? (end - start) / (count - 1) : 0})));
}

// What `empty` holds is nobody's to know: zeros do as well.
void filled_with_zeros(Node& n) {
    n.give(n.b().splat(result_type(n), 0));
}

void filled_with_ones(Node& n) {
    n.give(n.b().splat(result_type(n), 1));
}

// full(size, fill_value), full_like, new_full, fill(self, value), scalar_tensor(s)
void filled(Node& n) {
    const char* name = n.has("fill_value") ? "fill_value" : n.has("value") ? "value" : "s";
    const Type type = result_type(n);
    n.give(n.b().broadcast_to(n.operand(name, type.dtype), type.dims));
}

void identity_matrix(Node& n) {
    const Type type = result_type(n, 2), index = Type::tensor(DType::i64, type.dims);
    const ConstPtr same =
        ConstExpr::elementwise(Type::tensor(DType::boolean, type.dims), "eq",
                               {ConstExpr::affine(index, 0, {1, 0}), ConstExpr::affine(index, 0, {0, 1})});
    n.give(n.b().cast(n.b().constant(same), type.dtype));
}

void one_hot_op(Node& n) {
    const std::int64_t classes = n.result_dims().back();
    n.give(n.b().op("one_hot", {n.tensor("self")},
                    {{"depth", classes}, {"on", 1.0}, {"off", 0.0}, {"dtype", n.result_dtype()}}));
}

// self, with src's elements in its place.
void copied(Node& n) {
    n.give(n.b().broadcast_to(n.b().cast(n.tensor("src"), n.result_dtype()), n.result_dims()));
}

void random_like(Node& n) {
    const Type type = result_type(n);
    n.give(n.b().op("unplaced_uniform", {n.has("self") ? n.tensor("self") : n.b().splat(type, 0)}));
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
};

}  // namespace

std::span<const OpImporter> creation_ops() {
    return creation_importers;
}

}  // namespace thunderc::aten

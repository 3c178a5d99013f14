// SPDX-License-Identifier: Apache-2.0
// Numbers that the program computes of sizes, which are all known when it is compiled.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/frontend/aten/importer.h"

namespace thunderc::aten {
namespace {

void size_of_dimension(Node& n) {
    const Dims dims = n.type("self").dims;
    n.give(Binding::of(dims[static_cast<std::size_t>(n.dimension("dim", static_cast<std::int64_t>(dims.size())))]));
}

void number_of_elements(Node& n) {
    n.give(Binding::of(n.type("self").elements()));
}

// Strides and offsets of a tensor in its memory, as the program says them.
void place_in_memory(Node& n) {
    const Argument* self = n.argument("self");
    const TensorMeta* meta = self == nullptr ? nullptr : n.importer().meta(self->text);
    if (meta == nullptr || meta->strides.size() != n.type("self").dims.size())
        n.fail(fmt::format("nothing says what {} gives", n.call().target),
               "save the model with torch.export.save, whose programs say how tensors lie in memory");
    const bool offset = n.op() == "sym_storage_offset";
    const std::size_t d = offset ? 0 : static_cast<std::size_t>(n.axis("dim", n.type("self").rank()));
    if (!offset && d >= meta->strides.size()) n.fail(fmt::format("{} of a scalar", n.call().target));
    const std::optional<std::int64_t> value = n.importer().size(offset ? meta->offset : meta->strides[d]);
    if (!value) n.fail(fmt::format("what {} gives depends on data", n.call().target));
    n.give(Binding::of(*value));
}

// The number in a tensor of one, where it follows from the program alone.
void item_op(Node& n) {
    const Tensor* known = n.known("self");
    if (known == nullptr || known->size() != 1)
        n.fail("the model takes a number out of a tensor, which is not known when compiling",
               "compute with the tensor instead of .item()");
    n.give(known->type.dtype == DType::boolean ? Binding::of(known->i[0] != 0)
           : known->floating()                 ? Binding::of(known->f[0])
                                               : Binding::of(known->i[0]));
}

// Operands in order, whatever they are called.
std::vector<Binding> operands_of(Node& n) {
    std::vector<Binding> out;
    for (std::size_t k = 0; n.at(k) != nullptr; ++k) {
        Binding value = n.importer().resolve(*n.at(k));
        if (value.kind == Binding::Kind::integer || value.kind == Binding::Kind::boolean)
            value.number = static_cast<double>(value.integer);
        else if (value.kind != Binding::Kind::number)
            n.fail(fmt::format("{} of what is no number", n.call().target));
        out.push_back(std::move(value));
    }
    return out;
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
    const std::int64_t quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// "_operator.add", "operator.add", "torch.sym_max", "torch._sym_sqrt", "math.floor"
void of_numbers(Node& n) {
    const std::vector<Binding> x = operands_of(n);
    std::string op = n.call().target.substr(n.call().target.rfind('.') + 1);
    if (op.starts_with("_sym_")) op.erase(0, 5);
    if (op.starts_with("sym_")) op.erase(0, 4);
    const auto give = [&](auto value) { n.give(Binding::of(value)); };
    const bool whole =
        std::none_of(x.begin(), x.end(), [](const Binding& v) { return v.kind == Binding::Kind::number; });
    if (x.size() == 1) {
        const double v = x[0].number;
        const bool has_opposite = x[0].integer != std::numeric_limits<std::int64_t>::min();
        if (op == "neg" && (!whole || has_opposite)) return whole ? give(-x[0].integer) : give(-v);
        if (op == "pos") return n.give(x[0]);
        if (op == "not" || op == "not_") return give(v == 0);
        if (op == "sqrt") return give(std::sqrt(v));
        if (op == "float") return give(v);
        if (op == "abs" && (!whole || has_opposite)) return whole ? give(std::abs(x[0].integer)) : give(std::abs(v));
        if (!(std::abs(v) < 0x1p63)) n.fail(fmt::format("{} of {} is no whole number", n.call().target, v));
        if (op == "floor") return give(static_cast<std::int64_t>(std::floor(v)));
        if (op == "ceil") return give(static_cast<std::int64_t>(std::ceil(v)));
        if (op == "int" || op == "trunc") return give(static_cast<std::int64_t>(v));
        if (op == "round") return give(static_cast<std::int64_t>(std::nearbyint(v)));
    }
    if (x.size() == 3 && op == "ite") return n.give(x[0].integer != 0 ? x[1] : x[2]);
    if (x.size() == 2) {
        const double a = x[0].number, b = x[1].number;
        const std::int64_t i = x[0].integer, k = x[1].integer;
        std::int64_t out = 0;
        if (op == "eq") return give(a == b);
        if (op == "ne") return give(a != b);
        if (op == "lt") return give(a < b);
        if (op == "le") return give(a <= b);
        if (op == "gt") return give(a > b);
        if (op == "ge") return give(a >= b);
        if (op == "and" || op == "and_") return give(i != 0 && k != 0);
        if (op == "or" || op == "or_") return give(i != 0 || k != 0);
        if (op == "max") return n.give(a >= b ? x[0] : x[1]);
        if (op == "min") return n.give(a <= b ? x[0] : x[1]);
        if (op == "truediv" && b != 0) return give(a / b);
        if (op == "pow" && !(whole && k >= 0)) return give(std::pow(a, b));
        if (!whole) {
            if (op == "add") return give(a + b);
            if (op == "sub") return give(a - b);
            if (op == "mul") return give(a * b);
            if (op == "floordiv" && b != 0) return give(std::floor(a / b));
            if (op == "mod" && b != 0) return give(a - b * std::floor(a / b));
        } else {
            if (op == "add" && !__builtin_add_overflow(i, k, &out)) return give(out);
            if (op == "sub" && !__builtin_sub_overflow(i, k, &out)) return give(out);
            if (op == "mul" && !__builtin_mul_overflow(i, k, &out)) return give(out);
            if (k != 0 && !(k == -1 && i == INT64_MIN)) {
                if (op == "floordiv") return give(floor_quotient(i, k));
                if (op == "mod") return give(i - k * floor_quotient(i, k));
            }
            if (op == "pow" && std::abs(std::pow(a, b)) < 0x1p53)
                return give(static_cast<std::int64_t>(std::pow(a, b)));
        }
    }
    n.fail(fmt::format("{} of these numbers", n.call().target));
}

constexpr OpImporter number_importers[] = {
    {"sym_size", size_of_dimension},
    {"sym_numel", number_of_elements},
    {"sym_stride", place_in_memory},
    {"sym_storage_offset", place_in_memory},
    {"item", item_op},
    {"_local_scalar_dense", item_op},
    {"_operator.add", of_numbers},
    {"_operator.sub", of_numbers},
    {"_operator.mul", of_numbers},
    {"_operator.truediv", of_numbers},
    {"_operator.floordiv", of_numbers},
    {"_operator.mod", of_numbers},
    {"_operator.pow", of_numbers},
    {"_operator.neg", of_numbers},
    {"_operator.pos", of_numbers},
    {"_operator.eq", of_numbers},
    {"_operator.ne", of_numbers},
    {"_operator.lt", of_numbers},
    {"_operator.le", of_numbers},
    {"_operator.gt", of_numbers},
    {"_operator.ge", of_numbers},
    {"_operator.and_", of_numbers},
    {"_operator.or_", of_numbers},
    {"_operator.not_", of_numbers},
    {"torch.sym_max", of_numbers},
    {"torch.sym_min", of_numbers},
    {"torch.sym_float", of_numbers},
    {"torch.sym_int", of_numbers},
    {"torch.sym_not", of_numbers},
    {"torch.sym_ite", of_numbers},
    {"torch._sym_sqrt", of_numbers},
    {"math.floor", of_numbers},
    {"math.ceil", of_numbers},
    {"math.trunc", of_numbers},
    {"_operator.abs", of_numbers},
    {"builtins.round", of_numbers},
    {"math.sqrt", of_numbers},
};

}  // namespace

std::span<const OpImporter> number_ops() {
    return number_importers;
}

}  // namespace thunderc::aten

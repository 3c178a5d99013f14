// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/aten/promotion.h"

#include <fmt/format.h>

#include <algorithm>

namespace thunderc::aten {
namespace {

// What an operand has to say. `rank`: a tensor with dimensions before one without, before a number.
struct Said {
    int kind = 0;  // 0 boolean, 1 integer, 2 floating point
    int rank = 0;
    DType dtype = DType::boolean;
};

int kind_of(DType dtype) {
    return is_float(dtype) ? 2 : dtype == DType::boolean ? 0 : 1;
}

Said said_by(const Type& type) {
    return {kind_of(type.dtype), type.dims.empty() ? 1 : 2, type.dtype};
}

Said said_by(Node& n, std::string_view name) {
    if (n.is_tensor(name)) return said_by(n.type(name));
    const Argument* found = n.argument(name);
    const Binding value = found == nullptr ? Binding{} : n.importer().resolve(*found);
    const DType dtype = value.kind == Binding::Kind::number    ? DType::f32
                        : value.kind == Binding::Kind::boolean ? DType::boolean
                                                               : DType::i64;
    return {kind_of(dtype), 0, dtype};
}

Said both(const Said& a, const Said& b) {
    if (a.kind != b.kind) return a.kind > b.kind ? a : b;
    if (a.rank != b.rank) return a.rank > b.rank ? a : b;
    return size_of(a.dtype) >= size_of(b.dtype) ? a : b;
}

}  // namespace

DType promoted(Node& n, std::initializer_list<std::string_view> operands) {
    Said out;
    for (const std::string_view name : operands)
        if (n.has(name)) out = both(out, said_by(n, name));
    return out.dtype;
}

DType promoted(Node& n, std::span<const Value> operands) {
    Said out;
    for (const Value v : operands) out = both(out, said_by(n.importer().type(v)));
    return out.dtype;
}

DType fractional(DType dtype) {
    return is_float(dtype) ? dtype : DType::f32;
}

DType dtype_or(Node& n, DType otherwise) {
    const std::optional<ScalarType> given = n.scalar_type("dtype");
    return given ? n.importer().dtype(*given, fmt::format("the result of {}", n.call().target)) : otherwise;
}

DType accumulated(Node& n, std::string_view operand) {
    const DType dtype = n.type(operand).dtype;
    return dtype_or(n, is_float(dtype) ? dtype : DType::i64);
}

}  // namespace thunderc::aten

// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/aten/promotion.h"

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

Said said_by(Node& n, std::string_view name) {
    if (n.is_tensor(name)) {
        const Type type = n.type(name);
        return {kind_of(type.dtype), type.dims.empty() ? 1 : 2, type.dtype};
    }
    const Argument* found = n.argument(name);
    const Binding value = found == nullptr ? Binding{} : n.importer().resolve(*found);
    const DType dtype = value.kind == Binding::Kind::number    ? DType::f32
                        : value.kind == Binding::Kind::boolean ? DType::boolean
                                                               : DType::i64;
    return {kind_of(dtype), 0, dtype};
}

}  // namespace

DType promoted(Node& n, std::string_view first, std::string_view second) {
    const Said a = said_by(n, first), b = said_by(n, second);
    if (a.kind != b.kind) return a.kind > b.kind ? a.dtype : b.dtype;
    if (a.rank != b.rank) return a.rank > b.rank ? a.dtype : b.dtype;
    return size_of(a.dtype) >= size_of(b.dtype) ? a.dtype : b.dtype;
}

}  // namespace thunderc::aten

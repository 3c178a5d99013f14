// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/traits.h"

#include "compiler/ir/op_def.h"
#include "compiler/support/error.h"

namespace thunderc {

Comparison negated(Comparison c) {
    switch (c) {
        case Comparison::eq: return Comparison::ne;
        case Comparison::ne: return Comparison::eq;
        case Comparison::lt: return Comparison::ge;
        case Comparison::le: return Comparison::gt;
        case Comparison::gt: return Comparison::le;
        case Comparison::ge: return Comparison::lt;
    }
    throw InternalError("a comparison of no kind");
}

Comparison mirrored(Comparison c) {
    switch (c) {
        case Comparison::lt: return Comparison::gt;
        case Comparison::le: return Comparison::ge;
        case Comparison::gt: return Comparison::lt;
        case Comparison::ge: return Comparison::le;
        default: return c;
    }
}

bool holds(Comparison c, double a, double b) {
    switch (c) {
        case Comparison::eq: return a == b;
        case Comparison::ne: return a != b;
        case Comparison::lt: return a < b;
        case Comparison::le: return a <= b;
        case Comparison::gt: return a > b;
        case Comparison::ge: return a >= b;
    }
    throw InternalError("a comparison of no kind");
}

bool is_equality(Comparison c) {
    return c == Comparison::eq || c == Comparison::ne;
}

bool is_order(Comparison c) {
    return !is_equality(c);
}

std::string_view combining_op(Reduction reduction) {
    for (const OpDef* def : all_ops())
        if (def->combines == reduction) return def->name;
    throw InternalError("no op puts two parts of this reduction together");
}

}  // namespace thunderc

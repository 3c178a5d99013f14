// SPDX-License-Identifier: Apache-2.0
#include "compiler/interpreter/constant_value.h"

#include <algorithm>
#include <array>

#include "compiler/ir/op_def.h"
#include "compiler/ops/dense.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

constexpr std::size_t max_operands = 3;

const Elementwise& rule_of(const std::string& op_name) {
    const OpDef& def = op_def(op_name);
    check(def.elementwise.has_value(), "a constant is computed by " + op_name + ", which is not elementwise");
    return *def.elementwise;
}

Tensor affine(const ConstExpr& expr) {
    Tensor out(expr.type);
    const Dims& dims = expr.type.dims;
    Dims index(dims.size(), 0);
    for (std::int64_t k = 0; k < out.size(); ++k) {
        double value = expr.base;
        for (std::size_t d = 0; d < dims.size(); ++d) value += expr.step[d] * static_cast<double>(index[d]);
        out.set(k, value);
        for (std::size_t d = dims.size(); d-- > 0 && ++index[d] == dims[d];) index[d] = 0;
    }
    return out;
}

}  // namespace

Tensor materialize(const ConstExpr& expr) {
    switch (expr.kind) {
        case ConstExpr::Kind::splat: {
            Tensor out(expr.type);
            std::fill(out.f.begin(), out.f.end(), expr.value);
            if (!out.floating()) {
                Tensor one(Type::tensor(out.type.dtype, {}));
                one.set(0, expr.value);  // saturates
                std::fill(out.i.begin(), out.i.end(), one.i[0]);
            }
            return out;
        }
        case ConstExpr::Kind::affine: return affine(expr);
        case ConstExpr::Kind::dense: {
            Tensor out = *expr.data;
            out.type = expr.type;
            return out;
        }
        case ConstExpr::Kind::elementwise:
        case ConstExpr::Kind::select: {
            const OpDef& def = op_def(expr.kind == ConstExpr::Kind::select ? "select" : expr.op_name);
            std::vector<Tensor> operands;
            for (const ConstPtr& operand : expr.operands) operands.push_back(materialize(*operand));
            Op op;
            op.name = def.name;
            if (def.name == "cast") op.attributes.set("dtype", expr.type.dtype);
            return std::move(def.reference(op, operands, {&expr.type, 1})[0]);
        }
    }
    throw InternalError("a constant of no kind");
}

double element(const ConstExpr& expr, std::span<const std::int64_t> index) {
    switch (expr.kind) {
        case ConstExpr::Kind::splat: return expr.value;
        case ConstExpr::Kind::affine: {
            double value = expr.base;
            for (std::size_t d = 0; d < index.size(); ++d) value += expr.step[d] * static_cast<double>(index[d]);
            return value;
        }
        case ConstExpr::Kind::dense: {
            std::int64_t at = 0;
            for (std::size_t d = 0; d < index.size(); ++d) at = at * expr.type.dims[d] + index[d];
            return expr.data->at(at);
        }
        case ConstExpr::Kind::elementwise: {
            check(expr.operands.size() <= max_operands, "a constant of too many operands");
            std::array<double, max_operands> values{};
            for (std::size_t k = 0; k < expr.operands.size(); ++k) values[k] = element(*expr.operands[k], index);
            double value = rule_of(expr.op_name).evaluate(values.data());
            return is_float(expr.type.dtype) ? value : convert(value, expr.type.dtype);
        }
        case ConstExpr::Kind::select:
            return element(*expr.operands[element(*expr.operands[0], index) != 0 ? 1 : 2], index);
    }
    throw InternalError("a constant of no kind");
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// What tests of traits share: every op of the table, and its reference on numbers.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <vector>

#include "compiler/ops/dense.h"
#include "compiler/ops/rules.h"

namespace thunderc::testing {
namespace traits_test {

class Traits : public ::testing::TestWithParam<const OpDef*> {};

inline bool is_absent(const Tensor& t) {
    return t.type.rank() == 0 && t.f.empty() && t.i.empty();
}

inline Op op_of(const OpDef& def, const Attributes& attributes, std::span<const Tensor> operands) {
    Op op;
    op.name = def.name;
    op.attributes = attributes;
    for (std::size_t k = 0; k < operands.size(); ++k)
        op.operands.push_back(is_absent(operands[k]) ? Value{} : Value{static_cast<std::uint32_t>(k)});
    return op;
}

// Its results; none where the op does not take these operands.
inline std::vector<Tensor> evaluated(const OpDef& def, const Attributes& attributes, std::span<const Tensor> operands) {
    const Op op = op_of(def, attributes, operands);
    std::vector<std::optional<Type>> types;
    for (std::size_t k = 0; k < operands.size(); ++k)
        types.push_back(op.operands[k] ? std::optional(operands[k].type) : std::nullopt);
    std::vector<Type> results;
    try {
        results = def.infer({types, attributes});
    } catch (const std::exception&) {
        return {};
    }
    std::vector<Tensor> out = def.reference(op, operands, results);
    for (Tensor& t : out) wrap_integers(t);
    return out;
}

inline bool takes_no_numbers(const OpDef& def, std::size_t k) {
    return def.lookup && k == 1;  // indices stay what they are
}

}  // namespace traits_test
}  // namespace thunderc::testing

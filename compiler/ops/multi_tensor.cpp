// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/multi_tensor.h"

#include <fmt/format.h>

namespace thunderc {

void require_flag(const InferInput& in, std::size_t index, const std::string& name) {
    const Type expected = Type::tensor(DType::boolean, {});
    require(in.operand(index) == expected,
            fmt::format("{} is {}, {} expected", name, to_string(in.operand(index)), to_string(expected)));
}

void require_scalar(const InferInput& in, std::size_t index, const std::string& name) {
    const Type expected = Type::tensor(DType::f32, {});
    require(in.operand(index) == expected,
            fmt::format("{} is {}, {} expected", name, to_string(in.operand(index)), to_string(expected)));
}

std::vector<Value> for_each_member(Builder& b, const std::vector<Value>& operands, std::size_t results,
                                   const std::function<std::vector<Value>(const std::vector<Value>&)>& body) {
    if (!b.type(operands[0]).is_family()) return body(operands);
    std::vector<std::vector<Value>> members(results);
    for (std::int64_t k = 0; k < b.type(operands[0]).count; ++k) {
        std::vector<Value> taken;
        taken.reserve(operands.size());
        for (Value v : operands) taken.push_back(b.op("member", {v}, {{"index", k}}));
        std::vector<Value> made = body(taken);
        for (std::size_t r = 0; r < results; ++r) members[r].push_back(made[r]);
    }
    std::vector<Value> out;
    out.reserve(members.size());
    for (const std::vector<Value>& family : members) out.push_back(b.op("family", family));
    return out;
}

}  // namespace thunderc

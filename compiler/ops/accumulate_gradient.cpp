// SPDX-License-Identifier: Apache-2.0
// Gradients over the micro-steps of a step: the first one overwrites what is left of the last step, later ones add.
//
//   accumulate_gradient(before, dw, first) = dw in the first micro-step, before + dw in the others
//
// `first` is known to the host before the micro-step begins: generated code passes it as an enumerator, and executors
// make it an epilogue of the product that gives dw.
#include <fmt/format.h>

#include "compiler/ops/multi_tensor.h"
#include "compiler/ops/rules.h"

namespace thunderc {

std::vector<OpDef> define_accumulate_gradient() {
    OpDef def;
    def.name = "accumulate_gradient";
    def.level = OpLevel::composite;
    def.summary =
        "The gradient `before` plus dw, or dw alone where `first` (bool[]) says that this is the first micro-step; "
        "tensors or families of one type.";
    def.formula = "y = first ? dw : before + dw";
    def.source = "gradient accumulation as torch's .grad fields do it after zero_grad(set_to_none=True)";
    def.infer = [](const InferInput& in) {
        require_operands(in, 3);
        require(in.operand(0) == in.operand(1),
                fmt::format("the gradient before is {}, dw is {}", to_string(in.operand(0)), to_string(in.operand(1))));
        require_flag(in, 2, "first");
        return std::vector<Type>{in.operand(0)};
    };
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type> results) {
        const std::size_t count = results.size();  // families come as their members
        const bool first = operands[2 * count].at(0) != 0;
        std::vector<Tensor> out(operands.begin() + static_cast<std::ptrdiff_t>(count),
                                operands.begin() + static_cast<std::ptrdiff_t>(2 * count));
        for (std::size_t t = 0; t < count && !first; ++t)
            for (std::int64_t k = 0; k < out[t].size(); ++k) out[t].set(k, operands[t].at(k) + out[t].at(k));
        return out;
    };
    def.not_differentiable = "gradients are not differentiated again";
    def.decompose = [](Builder& b, const Op& op) {
        return for_each_member(b, {op.operands[0], op.operands[1]}, 1, [&](const std::vector<Value>& x) {
            return std::vector<Value>{b.op("select", {op.operands[2], x[1], b.add(x[0], x[1])})};
        });
    };
    def.rows = {.kind = Rows::Kind::by_element};
    def.in_place = {{0, 0}};
    def.result_names = {"after"};
    def.operand_names = {"before", "gradient", "first"};
    def.samples = {{"first", {f32({3, 4}), f32({3, 4}), bool_of({}, {1})}, {}},
                   {"later", {f32({3, 4}), f32({3, 4}), bool_of({}, {0})}, {}}};
    def.errors = {{{f32_type({2}), f32_type({3}), bool_type({})}, {}, "the gradient before is f32[2], dw is f32[3]"},
                  {{f32_type({2}), f32_type({2}), f32_type({})}, {}, "first is f32[], bool[] expected"}};
    return {def};
}

}  // namespace thunderc

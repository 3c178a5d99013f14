// SPDX-License-Identifier: Apache-2.0
// A stop of the gradient: what a model writes as x.detach(). Until the program is differentiated no pass may take it
// for its operand; then it has done its work, and the pass remove_stops puts the operand in its place.
#include "compiler/ops/rules.h"

namespace thunderc {

std::vector<OpDef> define_stop_gradient() {
    OpDef def;
    def.name = "stop_gradient";
    def.level = OpLevel::imported;
    def.summary = "Its operand, which gets no gradient from here; vanishes once the program is differentiated.";
    def.formula = "y = x; dx = 0";
    def.source = "torch.Tensor.detach";
    def.not_differentiable = "the model detaches it";
    def.recompute = Recompute::view;
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        return std::vector<Type>{float_operand(in, 0)};
    };
    def.reference = [](const Op&, std::span<const Tensor> x, std::span<const Type>) {
        return std::vector<Tensor>{x[0]};
    };
    def.decompose = [](Builder&, const Op& op) { return std::vector<Value>{op.operands[0]}; };
    def.rows = {.kind = Rows::Kind::by_element};
    def.in_place = {{0, 0}};
    def.moves = {.operands = {0}};
    def.linear_in = {0};
    def.samples = {{"rows", {f32({3, 5})}, {}}, {"scalar", {f32({})}, {}}};
    def.errors = {{{i64_type({2})}, {}, "operand 0 is to be floating point, i64[2] given"},
                  {{f32_type({2}), f32_type({2})}, {}, "1 operand expected, 2 given"}};
    return {def};
}

}  // namespace thunderc

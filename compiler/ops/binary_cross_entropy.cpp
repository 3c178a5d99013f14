// SPDX-License-Identifier: Apache-2.0
// Binary cross entropy of probabilities, element by element, with torch's two conventions: logarithms are not below
// -100, and in the backward pass (1 - p) p is not below 1e-12. So a probability of exactly 0 or 1, which a saturated
// sigmoid gives, has a finite loss and a finite gradient (which the sigmoid's own derivative, 0, then makes 0).
//
//   y = -(t max(log p, -100) + (1 - t) max(log(1 - p), -100))
//   dp = dy (p - t) / max((1 - p) p, 1e-12)
//   dt = dy (max(log(1 - p), -100) - max(log p, -100))
#include <algorithm>
#include <cmath>

#include "compiler/ops/rules.h"

namespace thunderc {
namespace {

constexpr double least_log = -100, least_variance = 1e-12;

Value one_minus(Builder& b, Value v) {
    return b.sub(b.scalar(b.type(v).dtype, 1), v);
}

Value log_of(Builder& b, Value p) {
    return b.op("max", {b.op("log", {p}), b.scalar(b.type(p).dtype, least_log)});
}

OpDef binary_cross_entropy() {
    OpDef def;
    def.name = "binary_cross_entropy";
    def.level = OpLevel::imported;
    def.summary = "Binary cross entropy of probabilities p (...) against targets t (...), element by element.";
    def.formula =
        "y = -(t max(log p, -100) + (1 - t) max(log(1 - p), -100)); dp = dy (p - t) / max((1 - p) p, 1e-12), dt = dy "
        "(max(log(1 - p), -100) - max(log p, -100))";
    def.source = "torch.nn.functional.binary_cross_entropy";
    def.infer = [](const InferInput& in) {
        require_operands(in, 2);
        const Type &p = float_operand(in, 0), &t = float_operand(in, 1);
        require(p == t,
                "probabilities and targets of one type expected, " + to_string(p) + " and " + to_string(t) + " given");
        return std::vector<Type>{p};
    };
    def.reference = [](const Op&, std::span<const Tensor> x, std::span<const Type> types) {
        Tensor y(types[0]);
        for (std::int64_t k = 0; k < y.size(); ++k) {
            const double p = x[0].at(k), t = x[1].at(k);
            y.set(k, -(t * std::max(std::log(p), least_log) + (1 - t) * std::max(std::log1p(-p), least_log)));
        }
        return std::vector<Tensor>{y};
    };
    def.vjp = [](const VjpInput& in) {
        Builder& b = in.b;
        Value p = in.operand(0), t = in.operand(1), dy = in.cotangent();
        VjpResult d(2);
        if (in.wants(0)) {
            Value variance = b.op("max", {b.mul(one_minus(b, p), p), b.scalar(b.type(p).dtype, least_variance)});
            d[0] = b.mul(dy, b.div(b.sub(p, t), variance));
        }
        if (in.wants(1)) d[1] = b.mul(dy, b.sub(log_of(b, one_minus(b, p)), log_of(b, p)));
        return d;
    };
    def.decompose = [](Builder& b, const Op& op) {
        Value p = op.operands[0], t = op.operands[1];
        Value of_zero = b.mul(b.add(t, -1), log_of(b, one_minus(b, p)));
        return std::vector<Value>{b.sub(of_zero, b.mul(t, log_of(b, p)))};
    };
    def.precision = {.kind = Precision::Kind::island, .why = "1 - p has no digit left near 1"};
    def.autocast = Autocast::wide;
    def.rows = {.kind = Rows::Kind::by_element};
    def.in_place = {{0, 0}, {0, 1}};
    def.samples = {{"rows", {f32({3, 5}, 0.1, 0.9), f32({3, 5}, 0, 1)}, {}},
                   {"scalar", {f32({}, 0.1, 0.9), f32({}, 0, 1)}, {}},
                   {"saturated", {f32_of({4}, {0, 0, 1, 1}, false), f32_of({4}, {0, 1, 0, 0.25}, false)}, {}}};
    def.errors = {{{f32_type({2}), f32_type({3})},
                   {},
                   "probabilities and targets of one type expected, f32[2] and f32[3] given"}};
    def.kinks = {"p = 0", "p = 1", "(1 - p) p < 1e-12"};
    return def;
}

}  // namespace

std::vector<OpDef> define_binary_cross_entropy() {
    return {binary_cross_entropy()};
}

}  // namespace thunderc

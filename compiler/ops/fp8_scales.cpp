// SPDX-License-Identifier: Apache-2.0
// Scales that follow from amaxes of before: what ranks compare, and what becomes of it at the end of a micro-step.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/ops/composite.h"
#include "compiler/ops/fp8_rules.h"

namespace thunderc {
namespace {

// ---- scales ---------------------------------------------------------------------------------------------------------

// The scale that takes an amax to `largest`; one that is no positive number says nothing, and the scale stays.
float delayed_scale(float amax, float before, float largest) {
    constexpr float most = std::numeric_limits<float>::max();
    return std::min(amax > 0 && amax <= most ? largest / amax : before, most);
}

// What lies behind one another from the first tensor on: plan puts it so.
CallField from_first(std::string name, std::size_t result) {
    CallField field;
    field.name = std::move(name);
    field.kind = CallField::Kind::from_result;
    field.index = result;
    return field;
}

// Of operands or of results, families counted by their members.
std::int64_t member_count(const Function& f, std::span<const Value> values) {
    std::int64_t out = 0;
    for (const Value v : values) out += f.type(v).is_family() ? f.type(v).count : 1;
    return out;
}

OpDef reduce_amaxes() {
    OpDef def;
    def.name = "fp8_reduce_amaxes";
    def.summary =
        "Amaxes, of which each becomes the largest that a rank has of it; on one rank they stay. None is below 0.";
    def.formula = "y = max(0, x of all ranks)";
    def.source = "Transformer Engine's reduce_and_update_fp8_tensors";
    def.infer = [](const InferInput& in) {
        std::vector<Type> out;
        for (std::size_t k = 0; k < in.operands.size(); ++k) {
            require(in.operand(k).dtype == DType::f32 && in.operand(k).rank() == 0,
                    fmt::format("amax {} is {}", k, to_string(in.operand(k))));
            out.push_back(in.operand(k));
        }
        require(!out.empty(), "there are no amaxes");
        return out;
    };
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type>) {
        std::vector<Tensor> out(operands.begin(), operands.end());
        for (Tensor& amax : out) amax.set(0, larger_amax(0, amax.at(0)));
        return out;
    };
    def.not_differentiable = not_quantised_again;
    def.call = [](const Op& op, const Function& f) {
        CallField group = literal_field("group", std::string("Group::world"));
        return RuntimeCall{"all_reduce_max",
                           {from_first("buffer", 0), literal_field("elements", member_count(f, op.results)), group},
                           "the largest amax of all ranks, from which all have the same scales",
                           "comm/collectives.h",
                           "what ranks say to each other"};
    };
    def.in_place_from = 0;
    def.result_names = {"amax"};
    def.samples = {{"two", {f32_of({}, {0.5}), f32_of({}, {3})}, {}}};
    def.errors = {{{}, {}, "there are no amaxes"}, {{f32_type({2})}, {}, "amax 0 is f32[2]"}};
    return def;
}

OpDef update_scales() {
    OpDef def;
    def.name = "fp8_update_scales";
    def.summary =
        "Delayed scaling at the end of a micro-step: scales f32[], amaxes f32[] since the last update and histories "
        "f32[length] of as many tensors; the amaxes are 0 behind it.";
    def.formula = "history moves on by the amax; scale = largest / max of history, where that is a positive number";
    def.source = "Transformer Engine's DelayedScaling (docs/numerics.md)";
    def.infer = [](const InferInput& in) {
        const std::size_t n = in.operands.size() / 3;
        require(n > 0 && in.operands.size() == 3 * n, fmt::format("{} operands given: groups of scales, amaxes and "
                                                                  "histories expected",
                                                                  in.operands.size()));
        std::vector<Type> out;
        for (std::size_t k = 0; k < in.operands.size(); ++k) {
            const Type& type = in.operand(k);
            Type expected = in.operand(k % n);
            expected.dtype = DType::f32;
            expected.dims = k < 2 * n ? Dims{} : Dims{in.operand(2 * n).elements()};
            require(type == expected,
                    fmt::format("operand {} is {}, {} expected", k, to_string(type), to_string(expected)));
            out.push_back(type);
        }
        return out;
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type>) {
        std::vector<Tensor> out(operands.begin(), operands.end());  // families come as their members
        const std::size_t n = out.size() / 3;
        const auto largest = static_cast<float>(op.attributes.number("largest"));
        for (std::size_t t = 0; t < n; ++t) {
            Tensor& history = out[2 * n + t];
            const auto amax = static_cast<float>(out[n + t].at(0));
            float most = 0;
            if (amax != 0) {
                history.f.push_back(amax);
                history.f.erase(history.f.begin());
                for (const double v : history.f) most = larger_amax(most, v);
                history.f[0] = 0;
            }
            const float of = op.attributes.boolean("latest", false) ? amax : most;
            out[t].set(0, delayed_scale(of, static_cast<float>(out[t].at(0)), largest));
            out[n + t].set(0, 0);
        }
        return out;
    };
    def.not_differentiable = not_quantised_again;
    def.call = [](const Op& op, const Function& f) {
        const std::size_t n = op.results.size() / 3;
        const std::span<const Value> scales = std::span(op.results).first(n);
        RuntimeCall call{"fp8_update_scales",
                         {from_first("scale", 0), from_first("history", 2 * n), from_first("amax", n)},
                         fmt::format("{}: their scales for the next time, by the largest of the last {} amaxes",
                                     op.attributes.string("of", ""), f.type(op.results[2 * n]).elements())};
        if (op.attributes.boolean("latest", false)) call.fields.push_back(literal_field("latest", std::string("true")));
        call.fields.push_back(literal_field("largest", float_literal(op.attributes.number("largest"))));
        call.fields.push_back(literal_field("tensors", member_count(f, scales)));
        call.fields.push_back(literal_field("length", f.type(op.results[2 * n]).elements()));
        return call;
    };
    def.in_place_from = 0;
    def.in_place_as_whole = true;  // a history moves by one place
    def.result_names = {"scale"};
    const Attributes e4m3{{"largest", 448.0}, {"of", std::string("inputs")}};
    def.samples = {{"one", {f32_of({}, {1}), f32_of({}, {2}), f32_of({4}, {0, 8, 0, 1})}, e4m3},
                   {"nothing was quantised", {f32_of({}, {3}), f32_of({}, {0}), f32_of({4}, {0, 8, 0, 1})}, e4m3},
                   {"the latest of two",
                    {f32_of({}, {1}), f32_of({}, {1}), f32_of({}, {2}), f32_of({}, {1e-38}), f32_of({2}, {0, 8}),
                     f32_of({2}, {0, 1})},
                    {{"largest", 57344.0}, {"latest", true}, {"of", std::string("gradients")}}}};
    def.errors = {
        {{f32_type({}), f32_type({})}, e4m3, "2 operands given: groups of scales, amaxes and histories expected"},
        {{f32_type({}), f32_type({2}), f32_type({4})}, e4m3, "operand 1 is f32[2], f32[] expected"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_fp8_scales() {
    return {reduce_amaxes(), update_scales()};
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// The ops that give a module its structure: constants, calls, loops, families and kernels. What they mean follows from
// the functions that they name, so the evaluator, differentiation and the planner treat them by hand.
#include <fmt/format.h>

#include "compiler/ir/op_def.h"
#include "compiler/ops/multi_tensor.h"
#include "compiler/ops/rules.h"

namespace thunderc {
namespace {

OpDef structural(std::string name, std::string summary, std::function<std::vector<Type>(const InferInput&)> infer) {
    OpDef def;
    def.name = std::move(name);
    def.level = OpLevel::structural;
    def.summary = std::move(summary);
    def.infer = std::move(infer);
    return def;
}

// The types of results of a call follow from the callee, which a shape rule cannot see: whoever builds the op sets
// them, and the verifier compares them with the callee.
std::vector<Type> declared_types(const InferInput&) {
    return {};
}

}  // namespace

std::vector<OpDef> define_structural() {
    std::vector<OpDef> defs;
    defs.push_back(structural("constant", "A lazy constant: the expression in `value`.", [](const InferInput& in) {
        return std::vector<Type>{in.attributes.constant("value")->type};
    }));
    defs.back().recompute = Recompute::view;
    defs.push_back(structural("call", "Calls the function `callee`.", declared_types));
    defs.push_back(structural("fused", "Calls the kernel function `kernel`.", declared_types));
    defs.push_back(structural("repeat",
                              "Calls `body` n times: carried values, per-layer families and shared values in; carried "
                              "values and collected families out.",
                              declared_types));
    defs.push_back(structural("family", "A family whose members are the operands.", [](const InferInput& in) {
        require(!in.operands.empty(), "a family has at least one member");
        Type first = in.operand(0);
        for (std::size_t k = 0; k < in.operands.size(); ++k)
            require(in.operand(k) == first,
                    fmt::format("member {} is {}, member 0 is {}", k, to_string(in.operand(k)), to_string(first)));
        return std::vector<Type>{Type::family(static_cast<std::int64_t>(in.operands.size()), first.dtype, first.dims)};
    }));
    defs.back().recompute = Recompute::view;
    defs.push_back(structural("member", "Member `index` of a family.", [](const InferInput& in) {
        const Type& family = in.operand(0);
        std::int64_t index = in.attributes.integer("index");
        require(family.is_family() && index >= 0 && index < family.count,
                fmt::format("there is no member {} in {}", index, to_string(family)));
        return std::vector<Type>{family.member()};
    }));
    defs.back().recompute = Recompute::view;
    defs.push_back(structural("unstack", "The family of a tensor's parts along axis 0.", [](const InferInput& in) {
        require_operands(in, 1);
        const Type& whole = tensor_operand(in, 0);
        require(whole.rank() >= 1 && whole.dims[0] >= 1, "a tensor of one part or more is taken apart");
        return std::vector<Type>{Type::family(whole.dims[0], whole.dtype, {whole.dims.begin() + 1, whole.dims.end()})};
    }));
    defs.back().recompute = Recompute::view;
    defs.push_back(
        structural("stack", "The members of a family as one tensor, along a new axis 0.", [](const InferInput& in) {
            require_operands(in, 1);
            const Type& family = in.operand(0);
            require(family.is_family(), "a family is stacked");
            Dims dims = {family.count};
            dims.insert(dims.end(), family.dims.begin(), family.dims.end());
            return std::vector<Type>{Type::tensor(family.dtype, std::move(dims))};
        }));
    defs.back().recompute = Recompute::view;
    defs.push_back(structural("copy", "The operand's values in memory of their own; the planner adds it.",
                              [](const InferInput& in) { return std::vector<Type>{in.operand(0)}; }));
    // Order between streams, after plan. An op is in the list behind whatever it waits for: the order of the list is
    // one in which the program may run.
    auto nothing = [](const InferInput& in) {
        require(in.operands.size() <= 1, "an event has no operands but a flag");
        if (in.has(0)) require_flag(in, 0, "enabled");
        require(!in.attributes.string("event").empty(), "an event has a name");
        return std::vector<Type>{};
    };
    defs.push_back(structural(
        "record",
        "The event `event` happens when what stands before on this op's stream is done; once in a function. With a "
        "flag, where that is true.",
        nothing));
    defs.push_back(structural(
        "wait",
        "What comes after on this op's stream begins when the event `event` has happened: in a loop's body, that of "
        "the iteration `distance` before (0: this one); where there is none, it does not wait. With a flag, where that "
        "is true.",
        nothing));
    return defs;
}

}  // namespace thunderc

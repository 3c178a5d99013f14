// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/fp8_once.h"

#include <fmt/format.h>

#include <string_view>

#include "compiler/ops/composite.h"
#include "compiler/ops/fp8_rules.h"

namespace thunderc {
namespace {

constexpr std::string_view ending = "_once";

// In front of what is quantised stand a scale and an amax, or nothing; the amax is the first result then, which is
// noted anew in any case.
std::size_t in_front(std::string_view each_time) {
    return each_time == "fp8_quantise" ? quantised_from : current_from;
}
std::size_t noted(std::string_view each_time) {
    return each_time == "fp8_quantise" ? 1 : 0;
}

// Results but the amax, by the attributes alone.
std::size_t kept_results(std::string_view each_time, const Attributes& attributes) {
    const std::size_t copies = attributes.string("copies", "both") == "both" ? 2 : 1;
    if (each_time == "fp8_quantise_blocks") return 2 * copies;
    return copies + (each_time == "fp8_quantise_current" ? 2 : 1);
}

template <typename T>
std::vector<T> without_kept(std::span<const T> operands, std::size_t front, std::size_t kept) {
    std::vector<T> out(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(front));
    out.insert(out.end(), operands.begin() + static_cast<std::ptrdiff_t>(front + kept), operands.end() - 1);
    return out;
}

// A sample of the op with what was before: what `types` say, in codes and numbers that nothing is quantised to here.
Sample with_kept(Sample sample, const std::vector<Type>& results, std::size_t front, std::size_t amaxes, bool first) {
    std::vector<SampleOperand> kept;
    for (std::size_t r = amaxes; r < results.size(); ++r) {
        SampleOperand before;
        before.type = results[r];
        before.values.assign(static_cast<std::size_t>(results[r].elements()), 0.25);
        before.differentiable = false;
        kept.push_back(std::move(before));
    }
    sample.operands.insert(sample.operands.begin() + static_cast<std::ptrdiff_t>(front), kept.begin(), kept.end());
    sample.operands.push_back(bool_of({}, {first ? 1.0 : 0.0}));
    sample.name += first ? ", first micro-step" : ", later micro-step";
    return sample;
}

std::vector<Type> results_of(const OpDef& def, const Sample& sample) {
    std::vector<std::optional<Type>> types;
    for (const SampleOperand& operand : sample.operands) types.emplace_back(operand.type);
    return def.infer({types, sample.attributes});
}

}  // namespace

bool is_once_a_step(const Op& quantise) {
    return quantise.name.starts_with("fp8_quantise") && quantise.name.ends_with(ending);
}

Op each_time(const Op& once) {
    Op op = once;
    op.name.resize(op.name.size() - ending.size());
    op.operands = without_kept(std::span(once.operands), in_front(op.name), kept_results(op.name, op.attributes));
    return op;
}

std::size_t operand_of_once(const Op& once, std::size_t k) {
    const std::string_view name = std::string_view(once.name).substr(0, once.name.size() - ending.size());
    return k < in_front(name) ? k : k + kept_results(name, once.attributes);
}

Op once_a_step(Op each_time, const std::vector<Value>& before, Value first) {
    each_time.operands.insert(each_time.operands.begin() + static_cast<std::ptrdiff_t>(in_front(each_time.name)),
                              before.begin(), before.end());
    each_time.operands.push_back(first);
    each_time.name += ending;
    return each_time;
}

OpDef once_a_step(const OpDef& each_time) {
    OpDef def = each_time;
    const std::size_t front = in_front(each_time.name), amaxes = noted(each_time.name);
    def.name += ending;
    def.summary = "As " + each_time.name +
                  ", in the first micro-step of a step; in the others what that gave stays as it is. Before x stand "
                  "all results but the amax as they were, behind it whether this is the first.";
    def.infer = [each_time, front, amaxes](const InferInput& in) {
        const std::size_t kept = kept_results(each_time.name, in.attributes);
        require(in.operands.size() > front + kept + 1, "there is nothing to quantise");
        const std::vector<std::optional<Type>> operands = without_kept(in.operands, front, kept);
        std::vector<Type> results = each_time.infer({operands, in.attributes});
        for (std::size_t r = amaxes; r < results.size(); ++r)
            require(in.operand(front + r - amaxes) == results[r],
                    fmt::format("before it is {}, {} is made", to_string(in.operand(front + r - amaxes)),
                                to_string(results[r])));
        require(in.operand(in.operands.size() - 1) == bool_type({}), "first is to be bool[]");
        return results;
    };
    def.reference = [each_time, front, amaxes](const Op& op, std::span<const Tensor> operands,
                                               std::span<const Type> results) {
        const std::size_t kept = results.size() - amaxes;
        if (operands.back().at(0) != 0)
            return each_time.reference(thunderc::each_time(op), without_kept(operands, front, kept), results);
        const auto at = operands.begin() + static_cast<std::ptrdiff_t>(front);  // the amax stands right before it
        return std::vector<Tensor>(at - static_cast<std::ptrdiff_t>(amaxes), at + static_cast<std::ptrdiff_t>(kept));
    };
    def.call = [each_time](const Op& op, const Function& f) {
        RuntimeCall call = each_time.call(thunderc::each_time(op), f);
        for (CallField& field : call.fields)
            if (field.kind == CallField::Kind::operand) field.index = operand_of_once(op, field.index);
        call.fields.push_back(operand_field("mode", op.operands.size() - 1));
        call.comment += "; in the first micro-step, for all of them";
        return call;
    };
    def.in_place.clear();
    def.in_place_from = front - amaxes;
    def.samples.clear();
    for (const Sample& sample : each_time.samples)
        for (const bool first : {true, false})
            def.samples.push_back(with_kept(sample, results_of(each_time, sample), front, amaxes, first));
    def.errors.clear();
    const Sample& sample = def.samples.front();
    ShapeErrorSample error{{}, sample.attributes, "first is to be bool[]"};
    for (const SampleOperand& operand : sample.operands) error.operands.emplace_back(operand.type);
    error.operands.back() = f32_type({});
    def.errors.push_back(error);
    return def;
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/planned/step_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

// The order and types of runtime-lib/optim/step_scalars.h; a test compares the two.
struct Field {
    std::string_view name;
    std::int64_t offset;
    DType dtype;
};
constexpr std::int64_t rule_offset = 16, rule_end = rule_offset + 8 * thunder::rules::most_numbers;
constexpr Field fields[] = {{"learning_rate", 0, DType::f64},
                            {"max_grad_norm", 8, DType::f64},
                            {"seed", rule_end, DType::i64},
                            {"step", rule_end + 8, DType::i64},
                            {"loss_weight", rule_end + 16, DType::f32},
                            {"dloss", rule_end + 20, DType::f32},
                            {"loss_sum", rule_end + 24, DType::f32},
                            {"grad_norm", rule_end + 28, DType::f32},
                            {"clip_factor", rule_end + 32, DType::f32},
                            {"rounding", rule_end + 40, DType::i64},
                            {"label_count", rule_end + 56, DType::f32},
                            {"label_hits", rule_end + 60, DType::f32}};
// What the host knows, and the text says by other means: where a plan places them the struct has loss_scale, which no
// plan knows of, nor of most_grad_norm behind rounding.
constexpr Field flags[] = {{"first_micro_step", rule_end + 36, DType::boolean},
                           {"decay_all", rule_end + 37, DType::boolean},
                           {"last_micro_step", rule_end + 38, DType::boolean}};
static_assert(rule_end + 64 == step_scalars_bytes);

// Which number of its rule "adamw.beta2" is.
std::optional<std::size_t> index_of_number(std::string_view scalar) {
    const std::size_t dot = scalar.find('.');
    const thunder::RuleInfo* rule = dot == std::string_view::npos ? nullptr : thunder::find_rule(scalar.substr(0, dot));
    if (rule == nullptr) return std::nullopt;
    const auto at = std::find(rule->numbers.begin(), rule->numbers.end(), scalar.substr(dot + 1));
    if (at == rule->numbers.end()) return std::nullopt;
    return static_cast<std::size_t>(at - rule->numbers.begin());
}

constexpr std::string_view weights_prefix = "loss_weights[";
constexpr std::int64_t loss_weight_bytes = 4;

}  // namespace

bool is_step(const Module& module) {
    return module.find(update_function) != nullptr;
}

std::size_t end_of_forward(const Function& forward_backward) {
    const auto sum = std::find(forward_backward.result_names.begin(), forward_backward.result_names.end(), "loss_sum");
    check(sum != forward_backward.result_names.end(), "a step adds up its loss");
    const Value total = forward_backward.results[static_cast<std::size_t>(sum - forward_backward.result_names.begin())];
    for (std::size_t k = 0; k < forward_backward.ops.size(); ++k) {
        const std::vector<Value>& made = forward_backward.ops[k].results;
        if (std::find(made.begin(), made.end(), total) != made.end()) return k + 1;
    }
    return 0;
}

bool is_seed(const ArgInfo& info) {
    return info.kind == ArgInfo::Kind::scalar && info.names.front() == seed_scalar;
}

ArgInfo state_info(const ArgInfo& parameter, std::string_view prefix) {
    ArgInfo info;
    info.kind = ArgInfo::Kind::state;
    for (const std::string& name : parameter.names) info.names.push_back(state_name(prefix, name));
    info.aliases.resize(info.names.size());
    info.sources.resize(info.names.size());
    return info;
}

std::string loss_weight_scalar(std::size_t k) {
    return fmt::format("{}{}]", weights_prefix, k);  // as C++ names it in TrainingArenas
}

std::int64_t step_scalars_bytes_with(const LossForm& form) {
    const bool behind = form.kind == LossForm::Kind::terms;
    return step_scalars_bytes + (behind ? loss_weight_bytes * static_cast<std::int64_t>(form.weights.size()) : 0);
}

LossForm loss_form(const Module& composed) {
    LossForm out;
    const Function* f = composed.find(loss_weight_function);
    if (f == nullptr) return out;
    for (const ArgInfo& info : f->argument_info)
        if (info.kind == ArgInfo::Kind::scalar && !is_seed(info)) out.weights.push_back(info.names.front());
    out.kind = out.weights.front() == loss_weight_scalar(0) ? LossForm::Kind::terms : LossForm::Kind::mean;
    return out;
}

double loss_divisor(const LossForm& form, const std::vector<double>& weights, std::size_t micro_batches) {
    switch (form.kind) {
        case LossForm::Kind::average: return static_cast<double>(micro_batches);
        case LossForm::Kind::mean: return weights.at(0);
        case LossForm::Kind::terms: return 1;
    }
    throw InternalError("a loss of no form");
}

std::string rule_scalar(std::string_view rule, std::string_view number) {
    return fmt::format("{}.{}", rule, number);
}

std::optional<std::int64_t> step_scalar_offset(std::string_view name) {
    for (const std::span<const Field> known : {std::span<const Field>(fields), std::span<const Field>(flags)})
        for (const Field& field : known)
            if (field.name == name) return field.offset;
    if (const std::optional<std::size_t> number = index_of_number(name))
        return rule_offset + 8 * static_cast<std::int64_t>(*number);
    std::size_t k = 0;
    if (!name.starts_with(weights_prefix)) return std::nullopt;
    const std::string_view number = name.substr(weights_prefix.size());
    std::from_chars(number.data(), number.data() + number.size(), k);
    if (loss_weight_scalar(k) != name) return std::nullopt;
    return step_scalars_bytes + loss_weight_bytes * static_cast<std::int64_t>(k);
}

std::optional<std::string> step_scalar_at(std::int64_t offset) {
    for (const Field& field : fields)
        if (field.offset == offset) return std::string(field.name);
    if (offset >= rule_offset && offset < rule_end && offset % 8 == 0)
        return fmt::format("rule[{}]", (offset - rule_offset) / 8);
    const std::int64_t behind = offset - step_scalars_bytes;
    if (behind < 0 || behind % loss_weight_bytes != 0) return std::nullopt;
    return loss_weight_scalar(static_cast<std::size_t>(behind / loss_weight_bytes));
}

DType step_scalar_dtype(std::int64_t offset) {
    for (const std::span<const Field> known : {std::span<const Field>(fields), std::span<const Field>(flags)})
        for (const Field& field : known)
            if (field.offset == offset) return field.dtype;
    return offset < rule_end ? DType::f64 : DType::f32;  // the rule's numbers, or weights of the loss
}

std::vector<std::string> optimizer_states(const Module& composed) {
    std::vector<std::string> out;
    for (const Function& f : composed.functions)
        for (const ArgInfo& info : f.argument_info) {
            if (info.kind != ArgInfo::Kind::state) continue;
            const std::string prefix = info.names.front().substr(0, info.names.front().find('.'));
            if (prefix == gradient_state || prefix == narrow_copy_state || prefix == scaling_state) continue;
            if (std::find(out.begin(), out.end(), prefix) == out.end()) out.push_back(prefix);
        }
    return out;
}

std::vector<std::string> prefixes_of_parameters(const Module& composed) {
    std::vector<std::string> out = {"", fmt::format("{}.", gradient_state)};
    for (const std::string& state : optimizer_states(composed)) out.push_back(state + ".");
    out.push_back(fmt::format("{}.", narrow_copy_state));
    return out;
}

std::optional<std::size_t> state_of_name(const std::vector<std::string>& states, std::string_view name) {
    const auto at = std::find(states.begin(), states.end(), name.substr(0, name.find('.')));
    if (at == states.end()) return std::nullopt;
    return static_cast<std::size_t>(at - states.begin());
}

const thunder::RuleInfo& rule_of(const Module& composed) {
    if (const Function* update = composed.find(update_function))
        for (const Op& op : update->ops)
            if (const thunder::RuleInfo* rule = thunder::find_rule(op.name)) return *rule;
    throw InternalError("nothing steps the parameters");
}

bool has_coded_states(const Module& composed) {
    const Function* update = composed.find(update_function);
    return update != nullptr && std::any_of(update->arguments.begin(), update->arguments.end(),
                                            [&](Value v) { return update->type(v).dtype == DType::u8; });
}

bool states_as_parameters(const Module& composed) {
    return rule_of(composed).states_as_parameters() && !has_coded_states(composed);
}

}  // namespace thunderc

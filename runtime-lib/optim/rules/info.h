// SPDX-License-Identifier: Apache-2.0
// What the host asks the rules of optimizers, by name: programs of the rule that steps them, the compiler of all.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "list.h"

namespace thunder {

struct RuleInfo {
    std::string name, title, formula, source;
    std::vector<std::string> states, stored_states;
    // Of the states of matrices and vectors that are stepped as wholes; those of all else are shaped as the parameter.
    std::vector<rules::StateShape> shapes_of_matrices, shapes_of_vectors;
    struct Option : rules::Option {
        std::string name;
    };
    std::vector<Option> options;
    std::vector<std::string> numbers;
    double usual_weight_decay;
    // The option, a flag, that steps element by element what is else stepped as whole matrices, which shards are not;
    // "" where there are none.
    std::string by_element;
    bool steps_tensors = false;  // each as a whole
    std::vector<bool> signs;     // of each state: whether it may be negative

    bool steps_matrices() const { return !by_element.empty(); }
    // Whether it needs all of a parameter, where that is a matrix or in any case.
    bool steps_wholes() const { return steps_matrices() || steps_tensors; }
    // How it steps a parameter of these dimensions. Runs of rules that step matrices may except some.
    rules::Stepped stepped(std::size_t dimensions) const {
        if (steps_tensors) return dimensions >= 2 ? rules::Stepped::matrix : rules::Stepped::vector;
        return steps_matrices() && dimensions == 2 ? rules::Stepped::matrix : rules::Stepped::by_element;
    }
    // Whether each state of each parameter is shaped as the parameter: then it lies at the parameter's elements.
    bool states_as_parameters() const {
        const auto as_parameter = [](rules::StateShape shape) { return shape == rules::StateShape::as_parameter; };
        return std::all_of(shapes_of_matrices.begin(), shapes_of_matrices.end(), as_parameter) &&
               std::all_of(shapes_of_vectors.begin(), shapes_of_vectors.end(), as_parameter);
    }
    // Whether there is a state of matrices that may be kept as codes of 8 bits (codes.h): none is stepped as a whole,
    // and there are states at all.
    bool codes_states() const { return !states.empty() && !steps_wholes(); }
    rules::StateShape shape_of_state(std::size_t state, rules::Stepped stepped) const {
        return stepped == rules::Stepped::matrix   ? shapes_of_matrices[state]
               : stepped == rules::Stepped::vector ? shapes_of_vectors[state]
                                                   : rules::StateShape::as_parameter;
    }

    // The numbers of a step from the options, each in the order of its names.
    std::vector<double> (*step_numbers)(const std::vector<double>& options, const rules::Step& step);
    // The update of one element in double, where a rule has it; the states lie behind each other.
    void (*element)(double& p, double g, double* states, const std::vector<double>& numbers, bool decays);
};

namespace rules {

// "a, b" as THUNDER_FIELDS has it.
inline std::vector<std::string> split_names(std::string_view names) {
    std::vector<std::string> out;
    while (!names.empty()) {
        const std::size_t comma = names.find(',');
        out.emplace_back(names.substr(0, comma));
        names = comma == std::string_view::npos ? std::string_view() : names.substr(comma + 2);
    }
    return out;
}

template <typename Rule>
RuleInfo info_of() {
    RuleInfo info{Rule::name,
                  Rule::title,
                  Rule::formula,
                  Rule::source,
                  split_names(Rule::names_of_States),
                  split_names(Rule::stored_states),
                  std::vector<StateShape>(static_cast<std::size_t>(rules::states<Rule>), StateShape::as_parameter),
                  std::vector<StateShape>(static_cast<std::size_t>(rules::states<Rule>), StateShape::as_parameter),
                  {},
                  split_names(Rule::names_of_Numbers),
                  Rule::usual_weight_decay,
                  "",
                  rules::steps_tensors<Rule>,
                  std::vector<bool>(static_cast<std::size_t>(rules::states<Rule>), true),
                  nullptr,
                  nullptr};
    const std::vector<std::string> options = split_names(Rule::names_of_Options);
    for (std::size_t k = 0; k < options.size(); ++k) info.options.push_back({{Rule::options[k]}, options[k]});
    if constexpr (steps_matrices<Rule>) info.by_element = Rule::by_element;
    if constexpr (has_shapes_of_matrices<Rule>)
        std::copy(std::begin(Rule::shapes_of_matrices), std::end(Rule::shapes_of_matrices),
                  info.shapes_of_matrices.begin());
    if constexpr (has_shapes_of_vectors<Rule>)
        std::copy(std::begin(Rule::shapes_of_vectors), std::end(Rule::shapes_of_vectors),
                  info.shapes_of_vectors.begin());
    if constexpr (!rules::has_signs<Rule>) {
        static_assert(std::size(Rule::never_negative) == rules::states<Rule>);
        std::transform(std::begin(Rule::never_negative), std::end(Rule::never_negative), info.signs.begin(),
                       std::logical_not<>());
    }
    info.step_numbers = [](const std::vector<double>& chosen, const Step& step) {
        const auto made = Rule::numbers(fields_of<Rule::template Options, double>(chosen.data()), step);
        const auto* first = reinterpret_cast<const double*>(&made);
        return std::vector<double>(first, first + count<Rule::template Numbers>);
    };
    info.element = [](double& p, double g, double* states, const std::vector<double>& numbers, bool decays) {
        auto of_tensor = fields_of<Rule::template Numbers, double>(numbers.data());
        Rule::decay_where(decays, of_tensor);
        if constexpr (!rules::steps_tensors<Rule>)
            Rule::element(p, g, fields_of<Rule::template States, double&>(states), of_tensor);
    };
    return info;
}

}  // namespace rules

inline std::span<const RuleInfo> all_rules() {
#define THUNDER_RULE_INFO(name, Rule) rules::info_of<Rule>(),
    static const std::vector<RuleInfo> all = {THUNDER_RULES(THUNDER_RULE_INFO)};
#undef THUNDER_RULE_INFO
    return all;
}

// Null where there is none of that name.
inline const RuleInfo* find_rule(std::string_view name) {
    for (const RuleInfo& rule : all_rules())
        if (rule.name == name) return &rule;
    return nullptr;
}

// What the options are where a run chooses nothing.
inline std::vector<double> usual_options(const RuleInfo& rule) {
    std::vector<double> out;
    for (const RuleInfo::Option& option : rule.options) out.push_back(option.usual);
    return out;
}

}  // namespace thunder

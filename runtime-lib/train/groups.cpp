// SPDX-License-Identifier: Apache-2.0
#include "train/groups.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>

#include "support/error.h"
#include "support/philox.h"
#include "support/text.h"
#include "train/schedule.h"
#include "train/states.h"
#include "train/world.h"

namespace thunder {

namespace {

using Reject = std::function<void(const std::string&, const std::string&)>;

// Names are those of the command line or of C++: weight-decay, weight_decay.
std::string spelled(std::string name) {
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

double number(const std::string& text, const std::string& what, rules::Range range, const Reject& reject) {
    double x = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
    const bool whole = error == std::errc() && end == text.data() + text.size() && std::isfinite(x) && x >= 0;
    if (range == rules::Range::positive && !(whole && x > 0)) reject(text, cat(what, " above 0"));
    if (range == rules::Range::fraction && !(whole && x < 1)) reject(text, cat(what, " from 0 to below 1"));
    if (range == rules::Range::flag && !(whole && (x == 0 || x == 1))) reject(text, cat("0 or 1 as ", what));
    if (!whole) reject(text, cat(what, " of 0 or more"));
    return x;
}

std::string names_text(const RuleInfo& rule) {
    std::vector<std::string> names = {"lr", "weight_decay"};
    for (const RuleInfo::Option& option : rule.options) names.push_back(option.name);
    return list_text(names, names.size());
}

ParameterGroup parse_group(const std::string& text, const RuleInfo& rule, const Reject& reject) {
    // Expressions may have colons; what stands behind the last one has none.
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == text.size())
        reject(text, cat("REGEX:NAME=X,... with ", names_text(rule)));
    ParameterGroup group;
    group.pattern = text.substr(0, colon);
    try {
        const std::regex expression(group.pattern);
    } catch (const std::regex_error&) {
        reject(group.pattern, "a regular expression");
    }
    for (std::size_t begin = colon + 1; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string entry = text.substr(begin, end - begin);
        const std::size_t equals = std::min(entry.find('='), entry.size());
        const std::string name = spelled(entry.substr(0, equals));
        const auto option = std::find_if(rule.options.begin(), rule.options.end(),
                                         [&](const RuleInfo::Option& o) { return o.name == name; });
        if (equals == entry.size() || (name != "lr" && name != "weight_decay" && option == rule.options.end()))
            reject(entry, cat("NAME=X with ", names_text(rule)));
        const rules::Range range = option == rule.options.end() ? rules::Range::not_negative : option->range;
        if (!group.numbers.emplace(name, number(entry.substr(equals + 1), cat("a number as ", name), range, reject))
                 .second)
            reject(entry, cat(name, " once"));
        begin = end + 1;
    }
    return group;
}

// The names of a parameter that the expression of a group finds, or those that it does not find.
std::vector<std::string> matched_names(const ParameterSpec& parameter, const ParameterGroup& group, bool matched) {
    const std::regex expression(group.pattern);
    std::vector<std::string> names;
    const auto add = [&](std::string_view name) {
        if (std::regex_search(name.begin(), name.end(), expression) == matched) names.emplace_back(name);
    };
    add(parameter.name);
    for (const std::string_view alias : parameter.aliases) add(alias);
    return names;
}

double chosen(const ParameterGroup& group, const std::string& name, double otherwise) {
    const auto given = group.numbers.find(name);
    return given == group.numbers.end() ? otherwise : given->second;
}

// Weight decay that a group names is for all that is in it.
bool decays(const Options& options, int group, const ParameterSpec& parameter) {
    if (group >= 0 && options.groups[static_cast<std::size_t>(group)].numbers.contains("weight_decay")) return true;
    return options.decay == Decay::all || parameter.shape.size() >= 2;
}

}  // namespace

rules::Stepped stepped_as(const ProgramSpec& program, const Options& options, int group,
                          const ParameterSpec& parameter) {
    const RuleInfo& rule = rule_of(program);
    const rules::Stepped usual = rule.stepped(parameter.shape.size());
    if (!rule.steps_matrices() || usual != rules::Stepped::matrix) return usual;
    if (group >= 0) {
        const auto& numbers = options.groups[static_cast<std::size_t>(group)].numbers;
        if (const auto given = numbers.find(rule.by_element); given != numbers.end())
            return given->second == 0 ? usual : rules::Stepped::by_element;
    }
    for (std::size_t k = 0; k < rule.options.size(); ++k)
        if (rule.options[k].name == rule.by_element && k < options.rule.size() && options.rule[k] != 0)
            return rules::Stepped::by_element;
    const auto& outer = program.outer_matrices;
    return std::find(outer.begin(), outer.end(), parameter.name) == outer.end() ? usual : rules::Stepped::by_element;
}

std::vector<ParameterGroup> parse_groups(const std::string& text, const RuleInfo& rule, const Reject& reject) {
    std::vector<ParameterGroup> groups;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(';', begin), text.size());
        groups.push_back(parse_group(text.substr(begin, end - begin), rule, reject));
        begin = end + 1;
    }
    return groups;
}

std::string groups_text(const std::vector<ParameterGroup>& groups) {
    std::string text;
    for (const ParameterGroup& group : groups) {
        text += cat(text.empty() ? "" : ";", group.pattern, ":");
        bool first = true;
        for (const auto& [name, value] : group.numbers) {
            text += cat(first ? "" : ",", name, "=", value);
            first = false;
        }
    }
    return text.empty() ? "none" : text;
}

int group_of(const std::vector<ParameterGroup>& groups, const ParameterSpec& parameter) {
    for (std::size_t k = 0; k < groups.size(); ++k)
        if (!matched_names(parameter, groups[k], true).empty()) return static_cast<int>(k);
    return -1;
}

std::vector<std::vector<double>> numbers_of_groups(const RuleInfo& rule, const Options& o, std::int64_t step,
                                                   std::int64_t skipped) {
    const auto number = static_cast<double>(step + 1 - skipped);
    std::vector<std::vector<double>> all = {
        rule.step_numbers(o.rule, {learning_rate(o, step), o.weight_decay, number})};
    for (const ParameterGroup& group : o.groups) {
        std::vector<double> options = o.rule;
        for (std::size_t k = 0; k < options.size(); ++k) options[k] = chosen(group, rule.options[k].name, options[k]);
        all.push_back(rule.step_numbers(options, {learning_rate(o, step, chosen(group, "lr", o.lr)),
                                                  chosen(group, "weight_decay", o.weight_decay), number}));
    }
    return all;
}

std::vector<ParameterSegment> segments_of(const ProgramSpec& program, const Options& options, int rank) {
    std::vector<ParameterSegment> segments;
    const RuleInfo& rule = rule_of(program);
    for (const OptimizerStates::OfParameter& of : states_of(program, options, rank).parameters) {
        const ParameterSpec& parameter = *of.parameter;
        const Piece& piece = of.piece;
        if (piece.count == 0) continue;
        const int group = group_of(options.groups, parameter);
        segments.push_back({piece.at, piece.at + piece.count, decays(options, group, parameter), group + 1});
        if (of.stepped == rules::Stepped::matrix) {
            segments.back().rows = parameter.shape[parameter.shape.size() - 2];
            segments.back().columns = parameter.shape.back();
        } else if (of.stepped == rules::Stepped::vector) {
            segments.back().columns = piece.count;
        }
        // The program gives the optimizer each state where its first begins, if all are laid out like what trains.
        const auto width = static_cast<std::int64_t>(size_of(program.optimizer_dtype));
        const bool alike = rule.states_as_parameters() && !program.coded_states;
        ParameterSegment& segment = segments.back();
        segment.coded = of.coded;
        for (std::size_t k = 0; k < rule.states.size(); ++k) {
            segment.codes[k] = of.coded ? of.begins[k] : 0;
            segment.scales[k] = of.coded ? of.scales[k] / 4 : 0;
            if (!of.coded)
                segment.shift[k] = of.begins[k] / width - piece.at -
                                   (alike ? static_cast<std::int64_t>(k) * trained_elements(program) : 0);
        }
        if (!options.stochastic_rounding) continue;
        segments.back().tensor = hash_text(parameter.name);
        segments.back().first = piece.first;
    }
    const auto kind = [](const ParameterSegment& s) { return s.is_whole() ? 2 : s.coded ? 1 : 0; };
    std::sort(segments.begin(), segments.end(), [&](const ParameterSegment& a, const ParameterSegment& b) {
        return std::pair(kind(a), a.begin) < std::pair(kind(b), b.begin);
    });
    std::vector<ParameterSegment> joined;
    for (const ParameterSegment& s : segments) {
        if (!joined.empty() && joined.back().end == s.begin && joined.back().decay == s.decay &&
            joined.back().group == s.group && joined.back().tensor == s.tensor && kind(joined.back()) == 0 &&
            kind(s) == 0 && std::equal(std::begin(s.shift), std::end(s.shift), joined.back().shift))
            joined.back().end = s.end;
        else
            joined.push_back(s);
    }
    return joined;
}

void check_groups(const ProgramSpec& program, const Options& options) {
    std::vector<bool> filled(options.groups.size());
    std::vector<std::string> others;
    for (const ParameterSpec& parameter : program.parameters) {
        if (!parameter.trainable) continue;
        const int group = group_of(options.groups, parameter);
        if (group < 0)
            others.emplace_back(parameter.name);
        else
            filled[static_cast<std::size_t>(group)] = true;
    }
    const auto empty = std::find(filled.begin(), filled.end(), false);
    if (empty == filled.end()) return;
    fail_usage(cat("--group ", options.groups[static_cast<std::size_t>(empty - filled.begin())].pattern,
                   " matches no parameter of ", program.name, " that trains and is in no group before it"),
               others.empty() ? "all parameters that train are in other groups"
                              : cat("those in no group are ", list_text(others)));
}

std::vector<std::string> describe_groups(const ProgramSpec& program, const Options& options) {
    std::vector<std::string> lines;
    if (rule_of(program).steps_matrices()) {
        std::uint64_t matrices = 0;
        std::vector<std::string> others;
        for (const ParameterSpec& parameter : program.parameters) {
            if (!parameter.trainable) continue;
            if (stepped_as(program, options, group_of(options.groups, parameter), parameter) == rules::Stepped::matrix)
                ++matrices;
            else if (parameter.shape.size() >= 2)
                others.emplace_back(parameter.name);
        }
        lines.push_back(cat(rule_of(program).title, " steps ", matrices == 1 ? "1 matrix" : cat(matrices, " matrices"),
                            "; ", rule_of(program).by_element, " all else",
                            others.empty() ? "" : cat(", of two or more dimensions ", list_text(others))));
    }
    for (std::size_t k = 0; k < options.groups.size(); ++k) {
        const ParameterGroup& group = options.groups[k];
        std::uint64_t tensors = 0, elements = 0;
        std::vector<std::string> tied;
        for (const ParameterSpec& parameter : program.parameters) {
            if (!parameter.trainable || group_of(options.groups, parameter) != static_cast<int>(k)) continue;
            ++tensors;
            elements += parameter.bytes / size_of(parameter.dtype);
            const std::vector<std::string> others = matched_names(parameter, group, false);
            if (!others.empty())
                tied.push_back(cat("note: ", matched_names(parameter, group, true).front(), " is in group ",
                                   group.pattern, ", and so ", others.size() == 1 ? "is " : "are ", list_text(others),
                                   ": they are one tensor"));
        }
        std::string numbers;
        for (const auto& [name, value] : group.numbers) numbers += cat(", ", name, " ", value);
        lines.push_back(cat("group ", group.pattern, ": ", count_text(elements, "parameter"), " in ",
                            count_text(tensors, "tensor"), numbers));
        lines.insert(lines.end(), tied.begin(), tied.end());
    }
    return lines;
}

}  // namespace thunder

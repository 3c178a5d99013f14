// SPDX-License-Identifier: Apache-2.0
// What the exporter's optimizer did to parameters is undone before anything is imported, or said.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <regex>
#include <utility>

#include "compiler/analysis/parameter_names.h"
#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/onnx/restore_recurrent.h"
#include "compiler/frontend/onnx/scopes.h"
#include "compiler/frontend/onnx/split_merged.h"
#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {

void Importer::split_merged_parameters() {
    const std::vector<std::string> names = split_merged(*model_->mutable_graph());
    if (!names.empty())
        report_.done("untied", list_of_names(names), "began with numbers that others have, with which it was merged");
}

void Importer::restore_recurrent_weights() {
    const std::vector<std::string> names = restore_recurrent(*model_->mutable_graph());
    if (!names.empty())
        report_.warning("restored", list_of_names(names),
                        "with the others of its layer, from what the exporter evaluated of them: parameters of a "
                        "recurrent layer. Where a parametrization makes them (weight_norm), the graph does not say so: "
                        "export with do_constant_folding=False");
}

// A parameter that the exporter's optimizer copied for each of its uses is one, or said to be several.
void Importer::tie_copies() {
    tied_ = tie_parameters(*model_->mutable_graph(), traced_,
                           [&](const onnx::TensorProto& tensor) -> std::optional<std::vector<std::byte>> {
                               const std::shared_ptr<const WeightSource> source = reader_.source(tensor);
                               return source->read ? std::optional(source->read()) : std::nullopt;
                           });
    const auto shown = [this](const std::string& name) { return shown_name(name); };
    std::map<std::string, std::vector<std::string>> copies;
    for (const TiedParameters::Tie& tie : tied_.tied) copies[shown(tie.parameter)].push_back(tie.copy);
    for (const auto& [parameter, names] : copies)
        report_.done("tied", parameter, fmt::format("the exporter copied it to {}", fmt::join(names, ", ")));
    for (const TiedParameters::Doubt& doubt : tied_.guessed)
        report_.warning("tied", shown(doubt.parameter),
                        fmt::format("the exporter's optimizer left {} of its numbers, and nothing of {}: the two are "
                                    "taken for one parameter. Where one only began as a copy of the other, export with "
                                    "optimize=False, which tells them apart.",
                                    doubt.copy, shown(doubt.constant)));
    for (const TiedParameters::Tie& tie : tied_.different)
        report_.warning("untied", shown(tie.parameter),
                        fmt::format("the initializer {} stands for it as well, with other numbers: the two are trained "
                                    "apart. Export with optimize=False to keep the parameter.",
                                    tie.copy));
    for (const TiedParameters::Tie& tie : tied_.turned)
        report_.done("transposed", shown(tie.parameter),
                     fmt::format("the model reads {} there, which the exporter merged with it, being equal", tie.copy));
    for (const TiedParameters::Tie& tie : tied_.replaced)
        report_.warning(
            "merged", shown(tie.parameter),
            fmt::format("the exporter's optimizer reads it where the model reads {}, whose numbers were the "
                        "same: gradients pass as if it were the parameter. Export with optimize=False to "
                        "keep them apart.",
                        tie.copy));
    for (const TiedParameters::Doubt& doubt : tied_.doubtful)
        report_.warning("untied", doubt.copy,
                        fmt::format("holds the numbers of {}, and may be {}, which is no parameter and which the "
                                    "exporter evaluated: it is trained apart. Export with optimize=False to keep "
                                    "both.",
                                    shown(doubt.parameter), shown(doubt.constant)));
    for (const TiedParameters::Tie& tie : tied_.ambiguous)
        report_.warning("untied", tie.copy,
                        fmt::format("holds the numbers of {}, and of other parameters that are equal to it: trained "
                                    "apart from each. Export with optimize=False to keep the parameter.",
                                    shown(tie.parameter)));
    for (const TiedParameters::Tie& tie : tied_.alike)
        report_.warning("untied", tie.copy,
                        fmt::format("may be {} in another order: their numbers are all the same, and tell nothing. It "
                                    "is trained apart. Export with optimize=False to keep the parameter.",
                                    shown(tie.parameter)));
    for (const TiedParameters::Tie& tie : tied_.unread)
        report_.warning("untied", tie.copy,
                        fmt::format("may be {} in another order, as of a table that is the head as well: without the "
                                    "weights that cannot be told, and the two are trained apart. Give the weights "
                                    "beside the graph, or export with optimize=False to keep the parameter.",
                                    shown(tie.parameter)));
}

// What the exporter's optimizer lost is put back, or said: a program without it would train another model.
void Importer::restore_lost() {
    restored_ = restore_parameters(*model_->mutable_graph(), traced_, tied_.unmatched);
    if (!restored_.restored.empty())
        report_.done("restored", shown_names(restored_.restored),
                     "zeros that the exporter's optimizer dropped; the traced calls that were made of them name them");
    if (!restored_.assumed.empty())
        report_.warning("restored", shown_names(restored_.assumed),
                        "the exporter's optimizer dropped it, being zeros. It is put back with a number for each "
                        "output; where it is a single number, export with optimize=False.");
    if (!restored_.unused.empty()) report_.done("unused", shown_names(restored_.unused), "the model does not read it");
    if (!restored_.lost.empty())
        report_.warning("lost parameters", shown_names(restored_.lost),
                        "the exporter's optimizer evaluated them, folded them into others or dropped them: the program "
                        "does not train them as the model does. Export with optimize=False to keep them.");
    const bool merged = warn_of_merged();
    if (!restored_.unread.empty() && !merged)
        report_.warning(
            "unread parameters", shown_names(restored_.unread),
            restored_.unexplained.empty()
                ? "no operator that is left reads them, so they are not trained: the model does not use "
                  "them, or the exporter's optimizer evaluated or dropped what did. Export with "
                  "optimize=False to tell."
                : fmt::format("no operator that is left reads them under these names. What the graph calls "
                              "{} may be one of them in another order, or rows of one: then it is "
                              "trained, under that name. Else the model does not use them, or the exporter's optimizer "
                              "evaluated or dropped what did, and they are not trained. Export with "
                              "optimize=False to tell.",
                              list_of_names(restored_.unexplained)));
    if (!restored_.rearranged.empty())
        report_.warning("rearranged", shown_names(restored_.rearranged),
                        "the graph has its numbers as the exporter arranged them for the call. Loading and saving them "
                        "under the checkpoint's name would be wrong. Export with optimize=False to keep the "
                        "parameter.");
}

// Whether it is said that all parameters which no operator reads are gone since something else stands for what they
// made.
bool Importer::warn_of_merged() {
    const MergedValues& merged = restored_.merged;
    const bool certain = !merged.certain.empty();
    const std::vector<MergedValues::Merged>& values = certain ? merged.certain : merged.possible;
    std::vector<std::string> gone = merged.gone;
    if (certain) gone.insert(gone.end(), restored_.unread.begin(), restored_.unread.end());
    if (values.empty() || gone.empty()) return false;
    for (const MergedValues::Merged& value : merged.certain) said_merged_.insert(value.value);
    const std::string scope = shown_name(values.front().scope);
    const char* them = gone.size() == 1 ? "it" : "them";
    report_.warning(
        "merged", shown_names(gone),
        fmt::format(
            "no operator that is left reads {}: the model does not use {}, or the exporter's optimizer put {}{} in "
            "the place of what was made of {}, having the same numbers. Then the two are one value here, and train "
            "as one. Export with optimize=False to keep them apart.",
            them, them, values.front().instead, scope.empty() ? "" : " of " + scope, them));
    return certain;
}

// Parameters that --freeze and --train-only leave untrained.
std::set<std::string> Importer::frozen_parameters() const {
    std::set<std::string> out;
    try {
        const std::regex freeze(options_.freeze), only(options_.train_only);
        for (const std::string& name : traced_.parameters()) {
            const std::string shown = shown_name(name);
            if ((!options_.freeze.empty() && std::regex_search(shown, freeze)) ||
                (!options_.train_only.empty() && !std::regex_search(shown, only)))
                out.insert(name);
        }
    } catch (const std::regex_error&) {
        return {};  // said by whoever takes it
    }
    return out;
}

// An expression of the command line that means parameters of the model, none of which the exporter's optimizer left,
// would be said to match nothing, and lists of names would be no help. One that matches something else is not judged
// here: which initializers are parameters is not decided yet.
void Importer::refuse_lost_names() const {
    constexpr std::size_t shown_kinds = 8;
    std::set<std::string> gone(restored_.lost.begin(), restored_.lost.end());
    gone.insert(restored_.unread.begin(), restored_.unread.end());
    const std::set<std::string> unused(restored_.unused.begin(), restored_.unused.end());
    std::vector<std::pair<const char*, std::string>> given = {{"--freeze", options_.freeze},
                                                              {"--train-only", options_.train_only}};
    for (const std::string& pattern : options_.trainable) given.emplace_back("--trainable", pattern);
    for (const std::string& pattern : options_.constant) given.emplace_back("--constant", pattern);
    for (const auto& [flag, pattern] : given) {
        if (pattern.empty()) continue;
        std::regex expression;
        try {
            expression = pattern;
        } catch (const std::regex_error&) {
            continue;  // said by whoever takes it
        }
        const auto matches = [&](const std::string& name) { return std::regex_search(shown_name(name), expression); };
        std::vector<std::string> lost, idle;
        bool others = false;
        for (const std::string& name : traced_.parameters()) {
            if (!matches(name)) continue;
            if (gone.contains(name))
                lost.push_back(shown_name(name));
            else if (unused.contains(name))
                idle.push_back(shown_name(name));
            else
                others = true;
        }
        for (const auto& tensor : model_->graph().initializer()) others = others || matches(tensor.name());
        if (others || (lost.empty() && idle.empty())) continue;
        Diagnostic d;
        d.message = fmt::format("{} {} matches no parameter that the graph has", flag, pattern);
        d.actual = lost.empty()
                       ? fmt::format("{} of the model, which it does not use", list_of_names(idle, shown_kinds))
                       : fmt::format("{} of the model, which the exporter's optimizer merged, folded or dropped",
                                     list_of_names(lost, shown_kinds));
        d.help = lost.empty() ? "choose other parameters: thunderc inspect lists those that the model uses"
                              : "torch.onnx.export(..., optimize=False) keeps every parameter under its name";
        throw UsageError(std::move(d));
    }
}

// A name of the model as it is without its wrapper.
std::string Importer::shown_name(const std::string& name) const {
    const std::string prefix = wrapper_prefix(model_->graph());
    return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

std::string Importer::shown_names(const std::vector<std::string>& names) const {
    std::vector<std::string> shown;
    for (const std::string& name : names) shown.push_back(shown_name(name));
    return list_of_names(shown);
}

}  // namespace thunderc::onnx_frontend

// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/parameter_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "compiler/ir/module.h"

namespace thunderc {
namespace {

bool is_number(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// In the order of the first of each.
std::vector<std::vector<std::string>> kinds_of(const std::vector<std::string>& names) {
    std::vector<std::vector<std::string>> kinds;
    std::map<std::string, std::size_t> by_kind;
    for (const std::string& name : names) {
        const auto [at, is_new] = by_kind.try_emplace(without_numbers(name), kinds.size());
        if (is_new) kinds.emplace_back();
        kinds[at->second].push_back(name);
    }
    return kinds;
}

}  // namespace

bool is_dotted(const std::string& name) {
    return name.find('.') != std::string::npos && name.find('/') == std::string::npos &&
           name.find(':') == std::string::npos;
}

std::string parent(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

std::string leaf(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? name : name.substr(dot + 1);
}

bool within(const std::string& scope, const std::string& outer) {
    return outer.empty() || scope == outer || scope.starts_with(outer + ".");
}

bool mentions(std::string text, std::string_view word) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text.find(word) != std::string::npos;
}

std::string layer_scope(const std::string& scope) {
    for (std::size_t begin = 0; begin < scope.size();) {
        std::size_t end = std::min(scope.find('.', begin), scope.size());
        if (begin > 0 && is_number(std::string_view(scope).substr(begin, end - begin))) return scope.substr(0, end);
        begin = end + 1;
    }
    return "";
}

bool buffer_name(const std::string& name) {
    static const std::set<std::string> names = {
        "inv_freq",     "original_inv_freq",  "cos_cached", "sin_cached",  "cos",       "sin",          "freqs_cis",
        "embed_scale",  "masked_bias",        "mask",       "causal_mask", "attn_mask", "running_mean", "running_var",
        "position_ids", "num_batches_tracked"};
    return names.contains(leaf(name));
}

bool parameter_name(const std::string& name) {
    static const std::set<std::string> names = {"weight", "bias", "gamma", "beta"};
    return names.contains(leaf(name));
}

bool torchs_parameter_name(const std::string& name) {
    static const std::set<std::string> names = {"in_proj_weight", "in_proj_bias",  "q_proj_weight",
                                                "k_proj_weight",  "v_proj_weight", "bias_k",
                                                "bias_v",         "weight_g",      "weight_v"};
    static const std::set<std::string> beginnings = {"weight_ih", "weight_hh", "weight_hr", "bias_ih", "bias_hh"};
    const std::string last = leaf(name);
    return parameter_name(name) || names.contains(last) || leaf(parent(parent(name))) == "parametrizations" ||
           std::any_of(beginnings.begin(), beginnings.end(), [&](const std::string& b) { return last.starts_with(b); });
}

bool exporters_name(const std::string& name) {
    return name.empty() || name.find(':') != std::string::npos || name.find('/') != std::string::npos ||
           std::isdigit(static_cast<unsigned char>(name.back())) != 0;
}

bool given_name(const std::string& name) {
    return name.find_first_of("/:") == std::string::npos && !name.empty() && !is_number(name);
}

std::string folded_op(const std::string& name) {
    if (name.find(':') != std::string::npos) return "";
    std::string text = name.substr(0, name.find_last_not_of("0123456789") + 1);
    while (!text.empty() && text.back() == '_') text.pop_back();
    return text == "val" ? "" : text;
}

std::string without_numbers(const std::string& name) {
    std::string out;
    for (char c : name)
        if (std::isdigit(static_cast<unsigned char>(c)) == 0) out += c;
    return out;
}

std::vector<std::string> name_patterns(const std::vector<std::string>& names) {
    std::vector<std::string> patterns;
    for (const std::vector<std::string>& kind : kinds_of(names)) patterns.push_back(name_pattern(kind));
    return patterns;
}

std::string list_of_names(const std::vector<std::string>& names, std::size_t most) {
    std::vector<std::string> shown;
    std::size_t left = names.size();
    for (const std::vector<std::string>& kind : kinds_of(names)) {
        if (shown.size() == most) break;
        shown.push_back(name_pattern(kind));
        left -= kind.size();
    }
    const std::string text = fmt::format("{}", fmt::join(shown, ", "));
    return left == 0 ? text : fmt::format("{} and {} more", text, left);
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/precision/exempt_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <utility>
#include <vector>

#include "compiler/ops/linear.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

constexpr const char* mark = "exempt";

[[noreturn]] void refuse(std::string message, std::string help) {
    Diagnostic d;
    d.message = std::move(message);
    d.help = std::move(help);
    throw UsageError(std::move(d));
}

std::optional<std::int64_t> number(std::string_view text) {
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc() || end != text.data() + text.size() || n < 0) return std::nullopt;
    return n;
}

// "model.layers.3.mlp.up_proj" of its adapter "base_model.model.model.layers.3.mlp.up_proj.lora_A".
std::string base_of(std::string module) {
    constexpr std::string_view wrapper = "base_model.model.";
    if (module.starts_with(wrapper)) module.erase(0, wrapper.size());
    return module.substr(0, module.find(".lora_"));
}

// The numbers that stacks have, by what stands before them.
using Stacks = std::map<std::string, std::set<std::int64_t>>;

// Which one of a stack's layers it is, and how many there are: of the first stack that has three or more, since a
// Sequential within a layer has numbers too; else of the largest.
std::optional<std::pair<std::int64_t, std::int64_t>> place_in(const Stacks& stacks, const std::string& module) {
    const std::set<std::int64_t>* of = nullptr;
    std::int64_t at = 0;
    for (const auto& [stack, n] : numbers_of(module)) {
        const std::set<std::int64_t>& all = stacks.at(stack);
        if (of != nullptr && (of->size() >= 3 || all.size() <= of->size())) continue;
        of = &all;
        at = std::distance(all.begin(), all.find(n));
    }
    if (of == nullptr) return std::nullopt;
    return std::make_pair(at, static_cast<std::int64_t>(of->size()));
}

struct Layer {
    Op* op;
    std::string module;
};

// The products of main: by their weights, where these are parameters of their own, else by where they stand.
std::vector<Layer> linear_layers(Function& main) {
    std::map<Value, std::string> modules;
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const ArgInfo& info = main.argument_info[k];
        if (info.kind != ArgInfo::Kind::parameter || info.names.size() != 1) continue;
        std::string module = info.names.front();
        if (module.ends_with(".weight")) module.resize(module.rfind('.'));
        modules[main.arguments[k]] = std::move(module);
    }
    std::vector<Layer> out;
    for (Op& op : main.ops) {
        if (op.name != "linear" || linear_products(op.operands.size()) != 1) continue;
        const auto at = modules.find(op.operands[linear_weight(0)]);
        const std::string& module = at != modules.end() ? at->second : op.provenance.scope;
        if (!module.empty()) out.push_back({&op, module});
    }
    return out;
}

}  // namespace

std::vector<std::pair<std::string, std::int64_t>> numbers_of(const std::string& module) {
    std::vector<std::pair<std::string, std::int64_t>> out;
    for (std::size_t begin = 0; begin < module.size();) {
        const std::size_t end = std::min(module.find('.', begin), module.size());
        const std::size_t underscore = module.rfind('_', end - 1);
        const std::size_t from = underscore != std::string::npos && underscore >= begin ? underscore + 1 : begin;
        if (const std::optional<std::int64_t> n = number(std::string_view(module).substr(from, end - from)))
            out.emplace_back(module.substr(0, from), *n);
        begin = end + 1;
    }
    return out;
}

Fp8Skip parse_fp8_skip(const std::string& text) {
    Fp8Skip out;
    std::string rest = text;
    const std::string example = "for example: --fp8-skip 'mlp\\.down_proj$', or first=1,last=2";
    while (rest.starts_with("first=") || rest.starts_with("last=")) {
        std::int64_t& count = rest.starts_with("first=") ? out.first : out.last;
        const std::size_t equals = rest.find('='), comma = std::min(rest.find(','), rest.size());
        const std::optional<std::int64_t> n = number(std::string_view(rest).substr(equals + 1, comma - equals - 1));
        if (!n || *n == 0)
            refuse(fmt::format("--fp8-skip \"{}\": {} is no number of layers", text, rest.substr(0, comma)),
                   "for example: --fp8-skip first=1,last=2");
        if (count != 0)
            refuse(fmt::format("--fp8-skip \"{}\" says {} twice", text, rest.substr(0, equals)), "leave one out");
        count = *n;
        rest.erase(0, std::min(comma + 1, rest.size()));
    }
    // No name of a module begins so: a slip of what stands before the expression.
    if (std::regex_search(rest, std::regex("^(\\s|\\w+=\\d)")))
        refuse(fmt::format("--fp8-skip \"{}\": \"{}\" is neither first=N nor last=N", text, rest), example);
    out.modules = rest;
    try {
        std::regex checked(out.modules);
    } catch (const std::regex_error&) {
        refuse(fmt::format("--fp8-skip \"{}\" is not a regular expression", out.modules), example);
    }
    return out;
}

Module exempt_layers(Module module, const std::string& skip, Report& report) {
    const Fp8Skip asked = parse_fp8_skip(skip);
    const std::regex named(asked.modules);
    const std::vector<Layer> layers = linear_layers(module.main());
    Stacks stacks;
    for (const Layer& layer : layers)
        for (const auto& [stack, n] : numbers_of(base_of(layer.module))) stacks[stack].insert(n);
    bool by_first = asked.first == 0, by_last = asked.last == 0, by_name = asked.modules.empty();  // or have been asked
    for (const Layer& layer : layers) {
        const std::string base = base_of(layer.module);
        const bool is_named =
            !asked.modules.empty() && (std::regex_search(layer.module, named) || std::regex_search(base, named));
        bool is_first = false, is_last = false;
        if (const auto place = place_in(stacks, base)) {
            is_first = place->first < asked.first;
            is_last = place->first >= place->second - asked.last;
        }
        by_first = by_first || is_first;
        by_last = by_last || is_last;
        by_name = by_name || is_named;
        if (!is_first && !is_last && !is_named) continue;
        layer.op->attributes.set(mark, true);
        report.done("exempt_layers", layer.module, "stays in bf16: --fp8-skip names it");
    }
    const std::string nothing = !by_name    ? asked.modules
                                : !by_first ? fmt::format("first={}", asked.first)
                                : !by_last  ? fmt::format("last={}", asked.last)
                                            : "";
    if (!nothing.empty()) {
        Diagnostic d;
        d.message = fmt::format("--fp8-skip: '{}' names no linear layer", nothing);
        d.help = "thunderc inspect lists the modules; for example: --fp8-skip 'mlp\\.down_proj$', or first=1,last=2";
        throw UserError(std::move(d));
    }
    return module;
}

bool is_exempt(const Op& linear) {
    return linear.attributes.boolean(mark, false);
}

void forget_exempt(Module& module) {
    for (Function& f : module.functions)
        for (Op& op : f.ops)
            if (op.name == "linear") op.attributes.erase(mark);
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/precision/exempt_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <regex>
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

// "model.layers." and 3 of "model.layers.3.mlp.up_proj".
std::optional<std::pair<std::string, std::int64_t>> place_in_stack(const std::string& module) {
    for (std::size_t begin = 0; begin < module.size();) {
        const std::size_t end = std::min(module.find('.', begin), module.size());
        if (const std::optional<std::int64_t> n = number(std::string_view(module).substr(begin, end - begin)))
            return std::make_pair(module.substr(0, begin), *n);
        begin = end + 1;
    }
    return std::nullopt;
}

struct Layer {
    Op* op;
    std::string module;
};

// The products of main whose weights are parameters of their own.
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
    for (Op& op : main.ops)
        if (op.name == "linear" && linear_products(op.operands.size()) == 1)
            if (const auto at = modules.find(op.operands[linear_weight(0)]); at != modules.end())
                out.push_back({&op, at->second});
    return out;
}

}  // namespace

Fp8Skip parse_fp8_skip(const std::string& text) {
    Fp8Skip out;
    std::string rest = text;
    while (rest.starts_with("first=") || rest.starts_with("last=")) {
        const std::size_t equals = rest.find('='), comma = std::min(rest.find(','), rest.size());
        const std::optional<std::int64_t> n = number(std::string_view(rest).substr(equals + 1, comma - equals - 1));
        if (!n || *n == 0)
            refuse(fmt::format("--fp8-skip \"{}\": {} is no number of layers", text, rest.substr(0, comma)),
                   "for example: --fp8-skip first=1,last=2");
        (rest.starts_with("first=") ? out.first : out.last) = *n;
        rest.erase(0, std::min(comma + 1, rest.size()));
    }
    out.modules = rest;
    try {
        std::regex checked(out.modules);
    } catch (const std::regex_error&) {
        refuse(fmt::format("--fp8-skip \"{}\" is not a regular expression", out.modules),
               "for example: --fp8-skip 'mlp\\.down_proj$', or first=1,last=2");
    }
    return out;
}

Module exempt_layers(Module module, const std::string& skip, Report& report) {
    const Fp8Skip asked = parse_fp8_skip(skip);
    const std::regex named(asked.modules);
    const std::vector<Layer> layers = linear_layers(module.main());
    std::map<std::string, std::int64_t> stacks;  // how many layers each has
    for (const Layer& layer : layers)
        if (const auto place = place_in_stack(layer.module))
            stacks[place->first] = std::max(stacks[place->first], place->second + 1);
    bool any = false;
    for (const Layer& layer : layers) {
        bool exempt = !asked.modules.empty() && std::regex_search(layer.module, named);
        if (const auto place = place_in_stack(layer.module)) {
            const auto& [stack, at] = *place;
            exempt = exempt || at < asked.first || at >= stacks[stack] - asked.last;
        }
        if (!exempt) continue;
        layer.op->attributes.set(mark, true);
        report.done("exempt_layers", layer.module, "stays in bf16: --fp8-skip names it");
        any = true;
    }
    if (!any) {
        Diagnostic d;
        d.message = fmt::format("--fp8-skip: '{}' names no linear layer", skip);
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

// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/result_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"

namespace thunderc {
namespace {

// The noun of a primitive's result; "" of what is no primitive's name.
std::string noun_of(const std::string& op) {
    const OpDef* def = find_op(op);
    if (def == nullptr || def->level != OpLevel::primitive) return {};
    return def->result_names.size() == 1 ? def->result_names[0] : op;
}

const std::set<std::string>& nouns() {
    static const std::set<std::string> all = [] {
        std::set<std::string> out;
        for (const OpDef* def : all_ops())
            if (const std::string noun = noun_of(def->name); !noun.empty()) out.insert(noun);
        return out;
    }();
    return all;
}

bool names_op(const std::string& name) {
    return find_op(name) != nullptr || nouns().contains(name);
}

bool takes(std::string_view& text, std::string_view what) {
    if (!text.starts_with(what)) return false;
    text.remove_prefix(what.size());
    return true;
}

// "_2", taken from the front; 0 where none is there.
std::int64_t take_number(std::string_view& text) {
    std::int64_t number = 0;
    if (!text.starts_with('_')) return 0;
    const char* begin = text.data() + 1;
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
    if (error != std::errc() || number < 0) return 0;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

// "_part", "_terms", "_part_terms", perhaps with a number behind each.
bool is_role(std::string_view text) {
    bool any = false;
    while (takes(text, "_part") || takes(text, "_terms")) {
        any = true;
        take_number(text);
    }
    return any && text.empty();
}

std::optional<NameOfOp> parsed(const std::string& name, bool cotangent) {
    for (std::size_t end = name.size(); end > 0; end = name.rfind('_', end - 1)) {
        if (end == std::string::npos) break;
        std::string_view rest = std::string_view(name).substr(end);
        const std::int64_t number = take_number(rest);
        if (!rest.empty() && !(cotangent && is_role(rest))) continue;
        if (std::string op = name.substr(0, end); names_op(op))
            return NameOfOp{cotangent, std::move(op), number, std::string(rest)};
    }
    return std::nullopt;
}

// Gives names to the values that the visit comes to, in its order.
class Numbering {
  public:
    explicit Numbering(Function& function) : function_(function), before_(function.values.size()) {
        for (std::size_t k = 0; k < before_.size(); ++k) {
            before_[k] = function.values[k].name;
            known_.insert(before_[k]);
        }
    }

    void give(Value v) {
        if (!v) return;
        std::string& name = function_.info(v).name;
        if (used_.insert(name).second) return;
        const std::string wanted = name;
        int& number = next_.try_emplace(wanted, 2).first->second;
        do name = fmt::format("{}_{}", wanted, number++);
        while (known_.contains(name) || !used_.insert(name).second);
    }
    void give(const Op& op) {
        const Value whole = is_view(op) ? op.operands[0] : Value{};
        if (whole && before_[whole.index] == before_[op.results[0].index] &&
            function_.type(whole).elements() == function_.type(op.results[0]).elements()) {
            function_.info(op.results[0]).name = function_.info(whole).name;
            return;
        }
        for (Value v : op.results) give(v);
    }

  private:
    Function& function_;
    std::vector<std::string> before_;
    std::set<std::string> known_, used_;
    std::map<std::string, int> next_;
};

}  // namespace

std::string NameOfOp::noun() const {
    const std::string of_primitive = noun_of(op);
    return of_primitive.empty() ? op : of_primitive;
}

std::string NameOfOp::text() const {
    return fmt::format("{}{}{}{}", cotangent ? "d" : "", noun(), number == 0 ? "" : fmt::format("_{}", number), role);
}

std::optional<NameOfOp> name_of_op(const std::string& name) {
    if (std::optional<NameOfOp> own = parsed(name, false)) return own;
    return name.starts_with("d") ? parsed(name.substr(1), true) : std::nullopt;
}

std::string noun_of_result(const std::string& name) {
    const std::optional<NameOfOp> of = name_of_op(name);
    return of ? of->text() : name;
}

bool is_named_after_op(const std::string& name) {
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0 || name_of_op(name)) return true;
    const std::size_t role = std::min(name.find("_part"), name.find("_terms"));
    return name.starts_with("d") && role != std::string::npos && is_role(std::string_view(name).substr(role));
}

std::string without_index(std::string scope) {
    while (!scope.empty()) {
        const std::size_t dot = scope.rfind('.');
        const std::size_t begin = dot == std::string::npos ? 0 : dot + 1;
        if (begin < scope.size() && std::isalpha(static_cast<unsigned char>(scope[begin])) != 0) break;
        scope.resize(dot == std::string::npos ? 0 : dot);
    }
    return scope;
}

std::string snake_words(std::string_view text) {
    std::string out;
    for (char c : text) {
        const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
        if (letter) {
            out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        } else if (!out.empty() && out.back() != '_') {
            out += '_';
        }
    }
    while (!out.empty() && out.back() == '_') out.pop_back();
    return out;
}

void name_after_modules(Function& function, std::size_t first) {
    // "basins_0" of "model.basins.0", "layers" of "model.layers.{0..3}", which is all of them; "" where it would be no
    // name.
    const auto module_of = [](const Op& op) -> std::string {
        const std::string& scope = op.provenance.scope;
        const std::string module = scope.substr(without_index(scope).rfind('.') + 1);
        std::string words = snake_words(module.substr(0, module.find('{')));
        return words.empty() || std::isalpha(static_cast<unsigned char>(words[0])) == 0 ? "" : words;
    };
    // The noun of a primitive's only result; "" of what has another name.
    const auto noun = [&](const Op& op) -> std::string {
        if (op.results.size() != 1 || !op.results[0] || is_view(op) || is_constant_op(op)) return {};
        const std::optional<NameOfOp> of = name_of_op(function.info(op.results[0]).name);
        return of && !of->cotangent && of->role.empty() ? noun_of(of->op) : "";
    };
    std::map<std::string, std::set<std::string>> modules;  // by noun
    for (const Op& op : function.ops)
        if (const std::string name = noun(op), module = module_of(op); !name.empty() && !module.empty())
            modules[name].insert(module);
    std::map<Value, std::string> before;
    for (std::size_t k = first; k < function.ops.size(); ++k) {
        const Op& op = function.ops[k];
        if (is_view(op)) {  // all of a tensor, seen with other dimensions, keeps its name
            const auto whole = before.find(op.operands[0]);
            std::string& own = function.info(op.results[0]).name;
            if (whole == before.end() || whole->second != own) continue;
            before[op.results[0]] = own;
            own = function.info(op.operands[0]).name;
            continue;
        }
        const std::string name = noun(op), module = module_of(op);
        if (name.empty() || module.empty() || modules[name].size() < 2) continue;
        std::string& own = function.info(op.results[0]).name;
        before[op.results[0]] = std::exchange(own, module + "_" + name);
    }
}

std::string_view without_number(std::string_view name) {
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    return digits < name.size() && digits > 1 && name[digits - 1] == '_' ? name.substr(0, digits - 1) : name;
}

void number_names(Function& function, std::span<const Value> first) {
    Numbering numbering(function);
    for (Value v : first) numbering.give(v);
    for (Value v : function.arguments) numbering.give(v);
    for (const Op& op : function.ops) numbering.give(op);
}

void number_names_of_ops(Function& function, const std::function<bool(Value)>& later) {
    Numbering numbering(function);
    for (Value v : function.arguments) numbering.give(v);
    for (bool second : {false, true})
        for (const Op& op : function.ops) {
            if (op.results.empty() || !op.results[0] || later(op.results[0]) != second) continue;
            const std::optional<NameOfOp> of = name_of_op(function.info(op.results[0]).name);
            if (of && !noun_of(of->op).empty()) numbering.give(op);
        }
}

}  // namespace thunderc

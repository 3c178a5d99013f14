// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/result_names.h"

#include <cctype>
#include <set>

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

}  // namespace

std::string noun_of_result(const std::string& name) {
    if (std::string noun = noun_of(name); !noun.empty()) return noun;
    if (name.starts_with("d"))
        if (const std::string noun = noun_of(name.substr(1)); !noun.empty()) return "d" + noun;
    return name;
}

bool is_named_after_op(const std::string& name) {
    const bool number = !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) != 0;
    return name.empty() || number || names_op(name) || (name.starts_with("d") && names_op(name.substr(1)));
}

std::string_view without_number(std::string_view name) {
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    return digits < name.size() && digits > 1 && name[digits - 1] == '_' ? name.substr(0, digits - 1) : name;
}

}  // namespace thunderc

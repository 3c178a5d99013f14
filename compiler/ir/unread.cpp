// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/unread.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

struct Site {
    Function* caller;
    Op* op;
};

// Where a function is called, in any function of the module.
std::vector<Site> sites_of(Module& module, const std::string& name) {
    std::vector<Site> sites;
    for (Function& f : module.functions)
        for (Op& op : f.ops)
            if (runs_function(op) && called_function(op) == name) sites.push_back({&f, &op});
    return sites;
}

std::size_t carried(const Op& op) {
    return is_loop(op) ? loop_carried(op) : 0;
}

template <typename T>
void erase_at(std::vector<T>& of, std::size_t k) {
    of.erase(of.begin() + static_cast<std::ptrdiff_t>(k));
}

void leave_out_results(Function& f, const std::vector<Site>& sites) {
    std::vector<bool> read(f.results.size(), false);
    for (const Site& site : sites) {
        const Uses uses(*site.caller);
        for (std::size_t r = 0; r < site.op->results.size(); ++r) {
            const Value v = site.op->results[r];
            read[r] = read[r] || r < carried(*site.op) || !uses.users[v.index].empty() || uses.is_result[v.index];
        }
    }
    for (std::size_t r = f.results.size(); r-- > 0;) {
        if (read[r]) continue;
        erase_at(f.results, r);
        if (!f.result_names.empty()) erase_at(f.result_names, r);
        for (const Site& site : sites) erase_at(site.op->results, r);
    }
    remove_dead_code(f);
    for (const Site& site : sites) compact_values(*site.caller);
}

void leave_out_arguments(Function& f, const std::vector<Site>& sites) {
    const Uses uses(f);
    std::size_t handed_on = 0;
    for (const Site& site : sites) handed_on = std::max(handed_on, carried(*site.op));
    for (std::size_t k = f.arguments.size(); k-- > handed_on;) {
        const Value v = f.arguments[k];
        if (!uses.users[v.index].empty() || uses.is_result[v.index]) continue;
        erase_at(f.arguments, k);
        if (!f.argument_info.empty()) erase_at(f.argument_info, k);
        for (const Site& site : sites) {
            Op& op = *site.op;
            if (is_loop(op) && k < loop_carried(op) + loop_per_layer(op))
                op.attributes.set("per_layer", static_cast<std::int64_t>(loop_per_layer(op)) - 1);
            erase_at(op.operands, k);
        }
    }
    compact_values(f);
}

void visit_callees(const Module& module, const Function& f, std::set<std::string>& seen,
                   std::vector<std::string>& out) {
    if (!seen.insert(f.name).second) return;
    for (const Op& op : f.ops)
        if (runs_function(op)) visit_callees(module, *module.find(called_function(op)), seen, out);
    out.push_back(f.name);
}

}  // namespace

void leave_out_unread_results(Module& module, std::span<const std::string> functions) {
    if (functions.empty()) return;
    for (std::size_t k = functions.size() - 1; k-- > 0;)
        leave_out_results(*module.find(functions[k]), sites_of(module, functions[k]));
}

void leave_out_unread_arguments(Module& module, std::span<const std::string> functions) {
    for (const std::string& name : functions) {
        Function& f = *module.find(name);
        remove_dead_code(f);
        leave_out_arguments(f, sites_of(module, name));
    }
}

std::vector<std::string> callees_first(const Module& module, const Function& entry) {
    std::set<std::string> seen;
    std::vector<std::string> out;
    visit_callees(module, entry, seen, out);
    return out;
}

}  // namespace thunderc

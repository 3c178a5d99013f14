// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/parameter_sites.h"

#include <algorithm>
#include <utility>

#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"

namespace thunderc {
namespace {

// Views of all elements, and casts.
bool rearranges(const Function& f, const Op& op) {
    const std::optional<ViewIndex> view = view_index(f, op);
    return op.name == "cast" || (view && view->kind != ViewIndex::Kind::cut);
}

Role role_of(const Function& f, const Op& op, Value v) {
    const OpDef& def = op_def(op.name);
    if (def.combines == Reduction::product) return Role::scale;
    if (def.combines == Reduction::sum) return Role::shift;
    const auto k = static_cast<std::size_t>(std::find(op.operands.begin(), op.operands.end(), v) - op.operands.begin());
    if (def.lookup) {
        const Lookup lookup = def.lookup(op.attributes, f.type(op.operands[0]).dims, f.type(op.operands[1]).dims);
        return lookup.kind == Lookup::Kind::rows && lookup.table == k ? Role::table : Role::other;
    }
    return k < def.parameter_roles.size() ? def.parameter_roles[k] : Role::other;
}

void follow(const Function& f, const Uses& uses, Value v, std::int32_t direct, bool rearranged,
            std::vector<Site>& sites) {
    for (std::int32_t user : uses.users[v.index]) {
        const Op& op = f.ops[static_cast<std::size_t>(user)];
        const std::int32_t first = direct < 0 ? user : direct;
        if (rearranges(f, op) && !uses.users[op.results[0].index].empty()) {
            follow(f, uses, op.results[0], first, true, sites);
            continue;
        }
        std::vector<std::string> reads = op.provenance.reads;
        for (const std::string& name : f.ops[static_cast<std::size_t>(first)].provenance.reads)
            if (std::find(reads.begin(), reads.end(), name) == reads.end()) reads.push_back(name);
        sites.push_back({first, role_of(f, op, v), rearranged, &op, op.provenance.scope, op.provenance.module_class,
                         std::move(reads)});
    }
}

}  // namespace

std::vector<Site> find_sites(const Function& function, const Uses& uses, Value v) {
    std::vector<Site> sites;
    follow(function, uses, v, -1, false, sites);
    return sites;
}

}  // namespace thunderc

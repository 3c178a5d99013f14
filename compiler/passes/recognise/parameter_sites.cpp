// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/parameter_sites.h"

#include <algorithm>
#include <utility>

namespace thunderc {
namespace {

bool rearranges(const std::string& op) {
    return op == "transpose" || op == "reshape" || op == "cast" || op == "broadcast_to";
}

Role role_of(const Op& op, Value v) {
    auto is = [&](std::size_t k) { return k < op.operands.size() && op.operands[k] == v; };
    if (op.name == "matmul" || op.name == "linear") return is(1) ? Role::product : is(2) ? Role::shift : Role::other;
    if (op.name == "gather" || op.name == "embedding")
        return is(op.name == "gather" ? 0 : 1) ? Role::table : Role::other;
    if (op.name == "layer_norm" || op.name == "rms_norm")
        return is(1) ? Role::scale : is(2) ? Role::shift : Role::other;
    if (op.name == "mul") return Role::scale;
    if (op.name == "add") return Role::shift;
    return Role::other;
}

void follow(const Function& f, const Uses& uses, Value v, std::int32_t direct, bool rearranged,
            std::vector<Site>& sites) {
    for (std::int32_t user : uses.users[v.index]) {
        const Op& op = f.ops[static_cast<std::size_t>(user)];
        const std::int32_t first = direct < 0 ? user : direct;
        if (rearranges(op.name) && !uses.users[op.results[0].index].empty()) {
            follow(f, uses, op.results[0], first, true, sites);
            continue;
        }
        std::vector<std::string> reads = op.provenance.reads;
        for (const std::string& name : f.ops[static_cast<std::size_t>(first)].provenance.reads)
            if (std::find(reads.begin(), reads.end(), name) == reads.end()) reads.push_back(name);
        sites.push_back({first, role_of(op, v), rearranged, &op, op.provenance.scope, op.provenance.module_class,
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

// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/recompute_in_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/op_def.h"
#include "compiler/kernels/ties.h"

namespace thunderc {
namespace {

struct Recomputed {
    Value value;
    int group;          // that computes it
    std::set<int> ops;  // … by these, in order
};

class CheapValues {
  public:
    explicit CheapValues(const KernelGroups& groups) : g_(groups), f_(groups.function()), uses_(groups.uses()) {}

    std::vector<Recomputed> find(Report& report) const {
        std::vector<Recomputed> values;
        std::set<int> groups;
        for (int k = 0; k < static_cast<int>(f_.ops.size()); ++k) {
            if (g_.of(k) == KernelGroups::none || op(k).attributes.has(recomputed_attribute)) continue;
            if (groups.count(g_.of(k)) != 0) continue;
            if (auto value = worth_recomputing(k);
                value && report.may("recompute", g_.where(g_.of(k)),
                                    fmt::format("{} of @{}", f_.info(value->value).name, f_.name))) {
                groups.insert(value->group);
                values.push_back(std::move(*value));
            }
        }
        return values;
    }

  private:
    const Op& op(int k) const { return f_.ops[static_cast<std::size_t>(k)]; }
    int definition(Value v) const { return uses_.definition[v.index]; }
    std::int64_t bytes(Value v) const { return static_cast<std::int64_t>(f_.type(v).bytes()); }

    // Whether the value is memory whatever becomes of `of`, a value of the same group.
    bool in_memory_without(Value v, int group, Value of) const {
        const int k = definition(v);
        if (k < 0 || g_.of(k) != group) return !g_.is_transparent(k);
        if (v == of) return false;
        return g_.escapes(v, group);
    }

    // Two kernels may round the same formula differently (a product and a sum become one operation in one of them), so
    // floats that are compared so that one bit decides have to be the very bits that were compared with before: read,
    // not computed again. A maximum's gradient goes where the value is the maximum; it would get lost.
    bool is_read(Value v, int group, Value of) const {
        const int k = definition(v);
        if (!is_float(f_.type(v).dtype)) return true;
        if (!g_.is_transparent(k)) return in_memory_without(v, group, of);
        const auto& operands = op(k).operands;
        return std::all_of(operands.begin(), operands.end(), [&](Value o) { return is_read(o, group, of); });
    }

    // The ops that compute a value from what is in memory anyway: pointwise, cheap and few. False where there are none
    // such.
    bool cheap_ops(Value v, int group, Value of, std::set<int>& ops) const {
        constexpr std::size_t most = 12;
        const int k = definition(v);
        if (k >= 0 && g_.is_transparent(k)) {
            ops.insert(k);
        } else if (in_memory_without(v, group, of)) {
            return true;
        } else {
            const auto& rule = op_def(op(k).name).elementwise;
            if (!rule || rule->is_costly()) return false;
            ops.insert(k);
        }
        if (ops.size() > most) return false;
        const auto& operands = op(k).operands;
        if (finds_ties(f_, uses_, op(k)) &&
            !std::all_of(operands.begin(), operands.end(), [&](Value o) { return is_read(o, group, of); }))
            return false;
        return std::all_of(operands.begin(), operands.end(), [&](Value o) { return cheap_ops(o, group, of, ops); });
    }

    std::optional<Recomputed> worth_recomputing(int k) const {
        const int group = g_.of(k);
        const Value v = op(k).results[0];
        if (uses_.is_result[v.index]) return std::nullopt;
        std::set<int> readers;  // groups
        for (int user : uses_.users[v.index]) {
            const int of = g_.of(user);
            if (of == KernelGroups::none) return std::nullopt;
            if (of != group && finds_ties(f_, uses_, op(user)) && is_float(f_.type(v).dtype)) return std::nullopt;
            if (of != group) readers.insert(of);
        }
        if (readers.empty()) return std::nullopt;
        Recomputed result{v, group, {}};
        if (!cheap_ops(v, group, v, result.ops)) return std::nullopt;
        // What the readers would have to read in its place.
        std::set<Value> sources;
        for (int one : result.ops) {
            for (Value o : op(one).operands) {
                if (definition(o) < 0 || result.ops.count(definition(o)) == 0) sources.insert(o);
            }
        }
        std::int64_t saved = bytes(v);
        for (int reader : readers) {
            std::set<Value> more = sources;
            for (Value o : g_.groups()[static_cast<std::size_t>(reader)].operands) more.erase(o);
            saved += bytes(v);
            for (Value o : more) saved -= bytes(o);
        }
        if (saved <= 0) return std::nullopt;
        return result;
    }

    const KernelGroups& g_;
    const Function& f_;
    const Uses& uses_;
};

}  // namespace

std::optional<Function> recompute_in_kernels(const KernelGroups& groups, Report& report) {
    const std::vector<Recomputed> values = CheapValues(groups).find(report);
    if (values.empty()) return std::nullopt;
    const Function& f = groups.function();
    Function out = f;
    out.ops.clear();
    Builder builder(out);
    std::map<Value, const Recomputed*> wanted;
    for (const Recomputed& one : values) wanted[one.value] = &one;
    std::map<std::pair<Value, int>, Value> copies;  // by value and the group that reads it
    for (std::size_t j = 0; j < f.ops.size(); ++j) {
        const int reader = groups.of(static_cast<int>(j));
        std::vector<Value> operands = f.ops[j].operands;
        for (Value& operand : operands) {
            const auto at = wanted.find(operand);
            if (at == wanted.end() || at->second->group == reader) continue;
            Value& copy = copies[{operand, reader}];
            if (!copy) {
                std::map<Value, Value> moved;
                for (int c : at->second->ops) {
                    const Op& op = f.ops[static_cast<std::size_t>(c)];
                    std::vector<Value> from = op.operands;
                    for (Value& o : from) {
                        if (moved.count(o) != 0) o = moved[o];
                    }
                    moved[op.results[0]] = builder.clone(op, from, f).front();
                    out.ops.back().attributes.set(recomputed_attribute, true);
                }
                copy = moved.at(operand);
            }
            operand = copy;
        }
        out.ops.push_back(f.ops[j]);
        out.ops.back().operands = std::move(operands);
    }
    return out;
}

}  // namespace thunderc

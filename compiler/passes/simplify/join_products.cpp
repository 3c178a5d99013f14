// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify/join_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/ir/op_def.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

// Products that one replaces, by their places in the function.
struct Group {
    std::vector<std::size_t> products;
    std::vector<SummedAxis> axes;
};

class ProductJoiner {
  public:
    ProductJoiner(Function& function, Report& report) : f_(function), uses_(function), report_(report) {}

    std::size_t run() {
        find_sums();
        find_groups();
        if (!groups_.empty()) rewrite();
        return groups_.size();
    }

  private:
    // The root of the sum that a value is a term of, through additions that are read by it alone; none: it is no term.
    void find_sums() {
        root_.resize(f_.values.size());
        for (std::size_t k = f_.ops.size(); k-- > 0;) {
            const Op& op = f_.ops[k];
            if (op.name != "add") continue;
            const Value sum = op.results[0];
            const std::size_t root = root_[sum.index].value_or(k);
            if (op.operands[0] == op.operands[1]) continue;
            // What is repeated beside a larger term is not what is left where that one goes.
            if (f_.type(op.operands[0]) != f_.type(sum) || f_.type(op.operands[1]) != f_.type(sum)) continue;
            for (Value v : op.operands)
                if (uses_.single_user(v)) root_[v.index] = root;
        }
    }

    std::vector<SummedAxis> axes_of(const Op& op) const {
        const OpDef& def = op_def(op.name);
        if (!def.sums || std::any_of(op.operands.begin(), op.operands.end(), [](Value v) { return !v; })) return {};
        std::vector<Type> types;
        for (Value v : op.operands) types.push_back(f_.type(v));
        return def.sums(op.attributes, types);
    }

    // Types of the operands without what is summed.
    std::vector<Type> form_of(const Op& op, const std::vector<SummedAxis>& axes) const {
        std::vector<Type> types;
        for (Value v : op.operands) types.push_back(f_.type(v));
        for (const SummedAxis& summed : axes) types[summed.operand].dims[summed.axis] = 0;
        return types;
    }

    bool alike(const Op& a, const Op& b, const std::vector<SummedAxis>& axes) const {
        if (a.name != b.name || a.attributes != b.attributes || a.operands.size() != b.operands.size()) return false;
        const std::vector<Type> x = form_of(a, axes), y = form_of(b, axes);
        for (std::size_t k = 0; k < x.size(); ++k) {
            const bool summed =
                std::any_of(axes.begin(), axes.end(), [&](const SummedAxis& s) { return s.operand == k; });
            if (x[k] != y[k] || (!summed && a.operands[k] != b.operands[k])) return false;
        }
        // Each result is a term of one sum, or nobody's.
        for (std::size_t r = 0; r < a.results.size(); ++r) {
            const Value u = a.results[r], v = b.results[r];
            if (unread(u) != unread(v) || root_[u.index] != root_[v.index]) return false;
        }
        return true;
    }

    bool unread(Value v) const { return uses_.users[v.index].empty() && !uses_.is_result[v.index]; }

    void find_groups() {
        std::map<std::size_t, std::vector<Group>> of_sums;  // by the root of the first result's
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            const Op& op = f_.ops[k];
            const std::vector<SummedAxis> axes = axes_of(op);
            if (axes.empty()) continue;
            const bool terms = std::all_of(op.results.begin(), op.results.end(),
                                           [&](Value v) { return unread(v) || root_[v.index].has_value(); });
            if (!terms || unread(op.results[0])) continue;
            std::vector<Group>& all = of_sums[*root_[op.results[0].index]];
            const auto mine = std::find_if(
                all.begin(), all.end(), [&](const Group& group) { return alike(f_.ops[group.products[0]], op, axes); });
            if (mine == all.end())
                all.push_back({{k}, axes});
            else
                mine->products.push_back(k);
        }
        for (auto& [root, all] : of_sums)
            for (Group& group : all)
                if (group.products.size() > 1 && pays(group) && may(group)) groups_.push_back(std::move(group));
    }

    // Putting operands side by side reads and writes them; each product but one saves that of its results.
    bool pays(const Group& group) const {
        std::int64_t moved = 0, saved = 0;
        for (const std::size_t k : group.products)
            for (const SummedAxis& summed : group.axes) moved += f_.type(f_.ops[k].operands[summed.operand]).elements();
        for (Value v : f_.ops[group.products[0]].results)
            if (!unread(v)) saved += f_.type(v).elements();
        return moved < saved * static_cast<std::int64_t>(group.products.size() - 1);
    }

    bool may(const Group& group) {
        const Op& first = f_.ops[group.products[0]];
        return report_.may("join_products", first.provenance.scope.empty() ? "@" + f_.name : first.provenance.scope,
                           f_.info(first.results[0]).name);
    }

    void rewrite() {
        std::map<std::size_t, const Group*> last;  // a group's product stands where the last of it stood
        std::set<std::size_t> others;
        for (const Group& group : groups_) {
            last[group.products.back()] = &group;
            others.insert(group.products.begin(), group.products.end() - 1);
        }
        Rewriter rewriter(f_);
        Builder& b = rewriter.builder();
        std::set<std::uint32_t> gone;    // old values that are terms no more
        std::set<std::uint32_t> joined;  // new values that stand for sums, and are called as these were
        for (std::size_t k = 0; k < rewriter.old_ops().size(); ++k) {
            const Op& op = rewriter.old_ops()[k];
            if (others.contains(k)) {
                for (Value v : op.results) gone.insert(v.index);
                rewriter.replace(op, std::vector<Value>(op.results.size()));
            } else if (const auto group = last.find(k); group != last.end()) {
                b.set_provenance(op.provenance);
                std::vector<Value> operands = rewriter.now(op.operands);
                for (const SummedAxis& summed : group->second->axes) {
                    std::vector<Value> parts;
                    for (const std::size_t product : group->second->products)
                        parts.push_back(rewriter.now(rewriter.old_ops()[product].operands[summed.operand]));
                    operands[summed.operand] =
                        b.op("concat", parts, {{"axis", static_cast<std::int64_t>(summed.axis)}});
                }
                const std::vector<Value> results = b.emit(op.name, operands, op.attributes);
                for (Value v : results) joined.insert(v.index);
                rewriter.replace(op, results);
            } else if (op.name == "add" &&
                       (gone.contains(op.operands[0].index) || gone.contains(op.operands[1].index))) {
                const bool both = gone.contains(op.operands[0].index) && gone.contains(op.operands[1].index);
                const Value left = op.operands[gone.contains(op.operands[0].index) ? 1 : 0];
                if (both) gone.insert(op.results[0].index);
                const Value stays = both ? Value{} : rewriter.now(left);
                if (stays && joined.contains(stays.index)) f_.info(stays).name = f_.info(op.results[0]).name;
                rewriter.replace(op, std::vector<Value>{stays});
            } else {
                rewriter.keep(op);
            }
        }
        rewriter.finish();
    }

    Function& f_;
    Uses uses_;
    Report& report_;
    std::vector<std::optional<std::size_t>> root_;  // by value
    std::vector<Group> groups_;
};

}  // namespace

Module join_products(Module module, Report& report) {
    for (Function& f : module.functions) {
        const std::size_t joined = ProductJoiner(f, report).run();
        if (joined > 0) report.done("join_products", "@" + f.name, fmt::format("{} sums of products", joined));
    }
    return module;
}

}  // namespace thunderc

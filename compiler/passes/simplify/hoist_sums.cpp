// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify/hoist_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

// An op of a loop's body whose results are added to carried values that are nothing but these sums.
struct StepSum {
    Op product;
    std::vector<std::optional<std::size_t>> carried;  // by result; none: nobody reads it
};

// Whether each operand is summed along its first axis, and no other.
bool sums_first_axes(const Function& f, const Op& op) {
    const OpDef& def = op_def(op.name);
    if (!def.sums || std::any_of(op.operands.begin(), op.operands.end(), [](Value v) { return !v; })) return false;
    std::vector<Type> types;
    for (Value v : op.operands) types.push_back(f.type(v));
    const std::vector<SummedAxis> axes = def.sums(op.attributes, types);
    std::vector<bool> summed(op.operands.size(), false);
    for (const SummedAxis& axis : axes) {
        if (axis.axis != 0 || summed[axis.operand]) return false;
        summed[axis.operand] = true;
    }
    return !summed.empty() && std::all_of(summed.begin(), summed.end(), [](bool s) { return s; });
}

class LoopSums {
  public:
    LoopSums(const Op& loop, const Function& body, const HoistSumsOptions& options)
        : body_(body), uses_(body), options_(options), carried_(loop_carried(loop)), per_layer_(loop_per_layer(loop)) {}

    // The first sum that `may` be hoisted.
    std::optional<StepSum> find(const std::function<bool(const Op&)>& may) const {
        for (const Op& op : body_.ops) {
            if (!sums_first_axes(body_, op)) continue;
            StepSum out{op, {}};
            std::size_t sums = 0;
            bool alone = true;
            for (Value v : op.results) {
                const bool unread = uses_.users[v.index].empty() && !uses_.is_result[v.index];
                out.carried.push_back(unread ? std::nullopt : sum_of(v));
                sums += out.carried.back() ? 1 : 0;
                alone = alone && (unread || out.carried.back());
            }
            // One carried value stays at least: a loop hands something on.
            if (alone && sums > 0 && sums < carried_ && pays(op) && may(op)) return out;
        }
        return std::nullopt;
    }

    bool is_family(Value v) const {  // the body has one of it for each step
        const std::size_t k = index_of(body_.arguments, v);
        return k >= carried_ && k < carried_ + per_layer_;
    }

  private:
    // The carried value that is the sum of nothing but v of all steps.
    std::optional<std::size_t> sum_of(Value v) const {
        if (!uses_.single_user(v)) return std::nullopt;
        const Op& add = body_.ops[static_cast<std::size_t>(uses_.users[v.index][0])];
        if (add.name != "add") return std::nullopt;
        const Value before = add.operands[add.operands[0] == v ? 1 : 0], next = add.results[0];
        const std::size_t k = index_of(body_.arguments, before);
        if (k >= carried_ || body_.results[k] != next || body_.type(before) != body_.type(v)) return std::nullopt;
        const bool read = !uses_.single_user(before) || !uses_.users[next.index].empty() ||
                          std::count(body_.results.begin(), body_.results.end(), next) != 1;
        return read ? std::nullopt : std::optional(k);
    }

    // What is given by step in addition is written and read; the sum is no longer.
    bool pays(const Op& product) const {
        std::int64_t moved = 0;
        for (Value v : product.operands) {
            if (is_family(v)) continue;
            if (std::find(body_.arguments.begin(), body_.arguments.end(), v) != body_.arguments.end()) return false;
            const bool given = std::find(body_.results.begin() + static_cast<std::ptrdiff_t>(carried_),
                                         body_.results.end(), v) != body_.results.end();
            if (!given && !options_.collect) return false;
            if (!given) moved += body_.type(v).elements();
        }
        std::int64_t saved = 0;
        for (Value v : product.results) saved += uses_.users[v.index].empty() ? 0 : body_.type(v).elements();
        return moved < saved;
    }

    const Function& body_;
    Uses uses_;
    const HoistSumsOptions& options_;
    std::size_t carried_, per_layer_;
};

void erase_at(std::vector<Value>& values, std::size_t k) {
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(k));
}

// The operand of all steps, one behind the other.
Value rows_of_all(Builder& b, Value family, const std::string& name) {
    Dims dims = b.type(family).dims;
    dims[0] *= b.type(family).count;
    return b.reshape(b.op("stack", {family}, {}, name), dims);
}

void hoist(Function& f, std::size_t at, Function& body, const StepSum& sum) {
    Op loop = f.ops[at];
    const std::size_t carried = loop_carried(loop);
    const std::int64_t n = loop_count(loop);
    std::vector<Value> families;
    for (Value v : sum.product.operands) {
        const std::size_t argument = index_of(body.arguments, v);
        if (argument < body.arguments.size()) {
            families.push_back(loop.operands[argument]);
            continue;
        }
        auto given = std::find(body.results.begin() + static_cast<std::ptrdiff_t>(carried), body.results.end(), v);
        if (given == body.results.end()) {
            const Type& type = body.type(v);
            loop.results.push_back(f.add_value(Type::family(n, type.dtype, type.dims), body.info(v).name));
            body.results.push_back(v);
            given = body.results.end() - 1;
        }
        families.push_back(loop.results[static_cast<std::size_t>(given - body.results.begin())]);
    }
    std::map<std::size_t, std::pair<Value, Value>> sums;  // by result of the product: what begins it, what it is
    std::vector<std::size_t> gone;
    for (std::size_t r = 0; r < sum.carried.size(); ++r) {
        if (!sum.carried[r]) continue;
        sums[r] = {loop.operands[*sum.carried[r]], loop.results[*sum.carried[r]]};
        gone.push_back(*sum.carried[r]);
    }
    std::sort(gone.rbegin(), gone.rend());
    for (const std::size_t k : gone) {
        erase_at(body.arguments, k);
        erase_at(body.results, k);
        erase_at(loop.operands, k);
        erase_at(loop.results, k);
    }
    loop.attributes.set("carried", static_cast<std::int64_t>(carried - gone.size()));
    remove_dead_code(body);

    std::vector<Op> behind(std::make_move_iterator(f.ops.begin() + static_cast<std::ptrdiff_t>(at) + 1),
                           std::make_move_iterator(f.ops.end()));
    f.ops.resize(at);
    f.ops.push_back(std::move(loop));
    Builder b(f);
    b.set_provenance(sum.product.provenance);
    std::vector<Value> operands;
    for (std::size_t o = 0; o < families.size(); ++o)
        operands.push_back(rows_of_all(b, families[o], f.info(families[o]).name));
    const std::vector<Value> products = b.emit(sum.product.name, operands, sum.product.attributes);
    std::map<Value, Value> now;
    for (const auto& [r, ends] : sums) {
        const auto& [initial, total] = ends;
        f.info(products[r]).name = f.info(total).name;
        now[total] = b.add(initial, products[r]);
        f.info(now[total]).name = f.info(total).name;
    }
    std::move(behind.begin(), behind.end(), std::back_inserter(f.ops));
    substitute(f, now);
}

}  // namespace

Module hoist_sums(Module module, const HoistSumsOptions& options, Report& report) {
    for (std::size_t f = 0; f < module.functions.size(); ++f)
        for (std::size_t k = 0; k < module.functions[f].ops.size(); ++k) {
            if (!is_loop(module.functions[f].ops[k])) continue;
            const std::string name = loop_body(module.functions[f].ops[k]);
            if (call_count(module, name) != 1) continue;
            Function& body = *module.find(name);
            std::size_t hoisted = 0;
            const auto may = [&](const Op& product) {
                const std::string& scope = product.provenance.scope;
                return report.may("hoist_sums", scope.empty() ? "@" + name : scope, body.info(product.results[0]).name);
            };
            while (const std::optional<StepSum> sum = LoopSums(module.functions[f].ops[k], body, options).find(may)) {
                hoist(module.functions[f], k, body, *sum);
                ++hoisted;
            }
            if (hoisted > 0)
                report.done("hoist_sums", "@" + name, fmt::format("{} sums of products behind the loop", hoisted));
        }
    return module;
}

}  // namespace thunderc

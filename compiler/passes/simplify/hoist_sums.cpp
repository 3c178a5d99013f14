// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify/hoist_sums.h"

#include <fmt/format.h>

#include <algorithm>
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

// A carried value of a loop that is nothing but a sum, and what each step adds.
struct StepSum {
    std::size_t carried = 0;
    Op product;  // of the body
};

const Op* definition(const Function& f, const Uses& uses, Value v) {
    const std::int32_t k = uses.definition[v.index];
    return k < 0 ? nullptr : &f.ops[static_cast<std::size_t>(k)];
}

std::size_t index_in(const std::vector<Value>& values, Value v) {
    return static_cast<std::size_t>(std::find(values.begin(), values.end(), v) - values.begin());
}

// Whether each operand is summed along its first axis, and no other.
bool sums_first_axes(const Function& f, const Op& op) {
    const OpDef& def = op_def(op.name);
    if (!def.sums || op.results.size() != 1 ||
        std::any_of(op.operands.begin(), op.operands.end(), [](Value v) { return !v; }))
        return false;
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
    LoopSums(const Op& loop, const Function& body)
        : body_(body), uses_(body), carried_(loop_carried(loop)), per_layer_(loop_per_layer(loop)) {}

    std::optional<StepSum> find() const {
        for (std::size_t k = 0; k < carried_; ++k) {
            const Value sum = body_.arguments[k], next = body_.results[k];
            const Op* add = definition(body_, uses_, next);
            if (add == nullptr || add->name != "add" || !uses_.single_user(sum) || !uses_.users[next.index].empty() ||
                std::count(body_.results.begin(), body_.results.end(), next) != 1)
                continue;
            const std::size_t other = add->operands[0] == sum ? 1 : 0;
            if (add->operands[1 - other] != sum || body_.type(add->operands[other]) != body_.type(sum)) continue;
            const Op* product = definition(body_, uses_, add->operands[other]);
            if (product == nullptr || !uses_.single_user(add->operands[other]) || !sums_first_axes(body_, *product))
                continue;
            if (pays(*product)) return StepSum{k, *product};
        }
        return std::nullopt;
    }

    bool is_family(Value v) const {  // the body has one of it for each step
        const std::size_t k = index_in(body_.arguments, v);
        return k >= carried_ && k < carried_ + per_layer_;
    }

  private:
    // What is given by step in addition is written and read; the sum is no longer.
    bool pays(const Op& product) const {
        std::int64_t moved = 0;
        for (Value v : product.operands) {
            if (is_family(v)) continue;
            if (std::find(body_.arguments.begin(), body_.arguments.end(), v) != body_.arguments.end()) return false;
            const bool given = std::find(body_.results.begin() + static_cast<std::ptrdiff_t>(carried_),
                                         body_.results.end(), v) != body_.results.end();
            if (!given) moved += body_.type(v).elements();
        }
        return moved < body_.type(product.results[0]).elements();
    }

    const Function& body_;
    Uses uses_;
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
    const std::size_t carried = loop_carried(loop), k = sum.carried;
    const std::int64_t n = loop_count(loop);
    std::vector<Value> families;
    for (Value v : sum.product.operands) {
        const std::size_t argument = index_in(body.arguments, v);
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
    const Value total = loop.results[k], initial = loop.operands[k];
    erase_at(body.arguments, k);
    erase_at(body.results, k);
    erase_at(loop.operands, k);
    erase_at(loop.results, k);
    loop.attributes.set("carried", static_cast<std::int64_t>(carried - 1));
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
    const Value product = b.op(sum.product.name, operands, sum.product.attributes, f.info(total).name);
    const Value now = b.add(initial, product);
    f.info(now).name = f.info(total).name;
    const std::size_t end = f.ops.size();
    std::move(behind.begin(), behind.end(), std::back_inserter(f.ops));
    for (std::size_t later = end; later < f.ops.size(); ++later)
        std::replace(f.ops[later].operands.begin(), f.ops[later].operands.end(), total, now);
    std::replace(f.results.begin(), f.results.end(), total, now);
}

std::size_t callers(const Module& module, const std::string& name) {
    std::size_t out = 0;
    for (const Function& f : module.functions)
        for (const Op& op : f.ops) out += runs_function(op) && called_function(op) == name ? 1 : 0;
    return out;
}

}  // namespace

Module hoist_sums(Module module, Report& report) {
    for (std::size_t f = 0; f < module.functions.size(); ++f)
        for (std::size_t k = 0; k < module.functions[f].ops.size(); ++k) {
            if (!is_loop(module.functions[f].ops[k])) continue;
            const std::string name = loop_body(module.functions[f].ops[k]);
            if (callers(module, name) != 1) continue;
            Function& body = *module.find(name);
            std::size_t hoisted = 0;
            // One carried value stays at least: a loop hands something on.
            while (loop_carried(module.functions[f].ops[k]) > 1) {
                const std::optional<StepSum> sum = LoopSums(module.functions[f].ops[k], body).find();
                if (!sum) break;
                hoist(module.functions[f], k, body, *sum);
                ++hoisted;
            }
            if (hoisted > 0)
                report.done("hoist_sums", "@" + name, fmt::format("{} sums of products behind the loop", hoisted));
        }
    return module;
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/layers/hoist_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
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

// What an operand of an op of the body is to the loop.
enum class Given : std::uint8_t { nothing, by_step, to_all, within };

Given given(const Op& loop, const Function& body, Value v) {
    if (!v) return Given::nothing;
    const std::size_t k = index_of(body.arguments, v);
    const std::size_t by_step = loop_carried(loop), shared = by_step + loop_per_layer(loop);
    if (k < by_step || k == body.arguments.size()) return Given::within;
    return k < shared ? Given::by_step : Given::to_all;
}

// The tensor that the members of a family are pieces of; none where they are tensors of their own.
Value whole_of(const Function& f, Value family) {
    for (const Op& op : f.ops)
        if (is_unstack(op) && op.results[0] == family) return op.operands[0];
    return {};
}

bool can_be_hoisted(const Function& f, const Op& loop, const Function& body, const Uses& uses, const Op& op) {
    const OpDef& def = op_def(op.name);
    if (!def.flops || op.results.size() != 1 || uses.is_result[op.results[0].index]) return false;
    if (def.rows.kind != Rows::Kind::first && def.rows.kind != Rows::Kind::but_last) return false;
    bool rows = false;
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
        const Given is = given(loop, body, op.operands[o]);
        const std::vector<std::size_t>& of_rows = def.rows.operands;
        const bool has_rows = of_rows.empty() || std::find(of_rows.begin(), of_rows.end(), o) != of_rows.end();
        if (is != Given::nothing && is != (has_rows ? Given::by_step : Given::to_all)) return false;
        // A row is more than one number, and there is an axis of rows.
        if (is == Given::by_step && (body.type(op.operands[o]).rank() < 2 ||
                                     !whole_of(f, loop.operands[index_of(body.arguments, op.operands[o])])))
            return false;
        rows = rows || is == Given::by_step;
    }
    return rows && body.type(op.results[0]).rank() >= 2;
}

// Arguments of the body that nothing reads any more, but carried ones.
void drop_unread(Op& loop, Function& body) {
    const Uses uses(body);
    for (std::size_t k = body.arguments.size(); k-- > loop_carried(loop);) {
        const Value v = body.arguments[k];
        if (!uses.users[v.index].empty() || uses.is_result[v.index]) continue;
        const std::size_t per_layer = loop_per_layer(loop);
        if (k < loop_carried(loop) + per_layer)
            loop.attributes.set("per_layer", static_cast<std::int64_t>(per_layer) - 1);
        body.arguments.erase(body.arguments.begin() + static_cast<std::ptrdiff_t>(k));
        loop.operands.erase(loop.operands.begin() + static_cast<std::ptrdiff_t>(k));
    }
}

void hoist(Function& f, std::size_t at, Function& body, std::size_t index) {
    const Op op = body.ops[index];
    Op loop = f.ops[at];
    const std::int64_t n = loop_count(loop);
    std::vector<Op> behind(std::make_move_iterator(f.ops.begin() + static_cast<std::ptrdiff_t>(at) + 1),
                           std::make_move_iterator(f.ops.end()));
    f.ops.resize(at);

    Builder b(f);
    b.set_provenance(op.provenance);
    std::vector<Value> operands;
    for (Value v : op.operands) {
        if (!v) {
            operands.emplace_back();
            continue;
        }
        const Value outside = loop.operands[index_of(body.arguments, v)];
        if (given(loop, body, v) != Given::by_step) {
            operands.push_back(outside);
            continue;
        }
        Dims dims = body.type(v).dims;
        dims[0] *= n;
        operands.push_back(b.reshape(whole_of(f, outside), dims));
    }
    const Value product = body.ops[index].results[0];
    const std::string name = body.info(product).name;
    Dims dims = body.type(product).dims;
    dims.insert(dims.begin(), n);
    const Value all = b.reshape(b.op(op.name, operands, op.attributes, name), dims);
    const Value family = b.op("unstack", {all}, {}, name);

    // The body is given what it computed.
    body.ops.erase(body.ops.begin() + static_cast<std::ptrdiff_t>(index));
    const std::size_t behind_families = loop_carried(loop) + loop_per_layer(loop);
    body.arguments.insert(body.arguments.begin() + static_cast<std::ptrdiff_t>(behind_families), product);
    loop.operands.insert(loop.operands.begin() + static_cast<std::ptrdiff_t>(behind_families), family);
    loop.attributes.set("per_layer", static_cast<std::int64_t>(loop_per_layer(loop)) + 1);
    drop_unread(loop, body);
    f.ops.push_back(std::move(loop));
    std::move(behind.begin(), behind.end(), std::back_inserter(f.ops));
}

std::optional<std::size_t> find_product(const Function& f, const Op& loop, const Function& body,
                                        const std::function<bool(const Op&)>& may) {
    const Uses uses(body);
    for (std::size_t k = 0; k < body.ops.size(); ++k)
        if (can_be_hoisted(f, loop, body, uses, body.ops[k]) && may(body.ops[k])) return k;
    return std::nullopt;
}

}  // namespace

Module hoist_products(Module module, Report& report) {
    for (std::size_t i = 0; i < module.functions.size(); ++i)
        for (std::size_t k = 0; k < module.functions[i].ops.size(); ++k) {
            if (!is_loop(module.functions[i].ops[k])) continue;
            const std::string name = loop_body(module.functions[i].ops[k]);
            if (call_count(module, name) != 1) continue;
            Function& body = *module.find(name);
            const auto where = [&](const Op& op) {
                return op.provenance.scope.empty() ? "@" + name : op.provenance.scope;
            };
            const auto may = [&](const Op& op) {
                return report.may("hoist_products", where(op), body.info(op.results[0]).name);
            };
            while (const std::optional<std::size_t> product =
                       find_product(module.functions[i], module.functions[i].ops[k], body, may)) {
                report.done("hoist_products", where(body.ops[*product]),
                            fmt::format("one for {} steps", loop_count(module.functions[i].ops[k])));
                Function& f = module.functions[i];
                const std::size_t before = f.ops.size();
                hoist(f, k, body, *product);
                k += f.ops.size() - before;  // what was put before the loop
            }
        }
    return module;
}

}  // namespace thunderc

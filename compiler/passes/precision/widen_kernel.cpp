// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/precision/widen_kernel.h"

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/ir/builder.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

bool is_low(const Function& f, Value v) {
    return v && is_narrow(f.type(v).dtype);
}

bool moves_only(const Op& op) {
    return is_constant_op(op) || (op_def(op.name).moves && !op_def(op.name).elementwise);
}

bool rounds_or_widens(const Function& f, const Op& op) {
    const Value from = op.operands[0], to = op.results[0];
    return (is_low(f, from) && f.type(to).dtype == DType::f32) || (is_low(f, to) && f.type(from).dtype == DType::f32) ||
           (is_low(f, from) && f.type(to).dtype == f.type(from).dtype);
}

// What an ulp more or less may turn round: nothing of the result of a comparison tells by how much its operands
// differed; and what becomes of numbers when they are quantised is asked of those that others read. Both give another
// type than they read, without being a cast.
bool reads_stored(const Function& f, const Op& op) {
    const OpDef& def = op_def(op.name);
    if (def.comparison) return true;
    return def.elementwise && op.name != "cast" && !is_low(f, op.results[0]) && is_low(f, op.operands[0]);
}

bool contains(const std::vector<Value>& values, Value v) {
    return std::find(values.begin(), values.end(), v) != values.end();
}

}  // namespace

bool is_widening(const Function& function, const Op& op) {
    return op.name == "cast" && is_low(function, op.operands[0]) && function.type(op.results[0]).dtype == DType::f32;
}

Function widen_kernel(Function kernel) {
    const bool any = std::any_of(kernel.values.begin(), kernel.values.end(),
                                 [](const ValueInfo& info) { return is_narrow(info.type.dtype); });
    if (!any || std::all_of(kernel.ops.begin(), kernel.ops.end(), moves_only)) return kernel;
    Function out;
    out.name = kernel.name;
    out.kind = kernel.kind;
    Builder b(out);
    std::map<Value, Value> now;
    for (Value v : kernel.arguments) {
        now[v] = out.add_value(kernel.type(v), kernel.info(v).name);
        out.arguments.push_back(now[v]);
    }
    for (Value v : kernel.arguments) {
        if (!is_low(kernel, v)) continue;
        now[v] = b.cast(now[v], DType::f32);
        out.info(now[v]).name = kernel.info(v).name;
    }
    // A cast that falls away leaves what it was to a composite to the one at the kernel's edge.
    auto keep_role = [&](const Op& from, Value edge) {
        for (Op& op : out.ops)
            if (op.name == "cast" && op.results[0] == edge && op.attributes.has("dtype"))
                for (const auto& [name, value] : from.attributes.entries())
                    if (name != "dtype") op.attributes.set(name, value);
    };
    std::map<Value, std::size_t> readers;
    for (const Op& op : kernel.ops)
        for (Value v : op.operands) ++readers[v];
    // Values whose type, or that of what they were cast from, promises a rounding that `now` has not: to which type.
    std::map<Value, DType> exact;
    std::map<Value, Value> stored;  // of those that are rounded for a reader: what it reads
    std::map<Value, Value> edges;   // by value that leaves the kernel in a narrow type: what leaves it
    auto round = [&](Value v, DType dtype, const std::string& name) {
        const Value rounded = b.cast(v, dtype);
        out.info(rounded).name = name;
        return rounded;
    };
    auto widen = [&](Value v) {
        const Value wide = b.cast(v, DType::f32);
        out.info(wide).name = out.info(v).name;
        return wide;
    };
    for (const Op& op : kernel.ops) {
        const Value v = op.results[0];
        std::optional<DType> promised;  // of what is read
        for (Value o : op.operands)
            if (const auto at = exact.find(o); at != exact.end() && !promised) promised = at->second;
        if (op.name == "cast" && rounds_or_widens(kernel, op)) {
            now[v] = now.at(op.operands[0]);
            if (is_widening(kernel, op)) keep_role(op, now.at(op.operands[0]));
            if (is_low(kernel, v)) promised = kernel.type(v).dtype;
            if (promised) exact.emplace(v, *promised);
        } else {
            Attributes attributes = op.attributes;
            if (is_constant_op(op) && is_low(kernel, v)) {
                ConstExpr expr = *attributes.constant("value");
                expr.type.dtype = DType::f32;
                attributes.set("value", std::make_shared<const ConstExpr>(expr));
            }
            if (op.name == "cast" && is_low(kernel, v)) attributes.set("dtype", DType::f32);
            b.set_provenance(op.provenance);
            std::vector<Value> operands;
            for (Value o : op.operands) {
                Value here = o ? now.at(o) : Value{};
                if (const auto at = exact.find(o); reads_stored(kernel, op) && at != exact.end()) {
                    const auto [known, is_new] = stored.try_emplace(o);
                    if (is_new) {
                        const Value rounded = round(here, at->second, kernel.info(o).name);
                        for (const Op& from : kernel.ops)
                            if (from.name == "cast" && from.results[0] == o) keep_role(from, rounded);
                        known->second = widen(rounded);
                    }
                    here = known->second;
                }
                operands.push_back(here);
            }
            now[v] = b.emit(op.name, operands, attributes, kernel.info(v).name).front();
            // One of its operand's elements.
            const bool chooses = moves_only(op) || op_def(op.name).reduction == Reduction::maximum;
            if (!chooses) promised.reset();
            if (!chooses && is_low(kernel, v)) promised = kernel.type(v).dtype;
            if (promised) exact.emplace(v, *promised);
        }
        const bool leaves = is_low(kernel, v) && contains(kernel.results, v);
        if (!leaves || readers[v] == 0) continue;
        edges[v] = round(now[v], kernel.type(v).dtype, kernel.info(v).name);
        if (op.name == "cast") keep_role(op, edges[v]);
        now[v] = widen(edges[v]);
        exact.erase(v);
    }
    b.set_provenance({});
    for (Value v : kernel.results) {
        Value made = now.at(v);
        if (is_low(kernel, v)) {
            if (!edges.contains(v)) {
                edges[v] = round(made, kernel.type(v).dtype, kernel.info(v).name);
                for (const Op& op : kernel.ops)
                    if (op.name == "cast" && op.results[0] == v && rounds_or_widens(kernel, op))
                        keep_role(op, edges[v]);
            }
            made = edges[v];
        }
        out.results.push_back(made);
    }
    return out;
}

}  // namespace thunderc

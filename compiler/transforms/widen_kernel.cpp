#include "compiler/transforms/widen_kernel.h"

#include <algorithm>
#include <map>

#include "compiler/analysis/views.h"
#include "compiler/ir/builder.h"

namespace thunderc {
namespace {

bool is_bf16(const Function& f, Value v) {
    return v && f.type(v).dtype == DType::bf16;
}

bool moves_only(const Op& op) {
    return op.name == "constant" || op.name == "concat" || op.name == "pad" || is_view(op);
}

bool casts_bf16(const Function& f, const Op& op) {
    const Value from = op.operands[0], to = op.results[0];
    return (is_bf16(f, from) && f.type(to).dtype == DType::f32) ||
           (is_bf16(f, to) && f.type(from).dtype == DType::f32) || (is_bf16(f, from) && is_bf16(f, to));
}

}  // namespace

bool is_widening(const Function& function, const Op& op) {
    return op.name == "cast" && is_bf16(function, op.operands[0]) && function.type(op.results[0]).dtype == DType::f32;
}

Function widen_kernel(Function kernel) {
    const bool any = std::any_of(kernel.values.begin(), kernel.values.end(),
                                 [](const ValueInfo& info) { return info.type.dtype == DType::bf16; });
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
        if (!is_bf16(kernel, v)) continue;
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
    std::map<Value, const Op*> narrowed;
    for (const Op& op : kernel.ops) {
        if (op.name == "cast" && casts_bf16(kernel, op)) {
            now[op.results[0]] = now.at(op.operands[0]);
            if (is_widening(kernel, op)) keep_role(op, now.at(op.operands[0]));
            if (is_bf16(kernel, op.results[0])) narrowed[op.results[0]] = &op;
            continue;
        }
        Attributes attributes = op.attributes;
        if (op.name == "constant" && is_bf16(kernel, op.results[0])) {
            ConstExpr expr = *attributes.constant("value");
            expr.type.dtype = DType::f32;
            attributes.set("value", std::make_shared<const ConstExpr>(expr));
        }
        if (op.name == "cast" && is_bf16(kernel, op.results[0])) attributes.set("dtype", DType::f32);
        std::vector<Value> operands;
        for (Value v : op.operands) operands.push_back(v ? now.at(v) : Value{});
        b.set_provenance(op.provenance);
        const Value made = b.emit(op.name, operands, attributes, kernel.info(op.results[0]).name).front();
        now[op.results[0]] = made;
    }
    b.set_provenance({});
    for (Value v : kernel.results) {
        Value made = now.at(v);
        if (is_bf16(kernel, v)) {
            made = b.cast(made, DType::bf16);
            out.info(made).name = kernel.info(v).name;
            if (const auto at = narrowed.find(v); at != narrowed.end()) keep_role(*at->second, made);
        }
        out.results.push_back(made);
    }
    return out;
}

}  // namespace thunderc

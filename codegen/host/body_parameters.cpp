// SPDX-License-Identifier: Apache-2.0
#include "codegen/host/body_parameters.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/host/block_calls.h"
#include "codegen/host/gradient_flags.h"
#include "compiler/ir/structure.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

bool has_flag(const ProgramLayout& layout, const Function& f, const Op& op) {
    if (!is_kernel_call(op)) return false;
    const std::vector<bool> flags = gradient_flags(layout.module(), layout.calls(), f, op);
    return std::find(flags.begin(), flags.end(), true) != flags.end();
}

bool reads_step(const ProgramLayout& layout, const Function& f) {
    for (const Op& op : f.ops) {
        if (has_flag(layout, f, op)) return true;
        if (const OpDef& def = op_def(op.name); def.call) {
            const RuntimeCall call = def.call(op, f);
            for (const CallField& field : call.fields)
                if (is_gradient_flag(call, field)) return true;
        }
        for (const char* attribute : {"callee", "body"})
            if (op.attributes.has(attribute) &&
                reads_step(layout, *layout.module().find(op.attributes.string(attribute))))
                return true;
    }
    return false;
}

// Whether a statement of the function names the value: a call that is told to add or to overwrite by `mode` does not
// name the flag.
bool is_named(const ProgramLayout& layout, const Function& f, Value v) {
    for (const Op& op : f.ops) {
        if (std::find(op.operands.begin(), op.operands.end(), v) == op.operands.end()) continue;
        if (is_kernel_call(op)) {
            const std::vector<bool> flags = gradient_flags(layout.module(), layout.calls(), f, op);
            for (std::size_t o = 0; o < flags.size(); ++o)
                if (op.operands[o] == v && !flags[o]) return true;
            continue;
        }
        const OpDef& def = op_def(op.name);
        if (!def.call) return true;
        const RuntimeCall call = def.call(op, f);
        for (const CallField& field : call.fields)
            if (field.kind == CallField::Kind::operand && op.operands.at(field.index) == v &&
                !is_gradient_flag(call, field))
                return true;
    }
    return false;
}

bool uses_constants(const Function& f) {
    return std::any_of(f.ops.begin(), f.ops.end(), [](const Op& op) { return is_constant_op(op); });
}

}  // namespace

std::vector<BodyParameter> body_parameters(const ProgramLayout& layout, const Function& body,
                                           std::map<Value, std::string>& expressions) {
    using Role = BlockCall::Role;
    const BlockCall call = block_call(layout.calls(), body.name);
    const std::vector<std::string>& names = layout.names(body);
    std::vector<BlockCall::Outside> arguments, results;
    for (std::size_t k = 0; k < body.arguments.size(); ++k) arguments.push_back(call.argument(k));
    for (std::size_t r = 0; r < body.results.size(); ++r) results.push_back(call.result(r));
    std::vector<BodyParameter> out;
    if (uses_constants(body)) out.push_back({BodyParameter::Kind::arenas, "const Arenas& arenas", 0, nullptr});
    for (std::size_t r = 0; r < results.size(); ++r) {
        if (results[r].role != Role::carried) continue;
        Value v = body.results[r];
        out.push_back({BodyParameter::Kind::carried_out,
                       fmt::format("{}* {} /* {} */", cpp_type(body.type(v).dtype), names[v.index],
                                   layout.symbols().shape(body, v)),
                       r, nullptr});
        expressions[v] = names[v.index];
    }
    for (std::size_t k = 0; k < arguments.size(); ++k) {
        if (arguments[k].role != Role::carried) continue;
        Value v = body.arguments[k];
        const std::string shape = layout.symbols().shape(body, v);
        // All layers write the slots of a value that goes through the loop, also where none reads them.
        const std::string name = is_named(layout, body, v)
                                     ? fmt::format("{} /* {} */", names[v.index], shape)
                                     : fmt::format("/* {} {}, not read */", names[v.index], shape);
        out.push_back({BodyParameter::Kind::carried_in, fmt::format("const {}* {}", cpp_type(body.type(v).dtype), name),
                       k, nullptr});
        expressions[v] = names[v.index];
    }
    std::vector<const LayerStruct*> structs;
    auto field = [&](Value inner, const BlockCall::Outside& outer) {
        const Placement& place = outer.function->info(outer.value).placement;
        const LayerStruct* s = layout.struct_of(place);
        if (s == nullptr) return false;
        if (expressions.contains(inner))
            return true;  // a block's input that is kept for the backward pass: its parameter
        if (std::find(structs.begin(), structs.end(), s) == structs.end()) structs.push_back(s);
        expressions[inner] = s->variable + "." + s->find(place)->name;
        return true;
    };
    std::vector<BodyParameter> families;
    for (std::size_t k = 0; k < arguments.size(); ++k) {
        Value v = body.arguments[k];
        if (arguments[k].role != Role::layer || field(v, arguments[k])) continue;
        families.push_back({BodyParameter::Kind::family,
                            fmt::format("const {}* {}", cpp_type(body.type(v).dtype), names[v.index]), k, nullptr});
        expressions[v] = names[v.index];
    }
    for (std::size_t r = 0; r < results.size(); ++r) {
        if (results[r].role != Role::layer) continue;
        const bool known = field(body.results[r], results[r]);
        check(known, fmt::format("@{}: result {} is in no struct", body.name, r));
    }
    for (const LayerStruct* s : structs)
        out.push_back({BodyParameter::Kind::structure, fmt::format("const {}& {}", s->name, s->variable), 0, s});
    out.insert(out.end(), families.begin(), families.end());
    for (std::size_t k = 0; k < arguments.size(); ++k) {
        Value v = body.arguments[k];
        if (arguments[k].role != Role::shared || !is_named(layout, body, v)) continue;
        out.push_back({BodyParameter::Kind::shared,
                       fmt::format("const {}* {} /* {} */", cpp_type(body.type(v).dtype), names[v.index],
                                   layout.symbols().shape(body, v)),
                       k, nullptr});
        expressions[v] = names[v.index];
    }
    if (body.scratch_bytes > 0) out.push_back({BodyParameter::Kind::scratch, "std::byte* scratch", 0, nullptr});
    if (reads_step(layout, body)) out.push_back({BodyParameter::Kind::gradient, "WriteMode mode", 0, nullptr});
    out.push_back({BodyParameter::Kind::stream, "Stream& stream", 0, nullptr});
    return out;
}

}  // namespace thunderc

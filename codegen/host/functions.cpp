// SPDX-License-Identifier: Apache-2.0
#include "codegen/host/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>

#include "codegen/host/block_calls.h"
#include "codegen/host/body_parameters.h"
#include "codegen/host/call_formula.h"
#include "codegen/host/call_members.h"
#include "codegen/host/collective_ranges.h"
#include "codegen/host/communication.h"
#include "codegen/host/function_frame.h"
#include "codegen/host/gradient_flags.h"
#include "codegen/host/statements.h"
#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"
#include "compiler/planned/carry_slots.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/lazy_check.h"

namespace thunderc {
namespace {

using Arena = Placement::Arena;

const char* title_of(Arena arena, bool entry, bool trains) {
    switch (arena) {
        case Arena::batch: return trains ? "the micro-batch" : "inputs";
        case Arena::results: return "results";
        case Arena::parameters: return "parameters";
        case Arena::narrow_copies: return "parameters in the type of products";
        case Arena::gathered: return "parameters, gathered";
        case Arena::unit_gradients: return "their gradients, of this rank alone";
        case Arena::gradients: return "their gradients";
        case Arena::optimizer: return "optimizer state";
        case Arena::constants: return "tables";
        case Arena::saved: return "kept from forward to backward";
        case Arena::scaling: return "scales of what is quantised";
        default: return entry ? "activations, in memory that is reused" : "reused from layer to layer";
    }
}

// The arguments that a call of the function names by themselves: of a loop's body, what the calls in it name.
std::set<std::size_t> named_arguments(const ProgramLayout& layout, const Function& body) {
    using Kind = BodyParameter::Kind;
    std::set<std::size_t> out;
    if (!body.is_loop_body()) {
        std::map<Value, std::string> expressions;
        for (const BodyParameter& p : body_parameters(layout, body, expressions))
            if (p.kind == Kind::carried_in || p.kind == Kind::family || p.kind == Kind::shared) out.insert(p.index);
        return out;
    }
    for (const Op& op : body.ops) {
        if (!is_function_call(op)) continue;
        for (std::size_t k : named_arguments(layout, *layout.module().find(called_function(op)))) {
            const auto at = std::find(body.arguments.begin(), body.arguments.end(), op.operands[k]);
            if (at != body.arguments.end()) out.insert(static_cast<std::size_t>(at - body.arguments.begin()));
        }
    }
    return out;
}

// By argument of a kernel: whether the result is made of it.
std::vector<bool> made_of(const Function& kernel, Value result) {
    std::vector<bool> needed(kernel.values.size(), false);
    needed[result.index] = true;
    for (std::size_t k = kernel.ops.size(); k-- > 0;) {
        const Op& op = kernel.ops[k];
        if (std::none_of(op.results.begin(), op.results.end(), [&](Value v) { return needed[v.index]; })) continue;
        for (Value v : op.operands)
            if (v) needed[v.index] = true;
    }
    std::vector<bool> out;
    for (Value v : kernel.arguments) out.push_back(needed[v.index]);
    return out;
}

// By value of a backward function: whether it is a value of the forward pass. Both functions have one name for one
// value; what is made of a cotangent is none, whatever it is called.
std::vector<bool> values_of_forward(const Module& module, const Function& f) {
    std::vector<bool> out(f.values.size(), false);
    const std::string_view end = "_backward";
    if (!f.argument_info.empty() || !f.name.ends_with(end)) return out;
    const Function* forward = module.find(f.name.substr(0, f.name.size() - end.size()) + "_forward");
    if (forward == nullptr) return out;
    std::set<std::string> names;
    for (Value v : forward->arguments) names.insert(forward->info(v).name);
    for (const Op& op : forward->ops)
        for (Value v : op.results) names.insert(forward->info(v).name);
    const auto known = [&](Value v) { return !v || out[v.index]; };
    for (Value v : f.arguments) out[v.index] = names.contains(f.info(v).name);
    for (const Op& op : f.ops)
        for (std::size_t r = 0; r < op.results.size(); ++r) {
            std::vector<bool> read(op.operands.size(), true);
            if (is_kernel_call(op)) {
                const Function& kernel = *module.find(called_kernel(op));
                read = made_of(kernel, kernel.results[r]);
            }
            bool all = is_constant_op(op) || is_view(op) || names.contains(f.info(op.results[r]).name);
            for (std::size_t o = 0; o < op.operands.size(); ++o) all = all && (!read[o] || known(op.operands[o]));
            out[op.results[r].index] = all;
        }
    return out;
}

}  // namespace

std::string leaf_scope(const Function& f, const std::string& scope) {
    if (scope.empty()) return "";
    const std::size_t open = f.scope.find('{');
    if (open == std::string::npos || scope.compare(0, open, f.scope, 0, open) != 0) return scope;
    // Behind the layer's number or pattern: "model.layers.{0..31}.mlp" and "model.layers.0.mlp" are "mlp".
    std::size_t end = scope[open] == '{' ? scope.find('}', open) : scope.find_first_not_of("0123456789", open);
    if (end == std::string::npos) return "";
    const std::size_t dot = scope.find('.', end);
    return dot == std::string::npos ? "" : scope.substr(dot + 1);
}

const char* arenas_name(bool entry) {
    return entry ? "arenas_" : "arenas";
}

std::string arena_text(bool entry, Arena arena) {
    return fmt::format("{}.{}", arenas_name(entry), name_of(arena));
}

std::string scratch_text(bool entry, const Function& block) {
    return fmt::format("{} + offset::{}_scratch", entry ? "arenas_.scratch" : "scratch", identifier(block.name));
}

std::string at_arena(DType dtype, const std::string& base, const std::string& offset) {
    return fmt::format("at<{}>({}, {})", cpp_type(dtype), base, offset);
}

std::string FunctionPrinter::signature(const Function& body) const {
    std::map<Value, std::string> expressions;
    std::string out;
    for (const BodyParameter& p : body_parameters(layout_, body, expressions))
        out += (out.empty() ? "" : ", ") + p.declaration;
    return fmt::format("void {}({})", identifier(body.name), out);
}

void FunctionPrinter::print_body(SourceText& out, const Function& body) const {
    Frame frame{body, layout_.names(body), false, {}, nullptr, nullptr};
    body_parameters(layout_, body, frame.expressions);
    std::string where =
        body.scope.empty() ? ""
                           : fmt::format("{}{}", body.module_class.empty() ? "" : body.module_class + ": ", body.scope);
    if (!where.empty()) out.comment(where);
    out.open(signature(body) + " {");
    out.line(fmt::format("const Range range(\"{}\");  // as a GPU's profilers show it", identifier(body.name)));
    locals(out, frame);
    statements(out, frame);
    out.close();
}

void FunctionPrinter::print_entry(SourceText& out, const Function& entry, std::span<const Op> part) const {
    Frame frame{entry, layout_.names(entry), true, {}, nullptr, nullptr, part};
    locals(out, frame);
    statements(out, frame);
}

// Pointers to the tensors that the function works on, each with its shape; only those that a statement names.
std::vector<FunctionPrinter::Local> FunctionPrinter::local_tensors(const Frame& frame) const {
    const Function& f = frame.f;
    std::vector<bool> used(f.values.size(), false);
    for (const Op& op : frame.part) {
        const bool loop = is_loop(op);
        if (is_collective(op, Collective::all_reduce) && !op.attributes.has("unit") &&
            !f.type(op.results[0]).dims.empty())
            for (const auto& range : collective_ranges(layout_.module(), f, nullptr, op).ranges)
                used[range.first.index] = true;
        if (!loop && !is_function_call(op)) {
            std::vector<bool> flags;
            if (is_kernel_call(op)) flags = gradient_flags(layout_.module(), layout_.calls(), f, op);
            const auto is_flag = [&](Value v) {
                for (std::size_t o = 0; o < flags.size(); ++o)
                    if (flags[o] && op.operands[o] == v) return true;
                return false;
            };
            for_each_value_in_text(f, op, [&](Value v) { used[v.index] = used[v.index] || !is_flag(v); });
            continue;
        }
        // A loop has its slots and structs, and by name only what all layers share.
        const auto shared = loop ? loop_carried(op) + loop_per_layer(op) : 0;
        const Function& body = *layout_.module().find(op.attributes.string(loop ? "body" : "callee"));
        for (std::size_t k : named_arguments(layout_, body))
            if (k >= shared && op.operands[k]) used[op.operands[k].index] = true;
        for (Value v : op.results) used[v.index] = used[v.index] || !loop;
    }
    std::vector<bool> written(f.values.size(), false);
    // A result takes the place of the argument of that name.
    const std::set<std::string_view> results(f.result_names.begin(), f.result_names.end());
    for (Value v : f.arguments)
        if (results.contains(f.info(v).name)) written[v.index] = true;
    for (const Op& op : f.ops)
        for (Value v : op.results) {
            const Value base = f.info(v).placement.view_of;  // a view writes nothing
            written[v.index] = !base || written[base.index];
        }
    std::set<std::string> declared;
    std::vector<Local> out;
    constexpr Arena order[] = {Arena::batch,         Arena::results,        Arena::gathered,  Arena::parameters,
                               Arena::narrow_copies, Arena::unit_gradients, Arena::gradients, Arena::optimizer,
                               Arena::scaling,       Arena::constants,      Arena::saved,     Arena::scratch};
    for (Arena arena : order) {
        const auto is_local = [&](Value v) {
            return used[v.index] && f.info(v).placement.arena == arena && !f.type(v).is_family() &&
                   !frame.expressions.contains(v);
        };
        auto one = [&](Value v) {
            const Placement& p = f.info(v).placement;
            if (!is_local(v)) return;
            // What is written straight into a tensor that comes later stands behind it.
            if (p.view_of && is_local(p.view_of) && declared.insert(frame.names[p.view_of.index]).second)
                out.push_back({p.view_of, false, false});
            Local local{v,
                        arena == Arena::batch || arena == Arena::constants || arena == Arena::gathered ||
                            ((arena == Arena::parameters || arena == Arena::narrow_copies) && !written[v.index]),
                        false};
            local.view = p.view_of && declared.contains(frame.names[p.view_of.index]);
            if (declared.insert(frame.names[v.index]).second)
                out.push_back(local);  // else: a result in the place of an argument
        };
        for (Value v : f.arguments) one(v);
        for (const Op& op : f.ops)
            for (Value v : op.results) one(v);
    }
    return out;
}

void FunctionPrinter::locals(SourceText& out, const Frame& frame) const {
    const Function& f = frame.f;
    std::optional<Arena> last;
    bool offsets = false;
    const std::vector<Local> tensors = local_tensors(frame);
    for (const Local& local : tensors) offsets = offsets || !local.view;
    for (const Op& op : frame.part)
        offsets = offsets || is_loop(op) || (is_function_call(op) && op.attributes.has("scratch"));
    if (offsets) {
        out.line(fmt::format("namespace offset = layout::{};", identifier(f.name)));
        out.blank();
    }
    for (const Local& local : tensors) {
        const Placement& p = f.info(local.value).placement;
        if (last != p.arena) {
            if (last) out.blank();
            out.comment(title_of(p.arena, frame.entry, layout_.trains()));
        }
        last = p.arena;
        const std::string& name = frame.names[local.value.index];
        const std::string base =
            frame.entry || p.arena != Arena::scratch ? arena_text(frame.entry, p.arena) : "scratch";
        std::string where = at_arena(f.type(local.value).dtype, base, "offset::" + name);
        if (local.view) {
            const std::int64_t delta = (p.offset - f.info(p.view_of).placement.offset) /
                                       static_cast<std::int64_t>(size_of(f.type(local.value).dtype));
            where = frame.names[p.view_of.index];
            if (delta != 0) where += fmt::format(" + {}", layout_.symbols().elements(f, p.view_of, delta));
        }
        // Under one name one shape, that of LAYOUT, whichever of its views the statements have.
        const bool renamed = p.view_of && frame.names[p.view_of.index] == name;
        out.line(fmt::format("{}{}* const {} = {};  // {}", local.read_only ? "const " : "",
                             cpp_type(f.type(local.value).dtype), name, where,
                             layout_.symbols().shape(f, renamed ? p.view_of : local.value)));
    }
    if (!tensors.empty()) out.blank();
}

void FunctionPrinter::offsets(SourceText& out, const Function& function) const {
    Frame frame{function, layout_.names(function), !function.argument_info.empty(), {}, nullptr, nullptr};
    if (!frame.entry) body_parameters(layout_, function, frame.expressions);
    std::vector<std::string> lines;
    std::set<std::string> named;
    for (const std::span<const Op> part : printed_parts(function)) {
        frame.part = part;
        for (const Local& local : local_tensors(frame))
            if (const std::string& name = frame.names[local.value.index]; !local.view && named.insert(name).second)
                lines.push_back(fmt::format("inline constexpr std::int64_t {} = {};", name,
                                            function.info(local.value).placement.offset));
    }
    std::set<std::string> pieces;
    auto scratch = [&](const Op& op, const Function& block, std::int64_t base) {
        if (block.scratch_bytes > 0 && pieces.insert(block.name).second)
            lines.push_back(fmt::format("inline constexpr std::int64_t {}_scratch = {};  // {} bytes",
                                        identifier(block.name), base + op.attributes.integer("scratch"),
                                        block.scratch_bytes));
    };
    for (const Op& op : function.ops) {
        if (is_collective(op) && function.name != update_function) collective_offsets(lines, function, nullptr, op);
        if (is_function_call(op)) scratch(op, callee(layout_.module(), op), 0);
        if (!is_loop(op)) continue;
        const Function& body = callee(layout_.module(), op);
        if (body.is_loop_body()) {
            for (const Op& inner : body.ops) {
                if (is_collective(inner)) collective_offsets(lines, body, &op, inner);
                if (is_function_call(inner))
                    scratch(inner, callee(layout_.module(), inner), op.attributes.integer("scratch", 0));
            }
        } else {
            scratch(op, body, 0);
        }
        for (std::size_t k = 0; k < loop_carried(op); ++k) {
            const CarrySlots slots = carry_slots(op, k);
            const std::string name = slot_names(function, op)[k];
            lines.push_back(fmt::format("inline constexpr std::int64_t {} = {}, {}_stride = {};  // {}", name,
                                        slots.base, name, slots.stride,
                                        layout_.symbols().shape(body, body.arguments[k])));
        }
    }
    if (lines.empty()) return;
    out.line(fmt::format("namespace layout::{} {{", identifier(function.name)));
    for (const std::string& line : lines) out.line(line);
    out.line("}");
}

const std::vector<std::string>& FunctionPrinter::slot_names(const Function& f, const Op& loop) const {
    const auto [found, is_new] = slot_names_.try_emplace(f.name);
    if (is_new) {
        UsedNames used(layout_.names(f));
        for (const Op& op : f.ops) {
            if (!is_loop(op)) continue;
            const Function& body = callee(layout_.module(), op);
            std::vector<std::string>& names = found->second[op.results];
            for (std::size_t k = 0; k < loop_carried(op); ++k)
                names.push_back(used.unique(layout_.names(body)[body.arguments[k].index] + "_slot"));
        }
    }
    return found->second.at(loop.results);
}

std::string FunctionPrinter::expression(const Frame& frame, Value v) const {
    if (auto at = frame.expressions.find(v); at != frame.expressions.end()) return at->second;
    const Placement& p = frame.f.info(v).placement;
    if (p.arena == Arena::scalars) {
        // A flag of the host, which no call is given by its place.
        if (frame.f.type(v).dtype == DType::boolean) return {};
        const std::optional<std::string> name = step_scalar_at(p.offset);
        check(name.has_value(), [&] { return fmt::format("no step scalar lies at {}", p.offset); });
        const bool weight = p.offset >= step_scalars_bytes;
        return fmt::format("&{}.{}{}", arenas_name(frame.entry), weight ? "" : "scalars->", *name);
    }
    if (p.arena == Arena::caller && p.view_of) {
        std::string base = expression(frame, p.view_of);
        const std::int64_t elements = p.offset / static_cast<std::int64_t>(size_of(frame.f.type(v).dtype));
        return elements == 0 ? base
                             : fmt::format("{} + {}", base, layout_.symbols().elements(frame.f, p.view_of, elements));
    }
    return frame.names[v.index];
}

std::string FunctionPrinter::member_expression(const Frame& frame, Value family, const std::string& index) const {
    const Placement& p = frame.f.info(family).placement;
    return at_arena(frame.f.type(family).dtype, arena_text(frame.entry, p.arena),
                    fmt::format("{} + {} * {}", p.offset, index, p.layer_stride));
}

const std::vector<bool>& FunctionPrinter::recomputed(const Function& f) const {
    const auto at = recomputed_.find(f.name);
    return at != recomputed_.end() ? at->second
                                   : recomputed_.emplace(f.name, values_of_forward(layout_.module(), f)).first->second;
}

void FunctionPrinter::comment(SourceText& out, const Frame& frame, const Op& op, const std::string& what) const {
    std::string scope = leaf_scope(frame.f, op.provenance.scope);
    const std::vector<bool>& forward = recomputed(frame.f);
    const auto again = [&](Value v) { return v && forward[v.index]; };
    if (!op.results.empty() && std::all_of(op.results.begin(), op.results.end(), again))
        scope += scope.empty() ? "recomputed" : ", recomputed";
    std::string text = scope.empty() ? what : what.empty() ? scope : fmt::format("{}: {}", scope, what);
    if (!text.empty()) out.comment(text);
}

void FunctionPrinter::statements(SourceText& out, const Frame& frame) const {
    std::vector<const Op*> between;  // two calls: what ranks say to each other there
    for (const Op& op : frame.part) {
        wait_for_update(out, frame, op, false);
        if (is_communication(op)) {
            if (frame.f.name != update_function) between.push_back(&op);  // the norm's, which is one call
            continue;
        }
        if (statement_count(frame.f, op) == 0) continue;
        communication(out, frame, between);
        between.clear();
        statement(out, frame, op);
    }
    communication(out, frame, between);
}

void FunctionPrinter::statement(SourceText& out, const Frame& frame, const Op& op) const {
    const OpDef& def = op_def(op.name);
    if (is_loop(op)) return loop(out, frame, op);
    if (is_function_call(op)) return single_call(out, frame, op);
    if (is_kernel_call(op)) return kernel_call(out, frame, op);
    if (is_family_op(op)) {  // of tensors that were made one by one: a loop reads it by layer
        for (std::size_t k = 0; k < op.operands.size(); ++k)
            out.line(fmt::format("copy({}, {}, {}, stream);",
                                 member_expression(frame, op.results[0], std::to_string(k)),
                                 expression(frame, op.operands[k]), frame.f.type(op.operands[k]).bytes()));
        return;
    }
    if (is_stack(op)) {  // of members that lie apart
        const Type& family = frame.f.type(op.operands[0]);
        const std::string part = layout_.symbols().elements(frame.f, op.operands[0], family.elements());
        out.line(fmt::format("for (int layer = 0; layer < {}; ++layer)", family.count));
        out.line(fmt::format("    copy({} + layer * {}, {}, {}, stream);", expression(frame, op.results[0]), part,
                             member_expression(frame, op.operands[0], "layer"), family.member().bytes()));
        return;
    }
    if (is_copy(op)) {
        out.line(fmt::format("copy({}, {}, {}, stream);", expression(frame, op.results[0]),
                             expression(frame, op.operands[0]), frame.f.type(op.results[0]).bytes()));
        return;
    }
    check(static_cast<bool>(def.call),
          fmt::format("{} is left over: neither a call of the runtime API nor part of a kernel", op.name));
    runtime_call(out, frame, op);
}

namespace {

std::string trained_elements(const ProgramLayout& layout) {
    return layout.trained_constant() + (layout.mixed_precision() ? "" : " / static_cast<std::int64_t>(sizeof(float))");
}

// What a call that works on whole arenas is given. `steps`: it is the optimizer's.
std::string whole_arena_expression(const CallField& field, const ProgramLayout& layout, bool steps) {
    switch (field.kind) {
        case CallField::Kind::arena: {
            const std::string states = field.index == 1 ? "" : fmt::format("{} * ", field.index);
            const std::string trained = layout.trained_constant();
            const std::string bytes =
                layout.mixed_precision() ? fmt::format("{} * {}", trained, size_of(field.dtype)) : trained;
            return at_arena(field.dtype, arena_text(true, field.arena), field.index == 0 ? "0" : states + bytes);
        }
        case CallField::Kind::elements: return trained_elements(layout);
        case CallField::Kind::segments: return "part.segments";
        default: break;
    }
    check(field.kind == CallField::Kind::scalars, field.name + " is no field of a whole arena");
    return steps ? "part.scalars" : "arenas_.scalars";
}

}  // namespace

// Whether the flag that the op is given, to begin a sum or to add to it, says that it always begins one: gradients that
// are made whole and then summed into shards.
bool FunctionPrinter::overwrites(const Frame& frame, const Op& op) const {
    const Function* f = &frame.f;
    std::vector<Value> given = op.operands;
    if (frame.loop != nullptr) {
        for (Value& v : given) {
            const auto at = std::find(f->arguments.begin(), f->arguments.end(), v);
            v = at == f->arguments.end() ? Value{}
                                         : frame.loop->operands[static_cast<std::size_t>(at - f->arguments.begin())];
        }
        f = &frame.outside->f;
    }
    const std::vector<Value>& flags = constant_flags(*f);
    return std::any_of(flags.begin(), flags.end(),
                       [&](Value flag) { return std::find(given.begin(), given.end(), flag) != given.end(); });
}

const std::vector<Value>& FunctionPrinter::constant_flags(const Function& f) const {
    const auto [at, fresh] = constant_flags_.try_emplace(f.name);
    if (fresh)
        for (const Op& op : f.ops)
            if (is_constant_op(op) && f.type(op.results[0]) == Type::tensor(DType::boolean, {}))
                at->second.push_back(op.results[0]);
    return at->second;
}

std::string FunctionPrinter::gradient_text(const Frame& frame, const Op& op) const {
    return overwrites(frame, op) ? "WriteMode::overwrite" : "mode";
}

// "dW = ...", where what the formula adds up is overwritten.
std::string FunctionPrinter::as_written(const Frame& frame, const Op& op, std::string formula) const {
    if (!overwrites(frame, op)) return formula;
    for (std::size_t at = 0; (at = formula.find(" += ", at)) != std::string::npos;) formula.erase(at + 1, 1);
    return formula;
}

void FunctionPrinter::runtime_call(SourceText& out, const Frame& frame, const Op& op) const {
    if (op.name == "norm_of_squares") {
        out.comment("the norm of all gradients, of which each rank has a piece, and the factor that clips them");
        out.line(
            fmt::format("sharded_norm({{.scalars = arenas_.scalars, .gradients = at<{}>(arenas_.gradients, 0), "
                        ".elements = {}, .group = Group::shard}}, stream);",
                        cpp_type(layout_.gradient_dtype()), trained_elements(layout_)));
        return;
    }
    const RuntimeCall call = op_def(op.name).call(op, frame.f);
    std::vector<std::pair<std::string, std::string>> values;
    auto add = [&values](const std::string& name, const std::string& value) { values.emplace_back(name, value); };
    for (const CallField& field : call.fields) {
        if (field.kind == CallField::Kind::literal) {
            const bool number =
                !field.literal.empty() && field.literal.find_first_not_of("0123456789") == std::string::npos;
            add(field.name, number ? layout_.symbols().call_size(frame.f, op, field.name,
                                                                 std::strtoll(field.literal.c_str(), nullptr, 10))
                                   : field.literal);
            continue;
        }
        if (is_gradient_flag(call, field)) {
            add(field.name, gradient_text(frame, op));
            continue;
        }
        if (field.kind == CallField::Kind::from_result) {
            const Value first = op.results.at(field.index);
            const Placement& p = frame.f.info(first).placement;
            add(field.name,
                at_arena(frame.f.type(first).dtype, arena_text(frame.entry, p.arena), std::to_string(p.offset)));
            continue;
        }
        if (field.kind != CallField::Kind::operand && field.kind != CallField::Kind::result) {
            add(field.name, whole_arena_expression(field, layout_, is_of_parameters(frame.f, op)));
            continue;
        }
        const Value v =
            field.kind == CallField::Kind::operand ? op.operands.at(field.index) : op.results.at(field.index);
        add(field.name, expression(frame, v));
        const Dims& strides = frame.f.info(v).placement.strides;
        if (strides.empty()) continue;
        const std::optional<std::int64_t> stride = row_stride({strides, 0}, frame.f.type(v).dims, field.row_dims);
        check(!field.stride_field.empty() && stride.has_value(),
              fmt::format("{}: .{} cannot be a view", call.function, field.name));
        const Value whole = frame.f.info(v).placement.view_of;
        add(field.stride_field, whole ? layout_.symbols().elements(frame.f, whole, *stride) : std::to_string(*stride));
    }
    comment(out, frame, op, as_written(frame, op, call.comment));
    out.line(call_text(call, std::move(values)));
}

void FunctionPrinter::kernel_call(SourceText& out, const Frame& frame, const Op& op) const {
    auto passed = [&](Value v) {
        const Placement& p = frame.f.info(v).placement;
        PassedArgument out = {expression(frame, v)};
        out.part = !p.strides.empty() && p.view_of && out.text == expression(frame, p.view_of);
        return out;
    };
    std::vector<PassedArgument> inputs, outputs;
    const std::vector<bool> flags = gradient_flags(layout_.module(), layout_.calls(), frame.f, op);
    for (std::size_t o = 0; o < flags.size(); ++o)
        inputs.push_back(flags[o] ? PassedArgument{"mode"} : passed(op.operands[o]));
    for (Value v : op.results) outputs.push_back(passed(v));
    const auto texts = [](const std::vector<PassedArgument>& all) {
        std::vector<std::string> out;
        for (const PassedArgument& a : all) out.push_back(a.text);
        return out;
    };
    const PrintedKernel& kernel = kernels_.use(frame.f, op, texts(inputs), texts(outputs));
    std::string arguments;
    for (const KernelArgument& a : kernel.arguments)
        arguments += (a.is_flag ? gradient_text(frame, op) : (a.output ? outputs : inputs).at(a.index).text) + ", ";
    // The formula stands with the kernel; here as well, on one line or an equation on each.
    constexpr std::size_t one_line = 90;
    CallFormula formula = call_formula(kernels_, frame.f, op, inputs, outputs);
    for (std::string& line : formula.lines) line = as_written(frame, op, std::move(line));
    std::string scope = leaf_scope(frame.f, op.provenance.scope);
    if (formula.kernel_names) scope += scope.empty() ? "in the kernel's names" : ", in the kernel's names";
    // What the forward pass computed before is said where it is computed again.
    const std::vector<bool>& forward = recomputed(frame.f);
    if (std::all_of(op.results.begin(), op.results.end(), [&](Value v) { return forward[v.index]; })) {
        scope += scope.empty() ? "recomputed" : ", recomputed";
    } else {
        for (const KernelArgument& a : kernel.arguments) {
            if (!a.output || !forward[op.results[a.index].index]) continue;
            const std::string name = formula.kernel_names ? a.name : as_written(frame, op, outputs[a.index].text);
            for (std::string& line : formula.lines)
                if (line.starts_with(name + " = ")) line += " (recomputed)";
        }
    }
    const std::string all = fmt::format("{}", fmt::join(formula.lines, "; "));
    if (all.size() <= one_line || formula.lines.size() == 1) {
        out.comment(scope.empty() ? all : fmt::format("{}: {}", scope, all));
    } else {
        if (!scope.empty()) out.comment(scope + ":");
        for (const std::string& equation : formula.lines) out.comment((scope.empty() ? "" : "  ") + equation);
    }
    out.line(fmt::format("{}({}stream);", kernel.name, arguments));
}

}  // namespace thunderc

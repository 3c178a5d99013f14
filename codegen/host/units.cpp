// SPDX-License-Identifier: Apache-2.0
// Units of several ranks: the table of them in model.h, and the calls that gather one or sum its gradients. A part of
// functions.
#include <fmt/format.h>

#include <map>

#include "codegen/host/function_frame.h"
#include "codegen/host/functions.h"
#include "codegen/text.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// {.arena = &Arenas::gathered, .offset = 6912, .stride = 7680}
std::string place_text(const Type& type, const Placement& p, const Op* loop) {
    std::string out = fmt::format("{{.arena = &Arenas::{}, .offset = {}", name_of(p.arena), p.offset);
    if (loop != nullptr) out += fmt::format(", .stride = {}", p.layer_stride);
    if (loop != nullptr && p.slots > 0 && p.slots < loop_count(*loop)) out += fmt::format(", .slots = {}", p.slots);
    if (type.dtype != DType::f32) out += fmt::format(", .dtype = DType::{}", name_of(type.dtype));
    return out + "}";
}

}  // namespace

bool is_of_unit(const Op& op) {
    return is_collective(op) && (!is_collective(op, Collective::all_reduce) || op.attributes.has("unit"));
}

// The table, and what each call's unit is called in it. Of one unit an evaluation may have another place than the step,
// where units take turns: then it has a line of its own.
const FunctionPrinter::Units& FunctionPrinter::units_of_module() const {
    if (units_) return *units_;
    Units units;
    std::map<std::string, std::string> text_of;  // by name
    const auto add = [&](const Function& f, const Op* loop, const Op& op) {
        if (!is_of_unit(op)) return;
        const bool gather = is_collective(op, Collective::all_gather);
        const Value flat = gather ? op.results[0] : op.operands[0];
        Value shard = gather ? op.operands[0] : op.results[0];
        const Type& type = f.type(shard);
        // A shard in a loop is the caller's, of one layer.
        const Function& outer = loop == nullptr ? f : caller_of(layout_.module(), *loop);
        if (loop != nullptr) shard = outside_value(f, *loop, shard);
        std::string text = fmt::format("{{.what = \"{}\", .elements = {}, .group = Group::{},",
                                       op.attributes.string("what"), type.elements(), op.attributes.string("group"));
        if (!is_collective(op, Collective::all_reduce))
            text += fmt::format(" .whole = {},", place_text(f.type(flat), f.info(flat).placement, loop));
        text += fmt::format(" .shard = {}}};", place_text(type, outer.info(shard).placement, loop));
        std::string name = identifier(op.attributes.string("name"));
        const auto is_another = [&] { return text_of.contains(name) && text_of.at(name) != text; };
        if (is_another() && outer.name == evaluate_function) name += "_evaluation";
        check(!is_another(), "two units of one name: " + name);
        if (text_of.emplace(name, text).second)
            units.lines.push_back(fmt::format("inline constexpr thunder::Unit {}{}", name, text));
        units.names[{f.name, op.attributes.string("name")}] = std::move(name);
    };
    for (const Function& f : layout_.module().functions) {
        if (f.argument_info.empty() || f.name == update_function) continue;
        for (const Op& op : f.ops) {
            add(f, nullptr, op);
            if (!is_loop(op)) continue;
            const Function& body = callee(layout_.module(), op);
            if (!body.is_loop_body()) continue;
            for (const Op& inner : body.ops) add(body, &op, inner);
        }
    }
    return units_.emplace(std::move(units));
}

void FunctionPrinter::units(SourceText& out) const {
    const std::vector<std::string>& lines = units_of_module().lines;
    if (lines.empty()) return;
    out.banner("units");
    out.comment(
        "Parameters that ranks gather as one, and gradients that they sum as one: `elements` is what a rank has of "
        "them, its shard; `whole` is all of it. Offsets and strides, from one layer's to the next one's, are in "
        "bytes; in `slots` layers take turns.");
    out.line("namespace unit {");
    out.line("using thunder::Arenas, thunder::DType, thunder::Group;");
    for (const std::string& line : lines) out.line(line);
    out.line("}");
    out.blank();
}

void FunctionPrinter::unit_call(SourceText& out, const Frame& frame, const Op& op, const std::string& stream) const {
    const std::string& name = units_of_module().names.at({frame.f.name, op.attributes.string("name")});
    out.line(fmt::format("{}(arenas_, unit::{}, {}{}{});", op.name, name, frame.loop == nullptr ? "" : "layer, ",
                         is_collective(op, Collective::reduce_scatter) ? "mode, " : "", stream));
}

}  // namespace thunderc

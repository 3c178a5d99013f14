// SPDX-License-Identifier: Apache-2.0
// Units of several ranks: the table of them in model.h, and the calls that gather one or sum its gradients. A part of
// functions.
#include <fmt/format.h>

#include <algorithm>

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

void FunctionPrinter::units(SourceText& out) const {
    std::vector<std::string> lines;
    const auto add = [&](const Function& f, const Op* loop, const Op& op) {
        if (!is_of_unit(op)) return;
        const bool gather = is_collective(op, Collective::all_gather);
        const Value flat = gather ? op.results[0] : op.operands[0];
        Value shard = gather ? op.operands[0] : op.results[0];
        const Type& type = f.type(shard);
        // A shard in a loop is the caller's, of one layer.
        const Function& outer = loop == nullptr ? f : caller_of(layout_.module(), *loop);
        if (loop != nullptr) shard = outside_value(f, *loop, shard);
        std::string line =
            fmt::format("inline constexpr thunder::Unit {}{{.what = \"{}\", .elements = {}, .group = Group::{},",
                        identifier(op.attributes.string("name")), op.attributes.string("what"), type.elements(),
                        op.attributes.string("group"));
        if (!is_collective(op, Collective::all_reduce))
            line += fmt::format(" .whole = {},", place_text(f.type(flat), f.info(flat).placement, loop));
        line += fmt::format(" .shard = {}}};", place_text(type, outer.info(shard).placement, loop));
        if (std::find(lines.begin(), lines.end(), line) != lines.end()) return;
        const std::string head = line.substr(0, line.find('{') + 1);
        for (const std::string& other : lines) check(!other.starts_with(head), "two units of one name: " + head);
        lines.push_back(std::move(line));
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
    out.line(fmt::format("{}(arenas_, unit::{}, {}{}{});", op.name, identifier(op.attributes.string("name")),
                         frame.loop == nullptr ? "" : "layer, ",
                         is_collective(op, Collective::reduce_scatter) ? "mode, " : "", stream));
}

}  // namespace thunderc

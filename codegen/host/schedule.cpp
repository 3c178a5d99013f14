// SPDX-License-Identifier: Apache-2.0
// Prints loops over layers and calls of blocks, and what ranks say to each other around them. A part of functions.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/host/block_calls.h"
#include "codegen/host/body_parameters.h"
#include "codegen/host/collective_ranges.h"
#include "codegen/host/communication.h"
#include "codegen/host/function_frame.h"
#include "codegen/host/functions.h"
#include "codegen/host/statements.h"
#include "codegen/text.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"
#include "compiler/planned/carry_slots.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Kind = BodyParameter::Kind;

// Whether what the loop runs ahead of its first iterations stands apart from it.
bool begins_ahead(const Function& f, const Op& loop) {
    return std::any_of(f.ops.begin(), f.ops.end(),
                       [&](const Op& op) { return is_begin_ahead(op) && loop_body(op) == loop_body(loop); });
}

}  // namespace

// The arguments of a block's call: `arguments` and `results` are what the block's stand for where the call is.
std::string FunctionPrinter::block_arguments(const Frame& frame, const Op& op, const Function& block,
                                             const std::vector<std::string>& arguments,
                                             const std::vector<std::string>& results) const {
    std::map<Value, std::string> expressions;
    std::string out;
    for (const BodyParameter& p : body_parameters(layout_, block, expressions)) {
        std::string text;
        switch (p.kind) {
            case Kind::arenas: text = arenas_name(frame.entry); break;
            case Kind::carried_out: text = results.at(p.index); break;
            case Kind::carried_in:
            case Kind::family:
            case Kind::shared: text = arguments.at(p.index); break;
            case Kind::structure:
                text = fmt::format("{}({}, layer)", p.structure->function, arenas_name(frame.entry));
                break;
            case Kind::scratch: text = scratch_text(frame.entry, block); break;
            case Kind::gradient: text = gradient_text(frame, op); break;
            case Kind::stream: text = "stream"; break;
        }
        out += (out.empty() ? "" : ", ") + text;
    }
    return out;
}

void FunctionPrinter::single_call(SourceText& out, const Frame& frame, const Op& op) const {
    const Function& block = callee(layout_.module(), op);
    auto texts = [&](const std::vector<Value>& values) {
        std::vector<std::string> list;
        for (Value v : values) list.push_back(v ? expression(frame, v) : "");
        return list;
    };
    if (frame.loop == nullptr) comment(out, frame, op, "");
    out.line(fmt::format("{}({});", identifier(block.name),
                         block_arguments(frame, op, block, texts(op.operands), texts(op.results))));
}

// "L", or the number.
std::string FunctionPrinter::layers_text(const Op& loop) const {
    const std::int64_t n = loop_count(loop);
    return layout_.symbols().value("L") == n ? "L" : std::to_string(n);
}

// Where the values that go from layer to layer lie.
void FunctionPrinter::slots(SourceText& out, const Frame& frame, const Op& op) const {
    const Function& body = callee(layout_.module(), op);
    const std::vector<std::string>& names = layout_.names(body);
    const std::string layers = layers_text(op);
    for (std::size_t k = 0; k < loop_carried(op); ++k) {
        const CarrySlots slots = carry_slots(op, k);
        const Type& type = body.type(body.arguments[k]);
        const std::string& name = slot_names(frame.f, op)[k];
        const std::string index = slots.period > 0 ? fmt::format("slot % {}", slots.period) : "slot";
        // What enters the loop is where the first layer reads, what leaves it where the last one wrote.
        out.comment(fmt::format("{} {}, {}: slot 0 is {}, slot {} {}", names[body.arguments[k].index],
                                layout_.symbols().shape(body, body.arguments[k]),
                                slots.period > 0 ? "in two slots by turns" : "one slot more than layers",
                                expression(frame, op.operands[k]), layers, expression(frame, op.results[k])));
        out.open(fmt::format("const auto {} = [this](std::int64_t slot) {{", name));
        out.line(
            fmt::format("return {};", at_arena(type.dtype, arena_text(frame.entry, slots.arena),
                                               fmt::format("offset::{0} + {1} * offset::{0}_stride", name, index))));
        out.close("};");
    }
}

// A family's tensor of one layer: a struct's field, where it is one.
std::string FunctionPrinter::layer_tensor(const Frame& frame, Value family, const std::string& layer) const {
    const Placement& place = frame.f.info(family).placement;
    if (const LayerStruct* s = layout_.struct_of(place))
        return fmt::format("{}({}, {}).{}", s->function, arenas_name(frame.entry), layer, s->find(place)->name);
    return member_expression(frame, family, layer);
}

namespace {

// Whether a call is a product of rows with this operand.
bool reads_as_matrix(const RuntimeCall& call, std::size_t operand) {
    const char* const name = call.function == "matmul"                                                       ? "b"
                             : call.function == "linear_forward" || call.function == "linear_backward_input" ? "weight"
                                                                                                             : "";
    return std::any_of(call.fields.begin(), call.fields.end(), [&](const CallField& f) {
        return f.kind == CallField::Kind::operand && f.index == operand && f.name == name;
    });
}

// Which operands of a loop are matrices that products read as they are in each iteration, and nothing else does: as a
// recurrent layer's weights, which each time step multiplies few rows with.
std::vector<std::size_t> held_operands(const Function& body, const Op& loop) {
    constexpr std::int64_t often = 4;  // a copy in another order costs as much as a few products
    std::vector<std::size_t> held;
    if (loop_count(loop) < often) return held;
    for (std::size_t k = loop_carried(loop) + loop_per_layer(loop); k < loop.operands.size(); ++k) {
        const Value argument = body.arguments[k];
        if (!argument || !body.type(argument).is_tensor() || body.type(argument).rank() != 2) continue;
        bool products = false, others = false;
        for (const Op& op : body.ops) {
            for (std::size_t o = 0; o < op.operands.size(); ++o) {
                if (op.operands[o] != argument) continue;
                const OpDef& def = op_def(op.name);
                (def.call && reads_as_matrix(def.call(op, body), o) ? products : others) = true;
            }
        }
        if (products && !others) held.push_back(k);
    }
    return held;
}

}  // namespace

void FunctionPrinter::loop(SourceText& out, const Frame& frame, const Op& op) const {
    const Function& body = callee(layout_.module(), op);
    const bool reverse = loop_reversed(op);
    const auto carried = loop_carried(op);
    const auto per_layer = loop_per_layer(op);
    const std::string layers = layers_text(op);
    out.blank();
    slots(out, frame, op);
    const std::vector<std::string>& slots_of = slot_names(frame.f, op);
    if (body.is_loop_body() && !begins_ahead(frame.f, op))
        ahead_of_loop(out, {body, layout_.names(body), frame.entry, {}, &op, &frame});
    std::string held;
    const std::vector<std::size_t> matrices = held_operands(body, op);
    for (const std::size_t k : matrices) held += (held.empty() ? "" : ", ") + expression(frame, op.operands[k]);
    if (!held.empty()) {
        out.open("{");
        out.comment(fmt::format("the products of all iterations read the same {}",
                                matrices.size() == 1 ? "matrix" : "matrices"));
        out.line(fmt::format("const HeldMatrices held({{{}}}, stream);", held));
    }
    if (reverse)
        out.open(fmt::format("for (std::int64_t layer = {} - 1; layer >= 0; --layer) {{", layers));
    else
        out.open(fmt::format("for (std::int64_t layer = 0; layer < {}; ++layer) {{", layers));
    wait_for_update(out, frame, op, true);
    // Iteration i reads slot i and writes slot i + 1; going backwards, iteration i is layer n - 1 - i.
    const std::string in_slot = reverse ? fmt::format("{} - 1 - layer", layers) : "layer";
    const std::string out_slot = reverse ? fmt::format("{} - layer", layers) : "layer + 1";
    std::vector<std::string> arguments, results;
    for (std::size_t k = 0; k < op.operands.size(); ++k)
        arguments.push_back(k < carried               ? fmt::format("{}({})", slots_of[k], in_slot)
                            : k < carried + per_layer ? layer_tensor(frame, op.operands[k], "layer")
                            : op.operands[k]          ? expression(frame, op.operands[k])
                                                      : "");
    for (std::size_t r = 0; r < op.results.size(); ++r)
        results.push_back(r < carried ? fmt::format("{}({})", slots_of[r], out_slot)
                                      : layer_tensor(frame, op.results[r], "layer"));
    if (body.is_loop_body()) {
        Frame inside{body, layout_.names(body), frame.entry, {}, &op, &frame};
        for (std::size_t r = 0; r < results.size(); ++r) inside.expressions[body.results[r]] = results[r];
        for (std::size_t k = 0; k < arguments.size(); ++k) inside.expressions[body.arguments[k]] = arguments[k];
        statements(out, inside);
    } else {
        out.line(fmt::format("{}({});", identifier(body.name), block_arguments(frame, op, body, arguments, results)));
    }
    out.close();
    if (!held.empty()) out.close();
    out.blank();
}

// ---- what ranks say to each other ----------------------------------------------------------------------------------

namespace {

// So many layers at once; 0 for what is there for each of them.
std::int64_t layers_of(const Op& op) {
    const std::int64_t layers = op.attributes.integer("layers", 1);
    return layers > 1 ? layers : 0;
}

// Of what all layers find where it is, nothing is done.
bool never(const Op& loop, const Op& op) {
    return op.attributes.integer("resident", 0) >= loop_count(loop);
}

std::string joined(const std::string& a, const std::string& b) {
    return a.empty() ? b : b.empty() ? a : a + " && " + b;
}

}  // namespace

// What the text of a collective names beside tensors, for model.h.
void FunctionPrinter::collective_offsets(std::vector<std::string>& lines, const Function& function, const Op* loop,
                                         const Op& op) const {
    if (is_of_unit(op)) return;  // in the table of units
    const CollectiveRanges ranges = collective_ranges(layout_.module(), function, loop, op);
    const std::vector<std::string> names = collective_names(op, ranges);
    const bool strides = ranges.layers_adjoin && layers_of(op) > 0 && ranges.stride != ranges.ranges[0].elements;
    for (std::size_t k = 0; k < names.size(); ++k)
        lines.push_back(fmt::format("inline constexpr std::int64_t {}_elements = {}{};{}", names[k],
                                    ranges.ranges[k].elements,
                                    strides ? fmt::format(", {}_stride = {}", names[k], ranges.stride) : "",
                                    loop == nullptr ? "" : "  // of one layer"));
}

// "micro_step.last": the flag under which the op is there; "" for always.
std::string FunctionPrinter::flag_text(const Frame& frame, const Op& op) const {
    const std::string name = layout_.communication().flag(frame.f, frame.loop, op);
    if (name.empty()) return "";
    if (name == "last_micro_step") return "micro_step.last";
    check(name == "first_micro_step", op.name + " depends on the flag " + name);
    return "mode == WriteMode::overwrite";
}

// "layer % 4 == 0": the layers for which the op is there; "" for all of them.
std::string FunctionPrinter::turn_text(const Frame& frame, const Op& op) const {
    if (frame.loop == nullptr) return "";
    std::string out;
    if (const std::int64_t layers = layers_of(op); layers > 0)
        out = layers >= loop_count(*frame.loop) ? "layer == 0" : fmt::format("layer % {} == 0", layers);
    // The first ones find what they read where it is.
    const std::int64_t ahead = op.attributes.integer("ahead", 0), resident = op.attributes.integer("resident", 0);
    const bool reverse = loop_reversed(*frame.loop);
    const std::string layers = layers_text(*frame.loop);
    if (ahead > 0)
        out = joined(out, reverse ? fmt::format("layer >= {}", ahead) : fmt::format("layer + {} < {}", ahead, layers));
    if (resident > ahead)
        out = joined(out, reverse ? fmt::format("layer < {} - {}", layers, resident - ahead)
                                  : fmt::format("layer >= {}", resident - ahead));
    return out;
}

// The layer whose turn comes `ahead` iterations later.
std::string FunctionPrinter::iteration(const Frame& frame, std::int64_t ahead) const {
    const bool reverse = loop_reversed(*frame.loop);
    return ahead == 0 ? "layer" : fmt::format("layer {} {}", reverse ? '-' : '+', ahead);
}

// "bucket 0: complete; their sum over ranks overlaps the rest of backward"
void FunctionPrinter::reason(SourceText& out, const Op& op) const {
    if (!op.attributes.has("reason")) return;
    std::string what;
    if (is_collective(op)) {
        what = op.attributes.string(op.attributes.has("unit") ? "what" : "name");
        if (!op.attributes.has("unit")) std::replace(what.begin(), what.end(), '_', ' ');
        what += ": ";
    }
    out.comment(what + op.attributes.string("reason"));
}

// Neighbours that are there under the same condition stand in one block. What runs ahead has a name of its own, since
// it stands in front of the loop as well.
void FunctionPrinter::communication(SourceText& out, const Frame& frame, std::span<const Op* const> ops) const {
    const std::vector<AheadRun> ahead = ahead_runs(frame);
    auto condition = [&](const Op& op) { return joined(flag_text(frame, op), turn_text(frame, op)); };
    for (std::size_t k = 0; k < ops.size();) {
        const Op& op = *ops[k];
        if (frame.loop != nullptr && never(*frame.loop, op)) {
            ++k;
            continue;
        }
        if (op.attributes.integer("ahead", 0) > 0) {
            const auto run =
                std::find_if(ahead.begin(), ahead.end(), [&](const AheadRun& r) { return r.ops[0] == &op; });
            check(run != ahead.end(), op.name + " runs ahead of nothing");
            for (const Op* one : run->ops) reason(out, *one);
            out.line(fmt::format("if ({}) {}({});", turn_text(frame, op), run->name,
                                 iteration(frame, op.attributes.integer("ahead"))));
            k += run->ops.size();
            continue;
        }
        const std::size_t begin = k++;
        while (k < ops.size() && ops[k]->attributes.integer("ahead", 0) == 0 && condition(*ops[k]) == condition(op) &&
               (frame.loop == nullptr || !never(*frame.loop, *ops[k])))
            ++k;
        block(out, frame, ops.subspan(begin, k - begin), condition(op), true);
    }
}

// Whether `op` is there for `next`: what is recorded is waited for, and what waits, sends.
static bool leads_to(const Op& op, const Op& next) {
    if (is_record(op)) return is_wait(next) && next.attributes.string("event") == op.attributes.string("event");
    return is_wait(op) && !op.stream.empty() && next.stream == op.stream;
}

// The ops, which are there when `when` says so.
void FunctionPrinter::block(SourceText& out, const Frame& frame, std::span<const Op* const> ops,
                            const std::string& when, bool reasons) const {
    if (!when.empty()) out.open(fmt::format("if ({}) {{", when));
    std::size_t said = 0;
    for (std::size_t j = 0; j < ops.size(); ++j) {
        // Before a collective its stream waits for what is sent: the reason stands above that.
        std::size_t about = j;
        while (about + 1 < ops.size() && !ops[about]->attributes.has("reason") &&
               leads_to(*ops[about], *ops[about + 1]))
            ++about;
        if (reasons && about >= said && ops[about]->attributes.has("reason") &&
            (about == j || is_collective(*ops[about]))) {
            reason(out, *ops[about]);
            said = about + 1;
        }
        communication(out, frame, *ops[j]);
    }
    if (!when.empty()) out.close();
}

std::vector<FunctionPrinter::AheadRun> FunctionPrinter::ahead_runs(const Frame& inside) const {
    std::vector<AheadRun> runs;
    if (inside.loop == nullptr) return runs;
    UsedNames used;
    // Loops before this one have had their names.
    for (const Op& op : inside.outside->f.ops) {
        if (!is_loop(op)) continue;
        const bool here = &op == inside.loop;
        const Function& body = callee(layout_.module(), op);
        if (!body.is_loop_body()) continue;
        const Frame frame{body, layout_.names(body), inside.entry, {}, &op, inside.outside};
        runs.clear();
        const Op* before = nullptr;  // the last op that the text has
        for (const Op& inner : body.ops) {
            if (!is_communication(inner) && statement_count(body, inner) == 0) continue;
            const Op* last = std::exchange(before, &inner);
            if (inner.attributes.integer("ahead", 0) == 0 || never(op, inner)) continue;
            const bool goes_on =
                !runs.empty() && runs.back().ops.back() == last && turn_text(frame, *last) == turn_text(frame, inner);
            if (!goes_on) runs.emplace_back();
            runs.back().ops.push_back(&inner);
        }
        for (AheadRun& run : runs) {
            const auto gather =
                std::find_if(run.ops.begin(), run.ops.end(), [](const Op* o) { return is_collective(*o); });
            check(gather != run.ops.end(), "what runs ahead gathers nothing");
            run.name = used.unique(fmt::format("gather_{}{}", identifier((*gather)->attributes.string("name")),
                                               loop_reversed(op) ? "_again" : ""));
        }
        if (here) break;
    }
    return runs;
}

// The functions of what runs ahead of its loop, and their calls for the first layers.
void FunctionPrinter::ahead_of_loop(SourceText& out, const Frame& inside) const {
    const std::vector<AheadRun> runs = ahead_runs(inside);
    const Op& loop = *inside.loop;
    std::int64_t first = 0;  // so many layers are begun before the loop
    for (const AheadRun& run : runs) {
        first = std::max(first, run.ops[0]->attributes.integer("ahead"));
        out.open(fmt::format("const auto {} = [&](std::int64_t layer) {{", run.name));
        const std::span<const Op* const> ops = run.ops;
        for (std::size_t k = 0; k < ops.size();) {
            const std::size_t begin = k++;
            const std::string flag = flag_text(inside, *ops[begin]);
            while (k < ops.size() && flag_text(inside, *ops[k]) == flag) ++k;
            block(out, inside, ops.subspan(begin, k - begin), flag, false);
        }
        out.close("};");
    }
    const bool reverse = loop_reversed(loop);
    for (std::int64_t k = 0; k < std::min(first, loop_count(loop)); ++k)
        for (const AheadRun& run : runs)
            if (k >= run.ops[0]->attributes.integer("resident", 0) && k < run.ops[0]->attributes.integer("ahead"))
                out.line(fmt::format("{}({});", run.name,
                                     reverse ? fmt::format("{} - {}", layers_text(loop), k + 1) : std::to_string(k)));
}

// What an event is called in this iteration, or in that which `distance` iterations before recorded it.
std::string FunctionPrinter::event_text(const Frame& frame, const Op& op, std::int64_t distance) const {
    const Communication::EventName& event = layout_.communication().event(frame.f, op.attributes.string("event"));
    if (event.number == 1) return event.name;
    const bool reverse = loop_reversed(*frame.loop);
    const std::int64_t apart = distance % event.number;
    if (apart == 0) return fmt::format("{}[layer % {}]", event.name, event.number);
    return fmt::format("{}[(layer {} {}) % {}]", event.name, reverse ? '+' : '-', apart, event.number);
}

void FunctionPrinter::communication(SourceText& out, const Frame& frame, const Op& op) const {
    const std::string& stream = layout_.communication().stream_of(op);
    if (is_record(op)) return out.line(fmt::format("{}.record({});", stream, event_text(frame, op, 0)));
    if (is_wait(op)) {
        const std::int64_t distance = op.attributes.integer("distance", 0);
        // Nothing in the first iterations.
        const bool guarded = distance > 0 && op.attributes.integer("resident", 0) < distance;
        if (guarded) {
            const bool reverse = loop_reversed(*frame.loop);
            out.line(reverse ? fmt::format("if (layer + {} < {})", distance, layers_text(*frame.loop))
                             : fmt::format("if (layer >= {})", distance));
            out.indent();
        }
        out.line(fmt::format("{}.wait({});", stream, event_text(frame, op, distance)));
        if (guarded) out.outdent();
        return;
    }
    if (is_begin_ahead(op)) {
        for (const Op& loop : frame.f.ops) {
            if (!is_loop_over(loop, loop_body(op))) continue;
            const Function& body = callee(layout_.module(), op);
            ahead_of_loop(out, {body, layout_.names(body), frame.entry, {}, &loop, &frame});
        }
        return;
    }
    if (is_of_unit(op)) return unit_call(out, frame, op, stream);
    all_reduce(out, frame, op, stream);
}

void FunctionPrinter::all_reduce(SourceText& out, const Frame& frame, const Op& op, const std::string& stream) const {
    const CollectiveRanges ranges = collective_ranges(layout_.module(), frame.f, frame.loop, op);
    const std::string what = frame.loop == nullptr   ? op.attributes.string("what")
                             : frame.f.scope.empty() ? frame.f.name
                                                     : frame.f.scope;
    auto call = [&](const std::string& buffer, const std::string& elements, const std::string& layer) {
        out.line(fmt::format(
            "all_reduce({{.buffer = {}, .elements = {}, .group = Group::{}, .what = \"gradients of {}\"{}}}, {});",
            buffer, elements, op.attributes.string("group"), what,
            layer.empty() ? "" : fmt::format(", .layer = static_cast<int>({})", layer), stream));
    };
    const Frame& tensors = frame.loop == nullptr ? frame : *frame.outside;
    auto buffer = [&](const CollectiveRanges::Range& range, const std::string& layer) {
        if (!layer.empty()) return layer_tensor(tensors, range.first, layer);
        return tensors.f.type(range.first).is_family() ? member_expression(tensors, range.first, "0")
                                                       : expression(tensors, range.first);
    };
    const std::vector<std::string> names = collective_names(op, ranges);
    if (frame.loop == nullptr) {
        for (std::size_t k = 0; k < names.size(); ++k)
            call(buffer(ranges.ranges[k], ""), "offset::" + names[k] + "_elements", "");
        return;
    }
    const std::int64_t n = loop_count(*frame.loop), together = layers_of(op);
    if (together == 0) {
        for (std::size_t k = 0; k < names.size(); ++k)
            call(buffer(ranges.ranges[k], "layer"), "offset::" + names[k] + "_elements", "layer");
        return;
    }
    std::string count = together >= n ? layers_text(*frame.loop) : std::to_string(together);
    if (together < n && n % together != 0) {
        out.line(fmt::format("const std::int64_t layers = layer + {0} <= {1} ? {0} : {1} - layer;", together,
                             layers_text(*frame.loop)));
        count = "layers";
    }
    if (ranges.layers_adjoin) {
        // The layers lie one behind the other, each a stride long, of which the last one's end may be another's.
        const std::string one = "offset::" + names[0] + "_elements";
        const std::string elements = ranges.stride == ranges.ranges[0].elements
                                         ? fmt::format("{} * {}", count, one)
                                         : fmt::format("({} - 1) * offset::{}_stride + {}", count, names[0], one);
        call(buffer(ranges.ranges[0], "layer"), elements, "layer");
        return;
    }
    out.open(fmt::format("for (std::int64_t sent = layer; sent < layer + {}; ++sent) {{", count));
    for (std::size_t k = 0; k < names.size(); ++k)
        call(buffer(ranges.ranges[k], "sent"), "offset::" + names[k] + "_elements", "sent");
    out.close();
}

}  // namespace thunderc

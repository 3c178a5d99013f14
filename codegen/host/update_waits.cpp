// SPDX-License-Identifier: Apache-2.0
// Where the forward pass waits for parts of an update that runs beside it, and what model.h and spec.cpp say of these.
// A part of functions.
#include <fmt/format.h>

#include "codegen/host/function_frame.h"
#include "codegen/host/functions.h"
#include "codegen/text.h"
#include "compiler/ir/structure.h"
#include "compiler/planned/step_form.h"

namespace thunderc {

const FunctionPrinter::NamedParts& FunctionPrinter::parts_of_update() const {
    if (parts_of_update_) return *parts_of_update_;
    NamedParts named{thunderc::update_parts(layout_.module()), {}};
    UsedNames used;
    for (const UpdatePart& part : named.found.parts) named.names.push_back(used.unique(identifier(part.name)));
    return parts_of_update_.emplace(std::move(named));
}

bool FunctionPrinter::waits_for_updates() const {
    return layout_.trains() && !parts_of_update().found.parts.empty();
}

// The table in model.h.
void FunctionPrinter::update_parts(SourceText& out) const {
    if (!waits_for_updates()) return;
    const NamedParts& parts = parts_of_update();
    out.banner("update parts");
    out.comment(
        "The parameters, cut where the forward pass waits for their update, in this order; of layers each is a part. "
        "UPDATE_PARTS in spec.cpp says which lie in which.");
    out.line("namespace update_part {");
    for (std::size_t k = 0; k < parts.names.size(); ++k) {
        const UpdatePart& part = parts.found.parts[k];
        out.line(fmt::format("inline constexpr std::int64_t {} = {};{}", parts.names[k], part.first,
                             part.layered ? fmt::format("  // of the first of {} layers", part.count) : ""));
    }
    out.line("}");
    out.blank();
}

std::vector<std::string> FunctionPrinter::update_ranges() const {
    std::vector<std::string> lines;
    if (!waits_for_updates()) return lines;
    for (const UpdatePart& part : parts_of_update().found.parts)
        for (const UpdateRange& r : part.ranges)
            lines.push_back(fmt::format("{{{}, {}, {}, {}, {}}},", part.first, part.count, r.begin, r.end, r.stride));
    return lines;
}

void FunctionPrinter::wait_for_update(SourceText& out, const Frame& frame, const Op& op, bool in_loop) const {
    if (frame.f.name != forward_backward_function || !waits_for_updates()) return;
    const auto& [found, names] = parts_of_update();
    const auto at = static_cast<std::size_t>(&op - frame.f.ops.data());
    if (at == found.join && !in_loop) {
        out.comment("the update of the step before reads the gradients, which are written from here on");
        out.line("wait_for_updates(arenas_, stream);");
    }
    if (at >= found.join) return;
    for (std::size_t k = 0; k < names.size(); ++k) {
        const UpdatePart& part = found.parts[k];
        if (part.op != at || part.layered != in_loop) continue;
        std::string which = names[k];
        if (in_loop) which += loop_reversed(op) ? fmt::format(" + {} - 1 - layer", layers_text(op)) : " + layer";
        out.line(fmt::format("wait_for_update(arenas_, update_part::{}, stream);", which));
    }
}

}  // namespace thunderc

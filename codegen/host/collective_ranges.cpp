// SPDX-License-Identifier: Apache-2.0
#include "codegen/host/collective_ranges.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/text.h"
#include "compiler/ir/structure.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

struct Bytes {
    std::int64_t begin = 0, end = 0;
    Value value;
};

Bytes bytes_of(const Function& f, Value v, bool all_members) {
    const Placement& p = f.info(v).placement;
    const Type& type = f.type(v);
    const std::int64_t members = all_members && type.is_family() ? (type.count - 1) * p.layer_stride : 0;
    return {p.offset, p.offset + members + static_cast<std::int64_t>(type.bytes()), v};
}

}  // namespace

const Function& caller_of(const Module& module, const Op& loop) {
    for (const Function& f : module.functions)
        for (const Op& op : f.ops)
            if (&op == &loop) return f;
    throw InternalError("a loop of no function");
}

Value outside_value(const Function& body, const Op& loop, Value v) {
    for (;;) {
        for (std::size_t r = 0; r < body.results.size(); ++r)
            if (body.results[r] == v) return loop.results[r];
        for (std::size_t k = 0; k < body.arguments.size(); ++k)
            if (body.arguments[k] == v) return loop.operands[k];
        v = body.info(v).placement.view_of;
        check(static_cast<bool>(v), "a collective in a loop works on a tensor of its own");
    }
}

CollectiveRanges collective_ranges(const Module& module, const Function& function, const Op* loop, const Op& op) {
    const Function& f = loop == nullptr ? function : caller_of(module, *loop);
    std::vector<Bytes> tensors;
    for (Value v : op.results)
        tensors.push_back(bytes_of(f, loop == nullptr ? v : outside_value(function, *loop, v), loop == nullptr));
    std::sort(tensors.begin(), tensors.end(), [](const Bytes& a, const Bytes& b) { return a.begin < b.begin; });
    const Placement& place = f.info(tensors.front().value).placement;
    const auto size = static_cast<std::int64_t>(size_of(f.type(tensors.front().value).dtype));
    // What else lies in the arena, each layer's by itself.
    std::vector<Bytes> others;
    for (Value v : f.arguments) {
        const Placement& p = f.info(v).placement;
        if (p.arena != place.arena) continue;
        const bool sent = std::any_of(tensors.begin(), tensors.end(),
                                      [&](const Bytes& t) { return f.info(t.value).placement.offset == p.offset; });
        for (std::int64_t m = 0; !sent && m < (f.type(v).is_family() ? f.type(v).count : 1); ++m) {
            const std::int64_t at = p.offset + m * p.layer_stride;
            others.push_back({at, at + static_cast<std::int64_t>(f.type(v).bytes()), v});
        }
    }
    auto free_of_others = [&](std::int64_t begin, std::int64_t end) {
        return std::none_of(others.begin(), others.end(),
                            [&](const Bytes& o) { return o.begin < end && begin < o.end; });
    };
    CollectiveRanges out;
    out.stride = place.layer_stride / size;
    const std::int64_t layers = loop == nullptr ? 1 : loop_count(*loop);
    std::int64_t begin = 0, end = 0;
    for (const Bytes& t : tensors) {
        // In a loop, those of other layers lie a stride away.
        bool joins =
            !out.ranges.empty() && (loop == nullptr || (f.info(t.value).placement.layer_stride == place.layer_stride &&
                                                        t.end - begin <= place.layer_stride));
        for (std::int64_t layer = 0; joins && layer < layers; ++layer)
            joins = free_of_others(begin + layer * place.layer_stride, t.end + layer * place.layer_stride);
        if (!joins) {
            out.ranges.push_back({t.value, 0});
            begin = t.begin;
            end = t.end;
        }
        end = std::max(end, t.end);
        out.ranges.back().elements = (end - begin) / size;
    }
    out.layers_adjoin =
        loop != nullptr && out.ranges.size() == 1 && free_of_others(begin, end + (layers - 1) * place.layer_stride);
    return out;
}

std::vector<std::string> collective_names(const Op& op, const CollectiveRanges& ranges) {
    const std::string name = identifier(op.attributes.string("name"));
    if (ranges.ranges.size() == 1) return {name};
    std::vector<std::string> out;
    for (std::size_t k = 0; k < ranges.ranges.size(); ++k) out.push_back(fmt::format("{}_{}", name, k + 1));
    return out;
}

}  // namespace thunderc

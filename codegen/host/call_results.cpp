// SPDX-License-Identifier: Apache-2.0
// What the calls of a step write, as --numerics names it: for spec.cpp. A part of functions.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "codegen/host/block_calls.h"
#include "codegen/host/body_parameters.h"
#include "codegen/host/function_frame.h"
#include "codegen/host/functions.h"
#include "codegen/host/statements.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

// Elements in rows that lie `ld` apart; nothing where they lie in another way.
struct MemoryRows {
    std::int64_t count = 1, width = 1, ld = 1;
};
std::optional<MemoryRows> rows_of(const Dims& dims, const Dims& strides) {
    const std::int64_t elements = element_count(dims);
    if (strides.empty() || elements == 0) return MemoryRows{1, elements, elements};
    MemoryRows out;
    std::size_t d = dims.size();
    for (; d > 0 && (dims[d - 1] == 1 || strides[d - 1] == out.width); --d) out.width *= dims[d - 1];
    out.ld = out.width;
    bool first = true;
    for (; d > 0; --d) {
        if (dims[d - 1] == 1) continue;
        if (first) out.ld = strides[d - 1];
        if (strides[d - 1] != out.ld * out.count) return std::nullopt;
        out.count *= dims[d - 1];
        first = false;
    }
    return out;
}

// The `count` names that a name_pattern() is of; none where it is one of another number of names.
std::vector<std::string> names_of_pattern(const std::string& pattern, std::size_t count) {
    std::vector<std::string> out;
    if (count == 1 && !pattern.empty()) return {pattern};
    const std::size_t open = pattern.find('{'), close = pattern.find('}', open);
    long long first = 0, last = 0, step = 1;
    if (open != std::string::npos && close != std::string::npos &&
        std::sscanf(pattern.c_str() + open, "{%lld..%lld:%lld}", &first, &last, &step) >= 2 && step > 0) {
        for (long long number = first; number <= last && out.size() <= count; number += step)
            out.push_back(fmt::format("{}{}{}", pattern.substr(0, open), number, pattern.substr(close + 1)));
    } else {
        for (std::size_t at = 0; at < pattern.size();) {
            const std::size_t end = std::min(pattern.find(", ", at), pattern.size());
            out.push_back(pattern.substr(at, end - at));
            at = end + 2;
        }
    }
    return out.size() == count ? out : std::vector<std::string>();
}

}  // namespace

// The modules of a block, in the order in which a step comes to them.
std::vector<std::string> FunctionPrinter::modules_in_order(const Function& block) const {
    std::vector<std::string> out;
    const Function* first = nullptr;
    for (const CallSites::Site& site : layout_.calls().of(block.name)) {
        const Function* caller = site.caller;
        const Op* loop = is_loop(*site.op) ? site.op : nullptr;
        if (caller->is_loop_body()) {
            const BlockCall call = block_call(layout_.calls(), caller->name);
            caller = call.caller;
            loop = call.loop;
        }
        // Another function of the program that has the same block, as the one that evaluates, is no part of a step.
        if (first == nullptr) first = caller;
        if (caller != first) continue;
        if (loop == nullptr) {
            out.push_back(site.op->provenance.scope.empty() ? block.scope : site.op->provenance.scope);
            continue;
        }
        std::vector<std::string> names = names_of_pattern(block.scope, static_cast<std::size_t>(loop_count(*loop)));
        if (names.empty())  // iterations that are no modules, as time steps are
            for (std::int64_t k = 0; k < loop_count(*loop); ++k)
                names.push_back(fmt::format("{}[{}]", identifier(block.name), k));
        if (loop_reversed(*loop)) std::reverse(names.begin(), names.end());
        out.insert(out.end(), names.begin(), names.end());
    }
    return out;
}

std::vector<FunctionPrinter::NamedResult> FunctionPrinter::named_results(const Frame& frame) const {
    std::vector<NamedResult> out;
    std::size_t calls = 0;
    for (const Op& op : frame.part) {
        const bool kernel = is_kernel_call(op);
        if (statement_count(frame.f, op) == 0 || (!kernel && !op_def(op.name).call)) continue;
        const std::size_t call = calls++;
        const auto add = [&](const std::string& name, const std::string& field, std::size_t result) {
            const Value v = op.results[result];
            const Placement& place = frame.f.info(v).placement;
            const Type& type = frame.f.type(v);
            // Scales and amaxes of what is quantised are told of with its codes.
            const bool scale = place.arena == Placement::Arena::scaling && !is_quantised(type.dtype);
            if (scale || place.arena == Placement::Arena::scalars) return;
            if (type.is_family() || !(is_float(type.dtype) || is_quantised(type.dtype))) return;
            const bool beside = element_count(type.dims) == 1 && op.results.size() > 1;
            const std::optional<MemoryRows> rows = rows_of(type.dims, place.strides);
            std::string tensor = expression(frame, v);
            if (!rows || beside || tensor.empty()) return;
            if (tensor.starts_with("saved.")) tensor = tensor.substr(tensor.find('.') + 1);
            out.push_back({call, name, field, result, tensor, leaf_scope(frame.f, op.provenance.scope), type.dims,
                           rows->count, rows->width, rows->ld});
        };
        if (kernel) {
            for (std::size_t r = 0; r < op.results.size(); ++r) add(kernels_.name(frame.f, op), "", r);
            continue;
        }
        const RuntimeCall runtime = op_def(op.name).call(op, frame.f);
        for (const CallField& field : runtime.fields)
            if (field.kind == CallField::Kind::result) add(runtime.function, field.name, field.index);
    }
    return out;
}

std::vector<FunctionPrinter::NamedFunction> FunctionPrinter::call_results() const {
    std::vector<NamedFunction> out;
    for (const Function& f : layout_.module().functions) {
        if (!f.kind.empty()) continue;
        if (f.argument_info.empty()) {
            Frame frame{f, layout_.names(f), false, {}, nullptr, nullptr};
            body_parameters(layout_, f, frame.expressions);
            out.push_back({identifier(f.name), modules_in_order(f), named_results(frame)});
            continue;
        }
        if (f.name != forward_backward_function) continue;
        for (const EntryPart& part : entry_parts(f)) {
            const Frame frame{f, layout_.names(f), true, {}, nullptr, nullptr, part.ops};
            out.push_back({part.name, {}, named_results(frame)});
        }
    }
    std::erase_if(out, [](const NamedFunction& f) { return f.results.empty(); });
    return out;
}

}  // namespace thunderc

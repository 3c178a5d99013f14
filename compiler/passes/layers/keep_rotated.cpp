// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/layers/keep_rotated.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/analysis/slices.h"
#include "compiler/analysis/views.h"
#include "compiler/ir/builder.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

struct Piece {
    std::int64_t begin = 0, end = 0;
    std::size_t slice = 0;                // op
    std::optional<std::size_t> rotation;  // op
};

struct Rotated {
    Value whole;
    std::vector<Piece> pieces;       // side by side, all of it
    std::size_t last = 0;            // the op behind which all rotations are there
    std::set<std::size_t> deferred;  // views of what is not rotated that stand before
};

// The op that alone reads a value.
std::optional<std::size_t> reader(const Uses& uses, Value v) {
    if (!uses.single_user(v)) return std::nullopt;
    return static_cast<std::size_t>(uses.users[v.index].front());
}

// The rotation of a slice, of all of it by heads.
std::optional<std::size_t> rotation_of(const Function& f, const Uses& uses, Value slice) {
    std::optional<std::size_t> at = reader(uses, slice);
    if (at && f.ops[*at].name == "reshape") {
        const Value heads = f.ops[*at].results[0];
        // The same rows: leading dimensions stay, the last is cut into heads.
        const Dims &from = f.type(slice).dims, &to = f.type(heads).dims;
        if (to.size() < from.size() || !std::equal(from.begin(), from.end() - 1, to.begin())) return std::nullopt;
        at = reader(uses, heads);
    }
    if (!at) return std::nullopt;
    const Op& op = f.ops[*at];
    if (op.name != "rotary" || uses.is_result[op.results[0].index] || uses.users[op.results[0].index].empty())
        return std::nullopt;
    return at;
}

std::optional<Rotated> rotated_pieces(const Function& f, const Uses& uses, const Op& product) {
    Rotated out{product.results[0], {}, 0, {}};
    const Type& type = f.type(out.whole);
    if (uses.is_result[out.whole.index] || type.dims.size() < 2) return std::nullopt;
    for (std::int32_t user : uses.users[out.whole.index]) {
        const auto at = static_cast<std::size_t>(user);
        const std::optional<SliceRange> range = slice_range(f, f.ops[at]);
        if (!range || range->axis + 1 != type.dims.size() || range->step != 1) return std::nullopt;
        const Value slice = f.ops[at].results[0];
        if (uses.is_result[slice.index]) return std::nullopt;
        out.pieces.push_back({range->begin, range->end, at, rotation_of(f, uses, slice)});
        out.last = std::max(out.last, out.pieces.back().rotation.value_or(at));
    }
    std::sort(out.pieces.begin(), out.pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    std::int64_t end = 0;
    bool any = false;
    for (const Piece& piece : out.pieces) {
        if (piece.begin != end) return std::nullopt;
        end = piece.end;
        any = any || piece.rotation;
    }
    if (!any || out.pieces.size() < 2 || end != type.dims.back()) return std::nullopt;
    // Who reads a piece before all are rotated comes later, if it is a view.
    for (const Piece& piece : out.pieces) {
        const Value read = piece.rotation ? f.ops[*piece.rotation].results[0] : f.ops[piece.slice].results[0];
        std::vector<Value> open = {read};
        while (!open.empty()) {
            const Value v = open.back();
            open.pop_back();
            for (std::int32_t user : uses.users[v.index]) {
                const auto at = static_cast<std::size_t>(user);
                if (at > out.last) continue;
                if (!is_view(f.ops[at]) || uses.is_result[f.ops[at].results[0].index]) return std::nullopt;
                out.deferred.insert(at);
                open.push_back(f.ops[at].results[0]);
            }
        }
    }
    return out;
}

void rewrite(Function& f, const Rotated& group) {
    Rewriter rewriter(f);
    Builder& b = rewriter.builder();
    const std::vector<Op>& ops = rewriter.old_ops();
    for (std::size_t k = 0; k < ops.size(); ++k) {
        if (!group.deferred.contains(k)) rewriter.keep(ops[k]);
        if (k != group.last) continue;
        const std::string name = f.info(group.whole).name;
        const auto axis = static_cast<std::int64_t>(f.type(group.whole).rank()) - 1;
        b.set_provenance(ops[k].provenance);
        std::vector<Value> parts;
        for (const Piece& piece : group.pieces) {
            const Value slice = rewriter.now(ops[piece.slice].results[0]);
            const Dims dims = f.type(slice).dims;
            parts.push_back(piece.rotation ? b.reshape(rewriter.now(ops[*piece.rotation].results[0]), dims) : slice);
        }
        const Value all = b.op("concat", parts, {{"axis", axis}}, name + "_rotated");
        for (const Piece& piece : group.pieces) {
            const Op& read = ops[piece.rotation.value_or(piece.slice)];
            const Value old = read.results[0];
            const std::string piece_name = f.info(old).name + (piece.rotation ? "_rotated" : "");
            if (!piece.rotation) f.info(old).name += "_before";
            const Value part = b.slice(all, axis, piece.begin, piece.end);
            const Value by = b.reshape(part, f.type(old).dims);
            f.info(part).name = f.info(by).name = piece_name;
            rewriter.replace(read, {&by, 1});
        }
        for (std::size_t at : group.deferred) rewriter.keep(ops[at]);
    }
    rewriter.finish();
}

}  // namespace

Module keep_rotated(Module module, Report& report) {
    for (Function& f : module.functions) {
        std::optional<Uses> uses(f);
        for (std::size_t k = 0; k < f.ops.size(); ++k) {  // what is written anew comes behind
            if (f.ops[k].name != "linear") continue;
            const std::optional<Rotated> group = rotated_pieces(f, *uses, f.ops[k]);
            if (!group) continue;
            const std::string& scope = f.ops[k].provenance.scope;
            const std::string where = scope.empty() ? "@" + f.name : scope, name = f.info(group->whole).name;
            if (!report.may("keep_rotated", where, name)) continue;
            report.done("keep_rotated", where, name);
            rewrite(f, *group);
            uses.emplace(f);
        }
    }
    return module;
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// The rows of LAYOUT: every tensor, where it lies, and who else lies there.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "codegen/host/layout.h"
#include "codegen/host/parameters.h"
#include "codegen/host/statements.h"
#include "compiler/ir/structure.h"
#include "compiler/planned/carry_slots.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Arena = Placement::Arena;

// Where a row's tensors lie, for all pairs of rows to be compared.
struct Extent {
    std::int64_t begin = 0, end = 0, bytes = 0, count = 1, stride = 0;
    std::size_t arena = 0, function = 0;  // by number; function 0: of none
};

bool overlap(const Extent& a, const Extent& b) {
    if (a.arena != b.arena || a.begin >= b.end || b.begin >= a.end) return false;
    if (a.count == 1 && b.count == 1) return true;
    for (std::int64_t i = 0; i < a.count; ++i)
        for (std::int64_t j = 0; j < b.count; ++j) {
            const std::int64_t x = a.begin + i * a.stride, y = b.begin + j * b.stride;
            if (x < y + b.bytes && y < x + a.bytes) return true;
        }
    return false;
}

// Who lies where a row does. Only so many are named, of which those of its function come first: with thousands of
// functions, whose tensors lie in one place by turns, there is no room for all.
struct Sharing {
    static constexpr std::size_t shown = 3;
    std::size_t count = 0;
    std::vector<const LayoutRow*> near, far;

    void add(const LayoutRow& other, bool same_function) {
        std::vector<const LayoutRow*>& list = same_function ? near : far;
        if (list.size() < shown) list.push_back(&other);
        ++count;
    }
};

std::string function_of(const LayoutRow& row) {
    return row.name.substr(0, row.name.find('.') + 1);
}

// "lm_head, dy_slot, update.clip_factor and 3 more": tensors of the same function without its name, and first.
std::string names_of(const LayoutRow& row, const Sharing& sharing) {
    constexpr std::size_t width = 64;
    if (sharing.count == 0) return "-";
    std::vector<std::string> names;
    for (const LayoutRow* other : sharing.near) names.push_back(other->name.substr(function_of(row).size()));
    for (const LayoutRow* other : sharing.far) names.push_back(other->name);
    std::string out = names[0];
    std::size_t named = 1;
    for (; named < std::min(Sharing::shown, names.size()) && out.size() + names[named].size() < width; ++named)
        out += ", " + names[named];
    return named == sharing.count ? out : out + fmt::format(" and {} more", sharing.count - named);
}

// Expects rows in the order of arenas and offsets.
void find_shares(std::vector<LayoutRow>& rows) {
    std::map<std::string, std::size_t> arenas, functions = {{"", 0}};
    std::vector<Extent> extents;
    for (const LayoutRow& row : rows) {
        const auto bytes = static_cast<std::int64_t>(row.type.bytes());
        extents.push_back({row.offset, row.offset + (row.count - 1) * row.stride + bytes, bytes, row.count, row.stride,
                           arenas.try_emplace(row.arena, arenas.size()).first->second,
                           functions.try_emplace(function_of(row), functions.size()).first->second});
    }
    std::vector<Sharing> sharing(rows.size());
    for (std::size_t a = 0; a < rows.size(); ++a)
        for (std::size_t b = a + 1; b < rows.size(); ++b) {
            if (extents[b].arena != extents[a].arena || extents[b].begin >= extents[a].end) break;
            if (!overlap(extents[a], extents[b])) continue;
            const bool same = extents[a].function != 0 && extents[a].function == extents[b].function;
            sharing[a].add(rows[b], same);
            sharing[b].add(rows[a], same);
        }
    for (std::size_t k = 0; k < rows.size(); ++k) rows[k].shares = names_of(rows[k], sharing[k]);
}

// "forward_backward, calls 3 to 7"
std::string calls_of(const std::string& function, std::size_t first, std::size_t last) {
    return first == last ? fmt::format("{}, call {}", function, first)
                         : fmt::format("{}, calls {} to {}", function, first, last);
}

std::string lifetime_of(Arena arena, bool trains) {
    if (arena == Arena::saved) return "forward to backward";
    if (arena == Arena::gathered) return "from its gather to its release";
    if (arena == Arena::unit_gradients) return "until they are summed";
    if (arena == Arena::results) return "until the next call";
    return arena == Arena::batch ? (trains ? "the micro-batch" : "the call") : "always";
}

// Bf16 copies that a function other than the optimizer's takes. The others are written with them, since the arena has
// the parameters' elements.
std::set<std::string> read_narrow_copies(const Module& module) {
    std::set<std::string> names;
    for (const Function& f : module.functions)
        for (const ArgInfo& info : f.argument_info)
            if (f.name != update_function && is_state(info, narrow_copy_state)) names.insert(info.names.front());
    return names;
}

// Where the scratch memory of each function begins: at the arena's start, or where a caller gives it a piece of its
// own.
std::map<std::string, std::set<std::int64_t>> scratch_bases(const Module& module) {
    std::map<std::string, std::set<std::int64_t>> bases;
    auto enter = [&](auto&& self, const Function& f, std::int64_t base) -> void {
        if (!bases[f.name].insert(base).second) return;
        for (const Op& op : f.ops) {
            if (!runs_function(op)) continue;
            const Function* body = module.find(called_function(op));
            check(body != nullptr, "a call of a function that is not there");
            self(self, *body, body->scratch_bytes == 0 ? base : base + op.attributes.integer("scratch"));
        }
    };
    for (const Function& f : module.functions)
        if (!f.argument_info.empty()) enter(enter, f, 0);
    return bases;
}

}  // namespace

const std::vector<LayoutRow>& ProgramLayout::rows() const {
    if (rows_) return *rows_;
    std::vector<LayoutRow> rows;
    std::set<std::pair<Arena, std::int64_t>> seen;  // tensors that several functions name
    for (const LayerStruct& s : structs_)
        for (const LayerField& field : s.fields) {
            seen.emplace(field.arena, field.offset);
            rows.push_back({s.function + "." + field.name, std::string(name_of(field.arena)), field.type, field.shape,
                            field.slots > 0 ? field.slots : s.layers, field.offset, field.stride,
                            lifetime_of(field.arena, trains()), ""});
        }
    const std::map<std::string, std::set<std::int64_t>> bases = scratch_bases(*module_);
    const std::set<std::string> narrow_copies_read = read_narrow_copies(*module_);
    for (const Function& f : module_->functions) {
        if (f.kind.starts_with("kernel:") || !bases.contains(f.name)) continue;
        const Lifetimes span(f);
        const std::vector<std::string>& value_names = names(f);
        auto scratch_row = [&](const std::string& name, const Type& type, const std::string& shape, std::int64_t count,
                               std::int64_t offset, std::int64_t stride, std::size_t first, std::size_t last) {
            for (std::int64_t base : bases.at(f.name))
                rows.push_back({f.name + "." + name, "scratch", type, shape, count, base + offset, stride,
                                calls_of(f.name, first, last), ""});
        };
        auto row = [&](Value v, const std::string& state = {}) {
            const Placement& p = f.info(v).placement;
            const Type& type = f.type(v);
            if (p.view_of || p.arena == Arena::caller || p.arena == Arena::unplaced || p.arena == Arena::scalars)
                return;
            if (p.arena == Arena::optimizer && type.member().elements() == 0) return;  // there is no such state of it
            const bool in_unit = p.arena == Arena::gathered || p.arena == Arena::unit_gradients;
            if (in_unit && parameter_of_unit(*module_, f, v).empty()) return;  // the unit itself
            if (p.arena == Arena::scratch) {
                if (span.first[v.index] == 0) return;  // no statement has it: another call does its work
                scratch_row(value_names[v.index], type.member(), symbols_.shape(f, v),
                            type.is_family() ? type.count : 1, p.offset, p.layer_stride, span.first[v.index],
                            span.last[v.index]);
                return;
            }
            if (!seen.emplace(p.arena, p.offset).second) return;
            rows.push_back({value_names[v.index], std::string(name_of(p.arena)), type.member(), symbols_.shape(f, v),
                            type.is_family() ? type.count : 1, p.offset, p.layer_stride, lifetime_of(p.arena, trains()),
                            ""});
            // units of several ranks have names of their own
            if (p.arena == Arena::narrow_copies && module_->units.empty() && !narrow_copies_read.contains(state))
                rows.back().lifetime += "; not read";
        };
        for (std::size_t k = 0; k < f.arguments.size(); ++k)
            row(f.arguments[k], k < f.argument_info.size() && !f.argument_info[k].names.empty()
                                    ? f.argument_info[k].names.front()
                                    : std::string());
        for (std::size_t k = 0; k < f.ops.size(); ++k) {
            const Op& op = f.ops[k];
            if (!is_member_op(op) && !stack_in_place(f, op))  // which have no memory but their family's
                for (Value v : op.results) row(v);
            if (!is_loop(op)) continue;
            const Function& body = callee(*module_, op);
            for (std::size_t c = 0; c < loop_carried(op); ++c) {
                const CarrySlots slots = carry_slots(op, c);
                if (slots.arena != Arena::scratch) continue;  // of those, each is another tensor's place
                scratch_row(names(body)[body.arguments[c].index] + "_slot", f.type(op.operands[c]),
                            symbols_.shape(body, body.arguments[c]), slots.period, slots.base, slots.stride,
                            span.first[op.operands[c].index], span.last[op.results[c].index]);
            }
        }
    }
    std::stable_sort(rows.begin(), rows.end(), [](const LayoutRow& a, const LayoutRow& b) {
        auto rank = [](const std::string& arena) {
            return static_cast<int>(parse_arena(arena).value_or(Arena::caller));
        };
        return std::tuple(rank(a.arena), a.offset) < std::tuple(rank(b.arena), b.offset);
    });
    find_shares(rows);
    return rows_.emplace(std::move(rows));
}

}  // namespace thunderc

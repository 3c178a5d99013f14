#include "compiler/transforms/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "compiler/analysis/views.h"
#include "compiler/ops/linear.h"
#include "compiler/ops/op.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Arena = Placement::Arena;

constexpr std::int64_t alignment = 64;  // bytes: a cache line, and the widest vector

std::int64_t aligned(std::int64_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

std::int64_t bytes_of(const Type& type) {
    return static_cast<std::int64_t>(type.bytes());
}

// ---- arenas of parameters, gradients and optimizer state
// ------------------------------------------------------------------

// Where each parameter lies, by its first framework name; gradients and state lie at the same offsets in their arenas.
struct ParameterPlace {
    std::int64_t offset = 0, layer_stride = 0;
};

// Tensors that share a layer stride: the families of one loop. A plain tensor is a unit of its own, or of those that
// have to lie behind it.
struct Unit {
    std::int64_t count = 1;
    std::vector<std::size_t> arguments;  // of the entry function
};

std::string unit_key(const Type& type, const ArgInfo& info) {
    if (!type.is_family()) return "";
    std::string pattern = name_pattern(info.names);
    return fmt::format("{}#{}", pattern.substr(0, pattern.find('{')), type.count);
}

class ParameterLayout {
  public:
    ParameterLayout(const Module& module, const Function& entry) : entry_(entry) {
        find_adjacent(module);
        std::vector<Unit> units;
        std::map<std::string, std::size_t> by_key;
        for (std::size_t k = 0; k < entry.arguments.size(); ++k) {
            const ArgInfo& info = entry.argument_info[k];
            if (info.kind != ArgInfo::Kind::parameter) continue;
            const Type& type = entry.type(entry.arguments[k]);
            std::string key = unit_key(type, info);
            if (key.empty()) key = fmt::format("#{}", leader(k));
            auto found = by_key.find(key);
            if (found == by_key.end()) {
                by_key[key] = units.size();
                units.push_back({type.is_family() ? type.count : 1, {}});
                units.back().arguments.push_back(k);
            } else {
                units[found->second].arguments.push_back(k);
            }
        }
        for (const Unit& unit : units) place(unit);
    }

    std::int64_t bytes() const { return bytes_; }
    const std::map<std::string, ParameterPlace>& places() const { return places_; }

  private:
    // Weights of one merged product lie side by side. Seen from the entry: argument indices, in order.
    void find_adjacent(const Module& module) {
        for (const Op& op : entry_.ops) note(module, op, [](Value v) { return v; });
    }

    // The first of the tensors that argument k has to lie behind.
    std::size_t leader(std::size_t k) const {
        for (auto at = follows_.find(k); at != follows_.end(); at = follows_.find(k)) k = at->second;
        return k;
    }

    using ToEntry = std::function<Value(Value)>;

    void note(const Module& module, const Op& op, const ToEntry& to_entry) {
        const std::string body = op.name == "call"     ? op.attributes.string("callee")
                                 : op.name == "repeat" ? op.attributes.string("body")
                                                       : std::string();
        if (!body.empty()) {
            const Function& g = *module.find(body);
            for (const Op& inner : g.ops)
                note(module, inner, [&](Value v) {
                    for (std::size_t k = 0; k < g.arguments.size(); ++k)
                        if (g.arguments[k] == v) return op.operands[k] ? to_entry(op.operands[k]) : Value{};
                    return Value{};
                });
            return;
        }
        if (!op.attributes.boolean("adjacent_weights", false)) return;
        for (const std::vector<Value>& values : adjacent_values(op)) {
            std::vector<std::size_t> group;
            for (Value v : values) {
                Value at = to_entry(v);
                for (std::size_t k = 0; at && k < entry_.arguments.size(); ++k)
                    if (entry_.arguments[k] == at && entry_.argument_info[k].kind == ArgInfo::Kind::parameter)
                        group.push_back(k);
            }
            // Gradients are no parameters; they follow, since they lie like their parameters.
            for (std::size_t k = 1; k < group.size(); ++k) follows_[group[k]] = group[k - 1];
        }
    }

    void place(const Unit& unit) {
        // The unit's order: as the arguments come, but what must follow another tensor comes right behind it.
        std::vector<std::size_t> order;
        auto add = [&](auto&& self, std::size_t k) -> void {
            if (std::find(order.begin(), order.end(), k) != order.end()) return;
            order.push_back(k);
            for (const auto& [after, before] : follows_)
                if (before == k &&
                    std::find(unit.arguments.begin(), unit.arguments.end(), after) != unit.arguments.end())
                    self(self, after);
        };
        for (std::size_t k : unit.arguments)
            if (!follows_.contains(k)) add(add, k);
        for (std::size_t k : unit.arguments) add(add, k);  // a follower whose leader is elsewhere

        std::int64_t at = 0;
        std::vector<std::int64_t> offsets;
        for (std::size_t k : order) {
            if (!follows_.contains(k)) at = aligned(at);
            offsets.push_back(at);
            at += bytes_of(entry_.type(entry_.arguments[k]));
        }
        const std::int64_t stride = aligned(at);
        for (std::size_t k = 0; k < order.size(); ++k)
            places_[entry_.argument_info[order[k]].names.front()] = {bytes_ + offsets[k], unit.count > 1 ? stride : 0};
        bytes_ += stride * unit.count;
    }

    const Function& entry_;
    std::map<std::size_t, std::size_t> follows_;
    std::map<std::string, ParameterPlace> places_;
    std::int64_t bytes_ = 0;
};

// ---- the planner of one function
// ----------------------------------------------------------------------------------------

struct Shared {  // by all functions of a module
    std::map<std::string, ParameterPlace> parameters;
    std::int64_t parameter_bytes = 0;
    std::int64_t constant_bytes = 0, saved_bytes = 0, batch_bytes = 0;
    std::vector<std::pair<ConstPtr, std::int64_t>> constants;
    std::map<std::string, std::int64_t> batch;  // by the input's name
    std::int64_t scratch_bytes = 0;             // the most that an entry function needs
};

// A piece of scratch memory over a span of ops; the offset is found by `assign_offsets`.
struct Piece {
    std::int64_t bytes = 0;
    std::size_t first = 0, last = 0;  // op indices, both inclusive
    std::int64_t offset = -1;
};

// Largest first, each at the lowest place where no piece of an overlapping lifetime lies. A good heuristic for
// interval packing; MiniMalloc's search would come closer to the optimum.
std::int64_t assign_offsets(std::vector<Piece>& pieces) {
    std::vector<std::size_t> order(pieces.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return pieces[a].bytes > pieces[b].bytes; });
    std::int64_t total = 0;
    std::vector<std::size_t> placed;
    for (std::size_t k : order) {
        Piece& piece = pieces[k];
        std::vector<std::pair<std::int64_t, std::int64_t>> taken;  // begin, end
        for (std::size_t other : placed) {
            const Piece& o = pieces[other];
            if (o.first <= piece.last && piece.first <= o.last) taken.emplace_back(o.offset, o.offset + o.bytes);
        }
        std::sort(taken.begin(), taken.end());
        std::int64_t at = 0;
        for (const auto& [begin, end] : taken) {
            if (at + piece.bytes <= begin) break;
            at = std::max(at, end);
        }
        piece.offset = at;
        placed.push_back(k);
        total = std::max(total, aligned(at + piece.bytes));
    }
    return total;
}

class FunctionPlanner {
  public:
    FunctionPlanner(Module& module, Function& function, Shared& shared)
        : module_(module), f_(function), shared_(shared), entry_(!function.argument_info.empty()) {}

    void run() {
        add_copies();
        uses_.emplace(f_);
        place_arguments();
        place_results();
        place_sums();
        place_loops();
        place_constants();
        place_views();
        place_scratch();
    }

  private:
    Placement& at(Value v) { return f_.info(v).placement; }
    bool placed(Value v) { return at(v).arena != Arena::unplaced; }
    const Op* definition(Value v) const {
        std::int32_t k = uses_->definition[v.index];
        return k < 0 ? nullptr : &f_.ops[static_cast<std::size_t>(k)];
    }

    // ---- copies: where a value has to be in a place of its own and its op cannot write it there ----

    bool is_argument(Value v) const {
        return std::find(f_.arguments.begin(), f_.arguments.end(), v) != f_.arguments.end();
    }

    // The loops (or calls) of this function's callers are not known here; a body may give a carried argument back only
    // as a collected value (then the caller lets the chain of slots be that family).
    bool chained(std::size_t result) const {
        if (entry_) return false;
        for (std::size_t k = 0; k < f_.arguments.size(); ++k)
            if (f_.arguments[k] == f_.results[result]) return carried_ > k && result >= carried_;
        return false;
    }

    Value copy_at_end(Value v) {
        Op op;
        op.name = "copy";
        op.operands = {v};
        Value result = f_.add_value(f_.type(v), f_.info(v).name);
        op.results = {result};
        f_.ops.push_back(std::move(op));
        return result;
    }

    void add_copies() {
        for (const Function& caller : module_.functions)
            for (const Op& op : caller.ops)
                if (op.name == "repeat" && op.attributes.string("body") == f_.name)
                    carried_ = static_cast<std::size_t>(op.attributes.integer("carried"));
        std::set<Value> given;
        for (std::size_t r = 0; r < f_.results.size(); ++r) {
            Value v = f_.results[r];
            const Op* def = nullptr;
            for (const Op& op : f_.ops)
                if (std::find(op.results.begin(), op.results.end(), v) != op.results.end()) def = &op;
            const bool view = def != nullptr && (is_view(*def) || def->name == "constant" || def->name == "member");
            const bool again = !given.insert(v).second;
            if (chained(r) && !again) continue;
            if (def == nullptr || again || (view && !take_place_of_viewed(v))) f_.results[r] = copy_at_end(v);
        }
    }

    // A result that is a dense view of a whole value: that value is written to the result's place, and nothing is
    // copied.
    bool take_place_of_viewed(Value v) {
        Value owner = v;
        for (bool found = true; found;) {
            found = false;
            for (const Op& op : f_.ops) {
                if (op.results.front() != owner || !is_view(op)) continue;
                const Type& from = f_.type(op.operands[0]);
                const std::optional<ViewLayout> layout = view_layout(f_, op, dense_layout(from.dims));
                if (!layout || layout->offset != 0 || from.elements() != f_.type(owner).elements() ||
                    !is_dense(*layout, f_.type(owner).dims))
                    return false;
                owner = op.operands[0];
                found = true;
                break;
            }
        }
        if (is_argument(owner) || taken_.contains(owner)) return false;
        for (Value r : f_.results)
            if (r == owner) return false;
        for (const Op& op : f_.ops)
            if (std::find(op.results.begin(), op.results.end(), owner) != op.results.end() &&
                (op.name == "constant" || op.name == "member" || op.name == "repeat"))
                return false;
        taken_[owner] = v;
        return true;
    }

    // ---- arguments and results ----

    void place_arguments() {
        for (std::size_t k = 0; k < f_.arguments.size(); ++k) {
            Value v = f_.arguments[k];
            at(v) = entry_ ? entry_argument(f_.type(v), f_.argument_info[k]) : Placement{Arena::caller, 0, 0, {}, {}};
        }
    }

    Placement parameter_place(Arena arena, const std::string& name, std::int64_t base = 0) const {
        auto found = shared_.parameters.find(name);
        check(found != shared_.parameters.end(), fmt::format("there is no parameter {} to lie beside", name));
        return {arena, base + found->second.offset, found->second.layer_stride, {}, {}};
    }

    // "grad.x", "first_moment.x", "second_moment.x", "momentum.x" name what belongs to the parameter x.
    Placement entry_argument(const Type& type, const ArgInfo& info) {
        const std::string& name = info.names.front();
        switch (info.kind) {
            case ArgInfo::Kind::parameter: return parameter_place(Arena::parameters, name);
            case ArgInfo::Kind::state: return state_place(name);
            case ArgInfo::Kind::input: {
                auto [found, is_new] = shared_.batch.emplace(name, shared_.batch_bytes);
                if (is_new) shared_.batch_bytes = aligned(shared_.batch_bytes + bytes_of(type));
                return {Arena::batch, found->second, 0, {}, {}};
            }
            case ArgInfo::Kind::scalar: {
                std::optional<std::int64_t> offset = step_scalar_offset(name);
                check(offset.has_value(), fmt::format("there is no step scalar {}", name));
                return {Arena::scalars, *offset, 0, {}, {}};
            }
            case ArgInfo::Kind::constant:
            case ArgInfo::Kind::value: break;
        }
        throw InternalError(fmt::format("@{}: the argument {} has no place", f_.name, name));
    }

    Placement state_place(const std::string& name) const {
        const std::size_t dot = name.find('.');
        const std::string what = name.substr(0, dot), parameter = name.substr(dot + 1);
        if (what == "grad") return parameter_place(Arena::gradients, parameter);
        if (what == "first_moment" || what == "momentum") return parameter_place(Arena::optimizer, parameter);
        check(what == "second_moment", fmt::format("there is no state {}", name));
        return parameter_place(Arena::optimizer, parameter, shared_.parameter_bytes);
    }

    // Results of entry functions are named like the argument's value that they replace, or like a step scalar; those of
    // bodies are the caller's.
    void place_results() {
        for (std::size_t r = 0; r < f_.results.size(); ++r) {
            Value v = f_.results[r];
            if (placed(v)) continue;
            if (!entry_) {
                at(v) = {Arena::caller, 0, 0, {}, {}};
                continue;
            }
            check(r < f_.result_names.size(), fmt::format("@{}: result {} has no name", f_.name, r));
            at(v) = result_place(f_.result_names[r]);
        }
        for (const auto& [owner, result] : taken_) {
            at(owner) = at(result);
            at(owner).view_of = result;
            at(owner).offset = 0;
        }
    }

    Placement result_place(const std::string& name) {
        for (Value v : f_.arguments)
            if (f_.info(v).name == name) return at(v);
        if (std::optional<std::int64_t> offset = step_scalar_offset(name)) return {Arena::scalars, *offset, 0, {}, {}};
        throw InternalError(fmt::format("@{}: the result {} has no place", f_.name, name));
    }

    // ---- sums: calls that add to what is there ----

    // Results that a call adds up in the memory of an operand: the operand is no field of the call.
    static std::vector<std::pair<std::size_t, std::size_t>> added_in_place(const Op& op, const Function& f) {
        const OpDef& def = op_def(op.name);
        std::vector<std::pair<std::size_t, std::size_t>> out;
        if (!def.call || def.in_place.empty()) return out;
        const MenuCall call = def.call(op, f);
        if (call.function.empty()) return out;
        for (const auto& [result, operand] : def.in_place) {
            if (result >= op.results.size() || operand >= op.operands.size() || !op.operands[operand]) continue;
            const std::size_t o = operand;
            if (std::none_of(call.fields.begin(), call.fields.end(), [o](const CallField& field) {
                    return field.kind == CallField::Kind::operand && field.index == o;
                }))
                out.emplace_back(result, operand);
        }
        return out;
    }

    // From the last sum to the first: what is added to has to lie where the sum will be.
    void place_sums() {
        for (std::size_t k = f_.ops.size(); k-- > 0;) {
            const std::vector<std::pair<std::size_t, std::size_t>> pairs = added_in_place(f_.ops[k], f_);
            for (const auto& [r, o] : pairs) {
                const Value sum = f_.ops[k].results[r], before = f_.ops[k].operands[o];
                const Op* def = definition(before);
                const bool own = def != nullptr && !placed(before) && !is_view(*def) && def->name != "constant" &&
                                 def->name != "member" && def->name != "repeat" && uses_->single_user(before);
                // Of arguments and results of a body the caller knows that they are one tensor.
                const bool there = placed(before) && at(owner(before)) == at(owner(sum));
                if (there) continue;
                if (own) {
                    lie_in(before, sum);
                    continue;
                }
                Op copy;
                copy.name = "copy";
                copy.operands = {before};
                copy.provenance = f_.ops[k].provenance;
                const Value moved = f_.add_value(f_.type(before), f_.info(before).name);
                copy.results = {moved};
                f_.ops[k].operands[o] = moved;
                f_.ops.insert(f_.ops.begin() + static_cast<std::ptrdiff_t>(k), std::move(copy));
                uses_.emplace(f_);
                lie_in(moved, sum);
            }
        }
    }

    void lie_in(Value v, Value place) {
        at(v) = placed(place) ? at(place) : Placement{Arena::scratch, 0, 0, {}, {}};
        at(v).view_of = owner(place);
        at(v).offset = 0;  // in its owner
    }

    // ---- loops ----

    void place_loops() {
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            if (f_.ops[k].name != "repeat") continue;
            place_collected(k);
            place_carried(k);
        }
    }

    // Families that a loop collects and nobody else wants in a place of its own: one struct a layer in arena saved.
    void place_collected(std::size_t index) {
        const Op& op = f_.ops[index];
        const Function& body = *module_.find(op.attributes.string("body"));
        const auto carried = static_cast<std::size_t>(op.attributes.integer("carried"));
        const std::int64_t n = op.attributes.integer("n");
        std::int64_t layer = 0;
        std::vector<std::pair<Value, std::int64_t>> members;
        for (std::size_t r = carried; r < op.results.size(); ++r) {
            Value v = op.results[r];
            if (placed(v) || collected_carry(body, carried, r)) continue;
            members.emplace_back(v, layer);
            layer = aligned(layer + bytes_of(f_.type(v)));
        }
        for (const auto& [v, offset] : members) at(v) = {Arena::saved, shared_.saved_bytes + offset, layer, {}, {}};
        shared_.saved_bytes += layer * n;
    }

    // Whether result r of the body is one of its carried arguments; then which.
    static std::optional<std::size_t> collected_carry(const Function& body, std::size_t carried, std::size_t r) {
        for (std::size_t k = 0; k < carried; ++k)
            if (body.arguments[k] == body.results[r]) return k;
        return std::nullopt;
    }

    void place_carried(std::size_t index) {
        const auto carried = static_cast<std::size_t>(f_.ops[index].attributes.integer("carried"));
        const std::int64_t n = f_.ops[index].attributes.integer("n");
        const bool reverse = f_.ops[index].attributes.boolean("reverse", false);
        const Function& body = *module_.find(f_.ops[index].attributes.string("body"));
        std::vector<std::string> arenas;
        std::vector<std::int64_t> bases, strides, periods;
        for (std::size_t k = 0; k < carried; ++k) {
            const std::int64_t bytes = aligned(bytes_of(f_.type(f_.ops[index].operands[k])));
            CarrySlots slots;
            slots.stride = bytes;
            std::optional<std::size_t> collected;
            for (std::size_t r = carried; r < f_.ops[index].results.size(); ++r)
                if (collected_carry(body, carried, r) == k) collected = r;
            if (collected && !reverse) {
                slots.arena = Arena::saved;
                slots.base = shared_.saved_bytes;
                shared_.saved_bytes += bytes * (n + 1);
                at(f_.ops[index].results[*collected]) = {Arena::saved, slots.base, bytes, {}, {}};
            } else {
                check(!collected, "a loop that runs backwards collects a carried value");
                slots.arena = Arena::scratch;
                slots.period = 2;
                slots.base = -1;  // found with the rest of the scratch memory
            }
            first_slot(index, k, slots);
            arenas.emplace_back(name_of(slots.arena));
            bases.push_back(slots.base);
            strides.push_back(slots.stride);
            periods.push_back(slots.period);
        }
        Attributes& a = f_.ops[index].attributes;
        if (carried == 0) return;
        a.set("carry_arena", arenas);
        a.set("carry_base", bases);
        a.set("carry_stride", strides);
        a.set("carry_period", periods);
    }

    // The value that goes in is written to slot 0 by its op where that is possible, else copied there; the value that
    // comes out lies in slot n.
    void first_slot(std::size_t& index, std::size_t k, const CarrySlots& slots) {
        const std::int64_t n = f_.ops[index].attributes.integer("n");
        Value in = f_.ops[index].operands[k];
        Value out = f_.ops[index].results[k];
        const Op* def = definition(in);
        const bool own =
            def != nullptr && !is_view(*def) && def->name != "constant" && def->name != "member" && !placed(in);
        // With two slots by turns, slot 0 is overwritten by the second layer: whoever else reads the value later must
        // not find that.
        const bool last_reader = slots.period == 0 || uses_->users[in.index].back() == static_cast<std::int32_t>(index);
        if (!own || !last_reader || reserved_.contains(in)) {
            Op copy;
            copy.name = "copy";
            copy.operands = {in};
            Value moved = f_.add_value(f_.type(in), f_.info(in).name);
            copy.results = {moved};
            copy.provenance = f_.ops[index].provenance;
            f_.ops[index].operands[k] = moved;
            f_.ops.insert(f_.ops.begin() + static_cast<std::ptrdiff_t>(index), std::move(copy));
            ++index;
            uses_.emplace(f_);
            in = moved;
        }
        if (slots.arena == Arena::scratch) {
            if (placed(out)) {  // a result of this function: leave the loop's slots, then copy
                Value moved = f_.add_value(f_.type(out), f_.info(out).name);
                Op copy;
                copy.name = "copy";
                copy.operands = {moved};
                copy.results = {out};
                f_.ops[index].results[k] = moved;
                f_.ops.insert(f_.ops.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(copy));
                uses_.emplace(f_);
                out = moved;
            }
            reserved_.insert(in);
            reserved_.insert(out);
            carried_scratch_.push_back({in, out, f_.ops[index].results, k, slots.stride, n});
        } else {
            check(!placed(out), "a carried value that the loop collects is also a result");
            at(in) = {Arena::saved, slots.at(0), 0, {}, {}};
            at(out) = {Arena::saved, slots.at(n), 0, {}, {}};
        }
    }

    // ---- constants ----

    void place_constants() {
        for (Op& op : f_.ops) {
            if (op.name != "constant") continue;
            const ConstPtr expr = op.attributes.constant("value");
            std::int64_t offset = -1;
            for (const auto& [other, place] : shared_.constants)
                if (equal(*other, *expr)) offset = place;
            if (offset < 0) {
                offset = shared_.constant_bytes;
                shared_.constants.emplace_back(expr, offset);
                shared_.constant_bytes = aligned(offset + bytes_of(expr->type));
            }
            at(op.results[0]) = {Arena::constants, offset, 0, {}, {}};
        }
    }

    // ---- views: in the order of ops, so that a view of a view names the owner ----

    Value owner(Value v) {
        while (at(v).view_of) v = at(v).view_of;
        return v;
    }

    void place_views() {
        for (const Op& op : f_.ops) {
            if (op.name == "member") {
                const Placement& family = at(op.operands[0]);
                check(family.arena != Arena::unplaced, "a member of a family without a place");
                at(op.results[0]) = {
                    family.arena, family.offset + op.attributes.integer("index") * family.layer_stride, 0, {}, {}};
                continue;
            }
            if (!is_view(op) || placed(op.results[0])) continue;
            const Value from = op.operands[0], to = op.results[0];
            const Dims strides = at(from).strides.empty() ? dense_strides(f_.type(from).dims) : at(from).strides;
            const std::optional<ViewLayout> view = view_layout(f_, op, {strides, 0});
            if (!view) continue;  // only kernels read it, and they have views of their own
            Placement p;
            p.view_of = owner(from);
            p.strides = is_dense(*view, f_.type(to).dims) ? Dims{} : view->strides;
            p.offset = view->offset * static_cast<std::int64_t>(size_of(f_.type(to).dtype)) + view_offset_[from];
            view_offset_[to] = p.offset;
            p.arena = Arena::scratch;  // completed when its owner is placed
            at(to) = p;
        }
    }

    // ---- scratch ----

    void place_scratch() {
        std::vector<Piece> pieces;
        std::map<Value, std::size_t> piece_of;          // by owner
        std::map<std::size_t, std::size_t> body_piece;  // by op index: what a body needs
        const std::size_t n = f_.ops.size();
        std::vector<std::size_t> first(f_.values.size(), n), last(f_.values.size(), 0);
        auto touch = [&](Value v, std::size_t k) {
            Value o = owner(v);
            first[o.index] = std::min(first[o.index], k);
            last[o.index] = std::max(last[o.index], k);
        };
        for (std::size_t k = 0; k < n; ++k) {
            for (Value v : f_.ops[k].operands)
                if (v) touch(v, k);
            for (Value v : f_.ops[k].results) touch(v, k);
        }
        for (Value v : f_.results) touch(v, n == 0 ? 0 : n - 1);

        std::map<Value, std::pair<std::size_t, std::int64_t>> slot;  // carried values: piece and byte offset in it
        for (const CarriedScratch& c : carried_scratch_) {
            auto piece = static_cast<std::size_t>(pieces.size());
            pieces.push_back({c.stride * 2, first[c.in.index], last[c.out.index], -1});
            slot[c.in] = {piece, 0};
            slot[c.out] = {piece, c.n % 2 * c.stride};
        }
        for (std::size_t k = 0; k < n; ++k) {
            const Op& op = f_.ops[k];
            for (std::size_t r = 0; r < op.results.size(); ++r) {
                Value v = op.results[r];
                if (placed(v) || slot.contains(v) || f_.type(v).kind == Type::Kind::token) continue;
                check(!f_.type(v).is_family() || op.name == "family",
                      fmt::format("@{}: a family from {} has no place", f_.name, op.name));
                if (std::optional<std::size_t> shared = in_place(op, r, k, last, piece_of)) {
                    pieces[*shared].last = std::max(pieces[*shared].last, last[v.index]);
                    piece_of[v] = *shared;
                    continue;
                }
                const Type& type = f_.type(v);
                const std::int64_t bytes = aligned(bytes_of(type)) * (type.is_family() ? type.count : 1);
                piece_of[v] = pieces.size();
                pieces.push_back({bytes, k, last[v.index], -1});
            }
            if (const Function* body = called(op); body != nullptr && body->scratch_bytes > 0) {
                body_piece[k] = pieces.size();
                pieces.push_back({body->scratch_bytes, k, k, -1});
            }
        }
        const std::int64_t total = assign_offsets(pieces);
        for (const auto& [v, piece] : piece_of) {
            const Type& type = f_.type(v);
            at(v) = {Arena::scratch, pieces[piece].offset, type.is_family() ? aligned(bytes_of(type)) : 0, {}, {}};
        }
        for (const auto& [v, where] : slot)
            at(v) = {Arena::scratch, pieces[where.first].offset + where.second, 0, {}, {}};
        for (const auto& [k, piece] : body_piece) f_.ops[k].attributes.set("scratch", pieces[piece].offset);
        for (std::size_t k = 0; k < carried_scratch_.size(); ++k) set_carry_base(carried_scratch_[k], pieces[k].offset);
        finish_views();
        if (entry_)
            shared_.scratch_bytes = std::max(shared_.scratch_bytes, total);
        else
            f_.scratch_bytes = total;
    }

    const Function* called(const Op& op) const {
        if (op.name == "call") return module_.find(op.attributes.string("callee"));
        return op.name == "repeat" ? module_.find(op.attributes.string("body")) : nullptr;
    }

    // The piece of an operand that dies here and that result r may be written over.
    std::optional<std::size_t> in_place(const Op& op, std::size_t r, std::size_t k,
                                        const std::vector<std::size_t>& last,
                                        const std::map<Value, std::size_t>& piece_of) {
        for (const auto& [result, operand] : op_def(op.name).in_place) {
            if (result != r || operand >= op.operands.size() || !op.operands[operand]) continue;
            Value v = owner(op.operands[operand]);
            auto piece = piece_of.find(v);
            if (piece == piece_of.end() || last[v.index] != k || f_.type(v).bytes() != f_.type(op.results[r]).bytes())
                continue;
            // Another operand in the same memory would be overwritten before it is read.
            bool alone = true;
            for (std::size_t other = 0; other < op.operands.size(); ++other)
                alone = alone && (other == operand || !op.operands[other] || owner(op.operands[other]) != v);
            if (alone) return piece->second;
        }
        return std::nullopt;
    }

    void finish_views() {
        for (Op& op : f_.ops)
            for (Value v : op.results) {
                Placement& p = at(v);
                if (!p.view_of) continue;
                const Placement& base = at(p.view_of);
                p.arena = base.arena;
                p.offset += base.offset;
            }
    }

    struct CarriedScratch {
        Value in, out;
        std::vector<Value> loop;  // the results of the loop, by which it is found again
        std::size_t k;
        std::int64_t stride, n;
    };

    void set_carry_base(const CarriedScratch& c, std::int64_t base) {
        for (Op& op : f_.ops) {
            if (op.name != "repeat" || op.results != c.loop) continue;
            std::vector<std::int64_t> bases = op.attributes.integers("carry_base");
            bases[c.k] = base;
            op.attributes.set("carry_base", bases);
        }
    }

    Module& module_;
    Function& f_;
    Shared& shared_;
    bool entry_;
    std::size_t carried_ = 0;
    std::optional<Uses> uses_;
    std::set<Value> reserved_;
    std::map<Value, Value> taken_;  // values that lie in the place of a result that views them
    std::map<Value, std::int64_t> view_offset_;
    std::vector<CarriedScratch> carried_scratch_;
};

// Callees before callers.
void visit(const Module& module, const std::string& name, std::vector<std::string>& order) {
    if (std::find(order.begin(), order.end(), name) != order.end()) return;
    for (const Op& op : module.find(name)->ops)
        for (const char* attribute : {"callee", "body"})
            if (op.attributes.has(attribute)) visit(module, op.attributes.string(attribute), order);
    order.push_back(name);
}

}  // namespace

CarrySlots carry_slots(const Op& repeat, std::size_t carried) {
    CarrySlots slots;
    slots.arena = parse_arena(repeat.attributes.strings("carry_arena").at(carried)).value();
    slots.base = repeat.attributes.integers("carry_base").at(carried);
    slots.stride = repeat.attributes.integers("carry_stride").at(carried);
    slots.period = repeat.attributes.integers("carry_period").at(carried);
    return slots;
}

std::optional<std::int64_t> step_scalar_offset(std::string_view name) {
    // The order and types of runtime-lib/optim/step_scalars.h; a test compares the two.
    constexpr std::array<std::pair<std::string_view, std::int64_t>, 18> fields = {{{"learning_rate", 0},
                                                                                   {"beta1", 8},
                                                                                   {"beta2", 16},
                                                                                   {"eps", 24},
                                                                                   {"weight_decay", 32},
                                                                                   {"momentum", 40},
                                                                                   {"bias_correction1", 48},
                                                                                   {"bias_correction2_sqrt", 56},
                                                                                   {"max_grad_norm", 64},
                                                                                   {"seed", 72},
                                                                                   {"step", 80},
                                                                                   {"loss_weight", 88},
                                                                                   {"dloss", 92},
                                                                                   {"loss_sum", 96},
                                                                                   {"grad_norm", 100},
                                                                                   {"clip_factor", 104},
                                                                                   {"first_micro_step", 108},
                                                                                   {"decay_all", 109}}};
    for (const auto& [field, offset] : fields)
        if (field == name) return offset;
    return std::nullopt;
}

Module plan(Module module, Report& report) {
    check(module.phase == Module::Phase::values, "plan runs once");
    ParameterLayout layout(module, module.main());
    Shared shared;
    shared.parameters = layout.places();
    shared.parameter_bytes = layout.bytes();
    std::vector<std::string> order;
    for (const Function& f : module.functions)
        if (!f.kind.starts_with("kernel:")) visit(module, f.name, order);
    for (const std::string& name : order) FunctionPlanner(module, *module.find(name), shared).run();

    module.phase = Module::Phase::planned;
    std::int64_t optimizer = 0;  // states that lie behind each other
    for (const Function& f : module.functions)
        for (const ArgInfo& info : f.argument_info) {
            if (info.kind != ArgInfo::Kind::state || info.names.front().starts_with("grad.")) continue;
            optimizer = std::max<std::int64_t>(optimizer, info.names.front().starts_with("second_moment.") ? 2 : 1);
        }
    module.arena_bytes = {{"parameters", shared.parameter_bytes},
                          {"gradients", shared.parameter_bytes},
                          {"optimizer", optimizer * shared.parameter_bytes},
                          {"saved", shared.saved_bytes},
                          {"scratch", shared.scratch_bytes},
                          {"constants", shared.constant_bytes},
                          {"batch", shared.batch_bytes}};
    for (const auto& [arena, bytes] : module.arena_bytes) report.done(arena, "", fmt::format("{} bytes", bytes));
    return module;
}

}  // namespace thunderc

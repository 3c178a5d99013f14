// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "compiler/analysis/views.h"
#include "compiler/check/check_plan_parts.h"
#include "compiler/check/needed_objects.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/print.h"
#include "compiler/ir/structure.h"
#include "compiler/kernels/in_place.h"
#include "compiler/ops/collectives.h"
#include "compiler/ops/linear.h"
#include "compiler/planned/planned_kernels.h"

namespace thunderc::checking {
namespace {

bool is_alias(const Function& f, const Op& op) {
    return is_part_of_operand(op) || is_unpack(op) || stack_in_place(f, op);
}

// Memory alone: nothing is computed, and nothing is there.
bool is_memory(const Op& op) {
    return is_unwritten(op) || is_pack(op);
}

class FunctionChecker {
  public:
    FunctionChecker(PlanChecker& plan, const Function& f, Binding binding)
        : plan_(plan), f_(f), binding_(std::move(binding)), names_(unique_names(f)) {}

    void run() {
        find_lifetimes();
        find_places();
        if (!sound_) return;  // places are missing: what follows would only repeat that
        inside_arenas();
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            const Op& op = f_.ops[k];
            if (is_alias(f_, op)) view(op);
            if (is_pack(op)) pieces(op);
            if (op.attributes.boolean("adjacent_weights", false)) adjacent(op);
            if (op.attributes.boolean("stands", false)) stands(op);
            if (is_loop(op)) loop(op, k);
            if (is_function_call(op)) call(op, k);
        }
        compare_values();
    }

  private:
    static constexpr std::int64_t before = -1;
    std::int64_t after() const { return static_cast<std::int64_t>(f_.ops.size()); }

    void violation(const std::string& what) { plan_.violation(fmt::format("@{}: {}", f_.name, what)); }
    std::string name(Value v) const {
        return fmt::format("%{} ({} {})", names_[v.index], to_string(f_.type(v)), text(places_[v.index]));
    }
    Value root(Value v) const { return roots_[v.index]; }
    const Region& place(Value v) const { return places_[v.index]; }
    bool is_token(Value v) const { return f_.type(v).kind == Type::Kind::token; }

    // Whose memory it is, where it lies in another's by right.
    Value owner_of(Value v) const {
        for (std::size_t steps = 0; f_.info(v).placement.view_of && steps <= f_.values.size(); ++steps)
            v = f_.info(v).placement.view_of;
        return v;
    }

    // ---- from when to when the content of a value is needed; views are their operand's content ----

    void find_lifetimes() {
        roots_.resize(f_.values.size());
        first_.assign(f_.values.size(), before);
        last_.assign(f_.values.size(), before);
        used_.assign(f_.values.size(), false);
        is_argument_.assign(f_.values.size(), false);
        for (Value v : f_.arguments) is_argument_[v.index] = true;
        for (std::uint32_t v = 0; v < f_.values.size(); ++v) roots_[v] = {v};
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            const Op& op = f_.ops[k];
            const auto at = static_cast<std::int64_t>(k);
            for (Value v : op.operands) {
                if (!v) continue;
                used_[v.index] = true;
                if (is_alias(f_, op)) continue;  // a view reads nothing when it is made
                for (Value held : contents(root(v))) last_[held.index] = at;
            }
            for (Value v : op.results) {
                if (is_alias(f_, op)) {
                    roots_[v.index] = root(op.operands[0]);
                    continue;
                }
                first_[v.index] = last_[v.index] = at;
                if (is_pack(op))
                    for (Value piece : op.operands) packed_[v].push_back(root(piece));
                if (is_constant_op(op) || family_in_place(f_, op)) first_[v.index] = before, last_[v.index] = after();
            }
        }
        for (Value v : f_.results) {
            last_[root(v).index] = after();
            used_[v.index] = true;
        }
    }

    // What is read with a value: of a flat tensor that others were written into, these.
    std::vector<Value> contents(Value v) const {
        const auto at = packed_.find(v);
        if (at == packed_.end()) return {v};
        std::vector<Value> out = at->second;
        out.push_back(v);
        return out;
    }

    // ---- where it lies ----

    void find_places() {
        places_.resize(f_.values.size());
        auto find = [&](Value v) {
            if (is_token(v)) return;
            const Placement& p = f_.info(v).placement;
            const Type& type = f_.type(v);
            Region r = {p.arena, p.offset, static_cast<std::int64_t>(type.bytes()), p.layer_stride,
                        type.is_family() ? type.count : 1};
            if (!p.strides.empty()) {
                std::int64_t elements = 1;
                for (std::size_t d = 0; d < type.dims.size(); ++d) elements += (type.dims[d] - 1) * p.strides[d];
                const auto size = static_cast<std::int64_t>(size_of(type.dtype));
                const StridedRows rows = strided_rows({p.strides, 0}, type.dims);
                r.bytes = elements * size;
                r.row = rows.row * size;
                r.every = rows.every * size;
            }
            if (p.arena == Arena::scratch) r.offset += binding_.scratch;
            if (p.slots > 0) {
                r.offset += binding_.layer % p.slots * p.layer_stride;
                r.stride = 0;
            }
            if (p.arena == Arena::caller) {
                auto given = binding_.places.find(owner_of(v));
                if (given == binding_.places.end()) {
                    places_[v.index] = r;
                    violation(fmt::format("{} is to lie at its caller's, who gives it no place", name(v)));
                    sound_ = false;
                    return;
                }
                r.arena = given->second.arena;
                r.offset = given->second.offset + p.offset;
            }
            places_[v.index] = r;
        };
        for (Value v : f_.arguments) find(v);
        for (const Op& op : f_.ops)
            for (Value v : op.results) find(v);
    }

    void inside_arenas() {
        auto inspect = [&](Value v, bool own) {
            if (is_token(v)) return;
            const Region& r = place(v);
            if (r.count > 1 && r.stride < r.bytes)
                violation(fmt::format("the members of {} overlap each other", name(v)));
            inside(r, name(v), f_.info(v).placement.arena == Arena::scratch);
            // What a caller gives may be a view of its own: who reads it asks alignment_of.
            // Of scales and amaxes nobody reads several at once: they lie densely, for calls over all of them.
            const bool dense =
                r.arena == Arena::scalars || (r.arena == Arena::scaling && !is_quantised(f_.type(v).dtype));
            const Placement& placement = f_.info(v).placement;
            const bool whole =
                own && root(v) == v && !dense && placement.strides.empty() && place(owner_of(v)).offset == r.offset;
            if (whole && (r.offset % alignment != 0 || (r.count > 1 && r.stride % alignment != 0)))
                plan_.unaligned.push_back({r, static_cast<std::int64_t>(size_of(f_.type(v).dtype)),
                                           fmt::format("@{}: %{}", f_.name, names_[v.index])});
        };
        for (Value v : f_.arguments) inspect(v, binding_.entry);
        for (const Op& op : f_.ops) {
            for (Value v : op.results) inspect(v, true);
            if (is_constant_op(op))
                plan_.constants.emplace_back(place(op.results[0]), op.attributes.constant("value"),
                                             fmt::format("%{} of @{}", names_[op.results[0].index], f_.name));
        }
    }

    void inside(const Region& r, const std::string& what, bool own_scratch) {
        const std::int64_t bytes = plan_.arena_bytes(r.arena);
        if (r.begin() < 0 || (bytes >= 0 && r.end() > bytes))
            violation(fmt::format("{} ends outside its arena, which has {} bytes", what, bytes));
        if (own_scratch && !binding_.entry && r.end() - binding_.scratch > f_.scratch_bytes)
            violation(fmt::format("{} ends outside the function's scratch memory, which has {} bytes", what,
                                  f_.scratch_bytes));
    }

    // ---- views ----

    void view(const Op& op) {
        const Value from = op.operands[0], to = op.results[0];
        const Dims& dims = f_.type(to).dims;
        Region expected = place(from);
        Dims strides = f_.info(from).placement.strides;
        if (is_member_op(op)) {
            expected = expected.member(op.attributes.integer("index"));
        } else if (is_unstack(op)) {
            if (!strides.empty()) violation(fmt::format("the parts of {} are no memory of their own", name(from)));
            strides.clear();
            if (place(to).count > 1 && place(to).stride != place(to).bytes)
                violation(fmt::format("the members of {} do not lie side by side, as in {}", name(to), name(from)));
        } else if (is_stack(op)) {
            strides.clear();
            if (place(from).count > 1 && place(from).stride != place(from).bytes)
                violation(fmt::format("the members of {} do not lie side by side, as in {}", name(from), name(to)));
        } else if (is_unpack(op)) {
            const auto size = static_cast<std::int64_t>(size_of(f_.type(to).dtype));
            expected.offset += op.attributes.integer("offset") * size;
            if (f_.type(to).is_family() && place(to).stride != op.attributes.integer("stride") * size)
                violation(fmt::format("the members of {} lie in another distance than in {}", name(to), name(from)));
        } else {
            if (strides.empty()) strides = dense_strides(f_.type(from).dims);
            const std::optional<ViewLayout> layout = view_layout(f_, op, {strides, 0});
            if (!layout) {
                if (used_[to.index])
                    violation(fmt::format("{} is read, but no strides make it a view of {}: nothing writes it",
                                          name(to), name(from)));
                return;
            }
            strides = layout->strides;
            expected.offset += layout->offset * static_cast<std::int64_t>(size_of(f_.type(to).dtype));
        }
        if (strides.empty()) strides = dense_strides(dims);
        const Dims actual = f_.info(to).placement.strides.empty() ? dense_strides(dims) : f_.info(to).placement.strides;
        bool same = place(to).arena == expected.arena && place(to).offset == expected.offset;
        for (std::size_t d = 0; d < dims.size(); ++d) same = same && (dims[d] == 1 || actual[d] == strides[d]);
        if (!same) violation(fmt::format("the {} {} does not lie where it views {}", op.name, name(to), name(from)));
    }

    // What is packed lies in the flat tensor.
    void pieces(const Op& op) {
        const Region& flat = place(op.results[0]);
        for (std::size_t k = 0; k < op.operands.size(); ++k) {
            const Region& piece = place(op.operands[k]);
            const auto size = static_cast<std::int64_t>(size_of(f_.type(op.operands[k]).dtype));
            const std::int64_t offset = flat.offset + op.attributes.integers("offsets")[k] * size;
            const std::int64_t stride = op.attributes.integers("strides")[k] * size;
            if (piece.arena != flat.arena || piece.offset != offset || (piece.count > 1 && piece.stride != stride))
                violation(fmt::format("{} does not lie in its place in {}", name(op.operands[k]), name(op.results[0])));
        }
    }

    // ---- weights that lie side by side ----

    void adjacent(const Op& op) {
        for (const std::vector<Value>& group : adjacent_values(op)) {
            Value previous;
            for (Value v : group) {
                if (!v) continue;
                if (previous) {
                    const Region &a = place(previous), &b = place(v);
                    if (a.arena != b.arena || b.offset != a.offset + a.bytes)
                        violation(fmt::format("{} takes {} and {} as one tensor, but they do not lie side by side",
                                              op.name, name(previous), name(v)));
                    plan_.followers.emplace(std::pair(b.arena, b.offset),
                                            static_cast<std::int64_t>(size_of(f_.type(v).dtype)));
                }
                previous = v;
            }
        }
    }

    // ---- kernels that no program calls ----

    const Function& callee_of(const Op& op) const { return *plan_.module().find(called_kernel(op)); }

    void stands(const Op& op) {
        bool stands = is_kernel_call(op);
        if (stands) {
            const auto within = operands_within_results(f_, op);
            for (std::size_t o = 0; o < within.size(); ++o)
                stands = stands && (!within[o] || may_lie_within(op, within[o]->result, o));
            stands = stands && stands_already(describe_planned_kernel(callee_of(op), f_, op));
        }
        if (!stands)
            violation(
                fmt::format("{} is left out, but what it makes does not stand in {}", op.name, name(op.results[0])));
    }

    // ---- loops and calls ----

    // Memory that an op works in beside its results.
    struct Work {
        Region region;
        std::int64_t op = 0;
        std::string name;
        std::vector<Value> own;  // values that lie there by right
    };

    std::int64_t body_scratch(const Op& op, const Function& body, std::size_t k) {
        const std::int64_t base =
            body.scratch_bytes > 0 ? binding_.scratch + op.attributes.integer("scratch") : binding_.scratch;
        if (body.scratch_bytes == 0) return base;
        const Region r = {Arena::scratch, base, body.scratch_bytes, 0, 1};
        const std::string what = fmt::format("the scratch memory of @{} ({})", body.name, text(r));
        inside(r, what, true);
        work_.push_back({r, static_cast<std::int64_t>(k), what, {}});
        return base;
    }

    void call(const Op& op, std::size_t k) {
        const Function& body = callee(plan_.module(), op);
        Binding binding;
        binding.entry = false;
        for (std::size_t a = 0; a < body.arguments.size(); ++a)
            binding.places[body.arguments[a]] = place(op.operands[a]);
        for (std::size_t r = 0; r < body.results.size(); ++r) bind_result(binding, body, r, place(op.results[r]));
        binding.scratch = body_scratch(op, body, k);
        check_function(plan_, body, std::move(binding));
    }

    void bind_result(Binding& binding, const Function& body, std::size_t r, const Region& region) {
        auto [at, fresh] = binding.places.try_emplace(body.results[r], region);
        if (!fresh && (at->second.arena != region.arena || at->second.offset != region.offset))
            violation(fmt::format("result {} of @{} is at {} in the body and at {} for its caller", r, body.name,
                                  text(at->second), text(region)));
    }

    struct Slots {
        Arena arena = Arena::scratch;
        std::int64_t base = 0, stride = 0, period = 0, bytes = 0;
        Region at(std::int64_t slot) const {
            return {arena, base + (period > 0 ? slot % period : slot) * stride, bytes, 0, 1};
        }
    };

    Slots slots(const Op& op, std::size_t k) const {
        const Attributes& a = op.attributes;
        Slots s;
        s.arena = parse_arena(a.strings("carry_arena").at(k)).value();
        s.base = a.integers("carry_base").at(k) + (s.arena == Arena::scratch ? binding_.scratch : 0);
        s.stride = a.integers("carry_stride").at(k);
        s.period = a.integers("carry_period").at(k);
        s.bytes = static_cast<std::int64_t>(f_.type(op.operands[k]).bytes());
        return s;
    }

    void loop(const Op& op, std::size_t k) {
        const Function& body = callee(plan_.module(), op);
        const std::int64_t n = loop_count(op);
        const bool reverse = loop_reversed(op);
        const auto carried = loop_carried(op);
        const auto per_layer = loop_per_layer(op);
        std::vector<Slots> chain;
        for (std::size_t c = 0; c < carried; ++c) {
            chain.push_back(slots(op, c));
            carried_value(op, k, c, chain.back(), n, body);
        }
        const std::int64_t scratch = body_scratch(op, body, k);
        for (std::int64_t step : std::set<std::int64_t>{0, std::min<std::int64_t>(1, n - 1), n - 1}) {
            const std::int64_t layer = reverse ? n - 1 - step : step;
            Binding binding;
            binding.entry = false;
            binding.scratch = scratch;
            binding.layer = layer;
            for (std::size_t a = 0; a < body.arguments.size(); ++a)
                binding.places[body.arguments[a]] = a < carried               ? chain[a].at(step)
                                                    : a < carried + per_layer ? place(op.operands[a]).member(layer)
                                                                              : place(op.operands[a]);
            for (std::size_t r = 0; r < body.results.size(); ++r)
                bind_result(binding, body, r, r < carried ? chain[r].at(step + 1) : place(op.results[r]).member(layer));
            check_function(plan_, body, std::move(binding));
        }
    }

    void carried_value(const Op& op, std::size_t k, std::size_t c, const Slots& s, std::int64_t n,
                       const Function& body) {
        const Value in = op.operands[c], out = op.results[c];
        auto at = [](const Region& r) { return std::pair(r.arena, r.offset); };
        if (at(place(in)) != at(s.at(0)))
            violation(fmt::format("{} goes into a loop whose first slot is {}", name(in), text(s.at(0))));
        if (at(place(out)) != at(s.at(n)))
            violation(fmt::format("{} comes out of a loop whose last slot is {}", name(out), text(s.at(n))));
        if (s.period == 1 || (s.stride < s.bytes && (n > 0)))
            violation(fmt::format("slots {} and {} of a carried value share bytes", text(s.at(0)), text(s.at(1))));
        if (s.period > 0 && n >= s.period && last_[root(in).index] > static_cast<std::int64_t>(k))
            violation(fmt::format("{} is read after the loop that wrote over it", name(in)));
        const std::int64_t used = s.period > 0 ? std::min(s.period, n + 1) : n + 1;
        Region all = {s.arena, s.base, s.bytes, s.stride, used};
        Work work = {all,
                     static_cast<std::int64_t>(k),
                     fmt::format("the slots of a carried value ({})", text(all)),
                     {root(in), out}};
        for (std::size_t r = loop_carried(op); r < body.results.size(); ++r)
            if (body.results[r] == body.arguments[c]) work.own.push_back(op.results[r]);
        inside(all, work.name, s.arena == Arena::scratch);
        work_.push_back(std::move(work));
    }

    // ---- every value against every other ----

    struct Object {
        Value value;
        std::int64_t first = 0, last = 0;
    };

    void compare_values() {
        std::vector<Object> objects;
        find_replaced();
        for (Value v : f_.arguments)
            if (!is_token(v)) objects.push_back({v, before, replaced(v) ? last_[v.index] : after()});
        for (const Op& op : f_.ops) {
            if (is_alias(f_, op) || is_memory(op)) continue;
            for (Value v : op.results)
                if (!is_token(v)) objects.push_back({v, first_[v.index], last_[v.index]});
        }
        std::stable_sort(objects.begin(), objects.end(),
                         [](const Object& a, const Object& b) { return a.first < b.first; });
        std::map<Arena, Needed> needed;                   // by those that are written now
        std::multimap<std::int64_t, std::size_t> ending;  // by the last op that needs them
        for (std::size_t k = 0; k < objects.size(); ++k) {
            const Object& o = objects[k];
            for (auto at = ending.begin(); at != ending.end() && at->first < o.first; at = ending.erase(at)) {
                const Region& region = place(objects[at->second].value);
                needed[region.arena].remove(region, at->second);
            }
            const Region& region = place(o.value);
            Needed& others = needed[region.arena];
            for (std::size_t other : others.around(region))
                if (overlap(place(objects[other].value), region)) meet(objects[other], o);
            others.add(region, k);
            ending.emplace(o.last, k);
        }
        compare_work(objects);
    }

    void compare_work(const std::vector<Object>& objects) {
        for (std::size_t a = 0; a < work_.size(); ++a) {
            const Work& w = work_[a];
            for (const Object& o : objects)
                if (o.first <= w.op && w.op <= o.last && overlap(place(o.value), w.region) &&
                    std::find(w.own.begin(), w.own.end(), o.value) == w.own.end())
                    violation(fmt::format("{} and {} share bytes during {}", name(o.value), w.name,
                                          f_.ops[static_cast<std::size_t>(w.op)].name));
            for (std::size_t b = a + 1; b < work_.size() && work_[b].op == w.op; ++b)
                if (overlap(work_[b].region, w.region))
                    violation(fmt::format("{} and {} share bytes", w.name, work_[b].name));
        }
    }

    // An argument whose place a result takes is not needed after its last reader; every other one is its owner's.
    bool replaced(Value argument) const {
        const auto [begin, end] = results_at_.equal_range(beginning(argument));
        return std::any_of(begin, end, [&](const auto& entry) {
            return root(entry.second) != argument && place(entry.second) == place(argument);
        });
    }

    std::pair<Arena, std::int64_t> beginning(Value v) const { return {place(v).arena, place(v).offset}; }

    void find_replaced() {
        for (Value r : f_.results) results_at_.emplace(beginning(r), r);
    }

    bool is_argument(Value v) const { return is_argument_[v.index]; }

    // A family that a loop collects of what goes into each layer is the chain of slots itself: its first member is the
    // value that goes into the loop.
    bool first_of_chain(const Op& op, Value in, Value family) const {
        if (!is_loop(op)) return false;
        const Function& body = callee(plan_.module(), op);
        for (std::size_t c = 0; c < carry_count(op); ++c) {
            if (root(op.operands[c]) != in) continue;
            const Slots chain = slots(op, c);
            for (std::size_t r = carry_count(op); r < op.results.size(); ++r)
                if (op.results[r] == family && body.results[r] == body.arguments[c])
                    return chain.period == 0 && place(family).arena == chain.arena &&
                           place(family).offset == chain.base && place(family).stride == chain.stride;
        }
        return false;
    }

    void meet(const Object& a, const Object& b) {
        const bool both_before = a.first == before && b.first == before;
        if (both_before) {
            // A caller may pass one value twice; constants are compared with each other by their content.
            const bool passed_twice =
                !binding_.entry && is_argument(a.value) && is_argument(b.value) && place(a.value) == place(b.value);
            const bool constants = !is_argument(a.value) && !is_argument(b.value);
            if (!passed_twice && !constants)
                violation(fmt::format("{} and {} share bytes", name(a.value), name(b.value)));
            return;
        }
        if (a.last < b.first) return;
        const Op& writer = f_.ops[static_cast<std::size_t>(b.first)];
        if (a.first < b.first && first_of_chain(writer, a.value, b.value)) return;
        const std::string& op = writer.name;
        if (a.first == b.first)
            violation(fmt::format("{} and {}, both from one {}, share bytes", name(a.value), name(b.value), op));
        else if (a.last > b.first)
            violation(fmt::format("{} and {} share bytes, and the first is still needed when {} writes the second",
                                  name(a.value), name(b.value), op));
        else if (!written_over(writer, a.value, b.value))
            violation(fmt::format("{} and {} share bytes, and {} may not write the one over the other", name(a.value),
                                  name(b.value), op));
    }

    // Whether `op` may write its result over every operand in these bytes.
    bool written_over(const Op& op, Value content, Value result) {
        index(op);
        const std::size_t r = result_of_.at(result);
        const bool dense = f_.info(result).placement.strides.empty();
        const auto [begin, end] = operands_of_.equal_range(content);
        for (auto at = begin; at != end; ++at) {
            const std::size_t o = at->second;
            const Value v = op.operands[o];
            if (!overlap(place(v), place(result))) continue;
            if (is_loop(op) && o < carry_count(op)) {
                if (r != o) return false;  // the slots of one carried value
                continue;
            }
            const bool same = place(v) == place(result) && dense && f_.info(v).placement.strides.empty();
            if (same && pair_allowed(op, r, o)) continue;
            if (!dense || !may_lie_within(op, r, o)) return false;
        }
        return true;
    }

    // Where the results of the op stand, and its operands by their contents. The optimizer's has thousands.
    void index(const Op& op) {
        if (std::exchange(indexed_, &op) == &op) return;
        result_of_.clear();
        operands_of_.clear();
        for (std::size_t r = 0; r < op.results.size(); ++r) result_of_.try_emplace(op.results[r], r);
        for (std::size_t o = 0; o < op.operands.size(); ++o)
            if (op.operands[o]) operands_of_.emplace(root(op.operands[o]), o);
    }

    static std::size_t carry_count(const Op& op) { return loop_carried(op); }

    bool pair_allowed(const Op& op, std::size_t r, std::size_t o) {
        if (is_collective(op, Collective::all_reduce)) return r == o;
        if (is_collective(op, Collective::reduce_scatter)) return o == 1;
        if (is_function_call(op)) return true;  // the body was checked with these places
        if (is_loop(op))                        // so was the loop's, for what belongs to one layer
            return r >= carry_count(op) && o < carry_count(op) + loop_per_layer(op);
        if (!is_kernel_call(op)) return may_write_over(op, r, o);
        const Pairs& pairs = plan_.kernel_pairs(called_kernel(op));
        return std::find(pairs.begin(), pairs.end(), std::pair(r, o)) != pairs.end();
    }

    // Whether a kernel may write result r around operand o, which lies in it.
    bool may_lie_within(const Op& op, std::size_t r, std::size_t o) {
        if (!is_kernel_call(op)) return false;
        const Value v = op.operands[o];
        const auto size = static_cast<std::int64_t>(size_of(f_.type(v).dtype));
        const std::int64_t offset = place(v).offset - place(op.results[r]).offset;
        if (place(v).count != 1 || offset < 0 || offset % size != 0) return false;
        const Dims& strides = f_.info(v).placement.strides;
        const ViewLayout layout = {strides.empty() ? dense_strides(f_.type(v).dims) : strides, offset / size};
        return thunderc::may_lie_within(plan_.kernel(called_kernel(op)), o, r, layout);
    }

    PlanChecker& plan_;
    const Function& f_;
    Binding binding_;
    std::vector<std::string> names_;
    std::vector<Value> roots_;
    std::map<Value, std::vector<Value>> packed_;  // by flat tensor: what was written into it
    std::vector<std::int64_t> first_, last_;
    std::vector<bool> used_;
    std::vector<Region> places_;
    std::vector<Work> work_;
    std::multimap<std::pair<Arena, std::int64_t>, Value> results_at_;
    Mask is_argument_;  // by value
    const Op* indexed_ = nullptr;
    std::map<Value, std::size_t> result_of_;
    std::multimap<Value, std::size_t> operands_of_;
    bool sound_ = true;
};

}  // namespace

void check_function(PlanChecker& plan, const Function& f, Binding binding) {
    FunctionChecker(plan, f, std::move(binding)).run();
}

}  // namespace thunderc::checking

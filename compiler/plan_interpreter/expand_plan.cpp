// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan_interpreter/expand_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "compiler/analysis/views.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"
#include "compiler/planned/carry_slots.h"
#include "compiler/support/lazy_check.h"

namespace thunderc {
namespace {

using Arena = Placement::Arena;

// Where one value of a function lies while it runs.
struct Spot {
    Arena arena = Arena::unplaced;
    std::int64_t offset = 0, layer_stride = 0;
    Spot member(std::int64_t i) const { return {arena, offset + i * layer_stride, 0}; }
};

// What a value is: its place, and the tensor of each member.
struct Content {
    Spot spot;
    std::vector<std::size_t> tensors;
};

// What a caller gives: places of arguments and results, and what the arguments hold.
struct Binding {
    std::map<Value, Spot> spots;
    std::map<Value, std::vector<std::size_t>> tensors;
    std::int64_t scratch = 0;
    std::size_t loop = 0;  // which execution of a loop, and which iteration: for events
    std::int64_t step = 0;
    std::int64_t layer = 0;  // of a loop's body
};

class Expansion {
  public:
    explicit Expansion(const Module& module) : module_(module) {}

    ExpandedPlan run(const Function& entry) {
        Binding binding;
        for (Value v : entry.arguments) binding.tensors[v] = new_tensors(entry.type(v));
        binding.loop = loops_++;
        entry_ = &entry;
        const std::vector<Content> results = expand(entry, binding);
        for (const Content& result : results)
            for (std::size_t t : result.tensors) plan_.tensors[t].temporary = false;
        return std::move(plan_);
    }

  private:
    static std::int64_t members_of(const Type& type) { return type.is_family() ? type.count : 1; }

    std::vector<std::size_t> new_tensors(const Type& type) {
        std::vector<std::size_t> out;
        for (std::int64_t m = 0; m < members_of(type); ++m) {
            out.push_back(plan_.tensors.size());
            plan_.tensors.emplace_back();
        }
        return out;
    }

    static Spot spot(const Function& f, Value v, const Binding& binding) {
        const Placement& p = f.info(v).placement;
        if (p.slots > 0) return {p.arena, p.offset + binding.layer % p.slots * p.layer_stride, 0};
        if (p.arena == Arena::scratch) return {p.arena, binding.scratch + p.offset, p.layer_stride};
        if (p.arena != Arena::caller) return {p.arena, p.offset, p.layer_stride};
        Value at = v;
        while (f.info(at).placement.view_of) at = f.info(at).placement.view_of;
        auto given = binding.spots.find(at);
        check(given != binding.spots.end(),
              [&] { return fmt::format("@{}: %{} has no place at its caller's", f.name, f.info(v).name); });
        return {given->second.arena, given->second.offset + p.offset, given->second.layer_stride};
    }

    const Function& callee(const Op& op, const char* attribute) const {
        const Function* g = module_.find(op.attributes.string(attribute));
        check(g != nullptr, [&] { return fmt::format("{} names a function that is not there", op.name); });
        return *g;
    }

    using Frame = std::vector<Content>;

    // The iterations of a loop, for the ops of its body that run ahead of theirs.
    struct Iterations {
        std::int64_t n = 0;
        std::function<Binding(std::int64_t)> bind;  // without what is carried
        std::map<std::int64_t, Frame> ahead;        // by iteration: what is there of it before it begins
    };

    Frame frame_of(const Function& f, const Binding& binding) {
        Frame frame(f.values.size());
        for (Value v : f.arguments) {
            if (f.type(v).kind == Type::Kind::token || !binding.tensors.contains(v)) continue;
            frame[v.index] = {spot(f, v, binding), binding.tensors.at(v)};
        }
        return frame;
    }

    // The ops of iteration `step` that run ahead of it: `only` this one, or all of those that stand before the loop.
    void run_ahead(const Function& f, Iterations& loop, std::int64_t step, const Op* only) {
        if (step >= loop.n) return;
        const Binding binding = loop.bind(step);
        auto [at, fresh] = loop.ahead.try_emplace(step);
        if (fresh) at->second = frame_of(f, binding);
        for (const Op& op : f.ops)
            if ((only == nullptr && op.attributes.integer("ahead", 0) > step) || &op == only)
                one(f, op, at->second, binding);
    }

    std::vector<Content> expand(const Function& f, const Binding& binding, Iterations* loop = nullptr) {
        Frame frame = frame_of(f, binding);
        for (const Op& op : f.ops) {
            const std::int64_t ahead = op.attributes.integer("ahead", 0);
            if (ahead == 0 || loop == nullptr) {
                one(f, op, frame, binding);
                continue;
            }
            run_ahead(f, *loop, binding.step + ahead, &op);
            for (Value v : op.results) frame[v.index] = loop->ahead.at(binding.step)[v.index];
        }
        if (loop != nullptr) loop->ahead.erase(binding.step);
        std::vector<Content> results;
        for (Value v : f.results) results.push_back(frame[v.index]);
        return results;
    }

    void one(const Function& f, const Op& op, Frame& frame, const Binding& binding) {
        if (&f == entry_) {
            entry_op_ = static_cast<std::size_t>(&op - f.ops.data());
            entry_iteration_ = 0;
        }
        for (Value v : op.results)
            if (f.type(v).kind != Type::Kind::token) frame[v.index].spot = spot(f, v, binding);
        if (is_loop(op)) {
            repeat(f, op, frame, binding);
        } else if (is_begin_ahead(op)) {
            begin_ahead(f, op, frame, binding);
        } else if (is_function_call(op)) {
            call(op, frame, binding);
        } else if (is_constant_op(op) || is_unwritten(op) || is_pack(op)) {
            frame[op.results[0].index].tensors = new_tensors(f.type(op.results[0]));
        } else if (is_member_op(op)) {
            frame[op.results[0].index].tensors = {
                frame[op.operands[0].index].tensors.at(static_cast<std::size_t>(op.attributes.integer("index")))};
        } else if (stack_in_place(f, op)) {
            frame[op.results[0].index].tensors = new_tensors(f.type(op.results[0]));
            plan_.tensors.back().parts = frame[op.operands[0].index].tensors;
        } else if (is_unpack(op) || is_unstack(op)) {
            frame[op.results[0].index].tensors.assign(static_cast<std::size_t>(members_of(f.type(op.results[0]))),
                                                      frame[op.operands[0].index].tensors.at(0));
        } else if (is_view(op)) {
            frame[op.results[0].index].tensors = frame[op.operands[0].index].tensors;
        } else if (binding.step < op.attributes.integer("resident", 0)) {
            // It is there already, from when it was gathered last.
            const auto held = gathered_.find({op.attributes.string("unit", ""), binding.layer});
            for (Value v : op.results)
                frame[v.index].tensors =
                    held == gathered_.end() ? new_tensors(f.type(v)) : std::vector<std::size_t>{held->second};
        } else {
            action(f, op, frame, binding);
        }
    }

    std::size_t stream_of(const Op& op) const {
        if (op.stream.empty()) return 0;
        const auto at = std::find(module_.streams.begin(), module_.streams.end(), op.stream);
        check(at != module_.streams.end(), [&] { return "the module has no stream " + op.stream; });
        return static_cast<std::size_t>(at - module_.streams.begin()) + 1;
    }

    void action(const Function& f, const Op& op, std::vector<Content>& frame, const Binding& binding) {
        PlannedAction a;
        a.function = &f;
        a.op = &op;
        a.stream = stream_of(op);
        a.entry_op = entry_op_;
        a.entry_iteration = entry_iteration_;
        auto access = [&](Value v, std::int64_t m) {
            const Content& content = frame[v.index];
            check(static_cast<std::size_t>(m) < content.tensors.size(),
                  [&] { return fmt::format("@{}: {} reads %{} before it is there", f.name, op.name, f.info(v).name); });
            const Spot at = content.spot.member(m);
            return PlannedAccess{content.tensors.at(static_cast<std::size_t>(m)),
                                 v,
                                 f.type(v).member(),
                                 at.arena,
                                 at.offset,
                                 f.info(v).placement.strides};
        };
        const bool collective = is_collective(op);
        const bool whole = layer_group_ends(op, binding);
        if (!whole && !collective) return;
        std::vector<Value> operands = op.operands;
        if (const Value flag = flag_of(op)) a.enabled = access(flag, 0);
        if (is_event(op) || (collective && !is_collective(op, Collective::reduce_scatter))) {
            if (!operands.empty()) operands.pop_back();
        }
        for (Value v : operands) {
            if (!v) a.reads.emplace_back();
            for (std::int64_t m = 0; v && m < members_of(f.type(v)); ++m) a.reads.emplace_back(access(v, m));
        }
        for (Value v : op.results) {
            if (f.type(v).kind == Type::Kind::token) continue;
            frame[v.index].tensors = new_tensors(f.type(v));
            for (std::int64_t m = 0; m < members_of(f.type(v)); ++m) {
                a.writes.push_back(access(v, m));
                const PlannedAccess& w = a.writes.back();
                plan_.tensors[w.tensor] = {w, w.arena == Arena::scratch || w.arena == Arena::saved, {}};
            }
        }
        if (collective && op.attributes.integer("layers", 1) > 1) {
            // With those of the layers before, where these are to be sent together.
            Together& together = together_[{binding.loop, &op}];
            together.reads.insert(together.reads.end(), a.reads.begin(), a.reads.end());
            together.writes.insert(together.writes.end(), a.writes.begin(), a.writes.end());
            if (!whole) return;
            a.reads = std::exchange(together.reads, {});
            a.writes = std::exchange(together.writes, {});
        }
        if (is_collective(op, Collective::all_gather) && op.attributes.has("slots"))
            gathered_[{op.attributes.string("unit"), binding.layer}] = a.writes.front().tensor;
        if (is_record(op))
            records_[{binding.loop, binding.step, &f, op.attributes.string("event")}] = plan_.actions.size();
        if (is_wait(op)) {
            const std::int64_t step = binding.step - op.attributes.integer("distance", 0);
            const auto record = records_.find({binding.loop, step, &f, op.attributes.string("event")});
            check(step < 0 || record != records_.end(), "an event is waited for before it is recorded");
            if (record != records_.end()) a.awaits = record->second;
        }
        plan_.actions.push_back(std::move(a));
    }

    // Whether `op`, which may work on several layers at once, runs in this iteration.
    static bool layer_group_ends(const Op& op, const Binding& binding) {
        return binding.layer % op.attributes.integer("layers", 1) == 0;
    }

    void call(const Op& op, std::vector<Content>& frame, const Binding& binding) {
        const Function& body = callee(op, "callee");
        Binding inner;
        inner.loop = loops_++;
        inner.scratch = body.scratch_bytes == 0 ? binding.scratch : binding.scratch + op.attributes.integer("scratch");
        for (std::size_t k = 0; k < body.arguments.size(); ++k) {
            inner.spots[body.arguments[k]] = frame[op.operands[k].index].spot;
            inner.tensors[body.arguments[k]] = frame[op.operands[k].index].tensors;
        }
        for (std::size_t r = 0; r < body.results.size(); ++r)
            inner.spots.try_emplace(body.results[r], frame[op.results[r].index].spot);
        const std::vector<Content> results = expand(body, inner);
        for (std::size_t r = 0; r < results.size(); ++r) frame[op.results[r].index].tensors = results[r].tensors;
    }

    // A loop whose first ops ran ahead, before its first iteration.
    struct Loop {
        std::vector<CarrySlots> chain;
        Iterations iterations;
        std::int64_t ahead = 0;
    };

    // The frame has to outlive it.
    Loop begin_loop(const Op& op, std::vector<Content>& frame, const Binding& binding) {
        const Function& body = callee(op, "body");
        const bool reverse = loop_reversed(op);
        const auto carried = loop_carried(op);
        const auto per_layer = loop_per_layer(op);
        Loop out;
        for (std::size_t k = 0; k < carried; ++k) {
            out.chain.push_back(carry_slots(op, k));
            if (out.chain.back().arena == Arena::scratch) out.chain.back().base += binding.scratch;
        }
        const std::size_t loop = loops_++;
        const std::int64_t n = loop_count(op);
        const std::int64_t scratch =
            body.scratch_bytes == 0 ? binding.scratch : binding.scratch + op.attributes.integer("scratch");
        out.iterations.n = n;
        out.iterations.bind = [=, &op, &body, &frame, chain = out.chain](std::int64_t step) {
            const std::int64_t layer = reverse ? n - 1 - step : step;
            const auto at = static_cast<std::size_t>(layer);
            Binding inner;
            inner.loop = loop;
            inner.step = step;
            inner.layer = layer;
            inner.scratch = scratch;
            for (std::size_t k = 0; k < body.arguments.size(); ++k) {
                const Content& c = frame[op.operands[k].index];
                const bool member = k >= carried && k < carried + per_layer;
                inner.spots[body.arguments[k]] = k < carried ? Spot{chain[k].arena, chain[k].at(step), 0}
                                                 : member    ? c.spot.member(layer)
                                                             : c.spot;
                // What a loop reads may come between its first ops ahead and itself.
                if (k >= carried && !c.tensors.empty())
                    inner.tensors[body.arguments[k]] = member ? std::vector<std::size_t>{c.tensors.at(at)} : c.tensors;
            }
            for (std::size_t r = 0; r < body.results.size(); ++r)
                inner.spots.try_emplace(body.results[r], r < carried ? Spot{chain[r].arena, chain[r].at(step + 1), 0}
                                                                     : frame[op.results[r].index].spot.member(layer));
            return inner;
        };
        for (const Op& inner : body.ops) out.ahead = std::max(out.ahead, inner.attributes.integer("ahead", 0));
        for (std::int64_t step = 0; step < out.ahead; ++step) run_ahead(body, out.iterations, step, nullptr);
        return out;
    }

    void begin_ahead(const Function& f, const Op& op, std::vector<Content>& frame, const Binding& binding) {
        for (const Op& loop : f.ops)
            if (is_loop_over(loop, loop_body(op)))
                begun_.emplace(std::pair(&frame, &loop), begin_loop(loop, frame, binding));
    }

    void repeat(const Function& f, const Op& op, std::vector<Content>& frame, const Binding& binding) {
        const Function& body = callee(op, "body");
        const std::int64_t n = loop_count(op);
        const bool reverse = loop_reversed(op), of_entry = &f == entry_;
        const auto carried = loop_carried(op);
        std::vector<std::vector<std::size_t>> flowing;  // what the carried values hold
        for (std::size_t k = 0; k < carried; ++k) flowing.push_back(frame[op.operands[k].index].tensors);
        for (std::size_t r = carried; r < op.results.size(); ++r)
            frame[op.results[r].index].tensors.resize(static_cast<std::size_t>(members_of(f.type(op.results[r]))));
        const auto begun = begun_.extract(std::pair(&frame, &op));
        Loop loop = begun ? std::move(begun.mapped()) : begin_loop(op, frame, binding);
        for (std::int64_t step = 0; step < n; ++step) {
            if (of_entry) entry_iteration_ = step;
            const auto at = static_cast<std::size_t>(reverse ? n - 1 - step : step);
            Binding inner = loop.iterations.bind(step);
            for (std::size_t k = 0; k < carried; ++k) inner.tensors[body.arguments[k]] = flowing[k];
            const std::vector<Content> results = expand(body, inner, loop.ahead > 0 ? &loop.iterations : nullptr);
            for (std::size_t r = 0; r < results.size(); ++r) {
                if (r < carried)
                    flowing[r] = results[r].tensors;
                else
                    frame[op.results[r].index].tensors.at(at) = results[r].tensors.at(0);
            }
        }
        for (std::size_t k = 0; k < carried; ++k) frame[op.results[k].index].tensors = flowing[k];
    }

    struct Together {
        std::vector<std::optional<PlannedAccess>> reads;
        std::vector<PlannedAccess> writes;
    };

    const Module& module_;
    const Function* entry_ = nullptr;
    std::size_t entry_op_ = 0;  // whose actions are written now
    std::int64_t entry_iteration_ = 0;
    std::map<std::pair<std::size_t, const Op*>, Together> together_;  // by the execution of a loop
    ExpandedPlan plan_;
    std::size_t loops_ = 0;
    std::map<std::pair<const Frame*, const Op*>, Loop> begun_;              // by the execution of a function: its loops
    std::map<std::pair<std::string, std::int64_t>, std::size_t> gathered_;  // by unit and layer: the tensor
    std::map<std::tuple<std::size_t, std::int64_t, const Function*, std::string>, std::size_t> records_;
};

}  // namespace

std::int64_t PlannedAccess::bytes() const {
    if (strides.empty()) return static_cast<std::int64_t>(type.bytes());
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < type.dims.size(); ++d) elements += (type.dims[d] - 1) * strides[d];
    return elements * static_cast<std::int64_t>(size_of(type.dtype));
}

bool PlannedAccess::is_apart_from(const PlannedAccess& other) const {
    const auto rows = [](const PlannedAccess& a) {
        const auto size = static_cast<std::int64_t>(size_of(a.type.dtype));
        const StridedRows r =
            strided_rows({a.strides.empty() ? dense_strides(a.type.dims) : a.strides, 0}, a.type.dims);
        return StridedRows{a.offset, a.offset + a.bytes(), r.row * size, r.every * size};
    };
    return apart(rows(*this), rows(other));
}

ExpandedPlan expand_plan(const Module& planned, const Function& entry) {
    check(planned.phase == Module::Phase::planned, "the module is not planned");
    return Expansion(planned).run(entry);
}

}  // namespace thunderc

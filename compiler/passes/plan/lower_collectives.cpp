// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/plan/lower_collectives.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"
#include "compiler/passes/plan/plan_parts.h"
#include "compiler/support/error.h"

namespace thunderc::planning {
namespace {

bool is_token(const Function& f, Value v) {
    return f.type(v).kind == Type::Kind::token;
}

std::string stream_of(const Op& start) {
    if (is_start(start, Collective::all_gather)) return "gather";
    return start.attributes.string("group") == "replica" ? "replicate" : "reduce";
}

// What stands behind a token: the collective is the last one of its name on the stream.
struct Sent {
    std::string stream, name;
    std::size_t op = 0;             // of the function: the start, or the loop that holds it
    Value flag = {};                // of the function: where it is false, this is not there
    std::size_t flag_argument = 0;  // of what a loop's body gives: which of its arguments the flag is
    // What it sends comes from these collectives, which are there whether it is or not.
    std::vector<Sent> from = {};
};

// ---- one function ----

class FunctionLowering {
  public:
    using Given = std::map<std::string, std::vector<Sent>>;  // by a loop's body: what the tokens among its results are

    FunctionLowering(Module& module, Function& f, Given& given)
        : module_(module), f_(f), given_(given), loop_(f.is_loop_body()) {}

    void run() {
        find_tokens();
        if (sent_.empty()) return;
        if (loop_) find_layers();
        find_what_stays();
        find_ends();
        if (!loop_ && (gathers_in_loops() || takes_turns())) {
            use_stream("gather");
            both("begin", "gather", {});
        }
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            Op& op = f_.ops[k];
            if (is_await(op)) {
                await(op, k);
                continue;
            }
            if (is_unwritten(op)) own(op);
            if (is_start(op)) {
                start(op, k);
            } else if (is_begin_ahead(op)) {
                begin_ahead(op);
            } else {
                begin_loop(op);
                ops_.push_back(without_tokens(op));
            }
            for (const Sent& one : recorded_[k]) record(one.name + "_done", one.stream, {}, one.flag);
            if (auto at = released_.find(k); at != released_.end())
                for (const std::string& name : at->second) record(name + "_free", "", {});
        }
        f_.ops = std::move(ops_);
        drop_token_results();
        substitute(f_, forwarded_);
        compact_values(f_);
    }

  private:
    using Timing = std::vector<std::pair<std::string, std::int64_t>>;  // layers, ahead, resident, distance

    void use_stream(const std::string& name) {
        if (std::find(module_.streams.begin(), module_.streams.end(), name) == module_.streams.end())
            module_.streams.push_back(name);
    }

    void event(const char* what, const std::string& name, const std::string& stream, const Timing& timing, Value flag) {
        Op op;
        op.name = what;
        if (flag) op.operands = {flag};
        op.attributes.set("event", name);
        for (const auto& [key, value] : timing) op.attributes.set(key, value);
        op.stream = stream;
        ops_.push_back(std::move(op));
    }
    void record(const std::string& name, const std::string& stream, const Timing& timing, Value flag = {}) {
        event("record", name, stream, timing, flag);
    }
    void wait(const std::string& name, const std::string& stream, const Timing& timing, Value flag = {}) {
        event("wait", name, stream, timing, flag);
    }
    // `stream` waits for what stands before on compute.
    void both(const std::string& name, const std::string& stream, const Timing& timing, Value flag = {}) {
        record(name, "", timing, flag);
        wait(name, stream, timing, flag);
    }

    static Timing timing_of(const Op& op, std::initializer_list<const char*> names) {
        Timing out;
        for (const char* name : names)
            if (op.attributes.has(name)) out.emplace_back(name, op.attributes.integer(name));
        return out;
    }

    void find_tokens() {
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            const Op& op = f_.ops[k];
            if (is_start(op)) {
                sent_[op.results.back()] = {stream_of(op), op.attributes.string("name"), k, sum_flag(op)};
                continue;
            }
            if (!is_loop(op)) continue;
            const auto given = given_.find(loop_body(op));
            std::size_t next = 0;
            for (Value v : op.results)
                if (is_token(f_, v)) sent_[v] = outside(given->second.at(next++), op, k);
        }
    }

    // Who waits for a sum that is not there waits for nothing. A gather that is not there was there before: its events
    // stand in every micro-step.
    static Value sum_flag(const Op& start) {
        return is_start(start, Collective::all_reduce) ? start.operands.back() : Value{};
    }

    // What the loop of op k sends, as this function sees it.
    Sent outside(Sent sent, const Op& loop, std::size_t k) const {
        sent.op = k;
        if (sent.flag) sent.flag = loop.operands[sent.flag_argument];
        for (Sent& one : sent.from) one = outside(one, loop, k);
        return sent;
    }

    // What this loop's body sends, as its callers find it.
    Sent given(Sent sent) const {
        if (sent.flag) {
            const auto at = std::find(f_.arguments.begin(), f_.arguments.end(), sent.flag);
            check(at != f_.arguments.end(), "what a loop sends depends on a flag of its own");
            sent.flag_argument = static_cast<std::size_t>(at - f_.arguments.begin());
        }
        for (Sent& one : sent.from) one = given(one);
        return sent;
    }

    // How many layers the loops over this body have.
    void find_layers() {
        for (const Function& f : module_.functions)
            for (const Op& op : f.ops)
                if (is_loop_over(op, f_.name)) layers_ = loop_count(op);
    }

    bool gathers_in_loops() const {
        for (const Function& f : module_.functions)
            for (const Op& op : f.ops)
                if ((is_start(op, Collective::all_gather) || is_collective(op, Collective::all_gather)) && reaches(f))
                    return true;
        return false;
    }
    // Units that stand alone and are gathered in every micro-step.
    bool takes_turns() const {
        return std::any_of(f_.ops.begin(), f_.ops.end(), [](const Op& op) { return op.attributes.has("room"); });
    }
    bool reaches(const Function& g) const {
        if (g.name == f_.name) return true;
        return std::any_of(f_.ops.begin(), f_.ops.end(), [&g](const Op& op) { return is_loop_over(op, g.name); });
    }

    // A loop that gathers layers into slots that an earlier loop of this function had: not before that is done.
    bool gathers_again(const Op& repeat) {
        bool again = false;
        for (const Op& op : module_.find(loop_body(repeat))->ops) {
            if (!is_collective(op, Collective::all_gather)) continue;
            const bool seen = !gathered_.insert(op.attributes.string("unit")).second;
            again = again || (seen && op.attributes.integer("resident") == 0);
        }
        return again;
    }

    // Before a loop, or before what it runs ahead of its first iterations, where that stands apart.
    void begin_loop(const Op& op) {
        if (!is_loop(op) || !begun_.insert(loop_body(op)).second) return;
        if (gathers_again(op)) both(loop_body(op) + "_turn", "gather", {});
    }

    void begin_ahead(Op op) {
        for (const Op& loop : f_.ops)
            if (is_loop_over(loop, loop_body(op))) begin_loop(loop);
        op.stream = "gather";
        ops_.push_back(std::move(op));
    }

    // A sum that is alone in its function and is read by what stands behind it has nothing to run beside: it stays on
    // compute, where its neighbours are its order.
    void find_what_stays() {
        const auto starts = std::count_if(f_.ops.begin(), f_.ops.end(), [](const Op& op) { return is_start(op); });
        for (std::size_t k = 0; k + 1 < f_.ops.size() && starts == 1; ++k)
            if (is_start(f_.ops[k], Collective::all_reduce) && !sum_flag(f_.ops[k]) && is_await(f_.ops[k + 1]))
                stays_ = k;
    }

    // Which tokens' ends are recorded: of those that an await has on one stream, the last.
    void find_ends() {
        const Uses uses(f_);
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            const Op& op = f_.ops[k];
            if (!is_await(op)) continue;
            if (stays_) {
                for (std::size_t r = 0; r < op.results.size(); ++r) forwarded_[op.results[r]] = op.operands[r];
                continue;
            }
            bool sent_on = true;  // to another collective, and read by nobody else
            std::set<std::int32_t> readers;
            for (Value v : op.results) {
                for (std::int32_t user : uses.users[v.index]) {
                    sent_on = sent_on && is_start(f_.ops[static_cast<std::size_t>(user)]);
                    readers.insert(user);
                }
                sent_on = sent_on && !uses.is_result[v.index] && !uses.users[v.index].empty();
            }
            Last last;
            for (Value v : op.operands)
                if (is_token(f_, v)) add_last(last, sent_.at(v));
            for (const auto& [key, one] : last) {
                // A gather in a loop records where it stands, ahead of this iteration.
                const Op& from = f_.ops[one.op];
                if (!(loop_ && is_start(from, Collective::all_gather))) record_end(one);
                if (sent_on)
                    for (std::int32_t reader : readers) {
                        chained_[static_cast<std::size_t>(reader)].push_back(one);
                        sent_.at(f_.ops[static_cast<std::size_t>(reader)].results.back()).from.push_back(one);
                    }
                else
                    ends_[k].push_back(one);
            }
            for (std::size_t r = 0; r < op.results.size(); ++r) forwarded_[op.results[r]] = op.operands[r];
        }
    }

    // The last one on a stream stands for those before it that are there under the same flag.
    using Last = std::map<std::pair<std::string, Value>, Sent>;
    static void add_last(Last& last, const Sent& one) {
        auto [at, fresh] = last.try_emplace({one.stream, one.flag}, one);
        if (!fresh && at->second.op < one.op) at->second = one;
        // What is not there cannot tell of what it waited for.
        if (one.flag)
            for (const Sent& before : one.from) add_last(last, before);
    }

    void record_end(const Sent& one) {
        std::vector<Sent>& here = recorded_[one.op];
        if (std::none_of(here.begin(), here.end(), [&one](const Sent& s) { return s.name == one.name; }))
            here.push_back(one);
    }

    void await(const Op& op, std::size_t k) {
        for (const Sent& one : ends_[k]) {
            const Op& from = f_.ops[one.op];
            const bool gather = loop_ && is_start(from, Collective::all_gather);
            if (gather && from.attributes.integer("resident") >= layers_) continue;
            wait(one.name + "_done", "", gather ? timing_of(from, {"resident"}) : Timing(), one.flag);
            ops_.back().provenance = op.provenance;
            const bool behind = std::none_of(op.operands.begin(), op.operands.end(),
                                             [&](Value v) { return is_token(f_, v) && sent_.at(v).name == one.name; });
            if (behind)
                ops_.back().attributes.set("reason",
                                           std::string("the next micro-step writes where these gradients lie"));
            else if (op.attributes.has("reason"))
                ops_.back().attributes.set("reason", op.attributes.string("reason"));
        }
    }

    void start(const Op& op, std::size_t k) {
        if (stays_ == k) return collective(op, "");
        const std::string name = op.attributes.string("name"), stream = stream_of(op);
        use_stream(stream);
        if (is_start(op, Collective::all_gather)) return gather(op, k);
        if (auto at = chained_.find(k); at != chained_.end()) {
            for (const Sent& before : at->second) wait(before.name + "_done", stream, {}, sum_flag(op));
        } else {
            both(name + "_ready", stream, timing_of(op, {"layers"}), sum_flag(op));
        }
        collective(op, stream);
        if (loop_ && is_start(op, Collective::reduce_scatter) && owned_.contains(op.attributes.string("unit")))
            record(name + "_summed", stream, {});
    }

    void collective(const Op& op, const std::string& stream) {
        Op lowered = without_tokens(op);
        lowered.name = name_of(*start_of(op));
        lowered.stream = stream;
        ops_.push_back(std::move(lowered));
    }

    void gather(const Op& op, std::size_t k) {
        const std::string name = op.attributes.string("name");
        if (!loop_) {
            if (op.attributes.has("behind")) wait(op.attributes.string("behind") + "_free", "gather", {});
            const bool followed = std::any_of(f_.ops.begin(), f_.ops.end(), [&name](const Op& other) {
                return other.attributes.has("behind") && other.attributes.string("behind") == name;
            });
            if (followed) released_[last_reader(k)].push_back(name);
            return collective(op, "gather");
        }
        const std::int64_t slots = op.attributes.integer("slots"), resident = op.attributes.integer("resident");
        if (resident >= layers_) return collective(op, "gather");  // which never runs: every layer is there
        Timing timing = timing_of(op, {"ahead", "resident"});
        if (slots < layers_) {
            Timing free = timing;
            free.emplace_back("distance", slots);
            wait(name + "_free", "gather", free);
            released_[last_reader(k)].push_back(name);
        }
        collective(op, "gather");
        record(name + "_done", "gather", timing);
    }

    // The last op that reads what the start of op k gave, or a view of it.
    std::size_t last_reader(std::size_t k) const {
        std::set<Value> held(f_.ops[k].results.begin(), f_.ops[k].results.end());
        std::size_t last = k;
        for (std::size_t j = k + 1; j < f_.ops.size(); ++j) {
            const Op& op = f_.ops[j];
            if (std::none_of(op.operands.begin(), op.operands.end(), [&](Value v) { return held.contains(v); }))
                continue;
            last = j;
            if (is_unpack(op)) held.insert(op.results.begin(), op.results.end());
            for (std::size_t r = 0; is_await(op) && r < op.results.size(); ++r)
                if (held.contains(op.operands[r])) held.insert(op.results[r]);
        }
        return last;
    }

    // Memory for the gradients of a layer: free when those that lay there are summed.
    void own(const Op& op) {
        if (!loop_ || op.attributes.integer("slots") >= layers_) return;
        const std::string unit = op.attributes.string("unit");
        owned_.insert(unit);
        wait(unit + "_gradients_summed", "", {{"distance", op.attributes.integer("slots")}});
    }

    Op without_tokens(Op op) const {
        std::erase_if(op.results, [this](Value v) { return is_token(f_, v); });
        return op;
    }

    // The tokens among a function's results go; what they stand for is kept for the loops that call it.
    void drop_token_results() {
        std::vector<Value> results;
        for (Value v : f_.results) {
            if (is_token(f_, v))
                given_[f_.name].push_back(given(sent_.at(v)));
            else
                results.push_back(v);
        }
        f_.results = std::move(results);
    }

    Module& module_;
    Function& f_;
    Given& given_;
    bool loop_;
    std::int64_t layers_ = 0;
    std::optional<std::size_t> stays_;                          // the start that is no start: on compute
    std::map<Value, Sent> sent_;                                // by token
    std::map<std::size_t, std::vector<Sent>> recorded_;         // by op: whose ends are recorded behind it
    std::map<std::size_t, std::vector<Sent>> ends_;             // by await
    std::map<std::size_t, std::vector<Sent>> chained_;          // by start: what its operand comes from
    std::map<std::size_t, std::vector<std::string>> released_;  // by op: gathers whose memory is free behind it
    std::set<std::string> owned_;                               // units whose gradients wait for their slot
    std::set<std::string> gathered_;                            // units that a loop has gathered
    std::set<std::string> begun_;                               // bodies of loops that have begun
    std::map<Value, Value> forwarded_;
    std::vector<Op> ops_;
};

// ---- where flat tensors lie ----

class UnitPlaces {
  public:
    explicit UnitPlaces(Module& module) : module_(module) {}

    UnitMemory run() {
        // A place is as large as the largest that comes there: an evaluation has other units in a room.
        each([this](Function& f, const Op& op, Arena arena) {
            std::int64_t& bytes = bytes_[key(op, arena)];
            bytes = std::max(bytes, bytes_of_slot(f, op) * std::max<std::int64_t>(slots_of(op), 1));
        });
        each([this](Function& f, const Op& op, Arena arena) {
            std::int64_t& end = arena == Arena::gathered ? memory_.gathered : memory_.gradients;
            const auto [at, fresh] = places_.try_emplace(key(op, arena), end);
            if (fresh) end += bytes_.at(at->first);
            const std::int64_t slots = slots_of(op);
            f.info(op.results[0]).placement = {arena, at->second, slots > 0 ? bytes_of_slot(f, op) : 0, {}, {}, slots};
        });
        return memory_;
    }

  private:
    using Key = std::pair<Arena, std::string>;

    template <typename Visit>
    void each(Visit visit) {
        for (Function& f : module_.functions) {
            if (f.is_kernel()) continue;
            for (const Op& op : f.ops) {
                if (is_collective(op, Collective::all_gather))
                    visit(f, op, Arena::gathered);
                else if (is_unwritten(op) || is_pack(op))
                    visit(f, op, Arena::unit_gradients);
            }
        }
    }

    static Key key(const Op& op, Arena arena) {
        return {arena, op.attributes.has("room") ? " room " + std::to_string(op.attributes.integer("room"))
                                                 : op.attributes.string("unit")};  // which begins with no space
    }
    static std::int64_t slots_of(const Op& op) { return op.attributes.integer("slots", 0); }
    static std::int64_t bytes_of_slot(const Function& f, const Op& op) {
        return aligned(op.attributes.has("room") ? op.attributes.integer("room_bytes")
                                                 : bytes_of(f.type(op.results[0])));
    }

    Module& module_;
    UnitMemory memory_;
    std::map<Key, std::int64_t> bytes_;   // of a place
    std::map<Key, std::int64_t> places_;  // where it begins
};

}  // namespace

UnitMemory lower_collectives(Module& module) {
    FunctionLowering::Given given;
    // Bodies of loops first: what their tokens stand for.
    for (Function& f : module.functions)
        if (f.is_loop_body()) FunctionLowering(module, f, given).run();
    for (Function& f : module.functions)
        if (f.kind.empty()) FunctionLowering(module, f, given).run();
    return UnitPlaces(module).run();
}

}  // namespace thunderc::planning

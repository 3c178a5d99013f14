// SPDX-License-Identifier: Apache-2.0
// Happens-before over streams: of two actions that touch the same bytes, one of which writes them, one has to wait for
// the other. Then every order that streams and events permit gives what the order of the list gives, which
// check_function looks at.
//
// What is there under a flag alone, in the first or the last micro-step of a step, is looked at with the flag and
// without it, each combination of flags by itself.
//
// What lies in slots by turns is looked at across iterations here as well: that nothing is written over a tensor that
// is still read, in the order of the list.
//
// Order is told by vector clocks (Fidge 1988, Mattern 1989): how far each stream has come when an action begins.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/check/check_plan_parts.h"
#include "compiler/ir/print.h"
#include "compiler/ops/collectives.h"
#include "compiler/plan_interpreter/expand_plan.h"

namespace thunderc::checking {
namespace {

using Clock = std::vector<std::size_t>;  // by stream: how many of its actions are done

class StreamChecker {
  public:
    StreamChecker(PlanChecker& plan, const Function& entry)
        : plan_(plan), entry_(entry), expanded_(expand_plan(plan.module(), entry)) {}

    void run() {
        find_flags();
        for (std::size_t off = 0; off < std::size_t{1} << flags_.size(); ++off) {
            choose(off);
            find_clocks();
            starts_and_ends();
            conflicts();
        }
    }

  private:
    // ---- what is there ----

    static std::pair<Arena, std::int64_t> place(const PlannedAccess& flag) { return {flag.arena, flag.offset}; }

    void find_flags() {
        for (const PlannedAction& a : expanded_.actions)
            if (a.enabled) flags_.try_emplace(place(*a.enabled), a.function->info(a.enabled->value).name);
    }

    // Those flags are false whose bits are set in `off`.
    void choose(std::size_t off) {
        std::map<std::pair<Arena, std::int64_t>, bool> is_off;
        where_.clear();
        for (std::size_t k = 0; const auto& [flag, name] : flags_) {
            is_off[flag] = (off >> k++ & 1) != 0;
            if (is_off[flag]) where_ += (where_.empty() ? ", where not " : " and not ") + name;
        }
        there_.clear();
        for (const PlannedAction& a : expanded_.actions) there_.push_back(!a.enabled || !is_off[place(*a.enabled)]);
    }

    // Once, where it holds whatever the flags are.
    void violation(const std::string& what) {
        if (!said_.insert(what).second) return;
        plan_.violation(what + where_);
    }

    // ---- clocks ----

    std::string stream(std::size_t s) const { return s == 0 ? "compute" : plan_.module().streams[s - 1]; }

    // "@layer, mul %y on compute"
    std::string name(const PlannedAction& a) {
        return fmt::format("@{}: {}{} on {}", a.function->name, a.op->name,
                           a.op->results.empty() ? "" : " %" + value_name(a, a.op->results[0]), stream(a.stream));
    }

    const std::string& value_name(const PlannedAction& a, Value v) {
        auto [names, fresh] = names_.try_emplace(a.function);
        if (fresh) names->second = unique_names(*a.function);
        return names->second[v.index];
    }

    void find_clocks() {
        const std::size_t streams = plan_.module().streams.size() + 1;
        std::vector<Clock> now(streams, Clock(streams, 0));
        clocks_.clear();
        for (std::size_t k = 0; k < expanded_.actions.size(); ++k) {
            const PlannedAction& a = expanded_.actions[k];
            Clock& clock = now[a.stream];
            if (!there_[k]) {
                clocks_.push_back(clock);
                continue;
            }
            if (a.awaits && !there_[*a.awaits]) {
                violation(fmt::format("{} waits for the event {}, which nothing records", name(a),
                                      a.op->attributes.string("event")));
            } else if (a.awaits) {
                const Clock& record = clocks_[*a.awaits];
                for (std::size_t s = 0; s < streams; ++s) clock[s] = std::max(clock[s], record[s]);
            }
            ++clock[a.stream];
            clocks_.push_back(clock);
        }
        end_ = std::move(now);
    }

    bool before(std::size_t a, std::size_t b) const {
        const std::size_t s = expanded_.actions[a].stream;
        return clocks_[b][s] >= clocks_[a][s];
    }

    // A function's work begins and ends on compute: what came before it is done where compute begins, and who waits for
    // compute finds everything done.
    void starts_and_ends() {
        std::vector<std::size_t> last(end_.size(), 0);
        for (std::size_t k = 0; k < expanded_.actions.size(); ++k) {
            const PlannedAction& a = expanded_.actions[k];
            if (!there_[k] || (a.reads.empty() && a.writes.empty())) continue;
            last[a.stream] = clocks_[k][a.stream];
            if (a.stream != 0 && clocks_[k][0] == 0)
                violation(fmt::format("{} waits for nothing on compute: what came before @{} may not be done", name(a),
                                      entry_.name));
        }
        for (std::size_t s = 1; s < end_.size(); ++s)
            if (end_[0][s] < last[s])
                violation(fmt::format("@{}: what {} does last is not waited for on compute", entry_.name, stream(s)));
    }

    struct Touch {
        std::size_t action = 0;
        const PlannedAccess* access = nullptr;
        bool write = false;
        std::int64_t begin = 0, end = 0;
    };

    // Which action wrote each tensor; none of what was there before. A collective that is not there leaves what it
    // works on in place as it is; what it would have gathered was gathered in an earlier micro-step.
    void find_writers() {
        writers_.assign(expanded_.tensors.size(), std::nullopt);
        stays_.assign(expanded_.tensors.size(), false);
        for (std::size_t k = 0; k < expanded_.actions.size(); ++k) {
            const PlannedAction& a = expanded_.actions[k];
            for (std::size_t w = 0; w < a.writes.size(); ++w) {
                const std::size_t tensor = a.writes[w].tensor;
                if (there_[k])
                    writers_[tensor] = k;
                else if (is_collective(*a.op, Collective::all_gather))
                    stays_[tensor] = true;
                else if (a.reads.at(w))
                    writers_[tensor] = writers_[a.reads[w]->tensor];
            }
        }
    }

    // `write` comes before `read` in the list, and between it and what wrote the tensor that is read; what stays from
    // micro-step to micro-step may not be written over at all.
    bool overwrites(const Touch& write, const Touch& read) const {
        if (!write.write || read.write) return false;
        const auto held = [&](std::size_t tensor) {
            if (write.access->tensor == tensor) return false;
            if (stays_[tensor]) return true;
            return writers_[tensor] && *writers_[tensor] < write.action && write.action < read.action;
        };
        const std::vector<std::size_t>& parts = expanded_.tensors[read.access->tensor].parts;
        if (parts.empty()) return held(read.access->tensor);
        return std::any_of(parts.begin(), parts.end(), [&](std::size_t part) {
            const std::optional<PlannedAccess>& place = expanded_.tensors[part].place;
            return place && place->offset < write.end && write.begin < place->offset + place->bytes() && held(part);
        });
    }

    void conflicts() {
        find_writers();
        std::map<Arena, std::vector<Touch>> touches;
        for (std::size_t k = 0; k < expanded_.actions.size(); ++k) {
            if (!there_[k]) continue;
            auto add = [&](const PlannedAccess& at, bool write) {
                touches[at.arena].push_back({k, &at, write, at.offset, at.offset + at.bytes()});
            };
            for (const auto& read : expanded_.actions[k].reads)
                if (read) add(*read, false);
            for (const PlannedAccess& write : expanded_.actions[k].writes) add(write, true);
        }
        for (auto& [arena, list] : touches) {
            std::stable_sort(list.begin(), list.end(),
                             [](const Touch& a, const Touch& b) { return a.begin < b.begin; });
            for (std::size_t a = 0; a < list.size(); ++a)
                for (std::size_t b = a + 1; b < list.size() && list[b].begin < list[a].end; ++b)
                    list[a].action <= list[b].action ? conflict(list[a], list[b]) : conflict(list[b], list[a]);
        }
    }

    // `a` comes first in the list.
    void conflict(const Touch& a, const Touch& b) {
        if (a.action == b.action || (!a.write && !b.write) || a.access->is_apart_from(*b.access)) return;
        const bool lost = overwrites(a, b) || (stays_[a.access->tensor] && overwrites(b, a));
        if (!lost && before(a.action, b.action)) return;
        auto touch = [this](const Touch& t) {
            const PlannedAction& action = expanded_.actions[t.action];
            return fmt::format("{} %{} ({} @{}+{}, {} bytes)", t.write ? "writes" : "reads",
                               value_name(action, t.access->value), to_string(t.access->type), name_of(t.access->arena),
                               t.access->offset, t.access->bytes());
        };
        violation(fmt::format("{} {}, and {} {}: {}", name(expanded_.actions[a.action]), touch(a),
                              name(expanded_.actions[b.action]), touch(b),
                              lost ? "what it reads is gone by then" : "neither waits for the other"));
    }

    PlanChecker& plan_;
    const Function& entry_;
    ExpandedPlan expanded_;
    std::map<std::pair<Arena, std::int64_t>, std::string> flags_;  // by place: the name
    std::vector<bool> there_;                                      // by action
    std::string where_;                                            // ", where not last_micro_step"
    std::set<std::string> said_;
    std::vector<std::optional<std::size_t>> writers_;  // by tensor: an action
    std::vector<bool> stays_;                          // by tensor: from an earlier micro-step
    std::vector<Clock> clocks_;                        // by action: when it is done
    std::vector<Clock> end_;                           // by stream
    std::map<const Function*, std::vector<std::string>> names_;
};

}  // namespace

void check_streams(PlanChecker& plan, const Function& entry) {
    StreamChecker(plan, entry).run();
}

}  // namespace thunderc::checking

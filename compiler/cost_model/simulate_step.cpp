// SPDX-License-Identifier: Apache-2.0
#include "compiler/cost_model/simulate_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "compiler/cost_model/collective_costs.h"
#include "compiler/cost_model/step_costs.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

constexpr std::size_t none = SimulatedAction::none;

// The streams of one function, from event to event.
class Run {
  public:
    Run(const ExpandedPlan& plan, const std::vector<std::string>& streams, const WorkOf& work_of,
        const IsThere& is_there)
        : plan_(plan), is_there_(is_there) {
        out_.streams.emplace_back("compute");
        out_.streams.insert(out_.streams.end(), streams.begin(), streams.end());
        out_.busy.assign(out_.streams.size(), 0);
        lanes_.resize(out_.streams.size());
        done_.assign(plan.actions.size(), false);
        for (std::size_t k = 0; k < plan.actions.size(); ++k) {
            const PlannedAction& a = plan.actions[k];
            SimulatedAction& s = out_.actions.emplace_back();
            s.function = a.function;
            s.op = a.op;
            s.stream = a.stream;
            lanes_.at(a.stream).queue.push_back(k);
            if (is_event(*a.op) || !there(a)) continue;
            Work work = work_of(a);
            if (work.latency <= 0 && work.seconds <= 0) continue;
            s.work = out_.works.size();
            out_.works.push_back(std::move(work));
        }
    }

    Simulation take() {
        for (;;) {
            start_what_can();
            if (!advance()) break;
        }
        for (const Lane& lane : lanes_)
            check(lane.next == lane.queue.size(), "streams of a planned function wait for each other in a circle");
        out_.seconds = now_;
        return std::move(out_);
    }

  private:
    struct Lane {
        std::vector<std::size_t> queue;  // actions
        std::size_t next = 0;            // in the queue
        std::size_t current = none, last = none;
        double latency = 0, work = 0;  // left of the current action
    };

    bool there(const PlannedAction& a) const { return !is_there_ || is_there_(a); }

    void start_what_can() {
        for (bool changed = true; changed;) {
            changed = false;
            for (Lane& lane : lanes_)
                while (lane.current == none && lane.next < lane.queue.size() && start(lane)) changed = true;
        }
    }

    // The next action of a stream; false where it has to wait.
    bool start(Lane& lane) {
        const std::size_t k = lane.queue[lane.next];
        SimulatedAction& action = out_.actions[k];
        const std::optional<std::size_t> record =
            there(plan_.actions[k]) ? plan_.actions[k].awaits : std::optional<std::size_t>();
        if (record && !done_[*record]) return false;
        action.begin = action.end = now_;
        action.cause = lane.last;
        if (record && (lane.last == none || out_.actions[*record].end > out_.actions[lane.last].end))
            action.cause = *record;
        ++lane.next;
        if (action.work == none) {
            done_[k] = true;
            lane.last = k;
            return true;
        }
        lane.current = k;
        lane.latency = out_.works[action.work].latency;
        lane.work = out_.works[action.work].seconds;
        return true;
    }

    Resource resource(const Lane& lane) const { return out_.works[out_.actions[lane.current].work].resource; }

    // To the next moment at which something changes; false where nothing runs.
    bool advance() {
        std::array<double, resource_count> sharing{};
        for (const Lane& lane : lanes_)
            if (lane.current != none && lane.latency <= 0) sharing[static_cast<std::size_t>(resource(lane))] += 1;
        double step = std::numeric_limits<double>::infinity();
        std::vector<double> left(lanes_.size(), step);
        for (std::size_t s = 0; s < lanes_.size(); ++s) {
            const Lane& lane = lanes_[s];
            if (lane.current == none) continue;
            left[s] = lane.latency > 0 ? lane.latency : lane.work * sharing[static_cast<std::size_t>(resource(lane))];
            step = std::min(step, left[s]);
        }
        if (step == std::numeric_limits<double>::infinity()) return false;
        now_ += step;
        for (std::size_t s = 0; s < lanes_.size(); ++s) {
            Lane& lane = lanes_[s];
            if (lane.current == none) continue;
            const bool over = left[s] <= step;  // exactly the ones that `step` is the minimum of
            if (lane.latency > 0)
                lane.latency = over ? 0 : lane.latency - step;
            else
                lane.work = over ? 0 : lane.work - step / sharing[static_cast<std::size_t>(resource(lane))];
            if (lane.latency > 0 || lane.work > 0) continue;
            SimulatedAction& action = out_.actions[lane.current];
            action.end = now_;
            out_.busy[s] += action.seconds();
            done_[lane.current] = true;
            lane.last = std::exchange(lane.current, none);
        }
        return true;
    }

    const ExpandedPlan& plan_;
    const IsThere& is_there_;
    Simulation out_;
    std::vector<Lane> lanes_;
    std::vector<bool> done_;
    double now_ = 0;
};

// The action that ends last: of equal ones the last of the list.
std::size_t last_action(const std::vector<SimulatedAction>& actions) {
    std::size_t last = none;
    for (std::size_t k = 0; k < actions.size(); ++k)
        if (last == none || actions[k].end >= actions[last].end) last = k;
    return last;
}

// `next` behind `all`.
void append(Simulation& all, Simulation next) {
    const std::size_t actions = all.actions.size(), works = all.works.size();
    const std::size_t before = last_action(all.actions);
    for (SimulatedAction& a : next.actions) {
        a.begin += all.seconds;
        a.end += all.seconds;
        a.cause = a.cause == none ? before : a.cause + actions;
        if (a.work != none) a.work += works;
        all.actions.push_back(a);
    }
    std::move(next.works.begin(), next.works.end(), std::back_inserter(all.works));
    all.busy.resize(next.busy.size());
    for (std::size_t s = 0; s < next.busy.size(); ++s) all.busy[s] += next.busy[s];
    all.seconds += next.seconds;
    all.streams = std::move(next.streams);
}

}  // namespace

double Simulation::computing() const {
    double sum = 0;
    for (const SimulatedAction& a : actions)
        if (a.stream == 0 && a.work != none && !works[a.work].collective) sum += a.seconds();
    return sum;
}

double Simulation::communicating() const {
    // Actions of several streams, in the order of their beginnings: the union of their times.
    std::vector<std::pair<double, double>> spans;
    for (const SimulatedAction& a : actions)
        if (a.work != none && works[a.work].collective) spans.emplace_back(a.begin, a.end);
    std::sort(spans.begin(), spans.end());
    double sum = 0, until = 0;
    for (const auto& [begin, end] : spans) {
        sum += std::max(0.0, end - std::max(begin, until));
        until = std::max(until, end);
    }
    return sum;
}

std::map<std::string, double> Simulation::critical() const {
    std::map<std::string, double> sums;
    for (std::size_t k = last_action(actions); k != none; k = actions[k].cause)
        if (actions[k].work != none) sums[works[actions[k].work].kind] += actions[k].seconds();
    return sums;
}

double CollectiveUse::computed_under() const {
    double sum = 0;
    for (const auto& [kind, seconds] : under) sum += seconds;
    return sum;
}

std::map<std::string, CollectiveUse> Simulation::collectives_by(std::string Work::*key) const {
    std::map<std::string, CollectiveUse> uses;
    std::vector<const SimulatedAction*> computed;  // one behind the other
    for (const SimulatedAction& a : actions)
        if (a.stream == 0 && a.work != none && !works[a.work].collective) computed.push_back(&a);
    const auto ends_later = [](double time, const SimulatedAction* c) { return time < c->end; };
    for (const SimulatedAction& a : actions) {
        if (a.work == none || !works[a.work].collective) continue;
        const Work& work = works[a.work];
        CollectiveUse& use = uses[work.*key];
        ++use.calls;
        use.bytes += work.bytes;
        use.sent_bytes += work.sent_bytes;
        use.alone += work.latency + work.seconds;
        use.running += a.seconds();
        use.resource = work.resource;
        for (auto c = std::upper_bound(computed.begin(), computed.end(), a.begin, ends_later);
             c != computed.end() && (*c)->begin < a.end; ++c)
            use.under[works[(*c)->work].kind] += std::min((*c)->end, a.end) - std::max((*c)->begin, a.begin);
    }
    // Where the device computes nothing, it waits for an event: what came last before the event is what it waits for.
    double free = 0;  // when the action before ended on compute
    for (const SimulatedAction& a : actions) {
        if (a.stream != 0) continue;
        if (a.work != none && works[a.work].collective) uses[works[a.work].*key].exposed += a.seconds();
        if (a.begin > free) {
            std::size_t k = a.cause;
            while (k != none && actions[k].work == none) k = actions[k].cause;
            if (k != none && works[actions[k].work].collective)
                uses[works[actions[k].work].*key].exposed += a.begin - free;
        }
        free = a.end;
    }
    return uses;
}

std::map<std::string, CollectiveUse> Simulation::collectives() const {
    return collectives_by(&Work::kind);
}

std::vector<std::pair<std::string, CollectiveUse>> Simulation::named_collectives() const {
    std::map<std::string, double> begins;
    for (const SimulatedAction& a : actions)
        if (a.work != none && works[a.work].collective) {
            const auto [at, fresh] = begins.try_emplace(works[a.work].name, a.begin);
            if (!fresh) at->second = std::min(at->second, a.begin);
        }
    const std::map<std::string, CollectiveUse> uses = collectives_by(&Work::name);
    std::vector<std::pair<std::string, CollectiveUse>> out(uses.begin(), uses.end());
    std::stable_sort(out.begin(), out.end(),
                     [&](const auto& a, const auto& b) { return begins.at(a.first) < begins.at(b.first); });
    return out;
}

Simulation simulate(const ExpandedPlan& plan, const std::vector<std::string>& streams, const WorkOf& work_of,
                    const IsThere& is_there) {
    return Run(plan, streams, work_of, is_there).take();
}

namespace {

// What the actions of one function of a module need, on one machine.
class Works {
  public:
    Works(const Module& module, const Function& function, const Machine& machine) : module_(module), machine_(machine) {
        for (std::size_t k = 0; k < function.arguments.size(); ++k)
            if (function.argument_info[k].kind == ArgInfo::Kind::scalar)
                scalars_[function.info(function.arguments[k]).placement.offset] =
                    function.argument_info[k].names.front();
    }

    Work of(const PlannedAction& action, bool first_micro_step) {
        const auto kind = collective_of(*action.op);
        return kind ? collective(action, *kind) : kernel(action, first_micro_step);
    }

    bool is_there(const PlannedAction& action, bool first_micro_step, bool last_micro_step) const {
        if (!action.enabled) return true;
        const auto flag = scalars_.find(action.enabled->offset);
        check(flag != scalars_.end(), action.op->name + " has a flag that the host does not know");
        return (flag->second != "first_micro_step" || first_micro_step) &&
               (flag->second != "last_micro_step" || last_micro_step);
    }

  private:
    Work kernel(const PlannedAction& action, bool first_micro_step) {
        auto [at, fresh] = kernels_.try_emplace({action.op, first_micro_step});
        if (!fresh) return at->second;
        const std::optional<KernelCost> cost = op_cost(module_, *action.function, *action.op, first_micro_step);
        if (cost) at->second = {.seconds = seconds(*cost, machine_, machine_.reach), .kind = cost->group};
        return at->second;
    }

    Work collective(const PlannedAction& action, Collective kind) {
        const std::string group = action.op->attributes.string("group");
        double bytes = 0;  // of the whole tensors: what is summed, or what is there afterwards
        double sent = 0;   // the same, as they pass
        const auto add = [&](const PlannedAccess& a) {
            const bool widened = machine_.sums_pass_in_f32 && kind != Collective::all_gather && is_narrow(a.type.dtype);
            bytes += static_cast<double>(a.bytes());
            sent += static_cast<double>(a.bytes()) * (widened ? 2 : 1);
        };
        if (kind == Collective::reduce_scatter)
            add(action.reads.at(0).value());
        else
            std::for_each(action.writes.begin(), action.writes.end(), add);
        const CollectiveCost cost = collective_cost(kind, sent, shape(group), machine_);
        return {.latency = cost.latency,
                .seconds = cost.bandwidth,
                .resource = cost.between ? Resource::between : Resource::inside,
                .kind = action.op->name + " (" + group + ")",
                .bytes = bytes,
                .sent_bytes = cost.sent_bytes,
                .collective = true,
                .name = action.op->name + " of " + action.op->attributes.string("name", "")};
    }

    const GroupShape& shape(const std::string& group) {
        auto [at, fresh] = shapes_.try_emplace(group);
        const Mesh& mesh = module_.mesh;
        const std::int64_t ranks = mesh.ranks(group);
        check(ranks > 0, "there is no group " + group);
        if (fresh)
            at->second = shape_of({ranks, group == "replica" ? mesh.shards : 1, mesh.world() / ranks}, machine_.node);
        return at->second;
    }

    const Module& module_;
    const Machine& machine_;
    std::map<std::int64_t, std::string> scalars_;  // by their place in the arena of scalars
    std::map<std::pair<const Op*, bool>, Work> kernels_;
    std::map<std::string, GroupShape> shapes_;
};

}  // namespace

Simulation simulate_step(const Module& planned, const Machine& machine, const SimulatedStepOptions& options) {
    check(options.micro_steps >= 1, "a step has a micro-step");
    Simulation step;
    const auto run = [&](const char* name, std::int64_t times) {
        const Function* f = planned.find(name);
        if (f == nullptr) return;
        const ExpandedPlan plan = expand_plan(planned, *f);
        Works works(planned, *f, machine);
        for (std::int64_t m = 0; m < times; ++m)
            append(step,
                   simulate(
                       plan, planned.streams, [&](const PlannedAction& action) { return works.of(action, m == 0); },
                       [&](const PlannedAction& action) { return works.is_there(action, m == 0, m + 1 == times); }));
    };
    // As train.cpp calls them.
    run(loss_weight_function, options.micro_steps);
    run(forward_backward_function, options.micro_steps);
    run(update_function, 1);
    check(!step.actions.empty(), "what is simulated is a training step");
    return step;
}

}  // namespace thunderc

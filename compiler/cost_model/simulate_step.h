// SPDX-License-Identifier: Apache-2.0
// When everything in a planned step happens: its actions on their streams, with records and waits, in time.
//
// That is exact with respect to the schedule of the program: what is issued when, how many buffers there are, who waits
// for whom. Durations are estimates: kernels from their bytes and FLOPs (step_costs), collectives from bytes, group and
// links (collective_costs). What uses the same link or the same device at once shares it equally. All ranks do the
// same at the same time, so one of them is simulated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/cost_model/machines.h"
#include "compiler/ir/module.h"
#include "compiler/plan_interpreter/expand_plan.h"

namespace thunderc {

enum class Resource : std::uint8_t { device, inside, between };  // the device; links inside of nodes and between them
inline constexpr std::size_t resource_count = 3;

// What an action needs.
struct Work {
    double latency = 0;  // seconds that pass before it begins to use the resource
    double seconds = 0;  // of the resource, all of it
    Resource resource = Resource::device;
    std::string kind;                  // "products", "all_gather (shard)": what times are summed by
    double bytes = 0, sent_bytes = 0;  // of a collective: the whole tensor, and what this rank sends
    bool collective = false;
    std::string name = {};  // of a collective: "all_reduce of bucket_0", as the plan calls it
};

struct SimulatedAction {
    const Function* function = nullptr;
    const Op* op = nullptr;
    std::size_t stream = 0;  // 0: compute
    std::int64_t layer = -1;
    double begin = 0, end = 0;  // seconds since the step began
    // What ended when it could begin: the action before it on its stream, or the record that a wait is for; none where
    // it could begin at once.
    std::size_t cause = none;
    std::size_t work = none;  // index into Simulation::works; none: an event, or nothing to do

    static constexpr std::size_t none = static_cast<std::size_t>(-1);
    double seconds() const { return end - begin; }
};

// The collectives of one kind or of one name in a step.
struct CollectiveUse {
    std::int64_t calls = 0;
    double bytes = 0, sent_bytes = 0;
    double alone = 0;    // seconds, if each had its link for itself
    double running = 0;  // seconds, as it is
    double exposed = 0;  // seconds in which the device waits for one of them
    // Seconds in which the device computes while one of them runs, by kind of work.
    std::map<std::string, double> under;
    Resource resource = Resource::inside;

    double computed_under() const;
};

struct Simulation {
    std::vector<std::string> streams;      // "compute" first
    std::vector<SimulatedAction> actions;  // in the order of the list
    std::vector<Work> works;
    std::vector<double> busy;  // seconds, by stream: while an action of it runs
    double seconds = 0;

    double computing() const;  // the device computes: a collective that is issued on compute is none of it
    double exposed() const { return seconds - computing(); }
    double communicating() const;                              // some collective runs
    std::map<std::string, CollectiveUse> collectives() const;  // by kind
    // By the name that they have in the plan, in the order in which they begin.
    std::vector<std::pair<std::string, CollectiveUse>> named_collectives() const;
    // Seconds by kind of work on the longest chain of causes. They add up to all seconds: what binds.
    std::map<std::string, double> critical() const;

  private:
    std::map<std::string, CollectiveUse> collectives_by(std::string Work::*key) const;
};

using WorkOf = std::function<Work(const PlannedAction&)>;   // what an action needs; nothing: no seconds at all
using IsThere = std::function<bool(const PlannedAction&)>;  // what its flag says; without one all actions are there

// One function, from time 0.
Simulation simulate(const ExpandedPlan& plan, const std::vector<std::string>& streams, const WorkOf& work_of,
                    const IsThere& is_there = {});

struct SimulatedStepOptions {
    std::int64_t micro_steps = 1;
};
// A step of a training program: all of its functions, one after the other, those of a micro-step `micro_steps` times.
Simulation simulate_step(const Module& planned, const Machine& machine, const SimulatedStepOptions& options = {});

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/cost_model/update_overlap.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "compiler/cost_model/step_costs.h"
#include "compiler/plan_interpreter/expand_plan.h"
#include "compiler/planned/step_form.h"
#include "compiler/planned/update_parts.h"
#include "runtime-lib/optim/update_share.h"

namespace thunderc {
namespace {

constexpr double of_multiprocessors = 1.0 / thunder::share_of_update, of_memory = 2 * of_multiprocessors;

// The update, part by part: seconds that each has left on the whole device.
class Beside {
  public:
    explicit Beside(std::vector<double> parts) : left_(std::move(parts)) {}

    // Until the first `count` parts are done, alone on the device.
    void finish(std::size_t count) {
        for (; next_ < count; ++next_) now_ += left_[next_];
    }

    void run(const KernelTime& kernel) {
        double whole = kernel.seconds();  // that are left of it, were it alone
        const double slowed =
            std::max(kernel.computing / (1 - of_multiprocessors), kernel.moving / (1 - of_memory)) + kernel.between;
        const double slower = whole > 0 ? slowed / whole : 1;
        while (whole > 0 && next_ < left_.size()) {
            const double both = std::min(whole * slower, left_[next_] / of_memory);
            now_ += both;
            whole -= both / slower;
            left_[next_] -= both * of_memory;
            if (left_[next_] <= 1e-15) ++next_;
            if (whole <= 1e-15) return;
        }
        now_ += whole;
    }

    double now() const { return now_; }

  private:
    std::vector<double> left_;
    std::size_t next_ = 0;  // the part that runs
    double now_ = 0;
};

}  // namespace

UpdateOverlap update_overlap(const Module& planned, const Machine& machine, const Reach& reach) {
    const UpdateParts parts = update_parts(planned);
    const Op* rule = parameter_step(planned);
    if (parts.parts.empty() || rule == nullptr) return {};
    const std::optional<KernelCost> cost = op_cost(planned, *planned.find(update_function), *rule);
    if (!cost) return {};
    double elements = 0;
    for (const UpdatePart& part : parts.parts) elements += static_cast<double>(part.elements() * part.count);
    const KernelTime update = time_of(*cost, machine, reach);
    std::vector<double> of_parts;
    for (const UpdatePart& part : parts.parts)
        of_parts.insert(of_parts.end(), static_cast<std::size_t>(part.count),
                        update.seconds() * static_cast<double>(part.elements()) / elements);

    UpdateOverlap out{update.seconds(), 0};
    Beside beside(of_parts);
    std::map<const Op*, KernelTime> times;
    const Function& step = *planned.find(forward_backward_function);
    for (const PlannedAction& action : expand_plan(planned, step).actions) {
        if (action.entry_op >= parts.join) break;
        const auto [at, fresh] = times.try_emplace(action.op);
        if (fresh)
            if (const std::optional<KernelCost> kernel = op_cost(planned, *action.function, *action.op))
                at->second = time_of(*kernel, machine, reach);
        beside.finish(static_cast<std::size_t>(parts.done_before(action.entry_op, action.entry_iteration)));
        beside.run(at->second);
        out.behind += at->second.seconds();
    }
    beside.finish(of_parts.size());
    out.beside = beside.now();
    return out;
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// Happens-before between the update of a step and the forward pass that runs beside it: for every action of
// forward_backward, written out, that touches bytes of a parameter, of its narrow copy or of its gradient, whether a
// wait that stands before it is for the part of the update that this parameter is in. States are the update's alone.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/check/check_plan_parts.h"
#include "compiler/plan_interpreter/expand_plan.h"
#include "compiler/planned/step_form.h"
#include "compiler/planned/update_parts.h"

namespace thunderc::checking {
namespace {

class UpdateChecker {
  public:
    UpdateChecker(PlanChecker& plan, const UpdateParts& parts, const Function& step, const Function& update)
        : plan_(plan), step_(step), parts_(parts) {
        if (parts_.parts.empty()) return;
        find_owners();
        every_element_once(update);
    }

    void run() {
        if (parts_.parts.empty()) return;
        for (const PlannedAction& a : expand_plan(plan_.module(), step_).actions) {
            for (const auto& read : a.reads)
                if (read) touch(a, *read);
            for (const PlannedAccess& write : a.writes) touch(a, write);
        }
    }

  private:
    // Elements of the arenas, and which part steps them.
    struct Owned {
        std::int64_t begin = 0, end = 0, part = 0;
    };

    void find_owners() {
        for (const UpdatePart& part : parts_.parts)
            for (std::int64_t i = 0; i < part.count; ++i)
                for (const UpdateRange& r : part.ranges)
                    owned_.push_back({r.begin + i * r.stride, r.end + i * r.stride, part.first + i});
        std::sort(owned_.begin(), owned_.end(), [](const Owned& a, const Owned& b) { return a.begin < b.begin; });
        for (std::size_t k = 1; k < owned_.size(); ++k)
            if (owned_[k].begin < owned_[k - 1].end)
                plan_.violation(fmt::format("the update steps element {} of the parameters in part {} and in part {}",
                                            owned_[k].begin, owned_[k - 1].part, owned_[k].part));
    }

    void every_element_once(const Function& update) {
        for (std::size_t k = 0; k < update.arguments.size(); ++k) {
            const Value v = update.arguments[k];
            const Placement& p = update.info(v).placement;
            if (p.arena != Arena::parameters) continue;
            const Type& type = update.type(v);
            const auto size = static_cast<std::int64_t>(size_of(type.dtype));
            for (std::int64_t m = 0; m < (type.is_family() ? type.count : 1); ++m) {
                const std::int64_t begin = (p.offset + m * p.layer_stride) / size,
                                   end = begin + type.member().elements();
                const auto at = owner(begin);
                if (at == owned_.end() || at->begin > begin || at->end < end)
                    plan_.violation(fmt::format("no part of the update steps all of {}{}",
                                                update.argument_info[k].names.front(),
                                                type.is_family() ? fmt::format(", layer {}", m) : ""));
            }
        }
    }

    // The first that ends behind this element.
    std::vector<Owned>::const_iterator owner(std::int64_t element) const {
        return std::upper_bound(owned_.begin(), owned_.end(), element,
                                [](std::int64_t at, const Owned& o) { return at < o.end; });
    }

    void touch(const PlannedAction& a, const PlannedAccess& access) {
        const Arena arena = access.arena;
        const auto name = [&] {
            return fmt::format("@{}: {} touches %{}", a.function->name, a.op->name,
                               a.function->info(access.value).name);
        };
        if (arena == Arena::optimizer)
            return plan_.violation(name() + ", a state of the optimizer, beside the update of the step before");
        if (arena != Arena::parameters && arena != Arena::narrow_copies && arena != Arena::gradients) return;
        const auto size = static_cast<std::int64_t>(size_of(access.type.dtype));
        const std::int64_t begin = access.offset / size, end = (access.offset + access.bytes() + size - 1) / size;
        const std::int64_t done = parts_.done_before(a.entry_op, a.entry_iteration);
        for (auto o = owner(begin); o != owned_.end() && o->begin < end; ++o) {
            if (o->part >= done)
                return plan_.violation(fmt::format("{}, and does not wait for part {} of the update, which {} it",
                                                   name(), o->part, arena == Arena::gradients ? "reads" : "writes"));
            if (a.stream != 0 && arena != Arena::gradients)
                return plan_.violation(fmt::format("{} on the stream {}: waits for the update are on compute", name(),
                                                   plan_.module().streams[a.stream - 1]));
        }
    }

    PlanChecker& plan_;
    const Function& step_;
    const UpdateParts& parts_;
    std::vector<Owned> owned_;  // in the order of the arena
};

}  // namespace

void check_updates(PlanChecker& plan, const UpdateParts& parts) {
    const Module& m = plan.module();
    UpdateChecker(plan, parts, *m.find(forward_backward_function), *m.find(update_function)).run();
}

}  // namespace thunderc::checking

// SPDX-License-Identifier: Apache-2.0
#include "compiler/planned/update_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/ir/structure.h"
#include "compiler/planned/step_form.h"

namespace thunderc {
namespace {

using Arena = Placement::Arena;

// A part of its own for less than what one block of a GPU's threads steps is not worth a launch.
constexpr std::int64_t least_elements = 16384;

std::int64_t members_of(const Type& type) {
    return type.is_family() ? type.count : 1;
}

// A tensor of the arena of parameters, a member of a family by itself, and where the forward pass comes to it.
struct Member {
    std::int64_t begin = 0, end = 0;  // elements
    std::size_t op = 0;
    std::int64_t iteration = -1;  // of the loop that the op is; -1: before it
    bool found = false;
};

bool lies_with_parameters(Arena arena) {
    return arena == Arena::parameters || arena == Arena::narrow_copies;
}

class Finder {
  public:
    Finder(const Module& module, const Function& step, const Function& update) : module_(module), step_(step) {
        for (const Value v : update.arguments) {
            const Placement& p = update.info(v).placement;
            const Type& type = update.type(v);
            if (p.arena != Arena::parameters) continue;
            const auto size = static_cast<std::int64_t>(size_of(type.dtype));
            for (std::int64_t m = 0; m < members_of(type); ++m) {
                const std::int64_t begin = (p.offset + m * p.layer_stride) / size;
                members_.push_back({.begin = begin, .end = begin + type.member().elements()});
            }
        }
        std::sort(members_.begin(), members_.end(), [](const Member& a, const Member& b) { return a.begin < b.begin; });
    }

    UpdateParts run() {
        UpdateParts out;
        find_join();
        for (std::size_t k = 0; k < join_; ++k) {
            const Op& op = step_.ops[k];
            for (std::size_t o = 0; o < op.operands.size(); ++o)
                if (op.operands[o]) reads(k, o, op.operands[o]);
        }
        for (Member& m : members_)
            if (!m.found) m.op = join_;
        out.join = join_;
        split(out.parts);
        join_small(out.parts);
        std::int64_t number = 0;
        for (UpdatePart& part : out.parts) {
            part.first = number;
            number += part.count;
        }
        return out;
    }

  private:
    // The first op that works on gradients.
    void find_join() {
        const auto is_gradient = [&](Value v) { return v && step_.info(v).placement.arena == Arena::gradients; };
        for (join_ = 0; join_ < step_.ops.size(); ++join_) {
            const Op& op = step_.ops[join_];
            if (std::any_of(op.operands.begin(), op.operands.end(), is_gradient) ||
                std::any_of(op.results.begin(), op.results.end(), is_gradient))
                return;
        }
    }

    void reads(std::size_t k, std::size_t operand, Value v) {
        const Placement& p = step_.info(v).placement;
        if (!lies_with_parameters(p.arena)) return;
        const Op& op = step_.ops[k];
        const Type& type = step_.type(v);
        const bool by_layer =
            is_loop(op) && operand >= loop_carried(op) && operand < loop_carried(op) + loop_per_layer(op);
        const auto size = static_cast<std::int64_t>(size_of(type.dtype));
        for (std::int64_t m = 0; m < members_of(type); ++m) {
            const std::int64_t begin = (p.offset + m * p.layer_stride) / size;
            const std::int64_t iteration = !by_layer ? -1 : loop_reversed(op) ? loop_count(op) - 1 - m : m;
            comes_to(begin, begin + extent(type.member(), p), k, iteration);
        }
    }

    // Elements from the first to behind the last one.
    static std::int64_t extent(const Type& type, const Placement& p) {
        if (p.strides.empty()) return type.elements();
        std::int64_t last = 0;
        for (std::size_t d = 0; d < type.dims.size(); ++d) last += (type.dims[d] - 1) * p.strides[d];
        return last + 1;
    }

    void comes_to(std::int64_t begin, std::int64_t end, std::size_t op, std::int64_t iteration) {
        auto m = std::upper_bound(members_.begin(), members_.end(), begin,
                                  [](std::int64_t at, const Member& member) { return at < member.end; });
        for (; m != members_.end() && m->begin < end; ++m) {
            if (m->found && std::pair(m->op, m->iteration) <= std::pair(op, iteration)) continue;
            m->op = op;
            m->iteration = iteration;
            m->found = true;
        }
    }

    void split(std::vector<UpdatePart>& parts) const {
        std::map<std::pair<std::size_t, std::int64_t>, std::vector<std::size_t>> by_place;
        for (std::size_t k = 0; k < members_.size(); ++k)
            by_place[{members_[k].op, members_[k].iteration}].push_back(k);
        for (auto at = by_place.begin(); at != by_place.end();) {
            const std::size_t op = at->first.first;
            if (at->first.second < 0) {
                parts.push_back({.op = op, .name = name_of_part(op), .ranges = ranges_of(at->second)});
                ++at;
                continue;
            }
            // The iterations of one loop: a part with as many, where they are alike.
            const auto begin = at;
            while (at != by_place.end() && at->first.first == op) ++at;
            std::vector<std::vector<std::size_t>> iterations;
            for (auto i = begin; i != at; ++i) iterations.push_back(i->second);
            if (const auto ranges = ranges_of_layers(op, iterations); !ranges.empty()) {
                parts.push_back({.op = op,
                                 .count = static_cast<std::int64_t>(iterations.size()),
                                 .layered = true,
                                 .name = name_of_part(op),
                                 .ranges = ranges});
                continue;
            }
            std::vector<std::size_t> all;
            for (const auto& one : iterations) all.insert(all.end(), one.begin(), one.end());
            std::sort(all.begin(), all.end());
            const bool same = !parts.empty() && parts.back().op == op;  // what is read before the loop
            if (!same) parts.push_back({.op = op, .name = name_of_part(op), .ranges = {}});
            const std::vector<UpdateRange> ranges = ranges_of(all);
            parts.back().ranges.insert(parts.back().ranges.end(), ranges.begin(), ranges.end());
        }
    }

    // Of members in the order of the arena: neighbours are one range, whatever lies between them unused.
    std::vector<UpdateRange> ranges_of(const std::vector<std::size_t>& members) const {
        std::vector<UpdateRange> out;
        std::size_t last = 0;
        for (const std::size_t k : members) {
            if (!out.empty() && k == last + 1)
                out.back().end = members_[k].end;
            else
                out.push_back({members_[k].begin, members_[k].end, 0});
            last = k;
        }
        return out;
    }

    // None where iterations are not as far apart as one another.
    std::vector<UpdateRange> ranges_of_layers(std::size_t op,
                                              const std::vector<std::vector<std::size_t>>& iterations) const {
        if (static_cast<std::int64_t>(iterations.size()) != loop_count(step_.ops[op])) return {};
        std::vector<UpdateRange> out = ranges_of(iterations[0]);
        for (std::size_t i = 1; i < iterations.size(); ++i) {
            const std::vector<UpdateRange> ranges = ranges_of(iterations[i]);
            if (ranges.size() != out.size()) return {};
            for (std::size_t r = 0; r < out.size(); ++r) {
                const std::int64_t further = ranges[r].begin - out[r].begin;
                if (i == 1) out[r].stride = further;
                if (further != static_cast<std::int64_t>(i) * out[r].stride || ranges[r].end - out[r].end != further)
                    return {};
            }
        }
        return out;
    }

    // One that is small is done with the one before it.
    static void join_small(std::vector<UpdatePart>& parts) {
        std::vector<UpdatePart> joined;
        for (UpdatePart& part : parts) {
            const bool joins =
                !joined.empty() && !joined.back().layered && !part.layered && part.elements() < least_elements;
            if (!joins) {
                joined.push_back(std::move(part));
                continue;
            }
            std::vector<UpdateRange>& ranges = joined.back().ranges;
            for (const UpdateRange& range : part.ranges)
                if (ranges.back().end == range.begin)
                    ranges.back().end = range.end;
                else
                    ranges.push_back(range);
        }
        parts = std::move(joined);
    }

    std::string name_of_part(std::size_t k) const {
        if (k == step_.ops.size()) return "rest";
        const Op& op = step_.ops[k];
        if (runs_function(op)) {
            const std::string& scope = callee(module_, op).scope;
            const std::string name = scope.empty() ? called_function(op) : scope;
            const std::size_t braces = name.find(".{");
            const std::string stack = name.substr(0, braces);
            return stack.substr(stack.rfind('.') + 1);
        }
        const std::string& scope = op.provenance.scope;
        return scope.empty() ? op.name : scope.substr(scope.rfind('.') + 1);
    }

    const Module& module_;
    const Function& step_;
    std::vector<Member> members_;  // in the order of the arena
    std::size_t join_ = 0;
};

}  // namespace

std::int64_t UpdatePart::elements() const {
    std::int64_t sum = 0;
    for (const UpdateRange& range : ranges) sum += range.end - range.begin;
    return sum;
}

std::int64_t UpdateParts::count() const {
    return parts.empty() ? 0 : parts.back().first + parts.back().count;
}

std::int64_t UpdateParts::done_before(std::size_t op, std::int64_t iteration) const {
    if (op >= join) return count();
    std::int64_t done = 0;
    for (const UpdatePart& part : parts)
        if (part.op < op)
            done = part.first + part.count;
        else if (part.op == op)
            done = part.first + (part.layered ? std::min(iteration + 1, part.count) : part.count);
    return done;
}

const Op* parameter_step(const Module& planned) {
    const Function* update = planned.find(update_function);
    if (update == nullptr) return nullptr;
    for (const Op& op : update->ops)
        if (thunder::find_rule(op.name) != nullptr) return &op;
    return nullptr;
}

bool is_of_parameters(const Function& update, const Op& op) {
    const auto is_of = [&](Value v) {
        if (!v) return false;
        const Arena arena = update.info(v).placement.arena;
        return lies_with_parameters(arena) || arena == Arena::optimizer;
    };
    return std::any_of(op.operands.begin(), op.operands.end(), is_of) ||
           std::any_of(op.results.begin(), op.results.end(), is_of);
}

UpdateParts update_parts(const Module& planned) {
    UpdateParts out;
    const Function* step = planned.find(forward_backward_function);
    const Function* update = planned.find(update_function);
    const Op* rule = parameter_step(planned);
    if (step == nullptr || update == nullptr || rule == nullptr) return out;
    if (!planned.units.empty()) {
        out.declined = "each rank steps a shard";
    } else if (rule_of(planned).steps_wholes()) {
        out.declined = fmt::format("{} needs memory of the step's for a matrix", rule_of(planned).title);
    } else if (std::any_of(update->ops.begin(), update->ops.end(), [&](const Op& op) {
                   return &op != rule && !is_view(op) && is_of_parameters(*update, op);
               })) {
        out.declined = "more than the optimizer works on parameters behind the backward pass";
    }
    // What weighs the loss runs before the pass that waits.
    const Function* weigh = planned.find(loss_weight_function);
    if (out.declined.empty() && weigh != nullptr &&
        std::any_of(weigh->arguments.begin(), weigh->arguments.end(),
                    [&](Value v) { return lies_with_parameters(weigh->info(v).placement.arena); }))
        out.declined = "the weight of the loss is of parameters";
    if (!out.declined.empty()) return out;
    UpdateParts found = Finder(planned, *step, *update).run();
    if (found.join < step->ops.size()) return found;
    out.declined = "nothing writes a gradient";
    return out;
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/autodiff/recompute.h"

#include <algorithm>

#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/autodiff/flow_network.h"

namespace thunderc {
namespace {

// One number or a few for each row of what was read: a mean, a maximum, 1/rms.
bool is_statistic(const Function& f, const Op& op, Value result) {
    std::int64_t largest = 0;
    for (Value v : op.operands)
        if (v && is_float(f.type(v).dtype)) largest = std::max(largest, f.type(v).elements());
    return is_float(f.type(result).dtype) && f.type(result).elements() * 4 <= largest;
}

// By value: floats that the forward pass compares with a statistic of a row, as `x == largest`. The statistic is kept,
// and an element that is computed again may have other bits (kernels/ties.h). Views of a value have its bits.
Mask compared_with_statistics(const Function& f, std::size_t forward_ops) {
    const Uses uses(f);
    const auto source = [&](Value v) {
        while (uses.definition[v.index] >= 0 && is_view(f.ops[static_cast<std::size_t>(uses.definition[v.index])]))
            v = f.ops[static_cast<std::size_t>(uses.definition[v.index])].operands[0];
        return v;
    };
    const auto is_kept = [&](Value v) {
        const std::int32_t k = uses.definition[v.index];
        return k >= 0 && is_statistic(f, f.ops[static_cast<std::size_t>(k)], v);
    };
    Mask out(f.values.size(), false);
    for (std::size_t k = 0; k < forward_ops; ++k) {
        const Op& op = f.ops[k];
        if (!op_def(op.name).comparison) continue;
        const Value a = source(op.operands[0]), b = source(op.operands[1]);
        if (is_kept(b) && is_float(f.type(a).dtype)) out[a.index] = true;
        if (is_kept(a) && is_float(f.type(b).dtype)) out[b.index] = true;
    }
    return out;
}

// By value: an op that is no part of a kernel reads it, or a view of it, so that it lies in memory whoever made it.
Mask read_from_memory(const Function& f) {
    Mask out(f.values.size(), false);
    for (std::size_t k = f.ops.size(); k-- > 0;) {
        const Op& op = f.ops[k];
        const bool outside = runs_function(op) || op_def(op.name).recompute == Recompute::expensive;
        for (Value v : op.operands)
            if (v && (outside || (is_view(op) && out[op.results[0].index]))) out[v.index] = true;
    }
    return out;
}

// Bytes of a value in sixteenths. Of equally many bytes what lies in memory already is kept rather than views of it,
// which would be copied.
constexpr std::int64_t parts_of_a_byte = 16;
std::int64_t weight_of(const Type& type, bool view) {
    return static_cast<std::int64_t>(std::max<std::size_t>(type.bytes(), 1)) * parts_of_a_byte + (view ? 1 : 0);
}

// Of minimum cuts at several prices.
class PricedCuts {
  public:
    PricedCuts(const SplitPoint& split, const Keeping& keeping)
        : split_(split),
          f_(split.function),
          view_(f_.values.size(), false),
          whole_(f_.values.size(), false),
          seconds_(split.forward_ops, 0) {
        const Mask compared = compared_with_statistics(f_, split.forward_ops), in_memory = read_from_memory(f_);
        for (std::size_t k = 0; k < split.forward_ops; ++k) {
            const Op& op = f_.ops[k];
            const OpDef& def = op_def(op.name);
            const bool view = is_view(op), expensive = def.recompute == Recompute::expensive;
            // Of attention no part is kept where another is computed again: what would give it from its parts has the
            // scores.
            const bool all =
                runs_function(op) || (expensive && std::any_of(op.results.begin(), op.results.end(),
                                                               [&](Value v) { return compared[v.index]; }));
            bool lies = false;
            for (Value v : op.results) {
                view_[v.index] = view;
                lies = lies || in_memory[v.index];
                whole_[v.index] =
                    !f_.type(v).is_family() && (all || compared[v.index] || (!expensive && is_statistic(f_, op, v)));
            }
            if (!view && !runs_function(op) && (expensive || lies)) seconds_[k] = keeping.seconds(f_, op);
        }
    }

    struct Cut {
        Mask saved;
        double bytes = 0, seconds = 0;  // of what is saved; of what is computed again
    };

    Cut at(double price) const {
        const std::size_t n = f_.values.size(), source = 2 * n + split_.forward_ops, sink = source + 1;
        FlowNetwork network(sink + 1);  // v, n + v behind its being saved, 2 n + k: op k is not computed again
        const auto consider = [&](Value v, bool origin) {
            if (origin) network.connect(source, v.index, FlowNetwork::unlimited);
            // A family cannot be collected from a loop's body; it is put together again from its members.
            network.connect(v.index, n + v.index,
                            f_.type(v).is_family() ? FlowNetwork::unlimited : weight_of(f_.type(v), view_[v.index]));
            if (split_.needed[v.index]) network.connect(n + v.index, sink, FlowNetwork::unlimited);
        };
        for (Value v : f_.arguments) consider(v, !split_.available[v.index]);
        for (std::size_t k = 0; k < split_.forward_ops; ++k) {
            const Op& op = f_.ops[k];
            const std::size_t again = 2 * n + k;
            network.connect(source, again, cost(price, seconds_[k]));
            for (Value v : op.operands)
                if (v) network.connect(n + v.index, again, FlowNetwork::unlimited);
            for (Value v : op.results) {
                if (!whole_[v.index]) network.connect(again, v.index, FlowNetwork::unlimited);
                consider(v, whole_[v.index]);
            }
        }
        network.run(source, sink);
        const std::vector<bool> behind = network.reaching(sink);
        Cut out{Mask(n, false)};
        for (std::uint32_t v = 0; v < n; ++v) {
            out.saved[v] = !behind[v] && behind[n + v];
            if (out.saved[v])
                out.bytes += static_cast<double>(weight_of(f_.type(Value{v}), view_[v])) / parts_of_a_byte;
        }
        for (std::size_t k = 0; k < split_.forward_ops; ++k)
            if (behind[2 * n + k]) out.seconds += seconds_[k];
        return out;
    }

    double seconds_of(std::span<const std::size_t> ops) const {
        double sum = 0;
        for (const std::size_t k : ops) sum += seconds_[k];
        return sum;
    }

    // At this price and above all that costs seconds is kept.
    double highest() const {
        double most = 0;
        for (std::size_t k = 0; k < split_.forward_ops; ++k) {
            double bytes = 0;
            for (Value v : f_.ops[k].results) bytes += static_cast<double>(f_.type(v).bytes());
            if (seconds_[k] > 0) most = std::max(most, bytes / seconds_[k]);
        }
        return 2 * most;
    }

    void steps(const Cut& low, const Cut& high, std::size_t most, std::vector<double>& out) const {
        if (out.size() >= most || !(high.bytes > low.bytes) || !(low.seconds > high.seconds)) return;
        const double price = (high.bytes - low.bytes) / (low.seconds - high.seconds);
        const Cut between = at(price);
        const double line = low.bytes + price * low.seconds;
        // Capacities are whole sixteenths of bytes: a corner is one that lies clearly below the line.
        if (between.bytes + price * between.seconds > line * (1 - 1e-9) ||
            (between.bytes <= low.bytes || between.bytes >= high.bytes)) {
            out.push_back(price);
            return;
        }
        steps(low, between, most, out);
        steps(between, high, most, out);
    }

  private:
    static std::int64_t cost(double price, double seconds) {
        const double most = 1e17;  // so that a sum of them is no overflow
        return static_cast<std::int64_t>(std::min(price * seconds * parts_of_a_byte, most));
    }

    const SplitPoint& split_;
    const Function& f_;
    Mask view_, whole_;  // by value; whole_: saved where it is needed
    std::vector<double> seconds_;
};

}  // namespace

std::optional<RecomputePolicy> parse_recompute_policy(std::string_view name) {
    if (name == "none") return RecomputePolicy::none;
    if (name == "selective") return RecomputePolicy::selective;
    if (name == "block") return RecomputePolicy::block;
    return std::nullopt;
}

std::vector<double> price_steps(const SplitPoint& split, const Keeping& keeping, std::size_t most) {
    const PricedCuts cuts(split, keeping);
    std::vector<double> out;
    if (const double highest = cuts.highest(); highest > 0) cuts.steps(cuts.at(0), cuts.at(highest), most, out);
    std::sort(out.begin(), out.end());
    return out;
}

double seconds_again(const SplitPoint& split, const Keeping& keeping, std::span<const std::size_t> again) {
    return PricedCuts(split, keeping).seconds_of(again);
}

Mask choose_saved(const SplitPoint& split, const Keeping& keeping) {
    const RecomputePolicy policy = keeping.policy;
    if (policy == RecomputePolicy::priced) return PricedCuts(split, keeping).at(keeping.price).saved;
    const Function& f = split.function;
    const std::size_t n = f.values.size();
    const std::size_t source = 2 * n;
    const std::size_t sink = 2 * n + 1;
    FlowNetwork network(2 * n + 2);  // node v: v before it is saved; node n + v: behind that
    Mask origin(n, false);           // what cannot be computed again
    for (Value v : f.arguments) origin[v.index] = !split.available[v.index];
    const Mask compared = compared_with_statistics(f, split.forward_ops);
    for (std::size_t k = 0; k < split.forward_ops; ++k) {
        const Op& op = f.ops[k];
        const Recompute cost = runs_function(op) ? Recompute::expensive : op_def(op.name).recompute;
        for (Value result : op.results) {
            bool keep = cost == Recompute::expensive ||
                        (policy == RecomputePolicy::none && cost == Recompute::cheap && is_statistic(f, op, result)) ||
                        (policy == RecomputePolicy::none && compared[result.index] && !f.type(result).is_family());
            origin[result.index] = keep && policy != RecomputePolicy::block;
            if (origin[result.index]) continue;
            for (Value v : op.operands)
                if (v) network.connect(n + v.index, result.index, FlowNetwork::unlimited);
        }
    }
    Mask view(n, false);
    for (std::size_t k = 0; k < split.forward_ops; ++k)
        if (is_view(f.ops[k])) view[f.ops[k].results[0].index] = true;
    auto consider = [&](Value v) {
        // A family cannot be collected from a loop's body; it is put together again from its members.
        bool can_be_saved = !f.type(v).is_family() && (policy == RecomputePolicy::none || origin[v.index]);
        // Of equally many bytes what lies in memory already is kept rather than views of it, which would be copied.
        network.connect(v.index, n + v.index,
                        can_be_saved ? weight_of(f.type(v), view[v.index]) : FlowNetwork::unlimited);
        if (origin[v.index]) network.connect(source, v.index, FlowNetwork::unlimited);
        if (split.needed[v.index]) network.connect(n + v.index, sink, FlowNetwork::unlimited);
    };
    for (Value v : f.arguments) consider(v);
    for (std::size_t k = 0; k < split.forward_ops; ++k)
        for (Value v : f.ops[k].results) consider(v);
    network.run(source, sink);
    std::vector<bool> behind = network.reaching(sink);
    Mask saved(n, false);
    for (std::size_t v = 0; v < n; ++v) saved[v] = !behind[v] && behind[n + v];
    return saved;
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/planned/parameter_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "compiler/ir/structure.h"
#include "compiler/ops/linear.h"
#include "compiler/planned/alignment.h"
#include "compiler/support/error.h"

namespace thunderc::planning {
namespace {

// Parts of the parameters' arena, in this order. What is frozen and has no narrow copy lies type by type, the widest
// first; so do buffers.
struct Part {
    enum class Kind : std::uint8_t { trained, with_narrow_copy, frozen, buffer } kind = Kind::trained;
    DType dtype = DType::f32;

    friend bool operator==(const Part&, const Part&) = default;
    friend bool operator<(const Part& a, const Part& b) {
        return std::tuple(a.kind, -static_cast<std::int64_t>(size_of(a.dtype)), a.dtype) <
               std::tuple(b.kind, -static_cast<std::int64_t>(size_of(b.dtype)), b.dtype);
    }
};

// Tensors that share a layer stride: the families of one loop. A plain tensor is a unit of its own, or of those that
// have to lie behind it.
struct Unit {
    Part part;
    std::int64_t count = 1;
    std::vector<std::size_t> arguments;  // of the entry function
};

// Which of the entry's loops takes a family, or its narrow copy, first.
std::string unit_key(const Function& entry, Value v, Value narrow_copy) {
    if (!entry.type(v).is_family()) return "";
    for (std::size_t k = 0; k < entry.ops.size(); ++k) {
        const std::vector<Value>& operands = entry.ops[k].operands;
        const auto reads = [&](Value one) {
            return one && std::find(operands.begin(), operands.end(), one) != operands.end();
        };
        if (is_loop(entry.ops[k]) && (reads(v) || reads(narrow_copy)))
            return fmt::format("loop {}, {} layers", k, entry.type(v).count);
    }
    return fmt::format("{} members", entry.type(v).count);
}

// A cache line of each of the arenas in which the parameters' elements lie: of f32 alone, 16 elements.
std::int64_t aligned_elements(const Module& module) {
    std::size_t least = 4;
    for (const Function& f : module.functions)
        for (std::size_t k = 0; k < f.argument_info.size(); ++k) {
            const ArgInfo::Kind kind = f.argument_info[k].kind;
            if (kind == ArgInfo::Kind::parameter ||
                (kind == ArgInfo::Kind::state && !is_state(f.argument_info[k], scaling_state)))
                least = std::min(least, size_of(f.type(f.arguments[k]).dtype));
        }
    return alignment / static_cast<std::int64_t>(least);
}

class ParameterLayout {
  public:
    ParameterLayout(const Module& module, const Function& entry) : entry_(entry), alignment_(aligned_elements(module)) {
        find_narrow_copies();
        find_adjacent(module);
        std::vector<Unit> units;
        std::map<std::pair<Part, std::string>, std::size_t> by_key;
        for (std::size_t k = 0; k < entry.arguments.size(); ++k) {
            const ArgInfo& info = entry.argument_info[k];
            if (!is_of_checkpoint(info)) continue;
            const Type& type = entry.type(entry.arguments[k]);
            const Part part = part_of(k);
            std::string key = unit_key(entry, entry.arguments[k], narrow_copy_of(k));
            if (key.empty()) key = fmt::format("#{}", leader(k));
            auto [found, is_new] = by_key.try_emplace(std::pair(part, key), units.size());
            if (is_new) units.push_back({part, type.is_family() ? type.count : 1, {}});
            units[found->second].arguments.push_back(k);
        }
        std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) { return a.part < b.part; });
        for (const Unit& unit : units) place(unit);
        end_part();
        for (const auto& [after, before] : follows_)
            places_.behind[entry.argument_info[after].names.front()] = entry.argument_info[before].names.front();
    }

    const ParameterPlaces& places() const { return places_; }

  private:
    void find_narrow_copies() {
        std::map<std::string, std::size_t> parameters;
        for (std::size_t k = 0; k < entry_.arguments.size(); ++k)
            if (entry_.argument_info[k].kind == ArgInfo::Kind::parameter)
                parameters[entry_.argument_info[k].names.front()] = k;
        for (std::size_t k = 0; k < entry_.arguments.size(); ++k) {
            const ArgInfo& info = entry_.argument_info[k];
            if (!is_state(info, narrow_copy_state)) continue;
            narrow_copies_[parameters.at(parameter_of_state(info))] = entry_.arguments[k];
        }
    }
    Value narrow_copy_of(std::size_t k) const {
        const auto at = narrow_copies_.find(k);
        return at == narrow_copies_.end() ? Value{} : at->second;
    }
    Part part_of(std::size_t k) const {
        const DType dtype = entry_.type(entry_.arguments[k]).dtype;
        if (entry_.argument_info[k].kind == ArgInfo::Kind::buffer) return {Part::Kind::buffer, dtype};
        if (entry_.argument_info[k].trainable && is_float(dtype)) return {Part::Kind::trained, dtype};
        return {narrow_copy_of(k) ? Part::Kind::with_narrow_copy : Part::Kind::frozen, dtype};
    }
    std::int64_t rounded_up(std::int64_t elements) const {
        return (elements + alignment_ - 1) / alignment_ * alignment_;
    }

    // Weights of one merged product lie side by side. Seen from the entry: argument indices, in order.
    void find_adjacent(const Module& module) {
        for (const Op& op : entry_.ops) note(module, op, [](Value v) { return v; });
    }

    // The first of the tensors that argument k has to lie behind.
    std::size_t leader(std::size_t k) const {
        for (auto at = follows_.find(k); at != follows_.end(); at = follows_.find(k)) k = at->second;
        return k;
    }

    using ToEntry = std::function<Value(Value)>;

    void note(const Module& module, const Op& op, const ToEntry& to_entry) {
        const std::string body = is_function_call(op) ? called_function(op)
                                 : is_loop(op)        ? loop_body(op)
                                                      : std::string();
        if (!body.empty()) {
            const Function& g = *module.find(body);
            for (const Op& inner : g.ops)
                note(module, inner, [&](Value v) {
                    for (std::size_t k = 0; k < g.arguments.size(); ++k)
                        if (g.arguments[k] == v) return op.operands[k] ? to_entry(op.operands[k]) : Value{};
                    return Value{};
                });
            return;
        }
        if (!op.attributes.boolean("adjacent_weights", false)) return;
        for (const std::vector<Value>& values : adjacent_values(op)) {
            std::vector<std::size_t> group;
            for (Value v : values) {
                Value at = to_entry(v);
                for (std::size_t k = 0; at && k < entry_.arguments.size(); ++k)
                    if (entry_.argument_info[k].kind == ArgInfo::Kind::parameter &&
                        (entry_.arguments[k] == at || narrow_copy_of(k) == at))
                        group.push_back(k);
            }
            // Gradients are no parameters; they follow, since they lie like their parameters.
            for (std::size_t k = 1; k < group.size(); ++k) follows_[group[k]] = group[k - 1];
        }
    }

    // What is counted in elements of the parameters that train goes on to the end of those with a narrow copy.
    void end_part() {
        const Part::Kind kind = part_ ? part_->kind : Part::Kind::trained;
        if (kind == Part::Kind::trained) places_.trained = places_.with_narrow_copy = elements_;
        if (kind == Part::Kind::with_narrow_copy) places_.with_narrow_copy = elements_;
        if (part_) places_.bytes = aligned(base_ + elements_ * static_cast<std::int64_t>(size_of(part_->dtype)));
    }

    void begin_part(const Part& part) {
        if (part_ == part) return;
        end_part();
        if (part.kind == Part::Kind::frozen || part.kind == Part::Kind::buffer) {
            base_ = places_.bytes;
            elements_ = 0;
        } else {
            check(!part_ || part_->dtype == part.dtype, "parameters that train are of one type");
        }
        part_ = part;
    }

    void place(const Unit& unit) {
        begin_part(unit.part);
        // The unit's order: as the arguments come, but what must follow another tensor comes right behind it.
        std::vector<std::size_t> order;
        auto add = [&](auto&& self, std::size_t k) -> void {
            if (std::find(order.begin(), order.end(), k) != order.end()) return;
            order.push_back(k);
            for (const auto& [after, before] : follows_)
                if (before == k &&
                    std::find(unit.arguments.begin(), unit.arguments.end(), after) != unit.arguments.end())
                    self(self, after);
        };
        for (std::size_t k : unit.arguments)
            if (!follows_.contains(k)) add(add, k);
        for (std::size_t k : unit.arguments) add(add, k);  // a follower whose leader is elsewhere

        std::int64_t at = 0;
        std::vector<std::int64_t> offsets;
        for (std::size_t k : order) {
            if (!follows_.contains(k)) at = rounded_up(at);
            offsets.push_back(at);
            at += entry_.type(entry_.arguments[k]).elements();
        }
        const std::int64_t stride = rounded_up(at);
        for (std::size_t k = 0; k < order.size(); ++k)
            places_.by_name[entry_.argument_info[order[k]].names.front()] = {
                elements_ + offsets[k], unit.count > 1 ? stride : 0, base_, unit.part.kind == Part::Kind::trained};
        elements_ += stride * unit.count;
    }

    const Function& entry_;
    const std::int64_t alignment_;                // in elements
    std::map<std::size_t, Value> narrow_copies_;  // by argument: the one that is its narrow copy
    std::map<std::size_t, std::size_t> follows_;
    std::optional<Part> part_;              // that is being placed
    std::int64_t base_ = 0, elements_ = 0;  // in bytes, where it begins to count; placed since
    ParameterPlaces places_;
};

}  // namespace

ParameterPlaces place_parameters(const Module& module) {
    return ParameterLayout(module, module.main()).places();
}

}  // namespace thunderc::planning

// SPDX-License-Identifier: Apache-2.0
#include "codegen/host/communication.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/host/collective_ranges.h"
#include "codegen/text.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

std::string purpose_of(Collective kind) {
    if (kind == Collective::all_gather) return "shards of parameters are gathered on it";
    if (kind == Collective::reduce_scatter) return "gradients are summed over the ranks that share a copy on it";
    return "gradients are summed over ranks on it";
}

// Where the norm of a gradient in pieces is summed over the ranks: one call does it, and needs no other stream.
constexpr const char* norm_function = update_function;

std::int64_t distance_of(const Op& wait) {
    return wait.attributes.integer("distance", 0);
}

}  // namespace

bool is_communication(const Op& op) {
    return !op.stream.empty() || is_event(op) || is_collective(op);
}

Communication::Communication(const Module& module) : module_(&module) {
    std::set<std::string> called;
    for (const Function& f : module.functions) {
        called.insert(identifier(f.name));
        for (const Op& op : f.ops)
            if (const OpDef& def = op_def(op.name); def.call) called.insert(def.call(op, f).function);
    }
    for (const std::string& name : module.streams) {
        StreamName s{identifier(name), ""};
        if (called.contains(s.name)) s.name += "_stream";
        for (const Function& f : module.functions)
            for (const Op& op : f.ops) {
                if (op.stream != name || !is_collective(op) || f.name == norm_function) continue;
                if (s.purpose.empty()) s.purpose = purpose_of(*collective_of(op));
            }
        streams_.push_back(std::move(s));
    }
    // In the order of the text: what a backward pass records gets the second name.
    for (const Function& f : module.functions) {
        if (f.argument_info.empty() || f.name == norm_function) continue;
        find_events(f);
        for (const Op& op : f.ops) {
            if (!is_loop(op)) continue;
            const Function& body = callee(module, op);
            if (body.is_loop_body()) find_events(body);
        }
    }
}

void Communication::find_events(const Function& function) {
    std::vector<std::pair<std::string, std::int64_t>> numbers;  // in the order of the text
    std::map<std::string, std::int64_t> recorded;               // how many iterations ahead
    for (const Op& op : function.ops)
        if (is_record(op)) recorded[op.attributes.string("event")] = op.attributes.integer("ahead", 0);
    std::set<std::string> before;
    for (const Op& op : function.ops) {
        if (!is_event(op)) continue;
        const std::string name = op.attributes.string("event");
        if (is_record(op)) before.insert(name);
        // Between the record that a wait means and the wait stand those of the iterations behind it: as many as lie
        // between the two, more where records run ahead and fewer where the wait does, and this one's where it comes
        // first.
        std::int64_t needed = 1;
        if (is_wait(op))
            needed = std::max<std::int64_t>(1, distance_of(op) - op.attributes.integer("ahead", 0) + recorded[name] +
                                                   (before.contains(name) ? 1 : 0));
        auto known = std::find_if(numbers.begin(), numbers.end(), [&](const auto& e) { return e.first == name; });
        if (known == numbers.end())
            numbers.emplace_back(name, needed);
        else
            known->second = std::max(known->second, needed);
    }
    for (const auto& [name, n] : numbers) {
        const std::string wanted = identifier(name);
        std::string unique = wanted + "_";
        for (int k = 1; std::any_of(events_.begin(), events_.end(), [&](const auto& e) { return e.name == unique; });)
            unique = fmt::format("{}_{}_", wanted, ++k);
        event_of_[{function.name, name}] = events_.size();
        events_.push_back({unique, n});
    }
}

const Communication::EventName& Communication::event(const Function& function, const std::string& name) const {
    return events_.at(event_of_.at({function.name, name}));
}

const std::string& Communication::stream_of(const Op& op) const {
    static const std::string computing = "stream";
    if (op.stream.empty()) return computing;
    const auto at = std::find(module_->streams.begin(), module_->streams.end(), op.stream);
    check(at != module_->streams.end(), op.name + " is on a stream that the module has not");
    return streams_[static_cast<std::size_t>(at - module_->streams.begin())].name;
}

std::vector<std::size_t> Communication::streams_of(std::span<const Op> ops) const {
    std::set<std::string> used;
    auto visit = [&](auto&& self, std::span<const Op> all) -> void {
        for (const Op& op : all) {
            if (!op.stream.empty()) used.insert(op.stream);
            if (!is_loop(op)) continue;
            const Function& body = callee(*module_, op);
            if (body.is_loop_body()) self(self, body.ops);
        }
    };
    visit(visit, ops);
    std::vector<std::size_t> out;
    for (std::size_t k = 0; k < streams_.size(); ++k)
        if (used.contains(module_->streams[k])) out.push_back(k);
    return out;
}

std::string Communication::flag(const Function& function, const Op* loop, const Op& op) const {
    Value flag = flag_of(op);
    if (!flag) return "";
    const Function& outer = loop == nullptr ? function : caller_of(*module_, *loop);
    if (loop != nullptr) flag = outside_value(function, *loop, flag);
    const auto at = std::find(outer.arguments.begin(), outer.arguments.end(), flag);
    check(at != outer.arguments.end(), op.name + " depends on a flag that the host does not know");
    return outer.argument_info[static_cast<std::size_t>(at - outer.arguments.begin())].names.front();
}

std::vector<Communication::Row> Communication::rows() const {
    std::vector<Row> out;
    auto one = [&](const Function& f, const Op* loop, const Op& op) {
        const std::int64_t layers = loop == nullptr ? 1 : loop_count(*loop);
        const Function& caller = loop == nullptr ? f : caller_of(*module_, *loop);
        Row row;
        row.kind = *collective_of(op);
        row.name = op.attributes.string("name");
        std::replace(row.name.begin(), row.name.end(), '_', ' ');
        row.what = loop != nullptr && !f.scope.empty() ? f.scope : op.attributes.string("what");
        row.layers = loop == nullptr ? 0 : layers;
        row.backward = loop != nullptr && loop_reversed(*loop);
        row.in_turns = op.attributes.has("room");
        row.together = std::min(op.attributes.integer("layers", 1), layers);
        row.ahead = op.attributes.integer("ahead", 0);
        row.resident = op.attributes.integer("resident", 0);
        row.slots = op.attributes.integer("slots", 0);
        if (row.resident >= layers) return;  // what is there needs no call
        row.times = (layers - row.resident + row.together - 1) / row.together;
        const auto elements = [&](Value v) {
            return f.type(v).elements() * (f.type(v).is_family() ? f.type(v).count : 1);
        };
        for (Value v : op.results) row.elements += elements(v);
        // a rank keeps its piece of such a sum: told is the whole, as of a gather
        if (is_collective(op, Collective::reduce_scatter)) row.elements = elements(op.operands.front());
        row.elements *= row.together;
        row.group = op.attributes.string("group");
        row.reason = op.attributes.string("reason");
        const std::string flagged = flag(f, loop, op);
        row.when = flagged == "first_micro_step"                ? "in the first micro-step"
                   : flagged == "last_micro_step"               ? "in the last micro-step"
                   : loop == nullptr && f.name == norm_function ? "in the update"
                   : caller.name == evaluate_function           ? "in an evaluation"
                                                                : "";
        out.push_back(std::move(row));
    };
    for (const Function& f : module_->functions) {
        if (f.argument_info.empty()) continue;
        for (const Op& op : f.ops) {
            if (is_collective(op)) one(f, nullptr, op);
            if (!is_loop(op)) continue;
            const Function& body = callee(*module_, op);
            for (const Op& inner : body.ops)
                if (is_collective(inner)) one(body, &op, inner);
        }
    }
    return out;
}

// "2 x all_gather layers of 1920 over shard, 5 layers forward, 1 ahead, 2 slots"
std::vector<std::string> Communication::schedule() const {
    std::vector<std::string> out;
    for (const Row& row : rows()) {
        std::string line =
            fmt::format("{} x {} {} of {} over {}", row.times, name_of(row.kind), row.name, row.elements, row.group);
        if (!row.when.empty()) line += " " + row.when;
        if (row.layers > 0) line += fmt::format(", {} layers {}", row.layers, row.backward ? "backward" : "forward");
        if (row.together > 1) line += fmt::format(", {} at once", row.together);
        if (row.resident > 0) line += fmt::format(", {} are there", row.resident);
        if (row.ahead > 0) line += fmt::format(", {} ahead", row.ahead);
        if (row.slots > 0) line += fmt::format(", {} slots", row.slots);
        out.push_back(line + "; ");
    }
    return out;
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "compiler/analysis/views.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/distributed/distribute_parts.h"
#include "compiler/passes/distributed/shard_units.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc::distributing {
namespace {

// Of one function that reads parameters: the step's, which makes gradients of them, or evaluate, which makes none.
class Shards {
  public:
    Shards(Module& module, const DistributeOptions& options, Report& report, std::string function,
           std::vector<Unit> units)
        : module_(module),
          options_(options),
          report_(report),
          function_(std::move(function)),
          units_(std::move(units)) {}

    void run() {
        std::set<std::string> bodies;
        for (const Op& op : main().ops)
            if (is_loop(op) && touches_layers(op)) bodies.insert(loop_body(op));
        for (const std::string& body : bodies) wrap_loops(module_, function_, body);
        begin_main();
        for (std::size_t k = 0; k < main().ops.size(); ++k)
            if (is_loop(main().ops[k]) && touches_layers(main().ops[k])) loop(k);
        find_turns();
        for (Unit& unit : units_)
            if (!unit.layered) whole_unit(unit);
        finish_main();
    }

    // What the program says of its units.
    void describe() {
        for (const Unit& unit : units_) {
            module_.units.push_back(unit.described());
            report_.done("unit", unit.name,
                         fmt::format("{} x {} elements, {} of them on each rank, {} parameter{}", unit.count,
                                     unit.elements, unit.elements / options_.mesh.shards, unit.parameters.size(),
                                     unit.parameters.size() == 1 ? "" : "s") +
                             (unit.layered ? ""
                              : turns_.contains(static_cast<std::size_t>(&unit - units_.data()))
                                  ? "; gathered before what reads it, and let go"
                                  : "; gathered to the end of the step, since no loop has it in turns"));
        }
    }

  private:
    Function& main() { return *module_.find(function_); }
    bool is_step() const { return function_ != evaluate_function; }

    bool touches_layers(const Op& op) const {
        for (const Unit& unit : units_)
            for (const UnitParameter& p : unit.parameters)
                for (Value v : op.operands)
                    if (unit.layered && v && (v == p.value || v == p.gradient)) return true;
        return false;
    }

    // ---- main: shards are its arguments ----

    // Blocks overwrite: what is summed over micro-steps are shards.
    void overwrite_gradients() {
        Function& f = main();
        for (std::size_t k = 0; k < f.arguments.size(); ++k) {
            const ArgInfo& info = f.argument_info[k];
            if (info.kind == ArgInfo::Kind::scalar && info.names.front() == "first_micro_step") first_ = f.arguments[k];
        }
        check(static_cast<bool>(first_), "a training step knows its first micro-step");
        Builder b(f);
        std::vector<Op> ops = std::exchange(f.ops, {});
        overwrite_ = b.constant(ConstExpr::splat(Type::tensor(DType::boolean, {}), 1), "overwrite");
        for (Op& op : ops) {
            for (Value& v : op.operands)
                if (v == first_) v = overwrite_;
            f.ops.push_back(std::move(op));
        }
    }

    void begin_main() {
        if (is_step()) overwrite_gradients();
        Function& f = main();
        std::vector<Value> arguments;
        std::vector<ArgInfo> infos;
        bool parameters = false, gradients = false, narrow_copies = false;
        for (std::size_t k = 0; k < f.arguments.size(); ++k) {
            const ArgInfo info = f.argument_info[k];
            const bool parameter = info.kind == ArgInfo::Kind::parameter;
            const bool gradient = is_state(info, gradient_state), narrow_copy = is_state(info, narrow_copy_state);
            if (!parameter && !gradient && !narrow_copy) {
                arguments.push_back(f.arguments[k]);
                infos.push_back(info);
                continue;
            }
            if (std::exchange(parameter ? parameters : gradient ? gradients : narrow_copies, true)) continue;
            for (Unit& unit : units_) {
                if ((gradient && !unit.trained) || (narrow_copy && !unit.with_narrow_copy)) continue;
                const std::string prefix(gradient ? gradient_state : narrow_copy ? narrow_copy_state : "");
                const DType dtype = gradient ? unit.gradient_dtype : narrow_copy ? unit.dtype : unit.master_dtype;
                const Value v =
                    f.add_value(unit.shard_type(dtype, options_.mesh),
                                unique_value_name(f, prefix.empty() ? unit.name : prefix + "_" + unit.name));
                if (gradient)
                    unit.gradient_shard = v;
                else if (narrow_copy == unit.with_narrow_copy)
                    unit.shard = v;
                arguments.push_back(v);
                infos.push_back(prefix.empty() ? unit.info() : state_info(unit.info(), prefix));
            }
        }
        f.arguments = std::move(arguments);
        f.argument_info = std::move(infos);
        if (is_step() && options_.mesh.has_copies()) {
            ArgInfo info;
            info.kind = ArgInfo::Kind::scalar;
            info.names = {"last_micro_step"};
            last_ = f.add_argument(Type::tensor(DType::boolean, {}), unique_value_name(f, "last_micro_step"), info);
        }
        // Results: the gradients of units come instead of those of parameters.
        std::vector<Value> results;
        std::vector<std::string> names;
        for (std::size_t r = 0; r < f.results.size(); ++r) {
            bool gradient = false;
            for (Unit& unit : units_)
                for (UnitParameter& p : unit.parameters)
                    if (p.gradient && f.info(p.gradient).name == f.result_names[r]) {
                        p.result = f.results[r];
                        gradient = true;
                    }
            if (gradient) continue;
            results.push_back(f.results[r]);
            names.push_back(f.result_names[r]);
        }
        f.results = std::move(results);
        f.result_names = std::move(names);
    }

    Attributes attributes_of(const Unit& unit, const std::string& name, const std::string& what) const {
        return {{"group", std::string("shard")},
                {"ranks", options_.mesh.shards},
                {"name", name},
                {"unit", unit.name},
                {"what", what}};
    }

    // ---- units that stand alone ----

    static std::size_t first_user(const Function& f, const std::vector<Value>& values) {
        for (std::size_t k = 0; k < f.ops.size(); ++k)
            for (Value v : f.ops[k].operands)
                if (v && std::find(values.begin(), values.end(), v) != values.end()) return k;
        return f.ops.size();
    }

    static std::size_t last_definition(const Function& f, const std::vector<Value>& values) {
        for (std::size_t k = f.ops.size(); k-- > 0;)
            for (Value v : f.ops[k].results)
                if (std::find(values.begin(), values.end(), v) != values.end()) return k;
        return f.ops.size();
    }

    // Ops that `build` appends, put in front of op `at`.
    template <typename Build>
    static void insert(Function& f, std::size_t at, Build build) {
        std::vector<Op> behind(std::make_move_iterator(f.ops.begin() + static_cast<std::ptrdiff_t>(at)),
                               std::make_move_iterator(f.ops.end()));
        f.ops.erase(f.ops.begin() + static_cast<std::ptrdiff_t>(at), f.ops.end());
        Builder b(f);
        build(b);
        f.ops.insert(f.ops.end(), std::make_move_iterator(behind.begin()), std::make_move_iterator(behind.end()));
    }

    // Defines the values that were arguments: pieces of the flat tensor.
    static void unpack(Function& f, Value flat, const Unit& unit,
                       const std::vector<std::pair<Value, std::size_t>>& pieces) {
        for (const auto& [v, k] : pieces) {
            const UnitParameter& p = unit.parameters[k];
            Op op;
            op.name = "unpack";
            op.operands = {flat};
            op.results = {v};
            op.attributes.set("dims", f.type(v).dims);
            op.attributes.set("offset", p.offset);
            if (f.type(v).is_family()) {
                op.attributes.set("count", f.type(v).count);
                op.attributes.set("stride", p.stride);
            }
            f.ops.push_back(std::move(op));
        }
    }

    Value unwritten(Builder& b, const Unit& unit) const {
        return b.op("unwritten", {}, {{"dtype", unit.gradient_dtype}, {"elements", unit.elements}, {"unit", unit.name}},
                    "d" + unit.name);
    }

    static Value pack(Builder& b, const Unit& unit, const std::vector<Value>& gradients) {
        std::vector<std::int64_t> offsets, strides;
        for (std::size_t k = 0; k < gradients.size(); ++k) {
            offsets.push_back(unit.parameters[k].offset);
            strides.push_back(b.type(gradients[k]).is_family() ? unit.parameters[k].stride : 0);
        }
        return b.op("pack", gradients,
                    {{"elements", unit.elements}, {"offsets", offsets}, {"strides", strides}, {"unit", unit.name}},
                    "d" + unit.name);
    }

    // The sum over the ranks of a copy, and over the copies behind the last micro-step. The last two values: what may
    // be awaited, and its token.
    std::pair<Value, Value> reduce(Builder& b, const Unit& unit, Value flat, Value before, Value first, Value last) {
        const std::string name = unit.name + "_gradients";
        std::vector<Value> sent = b.emit("reduce_scatter_start", {flat, before, first},
                                         attributes_of(unit, name, "gradients of " + unit.what), "grad_" + unit.name);
        b.function().info(sent[1]).name = "sent";
        if (!options_.mesh.has_copies()) return {sent[0], sent[1]};
        const Value mine = b.op("await", sent, {}, "grad_" + unit.name);
        Attributes attributes = attributes_of(unit, unit.name + "_replicas", "gradients of " + unit.what);
        attributes.set("group", std::string("replica"));
        attributes.set("ranks", options_.mesh.replicas);
        sent = b.emit("all_reduce_start", {mine, last}, attributes, "grad_" + unit.name);
        b.function().info(sent[1]).name = "sent";
        return {sent[0], sent[1]};
    }

    void gradient_result(const Unit& unit, Value v) {
        Function& f = main();
        f.info(v).name = f.info(unit.gradient_shard).name + "_after";
        f.results.insert(f.results.begin() + static_cast<std::ptrdiff_t>(given_), v);
        f.result_names.insert(f.result_names.begin() + static_cast<std::ptrdiff_t>(given_),
                              f.info(unit.gradient_shard).name);
        ++given_;
    }

    void whole_unit(Unit& unit) {
        Function& f = main();
        std::vector<Value> values, before, gradients;
        std::vector<std::pair<Value, std::size_t>> pieces, before_pieces;
        for (std::size_t k = 0; k < unit.parameters.size(); ++k) {
            const UnitParameter& p = unit.parameters[k];
            if (!p.value) continue;
            values.push_back(p.value);
            pieces.emplace_back(p.value, k);
            if (!p.gradient) continue;
            before.push_back(p.gradient);
            before_pieces.emplace_back(p.gradient, k);
            gradients.push_back(p.result);
        }
        if (!gradients.empty()) {
            insert(f, last_definition(f, gradients) + 1, [&](Builder& b) {
                const auto [sum, token] = reduce(b, unit, pack(b, unit, gradients), unit.gradient_shard, first_, last_);
                gradient_result(unit, b.op("await", {sum, token}));
            });
            insert(f, first_user(f, before), [&](Builder& b) { unpack(f, unwritten(b, unit), unit, before_pieces); });
        }
        const std::size_t user = first_user(f, values);
        if (user == f.ops.size()) return;  // nothing reads it
        if (const auto turns = turns_.find(static_cast<std::size_t>(&unit - units_.data())); turns != turns_.end()) {
            for (std::size_t t = 0; t < turns->second.size(); ++t) in_turn(unit, turns->second[t], pieces, t > 0);
            return;
        }
        std::vector<Value> sent;
        Builder b(f);
        sent = b.emit("all_gather_start", {unit.shard, first_}, attributes_of(unit, unit.name, unit.what), unit.name);
        f.info(sent[1]).name = "sent";
        Op start = std::move(f.ops.back());
        f.ops.pop_back();
        insert(f, user, [&](Builder& at) { unpack(f, at.op("await", sent, {}, unit.name), unit, pieces); });
        starts_.emplace_back(user, std::move(start));
    }

    // ---- units that stand alone, and are let go: gathered before they are read, into one of two rooms by turns ----

    // A run of readers of a unit, which are named by their first results.
    struct Turn {
        std::size_t unit = 0, first = 0, last = 0;  // ops of main, before anything is inserted
        std::vector<Value> readers;
        std::string name, behind;  // of the gather; of the one that had the room before, or empty
        Value released;            // what the last reader of that one gives
        std::int64_t room = 0, room_bytes = 0;
    };

    std::int64_t bytes_of_unit(const Unit& unit) const {
        return unit.elements * static_cast<std::int64_t>(size_of(unit.dtype));
    }

    // The readers of a unit, in two runs where something else is computed between them: those of the forward pass and
    // those of the backward pass, mostly. None where a view of it is read, which this does not follow.
    std::vector<Turn> runs_of(std::size_t unit) {
        const Function& f = main();
        std::vector<std::size_t> users;
        for (std::size_t k = 0; k < f.ops.size(); ++k) {
            const Op& op = f.ops[k];
            const bool reads = std::any_of(op.operands.begin(), op.operands.end(), [&](Value v) {
                return v && std::any_of(units_[unit].parameters.begin(), units_[unit].parameters.end(),
                                        [v](const UnitParameter& p) { return p.value == v; });
            });
            if (!reads) continue;
            if (is_part_of_operand(op) || op.results.empty()) return {};
            users.push_back(k);
        }
        if (users.empty()) return {};
        std::size_t split = users.size(), gap = 1;
        for (std::size_t k = 1; k < users.size(); ++k)
            if (users[k] - users[k - 1] > gap) gap = users[k] - users[k - 1], split = k;
        std::vector<Turn> out;
        for (std::size_t k = 0; k < users.size(); ++k) {
            if (k == 0 || k == split) {
                Turn& run = out.emplace_back();
                run.unit = unit;
                run.first = users[k];
            }
            out.back().last = users[k];
            out.back().readers.push_back(f.ops[users[k]].results[0]);
        }
        return out;
    }

    // Matrices that stand alone are gathered for each run of readers, into two rooms by turns: of run j while run j - 1
    // is computed. A unit that is read for so long that a third one would come between stays for the step.
    void find_turns() {
        if (options_.reshard == "never") return;
        std::vector<Turn> runs;
        std::int64_t whole = 0;
        for (std::size_t u = 0; u < units_.size(); ++u)
            if (!units_[u].layered && units_[u].matrices)
                for (Turn& run : runs_of(u)) runs.push_back(std::move(run));
        std::stable_sort(runs.begin(), runs.end(), [](const Turn& a, const Turn& b) { return a.first < b.first; });
        auto too_long = [&runs]() -> std::optional<std::size_t> {
            for (std::size_t j = 2; j < runs.size(); ++j)
                for (std::size_t i = 0; i + 1 < j; ++i)
                    if (runs[i].last >= runs[j].first) return runs[i].unit;
            return std::nullopt;
        };
        for (std::optional<std::size_t> unit = too_long(); unit; unit = too_long())
            std::erase_if(runs, [&](const Turn& run) { return run.unit == *unit; });
        // What is read last in the forward pass and first in the backward pass is still there.
        for (std::size_t j = 1; j < runs.size() && options_.reshard == "forward"; ++j) {
            if (runs[j].unit != runs[j - 1].unit) continue;
            runs[j - 1].last = runs[j].last;
            runs[j - 1].readers.insert(runs[j - 1].readers.end(), runs[j].readers.begin(), runs[j].readers.end());
            runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(j--));
        }
        std::set<std::size_t> turning;
        std::int64_t rooms[2] = {};
        for (std::size_t j = 0; j < runs.size(); ++j) {
            const std::int64_t bytes = bytes_of_unit(units_[runs[j].unit]);
            if (turning.insert(runs[j].unit).second) whole += bytes;
            rooms[j % 2] = std::max(rooms[j % 2], bytes);
        }
        if (rooms[0] + rooms[1] >= whole) return;  // nothing is gained
        std::set<std::size_t> named;
        for (std::size_t j = 0; j < runs.size(); ++j) {
            Turn& run = runs[j];
            const Unit& unit = units_[run.unit];
            run.name = unit.name + (named.insert(run.unit).second ? "" : "_again");
            run.room = static_cast<std::int64_t>(j % 2);
            run.room_bytes = rooms[j % 2];
            if (j < 2) continue;
            run.behind = runs[j - 2].name;
            run.released = runs[j - 2].readers.back();
        }
        for (Turn& run : runs) turns_[run.unit].push_back(std::move(run));
    }

    static std::size_t defining(const Function& f, Value v) { return last_definition(f, {v}); }

    void in_turn(const Unit& unit, const Turn& turn, const std::vector<std::pair<Value, std::size_t>>& pieces,
                 bool again) {
        Function& f = main();
        std::vector<std::pair<Value, std::size_t>> here = pieces;
        if (again)
            for (auto& [v, k] : here) {
                const Value fresh = f.add_value(f.type(v), unique_value_name(f, f.info(v).name + "_again"));
                for (const Value reader : turn.readers)
                    for (Value& operand : f.ops[defining(f, reader)].operands)
                        if (operand == v) operand = fresh;
                v = fresh;
            }
        std::erase_if(here, [&](const auto& piece) { return first_user(f, {piece.first}) == f.ops.size(); });
        Attributes attributes = attributes_of(unit, turn.name, unit.what);
        attributes.set("room", turn.room);
        attributes.set("room_bytes", turn.room_bytes);
        if (!turn.behind.empty()) attributes.set("behind", turn.behind);
        Builder b(f);
        const std::vector<Value> sent = b.emit("all_gather_start", {unit.shard, {}}, attributes, turn.name);
        f.info(sent[1]).name = "sent";
        Op start = std::move(f.ops.back());
        f.ops.pop_back();
        const std::size_t user = defining(f, turn.readers.front());
        insert(f, user, [&](Builder& at) { unpack(f, at.op("await", sent, {}, turn.name), unit, here); });
        if (turn.behind.empty()) {
            starts_.emplace_back(user, std::move(start));
            return;
        }
        f.ops.insert(f.ops.begin() + static_cast<std::ptrdiff_t>(defining(f, turn.released)) + 1, std::move(start));
    }

    // Gathers of whole units begin with the step, in the order in which they are read.
    void finish_main() {
        Function& f = main();
        std::stable_sort(starts_.begin(), starts_.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
        std::vector<Op> ops;
        for (auto& [user, start] : starts_) ops.push_back(std::move(start));
        f.ops.insert(f.ops.begin(), std::make_move_iterator(ops.begin()), std::make_move_iterator(ops.end()));
        remove_dead_code(f);
    }

    // ---- units of layers: in the body of each loop ----

    void loop(std::size_t index) {
        Op op = main().ops[index];
        Function body = callee(module_, op);
        const auto carried = loop_carried(op);
        auto per_layer = loop_per_layer(op);
        Op call = body.ops.front();
        std::vector<Op> before;
        std::vector<Value> families, tokens;  // what the loop gives of units: their gradients
        std::vector<const Unit*> reduced;
        std::vector<Op> behind;
        Value first, last;

        auto shared = [&](Value& here, Value outside) {
            if (here || !outside) return here;
            here = body.add_value(main().type(outside), main().info(outside).name);
            body.arguments.push_back(here);
            op.operands.push_back(outside);
            return here;
        };
        auto member = [&](Value family) {
            const std::size_t at = carried + per_layer++;
            const Value v = body.add_value(main().type(family).member(), main().info(family).name);
            body.arguments.insert(body.arguments.begin() + static_cast<std::ptrdiff_t>(at), v);
            op.operands.insert(op.operands.begin() + static_cast<std::ptrdiff_t>(at), family);
            return v;
        };
        // Takes the operand that is `outside` away; what its argument was is defined in the body.
        auto take = [&](Value outside) -> Value {
            for (std::size_t k = carried; k < carried + per_layer; ++k) {
                if (op.operands[k] != outside) continue;
                const Value v = body.arguments[k];
                op.operands.erase(op.operands.begin() + static_cast<std::ptrdiff_t>(k));
                body.arguments.erase(body.arguments.begin() + static_cast<std::ptrdiff_t>(k));
                --per_layer;
                return v;
            }
            return {};
        };

        for (Unit& unit : units_) {
            if (!unit.layered) continue;
            std::vector<std::pair<Value, std::size_t>> pieces, before_pieces;
            std::vector<Value> results;
            for (std::size_t k = 0; k < unit.parameters.size(); ++k) {
                const UnitParameter& p = unit.parameters[k];
                if (Value v = p.value ? take(p.value) : Value{}) pieces.emplace_back(v, k);
                if (Value v = p.gradient ? take(p.gradient) : Value{}) before_pieces.emplace_back(v, k);
            }
            std::swap(body.ops, before);
            Builder b(body);
            b.set_provenance(op.provenance);
            if (!pieces.empty()) {
                const Gathering how = gathering(unit, op);
                Attributes attributes = attributes_of(unit, unit.name, unit.what);
                attributes.set("slots", how.slots);
                attributes.set("resident", how.resident);
                const Value enabled = how.once ? shared(first, first_) : Value{};
                std::vector<Value> sent =
                    b.emit("all_gather_start", {member(unit.shard), enabled}, attributes, unit.name);
                body.info(sent[1]).name = "sent";
                unpack(body, b.op("await", sent, {}, unit.name), unit, pieces);
            }
            if (!before_pieces.empty()) {
                const Value memory = unwritten(b, unit);
                body.ops.back().attributes.set("slots", std::min<std::int64_t>(2, unit.count));
                unpack(body, memory, unit, before_pieces);
            }
            std::swap(body.ops, before);
            if (before_pieces.empty()) continue;
            // The gradients among the loop's results go, the unit's shard of them comes.
            std::vector<Value> gradients;
            for (const UnitParameter& p : unit.parameters) {
                const auto at = std::find(op.results.begin(), op.results.end(), p.result) - op.results.begin();
                gradients.push_back(body.results[static_cast<std::size_t>(at)]);
                op.results.erase(op.results.begin() + at);
                body.results.erase(body.results.begin() + at);
            }
            std::swap(body.ops, behind);
            Builder e(body);
            e.set_provenance(op.provenance);
            const Value flat = pack(e, unit, gradients);
            body.ops.back().attributes.set("slots", std::min<std::int64_t>(2, unit.count));
            const auto [sum, token] =
                reduce(e, unit, flat, member(unit.gradient_shard), shared(first, first_), shared(last, last_));
            std::swap(body.ops, behind);
            body.results.push_back(sum);
            body.results.push_back(token);
            families.push_back(main().add_value(main().type(unit.gradient_shard), "grad_" + unit.name));
            tokens.push_back(main().add_value(Type::token(), "sent"));
            op.results.push_back(families.back());
            op.results.push_back(tokens.back());
            reduced.push_back(&unit);
        }
        body.ops = std::move(before);
        body.ops.push_back(std::move(call));
        for (Op& one : behind) body.ops.push_back(std::move(one));
        compact_values(body);
        op.attributes.set("per_layer", static_cast<std::int64_t>(per_layer));
        *module_.find(body.name) = std::move(body);
        main().ops[index] = std::move(op);
        for (std::size_t k = 0; k < reduced.size(); ++k)
            insert(main(), index + 1, [&](Builder& b) {
                gradient_result(*reduced[k], b.op("await", {families[k], tokens[k]}));
            });
    }

    // How a loop gets the layers of a unit.
    struct Gathering {
        std::int64_t slots = 2, resident = 0;
        bool once = false;  // in the first micro-step of a step alone
    };
    Gathering gathering(const Unit& unit, const Op& op) {
        const bool reverse = loop_reversed(op);
        const auto last = direction_.find(unit.name);
        const bool again = last != direction_.end();
        const bool turned = again && last->second != reverse;
        direction_[unit.name] = reverse;
        Gathering how;
        if (options_.reshard == "never") {
            how.slots = unit.count;
            how.once = !again && is_step();
            how.resident = again ? unit.count : 0;
            return how;
        }
        how.slots = std::min<std::int64_t>(2, unit.count);
        // What went forward last goes back first: its layers are still there.
        how.resident = options_.reshard == "forward" && turned ? how.slots : 0;
        return how;
    }

    Module& module_;
    const DistributeOptions& options_;
    Report& report_;
    std::string function_;
    std::vector<Unit> units_;                // with what the function has of them
    std::map<std::string, bool> direction_;  // by unit: of the loop that read it last
    std::vector<std::pair<std::size_t, Op>> starts_;
    std::map<std::size_t, std::vector<Turn>> turns_;  // by unit
    Value first_, last_, overwrite_;
    std::size_t given_ = 0;
};

}  // namespace

Module distribute_shards(Module module, const DistributeOptions& options, Report& report) {
    const std::vector<Unit> units = shard_units(module, options.mesh.shards);
    const std::vector<Unit> evaluated = units_of_evaluation(module, units);
    Shards step(module, options, report, module.main().name, units);
    step.run();
    update_shards(module, units, options.mesh);
    step.describe();
    if (module.find(evaluate_function) != nullptr) Shards(module, options, report, evaluate_function, evaluated).run();
    return module;
}

}  // namespace thunderc::distributing

// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "compiler/ir/op_def.h"
#include "compiler/ir/print.h"
#include "compiler/ir/structure.h"
#include "compiler/support/lazy_check.h"

namespace thunderc {
namespace {

using Functions = std::unordered_map<std::string_view, const Function*>;  // by name

// By value: the token behind whose await it may be read; none where it may be read at once. A function that a loop or a
// call names may give a value and its token on to its caller.
std::vector<Value> tokens_of(const Functions& functions, const Function& f) {
    std::vector<Value> out(f.values.size());
    for (const Op& op : f.ops) {
        if (is_start(op))
            for (std::size_t r = 0; r + 1 < op.results.size(); ++r) out[op.results[r].index] = op.results.back();
        if (!runs_function(op)) continue;
        const auto g_at = functions.find(called_function(op));
        const Function* g = g_at == functions.end() ? nullptr : g_at->second;
        if (g == nullptr || g->results.size() != op.results.size()) continue;
        const std::vector<Value> inner = tokens_of(functions, *g);
        for (std::size_t r = 0; r < g->results.size(); ++r) {
            const Value token = inner[g->results[r].index];
            const auto at = std::find(g->results.begin(), g->results.end(), token) - g->results.begin();
            if (token && at < static_cast<std::ptrdiff_t>(op.results.size()))
                out[op.results[r].index] = op.results[static_cast<std::size_t>(at)];
        }
    }
    return out;
}

class Verifier {
  public:
    // `functions`: of the module; `tokens`: whether it has any.
    Verifier(const Module& module, const Functions& functions, bool tokens, const Function& function)
        : module_(module), functions_(functions), f_(function) {
        tokens_ = tokens ? tokens_of(functions, function) : std::vector<Value>(function.values.size());
    }

    void run() {
        defined_.assign(f_.values.size(), false);
        require_that(f_.argument_info.empty() || f_.argument_info.size() == f_.arguments.size(),
                     "argument_info is neither empty nor as long as the arguments");
        require_that(f_.result_names.empty() || f_.result_names.size() == f_.results.size(),
                     "result_names is neither empty nor as long as the results");
        for (Value v : f_.arguments) define(v);
        for (std::size_t k = 0; k < f_.arguments.size(); ++k) argument(k);
        for (const Op& op : f_.ops) {
            op_ = &op;
            this->op();
        }
        op_ = nullptr;
        events();
        for (Value v : f_.results)
            require_that(v && v.index < f_.values.size() && defined_[v.index], "a result is not defined");
        for (Value v : f_.results) {
            const Value token = tokens_[v.index];
            require_that(
                !token ||
                    (f_.is_loop_body() && std::find(f_.results.begin(), f_.results.end(), token) != f_.results.end()),
                [&] { return fmt::format("%{} is a result, and no await stands before it", f_.info(v).name); });
        }
    }

  private:
    // What is asked of every op makes its text where it is needed.
    template <std::invocable Text>
    void require_that(bool condition, const Text& what) const {
        if (!condition) require_that(false, std::string(what()));
    }
    void require_that(bool condition, std::string_view what) const {
        if (condition) return;
        std::string where = op_ == nullptr ? std::string() : fmt::format(", in {}", op_->name);
        if (op_ != nullptr && !op_->provenance.nodes.empty()) where += " from " + op_->provenance.nodes.front();
        throw InternalError(fmt::format("@{}{}: {}", f_.name, where, what));
    }

    void define(Value v) {
        require_that(v && v.index < f_.values.size(), "a value out of range is defined");
        require_that(!defined_[v.index],
                     [&] { return fmt::format("value {} ({}) is defined twice", v.index, f_.info(v).name); });
        defined_[v.index] = true;
        const Placement& p = f_.info(v).placement;
        const bool placed = p.arena != Placement::Arena::unplaced;
        const bool kernel = f_.is_kernel();  // a kernel's values live in registers
        if (!kernel && f_.type(v).kind != Type::Kind::token)
            require_that(placed == (module_.phase == Module::Phase::planned), [&] {
                return fmt::format("value {} is {} in phase {}", f_.info(v).name, placed ? "placed" : "not placed",
                                   placed ? "values" : "planned");
            });
        if (p.view_of) require_that(p.view_of.index < f_.values.size(), "a view of nothing");
    }

    void argument(std::size_t k) const {
        if (f_.argument_info.empty()) return;
        const ArgInfo& info = f_.argument_info[k];
        const Type& type = f_.type(f_.arguments[k]);
        if (info.kind == ArgInfo::Kind::value) return;
        auto members = static_cast<std::size_t>(type.is_family() ? type.count : 1);
        require_that(info.names.size() == members, [&] {
            return fmt::format("argument {} has {} names for {} members", f_.info(f_.arguments[k]).name,
                               info.names.size(), members);
        });
    }

    // ---- collectives ----

    void collective() const {
        const bool planned = module_.phase == Module::Phase::planned;
        if (is_start(*op_) || is_await(*op_)) require_that(!planned, "there are no tokens after plan");
        if (const OpDef* def = find_op(op_->name); def != nullptr && def->collective && !def->starts_collective)
            require_that(planned, "before plan a collective has a start and an await");
        if (op_->attributes.has("group")) {
            const std::string group = op_->attributes.string("group");
            const std::int64_t ranks = module_.mesh.ranks(group);
            require_that(ranks > 0, fmt::format("there is no group {}", group));
            require_that(
                ranks == op_->attributes.integer("ranks"),
                fmt::format("the group {} has {} ranks, not {}", group, ranks, op_->attributes.integer("ranks")));
        }
        for (Value v : op_->operands) {
            if (!v || !tokens_[v.index]) continue;
            const auto& operands = op_->operands;
            require_that(
                is_await(*op_) && std::find(operands.begin(), operands.end(), tokens_[v.index]) != operands.end(),
                fmt::format("%{} is read before it is awaited", f_.info(v).name));
        }
    }

    // ---- streams and events ----

    void on_stream() const {
        const bool event = is_event(*op_);
        require_that(!event || (module_.phase == Module::Phase::planned && !f_.is_kernel()),
                     "there are events only in planned functions");
        if (op_->stream.empty()) return;
        require_that(std::find(module_.streams.begin(), module_.streams.end(), op_->stream) != module_.streams.end(),
                     "the module has no stream " + op_->stream);
        for (const char* name : {"call", "repeat", "constant", "member"})
            require_that(op_->name != name, "it runs on the streams of what is called, or on none");
    }

    const Op* record_of(const std::string& event) const {
        const Op* found = nullptr;
        for (const Op& op : f_.ops)
            if (is_record(op) && op.attributes.string("event") == event) {
                require_that(found == nullptr, fmt::format("the event {} is recorded twice", event));
                found = &op;
            }
        return found;
    }

    bool looped() const {
        for (const Function& f : module_.functions)
            for (const Op& op : f.ops)
                if (is_loop_over(op, f_.name)) return true;
        return false;
    }

    // Each event is recorded once, on another stream than waits for it, and before: earlier in the list, or in an
    // earlier iteration.
    void events() {
        for (const Op& op : f_.ops) {
            if (!is_event(op)) continue;
            op_ = &op;
            const std::string& event = op.attributes.string("event");
            const Op* record = record_of(event);
            if (is_wait(op)) {
                const std::int64_t distance = op.attributes.integer("distance", 0);
                require_that(record != nullptr, fmt::format("nothing records the event {}", event));
                require_that(record->stream != op.stream,
                             fmt::format("the event {} is recorded on the stream that waits for it", event));
                require_that(distance >= 0 && (distance == 0 || looped()),
                             fmt::format("there is no iteration {} before", distance));
                require_that(distance > 0 || record < &op,
                             fmt::format("the event {} is recorded after it is waited for", event));
            }
        }
        op_ = nullptr;
    }

    // What begins ahead of its loop: once, before that loop, and with operands that are there by then.
    void begins_ahead() const {
        const std::string& body = loop_body(*op_);
        const Op* loop = nullptr;
        for (const Op& op : f_.ops) {
            require_that(&op == op_ || !is_begin_ahead(op) || loop_body(op) != body,
                         fmt::format("the loop over @{} begins ahead twice", body));
            if (!is_loop_over(op, body)) continue;
            require_that(loop == nullptr, fmt::format("two loops are over @{}", body));
            loop = &op;
        }
        require_that(loop != nullptr && loop > op_, fmt::format("no loop over @{} comes later", body));
        const auto at_body = functions_.find(body);
        const Function* f = at_body == functions_.end() ? nullptr : at_body->second;
        bool runs_ahead = false;
        for (std::size_t k = 0; f != nullptr && k < f->ops.size(); ++k) {
            if (f->ops[k].attributes.integer("ahead", 0) == 0) continue;
            runs_ahead = true;
            for (Value v : f->ops[k].operands) {
                const auto at = std::find(f->arguments.begin(), f->arguments.end(), v);
                if (!v || at == f->arguments.end()) continue;
                const Value given = loop->operands[static_cast<std::size_t>(at - f->arguments.begin())];
                require_that(!given || defined_[given.index],
                             fmt::format("%{}, which @{} reads ahead, is not there yet", f_.info(given).name, body));
            }
        }
        require_that(runs_ahead, fmt::format("nothing in @{} runs ahead", body));
    }

    void op() {
        const OpDef* def = find_op(op_->name);
        require_that(def != nullptr, "there is no such op");
        on_stream();
        for (Value v : op_->operands)
            require_that(!v || (v.index < f_.values.size() && defined_[v.index]),
                         "an operand is used before it is defined");
        for (Value v : op_->results) define(v);
        collective();
        const Attributes& a = op_->attributes;
        if (is_function_call(*op_)) return called(a.string("callee"), false);
        if (is_kernel_call(*op_)) return called(a.string("kernel"), true);
        if (is_loop(*op_)) return repeated();
        if (is_begin_ahead(*op_)) begins_ahead();
        std::vector<Type> expected;
        try {
            expected = def->infer({operand_types(), a});
        } catch (const ShapeError& error) {
            require_that(false, error.what());
        }
        require_that(expected.size() == op_->results.size(), [&] {
            return fmt::format("{} results where the shape rule gives {}", op_->results.size(), expected.size());
        });
        for (std::size_t k = 0; k < expected.size(); ++k) same("result", k, f_.type(op_->results[k]), expected[k]);
    }

    // Their memory is kept from op to op.
    std::span<const std::optional<Type>> operand_types() {
        const std::vector<Value>& operands = op_->operands;
        if (types_.size() < operands.size()) types_.resize(operands.size());
        for (std::size_t k = 0; k < operands.size(); ++k) {
            if (operands[k])
                types_[k] = f_.type(operands[k]);
            else
                types_[k].reset();
        }
        return {types_.data(), operands.size()};
    }

    void same(const char* what, std::size_t k, const Type& actual, const Type& expected) const {
        require_that(actual == expected, [&] {
            return fmt::format("{} {} is {}, expected {}", what, k, to_string(actual), to_string(expected));
        });
    }

    const Function& callee(const std::string& name, bool kernel) const {
        const auto at = functions_.find(name);
        require_that(at != functions_.end(), [&] { return fmt::format("there is no function @{}", name); });
        const Function* g = at->second;
        require_that(g->kind.starts_with("kernel:") == kernel,
                     [&] { return fmt::format("@{} is of kind \"{}\"", name, g->kind); });
        return *g;
    }

    void called(const std::string& name, bool kernel) const {
        const Function& g = callee(name, kernel);
        require_that(g.arguments.size() == op_->operands.size() && g.results.size() == op_->results.size(), [&] {
            return fmt::format("@{} takes {} and gives {} values", name, g.arguments.size(), g.results.size());
        });
        for (std::size_t k = 0; k < g.arguments.size(); ++k)
            same("operand", k, f_.type(op_->operands[k]), g.type(g.arguments[k]));
        for (std::size_t k = 0; k < g.results.size(); ++k)
            same("result", k, f_.type(op_->results[k]), g.type(g.results[k]));
    }

    void repeated() const {
        const Attributes& a = op_->attributes;
        const Function& g = callee(a.string("body"), false);
        const std::int64_t n = a.integer("n");
        const auto carried = static_cast<std::size_t>(a.integer("carried"));
        const auto per_layer = static_cast<std::size_t>(a.integer("per_layer"));
        require_that(n > 0, "a loop of no layers");
        require_that(g.arguments.size() == op_->operands.size() && carried + per_layer <= g.arguments.size(),
                     fmt::format("@{} takes {} values", g.name, g.arguments.size()));
        require_that(g.results.size() == op_->results.size() && carried <= g.results.size(),
                     fmt::format("@{} gives {} values", g.name, g.results.size()));
        auto family = [n](const Type& t) {  // the tokens of all layers are one
            return t.kind == Type::Kind::token ? t : Type::family(n, t.dtype, t.dims);
        };
        for (std::size_t k = 0; k < g.arguments.size(); ++k) {
            const Type& t = g.type(g.arguments[k]);
            bool member = k >= carried && k < carried + per_layer;
            same("operand", k, f_.type(op_->operands[k]), member ? family(t) : t);
        }
        for (std::size_t k = 0; k < g.results.size(); ++k) {
            const Type& t = g.type(g.results[k]);
            same("result", k, f_.type(op_->results[k]), k < carried ? t : family(t));
            if (k < carried) same("carried value", k, t, g.type(g.arguments[k]));
        }
    }

    const Module& module_;
    const Functions& functions_;
    const Function& f_;
    std::vector<bool> defined_;
    std::vector<Value> tokens_;  // by value: behind whose await it may be read
    std::vector<std::optional<Type>> types_;
    const Op* op_ = nullptr;
};

}  // namespace

void verify(const Module& module) {
    check(!module.functions.empty(), "a module without functions");
    check(module.mesh.replicas >= 1 && module.mesh.shards >= 1, "a mesh of no ranks");
    check(module.streams.empty() || module.phase == Module::Phase::planned, "streams in phase values");
    for (std::size_t k = 0; k < module.streams.size(); ++k) {
        const std::string& name = module.streams[k];
        check(name != "compute" && std::count(module.streams.begin(), module.streams.end(), name) == 1,
              fmt::format("the stream {} is named twice", name));
    }
    Functions functions;
    bool tokens = false;
    for (const Function& f : module.functions) {
        functions.emplace(f.name, &f);
        tokens = tokens || std::any_of(f.ops.begin(), f.ops.end(), is_start);
    }
    for (const Function& f : module.functions) {
        check(functions.at(f.name) == &f, [&] { return "two functions are called " + f.name; });
        Verifier(module, functions, tokens, f).run();
    }
}

}  // namespace thunderc

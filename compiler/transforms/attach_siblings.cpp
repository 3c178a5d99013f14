// Sibling products: several linear layers of one input as one product over weights that lie side by side.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/ops/composite.h"
#include "compiler/ops/linear.h"
#include "compiler/support/error.h"
#include "compiler/transforms/attach_parts.h"

namespace thunderc::attach {

namespace {

std::string callee_of(const Op& op) {
    if (op.name == "call") return op.attributes.string("callee");
    return op.name == "repeat" ? op.attributes.string("body") : "";
}

}  // namespace

// ---- groups
// -----------------------------------------------------------------------------------------------------------

Groups::Groups(const Module& module) {
    std::set<std::string> called;
    for (const Function& f : module.functions)
        for (const Op& op : f.ops) called.insert(callee_of(op));
    Key entry = 0;
    for (const Function& f : module.functions) {
        if (called.contains(f.name) || f.kind.starts_with("kernel:")) continue;
        std::vector<std::optional<Key>> keys;
        for (std::size_t k = 0; k < f.arguments.size(); ++k) keys.emplace_back((entry << 32) + static_cast<Key>(k));
        visit(module, f, keys);
        ++entry;
    }
}

void Groups::visit(const Module& module, const Function& f, const std::vector<std::optional<Key>>& keys) {
    if (!arguments_.emplace(f.name, keys).second) return;  // the first call decides
    for (const Op& op : f.ops) {
        const std::string name = callee_of(op);
        const Function* g = name.empty() ? nullptr : module.find(name);
        if (g == nullptr) continue;
        std::vector<std::optional<Key>> inner;
        for (Value v : op.operands) inner.push_back(key(f, v));
        inner.resize(g->arguments.size());
        visit(module, *g, inner);
    }
}

std::optional<Groups::Key> Groups::key(const Function& f, Value v) const {
    auto at = arguments_.find(f.name);
    if (at == arguments_.end()) return std::nullopt;
    for (std::size_t k = 0; k < f.arguments.size(); ++k)
        if (f.arguments[k] == v) return at->second[k];
    return std::nullopt;
}

bool Groups::accept(const std::vector<Key>& keys) {
    for (const std::vector<Key>& group : groups_) {
        if (std::search(group.begin(), group.end(), keys.begin(), keys.end()) != group.end()) return true;
        for (Key key : keys)
            if (std::find(group.begin(), group.end(), key) != group.end()) return false;
    }
    groups_.push_back(keys);
    return true;
}

std::vector<std::vector<std::size_t>> Groups::neighbours(const std::vector<std::optional<Key>>& keys) const {
    std::vector<std::vector<std::size_t>> found;
    for (const std::vector<Key>& group : groups_) {
        std::vector<std::size_t> run;
        auto end_run = [&] {
            if (run.size() > 1) found.push_back(run);
            run.clear();
        };
        for (Key key : group) {
            auto at = std::find(keys.begin(), keys.end(), key);
            if (at == keys.end())
                end_run();
            else
                run.push_back(static_cast<std::size_t>(at - keys.begin()));
        }
        end_run();
    }
    return found;
}

namespace {

// ---- names of merged values: q_proj, k_proj, v_proj become qkv_proj; gate_proj and up_proj become gate_up_proj
// -----------

std::string merged_name(const std::vector<std::string>& names) {
    std::string suffix = names.front();
    for (const std::string& name : names) {
        std::size_t n = 0;
        while (n < suffix.size() && n < name.size() && suffix[suffix.size() - 1 - n] == name[name.size() - 1 - n]) ++n;
        suffix = suffix.substr(suffix.size() - n);
    }
    // whole words alone: from an underscore on
    const std::size_t word = suffix.find('_');
    suffix = word == std::string::npos ? "" : suffix.substr(word);
    std::string out;
    bool letters = true;
    for (const std::string& name : names) letters = letters && name.size() - suffix.size() == 1;
    for (const std::string& name : names)
        out += (out.empty() || letters ? "" : "_") + name.substr(0, name.size() - suffix.size());
    return out + suffix;
}

// The last word of a layer's module path where there is one, else the value's name.
std::string name_of_product(const Function& f, const Op& op) {
    const std::string& scope = op.provenance.scope;
    if (scope.empty()) return f.info(op.results[0]).name;
    return scope.substr(scope.rfind('.') + 1);
}

Op slice_of(Value from, Value to, std::int64_t axis, std::int64_t begin, std::int64_t end,
            const Provenance& provenance) {
    Op op;
    op.name = "slice";
    op.operands = {from};
    op.results = {to};
    op.attributes = {{"axis", axis}, {"begin", begin}, {"end", end}, {"step", std::int64_t{1}}};
    op.provenance = provenance;
    return op;
}

// Siblings of one input, all with a bias or all without, in the order of their weights' keys; empty where they do not
// merge.
std::vector<std::int32_t> ordered_siblings(const Function& f, const Groups& groups,
                                           const std::vector<std::int32_t>& ops) {
    std::vector<std::pair<Groups::Key, std::int32_t>> by_key;
    for (std::int32_t k : ops) {
        const Op& op = f.ops[static_cast<std::size_t>(k)];
        std::optional<Groups::Key> weight = groups.key(f, op.operands[linear_weight(0)]);
        if (!weight) continue;
        if (has_operand(op, linear_bias(0)) && !groups.key(f, op.operands[linear_bias(0)])) continue;
        const bool seen =
            std::any_of(by_key.begin(), by_key.end(), [&](const auto& pair) { return pair.first == *weight; });
        if (!seen) by_key.emplace_back(*weight, k);
    }
    std::sort(by_key.begin(), by_key.end());
    std::vector<std::int32_t> out;
    for (const auto& [key, k] : by_key) out.push_back(k);
    return out;
}

}  // namespace

void merge_forward(Function& f, Groups& groups, Report& report) {
    Editor e(f);
    std::map<std::pair<Value, bool>, std::vector<std::int32_t>> siblings;  // by input, and whether there is a bias
    std::vector<std::pair<Value, bool>> inputs;                            // in the order of ops
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(f.ops.size()); ++i) {
        const Op& op = e.op(i);
        if (op.name != "linear" || linear_products(op.operands.size()) > 1 || has_operand(op, linear_residual) ||
            op.results.size() > 1 || op.attributes.string("activation", "none") != "none")
            continue;
        const std::pair<Value, bool> input{op.operands[0], has_operand(op, linear_bias(0))};
        if (!siblings.contains(input)) inputs.push_back(input);
        siblings[input].push_back(i);
    }
    std::map<std::int32_t, std::vector<Op>> replaced;  // by the index of the first sibling
    for (const auto& input : inputs) {
        if (siblings[input].size() < 2) continue;
        const std::vector<std::int32_t> order = ordered_siblings(f, groups, siblings[input]);
        if (order.size() < 2) {
            report.declined("siblings", where(f, e.op(siblings[input][0])),
                            "the weights are not parameters of their own");
            continue;
        }
        std::vector<Groups::Key> keys;
        for (std::int32_t k : order) keys.push_back(*groups.key(f, e.op(k).operands[linear_weight(0)]));
        if (!groups.accept(keys)) {
            report.declined("siblings", where(f, e.op(order[0])), "their weights lie beside others already");
            continue;
        }
        Op merged = e.op(order[0]);
        merged.operands.resize(2 + 2 * order.size());
        merged.attributes.set("adjacent_weights", true);
        std::vector<std::string> names;
        std::vector<Op> slices;
        std::int64_t begin = 0;
        Type type = f.type(e.op(order[0]).results[0]);
        const std::int64_t axis = type.rank() - 1;
        for (std::size_t k = 0; k < order.size(); ++k) {
            const Op& one = e.op(order[k]);
            merged.operands[linear_weight(k)] = one.operands[1];
            if (input.second) set_operand(merged, linear_bias(k), one.operands[2]);
            if (k > 0) merged.provenance = merge(merged.provenance, one.provenance);
            names.push_back(name_of_product(f, one));
            const std::int64_t end = begin + f.type(one.results[0]).dims.back();
            slices.push_back(slice_of({}, one.results[0], axis, begin, end, one.provenance));
            begin = end;
        }
        type.dims.back() = begin;
        const Value y = f.add_value(type, merged_name(names));
        merged.results = {y};
        report.done("siblings", where(f, merged), fmt::format("{} products as one, {}", order.size(), f.info(y).name));
        std::vector<Op>& ops = replaced[*std::min_element(order.begin(), order.end())];
        ops.push_back(std::move(merged));
        for (Op& slice : slices) {
            slice.operands[0] = y;
            ops.push_back(std::move(slice));
        }
        for (std::int32_t k : order) e.erase(k);
    }
    if (replaced.empty()) return;
    std::vector<Op> ops;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(f.ops.size()); ++i) {
        auto at = replaced.find(i);
        if (at != replaced.end())
            std::move(at->second.begin(), at->second.end(), std::back_inserter(ops));
        else
            ops.push_back(std::move(e.op(i)));
    }
    f.ops = std::move(ops);
    e.refresh();
    e.finish();
}

WeightOfCotangent weights_of_cotangents(const Function& f, const Groups& groups) {
    WeightOfCotangent weights;
    for (const Op& op : f.ops)
        if (op.name == "linear_backward_input" && backward_input_products(op.operands.size()) == 1)
            if (std::optional<Groups::Key> key = groups.key(f, op.operands[1])) weights.emplace(op.operands[0], *key);
    return weights;
}

Value concatenated(Editor& e, std::int32_t index, const std::vector<Value>& dys, const Provenance& provenance) {
    for (const Op& op : e.f.ops)
        if (op.name == "concat" && op.operands == dys && op.attributes.integer("axis") == e.f.type(dys[0]).rank() - 1)
            return op.results[0];
    Type type = e.f.type(dys[0]);
    std::vector<std::string> names;
    type.dims.back() = 0;
    for (Value dy : dys) {
        type.dims.back() += e.f.type(dy).dims.back();
        names.push_back(e.f.info(dy).name);
    }
    Op op;
    op.name = "concat";
    op.operands = dys;
    op.attributes = {{"axis", type.rank() - 1}};
    op.provenance = provenance;
    op.results = {e.f.add_value(type, merged_name(names))};
    const Value result = op.results[0];
    e.f.ops.insert(e.f.ops.begin() + index, std::move(op));
    e.refresh();
    return result;
}

void merge_backward_weight(Function& f, const Groups& groups, const WeightOfCotangent& weights, Report& report) {
    Editor e(f);
    std::map<std::pair<Value, bool>, std::vector<std::vector<Value>>> siblings;  // by x and bias: the results of each
    std::vector<std::pair<Value, bool>> inputs;
    for (const Op& op : f.ops) {
        if (op.name != "linear_backward_weight" || op.operands.size() > 2 || op.attributes.has("outs")) continue;
        const std::pair<Value, bool> input{op.operands[1], op.attributes.boolean("bias", false)};
        if (!siblings.contains(input)) inputs.push_back(input);
        siblings[input].push_back(op.results);
    }
    for (const auto& input : inputs) {
        std::vector<std::vector<Value>>& all = siblings[input];
        auto index_of = [&](std::size_t k) { return e.uses.definition[all[k][0].index]; };
        std::vector<std::optional<Groups::Key>> keys;
        for (std::size_t k = 0; k < all.size(); ++k) {
            auto at = weights.find(e.op(index_of(k)).operands[0]);
            keys.push_back(at == weights.end() ? std::nullopt : std::optional(at->second));
        }
        for (const std::vector<std::size_t>& run : groups.neighbours(keys)) {
            std::vector<Value> dys;
            Dims outs;
            std::int32_t last = 0;
            Provenance provenance = e.op(index_of(run[0])).provenance;
            for (std::size_t k : run) {
                const Op& one = e.op(index_of(k));
                dys.push_back(one.operands[0]);
                outs.push_back(f.type(one.operands[0]).dims.back());
                if (k != run[0]) provenance = merge(provenance, one.provenance);
                last = std::max(last, index_of(k));
            }
            const Value dy = concatenated(e, last, dys, provenance);
            Op merged;
            merged.name = "linear_backward_weight";
            merged.operands = {dy, input.first};
            merged.attributes = {{"outs", outs}, {"adjacent_weights", true}};
            merged.provenance = provenance;
            for (std::size_t k : run) merged.results.push_back(all[k][0]);
            if (input.second) {
                merged.attributes.set("bias", true);
                for (std::size_t k : run) merged.results.push_back(all[k][1]);
            }
            report.done("siblings", where(f, merged), fmt::format("{} weight gradients as one product", run.size()));
            last = 0;
            for (std::size_t k : run) last = std::max(last, index_of(k));
            for (std::size_t k : run) e.erase(index_of(k));
            e.op(last) = std::move(merged);
            e.refresh();
        }
    }
    e.finish();
}

// ---- merged results between functions
// ---------------------------------------------------------------------------------

namespace {

// The one op of the module that calls `name`; nothing where there are several.
struct Site {
    Function* caller = nullptr;
    std::size_t op = 0;
    Op& call() const { return caller->ops[op]; }
};

std::optional<Site> only_site(Module& module, const std::string& name) {
    std::optional<Site> site;
    for (Function& f : module.functions)
        for (std::size_t k = 0; k < f.ops.size(); ++k) {
            if (callee_of(f.ops[k]) != name) continue;
            if (site) return std::nullopt;
            site = Site{&f, k};
        }
    return site;
}

std::size_t carried_of(const Op& call) {
    return call.name == "repeat" ? static_cast<std::size_t>(call.attributes.integer("carried")) : 0;
}

// Results of `f` that are together all slices, in order, of one merged product.
std::vector<std::size_t> slices_of(const Function& f, const Op& merged) {
    std::vector<std::size_t> positions;
    const Value y = merged.results[0];
    std::int64_t begin = 0;
    const std::int64_t end = f.type(y).dims.back();
    while (begin < end) {
        bool found = false;
        for (const Op& op : f.ops) {
            if (op.name != "slice" || op.operands[0] != y || op.attributes.integer("begin") != begin) continue;
            for (std::size_t r = 0; r < f.results.size() && !found; ++r) {
                if (f.results[r] != op.results[0]) continue;
                if (std::count(f.results.begin(), f.results.end(), op.results[0]) != 1) return {};
                positions.push_back(r);
                begin = op.attributes.integer("end");
                found = true;
            }
            if (found) break;
        }
        if (!found) return {};
    }
    return positions;
}

// Operand positions of the reader that take these results of `call`, where it is the one reader of all of them.
std::vector<std::size_t> read_by(const Site& site, const std::vector<std::size_t>& results, std::size_t& reader) {
    const Uses uses(*site.caller);
    std::vector<std::size_t> positions;
    for (std::size_t r : results) {
        const Value v = site.call().results[r];
        if (!uses.single_user(v)) return {};
        const auto user = static_cast<std::size_t>(uses.users[v.index][0]);
        const Op& op = site.caller->ops[user];
        if (callee_of(op).empty() || (!positions.empty() && user != reader)) return {};
        reader = user;
        const std::vector<Value>& operands = op.operands;
        if (std::count(operands.begin(), operands.end(), v) != 1) return {};
        const auto at = static_cast<std::size_t>(std::find(operands.begin(), operands.end(), v) - operands.begin());
        const bool family = site.caller->type(v).is_family();
        const auto per_layer = static_cast<std::size_t>(op.attributes.integer("per_layer", 0));
        const bool member = op.name == "repeat" && at >= carried_of(op) && at < carried_of(op) + per_layer;
        if (family != member) return {};
        positions.push_back(at);
    }
    return positions;
}

template <typename T>
void erase_positions(std::vector<T>& items, std::vector<std::size_t> positions) {
    std::sort(positions.rbegin(), positions.rend());
    for (std::size_t at : positions)
        if (at < items.size()) items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
}

bool hand_on_one(Module& module, Function& f, const Op& merged, Report& report) {
    const std::vector<std::size_t> results = slices_of(f, merged);
    const std::optional<Site> site = only_site(module, f.name);
    if (results.empty() || !site || !f.argument_info.empty()) return false;
    for (std::size_t r : results)
        if (r < carried_of(site->call())) return false;
    std::size_t reader = 0;
    const std::vector<std::size_t> operands = read_by(*site, results, reader);
    if (operands.empty()) return false;
    Function& caller = *site->caller;
    Function& g = *module.find(callee_of(caller.ops[reader]));
    if (!only_site(module, g.name) || !g.argument_info.empty()) return false;

    // the callee's results: the merged value in the place of its first slice
    const Value y = merged.results[0];
    const std::vector<std::size_t> others(results.begin() + 1, results.end());
    const std::string name = f.info(y).name;
    report.done("saved", where(f, merged), name + " is kept as one");
    f.results[results[0]] = y;
    erase_positions(f.results, others);
    if (!f.result_names.empty()) {
        f.result_names[results[0]] = name;
        erase_positions(f.result_names, others);
    }
    // the caller: one value, a family where the slices were
    Op& call = site->call();
    Type type = f.type(y);
    if (caller.type(call.results[results[0]]).is_family())
        type = Type::family(caller.type(call.results[results[0]]).count, type.dtype, type.dims);
    const Value handed = caller.add_value(type, name);
    call.results[results[0]] = handed;
    erase_positions(call.results, others);
    Op& read = caller.ops[reader];
    read.operands[operands[0]] = handed;
    const std::vector<std::size_t> gone(operands.begin() + 1, operands.end());
    if (read.name == "repeat")
        read.attributes.set("per_layer", read.attributes.integer("per_layer") - static_cast<std::int64_t>(gone.size()));
    erase_positions(read.operands, gone);
    // the reader's function: slices of the one argument stand for the old ones
    const Value argument = g.add_value(f.type(y), name);
    std::vector<Op> slices;
    std::int64_t begin = 0;
    for (std::size_t at : operands) {
        const Value old = g.arguments[at];
        const std::int64_t end = begin + g.type(old).dims.back();
        slices.push_back(slice_of(argument, old, g.type(old).rank() - 1, begin, end, merged.provenance));
        begin = end;
    }
    g.arguments[operands[0]] = argument;
    erase_positions(g.arguments, gone);
    g.ops.insert(g.ops.begin(), std::make_move_iterator(slices.begin()), std::make_move_iterator(slices.end()));
    Editor(g).finish();
    return true;
}

}  // namespace

void hand_on_merged(Module& module, Report& report) {
    for (Function& f : module.functions)
        for (std::size_t k = 0; k < f.ops.size(); ++k) {
            if (f.ops[k].name != "linear" || !f.ops[k].attributes.boolean("adjacent_weights", false)) continue;
            const Op merged = f.ops[k];
            if (hand_on_one(module, f, merged, report)) Editor(f).finish();
        }
}

}  // namespace thunderc::attach

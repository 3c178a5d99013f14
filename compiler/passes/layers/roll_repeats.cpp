// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/layers/roll_repeats.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/layers/outline_blocks.h"
#include "compiler/passes/layers/step_families.h"

namespace thunderc {
namespace {

// Calls of one function, each reading results of the one before.
struct Row {
    std::vector<std::size_t> calls;  // ops
    std::size_t carried = 0, per_layer = 0;
};

bool reads_result_of(const Op& call, const Op& before) {
    for (Value v : call.operands)
        if (std::find(before.results.begin(), before.results.end(), v) != before.results.end()) return true;
    return false;
}

// Rows as long as possible, in order. A call belongs to one row.
std::vector<Row> find_rows(const Function& f) {
    std::vector<Row> rows;
    std::map<std::string, std::size_t> last;  // by callee, its row
    for (std::size_t k = 0; k < f.ops.size(); ++k) {
        if (!is_function_call(f.ops[k])) continue;
        const std::string name = called_function(f.ops[k]);
        auto at = last.find(name);
        if (at != last.end() && reads_result_of(f.ops[k], f.ops[rows[at->second].calls.back()])) {
            rows[at->second].calls.push_back(k);
            continue;
        }
        last[name] = rows.size();
        rows.push_back({{k}, 0, 0});
    }
    std::erase_if(rows, [](const Row& row) { return row.calls.size() < 2; });
    return rows;
}

// By value: whether it depends on a result of a call of the row.
Mask behind(const Function& f, const Row& row) {
    Mask out(f.values.size(), false);
    for (std::size_t k = row.calls.front(); k < f.ops.size(); ++k) {
        const Op& op = f.ops[k];
        bool any = std::find(row.calls.begin(), row.calls.end(), k) != row.calls.end();
        for (Value v : op.operands) any = any || (v && out[v.index]);
        if (!any) continue;
        for (Value v : op.results) out[v.index] = true;
    }
    return out;
}

// Fills in the counts; gives the reason where the row is no loop.
std::optional<std::string> classify(const Function& f, const Uses& uses, Row& row) {
    const Op& first = f.ops[row.calls[0]];
    const Op& second = f.ops[row.calls[1]];
    row.carried = 0;
    while (row.carried < std::min(first.results.size(), first.operands.size()) &&
           second.operands[row.carried] == first.results[row.carried])
        ++row.carried;
    const Mask depends = behind(f, row);
    bool shared_began = false;
    for (std::size_t o = 0; o < first.operands.size(); ++o) {
        if (o < row.carried) {
            for (std::size_t i = 1; i < row.calls.size(); ++i)
                if (f.ops[row.calls[i]].operands[o] != f.ops[row.calls[i - 1]].results[o])
                    return fmt::format("operand {} of layer {} is not what the layer before gives", o, i);
            continue;
        }
        bool equal = true;
        for (std::size_t k : row.calls) {
            Value v = f.ops[k].operands[o];
            if (depends[v.index]) return fmt::format("operand {} depends on another layer", o);
            if (f.type(v).is_family()) return fmt::format("operand {} is a family", o);
            equal = equal && v == first.operands[o];
        }
        if (equal) {
            shared_began = true;
            continue;
        }
        if (shared_began) return fmt::format("operand {} differs between layers, behind operands that they share", o);
        ++row.per_layer;
    }
    if (row.carried == 0) return "nothing is carried from layer to layer";
    for (std::size_t i = 0; i + 1 < row.calls.size(); ++i)
        for (std::size_t r = 0; r < row.carried; ++r) {
            Value v = f.ops[row.calls[i]].results[r];
            const std::vector<std::int32_t>& users = uses.users[v.index];
            if (uses.is_result[v.index] || users.size() != 1 || users[0] != static_cast<std::int32_t>(row.calls[i + 1]))
                return fmt::format("what layer {} carries on is read elsewhere", i);
        }
    return std::nullopt;
}

// ---- families -------------------------------------------------------------------------------------------------------

std::optional<std::size_t> argument_index(const Function& f, Value v) {
    auto at = std::find(f.arguments.begin(), f.arguments.end(), v);
    if (at == f.arguments.end()) return std::nullopt;
    return static_cast<std::size_t>(at - f.arguments.begin());
}

bool may_share_a_family(const ArgInfo& a, const ArgInfo& b) {
    return a.kind == b.kind && (is_of_checkpoint(a) || a.kind == ArgInfo::Kind::constant) &&
           a.trainable == b.trainable && a.outer == b.outer && a.adapter == b.adapter && a.init == b.init &&
           a.note == b.note && a.names.size() == 1 && b.names.size() == 1;
}

// Makes one argument of `members`, at the place of the first; none where they cannot be one.
Value family_argument(Function& f, const Uses& uses, const std::vector<Value>& members, const std::string& name) {
    std::vector<std::size_t> indices;
    for (Value v : members) {
        std::optional<std::size_t> k = argument_index(f, v);
        if (!k || !uses.single_user(v)) return {};
        indices.push_back(*k);
        if (!may_share_a_family(f.argument_info.at(indices[0]), f.argument_info[*k])) return {};
    }
    if (std::set<std::size_t>(indices.begin(), indices.end()).size() != indices.size()) return {};
    ArgInfo info = f.argument_info[indices[0]];
    info.aliases.resize(1);
    info.sources.resize(1);
    for (std::size_t k = 1; k < indices.size(); ++k) {
        const ArgInfo& other = f.argument_info[indices[k]];
        info.names.push_back(other.names[0]);
        info.aliases.push_back(other.aliases.empty() ? std::vector<std::string>{} : other.aliases[0]);
        info.sources.push_back(other.sources.empty() ? nullptr : other.sources[0]);
    }
    const Type type = f.type(members[0]);
    Value made = f.add_value(Type::family(static_cast<std::int64_t>(members.size()), type.dtype, type.dims), name);
    f.arguments[indices[0]] = made;
    f.argument_info[indices[0]] = std::move(info);
    std::set<std::size_t> gone(indices.begin() + 1, indices.end());
    std::size_t to = 0;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        if (gone.contains(k)) continue;
        f.arguments[to] = f.arguments[k];
        if (to != k) f.argument_info[to] = std::move(f.argument_info[k]);
        ++to;
    }
    f.arguments.resize(to);
    f.argument_info.resize(to);
    return made;
}

// The results of main that are what the members, buffers of layers, will be, where the layers' calls give them as one
// result each; empty: they do not.
struct MovedFamily {
    std::size_t result = 0;            // of the calls
    std::vector<std::size_t> in_main;  // results of main, in the order of layers
};
std::optional<MovedFamily> moved_family(const Function& f, const std::vector<Op>& calls,
                                        const std::vector<Value>& members) {
    MovedFamily out;
    for (std::size_t i = 0; i < members.size(); ++i) {
        const std::optional<std::size_t> argument = argument_index(f, members[i]);
        if (!argument || f.argument_info[*argument].kind != ArgInfo::Kind::buffer) return std::nullopt;
        const auto name =
            std::find(f.result_names.begin(), f.result_names.end(), f.argument_info[*argument].names.front());
        if (name == f.result_names.end()) return std::nullopt;
        out.in_main.push_back(static_cast<std::size_t>(name - f.result_names.begin()));
        const std::vector<Value>& given = calls[i].results;
        const auto at = std::find(given.begin(), given.end(), f.results[out.in_main.back()]);
        const auto result = static_cast<std::size_t>(at - given.begin());
        if (at == given.end() || (i > 0 && result != out.result)) return std::nullopt;
        out.result = result;
    }
    return out;
}

void roll(Function& f, const Uses& uses, const Row& row, const Function& body) {
    const auto n = static_cast<std::int64_t>(row.calls.size());
    std::vector<Op> calls;
    for (std::size_t k : row.calls) calls.push_back(f.ops[k]);
    const std::size_t last = row.calls.back();

    // What each call reads a piece of: the loop runs in the order of the pieces, where there is nothing else that is
    // one for each call.
    std::vector<std::optional<Pieces>> steps(calls[0].operands.size());
    bool backwards = row.per_layer > 0;
    for (std::size_t o = row.carried; o < row.carried + row.per_layer; ++o) {
        std::vector<Value> members;
        for (const Op& call : calls) members.push_back(call.operands[o]);
        steps[o] = pieces_of(f, uses, members);
        backwards = backwards && steps[o] && steps[o]->backwards;
    }

    std::vector<Op> all = std::exchange(f.ops, {});
    Builder b(f);
    Provenance provenance = calls[0].provenance;
    provenance.scope = body.scope;
    b.set_provenance(provenance);
    std::vector<Value> operands;
    std::vector<MovedFamily> families_moved;
    for (std::size_t o = 0; o < calls[0].operands.size(); ++o) {
        if (o < row.carried || o >= row.carried + row.per_layer) {
            operands.push_back(calls[0].operands[o]);
            continue;
        }
        if (steps[o] && steps[o]->backwards == backwards) {
            operands.push_back(family_of_steps(b, *steps[o]));
            continue;
        }
        std::vector<Value> members;
        for (const Op& call : calls) members.push_back(call.operands[o]);
        const std::string name = unique_value_name(f, body.info(body.arguments[o]).name);
        // Buffers are a family where what they will be is one.
        const std::optional<std::size_t> first = argument_index(f, members.front());
        const bool buffers = first && f.argument_info[*first].kind == ArgInfo::Kind::buffer;
        const std::optional<MovedFamily> moved = moved_family(f, calls, members);
        Value family =
            buffers && (!moved || moved->result < row.carried) ? Value{} : family_argument(f, uses, members, name);
        if (family && moved) families_moved.push_back(*moved);
        operands.push_back(family ? family : b.op("family", members, {}, name));
    }
    std::vector<Type> types;
    std::vector<std::string> names;
    for (std::size_t r = 0; r < body.results.size(); ++r) {
        const Type& t = body.type(body.results[r]);
        types.push_back(r < row.carried ? t : Type::family(n, t.dtype, t.dims));
        names.push_back(r < row.carried ? f.info(calls.back().results[r]).name : body.info(body.results[r]).name);
    }
    std::vector<Value> results = b.emit_typed("repeat", operands,
                                              {{"body", body.name},
                                               {"carried", static_cast<std::int64_t>(row.carried)},
                                               {"n", n},
                                               {"per_layer", static_cast<std::int64_t>(row.per_layer)},
                                               {"reverse", backwards}},
                                              types, names);
    std::map<Value, FamilyMember> carried;
    for (std::size_t k = 0; k < row.carried; ++k)
        for (std::size_t r = row.carried; r < results.size(); ++r)
            if (body.results[r] == body.results[k]) carried[results[k]] = {results[r], backwards ? 0 : n - 1};
    std::map<Value, Value> replaced;
    for (std::size_t r = 0; r < results.size(); ++r) {
        if (r < row.carried) {
            replaced[calls.back().results[r]] = results[r];
            continue;
        }
        const auto moved = std::find_if(families_moved.begin(), families_moved.end(),
                                        [&](const MovedFamily& family) { return family.result == r; });
        if (moved != families_moved.end()) {
            f.results[moved->in_main.front()] = results[r];  // under the name of the first
            for (std::size_t i = 1; i < moved->in_main.size(); ++i) f.results[moved->in_main[i]] = {};
            continue;
        }
        for (std::size_t i = 0; i < calls.size(); ++i) {
            const auto index = static_cast<std::int64_t>(backwards ? calls.size() - 1 - i : i);
            replaced[calls[i].results[r]] =
                b.op("member", {results[r]}, {{"index", index}}, f.info(calls[i].results[r]).name);
        }
    }
    std::vector<Op> loop = std::exchange(f.ops, {});
    const std::set<std::size_t> gone(row.calls.begin(), row.calls.end());
    for (std::size_t k = 0; k < all.size(); ++k) {
        if (k == last) std::move(loop.begin(), loop.end(), std::back_inserter(f.ops));
        if (!gone.contains(k)) f.ops.push_back(std::move(all[k]));
    }
    for (std::size_t r = f.results.size(); r-- > 0;) {
        if (f.results[r]) continue;
        f.results.erase(f.results.begin() + static_cast<std::ptrdiff_t>(r));
        f.result_names.erase(f.result_names.begin() + static_cast<std::ptrdiff_t>(r));
    }
    substitute(f, replaced);
    order_by_dependencies(f);
    stack_members(f, carried);
    remove_dead_code(f);  // members that nothing reads
}

}  // namespace

Module roll_repeats(Module module, Report& report) {
    std::set<std::string> declined;  // one note for each function
    while (true) {
        Function& main = module.main();
        const Uses uses(main);
        bool rolled = false;
        for (Row& row : find_rows(main)) {
            const Function& body = callee(module, main.ops[row.calls[0]]);
            std::optional<std::string> why_not = classify(main, uses, row);
            if (why_not) {
                if (declined.insert(body.name).second)
                    report.declined("roll_repeats", body.scope.empty() ? body.name : body.scope, *why_not);
                continue;
            }
            if (naive_in_a_row(row.calls.size()) &&
                !report.may("roll_repeats", body.scope.empty() ? "@" + body.name : body.scope,
                            fmt::format("{} calls of @{}", row.calls.size(), body.name)))
                continue;
            report.done("roll_repeats", body.scope.empty() ? body.name : body.scope,
                        fmt::format("{} calls of @{}", row.calls.size(), body.name));
            roll(main, uses, row, body);
            rolled = true;
            break;  // rows and uses are of the function as it was
        }
        if (!rolled) return module;
    }
}

}  // namespace thunderc

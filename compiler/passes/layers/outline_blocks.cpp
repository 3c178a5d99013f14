// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/layers/outline_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "compiler/analysis/parameter_names.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/passes/layers/find_blocks.h"

namespace thunderc {
namespace {

// ---- names ----------------------------------------------------------------------------------------------------------

// "LlamaDecoderLayer" gives "decoder_layer": the model's own name says nothing inside its program. Two words are kept.
std::string function_name(const std::string& module_class) {
    std::vector<std::string> words;
    for (std::size_t k = 0; k < module_class.size(); ++k) {
        const auto c = static_cast<unsigned char>(module_class[k]);
        const bool next_lower =
            k + 1 < module_class.size() && std::islower(static_cast<unsigned char>(module_class[k + 1]));
        const bool after_lower = k > 0 && std::islower(static_cast<unsigned char>(module_class[k - 1]));
        if (words.empty() || (std::isupper(c) != 0 && (next_lower || after_lower) && !words.back().empty()))
            words.emplace_back();
        if (std::isalnum(c) != 0) words.back() += static_cast<char>(std::tolower(c));
    }
    if (words.size() > 2) words.erase(words.begin());
    return fmt::format("{}", fmt::join(words, "_"));
}

struct BlockNames {
    std::vector<std::string> scopes;  // of each period's first layer: "model.layers.0"; empty where not known
    std::string pattern;              // "model.layers.{0..31}"
    std::string module_class;
    std::string function = "layer";
};

// The scope in which all of them stand; "" where there is none.
std::string common_scope(const std::string& a, const std::string& b) {
    std::string scope = a;
    while (!scope.empty() && !(b + ".").starts_with(scope + "."))
        scope.resize(scope.rfind('.') == std::string::npos ? 0 : scope.rfind('.'));
    return scope;
}

// One module again and again: that in which all ops of a period stand, or most of them. What reads pieces of tensors is
// its step.
void name_steps(const Function& f, const BlockRun& run, BlockNames& out) {
    std::map<std::string, std::size_t> votes;
    std::string most, all;
    for (std::size_t k : run.periods[0]) {
        const std::string& scope = f.ops[k].provenance.scope;
        if (scope.empty()) continue;
        all = votes.empty() ? scope : common_scope(all, scope);
        const std::size_t own = ++votes[scope];
        if (own > votes[most]) most = scope;
    }
    out.pattern = all.empty() ? most : all;
    for (std::size_t k : run.periods[0])
        if (f.ops[k].provenance.scope == out.pattern) out.module_class = f.ops[k].provenance.module_class;
    const std::string name =
        function_name(out.module_class.empty() ? out.pattern.substr(out.pattern.rfind('.') + 1) : out.module_class);
    if (!name.empty()) out.function = name + (run.per_layer.empty() ? "" : "_step");
}

BlockNames names_of(const Function& f, const BlockRun& run) {
    BlockNames out;
    for (const std::vector<std::size_t>& ops : run.periods) {
        std::map<std::string, std::size_t> votes;
        for (std::size_t k : ops)
            if (std::string scope = layer_scope(f.ops[k].provenance.scope); !scope.empty()) ++votes[scope];
        std::string best;  // the first that holds a good part of the period: of layers 6 and 7, layer 6
        for (std::size_t k : ops)
            if (std::string scope = layer_scope(f.ops[k].provenance.scope);
                best.empty() && 4 * votes[scope] >= ops.size())
                best = scope;
        out.scopes.push_back(best);
    }
    if (std::set<std::string>(out.scopes.begin(), out.scopes.end()).size() != out.scopes.size() ||
        out.scopes[0].empty()) {
        out.scopes.clear();
        if (run.steps) name_steps(f, run, out);
        return out;
    }
    out.pattern = name_pattern(out.scopes);
    for (std::size_t k : run.periods[0])
        if (f.ops[k].provenance.scope == out.scopes[0] && out.module_class.empty())
            out.module_class = f.ops[k].provenance.module_class;
    if (std::string name = function_name(out.module_class); !name.empty()) out.function = name;
    return out;
}

// Text without the layer it names: "model.layers.0.mlp.up_proj.weight" gives "mlp.up_proj.weight".
std::string without_layer(const std::string& name, const BlockNames& names) {
    if (!names.scopes.empty() && name.starts_with(names.scopes[0] + "."))
        return name.substr(names.scopes[0].size() + 1);
    std::string scope = layer_scope(name);
    if (scope == name) return name.substr(0, name.rfind('.'));  // "w.0" gives "w"
    return scope.empty() ? name : name.substr(scope.size() + 1);
}

// ---- the function ---------------------------------------------------------------------------------------------------

// A function, and where its values come from.
struct Whole {
    explicit Whole(const Function& function) : f(function), uses(function) {
        for (std::size_t k = 0; k < f.arguments.size(); ++k) argument.emplace(f.arguments[k], k);
    }
    const Function& f;
    Uses uses;
    std::map<Value, std::size_t> argument;
};

std::string argument_name(const Whole& whole, Value v, const BlockNames& names) {
    const Function& f = whole.f;
    if (const auto at = whole.argument.find(v); at != whole.argument.end()) {
        const ArgInfo& info = f.argument_info.at(at->second);
        if (!info.names.empty() && is_of_checkpoint(info)) return without_layer(info.names[0], names);
    }
    return without_layer(f.info(v).name, names);
}

Function block_function(const Whole& whole, const BlockRun& run, const BlockNames& names) {
    const Function& f = whole.f;
    Function body;
    body.scope = names.pattern;
    body.module_class = names.module_class;
    std::vector<Value> carried, per_layer, shared, constants;
    auto argument = [&](Value v, const std::string& name) {
        Value made = body.add_value(f.type(v), unique_value_name(body, name));
        body.arguments.push_back(made);
        return made;
    };
    for (const Carried& c : run.carried) {  // of layers, the first one is the residual stream
        const Value next = f.ops[run.periods[0][c.next.op]].results[c.next.result];
        carried.push_back(argument(c.initial, run.steps         ? f.info(next).name + "_prev"
                                              : carried.empty() ? "x"
                                                                : f.info(c.initial).name));
    }
    for (const std::vector<Value>& v : run.per_layer)
        per_layer.push_back(argument(v[0], argument_name(whole, v[0], names)));
    for (Value v : run.shared) shared.push_back(argument(v, argument_name(whole, v, names)));
    Builder b(body);
    for (Value v : run.constants) {
        const Op& op = f.ops[static_cast<std::size_t>(whole.uses.definition[v.index])];
        constants.push_back(b.clone(op, {}, f).at(0));
    }
    std::vector<std::vector<Value>> made;
    for (std::size_t j = 0; j < run.operands.size(); ++j) {
        std::vector<Value> operands;
        for (const BlockOperand& o : run.operands[j]) {
            switch (o.kind) {
                case BlockOperand::Kind::absent: operands.emplace_back(); break;
                case BlockOperand::Kind::internal: operands.push_back(made[o.internal.op][o.internal.result]); break;
                case BlockOperand::Kind::carried: operands.push_back(carried[o.slot]); break;
                case BlockOperand::Kind::per_layer: operands.push_back(per_layer[o.slot]); break;
                case BlockOperand::Kind::shared: operands.push_back(shared[o.slot]); break;
                case BlockOperand::Kind::constant: operands.push_back(constants[o.slot]); break;
            }
        }
        made.push_back(b.clone(f.ops[run.periods[0][j]], operands, f));
        Provenance& provenance = body.ops.back().provenance;
        if (!names.scopes.empty() && (provenance.scope + ".").starts_with(names.scopes[0] + "."))
            provenance.scope = names.pattern + provenance.scope.substr(names.scopes[0].size());
        for (Value v : made.back()) body.info(v).name = without_layer(body.info(v).name, names);
    }
    for (const Carried& c : run.carried) body.results.push_back(made[c.next.op][c.next.result]);
    for (BlockValue v : run.collected) body.results.push_back(made[v.op][v.result]);
    if (run.carried.size() == 1 && !run.steps) body.info(body.results[0]).name = "y";
    return body;
}

// ---- the calls ------------------------------------------------------------------------------------------------------

struct Block {
    BlockRun run;
    BlockNames names;
    Function body;
};

void replace_by_calls(Function& f, const std::vector<Block>& blocks) {
    std::map<Value, Value> replaced;
    std::map<std::size_t, Op> calls;  // by the op that the call stands for: the last of its period
    Mask gone(f.ops.size(), false);
    for (const auto& [run, names, body] : blocks) {
        std::vector<Value> values;
        for (const Carried& c : run.carried) values.push_back(c.initial);
        for (std::size_t i = 0; i < run.periods.size(); ++i) {
            for (std::size_t k : run.periods[i]) gone[k] = true;
            Op call;
            call.name = "call";
            call.attributes.set("callee", body.name);
            if (!names.scopes.empty()) {
                call.provenance.scope = names.scopes[i];
                call.provenance.module_class = names.module_class;
            }
            call.operands = values;
            for (const std::vector<Value>& v : run.per_layer) call.operands.push_back(v[i]);
            call.operands.insert(call.operands.end(), run.shared.begin(), run.shared.end());
            const auto result = [&f, &call, &ops = run.periods[i]](BlockValue v) {
                Value old = f.ops[ops[v.op]].results[v.result];
                Value made = f.add_value(f.type(old), f.info(old).name);
                call.results.push_back(made);
                return std::pair(old, made);
            };
            values.clear();
            for (const Carried& c : run.carried) {
                auto [old, made] = result(c.next);
                replaced[old] = made;
                values.push_back(made);
            }
            for (BlockValue v : run.collected) {
                auto [old, made] = result(v);
                // What is read outside is what was collected, but behind the last layer what is carried.
                if (i + 1 < run.periods.size() || !replaced.contains(old)) replaced[old] = made;
            }
            calls.emplace(*std::max_element(run.periods[i].begin(), run.periods[i].end()), std::move(call));
        }
    }
    std::vector<Op> ops;
    for (std::size_t k = 0; k < f.ops.size(); ++k) {
        if (auto call = calls.find(k); call != calls.end()) ops.push_back(std::move(call->second));
        if (!gone[k]) ops.push_back(std::move(f.ops[k]));
    }
    f.ops = std::move(ops);
    substitute(f, replaced);
    order_by_dependencies(f);
    remove_dead_code(f);  // constants that moved into the function
}

}  // namespace

Module outline_blocks(Module module, Report& report) {
    bool said = false;
    while (true) {
        FoundBlocks found = find_blocks(module.main());
        if (found.gave_up && !std::exchange(said, true))
            report.warning("outline_blocks", "",
                           "too many rows of ops could be layers: not all of them were looked at, and layers that "
                           "repeat may be written out");
        if (found.runs.empty()) return module;
        std::vector<Block> blocks;
        std::set<std::string> taken;
        std::map<std::string, int> number;  // of the last function of this name
        for (const Function& f : module.functions) taken.insert(f.name);
        const Whole whole(module.main());
        for (BlockRun& run : found.runs) {
            BlockNames names = names_of(whole.f, run);
            if (naive_in_a_row(run.periods.size()) &&
                !report.may("outline_blocks", names.pattern,
                            fmt::format("{} as @{}", run.periods.size(), names.function)))
                continue;
            Function body = block_function(whole, run, names);
            body.name = names.function;
            while (!taken.insert(body.name).second)
                body.name = fmt::format("{}_{}", names.function, ++number[names.function]);
            report.done("outline_blocks", names.pattern,
                        fmt::format("{} {} of {} ops become @{}", run.periods.size(), run.steps ? "steps" : "layers",
                                    run.periods[0].size(), body.name));
            blocks.push_back({std::move(run), std::move(names), std::move(body)});
        }
        if (blocks.empty()) return module;
        replace_by_calls(module.main(), blocks);
        for (Block& block : blocks) module.functions.push_back(std::move(block.body));
    }
}

}  // namespace thunderc

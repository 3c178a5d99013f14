// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/read_structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/passes/raise/raise_embedding.h"
#include "compiler/passes/raise/raise_gelu.h"
#include "compiler/passes/raise/raise_linear.h"
#include "compiler/passes/raise/raise_norm.h"
#include "compiler/passes/raise/raise_rotary.h"
#include "compiler/passes/raise/raise_sdpa.h"
#include "compiler/passes/raise/raise_swiglu.h"
#include "compiler/passes/recognise/name_modules.h"
#include "compiler/passes/simplify/fold_constants.h"
#include "compiler/passes/simplify/simplify.h"

namespace thunderc {
namespace {

using Kind = GivenArgument::Kind;
using Verdict = StructureSays::Verdict;

// A copy with the patterns raised. The nodes of an op's provenance are the ops of the original that it stands for.
Module raised_copy(const Module& module, const std::vector<GivenArgument>& given) {
    Module copy = module;
    Function& f = copy.main();
    for (std::size_t k = 0; k < f.ops.size(); ++k) f.ops[k].provenance = {"", "", {std::to_string(k)}, {""}};
    std::map<Value, Value> known;
    std::vector<Op> constants;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        ArgInfo& info = f.argument_info[k];
        if (info.kind == ArgInfo::Kind::input) continue;
        info.kind = given[k].kind == Kind::constant ? ArgInfo::Kind::constant : ArgInfo::Kind::parameter;
        if (given[k].kind != Kind::constant || !given[k].value) continue;
        const Value v = f.add_value(f.type(f.arguments[k]), f.info(f.arguments[k]).name);
        known[f.arguments[k]] = v;
        constants.push_back({"constant", {}, {v}, {{"value", given[k].value}}, {}});
    }
    for (Op& op : f.ops)
        for (Value& v : op.operands)
            if (auto at = known.find(v); at != known.end()) v = at->second;
    f.ops.insert(f.ops.begin(), std::make_move_iterator(constants.begin()), std::make_move_iterator(constants.end()));
    Report ignored;
    for (auto pass : {fold_constants, simplify, raise_norm, raise_embedding, raise_linear, raise_rotary, raise_sdpa,
                      raise_swiglu, raise_gelu, simplify})
        copy = pass(std::move(copy), ignored);
    return copy;
}

bool only_rearranges(const Op& op) {
    return is_view(op) || op.name == "cast";
}

class RoleReader {
  public:
    RoleReader(const Function& f, const std::vector<GivenArgument>& given) : f_(f), given_(given), uses_(f) {
        find_data();
        for (std::size_t k = 0; k < f.arguments.size(); ++k) argument_[f.arguments[k]] = k;
    }

    std::vector<StructureSays> read() {
        std::vector<std::vector<StructureSays>> sites(f_.arguments.size());
        std::map<std::size_t, std::string> stopped_at;
        for (const Op& op : f_.ops) {
            if (only_rearranges(op)) continue;
            for (std::size_t k = 0; k < op.operands.size(); ++k)
                if (std::optional<std::size_t> a = argument_behind(op.operands[k])) {
                    if (passes_no_gradient(op))
                        stopped_at[*a] = op.name;
                    else
                        sites[*a].push_back(site(op, k, *a));
                }
        }
        std::vector<StructureSays> out;
        for (std::size_t k = 0; k < sites.size(); ++k) {
            out.push_back(summary(k, sites[k]));
            if (sites[k].empty() && stopped_at.contains(k))
                out[k] = {Verdict::constant, fmt::format("no gradient passes through {}", stopped_at[k])};
        }
        return out;
    }

  private:
    // By value: whether it depends on an input at all, and whether it is data that flows through the model: a float
    // input, rows looked up by ids, and what is computed of those. Positions and masks are made of ids and are no data.
    void find_data() {
        depends_.assign(f_.values.size(), false);
        data_.assign(f_.values.size(), false);
        for (std::size_t k = 0; k < f_.arguments.size(); ++k) {
            if (f_.argument_info[k].kind != ArgInfo::Kind::input) continue;
            depends_[f_.arguments[k].index] = true;
            data_[f_.arguments[k].index] = is_float(f_.type(f_.arguments[k]).dtype);
        }
        for (const Op& op : f_.ops) {
            bool depends = false, data = false;
            for (Value v : op.operands) {
                depends = depends || (v && depends_[v.index]);
                data = data || (v && data_[v.index]);
            }
            data = data || (op.name == "embedding" && depends);
            for (Value v : op.results) {
                depends_[v.index] = depends;
                data_[v.index] = data && is_float(f_.type(v).dtype);
            }
        }
    }

    const Op* producer(Value v) const {
        const std::int32_t k = uses_.definition[v.index];
        return k < 0 ? nullptr : &f_.ops[static_cast<std::size_t>(k)];
    }

    const Op* producer_behind_views(Value v) const {
        const Op* op = producer(v);
        while (op != nullptr && only_rearranges(*op)) op = producer(op->operands[0]);
        return op;
    }

    std::optional<std::size_t> argument_behind(Value v) const {
        if (!v) return std::nullopt;
        while (const Op* op = producer(v)) {
            if (!only_rearranges(*op)) return std::nullopt;
            v = op->operands[0];
        }
        const std::size_t k = argument_.at(v);
        if (f_.argument_info[k].kind == ArgInfo::Kind::input) return std::nullopt;
        return k;
    }

    // Whether nothing is made of a value but the tables of a rotation: it, or cosines and sines of it, however they are
    // computed from other things that are no data.
    bool turns_into_tables(Value v) const {
        if (uses_.is_result[v.index] || uses_.users[v.index].empty()) return false;
        static const std::set<std::string> through = {"mul", "add",    "sub",    "div",        "neg",
                                                      "pow", "concat", "matmul", "reciprocal", "gather"};
        return std::all_of(uses_.users[v.index].begin(), uses_.users[v.index].end(), [&](std::int32_t user) {
            const Op& op = f_.ops[static_cast<std::size_t>(user)];
            if (op.name == "cos" || op.name == "sin") return true;
            if (op.name == "rotary") return op.operands[0] != v;
            if (op.name == "embedding" || op.name == "linear") {  // what was raised of a gather, of a product
                if (op.name == "linear" && data_[op.operands[0].index]) return false;
                return turns_into_tables(op.results[0]);
            }
            if (only_rearranges(op)) return turns_into_tables(op.results[0]);
            if (!through.contains(op.name)) return false;
            for (Value other : op.operands)
                if (other && other != v && data_[other.index]) return false;
            return turns_into_tables(op.results[0]);
        });
    }

    bool passes_no_gradient(const Op& op) const {
        return !op_def(op.name).not_differentiable.empty() ||
               std::none_of(op.results.begin(), op.results.end(), [&](Value v) { return is_float(f_.type(v).dtype); });
    }

    bool is_product(const Op* op) const {
        if (op == nullptr) return false;
        if (op->name == "linear") return true;
        return op->name == "matmul" && (argument_behind(op->operands[0]) || argument_behind(op->operands[1]));
    }

    // Rows looked up by ids, or sums of such.
    bool is_embedded(Value v) const {
        const Op* op = producer_behind_views(v);
        if (op == nullptr) return false;
        if (op->name == "add") return is_embedded(op->operands[0]) || is_embedded(op->operands[1]);
        return op->name == "embedding" && depends_[op->operands[1].index];
    }

    StructureSays site(const Op& op, std::size_t k, std::size_t argument) const {
        const Type& type = f_.type(f_.arguments[argument]);
        auto fed = [&](std::size_t operand) { return depends_[op.operands[operand].index]; };
        const StructureSays open = {Verdict::nothing, fmt::format("operand of {}", op.name)};
        if (op.name == "linear" && k > 0) {
            if (!fed(0)) return {Verdict::nothing, "factor of a product that no input reaches"};
            return {Verdict::parameter, k == 1 ? "weight of a product" : "bias of a product"};
        }
        if (op.name == "matmul" && type.rank() == 2 && data_[op.operands[1 - k].index])
            return {Verdict::parameter, "weight of a product"};
        if (op.name == "embedding" && k == 0) {
            if (fed(1)) return {Verdict::parameter, "table of an embedding"};
            if (given_[argument].numbers_read) return {Verdict::parameter, "table of positions"};
        }
        if ((op.name == "rms_norm" || op.name == "layer_norm") && k > 0)
            return {Verdict::parameter, k == 1 ? "scale of a norm" : "shift of a norm"};
        if (op.name == "rotary" && k > 0) return {Verdict::constant, "table of a rotation"};
        if (op.name == "sdpa" && k > 2) return {Verdict::constant, "mask of attention"};
        if (op.name == "add") {
            const Value x = op.operands[1 - k];
            const Dims& dims = f_.type(x).dims;  // none: a single number
            const bool row = !dims.empty() && type.elements() == dims.back() && type.elements() > 1;
            if (row && is_product(producer_behind_views(x))) return {Verdict::parameter, "bias of a product"};
            // Not by structure alone: sines of positions stand in the same place.
            if (!row && is_embedded(x) && given_[argument].numbers_read)
                return {Verdict::parameter, "positions added to an embedding"};
        }
        return open;
    }

    StructureSays summary(std::size_t k, const std::vector<StructureSays>& sites) const {
        if (given_[k].kind == Kind::open && turns_into_tables(f_.arguments[k]))
            return {Verdict::constant, "nothing but tables of a rotation is made of it"};
        StructureSays out;
        for (const StructureSays& say : sites) {
            if (out.verdict != Verdict::nothing && say.verdict != Verdict::nothing && out.verdict != say.verdict)
                return {Verdict::nothing, fmt::format("{} and {}", out.what, say.what)};
            if (out.what.empty() || out.verdict == Verdict::nothing) out = say;
        }
        return out;
    }

    const Function& f_;
    const std::vector<GivenArgument>& given_;
    Uses uses_;
    std::map<Value, std::size_t> argument_;
    std::vector<bool> depends_, data_;
};

}  // namespace

Structure read_structure(const Module& module, const std::vector<GivenArgument>& given) {
    const Module raised = raised_copy(module, given);
    Structure out;
    out.arguments = RoleReader(raised.main(), given).read();
    NamedModules named = name_modules(raised.main(), module.main());
    out.modules = std::move(named.modules);
    out.layers = named.layers;
    return out;
}

}  // namespace thunderc

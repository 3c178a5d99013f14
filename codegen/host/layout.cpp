// SPDX-License-Identifier: Apache-2.0
#include "codegen/host/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "codegen/host/block_calls.h"
#include "codegen/host/parameters.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Parameters in 16 bits: a layer's are w16.…, others w16_….
constexpr const char* narrow_copies_variable = "w16";

using Arena = Placement::Arena;

// "model.layers.{0..31}.self_attn.q_proj.weight" without the scope of the layer and a plain ".weight".
std::vector<std::string> leaf_candidates(const std::string& pattern) {
    std::string leaf = pattern;
    if (std::size_t close = leaf.find('}'); close != std::string::npos && close + 2 <= leaf.size())
        leaf = leaf.substr(close + 2);
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= leaf.size();) {
        std::size_t dot = std::min(leaf.find('.', begin), leaf.size());
        parts.push_back(leaf.substr(begin, dot - begin));
        begin = dot + 1;
    }
    std::string last;
    if (parts.size() > 1 && parts.back() == "weight")
        parts.pop_back();
    else if (parts.size() > 1) {
        last = "_" + parts.back();
        parts.pop_back();
    }
    std::vector<std::string> out;  // from the shortest to the longest, none of which is a number alone
    std::string name;
    for (std::size_t k = parts.size(); k-- > 0;) {
        name = name.empty() ? parts[k] : parts[k] + "_" + name;
        if (k > 0 && k + 1 == parts.size() && parts[k].starts_with("lora_")) continue;  // of which layer stands before
        if (name.find_first_not_of("0123456789_") != std::string::npos) out.push_back(identifier(name + last));
    }
    if (out.empty()) out.push_back(identifier(name + last));
    return out;
}

std::string pick(const std::vector<std::string>& candidates, UsedNames& used) {
    for (const std::string& c : candidates)
        if (!used.has(c)) {
            used.add(c);
            return c;
        }
    return used.unique(candidates.back());
}

}  // namespace

std::string_view cpp_type(DType dtype) {
    const std::string_view type = row_of(dtype).cpp;
    check(!type.empty() && dtype != DType::f64, fmt::format("no program computes in {}", name_of(dtype)));
    return type;
}

std::string snake_case(const std::string& camel) {
    std::string out;
    for (std::size_t k = 0; k < camel.size(); ++k) {
        const auto c = static_cast<unsigned char>(camel[k]);
        const bool lower_before = k > 0 && std::islower(static_cast<unsigned char>(camel[k - 1])) != 0;
        const bool lower_after = k + 1 < camel.size() && std::islower(static_cast<unsigned char>(camel[k + 1])) != 0;
        if (std::isupper(c) != 0 && k > 0 && camel[k - 1] != '_' && (lower_before || lower_after)) out += '_';
        out += static_cast<char>(std::tolower(c));
    }
    return out;
}

std::string camel_case(const std::string& snake) {
    std::string out;
    bool upper = true;
    for (char c : snake) {
        if (c == '_')
            upper = true;
        else {
            out += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
            upper = false;
        }
    }
    return out;
}

const LayerField* LayerStruct::find(const Placement& place) const {
    for (const LayerField& field : fields)
        if (field.arena == place.arena && field.offset == place.offset && field.stride == place.layer_stride &&
            field.slots == place.slots)
            return &field;
    return nullptr;
}

ProgramLayout::ProgramLayout(const Module& module)
    : module_(&module), calls_(module), symbols_(module), communication_(module), arenas_(module) {
    find_structs();
}

DType ProgramLayout::compute_dtype() const {
    for (const Function& f : module_->functions)
        for (std::size_t k = 0; k < f.argument_info.size(); ++k) {
            const ArgInfo::Kind kind = f.argument_info[k].kind;
            if ((kind == ArgInfo::Kind::parameter || kind == ArgInfo::Kind::state) &&
                is_narrow(f.type(f.arguments[k]).dtype))
                return f.type(f.arguments[k]).dtype;
        }
    return DType::f32;
}

std::string ProgramLayout::trained_constant() const {
    return fmt::format("{}_{}", arenas_.any_frozen() ? "TRAINED" : "PARAMETER",
                       mixed_precision() ? "ELEMENTS" : "BYTES");
}

DType ProgramLayout::gradient_dtype() const {
    const Function& main = module_->main();
    for (std::size_t k = 0; k < main.argument_info.size(); ++k)
        if (is_state(main.argument_info[k], gradient_state)) return main.type(main.arguments[k]).dtype;
    return DType::f32;
}

std::string ProgramLayout::layer_name(const Function& body) const {
    std::string name = body.name;
    for (const char* suffix : {"_forward", "_backward"})
        if (name.ends_with(suffix)) name.resize(name.size() - std::string(suffix).size());
    return identifier(name);
}

const LayerStruct* ProgramLayout::struct_of(const Placement& place) const {
    const auto at = structs_at_.find({place.arena, place.offset});
    if (at == structs_at_.end()) return nullptr;
    for (std::size_t k : at->second)
        if (structs_[k].find(place) != nullptr) return &structs_[k];
    return nullptr;
}

const UsedNames& ProgramLayout::names_around() const {
    if (names_around_) return *names_around_;
    UsedNames& used = names_around_.emplace(
        std::vector<std::string>{"stream",  "scratch", "mode",   "layer", "held",    "w",         "g",         "saved",
                                 "arenas_", "arenas",  "at",     "B",     "T",       "copy",      "fill_zero", "range",
                                 "Range",   "offset",  "layout", "std",   "thunder", "WriteMode", "Activation"});
    for (const Symbol& s : symbols_.all()) used.add(s.name);
    // A value must not hide a function that the statements call.
    for (const Function& f : module_->functions) {
        if (f.is_loop_body()) continue;  // printed where it is called
        used.add(identifier(f.name));
        for (const Op& op : f.ops)
            if (const OpDef& def = op_def(op.name); def.call) used.add(def.call(op, f).function);
    }
    for (const LayerStruct& s : structs_) used.add(s.function);
    return used;
}

const std::vector<std::size_t>& ProgramLayout::arguments_at(const Function& f, const Placement& place) const {
    const auto [of, is_new] = arguments_at_.try_emplace(f.name);
    if (is_new)
        for (std::size_t k = 0; k < f.arguments.size(); ++k) {
            const Placement& own = f.info(f.arguments[k]).placement;
            of->second[{own.arena, own.offset}].push_back(k);
        }
    static const std::vector<std::size_t> none;
    const auto at = of->second.find({place.arena, place.offset});
    return at == of->second.end() ? none : at->second;
}

const std::vector<std::string>& ProgramLayout::names(const Function& function) const {
    auto [found, is_new] = names_.try_emplace(function.name);
    if (!is_new) return found->second;
    std::vector<std::string>& out = found->second;
    out.resize(function.values.size());
    UsedNames used(&names_around());
    // In model.cpp there are streams as well. Blocks have the same names whatever the ranks do around them.
    if (communication_.any() && (function.is_loop_body() || !function.argument_info.empty())) {
        used.add({"micro_step", "layers", "sent"});
        for (const Communication::StreamName& s : communication_.streams()) used.add(s.name);
    }
    // A result that takes the place of an argument is that tensor.
    std::map<Value, Value> replaced;
    std::map<std::string_view, Value> named;
    for (Value a : function.arguments) named.insert_or_assign(function.info(a).name, a);
    for (std::size_t r = 0; r < function.results.size() && r < function.result_names.size(); ++r)
        if (const auto at = named.find(function.result_names[r]); at != named.end())
            replaced[function.results[r]] = at->second;
    const char* const shard = module_->units.empty() ? "" : "_shard";
    auto give = [&](Value v, const std::string& hint) {
        if (auto at = replaced.find(v); at != replaced.end())
            out[v.index] = out[at->second.index];
        else
            out[v.index] = used.unique(hint);
    };
    for (std::size_t k = 0; k < function.arguments.size(); ++k) {
        Value v = function.arguments[k];
        if (k < function.argument_info.size() && function.argument_info[k].kind == ArgInfo::Kind::parameter) {
            std::vector<std::string> candidates = leaf_candidates(name_pattern(function.argument_info[k].names));
            for (std::string& c : candidates) c = "w_" + c + shard;  // as a layer's are w.…
            out[v.index] = pick(candidates, used);
        } else if (k < function.argument_info.size() && function.argument_info[k].kind == ArgInfo::Kind::state) {
            std::string pattern = name_pattern(function.argument_info[k].names);
            const std::size_t dot = pattern.find('.');
            const std::string state = pattern.substr(0, dot);
            std::vector<std::string> candidates = leaf_candidates(pattern.substr(dot + 1));
            for (std::string& c : candidates)
                c = (state == "grad"          ? "g"
                     : state == "narrow_copy" ? narrow_copies_variable
                                              : state) +
                    "_" + c + (state == scaling_state ? "" : shard);
            out[v.index] = pick(candidates, used);
        } else {
            give(v, function.info(v).name);
        }
    }
    // What lies whole in the place of another value is that tensor, perhaps seen with other dimensions; so is
    // what a result that takes an argument's place is a view of.
    auto same_tensor = [&](Value v) {
        const Placement& p = function.info(v).placement;
        if (!p.view_of || !p.strides.empty() || p.offset != function.info(p.view_of).placement.offset) return false;
        if (replaced.contains(p.view_of)) return true;
        const Type &type = function.type(v), &whole = function.type(p.view_of);
        return type.dtype == whole.dtype && type.count == whole.count && type.elements() == whole.elements();
    };
    // Tensors in a unit are called after their parameters, whatever wrote them last.
    std::map<std::pair<Arena, std::int64_t>, std::string> in_units;
    auto in_unit = [&](const Op& op, Value v) {
        const Placement& p = function.info(v).placement;
        if (is_unpack(op)) {
            std::vector<std::string> candidates = leaf_candidates(parameter_of_unit(*module_, function, v));
            const std::string kind = p.arena != Arena::gathered                           ? "g"
                                     : gathered_from_narrow_copies(*module_, function, v) ? narrow_copies_variable
                                                                                          : "w";
            for (std::string& c : candidates) c = kind + "_" + c;
            in_units.insert_or_assign({p.arena, p.offset}, pick(candidates, used));  // by turns in one place
        }
        const auto at = in_units.find({p.arena, p.offset});
        if (at == in_units.end() || is_pack(op) || is_collective(op, Collective::all_gather)) return false;
        out[v.index] = at->second;
        return true;
    };
    for (const Op& op : function.ops)
        for (Value v : op.results) {
            if (in_unit(op, v)) continue;
            if (is_collective(op, Collective::all_gather) || is_unwritten(op) || is_pack(op)) {
                give(v, function.info(v).name + "_unit");
                continue;
            }
            const Value whole = function.info(v).placement.view_of;
            if (same_tensor(v) && !out[whole.index].empty())
                out[v.index] = out[whole.index];
            else
                give(v, function.info(v).name);
        }
    for (const Op& op : function.ops)
        for (Value v : op.results)
            if (same_tensor(v)) out[v.index] = out[function.info(v).placement.view_of.index];
    return out;
}

void ProgramLayout::find_structs() {
    for (const Function& f : module_->functions)
        for (const Op& op : f.ops)
            if (is_loop(op)) add_struct(f, op);
}

void ProgramLayout::add_struct(const Function& caller, const Op& loop) {
    const Function& body = callee(*module_, loop);
    const Function& block = block_of(*module_, body);
    const auto carried = loop_carried(loop);
    const auto per_layer = loop_per_layer(loop);
    const std::int64_t n = loop_count(loop);
    auto add = [&](const Function& function_of, Value v, const std::string& hint, const std::string& what) {
        const Placement& place = function_of.info(v).placement;
        if (struct_of(place) != nullptr) return;
        std::string suffix, variable;
        switch (place.arena) {
            case Arena::parameters:
            case Arena::gathered:
                suffix = gathered_from_narrow_copies(*module_, function_of, v) ? "narrow_copies" : "weights";
                variable = suffix == "weights" ? "w" : narrow_copies_variable;
                break;
            case Arena::narrow_copies:
                suffix = "narrow_copies";
                variable = narrow_copies_variable;
                break;
            case Arena::gradients:
            case Arena::unit_gradients:
                suffix = "gradients";
                variable = "g";
                break;
            case Arena::saved:
                suffix = "saved";
                variable = "saved";
                break;
            case Arena::scaling:
                suffix = "scaling";
                variable = "fp8";
                break;
            default: return;
        }
        const std::string layer = layer_name(block);
        const std::string function = layer + "_" + suffix;
        LayerStruct* target = nullptr;
        for (LayerStruct& s : structs_)
            if (s.function == function && s.layers == n) target = &s;
        if (target == nullptr) {
            structs_.push_back({camel_case(function), function, variable, place.arena, n, block.scope, {}});
            target = &structs_.back();
        }
        UsedNames used;
        for (const LayerField& field : target->fields) used.add(field.name);
        std::string name = what.empty() ? used.unique(hint) : pick(leaf_candidates(what), used);
        const auto number = static_cast<std::size_t>(target - structs_.data());
        std::vector<std::size_t>& there = structs_at_[{place.arena, place.offset}];
        if (std::find(there.begin(), there.end(), number) == there.end()) there.push_back(number);
        target->fields.push_back({name, function_of.type(v).member(), symbols_.shape(function_of, v), place.offset,
                                  place.layer_stride, what, place.arena, place.slots});
    };
    // What the caller's argument in the same place is called outside; "" where there is none.
    auto framework_name = [&](const Function& function_of, Value v) {
        std::string what = parameter_of_unit(*module_, function_of, v);
        if (!what.empty() || &function_of != &caller) return what;
        for (std::size_t a : arguments_at(caller, caller.info(v).placement))
            if (a < caller.argument_info.size() &&
                caller.info(caller.arguments[a]).placement == caller.info(v).placement)
                what = name_pattern(caller.argument_info[a].names);
        if (caller.info(v).placement.arena == Arena::gradients && what.starts_with("grad.")) what = what.substr(5);
        if (caller.info(v).placement.arena == Arena::narrow_copies && what.starts_with("narrow_copy."))
            what = what.substr(narrow_copy_state.size() + 1);
        if (caller.info(v).placement.arena == Arena::scaling && !what.empty())
            what = what.substr(scaling_state.size() + 1);
        return what;
    };
    const BlockCall call = block_call(calls_, block.name);
    const bool here = call.loop == &loop;  // else another loop calls the same block, whose structs these are
    auto add_outside = [&](const BlockCall::Outside& o, const std::string& hint) {
        if (o.role == BlockCall::Role::layer) add(*o.function, o.value, hint, framework_name(*o.function, o.value));
    };
    if (!here && !body.is_loop_body()) {
        for (std::size_t k = carried; k < carried + per_layer; ++k)
            add(caller, loop.operands[k], body.info(body.arguments[k]).name, framework_name(caller, loop.operands[k]));
    } else if (here) {
        for (std::size_t k = 0; k < block.arguments.size(); ++k)
            add_outside(call.argument(k), block.info(block.arguments[k]).name);
    }
    for (std::size_t r = carried; r < loop.results.size(); ++r) {
        const bool shard = std::any_of(body.ops.begin(), body.ops.end(), [&](const Op& op) {
            return is_collective(op, Collective::reduce_scatter) && op.results[0] == body.results[r];
        });
        if (!shard)
            add(caller, loop.results[r], body.info(body.results[r]).name, framework_name(caller, loop.results[r]));
    }
    for (std::size_t r = 0; here && r < block.results.size(); ++r)
        add_outside(call.result(r), block.info(block.results[r]).name);
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/distributed/shard_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/distributed/distribute_parts.h"
#include "compiler/planned/parameter_places.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"
#include "runtime-lib/optim/state_layout.h"

namespace thunderc::distributing {
namespace {

constexpr std::int64_t usual_granularity = 32;  // elements: 64 bytes of the smallest type

std::int64_t rounded_up(std::int64_t n, std::int64_t to) {
    return (n + to - 1) / to * to;
}

std::string without_suffix(std::string name, const std::string& suffix) {
    if (name.size() > suffix.size() && name.ends_with(suffix)) name.resize(name.size() - suffix.size());
    return name;
}

// The loops of the entry that take a family layer by layer; none where something else reads it, too.
std::vector<std::size_t> loops_of(const Function& f, Value v) {
    std::vector<std::size_t> out;
    for (std::size_t k = 0; k < f.ops.size(); ++k) {
        const Op& op = f.ops[k];
        const bool loop = is_loop(op);
        const auto carried = loop ? loop_carried(op) : 0;
        const auto per_layer = loop ? loop_per_layer(op) : 0;
        std::size_t taken = 0;
        for (std::size_t o = 0; o < op.operands.size(); ++o) {
            if (op.operands[o] != v) continue;
            if (o < carried || o >= carried + per_layer) return {};
            ++taken;
        }
        if (taken > 1) return {};
        if (taken == 1) out.push_back(k);
    }
    return out;
}

class Units {
  public:
    Units(const Module& module, std::int64_t shards)
        : module_(module),
          f_(module.main()),
          shards_(shards),
          places_(planning::place_parameters(module)),
          coded_(has_coded_states(module)) {}

    std::vector<Unit> find() {
        const std::vector<GradientResult> gradients = gradient_results(f_);
        for (std::size_t k = 0; k < f_.arguments.size(); ++k)
            if (f_.argument_info[k].kind == ArgInfo::Kind::parameter) add(k, gradients);
        for (Unit& unit : units_) lay_out(unit);
        return std::move(units_);
    }

  private:
    void add(std::size_t argument, const std::vector<GradientResult>& gradients) {
        UnitParameter p;
        p.value = f_.arguments[argument];
        p.info = f_.argument_info[argument];
        p.type = f_.type(p.value);
        const std::string& name = p.info.names.front();
        const GradientResult* gradient = nullptr;
        for (const GradientResult& g : gradients)
            if (g.parameter == name) gradient = &g;
        if (gradient != nullptr) {
            p.result = f_.results[gradient->result];
            for (std::size_t k = 0; k < f_.arguments.size(); ++k)
                if (f_.argument_info[k].kind == ArgInfo::Kind::state &&
                    f_.argument_info[k].names.front() == state_name(gradient_state, name))
                    p.gradient = f_.arguments[k];
        }
        Unit unit;
        unit.trained = static_cast<bool>(p.gradient);
        unit.dtype = unit.master_dtype = p.type.dtype;
        for (std::size_t k = 0; k < f_.arguments.size(); ++k) {
            const ArgInfo& info = f_.argument_info[k];
            if (info.kind != ArgInfo::Kind::state || info.names.front() != state_name(narrow_copy_state, name))
                continue;
            check(std::none_of(f_.ops.begin(), f_.ops.end(),
                               [&](const Op& op) {
                                   return std::find(op.operands.begin(), op.operands.end(), p.value) !=
                                          op.operands.end();
                               }),
                  name + " is read beside its narrow copy");
            p.value = f_.arguments[k];
            unit.with_narrow_copy = true;
            unit.dtype = f_.type(p.value).dtype;
        }
        unit.gradient_dtype = p.gradient ? f_.type(p.gradient).dtype : p.type.dtype;
        unit.matrices = p.type.rank() >= 2;
        std::string key = fmt::format("{} {} {} ", unit.trained, name_of(unit.dtype), name_of(unit.master_dtype));
        const std::vector<std::size_t> loops = p.type.is_family() ? loops_of(f_, p.value) : std::vector<std::size_t>();
        const bool layered = unit.matrices && !loops.empty() && (gradient == nullptr || layered_gradient(p, *gradient));
        if (!unit.matrices) {
            unit.name = unit.trained ? "norms" : "norms_frozen";
            unit.what = "all vectors";
            key += "vectors";
        } else if (layered) {
            const Function& body = *module_.find(loop_body(f_.ops[loops.front()]));
            const std::string scope = body.scope.substr(0, body.scope.find(".{"));
            unit.name = scope.empty() ? "layers" : scope.substr(scope.rfind('.') + 1);
            unit.what = body.scope.empty() ? "layers" : body.scope;
            unit.layered = true;
            unit.count = p.type.count;
            key += fmt::format("loops {} {}", loops.front(), gradient == nullptr ? -1 : gradient->op);
        } else {
            const std::string leader = first_of(name);
            unit.name = unit.what = without_suffix(leader, ".weight");
            key += "alone " + leader;
        }
        auto [at, fresh] = by_key_.try_emplace(key, units_.size());
        if (fresh) {
            const std::string wanted = unit.name;
            for (int k = 1; !names_.insert(unit.name).second; ++k) unit.name = fmt::format("{}_{}", wanted, k);
            units_.push_back(std::move(unit));
        }
        units_[at->second].parameters.push_back(std::move(p));
    }

    // Added up in the loop, member by member: nothing else reads it, before or after.
    bool layered_gradient(const UnitParameter& p, const GradientResult& g) const {
        return g.layered && loops_of(f_, p.gradient) == std::vector<std::size_t>{static_cast<std::size_t>(g.op)};
    }

    std::string first_of(std::string name) const {
        for (auto at = places_.behind.find(name); at != places_.behind.end(); at = places_.behind.find(name))
            name = at->second;
        return name;
    }

    // In the order in which the parameters of one rank lie, with what has to lie side by side; vectors of layers layer
    // by layer.
    void lay_out(Unit& unit) {
        // A block of codes is of one parameter and of one shard.
        const std::int64_t granularity = coded_ && unit.matrices && unit.trained
                                             ? static_cast<std::int64_t>(thunder::rules::block_elements)
                                             : usual_granularity;
        auto offset = [this](const UnitParameter& p) { return places_.by_name.at(p.info.names.front()).offset; };
        std::stable_sort(unit.parameters.begin(), unit.parameters.end(),
                         [&](const UnitParameter& a, const UnitParameter& b) { return offset(a) < offset(b); });
        std::int64_t end = 0;
        for (std::size_t k = 0; k < unit.parameters.size();) {
            // Those that have as many members and lie in the same layers.
            const std::int64_t count = unit.layered ? 1 : unit.parameters[k].type.count;
            const std::int64_t stride = places_.by_name.at(unit.parameters[k].info.names.front()).layer_stride;
            std::size_t next = k;
            std::int64_t at = 0;
            std::string previous;
            for (; next < unit.parameters.size(); ++next) {
                UnitParameter& p = unit.parameters[next];
                const std::string& name = p.info.names.front();
                if ((unit.layered ? 1 : p.type.count) != count ||
                    (!unit.layered && places_.by_name.at(name).layer_stride != stride))
                    break;
                const auto behind = places_.behind.find(name);
                if (previous.empty() || behind == places_.behind.end() || behind->second != previous)
                    at = rounded_up(at, granularity);
                p.offset = end + at;
                if (p.offset % granularity != 0 && granularity > usual_granularity) refuse_to_cut(p, previous);
                at += p.type.elements();
                previous = name;
            }
            const std::int64_t one = rounded_up(at, granularity);
            for (std::size_t m = k; m < next; ++m) unit.parameters[m].stride = count > 1 ? one : 0;
            end += one * count;
            k = next;
        }
        unit.elements = rounded_up(end, granularity * shards_);
    }

    // Weights of one product lie side by side, whatever blocks there are.
    [[noreturn]] static void refuse_to_cut(const UnitParameter& p, const std::string& previous) {
        Diagnostic d;
        d.message = fmt::format(
            "states in 8 bits are cut in blocks of {} elements, and {} begins within one: it lies behind {}, of one "
            "product with it, whose elements are no multiple",
            thunder::rules::block_elements, p.info.names.front(), previous);
        d.help = "shards have whole blocks alone: leave --optim-dtype 8bit out, or take --dp";
        throw UserError(std::move(d));
    }

    const Module& module_;
    const Function& f_;
    std::int64_t shards_;
    planning::ParameterPlaces places_;
    bool coded_;  // states of matrices are codes
    std::vector<Unit> units_;
    std::map<std::string, std::size_t> by_key_;
    std::set<std::string> names_;
};

}  // namespace

ShardUnit Unit::described() const {
    ShardUnit out{name, count, elements, {}};
    for (const UnitParameter& p : parameters) out.tensors.push_back({p.info, p.type.dims, p.offset, p.stride});
    return out;
}

ArgInfo Unit::info() const {
    ArgInfo out;
    out.kind = ArgInfo::Kind::parameter;
    for (std::int64_t k = 0; layered && k < count; ++k) out.names.push_back(fmt::format("{}.{}", name, k));
    if (!layered) out.names = {name};
    out.aliases.resize(out.names.size());
    out.sources.resize(out.names.size());
    out.trainable = trained;
    return out;
}

Type Unit::shard_type(DType of, const Mesh& mesh) const {
    const Dims dims = {elements / mesh.shards};
    return layered ? Type::family(count, of, dims) : Type::tensor(of, dims);
}

std::vector<Unit> shard_units(const Module& module, std::int64_t shards) {
    return Units(module, shards).find();
}

std::vector<Unit> units_of_evaluation(const Module& module, std::vector<Unit> units) {
    const Function* f = module.find(evaluate_function);
    if (f == nullptr) return units;
    std::set<Value> read;
    for (const Op& op : f->ops) read.insert(op.operands.begin(), op.operands.end());
    const auto argument = [f](ArgInfo::Kind kind, const std::string& name) {
        for (std::size_t k = 0; k < f->arguments.size(); ++k)
            if (f->argument_info[k].kind == kind && f->argument_info[k].names.front() == name) return f->arguments[k];
        return Value{};
    };
    for (Unit& unit : units)
        for (UnitParameter& p : unit.parameters) {
            const std::string& name = p.info.names.front();
            const Value parameter = argument(ArgInfo::Kind::parameter, name);
            p.value = parameter;
            if (unit.with_narrow_copy) {
                check(!parameter || !read.contains(parameter), name + " is read beside its narrow copy");
                p.value = argument(ArgInfo::Kind::state, state_name(narrow_copy_state, name));
            }
            p.gradient = p.result = {};
        }
    return units;
}

void update_shards(Module& module, const std::vector<Unit>& units, const Mesh& mesh) {
    Function& old = *module.find(update_function);
    const Op* step = nullptr;
    for (const Op& op : old.ops)
        if (op_def(op.name).optimizer) step = &op;
    check(step != nullptr, "@update has no optimizer");
    check(!thunder::find_rule(step->name)->steps_wholes(), step->name + " steps whole tensors, and shards are none");
    Function f;
    f.name = old.name;
    std::size_t scalars = 0, count = 0;  // of the operands; arguments of the first group
    std::vector<std::string> prefixes;   // of the groups: "", "grad", "first_moment", ...
    std::map<Value, Value> to;
    auto argument = [&old](Value v) {
        return static_cast<std::size_t>(std::find(old.arguments.begin(), old.arguments.end(), v) -
                                        old.arguments.begin());
    };
    while (count < step->operands.size() &&
           old.argument_info[argument(step->operands[count])].kind == ArgInfo::Kind::parameter)
        ++count;
    std::vector<DType> dtypes;  // of the groups, where states are no codes
    for (std::size_t k = 0; k < step->operands.size(); k += count) {
        const std::size_t a = argument(step->operands[k]);
        if (a >= old.arguments.size() || old.argument_info[a].kind == ArgInfo::Kind::scalar) {
            scalars = step->operands.size() - k;
            break;
        }
        const std::string& name = old.argument_info[a].names.front();
        const std::string& parameter = old.argument_info[argument(step->operands[0])].names.front();
        prefixes.push_back(k == 0 ? "" : name.substr(0, name.size() - parameter.size() - 1));
        dtypes.push_back(old.type(step->operands[k]).dtype);
    }
    std::vector<Value> operands, gradients;
    std::vector<std::int64_t> matrices;
    const bool coded = has_coded_states(module);
    const std::size_t first_scales = 2 + thunder::find_rule(step->name)->states.size();
    for (std::size_t group = 0; group < prefixes.size(); ++group)
        for (const Unit& unit : units) {
            if (!unit.trained) continue;
            const std::string& prefix = prefixes[group];
            Type type = unit.shard_type(dtypes[group], mesh);
            if (coded && group >= first_scales) {
                type.dims = {unit.matrices ? thunder::blocks_of_codes(type.elements()) : 0};
            } else if (coded && group >= 2) {
                type.dtype = unit.matrices ? DType::u8 : DType::f32;
            }
            const Value v =
                f.add_argument(type, unique_value_name(f, prefix.empty() ? unit.name : prefix + "_" + unit.name),
                               prefix.empty() ? unit.info() : state_info(unit.info(), prefix));
            operands.push_back(v);
            if (prefix == gradient_state) gradients.push_back(v);
            if (group == 0)
                matrices.insert(matrices.end(), static_cast<std::size_t>(unit.count), unit.matrices ? 1 : 0);
        }
    const std::size_t units_stepped = matrices.empty() ? 0 : operands.size() / prefixes.size();
    for (std::size_t k = 0; k < old.arguments.size(); ++k)
        if (old.argument_info[k].kind == ArgInfo::Kind::scalar)
            to[old.arguments[k]] =
                f.add_argument(old.type(old.arguments[k]), old.info(old.arguments[k]).name, old.argument_info[k]);
    std::vector<Value> narrow_copies;
    for (const Unit& unit : units)
        if (unit.trained && step->attributes.has("narrow_copies"))
            narrow_copies.push_back(f.add_argument(unit.shard_type(step->attributes.dtype("narrow_copies"), mesh),
                                                   unique_value_name(f, "narrow_copy_" + unit.name),
                                                   state_info(unit.info(), narrow_copy_state)));
    Builder b(f);
    const Attributes executor = {{"executor", std::string("optimizer")}};
    const Value squares = b.op("sum_of_squares", gradients, executor, "squares");
    const std::vector<Value> sent = b.emit("all_reduce_start", {squares, {}},
                                           {{"group", std::string("shard")},
                                            {"ranks", mesh.shards},
                                            {"name", std::string("norm")},
                                            {"what", std::string("the squares of gradients")}},
                                           "squares");
    f.info(sent[1]).name = "sent";
    const Value norm = b.op("norm_of_squares", {b.op("await", sent, {}, "squares")}, executor, "grad_norm");
    for (const Op& op : old.ops) {
        if (op.name == "global_norm") to[op.results[0]] = norm;
        if (op.name == "clip_factor")
            to[op.results[0]] =
                b.op("clip_factor", {norm, to.at(op.operands[1])}, op.attributes, old.info(op.results[0]).name);
    }
    for (std::size_t k = step->operands.size() - scalars; k < step->operands.size(); ++k)
        operands.push_back(to.at(step->operands[k]));
    Attributes attributes = step->attributes;
    attributes.set("matrices", matrices);
    f.results = b.emit(step->name, operands, attributes);
    for (std::size_t r = 0; r < f.results.size(); ++r) {
        const std::size_t stepped = f.results.size() - narrow_copies.size();
        const Value replaced = r >= stepped        ? narrow_copies[r - stepped]
                               : r < units_stepped ? operands[r]
                                                   : operands[r + units_stepped];
        f.result_names.push_back(f.info(replaced).name);
        f.info(f.results[r]).name = f.info(replaced).name + "_after";
    }
    f.results.push_back(norm);
    f.result_names.emplace_back("grad_norm");
    // Scales of what is quantised are whole on each rank, and follow from amaxes that all have.
    for (const Op& op : old.ops) {
        if (op.name != "fp8_update_scales") continue;
        std::vector<Value> states;
        for (const Value v : op.operands)
            states.push_back(f.add_argument(old.type(v), old.info(v).name, old.argument_info[argument(v)]));
        const std::vector<Value> after = b.emit(op.name, states, op.attributes);
        for (std::size_t r = 0; r < after.size(); ++r) {
            f.info(after[r]).name = old.info(op.results[r]).name;
            f.results.push_back(after[r]);
            f.result_names.push_back(f.info(states[r]).name);
        }
    }
    old = std::move(f);
}

}  // namespace thunderc::distributing

// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/name_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compiler/analysis/parameter_names.h"
#include "compiler/passes/layers/find_blocks.h"

namespace thunderc {
namespace {

constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

// Where an op stands: in period `period` of run `run`, or in no layer.
struct Place {
    std::size_t run = nowhere, period = nowhere, op = nowhere;
};

using Periods = std::vector<std::vector<std::size_t>>;  // ops of each layer, in the same order

// All runs of repeated layers, in the order in which they begin.
std::vector<Periods> all_runs(const Function& f) {
    Function probe = f;
    std::vector<Periods> out;
    std::int64_t mark = 0;
    for (FoundBlocks found = find_blocks(probe); !found.runs.empty(); found = find_blocks(probe))
        for (BlockRun& run : found.runs) {
            for (const std::vector<std::size_t>& ops : run.periods)
                for (std::size_t k : ops)
                    probe.ops[k].attributes.set("taken", mark++);  // and equal to no other from now on
            out.push_back(std::move(run.periods));
        }
    std::sort(out.begin(), out.end(), [](const Periods& a, const Periods& b) { return a[0][0] < b[0][0]; });
    return out;
}

// ---- names in one layer, or outside of all layers -------------------------------------------------------------------

class LocalNamer {
  public:
    // The names of `ops`, none of which is called after an op that is not among them.
    LocalNamer(const Function& f, const Uses& uses, const std::vector<std::size_t>& ops, bool layer)
        : f_(f), uses_(uses), ops_(ops), members_(ops.begin(), ops.end()), layer_(layer) {}

    std::map<std::size_t, ModulePath> run() {
        name_attention();
        name_gated();
        name_activations();
        name_embeddings();
        number("norm", "RMSNorm", [this](std::size_t k) { return f_.ops[k].name == "rms_norm"; });
        number("norm", "LayerNorm", [this](std::size_t k) { return f_.ops[k].name == "layer_norm"; });
        name_head();
        number("linear", "Linear", [this](std::size_t k) { return is_linear(k); });
        make_unique();
        return names_;
    }

  private:
    bool is_linear(std::size_t k) const { return f_.ops[k].name == "linear"; }
    bool named(std::size_t k) const { return names_.contains(k); }

    std::vector<std::size_t> all(const std::set<std::string>& op_names) const {
        std::vector<std::size_t> out;
        for (std::size_t k : ops_)
            if (op_names.contains(f_.ops[k].name)) out.push_back(k);
        return out;
    }

    // "mlp", or "mlp_1", "mlp_2" where there are several.
    static std::string group(const std::string& name, std::size_t index, std::size_t count) {
        return count == 1 ? name : fmt::format("{}_{}", name, index + 1);
    }

    // Operands that a value becomes, of ops of this part that are no views: what it is behind reshapes and slices, and
    // behind what attention does to queries and keys.
    void readers(Value v, bool turned, std::set<std::pair<std::size_t, std::size_t>>& out) const {
        static const std::set<std::string> views = {"reshape", "transpose", "cast", "broadcast_to", "slice"};
        for (std::int32_t user : uses_.users[v.index]) {
            const auto k = static_cast<std::size_t>(user);
            const Op& op = f_.ops[k];
            const bool norm = op.name == "rms_norm" || op.name == "layer_norm" || op.name == "rotary";
            if (views.contains(op.name) || (turned && norm && op.operands[0] == v)) {
                readers(op.results[0], turned, out);
                continue;
            }
            for (std::size_t o = 0; o < op.operands.size() && members_.contains(k); ++o)
                if (op.operands[o] == v) out.emplace(k, o);
        }
    }

    std::optional<std::size_t> producer(Value v) const {
        static const std::set<std::string> views = {"reshape", "transpose", "cast", "broadcast_to", "slice"};
        std::int32_t k = uses_.definition[v.index];
        while (k >= 0 && views.contains(f_.ops[static_cast<std::size_t>(k)].name))
            k = uses_.definition[f_.ops[static_cast<std::size_t>(k)].operands[0].index];
        if (k < 0 || !members_.contains(static_cast<std::size_t>(k))) return std::nullopt;
        return static_cast<std::size_t>(k);
    }

    void name_attention() {
        const std::vector<std::size_t> attentions = all({"sdpa"});
        for (std::size_t a = 0; a < attentions.size(); ++a) {
            const std::size_t sdpa = attentions[a];
            const std::string scope = group("attention", a, attentions.size());
            names_[sdpa] = {scope, "Attention"};
            for (std::size_t k : ops_) {
                if (f_.ops[k].name == "rotary") {
                    std::set<std::pair<std::size_t, std::size_t>> to;
                    readers(f_.ops[k].results[0], true, to);
                    if (!to.empty() && to.begin()->first == sdpa) names_[k] = {scope, "Attention"};
                }
                if (!is_linear(k) || named(k)) continue;
                std::set<std::pair<std::size_t, std::size_t>> to;
                readers(f_.ops[k].results[0], true, to);
                std::string name;
                for (const auto& [reader, operand] : to)
                    if (reader == sdpa && operand < 3)
                        name += fmt::format("{}{}", name.empty() ? "" : "_",
                                            std::vector<const char*>{"query", "key", "value"}[operand]);
                if (name.empty() && producer(f_.ops[k].operands[0]) == sdpa) name = "output";
                if (!name.empty()) names_[k] = {scope + "." + name, "Linear"};
            }
        }
    }

    // swiglu, or a product of an activation and what is no activation: what is multiplied are two linears of one input.
    void name_gated() {
        struct Gate {
            std::size_t op;
            std::optional<std::size_t> activation, gate, up;
        };
        std::vector<Gate> gates;
        for (std::size_t k : ops_) {
            const Op& op = f_.ops[k];
            if (op.name == "swiglu") gates.push_back({k, {}, producer(op.operands[0]), producer(op.operands[1])});
            for (std::size_t side = 0; op.name == "mul" && side < 2; ++side) {
                const std::optional<std::size_t> t = producer(op.operands[side]), up = producer(op.operands[1 - side]);
                if (!t || !activations().contains(f_.ops[*t].name) || !up || !is_linear(*up)) continue;
                const std::optional<std::size_t> gate = producer(f_.ops[*t].operands[0]);
                if (gate && is_linear(*gate)) gates.push_back({k, t, gate, up});
            }
        }
        for (std::size_t g = 0; g < gates.size(); ++g) {
            const Gate& gate = gates[g];
            const std::string scope = group("mlp", g, gates.size());
            names_[gate.op] = {scope, "MLP"};
            if (gate.activation) names_[*gate.activation] = {scope, "MLP"};
            auto name = [&](std::optional<std::size_t> k, const char* leaf) {
                if (k && is_linear(*k) && !named(*k)) names_[*k] = {scope + "." + leaf, "Linear"};
            };
            name(gate.gate, gate.gate == gate.up ? "gate_up" : "gate");
            name(gate.up, "up");
            for (std::size_t k : ops_)
                if (is_linear(k) && producer(f_.ops[k].operands[0]) == gate.op) name(k, "down");
        }
    }

    static const std::set<std::string>& activations() {
        static const std::set<std::string> names = {"gelu", "relu", "silu", "tanh", "sigmoid"};
        return names;
    }

    // A product, an activation, a product: an MLP of one hidden layer, not part of a longer chain.
    void name_activations() {
        struct Hidden {
            std::size_t up, activation, down;
        };
        std::vector<Hidden> found;
        std::set<std::size_t> seen, chained;
        for (std::size_t t : all(activations())) {
            if (named(t)) continue;
            std::set<std::pair<std::size_t, std::size_t>> to;
            readers(f_.ops[t].results[0], false, to);
            const std::optional<std::size_t> up = producer(f_.ops[t].operands[0]);
            if (!up || !is_linear(*up) || named(*up) || to.size() != 1) continue;
            const std::size_t down = to.begin()->first;
            if (!is_linear(down) || named(down) || to.begin()->second != 0) continue;
            for (std::size_t k : {*up, down})
                if (!seen.insert(k).second) chained.insert(k);
            found.push_back({*up, t, down});
        }
        std::erase_if(found, [&](const Hidden& h) { return chained.contains(h.up) || chained.contains(h.down); });
        for (std::size_t k = 0; k < found.size(); ++k) {
            const std::string scope = group("mlp", k, found.size());
            names_[found[k].up] = {scope + ".up", "Linear"};
            names_[found[k].activation] = {scope, "MLP"};
            names_[found[k].down] = {scope + ".down", "Linear"};
        }
    }

    void name_embeddings() {
        for (std::size_t k : ops_) {
            const Op& op = f_.ops[k];
            if (op.name != "embedding" && op.name != "slice") continue;
            const auto at = std::find(f_.arguments.begin(), f_.arguments.end(), op.operands[0]);
            if (at == f_.arguments.end()) continue;
            const auto& info = f_.argument_info[static_cast<std::size_t>(at - f_.arguments.begin())];
            if (info.kind != ArgInfo::Kind::parameter || f_.type(*at).rank() != 2) continue;
            const bool by_ids = op.name == "embedding" && uses_.definition[op.operands[1].index] < 0;
            names_[k] = {by_ids ? "embedding" : "position_embedding", "Embedding"};
        }
    }

    // The last product of a model that begins with an embedding.
    void name_head() {
        if (layer_) return;
        const bool language =
            std::any_of(f_.ops.begin(), f_.ops.end(), [](const Op& op) { return op.name == "embedding"; });
        for (auto k = ops_.rbegin(); language && k != ops_.rend(); ++k) {
            if (!is_linear(*k)) continue;
            if (!named(*k)) names_[*k] = {"head", "Linear"};
            return;
        }
    }

    template <typename Holds>
    void number(const std::string& name, const std::string& module_class, Holds holds) {
        std::vector<std::size_t> found;
        for (std::size_t k : ops_)
            if (holds(k) && !named(k)) found.push_back(k);
        for (std::size_t k = 0; k < found.size(); ++k) names_[found[k]] = {group(name, k, found.size()), module_class};
    }

    // Two keys of one attention, an RMSNorm beside a LayerNorm. What stands for no module of its own shares a path.
    void make_unique() {
        static const std::set<std::string> modules = {"linear", "rms_norm", "layer_norm", "embedding", "slice"};
        std::set<std::string> taken;
        for (std::size_t k : ops_) {
            if (!named(k) || !modules.contains(f_.ops[k].name)) continue;
            std::string& scope = names_[k].scope;
            const std::string wanted = scope;
            for (int n = 2; !taken.insert(scope).second; ++n) scope = fmt::format("{}_{}", wanted, n);
        }
    }

    const Function& f_;
    const Uses& uses_;
    const std::vector<std::size_t>& ops_;
    std::set<std::size_t> members_;
    bool layer_;
    std::map<std::size_t, ModulePath> names_;
};

// ---- paths ----------------------------------------------------------------------------------------------------------

std::optional<std::int64_t> trailing_number(const std::string& scope) {
    const std::string text = leaf(scope);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

class ModuleNamer {
  public:
    ModuleNamer(const Function& raised, const Function& original)
        : f_(raised), original_(original), uses_(raised), runs_(all_runs(raised)), place_(raised.ops.size()) {}

    NamedModules run() {
        for (std::size_t r = 0; r < runs_.size(); ++r)
            for (std::size_t i = 0; i < runs_[r].size(); ++i)
                for (std::size_t j = 0; j < runs_[r][i].size(); ++j) place_[runs_[r][i][j]] = {r, i, j};
        find_owned();
        paths_.resize(f_.ops.size());
        for (std::size_t r = 0; r < runs_.size(); ++r) name_run(r);
        name_rest();
        NamedModules out;
        out.modules = of_original();
        for (const Periods& run : runs_) out.layers += run.size();
        return out;
    }

  private:
    // The path of the module whose parameter an op is the first to read, where that has its framework's name.
    void find_owned() {
        std::map<Value, std::string> parents;
        for (std::size_t k = 0; k < f_.arguments.size(); ++k) {
            const ArgInfo& info = f_.argument_info[k];
            if (info.kind == ArgInfo::Kind::parameter && is_dotted(info.names.front()))
                parents[f_.arguments[k]] = parent(info.names.front());
        }
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            const Op& op = f_.ops[k];
            if (op.name != "linear" && op.name != "embedding" && op.name != "rms_norm" && op.name != "layer_norm" &&
                op.name != "slice")
                continue;
            for (Value v : op.operands) {
                while (v && uses_.definition[v.index] >= 0 &&
                       f_.ops[static_cast<std::size_t>(uses_.definition[v.index])].name == "transpose")
                    v = f_.ops[static_cast<std::size_t>(uses_.definition[v.index])].operands[0];
                auto at = parents.find(v);
                if (!v || at == parents.end()) continue;
                owned_.emplace(k, at->second);
                parents.erase(at);
            }
        }
    }

    // "model.layers.0", "model.layers.1", …: as parameters' names say, or "layers.0", … .
    std::vector<std::string> layer_paths(std::size_t r) {
        const Periods& run = runs_[r];
        std::map<std::size_t, std::string> known;  // by period
        for (std::size_t i = 0; i < run.size(); ++i)
            for (std::size_t k : run[i])
                if (auto at = owned_.find(k); at != owned_.end() && !known.contains(i))
                    if (std::string path = layer_scope(at->second); !path.empty()) known[i] = path;
        std::vector<std::string> out;
        if (!known.empty()) {
            const auto& [i, path] = *known.begin();
            const auto& [last, last_path] = *known.rbegin();
            const std::int64_t first = *trailing_number(path), span = *trailing_number(last_path) - first;
            const auto periods = static_cast<std::int64_t>(last - i);
            const std::int64_t step = periods == 0 ? 1 : span / periods;
            for (std::size_t p = 0; p < run.size(); ++p) {
                const std::int64_t n = first + step * (static_cast<std::int64_t>(p) - static_cast<std::int64_t>(i));
                out.push_back(fmt::format("{}.{}", parent(path), n));
                if (n < 0 || step < 1 || (known.contains(p) && known[p] != out.back())) {
                    out.clear();
                    break;
                }
            }
        }
        if (!out.empty()) return out;
        const std::string name = runs_.size() == 1 || r == 0 ? "layers" : fmt::format("layers_{}", r + 1);
        for (std::size_t p = 0; p < run.size(); ++p) out.push_back(fmt::format("{}.{}", name, p));
        return out;
    }

    void name_run(std::size_t r) {
        const Periods& run = runs_[r];
        const std::vector<std::string> layers = layer_paths(r);
        const std::map<std::size_t, ModulePath> local = LocalNamer(f_, uses_, run[0], true).run();
        for (std::size_t j = 0; j < run[0].size(); ++j) {
            ModulePath path;
            if (auto at = local.find(run[0][j]); at != local.end()) path = at->second;
            for (std::size_t i = 0; i < run.size(); ++i)
                if (auto at = owned_.find(run[i][j]); at != owned_.end() && at->second.starts_with(layers[i] + "."))
                    path.scope = at->second.substr(layers[i].size() + 1);
            for (std::size_t i = 0; i < run.size(); ++i) {
                auto at = owned_.find(run[i][j]);
                paths_[run[i][j]] = {at != owned_.end()   ? at->second
                                     : path.scope.empty() ? layers[i]
                                                          : layers[i] + "." + path.scope,
                                     path.module_class};
            }
        }
        layers_.push_back(layers);
    }

    void name_rest() {
        std::vector<std::size_t> rest;
        for (std::size_t k = 0; k < f_.ops.size(); ++k)
            if (place_[k].run == nowhere) rest.push_back(k);
        for (const auto& [k, path] : LocalNamer(f_, uses_, rest, false).run()) {
            paths_[k] = path;
            if (auto at = owned_.find(k); at != owned_.end()) paths_[k].scope = at->second;
        }
    }

    // What is left of an op in the copy says where it belongs; an op of which nothing is left belongs to the layer that
    // reads it, if that is one.
    std::vector<ModulePath> of_original() const {
        std::vector<ModulePath> out(original_.ops.size());
        std::vector<std::string> layer(original_.ops.size());
        std::vector<bool> known(original_.ops.size(), false);
        for (std::size_t k = 0; k < f_.ops.size(); ++k)
            for (const std::string& node : f_.ops[k].provenance.nodes) {
                const auto at = static_cast<std::size_t>(std::stoul(node));
                if (known[at] && out[at].scope.size() >= paths_[k].scope.size()) continue;
                known[at] = true;
                out[at] = paths_[k];
                if (place_[k].run != nowhere) layer[at] = layers_[place_[k].run][place_[k].period];
            }
        const Uses uses(original_);
        for (std::size_t k = out.size(); k-- > 0;) {
            if (known[k]) continue;
            std::set<std::string> readers;
            for (Value v : original_.ops[k].results)
                for (std::int32_t user : uses.users[v.index]) readers.insert(layer[static_cast<std::size_t>(user)]);
            if (readers.size() != 1) continue;
            layer[k] = *readers.begin();
            out[k].scope = layer[k];
        }
        return out;
    }

    const Function& f_;
    const Function& original_;
    Uses uses_;
    std::vector<Periods> runs_;
    std::vector<Place> place_;
    std::map<std::size_t, std::string> owned_;      // by op of the copy
    std::vector<std::vector<std::string>> layers_;  // by run, by period
    std::vector<ModulePath> paths_;                 // by op of the copy
};

}  // namespace

NamedModules name_modules(const Function& raised, const Function& original) {
    return ModuleNamer(raised, original).run();
}

}  // namespace thunderc

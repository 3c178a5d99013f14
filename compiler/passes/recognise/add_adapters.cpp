// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/add_adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/analysis/outer_matrices.h"
#include "compiler/analysis/parameter_names.h"
#include "compiler/ops/linear.h"
#include "compiler/passes/pattern.h"
#include "compiler/passes/recognise/parameter_sites.h"
#include "compiler/passes/rewrite.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Before the path of a module, in files of adapters.
constexpr const char* peft_prefix = "base_model.model.";
constexpr std::size_t shown_modules = 8;

[[noreturn]] void refuse_adapters(std::string message, std::string help) {
    Diagnostic d;
    d.message = "--lora: " + std::move(message);
    d.help = std::move(help);
    throw UsageError(std::move(d));
}

// The whole path of a module, or its last parts.
class ModulePattern {
  public:
    explicit ModulePattern(const std::string& pattern) : expression_("(?:.*\\.)?(?:" + pattern + ")") {}
    bool finds(const std::string& path) const { return std::regex_match(path, expression_); }

  private:
    std::regex expression_;
};

// A name and the other names that a parameter answers to.
std::vector<std::string> all_names_of(const ArgInfo& info) {
    std::vector<std::string> names = info.names;
    if (!info.aliases.empty()) names.insert(names.end(), info.aliases[0].begin(), info.aliases[0].end());
    return names;
}

// A parameter of main that is a module's weight.
struct ModuleWeight {
    std::size_t argument = 0;
    std::vector<std::string> modules;  // whose weight it is, by each of its names
};

// A linear layer that gets an adapter.
struct AdaptedLayer {
    std::string path;
    std::size_t weight = 0;  // which argument
    bool transposed = false;
    std::int64_t in = 0, out = 0;
    Value a, b;  // the adapter's parameters
};

// The argument that is read, and whether it is (in, out).
struct WeightRead {
    Value argument;
    bool transposed = false;
};
WeightRead weight_read_by(const Definitions& d, const Op& linear) {
    WeightRead read{linear.operands[linear_weight(0)]};
    for (const Op* op = d.op(read.argument); op != nullptr; op = d.op(read.argument)) {
        if (op->name != "transpose" && op->name != "cast") break;
        if (op->name == "transpose") read.transposed = !read.transposed;
        read.argument = op->operands[0];
    }
    return read;
}

// "q_proj" of "model.layers.3.self_attn.q_proj", where all modules that end so are among `chosen`; else more of it. A
// number stands for no kind of module: behind one it is the whole path.
std::string short_path(const std::string& path, const std::set<std::string>& all, const std::set<std::string>& chosen) {
    for (std::size_t dot = path.rfind('.'); dot != std::string::npos && dot > 0; dot = path.rfind('.', dot - 1)) {
        const std::string tail = path.substr(dot + 1);
        if (std::isdigit(static_cast<unsigned char>(tail[0])) != 0) return path;
        const bool alone = std::all_of(all.begin(), all.end(), [&](const std::string& other) {
            return !(other == tail || other.ends_with("." + tail)) || chosen.contains(other);
        });
        if (alone) return tail;
    }
    return path;
}

std::vector<std::string> short_paths(const std::set<std::string>& chosen, const std::set<std::string>& all) {
    std::set<std::string> out;
    for (const std::string& path : chosen) out.insert(short_path(path, all, chosen));
    return {out.begin(), out.end()};
}

class AdapterAdder {
  public:
    AdapterAdder(Module& module, const LoraOptions& options, Report& report)
        : module_(module), f_(module.main()), options_(options), report_(report) {
        for (std::size_t k = 0; k < f_.arguments.size(); ++k) {
            const ArgInfo& info = f_.argument_info[k];
            if (info.kind != ArgInfo::Kind::parameter) continue;
            ModuleWeight weight{k, {}};
            for (const std::string& name : all_names_of(info)) {
                if (name.find("lora_A") != std::string::npos || info.adapter)
                    refuse_adapters(fmt::format("the model has adapters of its own: {}", name),
                                    "--train-only lora_ trains those; to add new ones, export the model without them");
                for (std::string path = parent(name); !path.empty(); path = parent(path)) modules_.insert(path);
                if (leaf(name) == "weight") weight.modules.push_back(parent(name));
            }
            if (!weight.modules.empty()) weights_.emplace(f_.arguments[k], std::move(weight));
        }
    }

    void run() {
        find_layers();
        check_targets();
        for (std::size_t k = 0; k < f_.arguments.size(); ++k)
            if (f_.argument_info[k].kind == ArgInfo::Kind::parameter) f_.argument_info[k].trainable = false;
        save_modules();
        add_parameters();
        add_products();
        describe();
    }

  private:
    bool everything() const { return options_.targets == LoraOptions::all_linear; }

    // Which of the modules that share a weight is the one whose op this is: the op's scope says it, with what a
    // wrapper of the export has in front.
    static std::string module_of(const ModuleWeight& weight, const Op& op) {
        for (const std::string& path : weight.modules)
            if (op.provenance.scope == path || op.provenance.scope.ends_with("." + path)) return path;
        return weight.modules.front();
    }

    void find_layers() {
        const Definitions d(f_, f_.ops);
        const std::vector<std::string> outer = everything() ? outer_matrices(module_) : std::vector<std::string>();
        const std::optional<ModulePattern> wanted =
            everything() ? std::nullopt : std::optional(ModulePattern(options_.targets));
        for (const Op& op : f_.ops) {
            if (op.name != "linear" || linear_products(op.operands.size()) != 1) continue;
            const WeightRead read = weight_read_by(d, op);
            const auto at = weights_.find(read.argument);
            if (at == weights_.end()) continue;
            const ArgInfo& info = f_.argument_info[at->second.argument];
            const std::string path = module_of(at->second, op);
            if (everything() ? std::find(outer.begin(), outer.end(), info.names[0]) != outer.end()
                             : !wanted->finds(path))
                continue;
            const auto [entry, is_new] = layers_.try_emplace(path);
            AdaptedLayer& layer = entry->second;
            layer = {path,
                     at->second.argument,
                     read.transposed,
                     f_.type(op.operands[0]).dims.back(),
                     f_.type(op.results[0]).dims.back(),
                     {},
                     {}};
            of_op_[op.results[0]] = path;
            if (is_new && info.aliases.size() == 1 && !info.aliases[0].empty())
                report_.warning("adapter of a tied weight", path,
                                fmt::format("the weight is {} as well: merging the adapter into one of them needs a "
                                            "checkpoint that does not tie them",
                                            other_names(info, path)));
        }
    }

    static std::string other_names(const ArgInfo& info, const std::string& path) {
        std::vector<std::string> others;
        for (const std::string& name : all_names_of(info))
            if (parent(name) != path) others.push_back(name);
        return list_of_names(others);
    }

    // What a module is whose weight no linear op reads.
    std::string kind_of(const ModuleWeight& weight) const {
        const Uses uses(f_);
        const std::vector<Site> sites = find_sites(f_, uses, f_.arguments[weight.argument]);
        if (sites.empty()) return "is read by nothing";
        const std::string& op = sites.front().consumer->name;
        if (op == "embedding") return "is an embedding";
        if (op.starts_with("conv")) return "is a convolution";
        if (f_.type(f_.arguments[weight.argument]).rank() != 2) return fmt::format("is no linear layer, but of {}", op);
        return fmt::format("is not read as that of a linear layer, but by {}", op);
    }

    void check_targets() {
        std::vector<std::string> linear;
        for (const auto& [path, layer] : layers_) linear.push_back(path);
        if (everything()) {
            if (linear.empty())
                refuse_adapters("the model has no linear layer beside its head",
                                "targets=REGEX says which layers get adapters, the head too");
            return;
        }
        const ModulePattern wanted(options_.targets);
        for (const auto& [value, weight] : weights_)
            for (const std::string& path : weight.modules)
                if (wanted.finds(path) && !layers_.contains(path) && !shares_layer(weight))
                    refuse_adapters(
                        fmt::format("targets={} finds {}, which {}", options_.targets, path, kind_of(weight)),
                        "adapters stand beside linear layers: make the expression narrower; modules_to_save=REGEX "
                        "trains any module whole");
        if (linear.empty()) {
            std::vector<std::string> all;
            for (const auto& [value, weight] : weights_)
                if (f_.type(value).rank() == 2) all.insert(all.end(), weight.modules.begin(), weight.modules.end());
            std::sort(all.begin(), all.end());
            refuse_adapters(
                fmt::format("targets={} finds no module", options_.targets),
                fmt::format("it is a regular expression of a module's whole path or of its last parts; modules with "
                            "matrices are {}",
                            list_of_names(all, shown_modules)));
        }
    }

    // A tied weight has an adapter where one of the modules is a linear layer that is asked for.
    bool shares_layer(const ModuleWeight& weight) const {
        return std::any_of(layers_.begin(), layers_.end(),
                           [&](const auto& entry) { return entry.second.weight == weight.argument; });
    }

    void save_modules() {
        if (options_.modules_to_save.empty()) return;
        const ModulePattern wanted(options_.modules_to_save);
        for (ArgInfo& info : f_.argument_info) {
            if (info.kind != ArgInfo::Kind::parameter) continue;
            std::vector<std::string> found, others;
            for (const std::string& name : all_names_of(info)) {
                std::string path = parent(name);
                while (!path.empty() && !wanted.finds(path)) path = parent(path);
                (path.empty() ? others : found).push_back(path.empty() ? name : path);
            }
            if (found.empty()) continue;
            // PEFT trains a copy of such a module, which is then tied to nothing.
            if (!others.empty())
                refuse_adapters(fmt::format("modules_to_save={} finds {}, whose weight is {} as well",
                                            options_.modules_to_save, found[0], list_of_names(others)),
                                "let it find both, which stay one tensor, or neither");
            info.trainable = true;
            saved_.insert(found.begin(), found.end());
        }
        if (saved_.empty())
            refuse_adapters(fmt::format("modules_to_save={} finds no module with parameters", options_.modules_to_save),
                            fmt::format("modules with parameters are {}",
                                        list_of_names({modules_.begin(), modules_.end()}, shown_modules)));
        for (const auto& [path, layer] : layers_)
            for (const std::string& saved : saved_)
                if (within(path, saved))
                    refuse_adapters(fmt::format("{} would get an adapter, and be trained whole with {}", path, saved),
                                    "make targets or modules_to_save narrower: the one or the other");
    }

    Value add_parameter(const AdaptedLayer& layer, const char* which, Dims dims, ArgInfo::Init init) {
        ArgInfo info;
        info.kind = ArgInfo::Kind::parameter;
        info.names = {fmt::format("{}{}.{}.weight", peft_prefix, layer.path, which)};
        info.aliases.resize(1);
        info.sources.resize(1);
        info.adapter = true;
        info.init = init;
        const Type type = Type::tensor(f_.type(f_.arguments[layer.weight]).dtype, std::move(dims));
        return f_.add_argument(type, fmt::format("{}_{}", leaf(layer.path), which), info);
    }

    // In the order in which the model calls the layers.
    void add_parameters() {
        for (const Op& op : f_.ops) {
            const auto at = op.results.empty() ? of_op_.end() : of_op_.find(op.results[0]);
            if (at == of_op_.end()) continue;
            AdaptedLayer& layer = layers_.at(at->second);
            if (layer.a) continue;
            layer.a = add_parameter(layer, "lora_A", {options_.rank, layer.in}, ArgInfo::Init::uniform);
            layer.b = add_parameter(layer, "lora_B", {layer.out, options_.rank}, ArgInfo::Init::zeros);
        }
    }

    void add_products() {
        Rewriter rewriter(f_);
        Builder& b = rewriter.builder();
        for (const Op& op : rewriter.old_ops()) {
            const auto at = op.results.empty() ? of_op_.end() : of_op_.find(op.results[0]);
            if (at == of_op_.end()) {
                rewriter.keep(op);
                continue;
            }
            const AdaptedLayer& layer = layers_.at(at->second);
            const std::string name = leaf(layer.path);
            const auto place = [&](const char* part, const char* module_class) {
                const std::string scope = op.provenance.scope.empty() ? layer.path : op.provenance.scope;
                b.set_provenance({scope + "." + part, module_class, {}, {}});
            };
            const Value y = b.clone(op, rewriter.now(op.operands), f_)[0];
            Value x = rewriter.now(op.operands[0]);
            if (options_.dropout > 0) {
                place("lora_dropout", "Dropout");
                x = b.op("unplaced_dropout", {x}, {{"rate", options_.dropout}, {"of_adapter", true}});
            }
            place("lora_A", "Linear");
            Value s = b.op("linear", {x, layer.a}, {}, name + "_lora_A");
            if (options_.scale() != 1)
                s = b.op("mul", {s, b.scalar(b.type(s).dtype, options_.scale())}, {}, name + "_lora");
            place("lora_B", "Linear");
            const Value low = b.op("linear", {s, layer.b}, {}, name + "_lora_B");
            const Value sum = b.op("add", {y, low}, {}, name + "_adapted");
            rewriter.replace(op, std::vector<Value>{sum});
        }
        rewriter.finish();
    }

    void describe() {
        std::set<std::string> paths;
        Adapters& adapters = module_.adapters.emplace();
        adapters.rank = options_.rank;
        adapters.alpha = options_.alpha;
        adapters.dropout = options_.dropout;
        adapters.rank_stabilized = options_.rank_stabilized;
        for (const auto& [path, layer] : layers_) {
            paths.insert(path);
            adapters.transposed = adapters.transposed || layer.transposed;
            report_.done("adapter", path, fmt::format("rank {}, scale {:.6g}", options_.rank, options_.scale()));
        }
        adapters.targets = short_paths(paths, modules_);
        adapters.saved = short_paths(saved_, modules_);
    }

    Module& module_;
    Function& f_;
    const LoraOptions& options_;
    Report& report_;
    std::map<Value, ModuleWeight> weights_;
    std::set<std::string> modules_, saved_;
    std::map<std::string, AdaptedLayer> layers_;  // by path
    std::map<Value, std::string> of_op_;          // which layer's op gives a value
};

}  // namespace

Module add_adapters(Module module, const LoraOptions& options, Report& report) {
    AdapterAdder(module, options, report).run();
    return module;
}

}  // namespace thunderc

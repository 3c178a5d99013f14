// SPDX-License-Identifier: Apache-2.0
#include "train/adapters.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "checkpoint/safetensors.h"
#include "program/weights.h"
#include "support/error.h"
#include "support/file.h"
#include "support/json.h"
#include "support/text.h"
#include "train/init.h"
#include "train/world.h"

namespace thunder {

namespace {

// Before a name of the model, in files of adapters.
constexpr std::string_view peft_prefix = "base_model.model.";
constexpr const char* config_file = "adapter_config.json";
constexpr const char* tensor_file = "adapter_model.safetensors";

// What a file of adapters calls a parameter: an adapter's has the prefix already, one of a module that is trained whole
// gets it, by each of its names.
std::vector<std::string> names_in_file(const ProgramSpec& program, const ParameterSpec& parameter) {
    if (is_adapter(program, parameter.name)) return {std::string(parameter.name)};
    std::vector<std::string> names{cat(peft_prefix, parameter.name)};
    for (const std::string_view alias : parameter.aliases) names.push_back(cat(peft_prefix, alias));
    return names;
}

// ---- what a configuration says

class ConfigReader {
  public:
    explicit ConfigReader(const std::string& folder) : path_(join_path(folder, config_file)) {
        if (!is_file(path_))
            fail(cat(folder, " has no ", config_file),
                 "--init-adapter takes a folder that PEFT's save_pretrained, or --save-adapter, wrote");
        const MappedFile file(path_);
        json_ = parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path_);
    }

    std::string text(std::string_view key) const {
        const Json* value = json_.find(key);
        return value != nullptr && value->is(Json::Kind::string) ? value->string : "";
    }
    bool flag(std::string_view key) const {
        const Json* value = json_.find(key);
        return value != nullptr && value->is(Json::Kind::boolean) && value->boolean;
    }
    double number(std::string_view key, double otherwise) const {
        const Json* value = json_.find(key);
        return value != nullptr && (value->is(Json::Kind::integer) || value->is(Json::Kind::real)) ? value->real
                                                                                                   : otherwise;
    }
    // Whether something stands there that is not empty.
    bool filled(std::string_view key) const {
        const Json* value = json_.find(key);
        return value != nullptr && (!value->object.empty() || !value->array.empty() || !value->string.empty());
    }
    [[noreturn]] void refuse(const std::string& what, const std::string& help) const {
        fail(cat(path_, ": ", what), help);
    }

  private:
    std::string path_;
    Json json_;
};

std::string option_text(const AdapterSpec& adapters) {
    return cat("r=", adapters.rank, ",alpha=", adapters.alpha, adapters.rank_stabilized ? ",rslora" : "");
}

// What the program has in another way than the file. The rate of a dropout is no part of what was learned.
void check_config(const ProgramSpec& program, const ConfigReader& config) {
    const AdapterSpec& ours = *program.adapters;
    if (const std::string type = config.text("peft_type"); type != "LORA")
        config.refuse(cat("the adapter is of the type ", json_quote(type), ", and the program's are LORA"),
                      "other adapters cannot be trained by it");
    const auto differ = [&](const std::string& what, const std::string& theirs, const std::string& own,
                            const std::string& option) {
        config.refuse(cat(what, " is ", theirs, ", and the program's is ", own),
                      cat("thunderc train --lora ", option, ",... writes a program for it"));
    };
    const double rank = config.number("r", 8), alpha = config.number("lora_alpha", 8);  // PEFT's own where it is silent
    if (rank != static_cast<double>(ours.rank)) differ("r", cat(rank), cat(ours.rank), cat("r=", rank));
    if (alpha != ours.alpha) differ("lora_alpha", cat(alpha), cat(ours.alpha), cat("r=", ours.rank, ",alpha=", alpha));
    if (const bool stabilized = config.flag("use_rslora"); stabilized != ours.rank_stabilized)
        differ("use_rslora", stabilized ? "true" : "false", stabilized ? "false" : "true",
               cat("r=", ours.rank, ",alpha=", ours.alpha, stabilized ? ",rslora" : ""));
    for (const char* key : {"use_dora", "lora_bias", "use_qalora"})
        if (config.flag(key)) config.refuse(cat(key, " is true"), "the program has no such adapters");
    for (const char* key : {"rank_pattern", "alpha_pattern"})
        if (config.filled(key))
            config.refuse(cat(key, " gives some modules numbers of their own"),
                          "the program has the same r and alpha for all");
    if (const std::string bias = config.text("bias"); !bias.empty() && bias != "none")
        config.refuse(cat("bias is ", json_quote(bias)), "the program trains no biases beside its adapters");
}

// ---- what is written

std::string list_of(std::span<const std::string_view> names) {
    std::string text;
    for (const std::string_view name : names) text += cat(text.empty() ? "" : ", ", json_quote(name));
    return cat("[", text, "]");
}

// Whether a module that is trained whole is tied to another one, which PEFT has to be told.
bool saves_tied(const ProgramSpec& program) {
    return std::any_of(program.parameters.begin(), program.parameters.end(), [&](const ParameterSpec& p) {
        return p.trainable && !p.aliases.empty() && !is_adapter(program, p.name);
    });
}

std::string config_text(const ProgramSpec& program, const Options& options) {
    const AdapterSpec& a = *program.adapters;
    const std::string base = initial_weights(options);
    const auto flag = [](bool value) { return std::string(value ? "true" : "false"); };
    std::vector<std::pair<std::string, std::string>> entries = {
        {"alpha_pattern", "{}"},
        {"auto_mapping", "null"},
        {"base_model_name_or_path", is_folder(base) ? json_quote(base) : "null"},
        {"bias", json_quote("none")},
        {"fan_in_fan_out", flag(a.fan_in_fan_out)},
        {"inference_mode", "true"},
        {"init_lora_weights", "true"},
        {"layers_pattern", "null"},
        {"layers_to_transform", "null"},
        {"lora_alpha", cat(a.alpha)},
        {"lora_dropout", cat(a.dropout)},
        {"modules_to_save", a.saved.empty() ? "null" : list_of(a.saved)},
        {"peft_type", json_quote("LORA")},
        {"r", cat(a.rank)},
        {"rank_pattern", "{}"},
        {"revision", "null"},
        {"target_modules", list_of(a.targets)},
        {"task_type", "null"},
        {"use_dora", "false"},
        {"use_rslora", flag(a.rank_stabilized)}};
    if (saves_tied(program)) entries.insert(entries.begin() + 4, {"ensure_weight_tying", "true"});
    std::string text = "{\n";
    for (const auto& [key, value] : entries)
        text += cat("  ", json_quote(key), ": ", value, key == entries.back().first ? "\n" : ",\n");
    return text + "}\n";
}

}  // namespace

bool is_adapter(const ProgramSpec& program, std::string_view parameter) {
    return program.adapters != nullptr && parameter.starts_with(peft_prefix);
}

void add_adapter_flags(std::vector<Flag>& flags) {
    const auto add = [&](std::string name, std::string help, std::string Options::*field) {
        flags.push_back({{std::move(name), "DIR", std::move(help), "Adapters"},
                         [field](Options& o, const std::string& value, const Place& place) {
                             if (value.empty()) place.reject(value, "a name");
                             o.*field = value;
                         }});
    };
    add("init-adapter", "begin with the adapters in this folder, as PEFT or --save-adapter wrote it",
        &Options::init_adapter);
    add("save-adapter",
        "write the adapters at the end as PEFT has them: adapter_config.json and adapter_model.safetensors",
        &Options::save_adapter);
}

void check_adapter_options(const Options& options) {
    if (!options.save_adapter.empty() && !options.init_adapter.empty() &&
        same_file(join_path(options.save_adapter, config_file), join_path(options.init_adapter, config_file)))
        fail_usage(cat("--save-adapter and --init-adapter are one folder: ", options.init_adapter), "name two folders");
}

std::string load_adapters(const ProgramSpec& program, const Options& options, const World& world, std::byte* arena,
                          Stream& stream) {
    const std::string& folder = options.init_adapter;
    check_config(program, ConfigReader(folder));
    const std::string path = join_path(folder, tensor_file);
    if (!is_file(path))
        fail(cat(folder, " has no ", tensor_file),
             is_file(join_path(folder, "adapter_model.bin"))
                 ? "its adapters are in PyTorch's pickle format: save them with save_pretrained(..., "
                   "safe_serialization=True)"
                 : "the folder is not whole: get it again");
    const SafetensorsFile file(path);
    std::map<std::string, const ParameterSpec*> wanted;
    std::vector<std::string> lacking, other;
    for (const ParameterSpec& parameter : program.parameters) {
        if (!parameter.trainable) continue;
        bool found = false;
        for (const std::string& name : names_in_file(program, parameter)) {
            wanted[name] = &parameter;
            found = found || file.find(name) != nullptr;
        }
        if (!found) lacking.push_back(names_in_file(program, parameter).front());
    }
    for (const StoredTensor& tensor : file.tensors())
        if (!wanted.contains(tensor.name)) other.push_back(tensor.name);
    const std::string help =
        "the program's adapters are beside other modules: thunderc train --lora targets=REGEX,modules_to_save=REGEX "
        "says which get one, and what is trained whole";
    if (!lacking.empty())
        fail(cat(path, " lacks ", count_text(lacking.size(), "tensor"),
                 " of the program's adapters: ", list_text(lacking)),
             other.empty() ? help : cat("it holds ", list_text(other, 4), ", which the program has not; ", help));
    if (!other.empty())
        fail(cat(path, " holds ", count_text(other.size(), "tensor"), " that the program has not: ", list_text(other)),
             help);
    for (const StoredTensor& tensor : file.tensors()) {
        const ParameterSpec& parameter = *wanted.at(tensor.name);
        check_fits(path, tensor, parameter.dtype, parameter.shape, cat("parameter ", parameter.name));
        world.load(Weights::Found{&file, &tensor}.all_parts(), {{"", parameter.dtype, {}}, &parameter, arena}, stream);
    }
    return cat("adapters from ", folder);
}

std::string save_adapters(const ProgramSpec& program, const Options& options, const World& world, std::byte* arena,
                          Stream& stream) {
    const std::string& folder = options.save_adapter;
    if (world.is_first()) make_folders(folder);
    std::vector<HeldTensor> tensors;
    for (const ParameterSpec& parameter : program.parameters) {
        if (!parameter.trainable) continue;
        for (const std::string& name : names_in_file(program, parameter))
            tensors.push_back(
                {{name, parameter.dtype, {parameter.shape.begin(), parameter.shape.end()}}, &parameter, arena});
    }
    const std::pair<std::string, std::string> metadata[] = {{"format", "pt"}};
    world.save(join_path(folder, tensor_file), std::move(tensors), metadata, stream);
    if (world.is_first()) {
        AtomicFile config(join_path(folder, config_file));
        const std::string text = config_text(program, options);
        config.write(text.data(), text.size());
        config.commit();
    }
    return cat("adapters in ", folder, " (", option_text(*program.adapters), ")");
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
#include "train/save.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "checkpoint/model_folder.h"
#include "program/weights.h"
#include "support/error.h"
#include "support/file.h"
#include "support/text.h"
#include "train/world.h"

namespace thunder {

namespace {

std::vector<HeldTensor> held_tensors(const SavedParameters& which, const ProgramSpec& program) {
    std::vector<HeldTensor> tensors;
    for (const ParameterSpec& parameter : program.parameters) {
        if (which.frozen == nullptr && !parameter.trainable) continue;
        const DType dtype = parameter.trainable ? which.dtype.value_or(parameter.dtype) : parameter.dtype;
        tensors.push_back({{std::string(parameter.name), dtype, {parameter.shape.begin(), parameter.shape.end()}},
                           &parameter,
                           parameter.trainable ? which.trained : which.frozen,
                           which.divided_by});
    }
    return tensors;
}

void save_file(const std::string& path, std::vector<HeldTensor> tensors, const World& world, Stream& stream) {
    const std::pair<std::string, std::string> metadata[] = {{"format", "pt"}};  // what loaders of Hugging Face look for
    world.save(path, std::move(tensors), metadata, stream);
}

// Whether it names a model's folder: one that is there, or a name that ends with a slash. Else it names a file.
bool is_model_folder(const std::string& path) {
    return path.ends_with('/') || is_folder(path);
}

bool has_config(const std::string& folder) {
    return is_file(join_path(folder, "config.json"));
}

// Gives tensors the names that they have in the model's folder. Returns lines for the log. `untie`: a head that the
// model has no tensor for, since it ties it to its embedding, is one now.
std::vector<std::string> take_names(const ProgramSpec& program, const std::string& folder,
                                    std::vector<HeldTensor>& tensors, bool& untie) {
    const Weights weights(folder);
    std::set<std::string> used;
    const std::vector<Weights::Found> found = find_parameters(program.parameters, weights, used);
    std::map<const ParameterSpec*, const StoredTensor*> of;
    for (std::size_t i = 0; i < found.size(); ++i) of[&program.parameters[i]] = found[i].tensor;
    std::vector<std::string> ours;
    for (const HeldTensor& tensor : tensors) ours.push_back(tensor.as.name);
    const std::vector<std::string> names = names_in_folder(ours, weights.names());
    std::vector<std::string> others, left;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        const StoredTensor* const theirs = of[tensors[k].parameter];
        tensors[k].as.name = theirs != nullptr ? theirs->name : names[k];
        if (theirs != nullptr) continue;
        others.push_back(tensors[k].as.name);
        untie = untie || (tensors[k].as.shape.size() == 2 &&
                          std::any_of(tensors.begin(), tensors.end(), [&](const HeldTensor& other) {
                              return other.as.shape == tensors[k].as.shape && of[other.parameter] != nullptr;
                          }));
    }
    for (const std::string& name : weights.names())
        if (!used.contains(name)) left.push_back(name);
    std::vector<std::string> lines;
    if (!others.empty())
        lines.push_back(cat("note: ", folder, " has no ", list_text(others), ", which ",
                            others.size() == 1 ? "is" : "are", " saved all the same",
                            untie ? R"(; config.json says "tie_word_embeddings": false)" : ""));
    if (!left.empty())
        lines.push_back(cat("note: ", folder, " has ", list_text(left),
                            " beside, which the program has not: thunderc ckpt convert --to hf --like ", folder,
                            " takes that from there"));
    return lines;
}

std::vector<std::string> save_folder(const std::string& path, std::vector<HeldTensor> tensors,
                                     const ProgramSpec& program, const Options& options, const World& world,
                                     Stream& stream) {
    std::vector<std::string> lines;
    ConfigChanges changes;
    const bool of_model = has_config(options.init);
    world.together([&] {
        if (of_model) lines = take_names(program, options.init, tensors, changes.untie);
        if (world.is_first()) make_folders(path);
    });
    if (!of_model)
        lines.push_back(
            "note: --init names no folder of a model, so that there is no config.json: thunderc ckpt convert --to hf "
            "--like FOLDER adds one, with the names of that model");
    std::sort(tensors.begin(), tensors.end(),
              [](const HeldTensor& a, const HeldTensor& b) { return a.as.name < b.as.name; });
    std::vector<NamedBytes> sizes;
    std::map<std::string, std::uint64_t> floats;  // bytes of each type of floating point
    for (const HeldTensor& tensor : tensors) {
        const DType dtype = tensor.stored.value_or(tensor.as.dtype);
        std::uint64_t bytes = size_of(dtype);
        for (const std::int64_t extent : tensor.as.shape) bytes *= static_cast<std::uint64_t>(extent);
        sizes.push_back({tensor.as.name, bytes});
        if (is_float(dtype)) floats[std::string(stored_name(dtype))] += bytes;
    }
    const auto most = std::max_element(floats.begin(), floats.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != floats.end()) changes.dtype = config_dtype(most->first);
    const std::vector<WeightFile> files = weight_files(sizes);
    for (const WeightFile& file : files) {
        std::vector<HeldTensor> of_file;
        for (const std::size_t k : file.tensors) of_file.push_back(tensors[k]);
        save_file(join_path(path, file.name), std::move(of_file), world, stream);
    }
    world.together([&] {
        if (!world.is_first()) return;
        finish_weights(path, files, sizes);
        if (of_model) copy_beside_weights(options.init, path, changes);
    });
    return lines;
}

}  // namespace

void save_parameters(const std::string& path, const SavedParameters& which, const ProgramSpec& program,
                     const World& world, Stream& stream) {
    save_file(path, held_tensors(which, program), world, stream);
}

void add_save_flags(std::vector<Flag>& flags) {
    const auto add = [&](std::string name, std::string what, std::string help, std::string Options::*field) {
        flags.push_back({{std::move(name), std::move(what), std::move(help), "Output"},
                         [field](Options& o, const std::string& value, const Place& place) {
                             if (value.empty()) place.reject(value, "a name");
                             o.*field = value;
                         }});
    };
    add("save", "PATH",
        "write the parameters at the end: as a FILE of safetensors, or as a folder DIR/ that transformers loads, with "
        "the configuration and the tokenizer of the folder that --init names",
        &Options::save);
    add("save-ema", "PATH", "write the average of the weights at the end, as --save does", &Options::save_ema);
    flags.push_back(
        {{"save-dtype", "TYPE", "of what these write: f32, bf16 or f16 (default: as parameters are held)", "Output"},
         [](Options& o, const std::string& value, const Place& place) {
             const std::pair<std::string, DType> choices[] = {
                 {"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}};
             o.save_dtype = choice<DType>(value, place, choices);
         }});
}

void check_save_options(const ProgramSpec& program, const Options& options) {
    if (options.save_dtype && options.save.empty() && options.save_ema.empty())
        fail_usage("--save-dtype is about --save and --save-ema, and neither is there", "add --save PATH");
    for (const auto& [name, path] : {std::pair{"--save", &options.save}, {"--save-ema", &options.save_ema}}) {
        if (path->empty() || !is_model_folder(*path)) continue;
        if (has_config(options.init) &&
            same_file(join_path(*path, "config.json"), join_path(options.init, "config.json")))
            fail_usage(cat(name, " and --init are one folder: ", *path), "name two folders");
        if (program.adapters != nullptr)
            fail_usage(
                cat(name, " ", *path, " is the folder of a model, and ", program.name, " trains adapters beside one"),
                "--save-adapter DIR writes these, and thunderc ckpt convert BASE --merge DIR --to hf --like "
                "BASE the model with them in it");
    }
}

std::string how_saved(const std::string& path, const Options& options) {
    if (path.empty()) return "not given";
    if (!is_model_folder(path)) return "a file";
    return has_config(options.init) ? "a folder as --init names one" : "a folder";
}

void check_results(const Options& options) {
    for (const std::string& path : {options.dump_gradients, options.timeline, options.memory, options.numerics})
        check_writable(path);
    for (const std::string& path : {options.save, options.save_ema})
        is_model_folder(path) ? check_folder(path) : check_writable(path);
}

std::vector<std::string> save_at_end(const ProgramSpec& program, const Options& options, const World& world,
                                     std::byte* parameters, std::byte* average, Stream& stream) {
    std::vector<std::string> lines;
    const auto save = [&](const std::string& path, const char* what, const SavedParameters& which) {
        if (path.empty()) return;
        std::vector<HeldTensor> tensors = held_tensors(which, program);
        for (HeldTensor& tensor : tensors)
            if (is_float(tensor.as.dtype)) tensor.stored = options.save_dtype;
        if (is_model_folder(path))
            for (std::string& line : save_folder(path, std::move(tensors), program, options, world, stream))
                lines.push_back(std::move(line));
        else
            save_file(path, std::move(tensors), world, stream);
        lines.push_back(cat(what, " in ", path));
    };
    save(options.save, "parameters", {.trained = parameters, .frozen = parameters});
    save(options.save_ema, "average of weights", {.trained = average, .dtype = DType::f32, .frozen = parameters});
    return lines;
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "checkpoint/safetensors.h"
#include "checkpoint/stored.h"
#include "optim/rules/info.h"
#include "support/error.h"
#include "support/philox.h"
#include "support/text.h"
#include "train/average.h"
#include "train/world.h"

namespace thunder {

namespace {

// Of one file, as earlier programs wrote them; of a folder with a manifest.
constexpr std::int64_t version_of_one_file = 1, checkpoint_version = 2;
constexpr std::string_view made_by_prefix = "made_by.", kept_prefix = "kept.";  // of keys in the metadata

// The type of the parameters that train: what it says of a frozen one is in how many digits this program holds it, and
// no part of what a checkpoint means.
DType master_dtype(const ProgramSpec& program, const ParameterSpec& parameter) {
    if (parameter.trainable || !is_float(parameter.dtype)) return parameter.dtype;
    for (const ParameterSpec& other : program.parameters)
        if (other.trainable) return other.dtype;
    return parameter.dtype;
}

// Whether a stored tensor is that of a checkpoint: frozen parameters may be held in other types than they were.
bool is_stored_as(const StoredCheckpoint::Tensor& stored, const HeldTensor& tensor) {
    if (stored.shape != tensor.as.shape) return false;
    return stored.dtype == stored_name(tensor.as.dtype) ||
           (!tensor.parameter->trainable && is_float(tensor.as.dtype) && readable_as(stored.dtype, tensor.as.dtype));
}

// What goes into the identity, as text: also what a person sees of it. In the order of names: programs of other worlds
// list their parameters unit by unit.
std::string identity_text(const ProgramSpec& program) {
    std::string text = cat(program.optimizer, " ", rule_of(program).states.size(), "\n");
    if (program.coded_states) text += "states of matrices in 8 bits\n";
    if (!program.scaling.recipe.empty()) {
        text += cat("fp8 ", program.scaling.recipe, "\n");
        for (const std::string_view tensor : program.scaling.tensors) text += cat(tensor, "\n");
    }
    if (program.optimizer_dtype != DType::f32) text += cat("states ", stored_name(program.optimizer_dtype), "\n");
    std::vector<const ParameterSpec*> parameters;
    for (const ParameterSpec& parameter : program.parameters) parameters.push_back(&parameter);
    std::sort(parameters.begin(), parameters.end(),
              [](const ParameterSpec* a, const ParameterSpec* b) { return a->name < b->name; });
    for (const ParameterSpec* parameter : parameters) {
        text += cat(parameter->name, " ", stored_name(master_dtype(program, *parameter)), " ",
                    shape_text(parameter->shape), " ",
                    parameter->moves       ? "moved"
                    : parameter->trainable ? "trained"
                                           : "frozen",
                    "\n");
    }
    return text;
}

std::string state_name(const std::string& state, std::string_view parameter) {
    return cat("optimizer.", state, ".", parameter);
}

constexpr std::string_view average_state = "ema";
constexpr std::string_view scaling_prefix = "optimizer.fp8.";  // of scales and histories of all that is quantised

template <typename T>
T number(const StoredCheckpoint& file, const std::string& key) {
    T value{};
    const auto at = file.metadata().find(key);
    if (at != file.metadata().end()) {
        const std::string& text = at->second;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc() && end == text.data() + text.size() && value >= T{0}) return value;
    }
    throw DamagedFile(cat(file.path(), ": the checkpoint does not say its ", key), "the file is damaged");
}

bool is_of(const StoredCheckpoint& file, const ProgramSpec& program) {
    std::uint64_t identity = 0;
    const std::string text = file.entry("identity");
    std::from_chars(text.data(), text.data() + text.size(), identity, 16);
    return identity == program_identity(program);
}

std::map<std::string, std::string> made_by_in(const StoredCheckpoint& file) {
    std::map<std::string, std::string> all;
    for (const auto& [name, value] : file.metadata())
        if (name.starts_with(made_by_prefix)) all[name.substr(made_by_prefix.size())] = value;
    return all;
}

// Says in what the checkpoint's program differs, as far as its tensors tell.
std::string difference(const StoredCheckpoint& file, const ProgramSpec& program) {
    const auto mine = [](const ParameterSpec& parameter) {
        return cat(stored_name(parameter.dtype), " ", shape_text(parameter.shape));
    };
    if (const std::string theirs = file.entry("optimizer"); theirs != program.optimizer) {
        return cat("its optimizer is ", theirs, ", this program's is ", program.optimizer);
    }
    if (const std::string theirs = file.entry("fp8"); theirs != program.scaling.recipe) {
        const auto text = [](std::string_view recipe) {
            return recipe.empty() ? std::string("not quantised") : cat("quantised by --fp8 ", recipe);
        };
        return cat("its products are ", text(theirs), ", this program's ", text(program.scaling.recipe));
    }
    for (const ParameterSpec& parameter : program.parameters) {
        const StoredCheckpoint::Tensor* tensor = file.find(parameter.name);
        if (tensor == nullptr) return cat("it has no parameter ", parameter.name);
        if (!is_stored_as(
                *tensor,
                {{"", parameter.dtype, {parameter.shape.begin(), parameter.shape.end()}}, &parameter, nullptr})) {
            return cat("its ", parameter.name, " is ", tensor->describe(), ", this program's is ", mine(parameter));
        }
    }
    for (const StoredCheckpoint::Tensor& tensor : file.tensors()) {
        const bool known = tensor.name.starts_with("optimizer.") ||
                           std::any_of(program.parameters.begin(), program.parameters.end(),
                                       [&](const ParameterSpec& p) { return p.name == tensor.name; });
        if (!known) return cat("it has a parameter ", tensor.name, ", which this program does not have");
    }
    const auto is_codes = [](const StoredCheckpoint::Tensor& tensor) {
        return tensor.name.starts_with("optimizer.") && tensor.dtype == stored_name(DType::u8);
    };
    const bool coded = std::any_of(file.tensors().begin(), file.tensors().end(), is_codes);
    if (coded != program.coded_states) {
        return coded ? "its optimizer keeps states of matrices in 8 bits, this program's does not"
                     : "this program's optimizer keeps states of matrices in 8 bits, which it has not";
    }
    for (const StoredCheckpoint::Tensor& tensor : file.tensors()) {
        if (tensor.name.starts_with(state_name(std::string(average_state), "")) || is_codes(tensor)) continue;
        if (tensor.name.starts_with(scaling_prefix)) continue;
        if (tensor.name.starts_with("optimizer.") && tensor.dtype != stored_name(program.optimizer_dtype)) {
            return cat("its optimizer's states are ", tensor.dtype, ", this program's are ",
                       stored_name(program.optimizer_dtype));
        }
    }
    if (!program.scaling.recipe.empty())
        return "it quantises other layers, or trains other parameters, than this program";
    return "the same parameters are not all trained in both";
}

// A run that stepped a matrix as a whole has not the states that one by elements goes on with, nor the other way round.
void check_kept_states(const StoredCheckpoint& file, const ProgramSpec& program, const OptimizerStates& states) {
    const RuleInfo& rule = rule_of(program);
    if (!rule.steps_matrices()) return;
    for (const OptimizerStates::OfParameter& of : states.parameters)
        for (std::size_t k = 0; k < rule.states.size(); ++k) {
            if (rule.shape_of_state(k, of.stepped) == rules::StateShape::none ||
                file.find(state_name(rule.stored_states[k], of.parameter->name)) != nullptr)
                continue;
            const bool whole = of.stepped == rules::Stepped::matrix;
            if (rule.shape_of_state(k, whole ? rules::Stepped::by_element : rules::Stepped::matrix) !=
                rules::StateShape::none)
                continue;  // the file is damaged
            fail(cat(file.path(), " has no ", state_name(rule.stored_states[k], of.parameter->name),
                     ": the run that wrote it stepped ", of.parameter->name, " as a ",
                     whole ? "tensor of elements" : "whole matrix"),
                 cat("go on with --", rule.by_element,
                     " and --group as that run had them, or start from its parameters with --init"));
        }
}

}  // namespace

std::uint64_t program_identity(const ProgramSpec& program) {
    return hash_text(identity_text(program));
}

std::string_view compute_type(const ProgramSpec& program) {
    return name_of(program.compute);
}

std::map<std::string, std::string> made_by_of(const std::string& path, const ProgramSpec& program) {
    const StoredCheckpoint file(path);
    return is_of(file, program) ? made_by_in(file) : std::map<std::string, std::string>{};
}

std::optional<DamagedFile> damage_of(const std::string& path, const std::function<void()>& on_progress,
                                     std::size_t first, std::size_t of) {
    try {
        StoredCheckpoint(path).verify(on_progress, first, of);
    } catch (const DamagedFile& error) {
        return error;
    }
    return std::nullopt;
}

std::vector<HeldTensor> tensors_of(const ProgramSpec& program, const TrainingArenas& arenas,
                                   const OptimizerStates& states, const WeightAverage* average) {
    std::vector<HeldTensor> tensors;
    const auto add = [&](std::string name, const ParameterSpec& parameter, std::byte* arena, DType dtype) {
        tensors.push_back(
            {{std::move(name), dtype, {parameter.shape.begin(), parameter.shape.end()}}, &parameter, arena});
    };
    for (const ParameterSpec& parameter : program.parameters)
        add(std::string(parameter.name), parameter, arenas.parameters, parameter.dtype);
    const auto add_state = [&](const std::string& state, std::byte* arena, DType dtype) {
        for (const ParameterSpec& parameter : program.parameters)
            if (parameter.trainable) add(state_name(state, parameter.name), parameter, arena, dtype);
    };
    const RuleInfo& rule = rule_of(program);
    for (std::size_t k = 0; k < rule.states.size(); ++k)
        for (const OptimizerStates::OfParameter& of : states.parameters) {
            const rules::StateShape shape = rule.shape_of_state(k, of.stepped);
            if (shape == rules::StateShape::none) continue;
            tensors.push_back(
                {{state_name(rule.stored_states[k], of.parameter->name), of.coded ? DType::u8 : program.optimizer_dtype,
                  dims_of_state(program, of, k)},
                 of.parameter,
                 arenas.optimizer,
                 0,
                 shape == rules::StateShape::as_parameter ? HeldTensor::Part::elements : HeldTensor::Part::whole,
                 of.begins[k]});
            if (!of.coded) continue;
            const auto codes = static_cast<std::int64_t>(of.parameter->bytes / size_of(of.parameter->dtype));
            tensors.push_back({{state_name(scales_of(rule.stored_states[k]), of.parameter->name),
                                DType::f32,
                                {blocks_of_codes(codes)}},
                               of.parameter,
                               arenas.optimizer,
                               0,
                               HeldTensor::Part::blocks,
                               of.scales[k]});
        }
    if (average != nullptr) add_state(std::string(average_state), average->arena(), DType::f32);
    for (const ParameterSpec& state : program.scaling.states)
        add(cat(scaling_prefix, state.name), state, arenas.scaling, state.dtype);
    return tensors;
}

std::map<std::string, std::string> checkpoint_metadata(const ProgramSpec& program, const WeightAverage& average,
                                                       const Progress& progress) {
    char identity[32];
    std::snprintf(identity, sizeof identity, "%016llx", static_cast<unsigned long long>(program_identity(program)));
    std::map<std::string, std::string> metadata = {{"format", std::string(checkpoint_format)},
                                                   {"version", cat(checkpoint_version)},
                                                   {"program", std::string(program.name)},
                                                   {"identity", identity},
                                                   {"optimizer", std::string(program.optimizer)},
                                                   {"compute", std::string(compute_type(program))},
                                                   {"replicas", cat(program.mesh.replicas)},
                                                   {"shards", cat(program.mesh.shards)},
                                                   {"step", cat(progress.step)},
                                                   {"data_position", cat(progress.data_position)},
                                                   {"batches", progress.batches},
                                                   {"seed", cat(progress.seed)},
                                                   {"steps", cat(progress.steps)},
                                                   {"warmup", cat(progress.warmup)}};
    for (const auto& [name, value] : progress.made_by) metadata[cat(made_by_prefix, name)] = value;
    for (const auto& [name, value] : progress.kept) metadata[cat(kept_prefix, name)] = value;
    if (!program.scaling.recipe.empty()) metadata["fp8"] = std::string(program.scaling.recipe);
    if (progress.skipped > 0) metadata["skipped"] = cat(progress.skipped);
    if (progress.loss_scale > 0) {
        metadata["loss_scale"] = cat(progress.loss_scale);
        metadata["loss_scale_good"] = cat(progress.loss_scale_good);
    }
    if (!progress.ema_begun && average.decay() > 0) metadata["ema_begun"] = "0";
    if (average.decay() > 0) metadata[std::string(average_state)] = cat(average.decay());
    return metadata;
}

Progress read_checkpoint(const std::string& path, const ProgramSpec& program, const TrainingArenas& arenas,
                         const OptimizerStates& states, WeightAverage& average, const World& world, Stream& stream) {
    const StoredCheckpoint file(path);
    if (file.entry("format") != checkpoint_format)
        fail(cat(path, " is not a checkpoint of a training run"), "weights alone are read with --init");
    const std::int64_t version = file.is_sharded() ? checkpoint_version : version_of_one_file;
    if (const auto theirs = number<std::int64_t>(file, "version"); theirs != version) {
        fail(cat(path, " has version ", theirs, " of the checkpoint format, and this program reads version ", version),
             "go on with the program that wrote it, or start from its parameters with --init");
    }
    if (!is_of(file, program)) {
        fail(
            cat(path, " is a checkpoint of another program (", file.entry("program"), "): ", difference(file, program)),
            "go on with the program that wrote it, or start from its parameters with --init");
    }
    Progress progress{.step = number<std::int64_t>(file, "step"),
                      .data_position = number<std::int64_t>(file, "data_position"),
                      .seed = number<std::uint64_t>(file, "seed"),
                      .compute = file.entry("compute"),
                      .batches = file.entry("batches")};
    if (!file.entry("steps").empty()) progress.steps = number<std::int64_t>(file, "steps");
    if (!file.entry("warmup").empty()) progress.warmup = number<std::int64_t>(file, "warmup");
    progress.made_by = made_by_in(file);
    for (const auto& [name, value] : file.metadata())
        if (name.starts_with(kept_prefix)) progress.kept[name.substr(kept_prefix.size())] = value;
    if (!file.entry(std::string(average_state)).empty())
        progress.ema = number<double>(file, std::string(average_state));
    if (!file.entry("skipped").empty()) progress.skipped = number<std::int64_t>(file, "skipped");
    if (!file.entry("loss_scale").empty()) {
        progress.loss_scale = number<double>(file, "loss_scale");
        progress.loss_scale_good = number<std::int32_t>(file, "loss_scale_good");
    }
    progress.ema_begun = file.entry("ema_begun").empty();
    const bool averaged = progress.ema > 0 && average.decay() > 0;
    const std::vector<HeldTensor> tensors = tensors_of(program, arenas, states, averaged ? &average : nullptr);
    check_kept_states(file, program, states);
    for (const HeldTensor& tensor : tensors) {
        const StoredCheckpoint::Tensor* stored = file.find(tensor.as.name);
        const std::string expected = cat(stored_name(tensor.as.dtype), " ", shape_text(tensor.as.shape));
        if (stored == nullptr)
            throw DamagedFile(cat(path, ": the checkpoint lacks ", tensor.as.name, " ", shape_text(tensor.as.shape)),
                              "the file is damaged");
        if (!is_stored_as(*stored, tensor))
            throw DamagedFile(cat(path, ": the checkpoint says that it is of this program, and its ", tensor.as.name,
                                  " is ", stored->describe(), ", not ", expected),
                              "the file is damaged");
    }
    for (const HeldTensor& tensor : tensors) {
        const std::string& stored = file.find(tensor.as.name)->dtype;
        if (tensor.as.dtype != DType::f32 || stored == stored_name(DType::f32)) continue;
        ++progress.rounded;
        for (std::size_t k = 0; k < std::size(dtype_names); ++k)
            if (stored == dtype_stored_names[k]) progress.rounded_to = dtype_names[k];
    }
    for (const HeldTensor& tensor : tensors) world.load(file.find(tensor.as.name)->parts, tensor, stream);
    if (averaged && progress.ema_begun) average.go_on();
    return progress;
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// The command that writes a program again, as the program's README has it: what is not the default.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/input_shapes.h"
#include "cli/reproducer.h"

namespace thunderc {

std::string DeviceOptions::command_text() const {
    const DeviceOptions defaults;
    std::string text;
    if (devices != defaults.devices) text += fmt::format(" --device {}", fmt::join(devices, ","));
    if (architectures != defaults.architectures) text += fmt::format(" --arch {}", fmt::join(architectures, ","));
    return text;
}

std::string command_text(const std::string& subcommand, const ModelOptions& options) {
    std::string text = fmt::format("thunderc {} {}", subcommand, options.model.filename().string());
    const CompileOptions& c = options.compile;
    const CompileOptions defaults;
    auto add_word = [&text](const char* flag, const std::string& word) { text += fmt::format(" {} {}", flag, word); };
    // An expression's bars and stars would be the shell's own.
    auto add = [&](const char* flag, const std::string& value) { add_word(flag, shell_word(value)); };
    if (c.transform != Transform::train) add("--transform", std::string(name_of(c.transform)));
    if (c.batch > 0) add("--batch", std::to_string(c.batch));
    if (c.seq > 0) add("--seq", std::to_string(c.seq));
    for (const auto& [name, size] : c.dims) add("--dim", fmt::format("{}={}", name, size));
    for (const std::string& text : options.bind)
        add("--bind", text.find('=') == std::string::npos ? std::filesystem::path(text).filename().string() : text);
    for (const auto& [name, input] : c.inputs) add_word("--input", fmt::format("'{}'", input_shape_text(name, input)));
    if (!options.outputs.empty()) add("--output", fmt::format("{}", fmt::join(options.outputs, ",")));
    if (c.loss != defaults.loss) add("--loss", c.loss);
    if (c.logits_chunk != defaults.logits_chunk) add("--logits-chunk", c.logits_chunk);
    if (c.token_accuracy) text += " --token-accuracy";
    if (c.dropout) add("--dropout", *c.dropout == 0 ? "off" : fmt::format("{}", *c.dropout));
    if (c.recompute != defaults.recompute) add("--recompute", c.recompute);
    if (!c.memory_budget.empty()) add("--memory-budget", c.memory_budget);
    if (!c.machine.empty()) add("--machine", c.machine);
    if (c.optimizer != defaults.optimizer) add("--optimizer", c.optimizer);
    if (c.dtype != defaults.dtype) add("--dtype", c.dtype);
    if (!c.fp8.empty()) add("--fp8", c.fp8);
    if (!c.fp8_skip.empty()) add_word("--fp8-skip", fmt::format("'{}'", c.fp8_skip));
    if (c.fp8_weights != defaults.fp8_weights) add("--fp8-weights", c.fp8_weights);
    if (c.fp8_wgrad != defaults.fp8_wgrad) add("--fp8-wgrad", c.fp8_wgrad);
    if (c.master != defaults.master) add("--master", c.master);
    if (c.grad_dtype != defaults.grad_dtype) add("--grad-dtype", c.grad_dtype);
    if (c.optim_dtype != defaults.optim_dtype) add("--optim-dtype", c.optim_dtype);
    if (!c.freeze.empty()) add("--freeze", c.freeze);
    if (!c.train_only.empty()) add("--train-only", c.train_only);
    if (c.lora) add_word("--lora", fmt::format("'{}'", *c.lora));
    for (const std::string& pattern : c.trainable) add("--trainable", pattern);
    for (const std::string& pattern : c.constant) add("--constant", pattern);
    if (c.executors != defaults.executors) add("--executors", fmt::format("{}", fmt::join(c.executors, ",")));
    for (const std::filesystem::path& file : options.user_executors) add("--user-executor", file.filename().string());
    if (c.mesh.has_shards() && c.mesh.has_copies())
        add("--hsdp", fmt::format("{}x{}", c.mesh.replicas, c.mesh.shards));
    else if (c.mesh.has_shards())
        add("--fsdp", std::to_string(c.mesh.shards));
    else if (c.mesh.has_copies())
        add("--dp", std::to_string(c.mesh.replicas));
    if (c.reshard != defaults.reshard) add("--fsdp-reshard", c.reshard);
    if (c.sync_batch_norm) text += " --sync-batch-norm";
    if (c.bucket_bytes != defaults.bucket_bytes) add("--bucket-mb", std::to_string(c.bucket_bytes >> 20));
    if (!c.roll) text += " --no-roll";
    if (c.decisions) add("--decisions", std::to_string(*c.decisions));
    if (c.without_decision) add("--without-decision", std::to_string(*c.without_decision));
    return text;
}

}  // namespace thunderc

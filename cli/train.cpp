// SPDX-License-Identifier: Apache-2.0
// thunderc train: writes the training program.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "cli/command.h"
#include "cli/output_folder.h"
#include "cli/reproducer.h"
#include "cli/training_program.h"
#include "codegen/program/model_files.h"
#include "codegen/program/readme.h"
#include "compiler/choose_recompute.h"
#include "compiler/losses/losses.h"
#include "compiler/planned/scaling_places.h"
#include "compiler/support/bytes.h"

namespace thunderc {
namespace {

struct TrainOptions {
    ModelOptions model;
    DeviceOptions device;
    std::filesystem::path out;
    bool force = false, diff = false, no_weights = false, quiet = false;
    RunDefaults defaults;
};

// As the program's own --loss-scale takes it; or auto.
CLI::Validator is_loss_scale() {
    return CLI::Validator(
        [](std::string& text) -> std::string {
            if (text == "auto" || text == "off" || text == "dynamic") return {};
            float scale = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
            const bool whole = error == std::errc() && end == text.data() + text.size();
            if (whole && std::isnormal(scale) && scale > 0) return {};
            return fmt::format("{} is not auto, off, dynamic or a number above 0 that a float has",
                               text.empty() ? "an empty text" : text);
        },
        "");
}

// What there is now, what was added to the model, and what comes next.
void print_summary(const std::filesystem::path& out, const Compiled& compiled) {
    std::string folder = out.string();
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
    const std::string build = shell_word(folder + "/build");
    folder = shell_word(folder);
    std::int64_t bytes = 0;
    for (const auto& [arena, size] : compiled.module.arena_bytes) bytes += size;
    fmt::print(stderr, "{}: {}, {} of memory\n", folder, parameter_count(compiled.module), bytes_text(bytes));
    if (const std::vector<std::string> chosen = recompute_lines(compiled.runs); !chosen.empty())
        fmt::print(stderr, "recompute: {}\n", chosen.front());
    if (const std::int64_t codes = planning::place_scaling(compiled.module).codes; codes > 0)
        fmt::print(stderr, "fp8: weights are quantised once a step and kept as codes, {} (--fp8-weights each: none)\n",
                   bytes_text(codes));
    for (const PassRun& run : compiled.runs)
        for (const Note& note : run.report.notes)
            if (run.name == "add_loss" && note.kind == Note::Kind::done && note.what == "loss")
                fmt::print(stderr, "loss: {}\n", note.text);
    fmt::print(stderr, "next: cmake -S {} -B {} && cmake --build {}\n", folder, build, build);
    if (const Mesh& mesh = compiled.module.mesh; mesh.communicates())
        fmt::print(stderr, "then: mpirun -np {0} {1}/train, or srun -n {0} {1}/train\n", mesh.world(), build);
}

int train(TrainOptions o) {
    o.model.finish();
    o.model.compile.micro_steps = o.defaults.grad_accum;
    if (!o.diff) check_output_folder(o.out, o.force);
    const TrainingProgram program = training_program(o.model, o.device, o.defaults, !o.no_weights);
    if (o.diff) return diff_folder(o.out, program.files, program.tensors);
    const std::string before = model_of_folder(o.out);
    write_folder(o.out, program.files, program.tensors);
    if (!before.empty() && before != program.model_name)
        fmt::print(stderr, "note: {} held a program of {}: it is replaced, and has to be built again\n", o.out.string(),
                   before);
    if (!program.missing.empty())
        fmt::print(stderr,
                   "note: the weights are not there ({}): the program starts from random ones, or from --init\n",
                   program.missing);
    if (std::find(o.device.devices.begin(), o.device.devices.end(), "cpu") != o.device.devices.end())
        warn_of_memory(program.compiled.module);
    if (!o.quiet) print_summary(o.out, program.compiled);
    return 0;
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
    auto o = std::make_shared<TrainOptions>();
    CLI::App* sub = app.add_subcommand("train", "write a training program for a model");
    sub->footer(
        "A graph that ends in logits gets a cross entropy against a new input `labels`: the token that each position\n"
        "must predict, -100 where there is none. A graph that ends in a scalar is its own loss.\n\n" +
        losses_help() +
        "\n"
        "  thunderc train llama.onnx --batch 4 --seq 256 -o out/\n"
        "  cmake -S out -B out/build && cmake --build out/build\n"
        "  out/build/train --help\n\n"
        "  thunderc train llama.onnx --batch 4 --seq 256 --dp 8 -o out/      on 8 ranks, each with 4 sequences\n"
        "  mpirun -np 8 out/build/train --data corpus/                       or srun -n 8");
    o->model.add_to(*sub);
    o->model.add_ranks_to(*sub);
    o->device.add_to(*sub);
    sub->add_option("-o,--out", o->out, "the folder to write; files in it that thunderc did not write stay")
        ->required()
        ->check(not_empty())
        ->type_name("DIR");
    sub->add_option("--grad-accum", o->defaults.grad_accum, "the program's default number of micro-steps in a step")
        ->check(between(1, 1'000'000))
        ->capture_default_str();
    sub->add_option(
           "--loss-scale", o->defaults.loss_scale,
           "the program's default scale of the loss: off, dynamic (as torch.amp.GradScaler's), or a number; auto: "
           "dynamic with f16, else off")
        ->check(is_loss_scale())
        ->type_name("auto|off|dynamic|N")
        ->capture_default_str();
    sub->add_option("--decisions", o->model.compile.decisions,
                    "take the first N of the compiler's decisions alone, as thunderc bisect numbers them")
        ->check(at_least(0))
        ->type_name("N");
    sub->add_option("--without-decision", o->model.compile.without_decision,
                    "take all of the compiler's decisions but the one with this number")
        ->check(at_least_one())
        ->type_name("N");
    sub->add_flag("--force", o->force, "write into a folder that holds something else");
    sub->add_flag("--diff", o->diff, "write nothing: print how the folder differs; exit 1 where it does");
    sub->add_flag("--no-weights", o->no_weights, "leave the export's weights out of the folder");
    sub->add_flag("--quiet", o->quiet, "print nothing but notes, warnings and errors");
    sub->callback([o, &action] { action = [o] { return train(*o); }; });
}

}  // namespace thunderc

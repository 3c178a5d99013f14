// SPDX-License-Identifier: Apache-2.0
// thunderc emit: writes a function library.
#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"
#include "cli/output_folder.h"
#include "cli/version.h"
#include "codegen/program/program.h"
#include "compiler/choose_recompute.h"

namespace thunderc {
namespace {

struct EmitCommand {
    ModelOptions model;
    DeviceOptions device;
    std::filesystem::path out;
    bool force = false, diff = false, no_weights = false;
};

int emit(EmitCommand o) {
    o.model.finish();
    if (!o.diff) check_output_folder(o.out, o.force);
    const Compiled compiled = compile(o.model);
    EmitOptions options;
    options.model_name = o.model.model.stem().string();
    options.version = version;
    options.command = command_text("emit", o.model);
    o.device.set(options);
    leave_out_cuda(options, compiled.module);
    options.command += o.device.command_text();
    options.compile = o.model.compile;
    options.recompute = recompute_lines(compiled.runs);
    std::vector<OutputFile> files;
    as_pass(o.model, "print_library", compiled.module, [&] { files = print_library(compiled.module, options); });
    std::string missing;
    const std::vector<TensorFile> tensors = tensor_files(compiled.module, !o.no_weights, missing);
    if (o.diff) return diff_folder(o.out, files, tensors);
    const std::string before = model_of_folder(o.out);
    write_folder(o.out, files, tensors);
    if (!before.empty() && before != options.model_name)
        fmt::print(stderr, "note: {} held a program of {}: it is replaced, and has to be built again\n", o.out.string(),
                   before);
    if (!missing.empty())
        fmt::print(stderr, "note: the weights are not there ({}): the program takes them from --in or --init\n",
                   missing);
    return 0;
}

}  // namespace

void add_emit(CLI::App& app, Action& action) {
    auto o = std::make_shared<EmitCommand>();
    CLI::App* sub = app.add_subcommand("emit", "write a model's function, or its vjp, as a C++ library");
    sub->footer(
        "The folder holds a library with one function and a program `run` that calls it with tensors from a file:\n"
        "inputs by the graph's names, parameters by the framework's. With --transform vjp the file gives a cotangent\n"
        "d<output> for every output of floats too, and besides the outputs the gradients d<input> and d<parameter>\n"
        "are written.\n\n"
        "  thunderc emit model.onnx --transform vjp -o out/\n"
        "  cmake -S out -B out/build && cmake --build out/build\n"
        "  out/build/run --in x.safetensors --out y.safetensors");
    o->model.add_graph_to(*sub);
    o->model.transform = "forward";
    o->device.add_to(*sub);
    o->model.add_transform_to(*sub, "what becomes of the model's function: forward, vjp; composed by commas");
    sub->add_option("-o,--out", o->out, "the folder to write; files in it that thunderc did not write stay")
        ->required()
        ->check(not_empty())
        ->type_name("DIR");
    sub->add_flag("--force", o->force, "write into a folder that holds something else");
    sub->add_flag("--diff", o->diff, "write nothing: print how the folder differs; exit 1 where it does");
    sub->add_flag("--no-weights", o->no_weights, "leave the export's weights out of the folder");
    sub->callback([o, &action] { action = [o] { return emit(*o); }; });
}

}  // namespace thunderc

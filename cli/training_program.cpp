// SPDX-License-Identifier: Apache-2.0
#include "cli/training_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cli/version.h"
#include "codegen/program/model_files.h"
#include "compiler/analysis/class_scores.h"
#include "compiler/choose_recompute.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/autodiff/remove_stops.h"
#include "compiler/passes/precision/lower_precision.h"
#include "compiler/user_functions/user_functions.h"

namespace thunderc {
namespace {

// The reference program, for the program's own tests, is the same model up to here.
constexpr const char* parting = "simplify_raised";

// Of the module's loops.
std::int64_t most_layers(const Module& module) {
    std::int64_t most = 0;
    for (const Function& function : module.functions)
        for (const Op& op : function.ops)
            if (is_loop(op)) most = std::max(most, loop_count(op));
    return most;
}

}  // namespace

TrainingProgram training_program(const ModelOptions& model, const DeviceOptions& device, const RunDefaults& defaults,
                                 bool weights) {
    device.require_fp8(model.compile.fp8);
    TrainingProgram out;
    Module raised;
    DType exported = DType::f32;  // what --dtype auto is; parameters are the step's by the pass compose_step
    PassOptions passes;
    passes.after = [&](const Module& module, const PassRun& run) {
        if (run.name == parting) raised = module;
        if (run.name == "compose_step") exported = stored_dtype(module);
    };
    out.compiled = compile(model, passes);
    const Module& module = out.compiled.module;
    // What the user's functions are to compute, in the reference: their patterns, or the bodies that the model has.
    if (!user_functions_of(raised).empty() || !user_functions_of(module).empty())
        raised = compile_without_user_functions(model, parting);
    EmitOptions emit;
    const std::optional<ClassScores> scores = class_scores(raised.main());
    emit.token_entropy = scores && scores->of_tokens && scores->alone;
    emit.stops_gradients = stops_gradients(raised);
    emit.padded_rows = padded_rows(raised);
    emit.tieable = tieable_weights(raised);
    const Module reference = compile_reference(model, std::move(raised), parting, most_layers(module));
    emit.model_name = out.model_name = model.model.stem().string();
    emit.version = version;
    emit.command = command_text("train", model);
    device.set(emit);
    leave_out_cuda(emit, module);
    emit.command += device.command_text();
    if (defaults.grad_accum != 1) emit.command += fmt::format(" --grad-accum {}", defaults.grad_accum);
    if (defaults.loss_scale != "auto") emit.command += fmt::format(" --loss-scale {}", defaults.loss_scale);
    emit.compile = model.compile;
    emit.recompute = recompute_lines(out.compiled.runs);
    if (emit.compile.dtype == "auto") emit.compile.dtype = name_of(exported);
    out.compute = parse_dtype(emit.compile.dtype).value();
    emit.default_grad_accum = defaults.grad_accum;
    emit.default_loss_scale = defaults.loss_scale;
    if (defaults.loss_scale == "auto") emit.default_loss_scale = covers(out.compute, DType::f32) ? "off" : "dynamic";
    as_pass(model, "print_program", module, [&] { out.files = print_program(module, reference, emit); });
    out.tensors = tensor_files(module, weights, out.missing);
    if (std::vector<StoredTensor> constants = stored_constants(reference); !constants.empty())
        out.tensors.push_back({"tests/reference/constants.safetensors", std::move(constants)});
    return out;
}

}  // namespace thunderc

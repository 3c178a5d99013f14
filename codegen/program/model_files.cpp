// SPDX-License-Identifier: Apache-2.0
#include "codegen/program/model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/host/statements.h"
#include "codegen/text.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/print.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Arena = Placement::Arena;

std::string layout_table(const ProgramLayout& layout) {
    SourceText out;
    out.banner("LAYOUT");
    out.comment(
        "Every tensor that the program names; one that is kept in the place of a layer's, as what enters a loop is in "
        "that of the first layer's input, is in that row. "
        "`shape` is in the names of sizes.h, as far as these go; `offset` is in bytes from the start of the arena, "
        "`bytes` of one tensor. A tensor of n `layers` lies n times, "
        "one `stride` of bytes apart. "
        "`lifetime` says when its bytes hold it: in the arena `scratch` from one call to another in the text of a "
        "function in blocks.cpp or model.cpp, whose calls are counted from 1, " +
        std::string(layout.trains() ? "on from forward to backward, " : "") + "a loop over layers as one call" +
        std::string(layout.communication().any() ? ", collectives and events of streams as none" : "") +
        (layout.module().arena_bytes.contains("narrow_copies")
             ? ". A " + std::string(name_of(layout.compute_dtype())) + " copy" +
                   " that is \"not read\" is there because the "
                   "optimizer writes one for each parameter: who reads "
                   "that, reads it in `parameters`"
             : "") +
        ". `shares` names tensors that have some of the same bytes at other times, those of the same function without "
        "its name and first.");
    out.line("struct LayoutRow {");
    out.line("    const char *name, *shape, *type, *arena;");
    out.line("    std::size_t offset, bytes;");
    out.line("    std::int64_t layers;");
    out.line("    std::size_t stride;");
    out.line("    const char *lifetime, *shares;");
    out.line("};");
    out.line("inline constexpr LayoutRow LAYOUT[] = {");
    for (const LayoutRow& row : layout.rows())
        out.line(fmt::format("    {{\"{}\", \"{}\", \"{}\", \"{}\", {}, {}, {}, {}, \"{}\", \"{}\"}},", row.name,
                             row.shape, name_of(row.type.dtype), row.arena, row.offset, row.type.bytes(), row.count,
                             row.stride, row.lifetime, row.shares));
    out.line("};");
    return out.str();
}

// "logits, dx": of the results that have names of their own.
std::string result_list(const Module& module) {
    std::string out;
    for (const ArgInfo& info : module.main().argument_info)
        if (info.kind == ArgInfo::Kind::output) out += (out.empty() ? "" : ", ") + info.names.front();
    return out;
}

void print_model_class(SourceText& out, const ProgramLayout& layout) {
    const Module& module = layout.module();
    const bool trains = layout.trains();
    const char* arenas = trains ? "TrainingArenas" : "Arenas";
    out.open("class Model {");
    out.outdent();
    out.line("  public:");
    out.indent();
    const bool ranks = layout.communication().any();
    out.line(ranks ? "Model(const thunder::TrainingArenas& arenas, const thunder::Streams& streams) : arenas_(arenas), "
                     "streams_(streams) {}"
                   : fmt::format("Model(const thunder::{}& arenas, thunder::Stream& stream) : arenas_(arenas), "
                                 "stream_(stream) {{}}",
                                 arenas));
    out.blank();
    if (trains) {
        if (loss_form(layout.module()).kind == LossForm::Kind::average) {
            out.comment("Each micro-batch counts the same: there is no weight of its loss to be added up.");
            out.line("void loss_weight() {}");
        } else {
            out.comment("Adds the weight of the micro-batch's loss to the step's.");
            out.line("void loss_weight();");
        }
        const char* const argument = ranks ? "thunder::MicroStep micro_step" : "thunder::WriteMode mode";
        const char* const passed = ranks ? "micro_step" : "mode";
        const bool parts = printed_parts(*module.find(forward_backward_function)).size() > 1;
        if (parts) {
            out.comment("Adds the loss of the micro-batch to the step's.");
            out.line(fmt::format("void forward({});", argument));
            out.comment("Its gradients, overwritten in the first micro-step and added to later.");
            if (ranks) out.comment("In the last one of a step they become the sums of all ranks'.");
            out.line(fmt::format("void backward({});", argument));
            out.comment("One micro-step.");
            out.open(fmt::format("void forward_backward({}) {{", argument));
            out.line(fmt::format("forward({});", passed));
            out.line(fmt::format("backward({});", passed));
            out.close();
        } else {
            out.comment(
                "One micro-step: the loss, and its gradients, overwritten in the first micro-step and added to later.");
            if (ranks) out.comment("In the last one of a step the gradients become the sums of all ranks'.");
            out.line(fmt::format("void forward_backward({});", argument));
            out.comment("The backward pass begins before the forward pass ends: there is none by itself.");
            out.line(fmt::format("void forward({}) {{}}", ranks ? "thunder::MicroStep" : "thunder::WriteMode"));
        }
        out.comment("The norm of the gradients, and the factor that clips them.");
        out.line("void clip();");
        out.comment("The optimizer's step, of a part of the parameters.");
        out.line("void update(const thunder::UpdatePart& part, thunder::Stream& stream);");
        if (module.find(evaluate_function) != nullptr) {
            out.comment("The model in evaluation, for batches that are not trained on: adds up the loss of one.");
            out.line("void evaluate();");
        } else {
            out.comment(parts ? "The loss of a batch that is not trained on." : "There is none by itself, as above.");
            out.line(fmt::format("void evaluate() {{ forward({}); }}",
                                 ranks ? "{thunder::WriteMode::overwrite, true}" : "thunder::WriteMode::overwrite"));
        }
    } else {
        const std::string name = identifier(layout.module().main().name);
        out.comment(
            fmt::format("From the arenas `batch` and `parameters` to {}: {}{}.",
                        layout.module().arena_bytes.at("gradients") > 0 ? "`results` and `gradients`" : "`results`",
                        result_list(layout.module()),
                        layout.module().arena_bytes.at("gradients") > 0 ? ", and a gradient for each parameter" : ""));
        out.line(fmt::format("void {}();", name));
        out.comment("The same, under the one name that run.cpp knows.");
        out.line(fmt::format("void call() {{ {}(); }}", name));
    }
    out.blank();
    out.outdent();
    out.line("  private:");
    out.indent();
    out.line(fmt::format("thunder::{} arenas_;", arenas));
    if (ranks) {
        out.line("thunder::Streams streams_;");
        out.comment("What one stream records and another one waits for.");
        for (const Communication::EventName& event : layout.communication().events())
            out.line(fmt::format("thunder::Event {}{};", event.name,
                                 event.number > 1 ? fmt::format("[{}]", event.number) : ""));
    } else {
        out.line("thunder::Stream& stream_;");
    }
    out.close("};");
    out.line(trains ? "extern const thunder::ProgramSpec PROGRAM;  // spec.cpp"
                    : "extern const thunder::FunctionSpec FUNCTION;  // spec.cpp");
}

// Where the tensors of the first layer lie, and how far from a layer's to the next one's; the function that finds those
// of any layer.
void print_accessor(SourceText& out, const LayerStruct& s) {
    UsedNames used;
    for (const LayerField& field : s.fields) used.add(field.name);
    std::map<std::int64_t, std::string> strides;
    std::map<std::int64_t, int> count;
    for (const LayerField& field : s.fields) ++count[field.stride];
    const auto most =
        std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    out.line(fmt::format("namespace layout::{} {{", s.function));
    out.comment("bytes, of the first layer's tensors");
    for (const LayerField& field : s.fields)
        out.line(fmt::format("inline constexpr std::int64_t {} = {};", field.name, field.offset));
    for (const LayerField& field : s.fields) {
        const auto [at, is_new] = strides.try_emplace(field.stride);
        if (!is_new) continue;
        at->second = used.unique(field.stride == most->first ? "stride" : field.name + "_stride");
        out.line(fmt::format("inline constexpr std::int64_t {} = {};  // from one layer's to the next one's",
                             at->second, field.stride));
    }
    out.line("}");
    out.open(fmt::format("inline {} {}(const thunder::Arenas& arenas, std::int64_t layer) {{", s.name, s.function));
    out.line(fmt::format("namespace offset = layout::{};", s.function));
    out.open("return {");
    for (const LayerField& field : s.fields)
        out.line(fmt::format(".{} = at<{}>(arenas.{}, offset::{} + layer{} * offset::{}),", field.name,
                             cpp_type(field.type.dtype), name_of(field.arena), field.name,
                             field.slots > 0 && field.slots < s.layers ? fmt::format(" % {}", field.slots) : "",
                             strides.at(field.stride)));
    out.close("};");
    out.close();
}

// What the trainer has done before forward_backward.
std::string_view seed_comment(LossForm::Kind kind) {
    switch (kind) {
        case LossForm::Kind::average:
            return "The trainer has set arenas_.scalars->dloss: 1 / the number of micro-batches in the step.";
        case LossForm::Kind::mean:
            return "The trainer has set arenas_.scalars->dloss: 1 / loss_weight, summed over the step's "
                   "micro-batches.";
        case LossForm::Kind::terms: break;
    }
    return "The trainer has set arenas_.loss_weights, summed over the step's micro-batches, and dloss to 1.";
}

// The types of what is quantised that this file names: those of codes, and of scales that are kept beside them.
std::vector<DType> types_of_codes(const ProgramLayout& layout) {
    const auto is_scale = [](const LayerField& field) { return field.type.dtype == DType::e8m0; };
    for (const LayerStruct& s : layout.structs())
        if (std::any_of(s.fields.begin(), s.fields.end(), is_scale)) return {DType::e4m3, DType::e5m2, DType::e8m0};
    return {DType::e4m3, DType::e5m2};
}

// Of a layer: of what is quantised the scales, and weights that are kept as codes.
std::string what_scaling_is(const LayerStruct& layer) {
    const auto is_codes = [](const LayerField& field) { return is_quantised(field.type.dtype); };
    const auto is_amax = [](const LayerField& field) { return field.name.ends_with("_amax"); };
    const bool codes = std::any_of(layer.fields.begin(), layer.fields.end(), is_codes);
    const bool states = std::any_of(layer.fields.begin(), layer.fields.end(), is_amax);
    const std::string scales = "Of what is quantised, its scale and the largest |x| since that was made";
    const std::string weights = "eights as codes, which the first micro-step of a step makes";
    if (!codes) return scales;
    return states ? scales + "; and w" + weights : "W" + weights;
}

// Where the scales come from by which tensors are quantised; "": none is.
std::string scales_convention(const Module& module) {
    const auto has = [&](std::string_view name) {
        return std::any_of(module.functions.begin(), module.functions.end(), [&](const Function& f) {
            return std::any_of(f.ops.begin(), f.ops.end(), [&](const Op& op) { return op.name == name; });
        });
    };
    const std::string calls = "Products by `fp8_` calls read numbers of eight bits: ";
    if (has("fp8_quantise"))
        return calls +
               "each tensor times its scale of `fp8.`, which follows from the largest |x| of before, in model.cpp. ";
    if (has("fp8_quantise_current")) return calls + "each tensor times a scale that follows from its own largest |x|. ";
    if (has("fp8_quantise_blocks"))
        return calls + "each block of a tensor times a power of two, by its own largest |x|. ";
    return "";
}

}  // namespace

std::string formula_convention() {
    return "A formula before the call of a kernel is in the names of the call's arguments, where it does not say "
           "otherwise; before a call with fields, `.x = ...`, in theirs. x1, x2, ... are pieces of x.";
}

std::string gradient_convention() {
    return "\"dx =\" says that a call overwrites a gradient, \"dx +=\" that it adds to it. Those of parameters are "
           "sums "
           "over micro-steps: a call with WriteMode::overwrite begins one, the others add to it.";
}

std::string precision_convention(const ProgramLayout& layout) {
    return fmt::format(
        "A kernel computes in f32 whatever it reads, and rounds once what it stores as {0}; products of {0} add up "
        "in f32. Gradients of parameters are {1}. {2}{3}README.md says why.",
        name_of(layout.compute_dtype()), name_of(layout.gradient_dtype()),
        layout.module().arena_bytes.contains("narrow_copies")
            ? fmt::format("Parameters are f32, `w.`; products read their {} copies, `w16.`, which the optimizer writes "
                          "with them. ",
                          name_of(layout.compute_dtype()))
            : "",
        scales_convention(layout.module()));
}

std::vector<const Function*> block_functions(const Module& module) {
    std::vector<const Function*> out;
    for (const Function& f : module.functions)
        if (f.argument_info.empty() && f.kind.empty()) out.push_back(&f);
    return out;
}

std::string print_sizes(const ProgramLayout& layout) {
    SourceText out;
    out.comment("sizes.h: what shapes are made of, for the model and its kernels.");
    out.line("#pragma once");
    out.blank();
    out.line("#include <cstdint>");
    out.blank();
    for (const Symbol& s : layout.symbols().all())
        out.line(fmt::format("inline constexpr std::int64_t {} = {};  // {}", s.name, s.value, s.meaning));
    return out.str();
}

std::string print_model_header(const ProgramLayout& layout, const FunctionPrinter& printer,
                               const EmitOptions& options) {
    const Module& module = layout.module();
    const bool trains = layout.trains();
    SourceText out;
    out.comment(fmt::format("{}: sizes, tensors and where they lie; {}.", options.model_name,
                            trains ? "the functions of a training step" : "the function " + module.main().name));
    out.line("#pragma once");
    out.blank();
    out.line("#include <cstddef>");
    out.line("#include <cstdint>");
    out.blank();
    if (!module.units.empty())
        out.line("#include \"comm/units.h\"       // Unit: what ranks gather, and sum the gradients of, as one");
    out.line(
        "#include \"device/api.h\"       // linear_forward, attention_forward, ...: the calls that a device provides");
    out.line("#include \"device/stream.h\"    // Stream: where calls run, in order");
    if (trains) {
        out.line("#include \"train/arenas.h\"     // Arenas: the memory, one piece for each class of lifetime");
        out.line("#include \"train/program.h\"    // ProgramSpec: what the trainer has to know of this program");
    } else {
        out.line("#include \"program/arenas.h\"   // Arenas: the memory, one piece for each class of lifetime");
        out.line("#include \"run/function.h\"     // FunctionSpec: what a caller has to know of this function");
    }
    out.line("#include \"sizes.h\"            // B, T, C, ...: what shapes are made of");
    out.blank();
    if (trains) {
        out.banner("sizes");
        const bool mixed = layout.mixed_precision();
        const ParameterArenas& parameters = layout.parameter_arenas();
        const std::string and_states =
            parameters.states_as_parameters() ? ", gradients and each optimizer state" : " and gradients";
        const std::string part =
            parameters.any_frozen() ? "what trains, which comes first in the parameter arena" : "the parameter arena";
        out.comment(mixed ? fmt::format("Elements of {}; {} copies{} have as many, of their types.", part,
                                        name_of(layout.compute_dtype()), and_states)
                          : fmt::format("Bytes of {}; gradients{} as large.", part,
                                        parameters.states_as_parameters() ? " and each optimizer state are" : " are"));
        out.line(fmt::format("inline constexpr std::int64_t {} = {};", layout.trained_constant(),
                             mixed ? parameters.trained() : parameters.trained_bytes()));
    }
    out.blank();
    if (layout.mixed_precision()) {
        out.line(fmt::format("using thunder::{};", name_of(layout.compute_dtype())));
        if (layout.module().arena_bytes.contains("scaling"))
            for (const DType codes : types_of_codes(layout))
                out.line(fmt::format("using thunder::{};", name_of(codes)));
        out.blank();
    }
    out.comment("The tensor at a byte offset of an arena.");
    out.line("template <typename Element>");
    out.open("inline Element* at(std::byte* arena, std::int64_t offset) {");
    out.line("return reinterpret_cast<Element*>(arena + offset);");
    out.close();
    out.blank();
    for (const LayerStruct& s : layout.structs()) {
        out.banner(s.name);
        out.comment(fmt::format("{}{} layers{}", s.scope.empty() ? "" : s.scope + ": ", s.layers,
                                s.arena == Arena::narrow_copies
                                    ? fmt::format(". Parameters once more in {}, as products read them: `w16.` in "
                                                  "blocks.cpp",
                                                  name_of(layout.compute_dtype()))
                                : s.arena == Arena::scaling ? ". " + what_scaling_is(s) + ": `fp8.` in blocks.cpp"
                                                            : ""));
        out.open(fmt::format("struct {} {{", s.name));
        for (const LayerField& field : s.fields)
            out.line(fmt::format("{}* {};  // {}{}", cpp_type(field.type.dtype), field.name, field.shape,
                                 field.what.empty() ? "" : "  " + field.what));
        out.close("};");
        print_accessor(out, s);
        out.blank();
    }
    printer.units(out);
    printer.update_parts(out);
    out.banner("offsets");
    out.comment(
        "In bytes from the start of an arena, or of a layer's scratch: by function, then by the name of the tensor in "
        "it.");
    for (const Function& f : module.functions)
        if (f.kind.empty()) printer.offsets(out, f);
    out.blank();
    const std::vector<const Function*> blocks = block_functions(module);
    if (!blocks.empty()) {
        out.banner("blocks.cpp");
        out.comment("Outputs first, the stream last.");
        out.line("using namespace thunder;");
        for (const Function* f : blocks) out.line(printer.signature(*f) + ";");
        out.blank();
    }
    out.banner("model.cpp");
    print_model_class(out, layout);
    out.blank();
    return out.str() + layout_table(layout);
}

void print_headers_of_calls(SourceText& out, const std::vector<const Function*>& functions, bool trains) {
    std::map<std::string, std::string> headers;
    if (trains) headers["optim/step_scalars.h"] = "what changes from step to step, on the device";
    for (const Function* f : functions)
        for (const Op& op : f->ops) {
            const OpDef& def = op_def(op.name);
            if (!def.call) continue;
            const RuntimeCall call = def.call(op, *f);
            if (!call.header.empty()) headers[call.header] = call.header_comment;
        }
    for (const auto& [header, what] : headers)
        out.line(fmt::format("{:<33}// {}", fmt::format("#include \"{}\"", header), what));
}

std::string print_model_source(const ProgramLayout& layout, const FunctionPrinter& printer,
                               const EmitOptions& options) {
    const Module& module = layout.module();
    const bool trains = layout.trains();
    SourceText out;
    if (trains) {
        out.comment(fmt::format("model.cpp: a training step of {}.", options.model_name));
        out.comment(formula_convention());
        out.comment(module.units.empty()
                        ? gradient_convention()
                        : "\"dx =\" says that a call overwrites a gradient. Those of parameters are made whole, and "
                          "overwritten in each micro-step; reduce_scatter adds this rank's piece of them, summed over "
                          "the ranks, to its sum over micro-steps, which the first one begins: WriteMode::overwrite.");
    } else {
        out.comment(fmt::format("model.cpp: {} of {}, in one call.", module.main().name, options.model_name));
        out.comment(formula_convention());
    }
    if (printer.waits_for_updates())
        out.comment(
            "wait_for_update(part): where the update of the step before runs beside the forward pass, that part of it "
            "is done, which writes what is read next.");
    const Communication& communication = layout.communication();
    out.line("#include \"model.h\"");
    out.blank();
    if (communication.any()) out.line("#include \"comm/collectives.h\"    // what ranks say to each other");
    out.line("#include \"kernels.h\"             // the kernels generated for this model");
    const std::vector<const Function*> blocks = block_functions(module);
    std::vector<const Function*> printed_here;
    for (const Function& f : module.functions)
        if (!f.kind.starts_with("kernel:") && std::find(blocks.begin(), blocks.end(), &f) == blocks.end())
            printed_here.push_back(&f);
    print_headers_of_calls(out, printed_here, trains);
    out.blank();
    out.line("using namespace thunder;");
    for (const Function& f : module.functions) {
        if (f.argument_info.empty()) continue;
        const bool step = f.name == forward_backward_function;
        const std::vector<EntryPart> parts = entry_parts(f);
        for (std::size_t k = 0; k < parts.size(); ++k) {
            const std::string& name = parts[k].name;
            const bool updates = f.name == update_function && k + 1 == parts.size();
            out.blank();
            if (communication.any() && step)
                out.open(fmt::format("void Model::{}([[maybe_unused]] MicroStep micro_step) {{", name));
            else if (updates)
                out.open(
                    "void Model::update([[maybe_unused]] const UpdatePart& part, [[maybe_unused]] Stream& stream) {");
            else
                out.open(fmt::format("void Model::{}({}) {{", name, step ? "[[maybe_unused]] WriteMode mode" : ""));
            if (communication.any() && step) out.line("[[maybe_unused]] const WriteMode mode = micro_step.mode;");
            if (!updates)
                out.line(fmt::format("[[maybe_unused]] Stream& stream = {};",
                                     communication.any() ? "streams_.compute" : "stream_"));
            // The norm's are within one call.
            const std::span<const Op> printed = f.name == update_function ? std::span<const Op>() : parts[k].ops;
            for (std::size_t stream : communication.streams_of(printed))
                out.line(fmt::format("[[maybe_unused]] Stream& {} = *streams_.communication[{}];  // {}",
                                     communication.streams()[stream].name, stream,
                                     communication.streams()[stream].purpose));
            out.line(fmt::format("const Range range({});  // as a GPU's profilers show it", quote(name)));
            if (step && k + 1 == parts.size()) out.comment(std::string(seed_comment(loss_form(module).kind)));
            out.blank();
            printer.print_entry(out, f, parts[k].ops);
            out.close();
        }
    }
    return out.str();
}

}  // namespace thunderc

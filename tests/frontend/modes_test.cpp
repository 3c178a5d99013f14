// SPDX-License-Identifier: Apache-2.0
// What the operators of an export do not tell: where gradients stop, whether the model was in training mode, which
// input nothing reads. tests/fixtures/modes has one layer between two products, x -> a -> layer -> b -> loss.
#include <onnx/defs/parser.h>
#include <unistd.h>

#include <algorithm>

#include "compiler/frontend/onnx/dropped_arguments.h"
#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/onnx/model_file.h"
#include "compiler/frontend/onnx/traced_program.h"
#include "compiler/frontend/onnx/training_mode.h"
#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/print.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace modes_test {

using Lines = std::vector<std::string>;

// "what, where: text" of each warning of an import.
Lines warnings_of(const std::string& file) {
    Report report;
    verify(import_model(fixture(file), {}, report));
    Lines out;
    for (const Note& note : report.notes)
        if (note.kind == Note::Kind::warning) out.push_back(note.what + ", " + note.where + ": " + note.text);
    return out;
}

std::string import_error(const std::string& file) {
    return error_of([&] { imported(file); });
}

// The source nodes of what reads stops of the gradient, and of which operands.
Lines stopped(const std::string& file) {
    const Module module = imported(file);
    Lines out;
    for (const Op& stop : module.main().ops) {
        if (stop.name != "stop_gradient") continue;
        for (const Op& op : module.main().ops)
            for (std::size_t k = 0; k < op.operands.size(); ++k)
                if (op.operands[k] == stop.results[0])
                    out.push_back(op.provenance.nodes.front() + " " + std::to_string(k));
    }
    return out;
}

TEST(TracedCall, IsReadFromItsText) {
    const auto call = onnx_frontend::parse_traced_call(
        "%slice_2 : [num_users=1] = call_function[target=torch.ops.aten.slice.Tensor](args = (%detach, [%a, 4], None, "
        "'a, (b'), kwargs = {memory_format: torch.contiguous_format, like: %b_1})");
    ASSERT_TRUE(call.has_value());
    EXPECT_EQ(call->result, "slice_2");
    EXPECT_EQ(call->users, 1);
    EXPECT_EQ(call->target, "aten.slice.Tensor");
    EXPECT_EQ(call->arguments, (Lines{"%detach", "[%a, 4]", "None", "'a, (b'"}));
    EXPECT_EQ(call->argument(2, "p"), "None");
    EXPECT_EQ(call->argument(4, "like"), "%b_1");
    EXPECT_EQ(call->argument(4, "p"), "");
    EXPECT_EQ(call->mentions(), (Lines{"detach", "a", "b_1"}));
    const auto empty = onnx_frontend::parse_traced_call(
        "%getitem : [num_users=1] = call_function[target=operator.getitem](args = (), kwargs = {})");
    ASSERT_TRUE(empty.has_value());
    EXPECT_EQ(empty->target, "operator.getitem");
    EXPECT_TRUE(empty->arguments.empty());
}

TEST(TracedCall, OfAnythingElseIsNone) {
    const std::string whole = "%a : [num_users=1] = call_function[target=t](args = (%b, [1]), kwargs = {c: 2})";
    EXPECT_TRUE(onnx_frontend::parse_traced_call(whole).has_value());
    for (std::size_t size = 0; size < whole.size(); ++size)
        EXPECT_FALSE(onnx_frontend::parse_traced_call(whole.substr(0, size)).has_value()) << whole.substr(0, size);
    EXPECT_FALSE(onnx_frontend::parse_traced_call("%a : [num_users=1] = get_attr[target=a]").has_value());
}

// With the exporter's optimizer and without, at the same operand.
TEST(Modes, DetachIsAStopOfTheGradient) {
    EXPECT_EQ(stopped("modes/same_value.noopt.onnx"), Lines{"node_mul_1 0"});
    EXPECT_EQ(stopped("modes/same_value.dynamo.onnx"), Lines{"node_mul_1 0"});
    EXPECT_EQ(stopped("modes/cat.noopt.onnx"), Lines{"node_cat 1"});
    EXPECT_EQ(stopped("modes/split.noopt.onnx"), (Lines{"node_split 0", "node_split 0"}));
    EXPECT_EQ(stopped("modes/clone.noopt.onnx"), Lines{"node_add 0"});
}

// What stops gradients leaves numbers as they are.
TEST(Modes, StopsChangeNoNumber) {
    for (const std::string model : {"stops", "byol"})
        for (const std::string variant : {"noopt", "dynamo"}) {
            const Module module = imported(model + "/" + variant + ".loss.onnx");
            const auto batch = tensors(model + "/batch.safetensors");
            const auto parameters = tensors(model + "/params.safetensors");
            std::vector<Members> arguments;
            for (const ArgInfo& info : module.main().argument_info) {
                const std::string& name = info.names.front();
                arguments.push_back({info.kind == ArgInfo::Kind::input ? batch.at(name + "_0") : parameters.at(name)});
            }
            const double loss = evaluate(module, module.main(), std::span<const Members>(arguments)).at(0).at(0).at(0);
            // f32's own rounding, against fp64 here
            EXPECT_NEAR(loss, reference(model).at("loss64").at(0).get<double>(), 1e-6 * loss) << model << variant;
            const auto stops = std::count_if(module.main().ops.begin(), module.main().ops.end(),
                                             [](const Op& op) { return op.name == "stop_gradient"; });
            EXPECT_GE(stops, model == "stops" ? 8 : 2) << model << variant;
        }
}

// Where the exporter's optimizer left no trace of the place, it is said; where it left none of the stop, it is in docs.
TEST(Modes, ADetachOfUnknownPlaceIsNamed) {
    EXPECT_EQ(warnings_of("modes/cat.dynamo.onnx"),
              Lines{"detach, node_cat: the exporter's optimizer dropped detach, and where it stood cannot be told: the "
                    "gradient passes there; export with optimize=False"});
    EXPECT_EQ(warnings_of("modes/cat.noopt.onnx"), Lines{});
    EXPECT_EQ(warnings_of("modes/same_value.dynamo.onnx"), Lines{});
}

// Of what is frozen there is no gradient to stop.
TEST(Modes, ARegionOfFrozenParametersIsNotNamed) {
    const auto said = [](const char* file, const CompileOptions& options) {
        Report report;
        import_model(fixture(file), options, report);
        return std::count_if(report.notes.begin(), report.notes.end(),
                             [](const Note& note) { return note.what == "no_grad"; });
    };
    for (const char* file : {"modes/no_grad.noopt.onnx", "modes/no_grad.dynamo.onnx"}) {
        CompileOptions frozen, before, only;
        frozen.freeze = ".";
        before.freeze = "^layer";  // gradients of a come to it all the same
        only.train_only = "^b";    // that stands behind the region
        EXPECT_EQ(said(file, {}), 1) << file;
        EXPECT_EQ(said(file, frozen), 0) << file;
        EXPECT_EQ(said(file, before), 1) << file;
        EXPECT_EQ(said(file, only), 0) << file;
    }
}

TEST(Modes, ARegionWithoutGradientsIsNamed) {
    for (const char* file : {"modes/no_grad.noopt.onnx", "modes/no_grad.dynamo.onnx"})
        EXPECT_EQ(
            warnings_of(file),
            Lines{"no_grad, node_linear_1: 2 operators stand here, the first of them node_linear_1, under "
                  "torch.no_grad() or torch.autocast(), which an export does not tell apart: gradients pass through; "
                  "where it was no_grad(), write .detach() behind it, and export with optimize=False; --freeze REGEX "
                  "alone, of layer.weight, layer.bias, would not do, since other parameters' gradients pass there too"})
            << file;
}

constexpr const char* eval =
    "help: call model.eval() before the export, or of these modules alone: a norm takes its running statistics then, "
    "which stay as they are, and dropouts and batch norms of other modules are trained with\n";

std::string training(const std::string& what) {
    return "error: the model was exported in training mode, of which its operators do not tell all\n"
           "  expected: a model in eval() mode\n"
           "  found: " +
           what + "\n" + eval;
}

// Running statistics are buffers that a step moves, by the momentum that torch's exporter turns round; the variance by
// that of a sample, of 4 numbers in each channel here.
TEST(Modes, BatchNormsMoveTheirStatistics) {
    Report report;
    const Module module = import_model(fixture("modes/batch_norm.train.noopt.onnx"), {}, report);
    const Function& main = module.main();
    EXPECT_EQ(main.result_names.size(), 3U);
    EXPECT_EQ(moved_buffers(main, 3), 2U);
    EXPECT_EQ(main.result_names[1], "layer.running_mean");
    EXPECT_EQ(main.result_names[2], "layer.running_var");
    for (const ArgInfo& info : main.argument_info) {
        if (info.kind != ArgInfo::Kind::buffer) continue;
        EXPECT_FALSE(info.trainable);
        EXPECT_EQ(info.init, info.names[0] == "layer.running_var" ? ArgInfo::Init::ones : ArgInfo::Init::zeros);
    }
    const auto norms =
        std::count_if(main.ops.begin(), main.ops.end(), [](const Op& op) { return op.name == "batch_norm"; });
    EXPECT_EQ(norms, 1);
    EXPECT_EQ(std::count_if(report.notes.begin(), report.notes.end(),
                            [](const Note& note) { return note.kind == Note::Kind::warning; }),
              0);
}

// A function takes the statistics of what it is given, and moves none.
TEST(Modes, AFunctionMovesNothing) {
    CompileOptions options;
    options.transform = Transform::forward;
    EXPECT_EQ(import_model(fixture("modes/batch_norm.train.noopt.onnx"), options).main().results.size(), 1U);
}

// The exporter's optimizer does not know of training mode.
TEST(Modes, AFoldedBatchNormIsRefused) {
    EXPECT_EQ(import_error("modes/batch_norm.train.dynamo.onnx"),
              "error: the exporter's optimizer took batch norms in training mode for ones in eval() mode\n"
              "  expected: each of them as a BatchNormalization\n"
              "  found: none of layer: folded into the product before it, or dropped\n"
              "help: export with torch.onnx.export(..., dynamo=True, optimize=False), which keeps them; or call "
              "model.eval() before the export: they take their running statistics then, which stay as they are\n");
}

// Every other layer that differs between the modes.
TEST(Modes, TrainingModeIsRefused) {
    EXPECT_EQ(import_error("modes/instance_norm.train.onnx"),
              training("an instance norm by the input's own statistics (layer)"));
}

// Rates of the dropouts of an import, in order.
std::vector<double> dropouts(const std::string& file, const CompileOptions& options = {}) {
    Report report;
    std::vector<double> out;
    const Module module = import_model(fixture(file), options, report);
    for (const Op& op : module.main().ops)
        if (op.name == "unplaced_dropout") out.push_back(op.attributes.number("rate"));
    return out;
}

// Of a layer, of a function, and of attention's probabilities, which the exporter's optimizer drops.
TEST(Modes, DropoutsInTrainingModeAreKept) {
    using Rates = std::vector<double>;
    for (const std::string variant : {".noopt.onnx", ".dynamo.onnx"}) {
        EXPECT_EQ(dropouts("modes/dropout.train" + variant), Rates{0.25}) << variant;
        EXPECT_EQ(dropouts("modes/functional_dropout.train" + variant), Rates{0.1}) << variant;
        EXPECT_EQ(dropouts("modes/attention.train" + variant), Rates{0.2}) << variant;
        EXPECT_EQ(dropouts("modes/attention.eval" + variant), Rates{}) << variant;
    }
}

// All of a model, in the order of the graph; of the TorchScript-based exporter too, which writes attention's without
// training_mode.
TEST(Modes, DropoutsOfAModel) {
    const std::vector<double> rates = {0.1, 0.25, 0.2, 0.2, 0.25, 0.2, 0.2};
    CompileOptions options;
    options.batch = 2;
    EXPECT_EQ(dropouts("dropout/dyn.logits.onnx", options), rates);
    for (const char* variant : {"dynamo", "legacy"})
        EXPECT_EQ(dropouts(std::string("dropout/") + variant + ".logits.onnx"), rates) << variant;
}

// What eval() switched off the command line switches on: the exporter's Identity tells where it was.
TEST(Modes, DropoutCanBeSwitchedOn) {
    CompileOptions on;
    on.dropout = 0.3;
    EXPECT_EQ(dropouts("modes/dropout.eval.noopt.onnx", on), std::vector<double>{0.3});
    EXPECT_EQ(dropouts("modes/functional_dropout.eval.noopt.onnx", on), std::vector<double>{0.3});
    EXPECT_EQ(dropouts("modes/clone.noopt.onnx", on), std::vector<double>{});  // a clone that is none
    Report report;
    import_model(fixture("modes/dropout.eval.noopt.onnx"), on, report);
    for (const Note& note : report.notes) EXPECT_NE(note.kind, Note::Kind::warning) << note.text;
}

// torch writes those of whole channels, and others, with numbers that it draws.
TEST(Modes, WhatIsDrawnIsKept) {
    for (const char* file :
         {"modes/dropout_2d.train.onnx", "modes/alpha_dropout.train.onnx", "modes/noise.eval.onnx"}) {
        Report report;
        Module module = import_model(fixture(file), {}, report);
        remove_dead_code(module.main());  // what is left is what the result is made of
        EXPECT_TRUE(std::any_of(module.main().ops.begin(), module.main().ops.end(), [](const Op& op) {
            return op.name == "unplaced_uniform";
        })) << file;
    }
}

// In whatever mode: that eval() would help is a dead end.
TEST(Modes, WhatChangesIsRefusedByName) {
    EXPECT_EQ(import_error("modes/steps.eval.onnx"),
              "error: the model changes the buffer layer.steps as it runs, which a program does not do\n"
              "  expected: buffers and parameters that stay as they are while the model is computed\n"
              "help: if it changes in training mode alone, call model.eval() before the export; else leave the change "
              "out of forward(), and what depends on it make an input\n");
}

// A norm without running statistics computes those of the batch in eval() mode too, in the graph.
TEST(Modes, ANormByTheBatchAloneIsWhatItIs) {
    EXPECT_EQ(warnings_of("modes/batch_norm_of_the_batch.eval.onnx"), Lines{});
    EXPECT_EQ(warnings_of("modes/batch_norm.eval.noopt.onnx"),
              Lines{"batch norm, layer: takes its running statistics, since the export is of a model in eval() mode: "
                    "they stay as they are while scale and bias are trained"});
}

// What the exporter drops of a call is read, or refused; where its operator has no importer that is what is said.
TEST(DroppedArguments, AreRefusedByName) {
    for (const char* file : {"modes/by_frequency.noopt.onnx", "modes/by_frequency.dynamo.onnx"}) {
        const std::string error = import_error(file);
        EXPECT_TRUE(
            error.starts_with("error: scale_grad_by_freq of aten.embedding divides the gradient of each row "
                              "by how often its id occurs in the batch, and torch's exporter drops it\n"))
            << error;
        EXPECT_NE(error.find("  expected: scale_grad_by_freq=False\n  found: scale_grad_by_freq=True\n"),
                  std::string::npos)
            << error;
    }
}

// torch's exporter writes the mean of what falls on one element as the last of it; other reductions are what they are.
TEST(DroppedArguments, TheMeanOfAScatterIsRefused) {
    const auto error = [](const std::string& reduce) {
        onnx::ModelProto model;
        const auto status = onnx::OnnxParser::Parse(
            model,
            "<ir_version: 10, opset_import: [\"\": 20]> g (float[3] x, float[4] s) => (float[3] y) "
            "{ i = Constant<value = int64[4] {0, 2, 2, 1}>() y = ScatterElements<axis = 0, reduction = \"none\">(x, i, "
            "s) }");
        EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
        auto* traced = model.mutable_graph()->mutable_node(1)->add_metadata_props();
        traced->set_key("pkg.torch.onnx.fx_node");
        traced->set_value(
            "%y : [num_users=1] = call_function[target=torch.ops.aten.scatter_reduce.two](args = (%x, 0, %i, %s, " +
            reduce + "), kwargs = {include_self: False})");
        return error_of([&] { onnx_frontend::refuse_dropped_arguments(model.graph()); });
    };
    EXPECT_EQ(
        error("mean"),
        "error: reduce of aten.scatter_reduce takes the mean of what falls on one element, and torch's exporter "
        "writes something else\n"
        "  node: y\n"
        "  operator: ScatterElements\n"
        "  expected: reduce other than mean\n"
        "  found: reduce=mean\n"
        "help: add up (reduce=\"sum\"), and divide by how often each index occurs, counted by scatter_add of ones\n");
    for (const char* reduce : {"sum", "prod", "amax", "amin"}) EXPECT_EQ(error(reduce), "no error") << reduce;
}

// torch goes by the factor where it was given one, also where the operator has the sizes that follow; calls that take
// a list of factors have them in the operator. What torch.nn.functional.interpolate gives for these squares.
TEST(DroppedArguments, FactorsOfUpsampling) {
    const auto upsampled = [](bool by_factor, const std::string& call) {
        onnx::ModelProto model;
        const std::string text =
            std::string("<ir_version: 10, opset_import: [\"\": 20]> g (float[1,1,5] x) => (float[1,1,8] y) { ") +
            (by_factor
                 ? "given = Constant<value_floats = [1.0, 1.0, 1.7]>() y = Resize<mode = \"linear\">(x, , given) }"
                 : "given = Constant<value_ints = [1, 1, 8]>() y = Resize<mode = \"linear\">(x, , , given) }");
        const auto status = onnx::OnnxParser::Parse(model, text.c_str());
        EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
        auto* traced = model.mutable_graph()->mutable_node(1)->add_metadata_props();
        traced->set_key("pkg.torch.onnx.fx_node");
        traced->set_value("%y : [num_users=1] = call_function[target=torch.ops.aten.upsample_linear1d." + call +
                          ", kwargs = {})");
        const std::filesystem::path path =
            std::filesystem::temp_directory_path() / ("thunderc-factors-" + std::to_string(::getpid()) + ".onnx");
        std::ofstream(path, std::ios::binary) << model.SerializeAsString();
        const Module module = import_model(path, CompileOptions());
        std::filesystem::remove(path);
        Tensor x(Type::tensor(DType::f32, {1, 1, 5}));
        x.f = {0, 1, 4, 9, 16};
        return evaluate(module, module.main(), std::vector<Tensor>{x}).at(0).f;
    };
    const std::vector<double> by_factor = {0,         0.3823529, 0.9705882,  2.6764706,
                                           4.7352941, 7.6764706, 11.2647059, 15.3823529};
    const std::vector<double> by_sizes = {0, 0.4375, 1.1875, 3.0625, 5.5625, 8.6875, 12.9375, 16};
    const auto expect_near = [](const std::vector<double>& got, const std::vector<double>& want) {
        ASSERT_EQ(got.size(), want.size());
        // The factor is an f32 in the file: 1.7 is off by 5e-8.
        for (std::size_t k = 0; k < want.size(); ++k) EXPECT_NEAR(got[k], want[k], 2e-6) << k;
    };
    expect_near(upsampled(false, "default](args = (%x, [8], False, 1.7)"), by_factor);
    expect_near(upsampled(false, "default](args = (%x, [8], False)"), by_sizes);
    expect_near(upsampled(true, "vec](args = (%x, None, False, [1.7])"), by_factor);
    expect_near(upsampled(false, "vec](args = (%x, [8], False, None)"), by_sizes);
}

TEST(DroppedArguments, TheTableIsWhole) {
    using onnx_frontend::DroppedArgument;
    for (const DroppedArgument& a : onnx_frontend::dropped_arguments()) {
        EXPECT_FALSE(a.what.empty()) << a.call << a.name;
        const bool refused = a.fate == DroppedArgument::Fate::refused || a.fate == DroppedArgument::Fate::wrong;
        EXPECT_EQ(refused, !a.help.empty()) << a.call << a.name;
    }
}

TEST(Modes, DropoutThatEvalModeSwitchedOffIsNamed) {
    const std::string text =
        ": is switched off, since the export is of a model in eval() mode: it is trained without, and what p was the "
        "export does not tell (--dropout P trains with it)";
    EXPECT_EQ(warnings_of("modes/dropout.eval.noopt.onnx"), Lines{"dropout, layer" + text});
    // A module that is called twice is one.
    const auto model = onnx_frontend::read_model(fixture("modes/dropout.eval.noopt.onnx"));
    onnx::GraphProto twice = model->graph();
    twice.mutable_node()->MergeFrom(model->graph().node());
    Report report;
    onnx_frontend::warn_of_eval_mode(twice, false, 20, report);
    ASSERT_EQ(report.notes.size(), 1U);
    EXPECT_EQ(report.notes[0].where, "layer");
    EXPECT_TRUE(report.notes[0].text.starts_with("is, in 2 calls, switched off")) << report.notes[0].text;
    EXPECT_EQ(warnings_of("modes/functional_dropout.eval.noopt.onnx"), Lines{"dropout, layer" + text});
    EXPECT_EQ(warnings_of("modes/attention.eval.noopt.onnx"), Lines{});
    EXPECT_EQ(warnings_of("modes/clone.noopt.onnx"), Lines{});  // a clone that is none
}

// One warning for all, with their count.
TEST(Modes, DropoutsOfAllLayersAreOneWarning) {
    onnx::GraphProto graph;
    for (int k = 0; k < 7; ++k) {
        onnx::NodeProto& node = *graph.add_node();
        node.set_op_type("Identity");
        const std::string layer = "layers." + std::to_string(k);
        const auto add = [&node](const char* key, const std::string& value) {
            auto* entry = node.add_metadata_props();
            entry->set_key(std::string("pkg.torch.onnx.") + key);
            entry->set_value(value);
        };
        add("name_scopes", "['', '" + layer + "', '" + layer + ".drop', 'clone']");
        add("class_hierarchy", "['model.M', 'model.Layer', 'torch.nn.modules.dropout.Dropout', 'aten.clone.default']");
    }
    Report report;
    onnx_frontend::warn_of_eval_mode(graph, false, 20, report);
    ASSERT_EQ(report.notes.size(), 1U);
    EXPECT_EQ(report.notes[0].where, "layers.0.drop, layers.1.drop, layers.2.drop, layers.3.drop and 3 more");
    EXPECT_EQ(
        report.notes[0].text,
        "these 7 are switched off, since the export is of a model in eval() mode: it is trained without, and what "
        "p was the export does not tell (--dropout P trains with it)");
}

TEST(Modes, AnInputThatNothingReadsIsNamed) {
    EXPECT_EQ(
        warnings_of("modes/one_tensor.onnx"),
        Lines{"input, input_ids: is not used: exported with the same tensor as labels? Then labels is read in its "
              "place: export again with a tensor for each"});
    EXPECT_EQ(warnings_of("llama2/noopt.loss.onnx"), Lines{});
}

}  // namespace modes_test
}  // namespace thunderc

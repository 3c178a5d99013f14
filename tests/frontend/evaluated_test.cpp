// SPDX-License-Identifier: Apache-2.0
// What the exporter's optimizer computed before it wrote the graph, and what it dropped a detach() with: whatever is
// not trained as the model is comes with a warning, held here as a whole. The graphs are small models, each with one
// such place (scripts/make_evaluated_fixtures.py).
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>

#include "compiler/frontend/onnx/missing_values.h"
#include "compiler/frontend/onnx/model_file.h"
#include "compiler/frontend/onnx/restore_parameters.h"
#include "compiler/passes/recognise/lift_parameters.h"
#include "compiler/passes/simplify/fold_constants.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace evaluated_test {

using Lines = std::vector<std::string>;

struct Lifted {
    Lines warnings, notes, parameters;
};

Lifted lifted(const std::string& file, const CompileOptions& options = {}) {
    Report report;
    Module module = import_model(fixture(file), options, report);
    module = lift_parameters(fold_constants(std::move(module), report), {}, report);
    verify(module);
    Lifted out;
    for (const ArgInfo& info : module.main().argument_info)
        if (info.kind == ArgInfo::Kind::parameter) out.parameters.push_back(info.names.front());
    std::sort(out.parameters.begin(), out.parameters.end());
    for (const Note& note : report.notes)
        (note.kind == Note::Kind::warning ? out.warnings : out.notes)
            .push_back(note.what + ", " + note.where + ": " + note.text);
    return out;
}

std::string evaluated(const std::string& what) {
    return "evaluated, " + what +
           ": the exporter's optimizer computed it: a constant here; parameters that it was computed from get no "
           "gradient through it. Export with optimize=False to keep what it was computed by.";
}

std::string unread(const std::string& names) {
    return "unread parameters, " + names +
           ": no operator that is left reads them, so they are not trained: the model does not use them, or the "
           "exporter's optimizer evaluated or dropped what did. Export with optimize=False to tell.";
}

const Lines of_one_layer = {"a.bias", "a.weight"}, with_g = {"a.bias", "a.weight", "g"};

// No part of a loss is frozen without a word, and none becomes a parameter that the model does not have.
TEST(Evaluated, WhatWasMadeOfParametersIsNamed) {
    const std::map<std::string, Lines> parameters = {{"penalty", of_one_layer}, {"gram", of_one_layer},
                                                     {"half", of_one_layer},    {"temperature", with_g},
                                                     {"softmax", with_g},       {"gate", with_g}};
    const std::map<std::string, std::string> made = {{"penalty", "mul"},     {"gram", "mul"},        {"half", "mul"},
                                                     {"temperature", "exp"}, {"softmax", "softmax"}, {"gate", "tanh"}};
    for (const auto& [name, want] : parameters) {
        Lifted got = lifted("evaluated/" + name + ".onnx");
        std::erase_if(got.warnings, [](const std::string& w) { return w.starts_with("unread parameters, "); });
        EXPECT_EQ(got.warnings, Lines{evaluated(made.at(name))}) << name;
        // the softmax's model has no layer beside g
        const Lines trained = name == "softmax" ? Lines{"g"} : want;
        for (const std::string& parameter : trained)
            EXPECT_EQ(std::count(got.parameters.begin(), got.parameters.end(), parameter), 1)
                << name << " " << parameter;
        EXPECT_LE(got.parameters.size(), want.size()) << name;
    }
}

// A buffer explains one of them, and nothing tells which.
TEST(Evaluated, ABufferBesideParametersIsNoProof) {
    EXPECT_EQ(lifted("evaluated/buffer.onnx").warnings,
              Lines{"evaluated, tanh, mul_1: the exporter's optimizer computed them: a constant here; parameters that "
                    "they were computed from get no gradient through them. Export with optimize=False to keep what "
                    "they were computed by."});
}

// One for each of what its module reads explains it, where the parameters are all there. One of another module's, as
// models have that they do not use, does not.
TEST(Evaluated, ABufferOfAnotherModuleIsNoProof) {
    const auto model = onnx_frontend::read_model(fixture("restored/buffer_minus_one.onnx"));
    const auto result = [&] {
        return onnx_frontend::restore_parameters(*model->mutable_graph(), onnx_frontend::TracedProgram(model->graph()));
    };
    EXPECT_EQ(result().constants, std::set<std::string>{"sub"});
    EXPECT_TRUE(result().evaluated.empty());
    bool found = false;
    for (auto& entry : *model->mutable_graph()->mutable_metadata_props()) {
        const std::size_t at = entry.value().find("target='table'");
        if (entry.key() != "pkg.torch.export.ExportedProgram.graph_signature" || at == std::string::npos) continue;
        entry.mutable_value()->insert(at + std::string("target='").size(), "fc.");
        found = true;
    }
    ASSERT_TRUE(found);
    EXPECT_TRUE(result().constants.empty());
    EXPECT_EQ(result().evaluated, (std::map<std::string, std::string>{{"sub", "sub"}}));
}

TEST(Evaluated, WhatWasMadeOfNothingIsAConstant) {
    const Lifted got = lifted("evaluated/created.onnx");
    EXPECT_EQ(got.parameters, of_one_layer);
    for (const std::string& warning : got.warnings)
        EXPECT_TRUE(warning.starts_with("dropped, ")) << warning;  // the layer is called twice, and was merged
}

// A penalty on what begins at zeros leaves nothing: the graph's output has its name, and is what stood before it.
TEST(Evaluated, ALossWhoseLastTermIsGoneIsSaid) {
    const auto output = [](const std::string& name) {
        return "output, " + name +
               ": the exporter's optimizer dropped it, or more calls, which gave no new numbers: it is mse_loss here. "
               "A "
               "term that begins at zero or too small to change the sum, a penalty on a weight of zeros say, would be "
               "gone too: where the model has such, export with optimize=False";
    };
    EXPECT_EQ(lifted("evaluated/tail_of_zeros.onnx").warnings, Lines{output("add_1")});
    EXPECT_EQ(lifted("evaluated/tail_of_copies.onnx").warnings,
              (Lines{unread("teacher.weight, teacher.bias"), output("add")}));
    EXPECT_EQ(lifted("evaluated/tail_is_there.onnx").warnings, Lines{});
    // The output's own name, given at the export, tells as little.
    const auto model = onnx_frontend::read_model(fixture("evaluated/tail_of_zeros.onnx"));
    onnx::GraphProto& graph = *model->mutable_graph();
    for (auto& node : *graph.mutable_node())
        for (auto& name : *node.mutable_output())
            if (name == graph.output(0).name()) name = "loss";
    graph.mutable_output(0)->set_name("loss");
    const onnx_frontend::MissingValues missing(graph, onnx_frontend::TracedProgram(graph));
    ASSERT_EQ(missing.lost_outputs().size(), 1U);
    EXPECT_EQ(missing.lost_outputs().front().value, "add_1");
}

// A parameter of zeros that is read in another order than its own: nothing proves that it is the one.
TEST(Evaluated, ZerosInAnotherOrderMayBeAParameter) {
    EXPECT_EQ(
        lifted("evaluated/turned_zeros.onnx").warnings,
        Lines{
            "unread parameters, g: no operator that is left reads them under these names. What the graph calls "
            "t may be one of them in another order, or rows of one: then it is trained, under that name. Else "
            "the model does not use them, or the exporter's optimizer evaluated or dropped what did, and they are not "
            "trained. Export with optimize=False to tell."});
    EXPECT_EQ(lifted("evaluated/turned_twice.onnx").warnings,
              Lines{"untied, t: may be g in another order: their numbers are all the same, and tell nothing. It is "
                    "trained apart. Export with optimize=False to keep the parameter."});
}

// A layer that nothing reads is not said to be lost.
TEST(Evaluated, UnreadIsNotLost) {
    EXPECT_EQ(lifted("evaluated/gate.onnx").warnings.front(), unread("module.weight, module.bias"));
}

std::string merged(const std::string& names, const std::string& instead, bool several = true) {
    const std::string them = several ? "them" : "it";
    return "merged, " + names + ": no operator that is left reads " + them + ": the model does not use " + them +
           ", or the exporter's optimizer put " + instead + " in the place of what was made of " + them +
           ", having the same numbers. Then the two are one value here, and train as one. Export with optimize=False "
           "to keep them apart.";
}

std::string dropped(const std::string& where, const std::string& calls) {
    return "dropped, " + where +
           ": here first, the exporter's optimizer dropped calls that gave no new numbers: " + calls +
           ". A detach() beside one cannot be seen, nor a number too small to change the sum: where the model has "
           "such, export with optimize=False";
}

// A copy of a layer that begins with the same numbers, as a teacher does: where the exporter's optimizer made one of
// the two, the program would train what the author did not.
TEST(Merged, ACopyThatIsGoneIsNamed) {
    const std::string copy = "teacher.weight, teacher.bias", of_student = "linear_1 of student";
    for (const char* file : {"teacher", "teacher_detached", "teacher_of_parameters"})
        EXPECT_EQ(lifted(std::string("evaluated/") + file + ".onnx").warnings.front(), merged(copy, of_student))
            << file;
    EXPECT_EQ(lifted("evaluated/teacher.onnx").warnings.size(), 1U);  // what was merged is not said to be dropped too
    EXPECT_EQ(lifted("evaluated/twins.onnx").warnings, Lines{merged(copy, "layer_norm of student")});
    // The product alone is one: the copy's bias is another. (And what the copy reads may be behind a detach().)
    EXPECT_EQ(lifted("evaluated/teacher_in_part.onnx").warnings,
              (Lines{merged("teacher.weight", of_student, false), dropped("teacher", "unsqueeze")}));
    // Dropout behind both hides which of the two it stands behind.
    const Lines behind_dropout = lifted("evaluated/teacher_dropped.onnx").warnings;
    EXPECT_EQ(std::count(behind_dropout.begin(), behind_dropout.end(), merged(copy, of_student)), 1);
}

// The copy's own weight, as it is, behind detach(): the call does not say whose it was. Those that calls do name are
// parameters of their own.
TEST(Merged, AParameterBehindAStopMayBeACopy) {
    EXPECT_EQ(lifted("evaluated/stopped_weights.onnx").warnings, Lines{unread("teacher.weight, teacher.bias")});
    const Lifted got = lifted("evaluated/stopped_weight.onnx");
    EXPECT_EQ(got.warnings, Lines{unread("teacher.weight")});
    EXPECT_EQ(got.parameters, (Lines{"student.bias", "student.weight", "teacher.bias", "third.bias", "third.weight",
                                     "trunk.bias", "trunk.weight"}));
}

// The exporter gives nodes of a region the scope of a module that is called in it: what a call reads is named after its
// own, and frozen by that name, also where another parameter of equal numbers stands for it.
TEST(Regions, ParametersAreThoseThatTheCallsRead) {
    const auto warned = [](const Lifted& got) {
        return std::count_if(got.warnings.begin(), got.warnings.end(),
                             [](const std::string& warning) { return warning.starts_with("no_grad, "); });
    };
    const Lines all = {"student.norm.weight", "student.q.weight", "teacher.norm.weight", "teacher.q.weight"};
    CompileOptions options;
    EXPECT_EQ(lifted("evaluated/region.onnx").parameters, all);
    EXPECT_EQ(warned(lifted("evaluated/region.onnx")), 1);
    options.freeze = "teacher.q";
    EXPECT_EQ(warned(lifted("evaluated/region.onnx", options)), 1);
    options.freeze = "teacher";
    EXPECT_EQ(warned(lifted("evaluated/region.onnx", options)), 0);
}

// `g * h + 0.5 * k` where g begins at 0.5: the exporter's optimizer reads g twice, and the program one constant.
TEST(Merged, ANumberOfTheCodeIsNoParameter) {
    Report report;
    Module module = import_model(fixture("evaluated/literal.onnx"), {}, report);
    module = lift_parameters(fold_constants(std::move(module), report), {}, report);
    for (const Note& note : report.notes) EXPECT_NE(note.kind, Note::Kind::warning) << note.what << ": " << note.text;
    const Function& main = module.main();
    std::size_t reads = 0;
    for (std::size_t k = 0; k < main.arguments.size(); ++k)
        if (main.argument_info[k].names.front() == "g") reads = Uses(main).users[main.arguments[k].index].size();
    EXPECT_EQ(reads, 2U);  // as it is, and behind detach()
}

// Of another input nothing is merged, and a buffer that the model does not use is missing beside whatever is dropped. A
// layer that is called twice is one value by itself.
TEST(Merged, NothingIsSaidWhereNothingWas) {
    for (const char* file : {"evaluated/teacher_of_others.onnx", "evaluated/teacher_unused.onnx",
                             "evaluated/created.onnx", "evaluated/dropout.onnx", "byol/dynamo.loss.onnx"}) {
        const Lifted got = lifted(file);
        for (const std::string& warning : got.warnings)
            EXPECT_FALSE(warning.starts_with("merged, ")) << file << warning;
    }
    // One number is both, and a constant where the call names the buffer.
    EXPECT_EQ(lifted("evaluated/gate_of_others.onnx").warnings, Lines{});
    EXPECT_EQ(lifted("evaluated/gate_of_others.onnx").parameters, (Lines{"student.g", "trunk.bias", "trunk.weight"}));
    EXPECT_EQ(lifted("evaluated/teacher_of_others.onnx").parameters,
              (Lines{"student.bias", "student.weight", "trunk.bias", "trunk.weight"}));
}

// An expression of the command line that means what the exporter lost: by name, with what brings it back.
TEST(LostNames, AreNamedWhereNothingElseMatches) {
    const auto message = [](const char* file, const std::string& flag, const std::string& pattern) {
        CompileOptions o;
        if (flag == "--freeze") o.freeze = pattern;
        if (flag == "--train-only") o.train_only = pattern;
        if (flag == "--trainable") o.trainable = {pattern};
        if (flag == "--constant") o.constant = {pattern};
        return import_error(file, o);
    };
    const auto lost = [](const std::string& flag, const std::string& pattern, const std::string& names) {
        return "error: " + flag + " " + pattern + " matches no parameter that the graph has\n  found: " + names +
               " of the model, which the exporter's optimizer merged, folded or dropped\n"
               "help: torch.onnx.export(..., optimize=False) keeps every parameter under its name\n";
    };
    const std::string copy = "teacher.weight, teacher.bias";
    for (const std::string flag : {"--freeze", "--train-only", "--trainable", "--constant"})
        EXPECT_EQ(message("evaluated/teacher_of_parameters.onnx", flag, "teacher"), lost(flag, "teacher", copy));
    // Of a LoRA that begins at zeros, the exporter folds both.
    EXPECT_EQ(message("restored/lora_merged.onnx", "--train-only", "^[AB]$"), lost("--train-only", "^[AB]$", "A, B"));
    EXPECT_EQ(message("restored/unused.onnx", "--freeze", "^u$"),
              "error: --freeze ^u$ matches no parameter that the graph has\n"
              "  found: u of the model, which it does not use\n"
              "help: choose other parameters: thunderc inspect lists those that the model uses\n");
    // What matches something that is there, nothing at all, or is no expression, is not judged here.
    for (const std::string pattern : {"teacher|student", "weight", "no_such", "("})
        EXPECT_EQ(message("evaluated/teacher_of_parameters.onnx", "--freeze", pattern), "no error") << pattern;
    EXPECT_EQ(message("restored/lora_merged.noopt.onnx", "--train-only", "^[AB]$"), "no error");
    EXPECT_EQ(message("restored/lora.onnx", "--train-only", "lora_"), "no error");
}

TEST(HiddenStops, ADetachBesideWhatWasDroppedIsSaid) {
    const std::map<std::string, std::string> calls = {
        {"dropout", "clone"}, {"view", "view"},     {"slice", "alias"},    {"expand", "expand"},
        {"times_one", "mul"}, {"plus_zero", "add"}, {"twice_turned", "t"}, {"unsqueeze", "unsqueeze"}};
    for (const auto& [name, call] : calls)
        EXPECT_EQ(lifted("evaluated/" + name + ".onnx").warnings,
                  Lines{dropped(name == "times_one" ? "node_mul_1" : "node_mul", call)})
            << name;
    EXPECT_EQ(lifted("evaluated/merged.onnx").warnings, Lines{dropped("node_transpose", "unsqueeze")});
    EXPECT_EQ(lifted("evaluated/epsilon.onnx").warnings, Lines{dropped("node_log", "add")});
    const Lines attention = lifted("evaluated/attention.onnx").warnings;
    ASSERT_EQ(attention.size(), 1U);
    EXPECT_TRUE(attention.front().starts_with("dropped, ")) << attention.front();
    EXPECT_EQ(lifted("modes/clone.dynamo.onnx").warnings, Lines{dropped("node_add", "clone")});
}

// Where torch's own modules or one line of code are all that is between, and where nothing was dropped.
TEST(HiddenStops, NothingIsSaidWhereNoneCanBe) {
    for (const char* file : {"evaluated/on_one_line.onnx", "evaluated/encoder.onnx", "evaluated/sequential.onnx",
                             "stops/noopt.loss.onnx", "modes/clone.noopt.onnx", "chain/dynamo.logits.onnx"}) {
        const Lines warnings = lifted(file).warnings;
        for (const std::string& warning : warnings) EXPECT_FALSE(warning.starts_with("dropped, ")) << file << warning;
    }
}

// Of two layers that are one call each, one behind the other: what was dropped between them is a hook's.
TEST(HiddenStops, AHookBetweenLayersIsSaid) {
    EXPECT_EQ(lifted("evaluated/hook.onnx").warnings, Lines{dropped("module.3", "view")});
}

// All lines of code between are known, as of attention that is written by hand.
TEST(HiddenStops, LinesOfCodeTellThatThereIsNone) {
    EXPECT_EQ(lifted("evaluated/on_lines.onnx").warnings, Lines{});
}

// One is there in each of these, but for a line that left nothing and may be a comment; and none is seen.
TEST(HiddenStops, WhatLinesOfCodeDoNotTellIsSaid) {
    for (const char* name : {"line_between", "comment_between", "over_lines", "in_brackets", "in_a_loop",
                             "in_a_loop_behind", "dropout_on_a_line", "calls", "functions", "twice", "property"}) {
        const Lines warnings = lifted("evaluated/" + std::string(name) + ".onnx").warnings;
        EXPECT_EQ(std::count_if(warnings.begin(), warnings.end(),
                                [](const std::string& warning) { return warning.starts_with("dropped, "); }),
                  1)
            << name;
    }
}

// Of models of transformers it is a note, not a warning.
TEST(HiddenStops, OfALibraryItIsANote) {
    CompileOptions options;
    options.batch = 2;
    options.seq = 8;
    const Lifted got = lifted("fresh_gpt2/fresh.logits.onnx", options);
    EXPECT_EQ(got.warnings, Lines{});
    EXPECT_EQ(std::count_if(got.notes.begin(), got.notes.end(),
                            [](const std::string& note) { return note.starts_with("dropped, "); }),
              1);
}

}  // namespace evaluated_test
}  // namespace thunderc

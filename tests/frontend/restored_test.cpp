// SPDX-License-Identifier: Apache-2.0
// What the exporter's optimizer does to parameters that begin at zeros or ones: each is put back or kept under its name
// and in its shape, or a warning names it. The graphs are torch's layers, and what people write by hand, each as it
// begins, exported by torch's defaults and once more with optimize=False (scripts/make_restored_fixtures.py).
#include <algorithm>
#include <set>

#include "compiler/frontend/onnx/model_file.h"
#include "compiler/frontend/onnx/restore_parameters.h"
#include "compiler/passes/recognise/lift_parameters.h"
#include "compiler/passes/simplify/fold_constants.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace restored_test {

using Names = std::set<std::string>;

nlohmann::json cases() {
    std::ifstream in(fixture("restored/cases.json"));
    return nlohmann::json::parse(in);
}

// What of a case does not survive torch's defaults; of cases that are not listed all does.
struct Expected {
    Names lost{};            // named by a warning, as what a call still reads
    Names unread{};          // named by a warning, as what no call reads
    Names rearranged{};      // there, but in another shape: named by a warning too
    bool evaluated = false;  // a warning says what was computed, of parameters perhaps
    bool asked = false;      // "parameter or constant?": the error stops the compiler
};
const std::map<std::string, Expected> expected = {
    {"attention_bias_kv", {.unread = {"attention.bias_k", "attention.bias_v"}, .evaluated = true}},
    {"rnn", {.evaluated = true}},
    {"bilinear", {.rearranged = {"pair.weight"}}},
    {"batch_norm", {.lost = {"1.weight", "1.bias"}}},
    {"batch_norm_zero", {.lost = {"1.weight", "1.bias"}, .unread = {"0.bias"}}},
    {"weight_norm",
     {.unread = {"0.parametrizations.weight.original0", "0.parametrizations.weight.original1"}, .evaluated = true}},
    {"conv_batch_norm", {.lost = {"1.weight", "1.bias"}, .unread = {"0.bias"}}},
    {"scalar_one", {.unread = {"g"}}},
    {"scalar_one_last", {.unread = {"g"}}},
    {"scalar_divides", {.unread = {"g"}}},
    {"scalar_zero", {.unread = {"g"}}},
    {"scalar_exp", {.unread = {"g"}}},
    {"lora_merged", {.unread = {"weight", "A", "B"}, .evaluated = true}},
    {"positions_by_ids", {.unread = {"pos.weight"}}},
    {"addmm_by_hand", {.lost = {"b"}}},
    {"joined", {.unread = {"a", "b"}, .evaluated = true}},
    {"positions_cut", {.unread = {"pos"}, .asked = true}},
    {"class_token", {.unread = {"token"}, .asked = true}},
    {"one_plus", {.unread = {"w"}, .asked = true}},
    {"clamped_twice", {.rearranged = {"low", "high"}, .asked = true}},
    {"scaled_table", {.evaluated = true}},
    {"ones", {.evaluated = true}},
};

Expected expected_of(const std::string& name) {
    const auto at = expected.find(name);
    return at == expected.end() ? Expected() : at->second;
}

onnx_frontend::RestoredParameters restored(const std::string& file) {
    const auto model = onnx_frontend::read_model(fixture("restored/" + file));
    return onnx_frontend::restore_parameters(*model->mutable_graph(), onnx_frontend::TracedProgram(model->graph()));
}

Names set_of(const std::vector<std::string>& names) {
    return {names.begin(), names.end()};
}

struct Lifted {
    std::map<std::string, Dims> parameters;
    std::vector<std::string> warnings;
    bool asked = false, unsupported = false;
};

Lifted lifted_from(const std::filesystem::path& path) {
    Lifted out;
    Report report;
    try {
        Module module = import_model(path, {}, report);
        module = lift_parameters(fold_constants(std::move(module), report), {}, report);
        verify(module);
        const Function& main = module.main();
        for (std::size_t k = 0; k < main.arguments.size(); ++k) {
            const ArgInfo& info = main.argument_info[k];
            if (info.kind == ArgInfo::Kind::parameter)
                out.parameters[info.names.front()] = main.type(main.arguments[k]).dims;
        }
    } catch (const UserError& error) {
        const std::string text = error.diagnostic().message;
        out.asked = text.starts_with("nothing says whether ");
        out.unsupported = text.find(" not supported") != std::string::npos;
        EXPECT_TRUE(out.asked || out.unsupported) << path << ": " << text;
    }
    for (const Note& note : report.notes)
        if (note.kind == Note::Kind::warning) out.warnings.push_back(note.what + ", " + note.where + ": " + note.text);
    return out;
}

Lifted lifted(const std::string& file) {
    return lifted_from(fixture("restored/" + file));
}

bool warned(const Lifted& lifted, const std::string& what) {
    return std::any_of(lifted.warnings.begin(), lifted.warnings.end(),
                       [&](const std::string& w) { return w.starts_with(what + ", "); });
}

TEST(Restored, EachParameterIsThereOrNamed) {
    const nlohmann::json all = cases();
    for (const auto& [name, has] : expected) EXPECT_TRUE(all.contains(name)) << name;
    for (const auto& [name, parameters] : all.items()) {
        const Expected want = expected_of(name);
        const onnx_frontend::RestoredParameters graph = restored(name + ".onnx");
        EXPECT_EQ(set_of(graph.lost), want.lost) << name;
        EXPECT_EQ(set_of(graph.unread), want.unread) << name;
        EXPECT_EQ(set_of(graph.rearranged), want.rearranged) << name;
        const Lifted got = lifted(name + ".onnx");
        EXPECT_EQ(got.asked, want.asked) << name;
        EXPECT_FALSE(got.unsupported) << name;
        if (want.asked) continue;
        EXPECT_EQ(warned(got, "lost parameters"), !want.lost.empty()) << name;
        EXPECT_EQ(warned(got, "unread parameters"), !want.unread.empty()) << name;
        EXPECT_EQ(warned(got, "rearranged"), !want.rearranged.empty()) << name;
        EXPECT_EQ(warned(got, "evaluated"), want.evaluated) << name;
        for (const auto& [parameter, shape] : got.parameters)
            EXPECT_TRUE(parameters.contains(parameter) || !want.lost.empty() || !want.unread.empty())
                << name << " has " << parameter;
        for (const auto& [parameter, shape] : parameters.items()) {
            if (want.lost.contains(parameter) || want.unread.contains(parameter) ||
                want.rearranged.contains(parameter) || name == "unused")
                continue;
            EXPECT_TRUE(got.parameters.contains(parameter)) << name << " " << parameter;
            if (!got.parameters.contains(parameter)) continue;
            EXPECT_EQ(got.parameters.at(parameter), shape.get<Dims>()) << name << " " << parameter;
        }
    }
}

// Rows that the exporter looked up are trained under its name: the warning of the table that nothing reads says so.
TEST(Restored, RowsOfAnUnreadTableAreNamed) {
    EXPECT_EQ(restored("positions_by_ids.onnx").unexplained, std::vector<std::string>{"embedding"});
    const Lifted got = lifted("positions_by_ids.onnx");
    const auto unread = std::find_if(got.warnings.begin(), got.warnings.end(), [](const std::string& w) {
        return w.starts_with("unread parameters, pos.weight");
    });
    ASSERT_NE(unread, got.warnings.end());
    EXPECT_NE(unread->find("What the graph calls embedding may be one of them in another order, or rows of one"),
              std::string::npos)
        << *unread;
}

// With optimize=False nothing is taken away, so nothing is put back or warned of; and the same parameters are there.
TEST(Restored, NothingWithoutTheOptimizer) {
    const nlohmann::json all = cases();
    for (const auto& [name, parameters] : all.items()) {
        const onnx_frontend::RestoredParameters graph = restored(name + ".noopt.onnx");
        EXPECT_TRUE(graph.restored.empty() && graph.lost.empty() && graph.unread.empty() && graph.rearranged.empty() &&
                    graph.evaluated.empty())
            << name;
        const Lifted got = lifted(name + ".noopt.onnx");
        EXPECT_FALSE(got.asked) << name;
        EXPECT_FALSE(got.unsupported) << name;
        for (const auto& [parameter, shape] : got.parameters)
            EXPECT_TRUE(parameters.contains(parameter) || parameter.find("running_") != std::string::npos)
                << name << " has " << parameter;
        for (const char* what :
             {"lost parameters", "unread parameters", "restored", "rearranged", "evaluated", "dropped"})
            EXPECT_FALSE(warned(got, what)) << name;
        for (const auto& [parameter, shape] : parameters.items()) {
            if (name == "unused" && parameter == "u") continue;
            EXPECT_TRUE(got.parameters.contains(parameter)) << name << " " << parameter;
            if (!got.parameters.contains(parameter)) continue;
            EXPECT_EQ(got.parameters.at(parameter), shape.get<Dims>()) << name << " " << parameter;
        }
    }
}

// A parameter that the model does not use is told from a lost one where no traced value is missing.
TEST(Restored, UnusedIsNotLost) {
    EXPECT_EQ(restored("unused.onnx").unused, std::vector<std::string>{"u"});
    EXPECT_EQ(restored("unused.noopt.onnx").unused, std::vector<std::string>{"u"});
    EXPECT_TRUE(restored("scalar_one.onnx").lost.empty());  // nothing reads g, as if the model did not
    EXPECT_TRUE(restored("batch_norm.onnx").unread.empty());
}

// A graph of which nobody knows the traced program stays as it is.
TEST(Restored, NothingWithoutTheSignature) {
    const auto model = onnx_frontend::read_model(fixture("restored/linear_rows.onnx"));
    onnx::GraphProto& graph = *model->mutable_graph();
    graph.clear_metadata_props();
    const std::string before = graph.SerializeAsString();
    EXPECT_TRUE(restore_parameters(graph, onnx_frontend::TracedProgram(graph)).restored.empty());
    EXPECT_EQ(graph.SerializeAsString(), before);
}

std::map<std::string, std::vector<std::int64_t>> biases(const std::string& file) {
    const auto model = onnx_frontend::read_model(fixture("restored/" + file));
    onnx::GraphProto& graph = *model->mutable_graph();
    const auto result = restore_parameters(graph, onnx_frontend::TracedProgram(graph));
    std::map<std::string, std::vector<std::int64_t>> out;
    for (const auto& tensor : graph.initializer()) {
        if (std::find(result.restored.begin(), result.restored.end(), tensor.name()) == result.restored.end()) continue;
        out[tensor.name()] = {tensor.dims().begin(), tensor.dims().end()};
        EXPECT_TRUE(std::all_of(tensor.raw_data().begin(), tensor.raw_data().end(), [](char c) { return c == 0; }));
    }
    for (const auto& node : graph.node()) {
        const bool product = node.op_type() == "Gemm" || node.op_type().starts_with("Conv");
        EXPECT_TRUE(!product || node.input_size() == 3) << file;
    }
    return out;
}

TEST(Restored, BiasesOfEachKindOfProduct) {
    using Biases = std::map<std::string, std::vector<std::int64_t>>;
    EXPECT_EQ(biases("linear_rows.onnx"), (Biases{{"0.bias", {4}}, {"1.bias", {4}}}));
    EXPECT_EQ(biases("conv1d_of_transformers.onnx"), (Biases{{"0.bias", {6}}, {"1.bias", {3}}}));
    EXPECT_EQ(biases("attention.onnx"), (Biases{{"attention.out_proj.bias", {4}}}));
    EXPECT_EQ(biases("conv.onnx"), (Biases{{"bias", {3}}}));
    EXPECT_EQ(biases("conv_transposed.onnx"), (Biases{{"bias", {6}}}));
}

// The class that made the call says what shape the bias has. Of a module that somebody wrote it is said that it is
// taken for a row, and a product of any addend is left alone.
TEST(Restored, TheShapeIsCertainOfKnownLayersAlone) {
    EXPECT_TRUE(restored("linear_rows.onnx").assumed.empty());
    EXPECT_EQ(restored("linear_by_hand.onnx").assumed, std::vector<std::string>{"b"});
    EXPECT_TRUE(restored("addmm_by_hand.onnx").restored.empty());
}

// Nodes that two calls share, and a normalisation folded into a product, are not what the bias was dropped from.
TEST(Restored, NoBiasBehindAFoldedNormalisation) {
    EXPECT_TRUE(restored("batch_norm_zero.onnx").restored.empty());
    EXPECT_TRUE(restored("conv_batch_norm.onnx").restored.empty());
}

// What the exporter evaluated of buffers or made up is a constant: nothing is asked, and nothing of it is trained.
TEST(Restored, WhatIsMadeOfBuffersIsConstant) {
    for (const char* file : {"buffer_minus_one", "buffer_multiplied", "buffer_transposed"})
        for (const char* suffix : {".onnx", ".noopt.onnx"}) {
            const Lifted got = lifted(std::string(file) + suffix);
            EXPECT_FALSE(got.asked) << file << suffix;
            EXPECT_EQ(got.parameters, (std::map<std::string, Dims>{{"fc.weight", {4, 4}}, {"fc.bias", {4}}}))
                << file << suffix;
            EXPECT_TRUE(got.warnings.empty()) << file << suffix << got.warnings.front();
        }
}

// A call that takes no tensor made it, whatever becomes of it: the ones of a mask, where these are too many for the
// exporter to go on with. What was computed of such is said.
TEST(Restored, WhatIsMadeOfNothingIsConstant) {
    const auto model = onnx_frontend::read_model(fixture("restored/ones.onnx"));
    for (auto& tensor : *model->mutable_graph()->mutable_initializer())
        if (tensor.name() == "tril") tensor.set_name("ones_1");
    for (auto& node : *model->mutable_graph()->mutable_node())
        for (auto& name : *node.mutable_input())
            if (name == "tril") name = "ones_1";
    const std::filesystem::path path = std::filesystem::temp_directory_path() / "thunderc_ones.onnx";
    std::ofstream(path, std::ios::binary) << model->SerializeAsString();
    Report report;
    const Module module = lift_parameters(fold_constants(import_model(path, {}, report), report), {}, report);
    std::filesystem::remove(path);
    std::set<std::string> parameters;
    for (const ArgInfo& info : module.main().argument_info)
        if (info.kind == ArgInfo::Kind::parameter) parameters.insert(info.names.front());
    EXPECT_EQ(parameters, (std::set<std::string>{"fc.weight", "fc.bias"}));
}

// A head that is the table, transposed: by its numbers; without these it is said that nobody knows.
TEST(Restored, ATableWithoutItsNumbersIsSaid) {
    const auto model = onnx_frontend::read_model(fixture("restored/tied_by_hand.onnx"));
    EXPECT_EQ(lifted("tied_by_hand.onnx").warnings, std::vector<std::string>{});
    for (auto& tensor : *model->mutable_graph()->mutable_initializer()) {
        if (tensor.data_type() != onnx::TensorProto::FLOAT) continue;
        tensor.clear_raw_data();
        tensor.set_data_location(onnx::TensorProto::EXTERNAL);
        auto* entry = tensor.add_external_data();
        entry->set_key("location");
        entry->set_value("nowhere.data");
    }
    const std::filesystem::path path = std::filesystem::temp_directory_path() / "thunderc_without_numbers.onnx";
    std::ofstream(path, std::ios::binary) << model->SerializeAsString();
    Report report;
    import_model(path, {}, report);
    std::filesystem::remove(path);
    std::vector<std::string> warnings;
    for (const Note& note : report.notes)
        if (note.kind == Note::Kind::warning) warnings.push_back(note.what + ", " + note.text);
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_TRUE(warnings.front().starts_with("untied, may be e.weight in another order")) << warnings.front();
}

// Two parameters of which one began as a copy of the other leave the same graph.
TEST(Restored, ATableThatMayBeAnotherParameterIsSaid) {
    const auto model = onnx_frontend::read_model(fixture("restored/tied_by_hand.onnx"));
    for (auto& entry : *model->mutable_graph()->mutable_metadata_props()) {
        const std::string first = "# inputs\n";
        const std::size_t at = entry.value().find(first);
        if (at != std::string::npos) entry.mutable_value()->insert(at + first.size(), "p_w: PARAMETER target='w'\n");
    }
    const std::filesystem::path path = std::filesystem::temp_directory_path() / "thunderc_two_tables.onnx";
    std::ofstream(path, std::ios::binary) << model->SerializeAsString();
    const Lifted got = lifted_from(path);
    std::filesystem::remove(path);
    EXPECT_EQ(got.parameters, (std::map<std::string, Dims>{{"e.weight", {9, 4}}}));
    ASSERT_EQ(got.warnings.size(), 1U);
    EXPECT_TRUE(got.warnings.front().starts_with("tied, e.weight: the exporter's optimizer left ") &&
                got.warnings.front().find(", and nothing of w: the two are taken for one parameter") !=
                    std::string::npos)
        << got.warnings.front();
}

// What tracing lifted out of the code is a constant by the signature, under its own name or the exporter's.
TEST(Restored, LiftedTensorsAreConstants) {
    for (const char* file : {"lifted", "lifted_attribute", "complex_table"})
        for (const char* suffix : {".onnx", ".noopt.onnx"}) {
            const Lifted got = lifted(std::string(file) + suffix);
            EXPECT_EQ(got.parameters, (std::map<std::string, Dims>{{"fc.weight", {4, 4}}, {"fc.bias", {4}}}))
                << file << suffix;
            for (const std::string& warning : got.warnings)  // of complex numbers beside which a call was dropped
                EXPECT_TRUE(warning.starts_with("dropped, ") && file == std::string("complex_table")) << warning;
        }
}

}  // namespace restored_test
}  // namespace thunderc

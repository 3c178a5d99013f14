// SPDX-License-Identifier: Apache-2.0
// Imported graphs mean what PyTorch computed: names, shapes and data of parameters, and the loss of the first step.
#include <fmt/format.h>

#include "compiler/interpreter/evaluate.h"
#include "compiler/passes/recognise/lift_parameters.h"
#include "compiler/passes/step/add_loss.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace numbers_test {

struct Case {
    std::string model, file;

    friend void PrintTo(const Case& c, std::ostream* out) { *out << c.model << "/" << c.file; }
};

Module prepared(const Case& c) {
    Report report;
    Module module = imported(c.model + "/" + c.file + ".onnx");
    module = lift_parameters(std::move(module), {}, report);
    verify(module);
    module = add_loss(std::move(module), options_for(c.model + "/" + c.file + ".onnx").loss, report);
    verify(module);
    for (const Note& note : report.notes)
        EXPECT_NE(note.kind, Note::Kind::warning) << note.what << " " << note.where << " " << note.text;
    return module;
}

class Exports : public testing::TestWithParam<Case> {};

TEST_P(Exports, ParametersHaveTheFrameworksNamesShapesAndData) {
    const Case& c = GetParam();
    const Module module = prepared(c);
    const nlohmann::json expected = reference(c.model);
    const std::map<std::string, Tensor> data = tensors(c.model + "/params.safetensors");
    std::map<std::string, std::string> tied;
    std::size_t found = 0;
    for (std::size_t k = 0; k < module.main().arguments.size(); ++k) {
        const ArgInfo& info = module.main().argument_info[k];
        if (info.kind == ArgInfo::Kind::input) continue;
        ASSERT_EQ(info.kind, ArgInfo::Kind::parameter);
        const std::string& name = info.names.front();
        ASSERT_TRUE(expected.at("parameters").contains(name)) << name;
        ++found;
        const Type& type = module.main().type(module.main().arguments[k]);
        EXPECT_EQ(type.dims, expected.at("parameters").at(name).get<Dims>()) << name;
        EXPECT_EQ(info.note, "") << name;
        if (!info.aliases.empty())
            for (const std::string& alias : info.aliases.front()) tied[alias] = name;
        if (c.file.starts_with("fresh")) continue;  // exported from other weights
        const WeightSource& source = *info.sources.front();
        const std::vector<std::byte> bytes = source.read();
        const Tensor& want = data.at(name);
        const std::int64_t rows = type.rank() == 2 ? type.dims[0] : 1, columns = type.elements() / rows;
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t j = 0; j < columns; ++j) {
                float value = 0;
                std::memcpy(&value, bytes.data() + 4 * (source.transposed ? j * rows + r : r * columns + j), 4);
                ASSERT_EQ(static_cast<double>(value), want.at(r * columns + j)) << name << " " << r << " " << j;
            }
    }
    EXPECT_EQ(found, expected.at("parameters").size());
    EXPECT_EQ(tied, (expected.at("tied").get<std::map<std::string, std::string>>()));
}

// In fp64 on the f32 parameters, against PyTorch in fp64. Tables that exporters fold (rotary cosines) are f32: 6e-8
// relative each, some 1e-6 in a loss.
TEST_P(Exports, TheLossIsPyTorchs) {
    const Case& c = GetParam();
    const Module module = prepared(c);
    const nlohmann::json expected = reference(c.model);
    const std::map<std::string, Tensor> data = tensors(c.model + "/params.safetensors");
    const std::map<std::string, Tensor> batch = tensors(c.model + "/batch.safetensors");
    const bool own_loss = c.file.find(".loss") != std::string::npos;
    std::vector<Tensor> arguments;
    for (const ArgInfo& info : module.main().argument_info) {
        std::string name = info.names.front();
        if (info.kind == ArgInfo::Kind::input) {
            if (own_loss) name = expected.at("loss_graph_inputs").at(name);
            arguments.push_back(batch.at(name + "_0"));
        } else {
            arguments.push_back(data.at(name));
        }
    }
    const std::vector<Tensor> results = evaluate(module, module.main(), std::span<const Tensor>(arguments));
    ASSERT_EQ(module.main().result_names, (std::vector<std::string>{"loss", "weight"}));
    const double loss = expected.at("loss64").at(0);
    EXPECT_NEAR(results[0].at(0) / results[1].at(0), loss, 2e-6 * loss);
    std::int64_t valid = 0;
    for (std::int64_t label : batch.at("labels_0").i) valid += label == -100 ? 0 : 1;
    EXPECT_EQ(results[1].at(0), static_cast<double>(valid));
}

INSTANTIATE_TEST_SUITE_P(All, Exports,
                         testing::Values(Case{"mlp", "dynamo.logits"}, Case{"mlp", "dynamo.loss"},
                                         Case{"mlp", "noopt.loss"}, Case{"mlp", "dyn.logits"}, Case{"mlp", "dyn.loss"},
                                         Case{"mlp", "legacy.logits"}, Case{"llama1", "dynamo.logits"},
                                         Case{"llama1", "noopt.logits"}, Case{"llama2", "dynamo.logits"},
                                         Case{"llama2", "dynamo.loss"}, Case{"llama2", "dynamo18.logits"},
                                         Case{"llama2", "dynamo23.logits"}, Case{"llama2", "dynamo23.loss"},
                                         Case{"llama2", "dyn.logits"}, Case{"llama2", "dyn.loss"},
                                         Case{"llama2", "fresh.logits"}, Case{"llama2", "noopt.logits"},
                                         Case{"llama2", "noopt.loss"}, Case{"llama2_tied", "dynamo.logits"},
                                         Case{"llama2_tied", "fresh.logits"}, Case{"llama5", "dynamo.logits"}),
                         [](const testing::TestParamInfo<Case>& info) {
                             std::string name = info.param.model + "_" + info.param.file;
                             for (char& ch : name)
                                 if (ch == '.') ch = '_';
                             return name;
                         });

// Where the metadata is gone, and the names as well, structure says the same: the shapes and the numbers of the
// parameters are those of the named export, in the same order, and what is a constant stays one.
class Stripped : public testing::TestWithParam<std::pair<Case, Case>> {};

TEST_P(Stripped, HoldsTheSameParameters) {
    const auto& [named, stripped] = GetParam();
    Report report;
    const Module a = lift_parameters(imported(named.model + "/" + named.file + ".onnx"), {}, report);
    const Module b = lift_parameters(imported(stripped.model + "/" + stripped.file + ".onnx"), {}, report);
    verify(b);
    const Function &f = a.main(), &g = b.main();
    ASSERT_EQ(f.arguments.size(), g.arguments.size());
    std::size_t parameters = 0;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        const ArgInfo &x = f.argument_info[k], &y = g.argument_info[k];
        EXPECT_EQ(x.kind, y.kind);
        EXPECT_EQ(f.type(f.arguments[k]), g.type(g.arguments[k])) << x.names[0] << " " << y.names[0];
        if (x.kind == ArgInfo::Kind::input) continue;
        ++parameters;
        ASSERT_EQ(y.kind, ArgInfo::Kind::parameter) << y.names[0];
        EXPECT_EQ(x.sources[0]->transposed, y.sources[0]->transposed) << y.names[0];
        EXPECT_EQ(x.sources[0]->read(), y.sources[0]->read()) << x.names[0] << " " << y.names[0];
        EXPECT_EQ(x.aliases[0].size(), y.aliases[0].size()) << y.names[0];
        EXPECT_EQ(y.note, "") << y.names[0];
    }
    EXPECT_EQ(parameters, reference(named.model).at("parameters").size());
    for (const Note& note : report.notes) {
        const bool said = note.what == "names" || note.what == "untied" || note.what == "tied";
        EXPECT_TRUE(note.kind != Note::Kind::warning || said) << note.text;
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, Stripped,
    testing::Values(std::pair{Case{"llama2", "dynamo.logits"}, Case{"llama2", "stripped.logits"}},
                    std::pair{Case{"llama2", "dynamo.logits"}, Case{"llama2", "nameless.logits"}},
                    std::pair{Case{"llama2", "noopt.logits"}, Case{"llama2", "nameless_noopt.logits"}},
                    std::pair{Case{"llama2", "fresh.logits"}, Case{"llama2", "nameless_fresh.logits"}},
                    std::pair{Case{"llama2_tied", "dynamo.logits"}, Case{"llama2_tied", "nameless.logits"}},
                    std::pair{Case{"llama5", "dynamo.logits"}, Case{"llama5", "nameless.logits"}}),
    [](const testing::TestParamInfo<std::pair<Case, Case>>& info) {
        std::string name = info.param.second.model + "_" + info.param.second.file;
        for (char& ch : name)
            if (ch == '.') ch = '_';
        return name;
    });

}  // namespace numbers_test
}  // namespace thunderc

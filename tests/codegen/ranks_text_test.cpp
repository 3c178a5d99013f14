// SPDX-License-Identifier: Apache-2.0
// What the text of a program says of ranks, and what does not change with them.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>

#include "codegen/program/program.h"
#include "tests/planned/reference_step.h"
#include "tests/support/full_form.h"

namespace thunderc {
namespace ranks_text_test {

using Files = std::map<std::string, std::string>;

Files printed(const std::string& model, const CompileOptions& options) {
    CompileOptions naive = options;
    naive.executors = {"reference"};
    naive.dtype = "f32";
    naive.mesh = {};
    EmitOptions emit;
    emit.compile = options;
    Files files;
    for (OutputFile& file : print_program(compiled(model, options), compiled(model, naive), emit))
        files[file.path] = std::move(file.text);
    return files;
}

struct Model {
    const char *name, *file;
    const char *dtype = "f32", *recompute = "none";
    friend void PrintTo(const Model& x, std::ostream* out) { *out << x.name; }
};

class BlocksAndKernels : public testing::TestWithParam<Model> {
  protected:
    CompileOptions options() const {
        CompileOptions o;
        o.dtype = GetParam().dtype;
        o.recompute = GetParam().recompute;
        return o;
    }
};

TEST_P(BlocksAndKernels, AreTheSameWhateverTheMesh) {
    const Files one = printed(GetParam().file, options());
    // What a model of classes is evaluated by is not there where parameters are gathered: of one rank that gathers,
    // too.
    const bool evaluates = one.at("model.h").find("void evaluate();") != std::string::npos;
    CompileOptions alone = options();
    alone.mesh.alone = Mesh::Alone::shards;
    const Files one_that_gathers = evaluates ? printed(GetParam().file, alone) : one;
    // With --fsdp-reshard always any model has an evaluation of its own.
    alone.reshard = "always";
    const Files one_that_always_gathers = printed(GetParam().file, alone);
    std::vector<std::pair<std::string, CompileOptions>> meshes;
    for (const std::int64_t bucket : {std::int64_t{1} << 8, std::int64_t{25} << 20}) {
        CompileOptions o = options();
        o.mesh.replicas = 4;
        o.bucket_bytes = bucket;
        meshes.emplace_back("--dp 4", o);
    }
    for (const char* reshard : {"never", "forward", "always"}) {
        CompileOptions o = options();
        o.mesh.shards = 2;
        o.reshard = reshard;
        meshes.emplace_back(std::string("--fsdp 2 --fsdp-reshard ") + reshard, o);
    }
    CompileOptions hybrid = options();
    hybrid.mesh = {2, 2};
    meshes.emplace_back("--hsdp 2x2", hybrid);
    // Under sanitizers copies, and copies of shards.
    if (short_form) meshes.erase(meshes.begin() + 1, meshes.end() - 1);
    for (const auto& [name, o] : meshes) {
        const Files many = printed(GetParam().file, o);
        std::size_t compared = 0;
        const Files& like = !o.mesh.has_shards()    ? one
                            : o.reshard == "always" ? one_that_always_gathers
                                                    : one_that_gathers;
        for (const auto& [path, text] : like) {
            const bool alike = path == "blocks.cpp" || path == "train.cpp" || path == "CMakeLists.txt" ||
                               path.starts_with("kernels") || path.starts_with("tests/");
            if (!alike) continue;
            ++compared;
            ASSERT_TRUE(many.contains(path)) << name << " " << path;
            EXPECT_EQ(many.at(path), text) << name << " " << path;
        }
        EXPECT_GE(compared, 10U);
        EXPECT_NE(many.at("model.cpp"), one.at("model.cpp")) << name;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, BlocksAndKernels,
                         testing::Values(Model{"llama5", "llama5/dynamo.logits.onnx"},
                                         Model{"llama5_bf16", "llama5/dynamo.logits.onnx", "bf16", "block"},
                                         Model{"tied", "llama2_tied/dynamo.logits.onnx", "f32", "selective"},
                                         Model{"mlp", "mlp/dynamo.logits.onnx"},
                                         Model{"deep", "deep/dynamo.logits.onnx"},
                                         Model{"ladder", "ladder/dynamo.logits.onnx"},
                                         Model{"chain", "chain/dynamo.logits.onnx"},
                                         Model{"odd", "odd/tides.loss.onnx"}),
                         [](const auto& info) { return std::string(info.param.name); });

// A loop of five layers, two of them in a bucket: backward ends its buckets at layers 4, 2 and 0, the first of which
// has one layer alone.
TEST(RanksText, SaysWhichLayersAreSentTogether) {
    CompileOptions o;
    o.mesh.replicas = 2;
    const Module whole = compiled("llama5/dynamo.logits.onnx", o);
    std::int64_t layer = 0;
    for (const Value v : whole.main().arguments)
        if (whole.main().info(v).placement.arena == Placement::Arena::gradients && whole.main().type(v).is_family())
            layer += static_cast<std::int64_t>(whole.main().type(v).bytes());
    o.bucket_bytes = 2 * layer;
    const std::string text = printed("llama5/dynamo.logits.onnx", o).at("model.cpp");
    for (const char* line :
         {"if (micro_step.last && layer % 2 == 0) {", "const std::int64_t layers = layer + 2 <= L ? 2 : L - layer;",
          ".elements = layers * offset::bucket_1_elements", "if (micro_step.last) {"})
        EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

std::string schedule_of(const Files& files) {
    const std::string& spec = files.at("spec.cpp");
    const std::size_t at = spec.find(".schedule =");
    return at == std::string::npos ? "" : spec.substr(at);
}

// Ranks compare these at start: programs that do not send the same in the same order do not have the same.
TEST(RanksText, SchedulesOfDifferentProgramsDiffer) {
    std::map<std::string, std::string> seen;  // by schedule: the options
    auto add = [&seen](const std::string& name, const CompileOptions& o) {
        const std::string schedule = schedule_of(printed("llama5/dynamo.logits.onnx", o));
        EXPECT_FALSE(schedule.empty()) << name;
        const auto [at, fresh] = seen.try_emplace(schedule, name);
        EXPECT_TRUE(fresh) << name << " has the schedule of " << at->second;
    };
    CompileOptions o;
    for (const Mesh mesh : {Mesh{1, 2}, Mesh{2, 2}})
        for (const char* reshard : {"never", "forward", "always"}) {
            o.mesh = mesh;
            o.reshard = reshard;
            add(std::to_string(mesh.replicas) + "x2 " + reshard, o);
        }
    o.mesh = {1, 2};
    o.reshard = "forward";
    for (const char* freeze : {"q_proj", "layers.[02]"}) {
        o.freeze = freeze;
        add(std::string("without ") + freeze, o);
    }
    o.freeze.clear();
    o.mesh = {2, 1};
    for (const std::int64_t bucket : {std::int64_t{4000}, std::int64_t{16000}, std::int64_t{25} << 20}) {
        o.bucket_bytes = bucket;
        add("buckets of " + std::to_string(bucket), o);
    }
}

TEST(RanksText, TheReadmeSaysWhatStaysGathered) {
    CompileOptions o;
    o.mesh = {1, 2};
    auto says = [&o](const std::string& what) {
        const std::string readme = printed("llama5/dynamo.logits.onnx", o).at("README.md");
        EXPECT_NE(readme.find(what), std::string::npos) << what << "\n" << readme;
    };
    says("- 2 of the 5 layers of model.layers.{0..4}, by turns\n");
    says(", with which no loop takes turns: model.embed_tokens, all vectors, lm_head\n");
    says("whole tensors: 15.4 kB of loops' layers, by turns, 7.7 kB of others, to the end of a step |");
    o.reshard = "never";
    says("whole tensors, to the end of a step: no loop takes turns with them |");
    says(" elements: model.embed_tokens, all vectors, lm_head, model.layers.{0..4}\n");
    // Layers that are code of their own are units of what one product reads, which take turns: 4 in each of 5, the
    // table and the head.
    o.reshard = "forward";
    o.roll = false;
    says("- the weights of 2 of 22 products and tables that stand in no loop, by turns\n");
    says(" elements, with which no others take turns: all vectors\n");
    o.reshard = "never";
    says(" elements: model.embed_tokens, all vectors, ");
    says(" and 17 more\n");
}

// Calls that are given WriteMode::overwrite, or a flag that is always true, add to nothing; sums over the micro-steps
// are no gradients.
TEST(RanksText, AFormulaDoesNotAddToWhatIsOverwritten) {
    CompileOptions o;
    for (const char* model : {"llama5/dynamo.logits.onnx", "chain/dynamo.logits.onnx"}) {
        o.mesh = {};
        EXPECT_NE(printed(model, o).at("model.cpp").find(" += "), std::string::npos) << model;
        o.mesh = {1, 2};
        const std::string text = printed(model, o).at("model.cpp");
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            if (line.find("//") != std::string::npos && line.find(" scalars->") != std::string::npos) continue;
            EXPECT_EQ(line.find(" += "), std::string::npos) << line;
        }
        EXPECT_NE(text.find("dW = dyᵀ x"), std::string::npos) << text;
    }
}

// What the README says of gathers is what model.cpp does: of the layers that are still there none is gathered.
TEST(RanksText, TheReadmeCountsWhatIsSent) {
    CompileOptions o;
    o.mesh = {2, 2};
    auto rows = [&o](const char* reshard) {
        o.reshard = reshard;
        const std::string readme = printed("llama5/dynamo.logits.onnx", o).at("README.md");
        std::vector<std::string> out;
        const std::string row = "| `all_gather`, layers, ";
        for (std::size_t at = 0; (at = readme.find(row, at)) != std::string::npos; at += row.size()) {
            const std::size_t times = readme.find(" | ", at) + 3;
            out.push_back(readme.substr(at + row.size(), readme.find(" | ", times) - at - row.size()));
        }
        return out;
    };
    using Rows = std::vector<std::string>;
    EXPECT_EQ(rows("never"), (Rows{"forward | 5 in the first micro-step"}));
    EXPECT_EQ(rows("forward"), (Rows{"forward | 5 in each micro-step", "backward | 3 in each micro-step"}));
    EXPECT_EQ(rows("always"), (Rows{"forward | 5 in each micro-step", "backward | 5 in each micro-step",
                                    "forward | 5 in an evaluation"}));
}

}  // namespace ranks_text_test
}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// What parameters start from: drawn, an export's weights, a file, a Hugging Face folder.
#include <cmath>

#include "device/cpu/narrow.h"
#include "program_test.h"
#include "train/init.h"

namespace thunder {
namespace weights_test {

class WeightsTest : public ProgramTest {
  protected:
    WeightsTest() { write_feed("feed.safetensors", 1, 4); }

    static TestTensor ramp(const std::string& name, std::vector<std::int64_t> shape, float start) {
        std::size_t count = 1;
        for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = start + static_cast<float>(i) / 8;
        return floats(name, std::move(shape), values);
    }
    static std::vector<TestTensor> all(const std::string& prefix = "model.") {
        return {ramp(prefix + "embed.weight", {V, D}, 1), ramp(prefix + "head.weight", {V, D}, 20),
                ramp(prefix + "head.bias", {V}, 40), ramp(prefix + "norm.one_plus_weight", {D}, 50),
                ramp(prefix + "frozen.weight", {D}, 60)};
    }
    static std::vector<TestTensor> without(std::vector<TestTensor> tensors, const std::string& name) {
        std::erase_if(tensors, [&](const TestTensor& t) { return t.name == name; });
        return tensors;
    }

    Outcome start(const std::string& how) const {
        return run("words_train", "--feed feed.safetensors --steps 0 --save out.safetensors --quiet " + how);
    }
    void expect_loaded(const std::string& how) const {
        std::filesystem::remove(path("out.safetensors"));
        expect_success(start(how));
        for (const TestTensor& wanted : all()) {
            const std::vector<float> values = read_floats(path("out.safetensors"), wanted.name);
            EXPECT_EQ(std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4), wanted.bytes)
                << wanted.name << " " << how;
        }
    }
    void expect_failure(const std::string& how, const std::string& error) const {
        const Outcome outcome = start(how);
        EXPECT_EQ(outcome.status, 1);
        EXPECT_EQ(outcome.err, error + "\n");
    }
};

TEST_F(WeightsTest, AreDrawnByName) {
    expect_success(start("--seed 5 --init-std 0.5"));
    std::vector<float> expected(V * D);
    random_normal(expected.data(), 0, expected.size(), 5, "model.head.weight");
    for (float& x : expected) x *= 0.5F;
    EXPECT_EQ(read_floats(path("out.safetensors"), "model.head.weight"), expected);
    EXPECT_EQ(read_floats(path("out.safetensors"), "model.norm.one_plus_weight"), std::vector<float>(D, 1));
    EXPECT_EQ(read_floats(path("out.safetensors"), "model.head.bias"), std::vector<float>(V, 0));
    const std::string one = read_file(path("out.safetensors"));
    expect_success(start("--seed 5 --init-std 0.5 --threads 2"));
    EXPECT_EQ(read_file(path("out.safetensors")), one);
    const Outcome told = run("words_train", "--feed feed.safetensors --steps 0 --seed 5 --init-std 0.5");
    EXPECT_NE(told.err.find("5 parameters drawn: norm scales 1, biases 0, all else N(0, 0.5) with seed 5\n"),
              std::string::npos)
        << told.err;
}

TEST_F(WeightsTest, ComeFromTheExportByDefault) {
    write_tensors(path("weights.safetensors"), all());
    expect_loaded("");
    expect_success(start("--init random"));
    EXPECT_EQ(read_floats(path("out.safetensors"), "model.head.bias"), std::vector<float>(V, 0));
}

TEST_F(WeightsTest, ComeFromAFileWithOrWithoutAWrapper) {
    write_tensors(path("same.safetensors"), all());
    write_tensors(path("bare.safetensors"), all(""));
    write_tensors(path("wrapped.safetensors"), all("_orig_mod.model."));
    for (const char* file : {"same", "bare", "wrapped"}) expect_loaded(cat("--init ", file, ".safetensors"));
}

TEST_F(WeightsTest, ComeFromAFolderOfHuggingFace) {
    std::filesystem::create_directories(path("whole"));
    write_tensors(path("whole/model.safetensors"), all());
    expect_loaded("--init whole");

    std::filesystem::create_directories(path("shards"));
    std::vector<TestTensor> tensors = all();
    write_tensors(path("shards/a.safetensors"), {tensors[0], tensors[1]});
    tensors.erase(tensors.begin(), tensors.begin() + 2);
    tensors.push_back(ramp("model.rotary.inv_freq", {4}, 0));
    write_tensors(path("shards/b.safetensors"), tensors);
    const std::string index =
        R"({"metadata":{"total_size":1},"weight_map":{"model.embed.weight":"a.safetensors","model.head.weight":"a.safetensors",)"
        R"("model.head.bias":"b.safetensors","model.norm.one_plus_weight":"b.safetensors","model.frozen.weight":"b.safetensors","model.rotary.inv_freq":"b.safetensors"}})";
    write_file(path("shards/model.safetensors.index.json"), index);
    expect_loaded("--init shards");
    const Outcome told = run("words_train", "--feed feed.safetensors --steps 0 --init shards");
    EXPECT_NE(told.err.find("parameters from shards\nnot used from there: model.rotary.inv_freq\n"), std::string::npos)
        << told.err;

    std::filesystem::remove(path("shards/b.safetensors"));
    expect_failure("--init shards", "error: no such file: shards/b.safetensors\nhelp: check the name of the file");
    write_tensors(path("shards/b.safetensors"), without(tensors, "model.head.bias"));
    expect_failure(
        "--init shards",
        "error: shards/model.safetensors.index.json says that model.head.bias is in b.safetensors, and it is not\n"
        "help: the folder's files are not of one checkpoint: get the folder again");
    write_file(path("shards/model.safetensors.index.json"), R"({"weight_map":{"x":"../../etc/passwd"}})");
    expect_failure("--init shards",
                   "error: shards/model.safetensors.index.json: the entry of x is not a file's name\n"
                   "help: the index is damaged, or was not written by save_pretrained: get the folder again");
    write_file(path("shards/model.safetensors.index.json"), "{}");
    expect_failure("--init shards",
                   "error: shards/model.safetensors.index.json has no weight_map\n"
                   "help: the index is damaged, or was not written by save_pretrained: get the folder again");

    std::filesystem::create_directories(path("other"));
    const std::string lacks =
        "error: --init other: the folder has neither model.safetensors nor pytorch_model.bin, nor an index of them\n";
    expect_failure("--init other", lacks + "help: it holds nothing");
    write_file(path("other/config.json"), "{}");
    expect_failure("--init other", lacks + "help: it holds config.json");
}

// Recorded by scripts/make_torch_files.py: the same numbers, as PyTorch wrote them.
TEST_F(WeightsTest, ComeFromFilesOfPyTorch) {
    const std::string recorded = FIXTURES "/torch_files/";
    for (const char* name : {"words_checkpoint.pt", "words_checkpoint.pt#model", "words_wrapped.pt", "folder"})
        expect_loaded(cat("--init ", recorded, name));
    const Outcome told =
        run("words_train", cat("--feed feed.safetensors --steps 0 --init ", recorded, "words_checkpoint.pt"));
    EXPECT_NE(told.err.find(cat("parameters from ", recorded, "words_checkpoint.pt: its model\n")), std::string::npos)
        << told.err;
    std::filesystem::create_directories(path("whole"));
    std::filesystem::copy_file(recorded + "words_wrapped.pt", path("whole/pytorch_model.bin"));
    expect_loaded("--init whole");
    // What has other tensors says which.
    const Outcome other = start(cat("--init ", recorded, "several.pt#generator"));
    EXPECT_EQ(other.status, 1);
    EXPECT_NE(other.err.find("lacks 5 parameters of the program"), std::string::npos) << other.err;
}

TEST_F(WeightsTest, AreConverted) {
    std::vector<TestTensor> tensors = without(all(), "model.head.bias");
    std::vector<std::uint16_t> halves(V);
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = bits_of(to_bf16(static_cast<float>(i)));
    tensors.push_back(tensor("model.head.bias", DType::bf16, {V}, halves));
    write_tensors(path("x.safetensors"), tensors);
    expect_success(start("--init x.safetensors"));
    const std::vector<float> bias = read_floats(path("out.safetensors"), "model.head.bias");
    for (std::size_t i = 0; i < bias.size(); ++i) EXPECT_EQ(bias[i], static_cast<float>(i));
}

TEST_F(WeightsTest, OfATieAreOne) {
    // The tied name alone will do; both will do where they agree.
    std::vector<TestTensor> tensors = all();
    tensors[0].name = "model.tied.weight";
    write_tensors(path("tied.safetensors"), tensors);
    expect_loaded("--init tied.safetensors");
    tensors.push_back(all()[0]);
    write_tensors(path("both.safetensors"), tensors);
    expect_loaded("--init both.safetensors");
    tensors.back().bytes[5] ^= 1;
    write_tensors(path("differ.safetensors"), tensors);
    expect_failure(
        "--init differ.safetensors",
        "error: differ.safetensors: model.embed.weight and model.tied.weight differ, and in the program they are one "
        "parameter\n"
        "help: the file's model does not tie them; export that model, or remove one of the two from the file");
}

TEST_F(WeightsTest, ThatAreMissingAreNamedOrDrawn) {
    // Neither of the two that a checkpoint may tie is there.
    std::vector<TestTensor> tensors =
        without(without(without(all(), "model.norm.one_plus_weight"), "model.head.weight"), "model.embed.weight");
    tensors.push_back(ramp("model.norm.weight", {D}, 0));
    write_tensors(path("x.safetensors"), tensors);
    expect_failure(
        "--init x.safetensors",
        "error: x.safetensors lacks 3 parameters of the program: model.embed.weight, model.head.weight, "
        "model.norm.one_plus_weight; model.norm.one_plus_weight is no tensor of the checkpoint: the exporter stored 1 "
        "+ "
        "model.norm.weight\n"
        "help: it holds model.frozen.weight, model.head.bias, model.norm.weight; --init-missing random draws what is "
        "missing, --init-missing 'REGEX=zeros,random' begins some at 0");
    expect_success(start("--init x.safetensors --init-missing random --seed 5 --init-std 1"));
    std::vector<float> expected(V * D);
    random_normal(expected.data(), 0, expected.size(), 5, "model.head.weight");
    EXPECT_EQ(read_floats(path("out.safetensors"), "model.head.weight"), expected);
    const Outcome told =
        run("words_train", "--feed feed.safetensors --steps 0 --init x.safetensors --init-missing random");
    EXPECT_NE(told.err.find("parameters from x.safetensors\n3 parameters drawn: norm scales 1, biases 0, all else N(0, "
                            "0.02) with seed 0\nnot used from there: model.norm.weight\n"),
              std::string::npos)
        << told.err;
}

TEST_F(WeightsTest, ThatAreMissingBeginAsRulesSay) {
    write_tensors(path("x.safetensors"), without(without(all(), "model.head.weight"), "model.head.bias"));
    const std::string begun = "--init x.safetensors --seed 5 --init-std 1 --init-missing ";
    std::vector<float> drawn(V * D);
    random_normal(drawn.data(), 0, drawn.size(), 5, "model.head.weight");
    expect_success(start(begun + "'head.w=zeros,bias=ones'"));
    EXPECT_EQ(read_floats(path("out.safetensors"), "model.head.weight"), std::vector<float>(V * D, 0));
    EXPECT_EQ(read_floats(path("out.safetensors"), "model.head.bias"), std::vector<float>(V, 1));
    // The first that fits; one with a comma in it.
    expect_success(start(begun + "'bias{0,3}=ones,head=random,zeros'"));
    EXPECT_EQ(read_floats(path("out.safetensors"), "model.head.weight"), drawn);
    EXPECT_EQ(read_floats(path("out.safetensors"), "model.head.bias"), std::vector<float>(V, 1));
    // A bare word is for the rest, wherever it stands.
    expect_success(start(begun + "'random,bias=ones'"));
    EXPECT_EQ(read_floats(path("out.safetensors"), "model.head.weight"), drawn);
    EXPECT_EQ(read_floats(path("out.safetensors"), "model.head.bias"), std::vector<float>(V, 1));
    const Outcome told = run("words_train",
                             "--feed feed.safetensors --steps 0 --init x.safetensors --init-missing "
                             "'head=zeros'");
    EXPECT_NE(told.err.find("\nmodel.head.weight, model.head.bias begin at 0\n"), std::string::npos) << told.err;
    write_tensors(path("z.safetensors"), without(without(all(), "model.frozen.weight"), "model.head.bias"));
    const Outcome stays =
        run("words_train", "--feed feed.safetensors --steps 0 --init z.safetensors --init-missing random");
    EXPECT_NE(
        stays.err.find("\nnote: frozen parameters are among those that are drawn, and stay so: model.frozen.weight\n"),
        std::string::npos)
        << stays.err;
    // What no rule takes is missing, and a rule that takes no parameter is a slip of the pen.
    write_tensors(path("y.safetensors"), without(without(all(), "model.frozen.weight"), "model.head.bias"));
    expect_failure("--init y.safetensors --init-missing bias=zeros",
                   "error: y.safetensors lacks 1 parameter of the program: model.frozen.weight\n"
                   "help: it holds model.embed.weight, model.head.weight, model.norm.one_plus_weight; --init-missing "
                   "random draws what is missing, --init-missing 'REGEX=zeros,random' begins some at 0");
    const Outcome slip = start("--init y.safetensors --init-missing lora_B=zeros");
    EXPECT_EQ(slip.status, 2);
    EXPECT_EQ(slip.err,
              "error: --init-missing lora_B matches no parameter of words\n"
              "help: the parameters are model.embed.weight, model.head.weight, model.head.bias, "
              "model.norm.one_plus_weight, model.frozen.weight\n");
}

// A checkpoint has one of two tied tensors alone: a program in which they are two begins with it in both, and says so.
TEST_F(WeightsTest, OfATiedCheckpointGoToBoth) {
    const std::string run_it = "--feed feed.safetensors --steps 0 --save out.safetensors --init ";
    const auto note = [](const std::string& from, const std::string& lacks, const std::string& has) {
        return "\nnote: " + from + " has no " + lacks + ", as where a model ties that to " + has +
               ": it begins with these values; in this program the two are trained apart\n";
    };
    std::filesystem::create_directory(path("hf"));
    const std::pair<std::string, std::string> pairs[] = {{"model.head.weight", "model.embed.weight"},
                                                         {"model.embed.weight", "model.head.weight"}};
    for (const auto& [lacks, has] : pairs)
        for (const std::string from : {"x.safetensors", "hf"}) {
            write_tensors(path(from == "hf" ? "hf/model.safetensors" : from), without(all(), lacks));
            // The program knows the pair; where it does not, the checkpoint has to say that there is one.
            write_file(path("hf/config.json"), R"({"tie_word_embeddings": true})");
            for (const std::string program : {"words_train", "words_without_pair_train"}) {
                if (program == "words_without_pair_train" && from != "hf") continue;
                const Outcome told = run(program, run_it + from);
                EXPECT_EQ(told.status, 0) << told.err;
                EXPECT_NE(told.err.find(note(from, lacks, has)), std::string::npos) << told.err;
                EXPECT_EQ(read_floats(path("out.safetensors"), lacks), read_floats(path("out.safetensors"), has));
            }
            // What is asked for goes first, by name or for all that is missing.
            expect_success(start("--init " + from + " --init-missing head=zeros,embed=zeros"));
            EXPECT_EQ(read_floats(path("out.safetensors"), lacks), std::vector<float>(V * D, 0));
            expect_success(start("--init " + from + " --init-missing random --seed 5 --init-std 1"));
            std::vector<float> drawn(V * D);
            random_normal(drawn.data(), 0, drawn.size(), 5, lacks);
            EXPECT_EQ(read_floats(path("out.safetensors"), lacks), drawn);
        }
    // As Python writes what JSON has no word for.
    write_file(path("hf/config.json"), R"({"limits": [0.0, Infinity, NaN], "tie_word_embeddings": true})");
    EXPECT_EQ(start("--init hf").status, 0);
    // Its own description says that it ties nothing: then something is missing.
    write_file(path("hf/config.json"), R"({"tie_word_embeddings": false})");
    EXPECT_EQ(start("--init hf").status, 1);
    // Of a file that has everything nothing is asked, whatever lies beside it.
    write_tensors(path("hf/model.safetensors"), all());
    write_file(path("hf/config.json"), "{damaged");
    EXPECT_EQ(start("--init hf").status, 0);
}

// Two tables of one size, as of users and items, are no pair: nothing says that one of them has the other's numbers.
TEST_F(WeightsTest, ThatAreAlikeAreNotTiedByThat) {
    write_tensors(path("x.safetensors"), without(all(), "model.head.weight"));
    const Outcome refused = run("words_without_pair_train", "--feed feed.safetensors --steps 0 --init x.safetensors");
    EXPECT_EQ(refused.status, 1);
    EXPECT_EQ(refused.err.substr(refused.err.find("error: ")),
              "error: x.safetensors lacks 1 parameter of the program: model.head.weight\n"
              "help: it holds model.embed.weight, model.frozen.weight, model.head.bias, model.norm.one_plus_weight; "
              "if its model ties model.head.weight to model.embed.weight, say so in config.json beside it: "
              "{\"tie_word_embeddings\": true}; --init-missing random draws what is missing, --init-missing "
              "'REGEX=zeros,random' begins some at 0\n");
}

TEST_F(WeightsTest, OfOtherShapesOrTypesAreRefused) {
    const auto with = [&](TestTensor changed) {
        std::vector<TestTensor> tensors = without(all(), changed.name);
        tensors.push_back(std::move(changed));
        write_tensors(path("x.safetensors"), tensors);
        return std::string("--init x.safetensors");
    };
    expect_failure(with(ramp("model.head.weight", {V, D + 1}, 0)),
                   "error: x.safetensors: model.head.weight is F32 [11, 9], and the program's parameter "
                   "model.head.weight is F32 [11, 8]\n"
                   "help: the file belongs to a model of other sizes");
    expect_failure(with(ramp("model.head.weight", {D, V}, 0)),
                   "error: x.safetensors: model.head.weight is F32 [8, 11], and the program's parameter "
                   "model.head.weight is F32 [11, 8]\n"
                   "help: the two are transposed: the file is of another model, or was written by another framework");
    expect_failure(
        with(longs("model.head.bias", {V}, std::vector<std::int64_t>(V))),
        "error: x.safetensors: model.head.bias is I64 [11], and the program's parameter model.head.bias is F32 [11]\n"
        "help: write it with that type");
    expect_failure("--init none.safetensors",
                   "error: no such file: none.safetensors\nhelp: check the name of the file");
    std::filesystem::remove(path("constants.safetensors"));
    expect_failure("--init random", "error: no such file: ./constants.safetensors\nhelp: check the name of the file");
    write_tensors(path("constants.safetensors"), {ramp("tabel", {D}, 0)});
    expect_failure("--init random",
                   "error: ./constants.safetensors lacks the table table\nhelp: it is not the file that was written "
                   "with this program: write the program again");
    write_tensors(path("constants.safetensors"), {ramp("table", {D + 1}, 0)});
    expect_failure("--init random",
                   "error: ./constants.safetensors: table is F32 [9], and the program's table is F32 [8]\nhelp: the "
                   "file belongs to a model of other sizes");
}

}  // namespace weights_test
}  // namespace thunder

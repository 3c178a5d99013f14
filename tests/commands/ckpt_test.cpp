// SPDX-License-Identifier: Apache-2.0
// thunderc ckpt. What it reads is written by hand here, byte by byte; what it writes is read back so.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "commands_test.h"

namespace thunderc::commands {
namespace ckpt_test {

struct Written {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
    std::vector<float> numbers;
};

std::string bytes_of(const Written& tensor) {
    std::string out;
    for (const float x : tensor.numbers) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &x, sizeof bits);
        const bool half = tensor.dtype == "BF16";  // numbers that it holds
        if (half) bits >>= 16;
        out.append(reinterpret_cast<const char*>(&bits), half ? 2 : 4);
    }
    return out;
}

void write_safetensors(const fs::path& path, const std::vector<Written>& tensors,
                       const std::map<std::string, std::string>& metadata = {}) {
    nlohmann::json header = nlohmann::json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    std::string data;
    for (const Written& t : tensors) {
        const std::string bytes = bytes_of(t);
        header[t.name] = {
            {"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {data.size(), data.size() + bytes.size()}}};
        data += bytes;
    }
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << text << data;
}

std::map<std::string, Written> read_safetensors(const fs::path& path) {
    const std::string all = contents(path);
    std::uint64_t length = 0;
    std::memcpy(&length, all.data(), sizeof length);
    std::map<std::string, Written> out;
    const auto header = nlohmann::json::parse(all.substr(8, length));
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__") continue;
        Written t{name, entry.at("dtype"), entry.at("shape"), {}};
        const std::size_t width = t.dtype == "BF16" ? 2 : 4;
        for (std::size_t at = entry.at("data_offsets")[0]; at < entry.at("data_offsets")[1]; at += width) {
            std::uint32_t bits = 0;
            std::memcpy(&bits, all.data() + 8 + length + at, width);
            if (width == 2) bits <<= 16;
            float x = 0;
            std::memcpy(&x, &bits, sizeof x);
            t.numbers.push_back(x);
        }
        out[name] = t;
    }
    return out;
}

class Ckpt : public Commands {
  protected:
    // As earlier programs wrote them, one file.
    static std::vector<Written> state(float scale) {
        std::vector<float> table(12), head(12), momentum(12);
        for (std::size_t i = 0; i < 12; ++i) {
            table[i] = scale * static_cast<float>(i);
            head[i] = scale * (1 + 0.5F * static_cast<float>(i));
            momentum[i] = 7;
        }
        return {{"net.embed.weight", "F32", {4, 3}, table},
                {"net.head.weight", "F32", {4, 3}, head},
                {"net.norm.weight", "F32", {3}, {scale, 2, 3}},
                {"optimizer.ema.net.norm.weight", "F32", {3}, {9, 8, 7}},
                {"optimizer.m.net.embed.weight", "F32", {4, 3}, momentum}};
    }
    static void write_checkpoint(const fs::path& path, float scale, const std::string& step = "3") {
        write_safetensors(path, state(scale),
                          {{"format", "thunder-checkpoint"},
                           {"version", "1"},
                           {"step", step},
                           {"program", "net"},
                           {"optimizer", "adamw"},
                           {"seed", "4"},
                           {"batches", "--feed"},
                           {"data_position", "12"}});
    }
    static Ran ckpt(const std::string& arguments) { return run("ckpt " + arguments); }
};

TEST_F(Ckpt, InspectShowsWhatACheckpointIsOf) {
    fs::create_directory("c");
    write_checkpoint("c/step-00000002.safetensors", 2, "2");
    write_checkpoint("c/step-00000003.safetensors", 1);
    const Ran ran = ckpt("inspect c");  // the newest
    EXPECT_EQ(ran.status, 0) << ran.err;
    for (const char* line :
         {"checkpoint        c/step-00000003.safetensors\n", "program           net\n", "step              3\n",
          "optimizer         adamw\n", "data              --feed, from row 12 on\n",
          "parameters        3 tensors, 27 elements, 108 bytes\n",
          "optimizer's state 2 tensors, 15 elements, 60 bytes\n"})
        EXPECT_NE(ran.out.find(line), std::string::npos) << line << ran.out;
    EXPECT_NE(ran.out.find("without checksums"), std::string::npos) << ran.out;
    EXPECT_EQ(ckpt("inspect none").status, 1);
    EXPECT_EQ(ckpt("").status, 2);
}

TEST_F(Ckpt, ReshardedCheckpointsAreTheSame) {
    write_checkpoint("old.safetensors", 1);
    for (const int ranks : {1, 2, 5, 100}) {
        const std::string out = "r" + std::to_string(ranks);
        const Ran ran = ckpt("reshard old.safetensors --ranks " + std::to_string(ranks) + " -o " + out);
        EXPECT_EQ(ran.status, 0) << ran.err;
        EXPECT_EQ(ran.out, out + "/step-00000003\n");
        const Ran same = ckpt("diff old.safetensors " + out);
        EXPECT_EQ(same.status, 0) << same.out << same.err;
        EXPECT_EQ(same.out, "5 tensors the same, 0 not\n");
        EXPECT_EQ(ckpt("verify " + out).status, 0);
        // Each part is where the manifest says.
        const auto manifest = nlohmann::json::parse(contents(out + "/step-00000003/manifest.json"));
        EXPECT_EQ(manifest.at("files").size(), std::min<std::size_t>(static_cast<std::size_t>(ranks), 42U));
        for (const Written& t : state(1)) {
            std::vector<float> numbers;
            for (const auto& part : manifest.at("tensors").at(t.name).at("parts")) {
                const std::string name = manifest.at("files")[part[0].get<std::size_t>()].at("name");
                const std::vector<float> more = read_safetensors(out + "/step-00000003/" + name).at(t.name).numbers;
                EXPECT_EQ(part[1].get<std::size_t>(), numbers.size());
                EXPECT_EQ(part[2].get<std::size_t>(), more.size());
                numbers.insert(numbers.end(), more.begin(), more.end());
            }
            EXPECT_EQ(numbers, t.numbers) << t.name;
        }
        // Nothing is written over.
        EXPECT_EQ(ckpt("reshard old.safetensors --ranks 2 -o " + out).status, 1);
    }
    const Ran again = ckpt("reshard r5 --ranks 3 -o back");
    EXPECT_EQ(again.status, 0) << again.err;
    EXPECT_EQ(ckpt("diff back old.safetensors").status, 0);
}

TEST_F(Ckpt, VerifyFindsAnyDamage) {
    write_checkpoint("old.safetensors", 1);
    Ran ran = ckpt("verify old.safetensors");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err,
              "error: old.safetensors was written without a checksum: whether its bytes are as they were is not known\n"
              "help: checkpoints have checksums; files of --save and of other programs have none\n");
    ASSERT_EQ(ckpt("reshard old.safetensors --ranks 2 -o c").status, 0);
    EXPECT_EQ(ckpt("verify c").out.find("c/step-00000003: 5 tensors, "), 0U);
    for (const std::string name : {"manifest.json", "rank-00000.safetensors", "rank-00001.safetensors"}) {
        const fs::path path = "c/step-00000003/" + name;
        const std::string whole = contents(path);
        for (std::size_t at = 3; at < whole.size(); at += 101) {
            std::string other = whole;
            other[at] = static_cast<char>(other[at] ^ 16);
            write(path, other);
            ran = ckpt("verify c");
            EXPECT_EQ(ran.status, 1) << name << at << ran.out;
        }
        fs::remove(path);
        ran = ckpt("verify c/step-00000003");
        EXPECT_EQ(ran.status, 1) << ran.out;
        write(path, whole);
    }
    EXPECT_EQ(ckpt("verify c").status, 0);
}

TEST_F(Ckpt, DiffSaysWhatDiffersAndByHowMuch) {
    write_checkpoint("a.safetensors", 1);
    auto other = state(1);
    other[0].numbers[5] = 7;  // 5 there
    other[3].numbers[0] = std::nanf("");
    other[2].shape = {1, 3};
    other[4].name = "optimizer.v.net.embed.weight";
    write_safetensors("b.safetensors", other);
    const Ran ran = ckpt("diff a.safetensors b.safetensors");
    EXPECT_EQ(ran.status, 1);
    const auto line = [&](const std::string& name) {
        const std::size_t at = ran.out.find("\n" + name) + 1;
        return ran.out.substr(at, ran.out.find('\n', at) - at);
    };
    EXPECT_NE(line("net.embed.weight").find(" 1 of 12 "), std::string::npos) << ran.out;
    EXPECT_NE(line("net.embed.weight").find(" 2     0.285714"), std::string::npos) << ran.out;
    EXPECT_NE(line("net.norm.weight").find("F32 [3] and F32 [1, 3]"), std::string::npos) << ran.out;
    EXPECT_NE(line("optimizer.ema.net.norm.weight").find(" inf "), std::string::npos) << ran.out;
    EXPECT_NE(line("optimizer.m.net.embed.weight").find("only in a.safetensors"), std::string::npos) << ran.out;
    EXPECT_NE(line("optimizer.v.net.embed.weight").find("only in b.safetensors"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("\n1 tensor the same, 5 not\n"), std::string::npos) << ran.out;
}

TEST_F(Ckpt, AverageIsTheMean) {
    for (const int k : {1, 2, 4}) write_checkpoint("s" + std::to_string(k) + ".safetensors", static_cast<float>(k));
    const Ran ran = ckpt("average s1.safetensors s2.safetensors s4.safetensors -o mean.safetensors");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, "mean.safetensors: the mean of 3 checkpoints\n");
    const auto mean = read_safetensors("mean.safetensors");
    EXPECT_EQ(mean.size(), 3U);  // parameters alone
    for (std::size_t i = 0; i < 12; ++i)
        EXPECT_EQ(mean.at("net.embed.weight").numbers[i],
                  static_cast<float>((1.0 + 2.0 + 4.0) * static_cast<double>(i) / 3));
    auto other = state(1);
    other[1].name = "net.tail.weight";
    write_safetensors("o.safetensors", other);
    EXPECT_EQ(ckpt("average s1.safetensors o.safetensors -o m.safetensors").status, 1);
    EXPECT_FALSE(fs::exists("m.safetensors"));
}

TEST_F(Ckpt, ConvertWritesParametersAlone) {
    write_checkpoint("old.safetensors", 0.25F);
    ASSERT_EQ(ckpt("reshard old.safetensors --ranks 3 -o c").status, 0);
    ASSERT_EQ(ckpt("convert c -o w.safetensors").status, 0);
    auto tensors = read_safetensors("w.safetensors");
    EXPECT_EQ(tensors.size(), 3U);
    for (const Written& t : state(0.25F))
        if (!t.name.starts_with("optimizer.")) {
            EXPECT_EQ(tensors.at(t.name).numbers, t.numbers);
        }
    ASSERT_EQ(ckpt("convert c --ema --dtype bf16 -o w.safetensors").status, 0);
    tensors = read_safetensors("w.safetensors");
    EXPECT_EQ(tensors.at("net.norm.weight").numbers, (std::vector<float>{9, 8, 7}));
    EXPECT_EQ(tensors.at("net.embed.weight").dtype, "BF16");
    EXPECT_EQ(tensors.at("net.embed.weight").numbers[3], 0.75F);
    EXPECT_EQ(ckpt("convert c --like c -o w.safetensors").status, 1);
    EXPECT_EQ(ckpt("convert c --dtype f8 -o w.safetensors").status, 2);
}

// A folder that transformers loads: names of the model's own folder, its configuration, files of weights of a size.
TEST_F(Ckpt, ConvertWritesAModelsFolder) {
    write_checkpoint("old.safetensors", 1);
    fs::create_directory("like");
    // Its names have no wrapper's prefix, its head is tied, and it has a buffer that the program does not know.
    write_safetensors("like/model.safetensors", {{"embed.weight", "F32", {4, 3}, std::vector<float>(12)},
                                                 {"norm.weight", "F32", {3}, {1, 1, 1}},
                                                 {"rope.frequencies", "F32", {2}, {3, 4}}});
    write("like/config.json", "{\n  \"torch_dtype\": \"float32\",\n  \"tie_word_embeddings\": true, \"n\": 3\n}\n");
    write("like/tokenizer.json", "{}");
    write("like/pytorch_model.bin", "no");
    write("like/.hidden", "no");
    Ran ran = ckpt("convert old.safetensors --to hf --like like --dtype bf16 -o out");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("note: head.weight was trained apart from what the model ties it to: config.json says "
                           "\"tie_word_embeddings\": false\n"),
              std::string::npos)
        << ran.out;
    EXPECT_NE(ran.out.find("note: rope.frequencies is not in the checkpoint: taken from like as it is\n"),
              std::string::npos)
        << ran.out;
    EXPECT_EQ(contents("out/config.json"),
              "{\n  \"torch_dtype\": \"bfloat16\",\n  \"tie_word_embeddings\": false, \"n\": 3\n}\n");
    EXPECT_EQ(contents("out/tokenizer.json"), "{}");
    for (const char* not_there : {"out/pytorch_model.bin", "out/.hidden", "out/model.safetensors.index.json"})
        EXPECT_FALSE(fs::exists(not_there)) << not_there;
    auto tensors = read_safetensors("out/model.safetensors");
    EXPECT_EQ(tensors.size(), 4U);
    EXPECT_EQ(tensors.at("embed.weight").numbers[2], 2);
    EXPECT_EQ(tensors.at("head.weight").numbers[2], 2);
    EXPECT_EQ(tensors.at("rope.frequencies").numbers, (std::vector<float>{3, 4}));

    // Where the head is what it is tied to, it is left out.
    auto tied = state(1);
    tied[1].numbers = tied[0].numbers;
    write_safetensors("tied.safetensors", tied, {{"format", "thunder-checkpoint"}});
    ran = ckpt("convert tied.safetensors --to hf --like like -o out");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("note: head.weight is left out: it is embed.weight\n"), std::string::npos) << ran.out;
    EXPECT_EQ(read_safetensors("out/model.safetensors").size(), 3U);
    EXPECT_NE(contents("out/config.json").find("\"tie_word_embeddings\": true"), std::string::npos);

    // Another model's folder.
    write_safetensors("like/model.safetensors", {{"embed.weight", "F32", {6, 2}, std::vector<float>(12)}});
    EXPECT_EQ(ckpt("convert old.safetensors --to hf --like like -o other").status, 1);
    EXPECT_FALSE(fs::exists("other/model.safetensors"));
}

// W + scale B A, by numbers that are worked out by hand.
class Merge : public Ckpt {
  protected:
    // A (2, 2) and B (3, 2) beside "net.q.weight" (3, 2), and "net.head.weight" whole.
    static void write_adapter(const std::string& config, const std::string& dtype = "F32") {
        fs::create_directory("adapter");
        write("adapter/adapter_config.json", config);
        write_safetensors("adapter/adapter_model.safetensors",
                          {{"base_model.model.net.head.weight", dtype, {2}, {5, 6}},
                           {"base_model.model.net.q.lora_A.weight", dtype, {2, 2}, {1, 2, 3, 4}},
                           {"base_model.model.net.q.lora_B.weight", dtype, {3, 2}, {1, 0, 0, 1, 1, 1}}});
    }
    static void write_base(const std::vector<std::int64_t>& shape = {3, 2}) {
        write_safetensors("base.safetensors", {{"net.head.weight", "F32", {2}, {1, 1}},
                                               {"net.other.weight", "F32", {2}, {7, 8}},
                                               {"net.q.weight", "F32", shape, {10, 20, 30, 40, 50, 60}}});
    }
    static constexpr const char* config = R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})";
};

// B A = {{1, 2}, {3, 4}, {4, 6}}, and alpha / r = 2.
TEST_F(Merge, AddsScaledProductsAndTakesWholeTensors) {
    write_adapter(config);
    write_base();
    Ran ran = ckpt("convert base.safetensors --merge adapter -o merged.safetensors");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("1 adapter of adapter merged, and 1 tensor taken as they are\n"), std::string::npos)
        << ran.out;
    const auto merged = read_safetensors("merged.safetensors");
    EXPECT_EQ(merged.size(), 3U);
    EXPECT_EQ(merged.at("net.q.weight").numbers, (std::vector<float>{12, 24, 36, 48, 58, 72}));
    EXPECT_EQ(merged.at("net.head.weight").numbers, (std::vector<float>{5, 6}));
    EXPECT_EQ(merged.at("net.other.weight").numbers, (std::vector<float>{7, 8}));

    // (in, out), as GPT-2 has weights; adapters and result in bf16, which hold these numbers.
    write_base({2, 3});
    write_adapter(config, "BF16");
    ran = ckpt("convert base.safetensors --merge adapter --dtype bf16 -o merged.safetensors");
    EXPECT_EQ(ran.status, 0) << ran.err;
    const auto turned = read_safetensors("merged.safetensors").at("net.q.weight");
    EXPECT_EQ(turned.dtype, "BF16");
    EXPECT_EQ(turned.numbers, (std::vector<float>{12, 26, 38, 44, 58, 72}));

    // alpha / sqrt(r): of r = 2 and alpha = sqrt(2), 1.
    write_adapter(R"({"peft_type": "LORA", "lora_alpha": 1.4142135623730951, "use_rslora": true})");
    write_base();
    ran = ckpt("convert base.safetensors --merge adapter -o merged.safetensors");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(read_safetensors("merged.safetensors").at("net.q.weight").numbers,
              (std::vector<float>{11, 22, 33, 44, 54, 66}));
}

TEST_F(Merge, SquareWeightsAreTurnedAsTheConfigurationSays) {
    fs::create_directory("adapter");
    write_safetensors("adapter/adapter_model.safetensors",
                      {{"base_model.model.q.lora_A.weight", "F32", {1, 2}, {1, 2}},
                       {"base_model.model.q.lora_B.weight", "F32", {2, 1}, {3, 5}}});
    write_safetensors("base.safetensors", {{"q.weight", "F32", {2, 2}, {0, 0, 0, 0}}});
    for (const bool turned : {false, true}) {
        write("adapter/adapter_config.json",
              std::string(R"({"peft_type": "LORA", "lora_alpha": 1, "fan_in_fan_out": )") +
                  (turned ? "true}" : "false}"));
        const Ran ran = ckpt("convert base.safetensors --merge adapter -o merged.safetensors");
        EXPECT_EQ(ran.status, 0) << ran.err;
        EXPECT_EQ(read_safetensors("merged.safetensors").at("q.weight").numbers,
                  turned ? (std::vector<float>{3, 5, 6, 10}) : (std::vector<float>{3, 6, 5, 10}));
    }
}

// A checkpoint of a program with adapters holds them, too; those of the folder are merged.
TEST_F(Merge, AdaptersOfACheckpointAreLeftOut) {
    write_adapter(config);
    write_safetensors("step-00000003.safetensors",
                      {{"base_model.model.net.q.lora_A.weight", "F32", {2, 2}, {0, 0, 0, 0}},
                       {"base_model.model.net.q.lora_B.weight", "F32", {3, 2}, {0, 0, 0, 0, 0, 0}},
                       {"net.head.weight", "F32", {2}, {5, 6}},
                       {"net.q.weight", "F32", {3, 2}, {10, 20, 30, 40, 50, 60}}},
                      {{"format", "thunder-checkpoint"}});
    const Ran ran = ckpt("convert step-00000003.safetensors --merge adapter -o merged.safetensors");
    EXPECT_EQ(ran.status, 0) << ran.err;
    const auto merged = read_safetensors("merged.safetensors");
    EXPECT_EQ(merged.size(), 2U);
    EXPECT_EQ(merged.at("net.q.weight").numbers[5], 72);
}

TEST_F(Merge, RefusesWhatItDoesNotKnow) {
    write_base();
    const auto refused = [](const std::string& said) {
        const Ran ran = ckpt("convert base.safetensors --merge adapter -o merged.safetensors");
        EXPECT_EQ(ran.status, 1);
        EXPECT_NE(ran.err.find(said), std::string::npos) << ran.err;
        EXPECT_FALSE(fs::exists("merged.safetensors"));
    };
    refused("adapter has no adapter_model.safetensors");
    write_adapter(R"({"peft_type": "LORA", "use_dora": true})");
    refused("use_dora is true");
    write_adapter(R"({"peft_type": "IA3"})");
    refused("the adapters are no LORA");
    write_adapter(R"({"peft_type": "LORA", "alpha_pattern": {"q": 3}})");
    refused("alpha_pattern gives some modules a scale of their own");
    fs::remove("adapter/adapter_config.json");
    refused("adapter has no adapter_config.json");
    write_adapter(config);
    write_base({6});
    refused("net.q.weight is F32 [6], and its adapter goes from 2 to 3 in adapter");
    write_safetensors("base.safetensors", {{"net.head.weight", "F32", {2}, {1, 1}}});
    refused("there is no net.q.weight that what adapter has of it could be merged into");
    write_base();
    write_safetensors("adapter/adapter_model.safetensors",
                      {{"base_model.model.net.q.lora_A.weight", "F32", {2, 2}, {1, 2, 3, 4}}});
    refused("adapter has one of the two matrices of the adapter of net.q.weight");
    write_safetensors("adapter/adapter_model.safetensors",
                      {{"base_model.model.embed.lora_embedding_A", "F32", {2, 2}, {1, 2, 3, 4}}});
    refused("adapter holds base_model.model.embed.lora_embedding_A, which cannot be merged");
}

}  // namespace ckpt_test
}  // namespace thunderc::commands

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "folder.h"

namespace thunderc {
namespace {

using PackerTest = InFolderOfItsOwn;

const std::string gpt2 = FIXTURES "/tokenizers/gpt2.json";

std::string lines_of_json(int count, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::string text;
    for (int i = 0; i < count; ++i) {
        text += "{\"n\": 1, \"text\": \"";
        for (std::uint32_t words = random() % 300 + 1; words > 0; --words)
            text += "word" + std::to_string(random() % 97) + " ";
        text += "\"}\n";
    }
    return text;
}

// What one thread writes into one file is what any number of threads write into any shards.
TEST_F(PackerTest, WritesTheSameWithAnyThreadsAndShards) {
    const Tokenizer tokenizer = read_tokenizer(gpt2);
    PackOptions options;
    options.batch_bytes = 5000;
    options.files = {write("a.jsonl", lines_of_json(150, 1)), write("b.jsonl", lines_of_json(100, 2)),
                     write("c.txt", "the end")};
    options.tokenizer = &tokenizer;
    options.vocabulary = tokenizer.vocabulary();
    options.end = tokenizer.find("<|endoftext|>");
    options.out = path("one.bin");
    const PackResult one = pack_documents(options);
    const Packed expected = unpack(path("one.bin"));
    EXPECT_EQ(one.tokens, expected.ids.size());
    EXPECT_EQ(one.documents, expected.ends.size());
    EXPECT_EQ(one.documents, 251U);
    for (const int threads : {1, 2, 5}) {
        options.threads = threads;
        options.out = path("again.bin");
        pack_documents(options);
        EXPECT_EQ(read("again.bin"), read("one.bin")) << threads;
        options.shard_tokens = 9000;
        options.out = path("shards" + std::to_string(threads));
        const PackResult shards = pack_documents(options);
        options.shard_tokens = 0;
        EXPECT_GT(shards.shards, 5U);
        const Packed packed = unpack(options.out);
        EXPECT_EQ(packed.ids, expected.ids);
        EXPECT_EQ(packed.ends, expected.ends);
        EXPECT_EQ(thunder::corpus_text(thunder::read_corpus(options.out + "/corpus.json")),
                  thunder::corpus_text(thunder::read_corpus(path("shards1/corpus.json"))));
        EXPECT_FALSE(std::filesystem::exists(options.out + "/packing.json"));
    }
}

// Ended anywhere, and called again: with documents, which shards keep whole, and without, where they are cut anywhere.
TEST_F(PackerTest, GoesOnWhereItWasEnded) {
    struct Ended {};
    for (const bool documents : {true, false}) {
        PackOptions options;
        options.batch_bytes = 20000;
        options.files = {write("a.jsonl", lines_of_json(60, 3)), write("b.jsonl", lines_of_json(50, 4))};
        options.keep_documents = documents;
        options.shard_tokens = 12000;
        options.out = path("whole");
        std::filesystem::remove_all(options.out);
        const PackResult whole = pack_documents(options);
        ASSERT_GT(whole.shards, 8U);
        EXPECT_EQ(whole.shards_found, 0U);
        const Packed expected = unpack(options.out);
        options.out = path("ended");
        std::filesystem::remove_all(options.out);
        int calls = 0;
        std::set<std::uint64_t> found;
        for (int allowed = 1;; ++allowed) {
            int left = allowed;
            try {
                ++calls;
                const PackResult result = pack_documents(options, [&](const PackProgress&) {
                    if (--left == 0) throw Ended();
                });
                EXPECT_GT(result.shards_found, 0U);
                break;
            } catch (const Ended&) {
                // Nobody trains on a part of a corpus.
                if (std::filesystem::exists(options.out)) {
                    EXPECT_NE(error_of([&] { thunder::token_files_of(options.out); }), "");
                }
                write("ended/shard-00099.bin.123.tmp", "what a process that was killed left");
            }
        }
        EXPECT_GT(calls, 2);
        EXPECT_EQ(unpack(options.out).ids, expected.ids);
        EXPECT_EQ(unpack(options.out).ends, expected.ends);
        for (const thunder::CorpusShard& shard : thunder::read_corpus(path("whole/corpus.json")).shards)
            EXPECT_EQ(read("ended/" + shard.file), read("whole/" + shard.file));
        for (const auto& entry : std::filesystem::directory_iterator(options.out))
            EXPECT_FALSE(entry.path().string().ends_with(".tmp")) << entry.path();
    }
}

// Ended between a shard and the list that has it, the first one too.
TEST_F(PackerTest, GoesOnBehindAShardThatIsNotListed) {
    struct Ended {};
    PackOptions options;
    options.batch_bytes = 5000;
    options.files = {write("a.jsonl", lines_of_json(40, 3))};
    options.shard_tokens = 9000;
    options.out = path("whole");
    ASSERT_GT(pack_documents(options).shards, 3U);
    for (const std::uint64_t listed : {0, 1, 2}) {
        options.out = path("ended" + std::to_string(listed));
        EXPECT_THROW(pack_documents(options,
                                    [&](const PackProgress& p) {
                                        if (p.shards >= listed) throw Ended();
                                    }),
                     Ended);
        const std::string list = options.out + "/packing.json";
        const std::uint64_t held = thunder::read_corpus(list).shards.size();
        const std::string next = "/shard-0000" + std::to_string(held) + ".bin";
        std::filesystem::copy_file(path("whole") + next, options.out + next);
        EXPECT_NE(error_of([&] { thunder::token_files_of(options.out); }).find("is not packed to its end"),
                  std::string::npos);
        EXPECT_EQ(pack_documents(options).shards_found, held);
        for (const thunder::CorpusShard& shard : thunder::read_corpus(path("whole/corpus.json")).shards)
            EXPECT_EQ(read("ended" + std::to_string(listed) + "/" + shard.file), read("whole/" + shard.file));
    }
}

TEST_F(PackerTest, NamesTheDocumentThatCannotBeEncoded) {
    // There are more ways to cut a run of a than are tried.
    const std::string tokenizer_json =
        R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"Split",)"
        R"("pattern":{"Regex":"(?:a|aa)+[bc]"},"behavior":"Isolated","invert":false}})";
    const Tokenizer tokenizer(parse_tokenizer_json(tokenizer_json, "t.json"), "t.json", 0);
    PackOptions options;
    options.files = {write("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"" + std::string(2000, 'a') + "\"}\n")};
    options.tokenizer = &tokenizer;
    options.vocabulary = 1;
    options.out = path("c.bin");
    const std::string error = error_of([&] { pack_documents(options); });
    EXPECT_TRUE(error.starts_with("error: " + path("a.jsonl") + ":2: a regular expression of the tokenizer gives up"))
        << error;
}

// While nobody takes what was encoded, no more is read than a bound of bytes: documents of 2 MiB go one by one.
TEST_F(PackerTest, HoldsFewDocumentsThatAreLong) {
    std::string lines;
    for (int i = 0; i < 24; ++i) lines += "{\"text\": \"" + std::string(2 << 20, 'a') + "\"}\n";
    PackOptions options;
    options.batch_bytes = 5000;
    options.files = {write("a.jsonl", lines)};
    options.out = path("c.bin");
    std::vector<std::uint64_t> taken;
    pack_documents(options, [&](const PackProgress& p) {
        taken.push_back(p.bytes);
        if (taken.size() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    });
    ASSERT_EQ(taken.size(), 24U);
    constexpr std::uint64_t document = 2 << 20;  // taken, held, read, and read ahead by steps of 1 MiB
    EXPECT_LE(taken[1], 6 * document);
}

TEST_F(PackerTest, GoesOnWithTheSameAlone) {
    struct Ended {};
    PackOptions options;
    options.batch_bytes = 5000;
    options.files = {write("a.jsonl", lines_of_json(100, 5))};
    options.shard_tokens = 10000;
    options.out = path("c");
    EXPECT_THROW(pack_documents(options,
                                [](const PackProgress& p) {
                                    if (p.shards > 1) throw Ended();
                                }),
                 Ended);
    PackOptions other = options;
    other.shard_tokens = 9000;
    const std::string anew = "\nhelp: name another folder, or begin anew with --restart";
    const std::string differs = "error: the folder " + options.out +
                                " holds a part of another corpus: its files, its tokenizer or its options differ" +
                                anew;
    EXPECT_EQ(error_of([&] { pack_documents(other); }), differs);
    other = options;
    other.files.push_back(write("b.txt", "more"));
    EXPECT_EQ(error_of([&] { pack_documents(other); }), differs);
    // A shard that is another file now.
    const std::string shard = read("c/shard-00000.bin");
    std::filesystem::copy_file(path("c/shard-00001.bin"), path("c/shard-00000.bin"),
                               std::filesystem::copy_options::overwrite_existing);
    EXPECT_EQ(error_of([&] { pack_documents(options); }),
              "error: " + path("c/shard-00000.bin") + " is not the file that was packed" + anew);
    write("c/shard-00000.bin", shard);
    EXPECT_GT(pack_documents(options).shards_found, 1U);
    EXPECT_EQ(error_of([&] { pack_documents(options); }),
              "error: the folder " + options.out + " holds a packed corpus, and nothing is written over it" + anew);
    std::filesystem::remove(path("c/corpus.json"));
    EXPECT_EQ(
        error_of([&] { pack_documents(options); }),
        "error: the folder " + options.out +
            " holds shard-00000.bin, which would be taken for a part of the corpus\nhelp: name another folder with -o");
}

TEST_F(PackerTest, SaysTheFirstErrorInTheOrderOfTheFiles) {
    PackOptions options;
    options.batch_bytes = 5000;
    options.threads = 4;
    options.out = path("c.bin");
    options.files = {write("a.jsonl", lines_of_json(60, 6) + "{\"text\": 1}\n"), write("b.jsonl", "no JSON\n")};
    for (int k = 0; k < 3; ++k)
        EXPECT_EQ(error_of([&] { pack_documents(options); }),
                  "error: " + options.files[0].path() +
                      ":61 has no text \"text\"\nhelp: did you mean --text-field text? it has text; --text-field NAME "
                      "says where texts are");
    EXPECT_FALSE(std::filesystem::exists(options.out));
}

TEST_F(PackerTest, MasksAllButTheAssistant) {
    PackOptions options;
    options.batch_bytes = 5000;
    options.files = {write(
        "chat.jsonl", R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":"U"},)"
                      R"({"role":"assistant","content":"A"},{"from":"human","value":"V"},{"from":"gpt","value":"B"}]})"
                      "\n")};
    options.out = path("c.bin");
    options.read.chat = read_chat_template("chatml");
    const PackResult result = pack_documents(options);
    const Packed packed = unpack(options.out);
    const std::string text =
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"
        "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n";
    EXPECT_EQ(text_of(packed.ids), text);
    std::string trained;
    for (std::size_t i = 0; i < text.size(); ++i)
        if (packed.trained[i] == 1) trained += text[i];
    EXPECT_EQ(trained, "A<|im_end|>B<|im_end|>");
    EXPECT_EQ(result.trained, trained.size());

    // The same by tokens: masks follow the text, whatever tokens it is cut into.
    for (const char* name : {"qwen2", "llama2", "gpt2"}) {
        const Tokenizer tokenizer = read_tokenizer(std::string(FIXTURES "/tokenizers/") + name + ".json");
        options.tokenizer = &tokenizer;
        options.vocabulary = tokenizer.vocabulary();
        pack_documents(options);
        const Packed tokens = unpack(options.out);
        std::vector<std::uint32_t> kept, whole;
        for (std::size_t i = 0; i < tokens.ids.size(); ++i)
            if (tokens.trained[i] == 1) kept.push_back(tokens.ids[i]);
        EXPECT_EQ(tokenizer.decode(kept), "A<|im_end|>B<|im_end|>") << name;
        Encoder(tokenizer).encode(text, whole);
        EXPECT_EQ(tokens.ids, whole) << name;
    }
}

TEST_F(PackerTest, EndsDocumentsOnce) {
    const Tokenizer tokenizer = read_tokenizer(gpt2);
    PackOptions options;
    options.batch_bytes = 5000;
    options.files = {write("a.txt", "one##two<|endoftext|>####three")};
    options.read.split_on = "##";
    options.tokenizer = &tokenizer;
    options.vocabulary = tokenizer.vocabulary();
    options.end = tokenizer.find("<|endoftext|>");
    options.out = path("c.bin");
    EXPECT_EQ(pack_documents(options).documents, 3U);
    const Packed packed = unpack(options.out);
    EXPECT_EQ(tokenizer.decode(packed.ids), "one<|endoftext|>two<|endoftext|>three<|endoftext|>");
    for (const std::uint64_t end : packed.ends) EXPECT_EQ(packed.ids[end - 1], *options.end);
}

// ChatML has an end of line behind the token that ends a turn, which models of it end with: then the ids are those of
// the text, as `apply_chat_template` of `transformers` gives them.
TEST_F(PackerTest, EndsConversationsOnce) {
    const Tokenizer tokenizer = read_tokenizer(FIXTURES "/tokenizers/qwen2.json");
    PackOptions options;
    options.batch_bytes = 5000;
    options.files = {write("chat.jsonl", R"({"messages":[{"role":"user","content":"U"},)"
                                         R"({"role":"assistant","content":"A"}]})"
                                         "\n")};
    options.read.chat = read_chat_template("chatml");
    options.tokenizer = &tokenizer;
    options.vocabulary = tokenizer.vocabulary();
    options.out = path("c.bin");
    const std::string text = "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n";
    for (const auto& [end, behind] : {std::pair{"<|im_end|>", ""}, {"<|endoftext|>", "<|endoftext|>"}}) {
        options.end = tokenizer.find(end);
        ASSERT_TRUE(options.end) << end;
        pack_documents(options);
        std::vector<std::uint32_t> whole;
        Encoder(tokenizer).encode(text + behind, whole);
        EXPECT_EQ(unpack(options.out).ids, whole) << end;
    }
}

TEST_F(PackerTest, PutsATokenizersTokensAroundDocuments) {
    const Tokenizer tokenizer = read_tokenizer(FIXTURES "/tokenizers/llama2.json");
    PackOptions options;
    options.batch_bytes = 5000;
    options.files = {write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"<s>two\"}\n")};
    options.tokenizer = &tokenizer;
    options.vocabulary = tokenizer.vocabulary();
    options.end = 2;
    options.add_special = true;
    options.out = path("c.bin");
    pack_documents(options);
    const Packed packed = unpack(options.out);
    std::vector<std::uint32_t> marks;
    for (const std::uint32_t id : packed.ids)
        if (id < 3) marks.push_back(id);
    EXPECT_EQ(marks, (std::vector<std::uint32_t>{1, 2, 1, 2}));

    // A long document of tokens comes in parts, which are one document.
    options.files = {write("a.bin", std::string(std::size_t{3} << 20, '\x07'))};
    options.read.format = InputFormat::nanogpt;
    options.vocabulary = 0x10000;
    pack_documents(options);
    const Packed tokens = unpack(options.out);
    ASSERT_EQ(tokens.ids.size(), (std::size_t{3} << 19) + 2);
    EXPECT_EQ(tokens.ids.front(), 1U);
    EXPECT_EQ(tokens.ids.back(), 2U);
    EXPECT_EQ(std::count(tokens.ids.begin(), tokens.ids.end(), 0x0707U), std::ptrdiff_t{3} << 19);
}

}  // namespace
}  // namespace thunderc

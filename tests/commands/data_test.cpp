// SPDX-License-Identifier: Apache-2.0
// thunderc data with tokenizers, as a user runs it.
#include "commands_test.h"
#include "tests/support/full_form.h"

namespace thunderc::commands {
namespace {

const std::string tokenizers = fixtures + "/tokenizers/";

TEST_F(Commands, DataPacksWithATokenizerAndDecodesSamples) {
    write("a.jsonl", "{\"text\": \"Hello world\"}\n{\"text\": \"caf\\u00e9\\n\"}\n");
    const std::string gpt2 = tokenizers + "gpt2.json";
    Ran ran = run("data pack a.jsonl --tokenizer " + gpt2 + " --eos '<|endoftext|>' -o c.bin");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    EXPECT_TRUE(
        ran.out.ends_with(" from 1 file, 2 documents, vocabulary 701\ndocuments end with <|endoftext|> (700)\n"))
        << ran.out;
    ran = run("data inspect c.bin --tokenizer " + gpt2);
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("\nsample      Hello world<|endoftext|>\nsample      caf\xc3\xa9\\n<|endoftext|>\n"),
              std::string::npos)
        << ran.out;
    // The token that ends documents is the tokenizer's own, where the file beside it names one.
    fs::create_directories("model");
    fs::copy_file(gpt2, "model/tokenizer.json");
    write("model/tokenizer_config.json", "{\"eos_token\": {\"content\": \"<|endoftext|>\"}}");
    ran = run("data pack a.jsonl --tokenizer model -o d.bin");
    EXPECT_EQ(ran.err, "");
    EXPECT_EQ(contents("d.bin"), contents("c.bin"));
    ran = run("data pack a.jsonl --tokenizer " + gpt2 + " -o e.bin");
    EXPECT_EQ(
        ran.err,
        "note: nothing says which token ends documents, and none is put behind them: --eos NAME, or --eos none\n");
    ran = run("data pack a.jsonl --tokenizer " + gpt2 + " --eos '</s>' -o e.bin");
    EXPECT_EQ(
        ran.err,
        "error: the tokenizer has no token </s>\nhelp: --eos NAME takes the text of one of its tokens, or none\n");
    ran = run("data pack a.jsonl --eos '</s>' -o e.bin");
    EXPECT_EQ(ran.status, 2);
    EXPECT_EQ(ran.err, "error: --eos names a token, and there is no --tokenizer\nhelp: name both\n");
}

TEST_F(Commands, DataWarnsOfTemplatesThatATokenizerDoesNotKnow) {
    write("a.jsonl", R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]})");
    Ran ran = run("data pack a.jsonl --tokenizer " + tokenizers + "qwen2.json --template chatml --eos none -o c.bin");
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(ran.err, "");
    EXPECT_NE(ran.out.find("of them are trained on ("), std::string::npos) << ran.out;
    ran = run("data pack a.jsonl --tokenizer " + tokenizers + "llama2.json --template chatml --eos none -o c.bin");
    EXPECT_EQ(ran.status, 0);
    EXPECT_TRUE(ran.err.starts_with("warning: the tokenizer has no token <|im_start|>, <|im_end|>: ")) << ran.err;
}

// An option that no file is asked about is a mistake.
TEST_F(Commands, DataRefusesOptionsOfOtherFiles) {
    write("a.txt", "text");
    write("a.jsonl", "{\"text\": \"a\"}\n");
    write("n.bin", "abcd");
    const std::string tokens = "n.bin --format nanogpt --vocab 65536 ";
    const std::pair<std::string, std::string> refused[] = {
        {"a.txt --format text --template chatml", "--template is of JSONL"},
        {tokens + "--template chatml", "--template is of JSONL"},
        {"a.txt --text-field body", "--text-field is of JSONL"},
        {"a.jsonl --split-on X", "--split-on is of text"},
        {tokens + "--split-on X", "--split-on is of text"},
        {tokens + "--invalid drop", "--invalid is of text or JSONL"},
        {tokens + "--longest 5", "--longest is of text or JSONL"}};
    for (const auto& [arguments, message] : refused) {
        const Ran ran = run("data pack " + arguments + " -o c.bin");
        EXPECT_EQ(ran.status, 2) << arguments;
        EXPECT_EQ(ran.err, "error: " + message +
                               ", and no file is one\nhelp: leave it out, or say with --format what the files hold\n");
    }
    // One file that it is of is enough.
    EXPECT_EQ(run("data pack a.txt a.jsonl --split-on X -o c.bin").status, 0);
}

// Bytes that are all below a model's few ids; one that is not is refused, and no file is left.
TEST_F(Commands, DataPacksBytesForFewerIds) {
    write("a.txt", "plain\n");
    const Ran ran = run("data pack a.txt --vocab 128 -o c.bin");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(run("data inspect c.bin").out.find("vocabulary  128\n"), std::string::npos);
    write("b.txt", "a\xc3\xa9");
    const Ran refused = run("data pack b.txt --vocab 128 -o d.bin");
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find("token 1 is 195, and the vocabulary has 128"), std::string::npos) << refused.err;
    EXPECT_FALSE(fs::exists("d.bin"));
}

// Killed while it packs, again and again: each time it goes on, and what it has in the end is what it would have had.
TEST_F(Commands, DataPackThatIsKilledGoesOn) {
    std::string lines;
    for (int i = 0; i < 30000; ++i)
        lines += "{\"text\": \"document " + std::to_string(i * 7919 % 30011) + " of many, each with its own words\"}\n";
    write("a.jsonl", lines);
    const std::string pack =
        "data pack a.jsonl --tokenizer " + tokenizers + "gpt2.json --eos none --shard-tokens 20K --threads 1 -o ";
    const Ran whole = run(pack + "whole");
    ASSERT_EQ(whole.status, 0) << whole.err;
    // When so many shards have their names, at whatever moment of the next one that is.
    int kills = 0;
    for (const int shards : {1, 2, 5, 6, 9}) {
        const std::string command = std::string(THUNDERC) + " " + pack +
                                    "ended > out.txt 2> err.txt & pid=$!; while kill -0 $pid 2> kill.txt && [ "
                                    "$(ls ended 2> ls.txt | grep -c 'shard-.*bin$') -lt " +
                                    std::to_string(shards) + " ]; do sleep 0.002; done; kill -KILL $pid; wait $pid";
        const int raw = std::system(("{ " + command + "; } 2> /dev/null").c_str());
        if (WIFEXITED(raw) && WEXITSTATUS(raw) == 137) ++kills;
        if (fs::exists("ended/corpus.json")) break;  // it was whole before the signal came
        EXPECT_NE(run("data inspect ended").status, 0);
    }
    if (!fs::exists("ended/corpus.json")) {
        const Ran last = run(pack + "ended");
        EXPECT_EQ(last.status, 0) << last.err;
    }
    EXPECT_EQ(contents("ended/corpus.json"), contents("whole/corpus.json"));
    std::size_t shards = 0;
    for (const auto& entry : fs::directory_iterator("whole")) {
        EXPECT_EQ(contents("ended/" + entry.path().filename().string()), contents(entry.path()));
        ++shards;
    }
    EXPECT_GT(shards, 10U);
    for (const auto& entry : fs::directory_iterator("ended"))
        EXPECT_TRUE(fs::exists("whole" / entry.path().filename())) << entry.path();
    EXPECT_GT(kills, 1);
}

#ifdef FAILING_CALLS
// A disk that cannot be read, at any call: an error that names the file, and nothing written; half of what is asked for
// is no end of the file.
TEST_F(Commands, DataPackTellsOfReadsThatFail) {
    std::string lines;
    for (int i = 0; i < 9000; ++i) lines += "{\"text\": \"document " + std::to_string(i * 7919 % 9001) + "\"}\n";
    write("a.jsonl", lines);
    ASSERT_EQ(std::system("gzip -k a.jsonl"), 0);
    ASSERT_EQ(run("data pack a.jsonl -o whole.bin").status, 0);
    for (const char* file : {"a.jsonl", "a.jsonl.gz"})
        for (const char* call : {"open", "read"})
            for (const char* how : {"error", "short"}) {
                if (call == std::string("open") && how == std::string("short")) continue;
                int met = 0;
                for (int at = 1;; ++at) {
                    SCOPED_TRACE(std::string(file) + ": " + call + " " + std::to_string(at) + ", " + how);
                    for (const char* left : {"mark", "c.bin"}) fs::remove(left);
                    const std::string command = std::string("FAULT_PATH=") + file + " FAULT_CALL=" + call +
                                                " FAULT_HOW=" + how + " FAULT_AT=" + std::to_string(at) +
                                                " FAULT_MARK=mark LD_PRELOAD=" FAILING_CALLS " " THUNDERC
                                                " data pack " +
                                                file + " -o c.bin > out.txt 2> err.txt";
                    const int raw = std::system(command.c_str());
                    if (!fs::exists("mark")) break;
                    ++met;
                    ASSERT_TRUE(WIFEXITED(raw));
                    if (WEXITSTATUS(raw) == 0) {
                        EXPECT_EQ(contents("c.bin"), contents("whole.bin"));
                        EXPECT_STREQ(how, "short");
                    } else {
                        EXPECT_EQ(WEXITSTATUS(raw), 1);
                        EXPECT_STREQ(how, "error");
                        const std::string said = contents("err.txt"), of = std::string(file) + ": ";
                        EXPECT_TRUE(said.starts_with("error: cannot read " + of) ||
                                    said.starts_with("error: cannot read all of " + of))
                            << said;
                        EXPECT_FALSE(fs::exists("c.bin"));
                    }
                }
                EXPECT_GT(met, 0);
            }
}

// A disk that cannot be written to, or a process that ends, at any call: an error, nothing that looks like a corpus,
// and the same command goes on to the same bytes. Half of a write is gone on with.
TEST_F(Commands, DataPackLosesNothingWhereWritesFail) {
    std::string lines;
    for (int i = 0; i < 600; ++i) lines += "{\"text\": \"document " + std::to_string(i * 7919 % 601) + "\"}\n";
    write("a.jsonl", lines);
    const std::string pack = "data pack a.jsonl --shard-tokens 3K --threads 1 -o ";
    ASSERT_EQ(run(pack + "whole").status, 0);
    const auto expect_whole = [] {
        std::size_t files = 0;
        for (const auto& entry : fs::directory_iterator("whole")) {
            const fs::path name = entry.path().filename();
            EXPECT_EQ(contents("packed" / name), contents(entry.path())) << name;
            ++files;
        }
        EXPECT_GT(files, 3U);
        // The lock, and what says how far it came, may be there yet: nobody reads them where there is a list.
        for (const auto& entry : fs::directory_iterator("packed")) {
            const fs::path name = entry.path().filename();
            EXPECT_TRUE(name == ".lock" || name == "packing.json" || fs::exists("whole" / name)) << name;
        }
    };
    const bool each = full_form || std::getenv("THUNDERC_ROUNDS") != nullptr;  // else one in so many
    for (const auto& [call, stride] : {std::pair("open", 5), {"write", 11}, {"fsync", 4}, {"rename", 3}, {"mkdir", 1}})
        for (const std::string how : {"error", "kill", "short"}) {
            if (how == "short" && std::string(call) != "write") continue;
            int met = 0;
            for (int at = 1;; at += each ? 1 : stride) {
                SCOPED_TRACE(std::string(call) + " " + std::to_string(at) + ", " + how);
                for (const char* left : {"mark", "packed"}) fs::remove_all(left);
                const std::string command = std::string("FAULT_PATH=packed FAULT_CALL=") + call + " FAULT_HOW=" + how +
                                            " FAULT_AT=" + std::to_string(at) +
                                            " FAULT_MARK=mark LD_PRELOAD=" FAILING_CALLS " " THUNDERC " " + pack +
                                            "packed > out.txt 2> err.txt";
                const int raw = std::system(("{ " + command + "; } 2> /dev/null").c_str());
                if (!fs::exists("mark")) break;
                ++met;
                ASSERT_TRUE(WIFEXITED(raw));
                if (WEXITSTATUS(raw) == 0) {
                    EXPECT_NE(how, "kill");
                } else {
                    EXPECT_NE(how, "short");
                    EXPECT_EQ(WEXITSTATUS(raw), how == "kill" ? 137 : 1);
                    if (how == "error") {
                        EXPECT_TRUE(contents("err.txt").starts_with("error: cannot ")) << contents("err.txt");
                    }
                }
                if (!fs::exists("packed/corpus.json")) {
                    EXPECT_NE(run("data inspect packed").status, 0);
                    const Ran again = run(pack + "packed");
                    EXPECT_EQ(again.status, 0) << again.err;
                }
                expect_whole();
                if (HasFailure()) return;
            }
            EXPECT_GT(met, 0);
        }
}
#endif

// A pipe is read once, and whole.
TEST_F(Commands, DataPacksAPipe) {
    ASSERT_EQ(std::system("mkfifo pipe && { printf 'one text' > pipe & }"), 0);
    const Ran ran = run("data pack pipe -o c.bin");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(contents("c.bin").substr(64), "one text");
}

TEST_F(Commands, DataPacksShardsAndSaysWhatAMixtureYields) {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += "line " + std::to_string(i) + "\n";
    write("a.txt", text);
    Ran ran = run("data pack a.txt --shard-tokens 5K -o corpus");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, "corpus: 18890 tokens from 1 file, one for each byte\n");
    std::string bytes;
    for (const char* shard : {"0", "1", "2", "3"})
        bytes += contents(std::string("corpus/shard-0000") + shard + ".bin").substr(64);
    EXPECT_EQ(bytes, text);
    ran = run("data inspect corpus");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_TRUE(ran.out.starts_with("folder      corpus\nfiles       4\ntokens      18890\nvocabulary  256\n"))
        << ran.out;
    ran = run("data pack a.txt --shard-tokens 5K -o corpus");
    EXPECT_EQ(ran.err,
              "error: the folder corpus holds a packed corpus, and nothing is written over it\nhelp: name another "
              "folder, or begin "
              "anew with --restart\n");
    EXPECT_EQ(run("data pack a.txt --shard-tokens 9K --restart -o corpus").status, 0);
    EXPECT_FALSE(fs::exists("corpus/shard-00003.bin"));

    write("b.txt", "0123456789");
    ASSERT_EQ(run("data pack b.txt -o b.bin").status, 0);
    ran = run("data mix corpus:3 b.bin:1 --tokens 1K");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out,
              "source    share              has            gives    epochs\n"
              "corpus   75.00%            18890              750     0.040\n"
              "b.bin    25.00%               10              250    25.000\n"
              "all                                          1000\n");
    EXPECT_EQ(run("data mix b.bin:x").status, 2);
    // A shard in the place of another.
    fs::copy_file("corpus/shard-00001.bin", "corpus/shard-00000.bin", fs::copy_options::overwrite_existing);
    ran = run("data inspect corpus");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err,
              "error: corpus/shard-00000.bin is not the file that was packed\nhelp: copy the folder again, or pack it "
              "again\n");
}

}  // namespace
}  // namespace thunderc::commands

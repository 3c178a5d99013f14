// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <set>

#include "data/batch_source.h"
#include "data/corpus.h"
#include "data/permutation.h"
#include "data/token_file.h"
#include "helpers.h"
#include "program/inputs.h"

namespace thunder {
namespace data_test {

class TokenFileTest : public InFolder {
  protected:
    // Whatever it is cut to, and whichever byte is another one; the sections from `sections` on by themselves, too.
    void expect_refused(const std::string& whole, std::size_t sections) const {
        for (std::size_t length = 0; length < whole.size(); ++length) {
            write_file(path("y.bin"), whole.substr(0, length));
            EXPECT_NE(error_of([&] { TokenFile(path("y.bin")); }), "") << length;
        }
        for (std::size_t at = 0; at < whole.size(); ++at) {
            std::string changed = whole;
            changed[at] = static_cast<char>(changed[at] ^ 0x10);
            write_file(path("y.bin"), changed);
            EXPECT_NE(error_of([&] { TokenFile(path("y.bin")).verify(); }), "") << at;
            if (at >= sections) {
                EXPECT_NE(error_of([&] { TokenFile(path("y.bin")).verify_sections(); }), "") << at;
            }
        }
    }
};

void pack(const std::string& path, std::uint64_t vocabulary, const std::vector<std::uint32_t>& ids) {
    TokenFileWriter writer(path, vocabulary);
    // In uneven portions, as a tokenizer would hand them over.
    for (std::size_t begin = 0, n = 1; begin < ids.size(); begin += n, n = n % 7 + 1) {
        writer.append(std::span(ids).subspan(begin, std::min(n, ids.size() - begin)));
    }
    writer.commit();
}

std::vector<std::uint32_t> numbers(std::size_t count, std::uint32_t modulus) {
    std::vector<std::uint32_t> ids(count);
    for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<std::uint32_t>(i) % modulus;
    return ids;
}

TEST_F(TokenFileTest, GivesBackWhatWasWritten) {
    for (const auto& [vocabulary, width] :
         {std::pair<std::uint64_t, std::uint32_t>{256, 1}, {257, 2}, {65536, 2}, {65537, 4}, {1ULL << 32, 4}}) {
        const auto last = static_cast<std::uint32_t>(vocabulary - 1);
        std::vector<std::uint32_t> ids = {0, 1, last, 5, last};
        pack(path("x.bin"), vocabulary, ids);
        const TokenFile file(path("x.bin"));
        EXPECT_EQ(file.width(), width);
        EXPECT_EQ(file.vocabulary(), vocabulary);
        ASSERT_EQ(file.count(), ids.size());
        for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(file[i], ids[i]);
        file.verify();
        EXPECT_EQ(std::filesystem::file_size(path("x.bin")), 64 + ids.size() * width);
    }
    EXPECT_EQ(files(), std::vector<std::string>{"x.bin"});
}

TEST_F(TokenFileTest, RefusesWhatIsCutOrChanged) {
    pack(path("x.bin"), 300, numbers(20, 300));
    const std::string whole = read_file(path("x.bin"));
    expect_refused(whole, whole.size());
    const std::string name = path("y.bin");
    write_file(name, whole.substr(0, 99));
    EXPECT_EQ(error_of([&] { TokenFile file(name); }),
              cat("error: ", name,
                  " is truncated: it should hold 20 tokens and holds 17\nhelp: copy it again, or pack it again"));
    write_file(name, whole + "xx");
    EXPECT_EQ(error_of([&] { TokenFile file(name); }),
              cat("error: ", name,
                  " is damaged: it should hold 20 tokens and holds 21\nhelp: copy it again, or pack it again"));
    write_file(name, "some text that nobody packed, long enough to have a header in it.");
    EXPECT_EQ(error_of([&] { TokenFile file(name); }),
              cat("error: ", name,
                  " is not a file of packed tokens\nhelp: thunderc data pack FILE... -o corpus.bin makes one"));
    std::string other = whole;
    other[8] = 3;
    write_file(name, other);
    EXPECT_EQ(error_of([&] { TokenFile file(name); }),
              cat("error: ", name,
                  " has version 3 of the token format, and this program reads versions 1 and 2\nhelp: pack it again"));
    other = whole;
    other[24] = 1;
    write_file(name, other);
    EXPECT_EQ(error_of([&] { TokenFile file(name); }),
              cat("error: ", name, " is damaged: its header is not what was written\nhelp: pack it again"));
    EXPECT_EQ(
        error_of([&] {
            pack(name, 5, {1, 2, 5});
        }),
        cat("error: ", name, ": token 2 is 5, and the vocabulary has 5\nhelp: name the tokenizer's whole vocabulary"));
}

// A file with documents and a mask, beside what they were written from.
struct Kept {
    std::vector<std::uint32_t> ids;
    std::vector<std::uint8_t> trained;
    std::vector<std::uint64_t> ends;
};

Kept pack_documents(const std::string& path, std::size_t count, std::uint32_t vocabulary, bool masked) {
    Kept kept;
    kept.ids = numbers(count, vocabulary);
    TokenFileWriter writer(path, vocabulary);
    for (std::size_t begin = 0, n = 1; begin < count; begin += n, n = (n * 5 + 3) % 97) {
        const std::size_t size = std::min(n, count - begin);
        // Documents without a mask stand before those with one, as where chats follow text.
        std::vector<std::uint8_t> trained(size, 1);
        if (masked && begin > count / 3)
            for (std::size_t i = 0; i < size; ++i) trained[i] = (begin + i) % 3 == 0;
        const std::span<const std::uint32_t> ids = std::span(kept.ids).subspan(begin, size);
        if (masked && begin % 2 == 0) {
            writer.append(ids, trained);
        } else {
            trained.assign(size, 1);
            writer.append(ids);
        }
        writer.end_document();
        writer.end_document();  // there is nothing in this one
        kept.trained.insert(kept.trained.end(), trained.begin(), trained.end());
        if (size > 0) kept.ends.push_back(begin + size);
    }
    writer.commit();
    return kept;
}

TEST_F(TokenFileTest, KeepsDocumentsAndWhatIsTrainedOn) {
    for (const std::uint32_t vocabulary : {256U, 300U, 70000U})
        for (const bool masked : {false, true})
            for (const std::size_t count : {1U, 63U, 64U, 65U, 1000U}) {
                const Kept kept = pack_documents(path("x.bin"), count, vocabulary, masked);
                const TokenFile file(path("x.bin"));
                file.verify();
                ASSERT_EQ(file.count(), count);
                ASSERT_EQ(file.documents(), kept.ends.size());
                const bool any_left_out = std::count(kept.trained.begin(), kept.trained.end(), 0) > 0;
                EXPECT_EQ(file.has_mask(), any_left_out);
                for (std::size_t d = 0; d < kept.ends.size(); ++d) EXPECT_EQ(file.document_end(d), kept.ends[d]);
                for (std::size_t i = 0, d = 0; i < count; ++i) {
                    d += i == kept.ends[d] ? 1 : 0;
                    EXPECT_EQ(file[i], kept.ids[i]);
                    EXPECT_EQ(file.document_of(i), d) << i;
                    EXPECT_EQ(file.trained(i), kept.trained[i] != 0) << i;
                }
            }
}

TEST_F(TokenFileTest, RefusesWhatIsCutOrChangedBehindTheTokens) {
    pack_documents(path("x.bin"), 200, 300, true);
    const std::string whole = read_file(path("x.bin"));
    expect_refused(whole, 64 + 400);
    const std::string name = path("y.bin");
    write_file(name, whole.substr(0, whole.size() - 8));
    EXPECT_EQ(error_of([&] { TokenFile file(name); }),
              cat("error: ", name, " is cut short or damaged: the ends of ", TokenFile(path("x.bin")).documents(),
                  " documents and a mask should be behind its tokens\nhelp: copy it again, or pack it again"));
}

TEST_F(TokenFileTest, HasAFingerprintOfAllThatItHolds) {
    std::set<std::uint64_t> seen;
    const auto add = [&](const std::function<void(TokenFileWriter&)>& fill) {
        TokenFileWriter writer(path("x.bin"), 300);
        fill(writer);
        writer.commit();
        seen.insert(TokenFile(path("x.bin")).fingerprint());
    };
    const std::vector<std::uint32_t> ids = {1, 2, 3, 4}, others = {1, 2, 3, 5};
    const std::vector<std::uint8_t> some = {0, 1, 0, 1}, more = {0, 1, 1, 1};
    add([&](TokenFileWriter& w) { w.append(ids); });
    add([&](TokenFileWriter& w) { w.append(others); });
    add([&](TokenFileWriter& w) { w.append(ids, some); });
    add([&](TokenFileWriter& w) { w.append(ids, more); });
    add([&](TokenFileWriter& w) { w.append(ids), w.end_document(); });
    add([&](TokenFileWriter& w) {
        w.append(std::span(ids).first(2)), w.end_document(), w.append(std::span(ids).last(2));
    });
    add([&](TokenFileWriter& w) {
        w.append(std::span(ids).first(1)), w.end_document(), w.append(std::span(ids).last(3));
    });
    EXPECT_EQ(seen.size(), 7U);
    add([&](TokenFileWriter& w) { w.append(ids); });
    EXPECT_EQ(seen.size(), 7U);
}

using CorpusTest = InFolder;

TEST_F(CorpusTest, ListsItsFiles) {
    Corpus corpus;
    corpus.vocabulary = 300;
    corpus.tokenizer = "a \"tokenizer\".json 00ff";
    corpus.made_by = "thunderc data pack";
    corpus.shards = {{"shard-00000.bin", 10, 2, 9, "0a"}, {"shard-00001.bin", 5, 1, 5, "0b"}};
    std::filesystem::create_directory(path("c"));
    write_file(path("c/corpus.json"), corpus_text(corpus));
    const Corpus read = read_corpus(path("c/corpus.json"));
    EXPECT_EQ(corpus_text(read), corpus_text(corpus));
    EXPECT_EQ(read.tokens(), 15U);
    EXPECT_EQ(read.documents(), 3U);
    EXPECT_EQ(read.shards[0].trained, 9U);

    const std::string folder = path("c");
    pack(path("c/shard-00000.bin"), 300, numbers(10, 300));
    pack(path("c/other.bin"), 300, numbers(10, 300));
    EXPECT_EQ(error_of([&] { token_files_of(folder); }),
              cat("error: ", folder,
                  "/corpus.json lists shard-00001.bin, and there is no such file\n"
                  "help: copy or pack it again"));
    pack(path("c/shard-00001.bin"), 300, numbers(5, 300));
    EXPECT_EQ(token_files_of(folder),
              (std::vector<std::string>{cat(folder, "/shard-00000.bin"), cat(folder, "/shard-00001.bin")}));

    std::filesystem::rename(path("c/corpus.json"), path("c/packing.json"));
    EXPECT_EQ(error_of([&] { token_files_of(folder); }),
              cat("error: the folder ", folder,
                  " is not packed to its end\n"
                  "help: the command that packs it, given once more, goes on where it was"));
    std::filesystem::remove(path("c/packing.json"));
    EXPECT_EQ(token_files_of(folder).size(), 3U);
    EXPECT_EQ(token_files_of(path("c/other.bin")), std::vector<std::string>{path("c/other.bin")});
}

TEST_F(CorpusTest, RefusesListsThatAreNone) {
    const std::string list = path("corpus.json");
    const auto error = [&](const std::string& text) {
        write_file(list, text);
        return error_of([&] { read_corpus(list); });
    };
    const std::string begin = R"({"format": "thunderc corpus", "version": 1, "vocabulary": 3, "tokenizer": "bytes", )"
                              R"("made_by": "", "shards": [)";
    const std::string shard = R"({"file": "a.bin", "tokens": 1, "documents": 0, "trained": 1, "fingerprint": ""})";
    EXPECT_EQ(error(begin + shard + "]}"), "");
    EXPECT_NE(error(begin + shard), "");
    EXPECT_NE(error("{}"), "");
    EXPECT_NE(error("[]"), "");
    const auto changed = [&](const std::string& from, const std::string& to) {
        std::string text = begin + shard + "]}";
        return error(text.replace(text.find(from), from.size(), to));
    };
    EXPECT_EQ(changed("\"version\": 1", "\"version\": 2"),
              cat("error: ", list,
                  " has version 2 of the list of packed files, and this program reads version 1\n"
                  "help: pack it again"));
    EXPECT_EQ(changed("a.bin", "../a.bin"),
              cat("error: ", list, " names the file \"../a.bin\", which is not beside it\nhelp: pack it again"));
    EXPECT_EQ(changed("\"tokens\": 1", "\"tokens\": -1"),
              cat("error: ", list,
                  " is no list of packed files: \"tokens\" is absent or no such value\n"
                  "help: pack it again"));
}

TEST(ChecksumTest, DoesNotDependOnPortions) {
    const std::string text = "an odd number of bytes, read in two portions of every length";
    Checksum whole;
    whole.add(text.data(), text.size());
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
        Checksum parts;
        parts.add(text.data(), cut);
        parts.add(text.data() + cut, text.size() - cut);
        EXPECT_EQ(parts.value(), whole.value()) << cut;
    }
    Checksum shorter;
    shorter.add(text.data(), text.size() - 1);
    EXPECT_NE(shorter.value(), whole.value());
}

TEST(PermutationTest, IsOne) {
    for (const std::uint64_t n : {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4096, 4097}) {
        std::set<std::uint64_t> seen;
        const Permutation order(n, 1, 0);
        for (std::uint64_t i = 0; i < n; ++i) seen.insert(order(i));
        EXPECT_EQ(seen.size(), n);
        EXPECT_LT(*seen.rbegin(), n);
    }
    // Where the first of 1000 goes, over 2000 seeds: no half of the range is favoured (five standard errors).
    int low = 0;
    for (std::uint64_t seed = 0; seed < 2000; ++seed) low += Permutation(1000, seed, 0)(0) < 500;
    EXPECT_NEAR(low, 1000, 5 * 22.4);
    int fixed = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) fixed += Permutation(1000, 1, 0)(i) == Permutation(1000, 1, 1)(i);
    EXPECT_LT(fixed, 10);  // epochs differ: one in common is expected
}

// ---- batches -------------------------------------------------------------------------------------------------------

constexpr std::int64_t B = 2, T = 4;
constexpr std::int64_t tokens_shape[] = {B, T}, whole_shape[] = {T}, mask_shape[] = {B, T};
constexpr InputSpec windows_inputs[] = {
    {"input_ids", DType::i64, tokens_shape, 0, 64, true, 100, 0, "tokens"},
    {"labels", DType::i32, tokens_shape, 64, 32, true, 100, -100, "next_tokens"},
    {"attention_mask", DType::boolean, mask_shape, 96, 8, true, -1, 0, "ones"},
    {"position_ids", DType::i64, whole_shape, 128, 32, false, -1, 0, "positions"},
};

ProgramSpec windows_program() {
    ProgramSpec spec{};
    spec.name = "tiny";
    spec.inputs = windows_inputs;
    spec.batch = B;
    spec.arena_bytes[static_cast<std::size_t>(Arena::batch)] = 160;
    return spec;
}

template <typename X>
std::vector<std::int64_t> values(const std::vector<std::byte>& batch, std::size_t offset, std::size_t count) {
    std::vector<std::int64_t> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(reinterpret_cast<const X*>(batch.data() + offset)[i]);
    return out;
}

using TokenWindowsTest = InFolder;

TEST_F(TokenWindowsTest, FeedEachWindowOnceAnEpoch) {
    std::filesystem::create_directory(path("corpus"));
    // Tokens count on from file to file, so that a window is known by its first token. 33 tokens are 8 windows of 4.
    std::vector<std::uint32_t> ids = numbers(54, 100);
    pack(path("corpus/a.bin"), 100, {ids.begin(), ids.begin() + 33});
    pack(path("corpus/b.bin"), 100, {ids.begin() + 33, ids.end()});
    pack(path("corpus/c.bin"), 100, {});
    write_file(path("corpus/notes.txt"), "not tokens");
    const ProgramSpec program = windows_program();
    Options options;
    options.data = path("corpus");
    options.seed = 5;
    const auto source = make_batch_source(program, options, {1, 0, 1, B});
    EXPECT_EQ(source->describe(), cat("54 tokens from ", options.data, " (3 files), 13 windows of 4"));

    std::vector<std::byte> batch(160);
    std::vector<std::int64_t> order;
    for (std::int64_t step = 0; step < 13; ++step) {
        source->load(step, step * B, 0, batch);
        const auto input = values<std::int64_t>(batch, 0, B * T), labels = values<std::int32_t>(batch, 64, B * T);
        EXPECT_EQ(values<std::uint8_t>(batch, 96, B * T), std::vector<std::int64_t>(B * T, 1));
        EXPECT_EQ(values<std::int64_t>(batch, 128, T), (std::vector<std::int64_t>{0, 1, 2, 3}));
        for (std::size_t i = 0; i < B * T; ++i) {
            EXPECT_EQ(labels[i], input[i] + 1);
            EXPECT_TRUE(i % T == 0 || input[i] == input[i - 1] + 1);
        }
        order.push_back(input[0]);
        order.push_back(input[T]);
    }
    const std::set<std::int64_t> all = {0, 4, 8, 12, 16, 20, 24, 28, 33, 37, 41, 45, 49};
    EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.begin() + 13), all);
    EXPECT_EQ(std::set<std::int64_t>(order.begin() + 13, order.end()), all);
    EXPECT_NE(std::vector(order.begin(), order.begin() + 13), std::vector(order.begin() + 13, order.end()));

    // The same rows whatever the cut: here by two ranks with two micro-steps of two rows.
    std::vector<std::int64_t> cut_order(8);
    for (std::int64_t rank = 0; rank < 2; ++rank) {
        const auto part = make_batch_source(program, options, {2, rank, 2, B});
        for (std::int64_t micro = 0; micro < 2; ++micro) {
            part->load(0, 0, micro, batch);
            for (std::int64_t row = 0; row < B; ++row)
                cut_order[static_cast<std::size_t>((micro * 2 + rank) * B + row)] =
                    values<std::int64_t>(batch, 0, B * T)[static_cast<std::size_t>(row * T)];
        }
    }
    EXPECT_EQ(cut_order, std::vector(order.begin(), order.begin() + 8));

    options.seed = 6;
    const auto other = make_batch_source(program, options, {1, 0, 1, B});
    std::vector<std::int64_t> other_order;
    for (std::int64_t step = 0; step < 6; ++step) {
        other->load(step, step * B, 0, batch);
        other_order.push_back(values<std::int64_t>(batch, 0, 1)[0]);
        other_order.push_back(values<std::int64_t>(batch, 0, B * T)[T]);
    }
    EXPECT_NE(other_order, std::vector(order.begin(), order.begin() + 12));
}

TEST_F(TokenWindowsTest, RefuseWhatDoesNotFit) {
    ProgramSpec program = windows_program();
    Options options;
    const BatchCut cut{1, 0, 1, B};
    const auto error = [&] { return error_of([&] { make_batch_source(program, options, cut); }); };
    options.data = path("x.bin");
    EXPECT_EQ(error(), cat("error: no such file: ", options.data, "\nhelp: check the name of the file"));
    pack(options.data, 100, numbers(4, 100));
    EXPECT_EQ(error(), cat("error: ", options.data,
                           " holds 4 tokens, and one window takes 5\nhelp: pack more text, or write the program with a "
                           "smaller --seq"));
    pack(options.data, 101, numbers(50, 100));
    EXPECT_EQ(error(), cat("error: ", options.data,
                           " has a vocabulary of 101, and ids of input_ids go from 0 to 99\nhelp: the tokens were "
                           "packed for another model"));
    pack(options.data, 100, numbers(50, 100));
    EXPECT_EQ(error(), "");

    const std::string help = "\nhelp: --map x=ones; or --feed FILE";
    const std::int64_t odd[] = {B, T + 1};
    InputSpec inputs[] = {windows_inputs[0], {"x", DType::f32, mask_shape, 64, 32, true, -1, 0, ""}};
    program.inputs = inputs;
    EXPECT_EQ(error(), cat("error: --data does not say what is fed to x [2, 4]", help));
    options.map = {{"x", "tokens"}};
    EXPECT_EQ(error(), cat("error: the input x is [2, 4] of type f32: tokens cannot feed it", help));
    options.map = {{"x", "ones"}};
    EXPECT_EQ(error(), "");
    inputs[1] = {"x", DType::i64, odd, 64, 80, true, 100, 0, "tokens"};
    options.map.clear();
    EXPECT_EQ(error(),
              "error: the input x [2, 5] does not have the 4 positions of the inputs before it\nhelp: --map "
              "x=tokens|next_tokens|ones|positions|documents; or --feed FILE");
    inputs[0].source = inputs[1].source = "";
    EXPECT_EQ(error(),
              "error: --data does not say what is fed to input_ids [2, 4], x [2, 5]\nhelp: --map "
              "input_ids=tokens|next_tokens|ones|positions|documents,x=tokens|next_tokens|ones|positions|documents; or "
              "--feed FILE");
    inputs[0].source = windows_inputs[0].source;
    // What is the same in every window has to lie in the range as well.
    inputs[1] = {"x", DType::i64, tokens_shape, 64, 64, true, 4, 0, "positions"};
    EXPECT_EQ(error(), "");
    inputs[1].entries = 3;
    EXPECT_EQ(error(),
              "error: the input x takes positions up to 3, and its numbers go from 0 to 2\n"
              "help: write the program with a smaller --seq, or --feed FILE with numbers in that range");
    inputs[1].entries = 1;
    inputs[1].source = "ones";
    EXPECT_EQ(error(),
              "error: the input x takes ones, and its numbers go from 0 to 0\n"
              "help: --feed FILE, with numbers in that range");
    inputs[1].entries = -1;
    options.map = {{"input_ids", "ones"}, {"x", "ones"}};
    EXPECT_EQ(error(), "error: none of the inputs takes tokens\nhelp: --map INPUT=tokens, or --feed FILE");

    std::filesystem::create_directory(path("empty"));
    options.data = path("empty");
    options.map = {{"x", "ones"}};
    EXPECT_EQ(error(), cat("error: the folder ", options.data,
                           " has no .bin file of tokens, and no .npy or .safetensors file of samples\n"
                           "help: thunderc data pack FILE... -o corpus.bin makes one of tokens; of samples there is "
                           "INPUT.npy for each input"));
}

// Columns that are looked up in tables of different sizes: each has its own range, and what is said names the table.
TEST(Inputs, ColumnsHaveRangesOfTheirOwn) {
    const std::int64_t shape[] = {2, 3, 2};
    const ColumnSpec columns[] = {{1, 7, 0, "tables.0.weight"}, {2, -1, 0, ""}, {3, 4, -100, ""}};
    InputSpec input{"sparse", DType::i64, shape, 0, 96, true, -1, 0, "", columns, 1};
    std::vector<std::int64_t> ids = {6, 0, 99, -5, 3, -100, 0, 6, 0, 0, 0, 3};
    const auto bad = [&] { return find_bad_id(input, reinterpret_cast<const std::byte*>(ids.data())); };
    const auto text = [&] { return bad_id_text(input, reinterpret_cast<const std::byte*>(ids.data()), bad()); };
    EXPECT_EQ(bad(), -1);
    ids[7] = 7;
    EXPECT_EQ(bad(), 7);
    EXPECT_EQ(text(), "is 7, and sparse[:, 0] takes 0 to 6: these are the rows of tables.0.weight");
    ids[7] = 0;
    ids[10] = -1;
    EXPECT_EQ(bad(), 10);
    EXPECT_EQ(text(), "is -1, and sparse[:, 2] takes 0 to 3, or -100 where there is none");
    ids[10] = 4;
    EXPECT_EQ(bad(), 10);
}

}  // namespace data_test
}  // namespace thunder

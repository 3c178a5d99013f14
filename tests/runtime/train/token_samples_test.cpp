// SPDX-License-Identifier: Apache-2.0
// Sources of packed tokens: several, documents and their boundaries, damaged ones.
#include <sys/resource.h>

#include <set>

#include "data/batch_source.h"
#include "data/mixture.h"
#include "data/token_file.h"
#include "program_test.h"

namespace thunder {
namespace token_samples_test {

constexpr std::int64_t B = 2, L = 4;
constexpr std::int64_t rows_shape[] = {B, L}, mask_shape[] = {B, 1, L, L};
constexpr InputSpec inputs[] = {
    {"input_ids", DType::i64, rows_shape, 0, 64, true, 100, 0, "tokens"},
    {"labels", DType::i64, rows_shape, 64, 64, true, 100, -100, "next_tokens"},
    {"attention_mask", DType::f32, rows_shape, 128, 32, true, -1, 0, "ones"},
    {"position_ids", DType::i64, rows_shape, 192, 64, true, -1, 0, "positions"},
    {"apart", DType::boolean, mask_shape, 256, 32, true, -1, 0, "documents"},
    {"numbers", DType::i32, rows_shape, 320, 32, true, -1, 0, "documents"},
};
constexpr std::size_t batch_bytes = 384;

using Ids = std::vector<std::int64_t>;

template <typename X>
Ids values(const std::vector<std::byte>& batch, const InputSpec& input, std::int64_t row) {
    const std::size_t count = input.bytes / sizeof(X) / B;
    Ids out;
    for (std::size_t i = 0; i < count; ++i)
        out.push_back(static_cast<std::int64_t>(
            reinterpret_cast<const X*>(batch.data() + input.offset)[static_cast<std::size_t>(row) * count + i]));
    return out;
}

using FilesOfTokensTest = ProgramTest;

class TokenSamplesTest : public InFolder {
  protected:
    TokenSamplesTest() {
        program.name = "tiny";
        program.inputs = inputs;
        program.batch = B;
        program.arena_bytes[static_cast<std::size_t>(Arena::batch)] = batch_bytes;
    }

    // Documents of these lengths; ids count on from `first`. Those divisible by `masked` are not trained on.
    void pack(const std::string& name, std::uint32_t first, const std::vector<std::size_t>& lengths,
              std::uint32_t masked = 0) const {
        TokenFileWriter writer(path(name), 100);
        for (const std::size_t length : lengths) {
            std::vector<std::uint32_t> ids;
            std::vector<std::uint8_t> trained;
            for (std::size_t i = 0; i < length; ++i) {
                trained.push_back(masked == 0 || first % masked != 0);
                ids.push_back(first++);
            }
            writer.append(ids, trained);
            writer.end_document();
        }
        writer.commit();
    }
    std::unique_ptr<BatchSource> open(const DataStart& start = {}) const {
        return make_batch_source(program, options, {1, 0, 1, B}, start);
    }
    // The row that begins with this token, looked for in the first `steps` steps.
    std::vector<std::byte> batch_with(BatchSource& source, std::int64_t token, std::int64_t steps, std::int64_t& row) {
        std::vector<std::byte> batch(batch_bytes);
        for (std::int64_t step = 0; step < steps; ++step) {
            source.load(step, step * B, 0, batch);
            for (row = 0; row < B; ++row)
                if (values<std::int64_t>(batch, inputs[0], row)[0] == token) return batch;
        }
        ADD_FAILURE() << "no row begins with " << token;
        row = 0;
        return batch;
    }
    Ids of(const std::vector<std::byte>& batch, int input, std::int64_t row) const {
        switch (inputs[input].dtype) {
            case DType::i32: return values<std::int32_t>(batch, inputs[input], row);
            case DType::f32: return values<float>(batch, inputs[input], row);
            case DType::boolean: return values<std::uint8_t>(batch, inputs[input], row);
            default: return values<std::int64_t>(batch, inputs[input], row);
        }
    }

    ProgramSpec program{};
    Options options;
};

TEST_F(TokenSamplesTest, DocumentsAreJoined) {
    pack("x.bin", 1, {3, 6, 4}, 3);
    options.data = path("x.bin");
    const auto source = open();
    EXPECT_EQ(source->describe(), cat("13 tokens from ", options.data, ", 3 windows of 4"));
    std::int64_t row = 0;
    const std::vector<std::byte> batch = batch_with(*source, 1, 3, row);
    EXPECT_EQ(of(batch, 0, row), (Ids{1, 2, 3, 4}));
    EXPECT_EQ(of(batch, 1, row), (Ids{2, -100, 4, 5}));  // 3 is not trained on
    EXPECT_EQ(of(batch, 2, row), (Ids{1, 1, 1, 1}));
    EXPECT_EQ(of(batch, 3, row), (Ids{0, 1, 2, 3}));
    EXPECT_EQ(of(batch, 5, row), (Ids{0, 0, 0, 0}));
}

TEST_F(TokenSamplesTest, DocumentsAreKeptApart) {
    pack("x.bin", 1, {3, 6, 1, 3});
    options.data = path("x.bin");
    options.documents = Options::Documents::separate;
    const auto source = open();
    EXPECT_EQ(source->describe(), cat("13 tokens from ", options.data, ", 3 windows of 4, documents apart"));
    EXPECT_TRUE(source->notes().empty());
    std::int64_t row = 0;
    std::vector<std::byte> batch = batch_with(*source, 1, 3, row);
    EXPECT_EQ(of(batch, 1, row), (Ids{2, 3, -100, 5}));
    EXPECT_EQ(of(batch, 3, row), (Ids{0, 1, 2, 0}));
    EXPECT_EQ(of(batch, 4, row), (Ids{1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1}));
    EXPECT_EQ(of(batch, 5, row), (Ids{0, 0, 0, 1}));
    // A window that begins within a document counts positions from there on.
    batch = batch_with(*source, 9, 3, row);
    EXPECT_EQ(of(batch, 0, row), (Ids{9, 10, 11, 12}));
    EXPECT_EQ(of(batch, 1, row), (Ids{-100, -100, 12, 13}));
    EXPECT_EQ(of(batch, 3, row), (Ids{0, 0, 0, 1}));
    EXPECT_EQ(of(batch, 5, row), (Ids{0, 1, 2, 2}));
    batch = batch_with(*source, 5, 3, row);
    EXPECT_EQ(of(batch, 1, row), (Ids{6, 7, 8, 9}));
    EXPECT_EQ(of(batch, 5, row), (Ids{0, 0, 0, 0}));
}

TEST_F(TokenSamplesTest, WhatAProgramCannotKeepApartIsSaid) {
    pack("x.bin", 1, {3, 6, 4});
    options.data = path("x.bin");
    options.documents = Options::Documents::separate;
    program.inputs = std::span(inputs).first(3);
    const std::vector<std::string> notes = open()->notes();
    ASSERT_EQ(notes.size(), 2U);
    EXPECT_EQ(notes[0].rfind("note: positions go on from document to document", 0), 0U);
    EXPECT_EQ(notes[1].rfind("note: attention looks back into the documents before", 0), 0U);
    // Labels that cannot be left out are no note.
    InputSpec without[] = {inputs[0], inputs[1]};
    without[1].ignore_index = 0;
    program.inputs = without;
    const std::string error =
        ", and none of the inputs of tiny takes a label that is ignored\nhelp: train a program whose labels may be "
        "-100, as those that thunderc train adds";
    EXPECT_EQ(error_of([&] { open(); }), "error: --documents leaves out labels" + error);
    options.documents = Options::Documents::join;
    EXPECT_EQ(error_of([&] { open(); }), "");
    pack("x.bin", 1, {3, 6, 4}, 3);
    EXPECT_EQ(error_of([&] { open(); }),
              cat("error: ", options.data, " says of some tokens that they are not trained on", error));
}

TEST_F(TokenSamplesTest, ADocumentIsARow) {
    pack("x.bin", 10, {3, 1, 7, 5, 2}, 12);
    options.data = path("x.bin");
    options.documents = Options::Documents::one;
    const auto source = open();
    EXPECT_EQ(source->describe(), cat("18 tokens from ", options.data, ", 4 documents of up to 4"));
    EXPECT_EQ(source->notes(), std::vector<std::string>{cat("note: 1 document of ", options.data,
                                                            " are longer than a row, which has their first 5 tokens")});
    std::int64_t row = 0;
    std::vector<std::byte> batch = batch_with(*source, 10, 2, row);
    EXPECT_EQ(of(batch, 0, row), (Ids{10, 11, 12, 0}));
    EXPECT_EQ(of(batch, 1, row), (Ids{11, -100, -100, -100}));  // 12 is not trained on, and nothing is behind it
    EXPECT_EQ(of(batch, 2, row), (Ids{1, 1, 1, 0}));
    EXPECT_EQ(of(batch, 3, row), (Ids{0, 1, 2, 3}));
    batch = batch_with(*source, 14, 2, row);  // of seven tokens
    EXPECT_EQ(of(batch, 0, row), (Ids{14, 15, 16, 17}));
    EXPECT_EQ(of(batch, 1, row), (Ids{15, 16, 17, 18}));
    batch = batch_with(*source, 21, 2, row);  // of five: all are in it
    EXPECT_EQ(of(batch, 1, row), (Ids{22, 23, -100, 25}));
    EXPECT_EQ(of(batch, 2, row), (Ids{1, 1, 1, 1}));

    options.skip_long_documents = true;
    EXPECT_EQ(open()->describe(), cat("18 tokens from ", options.data, ", 3 documents of up to 4"));
    pack("x.bin", 10, {8});
    EXPECT_EQ(error_of([&] { open(); }), cat("error: ", options.data,
                                             " has no document of at most 5 tokens\nhelp: pack "
                                             "more text, or leave --documents one away"));
    TokenFileWriter plain(path("x.bin"), 100);
    plain.append(std::vector<std::uint32_t>(20, 1));
    plain.commit();
    EXPECT_EQ(error_of([&] { open(); }),
              cat("error: ", options.data,
                  " does not say where its documents end\nhelp: thunderc data pack keeps that: "
                  "pack it again, or leave --documents away"));
}

TEST_F(TokenSamplesTest, WholeDocumentsShareARow) {
    pack("x.bin", 1, {3, 7, 1, 2});  // of the second a row of its own, and what is left beside the last
    options.data = path("x.bin");
    options.documents = Options::Documents::fit;
    const auto source = open();
    EXPECT_EQ(source->describe(),
              cat("13 tokens from ", options.data, ", 3 rows of whole documents of up to 4, 86.7% filled"));
    EXPECT_EQ(source->notes(), std::vector<std::string>{cat("note: 1 document of ", options.data,
                                                            " is longer than a row, and cut into several")});
    std::int64_t row = 0;
    std::vector<std::byte> batch = batch_with(*source, 4, 2, row);
    EXPECT_EQ(of(batch, 0, row), (Ids{4, 5, 6, 7}));
    EXPECT_EQ(of(batch, 1, row), (Ids{5, 6, 7, 8}));
    batch = batch_with(*source, 8, 2, row);  // 8 is the last token of the row before, and 9 and 10 are what is left
    EXPECT_EQ(of(batch, 0, row), (Ids{8, 9, 10, 12}));
    EXPECT_EQ(of(batch, 1, row), (Ids{9, 10, -100, 13}));
    EXPECT_EQ(of(batch, 2, row), (Ids{1, 1, 1, 1}));
    EXPECT_EQ(of(batch, 3, row), (Ids{0, 1, 2, 0}));
    EXPECT_EQ(of(batch, 4, row), (Ids{1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1}));
    EXPECT_EQ(of(batch, 5, row), (Ids{0, 0, 0, 1}));
    batch = batch_with(*source, 1, 2, row);
    EXPECT_EQ(of(batch, 0, row), (Ids{1, 2, 3, 0}));
    EXPECT_EQ(of(batch, 1, row), (Ids{2, 3, -100, -100}));
    EXPECT_EQ(of(batch, 2, row), (Ids{1, 1, 1, 0}));
    EXPECT_EQ(of(batch, 5, row), (Ids{0, 0, 0, 1}));  // nor does padding look at it
}

// What is added to scores where a model takes such a mask.
TEST_F(TokenSamplesTest, MasksThatAreAddedKeepDocumentsApart) {
    pack("x.bin", 1, {3, 6});
    options.data = path("x.bin");
    options.documents = Options::Documents::separate;
    const InputSpec added[] = {
        inputs[0], inputs[1], {"added", DType::f32, mask_shape, 128, 128, true, -1, 0, "documents"}};
    program.inputs = added;
    const auto source = open();
    std::int64_t row = 0;
    const std::vector<std::byte> batch = batch_with(*source, 1, 2, row);
    const bool may[16] = {true, false, false, false, true,  true,  false, false,
                          true, true,  true,  false, false, false, false, true};
    for (std::size_t i = 0; i < 16; ++i)
        EXPECT_EQ(reinterpret_cast<const float*>(batch.data() + 128)[static_cast<std::size_t>(row) * 16 + i],
                  may[i] ? 0.0F : std::numeric_limits<float>::lowest());
}

// A byte among the ids: the header and what is behind them are as they were.
TEST_F(FilesOfTokensTest, DamageIsFoundWhereItIsAskedFor) {
    TokenFileWriter writer(path("x.bin"), 11);
    for (std::uint32_t i = 0; i < 400; ++i) writer.append(std::vector<std::uint32_t>{i % 11});
    writer.commit();
    std::string bytes = read_file(path("x.bin"));
    write_file(path("good.bin"), bytes);
    bytes[64 + 100] = static_cast<char>(bytes[64 + 100] == 3 ? 4 : 3);
    write_file(path("x.bin"), bytes);
    const std::string run_of_both = "--data x.bin,good.bin --eval-data good.bin --steps 1 --lr 0.1 ";
    EXPECT_EQ(run("words_train", run_of_both).status, 0);
    const Outcome refused = run("words_train", run_of_both + "--verify-data");
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find("error: x.bin is damaged: its tokens are not what was written"), std::string::npos)
        << refused.err;
    const Outcome left_out = run("words_train", run_of_both + "--verify-data --data-errors skip");
    EXPECT_EQ(left_out.status, 0) << left_out.err;
    EXPECT_NE(left_out.err.find("verified 2 files of tokens"), std::string::npos) << left_out.err;
    EXPECT_NE(left_out.err.find("warning: left out: x.bin is damaged"), std::string::npos) << left_out.err;
    EXPECT_EQ(run("words_train", "--feed x --verify-data").status, 2);
}

TEST_F(TokenSamplesTest, SourcesHaveEpochsOfTheirOwn) {
    pack("a.bin", 0, {17});  // windows that begin with 0, 4, 8, 12
    pack("b.bin", 50, {9});  // 50 and 54
    options.data = cat(path("a.bin"), ":3,", path("b.bin"), ":1");
    options.seed = 3;
    const auto source = open();
    EXPECT_EQ(source->describe(), cat("75% 17 tokens from ", path("a.bin"), ", 4 windows of 4; 25% 9 tokens from ",
                                      path("b.bin"), ", 2 windows of 4"));
    std::vector<std::byte> batch(batch_bytes);
    std::vector<std::int64_t> of_a, of_b;
    for (std::int64_t step = 0; step < 16; ++step) {
        source->load(step, step * B, 0, batch);
        for (std::int64_t row = 0; row < B; ++row) {
            const std::int64_t token = of(batch, 0, row)[0];
            (token < 50 ? of_a : of_b).push_back(token);
        }
    }
    EXPECT_NEAR(static_cast<double>(of_a.size()), 24, 2);
    for (std::size_t i = 0; i + 4 <= of_a.size(); i += 4)
        EXPECT_EQ(std::set<std::int64_t>(of_a.begin() + i, of_a.begin() + i + 4),
                  (std::set<std::int64_t>{0, 4, 8, 12}));
    for (std::size_t i = 0; i + 2 <= of_b.size(); i += 2)
        EXPECT_EQ(std::set<std::int64_t>(of_b.begin() + i, of_b.begin() + i + 2), (std::set<std::int64_t>{50, 54}));

    // Without weights they are one source, with one epoch of all.
    options.data = cat(path("a.bin"), ",", path("b.bin"));
    const auto one = open();
    EXPECT_EQ(one->describe(), cat("26 tokens from ", options.data, " (2 files), 6 windows of 4"));
    std::set<std::int64_t> seen;
    for (std::int64_t step = 0; step < 3; ++step) {
        one->load(step, step * B, 0, batch);
        for (std::int64_t row = 0; row < B; ++row) seen.insert(of(batch, 0, row)[0]);
    }
    EXPECT_EQ(seen, (std::set<std::int64_t>{0, 4, 8, 12, 50, 54}));
}

// The second source begins with step 3, which a run that goes on at step 2 has to know.
TEST_F(TokenSamplesTest, AScheduleSaysWhichSourcesWhen) {
    pack("a.bin", 0, {41});
    pack("b.bin", 50, {41});
    write_file(path("s.json"), cat("[{\"step\": 0, \"data\": \"", path("a.bin"), "\"}, {\"step\": 3, \"data\": \"",
                                   path("b.bin"), "\"}]"));
    options.data_schedule = path("s.json");
    const auto whole = open();
    const auto late = open({.step = 2, .position = 2 * B, .record = whole->record(), .path = "c"});
    std::vector<std::byte> batch(batch_bytes), other(batch_bytes);
    for (std::int64_t step = 0; step < 6; ++step) {
        whole->load(step, step * B, 0, batch);
        for (std::int64_t row = 0; row < B; ++row) EXPECT_EQ(of(batch, 0, row)[0] < 50, step < 3) << step;
        late->load(step, step * B, 0, other);
        EXPECT_EQ(batch, other) << step;
    }
    // Of a step that takes other rows, from there on.
    const auto wide = make_batch_source(program, options, {1, 0, 2, B},
                                        {.step = 2, .position = 2 * B, .record = whole->record(), .path = "c"});
    wide->load(2, 2 * B, 1, batch);
    EXPECT_LT(of(batch, 0, 1)[0], 50);
    wide->load(3, 4 * B, 0, batch);
    EXPECT_GE(of(batch, 0, 0)[0], 50);
}

TEST_F(TokenSamplesTest, DamagedFilesAreRefusedOrLeftOut) {
    std::filesystem::create_directory(path("c"));
    pack("c/a.bin", 0, {17});
    pack("c/b.bin", 50, {9});
    const std::string whole = read_file(path("c/b.bin"));
    write_file(path("c/b.bin"), whole.substr(0, whole.size() - 20));
    options.data = path("c");
    const std::string damaged = error_of([&] { open(); });
    EXPECT_EQ(damaged.rfind(cat("error: ", path("c"), "/b.bin is cut short or damaged"), 0), 0U) << damaged;
    options.skip_damaged = true;
    const auto source = open();
    EXPECT_EQ(source->describe(), cat("17 tokens from ", path("c"), ", 4 windows of 4"));
    ASSERT_EQ(source->notes().size(), 1U);
    EXPECT_EQ(source->notes()[0].rfind(cat("warning: left out: ", path("c"), "/b.bin"), 0), 0U);
    options.data = path("absent.bin");
    EXPECT_EQ(error_of([&] { open(); }),
              cat("error: no such file: ", options.data, "\nhelp: check the name of the file"));
    // What cannot be read now may be whole.
    options.data = cat(path("c/a.bin"), ",", path("c/b.bin"));
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    const rlimit none{0, limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    const std::string error = error_of([&] { open(); });
    setrlimit(RLIMIT_NOFILE, &limit);
    EXPECT_EQ(error, cat("error: cannot read ", path("c/a.bin"),
                         ": Too many open files\nhelp: check the name of the "
                         "file"));
}

double peak_megabytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024;
}

// A sparse file, which takes no room on the disk: rows of places all over it are read, and none of it is kept.
TEST_F(TokenSamplesTest, ATrillionTokensTakeNoMemory) {
    struct Header {
        char magic[8];
        std::uint32_t version, width;
        std::uint64_t count, vocabulary, checksum, documents, flags, header_checksum;
    } header{{'t', 'h', 'u', 'n', 'd', 't', 'o', 'k'}, 1, 1, 1'000'000'000'000, 100, 0, 0, 0, 0};
    Checksum sum;
    sum.add(&header, sizeof header - 8);
    header.header_checksum = sum.value();
    write_file(path("large.bin"), std::string(reinterpret_cast<const char*>(&header), sizeof header));
    std::filesystem::resize_file(path("large.bin"), sizeof header + header.count);
    options.data = path("large.bin");
    const auto source = open();
    std::vector<std::byte> batch(batch_bytes);
    source->load(0, 0, 0, batch);
    const double before = peak_megabytes();
    for (std::int64_t step = 0; step < 4000; ++step) source->load(step, 1'000'000'007 * step, 0, batch);
    EXPECT_LT(peak_megabytes(), before + 8);  // 8000 rows, a page and more each, are 32 MB and more
}

// A run whose file is cut while it is mapped says so.
TEST_F(FilesOfTokensTest, AFileThatIsCutEndsTheRunWithAMessage) {
    TokenFileWriter writer(path("corpus.bin"), V);
    writer.append(std::vector<std::uint32_t>(1000000, 1));
    writer.commit();
    const Outcome outcome =
        shell(cat(PROGRAMS,
                  "/words_train --data corpus.bin --steps 100000000 --quiet --log log & run=$!; while ! [ -s log ]; "
                  "do sleep 0.05; done; : > corpus.bin; wait $run"));
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(
        outcome.err,
        "error: a file that is being read was cut short, or cannot be read any more (SIGBUS)\nhelp: put the files "
        "of --data and --init back as they were, and go on with --resume\n");
}

TEST_F(FilesOfTokensTest, AMixtureGoesOnBitByBit) {
    for (const char* name : {"a.bin", "b.bin"}) {
        TokenFileWriter writer(path(name), V);
        for (std::uint32_t i = 0; i < 200; ++i)
            writer.append(std::vector<std::uint32_t>{i * i % 7 + (name[0] == 'b' ? 3 : 0)});
        writer.commit();
    }
    const std::string flags = "--data a.bin:0.6 --data b.bin:0.4 --lr 0.1 --quiet --schedule constant --warmup 0 ";
    expect_success(run("words_train", flags + "--steps 30 --seed 4 --log whole.jsonl"));
    expect_success(run("words_train", flags + "--steps 11 --seed 4 --log run.jsonl --checkpoint c"));
    expect_success(run("words_half_train", flags + "--steps 17 --log run.jsonl --checkpoint c --resume"));
    expect_success(run("words_train", flags + "--steps 30 --log run.jsonl --checkpoint c --resume"));
    EXPECT_EQ(without_times(read_file(path("run.jsonl"))), without_times(read_file(path("whole.jsonl"))));
    // Files that are gone within an epoch end a run; another mixture does not.
    const Outcome other = run("words_train",
                              "--data a.bin --lr 0.1 --schedule constant --warmup 0 --steps 32 "
                              "--checkpoint c --resume");
    EXPECT_EQ(other.status, 0) << other.err;
    EXPECT_NE(other.err.find("note: the checkpoint was made with another --data"), std::string::npos) << other.err;
}

// Killed at any moment, again and again, with other micro-batches in between: the steps are those of a run that was
// not.
TEST_F(FilesOfTokensTest, ARunThatIsKilledLosesNoRow) {
    for (const char* name : {"a.bin", "b.bin"}) {
        TokenFileWriter writer(path(name), V);
        for (std::uint32_t i = 0; i < 300; ++i) writer.append(std::vector<std::uint32_t>{i * i % 11});
        writer.commit();
    }
    const std::string flags =
        "--data a.bin:2,b.bin:1 --seed 5 --lr 0.1 --quiet --schedule constant --warmup 0 --steps 60 ";
    expect_success(run("words_train", flags + "--log whole.jsonl"));
    const std::string kept = flags + "--log run.jsonl --checkpoint c --checkpoint-every 1 --keep 2";
    expect_success(run("words_train", kept + " --max-tokens 24"));  // the first of four rows a step
    for (int kills = 0; kills < 8; ++kills)
        static_cast<void>(shell(cat("timeout -s KILL 0.", kills + 1, " ", PROGRAMS,
                                    kills % 2 == 0 ? "/words_train " : "/words_half_train ", kept, " --resume")));
    const Outcome last = run("words_train", kept + " --resume");
    EXPECT_EQ(last.status, 0) << last.err;
    EXPECT_EQ(without_times(read_file(path("run.jsonl"))), without_times(read_file(path("whole.jsonl"))));
}

// The rows that documents become, made by hand: one step has all four of them, and its loss is the mean over their
// labels in whatever order, so that sums of some ten numbers of f32 differ by their last digits alone.
TEST_F(FilesOfTokensTest, DocumentsTrainAsTheirRowsDo) {
    const std::vector<std::vector<std::int64_t>> documents = {
        {1, 2, 3}, {4, 5, 6, 7, 8, 9, 10, 1, 2}, {3, 4}, {5, 6, 7}};
    TokenFileWriter writer(path("x.bin"), V);
    Ids ids, labels;
    for (const std::vector<std::int64_t>& document : documents) {
        writer.append(std::vector<std::uint32_t>(document.begin(), document.end()));
        writer.end_document();
        for (std::size_t i = 0; i < static_cast<std::size_t>(T); ++i) {
            ids.push_back(i < document.size() ? document[i] : 0);
            labels.push_back(i + 1 < document.size() ? document[i + 1] : -100);
        }
    }
    writer.commit();
    write_tensors(path("feed.safetensors"), {longs("input_ids_0", {4, T}, ids), longs("labels_0", {4, T}, labels)});
    const std::string flags = "--steps 1 --seed 3 --init-std 0.5 --quiet --log ";
    expect_success(run("words_train", "--feed feed.safetensors " + flags + "feed.jsonl"));
    const Outcome outcome = run("words_train", "--data x.bin --documents one " + flags + "data.jsonl");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const double expected = read_log("feed.jsonl")[0]["loss"];
    EXPECT_NEAR(read_log("data.jsonl")[0]["loss"].get<double>(), expected, 1e-6 * expected);
    EXPECT_NEAR(read_log("data.jsonl")[0]["grad_norm"].get<double>(), read_log("feed.jsonl")[0]["grad_norm"], 1e-5);
}

using MixtureTest = InFolder;

TEST_F(MixtureTest, ReadsPathsAndWeights) {
    const auto text = [](const Mixture& mixture) {
        std::string all;
        for (const DataSource& source : mixture.sources) {
            all += cat(source.name, "=");
            for (const std::string& one : source.paths) all += cat(one, " ");
        }
        for (const MixturePiece& piece : mixture.pieces) {
            all += cat("| ", piece.first);
            for (const double weight : piece.weights) all += cat(" ", weight);
        }
        return all;
    };
    EXPECT_EQ(text(parse_mixture("a.bin")), "a.bin=a.bin | 0 1");
    EXPECT_EQ(text(parse_mixture("a.bin,b")), "a.bin,b=a.bin b | 0 1");
    EXPECT_EQ(text(parse_mixture("a.bin:0.7,b:3e1")), "a.bin=a.bin b=b | 0 0.7 30");
    EXPECT_EQ(text(parse_mixture("s3:x/a.bin")), "s3:x/a.bin=s3:x/a.bin | 0 1");
    write_file(path("a,b:2"), "x");
    EXPECT_EQ(parse_mixture(path("a,b:2")).sources.size(), 1U);
    EXPECT_EQ(paths_of("a:1,b:2"), (std::vector<std::string>{"a", "b"}));
    const std::string help = "\nhelp: --data a.bin, or --data a.bin:0.7,b.bin:0.3 with a weight above 0 for each";
    EXPECT_EQ(error_of([] { parse_mixture("a:0.5,b"); }), "error: --data a:0.5,b has weights for 1 of 2" + help);
    EXPECT_EQ(error_of([] { parse_mixture("a:0,b:1"); }), "error: the weight of a is 0" + help);
    EXPECT_EQ(error_of([] { parse_mixture("a:-1"); }), "error: the weight of a is -1" + help);
    EXPECT_EQ(error_of([] { parse_mixture("a,,b"); }), "error: --data a,,b names nothing between two commas" + help);
    EXPECT_EQ(error_of([] { parse_mixture("a:1,a:2"); }), "error: --data a:1,a:2 names a twice");
    EXPECT_EQ(error_of([] { parse_mixture("a:1e200,b:1"); }), "error: the weight of a is 1e200" + help);
    const std::string twice =
        " twice\nhelp: leave one away; weights (a.bin:2,b.bin:1) give a file a larger part of the rows";
    EXPECT_EQ(error_of([] { parse_mixture("a,b,a"); }), "error: --data a,b,a names a" + twice);
    std::filesystem::create_directory(path("folder"));
    const std::string named = cat(path("folder"), ",", path("folder/"));
    EXPECT_EQ(error_of([&] { parse_mixture(named); }), cat("error: --data ", named, " names ", path("folder/"), twice));

    const auto schedule = [&](const std::string& json, std::int64_t step = 0) {
        write_file(path("s.json"), json);
        Options options;
        options.data_schedule = path("s.json");
        return text(mixture_of(data_schedule_of(options), 8, step, step * 8));
    };
    EXPECT_EQ(schedule(R"([{"step": 0, "data": "a"}, {"step": 10, "data": "a:1,b:1"}, {"row": 99, "data": "b"}])"),
              "a=a b=b | 0 1 0| 80 1 1| 99 0 1");
    // Whatever it goes on at: of steps that are done nobody knows how many rows they took.
    const char* both = R"([{"step": 0, "data": "a"}, {"row": 80, "data": "b"}, {"step": 20, "data": "a"}])";
    EXPECT_EQ(schedule(both), "a=a b=b | 0 1 0| 80 0 1| 160 1 0");
    EXPECT_EQ(schedule(both, 30), "a=a b=b | 0 1 0| 80 0 1| 81 1 0");
    const auto error = [&](const std::string& json) { return error_of([&] { schedule(json); }); };
    for (const char* wrong :
         {"{}", "[]", "[1]", R"([{"step": 1, "data": "a"}])", R"([{"data": "a"}])", R"([{"step": 0}])",
          R"([{"step": 0, "row": 0, "data": "a"}])", R"([{"step": 0, "data": "a"}, {"step": 0, "data": "b"}])",
          R"([{"step": 0, "data": "a", "weight": 1}])", R"([{"step": -1, "data": "a"}])", "[{"})
        EXPECT_NE(error(wrong).find("it is to look like [{\"step\": 0, "), std::string::npos) << error(wrong);
}

// Files that are too short for a window, and what stands behind the last one of a file, are said to be in no row.
TEST_F(TokenSamplesTest, SaysWhatIsInNoRow) {
    std::filesystem::create_directories(path("set"));
    pack("set/a.bin", 0, {21});
    pack("set/b.bin", 30, {4});
    pack("set/c.bin", 40, {1, 1});
    options.data = path("set");
    EXPECT_EQ(open()->notes(), std::vector<std::string>{cat("note: ", options.data,
                                                            ": no row is of b.bin, c.bin: a window takes 5 tokens")});
    pack("set/d.bin", 50, {8});
    pack("set/e.bin", 60, {8});
    const std::vector<std::string> notes = open()->notes();
    ASSERT_EQ(notes.size(), 2U);
    EXPECT_EQ(notes[1], cat("note: 14% of the tokens of ", options.data,
                            " stand behind the last whole window of their file, and are in no row"));
    options.documents = Options::Documents::one;
    const std::string one = open()->notes().front();
    EXPECT_EQ(one, cat("note: ", count_text(3, "document"), " of ", options.data,
                       " are longer than a row, which has their first 5 tokens"));
    EXPECT_EQ(open()->notes().back(),
              cat("note: ", options.data, ": no row is of c.bin: a row takes a document of two tokens or more"));
}

}  // namespace token_samples_test
}  // namespace thunder

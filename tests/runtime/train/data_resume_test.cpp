// SPDX-License-Identifier: Apache-2.0
// Runs that go on within an epoch with files that were moved, reordered, added, exchanged or taken away: through real
// files, each sample once in an epoch, or a message that says what is not so.
#include <algorithm>
#include <set>

#include "checkpoint/checkpoint.h"
#include "data/batch_source.h"
#include "data/corpus.h"
#include "data/fingerprint.h"
#include "data/mixture.h"
#include "data/token_file.h"
#include "program_test.h"
#include "train/resume.h"

namespace thunder {
namespace data_resume_test {

constexpr std::int64_t B = 2, L = 4;
constexpr std::int64_t rows_shape[] = {B, L};
constexpr InputSpec inputs[] = {
    {"input_ids", DType::i64, rows_shape, 0, 64, true, 1000, 0, "tokens"},
    {"labels", DType::i64, rows_shape, 64, 64, true, 1000, -100, "next_tokens"},
};

using Rows = std::vector<std::int64_t>;  // first tokens

Rows sorted(Rows rows) {
    std::sort(rows.begin(), rows.end());
    return rows;
}

class DataResumeTest : public InFolder {
  protected:
    DataResumeTest() {
        program.name = "tiny";
        program.inputs = inputs;
        program.batch = B;
        program.arena_bytes[static_cast<std::size_t>(Arena::batch)] = 128;
        options.seed = 3;
    }

    // Windows that begin with `first`, `first` + 4 and so on.
    void pack(const std::string& name, std::uint32_t first, std::uint32_t windows) const {
        std::filesystem::create_directories((folder_ / name).parent_path());
        TokenFileWriter writer(path(name), 1000);
        for (std::uint32_t i = 0; i <= L * windows; ++i) writer.append(std::vector<std::uint32_t>{first + i});
        writer.commit();
    }
    static Rows windows(std::int64_t first, std::int64_t count) {
        Rows rows;
        for (std::int64_t i = 0; i < count; ++i) rows.push_back(first + L * i);
        return rows;
    }
    // Paths in the folder, by commas, with what stands behind a colon.
    std::string in_folder(const std::string& names) const {
        std::string all;
        for (std::size_t begin = 0; begin < names.size();) {
            const std::size_t end = std::min(names.find(',', begin), names.size());
            all += cat(all.empty() ? "" : ",", path(names.substr(begin, end - begin)));
            begin = end + 1;
        }
        return all;
    }

    std::unique_ptr<BatchSource> open(const std::string& data, const DataStart& start = {}) {
        options.data = in_folder(data);
        return make_batch_source(program, options, {1, 0, 1, B}, start);
    }
    // A run that goes on behind `rows` of `before`.
    std::unique_ptr<BatchSource> go_on(const BatchSource& before, std::int64_t rows, const std::string& data) {
        return open(data, {.step = rows / B, .position = rows, .record = before.record(), .path = "checkpoint"});
    }
    static Rows rows(BatchSource& source, std::int64_t from, std::int64_t to) {
        Rows all;
        std::vector<std::byte> batch(128);
        for (std::int64_t row = from; row < to; row += B) {
            source.load(row / B, row, 0, batch);
            for (std::size_t i = 0; i < B; ++i)
                all.push_back(reinterpret_cast<const std::int64_t*>(batch.data())[i * L]);
        }
        return all;
    }
    std::string error_of_going_on(const BatchSource& before, std::int64_t at, const std::string& data) {
        return error_of([&] { go_on(before, at, data); });
    }

    ProgramSpec program{};
    Options options;
};

TEST_F(DataResumeTest, AListOfFilesIsTheSameWhereverItLiesAndInWhateverOrder) {
    for (const char* name : {"a.bin", "b.bin"}) pack(name, name[0] == 'a' ? 0 : 100, 4);
    const auto before = open("a.bin,b.bin");
    const Rows whole = rows(*before, 0, 24);
    for (const std::string data : {"moved/a.bin,moved/b.bin", "b.bin,a.bin", "x.bin,b.bin", "all", "all/"}) {
        for (const char* folder : {"moved", "all"})
            for (const char* name : {"a.bin", "b.bin"}) pack(cat(folder, "/", name), name[0] == 'a' ? 0 : 100, 4);
        pack("x.bin", 0, 4);
        const auto after = go_on(*before, 4, data);
        EXPECT_EQ(after->notes(), std::vector<std::string>{}) << data;
        EXPECT_EQ(rows(*after, 4, 24), Rows(whole.begin() + 4, whole.end())) << data;
        // And so once more, from there.
        const auto last = go_on(*after, 14, "a.bin,b.bin");
        EXPECT_EQ(rows(*last, 14, 24), Rows(whole.begin() + 14, whole.end())) << data;
    }
}

TEST_F(DataResumeTest, FilesThatAListHasMoreOfCountFromTheNextEpoch) {
    pack("a.bin", 0, 4);
    pack("b.bin", 100, 4);
    pack("c.bin", 200, 4);
    pack("set/a.bin", 0, 4);
    for (const auto& [first, then, more] :
         {std::tuple("a.bin", "a.bin,b.bin", 1), {"a.bin", "c.bin,a.bin", 1}, {"set", "set/,b.bin,c.bin", 2}}) {
        const auto before = open(first);
        const auto after = go_on(*before, 2, then);
        ASSERT_EQ(after->notes().size(), 1U) << then;
        EXPECT_EQ(after->notes()[0],
                  cat("note: ", options.data, " has ", count_text(static_cast<std::uint64_t>(more), "file"),
                      " more than before: they count from epoch 1 of it on, 2 samples from here"));
        Rows epoch = rows(*before, 0, 2);
        for (const std::int64_t row : rows(*after, 2, 4)) epoch.push_back(row);
        EXPECT_EQ(sorted(epoch), windows(0, 4)) << then;
        const Rows next = rows(*after, 4, 4 + 4 * (more + 1));
        EXPECT_EQ(std::set<std::int64_t>(next.begin(), next.end()).size(), next.size()) << then;
    }
}

// Shards of all corpora have the same names, and often the same lengths.
TEST_F(DataResumeTest, SourcesAreToldApartByWhatTheirFilesHold) {
    pack("small/train/shard-00000.bin", 0, 8);
    pack("large/train/shard-00000.bin", 100, 8);
    const auto before = open("small/train");
    const Rows taken = rows(*before, 0, 4);
    for (const char* data : {"large/train:0.5,small/train:0.5", "small/train:0.5,large/train:0.5"}) {
        const auto after = go_on(*before, 4, data);
        ASSERT_EQ(after->notes().size(), 1U) << data;
        EXPECT_EQ(after->notes()[0],
                  cat("note: ", path("large/train"), " is new to the run: its epochs begin with the first"));
        Rows small, large;
        for (const std::int64_t row : rows(*after, 4, 12)) (row < 100 ? small : large).push_back(row);
        EXPECT_GE(small.size(), 3U);
        for (const std::int64_t row : small) EXPECT_EQ(std::count(taken.begin(), taken.end(), row), 0) << row;
        EXPECT_GE(large.size(), 3U);
    }
    // Folders that exchanged their names: what they hold tells.
    const auto both = open("small/train:0.5,large/train:0.5");
    const Rows whole = rows(*both, 0, 16);
    const auto after = [&] {
        std::filesystem::rename(path("small"), path("other"));
        std::filesystem::rename(path("large"), path("small"));
        std::filesystem::rename(path("other"), path("large"));
        return go_on(*both, 4, "small/train:0.5,large/train:0.5");
    }();
    EXPECT_EQ(after->notes(), std::vector<std::string>{});
    EXPECT_EQ(rows(*after, 4, 16), Rows(whole.begin() + 4, whole.end()));
}

// One source that becomes two would show samples of the epoch that is under way twice.
TEST_F(DataResumeTest, WhatIsNotThereWithinAnEpochIsAnErrorUnlessItIsAllowed) {
    pack("a.bin", 0, 4);
    pack("b.bin", 100, 4);
    const auto before = open("a.bin,b.bin");
    const Rows taken = rows(*before, 0, 4);
    const std::string help =
        ", and the epoch that the run is in has it\nhelp: put it back as it was; or --change-data begins the next "
        "epoch here, with what there is now";
    EXPECT_EQ(error_of_going_on(*before, 4, "a.bin:0.5,b.bin:0.5"),
              cat("error: ", path("a.bin"), ": ", path("b.bin"), " is gone", help));
    EXPECT_EQ(error_of_going_on(*before, 4, "b.bin"),
              cat("error: ", path("b.bin"), ": ", path("a.bin"), " is gone", help));
    // Of one length, and other tokens.
    pack("b.bin", 104, 4);
    const std::string both = in_folder("a.bin,b.bin");
    EXPECT_EQ(error_of_going_on(*before, 4, "a.bin,b.bin"),
              cat("error: ", both, ": ", path("b.bin"), " is not what it was", help));
    options.change_data = true;
    const auto after = go_on(*before, 4, "a.bin,b.bin");
    EXPECT_EQ(after->notes(),
              std::vector<std::string>{cat("warning: ", options.data, ": ", path("b.bin"),
                                           " is not what it was: epoch 1 of what there is begins here; of the one "
                                           "before 4 of 8 samples were not taken")});
    Rows epoch = windows(0, 4);
    for (const std::int64_t row : windows(104, 4)) epoch.push_back(row);
    EXPECT_EQ(sorted(rows(*after, 4, 12)), epoch);
    // Where an epoch ends, nothing is lost.
    options.change_data = false;
    EXPECT_EQ(error_of_going_on(*before, 8, "a.bin,b.bin"), "");
}

TEST_F(DataResumeTest, NamesThatAreNoTextGoOn) {
    pack("a\xff.bin", 0, 4);
    pack("b\xfe.bin", 100, 4);
    const auto before = open("a\xff.bin,b\xfe.bin");
    const Rows whole = rows(*before, 0, 16);
    const auto after = go_on(*before, 4, "a\xff.bin,b\xfe.bin");
    EXPECT_EQ(after->notes(), std::vector<std::string>{});
    EXPECT_EQ(rows(*after, 4, 16), Rows(whole.begin() + 4, whole.end()));
}

TEST_F(DataResumeTest, CopiesInOneSourceAreSaid) {
    pack("a.bin", 0, 4);
    pack("set/copy.bin", 0, 4);
    const auto before = open("a.bin,set");
    EXPECT_EQ(before->notes(),
              std::vector<std::string>{cat("warning: ", options.data, ": ", path("a.bin"), " and ",
                                           path("set/copy.bin"), " hold the same: an epoch has their samples twice")});
    const Rows whole = rows(*before, 0, 16);
    Rows twice = windows(0, 4);
    for (const std::int64_t row : windows(0, 4)) twice.push_back(row);
    EXPECT_EQ(sorted({whole.begin(), whole.begin() + 8}), sorted(twice));
    const auto after = go_on(*before, 4, "set,a.bin");
    EXPECT_EQ(rows(*after, 4, 16), Rows(whole.begin() + 4, whole.end()));
}

// Pieces by steps and by rows, of a run whose first steps took half of the rows.
TEST_F(DataResumeTest, ASchedulePlacesRowsAndStepsBesideOneAnother) {
    pack("a.bin", 0, 8);
    pack("b.bin", 100, 8);
    pack("c.bin", 200, 8);
    const auto piece = [&](const char* by, int at, const char* name) {
        return cat("{\"", by, "\": ", at, ", \"data\": \"", path(name), "\"}");
    };
    write_file(path("s.json"), cat("[", piece("step", 0, "a.bin"), ",", piece("row", 10, "b.bin"), ",",
                                   piece("step", 6, "c.bin"), "]"));
    options.data_schedule = path("s.json");
    EXPECT_EQ(error_of([&] { sample_of_data(options); }), "");
    const auto whole = make_batch_source(program, options, {1, 0, 1, B});
    const Rows all = rows(*whole, 0, 20);
    for (std::size_t row = 0; row < all.size(); ++row)
        EXPECT_EQ(all[row] / 100, row < 10 ? 0 : row < 12 ? 1 : 2) << row;
    const auto after = make_batch_source(program, options, {1, 0, 2, B},
                                         {.step = 8, .position = 16, .record = whole->record(), .path = "checkpoint"});
    EXPECT_EQ(rows(*after, 16, 20), Rows(all.begin() + 16, all.end()));
    write_file(path("s.json"), cat("[", piece("step", 0, "a.bin"), ",", piece("row", 15, "b.bin"), ",",
                                   piece("step", 6, "c.bin"), "]"));
    EXPECT_NE(error_of([&] {
                  make_batch_source(program, options, {1, 0, 1, B});
              }).find("piece 2 does not begin behind the one before"),
              std::string::npos);
}

// A folder that was copied in part, or packed over, is not the corpus that its list says.
TEST_F(DataResumeTest, ShardsAreWhatTheirListSays) {
    pack("c/shard-00000.bin", 0, 4);
    pack("c/shard-00001.bin", 100, 4);
    Corpus corpus;
    corpus.vocabulary = 1000;
    for (const char* name : {"shard-00000.bin", "shard-00001.bin"}) {
        const TokenFile file(path(cat("c/", name)));
        corpus.shards.push_back({name, file.count(), file.documents(), file.count(), hex(file.fingerprint())});
    }
    write_file(path("c/corpus.json"), corpus_text(corpus));
    const auto error = [&] { return error_of([&] { open("c"); }); };
    EXPECT_EQ(error(), "");
    const std::string help = "\nhelp: copy the folder again, or pack it again";
    pack("c/shard-00001.bin", 104, 4);
    EXPECT_EQ(error(), cat("error: ", path("c/shard-00001.bin"),
                           " is not the file that corpus.json beside it lists: it holds 17 tokens in 0 documents, as "
                           "listed, and they are others",
                           help));
    pack("c/shard-00001.bin", 100, 3);
    EXPECT_EQ(error(), cat("error: ", path("c/shard-00001.bin"),
                           " is not the file that corpus.json beside it lists: it holds 13 tokens in 0 documents, and "
                           "17 in 0 are listed",
                           help));
    options.skip_damaged = true;
    const auto left = open("c");
    EXPECT_EQ(left->describe(), cat("17 tokens from ", path("c"), ", 4 windows of 4"));
    EXPECT_EQ(left->notes().size(), 1U);
}

// Ends of documents that do not ascend cut documents that nobody wrote.
TEST_F(DataResumeTest, EndsOfDocumentsAreWhatWasWritten) {
    TokenFileWriter writer(path("x.bin"), 1000);
    for (int document = 0; document < 4; ++document) {
        writer.append(std::vector<std::uint32_t>(5, 7));
        writer.end_document();
    }
    writer.commit();
    std::string bytes = read_file(path("x.bin"));
    bytes[64 + 40 + 8] = 4;  // behind 20 ids of two bytes: the second end, which was 10
    write_file(path("x.bin"), bytes);
    for (const auto how : {Options::Documents::separate, Options::Documents::one}) {
        options.documents = how;
        EXPECT_EQ(error_of([&] { open("x.bin"); }),
                  cat("error: ", path("x.bin"),
                      " is damaged: the ends of its documents and its mask are not what was written\nhelp: copy it "
                      "again, or pack it again"));
    }
    options.documents = Options::Documents::join;
    EXPECT_EQ(error_of([&] { open("x.bin"); }), "");
}

// Of weights, documents and images nothing else tells.
TEST_F(DataResumeTest, OptionsOfDataAreTold) {
    pack("a.bin", 0, 4);
    options.data = path("a.bin");
    options.checkpoint = path("kept");
    options.warmup = 1;
    program.optimizer = "sgd";
    Progress before;
    begin_progress(before, program, options, B);
    const auto notes = [&](const Options& now) {
        Progress copy = before;
        std::string text;
        for (const std::string& line : resume_progress(copy, program, now, B)) text += line;
        return text;
    };
    EXPECT_EQ(notes(options), "");
    Options now = options;
    now.flip = true;
    now.normalize = {0.5, 2};
    now.skip_long_documents = true;
    now.map = {{"labels", "next_tokens"}};
    EXPECT_EQ(notes(now),
              "note: the checkpoint was made with --flip not given (now given), --long-documents cut (now skip), --map "
              "not given (now labels=next_tokens), --normalize not given (now 0.5 2): the steps to come are not those "
              "that it would have done");
}

using ToldDataTest = ProgramTest;

TEST_F(ToldDataTest, DamagedFilesOfAnEvaluationAreTold) {
    for (const char* name : {"a.bin", "c.bin", "e/a.bin", "e/b.bin"}) {
        std::filesystem::create_directories((folder_ / name).parent_path());
        TokenFileWriter writer(path(name), V);
        writer.append(std::vector<std::uint32_t>(200, name[0] == 'a' ? 1 : 2));
        writer.commit();
    }
    write_file(path("e/b.bin"), read_file(path("e/b.bin")).substr(0, 150));
    const Outcome outcome =
        run("words_train", "--data a.bin --eval-data e --data-errors skip --steps 2 --quiet --checkpoint k");
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err.rfind("warning: left out: e/b.bin is truncated", 0), 0U) << outcome.err;
    // An evaluation takes no step, of which the rows would have to be as many as before.
    const Outcome only = run("words_half_train",
                             "--data a.bin --eval-data e/a.bin --eval-only --grad-accum 3 --quiet --checkpoint k "
                             "--resume");
    EXPECT_EQ(only.status, 0) << only.err;
    // What a schedule names is not written over.
    write_file(path("s.json"), R"([{"step": 0, "data": "a.bin"}, {"step": 9, "data": "c.bin"}])");
    EXPECT_EQ(run("words_train", "--data-schedule s.json --log c.bin").err,
              "error: --data and --log are one file: c.bin\nhelp: name two files\n");
}

}  // namespace data_resume_test
}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Every sample once in an epoch, whatever the ranks, the micro-steps, the mixture, and where a run was killed.
#include "data/row_order.h"

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "data/batch_source.h"
#include "data/data_record.h"
#include "data/permutation.h"
#include "helpers.h"

namespace thunder {
namespace row_order_test {

const std::vector<std::string> names = {"a", "b", "c", "d"};

// How often each sample of each source was taken in each epoch.
using Taken = std::map<std::tuple<std::size_t, std::uint64_t, std::uint64_t>, int>;

TEST(RowOrderTest, OneSourceIsItsPermutations) {
    RowOrder order({{{0, 0, 13}}}, {{0, {1}}}, std::span(names).first(1), 5);
    for (std::uint64_t row = 0; row < 60; ++row) {
        const RowOrder::Place place = order(row);
        EXPECT_EQ(place.source, 0U);
        EXPECT_EQ(place.epoch, row / 13);
        EXPECT_EQ(place.sample, Permutation(13, 5, row / 13)(row % 13));
    }
    EXPECT_EQ(order.rows_of_first_epochs(), 13U);
}

// Of any rows from a block's begin on each source has its part, but for a row for each source and one.
TEST(RowOrderTest, SourcesAreSpreadAsTheirWeightsSay) {
    const std::vector<double> weights = {0.5, 0.3, 0.1999, 0.0001};
    RowOrder order({{{0, 0, 100}}, {{0, 0, 7}}, {{0, 0, 1000}}, {{0, 0, 3}}}, {{0, weights}}, names, 1);
    std::vector<std::uint64_t> count(4);
    const std::uint64_t rows = RowOrder::usual_block + 1000;
    for (std::uint64_t row = 0; row < rows; ++row) {
        const std::size_t source = order(row).source;
        EXPECT_EQ(order(row).draw, count[source]);
        ++count[source];
        for (std::size_t k = 0; k < 4 && row % 7 == 0; ++k) {
            const double expected = weights[k] * static_cast<double>(row + 1);
            ASSERT_NEAR(static_cast<double>(count[k]), expected, 5 + expected * 1e-4) << row << " " << k;
        }
    }
    for (const std::uint64_t row : {std::uint64_t{0}, std::uint64_t{1}, RowOrder::usual_block, rows}) {
        std::uint64_t sum = 0;
        for (std::size_t k = 0; k < 4; ++k) sum += order.drawn(k, row);
        EXPECT_EQ(sum, row);
    }
    EXPECT_EQ(order.drawn(1, rows), count[1]);
    EXPECT_EQ(order.drawn(3, rows), count[3]);
    // The first to begin a second epoch is b, with its eighth row.
    const std::uint64_t first = order.rows_of_first_epochs();
    EXPECT_EQ(order.drawn(1, first), 7U);
    EXPECT_EQ(order.drawn(1, first + 1), 8U);
}

TEST(RowOrderTest, RefusesWeightsThatGiveNoRow) {
    EXPECT_EQ(error_of([&] {
                  RowOrder order({{{0, 0, 1}}, {{0, 0, 1}}}, {{0, {1, 1e-9}}}, std::span(names).first(2), 0);
              }),
              "error: the weight of b is 1e-09 of all, which is less than one row in 65536\nhelp: give it more, or "
              "leave it away");
}

// What a file holds is its name's and its size's here.
SampleFile file(const std::string& name, std::uint64_t size, std::uint64_t samples) {
    return {name, size, samples, cat(name, " ", size)};
}

DataRecord::Source source(const std::string& name, std::uint64_t samples) {
    return {name, {{0, 0, {file(name + ".bin", 10 * samples, samples)}}}};
}

DataRecord gone_on(const DataRecord& before, const DataRecord& now, std::uint64_t position, std::uint64_t seed,
                   bool restarts, std::vector<std::string>& notes) {
    return go_on(before, now, position, seed, restarts, notes).record;
}

// A run of random worlds and accumulations that is killed at random steps and goes on at others, from the record and
// the position alone; sometimes with another mixture, sources that are new, or files that were added.
void run_schedule(std::uint32_t seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto up_to = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
    DataRecord now;
    now.block = 64;  // rows: a run has many of them
    const std::size_t count = 1 + random() % 4;
    for (std::size_t k = 0; k < count; ++k) now.sources.push_back(source(names[k], 1 + random() % 60));
    const auto weigh = [&] {
        now.pieces.clear();
        for (std::uint64_t first = 0, left = 1 + random() % 3; left > 0; --left, first += 1 + random() % 200) {
            MixturePiece piece{first, {}};
            for (std::size_t k = 0; k < now.sources.size(); ++k) piece.weights.push_back(random() % 4 + (k == 0));
            now.pieces.push_back(std::move(piece));
        }
    };
    weigh();

    DataRecord record = now;
    std::uint64_t position = 0;
    Taken taken;
    std::map<std::pair<std::size_t, std::uint64_t>, std::uint64_t> sizes;  // of epochs
    std::vector<std::uint64_t> draws;
    std::vector<std::string> notes;
    for (int runs = 0; runs < 6; ++runs) {
        RowOrder order = record.order(seed);
        draws.resize(record.sources.size());
        const BatchCut cut{.world = 1 + up_to(4), .rank = 0, .micro_steps = 1 + up_to(3), .batch = 1 + up_to(3)};
        for (std::int64_t step = up_to(30); step > 0; --step, position += static_cast<std::uint64_t>(cut.global_rows()))
            for (std::int64_t rank = 0; rank < cut.world; ++rank)
                for (std::int64_t micro = 0; micro < cut.micro_steps; ++micro)
                    for (std::int64_t row = 0; row < cut.batch; ++row) {
                        BatchCut mine = cut;
                        mine.rank = rank;
                        const RowOrder::Place place =
                            order(position + static_cast<std::uint64_t>(mine.first_row(micro) + row));
                        const std::uint64_t samples = record.sources[place.source].epochs[place.epochs].samples();
                        ASSERT_LT(place.sample, samples);
                        sizes[{place.source, place.epoch}] = samples;
                        ++taken[{place.source, place.epoch, place.sample}];
                        ++draws[place.source];
                    }
        for (std::size_t k = 0; k < record.sources.size(); ++k) ASSERT_EQ(order.drawn(k, position), draws[k]);
        // What is there when it goes on.
        if (random() % 3 == 0) weigh();
        if (random() % 3 == 0) {
            std::vector<SampleFile>& files = now.sources[random() % now.sources.size()].epochs.back().files;
            files.push_back(file(cat(now.sources.size(), "more", files.size()), 10, 1 + random() % 9));
        }
        if (random() % 4 == 0 && now.sources.size() < 4) {
            now.sources.push_back(source(names[now.sources.size()], 1 + random() % 30));
            weigh();
        }
        record = parse_record(record_text(gone_on(record, now, position, seed, false, notes)), "a checkpoint");
    }
    // Each epoch but a source's last one has each of its samples once; the last one has none twice.
    std::map<std::size_t, std::uint64_t> last;
    for (const auto& [key, size] : sizes) last[key.first] = std::max(last[key.first], key.second);
    std::map<std::pair<std::size_t, std::uint64_t>, std::uint64_t> different;
    for (const auto& [key, times] : taken) {
        ASSERT_EQ(times, 1);
        ++different[{std::get<0>(key), std::get<1>(key)}];
    }
    for (const auto& [key, size] : sizes) {
        if (key.second < last[key.first]) {
            ASSERT_EQ(different[key], size) << key.first << " " << key.second;
        }
    }
}

TEST(RowOrderTest, EverySampleIsTakenOnceAnEpoch) {
    const std::uint32_t schedules = rounds(1000, 20000);
    for (std::uint32_t seed = 0; seed < schedules && !testing::Test::HasFatalFailure(); ++seed) run_schedule(seed);
}

// ---- what a run that goes on finds
// ------------------------------------------------------------------------------------

DataRecord of_files(const std::vector<SampleFile>& files) {
    DataRecord record{{{"corpus", {{0, 0, {}}}}}, {{0, {1}}}};
    for (const SampleFile& one : files)
        record.sources[0].epochs[0].files.push_back(file(one.name, one.size, one.samples));
    return record;
}

TEST(DataRecordTest, FilesThatWereAddedCountFromTheNextEpoch) {
    const DataRecord before = of_files({{"a", 40, 4}, {"c", 60, 6}}),
                     now = of_files({{"a", 40, 4}, {"b", 50, 5}, {"c", 60, 6}});
    std::vector<std::string> notes;
    const DataRecord within = gone_on(before, now, 13, 1, false, notes);
    ASSERT_EQ(within.sources[0].epochs.size(), 2U);
    EXPECT_EQ(within.sources[0].epochs[1].first, 20U);
    EXPECT_EQ(within.sources[0].epochs[1].epoch, 2U);
    EXPECT_EQ(within.sources[0].epochs[1].samples(), 15U);
    EXPECT_EQ(notes, std::vector<std::string>{"note: corpus has 1 file more than before: they count from epoch 2 of it "
                                              "on, 7 samples from here"});
    // The same again changes nothing, and is said again; where they are gone before they counted, nothing was.
    EXPECT_EQ(record_text(gone_on(within, now, 15, 1, false, notes)), record_text(within));
    EXPECT_EQ(record_text(gone_on(within, before, 15, 1, false, notes)), record_text(before));
    // Where an epoch ends, what is there is the next one, whatever it is.
    const DataRecord other = of_files({{"b", 50, 5}});
    const DataRecord at_end = gone_on(before, other, 20, 1, false, notes);
    EXPECT_EQ(at_end.sources[0].epochs.back().epoch, 2U);
    EXPECT_EQ(at_end.sources[0].epochs.back().first, 20U);
    EXPECT_EQ(notes.size(), 2U);  // the one before said it once more
}

TEST(DataRecordTest, FilesThatAreGoneWithinAnEpochAreAnError) {
    const DataRecord before = of_files({{"a", 40, 4}, {"c", 60, 6}});
    std::vector<std::string> notes;
    const std::string help =
        ", and the epoch that the run is in has it\nhelp: put it back as it was; or --change-data begins the next "
        "epoch here, with what there is now";
    EXPECT_EQ(error_of([&] {
                  gone_on(before, of_files({{"a", 40, 4}}), 13, 1, false, notes);
              }),
              "error: corpus: c is gone" + help);
    EXPECT_EQ(error_of([&] {
                  gone_on(before, of_files({{"a", 41, 4}, {"c", 60, 6}}), 13, 1, false, notes);
              }),
              "error: corpus: a is not what it was" + help);
    const DataRecord left = gone_on(before, of_files({{"a", 40, 4}}), 13, 1, true, notes);
    EXPECT_EQ(left.sources[0].epochs.back().first, 13U);
    EXPECT_EQ(left.sources[0].epochs.back().epoch, 2U);
    EXPECT_EQ(notes, std::vector<std::string>{"warning: corpus: c is gone: epoch 2 of what there is begins here; of "
                                              "the one before 7 of 10 samples were not taken"});
}

TEST(DataRecordTest, OtherSamplesOfTheSameFilesAreANewSource) {
    const DataRecord before = of_files({{"a", 40, 4}}), now = of_files({{"a", 40, 8}});
    std::vector<std::string> notes;
    const DataRecord after = gone_on(before, now, 5, 1, false, notes);
    ASSERT_EQ(after.sources.size(), 2U);
    ASSERT_EQ(after.pieces.size(), 2U);
    EXPECT_EQ(after.pieces[1].first, 5U);
    EXPECT_EQ(after.pieces[1].weights, (std::vector<double>{0, 1}));
    EXPECT_EQ(notes.size(), 1U);
    // Which it is from then on.
    EXPECT_EQ(record_text(gone_on(after, now, 9, 1, false, notes)), record_text(after));
    EXPECT_EQ(notes.size(), 1U);
}

TEST(DataRecordTest, AMovedSourceIsTheSame) {
    const DataRecord before = of_files({{"a", 40, 4}});
    DataRecord now = before;
    now.sources[0].name = "elsewhere/corpus";
    std::vector<std::string> notes;
    EXPECT_EQ(record_text(gone_on(before, now, 5, 1, false, notes)), record_text(now));
}

// Pieces to come are the new ones; those behind stay, and so does the block that rows are drawn from.
TEST(DataRecordTest, WeightsChangeFromHereOn) {
    DataRecord before{{source("a", 50), source("b", 50)}, {{0, {1, 1}}, {100, {1, 3}}}};
    DataRecord now = before;
    now.pieces = {{0, {1, 1}}, {80, {3, 1}}};
    std::vector<std::string> notes;
    const DataRecord same = gone_on(before, before, 40, 1, false, notes);
    EXPECT_EQ(record_text(same), record_text(before));
    const DataRecord after = gone_on(before, now, 40, 1, false, notes);
    ASSERT_EQ(after.pieces.size(), 2U);
    EXPECT_EQ(after.pieces[1].first, 80U);
    RowOrder old_order = before.order(1), new_order = after.order(1);
    for (std::uint64_t row = 0; row < 80; ++row) EXPECT_EQ(old_order(row).sample, new_order(row).sample);
    const DataRecord late = gone_on(before, now, 90, 1, false, notes);
    ASSERT_EQ(late.pieces.size(), 2U);
    EXPECT_EQ(late.pieces[1].first, 90U);
    EXPECT_EQ(late.pieces[1].weights, (std::vector<double>{3, 1}));
}

TEST(DataRecordTest, RefusesWhatIsNone) {
    const std::string whole = record_text(of_files({{"a", 40, 4}}));
    EXPECT_EQ(error_of([&] { parse_record(whole, "c"); }), "");
    for (std::size_t cut = 0; cut < whole.size(); ++cut)
        EXPECT_NE(error_of([&] { parse_record(whole.substr(0, cut), "c"); }), "") << cut;
    for (const char* text : {"{}", "[]", "{\"sources\":[],\"pieces\":[]}", "{\"sources\":[{\"name\":1,\"epochs\":[]}]}",
                             "{\"sources\":[],\"pieces\":[{\"first\":0,\"weights\":[]}],\"block\":1}"})
        EXPECT_NE(error_of([&] { parse_record(text, "c"); }), "") << text;
    // Names that are none, and pieces and epochs that do not begin at the begin or do not ascend.
    DataRecord ascending = of_files({{"a", 40, 4}});
    ascending.sources[0].epochs.push_back({8, 2, {file("b", 50, 5)}});
    ascending.pieces.push_back({6, {2}});
    const std::string right = record_text(ascending);
    EXPECT_EQ(error_of([&] { parse_record(right, "c"); }), "");
    for (const auto& [from, to] : {std::pair("[\"a\",", "[1,"),
                                   {",\"a 40\"]", ",40]"},
                                   {",\"a 40\"]", "]"},
                                   {"\"first\":0,\"epoch\":0", "\"first\":1,\"epoch\":0"},
                                   {"\"first\":0,\"epoch\":0", "\"first\":0,\"epoch\":1"},
                                   {"\"first\":8,", "\"first\":0,"},
                                   {"\"epoch\":2", "\"epoch\":0"},
                                   {"\"first\":0,\"weights\"", "\"first\":1,\"weights\""},
                                   {"\"first\":6,", "\"first\":0,"},
                                   {"[2]", "[\"2\"]"},
                                   {"[2]", "[1e999]"}}) {
        std::string wrong = right;
        ASSERT_NE(wrong.find(from), std::string::npos) << from;
        wrong.replace(wrong.find(from), std::string(from).size(), to);
        EXPECT_NE(error_of([&] { parse_record(wrong, "c"); }), "") << wrong;
    }
}

}  // namespace row_order_test
}  // namespace thunder

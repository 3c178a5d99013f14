// SPDX-License-Identifier: Apache-2.0
// Random runs over real files, that are killed and go on in other worlds: windows across documents and apart, a
// document a row, whole documents by best fit, images; mixtures, curricula, sources that are new and files that were
// added. What all ranks saw is held against what files hold and a naive account of epochs: nothing is lost, nothing
// comes twice.
#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <set>

#include "data/batch_source.h"
#include "data/document_fit.h"
#include "data/token_file.h"
#include "helpers.h"

namespace thunder {
namespace schedules_test {

constexpr std::int64_t L = 6;
constexpr std::uint32_t ids_of_all = 1 << 20;
constexpr std::size_t pool = 8;  // files of each kind

enum class Kind : std::uint8_t { join, separate, one, fit, images };
constexpr Kind kinds[] = {Kind::join, Kind::separate, Kind::one, Kind::fit, Kind::images};

// A row as it is to be: what it begins with, which no other row does, and its labels (of an image its pixels).
using Row = std::vector<std::int64_t>;

// A program that takes B rows in a micro-batch, of tokens and their labels or of images and theirs.
struct TinyProgram {
    TinyProgram(Kind kind, std::int64_t rows) : tokens{rows, L}, image{rows, 1, 1, 2}, label{rows} {
        const auto bytes = static_cast<std::size_t>(rows * L * 8);
        if (kind == Kind::images) {
            inputs = {{"image", DType::f32, image, 0, static_cast<std::size_t>(rows) * 8, true, -1, 0, ""},
                      {"label", DType::i64, label, bytes, static_cast<std::size_t>(rows) * 8, true, -1, 0, ""}};
        } else {
            inputs = {{"input_ids", DType::i64, tokens, 0, bytes, true, ids_of_all, 0, "tokens"},
                      {"labels", DType::i64, tokens, bytes, bytes, true, ids_of_all, -100, "next_tokens"}};
        }
        spec.name = "tiny";
        spec.inputs = inputs;
        spec.batch = rows;
        spec.arena_bytes[static_cast<std::size_t>(Arena::batch)] = 2 * bytes;
        batch.resize(2 * bytes);
    }
    TinyProgram(const TinyProgram&) = delete;

    Row row(Kind kind, std::int64_t at) const {
        const auto* all = reinterpret_cast<const std::int64_t*>(batch.data());
        const std::int64_t* const second = all + spec.batch * L;
        if (kind == Kind::images) {
            const float* pixels = reinterpret_cast<const float*>(batch.data()) + 2 * at;
            // Mirrored or not.
            const float left = std::min(pixels[0], pixels[1]), right = std::max(pixels[0], pixels[1]);
            return {second[at], static_cast<std::int64_t>(left), static_cast<std::int64_t>(right)};
        }
        Row row{all[at * L]};
        for (std::int64_t i = 0; i < L; ++i)
            if (second[at * L + i] != -100) row.push_back(second[at * L + i]);
        return row;
    }

    std::int64_t tokens[2], image[4], label[1];
    std::vector<InputSpec> inputs;
    ProgramSpec spec{};
    std::vector<std::byte> batch;
};

// What a file holds, however it is read.
struct Held {
    std::string path;
    std::int64_t first = 0, end = 0;  // what its rows begin with is from there to there
    std::vector<std::vector<std::int64_t>> documents;
    std::uint64_t fitted = 0;  // rows by best fit, as DocumentFit has them

    std::vector<Row> rows(Kind kind) const {
        std::vector<Row> out;
        if (kind == Kind::images) {
            for (std::int64_t k = first; k < end; ++k) out.push_back({k, k, k + 1});
        } else if (kind == Kind::one) {
            for (const auto& document : documents)
                if (document.size() > 1)
                    out.push_back(
                        {document.begin(), document.begin() + std::min<std::ptrdiff_t>(std::ssize(document), L + 1)});
        } else {
            std::vector<std::int64_t> all;
            std::set<std::int64_t> begins;
            for (const auto& document : documents) {
                begins.insert(document.front());
                all.insert(all.end(), document.begin(), document.end());
            }
            for (std::size_t at = 0; at + L < all.size(); at += L) {
                Row row{all[at]};
                for (std::size_t i = 1; i <= L; ++i)
                    if (kind == Kind::join || !begins.contains(all[at + i])) row.push_back(all[at + i]);
                out.push_back(std::move(row));
            }
        }
        return out;
    }
    // Of an epoch: rows, and how often each label comes in all of them: once.
    std::uint64_t samples(Kind kind) const { return kind == Kind::fit ? fitted : rows(kind).size(); }
    std::vector<std::int64_t> labels(Kind kind) const {
        std::vector<std::int64_t> out;
        if (kind == Kind::fit) {
            for (const auto& document : documents) out.insert(out.end(), document.begin() + 1, document.end());
        } else {
            for (const Row& row : rows(kind)) out.insert(out.end(), row.begin() + 1, row.end());
        }
        return out;
    }
};

// A naive account of a source: from which of its draws on an epoch has which files.
struct Account {
    struct Epochs {
        std::uint64_t first = 0;
        std::vector<std::size_t> files;
    };
    std::vector<Epochs> epochs;
    std::vector<Row> drawn;
};

class SchedulesTest : public InFolder {
  protected:
    SchedulesTest() {
        std::mt19937 random(1);
        std::int64_t next = 1;  // 0 is padding
        for (std::size_t k = 0; k < pool; ++k) {
            Held held{path(cat("tokens-", k, ".bin")), next, 0, {}};
            TokenFileWriter writer(held.path, ids_of_all);
            for (std::size_t documents = 3 + random() % 9; documents > 0; --documents) {
                std::vector<std::uint32_t> ids(documents == 1 ? L + 2 : 1 + random() % (3 * L));
                for (std::uint32_t& id : ids) id = static_cast<std::uint32_t>(next++);
                writer.append(ids);
                writer.end_document();
                held.documents.emplace_back(ids.begin(), ids.end());
            }
            writer.commit();
            held.end = next;
            held.fitted = DocumentFit(TokenFile(held.path), L).rows();
            tokens_.push_back(std::move(held));
        }
        next = 2;
        for (std::size_t k = 0; k < pool; ++k) {
            const std::int64_t count = 1 + random() % 20;
            Held held{path(cat("images-", k, ".safetensors")), next, next + count, {}};
            std::vector<float> pixels;
            std::vector<std::int64_t> labels;
            for (; next < held.end; ++next) {
                labels.push_back(next);
                pixels.insert(pixels.end(), {static_cast<float>(next), static_cast<float>(next + 1)});
            }
            write_tensors(held.path, {floats("image", {count, 1, 1, 2}, pixels), longs("label", {count}, labels)});
            images_.push_back(std::move(held));
        }
    }

    void run(std::uint32_t seed);
    void check(Kind kind, const std::vector<Held>& held, const Account& account);

    std::vector<Held> tokens_, images_;
    std::uint64_t whole_epochs_ = 0;  // of all sources
};

void SchedulesTest::run(std::uint32_t seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto up_to = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
    const Kind kind = kinds[seed % std::size(kinds)];
    const std::vector<Held>& held = kind == Kind::images ? images_ : tokens_;
    const std::string folder = path("run");
    std::filesystem::remove_all(folder);

    // Folders with links to files, each of which is in one of them.
    std::vector<std::size_t> left(pool);
    for (std::size_t k = 0; k < pool; ++k) left[k] = k;
    std::shuffle(left.begin(), left.end(), random);
    std::vector<std::vector<std::size_t>> there;
    const auto name_of = [&](std::size_t source) { return cat(folder, "/", static_cast<char>('a' + source)); };
    const auto add_file = [&](std::size_t source) {
        const std::size_t file = left.back();
        left.pop_back();
        there[source].push_back(file);
        std::filesystem::create_symlink(held[file].path,
                                        name_of(source) + held[file].path.substr(held[file].path.rfind('/')));
    };
    const auto add_source = [&] {
        there.emplace_back();
        std::filesystem::create_directories(name_of(there.size() - 1));
        add_file(there.size() - 1);
    };
    for (std::int64_t count = 1 + up_to(3); count > 0; --count) add_source();
    if (up_to(2) == 0) add_file(0);

    Options options;
    options.seed = seed;
    options.flip = kind == Kind::images && up_to(2) == 0;
    options.documents = kind == Kind::separate ? Options::Documents::separate
                        : kind == Kind::one    ? Options::Documents::one
                        : kind == Kind::fit    ? Options::Documents::fit
                                               : Options::Documents::join;
    const bool by_row = up_to(2) == 0;
    const auto weigh = [&] {
        const auto mixture = [&] {
            std::string text;
            for (std::size_t k = 0; k < there.size(); ++k)
                if (k == 0 || up_to(4) > 0) text += cat(text.empty() ? "" : ",", name_of(k), ":", 1 + up_to(3));
            return text;
        };
        options.data.clear();
        options.data_schedule.clear();
        if (there.size() == 1 || up_to(2) == 0) {
            options.data = there.size() == 1 ? name_of(0) : mixture();
            return;
        }
        options.data_schedule = folder + "/schedule.json";
        std::string text = "[";
        for (std::int64_t piece = 0, at = 0; piece < 3; ++piece, at += 1 + up_to(by_row ? 200 : 12))
            text +=
                cat(piece == 0 ? "" : ",", "{\"", by_row ? "row" : "step", "\":", at, ",\"data\":\"", mixture(), "\"}");
        write_file(options.data_schedule, text + "]");
    };
    weigh();

    std::vector<Account> accounts;
    DataStart start;
    start.path = "checkpoint";
    for (int runs = 0; runs < 6; ++runs) {
        // The files of each source count from here on, or from where the epoch ends that is under way.
        accounts.resize(there.size());
        for (std::size_t k = 0; k < there.size(); ++k) {
            std::vector<Account::Epochs>& epochs = accounts[k].epochs;
            const std::uint64_t draws = accounts[k].drawn.size();
            while (epochs.size() > 1 && epochs.back().first > draws) epochs.pop_back();
            std::uint64_t first = 0;
            if (!epochs.empty()) {
                std::uint64_t samples = 0;
                for (const std::size_t file : epochs.back().files) samples += held[file].samples(kind);
                const std::uint64_t begun = draws - epochs.back().first;
                first = epochs.back().first + (begun + samples - 1) / samples * samples;
                if (epochs.back().files == there[k]) continue;
                if (first == epochs.back().first) epochs.pop_back();
            }
            epochs.push_back({first, there[k]});
        }

        BatchCut cut{.world = 1 + up_to(4), .rank = 0, .micro_steps = 1 + up_to(3), .batch = 1 + up_to(3)};
        const std::int64_t steps = up_to(13);
        std::vector<Row> rows(static_cast<std::size_t>(steps * cut.global_rows()));
        std::string record;
        for (; cut.rank < cut.world; ++cut.rank) {
            TinyProgram program(kind, cut.batch);
            const auto source = make_batch_source(program.spec, options, cut, start);
            for (std::int64_t step = 0; step < steps; ++step)
                for (std::int64_t micro = 0; micro < cut.micro_steps; ++micro) {
                    const std::int64_t position = step * cut.global_rows();
                    source->load(start.step + step, start.position + position, micro, program.batch);
                    for (std::int64_t row = 0; row < cut.batch; ++row) {
                        Row& at = rows[static_cast<std::size_t>(position + cut.first_row(micro) + row)];
                        ASSERT_TRUE(at.empty()) << "two ranks take one row";
                        at = program.row(kind, row);
                    }
                }
            if (cut.rank > 0) {
                ASSERT_EQ(source->record(), record);
            }
            record = source->record();
        }
        for (Row& row : rows) {
            ASSERT_FALSE(row.empty()) << "no rank takes a row";
            for (std::size_t k = 0; k < there.size(); ++k)
                for (const std::size_t file : there[k])
                    if (row.front() >= held[file].first && row.front() < held[file].end)
                        accounts[k].drawn.push_back(row);
        }
        start.step += steps;
        start.position += steps * cut.global_rows();
        start.record = record;
        start.seed = seed;

        if (!left.empty() && up_to(3) == 0)
            add_file(static_cast<std::size_t>(up_to(static_cast<std::uint32_t>(there.size()))));
        const bool is_new = !left.empty() && there.size() < 4 && up_to(4) == 0;
        if (is_new) add_source();
        if (is_new || up_to(3) == 0) weigh();
    }
    std::size_t drawn = 0;
    for (const Account& account : accounts) {
        drawn += account.drawn.size();
        check(kind, held, account);
    }
    ASSERT_EQ(drawn, static_cast<std::size_t>(start.position)) << "a row is of no source";
}

// Each epoch that is over has each row and each label once; the last one none twice.
void SchedulesTest::check(Kind kind, const std::vector<Held>& held, const Account& account) {
    for (std::size_t k = 0; k < account.epochs.size(); ++k) {
        const Account::Epochs& epochs = account.epochs[k];
        const std::uint64_t end = k + 1 < account.epochs.size() ? account.epochs[k + 1].first : ~std::uint64_t{0};
        std::uint64_t samples = 0;
        std::map<std::int64_t, Row> wanted;  // rows by what they begin with
        std::set<std::int64_t> labels;
        for (const std::size_t file : epochs.files) {
            samples += held[file].samples(kind);
            for (const std::int64_t label : held[file].labels(kind)) labels.insert(label);
            if (kind == Kind::fit) continue;
            for (Row& row : held[file].rows(kind)) wanted.emplace(row.front(), std::move(row));
        }
        for (std::uint64_t first = epochs.first; first < std::min<std::uint64_t>(end, account.drawn.size());
             first += samples) {
            whole_epochs_ += account.drawn.size() - first >= samples ? 1 : 0;
            const std::uint64_t last = std::min<std::uint64_t>(first + samples, account.drawn.size());
            std::set<std::int64_t> begun, labelled;
            std::size_t count = 0;
            for (std::uint64_t i = first; i < last; ++i) {
                const Row& row = account.drawn[i];
                ASSERT_TRUE(begun.insert(row.front()).second) << row.front() << " comes twice in an epoch";
                if (kind != Kind::fit) {
                    ASSERT_EQ(row, wanted.at(row.front()));
                }
                if (kind == Kind::images) continue;
                for (std::size_t at = 1; at < row.size(); ++at, ++count)
                    ASSERT_TRUE(labels.contains(row[at]) && labelled.insert(row[at]).second) << row[at];
            }
            if (last - first == samples && kind != Kind::images) {
                ASSERT_EQ(labelled.size(), labels.size());
            }
        }
    }
}

TEST_F(SchedulesTest, EveryRowOfEveryFileOnceAnEpoch) {
    const std::uint32_t schedules = rounds(15, 1000);
    for (std::uint32_t seed = 0; seed < schedules && !HasFatalFailure(); ++seed) run(seed);
    if (HasFatalFailure()) return;
    std::printf("%u schedules, %llu whole epochs\n", schedules, static_cast<unsigned long long>(whole_epochs_));
    EXPECT_GT(whole_epochs_, 3 * schedules);
}

}  // namespace schedules_test
}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Damaged .pt2 and .pt files: bytes of the archive, values of a program's JSON, letters of code and bytes of pickles
// are others. Each is read, or refused with one message that says what to do. FUZZ_ROUNDS and FUZZ_SEED are as in
// models_test.cpp.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "compiler/frontend/frontend.h"
#include "compiler/frontend/shared/zip_archive.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace archives_test {
namespace fs = std::filesystem;

using Entries = std::map<std::string, std::string>;  // name -> bytes
using Random = std::mt19937_64;

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* value = std::getenv(name);
    return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

struct Model {
    std::string file;
    int batch = 0;
    std::map<std::string, CompileOptions::InputShape> inputs;  // of scripted code, which says no shapes

    fs::path path() const { return fs::path(FIXTURES) / file; }
    CompileOptions options() const {
        CompileOptions out;
        if (batch > 0) out.batch = batch;
        out.inputs = inputs;
        return out;
    }
};

const Model program{"mlp/ep_dyn.loss.pt2", 4, {}}, traced{"mlp/ts.logits.pt", 0, {}};

class DamagedArchives : public testing::Test {
  protected:
    DamagedArchives() : path_(fs::temp_directory_path() / ("thunderc-fuzz-" + std::to_string(::getpid()) + ".pt")) {}
    ~DamagedArchives() override { fs::remove(path_); }
    // The most that this process ever held.
    void TearDown() override {
#ifndef __SANITIZE_ADDRESS__
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        EXPECT_LT(usage.ru_maxrss, 1'000'000);  // kB
#endif
    }

    // `count` files in each round, of which each is written by `damage`.
    template <typename Damage>
    void try_many(const Model& model, std::uint64_t count, const Damage& damage) {
        count *= from_environment("FUZZ_ROUNDS", 1) * (full_form ? 2 : 1);
        const std::uint64_t first = from_environment("FUZZ_SEED", 0) * count;
        for (std::uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
            Random random(seed);
            damage(random);
            SCOPED_TRACE(model.file + ", seed " + std::to_string(seed));
            try {
                verify(import_model(path_, model.options()));
            } catch (const UserError& error) {
                EXPECT_FALSE(error.diagnostic().message.empty());
                EXPECT_FALSE(error.diagnostic().help.empty()) << error.diagnostic().text();
            } catch (const std::exception& error) {
                ADD_FAILURE() << error.what();
            }
        }
    }
    void write_bytes(const std::string& bytes) const {
        std::ofstream(path_, std::ios::binary) << bytes;
    }
    // Stored, which is quick.
    void write_entries(const Entries& entries) const {
        zipFile file = zipOpen64(path_.c_str(), APPEND_STATUS_CREATE);
        for (const auto& [name, bytes] : entries) {
            zip_fileinfo info{};
            zipOpenNewFileInZip(file, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, 0, 0);
            zipWriteInFileInZip(file, bytes.data(), static_cast<unsigned>(bytes.size()));
            zipCloseFileInZip(file);
        }
        zipClose(file, nullptr);
    }
    static Entries entries_of(const fs::path& path) {
        const ZipArchive archive(path);
        Entries out;
        for (const auto& [name, entry] : archive.entries()) out[name] = archive.text(name);
        return out;
    }

    fs::path path_;
};

TEST_F(DamagedArchives, OfOtherBytes) {
    for (const Model& model : {program, traced}) {
        std::ifstream in(model.path(), std::ios::binary);
        const std::string whole{std::istreambuf_iterator<char>(in), {}};
        // Half of the changes are to the list of entries, which is a tenth of the file.
        const std::size_t list = whole.find("PK\x01\x02");
        ASSERT_NE(list, std::string::npos);
        try_many(model, 60, [&](Random& random) {
            std::string bytes = whole;
            for (std::size_t k = 1 + random() % 3; k > 0; --k) {
                const std::size_t from = random() % 2 == 0 ? 0 : list, at = from + random() % (bytes.size() - from);
                bytes[at] =
                    random() % 2 == 0 ? static_cast<char>(random()) : static_cast<char>(bytes[at] ^ 1 << random() % 8);
            }
            if (random() % 16 == 0) bytes.resize(random() % bytes.size());
            write_bytes(bytes);
        });
    }
}

// The values of a text of JSON, each by itself.
void collect(nlohmann::json& value, std::vector<nlohmann::json*>& out) {
    out.push_back(&value);
    if (value.is_structured())
        for (auto& item : value) collect(item, out);
}

// A value is an odd one, one that stands elsewhere, or left out.
void change(nlohmann::json& program, Random& random) {
    static const nlohmann::json odd[] = {nullptr,
                                         0,
                                         1,
                                         -1,
                                         7,
                                         std::int64_t{1} << 40,
                                         INT64_MIN,
                                         INT64_MAX,
                                         1.5,
                                         "",
                                         "x",
                                         true,
                                         nlohmann::json::array(),
                                         nlohmann::json::object(),
                                         {{"as_int", -3}},
                                         {{"as_none", true}},
                                         {{"as_tensor", {{"name", "x"}}}},
                                         {{"as_ints", {0, -1, 1000}}}};
    std::vector<nlohmann::json*> values;
    // Most of the text is what tensors are like: of the rest as much is changed.
    collect(random() % 2 == 0 ? program : program["graph_module"]["graph"]["nodes"], values);
    nlohmann::json& value = *values[random() % values.size()];
    switch (random() % 3) {
        case 0: value = odd[random() % std::size(odd)]; break;
        case 1: value = nlohmann::json(*values[random() % values.size()]); break;
        default:
            if (value.is_structured() && !value.empty())
                value.erase(std::next(value.begin(), static_cast<std::ptrdiff_t>(random() % value.size())));
    }
}

TEST_F(DamagedArchives, OfOtherValues) {
    std::vector<std::pair<std::string, std::uint64_t>> models = {{program.file, 60}};
    for (const char* group : {"shapes", "indices", "windows", "networks", "losses", "reductions", "complex", "writes",
                              "control", "elementwise", "activations", "products", "distances"})
        models.emplace_back("pt2_operators/" + std::string(group) + ".pt2", 2);
    for (const auto& [file, count] : models) {
        const Model model{file, file == program.file ? program.batch : 0, {}};
        Entries entries = entries_of(model.path());
        std::string& text = entries.at("model/models/model.json");
        const nlohmann::json whole = nlohmann::json::parse(text);
        try_many(model, count, [&](Random& random) {
            nlohmann::json changed = whole;
            change(changed, random);
            text = changed.dump();
            write_entries(entries);
        });
    }
}

// Another letter or byte, one more or some less.
void change(std::string& bytes, bool code, Random& random) {
    static const std::string signs = "()[],.=:\n 0123456789\"_xtrue-";
    for (std::size_t k = 1 + random() % 3; k > 0; --k) {
        const std::size_t at = random() % bytes.size();
        const char put = code ? signs[random() % signs.size()] : static_cast<char>(random());
        switch (random() % 3) {
            case 0: bytes[at] = put; break;
            case 1: bytes.insert(at, 1, put); break;
            default: bytes.erase(at, 1 + random() % 4);
        }
        if (bytes.empty()) bytes = "x";
    }
}

TEST_F(DamagedArchives, OfOtherCodeAndPickles) {
    const CompileOptions::InputShape x{"f32", {{4, ""}, {6, ""}, {5, ""}}}, y{"f32", {{4, ""}, {6, ""}, {4, ""}}};
    const std::pair<Model, std::uint64_t> models[] = {
        {traced, 80},
        {{"models/gru_cells/script.loss.pt", 0, {{"x", x}, {"y", y}}}, 20},
        {{"models/resnet_train/ts.logits.pt", 0, {}}, 10},
        {{"models/llama_complex/ts.loss.pt", 0, {}}, 10}};
    for (const auto& [model, count] : models) {
        const Entries whole = entries_of(model.path());
        std::vector<std::string> names;
        for (const auto& [name, bytes] : whole)
            if ((name.ends_with(".py") || name.ends_with(".pkl")) && !bytes.empty()) names.push_back(name);
        try_many(model, count, [&](Random& random) {
            Entries entries = whole;
            const std::string& name = names[random() % names.size()];
            change(entries[name], name.ends_with(".py"), random);
            write_entries(entries);
        });
    }
}

}  // namespace archives_test
}  // namespace thunderc::tests

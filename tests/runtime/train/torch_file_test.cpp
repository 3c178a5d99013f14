// SPDX-License-Identifier: Apache-2.0
// Files of torch.save, recorded by scripts/make_torch_files.py, beside what PyTorch says is in them.
#include "checkpoint/torch_file.h"

#include <cstdlib>
#include <filesystem>
#include <random>

#include "../../support/zip64.h"
#include "helpers.h"

namespace thunder {
namespace torch_file_test {

using TorchFileTest = InFolder;

std::string recorded(const std::string& name) {
    return cat(FIXTURES, "/torch_files/", name);
}

// With FUZZ_ROUNDS=100 there are a hundred times as many damaged files.
int fuzz_rounds() {
    const char* rounds = std::getenv("FUZZ_ROUNDS");
    return rounds == nullptr ? 1 : std::max(1, std::atoi(rounds));
}

// Without the folder of the fixtures.
std::string error_text(const std::string& name) {
    std::string text = error_of([&] { open_tensor_file(recorded(name)); });
    const std::string folder = recorded("");
    for (std::size_t at = text.find(folder); at != std::string::npos; at = text.find(folder))
        text.erase(at, folder.size());
    return text;
}

TEST_F(TorchFileTest, HasWhatPyTorchHas) {
    const SafetensorsFile wanted(recorded("tensors.safetensors"));
    for (const char* name : {"tensors.pt", "protocol4.pt"}) {
        const std::unique_ptr<TensorFile> file = open_tensor_file(recorded(name));
        EXPECT_EQ(file->names(), wanted.names());
        for (const StoredTensor& tensor : wanted.tensors()) {
            const StoredTensor* found = file->find(tensor.name);
            ASSERT_NE(found, nullptr) << tensor.name;
            EXPECT_EQ(found->describe(), tensor.describe()) << tensor.name;
            EXPECT_TRUE(std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(), tensor.bytes.end()))
                << name << " " << tensor.name;
            file->release(*found);  // and it is there still
            EXPECT_TRUE(std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(), tensor.bytes.end()));
        }
        // What is tied in PyTorch lies in one place.
        EXPECT_EQ(file->find("whole")->bytes.data(), file->find("same")->bytes.data());
        EXPECT_EQ(file->find("row")->bytes.data(), file->find("whole")->bytes.data() + std::ptrdiff_t{2 * 6 * 4});
    }
}

// As files above 4 GiB are.
TEST_F(TorchFileTest, PlacesAndSizesOf64Bits) {
    const std::string whole = read_file(recorded("tensors.pt"));
    std::vector<std::pair<std::string, std::string>> entries;
    const ZipEntries zip(std::as_bytes(std::span(whole)), "tensors.pt");
    for (const auto& [name, entry] : zip.all())
        entries.emplace_back(name, std::string(reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size()));
    thunderc::tests::write_zip64(path("large.pt"), entries);
    EXPECT_GT(std::filesystem::file_size(path("large.pt")), std::uint64_t{1} << 32U);
    const SafetensorsFile wanted(recorded("tensors.safetensors"));
    const TorchFile found(path("large.pt"), "");
    EXPECT_EQ(found.names(), wanted.names());
    for (const StoredTensor& tensor : wanted.tensors()) {
        const StoredTensor* same = found.find(tensor.name);
        ASSERT_NE(same, nullptr) << tensor.name;
        EXPECT_TRUE(std::equal(same->bytes.begin(), same->bytes.end(), tensor.bytes.begin(), tensor.bytes.end()))
            << tensor.name;
    }
}

TEST_F(TorchFileTest, TakesThePartWithTheParameters) {
    const TorchFile checkpoint(recorded("words_checkpoint.pt"), "");
    EXPECT_EQ(checkpoint.chosen(), "its model");
    EXPECT_EQ(checkpoint.tensors().size(), 5U);
    const TorchFile wrapped(recorded("words_wrapped.pt"), "");
    EXPECT_EQ(wrapped.chosen(), "its state_dict");
    EXPECT_EQ(error_text("several.pt"),
              "error: several.pt has several dictionaries of tensors: generator, average\n"
              "help: say which one has the parameters: several.pt#generator");
    const std::unique_ptr<TensorFile> average = open_tensor_file(recorded("several.pt#average"));
    EXPECT_NE(average->find("first.weight"), nullptr);
    EXPECT_EQ(error_text("several.pt#other"),
              "error: several.pt has no other\nhelp: dictionaries of tensors in it: generator, average");
    EXPECT_EQ(
        error_text("tensors.safetensors#model"),
        "error: tensors.safetensors#model: tensors.safetensors is no file of torch.save, which alone have several "
        "dictionaries\nhelp: leave the # and what follows it away");
}

TEST_F(TorchFileTest, RefusesWhatIsNoDataByItsName) {
    EXPECT_EQ(error_text("module.pt"),
              "error: the pickle of module.pt names __main__.Net, which is no tensor and no number\n"
              "help: pickles are read as data, and nothing in them is run: save the tensors alone: "
              "torch.save(model.state_dict(), \"model.pt\")");
    EXPECT_EQ(
        error_text("legacy.pt"),
        "error: legacy.pt is of the form that torch.save had before PyTorch 1.6, which is not read\n"
        "help: load and save it again: torch.save(torch.load(\"legacy.pt\", map_location=\"cpu\"), \"again.pt\")");
    EXPECT_EQ(error_text("one_tensor.pt"),
              "error: one_tensor.pt holds no dictionary of tensors\n"
              "help: save a state dict: torch.save(model.state_dict(), \"model.pt\")");
    EXPECT_EQ(error_text("expanded.pt"),
              "error: expanded.pt: tensor w repeats its numbers (F32 [1000, 1000] of 1 number)\n"
              "help: save it with .contiguous()");
    EXPECT_EQ(
        error_text("program.pt"),
        "error: program.pt is a program of TorchScript, and no file of weights\n"
        "help: save its weights: torch.save(model.state_dict(), \"weights.pt\"); thunderc train program.pt makes a "
        "training program of it, which begins with them");
}

// An archive of one entry, stored: what a program of one's own would write.
std::string archive(const std::string& name, const std::string& content) {
    const auto number = [](std::uint64_t value, int bytes) {
        std::string out;
        for (int k = 0; k < bytes; ++k) out += static_cast<char>(value >> (8 * k));
        return out;
    };
    const std::uint32_t crc = crc32(std::as_bytes(std::span(content)));
    const std::string sizes =
        number(crc, 4) + number(content.size(), 4) + number(content.size(), 4) + number(name.size(), 2) + number(0, 2);
    const std::string local =
        "PK\3\4" + number(20, 2) + number(0, 2) + number(0, 2) + number(0, 4) + sizes + name + content;
    const std::string listed = "PK\1\2" + number(20, 2) + number(20, 2) + number(0, 2) + number(0, 2) + number(0, 4) +
                               sizes + number(0, 2) + number(0, 2) + number(0, 2) + number(0, 4) + number(0, 4) + name;
    return local + listed + "PK\5\6" + number(0, 4) + number(1, 2) + number(1, 2) + number(listed.size(), 4) +
           number(local.size(), 4) + number(0, 2);
}

TEST_F(TorchFileTest, RunsNothing) {
    const auto refused = [&](const std::string& pickle) {
        write_file(path("x.pt"), archive("a/data.pkl", pickle));
        const std::string text = error_of([&] { TorchFile(path("x.pt"), ""); });
        return text.substr(0, text.find('\n'));
    };
    const std::string x = path("x.pt");
    EXPECT_EQ(refused("\x80\x02"
                      "cos\nsystem\n)R."),
              cat("error: the pickle of ", x, " names os.system, which is no tensor and no number"));
    EXPECT_EQ(refused("\x80\x04\x8c\x08"
                      "builtins\x8c\x04"
                      "eval\x93)R."),
              cat("error: the pickle of ", x, " names builtins.eval, which is no tensor and no number"));
    // An object of a class that an archive does not have itself.
    EXPECT_EQ(refused("\x80\x02"
                      "ccollections\nOrderedDict\n)\x81."),
              cat("error: the pickle of ", x,
                  " names an object of collections.OrderedDict, which is no tensor and no number"));
    // Opcodes that make objects: INST, OBJ, NEWOBJ_EX, and names out of a registry of extensions.
    for (const char* op : {"i", "o", "\x92", "\x82", "\x83", "\x84", "P"})
        EXPECT_EQ(refused(cat("\x80\x02", op)), cat("error: the pickle of ", x, " has the opcode ",
                                                    static_cast<int>(static_cast<unsigned char>(op[0])),
                                                    ", which makes objects that are no tensors"));
    // Lists within one another without an end, and a dictionary that holds itself.
    EXPECT_EQ(refused("\x80\x02" + std::string(20000, '(')),
              cat("error: the pickle of ", x, " is damaged: lists stand within one another without an end"));
    const std::string itself = std::string("\x80\x02}q\1") + "U\1ah\1s.";
    write_file(x, archive("a/data.pkl", itself));
    EXPECT_EQ(TorchFile(x, "").tensors().size(), 0U);
}

// Whatever a file is damaged to be, it has one message, or tensors that lie in it.
TEST_F(TorchFileTest, SurvivesDamage) {
    std::mt19937 random(7);
    const int rounds = 200 * fuzz_rounds();
    for (const char* name : {"tensors.pt", "words_checkpoint.pt", "protocol4.pt"}) {
        const std::string whole = read_file(recorded(name));
        for (int round = 0; round < rounds; ++round) {
            std::string damaged = whole;
            const int hits = 1 + static_cast<int>(random() % 4);
            // The list of entries and the pickle are what is read: most hits go there.
            const std::size_t pickle = whole.find("data.pkl"), list = whole.rfind("data.pkl");
            for (int k = 0; k < hits; ++k) {
                const std::size_t at = random() % 3 == 0   ? random() % damaged.size()
                                       : random() % 2 == 0 ? std::min(pickle + random() % 1500, damaged.size() - 1)
                                                           : std::min(list + random() % 1500, damaged.size() - 1);
                damaged[at] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
            }
            if (random() % 8 == 0) damaged.resize(random() % damaged.size());
            write_file(path("x.pt"), damaged);
            try {
                const TorchFile file(path("x.pt"), "");
                std::uint64_t sum = 0;
                for (const StoredTensor& tensor : file.tensors())
                    for (const std::byte byte : tensor.bytes) sum += static_cast<std::uint64_t>(byte);
                static_cast<void>(sum);
            } catch (const Error& error) {
                EXPECT_NE(error.message(), "");
            }
        }
    }
}

// The pickle alone, whose checksum holds nothing back.
TEST_F(TorchFileTest, SurvivesDamagedPickles) {
    std::mt19937 random(8);
    for (const char* name : {"tensors.pt", "words_checkpoint.pt", "protocol4.pt"}) {
        const std::string whole = read_file(recorded(name));
        const ZipEntries all(std::as_bytes(std::span(whole)), name);
        std::span<const std::byte> pickle;
        for (const auto& [entry, found] : all.all())
            if (entry.ends_with("/data.pkl")) pickle = found.bytes;
        ASSERT_FALSE(pickle.empty());
        for (int round = 0; round < 1000 * fuzz_rounds(); ++round) {
            std::vector<std::byte> damaged(pickle.begin(), pickle.end());
            for (std::size_t k = 0; k <= random() % 3; ++k)
                damaged[random() % damaged.size()] = static_cast<std::byte>(random());
            if (random() % 8 == 0) damaged.resize(random() % damaged.size());
            try {
                read_torch_pickle(damaged, "x.pt");
            } catch (const Error& error) {
                EXPECT_NE(error.message(), "");
            }
        }
    }
}

}  // namespace torch_file_test
}  // namespace thunder

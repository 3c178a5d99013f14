// SPDX-License-Identifier: Apache-2.0
// Images, features and labels from .npy and safetensors files.
#include <set>

#include "data/batch_source.h"
#include "data/mixture.h"
#include "data/npy.h"
#include "program_test.h"

namespace thunder {
namespace tensor_samples_test {

// As numpy.save writes it, of version 1.0.
std::string npy(const std::string& descr, const std::string& shape, const std::string& bytes,
                const std::string& order = "False") {
    std::string header = cat("{'descr': '", descr, "', 'fortran_order': ", order, ", 'shape': ", shape, ", }");
    header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
    header += '\n';
    std::string text = "\x93NUMPY";
    text += '\x01';
    text += '\0';
    text += static_cast<char>(header.size() & 0xff);
    text += static_cast<char>(header.size() >> 8);
    return text + header + bytes;
}

template <typename X>
std::string bytes_of(const std::vector<X>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(X)};
}

StoredTensor read(const std::string& file) {
    return read_npy(std::as_bytes(std::span(file)), "x.npy");
}

TEST(NpyTest, ReadsWhatNumpyWrites) {
    const std::string file = npy("<f4", "(2, 3)", bytes_of<float>({1, 2, 3, 4, 5, 6}));
    const StoredTensor tensor = read(file);
    EXPECT_EQ(tensor.describe(), "F32 [2, 3]");
    std::vector<float> values(2);
    EXPECT_TRUE(read_elements(tensor, DType::f32, 3, 2, values.data()));
    EXPECT_EQ(values, (std::vector<float>{4, 5}));
    EXPECT_EQ(read(npy("|u1", "(4,)", "abcd")).describe(), "U8 [4]");
    EXPECT_EQ(read(npy("<i8", "()", std::string(8, 'x'))).describe(), "I64 []");
    EXPECT_EQ(read(npy("<i8", "(0, 5)", "")).describe(), "I64 [0, 5]");
}

TEST(NpyTest, RefusesWhatItIsNot) {
    const std::string help = "\nhelp: numpy.save(FILE, numpy.ascontiguousarray(x)) writes one that is read";
    const auto error = [](const std::string& file) { return error_of([&] { read(file); }); };
    EXPECT_EQ(error(npy(">f4", "(1,)", "abcd")),
              "error: x.npy holds numbers of type '>f4', which no program reads" + help);
    EXPECT_EQ(error(npy("<f4", "(1,)", "abcd", "True")), "error: x.npy has its numbers in Fortran's order" + help);
    EXPECT_EQ(error("some text"), "error: x.npy is no .npy file" + help);
    EXPECT_EQ(error(npy("<f4", "(2,)", "abcd")),
              "error: x.npy is truncated: [2] takes 8 bytes, and it holds 4\nhelp: copy it again");
    const std::string whole = npy("<f4", "(2, 3)", bytes_of<float>({1, 2, 3, 4, 5, 6}));
    for (std::size_t cut = 0; cut < whole.size(); ++cut) EXPECT_NE(error(whole.substr(0, cut)), "") << cut;
    EXPECT_NE(error(npy("<f4", "(4294967296, 4294967296, 4294967296)", "")), "");
    EXPECT_NE(error(npy("<f4", "(99999999999999999999)", "")), "");
}

// ---- batches
// -----------------------------------------------------------------------------------------------------------

constexpr std::int64_t B = 2, C = 3, H = 2, W = 2;
constexpr std::int64_t image_shape[] = {B, C, H, W}, label_shape[] = {B};
constexpr InputSpec inputs[] = {
    {"pixel_values", DType::f32, image_shape, 0, 96, true, -1, 0, ""},
    {"labels", DType::i64, label_shape, 128, 16, true, 10, -100, ""},
};

class TensorSamplesTest : public InFolder {
  protected:
    TensorSamplesTest() {
        program.name = "tiny";
        program.inputs = inputs;
        program.batch = B;
        program.arena_bytes[static_cast<std::size_t>(Arena::batch)] = 192;
        options.data = path("set");
        std::filesystem::create_directory(options.data);
    }
    std::unique_ptr<BatchSource> open() const { return make_batch_source(program, options, {1, 0, 1, B}); }
    std::string error() const {
        return error_of([&] { open(); });
    }
    // The images of one epoch by their labels.
    std::map<std::int64_t, std::vector<float>> images(std::int64_t steps, std::int64_t first = 0) const {
        const auto source = open();
        std::map<std::int64_t, std::vector<float>> all;
        std::vector<std::byte> batch(192);
        for (std::int64_t step = first; step < first + steps; ++step) {
            source->load(step, step * B, 0, batch);
            for (std::size_t row = 0; row < B; ++row) {
                const auto* pixels = reinterpret_cast<const float*>(batch.data()) + row * 12;
                all[reinterpret_cast<const std::int64_t*>(batch.data() + 128)[row]] = {pixels, pixels + 12};
            }
        }
        return all;
    }
    // Four images of bytes: 100 k + c + 10 (2 y + x) of channel c.
    void write_images(bool channels_last) const {
        std::vector<std::uint8_t> pixels;
        std::vector<std::int32_t> labels;
        for (int k = 0; k < 2; ++k) {
            labels.push_back(k);
            for (int i = 0; i < 12; ++i) {
                const int c = channels_last ? i % 3 : i / 4, p = channels_last ? i / 3 : i % 4;
                pixels.push_back(static_cast<std::uint8_t>(100 * k + c + 10 * p));
            }
        }
        write_file(path("set/pixel_values.npy"),
                   npy("|u1", channels_last ? "(2, 2, 2, 3)" : "(2, 3, 2, 2)", bytes_of(pixels)));
        write_file(path("set/labels.npy"), npy("<i4", "(2,)", bytes_of(labels)));
    }

    ProgramSpec program{};
    Options options;
};

TEST_F(TensorSamplesTest, BytesBecomeImages) {
    for (const bool channels_last : {false, true}) {
        write_images(channels_last);
        options.normalize = {0.5, 0.25, 0, 0.5, 1, 2};
        EXPECT_EQ(open()->describe(), cat("2 samples from ", options.data));
        const auto all = images(1);
        ASSERT_EQ(all.size(), 2U);
        const double mean[] = {0.5, 0.25, 0}, deviation[] = {0.5, 1, 2};
        for (int k = 0; k < 2; ++k)
            for (int i = 0; i < 12; ++i) {
                const double byte = 100 * k + i / 4 + 10 * (i % 4);
                // Two roundings of numbers below 2.
                EXPECT_NEAR(all.at(k)[static_cast<std::size_t>(i)], (byte / 255 - mean[i / 4]) / deviation[i / 4],
                            5e-7);
            }
    }
    options.normalize = {};
    EXPECT_EQ(error(), cat("error: ", options.data,
                           ": pixel_values has images of bytes, and nothing says what numbers they are\nhelp: "
                           "--normalize MEAN,STD: x / 255, less MEAN, divided by STD; --normalize 0,1 for x / 255"));
    options.normalize = {0, 0, 1, 1};
    EXPECT_EQ(error(),
              "error: --normalize has numbers for 2 channels, and pixel_values has 3\nhelp: one for all, or one for "
              "each");
}

// An image is itself or its mirror, each in about half of the epochs, and the same whenever it is asked for.
TEST_F(TensorSamplesTest, ImagesAreFlippedAtRandom) {
    write_images(false);
    options.normalize = {0, 1};
    const auto plain = images(1);
    options.flip = true;
    int flipped = 0;
    for (std::int64_t epoch = 0; epoch < 100; ++epoch) {
        const auto all = images(1, epoch), again = images(1, epoch);
        EXPECT_EQ(all, again);
        for (const auto& [label, pixels] : all) {
            std::vector<float> mirror(12);
            for (std::size_t i = 0; i < 12; ++i) mirror[i] = plain.at(label)[i ^ 1];
            const bool is_mirror = pixels == mirror;
            EXPECT_TRUE(is_mirror || pixels == plain.at(label));
            flipped += is_mirror;
        }
    }
    EXPECT_NEAR(flipped, 100, 5 * 7.1);  // of 200, five standard errors
}

TEST_F(TensorSamplesTest, ShardsOfTensorsAreOneSet) {
    for (int shard = 0; shard < 3; ++shard) {
        std::vector<float> pixels(static_cast<std::size_t>(12 * (shard + 1)), static_cast<float>(shard));
        std::vector<std::int64_t> labels;
        for (int k = 0; k <= shard; ++k) labels.push_back(3 * shard + k);
        write_tensors(path(cat("set/s", shard, ".safetensors")),
                      {floats("pixel_values", {shard + 1, C, H, W}, pixels), longs("labels", {shard + 1}, labels)});
    }
    EXPECT_EQ(open()->describe(), cat("6 samples from ", options.data, " (3 shards)"));
    const auto all = images(3);
    ASSERT_EQ(all.size(), 6U);
    for (const auto& [label, pixels] : all) EXPECT_EQ(pixels[0], static_cast<float>(label / 3));
}

TEST_F(TensorSamplesTest, RefusesWhatDoesNotFit) {
    write_images(false);
    options.normalize = {0, 1};
    EXPECT_EQ(error(), "");
    const std::string labels = read_file(path("set/labels.npy"));
    write_file(path("set/labels.npy"), npy("<i4", "(3,)", bytes_of<std::int32_t>({0, 1, 2})));
    EXPECT_EQ(error(), cat("error: ", options.data,
                           " has 2 samples of pixel_values and 3 of labels\nhelp: each tensor has a row for each "
                           "sample"));
    write_file(path("set/labels.npy"), npy("<i4", "(2,)", bytes_of<std::int32_t>({0, 10})));
    const auto source = open();
    std::vector<std::byte> batch(192);
    EXPECT_EQ(
        error_of([&] { source->load(0, 0, 0, batch); }),
        cat("error: ", options.data,
            ": sample 1 has 10 in labels, which takes 0 to 9, or -100\nhelp: the model can use no others: look at "
            "how the samples were made"));
    std::filesystem::remove(path("set/labels.npy"));
    EXPECT_EQ(error(), cat("error: ", options.data,
                           " has no tensor labels\nhelp: it holds pixel_values; the inputs are pixel_values, labels"));
    write_file(path("set/labels.npy"), labels);
    write_file(path("set/pixel_values.npy"), npy("|u1", "(2, 3, 2, 1)", std::string(12, 'x')));
    EXPECT_EQ(error(), cat("error: ", options.data,
                           ": pixel_values has shape [2, 3, 2, 1], expected [2, 3, 2, 2] or [2, 2, 2, 3]\nhelp: "
                           "dimension 0 is the samples, all others are the program's"));
    options.documents = Options::Documents::one;
    EXPECT_EQ(error(),
              cat("error: --documents is about tokens, and ", options.data, " has tensors\nhelp: leave it away"));
}

// What is not an image lies as it lay.
TEST_F(TensorSamplesTest, OnlyOneImageIsFlipped) {
    constexpr std::int64_t mask_shape[] = {B, H, W};
    const InputSpec with_mask[] = {inputs[0], inputs[1], {"mask", DType::i64, mask_shape, 192, 64, true, 2, 0, ""}};
    program.inputs = with_mask;
    program.arena_bytes[static_cast<std::size_t>(Arena::batch)] = 256;
    write_images(false);
    write_file(path("set/mask.npy"),
               npy("<i8", "(2, 2, 2)", bytes_of(std::vector<std::int64_t>{0, 1, 0, 0, 1, 1, 0, 0})));
    options.normalize = {0, 1};
    EXPECT_EQ(error(), "");
    options.flip = true;
    EXPECT_EQ(error(),
              "error: --flip mirrors pixel_values, and mask [2, 2, 2] may lie on it\nhelp: leave it away, and mirror "
              "samples of both kinds when they are written");
    // Two of the shape of images: which is one, nobody says.
    const InputSpec two[] = {inputs[0], inputs[1], {"target", DType::f32, image_shape, 192, 96, true, -1, 0, ""}};
    program.inputs = two;
    write_file(path("set/target.npy"), npy("<f4", "(2, 3, 2, 2)", std::string(96, '\0')));
    EXPECT_EQ(error(),
              "error: --flip mirrors pixel_values, and target [2, 3, 2, 2] may lie on it\nhelp: leave it away, and "
              "mirror samples of both kinds when they are written");
    options.flip = false;
    EXPECT_EQ(open()->notes(),
              std::vector<std::string>{"warning: --normalize is of all that may be images: pixel_values, target"});
}

// A batch has rows of all shards and sources, and one of what has no rows.
TEST_F(TensorSamplesTest, WhatHasNoRowsIsTheSameEverywhere) {
    constexpr std::int64_t offset_shape[] = {3};
    const InputSpec with_offset[] = {
        inputs[0], inputs[1], {"offset", DType::f32, offset_shape, 192, 12, false, -1, 0, ""}};
    program.inputs = with_offset;
    program.arena_bytes[static_cast<std::size_t>(Arena::batch)] = 256;
    const auto write = [&](const std::string& name, float offset) {
        write_tensors(path(name), {floats("pixel_values", {2, C, H, W}, std::vector<float>(24, offset)),
                                   longs("labels", {2}, {0, 1}), floats("offset", {3}, {0, offset, 2})});
    };
    write("set/a.safetensors", 1);
    write("set/b.safetensors", 1);
    write("c.safetensors", 1);
    EXPECT_EQ(error(), "");
    write("set/b.safetensors", 3);
    EXPECT_EQ(error(), cat("error: ", options.data, "/a.safetensors and ", options.data,
                           "/b.safetensors have different numbers in offset, which is the same for all samples\nhelp: "
                           "give them the same ones"));
    options.data = cat(path("set/a.safetensors"), ":1,", path("c.safetensors"), ":1");
    EXPECT_EQ(error(), "");
    write("c.safetensors", 4);
    EXPECT_EQ(error(), cat("error: ", path("set/a.safetensors"), " and ", path("c.safetensors"),
                           " have different numbers for the inputs that have no rows, and a batch has rows of both\n"
                           "help: give them the same ones"));
}

TEST_F(TensorSamplesTest, FoldersAreSets) {
    write_images(false);
    options.normalize = {0, 1};
    std::filesystem::create_directory(path("all"));
    std::filesystem::rename(path("set"), path("all/set"));
    std::filesystem::create_directory(path("all/empty"));
    options.data = path("all");
    EXPECT_EQ(error(), "");
    // What a shard holds is part of what a checkpoint, and each rank, says of its data.
    const std::string before = sample_of_data(options);
    write_file(path("all/set/labels.npy"), npy("<i4", "(2,)", bytes_of<std::int32_t>({1, 0})));
    EXPECT_NE(sample_of_data(options), before);
    options.data = path("all/set/labels.npy");
    EXPECT_EQ(error(), cat("error: --data ", options.data,
                           " is one tensor, and samples have one for each input\nhelp: name the folder with files of "
                           "all of them, called INPUT.npy"));
}

// A whole program, killed and gone on with; read ahead and not.
using FilesTest = ProgramTest;

TEST_F(FilesTest, AModelOfNumbersTrainsFromFiles) {
    std::mt19937 random(1);
    std::vector<float> x, target;
    std::vector<std::int32_t> kind;
    for (int k = 0; k < 7; ++k) {
        float sum = 0;
        for (int d = 0; d < 3; ++d) {
            x.push_back(static_cast<float>(random() % 100) / 50 - 1);
            sum += static_cast<float>(d + 1) * x.back();
        }
        target.push_back(sum);
        kind.push_back(k % 2);
    }
    std::filesystem::create_directory(path("set"));
    write_file(path("set/x.npy"), npy("<f4", "(7, 3)", bytes_of(x)));
    write_file(path("set/use.npy"), npy("|b1", "(7,)", std::string(7, 1)));
    write_file(path("set/kind.npy"), npy("<i4", "(7,)", bytes_of(kind)));
    write_file(path("set/offset.npy"), npy("<f4", "(3,)", bytes_of<float>({0, 0, 0})));
    write_file(path("set/target.npy"), npy("<f4", "(7,)", bytes_of(target)));
    const std::string flags = "--data set --lr 0.05 --schedule constant --warmup 0 --seed 2 --quiet ";
    expect_success(run("line_train", flags + "--steps 40 --log whole.jsonl --eval-data set --eval-every 10"));
    const auto log = read_log("whole.jsonl");
    EXPECT_LT(log.back()["eval_loss"].get<double>(), 0.5 * log.front()["loss"].get<double>());
    expect_success(run("line_train", flags + "--steps 40 --log whole.jsonl"));
    // They are no tokens; and how many of them are evaluated is said.
    const Outcome told = shell(cat(PROGRAMS "/line_train --data set --eval-data set --steps 1"));
    EXPECT_NE(told.err.find("\nevaluates 3 batches of 2 rows: 7 samples from set\n"), std::string::npos) << told.err;
    EXPECT_NE(told.err.find(" rows/s\n"), std::string::npos) << told.err;
    for (const char* ahead : {"always", "never"}) {
        std::filesystem::remove_all(path("c"));
        const auto go_on = [&](const std::string& more) {
            return shell(cat("THUNDER_READ_AHEAD=", ahead, " ", PROGRAMS, "/line_train ", flags, more,
                             " --checkpoint c --log run.jsonl"));
        };
        expect_success(go_on("--steps 13"));
        expect_success(go_on("--steps 40 --resume"));
        EXPECT_EQ(without_times(read_file(path("run.jsonl"))), without_times(read_file(path("whole.jsonl"))));
    }
}

// To a program that takes no tokens too: what is not there is no token.
TEST_F(FilesTest, WhatIsNotThere) {
    std::filesystem::create_directory(path("empty"));
    for (const char* flag : {"--data ", "--eval-only --init random --eval-data "}) {
        EXPECT_EQ(run("line_train", cat(flag, "none --steps 1 --quiet")).err,
                  "error: no such file: none\nhelp: check the name of the file\n");
        EXPECT_EQ(
            run("line_train", cat(flag, "empty --steps 1 --quiet")).err,
            "error: the folder empty has no .bin file of tokens, and no .npy or .safetensors file of samples\n"
            "help: thunderc data pack FILE... -o corpus.bin makes one of tokens; of samples there is INPUT.npy for "
            "each input\n");
    }
}

// A number that is none of the model's ends the run in the step that has it, however far ahead it was read.
TEST_F(FilesTest, AnErrorComesInItsStep) {
    std::filesystem::create_directory(path("set"));
    std::vector<std::int32_t> kind(20);
    kind[11] = 7;
    write_file(path("set/x.npy"), npy("<f4", "(20, 3)", std::string(240, '\0')));
    write_file(path("set/use.npy"), npy("|b1", "(20,)", std::string(20, 1)));
    write_file(path("set/kind.npy"), npy("<i4", "(20,)", bytes_of(kind)));
    write_file(path("set/offset.npy"), npy("<f4", "(3,)", std::string(12, '\0')));
    write_file(path("set/target.npy"), npy("<f4", "(20,)", std::string(80, '\0')));
    std::vector<std::string> logs;
    for (const char* ahead : {"always", "never"}) {
        const Outcome outcome = shell(cat("THUNDER_READ_AHEAD=", ahead, " ", PROGRAMS,
                                          "/line_train --data set --steps 10 --quiet --seed 1 --log ", ahead));
        EXPECT_EQ(outcome.status, 1);
        EXPECT_EQ(outcome.err,
                  "error: set: sample 11 has 7 in kind, which takes 0 to 1\nhelp: the model can use no others: look at "
                  "how the samples were made\n");
        logs.push_back(without_times(read_file(path(ahead))));
    }
    EXPECT_EQ(logs[0], logs[1]);
    EXPECT_NE(logs[0], "");
}

}  // namespace tensor_samples_test
}  // namespace thunder

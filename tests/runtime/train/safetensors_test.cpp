// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.h"

#include <cmath>

#include "device/cpu/narrow.h"
#include "helpers.h"

namespace thunder {
namespace safetensors_test {

using SafetensorsTest = InFolder;

std::string file_bytes(const std::string& header, const std::string& data) {
    const std::uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

const std::vector<TestTensor>& some_tensors() {
    static const std::vector<TestTensor> tensors = {
        floats("a \"quoted\" name", {2, 3}, {1, -2, 3.5F, 0, -0.0F, 1e-42F}),
        longs("b", {2}, {-1, 1LL << 40}),
        tensor<std::int32_t>("c", DType::i32, {1, 2, 1}, {7, -7}),
        tensor<std::uint8_t>("d", DType::boolean, {3}, {1, 0, 1}),
        floats("empty", {0, 4}, {}),
        floats("scalar", {}, {42}),
        tensor<std::uint16_t>("bf", DType::bf16, {2}, {0x3f80, 0xc000}),
    };
    return tensors;
}

TEST_F(SafetensorsTest, GivesBackWhatWasWritten) {
    write_tensors(path("x.safetensors"), some_tensors());
    const SafetensorsFile file(path("x.safetensors"));
    ASSERT_EQ(file.tensors().size(), some_tensors().size());
    for (const TestTensor& wanted : some_tensors()) {
        const StoredTensor* stored = file.find(wanted.name);
        ASSERT_NE(stored, nullptr) << wanted.name;
        EXPECT_EQ(stored->shape, wanted.shape);
        EXPECT_EQ(stored->dtype, stored_name(wanted.dtype));
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(stored->bytes.data()), stored->bytes.size()), wanted.bytes);
    }
    EXPECT_EQ(file.find("e"), nullptr);
    EXPECT_EQ(files(), std::vector<std::string>{"x.safetensors"});  // no temporary file stays
}

TEST_F(SafetensorsTest, AlignsTheData) {
    write_tensors(path("x.safetensors"), some_tensors());
    const std::string bytes = read_file(path("x.safetensors"));
    std::uint64_t header = 0;
    std::memcpy(&header, bytes.data(), 8);
    EXPECT_EQ(header % 8, 0U);
}

TEST_F(SafetensorsTest, KeepsMetadata) {
    const std::pair<std::string, std::string> metadata[] = {{"format", "pt"}, {"odd", "\"\\\n\u00e9"}};
    SafetensorsWriter(path("x.safetensors"), {}, metadata).commit();
    const SafetensorsFile file(path("x.safetensors"));
    EXPECT_EQ(file.metadata().at("format"), "pt");
    EXPECT_EQ(file.metadata().at("odd"), "\"\\\n\u00e9");
}

TEST_F(SafetensorsTest, ConvertsOnReading) {
    // Halves and their values from IEEE 754-2008 by hand: 1, -2, the largest, the smallest normal, the smallest
    // subnormal, the largest subnormal, infinity.
    const std::uint16_t halves[] = {0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x03ff, 0x7c00};
    const float values[] = {1, -2, 65504, 0x1p-14F, 0x1p-24F, 1023 * 0x1p-24F, INFINITY};
    for (std::size_t i = 0; i < std::size(halves); ++i) EXPECT_EQ(to_float(f16{halves[i]}), values[i]) << i;
    EXPECT_TRUE(std::isnan(to_float(f16{0x7e01})));
    EXPECT_TRUE(std::signbit(to_float(f16{0x8000})));

    // Ties go to the even neighbour; a NaN whose upper fraction bits are 0 stays one.
    EXPECT_EQ(bits_of(to_bf16(1.0F)), 0x3f80);
    EXPECT_EQ(bits_of(to_bf16(1.0F + 0x1p-8F)), 0x3f80);
    EXPECT_EQ(bits_of(to_bf16(1.0F + 3 * 0x1p-8F)), 0x3f82);
    EXPECT_EQ(bits_of(to_bf16(3.4e38F)), 0x7f80);
    EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001)))));

    write_file(path("h.safetensors"),
               file_bytes(R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                          R"("d":{"dtype":"F64","shape":[1],"data_offsets":[4,12]},)"
                          R"("l":{"dtype":"I64","shape":[1],"data_offsets":[12,20]}})",
                          std::string("\x00\x3c\x00\xc0", 4) + std::string("\0\0\0\0\0\0\xf8\x3f", 8) +
                              std::string("\0\0\0\0\1\0\0\0", 8)));
    const SafetensorsFile file(path("h.safetensors"));
    float two[2];
    ASSERT_TRUE(read_elements(*file.find("h"), DType::f32, 0, 2, two));
    EXPECT_EQ(two[0], 1);
    EXPECT_EQ(two[1], -2);
    ASSERT_TRUE(read_elements(*file.find("d"), DType::f32, 0, 1, two));
    EXPECT_EQ(two[0], 1.5F);
    std::int32_t narrow = 0;
    EXPECT_FALSE(read_elements(*file.find("l"), DType::i32, 0, 1, &narrow));  // 2^32 is no int32

    EXPECT_TRUE(readable_as("I32", DType::i64));
    EXPECT_FALSE(readable_as("F32", DType::i64));
    EXPECT_FALSE(readable_as("I64", DType::f32));
    EXPECT_FALSE(readable_as("F8_E4M3", DType::f32));
}

// As PyTorch writes them: an input of any width is 32 or 64 bits wide in the program.
TEST_F(SafetensorsTest, ReadsIntegersOfEveryWidth) {
    struct Case {
        const char* dtype;
        std::string bytes;  // two numbers
        std::int64_t first, second;
    };
    const Case cases[] = {{"U8", std::string("\xff\x07", 2), 255, 7},
                          {"I8", std::string("\xff\x07", 2), -1, 7},
                          {"U16", std::string("\xff\xff\x07\0", 4), 65535, 7},
                          {"I16", std::string("\xff\xff\x07\0", 4), -1, 7},
                          {"I32", std::string("\xff\xff\xff\xff\x07\0\0\0", 8), -1, 7},
                          {"U32", std::string("\xff\xff\xff\xff\x07\0\0\0", 8), 4294967295, 7}};
    for (const Case& c : cases) {
        SCOPED_TRACE(c.dtype);
        write_file(path("n.safetensors"),
                   file_bytes(std::string(R"({"n":{"dtype":")") + c.dtype + R"(","shape":[2],"data_offsets":[0,)" +
                                  std::to_string(c.bytes.size()) + "]}}",
                              c.bytes));
        const SafetensorsFile file(path("n.safetensors"));
        std::int64_t wide[2];
        ASSERT_TRUE(readable_as(c.dtype, DType::i64));
        EXPECT_TRUE(read_elements(*file.find("n"), DType::i64, 0, 2, wide));
        EXPECT_EQ(wide[0], c.first);
        EXPECT_EQ(wide[1], c.second);
        std::int32_t narrow[2] = {0, 0};
        ASSERT_TRUE(readable_as(c.dtype, DType::i32));
        EXPECT_TRUE(read_elements(*file.find("n"), DType::i32, 1, 1, narrow));
        EXPECT_EQ(narrow[0], c.second);
        EXPECT_EQ(read_elements(*file.find("n"), DType::i32, 0, 2, narrow), c.first <= INT32_MAX);
    }
    EXPECT_FALSE(readable_as("U64", DType::i64));
}

TEST_F(SafetensorsTest, RefusesAFileCutShortAnywhere) {
    write_tensors(path("x.safetensors"), some_tensors());
    const std::string whole = read_file(path("x.safetensors"));
    for (std::size_t length = 0; length < whole.size(); ++length) {
        write_file(path("cut.safetensors"), whole.substr(0, length));
        EXPECT_NE(error_of([&] { SafetensorsFile(path("cut.safetensors")); }), "")
            << "the first " << length << " of " << whole.size() << " bytes";
    }
}

TEST_F(SafetensorsTest, SurvivesAnyChangedByte) {
    // A changed header is refused, or still describes tensors that lie within the file. Run under sanitizers, this
    // also says that nothing behind the file is read.
    write_tensors(path("x.safetensors"), some_tensors());
    const std::string whole = read_file(path("x.safetensors"));
    std::uint64_t header = 0;
    std::memcpy(&header, whole.data(), 8);
    std::size_t refused = 0;
    for (std::size_t at = 0; at < 8 + header; ++at) {
        for (const char changed : {'9', '"', static_cast<char>(whole[at] ^ 1)}) {
            std::string bytes = whole;
            bytes[at] = changed;
            write_file(path("odd.safetensors"), bytes);
            refused +=
                error_of([&] {
                    const SafetensorsFile file(path("odd.safetensors"));
                    for (const StoredTensor& stored : file.tensors()) {
                        std::vector<std::byte> out(stored.elements() * 8);
                        for (const DType dtype : {DType::f32, DType::bf16, DType::i64, DType::i32, DType::boolean}) {
                            if (readable_as(stored.dtype, dtype))
                                read_elements(stored, dtype, 0, stored.elements(), out.data());
                        }
                    }
                }) != "";
        }
    }
    EXPECT_GT(refused, header * 2);  // most changes make it something else than a header
}

struct Damage {
    const char* header;
    std::size_t data;
    const char* error;  // behind "error: PATH"
};

TEST_F(SafetensorsTest, SaysWhatIsWrong) {
    const std::string help = "\nhelp: the file is damaged, or was not written as safetensors";
    const Damage cases[] = {
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4,
         " is truncated: tensor a ends at byte 8 of the data, and there are 4\nhelp: copy or download the file again"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
         ": tensor a: it takes 4 bytes, but F32 [2] has 8"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4,
         ": tensor a: it ends (at byte 0) before it begins (at byte 4)"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
         6, ": tensor b begins at byte 2, but the one before it ends at byte 4"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
         ": tensor a begins at byte 4, but the one before it ends at byte 0"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 7, ": 3 bytes stand behind its last tensor"},
        {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4, ": tensor a: unknown dtype \"F31\""},
        {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
         ": tensor a: its shape is not a list of sizes"},
        {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4,
         ": tensor a: its shape is not a list of sizes"},
        {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
         ": tensor a: its shape [4611686018427387904] is too large"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4,
         ": tensor a: its header entry has no data_offsets"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,1e30]}})", 4,
         ": tensor a: its data_offsets are not offsets"},
        {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, ": tensor a: its header entry has no dtype"},
        {R"({"a":[]})", 4, ": tensor a: its header entry is not an object"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
         4, "'s header is not valid JSON: the key \"a\" stands there twice"},
        {R"({"__metadata__":{"x":1}})", 0, ": the metadata x is not a string"},
    };
    const std::string name = path("x.safetensors");
    for (const Damage& damage : cases) {
        write_file(name, file_bytes(damage.header, std::string(damage.data, '\0')));
        std::string expected = cat("error: ", name, damage.error);
        if (expected.find("help:") == std::string::npos) expected += help;
        EXPECT_EQ(error_of([&] { SafetensorsFile file(name); }), expected) << damage.header;
    }
    write_file(name, file_bytes("{\"a\":", ""));
    EXPECT_EQ(error_of([&] { SafetensorsFile file(name); }),
              cat("error: ", name, "'s header is not valid JSON at byte 6: Invalid value.", help))
        << "cut JSON";
    write_file(name, file_bytes(std::string("{\"a\":") + std::string(500, '['), ""));
    EXPECT_EQ(error_of([&] { SafetensorsFile file(name); }),
              cat("error: ", name, "'s header is not valid JSON: it nests more than 64 deep", help));
    write_file(name, "<html> some other kind of file");
    EXPECT_EQ(error_of([&] { SafetensorsFile file(name); }), cat("error: ", name, " is not a safetensors file", help));
    for (const char* magic : {"PK\3\4", "\x80\x02"}) {  // an archive of torch.save, and its pickle of old
        write_file(name, std::string(magic) + " and what it holds");
        EXPECT_EQ(error_of([&] { SafetensorsFile file(name); }),
                  cat("error: ", name, " is not a safetensors file",
                      "\nhelp: where torch.save wrote it: write it with safetensors.torch.save_file"));
    }
    write_file(name, "");
    EXPECT_EQ(error_of([&] { SafetensorsFile file(name); }),
              cat("error: ", name, " is not a safetensors file: it has 0 bytes", help));
    EXPECT_EQ(error_of([&] { SafetensorsFile file(path("none")); }),
              cat("error: no such file: ", path("none"), "\nhelp: check the name of the file"));
    EXPECT_EQ(error_of([&] { SafetensorsFile file(folder_.string()); }),
              cat("error: cannot read ", folder_.string(), ": Is a directory\nhelp: check the name of the file"));
}

TEST_F(SafetensorsTest, LeavesNothingWhenNotCommitted) {
    write_file(path("x.safetensors"), "before");
    {
        const TensorToWrite one[] = {{"a", DType::f32, {2}}};
        SafetensorsWriter writer(path("x.safetensors"), one);
        const float half = 1;
        writer.append(&half, sizeof half);
        EXPECT_EQ(error_of([&] { writer.commit(); }),
                  "error: a safetensors file was given fewer bytes than were announced");
    }
    EXPECT_EQ(files(), std::vector<std::string>{"x.safetensors"});
    EXPECT_EQ(read_file(path("x.safetensors")), "before");
}

TEST_F(SafetensorsTest, SaysThatTheDiskIsFull) {
    const TensorToWrite one[] = {{"a", DType::f32, {2}}};
    EXPECT_EQ(error_of([&] { SafetensorsWriter writer("/dev/full", one); }),
              "error: cannot write /dev/full: No space left on device\nhelp: make room there, or name a place on "
              "another disk");
    EXPECT_EQ(error_of([&] { SafetensorsWriter writer(path("none/x"), one); }),
              cat("error: cannot write ", path("none/x"),
                  ": No such file or directory\nhelp: make the folder first: mkdir -p ", path("none")));
}

}  // namespace safetensors_test
}  // namespace thunder

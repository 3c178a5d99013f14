// SPDX-License-Identifier: Apache-2.0
// --save and --save-ema as files, and as folders of a model.
#include "device/cpu/narrow.h"
#include "program_test.h"

namespace thunder {
namespace save_test {

class SaveTest : public ProgramTest {
  protected:
    SaveTest() {
        write_feed("feed.safetensors", 3, 4);
        // A model's folder, whose names have no "model." before them, with a tensor that the program does not know.
        expect_success(run("words_train", "--feed feed.safetensors --steps 1 --seed 5 --quiet --save first"));
        std::vector<TestTensor> tensors = {floats("rope.frequencies", {2}, {3, 4})};
        const SafetensorsFile file(path("first"));
        for (const StoredTensor& tensor : file.tensors())
            tensors.push_back(floats(tensor.name.substr(tensor.name.find('.') + 1), tensor.shape,
                                     read_floats(path("first"), tensor.name)));
        std::filesystem::create_directory(path("base"));
        write_tensors(path("base/model.safetensors"), tensors);
        write_file(path("base/config.json"), "{\"torch_dtype\": \"float32\", \"hidden_size\": 8}\n");
        write_file(path("base/tokenizer.json"), "{}");
        write_file(path("base/pytorch_model.bin"), "no");
    }
    const std::string flags = "--feed feed.safetensors --steps 3 --lr 0.01 ";
};

TEST_F(SaveTest, AFolderHasTheNamesAndFilesOfTheModels) {
    expect_success(run("words_train", flags + "--init base --quiet --ema 0.5 --save whole --save-ema average"));
    Outcome outcome = run("words_train", flags + "--init base --ema 0.5 --save out/ --save-ema out_average/");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("note: base has rope.frequencies beside, which the program has not"), std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find("parameters in out/\n"), std::string::npos) << outcome.err;
    EXPECT_EQ(read_file(path("out/config.json")), read_file(path("base/config.json")));
    EXPECT_EQ(read_file(path("out/tokenizer.json")), "{}");
    EXPECT_FALSE(std::filesystem::exists(path("out/pytorch_model.bin")));
    EXPECT_FALSE(std::filesystem::exists(path("out/model.safetensors.index.json")));
    for (const auto& [folder, file] : {std::pair{"out", "whole"}, {"out_average", "average"}}) {
        const SafetensorsFile want(path(file)), got(path(std::string(folder) + "/model.safetensors"));
        EXPECT_EQ(got.tensors().size(), want.tensors().size());
        for (const StoredTensor& tensor : want.tensors()) {
            const std::string name = tensor.name.substr(tensor.name.find('.') + 1);
            ASSERT_NE(got.find(name), nullptr) << name;
            EXPECT_EQ(read_floats(got.path(), name), read_floats(want.path(), tensor.name)) << name;
        }
    }
}

TEST_F(SaveTest, NumbersAreOfTheTypeThatIsAsked) {
    expect_success(run("words_train", flags + "--init base --quiet --save whole"));
    for (const auto& [type, stored, configured] :
         {std::tuple{"bf16", "BF16", "bfloat16"}, {"f16", "F16", "float16"}, {"f32", "F32", "float32"}}) {
        std::filesystem::create_directories(path("narrow"));  // a folder that is there needs no slash
        expect_success(run("words_train", flags + "--init base --quiet --save narrow --save-dtype " + type));
        EXPECT_NE(read_file(path("narrow/config.json")).find(cat("\"torch_dtype\": \"", configured, "\"")),
                  std::string::npos);
        const SafetensorsFile want(path("whole")), got(path("narrow/model.safetensors"));
        for (const StoredTensor& tensor : want.tensors()) {
            const std::string name = tensor.name.substr(tensor.name.find('.') + 1);
            ASSERT_NE(got.find(name), nullptr) << name;
            EXPECT_EQ(got.find(name)->dtype, stored);
            std::vector<float> numbers = read_floats(want.path(), tensor.name);
            for (float& x : numbers)
                x = type == std::string("bf16")  ? to_float(to_bf16(x))
                    : type == std::string("f16") ? to_float(to_f16(x))
                                                 : x;
            EXPECT_EQ(read_floats(got.path(), name), numbers) << name;
        }
    }
    // A file, too.
    expect_success(run("words_train", flags + "--init base --quiet --save file --save-dtype bf16"));
    EXPECT_EQ(SafetensorsFile(path("file")).find("model.head.weight")->dtype, "BF16");
}

TEST_F(SaveTest, WithoutAModelsFolderTheProgramsNamesAreWritten) {
    const Outcome outcome = run("words_train", flags + "--init first --save out/");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("note: --init names no folder of a model, so that there is no config.json"),
              std::string::npos)
        << outcome.err;
    EXPECT_NE(SafetensorsFile(path("out/model.safetensors")).find("model.head.weight"), nullptr);
    EXPECT_FALSE(std::filesystem::exists(path("out/config.json")));
    // It is read again.
    expect_success(run("words_train", flags + "--init out --quiet"));
}

TEST_F(SaveTest, RefusesWhatItWouldWriteOver) {
    for (const auto& [more, said] :
         {std::pair{"--init base --save base", "--save and --init are one folder: base"},
          {"--init base --ema 0.9 --save-ema base/", "--save-ema and --init are one folder: base/"},
          {"--save-dtype bf16", "--save-dtype is about --save and --save-ema, and neither is there"}}) {
        const Outcome outcome = run("words_train", flags + more);
        EXPECT_EQ(outcome.status, 2) << more;
        EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
    }
    write_file(path("taken"), "a file");
    const Outcome outcome = run("words_train", flags + "--save taken/");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(read_file(path("taken")), "a file");
}

}  // namespace save_test
}  // namespace thunder

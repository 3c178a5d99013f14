// SPDX-License-Identifier: Apache-2.0
// What the tests of the trainer share: a folder of their own, files, programs that run in it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/safetensors.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

inline std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

inline void write_file(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::remove(path);  // some file systems flush a file that is cut and written again
    std::ofstream(path, std::ios::binary) << text;
}

// A tensor for a file, of any type that a program reads.
struct TestTensor {
    std::string name;
    DType dtype;
    std::vector<std::int64_t> shape;
    std::string bytes;
};

template <typename T>
TestTensor tensor(std::string name, DType dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
    return {std::move(name), dtype, std::move(shape),
            std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
}
inline TestTensor floats(std::string name, std::vector<std::int64_t> shape, const std::vector<float>& values) {
    return tensor(std::move(name), DType::f32, std::move(shape), values);
}
inline TestTensor longs(std::string name, std::vector<std::int64_t> shape, const std::vector<std::int64_t>& values) {
    return tensor(std::move(name), DType::i64, std::move(shape), values);
}

inline void write_tensors(const std::string& path, const std::vector<TestTensor>& tensors) {
    std::vector<TensorToWrite> announced;
    for (const TestTensor& t : tensors) announced.push_back({t.name, t.dtype, t.shape});
    SafetensorsWriter writer(path, announced);
    for (const TestTensor& t : tensors) writer.append(t.bytes.data(), t.bytes.size());
    writer.commit();
}

inline std::vector<float> read_floats(const std::string& path, const std::string& name) {
    const SafetensorsFile file(path);
    const StoredTensor* stored = file.find(name);
    if (stored == nullptr) return {};
    std::vector<float> values(stored->elements());
    read_elements(*stored, DType::f32, 0, values.size(), values.data());
    return values;
}

// How many rounds a random test makes: its usual number, a quarter of it under sanitizers, that of the long form
// (THUNDERC_FULL), or what THUNDERC_ROUNDS in the environment says.
inline std::uint32_t rounds(std::uint32_t usual, std::uint32_t in_full) {
    if (const char* asked = std::getenv("THUNDERC_ROUNDS")) return static_cast<std::uint32_t>(std::atol(asked));
#ifdef THUNDERC_FULL
    static_cast<void>(usual);
    return in_full;
#elif defined(__SANITIZE_ADDRESS__)
    static_cast<void>(in_full);
    return (usual + 3) / 4;
#else
    static_cast<void>(in_full);
    return usual;
#endif
}

// The text of the error that a call ends with, or "" where it does not.
template <typename Call>
std::string error_of(Call&& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

// A test with a folder that is its own and gone afterwards.
class InFolder : public testing::Test {
  protected:
    InFolder() {
        const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
        folder_ = std::filesystem::temp_directory_path() /
                  cat("thunder-", test->test_suite_name(), "-", test->name(), "-", static_cast<long>(getpid()));
        std::filesystem::remove_all(folder_);
        std::filesystem::create_directories(folder_);
    }
    ~InFolder() override { std::filesystem::remove_all(folder_); }

    std::string path(const std::string& name) const { return (folder_ / name).string(); }
    std::vector<std::string> files() const {
        std::vector<std::string> names;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
            if (entry.is_regular_file()) names.push_back(std::filesystem::relative(entry.path(), folder_).string());
        }
        std::sort(names.begin(), names.end());
        return names;
    }

    struct Outcome {
        int status;  // 128 + the signal, where one ended it
        std::string out, err;
    };
    // Runs a command line of the shell in the folder.
    Outcome shell(const std::string& command) const {
        const std::string whole = cat("cd '", folder_.string(), "' && { ", command, " ; } > .out 2> .err");
        const int status = std::system(whole.c_str());
        Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(folder_ / ".out"),
                        read_file(folder_ / ".err")};
        std::filesystem::remove(folder_ / ".out");
        std::filesystem::remove(folder_ / ".err");
        return outcome;
    }
    Outcome run(const std::string& program, const std::string& arguments) const {
        return shell(cat(PROGRAMS "/", program, " ", arguments));
    }

    std::filesystem::path folder_;
};

}  // namespace thunder

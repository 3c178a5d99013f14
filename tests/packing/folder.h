// SPDX-License-Identifier: Apache-2.0
// What tests of packing share: a folder of their own, and packed files as plain values.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/token_file.h"
#include "packing/packer.h"
#include "support/error.h"

namespace thunderc {

class InFolderOfItsOwn : public ::testing::Test {
  protected:
    void SetUp() override {
        const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
        folder_ = std::filesystem::temp_directory_path() /
                  (std::string("thunderc-packing-") + info->name() + "-" + std::to_string(getpid()));
        std::filesystem::remove_all(folder_);
        std::filesystem::create_directories(folder_);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::string path(const std::string& name) const { return (folder_ / name).string(); }
    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path(name), std::ios::binary) << text;
        return path(name);
    }
    std::string read(const std::string& name) const {
        std::ifstream in(path(name), std::ios::binary);
        std::stringstream text;
        text << in.rdbuf();
        return text.str();
    }

    std::filesystem::path folder_;
};

struct Packed {
    std::vector<std::uint32_t> ids;
    std::vector<std::uint64_t> ends;
    std::vector<int> trained;
};

inline Packed unpack(const std::string& path) {
    Packed packed;
    for (const std::string& name : thunder::token_files_of(path)) {
        const thunder::TokenFile file(name);
        file.verify();
        for (std::uint64_t d = 0; d < file.documents(); ++d)
            packed.ends.push_back(packed.ids.size() + file.document_end(d));
        for (std::uint64_t i = 0; i < file.count(); ++i) {
            packed.ids.push_back(file[i]);
            packed.trained.push_back(file.trained(i) ? 1 : 0);
        }
    }
    return packed;
}

// "" where nothing fails.
inline std::string error_of(const std::function<void()>& what) {
    try {
        what();
    } catch (const thunder::Error& error) {
        return error.what();
    }
    return "";
}

inline std::string text_of(const std::vector<std::uint32_t>& ids) {
    std::string text;
    for (const std::uint32_t id : ids) text += static_cast<char>(static_cast<unsigned char>(id));
    return text;
}

}  // namespace thunderc

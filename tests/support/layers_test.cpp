// SPDX-License-Identifier: Apache-2.0
// Includes go one way: docs/architecture.md lists the folders, and each includes itself and those above it alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace thunderc {
namespace {

namespace fs = std::filesystem;

const fs::path repository = fs::path(FIXTURES).parent_path().parent_path();

// The lines "- `compiler/ir`: ..." of the section, from the top.
std::vector<std::string> listed_folders() {
    std::ifstream in(repository / "docs/architecture.md");
    std::vector<std::string> folders;
    const std::regex entry("- `((?:compiler|codegen|tokenizers|packing|cli)[a-z0-9_/]*)`:.*");
    std::smatch match;
    for (std::string line; std::getline(in, line);)
        if (std::regex_match(line, match, entry)) folders.push_back(match[1]);
    return folders;
}

std::vector<fs::path> sources() {
    std::vector<fs::path> files;
    for (const char* root : {"compiler", "codegen", "tokenizers", "packing", "cli"})
        for (const auto& file : fs::recursive_directory_iterator(repository / root))
            if (file.path().extension() == ".h" || file.path().extension() == ".cpp")
                files.push_back(fs::relative(file.path(), repository));
    std::sort(files.begin(), files.end());
    return files;
}

TEST(Layers, IncludeWhatStandsAboveThem) {
    const std::vector<std::string> folders = listed_folders();
    ASSERT_FALSE(folders.empty());
    const auto place = [&](const fs::path& folder) {
        return std::find(folders.begin(), folders.end(), folder.generic_string());
    };
    std::size_t includes = 0;
    const std::regex include("#include \"((?:compiler|codegen|tokenizers|packing|cli)/[^\"]+)\".*");
    std::smatch match;
    for (const fs::path& file : sources()) {
        const auto own = place(file.parent_path());
        EXPECT_NE(own, folders.end()) << file << " stands in a folder that docs/architecture.md does not list";
        std::ifstream in(repository / file);
        for (std::string line; std::getline(in, line);) {
            if (!std::regex_match(line, match, include)) continue;
            const fs::path other = fs::path(match[1].str()).parent_path();
            ++includes;
            EXPECT_LE(place(other), own) << file << " includes " << match[1] << ", which stands below it";
        }
    }
    EXPECT_GT(includes, 0U);
}

// What both read is written once, in the runtime's files, for those who read files; the rest of the compiler has of the
// runtime what both run.
TEST(Layers, TheCompilerAndTheRuntime) {
    const std::regex files(
        "#include \"((?:checkpoint|comm|data|device|optim|program|run|support|train|watch)/[^\"]+)\".*");
    const std::regex headers("#include \"runtime-lib/([^\"]+)\".*");
    std::smatch match;
    std::size_t read = 0;
    for (const fs::path& file : sources()) {
        const std::string path = file.generic_string();
        if (path.starts_with("codegen/")) continue;  // which prints such lines
        const bool reads = !path.starts_with("compiler/") || path.starts_with("compiler/frontend/");
        std::ifstream in(repository / file);
        for (std::string line; std::getline(in, line);) {
            if (std::regex_match(line, match, files)) {
                EXPECT_TRUE(reads) << file << " includes " << match[1];
                ++read;
            }
            if (!std::regex_match(line, match, headers)) continue;
            EXPECT_TRUE(match[1].str().starts_with("optim/") || match[1] == "support/philox.h")
                << file << " includes runtime-lib/" << match[1];
        }
    }
    EXPECT_GT(read, 0U);
    for (const auto& file : fs::recursive_directory_iterator(repository / "runtime-lib")) {
        if (!file.is_regular_file()) continue;
        std::ifstream in(file.path());
        for (std::string line; std::getline(in, line);)
            EXPECT_FALSE(line.starts_with("#include \"compiler/")) << file.path() << ": " << line;
    }
}

}  // namespace
}  // namespace thunderc

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

}  // namespace
}  // namespace thunderc

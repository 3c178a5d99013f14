// SPDX-License-Identifier: Apache-2.0
// g++ makes vectors of every loop that a kernel for CPUs asks it to (`omp simd`), whatever ops stand in it: what it
// missed, as it says itself, is held against the printed loops. A loop that stays scalar is right, and several to
// twenty times slower.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::vector<std::string> lines_of(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
}

std::size_t indent_of(const std::string& line) {
    return line.find_first_not_of(' ');
}

// For each line (from 1) the kernel whose marked loop it stands in, or "".
std::vector<std::string> marked_loops(const std::vector<std::string>& lines) {
    std::vector<std::string> kernels(lines.size() + 1);
    std::string kernel;
    for (std::size_t k = 0; k < lines.size(); ++k) {
        if (lines[k].starts_with("namespace ")) kernel = lines[k].substr(10, lines[k].find(" {") - 10);
        if (lines[k].find("#pragma omp simd") == std::string::npos) continue;
        std::size_t end = k + 1;
        const std::size_t indent = indent_of(lines[end]);
        if (lines[end].ends_with("{"))
            while (indent_of(lines[end]) != indent || lines[end].find('}') != indent) ++end;
        for (std::size_t line = k + 1; line <= end; ++line) kernels[line + 1] = kernel;
    }
    return kernels;
}

std::string missed_on(const std::string& cpu) {
    const std::string base = LOOPS;
    const std::vector<std::string> lines = lines_of(base + ".cpp"), sums = lines_of(ROW_REDUCTION),
                                   report = lines_of(base + "." + cpu + ".missed");
    EXPECT_FALSE(lines.empty());
    EXPECT_FALSE(sums.empty());
    EXPECT_FALSE(report.empty());
    std::map<std::string, std::vector<std::string>> loops;
    loops["printed_loops.cpp"] = marked_loops(lines);
    loops["row_reduction.h"] = marked_loops(sums);
    const std::regex missed(R"(.*?([a-z_]+\.(?:cpp|h)):(\d+):\d+: missed: couldn't vectorize loop)");
    std::set<std::string> result;
    for (const std::string& line : report) {
        std::smatch match;
        if (!std::regex_match(line, match, missed)) continue;
        const auto file = loops.find(match[1]);
        const std::size_t at = std::stoul(match[2]);
        if (file != loops.end() && at < file->second.size() && !file->second[at].empty())
            result.insert(file->second[at]);
    }
    std::string text;
    for (const std::string& kernel : result) text += kernel + "\n";
    return text;
}

// Processors divide no integers in vectors, and a power of integers is a loop of its own.
constexpr const char* scalar =
    "div_op_i32_i32_elements\ndiv_op_i64_i64_elements\npow_op_i32_i32_elements\npow_op_i64_i64_elements\n";

TEST(Vectorised, EveryMarkedLoopWithAvx2) {
    EXPECT_EQ(missed_on("x86-64-v3"), scalar);
}

TEST(Vectorised, EveryMarkedLoopWithAvx512) {
    EXPECT_EQ(missed_on("x86-64-v4"), scalar);
}

}  // namespace

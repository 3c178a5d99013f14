// SPDX-License-Identifier: Apache-2.0
// Differences of texts: what they look like, and that following them leads from the one text to the other.
#include "compiler/support/text_diff.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace thunderc {
namespace {

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
        lines.push_back(text.substr(begin, end - begin));
        begin = end;
    }
    return lines;
}

// What `patch` makes of a text, without any tolerance: every line number, count and line must be right.
std::string patched(const std::string& before, const std::string& diff) {
    const std::vector<std::string> from = split(before), script = split(diff);
    std::string out;
    std::size_t line = 0, written = 0;
    for (std::size_t k = 2; k < script.size();) {
        std::size_t a = 0, n = 1, b = 0, m = 1;
        const std::string& head = script[k++];
        const bool ranges = std::sscanf(head.c_str(), "@@ -%zu,%zu +%zu,%zu @@", &a, &n, &b, &m) == 4 ||
                            (n = 1, std::sscanf(head.c_str(), "@@ -%zu +%zu,%zu @@", &a, &b, &m) == 3) ||
                            (m = 1, std::sscanf(head.c_str(), "@@ -%zu,%zu +%zu @@", &a, &n, &b) == 3) ||
                            (n = 1, std::sscanf(head.c_str(), "@@ -%zu +%zu @@", &a, &b) == 2);
        EXPECT_TRUE(ranges) << head;
        if (!ranges) return "";
        for (; line + (n == 0 ? 0 : 1) < a; ++line, ++written) out += from.at(line);
        EXPECT_EQ(written + (m == 0 ? 0 : 1), b) << head;
        while (k < script.size() && script[k][0] != '@') {
            std::string text = script[k].substr(1);
            const char kind = script[k++][0];
            if (k < script.size() && script[k][0] == '\\') ++k, text.pop_back();
            if (kind != '+') {
                EXPECT_EQ(text, from.at(line));
                ++line, --n;
            }
            if (kind != '-') out += text, ++written, --m;
        }
        EXPECT_EQ(n, 0U) << head;
        EXPECT_EQ(m, 0U) << head;
    }
    for (; line < from.size(); ++line) out += from[line];
    return out;
}

TEST(TextDiff, HasAHunkForEachChange) {
    std::string before, after;
    for (int k = 1; k <= 30; ++k) {
        const std::string line = "line " + std::to_string(k) + "\n";
        before += line;
        if (k == 4) continue;
        after += k == 25 ? "another line\n" : line;
    }
    EXPECT_EQ(
        unified_diff("out/a", "b", before, after),
        "--- out/a\n+++ b\n"
        "@@ -1,7 +1,6 @@\n line 1\n line 2\n line 3\n-line 4\n line 5\n line 6\n line 7\n"
        "@@ -22,7 +21,7 @@\n line 22\n line 23\n line 24\n-line 25\n+another line\n line 26\n line 27\n line 28\n");
}

TEST(TextDiff, JoinsChangesThatShareTheirSurroundings) {
    EXPECT_EQ(unified_diff("a", "b", "1\n2\n3\n4\n5\n6\n7\n8\n", "x\n2\n3\n4\n5\n6\n7\ny\n"),
              "--- a\n+++ b\n@@ -1,8 +1,8 @@\n-1\n+x\n 2\n 3\n 4\n 5\n 6\n 7\n-8\n+y\n");
    EXPECT_EQ(unified_diff("a", "b", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "x\n2\n3\n4\n5\n6\n7\n8\ny\n"),
              "--- a\n+++ b\n@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+y\n");
}

TEST(TextDiff, OfEqualTextsIsNothing) {
    EXPECT_EQ(unified_diff("a", "b", "1\n2\n", "1\n2\n"), "");
    EXPECT_EQ(unified_diff("a", "b", "", ""), "");
}

TEST(TextDiff, OfEmptyTexts) {
    EXPECT_EQ(unified_diff("a", "b", "", "1\n2\n"), "--- a\n+++ b\n@@ -0,0 +1,2 @@\n+1\n+2\n");
    EXPECT_EQ(unified_diff("a", "b", "1\n", ""), "--- a\n+++ b\n@@ -1 +0,0 @@\n-1\n");
}

TEST(TextDiff, TellsWhetherTheLastLineEnds) {
    EXPECT_EQ(unified_diff("a", "b", "1\n2", "1\n2\n"),
              "--- a\n+++ b\n@@ -1,2 +1,2 @@\n 1\n-2\n\\ No newline at end of file\n+2\n");
}

TEST(TextDiff, FollowsWhatIsUnique) {
    // A shortest script could keep either brace; what belongs together stays together.
    std::string moved;
    for (const LineEdit& e : diff_lines("f {\n}\n", "g {\n}\nf {\n}\n"))
        moved += (e.kind == LineEdit::Kind::same      ? " "
                  : e.kind == LineEdit::Kind::removed ? "-"
                                                      : "+") +
                 std::string(e.line);
    EXPECT_EQ(moved, "+g {\n+}\n f {\n }\n");
}

TEST(TextDiff, LeadsFromAnyTextToAnyOther) {
    std::mt19937 random(7);
    for (int round = 0; round < 2000; ++round) {
        // Few different lines give ranges without unique ones, many give anchors.
        const unsigned words = 1 + random() % (round % 2 == 0 ? 4 : 40);
        auto text = [&] {
            std::string out;
            for (unsigned k = random() % 40; k > 0; --k) out += std::to_string(random() % words) + "\n";
            if (!out.empty() && random() % 8 == 0) out.pop_back();
            return out;
        };
        std::string before = text(), after = text();
        if (round % 3 == 0) {  // mostly alike, with changes far apart
            before = text() + text() + text();
            after = before;
            for (int k = 0; k < 3 && !after.empty(); ++k) after.insert(random() % after.size(), "x\n");
        }
        const std::string diff = unified_diff("a", "b", before, after);
        ASSERT_EQ(diff.empty(), before == after);
        ASSERT_EQ(patched(before, diff), after) << before << "-----\n" << diff;
    }
}

TEST(TextDiff, OfLargeTextsWithNothingUnique) {
    // More than a table of pairs could take: all of it goes, all of it comes.
    std::string before, after;
    for (int k = 0; k < 6000; ++k) before += k % 2 == 0 ? "a\n" : "b\n", after += k % 3 == 0 ? "b\n" : "c\n";
    const std::string diff = unified_diff("a", "b", before, after);
    EXPECT_EQ(patched(before, diff), after);
}

}  // namespace
}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// The memory of a program as its README and LAYOUT tell it: what is read there adds up.
#include <fmt/format.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "codegen/program/model_files.h"
#include "codegen/program/program.h"
#include "codegen/program/readme.h"
#include "compiler/support/bytes.h"
#include "tests/planned/reference_step.h"

namespace thunderc {
namespace memory_tables_test {

struct Row {  // of LAYOUT
    std::string name, shape, type, arena;
    std::int64_t offset = 0, bytes = 0, layers = 0, stride = 0;
    std::string lifetime, shares;

    std::int64_t end() const { return offset + (layers - 1) * stride + bytes; }
    std::int64_t total() const { return bytes * layers; }
};

// Read as a user would: from the text of model.h.
std::vector<Row> layout_of(const std::string& header) {
    const std::size_t begin = header.find("LAYOUT[] = {");
    EXPECT_NE(begin, std::string::npos);
    const std::string table = header.substr(begin, header.find("};", begin) - begin);
    const std::string text = "\"([^\"]*)\",\\s*", number = "(\\d+),\\s*";
    const std::regex pattern("\\{" + text + text + text + text + number + number + number + number + text +
                             "\"([^\"]*)\"\\}");
    std::vector<Row> rows;
    for (std::sregex_iterator at(table.begin(), table.end(), pattern), end; at != end; ++at) {
        const std::smatch& m = *at;
        rows.push_back({m[1], m[2], m[3], m[4], std::stoll(m[5]), std::stoll(m[6]), std::stoll(m[7]), std::stoll(m[8]),
                        m[9], m[10]});
    }
    EXPECT_EQ(rows.size(), static_cast<std::size_t>(std::count(table.begin(), table.end(), '{') - 1));
    return rows;
}

// The cells of the Markdown table that begins with this line.
std::vector<std::vector<std::string>> table_of(const std::string& readme, const std::string& head) {
    std::istringstream lines(readme.substr(std::min(readme.find(head), readme.size())));
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(line, head);
    std::getline(lines, line);  // |---|
    std::vector<std::vector<std::string>> rows;
    while (std::getline(lines, line) && line.starts_with("|")) {
        rows.emplace_back();
        for (std::size_t at = 1; at < line.size();) {
            const std::size_t bar = line.find('|', at);
            std::string cell = line.substr(at, bar - at);
            cell.erase(0, cell.find_first_not_of(' ') == std::string::npos ? cell.size() : cell.find_first_not_of(' '));
            while (cell.ends_with(' ')) cell.pop_back();
            rows.back().push_back(cell);
            at = bar + 1;
        }
    }
    return rows;
}

struct Sums {
    std::map<std::string, std::int64_t> arena;                                         // bytes by arena
    std::map<std::string, std::vector<std::pair<std::string, std::int64_t>>> tensors;  // lines of an arena
};

Sums sums_of(const std::string& readme) {
    Sums out;
    std::int64_t sum = 0;
    for (const auto& row : table_of(readme, "| arena | bytes | that is | holds |")) {
        const std::int64_t bytes = std::stoll(row[1]);
        EXPECT_EQ(row[2], bytes_text(bytes));
        if (row[0] == "together") {
            EXPECT_EQ(sum, bytes);
        } else {
            out.arena[row[0]] = bytes;
            sum += bytes;
        }
    }
    EXPECT_EQ(out.arena.size(), 7U);
    // An arena, then its lines.
    std::string arena;
    for (const auto& row : table_of(readme, "| arena | of it | bytes |")) {
        if (row[0].empty()) {
            out.tensors[arena].emplace_back(row[1], std::stoll(row[2]));
            continue;
        }
        arena = row[0].substr(2, row[0].size() - 4);
        EXPECT_EQ(row[0], "**" + arena + "**");
        EXPECT_EQ(row[2], fmt::format("**{}**", out.arena[arena]));
        EXPECT_TRUE(out.tensors.try_emplace(arena).second) << arena << " stands there twice";
    }
    for (const auto& [name, lines] : out.tensors) {
        std::int64_t together = 0;
        for (const auto& [what, part] : lines) together += part;
        EXPECT_EQ(together, out.arena[name]) << name;
    }
    EXPECT_EQ(out.tensors.size(), 7U);
    return out;
}

bool overlap(const Row& a, const Row& b) {
    if (a.arena != b.arena) return false;
    for (std::int64_t i = 0; i < a.layers; ++i)
        for (std::int64_t j = 0; j < b.layers; ++j) {
            const std::int64_t x = a.offset + i * a.stride, y = b.offset + j * b.stride;
            if (x < y + b.bytes && y < x + a.bytes) return true;
        }
    return false;
}

struct Case {
    std::string name, model, recompute;
    bool roll;
    std::string optimizer;
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name;
}

class MemoryTables : public ::testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        CompileOptions options;
        options.recompute = GetParam().recompute;
        options.roll = GetParam().roll;
        options.optimizer = GetParam().optimizer;
        EmitOptions emit;
        emit.model_name = GetParam().name;
        emit.compile = options;
        CompileOptions naive = options;
        naive.executors = {"reference"};
        for (const OutputFile& file :
             print_program(compiled(GetParam().model, options), compiled(GetParam().model, naive), emit)) {
            if (file.path == "README.md") sums_ = sums_of(file.text);
            if (file.path == "model.h") layout_ = layout_of(file.text);
        }
    }

    Sums sums_;
    std::vector<Row> layout_;
};

TEST_P(MemoryTables, AddUp) {
    ASSERT_FALSE(layout_.empty());
    for (const auto& [arena, bytes] : sums_.arena) {
        std::int64_t tensors = 0, end = 0;
        for (const Row& row : layout_)
            if (row.arena == arena) {
                tensors += row.total();
                end = std::max(end, row.end());
            }
        EXPECT_LE(end, bytes) << arena;
        EXPECT_LT(bytes - end, 64) << arena;
        if (arena == "scratch") continue;  // its tensors take turns
        // Gradients and states lie as the parameters do, gaps included.
        const bool like = arena == "gradients" || arena == "optimizer";
        const auto& lines = sums_.tensors.at(like ? "parameters" : arena);
        std::int64_t gaps = !lines.empty() && lines.back().first.starts_with("gaps") ? lines.back().second : 0;
        if (like) gaps *= bytes / sums_.arena.at("parameters");
        EXPECT_EQ(tensors + gaps, bytes) << arena;
    }
}

// "decoder_layer_saved: 2 layers of 8576 bytes in 8 tensors", "w_norm (C)": each line of the README against LAYOUT.
TEST_P(MemoryTables, NameWhatLayoutHas) {
    const std::regex layers("(\\w+): (\\d+) layers of (\\d+) bytes in (\\d+) tensors?"),
        one("(\\w+)(: \\d+ layers of)? .*");
    int compared = 0;
    for (const auto& [arena, lines] : sums_.tensors) {
        if (arena == "gradients" || arena == "optimizer") {
            for (const auto& [what, bytes] : lines) EXPECT_EQ(bytes % sums_.arena.at("parameters"), 0) << what;
            continue;
        }
        for (const auto& [what, bytes] : lines) {
            if (what.starts_with("gaps")) continue;
            std::smatch m;
            std::int64_t expected = 0, count = 0, tensors = 0;
            if (arena == "scratch") {
                const std::string function = what.substr(0, what.find(','));
                for (const Row& row : layout_)
                    if (row.name.starts_with(function + ".")) expected = std::max(expected, row.end());
            } else if (std::regex_match(what, m, layers)) {
                for (const Row& row : layout_)
                    if (row.arena == arena && row.name.starts_with(m[1].str() + ".")) {
                        expected += row.total();
                        count = row.layers;
                        ++tensors;
                    }
                EXPECT_EQ(count, std::stoll(m[2])) << what;
                EXPECT_EQ(tensors, std::stoll(m[4])) << what;
                EXPECT_EQ(count * std::stoll(m[3]), bytes) << what;
            } else if (!what.ends_with("smaller ones")) {
                ASSERT_TRUE(std::regex_match(what, m, one)) << what;
                for (const Row& row : layout_)
                    if (row.arena == arena && row.name == m[1].str()) expected = row.total();
            } else {
                continue;
            }
            EXPECT_EQ(bytes, expected) << what;
            ++compared;
        }
    }
    EXPECT_GT(compared, 4);
}

TEST_P(MemoryTables, SayWhoSharesBytes) {
    for (std::size_t a = 0; a < layout_.size(); ++a) {
        std::vector<std::string> others;
        for (std::size_t b = 0; b < layout_.size(); ++b)
            if (a != b && overlap(layout_[a], layout_[b])) others.push_back(layout_[b].name);
        const std::string& shares = layout_[a].shares;
        if (others.empty()) {
            EXPECT_EQ(shares, "-") << layout_[a].name;
            continue;
        }
        EXPECT_EQ(layout_[a].arena, "scratch") << layout_[a].name << " shares bytes with " << others[0];
        const std::size_t more_at = shares.find(" and ");
        std::size_t more = more_at == std::string::npos ? 0 : std::stoul(shares.substr(more_at + 5));
        std::istringstream named(shares.substr(0, more_at));
        const std::string function = layout_[a].name.substr(0, layout_[a].name.find('.') + 1);
        for (std::string name; std::getline(named, name, ',');) {
            if (name.starts_with(' ')) name.erase(0, 1);
            const bool there = std::find(others.begin(), others.end(), name) != others.end() ||
                               std::find(others.begin(), others.end(), function + name) != others.end();
            EXPECT_TRUE(there) << layout_[a].name << " does not share bytes with " << name;
            ++more;
        }
        EXPECT_EQ(more, others.size()) << layout_[a].name << ": " << shares;
    }
}

INSTANTIATE_TEST_SUITE_P(Programs, MemoryTables,
                         ::testing::Values(Case{"mlp", "mlp/dynamo.logits.onnx", "none", true, "adamw"},
                                           Case{"mlp_sgd", "mlp/dynamo.logits.onnx", "none", true, "sgd"},
                                           Case{"odd", "odd/tides.loss.onnx", "none", true, "adamw"},
                                           Case{"llama2", "llama2/noopt.logits.onnx", "none", true, "adamw"},
                                           Case{"llama2_tied", "llama2_tied/dynamo.logits.onnx", "none", true, "adamw"},
                                           Case{"llama5", "llama5/dynamo.logits.onnx", "none", true, "adamw"},
                                           Case{"llama5_block", "llama5/dynamo.logits.onnx", "block", true, "adamw"},
                                           Case{"llama5_unrolled", "llama5/dynamo.logits.onnx", "none", false,
                                                "adamw"}),
                         [](const auto& info) { return info.param.name; });

TEST(BytesText, NeverRoundsToAThousand) {
    EXPECT_EQ(bytes_text(999), "999 B");
    EXPECT_EQ(bytes_text(1'000), "1.0 kB");
    EXPECT_EQ(bytes_text(999'949), "999.9 kB");
    EXPECT_EQ(bytes_text(999'950), "1.00 MB");
    EXPECT_EQ(bytes_text(999'994'999), "999.99 MB");
    EXPECT_EQ(bytes_text(999'995'000), "1.00 GB");
    EXPECT_EQ(bytes_text(27'000'000'000), "27.00 GB");
}

}  // namespace memory_tables_test
}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// A graph from which scopes, classes and all names were taken gives the program of the one that has them, but for
// names.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <regex>

#include "tests/programs/pytorch_numbers.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace nameless_test {
namespace fs = std::filesystem;

// The words, numbers and signs of C++ text. Comments, which say where in the model something stood, are left out; so
// are line breaks, which follow the length of names.
std::vector<std::string> tokens(const std::string& text) {
    std::vector<std::string> out;
    for (std::size_t k = 0; k < text.size();) {
        const std::size_t begin = k;
        const auto c = static_cast<unsigned char>(text[k]);
        auto word = [&](std::size_t at) {
            return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
        };
        if (std::isspace(c) != 0) {
            ++k;
            continue;
        }
        if (text.compare(k, 2, "//") == 0) {
            k = std::min(text.find('\n', k), text.size());
            continue;
        }
        if (text.compare(k, 2, "/*") == 0) {
            k = text.find("*/", k) + 2;
            continue;
        }
        if (c == '"') {
            k = text.find('"', k + 1) + 1;
        } else if (word(k)) {
            while (word(k) || (std::isdigit(c) != 0 && k < text.size() && text[k] == '.')) ++k;
        } else {
            ++k;
        }
        out.push_back(text.substr(begin, k - begin));
    }
    return out;
}

bool is_name(const std::string& token) {
    return token[0] == '"' || token[0] == '_' || std::isalpha(static_cast<unsigned char>(token[0])) != 0;
}

// Whether the texts are equal when names are replaced, each by one other, one to one in the whole file; texts in quotes
// one to one in their column of a table, since a module and its result may share a name in one program alone. Says
// where not.
std::string difference(const std::string& a, const std::string& b) {
    const std::vector<std::string> x = tokens(a), y = tokens(b);
    std::map<std::pair<std::string, std::size_t>, std::string> there, back;
    std::vector<std::size_t> columns{0};
    for (std::size_t k = 0; k < std::min(x.size(), y.size()); ++k) {
        if (x[k] == "{") columns.push_back(0);
        if (x[k] == "}" && columns.size() > 1) columns.pop_back();
        if (x[k] == ",") ++columns.back();
        const bool names = is_name(x[k]) && is_name(y[k]);
        const std::size_t column = x[k][0] == '"' ? columns.back() + 1 : 0;
        if (names ? there.emplace(std::pair(x[k], column), y[k]).first->second == y[k] &&
                        back.emplace(std::pair(y[k], column), x[k]).first->second == x[k]
                  : x[k] == y[k])
            continue;
        std::string around;
        for (std::size_t j = k < 8 ? 0 : k - 8; j < std::min(x.size(), k + 8); ++j) around += x[j] + " ";
        return fmt::format("{} is not {}: {}", x[k], y[k], around);
    }
    return x.size() == y.size() ? "" : fmt::format("{} and {} tokens", x.size(), y.size());
}

TEST(Difference, IsWhatNoRenamingMakesEqual) {
    EXPECT_EQ(difference("f(a, b); // one", "g(x,\n  y); // two"), "");
    EXPECT_NE(difference("f(a, a);", "f(x, y);"), "");
    EXPECT_NE(difference("f(a, b);", "f(x, x);"), "");
    EXPECT_NE(difference("f(a + 1);", "f(a + 2);"), "");
    EXPECT_NE(difference("f(a);", "f(a, b);"), "");
    EXPECT_EQ(difference(R"({"a", "m.a"}, {"b", "m.b"})", R"({"x", "x"}, {"y", "y"})"), "");
    EXPECT_NE(difference(R"({"a", "m.a"}, {"b", "m.a"})", R"({"x", "x"}, {"y", "y"})"), "");
    EXPECT_NE(difference(R"({"a", "m.a"}, {"b", "m.b"})", R"({"x", "x"}, {"x", "y"})"), "");
}

struct Pair {
    const char *name, *model, *named, *nameless;
    friend void PrintTo(const Pair& x, std::ostream* out) { *out << x.name; }
};

class Nameless : public testing::TestWithParam<Pair> {};

TEST_P(Nameless, GivesTheSameProgramButForNames) {
    const Pair& p = GetParam();
    const fs::path folder = fs::path(PROGRAMS_FOLDER) / (std::string("nameless-") + p.name);
    fs::remove_all(folder);
    fs::create_directories(folder);
    for (const char* options : {"", "--no-roll", "--recompute block"}) {
        for (const char* graph : {p.named, p.nameless}) {
            const Outcome outcome =
                shell(folder, fmt::format("rm -rf {0} && '" THUNDERC "' train '{1}/{2}/{0}.onnx' -o {0} {3}", graph,
                                          FIXTURES, p.model, options));
            ASSERT_EQ(outcome.status, 0) << outcome.err;
        }
        std::size_t files = 0;
        for (const auto& entry : fs::recursive_directory_iterator(folder / p.named)) {
            const fs::path path = fs::relative(entry.path(), folder / p.named), other = folder / p.nameless / path;
            if (*path.begin() == "runtime" || (path.extension() != ".cpp" && path.extension() != ".h")) continue;
            ++files;
            ASSERT_TRUE(fs::exists(other)) << path;
            EXPECT_EQ(difference(read_file(entry.path()), read_file(other)), "") << path << " " << options;
        }
        EXPECT_GE(files, 10U);  // model.h, model.cpp, kernels.h, kernels_cpu.cpp, spec.cpp, and the reference's
    }
}

const Pair pairs[] = {
    {"llama2_stripped", "llama2", "dynamo.logits", "stripped.logits"},
    {"llama2", "llama2", "dynamo.logits", "nameless.logits"},
    {"llama2_noopt", "llama2", "noopt.logits", "nameless_noopt.logits"},
    {"llama2_fresh", "llama2", "fresh.logits", "nameless_fresh.logits"},
    {"llama2_tied", "llama2_tied", "dynamo.logits", "nameless.logits"},
    {"llama5", "llama5", "dynamo.logits", "nameless.logits"},
};

INSTANTIATE_TEST_SUITE_P(Fixtures, Nameless,
                         testing::ValuesIn(in_short(pairs, {"llama2_stripped", "llama2_noopt", "llama2_tied"})),
                         [](const auto& info) { return std::string(info.param.name); });

// Names of a program's parameters, in the order in which they lie in memory.
std::vector<std::string> parameters(const GeneratedProgram& program) {
    const std::string text = read_file(program.file("out/spec.cpp"));
    const std::regex entry("\\{\"([^\"]+)\", DType::f32, SHAPE_[0-9_]+, [0-9]+, [0-9]+, (true|false), Init::");
    std::vector<std::string> out;
    for (std::sregex_iterator k(text.begin(), text.end(), entry), end; k != end; ++k) out.push_back((*k)[1]);
    return out;
}

TEST(NamelessProgram, TrainsToTheSameBits) {
    const GeneratedProgram named("llama5", "llama5", "dynamo.logits", "--recompute block");
    const GeneratedProgram nameless("llama5_nameless", "llama5", "nameless.logits", "--recompute block");
    std::vector<std::string> losses;
    for (const GeneratedProgram* program : {&named, &nameless}) {
        ASSERT_TRUE(program->built()) << program->failure();
        const Outcome outcome = program->train(program->recipe() + " --log same.jsonl --save same.safetensors");
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        std::string text;
        for (const nlohmann::json& line : read_log(program->file("same.jsonl")))
            text += fmt::format("{} {}\n", line.at("loss").dump(), line.at("grad_norm").dump());
        losses.push_back(text);
    }
    EXPECT_EQ(losses[0], losses[1]);
    expect_pytorchs_log(nameless, nameless.file("same.jsonl"));
    const std::vector<std::string> a = parameters(named), b = parameters(nameless);
    ASSERT_EQ(a.size(), named.reference().at("parameters").size());
    ASSERT_EQ(a.size(), b.size());
    expect_equal_tensors(named.file("same.safetensors"), a, nameless.file("same.safetensors"), b);
}

// The same from an export in which rotary tables are computed and weights lie as in the framework.
TEST(NamelessProgram, TrainsAsPyTorchDid) {
    const GeneratedProgram program("llama2_nameless_noopt", "llama2", "nameless_noopt.logits", "");
    ASSERT_TRUE(program.built()) << program.failure();
    const Outcome outcome = program.train(program.recipe() + " --log run.jsonl");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    expect_pytorchs_log(program, program.file("run.jsonl"));
}

}  // namespace nameless_test
}  // namespace thunderc::tests

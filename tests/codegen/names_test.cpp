// SPDX-License-Identifier: Apache-2.0
// What parameters and inputs are called, whatever that is, makes a program that compiles: no name is a keyword, a macro
// of a header, or one of the sizes that kernels may use by their names.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "codegen/program/program.h"
#include "codegen/text.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"
#include "compiler/pipeline.h"

namespace thunderc {
namespace names_test {
namespace fs = std::filesystem;

constexpr const char* runtime = FIXTURES "/../../runtime-lib";

std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

// Macros that the compiler and all headers of a program for CPUs define; the names beginning with _ are the library's,
// and an identifier begins with none.
std::set<std::string> macros(const fs::path& folder) {
    std::ofstream all(folder / "all.cpp");
    for (const char* header : {"algorithm",
                               "atomic",
                               "cerrno",
                               "chrono",
                               "cmath",
                               "cstddef",
                               "cstdint",
                               "cstdio",
                               "cstdlib",
                               "cstring",
                               "fstream",
                               "limits",
                               "mutex",
                               "string",
                               "thread",
                               "unistd.h",
                               "device/cpu/row_reduction.h",
                               "device/cpu/vec_math.h",
                               "device/api.h",
                               "device/parallel.h",
                               "device/timed.h",
                               "optim/update.h",
                               "program/tensors.h",
                               "train/program.h"})
        all << "#include <" << header << ">\n";
    all.close();
    const std::string command = std::string(CXX_COMPILER) + " -dM -E -fopenmp -I '" + runtime + "' '" +
                                (folder / "all.cpp").string() + "' > '" + (folder / "macros").string() + "'";
    std::set<std::string> out;
    for (const char* standard : {"-std=c++20 ", "-std=gnu++20 "}) {
        std::string with = command;
        with.insert(with.find(" -dM") + 1, standard);
        if (std::system(with.c_str()) != 0) return {};
        std::istringstream lines(read(folder / "macros"));
        for (std::string line; std::getline(lines, line);) {
            const std::string name = line.substr(8, line.find_first_of(" (", 8) - 8);
            if (name.front() != '_') out.insert(name);
        }
    }
    return out;
}

// A loss over a sum of products: of one input with parameters of these names, or of inputs of these names with one
// parameter; and its gradients.
enum class Kind : std::uint8_t { parameter, input };

std::vector<OutputFile> program(const std::set<std::string>& names, Kind kind) {
    std::string arguments = "%features: f32[4,6,8] input \"features\" {batched}, %p: f32[8] parameter \"weight\"", ops;
    std::string sum = "%features";
    std::size_t k = 0;
    for (const std::string& name : names) {
        const std::string number = std::to_string(k++);
        arguments += kind == Kind::parameter ? ",\n  %v" + number + ": f32[8] parameter \"" + name + "\""
                                             : ",\n  %v" + number + ": f32[4,6,8] input \"" + name + "\" {batched}";
        ops += "  %m" + number + " = mul(" +
               (kind == Kind::parameter ? "%features, %v" + number : "%v" + number + ", %p") + ") : f32[4,6,8]\n";
        ops += "  %s" + number + " = add(" + sum + ", %m" + number + ") : f32[4,6,8]\n";
        sum = "%s" + number;
    }
    const std::string text = "module \"m\" values\nfunc @main(" + arguments + ") -> (%loss \"loss\") {\n" + ops +
                             "  %weighed = mul(" + sum + ", %p) : f32[4,6,8]\n" + "  %square = mul(%weighed, " + sum +
                             ") : f32[4,6,8]\n" +
                             "  %loss = reduce_mean(%square) {axes = [0, 1, 2], keep_dims = false} : f32[]\n}\n";
    CompileOptions options, naive;
    naive.executors = {"reference"};
    const auto planned = [&](const CompileOptions& o) {
        Module module = parse_module(text);
        verify(module);
        std::vector<PassRun> runs;
        return run_passes(std::move(module), pipeline(o), runs);
    };
    EmitOptions emit;
    emit.compile = options;
    return print_program(planned(options), planned(naive), emit);
}

// The parts of it that are printed for it alone.
bool is_own(const OutputFile& file) {
    return file.path == "kernels_cpu.cpp" || file.path == "model.cpp" ||
           (file.path.ends_with(".h") && file.path.find('/') == std::string::npos);
}

class Names : public testing::Test {
  protected:
    void SetUp() override {
        fs::remove_all(folder_);
        fs::create_directories(folder_);
        macros_ = macros(folder_);
        ASSERT_FALSE(macros_.empty()) << CXX_COMPILER << " does not list the macros of headers";
    }
    void TearDown() override { fs::remove_all(folder_); }

    void expect_compiles(const std::set<std::string>& names, Kind kind) {
        std::string sizes;
        for (const OutputFile& file : program(names, kind)) {
            if (!is_own(file)) continue;
            if (file.path == "sizes.h") sizes = file.text;
            std::ofstream(folder_ / file.path) << file.text;
        }
        // Kernels may use the sizes: each is asked for all of them.
        std::string checks, kernels = read(folder_ / "kernels_cpu.cpp");
        std::istringstream lines(sizes);
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string word, name, equals, value;
            words >> word >> word >> word >> name >> equals >> value;
            if (equals == "=")
                checks += "    static_assert(" + name + " == " + value.substr(0, value.find(';')) + ");\n";
        }
        EXPECT_NE(checks.find("static_assert(B == 4)"), std::string::npos) << sizes;
        const std::string head = "Stream& stream) {\n";
        for (std::size_t at = kernels.find(head); at != std::string::npos; at = kernels.find(head, at + head.size()))
            kernels.insert(at + head.size(), checks);
        std::ofstream(folder_ / "kernels_cpu.cpp") << kernels;
        for (const char* file : {"model.cpp", "kernels_cpu.cpp"}) {
            const std::string command = std::string(CXX_COMPILER) +
                                        " -std=c++20 -fsyntax-only -fopenmp-simd -Wall -Wextra -Werror -I '" + runtime +
                                        "' -I '" + folder_.string() + "' '" + (folder_ / file).string() + "'";
            EXPECT_EQ(std::system(command.c_str()), 0) << command;
        }
    }

    const fs::path folder_ = fs::path(testing::TempDir()) / ("names_test_" + std::to_string(::getpid()));
    std::set<std::string> macros_;
};

TEST_F(Names, AreNoMacros) {
    EXPECT_TRUE(macros_.contains("EOF") && macros_.contains("M_PI") && macros_.contains("errno"));
    for (const std::string& macro : macros_) {
        EXPECT_FALSE(macros_.contains(identifier(macro))) << macro;
        EXPECT_EQ(identifier(identifier(macro)), identifier(macro));
    }
    // Short capitals are what matrices are called.
    for (const char* name : {"B", "W", "W1", "WQ", "A_log", "x", "gamma"}) EXPECT_EQ(identifier(name), name);
}

TEST_F(Names, OfAllKindsCompile) {
    std::set<std::string> names = {
        // keywords of C++ and of CUDA
        "alignas", "and", "auto", "bool", "class", "concept", "const", "co_await", "default", "delete", "double",
        "enum", "export", "false", "float", "for", "friend", "if", "inline", "int", "long", "namespace", "new", "not",
        "operator", "or", "private", "register", "requires", "return", "short", "signed", "sizeof", "static", "struct",
        "switch", "template", "this", "throw", "true", "try", "typename", "union", "unsigned", "using", "virtual",
        "void", "volatile", "while", "xor", "__global__", "__device__", "__shared__", "threadIdx", "blockIdx",
        "blockDim", "gridDim", "warpSize", "dim3",
        // functions and types of headers
        "abs", "access", "acos", "atan2", "bf16", "bool_", "ceil", "clock", "close", "cos", "div", "erf", "exit", "exp",
        "fabs", "floor", "fma", "fmax", "free", "gamma", "index", "int32_t", "int64_t", "isnan", "j0", "j1", "jn",
        "link", "log", "malloc", "max", "memcpy", "memset", "min", "nan", "open", "pipe", "pow", "read", "remainder",
        "rint", "round", "select", "signal", "sin", "size_t", "sqrt", "std", "tanh", "thunder", "time", "uint8_t",
        "write", "y0", "y1", "yn",
        // what generated text itself calls something
        "Activation", "WriteMode", "Loss", "Model", "PROGRAM", "Range", "Stream", "Timed", "arenas", "at", "begin",
        "blocks", "c", "column", "copy", "end", "fill_zero", "first", "i", "i0", "kernels", "last", "layer", "mode",
        "layout", "math", "n", "offset", "parallel_for", "parallel_rows", "partial", "partial_rows", "range",
        "reference", "row", "rows", "row_sum", "saved", "scalars", "scratch", "sizes", "stream", "sum", "timed",
        "to_float", "vec_math", "w", "width", "x_column", "x_of_row", "x_row",
        // sizes
        "B", "C", "H", "HS", "KVH", "L", "NH", "T", "V"};
    // Every small one of the macros and some of the others.
    std::size_t k = 0;
    for (const std::string& macro : macros_) {
        const bool small = std::any_of(macro.begin(), macro.end(), [](char c) { return c >= 'a' && c <= 'z'; });
        if ((small && !macro.starts_with("SYS_") && !macro.starts_with("M_")) || k++ % 40 == 0) names.insert(macro);
    }
    names.insert({"BUFSIZ", "EOF", "INT_MAX", "M_E", "M_PI", "RAND_MAX", "SYS_read"});

    expect_compiles(names, Kind::parameter);
}

// Every word of such a program's own text, as the name of an input: what printers come to call something in time, too.
TEST_F(Names, OfInputsMayBeAnyWordOfTheText) {
    std::set<std::string> words;
    static const std::regex word("[A-Za-z_][A-Za-z_0-9]*");
    for (const OutputFile& file : program({"x", "y"}, Kind::input))
        if (is_own(file))
            for (std::sregex_iterator at(file.text.begin(), file.text.end(), word); at != std::sregex_iterator(); ++at)
                words.insert(at->str());
    EXPECT_TRUE(words.contains("mode") && words.contains("stream") && words.contains("arenas_"));
    for (const char* name : {"features", "weight"}) words.erase(name);  // it has these already
    expect_compiles(words, Kind::input);
}

}  // namespace names_test
}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// LAYOUT against the text of the program: who counts the calls of a function from 1 finds there what the table says,
// and the shapes of tensors are those of the table.
#include <fmt/format.h>

#include <regex>
#include <set>

#include "codegen/program/program.h"
#include "tests/codegen/step_text.h"
#include "tests/planned/reference_step.h"

namespace thunderc {
namespace layout_text_test {

// The statements of each function, from call 1 on; a loop is one, with the comment that says what its slots are.
std::map<std::string, std::vector<std::string>> statements_of(const std::string& source) {
    std::map<std::string, std::vector<std::string>> out;
    const std::regex head("void (?:Model::)?(\\w+)\\(");
    std::istringstream lines(source);
    std::string line, function, slots;
    bool in_loop = false, begun = false;
    while (std::getline(lines, line)) {
        std::smatch m;
        if (std::regex_search(line, m, head) && !line.starts_with(' ')) {
            function = m[1];
            out[function];
        } else if (line.starts_with("    for (")) {
            out[function].push_back(slots);
            slots.clear();
            in_loop = true;
        } else if (line == "    }") {
            in_loop = false;
        } else if (in_loop) {
            out[function].back() += "\n" + line;
        } else if (line.starts_with("    // ") && line.find(": slot 0 is ") != std::string::npos) {
            slots += line + "\n";
        } else if (line.starts_with("    //") || line.find(" const ") != std::string::npos ||
                   line.find(";  // call 0") != std::string::npos || function.empty()) {
            continue;
        } else if (begun) {
            out[function].back() += "\n" + line;
        } else if (std::regex_search(line, std::regex("^    \\w+\\("))) {
            out[function].push_back(line);
            begun = true;
        }
        if (line.ends_with(");")) begun = false;
    }
    return out;
}

// "float* const v_proj = qkv_proj + ...;": v_proj is a view of qkv_proj.
std::map<std::string, std::vector<std::string>> views_of(const std::string& source) {
    std::map<std::string, std::vector<std::string>> out;  // by "function.tensor"
    const std::regex head("^void (?:Model::)?(\\w+)\\("), view("^    .*\\* const (\\w+) = (\\w+)(?: \\+ .*)?;");
    std::istringstream lines(source);
    std::string line, function;
    std::smatch m;
    while (std::getline(lines, line)) {
        if (std::regex_search(line, m, head)) function = m[1];
        if (std::regex_search(line, m, view)) out[function + "." + m[2].str()].push_back(m[1]);
    }
    return out;
}

class LayoutAndText : public ::testing::TestWithParam<std::pair<std::string, std::string>> {
  protected:
    void SetUp() override {
        CompileOptions options, naive;
        naive.executors = {"reference"};
        EmitOptions emit;
        emit.compile = options;
        for (const OutputFile& file :
             print_program(compiled(GetParam().second, options), compiled(GetParam().second, naive), emit)) {
            if (file.path == "model.cpp" || file.path == "blocks.cpp") source += with_passes_joined(file.text);
            if (file.path == "sizes.h" || file.path == "model.h") header += file.text;
            if (file.path == "spec.cpp") spec = file.text;
        }
        table = header.substr(header.find("LAYOUT[] = {"));
    }

    std::string source, header, spec, table;
};

TEST_P(LayoutAndText, CallTensorsOfOneNameOfOneShape) {
    const std::regex head("^void (?:Model::)?(\\w+)\\("),
        local("^    .*\\* const (\\w+) = at<.*, offset::(\\w+)\\);  // (.*)$"),
        row("\\{\"([\\w.]+)\",\\s*\"([^\"]*)\"");
    std::map<std::string, std::string> shapes;
    for (std::sregex_iterator at(table.begin(), table.end(), row), end; at != end; ++at) shapes[(*at)[1]] = (*at)[2];
    std::istringstream lines(source);
    std::string line, function;
    std::smatch m;
    std::size_t compared = 0;
    while (std::getline(lines, line)) {
        if (std::regex_search(line, m, head)) function = m[1];
        if (!std::regex_search(line, m, local)) continue;
        const std::string name = m[1], shape = m[3];
        EXPECT_EQ(name, m[2].str());
        const bool own = shapes.contains(function + "." + name);
        if (!own && !shapes.contains(name)) {  // what enters a loop lies in the place of the first layer's input
            EXPECT_NE(line.find("_.saved, "), std::string::npos) << line;
            continue;
        }
        EXPECT_EQ(shape, shapes[own ? function + "." + name : name]) << line;
        ++compared;
    }
    EXPECT_GT(compared, 8U);
}

// What the trainer does by spec.cpp.
TEST_P(LayoutAndText, SayWhereTheLossGradientIsFrom) {
    const bool weighted = spec.find(".loss = Loss::mean,") != std::string::npos;
    EXPECT_NE(weighted, spec.find(".loss = Loss::average,") != std::string::npos);
    const std::string said = "// The trainer has set arenas_.scalars->dloss: 1 / ";
    EXPECT_NE(source.find(said + (weighted ? "loss_weight, summed over the step's micro-batches."
                                           : "the number of micro-batches in the step.")),
              std::string::npos);
}

// Each form of a loss by the runtime's name for it, and the runtime has no others.
TEST(SpecText, HasTheRuntimesNamesOfLosses) {
    const std::pair<const char*, std::string> cases[] = {
        {"losses/mse_mean.onnx", "average"}, {"losses/ce_masked.onnx", "mean"}, {"losses/two_means.onnx", "terms"}};
    std::set<std::string> printed, known;
    for (const auto& [model, form] : cases) {
        CompileOptions options;
        options.batch = 4;
        CompileOptions naive = options;
        naive.executors = {"reference"};
        EmitOptions emit;
        emit.compile = options;
        for (const OutputFile& file : print_program(compiled(model, options), compiled(model, naive), emit)) {
            if (file.path != "spec.cpp") continue;
            EXPECT_NE(file.text.find(".loss = Loss::" + form + ","), std::string::npos) << model << file.text;
            printed.insert(form);
        }
    }
    const std::regex enumeration("enum class Loss[^{]*\\{([^}]*)\\}"), enumerator("^ *(\\w+),");
    for (const OutputFile& file : runtime_files(true, false, {})) {
        std::smatch m;
        if (file.path != "runtime/train/program.h" || !std::regex_search(file.text, m, enumeration)) continue;
        std::istringstream lines(m[1].str());
        for (std::string line; std::getline(lines, line);)
            if (std::smatch name; std::regex_search(line, name, enumerator)) known.insert(name[1]);
    }
    EXPECT_EQ(printed, known);
}

TEST_P(LayoutAndText, CountTheSameCalls) {
    const auto statements = statements_of(source);
    const auto views = views_of(source);
    const std::regex row("\\{\"([\\w.]+)\",[^{}]*?\"scratch\",[^{}]*?\"(\\w+), calls? (\\d+)(?: to (\\d+))?\"");
    std::size_t rows = 0;
    for (std::sregex_iterator at(table.begin(), table.end(), row), end; at != end; ++at, ++rows) {
        const std::smatch& m = *at;
        const std::string full = m[1], function = m[2], name = full.substr(function.size() + 1);
        ASSERT_EQ(full.substr(0, function.size() + 1), function + ".");
        const auto first = static_cast<std::size_t>(std::stoul(m[3]));
        const auto last = m[4].matched ? static_cast<std::size_t>(std::stoul(m[4])) : first;
        std::vector<std::string> names = {name};
        for (std::size_t k = 0; k < names.size(); ++k)
            if (auto v = views.find(function + "." + names[k]); v != views.end())
                names.insert(names.end(), v->second.begin(), v->second.end());
        ASSERT_TRUE(statements.contains(function)) << function;
        const std::vector<std::string>& calls = statements.at(function);
        if (name.ends_with("_slot")) {  // from what writes slot 0 to what reads the last one
            std::smatch slots;
            const std::regex comment(name.substr(0, name.size() - 5) +
                                     " \\(.*: slot 0 is (\\w+), slot (?:L|\\d+) (\\w+)");
            for (const std::string& call : calls)
                if (std::regex_search(call, slots, comment)) names = {slots[1], slots[2]};
        }
        std::string any;
        for (const std::string& n : names) any += (any.empty() ? "" : "|") + n;
        const std::regex word("(^|[^\\w.])(" + any + ")\\b");
        std::size_t seen_first = 0, seen_last = 0;
        for (std::size_t k = 0; k < calls.size(); ++k) {
            // A field's name is no tensor's: ".dy = dresidual"; nor is a member's, "saved.q".
            if (!std::regex_search(calls[k], word)) continue;
            if (seen_first == 0) seen_first = k + 1;
            seen_last = k + 1;
        }
        EXPECT_EQ(first, seen_first) << full;
        EXPECT_EQ(last, seen_last) << full;
    }
    EXPECT_GT(rows, 3U);
    EXPECT_EQ(
        rows, static_cast<std::size_t>(std::count(table.begin(), table.end(), '{') - 1) - [&] {
            std::size_t others = 0;
            const std::regex other("\", \"(parameters|gradients|optimizer|saved|constants|batch)\",");
            for (std::sregex_iterator at(table.begin(), table.end(), other), end; at != end; ++at) ++others;
            return others;
        }());
}

INSTANTIATE_TEST_SUITE_P(Programs, LayoutAndText,
                         ::testing::Values(std::pair("mlp", "mlp/dynamo.logits.onnx"),
                                           std::pair("odd", "odd/tides.loss.onnx"),
                                           std::pair("llama2", "llama2/noopt.logits.onnx"),
                                           std::pair("llama5", "llama5/dynamo.logits.onnx")),
                         [](const auto& info) { return info.param.first; });

}  // namespace layout_text_test
}  // namespace thunderc

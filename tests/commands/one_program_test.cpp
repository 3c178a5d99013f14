// SPDX-License-Identifier: Apache-2.0
// One model, one program: through ONNX, torch.export and TorchScript the same text is written, but for comments that
// say where it came from.
#include <map>
#include <vector>

#include "tests/commands/commands_test.h"

namespace thunderc::commands {
namespace one_program_test {

struct OneModel {
    const char *script, *program, *graph;
    const char *options, *bind;  // bind: of the two others, where they have dynamic dimensions
};

bool is_code(const std::string& file) {
    const std::string end = fs::path(file).extension().string();
    return end == ".cpp" || end == ".h" || end == ".cu" || end == ".cuh";
}

// Without comments behind two slashes, and without lines of them alone.
std::string without_comments(const std::string& text) {
    std::istringstream in(text);
    std::string out;
    for (std::string line; std::getline(in, line);) {
        const std::size_t slashes = line.find("//");
        if (slashes != std::string::npos && line.find_first_not_of(' ') == slashes) continue;
        out += line.substr(0, slashes) + "\n";
    }
    return out;
}

// All files of a program but two that name the model's file: how it was made, and checksums of all of them.
std::map<std::string, std::string> files_of(const fs::path& folder) {
    std::map<std::string, std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        const std::string name = fs::relative(entry.path(), folder).generic_string();
        if (!entry.is_regular_file() || name == "train.json" || name == ".thunderc-manifest") continue;
        out[name] = is_code(name) ? without_comments(contents(entry.path())) : contents(entry.path());
    }
    return out;
}

class OneProgram : public Commands {
  protected:
    static std::map<std::string, std::string> program_of(const std::string& file, const std::string& options) {
        const std::string name = "model" + fs::path(file).extension().string();
        fs::copy_file(fixtures + "/" + file, name, fs::copy_options::overwrite_existing);
        fs::remove_all("out");
        const Ran ran = run("train " + name + " -o out " + options);
        EXPECT_EQ(ran.status, 0) << file << "\n" << ran.err;
        return files_of("out");
    }
};

TEST_F(OneProgram, ThroughEveryFormat) {
    const std::vector<OneModel> models = {
        {"mlp/ts.loss.pt", "mlp/ep_dyn.loss.pt2", "mlp/noopt.loss.onnx", "", "--batch 4"},
        {"llama2/ts.logits.pt", "llama2/ep.logits.pt2", "llama2/noopt.logits.onnx", "", ""},
        {"gpt2/ts.loss.pt", "gpt2/ep_dyn.loss.pt2", "gpt2/noopt.loss.onnx", "", "--batch 2 --seq 8"},
        {"models/resnet_eval/ts.logits.pt", "models/resnet_eval/ep_dyn.logits.pt2",
         "models/resnet_eval/noopt_dyn.logits.onnx", "--loss cross-entropy", "--batch 4"},
    };
    for (const OneModel& model : models) {
        const std::string options = model.options, bound = options + " " + model.bind;
        const auto script = program_of(model.script, options), program = program_of(model.program, bound);
        ASSERT_GT(script.size(), 20U);
        ASSERT_EQ(script.size(), program.size());
        for (const auto& [name, text] : script) EXPECT_TRUE(text == program.at(name)) << model.script << ": " << name;
        // A naive program has each op by itself, and ONNX's graph has a transpose where ATen has none.
        const bool dynamic = std::string(model.graph).find("dyn") != std::string::npos;
        for (const auto& [name, text] : program_of(model.graph, dynamic ? bound : options))
            EXPECT_TRUE(name.starts_with("tests/reference/") || text == script.at(name)) << model.graph << ": " << name;
    }
}

}  // namespace one_program_test
}  // namespace thunderc::commands

// SPDX-License-Identifier: Apache-2.0
// What shells complete thunderc's command line with.
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "tests/commands/commands_test.h"

namespace thunderc {
namespace completion_test {

using namespace commands;

class Completion : public Commands {
  protected:
    // What bash offers for the last of these words; the last one may be empty.
    static std::set<std::string> offered(const std::vector<std::string>& words) {
        std::string line = "source completion.bash; COMP_WORDS=(";
        for (const std::string& word : words) line += "'" + word + "' ";
        line += "); COMP_CWORD=" + std::to_string(words.size() - 1) + "; _thunderc; printf '%s\\n' \"${COMPREPLY[@]}\"";
        write("ask.sh", line);
        EXPECT_EQ(run("completion bash").status, 0);
        fs::rename("out.txt", "completion.bash");
        EXPECT_EQ(std::system("bash ask.sh > offered.txt 2> offered_errors.txt"), 0);
        EXPECT_EQ(contents("offered_errors.txt"), "");
        std::istringstream in(contents("offered.txt"));
        std::set<std::string> out;
        for (std::string word; std::getline(in, word);)
            if (!word.empty()) out.insert(word);
        return out;
    }
    using Words = std::set<std::string>;
};

TEST_F(Completion, OfCommandsOptionsAndValues) {
    EXPECT_EQ(offered({"thunderc", "tr"}), (Words{"train", "trace"}));
    EXPECT_EQ(offered({"thunderc", "data", ""}), (Words{"inspect", "mix", "pack"}));
    EXPECT_EQ(offered({"thunderc", "train", "--rec"}), (Words{"--recompute"}));
    EXPECT_EQ(offered({"thunderc", "train", "model.onnx", "--recompute", ""}),
              (Words{"none", "selective", "block", "auto"}));
    EXPECT_EQ(offered({"thunderc", "data", "inspect", "--"}).count("--recompute"), 0u);
}

TEST_F(Completion, OfFilesWhereNoOptionBegins) {
    write("model.onnx", "");
    EXPECT_EQ(offered({"thunderc", "train", "mod"}), (Words{"model.onnx"}));
}

// The table of options is one: what --help shows can be completed, and nothing else. Hidden options are in neither.
TEST_F(Completion, OfWhatTheHelpShows) {
    for (const std::string command :
         {"train", "emit", "inspect", "trace", "plan", "verify", "bisect", "run", "check"}) {
        const std::string help = run(command + " --help").out;
        std::set<std::string> shown;
        const std::regex option("\n  (?:-[a-z],)?(--[a-z0-9-]+)");
        for (std::sregex_iterator at(help.begin(), help.end(), option), end; at != end; ++at) shown.insert((*at)[1]);
        EXPECT_GT(shown.size(), 1u) << help;
        EXPECT_EQ(offered({"thunderc", command, "--"}), shown) << command;
    }
}

TEST_F(Completion, OfOtherShells) {
    EXPECT_TRUE(run("completion zsh").out.starts_with("autoload -U +X bashcompinit && bashcompinit\n"));
    const std::string fish = run("completion fish").out;
    EXPECT_NE(fish.find("complete -c thunderc -n '__fish_seen_subcommand_from train' -l recompute -r -f -a 'none "
                        "selective block auto' -d "),
              std::string::npos)
        << fish;
    const Ran ran = run("completion csh");
    EXPECT_EQ(ran.status, 2);
    EXPECT_NE(ran.err.find("csh is not among bash, zsh, fish"), std::string::npos) << ran.err;
}

}  // namespace completion_test
}  // namespace thunderc

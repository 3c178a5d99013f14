// SPDX-License-Identifier: Apache-2.0
#include "support/command_line.h"

#include <algorithm>

#include "support/error.h"
#include "support/json.h"
#include "support/text.h"

namespace thunder {

std::string did_you_mean(std::span<const FlagText> flags, const std::string& name, const std::string& dashes) {
    std::vector<std::string> names;
    for (const FlagText& flag : flags) names.push_back(flag.name);
    const std::string meant = nearest(name, names);
    return meant.empty() ? "" : cat("did you mean ", dashes, meant, "?");
}

bool asks_for_help(int argc, char** argv) {
    return std::any_of(argv + 1, argv + argc, [](const char* word) {
        return std::string_view(word) == "--help" || std::string_view(word) == "-h";
    });
}

std::vector<GivenFlag> read_command_line(int argc, char** argv, std::span<const FlagText> flags,
                                         std::string_view program) {
    std::vector<GivenFlag> given;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word.size() < 3 || !word.starts_with("--"))
            fail_usage(cat("unexpected argument ", json_quote(word)),
                       cat("options begin with --; ", program, " --help lists them"));
        const std::size_t equals = word.find('=');
        const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
        const auto flag =
            std::find_if(flags.begin(), flags.end(), [&](const FlagText& candidate) { return candidate.name == name; });
        if (flag == flags.end()) {
            const std::string meant = did_you_mean(flags, name, "--");
            fail_usage(cat("unknown option --", name),
                       meant.empty() ? cat(program, " --help lists the options") : meant);
        }
        std::string value;
        if (equals != std::string::npos) {
            if (flag->argument.empty()) fail_usage(cat("--", name, " takes no value"));
            value = word.substr(equals + 1);
        } else if (!flag->argument.empty()) {
            // A word that is itself an option is no value: "--log --quiet" forgot the file's name.
            const std::string next = i + 1 < argc ? argv[i + 1] : "--";
            if (i + 1 == argc || (next.starts_with("--") && next.size() > 2))
                fail_usage(cat("--", name, " needs a value: --", name, " ", flag->argument));
            value = argv[++i];
        }
        given.push_back({name, value});
    }
    return given;
}

std::string help_entries(std::span<const FlagText> flags) {
    constexpr std::size_t column = 26, width = 100;
    std::string text, group;
    for (const FlagText& flag : flags) {
        if (flag.group != group) text += cat("\n", flag.group, ":\n");
        group = flag.group;
        std::string line = cat("  --", flag.name, flag.argument.empty() ? "" : " ", flag.argument);
        line.resize(std::max(line.size() + 2, column), ' ');
        for (std::size_t begin = 0; begin < flag.help.size();) {
            const std::size_t end = std::min(flag.help.find(' ', begin), flag.help.size());
            if (line.size() + (end - begin) > width && line.size() > column) {
                while (line.back() == ' ') line.pop_back();
                text += line + "\n";
                line = std::string(column, ' ');
            }
            line += flag.help.substr(begin, end - begin) + " ";
            begin = end + 1;
        }
        while (line.back() == ' ') line.pop_back();
        text += line + "\n";
    }
    return text;
}

}  // namespace thunder

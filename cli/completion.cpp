// SPDX-License-Identifier: Apache-2.0
// thunderc completion: what shells complete words of a command line with, made from the options that the command line
// is read by.
#include "cli/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string_view>

namespace thunderc {
namespace {

struct CompletedOption {
    std::string name, help;           // "--batch"
    std::vector<std::string> values;  // "none", "selective": empty where any may stand
    bool takes_value = false;
};

// A command and those below it: "data", then "data pack".
struct CompletedCommand {
    std::string path, help;  // path: "" is thunderc itself
    std::vector<std::string> commands;
    std::vector<CompletedOption> options;
};

// CLI11 names a type and, behind a colon, what its checks say: one_of says "none|selective|block".
std::vector<std::string> values_of(const std::string& type) {
    std::string_view words = type;
    if (const std::size_t colon = words.find(':'); colon != std::string_view::npos) words.remove_prefix(colon + 1);
    if (words.find('|') == std::string_view::npos) return {};
    std::vector<std::string> values;
    while (true) {
        const std::size_t bar = words.find('|');
        values.emplace_back(words.substr(0, bar));
        if (bar == std::string_view::npos) return values;
        words.remove_prefix(bar + 1);
    }
}

void collect(const CLI::App& app, const std::string& path, std::vector<CompletedCommand>& out) {
    CompletedCommand command;
    command.path = path;
    command.help = app.get_description();
    for (const CLI::Option* option : app.get_options()) {
        if (option->get_group().empty()) continue;  // hidden ones
        for (const std::string& name : option->get_lnames()) {
            const bool takes_value = option->get_items_expected_max() > 0;
            command.options.push_back({"--" + name, option->get_description(),
                                       takes_value ? values_of(option->get_type_name()) : std::vector<std::string>(),
                                       takes_value});
        }
    }
    const std::vector<const CLI::App*> below = app.get_subcommands([](const CLI::App*) { return true; });
    for (const CLI::App* sub : below) command.commands.push_back(sub->get_name());
    out.push_back(std::move(command));
    for (const CLI::App* sub : below) collect(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), out);
}

std::vector<CompletedCommand> commands_of(const CLI::App& app) {
    std::vector<CompletedCommand> commands;
    collect(app, "", commands);
    return commands;
}

std::string bash(const std::vector<CompletedCommand>& commands) {
    std::string values, words;
    for (const CompletedCommand& command : commands) {
        std::vector<std::string> names;
        for (const CompletedOption& option : command.options) {
            names.push_back(option.name);
            if (!option.values.empty())
                values += fmt::format("        '{} {}') COMPREPLY=($(compgen -W '{}' -- \"$word\")); return ;;\n",
                                      command.path, option.name, fmt::join(option.values, " "));
        }
        words += fmt::format("        '{}') options='{}' commands='{}' ;;\n", command.path, fmt::join(names, " "),
                             fmt::join(command.commands, " "));
    }
    return "# Completion of thunderc's command line: source <(thunderc completion bash)\n"
           "_thunderc() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path='' k=1 options commands\n"
           "    while ((k < COMP_CWORD && k <= 2)) && [[ ${COMP_WORDS[k]} =~ ^[a-z]+$ ]]; do\n"
           "        case \"${path:+$path }${COMP_WORDS[k]}\" in\n"
           "        " +
           [&] {
               std::string all;
               for (const CompletedCommand& command : commands)
                   if (!command.path.empty()) all += fmt::format("{}'{}'", all.empty() ? "" : " | ", command.path);
               return all;
           }() +
           ") path=${path:+$path }${COMP_WORDS[k]} ;;\n"
           "        *) break ;;\n"
           "        esac\n"
           "        k=$((k + 1))\n"
           "    done\n"
           "    case \"$path $before\" in\n" +
           values +
           "    esac\n"
           "    case \"$path\" in\n" +
           words +
           "    esac\n"
           "    if [[ $word == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
           "    elif [[ -n $commands ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$commands\" -- \"$word\"))\n"
           "    else\n"
           "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
           "    fi\n"
           "}\n"
           "complete -o filenames -F _thunderc thunderc\n";
}

std::string quoted(std::string text) {
    for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\'");
    return "'" + text + "'";
}

std::string fish(const std::vector<CompletedCommand>& commands) {
    std::string out = "# Completion of thunderc's command line: thunderc completion fish | source\n";
    for (const CompletedCommand& command : commands) {
        // Words of the command stand on the line, and none of those below it.
        std::string where;
        for (std::size_t begin = 0; begin < command.path.size();) {
            const std::size_t end = std::min(command.path.find(' ', begin), command.path.size());
            where += fmt::format("{}__fish_seen_subcommand_from {}", where.empty() ? "" : "; and ",
                                 command.path.substr(begin, end - begin));
            begin = end + 1;
        }
        if (where.empty()) where = "__fish_use_subcommand";
        if (!command.path.empty() && !command.commands.empty())
            where += fmt::format("; and not __fish_seen_subcommand_from {}", fmt::join(command.commands, " "));
        for (const CompletedCommand& below : commands) {
            const std::size_t space = below.path.rfind(' ');
            const std::string above = space == std::string::npos ? "" : below.path.substr(0, space);
            if (below.path.empty() || above != command.path) continue;
            out += fmt::format("complete -c thunderc -f -n {} -a {} -d {}\n", quoted(where),
                               below.path.substr(space == std::string::npos ? 0 : space + 1), quoted(below.help));
        }
        for (const CompletedOption& option : command.options)
            out += fmt::format("complete -c thunderc -n {} -l {}{}{} -d {}\n", quoted(where), option.name.substr(2),
                               option.takes_value ? " -r" : "",
                               option.values.empty() ? "" : fmt::format(" -f -a '{}'", fmt::join(option.values, " ")),
                               quoted(option.help));
    }
    return out;
}

}  // namespace

std::string completion(const CLI::App& app, const std::string& shell) {
    const std::vector<CompletedCommand> commands = commands_of(app);
    if (shell == "fish") return fish(commands);
    if (shell == "zsh") return "autoload -U +X bashcompinit && bashcompinit\n" + bash(commands);
    return bash(commands);
}

void add_completion(CLI::App& app, Action& action) {
    auto shell = std::make_shared<std::string>();
    CLI::App* sub =
        app.add_subcommand("completion", "print what a shell completes the words of this command line with");
    sub->add_option("shell", *shell, "the shell: source <(thunderc completion bash)")
        ->required()
        ->check(one_of({"bash", "zsh", "fish"}));
    sub->callback([&app, &action, shell] {
        action = [&app, shell] {
            fmt::print("{}", completion(app, *shell));
            return 0;
        };
    });
}

}  // namespace thunderc

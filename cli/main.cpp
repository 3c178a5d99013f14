// SPDX-License-Identifier: Apache-2.0
// thunderc: the command line. One file for each subcommand.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <new>
#include <vector>

#include "cli/command.h"
#include "cli/reproducer.h"
#include "cli/version.h"
#include "commit.h"
#include "compiler/support/error.h"
#include "compiler/support/interrupt.h"
#include "support/text.h"

namespace thunderc {
namespace {

// What the word was probably meant to be, or "". The dashes of an option say nothing.
std::string nearest(const std::string& word, const std::vector<std::string>& known) {
    const std::size_t dashes = std::min(word.find_first_not_of('-'), word.size());
    std::string letters = word.substr(dashes);
    std::transform(letters.begin(), letters.end(), letters.begin(), [](unsigned char c) { return std::tolower(c); });
    std::vector<std::string> candidates;
    for (const std::string& k : known)
        if (k.starts_with("--") == (dashes > 0)) candidates.push_back(k.substr(dashes > 0 ? 2 : 0));
    const std::string best = thunder::nearest(letters, candidates);
    return best.empty() || dashes == 0 ? best : "--" + best;
}

// What CLI11 found, in a sentence that names the word at fault.
// `next` is the first word that is no command, or "".
std::string what_is_wrong(const CLI::ParseError& error, bool known_command, const std::string& next) {
    if (!known_command && next.empty()) return "a command is missing";
    if (!known_command) return fmt::format("unknown {} {}", next.starts_with('-') ? "option" : "command", next);
    std::string what = error.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)  // "--batch: 1 required B missing"
        return fmt::format("{} {}", what.substr(0, what.find(':')),
                           what.find("received") == std::string::npos ? "takes a value" : "is given more than once");
    if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr)  // "Could not convert: --seed = abc"
        return fmt::format("{} is not a number", what.substr(what.find(": ") + 2));
    if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return what;
    // "The following arguments were not expected: 2 --batchs": the option is what is wrong, not its value.
    const std::string words = what.substr(what.find(": ") + 2);
    std::size_t option = words.starts_with("-") ? 0 : words.find(" -");
    if (option == std::string::npos) return fmt::format("one argument too many: {}", words);
    option = words.find('-', option);
    return fmt::format("unknown option {}", words.substr(option, words.find_first_of(" =", option) - option));
}

// The command line is wrong: what, and what was perhaps meant.
int usage(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
    std::vector<std::string> known;
    const CLI::App* at = &app;
    for (const CLI::App* sub : app.get_subcommands({})) known.push_back(sub->get_name());
    std::string command = "thunderc";
    int begin = 1;  // behind the words that are commands
    while (begin < argc && std::find(known.begin(), known.end(), argv[begin]) != known.end()) {
        at = at->get_subcommand(std::string(argv[begin]));
        command += fmt::format(" {}", argv[begin++]);
        known.clear();
        for (const CLI::App* sub : at->get_subcommands({})) known.push_back(sub->get_name());
    }
    for (const CLI::Option* option : at->get_options())
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    std::string help;
    for (int k = begin; k < argc && help.empty(); ++k) {
        std::string word = argv[k];
        word = word.substr(0, word.find('='));
        const bool option = word.starts_with("--");
        if ((!option && k > begin) || std::find(known.begin(), known.end(), word) != known.end()) continue;
        if (std::string match = nearest(word, known); !match.empty()) help = fmt::format("did you mean {}?", match);
    }
    const std::string what = what_is_wrong(error, at->get_subcommands({}).empty(), begin < argc ? argv[begin] : "");
    if (help.empty()) {
        help = fmt::format("{} --help shows what it takes", command);
        if (command == "thunderc train" && what.starts_with("unknown option"))
            help += "; how a program trains (--steps, --lr, --data) is said to the program: out/build/train --help";
    }
    fmt::print(stderr, "error: {}\nhelp: {}\n", what, help);
    return 2;
}

// The words of the command line that a report of a bug must know; what it is called with otherwise.
void describe(const CLI::App& app, CommandLine& command) {
    for (const CLI::App* sub : app.get_subcommands()) {
        auto word = [sub](const char* name) {
            const CLI::Option* option = sub->get_option_no_throw(name);
            return option != nullptr && option->count() > 0 ? option->results().front() : std::string();
        };
        command.model = word("model");
        command.out = word("--out");
    }
}

int run(int argc, char** argv, CommandLine& command) {
    CLI::App app(
        "thunderc: an ahead-of-time compiler for training. It reads an exported model and writes a training program in "
        "C++.",
        "thunderc");
    app.set_version_flag(
        "--version", fmt::format("thunderc {}{}", version, *commit == '\0' ? "" : fmt::format(" (commit {})", commit)));
    app.require_subcommand(1);
    app.footer(
        "thunderc COMMAND --help says what a command takes.\n\n"
        "Exit status: 0 done; 1 the model, the data or the machine is at fault, or train --diff, verify or bisect "
        "found\n"
        "a difference; 2 the command line is; 3 thunderc is: it leaves a folder thunderc-bug-N that shows the bug "
        "again.");
    Action action;
    add_train(app, action);
    add_emit(app, action);
    add_inspect(app, action);
    add_trace(app, action);
    add_plan(app, action);
    add_verify(app, action);
    add_bisect(app, action);
    add_run(app, action);
    add_data(app, action);
    add_report(app, action);
    add_ckpt(app, action);
    add_check(app, action);
    add_completion(app, action);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp& e) {
        return app.exit(e);
    } catch (const CLI::CallForVersion& e) {
        return app.exit(e);
    } catch (const CLI::ParseError& e) {
        if (argc == 1) {
            fmt::print("{}", app.help());
            return 2;
        }
        return usage(app, e, argc, argv);
    }
    describe(app, command);
    return action();
}

// thunderc is at fault.
int report(const std::exception& error, const CommandLine& command) {
    const std::filesystem::path folder = write_reproducer(error, command);
    fmt::print(stderr, "error: thunderc is at fault: {}\nhelp: please report this, with {}\n", error.what(),
               folder.empty() ? "the model and the command"
                              : fmt::format("the folder {}, which holds the command and the model without its weights",
                                            folder.string()));
    return 3;
}

}  // namespace
}  // namespace thunderc

int main(int argc, char** argv) {
    std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is an error of the write, as a full disk is
    thunderc::CommandLine command{{argv, argv + argc}, "", ""};
    try {
        return thunderc::run(argc, argv, command);
    } catch (const thunderc::UsageError& e) {
        fmt::print(stderr, "{}", e.diagnostic().text());
        return 2;
    } catch (const thunderc::UserError& e) {
        fmt::print(stderr, "{}", e.diagnostic().text());
        return 1;
    } catch (const thunderc::Interrupted&) {
        return 130;  // not reached: what deferred the signal has let it end the process
    } catch (const std::filesystem::filesystem_error& e) {
        fmt::print(stderr, "error: cannot use {}: {}\nhelp: check the path and its permissions\n", e.path1().string(),
                   e.code().message());
        return 1;
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "error: out of memory\nhelp: compile a smaller model, or on a machine with more memory\n");
        return 1;
    } catch (const std::exception& e) {
        return thunderc::report(e, command);
    }
}

// SPDX-License-Identifier: Apache-2.0
// thunderc inspect: what the compiler sees in a model, and what it makes of it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "cli/command.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Notes that differ in numbers of their places alone, those of one layer after the other, are one of all the places.
std::vector<Note> of_all_layers(const std::vector<Note>& notes) {
    struct Group {
        Note note;
        std::vector<std::string> places;
    };
    std::vector<Group> groups;
    std::map<std::tuple<Note::Kind, std::string, std::string, std::string>, std::size_t> known;
    for (const Note& note : notes) {
        std::string place;  // each number as one #
        for (const char c : note.where)
            if (const bool digit = c >= '0' && c <= '9'; !digit || !place.ends_with('#')) place += digit ? '#' : c;
        const auto [at, fresh] = known.try_emplace({note.kind, note.what, place, note.text}, groups.size());
        if (fresh) groups.push_back({note, {}});
        groups[at->second].places.push_back(note.where);
    }
    std::vector<Note> out;
    for (Group& group : groups) {
        const std::string pattern = name_pattern(group.places);
        // One for each place, where the places have no common pattern.
        const bool one = pattern.find(", ") == std::string::npos;
        for (const std::string& place : one ? std::vector<std::string>{pattern} : group.places) {
            out.push_back(group.note);
            out.back().where = place;
        }
    }
    return out;
}

int inspect(ModelOptions o) {
    o.finish();
    const Compiled compiled = compile(o);
    const Function& main = compiled.module.main();
    fmt::print("inputs\n");
    for (std::size_t k = 0; k < main.arguments.size(); ++k)
        if (main.argument_info[k].kind == ArgInfo::Kind::input)
            fmt::print("  {:<40} {}\n", main.argument_info[k].names.front(), to_string(main.type(main.arguments[k])));
    fmt::print("parameters\n");
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const ArgInfo& info = main.argument_info[k];
        if (info.kind != ArgInfo::Kind::parameter) continue;
        fmt::print("  {:<56} {}{}", name_pattern(info.names), to_string(main.type(main.arguments[k])),
                   info.trainable ? "" : ", frozen");
        for (const auto& aliases : info.aliases)
            if (!aliases.empty()) fmt::print(", also {}", fmt::join(aliases, ", "));
        fmt::print("{}{}\n", info.note.empty() ? "" : "\n      ", info.note);
    }
    const auto moves = [](const ArgInfo& info) { return info.kind == ArgInfo::Kind::buffer; };
    if (std::any_of(main.argument_info.begin(), main.argument_info.end(), moves))
        fmt::print("buffers that each micro-step moves\n");
    for (std::size_t k = 0; k < main.arguments.size(); ++k)
        if (const ArgInfo& info = main.argument_info[k]; moves(info))
            fmt::print("  {:<56} {}\n", name_pattern(info.names), to_string(main.type(main.arguments[k])));
    for (const PassRun& run : compiled.runs) {
        if (run.report.notes.empty()) continue;
        fmt::print("{}\n", run.name);
        std::string last;
        std::size_t times = 0;  // what is said of each of many time steps is said once
        const auto say = [&] {
            if (times > 0) fmt::print("  {}{}\n", last, times > 1 ? fmt::format(" ({} times)", times) : "");
        };
        for (const Note& note : of_all_layers(run.report.notes)) {
            std::string line = fmt::format("{}{}{}{}{}{}",
                                           note.kind == Note::Kind::declined  ? "not "
                                           : note.kind == Note::Kind::warning ? "warning: "
                                                                              : "",
                                           note.what, note.where.empty() ? "" : " in ", printed(note.where),
                                           note.text.empty() ? "" : ": ", printed(note.text));
            if (line != last) {
                say();
                last = std::move(line);
                times = 0;
            }
            ++times;
        }
        say();
    }
    return 0;
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
    auto o = std::make_shared<ModelOptions>();
    CLI::App* sub = app.add_subcommand(
        "inspect", "show parameters, where their names came from, and what was recognised in a model");
    o->add_to(*sub);
    sub->callback([o, &action] { action = [o] { return inspect(*o); }; });
}

}  // namespace thunderc

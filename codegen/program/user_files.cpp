// SPDX-License-Identifier: Apache-2.0
#include "codegen/program/user_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/user_functions/user_functions.h"

namespace thunderc {
namespace {

// Each once, in the order of the functions.
std::vector<std::string> each_once(const std::vector<std::string>& all) {
    std::vector<std::string> out;
    for (const std::string& one : all)
        if (std::find(out.begin(), out.end(), one) == out.end()) out.push_back(one);
    return out;
}

std::string user_build_text(const std::vector<const UserFunction*>& functions) {
    std::vector<std::string> cpu, cuda, link_cpu, link_cuda, without;
    std::set<std::string> files;
    for (const UserFunction* f : functions) {
        files.insert(f->file);
        for (const UserFile& file : f->cpu.sources) cpu.push_back(file.name);
        link_cpu.insert(link_cpu.end(), f->cpu.link.begin(), f->cpu.link.end());
        if (!f->cuda) {
            without.push_back(f->name);
            continue;
        }
        for (const UserFile& file : f->cuda->sources) cuda.push_back(file.name);
        link_cuda.insert(link_cuda.end(), f->cuda->link.begin(), f->cuda->link.end());
    }
    auto library = [](const std::vector<std::string>& sources, const std::vector<std::string>& link) {
        std::string text = fmt::format("  add_library(user_functions STATIC {})\n", fmt::join(each_once(sources), " "));
        text += "  target_link_libraries(user_functions PUBLIC thunder_runtime";
        for (const std::string& flag : each_once(link)) text += " " + flag;
        return text + ")\n";
    };
    std::string text = fmt::format(
        "# Functions that this program was given, by {}: as they were when it was generated.\n"
        "if(DEVICE STREQUAL \"cuda\")\n",
        fmt::join(files, ", "));
    text += without.empty()
                ? library(cuda, link_cuda)
                : fmt::format("  message(FATAL_ERROR \"DEVICE is cuda: there is no form for GPUs of {}\")\n",
                              fmt::join(without, ", "));
    text += "else()\n" + library(cpu, link_cpu) + "endif()\n";
    return text + "target_include_directories(user_functions PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/..)\n";
}

}  // namespace

std::vector<OutputFile> user_files(const Module& planned, const Module& reference) {
    std::vector<const UserFunction*> functions = user_functions_of(planned);
    for (const UserFunction* f : user_functions_of(reference))
        if (std::find(functions.begin(), functions.end(), f) == functions.end()) functions.push_back(f);
    if (functions.empty()) return {};
    std::map<std::string, std::string> texts;
    for (const UserFunction* f : functions) {
        texts["user/" + f->header.name] = f->header.text;
        for (const UserFile& file : f->cpu.sources) texts["user/" + file.name] = file.text;
        if (!f->cuda) continue;
        for (const UserFile& file : f->cuda->sources) texts["user/" + file.name] = file.text;
    }
    std::vector<OutputFile> files = {{"user/CMakeLists.txt", user_build_text(functions)}};
    for (auto& [path, text] : texts) files.push_back({path, std::move(text)});
    return files;
}

std::string user_files_row(const Module& module) {
    std::vector<std::string> names;
    for (const UserFunction* f : user_functions_of(module))
        names.push_back(fmt::format("{} of `{}`", f->name, f->file));
    if (names.empty()) return {};
    return fmt::format("| `user/` | functions that thunderc was given, and how they are built: {} |\n",
                       fmt::join(names, ", "));
}

std::vector<std::string> user_functions_without_cuda(const Module& module) {
    std::vector<std::string> names;
    for (const UserFunction* f : user_functions_of(module))
        if (!f->cuda) names.push_back(f->name);
    return names;
}

}  // namespace thunderc

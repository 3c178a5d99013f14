#include "cli/output_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "compiler/support/error.h"

namespace thunderc {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const std::string& message, const std::string& help) {
    Diagnostic d;
    d.message = message;
    d.help = help;
    throw UserError(std::move(d));
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::stringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

// Lines that differ, between the common beginning and the common end. Enough to see what changed in generated text.
void print_diff(const std::string& path, const std::string& before, const std::string& after) {
    const std::vector<std::string> a = lines_of(before), b = lines_of(after);
    std::size_t head = 0, tail = 0;
    while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
    while (tail < a.size() - head && tail < b.size() - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
    const std::size_t context = std::min<std::size_t>(head, 3), end = std::min<std::size_t>(tail, 3);
    fmt::print("--- {0}\n+++ {0}\n@@ -{1},{2} +{1},{3} @@\n", path, head - context + 1,
               a.size() - head - tail + context + end, b.size() - head - tail + context + end);
    for (std::size_t k = head - context; k < head; ++k) fmt::print(" {}\n", a[k]);
    for (std::size_t k = head; k < a.size() - tail; ++k) fmt::print("-{}\n", a[k]);
    for (std::size_t k = head; k < b.size() - tail; ++k) fmt::print("+{}\n", b[k]);
    for (std::size_t k = b.size() - tail; k < b.size() - tail + end; ++k) fmt::print(" {}\n", b[k]);
}

}  // namespace

void check_output_folder(const fs::path& out, bool force) {
    std::error_code error;
    if (!fs::exists(out, error)) return;
    if (!fs::is_directory(out, error)) fail(fmt::format("{} is a file", out.string()), "choose a folder with -o");
    if (force || fs::is_empty(out, error) || fs::exists(out / "train.json", error)) return;
    fail(fmt::format("the folder {} is in use: it holds files that thunderc did not write", out.string()),
         "choose another folder with -o, or replace this one with --force");
}

OutputFolder::OutputFolder(fs::path out) : out_(std::move(out)) {
    if (!out_.has_filename()) out_ = out_.parent_path();
    aside_ = out_;
    aside_ += fmt::format(".part{}", ::getpid());
    std::error_code error;
    fs::create_directories(aside_, error);
    if (error)
        fail(fmt::format("cannot make the folder {}: {}", out_.string(), error.message()),
             "choose another folder with -o");
}

OutputFolder::~OutputFolder() {
    std::error_code ignored;
    if (!committed_) fs::remove_all(aside_, ignored);
}

void OutputFolder::write(const OutputFile& file) const {
    const fs::path path = aside_ / file.path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    std::ofstream out(path, std::ios::binary);
    out << file.text;
    out.close();
    if (!out)
        fail(fmt::format("cannot write {}: {}", file.path, std::strerror(errno)),
             "make room on the disk, or choose another folder with -o");
}

void OutputFolder::commit() {
    std::error_code error;
    fs::path old = out_;
    old += fmt::format(".old{}", ::getpid());
    const bool replaces = fs::exists(out_);
    if (replaces) {
        fs::rename(out_, old, error);
        if (!error && fs::exists(old / "build")) fs::rename(old / "build", aside_ / "build", error);
    }
    if (!error) fs::rename(aside_, out_, error);
    if (error) {
        std::error_code ignored;
        if (replaces && !fs::exists(out_)) fs::rename(old, out_, ignored);
        fail(fmt::format("cannot put the folder {} in place: {}", out_.string(), error.message()),
             "choose another folder with -o");
    }
    committed_ = true;
    if (replaces) fs::remove_all(old, error);
}

int diff_folder(const fs::path& out, const std::vector<OutputFile>& files) {
    std::error_code error;
    if (!fs::is_directory(out, error))
        fail(fmt::format("there is no folder {} to compare with", out.string()), "write it first, without --diff");
    bool differs = false;
    for (const OutputFile& file : files) {
        const fs::path path = out / file.path;
        if (!fs::exists(path)) {
            fmt::print("only in the new program: {}\n", file.path);
            differs = true;
        } else if (std::string before = read(path); before != file.text) {
            print_diff(file.path, before, file.text);
            differs = true;
        }
    }
    return differs ? 1 : 0;
}

}  // namespace thunderc

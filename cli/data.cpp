// SPDX-License-Identifier: Apache-2.0
// thunderc data: files of packed tokens, as training programs read them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "cli/command.h"
#include "cli/runtime_errors.h"
#include "compiler/support/error.h"
#include "data/token_file.h"

namespace thunderc {
namespace {

struct PackOptions {
    std::vector<std::filesystem::path> files;
    std::filesystem::path out;
};

struct InspectOptions {
    std::filesystem::path file;
    std::int64_t first = 16;
};

struct FilesToPack {
    std::vector<std::filesystem::path> files;
    std::size_t left_out = 0;  // hidden files of the folders; a hidden folder counts as one
};

bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
    std::error_code error;
    return std::filesystem::exists(b, error) && std::filesystem::equivalent(a, b, error);
}

bool is_packed(const std::filesystem::path& file) {
    try {
        thunder::TokenFile(file.string());
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

// Of a folder all files below it, in the order of their paths, but for those whose name begins with a dot, or that of a
// folder on the way to them; and but for `out` where it was packed before. No other file is written over.
FilesToPack files_of(const std::vector<std::filesystem::path>& named, const std::filesystem::path& out) {
    FilesToPack found;
    const bool again = is_packed(out);
    for (const std::filesystem::path& path : named) {
        std::error_code error;
        if (!std::filesystem::is_directory(path, error)) {
            found.files.push_back(path);
            continue;
        }
        std::vector<std::filesystem::path> inside;
        for (auto at = std::filesystem::recursive_directory_iterator(path); at != end(at); ++at) {
            if (at->path().filename().string().starts_with('.')) {
                ++found.left_out;
                at.disable_recursion_pending();
            } else if (at->is_regular_file() && !(again && same_file(at->path(), out))) {
                inside.push_back(at->path());
            }
        }
        std::sort(inside.begin(), inside.end());
        found.files.insert(found.files.end(), inside.begin(), inside.end());
    }
    return found;
}

void pack(const PackOptions& o) {
    const auto [files, left_out] = files_of(o.files, o.out);
    for (const std::filesystem::path& file : files)
        if (same_file(file, o.out))
            fail(fmt::format("{} would be written over itself", file.string()), "choose another file with -o");
    thunder::TokenFileWriter writer(o.out.string(), 256);
    std::vector<unsigned char> bytes(1 << 20);
    std::vector<std::uint32_t> ids;
    for (const std::filesystem::path& file : files) {
        std::ifstream in(file, std::ios::binary);
        if (!in)
            fail(fmt::format("cannot read {}: {}", file.string(), std::strerror(errno)), "check the name of the file");
        while (in) {
            in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
            ids.assign(bytes.begin(), bytes.begin() + in.gcount());
            writer.append(ids);
        }
        if (in.bad()) fail(fmt::format("cannot read all of {}", file.string()), "check the disk that it lies on");
    }
    if (writer.count() == 0) fail("there is nothing to pack: the files are empty", "name files that hold text");
    writer.commit();
    fmt::print("{}: {} token{} from {} file{}, one for each byte\n", o.out.string(), writer.count(),
               writer.count() == 1 ? "" : "s", files.size(), files.size() == 1 ? "" : "s");
    if (left_out > 0)
        fmt::print(stderr, "note: {} hidden file{} or folder{} left out: name {} to have {} packed\n", left_out,
                   left_out == 1 ? "" : "s", left_out == 1 ? " was" : "s were", left_out == 1 ? "it" : "them",
                   left_out == 1 ? "it" : "them");
}

void inspect(const InspectOptions& o) {
    const thunder::TokenFile file(o.file.string());
    file.verify();
    std::vector<std::uint64_t> seen(std::min<std::uint64_t>(file.vocabulary(), 1 << 24));
    std::uint32_t least = UINT32_MAX, most = 0;
    std::uint64_t outside = 0;
    for (std::uint64_t k = 0; k < file.count(); ++k) {
        const std::uint32_t id = file[k];
        least = std::min(least, id);
        most = std::max(most, id);
        outside += id >= file.vocabulary() ? 1 : 0;
        if (id < seen.size()) ++seen[id];
    }
    const auto distinct = seen.size() - static_cast<std::size_t>(std::count(seen.begin(), seen.end(), 0U));
    fmt::print("file        {}\ntokens      {}\nvocabulary  {}\nwidth       {} byte{} a token\nchecksum    right\n",
               o.file.string(), file.count(), file.vocabulary(), file.width(), file.width() == 1 ? "" : "s");
    if (file.count() == 0) return;
    fmt::print("ids         {} to {}, {} different\nfirst      ", least, most, distinct);
    for (std::uint64_t k = 0; k < std::min<std::uint64_t>(file.count(), static_cast<std::uint64_t>(o.first)); ++k)
        fmt::print(" {}", file[k]);
    fmt::print("\n");
    if (outside > 0)
        fail(fmt::format("{} tokens are not below the vocabulary, {}", outside, file.vocabulary()), "pack it again");
}

}  // namespace

void add_data(CLI::App& app, Action& action) {
    CLI::App* data = app.add_subcommand("data", "make and look at files of packed tokens, which training reads");
    data->require_subcommand(1);

    auto p = std::make_shared<PackOptions>();
    CLI::App* sub = data->add_subcommand("pack", "write files as one file of tokens, one for each byte");
    sub->footer(
        "The files follow each other without anything between them. The vocabulary is 256: for a model whose\n"
        "vocabulary is at least that.\n\n"
        "  thunderc data pack docs/*.md -o corpus.bin\n"
        "  out/build/train --data corpus.bin");
    sub->add_option("files", p->files, "text, or any other files; of a folder all files below it that are not hidden")
        ->required()
        ->type_name("FILE...");
    sub->add_option("-o,--out", p->out, "the file to write")->required()->check(not_empty())->type_name("CORPUS");
    sub->callback([p, &action] {
        action = [p] {
            with_runtime_errors("", [&] { pack(*p); });
            return 0;
        };
    });

    auto i = std::make_shared<InspectOptions>();
    sub = data->add_subcommand("inspect", "check a file of packed tokens and show what it holds");
    sub->footer("Exit status 1 where the file is damaged.");
    sub->add_option("file", i->file, "a file that `thunderc data pack` wrote")->required()->type_name("FILE");
    sub->add_option("--first", i->first, "how many tokens of the beginning are shown")
        ->check(at_least(0))
        ->capture_default_str();
    sub->callback([i, &action] {
        action = [i] {
            with_runtime_errors("", [&] { inspect(*i); });
            return 0;
        };
    });
}

}  // namespace thunderc

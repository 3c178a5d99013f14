// SPDX-License-Identifier: Apache-2.0
#include "cli/output_folder.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "cli/manifest.h"
#include "cli/unfinished_folder.h"
#include "compiler/support/error.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/text_diff.h"
#include "support/error.h"
#include "support/json.h"

namespace thunderc {
namespace fs = std::filesystem;
namespace {

std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

// Moves what is the user's from the folder that was there before into the one that has taken its place, and removes
// what is thunderc's.
class Keeper {
  public:
    Keeper(fs::path old, fs::path out) : old_(std::move(old)), out_(std::move(out)) {
        if (std::optional<Manifest> manifest = read_manifest(old_)) {
            ours_ = std::move(*manifest);
            ours_.checksums.emplace(manifest_name, checksum(old_ / manifest_name));
        }
    }

    void run() { folder(""); }
    // "train.json is kept as train.json.before", for each file whose name the new program takes.
    const std::vector<std::string>& notes() const { return notes_; }

  private:
    // Removes the folder where nothing of the user's is left in it.
    void folder(const fs::path& at) {
        std::vector<fs::path> names;  // first, since the folder changes
        for (const fs::directory_entry& entry : fs::directory_iterator(old_ / at))
            names.push_back(entry.path().filename());
        std::sort(names.begin(), names.end());
        for (const fs::path& name : names) entry(at.empty() ? name : at / name);
        fs::remove(old_ / at);
    }

    void entry(const fs::path& at) {
        const fs::file_status now = fs::symlink_status(old_ / at), then = fs::symlink_status(out_ / at);
        if (fs::is_directory(now) && (fs::is_directory(then) || holds_ours(at))) return folder(at);
        const auto listed = ours_.checksums.find(at.generic_string());
        if (fs::is_regular_file(now)) {
            const std::uint64_t sum = checksum(old_ / at);
            const bool unchanged = listed != ours_.checksums.end() && listed->second == sum;
            if (unchanged || (fs::is_regular_file(then) && checksum(out_ / at) == sum)) {
                fs::remove(old_ / at);
                return;
            }
        }
        // A file of the program that somebody changed is in the way even where the new program has none of that name.
        const bool in_the_way = fs::exists(then) || listed != ours_.checksums.end();
        fs::path to = at;
        for (int number = 1; in_the_way && (to == at || taken(to)); ++number)
            to = at.string() + (number == 1 ? ".before" : fmt::format(".before{}", number));
        fs::create_directories((out_ / to).parent_path());
        fs::rename(old_ / at, out_ / to);
        if (in_the_way)
            notes_.push_back(
                fmt::format("{} was not as thunderc wrote it: it is kept as {}", at.string(), to.string()));
    }

    bool taken(const fs::path& at) const {
        return fs::exists(fs::symlink_status(out_ / at)) || fs::exists(fs::symlink_status(old_ / at));
    }

    bool holds_ours(const fs::path& at) const {
        const std::string prefix = at.generic_string() + "/";
        const auto first = ours_.checksums.lower_bound(prefix);
        return first != ours_.checksums.end() && first->first.starts_with(prefix);
    }

    fs::path old_, out_;
    Manifest ours_;
    std::vector<std::string> notes_;
};

// Where the folder lies, without links and dots: what is put beside it has to lie on the same file system.
fs::path place_of(const fs::path& out) {
    std::error_code error;
    fs::path place = fs::weakly_canonical(fs::absolute(out), error);
    if (error) place = fs::absolute(out);
    return place.has_filename() ? place : place.parent_path();
}

enum class Exchange { done, undone, half };

// Puts `whole` in the place of what is there, which then lies in `old`: at once, where the file system can do that, so
// that at no time there is no program, or half of one. Else `error` is an errno, and nothing has moved (undone) or
// only what was there, to `old` (half).
Exchange exchange(const fs::path& whole, const fs::path& place, fs::path& old, int& error) {
    if (::renameat2(AT_FDCWD, whole.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0) {
        old = whole;
        return Exchange::done;
    }
    error = errno;
    if (error != EINVAL && error != ENOSYS) return Exchange::undone;
    error = ::rename(place.c_str(), old.c_str()) == 0 ? 0 : errno;
    if (error != 0) return Exchange::undone;
    if (::rename(whole.c_str(), place.c_str()) == 0) return Exchange::done;
    error = errno;
    return ::rename(old.c_str(), place.c_str()) == 0 ? Exchange::undone : Exchange::half;
}

class OutputFolder {
  public:
    explicit OutputFolder(fs::path out);  // makes the folder aside
    OutputFolder(const OutputFolder&) = delete;
    OutputFolder& operator=(const OutputFolder&) = delete;
    ~OutputFolder();  // removes it, unless it was committed

    void write(const OutputFile& file) const;
    void write(const TensorFile& file) const;
    // Returns the keeper's notes.
    std::vector<std::string> commit();

  private:
    void remove_made();

    DeferInterrupts interrupts_;  // ends after everything else here
    fs::path out_;                // as the user calls it
    fs::path place_, aside_;      // where it lies, and where it is written
    std::vector<fs::path> made_;  // folders above it that were not there, innermost first
    std::optional<UnfinishedFolder> unfinished_;
};

OutputFolder::OutputFolder(fs::path out) : out_(std::move(out)), place_(place_of(out_)) {
    remove_unfinished(place_);
    std::error_code error;
    for (fs::path at = place_.parent_path(); !fs::exists(at, error) && at.has_relative_path(); at = at.parent_path())
        made_.push_back(at);
    try {
        fs::create_directories(place_.parent_path());
        unfinished_.emplace(place_);
        aside_ = unfinished_->path() / "new";
        fs::create_directory(aside_);
    } catch (const fs::filesystem_error& e) {
        remove_made();
        fail(fmt::format("cannot make the folder {}: {}", out_.string(), e.code().message()),
             "choose another folder with -o");
    }
}

OutputFolder::~OutputFolder() {
    remove_made();
}

void OutputFolder::remove_made() {
    unfinished_.reset();
    std::error_code ignored;
    for (const fs::path& folder : made_) fs::remove(folder, ignored);  // where nothing else is in it
}

void OutputFolder::write(const OutputFile& file) const {
    stop_if_interrupted();
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

void OutputFolder::write(const TensorFile& file) const {
    std::error_code error;
    fs::create_directories((aside_ / file.path).parent_path(), error);
    write_safetensors(aside_ / file.path, file.tensors);
}

std::vector<std::string> OutputFolder::commit() {
    write({manifest_name, to_string(list_files(aside_))});
    stop_if_interrupted();
    const auto cannot = [this](int error, const std::string& help) {
        fail(fmt::format("cannot put the folder {} in place: {}", out_.string(), std::strerror(error)), help);
    };
    if (!fs::exists(place_)) {
        if (::rename(aside_.c_str(), place_.c_str()) != 0) cannot(errno, "choose another folder with -o");
        return {};
    }
    unfinished_->keep();  // what comes into it is the user's
    fs::path old = unfinished_->path() / "old";
    int error = 0;
    const Exchange exchanged = exchange(aside_, place_, old, error);
    if (exchanged != Exchange::done) {
        fs::remove_all(aside_);
        if (exchanged == Exchange::half) cannot(error, fmt::format("what was there is in {}", old.string()));
        cannot(error, "choose another folder with -o");
    }
    // The program is in place. Nothing of what was there is removed that was not looked at.
    Keeper keeper(old, place_);
    try {
        keeper.run();
    } catch (const std::exception& e) {
        fail(fmt::format("the program is written, but not all that was in the folder before could be moved into it: {}",
                         e.what()),
             fmt::format("what is missing is in {}", old.string()));
    }
    return keeper.notes();
}

}  // namespace

void check_output_folder(const fs::path& out, bool force) {
    std::error_code error;
    if (!fs::exists(out, error)) {
        if (fs::is_symlink(fs::symlink_status(out, error)))
            fail(fmt::format("{} is a link to what does not exist", out.string()), "choose a folder with -o");
        return;
    }
    if (!fs::is_directory(out, error)) fail(fmt::format("{} is a file", out.string()), "choose a folder with -o");
    if (fs::equivalent(out, fs::current_path(error), error))
        fail(fmt::format("{} is the folder that you are in", out.string()), "choose another folder with -o");
    if (force || fs::is_empty(out, error) || read_manifest(out)) return;
    fail(fmt::format("the folder {} is in use: it holds files that thunderc did not write", out.string()),
         "choose another folder with -o, or write into this one with --force");
}

std::string model_of_folder(const fs::path& out) {
    if (!read_manifest(out)) return "";
    for (const char* name : {"train.json", "emit.json"}) {
        std::ifstream file(out / name);
        if (!file) continue;
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        try {
            const thunder::Json options = thunder::parse_json(text, name, "");
            if (const thunder::Json* model = options.find("model")) return model->string;
        } catch (const thunder::Error&) {  // changed by hand: it is the user's, and no error of this command
        }
    }
    return "";
}

std::vector<TensorFile> tensor_files(const Module& planned, bool weights, std::string& missing) {
    std::vector<TensorFile> out;
    if (weights)
        if (std::vector<StoredTensor> parameters = stored_parameters(planned, &missing); !parameters.empty())
            out.push_back({"weights.safetensors", std::move(parameters)});
    if (std::vector<StoredTensor> constants = stored_constants(planned); !constants.empty())
        out.push_back({"constants.safetensors", std::move(constants)});
    return out;
}

void write_folder(const fs::path& out, const std::vector<OutputFile>& files, const std::vector<TensorFile>& tensors) {
    OutputFolder folder(out);
    for (const TensorFile& file : tensors) folder.write(file);
    for (const OutputFile& file : files) folder.write(file);
    for (const std::string& note : folder.commit()) fmt::print(stderr, "note: {}\n", note);
}

int diff_folder(const fs::path& out, const std::vector<OutputFile>& files, const std::vector<TensorFile>& tensors) {
    std::error_code error;
    if (!fs::is_directory(out, error))
        fail(fmt::format("there is no folder {} to compare with", out.string()), "write it first, without --diff");
    bool differs = false;
    std::set<std::string> known;
    auto print = [&differs](const std::string& text) {
        fmt::print("{}", text);
        differs = differs || !text.empty();
    };
    for (const OutputFile& file : files) {
        known.insert(file.path);
        const bool there = fs::is_regular_file(out / file.path, error);
        print(unified_diff(there ? file.path : "/dev/null", file.path, there ? read(out / file.path) : "", file.text));
    }
    for (const TensorFile& file : tensors) {
        known.insert(file.path);
        if (!fs::is_regular_file(out / file.path, error))
            print(fmt::format("only in the new program: {}\n", file.path));
        else if (!holds_safetensors(out / file.path, file.tensors))
            print(fmt::format("binary files differ: {}\n", file.path));
    }
    // What an earlier program had and this one has not. Files that thunderc did not write are nobody's business here.
    const std::optional<Manifest> manifest = read_manifest(out);
    if (!manifest) print(fmt::format("only in the new program: {}\n", manifest_name));
    for (const auto& [path, sum] : manifest.value_or(Manifest()).checksums) {
        if (known.contains(path) || !fs::is_regular_file(out / path, error)) continue;
        print(path.ends_with(".safetensors") ? fmt::format("only in the folder: {}\n", path)
                                             : unified_diff(path, "/dev/null", read(out / path), ""));
    }
    return differs ? 1 : 0;
}

}  // namespace thunderc

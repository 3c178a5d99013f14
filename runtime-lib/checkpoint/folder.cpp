// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <utility>

#include "support/error.h"
#include "support/file.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr std::string_view step_prefix = "step-", file_suffix = ".safetensors", aside_suffix = ".tmp",
                           removed_suffix = ".removed";

// Checkpoints with their steps, the oldest first.
std::vector<std::pair<std::int64_t, std::string>> steps_in(const std::string& folder) {
    std::vector<std::pair<std::int64_t, std::string>> found;
    for (const std::string& name : names_in(folder)) {
        std::int64_t step = 0;
        if (!name.starts_with(step_prefix)) continue;
        const auto [end, error] = std::from_chars(name.data() + step_prefix.size(), name.data() + name.size(), step);
        if (error != std::errc()) continue;
        const std::string_view rest = std::string_view(name).substr(static_cast<std::size_t>(end - name.data()));
        std::string path = join_path(folder, name);
        if ((rest.empty() && is_folder(path)) || (rest == file_suffix && is_file(path)))
            found.emplace_back(step, std::move(path));
    }
    std::sort(found.begin(), found.end());
    return found;
}

std::string folder_above(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

void remove_any(const std::string& path) {
    is_folder(path) ? remove_folder(path) : static_cast<void>(unlink(path.c_str()));
}

// What is removed has another name first: nobody sees half of it.
void remove_checkpoint(const std::string& path) {
    const std::string away = cat(path, removed_suffix);
    remove_any(away);
    if (std::rename(path.c_str(), away.c_str()) == 0) remove_any(away);
}

}  // namespace

std::vector<std::string> checkpoints_in(const std::string& folder) {
    if (is_folder(folder)) check_readable(folder);  // what cannot be listed is not empty
    std::vector<std::string> paths;
    for (auto& [step, path] : steps_in(folder)) paths.push_back(std::move(path));
    return paths;
}

std::string checkpoint_path(const std::string& folder, std::int64_t step) {
    char name[64];
    std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
    return join_path(folder, name);
}

std::string rank_file_name(int rank) {
    char name[64];
    std::snprintf(name, sizeof name, "rank-%05d.safetensors", rank);
    return name;
}

std::string aside_of(const std::string& path) {
    return cat(path, aside_suffix);
}

void begin_checkpoint(const std::string& path) {
    remove_folder(aside_of(path));
    make_folders(aside_of(path));
}

void commit_checkpoint(const std::string& path, const Manifest& manifest) {
    const std::string written = aside_of(path);
    {
        const std::string text = manifest_text(manifest);
        AtomicFile file(join_path(written, manifest_name));
        file.write(text.data(), text.size());
        file.commit();  // the folder's names are on the disk behind it
    }
    if (std::rename(written.c_str(), path.c_str()) != 0) {
        if (errno != ENOTEMPTY && errno != EEXIST) fail_writing(path, errno);
        // One of the two is there at each moment, where the file system can do that.
        if (renameat2(AT_FDCWD, written.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
            remove_folder(written);
        } else {
            remove_checkpoint(path);
            if (std::rename(written.c_str(), path.c_str()) != 0) fail_writing(path, errno);
        }
    }
    sync_folder(folder_above(path));
}

void give_up_checkpoint(const std::string& path) {
    remove_folder(aside_of(path));
}

void put_aside(const std::string& path) {
    const std::string name = cat(path, ".damaged");
    remove_any(name);
    if (std::rename(path.c_str(), name.c_str()) != 0) fail_writing(name, errno);
}

void prune_checkpoints(const std::string& folder, std::int64_t keep, std::int64_t keep_every, std::int64_t spared) {
    for (const std::string& name : names_in(folder))
        if (name.starts_with(step_prefix) && (name.ends_with(aside_suffix) || name.ends_with(removed_suffix)))
            remove_any(join_path(folder, name));
    if (keep <= 0) return;
    const auto all = steps_in(folder);
    for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < all.size(); ++i) {
        const auto& [step, path] = all[i];
        if (step != spared && (keep_every == 0 || step % keep_every != 0)) remove_checkpoint(path);
    }
}

}  // namespace thunder

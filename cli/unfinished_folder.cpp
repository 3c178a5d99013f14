// SPDX-License-Identifier: Apache-2.0
#include "cli/unfinished_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace thunderc {
namespace fs = std::filesystem;
namespace {

constexpr const char* part_of_name = ".thunderc-unfinished-";
constexpr const char* marker_name = ".thunderc-unfinished";

// Locks are seen by all processes of one machine, whatever process numbers they see; not always by other machines that
// use the same disk.
std::string marker_text() {
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    return "thunderc is writing here, or was ended before it was done.\nmachine " + std::string(host) + "\n";
}

void remove_if_left(const fs::path& folder) {
    const fs::path path = folder / marker_name;
    if (!fs::is_directory(fs::symlink_status(folder)) || !fs::is_regular_file(fs::symlink_status(path))) return;
    const int marker = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (marker < 0) return;
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    if (text.str() == marker_text() && ::flock(marker, LOCK_EX | LOCK_NB) == 0) {
        std::error_code ignored;
        for (const auto& entry : fs::directory_iterator(folder, ignored))
            if (entry.path() != path) fs::remove_all(entry.path(), ignored);
        fs::remove_all(folder, ignored);  // the marker last: who is ended here leaves it again
    }
    ::close(marker);
}

}  // namespace

UnfinishedFolder::UnfinishedFolder(const fs::path& place) {
    std::string name = place.string() + part_of_name + std::string(6, 'X');  // which mkdtemp replaces
    if (::mkdtemp(name.data()) == nullptr)
        throw fs::filesystem_error("mkdtemp", name, std::error_code(errno, std::generic_category()));
    path_ = name;
    // It gets its name when it is locked. Where a disk has no locks, nobody gets one, and nothing is ever removed.
    const fs::path marker = path_ / marker_name, unlocked = marker.string() + "-";
    const std::string text = marker_text();
    marker_ = ::open(unlocked.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (marker_ >= 0 && ::flock(marker_, LOCK_EX | LOCK_NB) == 0 &&
        ::write(marker_, text.data(), text.size()) == static_cast<ssize_t>(text.size()))
        ::rename(unlocked.c_str(), marker.c_str());
}

UnfinishedFolder::~UnfinishedFolder() {
    std::error_code ignored;
    if (keep_) {
        fs::remove(path_, ignored);
    } else {
        fs::remove_all(path_, ignored);
    }
    if (marker_ >= 0) ::close(marker_);
}

void UnfinishedFolder::keep() {
    std::error_code ignored;
    fs::remove(path_ / marker_name, ignored);
    fs::remove(path_ / (std::string(marker_name) + "-"), ignored);
    keep_ = true;
}

void remove_unfinished(const fs::path& place) {
    std::error_code ignored;
    const std::string prefix = place.filename().string() + part_of_name;
    for (const auto& entry : fs::directory_iterator(place.parent_path(), ignored))
        if (entry.path().filename().string().starts_with(prefix)) remove_if_left(entry.path());
}

}  // namespace thunderc

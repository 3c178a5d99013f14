// SPDX-License-Identifier: Apache-2.0
#include "support/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

[[noreturn]] void fail_reading(const std::string& path, int error) {
    if (error == ENOENT) fail(cat("no such file: ", path), "check the name of the file");
    fail(cat("cannot read ", path, ": ", std::strerror(error)),
         error == EACCES ? "check its permissions" : "check the name of the file");
}

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

bool is_regular_or_absent(const std::string& path) {
    struct stat status {};
    return stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
}

// The innermost first; those that hold something by now stay.
void remove_folders(const std::vector<std::string>& made) {
    for (auto folder = made.rbegin(); folder != made.rend(); ++folder) rmdir(folder->c_str());
}

// Makes the folder and those above it that do not exist; these, the outermost first. Where it cannot, none.
std::vector<std::string> new_folders(const std::string& path) {
    std::vector<std::string> made;
    const auto give_up = [&](const std::string& part, const char* why) {
        remove_folders(made);
        fail(cat("cannot make the folder ", part, ": ", why), "name another folder");
    };
    for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string part = path.substr(0, end);
        if (mkdir(part.c_str(), 0777) == 0) {
            made.push_back(part);
            sync_folder(folder_of(part));  // else its name may be lost with all that is in it
        } else if (errno != EEXIST) {
            give_up(part, std::strerror(errno));
        }
        if (end == std::string::npos) break;
    }
    if (!is_folder(path)) give_up(path, "a file has that name");
    return made;
}

}  // namespace

void fail_writing(const std::string& path, int error) {
    std::string help;
    if (error == ENOSPC || error == EDQUOT || error == EFBIG) help = "make room there, or name a place on another disk";
    if (error == EISDIR || error == ENOTDIR || error == EACCES || error == EPERM || error == EROFS)
        help = "name a file in a folder that can be written to";
    if (error == ENOENT) help = cat("make the folder first: mkdir -p ", folder_of(path));
    fail(cat("cannot write ", path, ": ", std::strerror(error)), help);
}

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
    const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail_reading(path_, errno);
    struct stat status {};
    int error = fstat(descriptor, &status) == 0 ? 0 : errno;
    if (error == 0 && S_ISDIR(status.st_mode)) error = EISDIR;
    if (error == 0 && status.st_size > 0) {
        size_ = static_cast<std::size_t>(status.st_size);
        void* mapping = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (mapping == MAP_FAILED) {
            error = errno;
        } else {
            data_ = static_cast<const std::byte*>(mapping);
        }
    }
    close(descriptor);
    if (error != 0) fail_reading(path_, error);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(std::span<const std::byte> part) const {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    // Pages of which it is a part are read again where somebody else still wants them.
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(part.data()) / page * page;
    const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(part.data()) + part.size() + page - 1) / page * page;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): pages are found by arithmetic on addresses
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void MappedFile::read_at_random() const {
    if (data_ != nullptr) madvise(const_cast<std::byte*>(data_), size_, MADV_RANDOM);
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
    // A device such as /dev/stdout is written to as it is: there is nothing to rename.
    temporary_ = is_regular_or_absent(path_) ? cat(path_, ".", static_cast<long>(getpid()), ".tmp") : path_;
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail_writing(path_, errno);
}

AtomicFile::~AtomicFile() {
    if (descriptor_ < 0) return;
    close(descriptor_);
    if (temporary_ != path_) unlink(temporary_.c_str());
}

void AtomicFile::give_up(int error) {
    close(std::exchange(descriptor_, -1));
    if (temporary_ != path_) unlink(temporary_.c_str());
    fail_writing(path_, error);
}

void AtomicFile::write(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t written = ::write(descriptor_, from, std::min<std::size_t>(bytes, std::size_t{1} << 30));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) give_up(errno);
        from += written;
        bytes -= static_cast<std::size_t>(written);
    }
}

void AtomicFile::rewrite(std::size_t offset, const void* data, std::size_t bytes) {
    const auto* from = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t written = pwrite(descriptor_, from, bytes, static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) give_up(errno);
        from += written;
        offset += static_cast<std::size_t>(written);
        bytes -= static_cast<std::size_t>(written);
    }
}

void AtomicFile::commit() {
    if (temporary_ == path_) {
        if (close(std::exchange(descriptor_, -1)) != 0) fail_writing(path_, errno);
        return;
    }
    // The bytes reach the disk before the name does, and the name before anybody relies on it.
    if (fsync(descriptor_) != 0) give_up(errno);
    if (rename(temporary_.c_str(), path_.c_str()) != 0) give_up(errno);
    close(std::exchange(descriptor_, -1));
    sync_folder(folder_of(path_));
}

void check_writable(const std::string& path) {
    if (path.empty()) return;
    if (is_folder(path)) fail_writing(path, EISDIR);
    if (!is_folder(folder_of(path))) fail_writing(path, is_file(folder_of(path)) ? ENOTDIR : ENOENT);
    if (access(folder_of(path).c_str(), W_OK) != 0) fail_writing(path, errno);
}

bool is_file(const std::string& path) {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
}

bool is_folder(const std::string& path) {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool same_file(const std::string& a, const std::string& b) {
    struct stat first {};
    struct stat second {};
    const auto are_one = [&] { return first.st_dev == second.st_dev && first.st_ino == second.st_ino; };
    const bool there = stat(a.c_str(), &first) == 0, also = stat(b.c_str(), &second) == 0;
    if (there && also) return S_ISREG(first.st_mode) && are_one();
    // Where neither is there yet, they are one if they have one name in one folder.
    const auto name = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
    return !there && !also && name(a) == name(b) && stat(folder_of(a).c_str(), &first) == 0 &&
           stat(folder_of(b).c_str(), &second) == 0 && are_one();
}

void make_folders(const std::string& path) {
    new_folders(path);
}

void sync_folder(const std::string& path) {
    const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        if (errno == EACCES) return;  // one that may be written to and not be read
        fail_writing(path, errno);
    }
    const int error = fsync(folder) == 0 ? 0 : errno;
    close(folder);
    if (error != 0 && error != EINVAL && error != ENOTSUP) fail_writing(path, error);
}

void remove_folder(const std::string& path) {
    for (const std::string& name : names_in(path)) unlink(join_path(path, name).c_str());
    rmdir(path.c_str());
}

void check_folder(const std::string& path) {
    if (path.empty()) return;
    const std::vector<std::string> made = new_folders(path);
    const int error = access(path.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
    remove_folders(made);
    if (error != 0) fail(cat("cannot write into the folder ", path, ": ", std::strerror(error)), "name another folder");
}

FolderLock::FolderLock(const std::string& path) : file_(join_path(path, ".lock")) {
    for (;;) {
        if (made_.empty()) made_ = new_folders(path);
        descriptor_ = open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (descriptor_ < 0 && errno == ENOENT &&
            !is_folder(path)) {  // another run removed the folder that it had made
            made_.clear();
            continue;
        }
        if (descriptor_ < 0 || flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
            const int error = errno;
            if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
            if (error == EWOULDBLOCK)
                fail(cat("another run is writing into the folder ", path), "let that run end, or name another folder");
            not_locked_ = cat(file_, ": ", std::strerror(error));
            return;
        }
        // A run that ended meanwhile has removed its file, and maybe the folder: what was locked is then nowhere.
        struct stat locked {};
        struct stat there {};
        if (fstat(descriptor_, &locked) == 0 && stat(file_.c_str(), &there) == 0 && locked.st_dev == there.st_dev &&
            locked.st_ino == there.st_ino)
            return;
        close(std::exchange(descriptor_, -1));
        made_.clear();
    }
}

FolderLock::~FolderLock() {
    if (descriptor_ >= 0) {
        unlink(file_.c_str());
        close(descriptor_);
    }
    remove_folders(made_);
}

std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    DIR* listing = opendir(folder.c_str());
    if (listing == nullptr) return names;
    while (const dirent* entry = readdir(listing)) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") names.push_back(name);
    }
    closedir(listing);
    std::sort(names.begin(), names.end());
    return names;
}

void check_readable(const std::string& folder) {
    DIR* listing = opendir(folder.c_str());
    if (listing == nullptr) fail_reading(folder, errno);
    closedir(listing);
}

std::string join_path(std::string_view folder, std::string_view name) {
    if (folder.empty()) return std::string(name);
    return cat(folder, folder.back() == '/' ? "" : "/", name);
}

}  // namespace thunder

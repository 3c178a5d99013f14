// SPDX-License-Identifier: Apache-2.0
// Loaded before a program (LD_PRELOAD): lets one of its calls on files fail, as a disk does that is full or breaks.
//   FAULT_CALL   open, read, write, fsync, rename, mmap or mkdir
//   FAULT_AT     which of these calls, from 1 on, among those on paths that have FAULT_PATH in them
//   FAULT_HOW    error: it gives an error; short: half of what it is to read or write is; kill: the process ends,
//   behind
//                half of what is to be written
//   FAULT_RANK   of several ranks, the one that it happens to
//   FAULT_MARK   a file that is made when it comes to that
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

template <typename F>
F next(const char* name) {
    return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

std::array<std::atomic<bool>, 4096> watched;  // descriptors of such paths
std::atomic<int> calls = 0;

const char* setting(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

bool is_watched(const char* path) {
    const char* part = setting("FAULT_PATH");
    return path != nullptr && *part != 0 && std::strstr(path, part) != nullptr;
}
bool is_watched(int descriptor) {
    return descriptor >= 0 && descriptor < static_cast<int>(watched.size()) &&
           watched[static_cast<std::size_t>(descriptor)];
}

bool is_this_rank() {
    const std::string_view rank = setting("FAULT_RANK");
    return rank.empty() || rank == setting("OMPI_COMM_WORLD_RANK");
}

// Whether it is this call's turn.
bool fails(const char* call) {
    if (std::string_view(call) != setting("FAULT_CALL") || !is_this_rank()) return false;
    if (++calls != std::atoi(setting("FAULT_AT"))) return false;
    const int mark = next<int (*)(const char*, int, ...)>("open")(setting("FAULT_MARK"), O_WRONLY | O_CREAT, 0666);
    if (mark >= 0) close(mark);
    return true;
}

bool how(const char* word) {
    return std::string_view(word) == setting("FAULT_HOW");
}

int end_or_fail(int error) {
    if (how("kill")) raise(SIGKILL);
    errno = error;
    return -1;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
    mode_t mode = 0;
    if ((flags & O_CREAT) != 0) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    const bool watch = is_watched(path);
    if (watch && !how("short") && fails("open")) return end_or_fail(EMFILE);
    const int descriptor = next<int (*)(const char*, int, ...)>("open")(path, flags, mode);
    if (descriptor >= 0 && descriptor < static_cast<int>(watched.size()))
        watched[static_cast<std::size_t>(descriptor)] = watch;
    return descriptor;
}

ssize_t read(int descriptor, void* data, size_t bytes) {
    const auto real = next<ssize_t (*)(int, void*, size_t)>("read");
    if (!is_watched(descriptor) || !fails("read")) return real(descriptor, data, bytes);
    if (!how("short")) return end_or_fail(EIO);
    return real(descriptor, data, bytes > 1 ? bytes / 2 : bytes);
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
    const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
    if (!is_watched(descriptor) || !fails("write")) return real(descriptor, data, bytes);
    if (how("error")) return end_or_fail(ENOSPC);
    const ssize_t written = real(descriptor, data, bytes > 1 ? bytes / 2 : bytes);
    if (how("kill")) raise(SIGKILL);
    return written;
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
    const auto real = next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
    if (!is_watched(descriptor) || !fails("write")) return real(descriptor, data, bytes, offset);
    if (how("error")) return end_or_fail(EIO);
    const ssize_t written = real(descriptor, data, bytes > 1 ? bytes / 2 : bytes, offset);
    if (how("kill")) raise(SIGKILL);
    return written;
}

int fsync(int descriptor) {
    if (is_watched(descriptor) && !how("short") && fails("fsync")) return end_or_fail(EIO);
    return next<int (*)(int)>("fsync")(descriptor);
}

int rename(const char* from, const char* to) {
    if (is_watched(to) && !how("short") && fails("rename")) return end_or_fail(EIO);
    return next<int (*)(const char*, const char*)>("rename")(from, to);
}

int mkdir(const char* path, mode_t mode) {
    if (is_watched(path) && !how("short") && fails("mkdir")) return end_or_fail(ENOSPC);
    return next<int (*)(const char*, mode_t)>("mkdir")(path, mode);
}

void* mmap(void* address, size_t bytes, int protection, int flags, int descriptor, off_t offset) {
    if (is_watched(descriptor) && !how("short") && fails("mmap")) {
        end_or_fail(ENOMEM);
        return MAP_FAILED;
    }
    return next<void* (*)(void*, size_t, int, int, int, off_t)>("mmap")(address, bytes, protection, flags, descriptor,
                                                                        offset);
}

}  // extern "C"

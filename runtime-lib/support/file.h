// SPDX-License-Identifier: Apache-2.0
// Files: read by mapping them, written aside and renamed, so that nobody ever sees half of one.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thunder {

// A whole file, read-only, in memory as far as it was looked at.
class MappedFile {
  public:
    // Fails with a message where there is no such file, it is a folder, or it may not be read.
    explicit MappedFile(std::string path);
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    const std::string& path() const { return path_; }
    std::span<const std::byte> bytes() const { return {data_, size_}; }

    // Says that these bytes will not be read again soon: they no longer count as this process's memory.
    void release(std::span<const std::byte> part) const;
    // Says that small parts will be read here and there: the disk is not asked for what lies around them.
    void read_at_random() const;

  private:
    std::string path_;
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

// A file that appears under its name when commit() is called, whole; if that is never reached, it never was.
class AtomicFile {
  public:
    explicit AtomicFile(std::string path);
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    ~AtomicFile();

    // Fail with a message, and leave nothing behind, where the disk is full.
    void write(const void* data, std::size_t bytes);
    // Writes at a place that was written before; what comes next continues at the end.
    void rewrite(std::size_t offset, const void* data, std::size_t bytes);
    void commit();

  private:
    [[noreturn]] void give_up(int error);

    std::string path_, temporary_;
    int descriptor_ = -1;
};

// "cannot write out/a.bin: No space left on device", with help that fits the error.
[[noreturn]] void fail_writing(const std::string& path, int error);

// Fails as writing the file would, as far as that can be told before; "" passes.
void check_writable(const std::string& path);

// Fails as making the folder and writing files into it would, as far as that can be told before, and leaves nothing
// behind; "" passes.
void check_folder(const std::string& path);

// A folder that this process alone writes into, for as long as this lives: fails where another process has it. It is
// made where there is none, and removed again where nothing was put into it. What is locked is a file `.lock` in it,
// opened to be written, since NFS has locks of such files alone; it is removed at the end, and harmless where it stays.
class FolderLock {
  public:
    explicit FolderLock(const std::string& path);
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;
    ~FolderLock();
    // Why anybody else may write there all the same, as on a file system that has no locks; "" where nobody does.
    const std::string& not_locked() const { return not_locked_; }

  private:
    std::string file_, not_locked_;
    std::vector<std::string> made_;  // the outermost first
    int descriptor_ = -1;
};

// Whether both paths are one file: what is written to the one is lost, or read, in the other. Devices are no files.
bool same_file(const std::string& a, const std::string& b);

bool is_file(const std::string& path);
bool is_folder(const std::string& path);
// Makes the folder and those above it that do not exist.
void make_folders(const std::string& path);
// What names stand in the folder is on the disk. Fails where that cannot be told, but not on file systems that do not
// know such a thing.
void sync_folder(const std::string& path);
// Removes a folder with the files in it, as far as that can be done; it has no folders.
void remove_folder(const std::string& path);
// Names in a folder, without . and .., sorted; empty where it cannot be read.
std::vector<std::string> names_in(const std::string& folder);
// Fails where what a folder holds cannot be told.
void check_readable(const std::string& folder);
std::string join_path(std::string_view folder, std::string_view name);

}  // namespace thunder

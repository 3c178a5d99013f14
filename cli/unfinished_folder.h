// SPDX-License-Identifier: Apache-2.0
// Where a folder is written before it takes its place: a folder of its own beside it, on the same file system.
#pragma once

#include <filesystem>

namespace thunderc {

// Made empty under a name that nothing had, and removed with all in it. It holds `.thunderc-unfinished`, locked while
// this process lives: what one that was killed has left is known by that file, and by nothing else.
class UnfinishedFolder {
  public:
    // Beside `place`, whose folder is there. Throws std::filesystem::filesystem_error.
    explicit UnfinishedFolder(const std::filesystem::path& place);
    UnfinishedFolder(const UnfinishedFolder&) = delete;
    UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;
    ~UnfinishedFolder();

    const std::filesystem::path& path() const { return path_; }
    // From here on nobody removes it but its destructor, and that only where it is empty: what is in it is the user's.
    void keep();

  private:
    std::filesystem::path path_;
    int marker_ = -1;  // the open file, with its lock
    bool keep_ = false;
};

// Removes what processes of this machine that were killed have left beside `place`. A folder without the marker is not
// thunderc's, and one whose marker is locked is in use.
void remove_unfinished(const std::filesystem::path& place);

}  // namespace thunderc

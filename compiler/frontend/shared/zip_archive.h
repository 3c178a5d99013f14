// SPDX-License-Identifier: Apache-2.0
// Entries of a zip archive (stored and deflated, zip64 as well), each read when it is asked for. The list of them is
// read as programs read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thunderc {

class ZipArchive {
  public:
    struct Entry {
        std::uint64_t size = 0;  // of its bytes, unpacked
    };

    // Reads the list of entries. Throws UserError: no archive, and what thunder::ZipEntries refuses.
    explicit ZipArchive(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return path_; }
    const std::map<std::string, Entry>& entries() const { return entries_; }
    const Entry* find(const std::string& name) const;  // nullptr: there is none
    // The only entry whose name ends so; nullopt where there is none, or are several.
    std::optional<std::string> only_with_end(std::string_view end) const;

    // So many bytes of an entry, from `offset` on. Throws UserError where they are not
    // there, and where the whole entry is read and is not what was written.
    std::vector<std::byte> read(const std::string& name, std::uint64_t offset, std::uint64_t count) const;
    // A whole entry of text. Throws UserError where it is larger than any export's.
    std::string text(const std::string& name) const;

    // Writes the archive again, deflated, without the bytes of the entries that `empties` says yes to: they are there,
    // and empty.
    void write_without(const std::function<bool(const std::string& name)>& empties,
                       const std::filesystem::path& out) const;

  private:
    struct Opened;  // the file, mapped, and its list
    std::filesystem::path path_;
    std::map<std::string, Entry> entries_;
    std::shared_ptr<const Opened> opened_;
};

}  // namespace thunderc

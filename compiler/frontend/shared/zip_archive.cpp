// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/zip_archive.h"

#include <fmt/format.h>
#include <unzip.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

// A byte that is deflated becomes 1032 at most; an entry that says more is made to fill memory.
constexpr std::uint64_t most_inflated = 1032;
constexpr std::uint64_t most_text = std::uint64_t{1} << 30;
constexpr std::size_t longest_name = 4096;
constexpr std::uint16_t encrypted = 1;  // a flag of an entry

[[noreturn]] void damaged(const std::filesystem::path& path, const std::string& what) {
    fail(fmt::format("{} is a damaged zip archive: {}", path.string(), what), "save or copy the file again");
}

struct Close {
    void operator()(void* file) const { unzClose(file); }
};
using File = std::unique_ptr<void, Close>;

File opened(const std::filesystem::path& path) {
    File file(unzOpen64(path.c_str()));
    if (!file) damaged(path, "it has no list of its entries, as one that was cut off");
    return file;
}

// "a/../../b", "/a", "C:\a": no archive of PyTorch's has such a name.
bool leads_out(std::string_view name) {
    if (name.empty() || name.front() == '/' || name.find('\\') != std::string_view::npos ||
        name.find('\0') != std::string_view::npos)
        return true;
    for (std::size_t at = 0; at <= name.size();) {
        const std::size_t end = std::min(name.find('/', at), name.size());
        if (name.substr(at, end - at) == "..") return true;
        at = end + 1;
    }
    return false;
}

}  // namespace

ZipArchive::ZipArchive(const std::filesystem::path& path) : path_(path) {
    const File file = opened(path);
    std::error_code error;
    const std::uint64_t bytes = std::filesystem::file_size(path, error);
    unz_global_info64 all{};
    if (error || unzGetGlobalInfo64(file.get(), &all) != UNZ_OK) damaged(path, "its list of entries cannot be read");
    std::array<char, longest_name + 1> name{};
    for (std::uint64_t k = 0; k < all.number_entry; ++k) {
        if ((k == 0 ? unzGoToFirstFile(file.get()) : unzGoToNextFile(file.get())) != UNZ_OK)
            damaged(path, fmt::format("its list has {} of {} entries", k, all.number_entry));
        unz_file_info64 info{};
        unz64_file_pos at{};
        if (unzGetCurrentFileInfo64(file.get(), &info, name.data(), longest_name, nullptr, 0, nullptr, 0) != UNZ_OK ||
            unzGetFilePos64(file.get(), &at) != UNZ_OK)
            damaged(path, fmt::format("entry {} of its list cannot be read", k));
        if (info.size_filename > longest_name) damaged(path, fmt::format("the name of entry {} is too long", k));
        const std::string key(name.data(), info.size_filename);
        if (leads_out(key)) damaged(path, fmt::format("an entry is called \"{}\", a path that leads out of it", key));
        const bool stored = info.compression_method == 0;
        if (info.compressed_size > bytes || (stored && info.uncompressed_size != info.compressed_size) ||
            (info.compressed_size != 0 && info.uncompressed_size / most_inflated > info.compressed_size) ||
            (info.compressed_size == 0 && info.uncompressed_size != 0))
            damaged(path, fmt::format("the entry {} says that it has {} bytes, in {}", key, info.uncompressed_size,
                                      info.compressed_size));
        if ((info.flag & encrypted) != 0)
            fail(fmt::format("{} is an encrypted zip archive", path.string()),
                 "save the model again without a password");
        if (!entries_.emplace(key, Entry{info.uncompressed_size}).second)
            damaged(path, fmt::format("it has two entries {}", key));
        places_[key] = {at.pos_in_zip_directory, at.num_of_file};
    }
}

const ZipArchive::Entry* ZipArchive::find(const std::string& name) const {
    const auto at = entries_.find(name);
    return at == entries_.end() ? nullptr : &at->second;
}

std::optional<std::string> ZipArchive::only_with_end(std::string_view end) const {
    std::optional<std::string> found;
    for (const auto& [name, entry] : entries_) {
        if (!name.ends_with(end)) continue;
        if (found) return std::nullopt;
        found = name;
    }
    return found;
}

std::vector<std::byte> ZipArchive::read(const std::string& name, std::uint64_t offset, std::uint64_t count) const {
    const Entry* entry = find(name);
    if (entry == nullptr) damaged(path_, fmt::format("it has no entry {}", name));
    if (offset > entry->size || count > entry->size - offset)
        damaged(path_, fmt::format("{} bytes from byte {} on are asked of its entry {}, which has {}", count, offset,
                                   name, entry->size));
    const File file = opened(path_);
    const Place place = places_.at(name);
    const unz64_file_pos at{place.directory, place.number};
    if (unzGoToFilePos64(file.get(), &at) != UNZ_OK || unzOpenCurrentFile(file.get()) != UNZ_OK)
        damaged(path_, fmt::format("its entry {} cannot be read", name));
    const auto take = [&](std::byte* to, std::uint64_t wanted) {
        constexpr std::uint64_t most = 1 << 30;  // of one call
        while (wanted > 0) {
            const int got = unzReadCurrentFile(file.get(), to, static_cast<unsigned>(std::min(wanted, most)));
            if (got <= 0) damaged(path_, fmt::format("its entry {} ends too early", name));
            to += got;
            wanted -= static_cast<std::uint64_t>(got);
        }
    };
    std::vector<std::byte> out(count);
    for (std::array<std::byte, 1 << 16> skipped{}; offset > 0;) {
        const std::uint64_t part = std::min<std::uint64_t>(offset, skipped.size());
        take(skipped.data(), part);
        offset -= part;
    }
    take(out.data(), count);
    // Of an entry that was read to its end the sum of its bytes is compared.
    if (unzCloseCurrentFile(file.get()) == UNZ_CRCERROR)
        damaged(path_, fmt::format("the bytes of its entry {} are not those that were written", name));
    return out;
}

void ZipArchive::write_without(const std::function<bool(const std::string&)>& empties,
                               const std::filesystem::path& out) const {
    const auto check_written = [&](bool written) {
        if (!written) fail(fmt::format("{} cannot be written", out.string()), "check the folder and the space left");
    };
    struct CloseWritten {
        void operator()(void* file) const { zipClose(file, nullptr); }
    };
    std::unique_ptr<void, CloseWritten> file(zipOpen64(out.c_str(), APPEND_STATUS_CREATE));
    check_written(static_cast<bool>(file));
    for (const auto& [name, entry] : entries_) {
        const std::vector<std::byte> bytes = empties(name) ? std::vector<std::byte>{} : read(name, 0, entry.size);
        zip_fileinfo info{};
        constexpr int large = 1;  // sizes of 64 bits
        check_written(zipOpenNewFileInZip64(file.get(), name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr,
                                            Z_DEFLATED, Z_DEFAULT_COMPRESSION, large) == ZIP_OK);
        for (std::size_t at = 0; at < bytes.size();) {
            const std::size_t part = std::min<std::size_t>(bytes.size() - at, std::size_t{1} << 30);
            check_written(zipWriteInFileInZip(file.get(), bytes.data() + at, static_cast<unsigned>(part)) == ZIP_OK);
            at += part;
        }
        check_written(zipCloseFileInZip(file.get()) == ZIP_OK);
    }
    check_written(zipClose(file.release(), nullptr) == ZIP_OK);
}

std::string ZipArchive::text(const std::string& name) const {
    const Entry* entry = find(name);
    if (entry == nullptr) damaged(path_, fmt::format("it has no entry {}", name));
    if (entry->size > most_text)
        fail(fmt::format("the entry {} of {} has {} bytes", name, path_.string(), entry->size),
             fmt::format("an export's has {} at most: save the model again", most_text));
    const std::vector<std::byte> bytes = read(name, 0, entry->size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace thunderc

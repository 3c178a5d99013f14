// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/zip_archive.h"

#include <fmt/format.h>
#include <zip.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "checkpoint/zip_entries.h"
#include "compiler/frontend/shared/runtime_errors.h"
#include "compiler/support/error.h"
#include "support/file.h"

namespace thunderc {
namespace {

constexpr std::uint64_t most_text = std::uint64_t{1} << 28;
constexpr std::uint16_t deflated = 8;                           // a method
constexpr std::uint64_t most_at_once = std::uint64_t{1} << 30;  // zlib counts in 32 bits

[[noreturn]] void damaged(const std::filesystem::path& path, const std::string& what) {
    fail(fmt::format("{} is a damaged zip archive: {}", path.string(), what),
         "copy or download the file again, or save it again");
}

// `count` bytes behind `offset` of what these unpack to; nothing where they end before.
std::optional<std::vector<std::byte>> inflated(std::span<const std::byte> packed, std::uint64_t offset,
                                               std::uint64_t count) {
    struct Inflater : z_stream {
        Inflater() : z_stream{} { good = inflateInit2(this, -MAX_WBITS) == Z_OK; }  // without a header of its own
        ~Inflater() { inflateEnd(this); }
        Inflater(const Inflater&) = delete;
        Inflater& operator=(const Inflater&) = delete;
        bool good = false;
    } stream;
    bool good = stream.good;
    // Gives up where the bytes do not go on.
    const auto take = [&](std::byte* to, std::uint64_t wanted) {
        while (good && wanted > 0) {
            if (stream.avail_in == 0) {
                const std::span<const std::byte> part =
                    packed.first(std::min<std::size_t>(packed.size(), most_at_once));
                stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(part.data()));  // which it only reads
                stream.avail_in = static_cast<uInt>(part.size());
                packed = packed.subspan(part.size());
            }
            const auto room = static_cast<uInt>(std::min(wanted, most_at_once));
            stream.next_out = reinterpret_cast<Bytef*>(to);
            stream.avail_out = room;
            const int result = inflate(&stream, Z_NO_FLUSH);
            const std::uint64_t got = room - stream.avail_out;
            to += got;
            wanted -= got;
            good = wanted == 0 || (result == Z_OK && (got > 0 || stream.avail_in > 0 || !packed.empty()));
        }
    };
    std::array<std::byte, std::size_t{1} << 16> skipped{};
    for (std::uint64_t left = offset; good && left > 0;) {
        const std::uint64_t now = std::min<std::uint64_t>(left, skipped.size());
        take(skipped.data(), now);
        left -= now;
    }
    std::vector<std::byte> out(good ? count : 0);
    take(out.data(), count);
    return good ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

struct ZipArchive::Opened {
    explicit Opened(const std::string& path) : file(path), list(file.bytes(), path) {}

    thunder::MappedFile file;
    thunder::ZipEntries list;
};

ZipArchive::ZipArchive(const std::filesystem::path& path) : path_(path) {
    with_runtime_errors("", [&] { opened_ = std::make_shared<const Opened>(path.string()); });
    for (const auto& [name, entry] : opened_->list.all()) entries_.emplace(name, Entry{entry.size});
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
    const thunder::ZipEntries::Entry& stored = opened_->list.all().find(name)->second;
    std::vector<std::byte> out;
    if (stored.method == 0) {
        const std::span<const std::byte> part = stored.bytes.subspan(offset, count);
        out.assign(part.begin(), part.end());
    } else if (stored.method == deflated) {
        std::optional<std::vector<std::byte>> unpacked = inflated(stored.bytes, offset, count);
        if (!unpacked) damaged(path_, fmt::format("its entry {} ends too early", name));
        out = *std::move(unpacked);
    } else {
        damaged(path_, fmt::format("its entry {} is compressed as no archive of PyTorch's is", name));
    }
    opened_->file.release(stored.bytes);
    const bool whole = offset == 0 && count == entry->size;
    if (whole && crc32_z(0, reinterpret_cast<const Bytef*>(out.data()), out.size()) != stored.checksum)
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

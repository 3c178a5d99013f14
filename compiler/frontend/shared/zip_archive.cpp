// SPDX-License-Identifier: Apache-2.0
// The format: PKWARE's APPNOTE.TXT, 4.3 (the list of entries stands at the end) and 4.5.3 (64-bit numbers, which
// Debian's minizip writes and does not read).
#include "compiler/frontend/shared/zip_archive.h"

#include <fmt/format.h>
#include <zip.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <span>
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

// Bytes of a file, by where they stand in it.
class Bytes {
  public:
    explicit Bytes(const std::filesystem::path& path) : path_(path), in_(path, std::ios::binary | std::ios::ate) {
        const std::streamoff end = in_ ? static_cast<std::streamoff>(in_.tellg()) : 0;
        size_ = end < 0 ? 0 : static_cast<std::uint64_t>(end);
    }
    std::uint64_t size() const { return size_; }
    void read(std::uint64_t at, std::byte* to, std::uint64_t count) {
        if (at > size_ || count > size_ - at) damaged(path_, "it ends too early");
        in_.seekg(static_cast<std::streamoff>(at));
        if (!in_.read(reinterpret_cast<char*>(to), static_cast<std::streamsize>(count)))
            damaged(path_, "it cannot be read");
    }
    std::vector<std::byte> read(std::uint64_t at, std::uint64_t count) {
        if (at > size_ || count > size_ - at) damaged(path_, "it ends too early");
        std::vector<std::byte> out(count);
        read(at, out.data(), count);
        return out;
    }

  private:
    const std::filesystem::path& path_;
    std::ifstream in_;
    std::uint64_t size_ = 0;
};

constexpr std::uint32_t local_mark = 0x04034b50, listed_mark = 0x02014b50, end_mark = 0x06054b50,
                        end64_mark = 0x06064b50, locator64_mark = 0x07064b50, in_64_bits = 0xffffffff;
constexpr std::uint64_t local_size = 30, listed_size = 46, end_size = 22, end64_size = 56, locator64_size = 20;
constexpr std::uint16_t deflated = 8;  // a method

// Little-endian, as this code's machines are.
template <typename T>
T number(const std::vector<std::byte>& bytes, std::uint64_t at) {
    T value{};
    check(at <= bytes.size() && bytes.size() - at >= sizeof value, "a number lies within what was read");
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

struct List {
    std::uint64_t count = 0;  // of entries
    std::vector<std::byte> bytes;
};

List list_of(const std::filesystem::path& path, Bytes& file) {
    const char* const none = "it has no list of its entries, as one that was cut off";
    if (file.size() < end_size) damaged(path, none);
    // It ends in front of a comment of up to 64 KiB.
    const std::uint64_t looked_at = std::min<std::uint64_t>(file.size(), end_size + 0xffff + locator64_size);
    const std::vector<std::byte> tail = file.read(file.size() - looked_at, looked_at);
    std::optional<std::uint64_t> end;
    for (std::uint64_t at = tail.size() - end_size + 1; at-- > 0 && !end;)
        if (number<std::uint32_t>(tail, at) == end_mark &&
            at + end_size + number<std::uint16_t>(tail, at + 20) <= tail.size())
            end = at;
    if (!end) damaged(path, none);
    std::uint64_t count = number<std::uint16_t>(tail, *end + 10), size = number<std::uint32_t>(tail, *end + 12),
                  at = number<std::uint32_t>(tail, *end + 16);
    if (*end >= locator64_size && number<std::uint32_t>(tail, *end - locator64_size) == locator64_mark) {
        const std::uint64_t end64 = number<std::uint64_t>(tail, *end - locator64_size + 8);
        if (end64 > file.size() || file.size() - end64 < end64_size) damaged(path, none);
        const std::vector<std::byte> record = file.read(end64, end64_size);
        if (number<std::uint32_t>(record, 0) != end64_mark) damaged(path, none);
        count = number<std::uint64_t>(record, 32);
        size = number<std::uint64_t>(record, 40);
        at = number<std::uint64_t>(record, 48);
    }
    if (at > file.size() || size > file.size() - at || count > size / listed_size)
        damaged(path, "its list of entries lies outside of it");
    return {count, file.read(at, size)};
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

std::uint32_t checksum(std::span<const std::byte> bytes) {
    return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// `count` bytes behind `offset` of what `size` bytes at `begin` unpack to.
std::vector<std::byte> inflated(const std::filesystem::path& path, Bytes& file, std::uint64_t begin, std::uint64_t size,
                                std::uint64_t offset, std::uint64_t count, const std::string& name) {
    struct Inflater : z_stream {
        Inflater() : z_stream{} { good = inflateInit2(this, -MAX_WBITS) == Z_OK; }  // without a header of its own
        ~Inflater() { inflateEnd(this); }
        Inflater(const Inflater&) = delete;
        Inflater& operator=(const Inflater&) = delete;
        bool good = false;
    } stream;
    constexpr std::uint64_t part = std::uint64_t{1} << 16;
    std::vector<std::byte> out(count), packed;
    std::array<std::byte, part> skipped{};
    std::uint64_t taken = 0;  // of size
    bool good = stream.good;
    // Gives up where the bytes do not go on.
    const auto take = [&](std::byte* to, std::uint64_t wanted) {
        while (good && wanted > 0) {
            if (stream.avail_in == 0 && taken < size) {
                packed = file.read(begin + taken, std::min(part, size - taken));
                taken += packed.size();
                stream.next_in = reinterpret_cast<Bytef*>(packed.data());
                stream.avail_in = static_cast<uInt>(packed.size());
            }
            const auto room = static_cast<uInt>(std::min<std::uint64_t>(wanted, std::uint64_t{1} << 30));
            stream.next_out = reinterpret_cast<Bytef*>(to);
            stream.avail_out = room;
            const int result = inflate(&stream, Z_NO_FLUSH);
            const std::uint64_t got = room - stream.avail_out;
            to += got;
            wanted -= got;
            good = wanted == 0 || (result == Z_OK && (got > 0 || stream.avail_in > 0 || taken < size));
        }
    };
    for (std::uint64_t left = offset; good && left > 0;) {
        const std::uint64_t now = std::min(left, part);
        take(skipped.data(), now);
        left -= now;
    }
    take(out.data(), count);
    if (!good) damaged(path, fmt::format("its entry {} ends too early", name));
    return out;
}

}  // namespace

ZipArchive::ZipArchive(const std::filesystem::path& path) : path_(path) {
    Bytes file(path);
    const List list = list_of(path, file);
    std::uint64_t at = 0;
    for (std::uint64_t k = 0; k < list.count; ++k) {
        if (list.bytes.size() - at < listed_size || number<std::uint32_t>(list.bytes, at) != listed_mark)
            damaged(path, fmt::format("its list has {} of {} entries", k, list.count));
        const std::uint64_t name_size = number<std::uint16_t>(list.bytes, at + 28),
                            extra_size = number<std::uint16_t>(list.bytes, at + 30),
                            comment_size = number<std::uint16_t>(list.bytes, at + 32);
        const std::uint64_t behind_name = at + listed_size + name_size;
        if (list.bytes.size() - at - listed_size < name_size + extra_size + comment_size)
            damaged(path, fmt::format("entry {} of its list cannot be read", k));
        if (name_size > longest_name) damaged(path, fmt::format("the name of entry {} is too long", k));
        const std::string key(reinterpret_cast<const char*>(list.bytes.data()) + at + listed_size, name_size);
        if (leads_out(key)) damaged(path, fmt::format("an entry is called \"{}\", a path that leads out of it", key));
        Place place;
        place.method = number<std::uint16_t>(list.bytes, at + 10);
        place.checksum = number<std::uint32_t>(list.bytes, at + 16);
        place.size = number<std::uint32_t>(list.bytes, at + 20);
        place.header = number<std::uint32_t>(list.bytes, at + 42);
        std::uint64_t unpacked = number<std::uint32_t>(list.bytes, at + 24);
        // Numbers that 32 bits do not hold stand behind the name, in this order.
        for (std::uint64_t field = behind_name; field + 4 <= behind_name + extra_size;) {
            const std::uint64_t kind = number<std::uint16_t>(list.bytes, field),
                                end = field + 4 + number<std::uint16_t>(list.bytes, field + 2);
            std::uint64_t value = field + 4;
            for (std::uint64_t* one : {&unpacked, &place.size, &place.header}) {
                if (kind != 1 || *one != in_64_bits) continue;
                if (value + 8 > std::min(end, behind_name + extra_size))
                    damaged(path, fmt::format("the entry {} has no size", key));
                *one = number<std::uint64_t>(list.bytes, value);
                value += 8;
            }
            field = end;
        }
        const bool stored = place.method == 0;
        if (place.size > file.size() || (stored && unpacked != place.size) ||
            (place.size != 0 && unpacked / most_inflated > place.size) || (place.size == 0 && unpacked != 0))
            damaged(path, fmt::format("the entry {} says that it has {} bytes, in {}", key, unpacked, place.size));
        if ((number<std::uint16_t>(list.bytes, at + 8) & encrypted) != 0)
            fail(fmt::format("{} is an encrypted zip archive", path.string()),
                 "save the model again without a password");
        if (!entries_.emplace(key, Entry{unpacked}).second) damaged(path, fmt::format("it has two entries {}", key));
        places_[key] = place;
        at = behind_name + extra_size + comment_size;
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
    Bytes file(path_);
    const Place& place = places_.at(name);
    const std::vector<std::byte> header = file.read(place.header, local_size);
    if (number<std::uint32_t>(header, 0) != local_mark)
        damaged(path_, fmt::format("its entry {} is not where one is listed", name));
    const std::uint64_t begin =
        place.header + local_size + number<std::uint16_t>(header, 26) + number<std::uint16_t>(header, 28);
    const bool whole = offset == 0 && count == entry->size;
    std::vector<std::byte> out;
    if (place.method == 0) {
        out = file.read(begin + offset, count);
    } else if (place.method == deflated) {
        out = inflated(path_, file, begin, place.size, offset, count, name);
    } else {
        damaged(path_, fmt::format("its entry {} is compressed as no archive of PyTorch's is", name));
    }
    if (whole && checksum(out) != place.checksum)
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

// SPDX-License-Identifier: Apache-2.0
// The format: PKWARE's APPNOTE.TXT, 4.3 (the list of entries stands at the end) and 4.5.3 (64-bit numbers).
#include "checkpoint/zip_entries.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr std::uint32_t local_mark = 0x04034b50, listed_mark = 0x02014b50, end_mark = 0x06054b50,
                        end64_mark = 0x06064b50, locator64_mark = 0x07064b50;
constexpr std::uint64_t local_size = 30, listed_size = 46, end_size = 22, end64_size = 56, locator64_size = 20;
constexpr std::uint32_t in_64_bits = 0xffffffff;
constexpr std::uint16_t encrypted_entry = 1;  // a flag
// A byte that is deflated becomes 1032 at most; an entry that says more is made to fill memory.
constexpr std::uint64_t most_inflated = 1032;
constexpr std::size_t longest_entry_name = 4096;

// "a/../../b", "/a", "C:\\a": no archive of PyTorch's has such a name.
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

class ZipReader {
  public:
    ZipReader(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

    std::map<std::string, ZipEntries::Entry, std::less<>> read() const {
        const std::uint64_t end = end_of_list();
        std::uint64_t count = number<std::uint16_t>(end + 10), size = number<std::uint32_t>(end + 12),
                      at = number<std::uint32_t>(end + 16);
        if (end >= locator64_size && number<std::uint32_t>(end - locator64_size) == locator64_mark) {
            const std::uint64_t end64 = number<std::uint64_t>(end - locator64_size + 8);
            if (number<std::uint32_t>(end64) != end64_mark || end64 > bytes_.size() - end64_size)
                damaged("it has no list of entries");
            count = number<std::uint64_t>(end64 + 32);
            size = number<std::uint64_t>(end64 + 40);
            at = number<std::uint64_t>(end64 + 48);
        }
        if (size > bytes_.size() || at > bytes_.size() - size || count > size / listed_size)
            damaged("its list of entries lies outside of it");
        std::map<std::string, ZipEntries::Entry, std::less<>> out;
        for (std::uint64_t k = 0; k < count; ++k) {
            if (number<std::uint32_t>(at) != listed_mark) damaged("its list of entries is none");
            at = add(at, out);
        }
        return out;
    }

  private:
    [[noreturn]] void damaged(const std::string& what) const {
        throw DamagedFile(cat(path_, " is a damaged zip archive: ", what),
                          "copy or download the file again, or save it again");
    }

    // Little-endian, as this code's machines are.
    template <typename T>
    T number(std::uint64_t at) const {
        T value{};
        if (at > bytes_.size() || bytes_.size() - at < sizeof value) damaged("it ends too early");
        std::memcpy(&value, bytes_.data() + at, sizeof value);
        return value;
    }

    // What stands at the end of the archive, behind the list, with a comment of up to 64 KiB.
    std::uint64_t end_of_list() const {
        const char* const none = "it has no list of its entries, as one that was cut off";
        if (bytes_.size() < end_size) damaged(none);
        const std::uint64_t last = bytes_.size() - end_size, first = last > 0xffff ? last - 0xffff : 0;
        for (std::uint64_t at = last + 1; at-- > first;)
            if (number<std::uint32_t>(at) == end_mark &&
                at + end_size + number<std::uint16_t>(at + 20) == bytes_.size())
                return at;
        damaged(none);
    }

    // Adds the entry that is listed at `at`, and gives where the next one is.
    std::uint64_t add(std::uint64_t at, std::map<std::string, ZipEntries::Entry, std::less<>>& out) const {
        const std::uint16_t flags = number<std::uint16_t>(at + 8), method = number<std::uint16_t>(at + 10),
                            name_size = number<std::uint16_t>(at + 28), extra_size = number<std::uint16_t>(at + 30),
                            comment_size = number<std::uint16_t>(at + 32);
        const std::uint64_t name_at = at + listed_size, next = name_at + name_size + extra_size + comment_size;
        if (next > bytes_.size()) damaged("its list of entries lies outside of it");
        if (name_size > longest_entry_name) damaged("the name of an entry is too long");
        const std::string name(reinterpret_cast<const char*>(bytes_.data() + name_at), name_size);
        if (leads_out(name)) damaged(cat("an entry is called \"", name, "\", a path that leads out of it"));
        std::uint64_t unpacked = number<std::uint32_t>(at + 24), stored = number<std::uint32_t>(at + 20),
                      place = number<std::uint32_t>(at + 42);
        // Numbers that 32 bits do not hold stand behind the name, in this order.
        for (std::uint64_t field = name_at + name_size; field + 4 <= name_at + name_size + extra_size;) {
            const std::uint64_t kind = number<std::uint16_t>(field), bytes = number<std::uint16_t>(field + 2);
            std::uint64_t value = field + 4;
            for (std::uint64_t* one : {&unpacked, &stored, &place}) {
                if (kind != 1 || *one != in_64_bits) continue;
                if (value + 8 > field + 4 + bytes) damaged(cat("the entry ", name, " has no size"));
                *one = number<std::uint64_t>(value);
                value += 8;
            }
            field += 4 + bytes;
        }
        if (number<std::uint32_t>(place) != local_mark)
            damaged(cat("there is no entry ", name, " where one is listed"));
        const std::uint64_t begin =
            place + local_size + number<std::uint16_t>(place + 26) + number<std::uint16_t>(place + 28);
        if (begin > bytes_.size() || stored > bytes_.size() - begin)
            damaged(cat("the entry ", name, " ends behind it"));
        if ((flags & encrypted_entry) != 0)
            fail(cat(path_, " is an encrypted zip archive"), "save it again without a password");
        const bool possible = method == 0   ? stored == unpacked
                              : stored == 0 ? unpacked == 0
                                            : unpacked / most_inflated <= stored;
        if (!possible) damaged(cat("the entry ", name, " says that it has ", unpacked, " bytes, in ", stored));
        const ZipEntries::Entry entry{bytes_.subspan(begin, stored), unpacked, number<std::uint32_t>(at + 16), method};
        if (!out.try_emplace(name, entry).second) damaged(cat("it has two entries ", name));
        return next;
    }

    std::span<const std::byte> bytes_;
    const std::string& path_;
};

}  // namespace

ZipEntries::ZipEntries(std::span<const std::byte> archive, const std::string& path)
    : path_(path), entries_(ZipReader(archive, path).read()) {}

const ZipEntries::Entry* ZipEntries::find(std::string_view name) const {
    const auto at = entries_.find(name);
    if (at == entries_.end()) return nullptr;
    if (at->second.method != 0)
        fail(cat(path_, ": the entry ", at->first, " is compressed, which torch.save does not do"),
             "load it with torch.load and save it again with torch.save");
    return &at->second;
}

bool begins_as_zip(std::span<const std::byte> bytes) {
    constexpr std::uint32_t mark = local_mark;
    return bytes.size() >= sizeof mark && std::memcmp(bytes.data(), &mark, sizeof mark) == 0;
}

std::uint32_t crc32(std::span<const std::byte> bytes) {
    std::uint32_t crc = ~std::uint32_t{0};
    for (const std::byte byte : bytes) {
        crc ^= static_cast<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
    }
    return ~crc;
}

}  // namespace thunder

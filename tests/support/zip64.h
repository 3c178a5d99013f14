// SPDX-License-Identifier: Apache-2.0
// A zip archive whose sizes and places are numbers of 64 bits, as those above 4 GiB have them (PKWARE's APPNOTE.TXT,
// 4.3.14 to 4.3.16 and 4.5.3). Its first entry stands at the beginning, all others behind 5 GiB that are a hole in the
// file: it takes no room.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace thunderc::tests {

inline std::uint32_t checksum_of_zip(const std::string& bytes) {
    std::uint32_t crc = ~std::uint32_t{0};
    for (const char c : bytes) {
        crc ^= static_cast<unsigned char>(c);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
    }
    return ~crc;
}

inline void write_zip64(const std::filesystem::path& path,
                        const std::vector<std::pair<std::string, std::string>>& entries) {
    constexpr std::uint64_t hole = std::uint64_t{5} << 30U;
    constexpr std::uint64_t elsewhere = 0xffffffff;  // of a number of 32 bits
    const auto number = [](std::uint64_t value, int bytes) {
        std::string out;
        for (int k = 0; k < bytes; ++k) out += static_cast<char>(value >> (8 * k) & 0xff);
        return out;
    };
    std::ofstream out(path, std::ios::binary);
    std::string list;
    for (const auto& [name, content] : entries) {
        if (!list.empty() && static_cast<std::uint64_t>(out.tellp()) < hole)
            out.seekp(static_cast<std::streamoff>(hole));
        const std::uint64_t place = static_cast<std::uint64_t>(out.tellp());
        // Version 4.5, stored, at no time.
        const std::string common = number(45, 2) + number(0, 2) + number(0, 2) + number(0, 4) +
                                   number(checksum_of_zip(content), 4) + number(elsewhere, 4) + number(elsewhere, 4) +
                                   number(name.size(), 2);
        const std::string sizes = number(content.size(), 8) + number(content.size(), 8);
        out << "PK\3\4" << common << number(4 + sizes.size(), 2) << name << number(1, 2) << number(sizes.size(), 2)
            << sizes << content;
        list += "PK\1\2" + number(45, 2) + common + number(4 + sizes.size() + 8, 2) + number(0, 2) + number(0, 2) +
                number(0, 2) + number(0, 4) + number(elsewhere, 4) + name + number(1, 2) + number(sizes.size() + 8, 2) +
                sizes + number(place, 8);
    }
    const std::uint64_t begin = static_cast<std::uint64_t>(out.tellp()), end = begin + list.size();
    out << list << "PK\6\6" << number(44, 8) << number(45, 2) << number(45, 2) << number(0, 4) << number(0, 4)
        << number(entries.size(), 8) << number(entries.size(), 8) << number(list.size(), 8) << number(begin, 8);
    out << "PK\6\7" << number(0, 4) << number(end, 8) << number(1, 4);
    out << "PK\5\6" << number(0, 4) << number(0xffff, 2) << number(0xffff, 2) << number(elsewhere, 4)
        << number(elsewhere, 4) << number(0, 2);
}

}  // namespace thunderc::tests

// SPDX-License-Identifier: Apache-2.0
#include "data/fingerprint.h"

#include <algorithm>
#include <vector>

#include "support/file.h"
#include "support/philox.h"
#include "support/text.h"

namespace thunder {

std::string hex(std::uint64_t number) {
    constexpr char figures[] = "0123456789abcdef";
    std::string text(16, '0');
    for (std::size_t i = text.size(); i-- > 0; number /= 16) text[i] = figures[number % 16];
    return text;
}

std::uint64_t sampled_hash(std::span<const std::byte> bytes, std::size_t pages, std::uint64_t hash) {
    constexpr std::size_t page = 4096;
    for (std::size_t i = 0; i < pages; ++i) {
        const std::size_t begin = bytes.size() <= page ? 0 : (bytes.size() - page) / (pages - 1) * i;
        const auto part = bytes.subspan(begin, std::min(page, bytes.size() - begin));
        hash = 31 * hash + hash_text({reinterpret_cast<const char*>(part.data()), part.size()});
        if (bytes.size() <= page) break;
    }
    return hash;
}

std::string sample_of(const std::string& path) {
    const MappedFile file(path);
    return cat(file.bytes().size(), " bytes, ", hex(sampled_hash(file.bytes(), 64)));
}

namespace {

// Folders in it are looked into as deep as `depth`.
std::string sample_of_folder(const std::string& path, int depth) {
    std::string all;
    const std::vector<std::string> names = names_in(path);
    for (const std::string& name : names) {
        const std::string inner = join_path(path, name);
        if (is_file(inner)) {
            all += cat(name, sample_of(inner));
        } else if (depth > 0 && is_folder(inner)) {
            all += cat(name, "/", sample_of_folder(inner, depth - 1));
        }
    }
    return cat(names.size(), " files, ", hex(hash_text(all)));
}

}  // namespace

std::string sample_of_all(const std::string& path) {
    if (path.empty()) return "";
    if (!is_folder(path)) return sample_of(path);
    return sample_of_folder(path, 1);
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// SentencePiece's map of characters: which texts become which. A u32 with the bytes of a double array (Aoe, 1989; as
// the library Darts-clone lays it out), the array, then the texts that it leads to, each with a zero behind it.
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/error.h"
#include "tokenizers/normalizer.h"

namespace thunderc {

namespace {

class Charsmap : public Normalizer {
  public:
    Charsmap(const std::string& map, bool by_grapheme) : by_grapheme_(by_grapheme) {
        std::uint32_t size = 0;
        if (map.size() >= 4) std::memcpy(&size, map.data(), 4);
        if (map.size() < 4 || size % 4 != 0 || size > map.size() - 4 || size == 0)
            thunder::fail("the tokenizer's map of characters (precompiled_charsmap) is damaged",
                          "use the file as it was published");
        units_.resize(size / 4);
        std::memcpy(units_.data(), map.data() + 4, size);
        texts_ = map.substr(4 + size);
    }

    // What the package takes away at the beginning with its map, it does not notice.
    void apply(std::string& text, bool& /*at_start*/) const override {
        std::string mapped;
        mapped.reserve(text.size());
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t size = code_point_at(text, at).bytes;
            if (!by_grapheme_) {
                const Found found = longest(std::string_view(text).substr(at));
                if (found.length == 0) {
                    mapped.append(text, at, size);
                    at += size;
                } else {
                    mapped += text_at(found.value);
                    at += found.length;
                }
                continue;
            }
            const std::size_t end = grapheme_end(text, at);
            if (constexpr std::size_t short_cluster = 6; end - at < short_cluster) {
                if (const Found found = first(std::string_view(text).substr(at, end - at)); found.length > 0) {
                    mapped += text_at(found.value);
                    at = end;
                    continue;
                }
            }
            while (at < end) {
                const std::size_t part = code_point_at(text, at).bytes;
                if (const Found found = first(std::string_view(text).substr(at, part)); found.length > 0) {
                    mapped += text_at(found.value);
                } else {
                    mapped.append(text, at, part);
                }
                at += part;
            }
        }
        text = std::move(mapped);
    }

  private:
    struct Found {
        std::size_t length = 0;
        std::uint32_t value = 0;
    };

    std::uint32_t unit(std::size_t at) const { return at < units_.size() ? units_[at] : 0; }

    // Calls seen(length, value) for each text of the map that `text` begins with, until it returns false.
    template <typename Seen>
    void prefixes(std::string_view text, const Seen& seen) const {
        const auto offset = [](std::uint32_t u) { return std::size_t{u >> 10} << ((u & 1U << 9) >> 6); };
        std::size_t at = offset(unit(0));
        for (std::size_t i = 0; i < text.size(); ++i) {
            const auto byte = static_cast<unsigned char>(text[i]);
            if (byte == 0) return;
            at ^= byte;
            const std::uint32_t here = unit(at);
            if ((here & (1U << 31 | 0xff)) != byte) return;
            at ^= offset(here);
            const bool has_value = (here >> 8 & 1) != 0;
            if (has_value && !seen(i + 1, unit(at) & ((1U << 31) - 1))) return;
        }
    }

    // The `tokenizers` package takes the shortest text of the map that the part begins with, for all of the part.
    Found first(std::string_view part) const {
        Found found;
        prefixes(part, [&](std::size_t length, std::uint32_t value) {
            found = {length, value};
            return false;
        });
        return found;
    }

    Found longest(std::string_view text) const {
        Found found;
        prefixes(text, [&](std::size_t length, std::uint32_t value) {
            found = {length, value};
            return true;
        });
        return found;
    }

    std::string_view text_at(std::uint32_t value) const {
        if (value >= texts_.size()) return {};
        const std::size_t end = texts_.find('\0', value);
        return std::string_view(texts_).substr(value, end == std::string::npos ? end : end - value);
    }

    bool by_grapheme_;
    std::vector<std::uint32_t> units_;
    std::string texts_;
};

}  // namespace

std::unique_ptr<Normalizer> make_charsmap(std::string map, bool by_grapheme) {
    return std::make_unique<Charsmap>(map, by_grapheme);
}

}  // namespace thunderc

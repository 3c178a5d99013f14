// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "tokenizers/model.h"

namespace thunderc {

namespace {

constexpr std::size_t cache_places = std::size_t{1}
                                     << 17;  // of which half are used: with the texts, it stays in a cache
constexpr std::size_t longest_kept_word = 128;

std::uint64_t word_at(const char* from, std::size_t bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, bytes);
    return word;
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * 0x9fb21c651e98df25;
    return hash ^ hash >> 32;
}

}  // namespace

std::uint64_t hash_of_text(std::string_view text) {
    std::uint64_t hash = 0x9e3779b97f4a7c15 ^ text.size();
    while (text.size() >= 8) {
        hash = mixed(hash, word_at(text.data(), 8));
        text.remove_prefix(8);
    }
    if (!text.empty()) hash = mixed(hash, word_at(text.data(), text.size()));
    return mixed(hash, hash >> 29);
}

WordCache::WordCache() : entries_(cache_places) {}

std::size_t WordCache::place(std::uint64_t hash, std::string_view word) const {
    std::size_t at = hash & (cache_places - 1);
    while (entries_[at].length != 0) {
        const Entry& entry = entries_[at];
        if (entry.hash == hash && entry.length == word.size() &&
            std::memcmp(texts_.data() + entry.text, word.data(), word.size()) == 0)
            break;
        at = (at + 1) & (cache_places - 1);
    }
    return at;
}

std::optional<std::span<const std::uint32_t>> WordCache::find(std::string_view word) const {
    const Entry& entry = entries_[place(hash_of_text(word), word)];
    if (entry.length == 0) return std::nullopt;
    return std::span(ids_).subspan(entry.ids, entry.count);
}

void WordCache::insert(std::string_view word, std::span<const std::uint32_t> ids) {
    if (word.size() > longest_kept_word || word.empty()) return;
    if (used_ >= cache_places / 2) {
        entries_.assign(cache_places, {});
        texts_.clear();
        ids_.clear();
        used_ = 0;
    }
    const std::uint64_t hash = hash_of_text(word);
    Entry& entry = entries_[place(hash, word)];
    if (entry.length != 0) return;
    entry = {hash, static_cast<std::uint32_t>(texts_.size()), static_cast<std::uint32_t>(word.size()),
             static_cast<std::uint32_t>(ids_.size()), static_cast<std::uint32_t>(ids.size())};
    texts_.insert(texts_.end(), word.begin(), word.end());
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    ++used_;
}

std::size_t TextTable::place(std::uint64_t hash, std::string_view text) const {
    std::size_t at = hash & (entries_.size() - 1);
    while (entries_[at].used) {
        const Entry& entry = entries_[at];
        if (entry.hash == hash && std::string_view(texts_).substr(entry.text, entry.length) == text) break;
        at = (at + 1) & (entries_.size() - 1);
    }
    return at;
}

void TextTable::reserve(std::size_t count) {
    std::size_t places = 16;
    while (places < 2 * count) places *= 2;
    if (places <= entries_.size()) return;
    const std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(places));
    for (const Entry& entry : old)
        if (entry.used) entries_[place(entry.hash, std::string_view(texts_).substr(entry.text, entry.length))] = entry;
}

void TextTable::insert(std::string_view text, std::uint32_t id) {
    reserve(count_ + 1);
    const std::uint64_t hash = hash_of_text(text);
    Entry& entry = entries_[place(hash, text)];
    if (!entry.used) {
        entry = {hash, texts_.size(), static_cast<std::uint32_t>(text.size()), id, true};
        texts_ += text;
        ++count_;
    }
    entry.id = id;
}

std::optional<std::uint32_t> TextTable::find(std::string_view text) const {
    if (entries_.empty()) return std::nullopt;
    const Entry& entry = entries_[place(hash_of_text(text), text)];
    if (!entry.used) return std::nullopt;
    return entry.id;
}

}  // namespace thunderc

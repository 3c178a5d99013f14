// SPDX-License-Identifier: Apache-2.0
// What a piece of text becomes: the last stage of a tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thunderc {

// What a thread keeps between pieces, of any model; pieces seen before are looked up.
class WordCache {
  public:
    // The ids of the word, or nothing where it was not seen, or was forgotten.
    std::optional<std::span<const std::uint32_t>> find(std::string_view word) const;
    // Long words come once: they are not kept. Where there is no more room, all is forgotten.
    void insert(std::string_view word, std::span<const std::uint32_t> ids);

    WordCache();

  private:
    struct Entry {
        std::uint64_t hash = 0;
        std::uint32_t text = 0, length = 0;  // in texts_; length 0: no entry
        std::uint32_t ids = 0, count = 0;    // in ids_
    };
    std::size_t place(std::uint64_t hash, std::string_view word) const;

    std::vector<Entry> entries_;
    std::vector<char> texts_;
    std::vector<std::uint32_t> ids_;
    std::size_t used_ = 0;
};

// A hash of a text, good enough for tables.
std::uint64_t hash_of_text(std::string_view text);

// Ids by text; made once, then asked often. What is put in twice has the later id.
class TextTable {
  public:
    void reserve(std::size_t count);
    void insert(std::string_view text, std::uint32_t id);
    std::optional<std::uint32_t> find(std::string_view text) const;
    std::size_t size() const { return count_; }

  private:
    struct Entry {
        std::uint64_t hash = 0;
        std::uint64_t text = 0;
        std::uint32_t length = 0, id = 0;
        bool used = false;
    };
    std::size_t place(std::uint64_t hash, std::string_view text) const;

    std::vector<Entry> entries_;
    std::string texts_;
    std::size_t count_ = 0;
};

class Model {
  public:
    Model() = default;
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;
    virtual ~Model() = default;

    // Appends the ids of a piece that is not empty. `cache` belongs to the calling thread and to this model.
    virtual void encode(std::string_view piece, WordCache& cache, std::vector<std::uint32_t>& ids) const = 0;
};

}  // namespace thunderc

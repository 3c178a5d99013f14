// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/unigram.h"

#include <algorithm>
#include <array>
#include <limits>

#include "support/error.h"
#include "support/text.h"
#include "tokenizers/unicode.h"

namespace thunderc {

namespace {

using thunder::cat;
using thunder::fail;

// Texts by their bytes, for all that begin at one place. Children of a node lie in a table of (node, byte).
class Trie {
  public:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    explicit Trie(std::size_t nodes) {
        std::size_t places = 16;
        while (places < 2 * nodes) places *= 2;
        entries_.resize(places);
        ids_.push_back(none);
    }

    void insert(std::string_view text, std::uint32_t id) {
        std::uint32_t node = 0;
        for (const char c : text) {
            Entry& entry = entries_[place(node, c)];
            if (entry.child == 0) {
                entry = {key(node, c), static_cast<std::uint32_t>(ids_.size())};
                ids_.push_back(none);
            }
            node = entry.child;
        }
        ids_[node] = id;
    }

    // 0 where there is none.
    std::uint32_t child(std::uint32_t node, char byte) const { return entries_[place(node, byte)].child; }
    // The id of the text that ends in the node, or none.
    std::uint32_t id(std::uint32_t node) const { return ids_[node]; }

  private:
    struct Entry {
        std::uint64_t key = 0;
        std::uint32_t child = 0;
    };
    static std::uint64_t key(std::uint32_t node, char byte) {
        return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
    }
    std::size_t place(std::uint32_t node, char byte) const {
        std::uint64_t hash = key(node, byte) * 0x9fb21c651e98df25;
        hash ^= hash >> 32;
        std::size_t at = hash & (entries_.size() - 1);
        while (entries_[at].child != 0 && entries_[at].key != key(node, byte)) at = (at + 1) & (entries_.size() - 1);
        return at;
    }

    std::vector<Entry> entries_;
    std::vector<std::uint32_t> ids_;
};

std::size_t bytes_of(const UnigramSpec& spec) {
    std::size_t bytes = 1;
    for (const auto& [text, score] : spec.vocabulary) bytes += text.size();
    return bytes;
}

class Unigram : public Model {
  public:
    explicit Unigram(const UnigramSpec& spec)
        : unknown_(spec.unknown), single_(spec.single_precision), trie_(bytes_of(spec)) {
        if (unknown_ && *unknown_ >= spec.vocabulary.size())
            fail(cat("the tokenizer's unknown token is ", *unknown_, ", and its vocabulary has ",
                     spec.vocabulary.size()),
                 "use the file as it was published");
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t id = 0; id < spec.vocabulary.size(); ++id) {
            const auto& [text, score] = spec.vocabulary[id];
            table_.insert(text, static_cast<std::uint32_t>(id));
            scores_.push_back(score);
            if (!spec.reserved.empty() && spec.reserved[id]) continue;
            if (!text.empty()) trie_.insert(text, static_cast<std::uint32_t>(id));
            least = std::min(least, score);
        }
        constexpr double penalty = 10;  // of a character that is not known, as the model's authors have it
        unknown_score_ = sum(least, -penalty);
        for (std::size_t b = 0; b < 256 && spec.byte_fallback; ++b) {
            constexpr char figures[] = "0123456789ABCDEF";
            fallback_[b] = table_.find(cat("<0x", figures[b / 16], figures[b % 16], ">"));
        }
    }

    void encode(std::string_view piece, WordCache& cache, std::vector<std::uint32_t>& ids) const override {
        if (const auto known = cache.find(piece)) {
            ids.insert(ids.end(), known->begin(), known->end());
            return;
        }
        const std::size_t first = ids.size();
        search(piece, ids);
        cache.insert(piece, std::span(ids).subspan(first));
    }

  private:
    struct Best {  // of all ways to cut what ends here
        double score = 0;
        std::size_t begin = nowhere;
        std::uint32_t id = 0;  // of its last text
    };
    static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();
    struct Part {
        std::size_t begin, end;
        std::uint32_t id;
    };

    double sum(double a, double b) const { return single_ ? static_cast<float>(a + b) : a + b; }

    void search(std::string_view piece, std::vector<std::uint32_t>& ids) const {
        std::vector<Best> best(piece.size() + 1);
        const auto offer = [&](std::size_t end, double score, std::size_t begin, std::uint32_t id) {
            if (best[end].begin == nowhere || score > best[end].score) best[end] = {score, begin, id};
        };
        for (std::size_t begin = 0; begin < piece.size();) {
            const std::size_t size = code_point_at(piece, begin).bytes;
            const double so_far = best[begin].score;
            bool known = false;
            std::uint32_t node = 0;
            for (std::size_t end = begin; end < piece.size();) {
                node = trie_.child(node, piece[end]);
                if (node == 0) break;
                ++end;
                const std::uint32_t id = trie_.id(node);
                if (id == Trie::none) continue;
                offer(end, sum(scores_[id], so_far), begin, id);
                known = known || end - begin == size;
            }
            if (!known) {
                if (!unknown_)
                    fail("the tokenizer has no token for a character of a text, and none for what is unknown",
                         "choose a tokenizer that has one");
                offer(begin + size, sum(unknown_score_, so_far), begin, *unknown_);
            }
            begin += size;
        }
        std::vector<Part> parts;  // from the right; what is unknown side by side is one
        for (std::size_t end = piece.size(); end > 0; end = best[end].begin) {
            const Best& last = best[end];
            const bool fused = unknown_ && last.id == *unknown_ && !parts.empty() && parts.back().id == *unknown_;
            if (fused) {
                parts.back().begin = last.begin;
            } else {
                parts.push_back({last.begin, end, last.id});
            }
        }
        std::for_each(parts.rbegin(), parts.rend(), [&](const Part& part) {
            add_ids(piece.substr(part.begin, part.end - part.begin), part.id, ids);
        });
    }

    void add_ids(std::string_view text, std::uint32_t id, std::vector<std::uint32_t>& ids) const {
        if (!unknown_ || id != *unknown_) {
            ids.push_back(id);
            return;
        }
        const auto has_fallback = [&](char c) { return fallback_[static_cast<unsigned char>(c)].has_value(); };
        // The tokenizers package looks up what it has put together of unknown characters, SentencePiece does not.
        if (const auto known = single_ ? std::nullopt : table_.find(text)) {
            ids.push_back(*known);
        } else if (std::all_of(text.begin(), text.end(), has_fallback)) {
            for (const char c : text) ids.push_back(*fallback_[static_cast<unsigned char>(c)]);
        } else {
            ids.push_back(id);
        }
    }

    TextTable table_;
    std::optional<std::uint32_t> unknown_;
    bool single_;
    Trie trie_;
    std::vector<double> scores_;
    double unknown_score_ = 0;
    std::array<std::optional<std::uint32_t>, 256> fallback_;
};

}  // namespace

std::unique_ptr<Model> make_unigram(const UnigramSpec& spec) {
    return std::make_unique<Unigram>(spec);
}

}  // namespace thunderc

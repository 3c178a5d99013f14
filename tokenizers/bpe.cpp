// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/bpe.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <unordered_set>

#include "support/error.h"
#include "support/json.h"
#include "support/text.h"
#include "tokenizers/unicode.h"

namespace thunderc {

namespace {

using thunder::cat;
using thunder::fail;

constexpr std::uint32_t no_rank = BpeSpec::no_merge;

struct MergeRule {
    std::uint32_t rank = no_rank, result = 0;
};

// Rules by the pair that they merge.
class MergeTable {
  public:
    explicit MergeTable(std::size_t count) {
        std::size_t places = 16;
        while (places < 2 * count) places *= 2;
        entries_.resize(places);
    }

    // A pair that is learned twice has the later rank.
    void insert(std::uint32_t left, std::uint32_t right, MergeRule rule) {
        Entry& entry = entries_[place(left, right)];
        entry = {left, right, rule};
    }

    MergeRule find(std::uint32_t left, std::uint32_t right) const { return entries_[place(left, right)].rule; }

  private:
    struct Entry {
        std::uint32_t left = 0, right = 0;
        MergeRule rule;  // no_rank: no entry
    };

    std::size_t place(std::uint32_t left, std::uint32_t right) const {
        std::uint64_t hash = (std::uint64_t{left} << 32 | right) * 0x9fb21c651e98df25;
        hash ^= hash >> 32;
        std::size_t at = hash & (entries_.size() - 1);
        while (entries_[at].rule.rank != no_rank && (entries_[at].left != left || entries_[at].right != right))
            at = (at + 1) & (entries_.size() - 1);
        return at;
    }

    std::vector<Entry> entries_;
};

// Which characters a merge brings together. Where no merge joins two neighbours, no merge crosses them: what is before
// and what is behind can be encoded apart.
class Joints {
  public:
    void add(char32_t left, char32_t right) {
        if (left < ascii && right < ascii) {
            small_[left][right] = true;
        } else {
            others_.insert(std::uint64_t{left} << 32 | right);
        }
    }
    bool joined(char32_t left, char32_t right) const {
        if (left < ascii && right < ascii) return small_[left][right];
        return others_.contains(std::uint64_t{left} << 32 | right);
    }

  private:
    static constexpr char32_t ascii = 0x80;
    std::array<std::array<bool, ascii>, ascii> small_{};
    std::unordered_set<std::uint64_t> others_;
};

class Bpe : public Model {
  public:
    explicit Bpe(const BpeSpec& spec)
        : bytes_(spec.bytes),
          fuse_unknown_(spec.fuse_unknown),
          ignore_merges_(spec.ignore_merges),
          prefix_(spec.prefix),
          suffix_(spec.suffix),
          rules_(spec.merges.size()) {
        table_.reserve(spec.vocabulary.size());
        for (const auto& [text, id] : spec.vocabulary) table_.insert(text, id);
        if (!spec.unknown.empty()) {
            unknown_ = table_.find(spec.unknown);
            if (!unknown_)
                fail(cat("the tokenizer's unknown token ", spec.unknown, " is not in its vocabulary"),
                     "use the file as it was published");
        }
        for (std::size_t b = 0; b < 256; ++b) {
            const char byte = static_cast<char>(static_cast<unsigned char>(b));
            constexpr char figures[] = "0123456789ABCDEF";
            of_byte_[b] = bytes_ ? table_.find({&byte, 1}) : std::nullopt;
            fallback_[b] =
                spec.byte_fallback ? table_.find(cat("<0x", figures[b / 16], figures[b % 16], ">")) : std::nullopt;
        }
        if (spec.merges_by_text) {
            add_merges_by_text(spec);
        } else {
            add_merges(spec);
        }
        const auto is_there = [](const auto& id) { return id.has_value(); };
        const bool all_known = std::all_of(fallback_.begin(), fallback_.end(), is_there);
        const bool some_known = std::any_of(fallback_.begin(), fallback_.end(), is_there);
        const bool neighbours_matter = unknown_ && !all_known && (fuse_unknown_ || some_known);
        // What becomes no token is gone before texts are merged: merges cross it.
        const bool all_bytes = std::all_of(of_byte_.begin(), of_byte_.end(), is_there);
        const bool some_vanish = !unknown_ && !all_known && !all_bytes;
        divisible_ =
            divisible_ && !ignore_merges_ && prefix_.empty() && suffix_.empty() && !neighbours_matter && !some_vanish;
    }

    void encode(std::string_view piece, WordCache& cache, std::vector<std::uint32_t>& ids) const override {
        if (piece.size() <= short_piece || !divisible_) {
            encode_part(piece, cache, ids);
            return;
        }
        // A piece may be a whole document, where a tokenizer does not cut texts before.
        std::size_t begin = 0;
        CodePoint left = code_point_of(piece, 0);
        for (std::size_t at = left.bytes; at < piece.size();) {
            const CodePoint right = code_point_of(piece, at);
            if (!joints_.joined(left.value, right.value)) {
                encode_part(piece.substr(begin, at - begin), cache, ids);
                begin = at;
            }
            left = right;
            at += right.bytes;
        }
        encode_part(piece.substr(begin), cache, ids);
    }

  private:
    static constexpr std::size_t short_piece = 24;

    struct Symbol {
        std::uint32_t id;
        MergeRule rule;  // with the symbol behind it
    };

    CodePoint code_point_of(std::string_view text, std::size_t at) const {
        if (bytes_) return {static_cast<unsigned char>(text[at]), 1};
        return code_point_at(text, at);
    }

    void add_merges(const BpeSpec& spec) {
        std::uint32_t rank = 0;
        for (const auto& [left, right] : spec.merges) {
            const auto a = table_.find(left), b = table_.find(right);
            // What continues a word has its prefix once.
            std::string joined = left;
            const bool continues = !prefix_.empty() && right.starts_with(prefix_);
            joined += continues ? std::string_view(right).substr(prefix_.size()) : std::string_view(right);
            const auto result = table_.find(joined);
            for (const auto& [id, text] : {std::pair(a, left), std::pair(b, right), std::pair(result, joined)})
                if (!id)
                    fail(cat("the tokenizer's merge ", rank, ", of ", thunder::json_quote(left), " and ",
                             thunder::json_quote(right), ", needs ", thunder::json_quote(text),
                             ", which is not in its vocabulary"),
                         "use the file as it was published");
            add_rule(left, right, *a, *b, {rank++, *result});
        }
    }

    // Every way to cut a text in two of the vocabulary is a merge of its rank.
    void add_merges_by_text(const BpeSpec& spec) {
        std::size_t count = 0;
        const auto each_merge = [&](const auto& act) {
            for (std::size_t i = 0; i < spec.vocabulary.size(); ++i) {
                const auto& [text, id] = spec.vocabulary[i];
                const std::uint32_t rank = spec.ranks.empty() ? id : spec.ranks[i];
                for (std::size_t cut = 1; cut < text.size() && rank != no_rank; ++cut) {
                    const std::string_view left(text.data(), cut), right(text.data() + cut, text.size() - cut);
                    const auto a = table_.find(left), b = table_.find(right);
                    if (a && b) act(left, right, *a, *b, MergeRule{rank, id});
                }
            }
        };
        each_merge([&](auto, auto, auto, auto, auto) { ++count; });
        rules_ = MergeTable(count);
        each_merge([&](std::string_view left, std::string_view right, std::uint32_t a, std::uint32_t b,
                       MergeRule rule) { add_rule(left, right, a, b, rule); });
    }

    void add_rule(std::string_view left, std::string_view right, std::uint32_t a, std::uint32_t b, MergeRule rule) {
        rules_.insert(a, b, rule);
        // Texts of bytes that stand for characters say nothing of neighbours.
        const auto is_fallback = [&](std::uint32_t id) {
            return std::find(fallback_.begin(), fallback_.end(), std::optional(id)) != fallback_.end();
        };
        if (left.empty() || right.empty() || is_fallback(a) || is_fallback(b)) {
            divisible_ = false;
            return;
        }
        std::size_t last = left.size() - 1;
        while (!bytes_ && last > 0 && continues_code_point(left[last])) --last;
        joints_.add(code_point_of(left, last).value, code_point_of(right, 0).value);
    }

    void encode_part(std::string_view part, WordCache& cache, std::vector<std::uint32_t>& ids) const {
        if (const auto known = cache.find(part)) {
            ids.insert(ids.end(), known->begin(), known->end());
            return;
        }
        const std::size_t first = ids.size();
        const auto whole = ignore_merges_ ? table_.find(part) : std::nullopt;
        if (whole) {
            ids.push_back(*whole);
        } else {
            std::vector<Symbol> symbols;
            add_symbols(part, symbols);
            merge(symbols);
            for (const Symbol& symbol : symbols) ids.push_back(symbol.id);
        }
        cache.insert(part, std::span(ids).subspan(first));
    }

    void add_symbols(std::string_view part, std::vector<Symbol>& symbols) const {
        symbols.reserve(part.size());
        bool unknown = false;  // one that is put behind the symbols of bytes that follow it
        std::string decorated;
        for (std::size_t at = 0; at < part.size();) {
            const std::size_t size = code_point_of(part, at).bytes;
            std::optional<std::uint32_t> id;
            std::string_view text = part.substr(at, size);
            if (bytes_) {
                id = of_byte_[static_cast<unsigned char>(part[at])];
            } else {
                const bool first = at == 0, last = at + size == part.size();
                if ((!first && !prefix_.empty()) || (last && !suffix_.empty())) {
                    decorated = cat(first ? "" : prefix_, text, last ? suffix_ : "");
                    text = decorated;
                }
                id = table_.find(text);
            }
            at += size;
            const auto has_fallback = [&](char c) { return fallback_[static_cast<unsigned char>(c)].has_value(); };
            if (id) {
                if (unknown) symbols.push_back({*unknown_, {}});
                unknown = false;
                symbols.push_back({*id, {}});
            } else if (std::all_of(text.begin(), text.end(), has_fallback)) {
                for (const char c : text) symbols.push_back({*fallback_[static_cast<unsigned char>(c)], {}});
            } else if (unknown_) {
                if (unknown && !fuse_unknown_) symbols.push_back({*unknown_, {}});
                unknown = true;
            }
        }
        if (unknown) symbols.push_back({*unknown_, {}});
    }

    void merge(std::vector<Symbol>& symbols) const {
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
            symbols[i].rule = rules_.find(symbols[i].id, symbols[i + 1].id);
        if (symbols.size() > 48) {
            merge_many(symbols);
            return;
        }
        for (;;) {
            std::size_t best = 0;
            for (std::size_t i = 1; i + 1 < symbols.size(); ++i)
                if (symbols[i].rule.rank < symbols[best].rule.rank) best = i;
            if (symbols.size() < 2 || symbols[best].rule.rank == no_rank) return;
            symbols[best].id = symbols[best].rule.result;
            symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
            symbols[best].rule =
                best + 1 < symbols.size() ? rules_.find(symbols[best].id, symbols[best + 1].id) : MergeRule{};
            if (best > 0) symbols[best - 1].rule = rules_.find(symbols[best - 1].id, symbols[best].id);
        }
    }

    // The same with a queue, whose time does not grow with the square of a long word.
    void merge_many(std::vector<Symbol>& symbols) const {
        constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
        using Candidate = std::pair<std::uint32_t, std::size_t>;  // rank, place
        std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
        std::vector<std::size_t> before(symbols.size()), behind(symbols.size());
        std::vector<bool> gone(symbols.size());
        for (std::size_t i = 0; i < symbols.size(); ++i) {
            before[i] = i == 0 ? none : i - 1;
            behind[i] = i + 1 == symbols.size() ? none : i + 1;
            if (symbols[i].rule.rank != no_rank) queue.emplace(symbols[i].rule.rank, i);
        }
        const auto look_again = [&](std::size_t i) {
            symbols[i].rule = behind[i] == none ? MergeRule{} : rules_.find(symbols[i].id, symbols[behind[i]].id);
            if (symbols[i].rule.rank != no_rank) queue.emplace(symbols[i].rule.rank, i);
        };
        while (!queue.empty()) {
            const auto [rank, at] = queue.top();
            queue.pop();
            if (gone[at] || symbols[at].rule.rank != rank) continue;  // something was merged there meanwhile
            const std::size_t next = behind[at];
            symbols[at].id = symbols[at].rule.result;
            gone[next] = true;
            behind[at] = behind[next];
            if (behind[at] != none) before[behind[at]] = at;
            look_again(at);
            if (before[at] != none) look_again(before[at]);
        }
        std::size_t kept = 0;
        for (std::size_t i = 0; i < symbols.size(); ++i)
            if (!gone[i]) symbols[kept++] = symbols[i];
        symbols.resize(kept);
    }

    bool bytes_, fuse_unknown_, ignore_merges_;
    bool divisible_ = true;
    std::string prefix_, suffix_;
    TextTable table_;
    std::optional<std::uint32_t> unknown_;
    std::array<std::optional<std::uint32_t>, 256> of_byte_, fallback_;
    MergeTable rules_;
    Joints joints_;
};

}  // namespace

std::unique_ptr<Model> make_bpe(const BpeSpec& spec) {
    return std::make_unique<Bpe>(spec);
}

}  // namespace thunderc

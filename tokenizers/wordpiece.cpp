// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/wordpiece.h"

#include <algorithm>

#include "support/error.h"
#include "support/text.h"
#include "tokenizers/unicode.h"

namespace thunderc {

namespace {

class WordPiece : public Model {
  public:
    explicit WordPiece(const WordPieceSpec& spec)
        : prefix_(spec.prefix), longest_word_(spec.longest_word), whole_words_(spec.whole_words) {
        for (const auto& [text, id] : spec.vocabulary) {
            table_.insert(text, id);
            longest_text_ = std::max(longest_text_, text.size());
        }
        const auto unknown = table_.find(spec.unknown);
        if (!unknown)
            thunder::fail(thunder::cat("the tokenizer's unknown token ", spec.unknown, " is not in its vocabulary"),
                          "use the file as it was published");
        unknown_ = *unknown;
    }

    void encode(std::string_view piece, WordCache& cache, std::vector<std::uint32_t>& ids) const override {
        if (const auto known = cache.find(piece)) {
            ids.insert(ids.end(), known->begin(), known->end());
            return;
        }
        const std::size_t first = ids.size();
        if (whole_words_) {
            ids.push_back(table_.find(piece).value_or(unknown_));
        } else if (!cut(piece, ids)) {
            ids.resize(first);
            ids.push_back(unknown_);
        }
        cache.insert(piece, std::span(ids).subspan(first));
    }

  private:
    bool cut(std::string_view word, std::vector<std::uint32_t>& ids) const {
        const auto begins = [](char c) { return !continues_code_point(c); };
        if (static_cast<std::size_t>(std::count_if(word.begin(), word.end(), begins)) > longest_word_) return false;
        std::string text;
        for (std::size_t begin = 0; begin < word.size();) {
            text = begin > 0 ? prefix_ : "";
            const std::size_t decorated = text.size();
            text += word.substr(begin, longest_text_);
            while (text.size() > decorated && begin + text.size() - decorated < word.size() &&
                   continues_code_point(word[begin + text.size() - decorated]))
                text.pop_back();  // it was cut within a character
            std::optional<std::uint32_t> id;
            while (text.size() > decorated && !(id = table_.find(text))) {
                while (continues_code_point(text.back())) text.pop_back();
                text.pop_back();
            }
            if (!id) return false;
            ids.push_back(*id);
            begin += text.size() - decorated;
        }
        return true;
    }

    TextTable table_;
    std::string prefix_;
    std::size_t longest_word_, longest_text_ = 0;
    bool whole_words_;
    std::uint32_t unknown_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_wordpiece(const WordPieceSpec& spec) {
    return std::make_unique<WordPiece>(spec);
}

}  // namespace thunderc

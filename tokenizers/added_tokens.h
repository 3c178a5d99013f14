// SPDX-License-Identifier: Apache-2.0
// Tokens that are looked for in a text before anything else is: they are no words of the model's.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace thunderc {

struct AddedToken {
    std::uint32_t id = 0;
    std::string text;
    bool single_word = false;             // not within a word
    bool lstrip = false, rstrip = false;  // with the spaces beside it
    bool normalized = false;              // looked for in the normalised text
    bool special = false;
};

// Finds texts: the leftmost, of those the longest.
class AddedTokenFinder {
  public:
    // `text` of each is what is looked for.
    explicit AddedTokenFinder(std::vector<AddedToken> tokens);

    bool empty() const { return tokens_.empty(); }

    // Calls piece(text, id) for each part of the text in turn: id is null where the part is no token.
    template <typename Piece>
    void cut(std::string_view text, const Piece& piece) const {
        std::size_t done = 0;
        for (std::size_t at = 0; at < text.size();) {
            const Found found = next(text, at);
            if (found.token == nullptr) break;
            at = found.begin + found.token->text.size();
            std::size_t begin = found.begin, end = at;
            if (!widen(text, *found.token, done, begin, end)) continue;
            if (done < begin) piece(text.substr(done, begin - done), nullptr);
            piece(text.substr(begin, end - begin), &found.token->id);
            done = end;
        }
        if (done < text.size()) piece(text.substr(done), nullptr);
    }

  private:
    struct Found {
        const AddedToken* token = nullptr;
        std::size_t begin = 0;
    };
    struct Node {
        std::map<unsigned char, std::size_t> children;
        const AddedToken* token = nullptr;
    };

    Found next(std::string_view text, std::size_t from) const;
    // False where the token may not stand there.
    static bool widen(std::string_view text, const AddedToken& token, std::size_t least, std::size_t& begin,
                      std::size_t& end);

    std::vector<AddedToken> tokens_;
    std::vector<Node> nodes_;
    std::array<bool, 256> begins_{};
    int only_first_ = -1;  // the byte that all begin with, where there is one
};

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// WordPiece: the longest text of the vocabulary that a word begins with, then the longest that continues it; and whole
// words alone, which is the same without parts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tokenizers/model.h"

namespace thunderc {

struct WordPieceSpec {
    std::vector<std::pair<std::string, std::uint32_t>> vocabulary;
    std::string unknown = "[UNK]";
    std::string prefix = "##";       // of what continues a word
    std::size_t longest_word = 100;  // in characters; longer ones are unknown
    bool whole_words = false;
};

// Fails where the unknown token is none of the vocabulary.
std::unique_ptr<Model> make_wordpiece(const WordPieceSpec& spec);

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// The unigram language model (Kudo, "Subword regularization", 2018): of all ways to cut a piece the one whose texts
// have the greatest sum of scores, found from the left (Viterbi).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tokenizers/model.h"

namespace thunderc {

struct UnigramSpec {
    std::vector<std::pair<std::string, double>> vocabulary;  // by id
    std::optional<std::uint32_t> unknown;
    bool byte_fallback = false;
    bool single_precision = false;  // sums of scores are floats, as SentencePiece has them
    std::vector<bool> reserved;     // texts that are never found in a piece; empty: none
};

// Fails where the unknown token is none of the vocabulary. Encoding fails at a character that is not known where there
// is no unknown token.
std::unique_ptr<Model> make_unigram(const UnigramSpec& spec);

}  // namespace thunderc

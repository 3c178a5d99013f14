// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding (Sennrich et al., "Neural machine translation of rare words with subword units", 2016): the pair
// of neighbours whose merge was learned first is merged, the leftmost of equal ones, until no pair has a merge.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tokenizers/model.h"

namespace thunderc {

struct BpeSpec {
    std::vector<std::pair<std::string, std::uint32_t>> vocabulary;  // texts and ids
    std::vector<std::pair<std::string, std::string>> merges;        // the first learned first
    std::string unknown;                                            // "": what is not known is left out
    std::string prefix, suffix;                                     // of what continues a word, and of what ends one
    bool bytes = false;          // symbols are bytes: the texts hold bytes, not characters
    bool byte_fallback = false;  // a character that is no symbol becomes <0xNN> of its bytes, where all are there
    bool fuse_unknown = false;   // neighbours that are not known become one
    bool ignore_merges = false;  // a whole piece that is in the vocabulary is that
    // Merges are those of all pairs whose joined text is in the vocabulary. Their ranks are its texts' in `ranks`, one
    // for each (the same one is taken from the left); where that is empty, their ids.
    bool merges_by_text = false;
    static constexpr std::uint32_t no_merge = 0xffffffff;  // the rank of what no merge gives
    std::vector<std::uint32_t> ranks;
};

// Fails where a merge has a part that is not in the vocabulary, or gives what is not there.
std::unique_ptr<Model> make_bpe(const BpeSpec& spec);

}  // namespace thunderc

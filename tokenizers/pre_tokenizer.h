// SPDX-License-Identifier: Apache-2.0
// How a normalised text is cut into the pieces that a model encodes one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/regex.h"

namespace thunderc {

// Takes pieces in their order. `at_start`: the piece is the beginning of its text, before which no token was.
class PieceSink {
  public:
    PieceSink() = default;
    PieceSink(const PieceSink&) = delete;
    PieceSink& operator=(const PieceSink&) = delete;
    virtual ~PieceSink() = default;

    // Pieces are not empty, and last as long as the call.
    virtual void take(std::string_view piece, bool at_start) = 0;
};

class PreTokenizer {
  public:
    PreTokenizer() = default;
    PreTokenizer(const PreTokenizer&) = delete;
    PreTokenizer& operator=(const PreTokenizer&) = delete;
    virtual ~PreTokenizer() = default;

    // What cuts pieces further, for one thread; it and `next` belong together.
    virtual std::unique_ptr<PieceSink> stage(PieceSink& next) const = 0;
};
using PreTokenizers = std::vector<std::unique_ptr<PreTokenizer>>;

// What becomes of the parts of a text that a pattern finds.
enum class FoundParts : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

std::unique_ptr<PreTokenizer> make_split(Regex pattern, FoundParts found, bool invert);
using CodePointClass = bool (*)(char32_t);
std::unique_ptr<PreTokenizer> make_class_split(CodePointClass members, FoundParts found);
std::unique_ptr<PreTokenizer> make_delimiter_split(std::string delimiter);
// Words and runs of what is neither word nor space.
std::unique_ptr<PreTokenizer> make_whitespace();
std::unique_ptr<PreTokenizer> make_fixed_length(std::size_t length);

enum class PrependScheme : std::uint8_t { first, never, always };
std::unique_ptr<PreTokenizer> make_metaspace(std::string replacement, PrependScheme scheme, bool split);

// GPT-2's: a space before the text, its expression, letters for bytes: each where asked for.
std::unique_ptr<PreTokenizer> make_byte_level(bool add_prefix_space, bool use_regex, bool letters);

}  // namespace thunderc

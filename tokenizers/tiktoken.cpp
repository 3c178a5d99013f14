// SPDX-License-Identifier: Apache-2.0
// tiktoken's files: a token's bytes in base64 and its rank, a line each. How texts are cut, and which special tokens
// there are, stands in programs; here for those that are widely used.
#include <algorithm>
#include <charconv>

#include "support/error.h"
#include "support/text.h"
#include "tokenizers/bpe.h"
#include "tokenizers/json_reader.h"
#include "tokenizers/tokenizer.h"

namespace thunderc {

namespace {

using thunder::cat;
using thunder::fail;

struct Special {
    const char* text;
    std::uint32_t behind;  // the last rank
};

struct KnownPattern {
    const char* name;
    const char* pattern;
    std::vector<Special> specials;
};

// With the end of the text as \z, and what the possessive repetitions of later versions match without them.
const std::vector<KnownPattern>& known_patterns() {
    static const std::vector<KnownPattern> known = {
        {"gpt2",
         "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+\\z|\\s+(?!\\S)|\\s",
         {{"<|endoftext|>", 0}}},
        {"cl100k_base",
         "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
         "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s+\\z|\\s*[\\r\\n]|"
         "\\s+(?!\\S)|\\s",
         {{"<|endoftext|>", 1},
          {"<|fim_prefix|>", 2},
          {"<|fim_middle|>", 3},
          {"<|fim_suffix|>", 4},
          {"<|endofprompt|>", 20}}},
        {"o200k_base",
         "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'"
         "m|'ll|'d)?|"
         "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'"
         "m|'ll|'d)?|"
         "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
         {{"<|endoftext|>", 1}, {"<|endofprompt|>", 20}}},
        {"llama3",
         "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
         "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
         "\\s+(?!\\S)|\\s+",
         {{"<|begin_of_text|>", 0},
          {"<|end_of_text|>", 1},
          {"<|start_header_id|>", 6},
          {"<|end_header_id|>", 7},
          {"<|eot_id|>", 9}}},
        {"qwen2",
         "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
         "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
         "\\s+(?!\\S)|\\s+",
         {{"<|endoftext|>", 0}, {"<|im_start|>", 1}, {"<|im_end|>", 2}}}};
    return known;
}

struct Line {
    std::string_view token, rank;
};

// The next line of the text, which loses it; nothing of one that is no pair.
std::optional<Line> next_line(std::string_view& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == line.size()) return std::nullopt;
    return Line{line.substr(0, space), line.substr(space + 1)};
}

bool is_rank(std::string_view text, std::uint32_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() && number < JsonReader::most_ids;
}

}  // namespace

std::vector<std::string> tiktoken_pattern_names() {
    std::vector<std::string> names;
    for (const KnownPattern& known : known_patterns()) names.emplace_back(known.name);
    return names;
}

bool is_tiktoken(std::string_view text) {
    const std::optional<Line> first = next_line(text);
    std::uint32_t rank = 0;
    constexpr std::string_view signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    return first && is_rank(first->rank, rank) && first->token.find_first_not_of(signs) == std::string_view::npos;
}

TokenizerParts parse_tiktoken(std::string_view text, const std::string& path, const std::string& pattern) {
    if (pattern.empty())
        fail(cat(path, " has ranks of tokens, and does not say how texts are cut"),
             cat("--pattern ", thunder::list_text(tiktoken_pattern_names()), ", or a regular expression"));
    TokenizerParts parts;
    BpeSpec spec;
    spec.bytes = spec.ignore_merges = spec.merges_by_text = true;
    std::uint64_t number = 0;
    // Blank lines may stand at the end; what else is no pair there, is a line that was cut.
    while (text.find_first_not_of("\r\n") != std::string_view::npos) {
        ++number;
        const std::optional<Line> line = next_line(text);
        std::uint32_t rank = 0;
        if (!line || !is_rank(line->rank, rank))
            fail(cat(path, ":", number, " is no token in base64 and its rank"), "use the file as it was published");
        std::string bytes = decode_base64(line->token, cat(path, ":", number));
        if (rank >= parts.texts.size()) parts.texts.resize(rank + 1);
        if (!parts.texts[rank].empty())
            fail(cat(path, ":", number, ": another token has the rank ", rank), "use the file as it was published");
        for (const char c : bytes) append_utf8(parts.texts[rank], letter_of_byte(static_cast<unsigned char>(c)));
        spec.vocabulary.emplace_back(std::move(bytes), rank);
    }
    parts.model = make_bpe(spec);

    const std::vector<KnownPattern>& known = known_patterns();
    const auto named =
        std::find_if(known.begin(), known.end(), [&](const KnownPattern& k) { return pattern == k.name; });
    const auto count = static_cast<std::uint32_t>(parts.texts.size());
    parts.pre_tokenizers.push_back(
        make_split(Regex(named != known.end() ? named->pattern : pattern), FoundParts::isolated, false));
    if (named != known.end())
        for (const Special& special : named->specials) {
            AddedToken token;
            token.text = special.text;
            token.id = count + special.behind;
            token.special = true;
            if (token.id >= parts.texts.size()) parts.texts.resize(token.id + 1);
            parts.texts[token.id] = token.text;
            parts.added.push_back(std::move(token));
        }
    parts.decoders.push_back(make_byte_level_decoder());
    return parts;
}

}  // namespace thunderc

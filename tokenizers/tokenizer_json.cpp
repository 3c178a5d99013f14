// SPDX-License-Identifier: Apache-2.0
// tokenizer.json, as Hugging Face's `tokenizers` package writes it. What is not known is refused by name: a tokenizer
// that does something else than the author's is worse than none.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <utility>

#include "support/error.h"
#include "support/json.h"
#include "support/text.h"
#include "tokenizers/bpe.h"
#include "tokenizers/json_reader.h"
#include "tokenizers/tokenizer.h"
#include "tokenizers/unigram.h"
#include "tokenizers/wordpiece.h"

namespace thunderc {

namespace {

using thunder::cat;
using thunder::Json;

// The parts of a "Sequence" one by one, however deep; of anything else itself; of null nothing.
void each_of(const JsonReader& file, const Json* json, const std::string& what, const char* list,
             const std::function<void(const Json&, const std::string&)>& part) {
    if (json == nullptr || json->is(Json::Kind::null)) return;
    const std::string type = file.text(*json, "type", what);
    if (type != "Sequence") {
        part(*json, type);
        return;
    }
    for (const Json& inner : file.list(*json, list, what)) each_of(file, &inner, what, list, part);
}

// {"String": "…"} or {"Regex": "…"}
Regex pattern_of(const JsonReader& file, const Json& json, const std::string& what) {
    const Json& pattern = file.member(json, "pattern", what);
    if (pattern.is(Json::Kind::string)) return Regex::literal(pattern.string);
    if (const Json* text = pattern.find("String"); text != nullptr && text->is(Json::Kind::string))
        return Regex::literal(text->string);
    return Regex(file.text(pattern, "Regex", what));
}

FoundParts behavior_of(const JsonReader& file, const std::string& name, const std::string& what) {
    constexpr std::pair<std::string_view, FoundParts> names[] = {
        {"Removed", FoundParts::removed},
        {"Isolated", FoundParts::isolated},
        {"MergedWithPrevious", FoundParts::merged_with_previous},
        {"MergedWithNext", FoundParts::merged_with_next},
        {"Contiguous", FoundParts::contiguous}};
    for (const auto& [known, found] : names)
        if (name == known) return found;
    file.refuse(cat(what, " with the behaviour ", name));
}

PrependScheme scheme_of(const JsonReader& file, const Json& json, const std::string& what) {
    const std::string name = file.text_or(json, "prepend_scheme", "always", what);
    const bool prefixed = file.flag_or(json, "add_prefix_space", true, what);
    if (name == "never" || !prefixed) return PrependScheme::never;
    if (name == "first") return PrependScheme::first;
    if (name != "always") file.refuse(cat(what, " with the prepend_scheme ", name));
    return PrependScheme::always;
}

std::unique_ptr<Normalizer> normalizer_of(const JsonReader& file, const Json& json, const std::string& type) {
    const std::string what = cat("normalizer ", type);
    if (type == "NFC") return make_normal_form(NormalForm::nfc);
    if (type == "NFD") return make_normal_form(NormalForm::nfd);
    if (type == "NFKC") return make_normal_form(NormalForm::nfkc);
    if (type == "NFKD") return make_normal_form(NormalForm::nfkd);
    if (type == "Lowercase") return make_lowercase();
    if (type == "StripAccents") return make_strip_accents();
    if (type == "Nmt") return make_nmt();
    if (type == "ByteLevel") return make_byte_letters();
    if (type == "Strip")
        return make_strip(file.flag_or(json, "strip_left", true, what), file.flag_or(json, "strip_right", true, what));
    if (type == "Replace") return make_replace(pattern_of(file, json, what), file.text(json, "content", what));
    if (type == "Prepend") return make_prepend(file.text(json, "prepend", what));
    if (type == "Precompiled") return make_charsmap(file.base64(json, "precompiled_charsmap", what), true);
    if (type == "BertNormalizer") {
        BertNormalizerSpec spec;
        spec.clean_text = file.flag_or(json, "clean_text", true, what);
        spec.handle_chinese_chars = file.flag_or(json, "handle_chinese_chars", true, what);
        spec.lowercase = file.flag_or(json, "lowercase", true, what);
        if (const Json* strip = json.find("strip_accents"); strip != nullptr && strip->is(Json::Kind::boolean))
            spec.strip_accents = strip->boolean;
        return make_bert_normalizer(spec);
    }
    file.refuse(what);
}

// `letters`: bytes become letters, since somebody looks at them behind.
void add_pre_tokenizer(const JsonReader& file, const Json& json, const std::string& type, bool letters,
                       PreTokenizers& to) {
    const std::string what = cat("pre_tokenizer ", type);
    if (type == "ByteLevel") {
        to.push_back(make_byte_level(file.flag_or(json, "add_prefix_space", true, what),
                                     file.flag_or(json, "use_regex", true, what), letters));
    } else if (type == "Split") {
        to.push_back(make_split(pattern_of(file, json, what),
                                behavior_of(file, file.text(json, "behavior", what), what),
                                file.flag_or(json, "invert", false, what)));
    } else if (type == "Whitespace") {
        to.push_back(make_whitespace());
    } else if (type == "WhitespaceSplit") {
        to.push_back(make_class_split(is_whitespace, FoundParts::removed));
    } else if (type == "Digits") {
        const bool each = file.flag_or(json, "individual_digits", false, what);
        to.push_back(make_class_split(is_number, each ? FoundParts::isolated : FoundParts::contiguous));
    } else if (type == "Punctuation") {
        to.push_back(make_class_split(is_punctuation,
                                      behavior_of(file, file.text_or(json, "behavior", "Isolated", what), what)));
    } else if (type == "BertPreTokenizer") {
        to.push_back(make_class_split(is_whitespace, FoundParts::removed));
        to.push_back(make_class_split(is_punctuation, FoundParts::isolated));
    } else if (type == "CharDelimiterSplit") {
        to.push_back(make_delimiter_split(file.text(json, "delimiter", what)));
    } else if (type == "FixedLength") {
        to.push_back(make_fixed_length(std::max<std::uint32_t>(1, file.number(json, "length", what))));
    } else if (type == "Metaspace") {
        to.push_back(make_metaspace(file.text_or(json, "replacement", "\xe2\x96\x81", what),
                                    scheme_of(file, json, what), file.flag_or(json, "split", true, what)));
    } else {
        file.refuse(what);
    }
}

void add_decoder(const JsonReader& file, const Json& json, const std::string& type, Decoders& to) {
    const std::string what = cat("decoder ", type);
    if (type == "ByteLevel") {
        to.push_back(make_byte_level_decoder());
    } else if (type == "ByteFallback") {
        to.push_back(make_byte_fallback_decoder());
    } else if (type == "Metaspace") {
        to.push_back(make_metaspace_decoder(file.text_or(json, "replacement", "\xe2\x96\x81", what),
                                            scheme_of(file, json, what)));
    } else if (type == "WordPiece") {
        to.push_back(make_wordpiece_decoder(file.text_or(json, "prefix", "##", what),
                                            file.flag_or(json, "cleanup", true, what)));
    } else if (type == "BPEDecoder") {
        to.push_back(make_suffix_decoder(file.text_or(json, "suffix", "</w>", what)));
    } else if (type == "Replace") {
        to.push_back(make_replace_decoder(pattern_of(file, json, what), file.text(json, "content", what)));
    } else if (type == "Strip") {
        to.push_back(make_strip_decoder(file.text(json, "content", what), file.number(json, "start", what),
                                        file.number(json, "stop", what)));
    } else if (type == "Fuse") {
        to.push_back(make_fuse_decoder());
    } else {
        file.refuse(what);
    }
}

void add_special_tokens(const JsonReader& file, const Json& json, const std::string& type, TokenizerParts& parts) {
    const std::string what = cat("post_processor ", type);
    std::vector<std::uint32_t> before, behind;
    if (type == "ByteLevel") {
        return;  // it moves where tokens are said to be, not what they are
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
        for (const auto& [name, ids] : {std::pair("cls", &before), std::pair("sep", &behind)}) {
            const std::vector<Json>& pair = file.list(json, name, what);
            if (pair.size() != 2 || !pair[1].is(Json::Kind::integer)) file.damaged(cat(what, ": ", name));
            ids->push_back(static_cast<std::uint32_t>(pair[1].integer));
        }
    } else if (type == "TemplateProcessing") {
        bool behind_text = false;
        for (const Json& piece : file.list(json, "single", what)) {
            if (piece.find("Sequence") != nullptr) {
                if (behind_text) file.refuse(cat(what, " that has a text twice"));
                behind_text = true;
                continue;
            }
            const Json& tokens = file.member(json, "special_tokens", what);
            const std::string name = file.text(file.member(piece, "SpecialToken", what), "id", what);
            for (const Json& id : file.list(file.member(tokens, name, what), "ids", what))
                (behind_text ? behind : before).push_back(static_cast<std::uint32_t>(id.integer));
        }
    } else {
        file.refuse(what);
    }
    parts.before.insert(parts.before.begin(), before.begin(), before.end());
    parts.behind.insert(parts.behind.end(), behind.begin(), behind.end());
}

std::vector<std::pair<std::string, std::uint32_t>> vocabulary_of(const JsonReader& file, const Json& model) {
    std::vector<std::pair<std::string, std::uint32_t>> vocabulary;
    for (const auto& [text, id] : file.member(model, "vocab", "model").object) {
        if (!id.is(Json::Kind::integer) || id.integer < 0 || id.integer >= JsonReader::most_ids)
            file.damaged(cat("the id of ", thunder::json_quote(text)));
        vocabulary.emplace_back(text, static_cast<std::uint32_t>(id.integer));
    }
    return vocabulary;
}

void note_texts(const JsonReader& file, const std::vector<std::pair<std::string, std::uint32_t>>& vocabulary,
                std::vector<std::string>& texts) {
    for (const auto& [text, id] : vocabulary) {
        if (id >= texts.size()) texts.resize(id + 1);
        if (!texts[id].empty())
            file.damaged(
                cat("the id ", id, " of both ", thunder::json_quote(texts[id]), " and ", thunder::json_quote(text)));
        texts[id] = text;
    }
}

// Bytes in the place of their letters; what has no such letters is never found in a text of them.
void take_letters_for_bytes(BpeSpec& spec) {
    spec.bytes = true;
    decltype(spec.vocabulary) vocabulary;
    for (auto& [text, id] : spec.vocabulary)
        if (auto bytes = bytes_of_letters(text)) vocabulary.emplace_back(std::move(*bytes), id);
    spec.vocabulary = std::move(vocabulary);
    decltype(spec.merges) merges;
    for (auto& [left, right] : spec.merges) {
        auto a = bytes_of_letters(left), b = bytes_of_letters(right);
        if (a && b) merges.emplace_back(std::move(*a), std::move(*b));
    }
    spec.merges = std::move(merges);
}

BpeSpec bpe_of(const JsonReader& file, const Json& model) {
    const std::string what = "model BPE";
    if (const Json* dropout = model.find("dropout"); dropout != nullptr && dropout->real != 0)
        file.refuse("model BPE with dropout, which gives other tokens each time,");
    BpeSpec spec;
    spec.vocabulary = vocabulary_of(file, model);
    spec.unknown = file.text_or(model, "unk_token", "", what);
    spec.prefix = file.text_or(model, "continuing_subword_prefix", "", what);
    spec.suffix = file.text_or(model, "end_of_word_suffix", "", what);
    spec.byte_fallback = file.flag_or(model, "byte_fallback", false, what);
    spec.fuse_unknown = file.flag_or(model, "fuse_unk", false, what);
    spec.ignore_merges = file.flag_or(model, "ignore_merges", false, what);
    for (const Json& merge : file.list(model, "merges", what)) {
        if (merge.array.size() == 2 && merge.array[0].is(Json::Kind::string) && merge.array[1].is(Json::Kind::string)) {
            spec.merges.emplace_back(merge.array[0].string, merge.array[1].string);
            continue;
        }
        const std::string& text = merge.string;
        if (text.starts_with("#version")) continue;
        const std::size_t space = text.find(' ');
        if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
            file.damaged(cat("the merge ", spec.merges.size()));
        spec.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    }
    return spec;
}

// A score as the package reads it: the figures as a whole number, divided by a power of ten, which is not always the
// nearest number to what is written. The last bit decides between ways to cut that are equally good.
double score_of(double written) {
    if (!std::isfinite(written)) return written;
    char text[64];
    const char* const end = std::to_chars(text, text + sizeof text, written, std::chars_format::scientific).ptr;
    std::uint64_t figures = 0;
    int exponent = 0;
    bool behind_point = false;
    for (const char* c = text; c < end; ++c) {
        if (*c == 'e') {
            int power = 0;
            std::from_chars(c + (c[1] == '+' ? 2 : 1), end, power);
            exponent += power;
            break;
        }
        if (*c == '.') behind_point = true;
        if (*c < '0' || *c > '9') continue;
        figures = figures * 10 + static_cast<std::uint64_t>(*c - '0');
        exponent -= behind_point ? 1 : 0;
    }
    const std::string power = cat("1e", exponent < 0 ? -exponent : exponent);
    double ten = 1;
    std::from_chars(power.data(), power.data() + power.size(), ten);
    const double size = exponent < 0 ? static_cast<double>(figures) / ten : static_cast<double>(figures) * ten;
    return written < 0 ? -size : size;
}

std::string type_of_model(const JsonReader& file, const Json& model) {
    if (model.find("type") != nullptr) return file.text(model, "type", "model");
    if (model.find("merges") != nullptr) return "BPE";  // files of old versions do not say it
    return model.find("unk_id") != nullptr ? "Unigram" : "WordPiece";
}

void read_model(const JsonReader& file, const Json& model, bool letters_to_bytes, TokenizerParts& parts) {
    const std::string type = type_of_model(file, model);
    const std::string what = cat("model ", type);
    if (type == "BPE") {
        BpeSpec spec = bpe_of(file, model);
        note_texts(file, spec.vocabulary, parts.texts);
        if (letters_to_bytes) take_letters_for_bytes(spec);
        parts.model = make_bpe(spec);
    } else if (type == "Unigram") {
        UnigramSpec spec;
        for (const Json& entry : file.list(model, "vocab", what)) {
            if (entry.array.size() != 2 || !entry.array[0].is(Json::Kind::string))
                file.damaged(cat("the token ", spec.vocabulary.size()));
            spec.vocabulary.emplace_back(entry.array[0].string, score_of(entry.array[1].real));
            parts.texts.push_back(entry.array[0].string);
        }
        if (const Json* unknown = model.find("unk_id"); unknown != nullptr && unknown->is(Json::Kind::integer))
            spec.unknown = static_cast<std::uint32_t>(unknown->integer);
        spec.byte_fallback = file.flag_or(model, "byte_fallback", false, what);
        parts.model = make_unigram(spec);
    } else if (type == "WordPiece" || type == "WordLevel") {
        WordPieceSpec spec;
        spec.vocabulary = vocabulary_of(file, model);
        spec.unknown = file.text(model, "unk_token", what);
        spec.whole_words = type == "WordLevel";
        if (!spec.whole_words) {
            spec.prefix = file.text_or(model, "continuing_subword_prefix", "##", what);
            if (model.find("max_input_chars_per_word") != nullptr)
                spec.longest_word = file.number(model, "max_input_chars_per_word", what);
        }
        note_texts(file, spec.vocabulary, parts.texts);
        parts.model = make_wordpiece(spec);
    } else {
        file.refuse(what);
    }
}

// The package gives added tokens the ids of its own counting, whatever the file says.
void read_added_tokens(const JsonReader& file, const Json& json, TokenizerParts& parts) {
    const std::string what = "added_tokens";
    const Json* list = json.find("added_tokens");
    if (list == nullptr) return;
    std::uint32_t next = static_cast<std::uint32_t>(
        std::count_if(parts.texts.begin(), parts.texts.end(), [](const std::string& text) { return !text.empty(); }));
    for (const Json& entry : list->array) {
        AddedToken token;
        token.text = file.text(entry, "content", what);
        token.id = file.number(entry, "id", what);
        token.single_word = file.flag_or(entry, "single_word", false, what);
        token.lstrip = file.flag_or(entry, "lstrip", false, what);
        token.rstrip = file.flag_or(entry, "rstrip", false, what);
        token.special = file.flag_or(entry, "special", false, what);
        token.normalized = file.flag_or(entry, "normalized", !token.special, what);
        const auto known = std::find(parts.texts.begin(), parts.texts.end(), token.text);
        const std::uint32_t counted =
            known == parts.texts.end() ? next++ : static_cast<std::uint32_t>(known - parts.texts.begin());
        if (counted != token.id)
            thunder::fail(cat(file.path(), ": the added token ", thunder::json_quote(token.text), " has the id ",
                              token.id, ", and the tokenizers package gives it ", counted),
                          "load it with that package and save it again");
        if (token.id >= parts.texts.size()) parts.texts.resize(token.id + 1);
        parts.texts[token.id] = token.text;
        parts.added.push_back(std::move(token));
    }
}

}  // namespace

TokenizerParts parse_tokenizer_json(std::string_view text, const std::string& path) {
    const Json json = thunder::parse_json(text, path, "use the file as it was published");
    const JsonReader file(path);
    TokenizerParts parts;
    const Json& model = file.member(json, "model", "tokenizer");

    each_of(file, json.find("normalizer"), "normalizer", "normalizers", [&](const Json& part, const std::string& type) {
        parts.normalizers.push_back(normalizer_of(file, part, type));
    });
    std::vector<std::pair<const Json*, std::string>> pre_tokenizers;
    each_of(file, json.find("pre_tokenizer"), "pre_tokenizer", "pretokenizers",
            [&](const Json& part, const std::string& type) { pre_tokenizers.emplace_back(&part, type); });
    // Where letters for bytes are what the model sees, it may as well see the bytes.
    const bool bytes = !pre_tokenizers.empty() && pre_tokenizers.back().second == "ByteLevel" &&
                       type_of_model(file, model) == "BPE" && !file.flag_or(model, "byte_fallback", false, "model") &&
                       file.text_or(model, "continuing_subword_prefix", "", "model").empty() &&
                       file.text_or(model, "end_of_word_suffix", "", "model").empty() &&
                       file.text_or(model, "unk_token", "", "model").empty();
    for (const auto& [part, type] : pre_tokenizers) {
        const bool last = part == pre_tokenizers.back().first;
        add_pre_tokenizer(file, *part, type, !(bytes && last), parts.pre_tokenizers);
    }
    read_model(file, model, bytes, parts);
    read_added_tokens(file, json, parts);
    each_of(file, json.find("post_processor"), "post_processor", "processors",
            [&](const Json& part, const std::string& type) { add_special_tokens(file, part, type, parts); });
    each_of(file, json.find("decoder"), "decoder", "decoders",
            [&](const Json& part, const std::string& type) { add_decoder(file, part, type, parts.decoders); });
    parts.joined_by_spaces = parts.decoders.empty();
    return parts;
}

}  // namespace thunderc

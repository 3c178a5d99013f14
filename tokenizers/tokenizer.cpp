// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/tokenizer.h"

#include <algorithm>
#include <utility>

#include "data/fingerprint.h"
#include "support/error.h"
#include "support/file.h"
#include "support/json.h"
#include "support/text.h"

namespace thunderc {

namespace {

using thunder::cat;
using thunder::fail;

// Those that are looked for before or behind normalisation; the latter as the normalizers leave them.
std::vector<AddedToken> looked_for(const TokenizerParts& parts, bool normalized) {
    std::vector<AddedToken> tokens;
    for (AddedToken token : parts.added) {
        if (token.normalized != normalized) continue;
        bool at_start = true;
        if (normalized)
            for (const auto& normalizer : parts.normalizers) normalizer->apply(token.text, at_start);
        tokens.push_back(std::move(token));
    }
    return tokens;
}

std::string_view text_of(const thunder::MappedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts, std::string name, std::uint64_t hash)
    : parts_(std::move(parts)),
      raw_(looked_for(parts_, false)),
      normalized_(looked_for(parts_, true)),
      description_(cat(name, " ", thunder::hex(hash))) {
    // What is looked for in normalised text becomes that text again.
    for (AddedToken& token : looked_for(parts_, true))
        if (!token.text.empty()) parts_.texts[token.id] = std::move(token.text);
}

std::optional<std::uint32_t> Tokenizer::find(std::string_view token) const {
    for (const AddedToken& added : parts_.added)
        if (added.text == token) return added.id;
    const auto found = std::find(parts_.texts.begin(), parts_.texts.end(), token);
    if (found == parts_.texts.end() || token.empty()) return std::nullopt;
    return static_cast<std::uint32_t>(found - parts_.texts.begin());
}

const std::string& Tokenizer::text(std::uint32_t id) const {
    static const std::string none;
    return id < parts_.texts.size() ? parts_.texts[id] : none;
}

std::string Tokenizer::decode(std::span<const std::uint32_t> ids) const {
    std::vector<std::string> tokens;
    for (const std::uint32_t id : ids)
        if (id < parts_.texts.size() && !parts_.texts[id].empty()) tokens.push_back(parts_.texts[id]);
    for (const auto& decoder : parts_.decoders) decoder->apply(tokens);
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (i > 0 && parts_.joined_by_spaces) text += ' ';
        text += tokens[i];
    }
    return text;
}

class Encoder::ModelSink : public PieceSink {
  public:
    explicit ModelSink(const Model& model) : model_(model) {}
    void take(std::string_view piece, bool /*at_start*/) override { model_.encode(piece, cache_, *ids_); }
    void append_to(std::vector<std::uint32_t>& ids) { ids_ = &ids; }

  private:
    const Model& model_;
    WordCache cache_;
    std::vector<std::uint32_t>* ids_ = nullptr;
};

Encoder::Encoder(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), sink_(std::make_unique<ModelSink>(*tokenizer.parts_.model)), first_(sink_.get()) {
    const PreTokenizers& parts = tokenizer.parts_.pre_tokenizers;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        stages_.push_back((*part)->stage(*first_));
        first_ = stages_.back().get();
    }
}

Encoder::~Encoder() = default;

void Encoder::encode(std::string_view text, std::vector<std::uint32_t>& ids) {
    sink_->append_to(ids);
    bool at_start = true;
    const auto part = [&](std::string_view piece, const std::uint32_t* id) {
        if (id != nullptr) {
            ids.push_back(*id);
        } else {
            encode_part(piece, at_start, ids);
        }
        at_start = false;
    };
    if (tokenizer_.raw_.empty()) {
        if (!text.empty()) part(text, nullptr);
    } else {
        tokenizer_.raw_.cut(text, part);
    }
}

void Encoder::encode_part(std::string_view part, bool at_start, std::vector<std::uint32_t>& ids) {
    if (const Normalizers& normalizers = tokenizer_.parts_.normalizers; !normalizers.empty()) {
        normal_ = part;
        for (const auto& normalizer : normalizers) normalizer->apply(normal_, at_start);
        part = normal_;
    }
    const auto piece = [&](std::string_view text, const std::uint32_t* id) {
        if (id != nullptr) {
            ids.push_back(*id);
        } else if (!text.empty()) {
            first_->take(text, at_start);
        }
        at_start = false;
    };
    if (tokenizer_.normalized_.empty()) {
        piece(part, nullptr);
    } else {
        tokenizer_.normalized_.cut(part, piece);
    }
}

Tokenizer read_tokenizer(const std::string& path, const std::string& pattern) {
    if (thunder::is_folder(path)) {
        for (const char* name : {"tokenizer.json", "tokenizer.model"})
            if (const std::string file = thunder::join_path(path, name); thunder::is_file(file))
                return read_tokenizer(file, pattern);
        fail(cat("the folder ", path, " has neither a tokenizer.json nor a tokenizer.model"),
             "name the file of the tokenizer");
    }
    const thunder::MappedFile file(path);
    const std::string_view text = text_of(file);
    const std::string name = path.substr(path.rfind('/') + 1);
    const std::uint64_t hash = hash_of_text(text);
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first != std::string_view::npos && text[first] == '{')
        return Tokenizer(parse_tokenizer_json(text, path), name, hash);
    if (is_sentencepiece(text)) return Tokenizer(parse_sentencepiece(text, path), name, hash);
    if (is_tiktoken(text)) return Tokenizer(parse_tiktoken(text, path, pattern), name, hash);
    fail(cat(path, " is no tokenizer that is known here"),
         "a tokenizer.json of Hugging Face is read, or a folder with one, and tiktoken's files of ranks; transformers "
         "writes a "
         "tokenizer.json of a SentencePiece model: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)");
}

std::optional<std::string> end_token_beside(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string folder = thunder::is_folder(path)     ? path
                               : slash == std::string::npos ? "."
                                                            : path.substr(0, slash);
    for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
        const std::string config = thunder::join_path(folder, name);
        if (!thunder::is_file(config)) continue;
        const thunder::MappedFile file(config);
        const thunder::Json json = thunder::parse_json(text_of(file), config);
        const thunder::Json* end = json.find("eos_token");
        if (end != nullptr && end->is(thunder::Json::Kind::object)) end = end->find("content");
        if (end != nullptr && end->is(thunder::Json::Kind::string) && !end->string.empty()) return end->string;
    }
    return std::nullopt;
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// SentencePiece's .model: a message of Protocol Buffers, of which few fields matter. Field numbers are those of
// sentencepiece_model.proto.
#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "support/error.h"
#include "support/json.h"
#include "support/text.h"
#include "tokenizers/bpe.h"
#include "tokenizers/tokenizer.h"
#include "tokenizers/unigram.h"

namespace thunderc {

namespace {

using thunder::cat;
using thunder::fail;

constexpr std::string_view space_sign = "\xe2\x96\x81";

// Fields of a message one by one.
class Message {
  public:
    Message(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

    std::uint32_t field = 0;
    std::uint64_t number = 0;  // of varints, and of the bits of floats
    std::string_view bytes;    // of texts and messages

    bool next() {
        if (bytes_.empty()) return false;
        const std::uint64_t tag = varint();
        field = static_cast<std::uint32_t>(tag >> 3);
        switch (tag & 7) {
            case 0: number = varint(); break;
            case 1: number = fixed(8); break;
            case 2: bytes = take(varint()); break;
            case 5: number = fixed(4); break;
            default: damaged();
        }
        return true;
    }
    float real() const {
        const auto bits = static_cast<std::uint32_t>(number);
        float value = 0;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }

  private:
    [[noreturn]] void damaged() const {
        fail(cat(path_, " is damaged, or no model of SentencePiece"), "use the file as it was published");
    }
    std::string_view take(std::uint64_t size) {
        if (size > bytes_.size()) damaged();
        const std::string_view part = bytes_.substr(0, size);
        bytes_.remove_prefix(size);
        return part;
    }
    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            const auto byte = static_cast<unsigned char>(take(1)[0]);
            value |= std::uint64_t{byte & 0x7fU} << shift;
            if (byte < 0x80) return value;
        }
        damaged();
    }
    std::uint64_t fixed(std::size_t size) {
        std::uint64_t value = 0;
        std::memcpy(&value, take(size).data(), size);
        return value;
    }

    std::string_view bytes_;
    const std::string& path_;
};

enum class PieceType : std::uint8_t { none, normal, unknown, control, user_defined, unused, byte };

struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;
};

struct SentencePieceModel {
    std::vector<Piece> pieces;
    bool is_bpe = false, byte_fallback = false;
    std::string charsmap;
    bool dummy_prefix = true, remove_extra_spaces = true, escape_spaces = true;
};

SentencePieceModel parse_model(std::string_view text, const std::string& path) {
    SentencePieceModel model;
    Message message(text, path);
    std::uint64_t type = 1;
    bool space_as_suffix = false;
    while (message.next()) {
        Message inner(message.bytes, path);
        if (message.field == 1) {
            Piece piece;
            while (inner.next()) {
                if (inner.field == 1) piece.text = inner.bytes;
                if (inner.field == 2) piece.score = inner.real();
                if (inner.field == 3 && inner.number <= 6) piece.type = static_cast<PieceType>(inner.number);
            }
            model.pieces.push_back(std::move(piece));
        } else if (message.field == 2) {
            while (inner.next()) {
                if (inner.field == 3) type = inner.number;
                if (inner.field == 24) space_as_suffix = inner.number != 0;
                if (inner.field == 35) model.byte_fallback = inner.number != 0;
            }
        } else if (message.field == 3) {
            while (inner.next()) {
                if (inner.field == 2) model.charsmap = inner.bytes;
                if (inner.field == 3) model.dummy_prefix = inner.number != 0;
                if (inner.field == 4) model.remove_extra_spaces = inner.number != 0;
                if (inner.field == 5) model.escape_spaces = inner.number != 0;
            }
        }
    }
    const auto refuse = [&](const std::string& what) {
        fail(cat(path, " has ", what, ", which is not read of a SentencePiece model"),
             "take the tokenizer.json: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes one");
    };
    if (type != 1 && type != 2) refuse("a model of words or of characters");
    if (space_as_suffix) refuse("spaces as the ends of words");
    for (const Piece& piece : model.pieces) {
        if (piece.type == PieceType::user_defined)
            refuse(cat("the symbol ", thunder::json_quote(piece.text), " of its user"));
        if (piece.type == PieceType::unused) refuse("tokens that are not used");
        if (valid_utf8(piece.text) != piece.text.size()) refuse("a token that is no UTF-8");
    }
    model.is_bpe = type == 2;
    return model;
}

// Spaces at the ends and more than one go where the model was trained so; a word begins with the sign for a space.
class SentencePieceNormalizer : public Normalizer {
  public:
    explicit SentencePieceNormalizer(const SentencePieceModel& model)
        : dummy_prefix_(model.dummy_prefix),
          remove_extra_spaces_(model.remove_extra_spaces),
          escape_spaces_(model.escape_spaces) {
        if (!model.charsmap.empty()) charsmap_ = make_charsmap(model.charsmap, false);
    }

    void apply(std::string& text, bool& at_start) const override {
        if (charsmap_ != nullptr) charsmap_->apply(text, at_start);
        const std::string_view sign = escape_spaces_ ? space_sign : " ";
        std::string normal;
        const std::size_t first = remove_extra_spaces_ ? text.find_first_not_of(' ') : 0;
        if (text.empty() || first == std::string::npos) {
            text.clear();
            return;
        }
        if (dummy_prefix_) normal += sign;
        bool behind_space = remove_extra_spaces_;
        for (std::size_t at = first; at < text.size(); ++at) {
            if (text[at] != ' ') {
                normal += text[at];
                behind_space = false;
            } else if (!behind_space) {
                normal += sign;
                behind_space = remove_extra_spaces_;
            }
        }
        while (remove_extra_spaces_ && normal.ends_with(sign)) normal.resize(normal.size() - sign.size());
        text = std::move(normal);
    }

  private:
    std::unique_ptr<Normalizer> charsmap_;
    bool dummy_prefix_, remove_extra_spaces_, escape_spaces_;
};

std::unique_ptr<Model> make_model(const SentencePieceModel& model) {
    std::optional<std::uint32_t> unknown;
    for (std::size_t id = 0; id < model.pieces.size(); ++id)
        if (model.pieces[id].type == PieceType::unknown) unknown = static_cast<std::uint32_t>(id);
    if (!model.is_bpe) {
        UnigramSpec spec;
        for (const Piece& piece : model.pieces) {
            spec.vocabulary.emplace_back(piece.text, piece.score);
            spec.reserved.push_back(piece.type != PieceType::normal);
        }
        spec.unknown = unknown;
        spec.byte_fallback = model.byte_fallback;
        spec.single_precision = true;
        return make_unigram(spec);
    }
    BpeSpec spec;
    std::vector<float> scores;  // the greatest first
    for (const Piece& piece : model.pieces) scores.push_back(piece.score);
    std::sort(scores.begin(), scores.end(), std::greater<>());
    for (std::size_t id = 0; id < model.pieces.size(); ++id) {
        const Piece& piece = model.pieces[id];
        spec.vocabulary.emplace_back(piece.text, static_cast<std::uint32_t>(id));
        const auto rank =
            std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>()) - scores.begin();
        spec.ranks.push_back(piece.type == PieceType::normal ? static_cast<std::uint32_t>(rank) : BpeSpec::no_merge);
    }
    if (unknown) spec.unknown = model.pieces[*unknown].text;
    spec.byte_fallback = model.byte_fallback;
    spec.fuse_unknown = true;
    spec.merges_by_text = true;
    return make_bpe(spec);
}

}  // namespace

bool is_sentencepiece(std::string_view text) {
    // The first field is the first piece: a message whose first field is its text.
    return text.size() > 8 && text[0] == '\n' && (text[2] == '\n' || text[3] == '\n');
}

TokenizerParts parse_sentencepiece(std::string_view text, const std::string& path) {
    const SentencePieceModel model = parse_model(text, path);
    TokenizerParts parts;
    for (std::size_t id = 0; id < model.pieces.size(); ++id) {
        const Piece& piece = model.pieces[id];
        parts.texts.push_back(piece.text);
        if (piece.type != PieceType::control) continue;
        AddedToken token;
        token.id = static_cast<std::uint32_t>(id);
        token.text = piece.text;
        token.special = true;
        parts.added.push_back(std::move(token));
    }
    parts.normalizers.push_back(std::make_unique<SentencePieceNormalizer>(model));
    parts.model = make_model(model);
    parts.decoders.push_back(make_replace_decoder(Regex::literal(space_sign), " "));
    parts.decoders.push_back(make_byte_fallback_decoder());
    parts.decoders.push_back(make_fuse_decoder());
    if (model.dummy_prefix) parts.decoders.push_back(make_strip_decoder(" ", 1, 0));
    return parts;
}

}  // namespace thunderc

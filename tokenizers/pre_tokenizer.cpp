// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/pre_tokenizer.h"

#include <utility>

#include "tokenizers/normalizer.h"
#include "tokenizers/unicode.h"

namespace thunderc {

namespace {

// A text as parts side by side, some of which a pattern found, becomes pieces.
class Parts {
  public:
    Parts(FoundParts found, PieceSink& next) : found_(found), next_(next) {}

    void start(std::string_view text, bool at_start) {
        text_ = text;
        at_start_ = at_start;
        has_held_ = last_was_found_ = false;
    }

    void part(std::size_t begin, std::size_t end, bool found) {
        bool joins = false;
        switch (found_) {
            case FoundParts::removed:
                if (!found) emit(begin, end);
                return;
            case FoundParts::isolated: emit(begin, end); return;
            case FoundParts::contiguous: joins = found == last_was_found_; break;
            case FoundParts::merged_with_previous: joins = found && !last_was_found_; break;
            case FoundParts::merged_with_next: joins = !found && last_was_found_; break;
        }
        last_was_found_ = found;
        if (has_held_ && joins) {
            end_ = end;
            return;
        }
        finish();
        begin_ = begin;
        end_ = end;
        has_held_ = true;
    }

    void finish() {
        if (has_held_) emit(begin_, end_);
        has_held_ = false;
    }

  private:
    void emit(std::size_t begin, std::size_t end) {
        if (begin < end) next_.take(text_.substr(begin, end - begin), at_start_ && begin == 0);
    }

    FoundParts found_;
    PieceSink& next_;
    std::string_view text_;
    bool at_start_ = false, has_held_ = false, last_was_found_ = false;
    std::size_t begin_ = 0, end_ = 0;
};

class Split : public PreTokenizer {
  public:
    Split(Regex pattern, FoundParts found, bool invert)
        : pattern_(std::move(pattern)), found_(found), invert_(invert) {}

    class Stage : public PieceSink {
      public:
        Stage(const Split& split, PieceSink& next)
            : finder_(split.pattern_), parts_(split.found_, next), invert_(split.invert_) {}
        void take(std::string_view text, bool at_start) override {
            finder_.start(text);
            parts_.start(text, at_start);
            std::size_t last = 0;
            for (Regex::Match match; finder_.next(match); last = match.end) {
                if (last != match.begin) parts_.part(last, match.begin, invert_);
                parts_.part(match.begin, match.end, !invert_);
            }
            if (last != text.size()) parts_.part(last, text.size(), invert_);
            parts_.finish();
        }

      private:
        Regex::Finder finder_;
        Parts parts_;
        bool invert_;
    };
    std::unique_ptr<PieceSink> stage(PieceSink& next) const override { return std::make_unique<Stage>(*this, next); }

  private:
    Regex pattern_;
    FoundParts found_;
    bool invert_;
};

class ClassSplit : public PreTokenizer {
  public:
    ClassSplit(CodePointClass members, FoundParts found) : members_(members), found_(found) {}

    class Stage : public PieceSink {
      public:
        Stage(const ClassSplit& split, PieceSink& next) : members_(split.members_), parts_(split.found_, next) {}
        void take(std::string_view text, bool at_start) override {
            parts_.start(text, at_start);
            std::size_t last = 0;
            for (std::size_t at = 0; at < text.size();) {
                const CodePoint c = code_point_at(text, at);
                if (members_(c.value)) {
                    if (last < at) parts_.part(last, at, false);
                    parts_.part(at, at + c.bytes, true);
                    last = at + c.bytes;
                }
                at += c.bytes;
            }
            if (last < text.size()) parts_.part(last, text.size(), false);
            parts_.finish();
        }

      private:
        CodePointClass members_;
        Parts parts_;
    };
    std::unique_ptr<PieceSink> stage(PieceSink& next) const override { return std::make_unique<Stage>(*this, next); }

  private:
    CodePointClass members_;
    FoundParts found_;
};

class Whitespace : public PreTokenizer {
  public:
    class Stage : public PieceSink {
      public:
        explicit Stage(PieceSink& next) : next_(next) {}
        void take(std::string_view text, bool at_start) override {
            enum class Kind : std::uint8_t { space, word, other } run = Kind::space;
            std::size_t begin = 0;
            for (std::size_t at = 0; at <= text.size();) {
                const bool end = at == text.size();
                const CodePoint c = end ? CodePoint{} : code_point_at(text, at);
                const Kind kind = end || is_whitespace(c.value) ? Kind::space
                                  : is_word(c.value)            ? Kind::word
                                                                : Kind::other;
                if (end || kind != run) {
                    if (run != Kind::space && begin < at)
                        next_.take(text.substr(begin, at - begin), at_start && begin == 0);
                    begin = at;
                    run = kind;
                }
                at += c.bytes;
            }
        }

      private:
        PieceSink& next_;
    };
    std::unique_ptr<PieceSink> stage(PieceSink& next) const override { return std::make_unique<Stage>(next); }
};

class FixedLength : public PreTokenizer {
  public:
    explicit FixedLength(std::size_t length) : length_(length) {}

    class Stage : public PieceSink {
      public:
        Stage(std::size_t length, PieceSink& next) : length_(length), next_(next) {}
        void take(std::string_view text, bool at_start) override {
            for (std::size_t begin = 0; begin < text.size();) {
                std::size_t end = begin;
                for (std::size_t i = 0; i < length_ && end < text.size(); ++i) end += code_point_at(text, end).bytes;
                next_.take(text.substr(begin, end - begin), at_start && begin == 0);
                begin = end;
            }
        }

      private:
        std::size_t length_;
        PieceSink& next_;
    };
    std::unique_ptr<PieceSink> stage(PieceSink& next) const override { return std::make_unique<Stage>(length_, next); }

  private:
    std::size_t length_;
};

class Metaspace : public PreTokenizer {
  public:
    Metaspace(std::string replacement, PrependScheme scheme, bool split)
        : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

    class Stage : public PieceSink {
      public:
        Stage(const Metaspace& of, PieceSink& next)
            : of_(of), next_(next), parts_(FoundParts::merged_with_next, next) {}
        void take(std::string_view text, bool at_start) override {
            const std::string& sign = of_.replacement_;
            replaced_.clear();
            const bool wanted =
                of_.scheme_ == PrependScheme::always || (of_.scheme_ == PrependScheme::first && at_start);
            if (wanted && !text.starts_with(' ') && !text.starts_with(sign)) replaced_ += sign;
            for (const char c : text) {
                if (c == ' ') {
                    replaced_ += sign;
                } else {
                    replaced_ += c;
                }
            }
            if (!of_.split_) {
                next_.take(replaced_, at_start);
                return;
            }
            parts_.start(replaced_, at_start);
            std::size_t last = 0;
            for (std::size_t at = replaced_.find(sign); at != std::string::npos; at = replaced_.find(sign, last)) {
                if (last < at) parts_.part(last, at, false);
                last = at + sign.size();
                parts_.part(at, last, true);
            }
            if (last < replaced_.size()) parts_.part(last, replaced_.size(), false);
            parts_.finish();
        }

      private:
        const Metaspace& of_;
        PieceSink& next_;
        Parts parts_;
        std::string replaced_;
    };
    std::unique_ptr<PieceSink> stage(PieceSink& next) const override { return std::make_unique<Stage>(*this, next); }

  private:
    std::string replacement_;
    PrependScheme scheme_;
    bool split_;
};

// A space before each piece that has none, or letters for its bytes.
class Rewritten : public PreTokenizer {
  public:
    Rewritten(bool space, bool letters) : space_(space), letters_(letters) {}

    class Stage : public PieceSink {
      public:
        Stage(const Rewritten& of, PieceSink& next) : of_(of), next_(next) {}
        void take(std::string_view text, bool at_start) override {
            text_.clear();
            if (of_.space_ && !text.starts_with(' ')) text_ += ' ';
            if (of_.letters_) {
                for (const char c : text) append_utf8(text_, letter_of_byte(static_cast<unsigned char>(c)));
            } else {
                text_ += text;
            }
            next_.take(text_, at_start);
        }

      private:
        const Rewritten& of_;
        PieceSink& next_;
        std::string text_;
    };
    std::unique_ptr<PieceSink> stage(PieceSink& next) const override { return std::make_unique<Stage>(*this, next); }

  private:
    bool space_, letters_;
};

// Pre-tokenizers one behind the other, as one.
class Chain : public PreTokenizer {
  public:
    explicit Chain(PreTokenizers parts) : parts_(std::move(parts)) {}

    class Stage : public PieceSink {
      public:
        Stage(const PreTokenizers& parts, PieceSink& next) : first_(&next) {
            for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
                stages_.push_back((*part)->stage(*first_));
                first_ = stages_.back().get();
            }
        }
        void take(std::string_view text, bool at_start) override { first_->take(text, at_start); }

      private:
        std::vector<std::unique_ptr<PieceSink>> stages_;
        PieceSink* first_;
    };
    std::unique_ptr<PieceSink> stage(PieceSink& next) const override { return std::make_unique<Stage>(parts_, next); }

  private:
    PreTokenizers parts_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_split(Regex pattern, FoundParts found, bool invert) {
    return std::make_unique<Split>(std::move(pattern), found, invert);
}
std::unique_ptr<PreTokenizer> make_class_split(CodePointClass members, FoundParts found) {
    return std::make_unique<ClassSplit>(members, found);
}
std::unique_ptr<PreTokenizer> make_delimiter_split(std::string delimiter) {
    return make_split(Regex::literal(delimiter), FoundParts::removed, false);
}
std::unique_ptr<PreTokenizer> make_whitespace() {
    return std::make_unique<Whitespace>();
}
std::unique_ptr<PreTokenizer> make_fixed_length(std::size_t length) {
    return std::make_unique<FixedLength>(length);
}
std::unique_ptr<PreTokenizer> make_metaspace(std::string replacement, PrependScheme scheme, bool split) {
    return std::make_unique<Metaspace>(std::move(replacement), scheme, split);
}
std::unique_ptr<PreTokenizer> make_byte_level(bool add_prefix_space, bool use_regex, bool letters) {
    PreTokenizers parts;
    if (add_prefix_space) parts.push_back(std::make_unique<Rewritten>(true, false));
    if (use_regex)
        parts.push_back(
            make_split(Regex("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"),
                       FoundParts::isolated, false));
    if (letters) parts.push_back(std::make_unique<Rewritten>(false, true));
    return std::make_unique<Chain>(std::move(parts));
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/normalizer.h"

#include <array>
#include <utility>

namespace thunderc {

namespace {

// A text made anew of what each code point becomes.
template <typename Append>
void map_code_points(std::string& text, bool& at_start, const Append& append) {
    std::string mapped;
    mapped.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const CodePoint c = code_point_at(text, at);
        append(mapped, c.value);
        at += c.bytes;
        if (mapped.empty()) at_start = false;
    }
    text = std::move(mapped);
}

class Form : public Normalizer {
  public:
    explicit Form(NormalForm form) : form_(form) {}
    void apply(std::string& text, bool& /*at_start*/) const override { text = normal_form(text, form_); }

  private:
    NormalForm form_;
};

class Lowercase : public Normalizer {
  public:
    void apply(std::string& text, bool& at_start) const override { map_code_points(text, at_start, append_lowercase); }
};

class StripAccents : public Normalizer {
  public:
    void apply(std::string& text, bool& at_start) const override {
        map_code_points(text, at_start, [](std::string& to, char32_t c) {
            if (!is_mark(c)) append_utf8(to, c);
        });
    }
};

class Strip : public Normalizer {
  public:
    Strip(bool left, bool right) : left_(left), right_(right) {}
    void apply(std::string& text, bool& at_start) const override {
        std::size_t begin = 0, end = text.size();
        while (left_ && begin < end && is_whitespace(code_point_at(text, begin).value))
            begin += code_point_at(text, begin).bytes;
        while (right_ && end > begin) {
            std::size_t last = end - 1;
            while (last > begin && continues_code_point(text[last])) --last;
            if (!is_whitespace(code_point_at(text, last).value)) break;
            end = last;
        }
        if (begin > 0) at_start = false;
        text = text.substr(begin, end - begin);
    }

  private:
    bool left_, right_;
};

class Replace : public Normalizer {
  public:
    Replace(Regex what, std::string by) : what_(std::move(what)), by_(std::move(by)) {}
    void apply(std::string& text, bool& at_start) const override {
        Regex::Finder finder(what_);
        finder.start(text);
        Regex::Match match;
        if (!finder.next(match)) return;
        if (match.begin == 0 && match.end == 0) {
            at_start = at_start || !by_.empty();  // what is put before all stands at the start
        } else if (match.begin == 0) {            // what takes the place of many characters comes from the last of them
            at_start = at_start && !by_.empty() && match.end == code_point_at(text, 0).bytes;
        }
        std::string replaced;
        std::size_t kept = 0;
        do {
            replaced.append(text, kept, match.begin - kept);
            replaced += by_;
            kept = match.end;
        } while (finder.next(match));
        replaced.append(text, kept);
        text = std::move(replaced);
    }

  private:
    Regex what_;
    std::string by_;
};

class Prepend : public Normalizer {
  public:
    explicit Prepend(std::string text) : text_(std::move(text)) {}
    void apply(std::string& text, bool& /*at_start*/) const override {
        if (!text.empty()) text.insert(0, text_);
    }

  private:
    std::string text_;
};

// The cleaning that translation models were trained with: controls go, what separates lines and words is a space.
class Nmt : public Normalizer {
  public:
    void apply(std::string& text, bool& at_start) const override {
        map_code_points(text, at_start, [](std::string& to, char32_t c) {
            const bool goes =
                (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
            const bool space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
                               (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                               c == 0xfeff || c == 0xfffd;
            if (!goes) append_utf8(to, space ? U' ' : c);
        });
    }
};

class ByteLetters : public Normalizer {
  public:
    void apply(std::string& text, bool& /*at_start*/) const override {
        std::string letters;
        for (const char c : text) append_utf8(letters, letter_of_byte(static_cast<unsigned char>(c)));
        text = std::move(letters);
    }
};

// What BERT's authors call Chinese: the blocks of CJK ideographs.
bool is_chinese(char32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

class Bert : public Normalizer {
  public:
    explicit Bert(const BertNormalizerSpec& spec) : spec_(spec) {}
    void apply(std::string& text, bool& at_start) const override {
        map_code_points(text, at_start, [&](std::string& to, char32_t c) {
            if (spec_.clean_text) {
                const bool space = is_whitespace(c);
                if (c == 0 || c == 0xfffd || (is_other(c) && c != '\t' && c != '\n' && c != '\r')) return;
                if (space) c = ' ';
            }
            if (spec_.handle_chinese_chars && is_chinese(c)) {
                to += ' ';
                append_utf8(to, c);
                to += ' ';
            } else {
                append_utf8(to, c);
            }
        });
        if (spec_.strip_accents.value_or(spec_.lowercase)) {
            text = normal_form(text, NormalForm::nfd);
            map_code_points(text, at_start, [](std::string& to, char32_t c) {
                if (!is_nonspacing_mark(c)) append_utf8(to, c);
            });
        }
        if (spec_.lowercase) map_code_points(text, at_start, append_lowercase);
    }

  private:
    BertNormalizerSpec spec_;
};

bool is_own_letter(unsigned char byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Letters {
    std::array<char32_t, 256> of_byte{};
    std::array<int, 0x144> of_letter{};  // -1: none

    Letters() {
        of_letter.fill(-1);
        char32_t next = 0x100;
        for (int b = 0; b < 256; ++b) {
            const auto byte = static_cast<unsigned char>(b);
            const char32_t letter = is_own_letter(byte) ? static_cast<char32_t>(byte) : next++;
            of_byte[byte] = letter;
            of_letter[letter] = b;
        }
    }
};
const Letters letters;

}  // namespace

char32_t letter_of_byte(unsigned char byte) {
    return letters.of_byte[byte];
}

std::optional<unsigned char> byte_of_letter(char32_t letter) {
    if (letter >= letters.of_letter.size() || letters.of_letter[letter] < 0) return std::nullopt;
    return static_cast<unsigned char>(letters.of_letter[letter]);
}

std::optional<std::string> bytes_of_letters(std::string_view text) {
    std::string bytes;
    for (std::size_t at = 0; at < text.size();) {
        const CodePoint c = code_point_at(text, at);
        const auto byte = byte_of_letter(c.value);
        if (!byte) return std::nullopt;
        bytes += static_cast<char>(*byte);
        at += c.bytes;
    }
    return bytes;
}

std::unique_ptr<Normalizer> make_normal_form(NormalForm form) {
    return std::make_unique<Form>(form);
}
std::unique_ptr<Normalizer> make_lowercase() {
    return std::make_unique<Lowercase>();
}
std::unique_ptr<Normalizer> make_strip_accents() {
    return std::make_unique<StripAccents>();
}
std::unique_ptr<Normalizer> make_strip(bool left, bool right) {
    return std::make_unique<Strip>(left, right);
}
std::unique_ptr<Normalizer> make_replace(Regex what, std::string by) {
    return std::make_unique<Replace>(std::move(what), std::move(by));
}
std::unique_ptr<Normalizer> make_prepend(std::string text) {
    return std::make_unique<Prepend>(std::move(text));
}
std::unique_ptr<Normalizer> make_nmt() {
    return std::make_unique<Nmt>();
}
std::unique_ptr<Normalizer> make_byte_letters() {
    return std::make_unique<ByteLetters>();
}
std::unique_ptr<Normalizer> make_bert_normalizer(const BertNormalizerSpec& spec) {
    return std::make_unique<Bert>(spec);
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "support/error.h"
#include "support/text.h"
#include "tokenizers/unicode.h"

namespace thunderc {

namespace {

using thunder::cat;
using thunder::fail;

constexpr std::string_view white_space =
    "\\x{9}-\\x{d} \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"
    "\\x{202f}\\x{205f}\\x{3000}";
constexpr std::string_view no_white_space =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}!-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}"
    "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";
constexpr std::string_view word = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";

pcre2_code* compile(const std::string& pattern, int* error, std::size_t* at) {
    // Tokenizers' own expressions look at the lines of the whole text: ^ and $ are of each.
    constexpr std::uint32_t options =
        PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C;
    return pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, error, at, nullptr);
}

bool compiles(const std::string& pattern) {
    int error = 0;
    std::size_t at = 0;
    pcre2_code* code = compile(pattern, &error, &at);
    pcre2_code_free(code);
    return code != nullptr;
}

class Translation {
  public:
    explicit Translation(const std::string& pattern) : pattern_(pattern) {}

    std::string run() {
        while (at_ < pattern_.size()) {
            const char c = pattern_[at_];
            if (c == '\\') {
                escape(false);
            } else if (c == '[') {
                character_class();
            } else if (c == '(') {
                group();
            } else if (c == ')') {
                close_options();
                out_ += c;
                ++at_;
                if (!options_.empty()) options_.pop_back();
            } else if (c == '{') {
                interval();
            } else if (c == '}') {
                out_ += c;
                ++at_;
                if (at_ < pattern_.size() && pattern_[at_] == '+') refuse("a repetition {n,m} with a + behind it");
            } else {
                out_ += c;
                ++at_;
            }
        }
        close_options();
        return std::move(out_);
    }

  private:
    [[noreturn]] void refuse(const std::string& what) const {
        fail(cat("the regular expression ", pattern_, " has ", what, ", which is not read here"),
             "tokenize the text with the tokenizer's own package, and pack the ids: --format npy");
    }

    void group() {
        const std::string_view rest = std::string_view(pattern_).substr(at_);
        // It is of all that stands behind it in its group, alternatives as well: a(?i)b|c is a(?i:b|c).
        if (constexpr std::string_view option = "(?i)"; rest.starts_with(option)) {
            out_ += "(?i:";
            at_ += option.size();
            ++(options_.empty() ? all_options_ : options_.back());
            return;
        }
        for (const std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"})
            if (rest.starts_with(known)) {
                out_ += known;
                at_ += known.size();
                options_.push_back(0);
                return;
            }
        if (rest.starts_with("(?")) refuse(cat("the group ", rest.substr(0, 4)));
        out_ += '(';
        ++at_;
        options_.push_back(0);
    }

    // Ends the groups that options of the innermost group became.
    void close_options() {
        std::size_t& count = options_.empty() ? all_options_ : options_.back();
        out_.append(std::exchange(count, 0), ')');
    }

    // At a brace. {,n} is {0,n}, and text to some versions of PCRE2.
    void interval() {
        out_ += '{';
        ++at_;
        std::size_t end = at_ + 1;
        while (end < pattern_.size() && std::isdigit(static_cast<unsigned char>(pattern_[end])) != 0) ++end;
        const bool figures = at_ < pattern_.size() && pattern_[at_] == ',' && end > at_ + 1;
        if (figures && end < pattern_.size() && pattern_[end] == '}') out_ += '0';
    }

    // At a backslash.
    void escape(bool in_class) {
        if (at_ + 1 == pattern_.size()) refuse("a backslash at its end");
        const char c = pattern_[at_ + 1];
        at_ += 2;
        const auto put_class = [&](std::string_view inside) {
            if (in_class) {
                out_ += inside;
            } else {
                out_ += cat("[", inside, "]");
            }
        };
        switch (c) {
            case 's': put_class(white_space); return;
            case 'S': put_class(no_white_space); return;
            case 'w': put_class(word); return;
            case 'W':
                if (in_class) refuse("\\W between brackets");
                out_ += cat("[^", word, "]");
                return;
            case 'v': out_ += "\\x{b}"; return;
            case 'p':
            case 'P': property(c); return;
            case 'd':
            case 'D':
            case 'r':
            case 'n':
            case 't':
            case 'f':
            case 'a':
            case 'e':
            case 'x':
            case 'A':
            case 'z':
            case 'Z': out_ += {'\\', c}; return;
            default:  // \b among them: what a word is, is another thing to PCRE2
                if (std::isalnum(static_cast<unsigned char>(c)) != 0) refuse(cat("\\", c));
                out_ += {'\\', c};
        }
    }

    // Behind \p or \P: {Name}, {^Name}.
    void property(char c) {
        const std::size_t end = pattern_.find('}', at_);
        if (at_ >= pattern_.size() || pattern_[at_] != '{' || end == std::string::npos)
            refuse("a \\p without a name in braces");
        std::string name = pattern_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
        bool negated = c == 'P';
        if (name.starts_with('^')) {
            negated = !negated;
            name.erase(0, 1);
        }
        // The name of a script alone is more to PCRE2: all characters that are used with it.
        if (name.size() > 2 && compiles(cat("\\p{sc:", name, "}"))) name = cat("sc:", name);
        const std::string spelled = cat(negated ? "\\P{" : "\\p{", name, "}");
        if (!compiles(spelled)) refuse(cat("the property ", name));
        out_ += spelled;
    }

    void character_class() {
        out_ += '[';
        ++at_;
        if (at_ < pattern_.size() && pattern_[at_] == '^') {
            out_ += '^';
            ++at_;
        }
        for (bool first = true;; first = false) {
            if (at_ >= pattern_.size()) refuse("a [ that is not closed");
            const char c = pattern_[at_];
            if (c == ']' && !first) break;
            if (c == '[') refuse("a class within a class");
            if (c == '&' && pattern_.compare(at_, 2, "&&") == 0) refuse("an intersection of classes (&&)");
            if (c == '\\') {
                escape(true);
            } else {
                out_ += c;
                ++at_;
            }
        }
        out_ += ']';
        ++at_;
    }

    const std::string& pattern_;
    std::size_t at_ = 0;
    std::string out_;
    std::vector<std::size_t> options_;  // (?i) in each open group
    std::size_t all_options_ = 0;       // outside of groups
};

}  // namespace

std::string pcre2_pattern(const std::string& oniguruma_pattern) {
    return Translation(oniguruma_pattern).run();
}

struct Regex::Code {
    explicit Code(pcre2_code* c) : code(c) {}
    Code(const Code&) = delete;
    Code& operator=(const Code&) = delete;
    ~Code() { pcre2_code_free(code); }

    pcre2_code* code;
    bool compiled = false;  // to machine code
};

Regex::Regex(const std::string& pattern) {
    if (const std::size_t valid = valid_utf8(pattern); valid != pattern.size())
        fail(cat("a regular expression of the tokenizer is no UTF-8 at byte ", valid));
    int error = 0;
    std::size_t at = 0;
    pcre2_code* code = compile(pcre2_pattern(pattern), &error, &at);
    if (code == nullptr) {
        PCRE2_UCHAR text[256];
        pcre2_get_error_message(error, text, sizeof text);
        fail(cat("the regular expression ", pattern, " is not understood: ", reinterpret_cast<const char*>(text)));
    }
    auto made = std::make_shared<Code>(code);
    made->compiled = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
    code_ = std::move(made);
}

Regex Regex::literal(std::string_view text) {
    Regex regex;
    regex.literal_ = text;
    return regex;
}

// What a thread matches in.
struct Regex::Finder::Room {
    explicit Room(const pcre2_code* code)
        : data(pcre2_match_data_create_from_pattern(code, nullptr)),
          context(pcre2_match_context_create(nullptr)),
          stack(pcre2_jit_stack_create(32 << 10, 64 << 20, nullptr)) {
        pcre2_jit_stack_assign(context, nullptr, stack);
    }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    ~Room() {
        pcre2_match_data_free(data);
        pcre2_match_context_free(context);
        pcre2_jit_stack_free(stack);
    }

    pcre2_match_data* data;
    pcre2_match_context* context;
    pcre2_jit_stack* stack;
};

Regex::Finder::Finder(const Regex& regex) : regex_(&regex) {
    if (regex.code_ != nullptr) room_ = std::make_unique<Room>(regex.code_->code);
}

Regex::Finder::Finder(Finder&&) noexcept = default;
Regex::Finder::~Finder() = default;

void Regex::Finder::start(std::string_view text) {
    text_ = text;
    at_ = 0;
    last_end_ = static_cast<std::size_t>(-1);
}

bool Regex::Finder::search(std::size_t from, Match& match) {
    if (regex_->code_ == nullptr) {
        const std::size_t begin =
            regex_->literal_.empty() ? std::string_view::npos : text_.find(regex_->literal_, from);
        match = {begin, begin + regex_->literal_.size()};
        return begin != std::string_view::npos;
    }
    const Code& code = *regex_->code_;
    const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
    const int found =
        code.compiled
            ? pcre2_jit_match(code.code, subject, text_.size(), from, 0, room_->data, room_->context)
            : pcre2_match(code.code, subject, text_.size(), from, PCRE2_NO_UTF_CHECK, room_->data, room_->context);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
        PCRE2_UCHAR text[256];
        pcre2_get_error_message(found, text, sizeof text);
        fail(cat("a regular expression of the tokenizer gives up on a text: ", reinterpret_cast<const char*>(text)),
             "leave out the document, or cut it into parts");
    }
    if (found < 0) return false;
    const PCRE2_SIZE* const offsets = pcre2_get_ovector_pointer(room_->data);
    match = {offsets[0], std::max(offsets[0], offsets[1])};
    return true;
}

bool Regex::Finder::next(Match& match) {
    while (at_ <= text_.size() && search(at_, match)) {
        if (match.begin == match.end && match.end == last_end_) {
            if (at_ >= text_.size()) return false;
            at_ += code_point_at(text_, at_).bytes;
            continue;
        }
        at_ = last_end_ = match.end;
        return true;
    }
    return false;
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/torchscript/lexer.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc::torchscript {
namespace {

constexpr std::size_t deepest_brackets = 200;  // blocks and brackets within one another

constexpr std::array<std::string_view, 10> two_signs = {"->", "==", "!=", "<=", ">=", "//", "**", "<<", ">>", "+="};
constexpr std::string_view signs = "()[]{}:,.=+-*/%<>@&|^~";

bool begins_name(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_digit(char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

class Lexer {
  public:
    Lexer(const std::string& path, const std::string& code) : path_(path), code_(code) {}

    std::vector<Token> run() {
        while (at_ < code_.size()) {
            if (begins_line_ && brackets_ == 0) {
                indentation();
                continue;
            }
            word();
        }
        if (brackets_ != 0) fail_in_code(path_, line_, "a bracket is not closed");
        end_line();
        while (blocks_.size() > 1) {
            blocks_.pop_back();
            add(Token::Kind::block_end, "");
        }
        add(Token::Kind::end, "");
        return std::move(out_);
    }

  private:
    void add(Token::Kind kind, std::string text) { out_.push_back({kind, std::move(text), line_}); }
    char next(std::size_t ahead = 0) const { return at_ + ahead < code_.size() ? code_[at_ + ahead] : '\0'; }

    void end_line() {
        if (!out_.empty() && out_.back().kind != Token::Kind::line_end && out_.back().kind != Token::Kind::block_end &&
            out_.back().kind != Token::Kind::block_begin)
            add(Token::Kind::line_end, "");
    }

    // What stands before the first word of a line says to which block it belongs.
    void indentation() {
        std::size_t width = 0;
        while (next() == ' ' || next() == '\t') {
            ++width;
            ++at_;
        }
        if (next() == '\n' || next() == '\r' || next() == '#' || at_ >= code_.size()) return skip_line();
        begins_line_ = false;
        if (width > blocks_.back()) {
            if (blocks_.size() > deepest_brackets) fail_in_code(path_, line_, "its blocks are nested too deeply");
            blocks_.push_back(width);
            return add(Token::Kind::block_begin, "");
        }
        while (width < blocks_.back()) {
            blocks_.pop_back();
            add(Token::Kind::block_end, "");
        }
        if (width != blocks_.back()) fail_in_code(path_, line_, "a line is indented as no other one");
    }

    void skip_line() {
        while (at_ < code_.size() && code_[at_] != '\n') ++at_;
        if (at_ < code_.size()) ++at_;
        ++line_;
    }

    void word() {
        const char c = next();
        if (c == '\n') {
            if (brackets_ == 0) {
                end_line();
                begins_line_ = true;
            }
            ++line_;
            ++at_;
        } else if (c == ' ' || c == '\t' || c == '\r') {
            ++at_;
        } else if (c == '#') {
            while (at_ < code_.size() && code_[at_] != '\n') ++at_;
        } else if (begins_name(c)) {
            const std::size_t begin = at_;
            while (begins_name(next()) || is_digit(next())) ++at_;
            add(Token::Kind::name, code_.substr(begin, at_ - begin));
        } else if (is_digit(c) || (c == '.' && is_digit(next(1)))) {
            number();
        } else if (c == '"' || c == '\'') {
            text(c);
        } else {
            sign();
        }
    }

    void number() {
        const std::size_t begin = at_;
        bool whole = true;
        while (is_digit(next()) || next() == '.' || next() == 'e' || next() == 'E' ||
               ((next() == '-' || next() == '+') && at_ > begin && (code_[at_ - 1] == 'e' || code_[at_ - 1] == 'E'))) {
            whole = whole && is_digit(next());
            ++at_;
        }
        if (next() == 'j') fail_in_code(path_, line_, "it has a complex number");
        add(whole ? Token::Kind::integer : Token::Kind::number, code_.substr(begin, at_ - begin));
    }

    void text(char quote) {
        std::string out;
        for (++at_;; ++at_) {
            if (at_ >= code_.size() || code_[at_] == '\n') fail_in_code(path_, line_, "a text is not closed");
            if (code_[at_] == quote) break;
            if (code_[at_] != '\\') {
                out += code_[at_];
                continue;
            }
            ++at_;
            out += escaped();
        }
        ++at_;
        add(Token::Kind::text, std::move(out));
    }

    // Behind a backslash: a letter, or the three octal digits in which torch writes other bytes.
    char escaped() {
        const char c = next();
        if (c >= '0' && c <= '7') {
            int code = 0;
            std::size_t count = 0;
            for (; count < 3 && next(count) >= '0' && next(count) <= '7'; ++count)
                code = code * 8 + (next(count) - '0');
            at_ += count - 1;
            return static_cast<char>(code);
        }
        switch (c) {
            case 'n': return '\n';
            case 't': return '\t';
            case 'r': return '\r';
            case 'a': return '\a';
            case 'b': return '\b';
            case 'f': return '\f';
            case 'v': return '\v';
            default: return c;
        }
    }

    void sign() {
        const char c = next();
        for (const std::string_view two : two_signs)
            if (c == two[0] && next(1) == two[1]) {
                at_ += 2;
                return add(Token::Kind::sign, std::string(two));
            }
        if (signs.find(c) == std::string_view::npos)
            fail_in_code(path_, line_,
                         fmt::format("a character 0x{:02x} is no part of TorchScript", static_cast<unsigned char>(c)));
        if (c == '(' || c == '[' || c == '{') {
            if (++brackets_ > deepest_brackets) fail_in_code(path_, line_, "its expressions are nested too deeply");
        } else if (c == ')' || c == ']' || c == '}') {
            if (brackets_ == 0) fail_in_code(path_, line_, "a bracket is closed that is not open");
            --brackets_;
        }
        ++at_;
        add(Token::Kind::sign, std::string(1, c));
    }

    const std::string& path_;
    const std::string& code_;
    std::vector<Token> out_;
    std::vector<std::size_t> blocks_ = {0};
    std::size_t at_ = 0, brackets_ = 0;
    int line_ = 1;
    bool begins_line_ = true;
};

}  // namespace

void fail_in_code(const std::string& path, int line, const std::string& what) {
    Diagnostic d;
    d.message = fmt::format("the code of the archive is none that torch.jit.save writes: {}", what);
    d.node = fmt::format("{}:{}", path, line);
    d.help = "save the model again with torch.jit.save";
    throw UserError(std::move(d));
}

std::vector<Token> tokens_of(const std::string& path, const std::string& code) {
    return Lexer(path, code).run();
}

}  // namespace thunderc::torchscript

// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/pt2/shape_expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

namespace thunderc::pt2_frontend {
namespace {

using Number = std::optional<std::int64_t>;

constexpr int deepest_expression = 64;  // parentheses and signs within others

std::int64_t floor_of(std::int64_t a, std::int64_t b) {
    const std::int64_t quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// What overflows, or divides by 0, is no number.
Number combine(char op, Number a, Number b) {
    std::int64_t out = 0;
    if (!a || !b) return std::nullopt;
    switch (op) {
        case '+': return __builtin_add_overflow(*a, *b, &out) ? Number() : out;
        case '-': return __builtin_sub_overflow(*a, *b, &out) ? Number() : out;
        case '*': return __builtin_mul_overflow(*a, *b, &out) ? Number() : out;
        case '^':  // a to the power b
            if (*b < 0 || *b > 62) return std::nullopt;
            out = 1;
            for (std::int64_t k = 0; k < *b; ++k)
                if (__builtin_mul_overflow(out, *a, &out)) return std::nullopt;
            return out;
        default: break;
    }
    if (*b == 0 || (*b == -1 && *a == INT64_MIN)) return std::nullopt;
    if (op == '%') return *a - *b * floor_of(*a, *b);
    if (op == '|') return floor_of(*a, *b);                // floor division
    return *a % *b == 0 ? Number(*a / *b) : std::nullopt;  // '/': a whole quotient
}

Number call(std::string_view name, const std::vector<Number>& of) {
    if (std::any_of(of.begin(), of.end(), [](const Number& n) { return !n; })) return std::nullopt;
    if ((name == "Add" || name == "Mul") && !of.empty()) {
        Number out = of[0];
        for (std::size_t k = 1; k < of.size(); ++k) out = combine(name == "Add" ? '+' : '*', out, of[k]);
        return out;
    }
    if (name == "Max" && !of.empty()) return *std::max_element(of.begin(), of.end());
    if (name == "Min" && !of.empty()) return *std::min_element(of.begin(), of.end());
    if (of.size() == 2) {
        if (name == "FloorDiv") return combine('|', of[0], of[1]);
        if (name == "CleanDiv" || name == "IntTrueDiv") return combine('/', of[0], of[1]);
        if (name == "CeilDiv") return combine('-', 0, combine('|', combine('-', 0, of[0]), of[1]));
        if (name == "Mod" || name == "PythonMod") return combine('%', of[0], of[1]);
        if (name == "PowByNatural" || name == "Pow") return combine('^', of[0], of[1]);
    }
    if (of.size() == 1 && (name == "Identity" || name == "Integer" || name == "TruncToInt" || name == "ToFloat"))
        return of[0];
    return std::nullopt;
}

class Parser {
  public:
    // `asked` gets the names of all symbols.
    Parser(std::string_view text, const std::map<std::string, std::int64_t>& symbols,
           std::set<std::string>* asked = nullptr)
        : text_(text), symbols_(symbols), asked_(asked) {}

    Number run() {
        const Number out = sum();
        skip();
        return at_ == text_.size() && !failed_ ? out : std::nullopt;
    }

  private:
    void skip() {
        while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    }
    bool take(std::string_view word) {
        skip();
        if (!text_.substr(at_).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }

    Number sum() {
        Number out = product();
        for (;;) {
            if (take("+"))
                out = combine('+', out, product());
            else if (take("-"))
                out = combine('-', out, product());
            else
                return out;
        }
    }

    Number product() {
        Number out = sign();
        for (;;) {
            if (take("//"))
                out = combine('|', out, sign());
            else if (take("/"))
                out = combine('/', out, sign());
            else if (take("%"))
                out = combine('%', out, sign());
            else if (!is_next("**") && take("*"))
                out = combine('*', out, sign());
            else
                return out;
        }
    }

    bool is_next(std::string_view word) {
        skip();
        return text_.substr(at_).starts_with(word);
    }

    Number sign() {
        if (++depth_ > deepest_expression) return fail();
        Number out;
        if (take("-")) {
            out = combine('-', 0, sign());
        } else {
            out = atom();
            if (take("**")) out = combine('^', out, sign());
        }
        --depth_;
        return out;
    }

    Number atom() {
        if (take("(")) {
            const Number out = sum();
            return take(")") ? out : fail();
        }
        skip();
        std::size_t end = at_;
        while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '_'))
            ++end;
        const std::string word(text_.substr(at_, end - at_));
        at_ = end;
        if (word.empty()) return fail();
        if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) {
            std::int64_t value = 0;
            const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
            return error == std::errc() && stop == word.data() + word.size() ? Number(value) : fail();
        }
        if (!take("(")) return value_of(word);
        if (word == "Symbol") return symbol();
        std::vector<Number> of;
        do of.push_back(sum());
        while (take(","));
        return take(")") ? call(word, of) : fail();
    }

    // Behind "Symbol(": its name in quotes, and what is assumed of it.
    Number symbol() {
        if (!take("'")) return fail();
        const std::size_t end = text_.find('\'', at_), close = text_.find(')', at_);
        if (end == std::string_view::npos || close == std::string_view::npos || close < end) return fail();
        const std::string name(text_.substr(at_, end - at_));
        at_ = close + 1;
        return value_of(name);
    }

    Number value_of(const std::string& name) {
        if (asked_ != nullptr) asked_->insert(name);
        const auto known = symbols_.find(name);
        return known == symbols_.end() ? Number() : known->second;
    }

    Number fail() {
        failed_ = true;
        text_ = {};
        at_ = 0;
        return std::nullopt;
    }

    std::string_view text_;
    const std::map<std::string, std::int64_t>& symbols_;
    std::set<std::string>* asked_;
    std::size_t at_ = 0;
    int depth_ = 0;
    bool failed_ = false;
};

}  // namespace

std::optional<std::int64_t> evaluate(std::string_view expression, const std::map<std::string, std::int64_t>& symbols) {
    return Parser(expression, symbols).run();
}

std::string Linear::text() const {
    std::string out = factor == 1 ? symbol : fmt::format("{}*{}", factor, symbol);
    if (offset != 0) out += fmt::format("{:+}", offset);
    return out;
}

std::optional<std::int64_t> Linear::solve(std::int64_t value) const {
    const Number rest = combine('-', value, offset);
    return rest && *rest >= 0 && *rest % factor == 0 ? Number(*rest / factor) : std::nullopt;
}

std::optional<Linear> linear_form(std::string_view expression) {
    std::set<std::string> asked;
    static_cast<void>(Parser(expression, {}, &asked).run());
    if (asked.size() != 1) return std::nullopt;
    Linear out;
    out.symbol = *asked.begin();
    const auto at = [&](std::int64_t value) { return evaluate(expression, {{out.symbol, value}}); };
    const Number none = at(0), one = at(1), factor = combine('-', one, none);
    if (!factor || *factor < 1) return std::nullopt;
    out.factor = *factor;
    out.offset = *none;
    // What else grows so: a quotient, a maximum.
    for (const std::int64_t value : {2, 3, 1000, 1001})
        if (at(value) != combine('+', combine('*', factor, value), none)) return std::nullopt;
    return out;
}

std::optional<std::string> symbol_of(std::string_view expression) {
    constexpr std::string_view begin = "Symbol('";
    if (expression.starts_with(begin)) {
        expression.remove_prefix(begin.size());
        const std::size_t end = expression.find('\'');
        if (end == std::string_view::npos || expression.find(')') != expression.size() - 1) return std::nullopt;
        expression = expression.substr(0, end);
    }
    const bool plain = !expression.empty() && std::isdigit(static_cast<unsigned char>(expression[0])) == 0 &&
                       std::all_of(expression.begin(), expression.end(),
                                   [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    return plain ? std::optional<std::string>(expression) : std::nullopt;
}

}  // namespace thunderc::pt2_frontend

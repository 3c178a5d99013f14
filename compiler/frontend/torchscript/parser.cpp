// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "compiler/frontend/torchscript/lexer.h"
#include "compiler/frontend/torchscript/syntax.h"

namespace thunderc::torchscript {
namespace {

// What is within one another, of which a bracket counts four times; and operators in a row, which make a tree as well.
constexpr int deepest_code = 400, longest_chain = 32;

// Operators of two operands by how they bind, the loosest first.
constexpr std::array<std::array<std::string_view, 8>, 5> binary_signs = {{
    {"==", "!=", "<=", ">=", "<", ">", "is", "in"},
    {"|", "^", "&", "", "", "", "", ""},
    {"<<", ">>", "", "", "", "", "", ""},
    {"+", "-", "", "", "", "", "", ""},
    {"*", "/", "//", "%", "@", "", "", ""},
}};

class Parser {
  public:
    Parser(const std::string& path, std::vector<Token> tokens) : path_(path), tokens_(std::move(tokens)) {}

    FileCode file() {
        FileCode out;
        out.path = path_;
        while (now().kind != Token::Kind::end) {
            if (takes("class"))
                out.classes.push_back(class_code());
            else if (takes("def"))
                out.functions.push_back(function());
            else
                wrong("a class or a function is expected");
        }
        return out;
    }

  private:
    // Stands on the way down: what is nested too deeply overflows no stack.
    class Level {
      public:
        explicit Level(Parser& parser) : parser_(parser) {
            if (++parser_.level_ > deepest_code) parser_.wrong("it is nested too deeply");
        }
        ~Level() { --parser_.level_; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;

      private:
        Parser& parser_;
    };

    // ---- tokens ----
    const Token& now() const { return tokens_[at_]; }
    [[noreturn]] void wrong(const std::string& what) const { fail_in_code(path_, now().line, what); }
    bool is(std::string_view text) const {
        return (now().kind == Token::Kind::name || now().kind == Token::Kind::sign) && now().text == text;
    }
    bool takes(std::string_view text) {
        if (!is(text)) return false;
        ++at_;
        return true;
    }
    bool takes(Token::Kind kind) {
        if (now().kind != kind) return false;
        ++at_;
        return true;
    }
    void expect(std::string_view text) {
        if (!takes(text)) wrong(fmt::format("\"{}\" is expected", text));
    }
    std::string name() {
        if (now().kind != Token::Kind::name) wrong("a name is expected");
        return tokens_[at_++].text;
    }
    void end_of_line() {
        if (!takes(Token::Kind::line_end)) wrong("the end of the line is expected");
    }

    // A type as its words: "Optional[Tensor]", "__torch__.zoo_models.MLP".
    std::string type() {
        std::string out;
        for (std::size_t open = 0;;) {
            if (now().kind == Token::Kind::line_end || now().kind == Token::Kind::end) break;
            if (open == 0 && (is(",") || is(")") || is("=") || is(":"))) break;
            if (is("[") || is("(")) ++open;
            if (is("]") || is(")")) {
                if (open == 0) break;
                --open;
            }
            out += now().text;
            ++at_;
        }
        return out;
    }

    // ---- classes and functions ----
    std::vector<std::string> texts_of(const Expr& list) const {
        std::vector<std::string> out;
        for (const Expr& item : list.items) out.push_back(item.text);
        return out;
    }

    ClassCode class_code() {
        ClassCode out;
        out.line = now().line;
        out.name = name();
        if (takes("(")) {
            out.base = type();
            expect(")");
        }
        expect(":");
        end_of_line();
        if (!takes(Token::Kind::block_begin)) wrong("a class has no body");
        while (!takes(Token::Kind::block_end)) {
            if (takes("def")) {
                out.methods.push_back(function());
            } else if (takes("pass")) {
                end_of_line();
            } else {
                attribute(out);
            }
        }
        return out;
    }

    // "weight : Tensor", "p : Final[float] = 0.1", "__parameters__ = [...]", "__annotations__["0"] = type".
    void attribute(ClassCode& out) {
        Parameter made;
        made.name = name();
        if (made.name == "__annotations__" && takes("[")) {
            made.name = tokens_[at_++].text;
            expect("]");
            expect("=");
            made.type = type();
        } else if (takes(":")) {
            made.type = type();
            if (takes("=")) {
                made.optional = true;
                made.otherwise = expression();
            }
        } else {
            expect("=");
            const Expr value = expression();
            if (made.name == "__parameters__") out.parameters = texts_of(value);
            if (made.name == "__buffers__") out.buffers = texts_of(value);
            return end_of_line();
        }
        end_of_line();
        out.attributes.push_back(std::move(made));
    }

    FunctionCode function() {
        FunctionCode out;
        out.line = now().line;
        out.name = name();
        expect("(");
        while (!takes(")")) {
            if (takes("*")) wrong("arguments without a number of them");
            Parameter& p = out.parameters.emplace_back();
            p.name = name();
            if (takes(":")) p.type = type();
            if (takes("=")) {
                p.optional = true;
                p.otherwise = expression();
            }
            if (!is(")")) expect(",");
        }
        if (takes("->")) out.result = type();
        expect(":");
        end_of_line();
        out.body = block();
        return out;
    }

    std::vector<Statement> block() {
        const Level level(*this);
        if (!takes(Token::Kind::block_begin)) wrong("a block is expected");
        std::vector<Statement> out;
        while (!takes(Token::Kind::block_end)) out.push_back(statement());
        return out;
    }

    // ---- statements ----
    Statement statement() {
        Statement out;
        out.line = now().line;
        if (takes("if")) return condition(out);
        if (takes("while")) return with_body(out, Statement::Kind::repeat);
        if (takes("with")) return with_body(out, Statement::Kind::within);
        if (takes("for")) {
            out.targets.push_back(postfix());
            while (takes(",")) out.targets.push_back(postfix());
            out.unpacks = out.targets.size() > 1;
            expect("in");
            return with_body(out, Statement::Kind::each);
        }
        if (takes("pass")) {
            end_of_line();
            return out;
        }
        if (takes("return")) {
            out.kind = Statement::Kind::give_back;
            if (now().kind != Token::Kind::line_end) out.value = items_of_line();
            end_of_line();
            return out;
        }
        for (const char* other : {"class", "def", "try", "raise", "assert", "del", "import", "from", "global", "lambda",
                                  "yield", "break", "continue"})
            if (is(other)) wrong(fmt::format("\"{}\" within a function", other));
        return assignment(out);
    }

    Statement condition(Statement& out) {
        out.kind = Statement::Kind::condition;
        out.value = expression();
        expect(":");
        end_of_line();
        out.body = block();
        if (takes("elif")) {
            const Level level(*this);
            Statement& other = out.otherwise.emplace_back();
            other.line = now().line;
            condition(other);
        } else if (takes("else")) {
            expect(":");
            end_of_line();
            out.otherwise = block();
        }
        return std::move(out);
    }

    Statement with_body(Statement& out, Statement::Kind kind) {
        out.kind = kind;
        out.value = expression();
        if (kind == Statement::Kind::within && takes("as")) out.targets.push_back(postfix());
        expect(":");
        end_of_line();
        out.body = block();
        return std::move(out);
    }

    // "a = x", "a : T = x", "a, b, = x", "a, b = x, y", or an expression by itself.
    Statement assignment(Statement& out) {
        Expr first = expression();
        const bool typed = takes(":");
        if (typed) static_cast<void>(type());
        std::vector<Expr> targets = {std::move(first)};
        bool several = false;
        while (takes(",")) {
            several = true;
            if (is("=")) break;
            targets.push_back(expression());
        }
        if (!takes("=")) {
            if (several || typed) wrong("names without what they become");
            out.kind = Statement::Kind::evaluate;
            out.value = std::move(targets.front());
            end_of_line();
            return std::move(out);
        }
        for (const Expr& target : targets)
            if (target.kind != Expr::Kind::name && target.kind != Expr::Kind::attribute &&
                target.kind != Expr::Kind::subscript)
                wrong("something is written to that is no name");
        out.kind = Statement::Kind::assign;
        out.targets = std::move(targets);
        out.unpacks = several;
        out.value = items_of_line();
        end_of_line();
        return std::move(out);
    }

    // One expression, or several as a tuple.
    Expr items_of_line() {
        Expr first = expression();
        if (!is(",")) return first;
        Expr out;
        out.kind = Expr::Kind::tuple;
        out.line = first.line;
        out.items.push_back(std::move(first));
        while (takes(","))
            if (now().kind != Token::Kind::line_end) out.items.push_back(expression());
        return out;
    }

    // ---- expressions ----
    Expr expression() {
        const Level level(*this);
        Expr out = disjunction();
        if (!takes("if")) return out;
        Expr choice = of(Expr::Kind::choice);
        Expr condition = disjunction();
        expect("else");
        choice.items = {std::move(condition), std::move(out), expression()};
        return choice;
    }

    Expr of(Expr::Kind kind, std::string text = "") const {
        Expr out;
        out.kind = kind;
        out.text = std::move(text);
        out.line = now().line;
        return out;
    }

    Expr both(Expr left, std::string sign, Expr right) const {
        Expr out = of(Expr::Kind::binary, std::move(sign));
        out.line = left.line;
        out.items.push_back(std::move(left));
        out.items.push_back(std::move(right));
        return out;
    }

    Expr disjunction() {
        Expr out = conjunction();
        for (int count = 0; takes("or"); ++count) out = joined(std::move(out), "or", conjunction(), count);
        return out;
    }
    Expr conjunction() {
        Expr out = negation();
        for (int count = 0; takes("and"); ++count) out = joined(std::move(out), "and", negation(), count);
        return out;
    }
    Expr negation() {
        const Level level(*this);
        if (!takes("not")) return binary(0);
        Expr out = of(Expr::Kind::unary, "not");
        out.items.push_back(negation());
        return out;
    }

    // A chain of operators is as deep a tree as it is long.
    Expr joined(Expr left, std::string sign, Expr right, int count) const {
        if (count > longest_chain) wrong("it is nested too deeply");
        return both(std::move(left), std::move(sign), std::move(right));
    }

    Expr binary(std::size_t tier) {
        if (tier == binary_signs.size()) return unary();
        Expr out = binary(tier + 1);
        for (int count = 0;; ++count) {
            std::string sign;
            for (const std::string_view one : binary_signs[tier])
                if (!one.empty() && is(one)) sign = one;
            const bool not_in = tier == 0 && is("not") && tokens_[at_ + 1].text == "in";
            if (sign.empty() && !not_in) return out;
            ++at_;
            if (not_in) {
                ++at_;
                sign = "not in";
            }
            if (sign == "is" && takes("not")) sign = "is not";
            out = joined(std::move(out), std::move(sign), binary(tier + 1), count);
        }
    }

    Expr unary() {
        const Level level(*this);
        for (const char* sign : {"-", "~", "+"}) {
            if (!is(sign)) continue;
            Expr out = of(Expr::Kind::unary, sign);
            ++at_;
            out.items.push_back(unary());
            return out;
        }
        Expr out = postfix();
        if (takes("**")) return both(std::move(out), "**", unary());
        return out;
    }

    Expr postfix() {
        Expr out = primary();
        for (int count = 0;; ++count) {
            if (count > longest_chain) wrong("it is nested too deeply");
            if (takes(".")) {
                Expr next = of(Expr::Kind::attribute, name());
                next.items.push_back(std::move(out));
                out = std::move(next);
            } else if (is("(")) {
                out = call(std::move(out));
            } else if (takes("[")) {
                Expr next = of(Expr::Kind::subscript);
                next.items.push_back(std::move(out));
                next.items.push_back(index());
                expect("]");
                out = std::move(next);
            } else {
                return out;
            }
        }
    }

    // One, or several, as types have them: Dict[str, Tensor].
    Expr index() {
        Expr first = expression();
        if (is(":")) wrong("a slice, which torch writes as a call");
        if (!is(",")) return first;
        Expr out = of(Expr::Kind::tuple);
        out.items.push_back(std::move(first));
        while (takes(",")) out.items.push_back(expression());
        return out;
    }

    Expr call(Expr callee) {
        Expr out = of(Expr::Kind::call);
        out.items.push_back(std::move(callee));
        expect("(");
        while (!takes(")")) {
            const bool named = now().kind == Token::Kind::name && tokens_[at_ + 1].kind == Token::Kind::sign &&
                               tokens_[at_ + 1].text == "=";
            if (named) {
                out.names.push_back(name());
                expect("=");
            } else if (!out.names.empty()) {
                wrong("an argument without a name behind one with");
            }
            // Types are arguments of annotate, unchecked_cast and the like.
            out.items.push_back(expression());
            if (!is(")")) expect(",");
        }
        return out;
    }

    std::vector<Expr> items(std::string_view end) {
        std::vector<Expr> out;
        while (!takes(end)) {
            out.push_back(expression());
            if (!is(end)) expect(",");
        }
        return out;
    }

    Expr primary() {
        const Level level(*this);
        const Token& token = now();
        switch (token.kind) {
            case Token::Kind::integer: {
                Expr out = of(Expr::Kind::integer);
                const auto [end, error] =
                    std::from_chars(token.text.data(), token.text.data() + token.text.size(), out.integer);
                // The least number of 64 bits is written as a sign and one that is too large by one.
                if (error == std::errc::result_out_of_range && token.text != "9223372036854775808")
                    wrong(fmt::format("{} has more than 64 bits", token.text.substr(0, 40)));
                if (error == std::errc::result_out_of_range) out.integer = std::numeric_limits<std::int64_t>::min();
                ++at_;
                return out;
            }
            case Token::Kind::number: {
                Expr out = of(Expr::Kind::number);
                const char* begin = token.text.data();
                const auto [end, error] = std::from_chars(begin, begin + token.text.size(), out.number);
                if (end != begin + token.text.size() || error != std::errc())
                    wrong(fmt::format("{} is no number", token.text.substr(0, 40)));
                ++at_;
                return out;
            }
            case Token::Kind::text: {
                Expr out = of(Expr::Kind::text, token.text);
                ++at_;
                while (now().kind == Token::Kind::text) out.text += tokens_[at_++].text;
                return out;
            }
            case Token::Kind::name: return named();
            case Token::Kind::sign: break;
            default: wrong("an expression is expected");
        }
        if (takes("(")) return in_parentheses();
        if (takes("[")) {
            Expr out = of(Expr::Kind::list);
            out.items = items("]");
            return out;
        }
        if (takes("{")) {
            Expr out = of(Expr::Kind::dictionary);
            while (!takes("}")) {
                out.items.push_back(expression());
                expect(":");
                out.items.push_back(expression());
                if (!is("}")) expect(",");
            }
            return out;
        }
        wrong("an expression is expected");
    }

    Expr in_parentheses() {
        Expr out = of(Expr::Kind::tuple);
        if (takes(")")) return out;
        Expr first = expression();
        if (takes(")")) return first;
        expect(",");
        out.items = items(")");
        out.items.insert(out.items.begin(), std::move(first));
        return out;
    }

    Expr named() {
        Expr out = of(Expr::Kind::name, name());
        if (out.text == "None") return of(Expr::Kind::none);
        if (out.text == "True" || out.text == "False") {
            out.kind = Expr::Kind::boolean;
            out.integer = out.text == "True" ? 1 : 0;
        }
        if (out.text == "inf" || out.text == "nan") {
            out.kind = Expr::Kind::number;
            out.number =
                out.text == "inf" ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
        }
        return out;
    }

    const std::string& path_;
    std::vector<Token> tokens_;
    std::size_t at_ = 0;
    int level_ = 0;
};

}  // namespace

const FunctionCode* ClassCode::method(const std::string& wanted) const {
    const auto at =
        std::find_if(methods.begin(), methods.end(), [&](const FunctionCode& f) { return f.name == wanted; });
    return at == methods.end() ? nullptr : &*at;
}

FileCode parse_code(const std::string& path, const std::string& text) {
    return Parser(path, tokens_of(path, text)).file();
}

}  // namespace thunderc::torchscript

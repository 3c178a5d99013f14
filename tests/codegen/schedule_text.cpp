// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/schedule_text.h"

#include <cctype>
#include <regex>
#include <stdexcept>

#include "tests/codegen/step_text.h"

namespace thunderc {
namespace {

using Variables = std::map<std::string, std::int64_t>;

[[noreturn]] void fail(const std::string& what) {
    throw std::runtime_error("the text of a schedule: " + what);
}

// C++ expressions over integers, as far as schedules have them.
class Expression {
  public:
    Expression(const std::string& text, const Variables& variables) : text_(text), variables_(variables) {}

    std::int64_t value() {
        const std::int64_t v = choice();
        skip();
        if (at_ != text_.size()) fail("an expression goes on: " + text_);
        return v;
    }

  private:
    void skip() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    }
    bool take(const std::string& token) {
        skip();
        if (text_.compare(at_, token.size(), token) != 0) return false;
        at_ += token.size();
        return true;
    }
    std::int64_t choice() {
        const std::int64_t condition = both();
        if (!take("?")) return condition;
        const std::int64_t yes = choice();
        if (!take(":")) fail("no other choice: " + text_);
        const std::int64_t no = choice();
        return condition != 0 ? yes : no;
    }
    std::int64_t both() {
        std::int64_t v = comparison();
        while (take("&&")) v = (comparison() != 0) && (v != 0) ? 1 : 0;
        return v;
    }
    std::int64_t comparison() {
        const std::int64_t a = sum();
        for (const char* op : {"==", "<=", ">=", "<", ">"})
            if (take(op)) {
                const std::int64_t b = sum();
                const std::string o = op;
                return o == "==" ? a == b : o == "<=" ? a <= b : o == ">=" ? a >= b : o == "<" ? a < b : a > b;
            }
        return a;
    }
    std::int64_t sum() {
        std::int64_t v = product();
        for (;;) {
            if (take("+"))
                v += product();
            else if (take("-"))
                v -= product();
            else
                return v;
        }
    }
    std::int64_t product() {
        std::int64_t v = atom();
        for (;;) {
            if (take("*"))
                v *= atom();
            else if (take("%"))
                v %= atom();
            else
                return v;
        }
    }
    std::int64_t atom() {
        if (take("(")) {
            const std::int64_t v = choice();
            if (!take(")")) fail("a bracket stays open: " + text_);
            return v;
        }
        skip();
        std::string word;
        while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
                                      text_[at_] == '.' || text_.compare(at_, 2, "::") == 0)) {
            const std::size_t length = text_[at_] == ':' ? 2 : 1;
            word += text_.substr(at_, length);
            at_ += length;
        }
        if (word.empty()) fail("neither a name nor a number: " + text_.substr(at_) + " in " + text_);
        if (std::isdigit(static_cast<unsigned char>(word[0]))) return std::stoll(word);
        const auto known = variables_.find(word);
        if (known == variables_.end()) fail("nobody knows " + word + " in " + text_);
        return known->second;
    }

    const std::string& text_;
    const Variables& variables_;
    std::size_t at_ = 0;
};

// Without comments; a line break is a space like others.
std::string bare_text(const std::string& text) {
    std::string out;
    for (std::size_t k = 0; k < text.size(); ++k) {
        if (text.compare(k, 2, "//") == 0) k = text.find('\n', k);
        if (!std::isspace(static_cast<unsigned char>(text[k])))
            out += text[k];
        else if (!out.ends_with(' '))
            out += ' ';
    }
    return out;
}

// All of it is run as it is read; a block that is not entered is skipped.
class Reader {
  public:
    // `arenas`: by place of a unit, "unit::layers.whole".
    Reader(const std::string& text, Variables variables, std::map<std::string, std::string> arenas)
        : text_(text), variables_(std::move(variables)), arenas_(std::move(arenas)) {}

    std::vector<ScheduleStep> run(std::size_t at) {
        block(at, true);
        return std::move(steps_);
    }

  private:
    struct Lambda {
        std::size_t at = 0;  // its opening brace
        std::string parameter;
    };

    void skip(std::size_t& at) const {
        while (at < text_.size() && std::isspace(static_cast<unsigned char>(text_[at]))) ++at;
    }
    bool starts(std::size_t at, const std::string& what) const { return text_.compare(at, what.size(), what) == 0; }

    // Behind the bracket that closes the one at `at`.
    std::size_t closing(std::size_t at) const {
        std::int64_t depth = 0;
        for (; at < text_.size(); ++at) {
            if (text_[at] == '(' || text_[at] == '{' || text_[at] == '[') ++depth;
            if (text_[at] == ')' || text_[at] == '}' || text_[at] == ']')
                if (--depth == 0) return at + 1;
        }
        fail("a bracket stays open");
    }

    // From the opening brace; gives where it ends.
    std::size_t block(std::size_t at, bool run) {
        const std::size_t end = closing(at);
        if (!run) return end;
        const auto lambdas = lambdas_;
        const Variables variables = variables_;
        for (++at, skip(at); at < end - 1; skip(at)) at = statement(at);
        lambdas_ = lambdas;
        variables_ = variables;
        return end;
    }

    std::int64_t evaluate(const std::string& expression) const { return Expression(expression, variables_).value(); }

    // In front of the semicolon that ends the statement at `at`.
    std::size_t semicolon(std::size_t at) const {
        while (text_[at] != ';') at = text_[at] == '(' || text_[at] == '{' || text_[at] == '[' ? closing(at) : at + 1;
        return at;
    }

    std::size_t statement(std::size_t at, bool run = true) {
        skip(at);
        if (text_[at] == '{') return block(at, run);
        if (starts(at, "if (")) {
            const std::size_t end = closing(at + 3);
            const bool yes = run && evaluate(text_.substr(at + 4, end - at - 5)) != 0;
            return statement(end, yes);
        }
        if (starts(at, "for (")) return loop(at, run);
        const std::size_t end = semicolon(at);
        if (run) simple(at, end);
        return end + 1;
    }

    std::size_t loop(std::size_t at, bool run) {
        const std::size_t body = closing(at + 4);
        if (!run) return statement(body, false);
        static const std::regex head(R"(\s*std::int64_t (\w+) = ([^;]*);([^;]*);\s*(\+\+|--)\w+\s*)");
        const std::string inside = text_.substr(at + 5, body - at - 6);
        std::smatch m;
        if (!std::regex_match(inside, m, head)) fail("a loop of another kind: " + inside);
        const std::string name = m[1], condition = m[3];
        const std::int64_t step = m[4] == "++" ? 1 : -1;
        for (variables_[name] = evaluate(m[2]); evaluate(condition) != 0; variables_[name] += step) statement(body);
        variables_.erase(name);
        return statement(body, false);
    }

    void simple(std::size_t at, std::size_t end) {
        const std::string text = text_.substr(at, end - at);
        std::smatch m;
        static const std::regex lambda(R"(const auto (\w+) = \[[^\]]*\]\(std::int64_t (\w+)\) )");
        static const std::regex number(R"(const std::int64_t (\w+) = ([\s\S]*))");
        static const std::regex event(R"((\w+)\.(record|wait)\((\w+)(?:\[([\s\S]*)\])?\))");
        static const std::regex collective(R"((all_reduce|all_gather|reduce_scatter)\(([\s\S]*), (\w+)\))");
        static const std::regex called(R"((\w+)\(([\s\S]*)\))");
        if (std::regex_search(text, m, lambda, std::regex_constants::match_continuous)) {
            const std::size_t length = static_cast<std::size_t>(m.length());
            if (text[length] != '{') fail("a function of another kind: " + text);
            lambdas_[m[1]] = {at + length, m[2]};
        } else if (std::regex_match(text, m, event)) {
            event_step(m);
        } else if (std::regex_match(text, m, collective)) {
            collective_step(m);
        } else if (std::regex_match(text, m, number)) {
            variables_[m[1]] = evaluate(m[2]);
        } else if (std::regex_match(text, m, called)) {
            if (const auto known = lambdas_.find(m[1]); known != lambdas_.end()) return call(known->second, m[2]);
            if (m[1] == "sharded_norm") {  // a sum of squares, the sum of that over ranks, the root
                compute();
                steps_.push_back({ScheduleStep::Kind::collective, "stream", "all_reduce", {}, -1});
            }
            if (text.ends_with("stream)")) compute();
        }
    }

    void call(const Lambda& lambda, const std::string& argument) {
        const Variables variables = variables_;
        variables_[lambda.parameter] = evaluate(argument);
        block(lambda.at, true);
        variables_ = variables;
    }

    void compute() {
        if (steps_.empty() || steps_.back().kind != ScheduleStep::Kind::compute)
            steps_.push_back({ScheduleStep::Kind::compute, "stream", "", {}, -1});
    }

    void event_step(const std::smatch& m) {
        std::string name = m[3];
        if (m[4].matched) name += "[" + std::to_string(evaluate(m[4])) + "]";
        ScheduleStep step{m[2] == "record" ? ScheduleStep::Kind::record : ScheduleStep::Kind::wait, m[1], "", {}, -1};
        if (m[2] == "record")
            records_[name] = static_cast<std::int64_t>(steps_.size());
        else if (const auto at = records_.find(name); at != records_.end())
            step.record = at->second;
        steps_.push_back(std::move(step));
    }

    void collective_step(const std::smatch& m) {
        ScheduleStep step{ScheduleStep::Kind::collective, m[3], m[1], {}, -1};
        const std::string fields = m[2];
        static const std::regex of_unit(R"(arenas_, (unit::\w+)(?:, ([\s\S]*))?)");
        std::smatch u;
        if (std::regex_match(fields, u, of_unit)) {
            // all_gather(arenas_, unit::layers, layer + 1, gather), with the gradient behind the layer of a
            // reduce_scatter.
            std::string layer = u[2];
            if (m[1] == "reduce_scatter") {
                const std::size_t comma = layer.rfind("mode");
                if (comma == std::string::npos) fail("a sum that neither overwrites nor adds: " + fields);
                layer = layer.substr(0, comma);
                layer = layer.substr(0, layer.rfind(','));
            }
            const std::string name = u[1];
            const auto add = [&](const std::string& part) {
                const auto arena = arenas_.find(name + "." + part);
                if (arena == arenas_.end()) fail("nobody knows the " + part + " of " + name);
                const std::string& at = arena->first;
                const std::int64_t number = layer.empty() ? 0 : evaluate(layer), slots = variables_[at + ".slots"];
                const std::int64_t slot = slots > 0 ? number % slots : number;
                step.places.push_back(arena->second + "+" +
                                      std::to_string(variables_[at + ".offset"] + slot * variables_[at + ".stride"]));
            };
            if (m[1] == "all_gather") add("whole");
            add("shard");
            if (m[1] == "reduce_scatter") add("whole");
        }
        if (!steps_.empty() && steps_.back().kind == step.kind && steps_.back().what == step.what &&
            steps_.back().stream == step.stream && step.places.empty())
            return;
        steps_.push_back(std::move(step));
    }

    const std::string& text_;
    Variables variables_;
    std::map<std::string, std::string> arenas_;
    std::map<std::string, Lambda> lambdas_;
    std::map<std::string, std::int64_t> records_;
    std::vector<ScheduleStep> steps_;
};

}  // namespace

std::vector<ScheduleStep> read_schedule(const std::string& text, const std::string& constants,
                                        const std::string& function, bool first_micro_step, bool last_micro_step) {
    Variables variables = {
        {"micro_step.last", last_micro_step ? 1 : 0}, {"mode", first_micro_step ? 1 : 0}, {"WriteMode::overwrite", 1}};
    // Sizes, and of the function where things lie: "a = 1, a_stride = 2;".
    static const std::regex line(R"(constexpr std::int64_t ([^;]*);)"), number(R"((\w+) = (\d+))");
    std::string scope;
    for (std::size_t at = 0; at < constants.size();) {
        const std::size_t end = std::min(constants.find('\n', at), constants.size());
        const std::string one = constants.substr(at, end - at);
        at = end + 1;
        if (one.starts_with("namespace ")) scope = one.substr(10, one.find(' ', 10) - 10);
        if (one == "}" || one.starts_with("}  //")) scope.clear();
        std::smatch m;
        if (!std::regex_search(one, m, line) || (!scope.empty() && scope != "layout::" + function)) continue;
        const std::string list = m[1];
        for (std::sregex_iterator k(list.begin(), list.end(), number), none; k != none; ++k)
            variables[(scope.empty() ? "" : "offset::") + (*k)[1].str()] = std::stoll((*k)[2]);
    }
    // Units: "Unit layers{.what = ..., .whole = {.arena = &Arenas::gathered, .offset = 1, .stride = 2}, .shard = ...}".
    std::map<std::string, std::string> arenas;
    static const std::regex unit(R"(constexpr thunder::Unit (\w+)\{([^;]*);)"),
        place(R"(\.(whole|shard) =\s*\{\.arena =\s*&Arenas::(\w+),([^}]*)\})"), field(R"(\.(\w+) =\s*(\d+))");
    for (std::sregex_iterator u(constants.begin(), constants.end(), unit), none; u != none; ++u) {
        const std::string fields = (*u)[2];
        for (std::sregex_iterator p(fields.begin(), fields.end(), place); p != none; ++p) {
            const std::string name = "unit::" + (*u)[1].str() + "." + (*p)[1].str(), inside = (*p)[3];
            arenas[name] = (*p)[2];
            for (std::sregex_iterator k(inside.begin(), inside.end(), field); k != none; ++k)
                variables[name + "." + (*k)[1].str()] = std::stoll((*k)[2]);
        }
    }
    const std::string bare = bare_text(with_passes_joined(text));
    const std::size_t head = bare.find("void Model::" + function + "(");
    if (head == std::string::npos) fail("there is no " + function);
    return Reader(bare, std::move(variables), std::move(arenas)).run(bare.find('{', head));
}

std::string to_string(const std::vector<ScheduleStep>& steps) {
    std::string out;
    for (std::size_t k = 0; k < steps.size(); ++k) {
        const ScheduleStep& s = steps[k];
        out += std::to_string(k) + ": " + s.stream;
        switch (s.kind) {
            case ScheduleStep::Kind::compute: out += " computes"; break;
            case ScheduleStep::Kind::record: out += " records"; break;
            case ScheduleStep::Kind::wait:
                out += s.record < 0 ? " waits for nothing" : " waits for " + std::to_string(s.record);
                break;
            case ScheduleStep::Kind::collective: out += " " + s.what; break;
        }
        for (const std::string& place : s.places) out += " " + place;
        out += "\n";
    }
    return out;
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/parse.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Recursive descent over the text; one method for each rule of the grammar that print.cpp writes.
class Parser {
  public:
    explicit Parser(std::string_view text) : text_(text) {}

    Module module() {
        Module m;
        expect("module");
        m.name = string();
        if (accept("planned"))
            m.phase = Module::Phase::planned;
        else
            expect("values");
        if (accept("mesh")) {
            m.mesh.replicas = integer();
            expect("replicas");
            m.mesh.shards = integer();
            expect("shards");
            if (m.mesh.world() == 1) m.mesh.alone = Mesh::Alone::both;
        }
        while (accept("arena")) {
            std::string name = word();
            m.arena_bytes[name] = integer();
        }
        while (accept("stream")) m.streams.push_back(word());
        while (accept("unit")) m.units.push_back(unit());
        while (!at_end()) m.functions.push_back(function());
        return m;
    }

  private:
    ShardUnit unit() {
        ShardUnit u;
        u.name = string();
        u.count = integer();
        expect("x");
        u.elements = integer();
        expect("{");
        while (!accept("}")) {
            ShardUnit::Tensor t;
            t.dims = dims();
            expect("+");
            t.offset = integer();
            if (accept("every")) t.stride = integer();
            t.info = argument_info();
            u.tensors.push_back(std::move(t));
        }
        return u;
    }

    // ---- characters and words ----

    [[noreturn]] void fail(const std::string& what) const {
        std::size_t line = 1;
        for (std::size_t k = 0; k < at_ && k < text_.size(); ++k) line += text_[k] == '\n' ? 1 : 0;
        Diagnostic d;
        d.message = fmt::format("line {} of the program text: {}", line, what);
        d.actual = std::string(text_.substr(at_, text_.substr(at_).find('\n')));
        throw UserError(std::move(d));
    }

    void skip() {
        while (at_ < text_.size()) {
            if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0)
                ++at_;
            else if (text_.substr(at_, 2) == "//")
                at_ = std::min(text_.find('\n', at_), text_.size());
            else
                return;
        }
    }

    bool at_end() {
        skip();
        return at_ == text_.size();
    }

    static bool word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

    bool peek(std::string_view token) {
        skip();
        if (text_.substr(at_, token.size()) != token) return false;
        // A word ends where the token ends.
        return !word_char(token.back()) || at_ + token.size() >= text_.size() || !word_char(text_[at_ + token.size()]);
    }

    bool accept(std::string_view token) {
        if (!peek(token)) return false;
        at_ += token.size();
        return true;
    }

    void expect(std::string_view token) {
        if (!accept(token)) fail(fmt::format("expected '{}'", token));
    }

    std::string word() {
        skip();
        std::size_t begin = at_;
        while (at_ < text_.size() && word_char(text_[at_])) ++at_;
        if (begin == at_) fail("expected a name");
        return std::string(text_.substr(begin, at_ - begin));
    }

    std::string string() {
        expect("\"");
        std::string out;
        for (;;) {
            if (at_ >= text_.size()) fail("a string without an end");
            char c = text_[at_++];
            if (c == '"') return out;
            if (c == '\\' && at_ < text_.size()) {
                c = text_[at_++];
                if (c == 'n') c = '\n';
            }
            out += c;
        }
    }

    std::string number_token() {
        skip();
        std::size_t begin = at_;
        if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
        while (at_ < text_.size() &&
               (word_char(text_[at_]) || ((text_[at_] == '-' || text_[at_] == '+') && text_[at_ - 1] == 'e'))) {
            // "{0..31}" and the like never reach here, but "1..2" must not be read as one number
            if (text_.substr(at_, 2) == "..") break;
            ++at_;
        }
        if (begin == at_) fail("expected a number");
        return std::string(text_.substr(begin, at_ - begin));
    }

    std::int64_t integer() {
        std::string token = number_token();
        char* end = nullptr;
        std::int64_t value = std::strtoll(token.c_str(), &end, 10);
        if (*end != 0) fail("expected an integer");
        return value;
    }

    double number() {
        std::string token = number_token();
        char* end = nullptr;
        double value = std::strtod(token.c_str(), &end);
        if (*end != 0) fail("expected a number");
        return value;
    }

    template <typename Item>
    void list(std::string_view open, std::string_view close, Item item) {
        expect(open);
        while (!accept(close)) {
            item();
            if (!accept(",") && !peek(close)) fail(fmt::format("expected ',' or '{}'", close));
        }
    }

    Dims dims() {
        Dims out;
        list("[", "]", [&] { out.push_back(integer()); });
        return out;
    }

    // ---- types and attributes ----

    Type type() {
        if (accept("token")) return Type::token();
        skip();
        std::int64_t count = 0;
        if (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
            count = integer();
            expect("x");
        }
        std::string name = word();
        std::optional<DType> dtype = parse_dtype(name);
        if (!dtype) fail(fmt::format("there is no type {}", name));
        Dims d = dims();
        return count > 0 ? Type::family(count, *dtype, d) : Type::tensor(*dtype, d);
    }

    ConstPtr constant() {
        Type t = type();
        if (accept("splat")) return ConstExpr::splat(t, number());
        if (accept("affine")) {
            double base = number();
            expect("+");
            std::vector<double> step;
            list("[", "]", [&] { step.push_back(number()); });
            return ConstExpr::affine(t, base, step);
        }
        if (accept("dense")) {
            Tensor tensor(t);
            std::int64_t k = 0;
            list("[", "]", [&] {
                if (peek("...")) fail("this constant was cut when it was printed");
                if (k >= tensor.size()) fail("too many elements");
                if (tensor.floating())
                    tensor.f[static_cast<std::size_t>(k++)] = number();
                else
                    tensor.i[static_cast<std::size_t>(k++)] = integer();
            });
            if (k != tensor.size()) fail("too few elements");
            return ConstExpr::dense(std::move(tensor));
        }
        std::string op = word();
        std::vector<ConstPtr> operands;
        list("(", ")", [&] { operands.push_back(constant()); });
        if (op == "select" && operands.size() == 3) return ConstExpr::select(operands[0], operands[1], operands[2]);
        return ConstExpr::elementwise(t, op, operands);
    }

    Attribute attribute() {
        skip();
        if (accept("true")) return true;
        if (accept("false")) return false;
        if (peek("\"")) return string();
        if (accept("<")) {
            ConstPtr expr = constant();
            expect(">");
            return expr;
        }
        if (accept("[")) {
            if (peek("\"")) {
                std::vector<std::string> strings;
                do strings.push_back(string());
                while (accept(","));
                expect("]");
                return strings;
            }
            std::vector<std::int64_t> integers;
            while (!accept("]")) {
                integers.push_back(integer());
                accept(",");
            }
            return integers;
        }
        for (const DTypeRow& row : all_dtypes())
            if (accept(row.name)) return row.dtype;
        std::string token = number_token();
        char* end = nullptr;
        if (token.find_first_of(".ein") == std::string::npos) {
            std::int64_t integer_value = std::strtoll(token.c_str(), &end, 10);
            if (*end == 0) return integer_value;
        }
        double value = std::strtod(token.c_str(), &end);
        if (*end != 0) fail("expected the value of an attribute");
        return value;
    }

    // ---- functions ----

    Value use(const std::string& name) {
        auto at = values_.find(name);
        if (at == values_.end()) fail(fmt::format("%{} is used before it is defined", name));
        return at->second;
    }

    Value define(const std::string& name, Type value_type) {
        Value v = f_.add_value(std::move(value_type), name);
        if (!values_.emplace(name, v).second) fail(fmt::format("%{} is defined twice", name));
        return v;
    }

    void placement(Value v) {
        if (!accept("@")) return;
        Placement p;
        std::string name = word();
        std::optional<Placement::Arena> arena = parse_arena(name);
        if (!arena) fail(fmt::format("there is no arena {}", name));
        p.arena = *arena;
        expect("+");
        p.offset = integer();
        if (accept("layer")) p.layer_stride = integer();
        if (accept("slots")) p.slots = integer();
        if (accept("strides")) p.strides = dims();
        if (accept("view")) {
            expect("%");
            views_.emplace_back(v, word());  // a value may lie in the place of one that comes later
        }
        f_.info(v).placement = p;
    }

    // "a.{0..3}.b" gives four names; anything else gives itself.
    static std::vector<std::string> expand(const std::string& pattern) {
        std::size_t open = pattern.find('{');
        std::size_t dots = pattern.find("..", open);
        std::size_t close = pattern.find('}', open);
        if (open == std::string::npos || dots == std::string::npos || close == std::string::npos) return {pattern};
        std::int64_t first = std::stoll(pattern.substr(open + 1));
        std::int64_t last = std::stoll(pattern.substr(dots + 2));
        std::size_t colon = pattern.find(':', dots);
        std::int64_t step = colon < close ? std::stoll(pattern.substr(colon + 1)) : 1;
        std::vector<std::string> out;
        for (std::int64_t k = first; k <= last; k += step)
            out.push_back(fmt::format("{}{}{}", pattern.substr(0, open), k, pattern.substr(close + 1)));
        return out;
    }

    // 2 to 5 entries = 7 of "tables.1.weight"
    ArgInfo::Column column(std::int64_t begin) {
        ArgInfo::Column out;
        if (integer() != begin) fail("columns are runs, one behind the other");
        expect("to");
        out.end = integer();
        if (out.end <= begin) fail("columns are runs, one behind the other");
        if (accept("entries")) {
            expect("=");
            out.ids.entries = integer();
        }
        if (accept("ignore")) {
            expect("=");
            out.ids.ignore_index = integer();
        }
        if (accept("of")) out.table = string();
        return out;
    }

    ArgInfo argument_info() {
        ArgInfo info;
        constexpr std::pair<std::string_view, ArgInfo::Kind> kinds[] = {
            {"input", ArgInfo::Kind::input},   {"parameter", ArgInfo::Kind::parameter},
            {"buffer", ArgInfo::Kind::buffer}, {"constant", ArgInfo::Kind::constant},
            {"state", ArgInfo::Kind::state},   {"scalar", ArgInfo::Kind::scalar},
            {"output", ArgInfo::Kind::output}, {"value", ArgInfo::Kind::value}};
        bool found = false;
        for (const auto& [name, kind] : kinds) {
            if (found || !accept(name)) continue;
            info.kind = kind;
            found = true;
        }
        if (!found) return info;
        has_info_ = true;
        if (peek("["))
            list("[", "]", [&] { info.names.push_back(string()); });
        else
            info.names = expand(string());
        info.aliases.resize(info.names.size());
        info.sources.resize(info.names.size());
        if (!peek("{")) return info;
        list("{", "}", [&] {
            if (accept("batched"))
                info.batched = true;
            else if (accept("added"))
                info.added = true;
            else if (accept("frozen"))
                info.trainable = false;
            else if (accept("outer"))
                info.outer = true;
            else if (accept("adapter"))
                info.adapter = true;
            else if (accept("init")) {
                expect("=");
                info.init = accept("ones")      ? ArgInfo::Init::ones
                            : accept("zeros")   ? ArgInfo::Init::zeros
                            : accept("uniform") ? ArgInfo::Init::uniform
                            : accept("normal")  ? ArgInfo::Init::normal
                                                : (fail("no such initialisation"), ArgInfo::Init::normal);
            } else if (accept("entries")) {
                expect("=");
                info.entries = integer();
            } else if (accept("ignore")) {
                expect("=");
                info.ignore_index = integer();
            } else if (accept("columns")) {
                info.column_axis = integer();
                expect("=");
                list("[", "]",
                     [&] { info.columns.push_back(column(info.columns.empty() ? 0 : info.columns.back().end)); });
            } else if (accept("source")) {
                expect("=");
                info.source = string();
            } else if (accept("note")) {
                expect("=");
                info.note = string();
            } else if (accept("alias")) {
                auto k = static_cast<std::size_t>(integer());
                if (k >= info.aliases.size()) fail("an alias of a member that there is not");
                expect("=");
                list("[", "]", [&] { info.aliases[k].push_back(string()); });
            } else
                fail("unknown property of an argument");
        });
        return info;
    }

    Provenance provenance() {
        Provenance p;
        if (!accept("at")) return p;
        p.scope = string();
        if (peek("\"")) p.module_class = string();
        if (peek("["))
            list("[", "]", [&] {
                p.node_ops.push_back(word());
                p.nodes.push_back(string());
            });
        if (accept("reads")) {
            do p.reads.push_back(string());
            while (accept(","));
        }
        return p;
    }

    void op() {
        std::vector<std::string> names;
        if (peek("%")) {
            do {
                expect("%");
                names.push_back(word());
            } while (accept(","));
            expect("=");
        }
        Op o;
        o.name = word();
        list("(", ")", [&] {
            if (accept("_")) {
                o.operands.emplace_back();
                return;
            }
            expect("%");
            o.operands.push_back(use(word()));
        });
        if (peek("{"))
            list("{", "}", [&] {
                std::string name = word();
                expect("=");
                o.attributes.set(name, attribute());
            });
        for (std::size_t k = 0; k < names.size(); ++k) {
            expect(k == 0 ? ":" : ",");
            Value v = define(names[k], type());
            placement(v);
            o.results.push_back(v);
        }
        if (accept("on")) o.stream = word();
        if (o.stream == "compute") o.stream.clear();
        o.provenance = provenance();
        f_.ops.push_back(std::move(o));
    }

    Function function() {
        f_ = {};
        values_.clear();
        views_.clear();
        has_info_ = false;
        expect("func");
        expect("@");
        f_.name = word();
        list("(", ")", [&] {
            expect("%");
            std::string name = word();
            expect(":");
            Value v = define(name, type());
            placement(v);
            f_.arguments.push_back(v);
            f_.argument_info.push_back(argument_info());
        });
        if (!has_info_) f_.argument_info.clear();
        expect("->");
        std::vector<std::string> result_values;
        list("(", ")", [&] {
            expect("%");
            result_values.push_back(word());
            if (peek("\"")) f_.result_names.push_back(string());
        });
        if (accept("kind")) f_.kind = string();
        if (accept("scope")) f_.scope = string();
        if (accept("class")) f_.module_class = string();
        if (accept("scratch")) f_.scratch_bytes = integer();
        expect("{");
        while (!accept("}")) op();
        for (const auto& [v, name] : views_) {
            if (!values_.contains(name)) fail(fmt::format("%{} is used and defined nowhere", name));
            f_.info(v).placement.view_of = values_.at(name);
        }
        for (const std::string& name : result_values) f_.results.push_back(use(name));
        return std::move(f_);
    }

    std::string_view text_;
    std::size_t at_ = 0;
    Function f_;
    std::map<std::string, Value> values_;
    std::vector<std::pair<Value, std::string>> views_;  // and the names of what they lie in
    bool has_info_ = false;
};

}  // namespace

Module parse_module(std::string_view text) {
    return Parser(text).module();
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM, step by step: the length of a sequence is known. The products with the input are one for all
// steps.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/frontend/onnx/importer.h"

namespace thunderc::onnx_frontend {
namespace {

constexpr std::int64_t most_steps = 1024;  // each is some ten operations of its own

class Recurrent {
  public:
    explicit Recurrent(Node& n) : n_(n), b_(n.b()), op_(n.proto().op_type()) {}

    void run() {
        check();
        const Value x = by_time_ ? n_.input(0) : b_.transpose(n_.input(0), {1, 0, 2});
        std::vector<Value> steps, last_h, last_c;  // of each direction
        for (std::int64_t d = 0; d < directions_; ++d) {
            const bool backwards = direction_ == "reverse" || d == 1;
            Direction w = weights(d);
            // [T, N, gates H]
            const Value flat = b_.reshape(x, {steps_ * batch_, inputs_});
            w.seen = b_.reshape(product(flat, w.input), {steps_, batch_, gates() * hidden_});
            if (w.input_bias) w.seen = b_.add(w.seen, w.input_bias);
            named(w.seen, "gates_of_x");
            std::vector<Value> results(static_cast<std::size_t>(steps_));
            for (std::int64_t k = 0; k < steps_; ++k) {
                const std::int64_t t = backwards ? steps_ - 1 - k : k;
                results[static_cast<std::size_t>(t)] = step(w, t);
            }
            Value all = steps_ == 1 ? results[0] : b_.op("concat", results, {{"axis", std::int64_t{0}}});
            steps.push_back(b_.reshape(all, {steps_, 1, batch_, hidden_}));
            last_h.push_back(b_.reshape(w.h, {1, batch_, hidden_}));
            if (op_ == "LSTM") last_c.push_back(b_.reshape(w.c, {1, batch_, hidden_}));
        }
        const Value all = beside(steps, 1);
        n_.output(0, by_time_ ? all : b_.transpose(all, {2, 0, 1, 3}));
        const auto state = [&](const std::vector<Value>& parts) {
            const Value v = beside(parts, 0);
            return by_time_ ? v : b_.transpose(v, {1, 0, 2});
        };
        n_.output(1, state(last_h));
        if (op_ == "LSTM") n_.output(2, state(last_c));
    }

  private:
    struct Direction {
        Value input, state, input_bias, state_bias;  // [gates H, I], [gates H, H], [gates H]; none: absent
        std::vector<Value> peepholes;                // of i, o and f; empty: none
        std::vector<std::string> activations;
        Value seen;
        Value h, c;  // [N, H]
    };

    std::int64_t gates() const { return op_ == "LSTM" ? 4 : op_ == "GRU" ? 3 : 1; }
    std::size_t functions() const { return op_ == "LSTM" ? 3 : op_ == "GRU" ? 2 : 1; }

    void check() {
        n_.take_floats_only();
        by_time_ = n_.integer("layout", 0) == 0;
        direction_ = n_.one_of("direction", {"forward", "reverse", "bidirectional"});
        clip_ = n_.number("clip", 0);
        if (n_.attribute("clip") != nullptr && clip_ <= 0)
            n_.fail(fmt::format("{} with a clip of {}", op_, clip_), "leave the attribute out where nothing is clipped",
                    "a positive number", fmt::format("{}", clip_));
        const Dims x = n_.type(0).dims, w = n_.type(1).dims, r = n_.type(2).dims;
        directions_ = direction_ == "bidirectional" ? 2 : 1;
        if (x.size() != 3 || w.size() != 3 || r.size() != 3 || r[2] == 0 ||
            w != Dims{directions_, gates() * r[2], x[2]} || r != Dims{directions_, gates() * r[2], r[2]})
            n_.fail(fmt::format("the weights of {} do not fit its input", op_), {}, {},
                    fmt::format("{}, {}, {}, {}", to_string(n_.type(0)), to_string(n_.type(1)), to_string(n_.type(2)),
                                direction_));
        steps_ = x[by_time_ ? 0 : 1];
        batch_ = x[by_time_ ? 1 : 0];
        inputs_ = x[2];
        hidden_ = r[2];
        if (const std::int64_t size = n_.integer("hidden_size", hidden_); size != hidden_)
            n_.fail(fmt::format("the hidden_size of {} is not its weights'", op_), "export the model again",
                    std::to_string(hidden_), std::to_string(size));
        if (steps_ < 1 || steps_ > most_steps)
            n_.fail(fmt::format("{} over {} steps is not supported", op_, steps_), "use shorter sequences",
                    fmt::format("1 to {}", most_steps));
        const auto* given = n_.attribute("activations");
        activations_ = given == nullptr ? std::vector<std::string>{}
                                        : std::vector<std::string>(given->strings().begin(), given->strings().end());
        if (activations_.empty())
            for (std::int64_t d = 0; d < directions_; ++d) {
                if (op_ != "RNN") activations_.emplace_back("Sigmoid");
                activations_.emplace_back("Tanh");
                if (op_ == "LSTM") activations_.emplace_back("Tanh");
            }
        if (activations_.size() != functions() * static_cast<std::size_t>(directions_))
            n_.fail(fmt::format("{} has not one activation for each of its functions", op_));
        check_operand(3, {directions_, 2 * gates() * hidden_});
        check_operand(4, {batch_});
        const Dims state = by_time_ ? Dims{directions_, batch_, hidden_} : Dims{batch_, directions_, hidden_};
        check_operand(5, state);
        check_operand(6, state);
        check_operand(7, {directions_, 3 * hidden_});
        if (n_.has(4)) {
            const std::optional<std::vector<std::int64_t>> known = n_.known_integers(4);
            if (known)
                for (const std::int64_t length : *known)
                    if (length < 0 || length > steps_)
                        n_.fail(fmt::format("a sequence of {} has the length {}, and there are {} steps", op_, length,
                                            steps_),
                                "give lengths from 0 to the number of steps");
            const bool all =
                known && std::all_of(known->begin(), known->end(), [&](std::int64_t k) { return k == steps_; });
            if (!all) lengths_ = b_.reshape(b_.cast(n_.input(4), DType::i64), {batch_, 1});
        }
    }

    void check_operand(std::size_t i, const Dims& dims) {
        constexpr const char* names[] = {"X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"};
        if (n_.has(i) && n_.type(i).dims != dims)
            n_.fail(fmt::format("the input {} of {} has another shape than its weights and its steps ask for", names[i],
                                op_),
                    {}, fmt::format("[{}]", to_string(dims)), to_string(n_.type(i)));
    }

    // One direction's part of an operand, which has `dims` without it; none where the operand is absent.
    Value part(std::size_t i, std::int64_t d, const Dims& dims, std::int64_t axis = 0) {
        return n_.has(i) ? b_.reshape(b_.slice(n_.input(i), axis, d, d + 1), dims) : Value{};
    }

    Direction weights(std::int64_t d) {
        Direction w;
        const std::int64_t rows = gates() * hidden_;
        w.input = part(1, d, {rows, inputs_});
        w.state = part(2, d, {rows, hidden_});
        if (const Value bias = part(3, d, {2 * rows})) {
            const Value first = b_.slice(bias, 0, 0, rows), second = b_.slice(bias, 0, rows, 2 * rows);
            // Both go into one sum, but for what r multiplies.
            const bool apart = op_ == "GRU" && n_.integer("linear_before_reset", 0) != 0;
            w.input_bias = apart ? first : b_.add(first, second);
            if (apart) w.state_bias = second;
        }
        const Type state = Type::tensor(n_.type(0).dtype, {batch_, hidden_});
        const auto initial = [&](std::size_t i) {
            const Value v = part(i, d, state.dims, by_time_ ? 0 : 1);
            return v ? v : b_.splat(state, 0);
        };
        w.h = initial(5);
        if (op_ == "LSTM") {
            w.c = initial(6);
            if (const Value all = part(7, d, {3, hidden_}))
                for (std::int64_t k = 0; k < 3; ++k) w.peepholes.push_back(row(all, k));
        }
        const auto first = activations_.begin() + static_cast<std::ptrdiff_t>(functions()) * d;
        w.activations.assign(first, first + static_cast<std::ptrdiff_t>(functions()));
        return w;
    }

    // A row of its own, and no view of the table: steps that read one would need it to be aligned.
    Value row(Value table, std::int64_t k) {
        const Type lines = Type::tensor(DType::i64, {3, 1});
        const ConstPtr meant = ConstExpr::elementwise(
            Type::tensor(DType::boolean, {3, 1}), "eq",
            {ConstExpr::affine(lines, 0, {1, 0}), ConstExpr::splat(lines, static_cast<double>(k))});
        const Value zero = b_.scalar(b_.type(table).dtype, 0);
        return b_.reduce_sum(b_.op("select", {b_.constant(meant), table, zero}), {0});
    }

    Value product(Value x, Value w) { return b_.op("matmul", {x, w}, {{"transpose_a", false}, {"transpose_b", true}}); }

    Value gate(Value all, std::int64_t k) { return b_.slice(all, 1, k * hidden_, (k + 1) * hidden_); }

    Value activated(const Direction& w, std::size_t k, Value x) {
        const DType dtype = b_.type(x).dtype;
        if (clip_ > 0) x = b_.op("clip", {x, b_.scalar(dtype, -clip_), b_.scalar(dtype, clip_)});
        const std::string& name = w.activations[k];
        if (name == "Sigmoid") return b_.op("sigmoid", {x});
        if (name == "Tanh") return b_.op("tanh", {x});
        if (name == "Relu") return b_.op("relu", {x});
        if (name == "Softplus") return b_.op("softplus", {x});
        if (name == "Softsign") return b_.div(x, b_.add(b_.op("abs", {x}), 1));
        n_.fail(fmt::format("{} with the activation {} is not supported", op_, name), {},
                "Sigmoid, Tanh, Relu, Softplus or Softsign", name);
    }

    Value seen_at(const Direction& w, std::int64_t t) {
        return b_.reshape(b_.slice(w.seen, 0, t, t + 1), {batch_, gates() * hidden_});
    }

    // The new state, which w has afterwards; and what is given at t: 0 behind a sequence's end, where the state stays.
    Value step(Direction& w, std::int64_t t) {
        Value h, c = w.c;
        if (op_ == "LSTM")
            h = lstm(w, t, c);
        else
            h = op_ == "GRU" ? gru(w, t) : rnn(w, t);
        if (!lengths_) {
            w.h = h;
            w.c = c;
            return h;
        }
        const Value goes_on = b_.op("lt", {b_.scalar(DType::i64, static_cast<double>(t)), lengths_});
        w.h = named(b_.op("select", {goes_on, h, w.h}), "h");
        if (c) w.c = named(b_.op("select", {goes_on, c, w.c}), "c");
        return b_.op("select", {goes_on, h, b_.scalar(b_.type(h).dtype, 0)});
    }

    Value state_product(const Direction& w) {
        const Value v = named(product(w.h, w.state), "gates_of_h");
        return w.state_bias ? b_.add(v, w.state_bias) : v;
    }

    Value named(Value v, const char* name) {
        b_.function().info(v).name = name;
        return v;
    }

    Value rnn(const Direction& w, std::int64_t t) {
        return named(activated(w, 0, b_.add(seen_at(w, t), state_product(w))), "h");
    }

    // h' = (1 - z) n + z h with the gates z and r; n reads r h, or with linear_before_reset r times the product with h.
    Value gru(const Direction& w, std::int64_t t) {
        const Value seen = seen_at(w, t);
        const bool linear = n_.integer("linear_before_reset", 0) != 0;
        const auto rows = [&](Value v, std::int64_t from, std::int64_t to) {
            return v ? b_.slice(v, 0, from * hidden_, to * hidden_) : v;
        };
        const Value kept = linear ? state_product(w) : Value{};
        Value both = linear ? b_.slice(kept, 1, 0, 2 * hidden_) : product(w.h, rows(w.state, 0, 2));
        both = b_.add(both, b_.slice(seen, 1, 0, 2 * hidden_));
        const Value z = named(activated(w, 0, gate(both, 0)), "z"), r = named(activated(w, 0, gate(both, 1)), "r");
        Value of_state;
        if (linear) {
            of_state = b_.mul(r, gate(kept, 2));
        } else {
            of_state = product(b_.mul(r, w.h), rows(w.state, 2, 3));
        }
        const Value n = named(activated(w, 1, b_.add(gate(seen, 2), of_state)), "n");
        return named(b_.add(b_.mul(b_.add(b_.neg(z), 1), n), b_.mul(z, w.h)), "h");
    }

    // c' = f c + i g, h' = o tanh(c'), with gates that may see c through peepholes.
    Value lstm(const Direction& w, std::int64_t t, Value& c) {
        const Value all = named(b_.add(seen_at(w, t), state_product(w)), "gates");
        const auto peeping = [&](std::int64_t k, std::size_t peephole, Value cell) {
            const Value v = gate(all, k);
            return w.peepholes.empty() ? v : b_.add(v, b_.mul(w.peepholes[peephole], cell));
        };
        const Value i = named(activated(w, 0, peeping(0, 0, c)), "i");
        const bool coupled = n_.integer("input_forget", 0) != 0;
        const Value f = named(coupled ? b_.add(b_.neg(i), 1) : activated(w, 0, peeping(2, 2, c)), "f");
        const Value g = named(activated(w, 1, gate(all, 3)), "g");
        c = named(b_.add(b_.mul(f, c), b_.mul(i, g)), "c");
        const Value o = named(activated(w, 0, peeping(1, 1, c)), "o");
        return named(b_.mul(o, activated(w, 2, c)), "h");
    }

    Value beside(const std::vector<Value>& parts, std::int64_t axis) {
        return parts.size() == 1 ? parts[0] : b_.op("concat", parts, {{"axis", axis}});
    }

    Node& n_;
    Builder& b_;
    std::string op_, direction_;
    bool by_time_ = true;
    double clip_ = 0;
    std::int64_t steps_ = 0, batch_ = 0, inputs_ = 0, hidden_ = 0, directions_ = 1;
    std::vector<std::string> activations_;
    Value lengths_;  // [N, 1] where sequences end at their own
};

void recurrent(Node& n) {
    Recurrent(n).run();
}

constexpr OpImporter recurrent_importers[] = {
    {"RNN", 13, last_opset, recurrent, own},
    {"GRU", 13, last_opset, recurrent, own},
    {"LSTM", 13, last_opset, recurrent, own},
};

}  // namespace

std::span<const OpImporter> recurrent_ops() {
    return recurrent_importers;
}

}  // namespace thunderc::onnx_frontend

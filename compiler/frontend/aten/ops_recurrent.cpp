// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN, step by step: the length of a sequence is known. The products with the input are one for all
// steps.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/shared/attention.h"

namespace thunderc::aten {
namespace {

constexpr std::int64_t most_recurrent_steps = 1024;  // each is some ten operations of its own

// One direction of one layer; biases may be absent.
struct Cell {
    std::string kind;  // lstm, gru, rnn_tanh, rnn_relu
    Value input, state, input_bias, state_bias;
};

struct CellState {
    Value h, c;  // [N, H]; c of lstm alone
};

Value times_transposed(Builder& b, Value x, Value w) {
    return b.op("matmul", {x, w}, {{"transpose_a", false}, {"transpose_b", true}});
}

// What the gates see of the input: x Wᵀ, and the biases as far as nothing stands between them.
Value seen_of(Builder& b, const Cell& cell, Value x) {
    Value v = times_transposed(b, x, cell.input);
    if (!cell.input_bias) return v;
    return b.add(v, cell.kind == "gru" ? cell.input_bias : b.add(cell.input_bias, cell.state_bias));
}

// The gates of lstm are i, f, g, o; those of gru r, z and n, of which n reads r times the product with the state.
CellState stepped(Builder& b, const Cell& cell, Value seen, const CellState& before) {
    const std::int64_t hidden = b.type(before.h).dims[1];
    const auto gate = [&](Value all, std::int64_t k) { return b.slice(all, 1, k * hidden, (k + 1) * hidden); };
    Value kept = times_transposed(b, before.h, cell.state);
    if (cell.kind == "gru") {
        if (cell.state_bias) kept = b.add(kept, cell.state_bias);
        const Value both = b.op("sigmoid", {b.add(b.slice(seen, 1, 0, 2 * hidden), b.slice(kept, 1, 0, 2 * hidden))});
        const Value r = gate(both, 0), z = gate(both, 1);
        const Value fresh = b.op("tanh", {b.add(gate(seen, 2), b.mul(r, gate(kept, 2)))});
        return {b.add(b.mul(b.add(b.neg(z), 1), fresh), b.mul(z, before.h)), {}};
    }
    const Value all = b.add(seen, kept);
    if (cell.kind != "lstm") return {b.op(cell.kind == "rnn_relu" ? "relu" : "tanh", {all}), {}};
    const auto sigmoid = [&](std::int64_t k) { return b.op("sigmoid", {gate(all, k)}); };
    const Value i = sigmoid(0), f = sigmoid(1), g = b.op("tanh", {gate(all, 2)}), o = sigmoid(3);
    const Value c = b.add(b.mul(f, before.c), b.mul(i, g));
    return {b.mul(o, b.op("tanh", {c})), c};
}

Value side_by_side(Builder& b, const std::vector<Value>& parts, std::int64_t axis) {
    return parts.size() == 1 ? parts[0] : b.op("concat", parts, {{"axis", axis}});
}

void require_rank(Node& n, Value v, std::int64_t least, std::int64_t most) {
    const std::int64_t rank = n.b().type(v).rank();
    if (rank < least || rank > most)
        n.fail(fmt::format("{} of a tensor of {} dimensions", n.call().target, rank), {},
               least == most ? fmt::format("{}", least) : fmt::format("{} or {}", least, most), std::to_string(rank));
}

// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first): of lstm hx is a list of h
// and c. The parameters of a layer's direction are w_ih, w_hh and, with biases, b_ih and b_hh.
void recurrent_op(Node& n) {
    Builder& b = n.b();
    const std::string kind = n.op();
    const bool lstm = kind == "lstm", biased = n.boolean("has_biases", true), by_row = n.boolean("batch_first", false);
    const std::int64_t layers = n.integer("num_layers", 1), directions = n.boolean("bidirectional", false) ? 2 : 1;
    if (!n.has("input") || n.has("batch_sizes") || n.has("data"))
        n.fail("a recurrent layer of packed sequences is not supported", "pad the sequences in the model, and mask");
    Value x = n.tensor("input");
    require_rank(n, x, 2, 3);
    const bool alone = b.type(x).rank() == 2;  // a sequence without a batch
    if (alone) x = b.reshape(x, {b.type(x).dims[0], 1, b.type(x).dims[1]});
    if (by_row && !alone) x = b.transpose(x, {1, 0, 2});
    const std::vector<Value> params = n.tensors("params");
    const std::size_t each = biased ? 4 : 2;
    if (layers < 1 || layers > static_cast<std::int64_t>(params.size()) ||
        params.size() != each * static_cast<std::size_t>(layers * directions))
        n.fail(fmt::format("{} has {} parameters", n.call().target, params.size()), {},
               fmt::format("{} for each direction of {} layers; projections are not supported", each, layers));
    for (std::size_t k = 0; k < params.size(); ++k)
        require_rank(n, params[k], k % each < 2 ? 2 : 1, k % each < 2 ? 2 : 1);
    std::vector<Value> states = lstm ? n.tensors("hx") : std::vector<Value>{n.tensor("hx")};
    if (states.size() != (lstm ? 2U : 1U)) n.fail("the state of an LSTM is to be h and c");
    const std::int64_t hidden = b.type(params[1]).dims[1], batch = b.type(x).dims[1], steps = b.type(x).dims[0];
    if (steps < 1 || steps > most_recurrent_steps)
        n.fail(fmt::format("{} over {} steps is not supported", n.call().target, steps), "use shorter sequences",
               fmt::format("1 to {}", most_recurrent_steps));
    for (const Value state : states)
        if (b.type(state).elements() != layers * directions * batch * hidden)
            n.fail("the state of a recurrent layer has another size than its weights ask for", {}, {},
                   to_string(b.type(state)));
    std::vector<Value> last_h, last_c;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
        std::vector<Value> sides;
        for (std::int64_t d = 0; d < directions; ++d) {
            const std::int64_t index = layer * directions + d;
            const std::size_t first = each * static_cast<std::size_t>(index);
            Cell cell{kind, params[first], params[first + 1], {}, {}};
            if (biased) {
                cell.input_bias = params[first + 2];
                cell.state_bias = params[first + 3];
            }
            const auto initial = [&](Value all) {
                return b.reshape(b.slice(b.reshape(all, {layers * directions, batch, hidden}), 0, index, index + 1),
                                 {batch, hidden});
            };
            CellState state{initial(states[0]), lstm ? initial(states[1]) : Value{}};
            const std::int64_t inputs = b.type(x).dims[2], gates = b.type(cell.input).dims[0];
            const Value seen =
                b.reshape(seen_of(b, cell, b.reshape(x, {steps * batch, inputs})), {steps, batch, gates});
            std::vector<Value> results(static_cast<std::size_t>(steps));
            for (std::int64_t k = 0; k < steps; ++k) {
                const std::int64_t t = d == 1 ? steps - 1 - k : k;
                state = stepped(b, cell, b.reshape(b.slice(seen, 0, t, t + 1), {batch, gates}), state);
                results[static_cast<std::size_t>(t)] = b.reshape(state.h, {1, batch, hidden});
            }
            sides.push_back(side_by_side(b, results, 0));
            last_h.push_back(b.reshape(state.h, {1, batch, hidden}));
            if (lstm) last_c.push_back(b.reshape(state.c, {1, batch, hidden}));
        }
        x = side_by_side(b, sides, 2);
        if (n.boolean("train", false) && layer + 1 < layers) x = dropped(b, x, n.number("dropout", 0));
    }
    if (by_row && !alone) x = b.transpose(x, {1, 0, 2});
    if (alone) x = b.reshape(x, {steps, b.type(x).dims[2]});
    n.give(x, 0);
    const auto final_states = [&](const std::vector<Value>& parts) {
        const Value all = side_by_side(b, parts, 0);
        return alone ? b.reshape(all, {layers * directions, hidden}) : all;
    };
    if (n.wants(1)) n.give(final_states(last_h), 1);
    if (lstm && n.wants(2)) n.give(final_states(last_c), 2);
}

// (input, hx, w_ih, w_hh, b_ih, b_hh)
void cell_op(Node& n) {
    Builder& b = n.b();
    const std::string op = n.op();
    Cell cell{op.substr(0, op.size() - 5), n.tensor("w_ih"), n.tensor("w_hh"), {}, {}};
    if (n.has("b_ih") && n.has("b_hh")) {
        cell.input_bias = n.tensor("b_ih");
        cell.state_bias = n.tensor("b_hh");
    }
    CellState state;
    if (cell.kind == "lstm") {
        const std::vector<Value> hx = n.tensors("hx");
        if (hx.size() != 2) n.fail("the state of an LSTM's cell is to be h and c");
        state = {hx[0], hx[1]};
    } else {
        state.h = n.tensor("hx");
    }
    for (const Value weight : {cell.input, cell.state}) require_rank(n, weight, 2, 2);
    for (const Value row : {n.tensor("input"), state.h, state.c})
        if (row) require_rank(n, row, 1, 2);
    const auto rows = [&](Value v) { return b.type(v).rank() == 1 ? b.reshape(v, {1, b.type(v).dims[0]}) : v; };
    state.h = rows(state.h);
    if (state.c) state.c = rows(state.c);
    state = stepped(b, cell, seen_of(b, cell, rows(n.tensor("input"))), state);
    const bool alone = n.type("input").rank() == 1;
    const auto row = [&](Value v) { return alone ? b.reshape(v, {b.type(v).dims[1]}) : v; };
    n.give(row(state.h), 0);
    if (state.c && n.wants(1)) n.give(row(state.c), 1);
}

constexpr OpImporter recurrent_importers[] = {
    {"lstm", recurrent_op}, {"gru", recurrent_op}, {"rnn_tanh", recurrent_op}, {"rnn_relu", recurrent_op},
    {"lstm_cell", cell_op}, {"gru_cell", cell_op}, {"rnn_tanh_cell", cell_op}, {"rnn_relu_cell", cell_op},
};

}  // namespace

std::span<const OpImporter> recurrent_ops() {
    return recurrent_importers;
}

}  // namespace thunderc::aten

// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention, with groups of query heads that share a key head.
//
//   s = scale · q kᵀ for the keys that may be read;  p = softmax(s) = exp(s - lse);  out = p v
//
// Backward: dv = pᵀ dout, dp = dout vᵀ, D = sum(dout · out), ds = p · (dp - D), dq = scale · ds k, dk = scale · dsᵀ q.
// A cotangent of lse adds p · dlse to ds. Position t reads the keys s <= t + (S - T) where causal, of these the last
// `window` where that is not 0, and of all keys those that `padding` marks. A row that may read nothing gives 0, and
// its lse is -inf.
//
// With `dropout` the probabilities pass one (compiler/ops/random.cpp): out = d v, dv = dᵀ dout, dp = dropout of dout
// vᵀ, where d = dropout of p, element (h, t, s) of row b. D is as it was, since it is the sum of d · (dout vᵀ). Of
// which numbers it is drawn operands say; before place_random there are none, and nothing is dropped. Vaswani et al.,
// "Attention Is All You Need", 2017; Dao et al., "FlashAttention", 2022, for lse as the one thing kept.
#include "compiler/ops/sdpa.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/composite.h"
#include "compiler/ops/random.h"

namespace thunderc {
namespace {

struct Shape {
    std::int64_t B, T, S, NH, KVH, HS;
    bool causal;
    std::int64_t window;
    double scale, kept;  // kept: 1 - dropout

    Shape(const Type& q, const Type& k, const Attributes& attributes)
        : B(q.dims[0]),
          T(q.dims[1]),
          S(k.dims[1]),
          NH(q.dims[2]),
          KVH(k.dims[2]),
          HS(q.dims[3]),
          causal(attributes.boolean("causal", false)),
          window(attributes.integer("window", 0)),
          scale(attributes.number("scale")),
          kept(1 - attributes.number("dropout", 0)) {}

    std::int64_t group() const { return NH / KVH; }
    std::int64_t p_at(std::int64_t t, std::int64_t s, std::int64_t h) const { return (h * T + t) * S + s; }
    // The keys that position t may read, padding aside: [first_key, end_key).
    std::int64_t end_key(std::int64_t t) const { return causal ? std::clamp<std::int64_t>(t + S - T + 1, 0, S) : S; }
    std::int64_t first_key(std::int64_t t) const {
        return causal && window > 0 ? std::clamp<std::int64_t>(t + S - T - window + 1, 0, S) : 0;
    }
    std::int64_t q_at(std::int64_t b, std::int64_t t, std::int64_t h) const { return ((b * T + t) * NH + h) * HS; }
    std::int64_t k_at(std::int64_t b, std::int64_t s, std::int64_t h) const {
        return ((b * S + s) * KVH + h / group()) * HS;
    }
    std::int64_t lse_at(std::int64_t b, std::int64_t t, std::int64_t h) const { return (b * NH + h) * T + t; }
};

// What is drawn for the probabilities, by the operands behind the padding.
struct Dropped {
    const Tensor *seed = nullptr, *draw = nullptr, *rows = nullptr;

    Dropped(const Op& op, std::span<const Tensor> operands, std::size_t padding_index) {
        if (!has_operand(op, padding_index + 1)) return;
        seed = &operands[padding_index + 1];
        draw = &operands[padding_index + 2];
        rows = &operands[padding_index + 3];
    }
    // What the probability is multiplied by: 0, or 1 / kept.
    double factor(const Shape& n, std::int64_t b, std::int64_t t, std::int64_t s, std::int64_t h) const {
        if (seed == nullptr) return 1;
        const double u = drawn_number(seed->i[0], draw->i[0], rows->i[static_cast<std::size_t>(b)], n.p_at(t, s, h));
        return u < n.kept ? 1 / n.kept : 0;
    }
};

void check_shapes(const InferInput& in, std::size_t q_index, std::size_t padding_index) {
    const Type &q = float_operand(in, q_index), &k = float_operand(in, q_index + 1),
               &v = float_operand(in, q_index + 2);
    require(q.rank() == 4 && k.rank() == 4, fmt::format("q is {}, k is {}: (B, T, NH, HS) and (B, S, KVH, HS) expected",
                                                        dims_text(q.dims), dims_text(k.dims)));
    require(k == v, fmt::format("k is {}, v is {}", to_string(k), to_string(v)));
    require(q.dims[0] == k.dims[0] && q.dims[3] == k.dims[3] && k.dims[2] > 0 && q.dims[2] % k.dims[2] == 0 &&
                q.dtype == k.dtype,
            fmt::format("q is {}, k is {}: one batch and head size, and a multiple of the key heads expected",
                        to_string(q), to_string(k)));
    if (in.has(padding_index)) {
        const Type& padding = boolean_operand(in, padding_index);
        require(padding.dims == Dims{k.dims[0], k.dims[1]},
                fmt::format("padding is {}, (B, S) is ({},{})", dims_text(padding.dims), k.dims[0], k.dims[1]));
    }
    if (in.has(padding_index + 1)) {
        require_numbers(in, padding_index + 1);
        require(in.operand(padding_index + 3).dims[0] == q.dims[0],
                fmt::format("{} does not have {} rows", to_string(q), in.operand(padding_index + 3).dims[0]));
    }
    const double dropout = in.attributes.number("dropout", 0);
    require(dropout >= 0 && dropout < 1, fmt::format("dropout is {}: a number from 0 to below 1 expected", dropout));
    in.attributes.number("scale");
    require(in.attributes.integer("window", 0) == 0 || in.attributes.boolean("causal", false),
            "a window needs causal attention");
}

Type lse_type(const Type& q) {
    return Type::tensor(statistics_dtype(q.dtype), {q.dims[0], q.dims[2], q.dims[1]});
}

// ---- reference ------------------------------------------------------------------------------------------------------

// scale q·k for each key; -inf where the key may not be read.
std::vector<double> score_row(const Shape& n, const Tensor& q, const Tensor& k, const Tensor* padding, std::int64_t b,
                              std::int64_t t, std::int64_t h) {
    std::vector<double> row(static_cast<std::size_t>(n.S), -std::numeric_limits<double>::infinity());
    for (std::int64_t s = n.first_key(t); s < n.end_key(t); ++s) {
        if (padding != nullptr && padding->at(b * n.S + s) == 0) continue;
        double dot = 0;
        for (std::int64_t i = 0; i < n.HS; ++i) dot += q.at(n.q_at(b, t, h) + i) * k.at(n.k_at(b, s, h) + i);
        row[static_cast<std::size_t>(s)] = n.scale * dot;
    }
    return row;
}

std::vector<Tensor> reference_sdpa(const Op& op, std::span<const Tensor> operands, std::span<const Type> results) {
    const Shape n(operands[0].type, operands[1].type, op.attributes);
    const Tensor* padding = has_operand(op, 3) ? &operands[3] : nullptr;
    const Dropped dropped(op, operands, 3);
    Tensor out(results[0]), lse(results[1]);
    for (std::int64_t b = 0; b < n.B; ++b) {
        for (std::int64_t h = 0; h < n.NH; ++h) {
            for (std::int64_t t = 0; t < n.T; ++t) {
                const std::vector<double> row = score_row(n, operands[0], operands[1], padding, b, t, h);
                const double top = *std::max_element(row.begin(), row.end());
                double sum = 0;
                if (std::isfinite(top))
                    for (double s : row) sum += std::exp(s - top);
                lse.set(n.lse_at(b, t, h), sum > 0 ? top + std::log(sum) : -std::numeric_limits<double>::infinity());
                for (std::int64_t s = 0; sum > 0 && s < n.S; ++s) {
                    const double p =
                        std::exp(row[static_cast<std::size_t>(s)] - top) / sum * dropped.factor(n, b, t, s, h);
                    for (std::int64_t i = 0; i < n.HS; ++i) {
                        const std::int64_t at = n.q_at(b, t, h) + i;
                        out.set(at, out.at(at) + p * operands[2].at(n.k_at(b, s, h) + i));
                    }
                }
            }
        }
    }
    return {out, lse};
}

std::vector<Tensor> reference_sdpa_backward(const Op& op, std::span<const Tensor> operands,
                                            std::span<const Type> results) {
    const Tensor &dout = operands[0], &q = operands[1], &k = operands[2], &v = operands[3], &out = operands[4],
                 &lse = operands[5];
    const Shape n(q.type, k.type, op.attributes);
    const Tensor* padding = has_operand(op, 6) ? &operands[6] : nullptr;
    const Dropped dropped(op, operands, 6);
    Tensor dq(results[0]), dk(results[1]), dv(results[2]);
    auto add = [](Tensor& t, std::int64_t at, double value) { t.set(at, t.at(at) + value); };
    for (std::int64_t b = 0; b < n.B; ++b) {
        for (std::int64_t h = 0; h < n.NH; ++h) {
            for (std::int64_t t = 0; t < n.T; ++t) {
                const std::vector<double> row = score_row(n, q, k, padding, b, t, h);
                const std::int64_t at = n.q_at(b, t, h);
                double dot = 0;
                for (std::int64_t i = 0; i < n.HS; ++i) dot += dout.at(at + i) * out.at(at + i);
                for (std::int64_t s = 0; s < n.S; ++s) {
                    if (!std::isfinite(row[static_cast<std::size_t>(s)])) continue;
                    const std::int64_t key = n.k_at(b, s, h);
                    const double p = std::exp(row[static_cast<std::size_t>(s)] - lse.at(n.lse_at(b, t, h)));
                    double dp = 0;
                    for (std::int64_t i = 0; i < n.HS; ++i) dp += dout.at(at + i) * v.at(key + i);
                    const double factor = dropped.factor(n, b, t, s, h);
                    const double ds = n.scale * p * (dp * factor - dot);
                    for (std::int64_t i = 0; i < n.HS; ++i) {
                        add(dv, key + i, p * factor * dout.at(at + i));
                        add(dq, at + i, ds * k.at(key + i));
                        add(dk, key + i, ds * q.at(at + i));
                    }
                }
            }
        }
    }
    return {dq, dk, dv};
}

// ---- decomposition --------------------------------------------------------------------------------------------------

// Heads in front. Queries: (B, KVH, G T, HS), the G query heads of a key head one below the other; keys: (B, KVH, S,
// HS).
Value heads_first(Builder& b, Value x, std::int64_t key_heads) {
    const Dims d = b.type(x).dims;
    return b.reshape(b.transpose(x, {0, 2, 1, 3}), {d[0], key_heads, d[2] / key_heads * d[1], d[3]});
}

Value heads_back(Builder& b, Value x, Dims dims) {
    return b.transpose(b.reshape(x, {dims[0], dims[2], dims[1], dims[3]}), {0, 2, 1, 3});
}

// Which keys may be read, broadcasting to (B, KVH, G, T, S); none where all may.
Value mask(Builder& b, const Shape& n, Value padding) {
    Value result;
    if (n.causal) {
        const Type index = Type::tensor(DType::i64, {n.T, n.S}), boolean = Type::tensor(DType::boolean, {n.T, n.S});
        ConstPtr key = ConstExpr::affine(index, 0, {0, 1});
        ConstPtr last = ConstExpr::affine(index, static_cast<double>(n.S - n.T), {1, 0});
        ConstPtr readable = ConstExpr::elementwise(boolean, "le", {key, last});
        if (n.window > 0) {
            ConstPtr before = ConstExpr::affine(index, static_cast<double>(n.S - n.T - n.window), {1, 0});
            readable = ConstExpr::elementwise(boolean, "and",
                                              {readable, ConstExpr::elementwise(boolean, "gt", {key, before})});
        }
        result = b.constant(readable, "causal");
    }
    if (!padding) return result;
    Value keys = b.reshape(padding, {n.B, 1, 1, 1, n.S});
    return result ? b.op("and", {result, keys}) : keys;
}

struct Pieces {
    Shape n;
    DType dtype;     // of the statistics
    Value q, k, v;   // heads first
    Value scores;    // (B, KVH, G, T, S), scaled, in the type of the statistics
    Value readable;  // none: all keys
    Value keep;      // none: nothing is dropped

    Pieces(Builder& b, const Op& op, std::size_t q_index, std::size_t padding_index)
        : Pieces(b, op.operands[q_index], op.operands[q_index + 1], op.operands[q_index + 2],
                 operand_or_none(op, padding_index), op.attributes) {
        if (!has_operand(op, padding_index + 1)) return;
        keep =
            named(b,
                  b.op("bernoulli",
                       {op.operands[padding_index + 1], op.operands[padding_index + 2], op.operands[padding_index + 3]},
                       {{"dims", Dims{n.KVH, n.group(), n.T, n.S}}, {"p", n.kept}}),
                  "keep");
    }
    Pieces(Builder& b, Value q_in, Value k_in, Value v_in, Value padding, const Attributes& attributes)
        : n(b.type(q_in), b.type(k_in), attributes), dtype(statistics_dtype(b.type(q_in).dtype)) {
        q = heads_first(b, q_in, n.KVH);
        k = heads_first(b, k_in, n.KVH);
        v = heads_first(b, v_in, n.KVH);
        Value products = b.reshape(matmul(b, q, k, false, true), {n.B, n.KVH, n.group(), n.T, n.S});
        scores = b.mul(b.cast(products, dtype), n.scale);
        readable = mask(b, n, padding);
    }

    Value where_readable(Builder& b, Value x, double otherwise) const {
        return readable ? b.op("select", {readable, x, b.scalar(dtype, otherwise)}) : x;
    }
    // The dropout of x, which is linear.
    Value dropped(Builder& b, Value x) const {
        return keep ? b.op("select", {keep, b.mul(x, 1 / n.kept), b.scalar(dtype, 0)}) : x;
    }
    // (B, KVH, G, T, S) as matrices (B, KVH, G T, S) in the type of q.
    Value matrices(Builder& b, Value x) const {
        return b.cast(b.reshape(x, {n.B, n.KVH, n.group() * n.T, n.S}), b.type(q).dtype);
    }
    Value probabilities(Builder& b, Value lse) const {
        Value shifted = b.sub(scores, b.reshape(lse, {n.B, n.KVH, n.group(), n.T, 1}));
        return where_readable(b, b.op("exp", {shifted}), 0);
    }
    // dq and dk from the cotangent of the scaled scores.
    std::pair<Value, Value> backward(Builder& b, Value ds, const Dims& q_dims, const Dims& k_dims) const {
        Value scaled = matrices(b, b.mul(ds, n.scale));
        return {heads_back(b, matmul(b, scaled, k, false, false), q_dims),
                heads_back(b, matmul(b, scaled, q, true, false), k_dims)};
    }
};

std::vector<Value> decompose_sdpa(Builder& b, const Op& op) {
    const Type q = b.type(op.operands[0]);
    const Pieces a(b, op, 0, 3);
    Value top = b.op("reduce_max", {a.where_readable(b, a.scores, -std::numeric_limits<double>::infinity())},
                     {{"axes", Dims{4}}, {"keep_dims", true}});
    Value e = a.where_readable(b, b.op("exp", {b.sub(a.scores, top)}), 0);
    Value sum = b.reduce_sum(e, {4}, true);
    Value lse = b.add(top, b.op("log", {sum}));
    // rows that may read nothing sum to 0
    if (has_operand(op, 3) || (a.n.causal && a.n.T > a.n.S))
        sum = b.op("select", {b.op("gt", {sum, b.scalar(a.dtype, 0)}), sum, b.scalar(a.dtype, 1)});
    Value out = matmul(b, a.matrices(b, a.dropped(b, b.div(e, sum))), a.v, false, false);
    return {heads_back(b, out, q.dims), b.reshape(lse, {a.n.B, a.n.NH, a.n.T})};
}

std::vector<Value> decompose_sdpa_backward(Builder& b, const Op& op) {
    const Dims q_dims = b.type(op.operands[1]).dims, k_dims = b.type(op.operands[2]).dims;
    const Pieces a(b, op, 1, 6);
    Value p = a.probabilities(b, op.operands[5]);
    Value dout = heads_first(b, op.operands[0], a.n.KVH);
    Value dv = heads_back(b, matmul(b, a.matrices(b, a.dropped(b, p)), dout, true, false), k_dims);
    const Dims score_dims = b.type(p).dims;
    Value dp = a.dropped(b, b.cast(b.reshape(matmul(b, dout, a.v, false, true), score_dims), a.dtype));
    Value products = b.mul(b.cast(op.operands[0], a.dtype), b.cast(op.operands[4], a.dtype));  // (B, T, NH, HS)
    Value dots = b.transpose(b.reduce_sum(products, {3}), {0, 2, 1});                          // (B, NH, T)
    Value ds = b.mul(p, b.sub(dp, b.reshape(dots, {a.n.B, a.n.KVH, a.n.group(), a.n.T, 1})));
    auto [dq, dk] = a.backward(b, ds, q_dims, k_dims);
    return {dq, dk, dv};
}

VjpResult sdpa_vjp(const VjpInput& in) {
    Builder& b = in.b;
    const Op& op = in.op;
    Value q = op.operands[0], k = op.operands[1], v = op.operands[2], padding = operand_or_none(op, 3);
    VjpResult result(op.operands.size());
    if (in.cotangents[0]) {
        std::vector<Value> operands = {in.cotangents[0], q, k, v, in.result(0), in.result(1)};
        operands.insert(operands.end(), op.operands.begin() + 3, op.operands.end());
        std::vector<Value> gradients = b.emit("sdpa_backward", operands, op.attributes);
        std::copy(gradients.begin(), gradients.end(), result.begin());
    }
    if (in.cotangents.size() > 1 && in.cotangents[1]) {
        const Pieces a(b, q, k, v, padding, op.attributes);
        Value dlse = b.reshape(in.cotangents[1], {a.n.B, a.n.KVH, a.n.group(), a.n.T, 1});
        auto [dq, dk] = a.backward(b, b.mul(a.probabilities(b, in.result(1)), dlse), b.type(q).dims, b.type(k).dims);
        result[0] = add_optional(b, result[0], dq);
        result[1] = add_optional(b, result[1], dk);
    }
    return result;
}

// ---- calls ----------------------------------------------------------------------------------------------------------

void sdpa_fields(RuntimeCall& call, const Op& op, std::size_t padding_index, const Shape& n) {
    if (has_operand(op, padding_index)) call.fields.push_back(operand_field("padding", padding_index).shaped("B S"));
    if (has_operand(op, padding_index + 1)) {
        call.fields.push_back(operand_field("seed", padding_index + 1));
        call.fields.push_back(operand_field("draw", padding_index + 2));
        call.fields.push_back(operand_field("numbers", padding_index + 3).shaped("B"));
        call.fields.push_back(literal_field("kept", fmt::format("{}", n.kept)));
    }
    if (n.causal) call.fields.push_back(literal_field("causal", std::string("true")));
    if (n.window > 0) call.fields.push_back(literal_field("window", n.window));
    call.fields.push_back(literal_field("scale", float_literal(n.scale)));
    call.fields.push_back(literal_field("B", n.B));
    call.fields.push_back(literal_field("T", n.T));
    call.fields.push_back(literal_field("S", n.S));
    call.fields.push_back(literal_field("NH", n.NH));
    call.fields.push_back(literal_field("KVH", n.KVH));
    call.fields.push_back(literal_field("HS", n.HS));
}

std::string describe(const Shape& n) {
    std::string text = n.causal ? "causal attention" : "attention";
    if (n.window > 0) text += fmt::format(" to the last {} positions", n.window);
    if (n.kept < 1) text += fmt::format(", of whose probabilities {:.6g} are dropped", 1 - n.kept);
    return text;
}

std::string gpu_provider(const Shape& n, DType dtype, bool padding) {
    std::string reason;
    if (n.kept < 1)
        reason = "cuDNN's dropout draws other numbers than CPUs do";
    else if (!is_narrow(dtype))
        reason = fmt::format("cuDNN's takes no {}", name_of(dtype));
    else if (padding)
        reason = "cuDNN's has no mask of single positions";
    else if (n.HS % 8 != 0 || n.HS > 128)
        reason = fmt::format("cuDNN's heads have a multiple of 8 elements up to 128, and these {}", n.HS);
    return reason.empty() ? "on GPUs by cuDNN" : "on GPUs by the runtime's own blocks: " + reason;
}

RuntimeCall call_forward(const Op& op, const Function& f) {
    const Shape n(f.type(op.operands[0]), f.type(op.operands[1]), op.attributes);
    RuntimeCall call{"attention_forward", {}, describe(n) + "; keeps the log-sum-exp of each row of scores"};
    call.fields = {result_field("out", 0, "ld_out", 2).shaped("B T NH HS"), result_field("lse", 1).shaped("B NH T"),
                   operand_field("q", 0, "ld_q", 2).shaped("B T NH HS"),
                   operand_field("k", 1, "ld_k", 2).shaped("B S KVH HS"),
                   operand_field("v", 2, "ld_v", 2).shaped("B S KVH HS")};
    sdpa_fields(call, op, 3, n);
    return call;
}

RuntimeCall call_backward(const Op& op, const Function& f) {
    const Shape n(f.type(op.operands[1]), f.type(op.operands[2]), op.attributes);
    RuntimeCall call{"attention_backward", {}, "dq, dk, dv of " + describe(n)};
    call.fields = {result_field("dq", 0, "ld_dq", 2).shaped("B T NH HS"),
                   result_field("dk", 1, "ld_dk", 2).shaped("B S KVH HS"),
                   result_field("dv", 2, "ld_dv", 2).shaped("B S KVH HS"),
                   operand_field("dout", 0, "ld_dout", 2).shaped("B T NH HS"),
                   operand_field("q", 1, "ld_q", 2).shaped("B T NH HS"),
                   operand_field("k", 2, "ld_k", 2).shaped("B S KVH HS"),
                   operand_field("v", 3, "ld_v", 2).shaped("B S KVH HS"),
                   operand_field("out", 4, "ld_out", 2).shaped("B T NH HS"),
                   operand_field("lse", 5).shaped("B NH T")};
    sdpa_fields(call, op, 6, n);
    return call;
}

// Of one product over the pairs of positions that are read.
double sdpa_flops(const Shape& n) {
    double pairs = 0;
    for (std::int64_t t = 0; t < n.T; ++t) pairs += static_cast<double>(n.end_key(t) - n.first_key(t));
    return 2.0 * static_cast<double>(n.B * n.NH * n.HS) * pairs;
}

}  // namespace

std::string sdpa_on_gpus(const Op& op, const Function& f) {
    const std::size_t q = op.name == "sdpa" ? 0 : 1;
    const Type &of_q = f.type(op.operands[q]), &of_k = f.type(op.operands[q + 1]);
    return gpu_provider(Shape(of_q, of_k, op.attributes), of_q.dtype, has_operand(op, q == 0 ? 3 : 6));
}

std::vector<OpDef> define_sdpa() {
    auto attributes = [](double scale, bool causal = false, std::int64_t window = 0) {
        Attributes a{{"scale", scale}};
        if (causal) a.set("causal", true);
        if (window > 0) a.set("window", window);
        return a;
    };

    OpDef forward;
    forward.name = "sdpa";
    forward.level = OpLevel::composite;
    forward.rows = {.kind = Rows::Kind::first};
    forward.summary =
        "Attention of q (B, T, NH, HS) over k and v (B, S, KVH, HS), with masks causal, window and padding (B, S), "
        "and with dropout of the probabilities; keeps lse (B, NH, T).";
    forward.formula =
        "s = scale q kT, p = exp(s - lse), out = p v. dv = pT dout, ds = p (dout vT - sum(dout out)), dq = scale ds k, "
        "dk = scale dsT q";
    forward.source = "Vaswani et al., Attention Is All You Need, 2017; Dao et al., FlashAttention, 2022";
    forward.infer = [](const InferInput& in) {
        require_operands(in, 3, 7);
        check_shapes(in, 0, 3);
        return std::vector<Type>{in.operand(0), lse_type(in.operand(0))};
    };
    forward.reference = reference_sdpa;
    forward.vjp = sdpa_vjp;
    forward.decompose = decompose_sdpa;
    forward.call = call_forward;
    forward.flops = [](const Op& op, const Function& f) {
        return 2 * sdpa_flops(Shape(f.type(op.operands[0]), f.type(op.operands[1]), op.attributes));
    };
    forward.precision = {.kind = Precision::Kind::product};
    forward.autocast = Autocast::low;
    forward.recompute = Recompute::expensive;
    forward.result_names = {"out", "lse"};
    forward.operand_names = {"q", "k", "v", "padding", "seed", "draw", "rows"};
    forward.samples = {
        {.name = "full",
         .operands = {f32({2, 3, 2, 4}), f32({2, 5, 2, 4}), f32({2, 5, 2, 4})},
         .attributes = attributes(0.5)},
        {.name = "causal, grouped heads",
         .operands = {f32({1, 5, 6, 3}), f32({1, 5, 2, 3}), f32({1, 5, 2, 3})},
         .attributes = attributes(0.577, true)},
        {.name = "causal, more keys than queries",
         .operands = {f32({1, 2, 2, 3}), f32({1, 5, 1, 3}), f32({1, 5, 1, 3})},
         .attributes = attributes(1, true)},
        {.name = "window",
         .operands = {f32({1, 6, 1, 3}), f32({1, 6, 1, 3}), f32({1, 6, 1, 3})},
         .attributes = attributes(0.7, true, 3)},
        {.name = "padding",
         .operands = {f32({2, 3, 2, 2}), f32({2, 4, 1, 2}), f32({2, 4, 1, 2}),
                      bool_of({2, 4}, {1, 1, 0, 0, 0, 1, 1, 1})},
         .attributes = attributes(0.7)},
        {.name = "causal, right padding",
         .operands = {f32({2, 3, 1, 2}), f32({2, 3, 1, 2}), f32({2, 3, 1, 2}), bool_of({2, 3}, {1, 1, 0, 1, 0, 0})},
         .attributes = attributes(0.7, true)},
    };
    Attributes dropping = attributes(0.7, true);
    dropping.set("dropout", 0.3);
    forward.samples.push_back({.name = "dropout, grouped heads",
                               .operands = {f32({2, 4, 2, 2}), f32({2, 4, 1, 2}), f32({2, 4, 1, 2}), absent(),
                                            i64_of({}, {5}), i64_of({}, {3}), i64_of({2}, {7, 8})},
                               .attributes = dropping});
    forward.samples.push_back(
        {.name = "dropout, padding",
         .operands = {f32({1, 3, 1, 2}), f32({1, 5, 1, 2}), f32({1, 5, 1, 2}), bool_of({1, 5}, {1, 1, 0, 1, 1}),
                      i64_of({}, {5}), i64_of({}, {3}), i64_of({1}, {7})},
         .attributes = {{"scale", 0.7}, {"dropout", 0.5}}});
    forward.samples.push_back({.name = "dropout that is not placed",
                               .operands = {f32({1, 3, 1, 2}), f32({1, 3, 1, 2}), f32({1, 3, 1, 2})},
                               .attributes = dropping});
    // rows that read nothing have an lse of -inf, which no difference quotient survives
    Sample nothing{
        .name = "causal, left padding",
        .operands = {f32({2, 3, 1, 2}), f32({2, 3, 1, 2}), f32({2, 3, 1, 2}), bool_of({2, 3}, {0, 1, 1, 0, 0, 1})},
        .attributes = attributes(0.7, true)};
    for (SampleOperand& operand : nothing.operands) operand.differentiable = false;
    forward.samples.push_back(nothing);
    forward.smooth = "a softmax of what is not masked";
    forward.errors = {
        {{f32_type({2, 3, 2, 4}), f32_type({2, 3, 2, 4}), f32_type({2, 3, 2, 5})},
         attributes(1),
         "k is f32[2,3,2,4], v is f32[2,3,2,5]"},
        {{f32_type({2, 3, 3, 4}), f32_type({2, 3, 2, 4}), f32_type({2, 3, 2, 4})},
         attributes(1),
         "q is f32[2,3,3,4], k is f32[2,3,2,4]: one batch and head size, and a multiple of the key heads expected"},
        {{f32_type({2, 3, 2, 4}), f32_type({2, 3, 2, 4}), f32_type({2, 3, 2, 4}), bool_type({2, 4})},
         attributes(1),
         "padding is (2,4), (B, S) is (2,3)"},
        {{f32_type({2, 3, 2, 4}), f32_type({2, 3, 2, 4}), f32_type({2, 3, 2, 4})},
         attributes(1, false, 2),
         "a window needs causal attention"},
        {{f32_type({2, 3, 2, 4}), f32_type({2, 3, 2, 4}), f32_type({2, 3, 2, 4}), std::nullopt, i64_type({}),
          i64_type({}), i64_type({3})},
         dropping,
         "f32[2,3,2,4] does not have 3 rows"},
    };

    OpDef backward;
    backward.name = "sdpa_backward";
    backward.level = OpLevel::composite;
    backward.rows = {.kind = Rows::Kind::first};
    backward.summary =
        "The cotangents of sdpa's q, k and v, from dout, q, k, v, and the out and lse that forward left.";
    backward.formula =
        "p = exp(scale q kT - lse); dv = pT dout; ds = p (dout vT - sum(dout out)); dq = scale ds k; dk = scale dsT q";
    backward.source = "the VJP of sdpa; Dao et al., FlashAttention, 2022";
    backward.infer = [](const InferInput& in) {
        require_operands(in, 6, 10);
        check_shapes(in, 1, 6);
        const Type& q = in.operand(1);
        for (std::size_t i : {std::size_t{0}, std::size_t{4}})
            require(in.operand(i) == q,
                    fmt::format("{} is {}, q is {}", i == 0 ? "dout" : "out", to_string(in.operand(i)), to_string(q)));
        require(in.operand(5) == lse_type(q),
                fmt::format("lse is {}, q is {}", to_string(in.operand(5)), to_string(q)));
        return std::vector<Type>{q, in.operand(2), in.operand(3)};
    };
    backward.reference = reference_sdpa_backward;
    backward.not_differentiable = "a gradient of first order only: its decomposition can be differentiated";
    backward.decompose = decompose_sdpa_backward;
    backward.call = call_backward;
    // the scores again, then four products
    backward.flops = [](const Op& op, const Function& f) {
        return 5 * sdpa_flops(Shape(f.type(op.operands[1]), f.type(op.operands[2]), op.attributes));
    };
    backward.precision = {.kind = Precision::Kind::product, .low_operands = {0, 1, 2, 3, 4}};  // lse stays f32
    backward.recompute = Recompute::expensive;
    backward.result_names = {"dq", "dk", "dv"};
    for (const Sample& sample : forward.samples) {
        Sample copy = sample;
        const Dims q = sample.operands[0].type.dims;
        // out and lse need not be those of q, k, v: both sides are given the same
        copy.operands = {f32(q), sample.operands[0],           sample.operands[1], sample.operands[2],
                         f32(q), f32({q[0], q[2], q[1]}, 1, 2)};
        copy.operands.insert(copy.operands.end(), sample.operands.begin() + 3, sample.operands.end());
        backward.samples.push_back(copy);
    }
    backward.errors = {
        {{f32_type({2, 3, 2, 4}), f32_type({2, 3, 2, 4}), f32_type({2, 3, 2, 4}), f32_type({2, 3, 2, 4}),
          f32_type({2, 3, 2, 4}), f32_type({2, 3, 2})},
         attributes(1),
         "lse is f32[2,3,2], q is f32[2,3,2,4]"},
    };
    return {forward, backward};
}

}  // namespace thunderc

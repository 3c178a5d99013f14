// SPDX-License-Identifier: Apache-2.0
// Attention against its definition in fp64: masks of every kind, grouped heads, strides, sequences longer and shorter
// than a block, more keys than queries.
#include <bit>
#include <limits>
#include <sstream>

#include "check.h"
#include "device/api.h"
#include "support/philox.h"

namespace thunder {
namespace attention_test {

using testing::random;

struct Case {
    std::int64_t B, T, S, NH, KVH, HS;
    bool causal;
    std::int64_t window;
    bool padding;
    std::int64_t gap;  // between the positions of each tensor
    double kept = 1;   // of the probabilities
    std::string text() const {
        std::ostringstream text;
        text << "B" << B << " T" << T << " S" << S << " NH" << NH << " KVH" << KVH << " HS" << HS;
        text << (causal ? " causal" : "") << " window " << window << (padding ? " padding" : "") << " gap " << gap
             << " kept " << kept;
        return text.str();
    }
};

const Case cases[] = {
    {1, 1, 1, 1, 1, 16, false, 0, false, 0},        {1, 1, 1, 1, 1, 5, true, 0, false, 0},
    {2, 64, 64, 4, 4, 16, true, 0, false, 0},       {1, 129, 129, 2, 1, 64, true, 0, false, 0},
    {2, 50, 50, 6, 2, 24, true, 0, false, 3},       {1, 200, 200, 2, 2, 40, true, 37, false, 0},
    {1, 131, 131, 3, 1, 16, true, 1, false, 1},     {2, 33, 70, 4, 2, 32, false, 0, false, 5},
    {1, 33, 170, 2, 2, 16, true, 0, false, 0},      {1, 100, 40, 2, 1, 16, true, 0, false, 0},
    {3, 70, 70, 2, 2, 16, true, 0, true, 0},        {2, 49, 130, 4, 1, 80, false, 0, true, 0},
    {1, 97, 97, 1, 1, 256, true, 0, false, 0},      {1, 150, 190, 2, 1, 128, true, 50, true, 2},
    {1, 260, 260, 5, 5, 16, true, 64, false, 0},    {1, 20, 300, 1, 1, 48, false, 0, false, 0},
    {2, 50, 50, 6, 2, 24, true, 0, false, 3, 0.8},  {1, 131, 131, 3, 1, 16, true, 40, false, 1, 0.5},
    {2, 49, 130, 4, 1, 80, false, 0, true, 0, 0.9}, {3, 70, 70, 2, 2, 16, true, 0, true, 0, 0.9},
};

// Tensors of a case, and their gradients.
struct Tensors {
    std::vector<float> q, k, v, dout, out, lse, dq, dk, dv;
    std::vector<char> keys;  // as boolean
    std::vector<std::int64_t> numbers = {7, 0x500000001, 9};
    std::int64_t seed = 0x100000003, draw = 5;
    std::int64_t ld_q, ld_k;

    explicit Tensors(const Case& c) : ld_q(c.NH * c.HS + c.gap), ld_k(c.KVH * c.HS + c.gap) {
        q = random(c.B * c.T * ld_q, 1), k = random(c.B * c.S * ld_k, 2), v = random(c.B * c.S * ld_k, 3),
        dout = random(c.B * c.T * ld_q, 4);
        out = random(c.B * c.T * ld_q, 5), dq = random(c.B * c.T * ld_q, 6), dk = random(c.B * c.S * ld_k, 7),
        dv = random(c.B * c.S * ld_k, 8);
        lse.resize(static_cast<std::size_t>(c.B * c.NH * c.T));
        for (std::int64_t i = 0; i < c.B * c.S; ++i) keys.push_back(i % c.S < c.S - 1 - 7 * (i / c.S) && i % 11 != 3);
    }
    const bool* padding(const Case& c) const {
        return c.padding ? reinterpret_cast<const bool*>(keys.data()) : nullptr;
    }
};

// What the probability is multiplied by.
double weight_of(const Case& c, const Tensors& t, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    if (c.kept == 1) return 1;
    const auto number = static_cast<std::uint64_t>(t.numbers[static_cast<std::size_t>(b)]);
    const std::int64_t place = (h * c.T + i) * c.S + j;
    const PhiloxCounter words = philox({static_cast<std::uint32_t>(place / 4), 0, static_cast<std::uint32_t>(number),
                                        static_cast<std::uint32_t>(number >> 32)},
                                       {static_cast<std::uint32_t>(t.draw), static_cast<std::uint32_t>(t.seed)});
    return (words[static_cast<std::size_t>(place % 4)] >> 8) * 0x1p-24 < c.kept ? 1 / c.kept : 0;
}

float scale_of(const Case& c) {
    return 1.0F / std::sqrt(static_cast<float>(c.HS));
}

void forward(const Case& c, Tensors& t, Stream& stream) {
    attention_forward({.out = t.out.data(),
                       .lse = t.lse.data(),
                       .q = t.q.data(),
                       .k = t.k.data(),
                       .v = t.v.data(),
                       .padding = t.padding(c),
                       .causal = c.causal,
                       .window = c.window,
                       .seed = c.kept == 1 ? nullptr : &t.seed,
                       .draw = &t.draw,
                       .numbers = t.numbers.data(),
                       .kept = c.kept,
                       .scale = scale_of(c),
                       .B = c.B,
                       .T = c.T,
                       .S = c.S,
                       .NH = c.NH,
                       .KVH = c.KVH,
                       .HS = c.HS,
                       .ld_out = t.ld_q,
                       .ld_q = t.ld_q,
                       .ld_k = t.ld_k,
                       .ld_v = t.ld_k},
                      stream);
}
void backward(const Case& c, Tensors& t, Stream& stream) {
    attention_backward({.dq = t.dq.data(),
                        .dk = t.dk.data(),
                        .dv = t.dv.data(),
                        .dout = t.dout.data(),
                        .q = t.q.data(),
                        .k = t.k.data(),
                        .v = t.v.data(),
                        .out = t.out.data(),
                        .lse = t.lse.data(),
                        .padding = t.padding(c),
                        .causal = c.causal,
                        .window = c.window,
                        .seed = c.kept == 1 ? nullptr : &t.seed,
                        .draw = &t.draw,
                        .numbers = t.numbers.data(),
                        .kept = c.kept,
                        .scale = scale_of(c),
                        .B = c.B,
                        .T = c.T,
                        .S = c.S,
                        .NH = c.NH,
                        .KVH = c.KVH,
                        .HS = c.HS,
                        .ld_dq = t.ld_q,
                        .ld_dk = t.ld_k,
                        .ld_dv = t.ld_k,
                        .ld_dout = t.ld_q,
                        .ld_q = t.ld_q,
                        .ld_k = t.ld_k,
                        .ld_v = t.ld_k,
                        .ld_out = t.ld_q},
                       stream);
}

// The definition, with all T x S scores in memory, and its gradients by the chain rule.
struct Exact {
    std::vector<double> out, lse, dq, dk, dv;

    Exact(const Case& c, const Tensors& t) {
        out = testing::wide(t.out), dq = testing::wide(t.dq), dk = testing::wide(t.dk),
        dv = testing::wide(t.dv);  // gaps stay
        lse.resize(t.lse.size());
        const double scale = scale_of(c), none = -std::numeric_limits<double>::infinity();
        const auto q_at = [&](std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d) {
            return static_cast<std::size_t>((b * c.T + s) * t.ld_q + h * c.HS + d);
        };
        const auto k_at = [&](std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d) {
            return static_cast<std::size_t>((b * c.S + s) * t.ld_k + h * c.HS + d);
        };
        for (std::int64_t b = 0; b < c.B; ++b) {
            for (std::int64_t s = 0; s < c.S; ++s) {
                for (std::int64_t h = 0; h < c.KVH; ++h) {
                    for (std::int64_t d = 0; d < c.HS; ++d) dk[k_at(b, s, h, d)] = dv[k_at(b, s, h, d)] = 0;
                }
            }
            for (std::int64_t h = 0; h < c.NH; ++h) {
                const std::int64_t kv = h / (c.NH / c.KVH);
                for (std::int64_t i = 0; i < c.T; ++i) {
                    std::vector<double> x(static_cast<std::size_t>(c.S), none);
                    double largest = none, sum = 0;
                    for (std::int64_t j = 0; j < c.S; ++j) {
                        if (c.causal && j > i + c.S - c.T) continue;
                        if (c.causal && c.window > 0 && j <= i + c.S - c.T - c.window) continue;
                        if (c.padding && t.keys[static_cast<std::size_t>(b * c.S + j)] == 0) continue;
                        double dot = 0;
                        for (std::int64_t d = 0; d < c.HS; ++d)
                            dot += static_cast<double>(t.q[q_at(b, i, h, d)]) *
                                   static_cast<double>(t.k[k_at(b, j, kv, d)]);
                        x[static_cast<std::size_t>(j)] = dot * scale;
                        largest = std::max(largest, dot * scale);
                    }
                    for (double& value : x) {
                        value = largest == none ? 0 : std::exp(value - largest);
                        sum += value;
                    }
                    lse[static_cast<std::size_t>((b * c.NH + h) * c.T + i)] = sum == 0 ? none : largest + std::log(sum);
                    for (double& value : x) value = sum == 0 ? 0 : value / sum;
                    double D = 0;
                    for (std::int64_t d = 0; d < c.HS; ++d) {
                        double o = 0;
                        for (std::int64_t j = 0; j < c.S; ++j)
                            o += weight_of(c, t, b, h, i, j) * x[static_cast<std::size_t>(j)] *
                                 static_cast<double>(t.v[k_at(b, j, kv, d)]);
                        out[q_at(b, i, h, d)] = o;
                        D += o * static_cast<double>(t.dout[q_at(b, i, h, d)]);
                        dq[q_at(b, i, h, d)] = 0;
                    }
                    for (std::int64_t j = 0; j < c.S; ++j) {
                        const double p = x[static_cast<std::size_t>(j)];
                        if (p == 0) continue;
                        double dp = 0;
                        for (std::int64_t d = 0; d < c.HS; ++d)
                            dp += static_cast<double>(t.dout[q_at(b, i, h, d)]) *
                                  static_cast<double>(t.v[k_at(b, j, kv, d)]);
                        const double weight = weight_of(c, t, b, h, i, j), ds = p * (dp * weight - D) * scale;
                        for (std::int64_t d = 0; d < c.HS; ++d) {
                            dv[k_at(b, j, kv, d)] += p * weight * static_cast<double>(t.dout[q_at(b, i, h, d)]);
                            dq[q_at(b, i, h, d)] += ds * static_cast<double>(t.k[k_at(b, j, kv, d)]);
                            dk[k_at(b, j, kv, d)] += ds * static_cast<double>(t.q[q_at(b, i, h, d)]);
                        }
                    }
                }
            }
        }
    }
};

TEST(Attention, ForwardAndBackward) {
    for (const int threads : {1, 2}) {
        Device device(threads);
        Stream stream(device);
        for (const Case& c : cases) {
            SCOPED_TRACE(c.text());
            Tensors t(c);
            const Exact exact(c, t);
            forward(c, t, stream);
            // averages of normal numbers: some roundings of size 1; scores are sums of HS terms, and an exponential
            // passes their absolute error on as a relative one
            testing::expect_close(t.out, exact.out, 2e-6, 1.0, "out");
            for (std::size_t i = 0; i < t.lse.size(); ++i) {
                if (std::isinf(exact.lse[i])) {
                    ASSERT_EQ(t.lse[i], -std::numeric_limits<float>::infinity()) << i;
                } else {
                    ASSERT_NEAR(t.lse[i], exact.lse[i], 5e-6) << i;
                }
            }
            backward(c, t, stream);
            // dP is a sum of HS products of size 1, dK and dV sum up to T rows of it
            testing::expect_close(t.dq, exact.dq, 5e-6, 2.0, "dq");
            testing::expect_close(t.dk, exact.dk, 5e-6, 4.0, "dk");
            testing::expect_close(t.dv, exact.dv, 5e-6, 4.0, "dv");
        }
    }
}

TEST(Attention, SameBitsAtAnyThreadCount) {
    for (const Case& c : cases) {
        SCOPED_TRACE(c.text());
        testing::expect_same_bits_at_any_thread_count([&](Stream& stream) {
            Tensors t(c);
            forward(c, t, stream);
            backward(c, t, stream);
            std::vector<float> all;
            for (const auto* part : {&t.out, &t.lse, &t.dq, &t.dk, &t.dv})
                all.insert(all.end(), part->begin(), part->end());
            return all;
        });
    }
}

TEST(Attention, ScoresFarApartDoNotOverflow) {
    Device device(2);
    Stream stream(device);
    const Case c{1, 70, 70, 1, 1, 16, true, 0, false, 0};
    Tensors t(c);
    for (float& x : t.q) x *= 60;  // scores of some hundreds
    const Exact exact(c, t);
    forward(c, t, stream);
    backward(c, t, stream);
    // the error of a score of 1e3 in f32 is 1e-4 of it, and goes into the probabilities where two of them compete
    testing::expect_close(t.out, exact.out, 5e-4, 1.0, "out");
    testing::expect_close(t.dv, exact.dv, 5e-4, 1.0, "dv");
}

}  // namespace attention_test
}  // namespace thunder

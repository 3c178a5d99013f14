// SPDX-License-Identifier: Apache-2.0
// Attention in blocks of our own on the emulated GPU, against a naive reference in double.
#include <cmath>
#include <functional>
#include <limits>

#include "device/api.h"
#include "device/cuda/attention/attention.h"
#include "emulation/bundled.h"
#include "support/philox.h"

namespace thunder {

// The emulated GPU has no cuDNN.
bool cudnn_attention_forward(const AttentionForward&, Stream&) {
    return false;
}
bool cudnn_attention_backward(const AttentionBackward&, Stream&) {
    return false;
}

namespace {

// ---- attention -----------------------------------------------------------------------------------------------------

struct AttentionCase {
    std::int64_t B, T, S, NH, KVH, HS;
    bool causal, padded;
    std::int64_t window;
    std::int64_t gap;  // elements between positions
    double kept = 1;   // of the probabilities
};

constexpr std::int64_t attention_seed = 0x100000003, attention_draw = 5;
const std::vector<std::int64_t> attention_numbers = {0x500000001, 9};

// What the probability is multiplied by.
double weight_of(const AttentionCase& c, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s) {
    if (c.kept == 1) return 1;
    const auto number = static_cast<std::uint64_t>(attention_numbers[static_cast<std::size_t>(b)]);
    const std::int64_t place = (h * c.T + t) * c.S + s;
    const PhiloxCounter words = philox({static_cast<std::uint32_t>(place / 4), 0, static_cast<std::uint32_t>(number),
                                        static_cast<std::uint32_t>(number >> 32)},
                                       {attention_draw, static_cast<std::uint32_t>(attention_seed)});
    return (words[static_cast<std::size_t>(place % 4)] >> 8) * 0x1p-24 < c.kept ? 1 / c.kept : 0;
}

// softmax(scale q k) v and its gradients, in double.
struct NaiveAttention {
    std::vector<double> out, lse, dq, dk, dv;

    NaiveAttention(const AttentionCase& c, const std::vector<float>& q, const std::vector<float>& k,
                   const std::vector<float>& v, const std::vector<float>& dout, const std::vector<char>& mask,
                   double scale) {
        const auto at = [&](std::int64_t b, std::int64_t p, std::int64_t h, std::int64_t positions,
                            std::int64_t heads) {
            return static_cast<std::size_t>((b * positions + p) * (heads * c.HS + c.gap) + h * c.HS);
        };
        out.resize(q.size());
        dq.resize(q.size());
        dk.resize(k.size());
        dv.resize(v.size());
        for (std::int64_t b = 0; b < c.B; ++b) {
            for (std::int64_t h = 0; h < c.NH; ++h) {
                for (std::int64_t t = 0; t < c.T; ++t) {
                    const std::int64_t kv = h / (c.NH / c.KVH), last = t + c.S - c.T;
                    const std::size_t query = at(b, t, h, c.T, c.NH);
                    std::vector<double> p(static_cast<std::size_t>(c.S));
                    double total = 0;
                    for (std::int64_t s = 0; s < c.S; ++s) {
                        const bool reads = (!c.causal || (s <= last && (c.window == 0 || s > last - c.window))) &&
                                           (!c.padded || mask[static_cast<std::size_t>(b * c.S + s)] != 0);
                        if (!reads) continue;
                        double score = 0;
                        const std::size_t key = at(b, s, kv, c.S, c.KVH);
                        for (std::int64_t d = 0; d < c.HS; ++d)
                            score += static_cast<double>(q[query + static_cast<std::size_t>(d)]) *
                                     static_cast<double>(k[key + static_cast<std::size_t>(d)]);
                        total += p[static_cast<std::size_t>(s)] = std::exp(score * scale);
                    }
                    lse.push_back(std::log(total));
                    if (total == 0) continue;
                    double delta = 0;
                    std::vector<double> dp(p.size());
                    for (std::int64_t s = 0; s < c.S; ++s) {
                        const std::size_t key = at(b, s, kv, c.S, c.KVH);
                        auto& weight = p[static_cast<std::size_t>(s)];
                        weight /= total;
                        const double kept = weight_of(c, b, h, t, s);
                        for (std::int64_t d = 0; d < c.HS; ++d) {
                            const auto i = static_cast<std::size_t>(d);
                            out[query + i] += kept * weight * static_cast<double>(v[key + i]);
                            dv[key + i] += kept * weight * static_cast<double>(dout[query + i]);
                            dp[static_cast<std::size_t>(s)] +=
                                static_cast<double>(dout[query + i]) * static_cast<double>(v[key + i]);
                        }
                        dp[static_cast<std::size_t>(s)] *= kept;
                        delta += weight * dp[static_cast<std::size_t>(s)];
                    }
                    for (std::int64_t s = 0; s < c.S; ++s) {
                        const std::size_t key = at(b, s, kv, c.S, c.KVH);
                        const double ds =
                            p[static_cast<std::size_t>(s)] * (dp[static_cast<std::size_t>(s)] - delta) * scale;
                        for (std::int64_t d = 0; d < c.HS; ++d) {
                            const auto i = static_cast<std::size_t>(d);
                            dq[query + i] += ds * static_cast<double>(k[key + i]);
                            dk[key + i] += ds * static_cast<double>(q[query + i]);
                        }
                    }
                }
            }
        }
    }
};

// What lies between positions is nobody's.
template <typename T>
std::vector<T> without_gaps(const std::vector<T>& values, std::int64_t row, std::int64_t gap) {
    std::vector<T> out;
    for (std::size_t i = 0; i < values.size(); ++i)
        if (static_cast<std::int64_t>(i) % (row + gap) < row) out.push_back(values[i]);
    return out;
}

template <typename T>
void check_attention(const AttentionCase& c, const std::function<std::vector<float>(std::int64_t)>& random,
                     Stream& stream) {
    const std::int64_t query = c.NH * c.HS, key = c.KVH * c.HS, ld_q = query + c.gap, ld_k = key + c.gap;
    const auto as_stored = [](const std::vector<float>& values) {
        std::vector<float> out;
        for (const T v : stored<T>(values)) out.push_back(wide(v));
        return out;
    };
    const std::vector<float> q = as_stored(random(c.B * c.T * ld_q)), k = as_stored(random(c.B * c.S * ld_k)),
                             v = as_stored(random(c.B * c.S * ld_k)), dout = as_stored(random(c.B * c.T * ld_q));
    std::vector<char> mask(static_cast<std::size_t>(c.B * c.S), 1);
    if (c.padded)
        for (std::size_t i = 0; i < mask.size(); i += 3) mask[i] = 0;
    const float scale = 1.0F / std::sqrt(static_cast<float>(c.HS));
    const NaiveAttention naive(c, q, k, v, dout, mask, static_cast<double>(scale));

    Buffer<T> qs("q", stored<T>(q)), ks("k", stored<T>(k)), vs("v", stored<T>(v)), douts("dout", stored<T>(dout));
    Buffer<T> out("out", q.size()), dq("dq", q.size()), dk("dk", k.size()), dv("dv", v.size());
    Buffer<float> lse("lse", naive.lse.size());
    Buffer<char> padding("padding", mask);
    Buffer<std::int64_t> seed("seed", std::vector<std::int64_t>{attention_seed}),
        draw("draw", std::vector<std::int64_t>{attention_draw}), numbers("numbers", attention_numbers);
    const Input drops = c.kept == 1 ? Input() : Input(static_cast<const std::int64_t*>(seed.data()));
    Input read;
    if (c.padded) {
        read.data = padding.data();
        read.dtype = DType::boolean;
    }
    attention_forward({.out = out.data(),
                       .lse = lse.data(),
                       .q = qs.data(),
                       .k = ks.data(),
                       .v = vs.data(),
                       .padding = read,
                       .causal = c.causal,
                       .window = c.window,
                       .seed = drops,
                       .draw = draw.data(),
                       .numbers = numbers.data(),
                       .kept = c.kept,
                       .scale = scale,
                       .B = c.B,
                       .T = c.T,
                       .S = c.S,
                       .NH = c.NH,
                       .KVH = c.KVH,
                       .HS = c.HS,
                       .ld_out = ld_q,
                       .ld_q = ld_q,
                       .ld_k = ld_k,
                       .ld_v = ld_k},
                      stream);
    attention_backward({.dq = dq.data(),
                        .dk = dk.data(),
                        .dv = dv.data(),
                        .dout = douts.data(),
                        .q = qs.data(),
                        .k = ks.data(),
                        .v = vs.data(),
                        .out = out.data(),
                        .lse = lse.data(),
                        .padding = read,
                        .causal = c.causal,
                        .window = c.window,
                        .seed = drops,
                        .draw = draw.data(),
                        .numbers = numbers.data(),
                        .kept = c.kept,
                        .scale = scale,
                        .B = c.B,
                        .T = c.T,
                        .S = c.S,
                        .NH = c.NH,
                        .KVH = c.KVH,
                        .HS = c.HS,
                        .ld_dq = ld_q,
                        .ld_dk = ld_k,
                        .ld_dv = ld_k,
                        .ld_dout = ld_q,
                        .ld_q = ld_q,
                        .ld_k = ld_k,
                        .ld_v = ld_k,
                        .ld_out = ld_q},
                       stream);
    for (std::size_t i = 0; i < naive.lse.size(); ++i) {
        if (std::isinf(naive.lse[i]))
            ASSERT_EQ(lse[i], -std::numeric_limits<float>::infinity());
        else
            ASSERT_NEAR(lse[i], naive.lse[i], 1e-5 * (1 + std::abs(naive.lse[i])));
    }
    // f32: sums of some dozen products; bf16: the inputs are those of the reference, the results are rounded, and so is
    // out, which the backward pass reads
    const double relative = std::is_same_v<T, float>  ? 1e-5
                            : std::is_same_v<T, bf16> ? 0x1p-7
                                                      : 0x1p-10,
                 size = std::is_same_v<T, float> ? 1.0 : 2.0;
    const auto same = [&](Buffer<T>& got, const std::vector<double>& expected, std::int64_t row, const char* what) {
        expect_close(without_gaps(got.values(), row, c.gap), without_gaps(expected, row, c.gap), relative, size, what);
    };
    same(out, naive.out, query, "out");
    same(dq, naive.dq, query, "dq");
    same(dk, naive.dk, key, "dk");
    same(dv, naive.dv, key, "dv");
}

TEST_F(Bundled, AttentionInBlocks) {
    const AttentionCase cases[] = {
        {1, 5, 5, 1, 1, 8, false, false, 0, 0},    // less than a tile
        {2, 33, 33, 4, 2, 20, true, false, 0, 4},  // causal, two query heads for a key head, gaps between positions
        {1, 40, 40, 2, 1, 64, true, false, 7, 0},  // a sliding window
        {2, 17, 35, 2, 2, 32, true, false, 0, 0},  // more keys than queries
        {1, 35, 17, 1, 1, 32, true, false, 0, 0},  // fewer: the first queries may read nothing
        {2, 19, 50, 2, 1, 24, false, true, 0, 0},  // padding
        {1, 18, 34, 1, 1, 100, true, true, 0, 8},  // the middle size of heads
        {1, 9, 37, 2, 1, 160, true, false, 0, 0},  // the large one
        {2, 33, 35, 4, 2, 20, true, false, 0, 4, 0.8},  // dropout, with each of what is above
        {1, 18, 34, 1, 1, 100, true, true, 9, 8, 0.5}, {1, 9, 37, 2, 1, 160, false, false, 0, 0, 0.9}};
    for (const AttentionCase& c : cases) {
        SCOPED_TRACE(testing::Message() << "T " << c.T << " S " << c.S << " HS " << c.HS);
        check_attention<float>(
            c, [&](std::int64_t n) { return random(n); }, stream);
        check_attention<bf16>(
            c, [&](std::int64_t n) { return random(n); }, stream);
        check_attention<f16>(
            c, [&](std::int64_t n) { return random(n); }, stream);
    }
}

}  // namespace
}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Attention on a GPU, forward and backward, by cuDNN and by blocks of our own, against plain loops in fp64 on the CPU.
// Then what one layer of Llama 2 7B takes. Prints a line for each; exits with 1 where numbers differ, where cuDNN
// declines a case that it has to take, or where a second run of a deterministic pass has other bits.
//
//   attention [--no-cudnn]
#include "device/cuda/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "device/stream.h"
#include "support/error.h"
#include "tensors.h"

using namespace thunder;
using namespace providers;

namespace {

struct Case {
    const char* name;
    DType dtype;
    bool causal;
    std::int64_t window, B, T, S, NH, KVH, HS;
    bool packed;      // q, k and v are parts of one matrix, as one product leaves them
    bool must_cudnn;  // a graph of cuDNN's has to be found
};

// Sizes of real models' heads, grouped queries, positions that no tile divides, keys that lie before the queries.
constexpr Case cases[] = {
    {"heads of 64", DType::bf16, true, 0, 2, 256, 256, 4, 4, 64, true, true},
    {"heads of 128", DType::bf16, true, 0, 1, 384, 384, 4, 4, 128, true, true},
    {"grouped queries", DType::bf16, true, 0, 2, 256, 256, 8, 2, 128, true, true},
    {"one head of keys", DType::bf16, true, 0, 2, 256, 256, 4, 1, 64, true, true},
    {"f16", DType::f16, true, 0, 2, 256, 256, 4, 2, 64, true, true},
    {"no mask", DType::bf16, false, 0, 2, 256, 256, 4, 4, 64, false, true},
    {"cross attention", DType::bf16, false, 0, 2, 200, 328, 4, 4, 64, false, false},
    {"queries after keys", DType::bf16, true, 0, 1, 128, 256, 4, 4, 64, false, false},
    {"a window", DType::bf16, true, 64, 2, 256, 256, 4, 4, 64, false, false},
    {"heads of 80, 257 positions", DType::bf16, true, 0, 1, 257, 257, 4, 4, 80, false, false},
    {"heads of 8, 16 positions", DType::bf16, true, 0, 2, 16, 16, 2, 1, 8, false, false},
};

// bf16 has 8 bits, f16 11: a result is rounded by 2^-9 or 2^-12 of itself, and so are the probabilities and their
// gradients before the second products. The sums of both, over all elements, are some three roundings; five are let go.
double tolerance(DType dtype) {
    return dtype == DType::bf16 ? 5 * 0x1p-8 : 5 * 0x1p-11;
}

std::uint16_t to_bits(DType dtype, float x) {
    if (dtype == DType::f16) {
        const _Float16 h = static_cast<_Float16>(x);
        std::uint16_t bits = 0;
        std::memcpy(&bits, &h, sizeof bits);
        return bits;
    }
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    bits += 0x7FFF + (bits >> 16 & 1);  // to nearest, ties to even
    return static_cast<std::uint16_t>(bits >> 16);
}

double from_bits(DType dtype, std::uint16_t bits) {
    if (dtype == DType::f16) {
        _Float16 h = 0;
        std::memcpy(&h, &bits, sizeof bits);
        return static_cast<double>(h);
    }
    const std::uint32_t wide = std::uint32_t{bits} << 16;
    float x = 0;
    std::memcpy(&x, &wide, sizeof x);
    return x;
}

// A (B, positions, heads, HS) tensor within rows of `ld` elements that begin `offset` elements into `bits`.
struct View {
    std::int64_t offset = 0, ld = 0, positions = 0, heads = 0, HS = 0;
    std::int64_t at(std::int64_t b, std::int64_t t, std::int64_t h) const {
        return offset + (b * positions + t) * ld + h * HS;
    }
};

// Numbers of a standard normal distribution, as the type has them.
std::vector<std::uint16_t> drawn(DType dtype, std::size_t n, std::mt19937& generator) {
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> out(n);
    for (std::uint16_t& x : out) x = to_bits(dtype, normal(generator));
    return out;
}

Doubles wide(DType dtype, const std::vector<std::uint16_t>& bits) {
    Doubles out(bits.size());
    for (std::size_t i = 0; i < bits.size(); ++i) out[i] = from_bits(dtype, bits[i]);
    return out;
}

struct Results {
    Doubles out, lse, dq, dk, dv;  // dense
};

// softmax(scale q kᵀ + mask) v and its gradient, as they are written on paper.
Results reference(const Case& c, float scale, const Doubles& q, const View& vq, const Doubles& k, const View& vk,
                  const Doubles& v, const View& vv, const Doubles& dout) {
    const std::int64_t rows_q = c.B * c.T * c.NH * c.HS, rows_k = c.B * c.S * c.KVH * c.HS;
    Results r{Doubles(rows_q), Doubles(c.B * c.NH * c.T), Doubles(rows_q), Doubles(rows_k), Doubles(rows_k)};
    const View dense_q{0, c.NH * c.HS, c.T, c.NH, c.HS}, dense_k{0, c.KVH * c.HS, c.S, c.KVH, c.HS};
    // One task for each group of queries: its heads add to the same keys.
#pragma omp parallel for collapse(2)
    for (std::int64_t b = 0; b < c.B; ++b) {
        for (std::int64_t g = 0; g < c.KVH; ++g) {
            Doubles p(c.S);
            for (std::int64_t h = g * (c.NH / c.KVH); h < (g + 1) * (c.NH / c.KVH); ++h) {
                for (std::int64_t t = 0; t < c.T; ++t) {
                    const double* const row = &q[vq.at(b, t, h)];
                    double most = -INFINITY;
                    for (std::int64_t s = 0; s < c.S; ++s) {
                        const bool seen =
                            !c.causal || (s <= t + c.S - c.T && (c.window == 0 || s > t + c.S - c.T - c.window));
                        double dot = 0;
                        for (std::int64_t i = 0; i < c.HS; ++i) dot += row[i] * k[vk.at(b, s, g) + i];
                        p[s] = seen ? scale * dot : -INFINITY;
                        most = std::max(most, p[s]);
                    }
                    double sum = 0;
                    for (double& x : p) sum += x = std::exp(x - most);
                    r.lse[(b * c.NH + h) * c.T + t] = most + std::log(sum);
                    double* const out = &r.out[dense_q.at(b, t, h)];
                    for (std::int64_t s = 0; s < c.S; ++s) {
                        p[s] /= sum;
                        for (std::int64_t i = 0; i < c.HS; ++i) out[i] += p[s] * v[vv.at(b, s, g) + i];
                    }
                    const double* const d = &dout[dense_q.at(b, t, h)];
                    double dot = 0;
                    for (std::int64_t i = 0; i < c.HS; ++i) dot += d[i] * out[i];
                    for (std::int64_t s = 0; s < c.S; ++s) {
                        double dp = 0;
                        for (std::int64_t i = 0; i < c.HS; ++i) dp += d[i] * v[vv.at(b, s, g) + i];
                        const double dscore = p[s] * (dp - dot) * scale;
                        for (std::int64_t i = 0; i < c.HS; ++i) {
                            r.dq[dense_q.at(b, t, h) + i] += dscore * k[vk.at(b, s, g) + i];
                            r.dk[dense_k.at(b, s, g) + i] += dscore * row[i];
                            r.dv[dense_k.at(b, s, g) + i] += p[s] * d[i];
                        }
                    }
                }
            }
        }
    }
    return r;
}

// A case's tensors on the GPU, and its two calls.
struct Calls {
    Calls(const Case& c, Device& device)
        : width_q(c.NH * c.HS),
          width_k(c.KVH * c.HS),
          ld(c.packed ? width_q + 2 * width_k : 0),
          vq{0, c.packed ? ld : width_q, c.T, c.NH, c.HS},
          vk{c.packed ? width_q : 0, c.packed ? ld : width_k, c.S, c.KVH, c.HS},
          vv{c.packed ? width_q + width_k : 0, c.packed ? ld : width_k, c.S, c.KVH, c.HS},
          q(device, 2 * c.B * c.T * vq.ld),
          k(device, c.packed ? 2 : 2 * c.B * c.S * width_k),
          v(device, c.packed ? 2 : 2 * c.B * c.S * width_k),
          out(device, 2 * c.B * c.T * width_q),
          dout(device, 2 * c.B * c.T * width_q),
          dq(device, 2 * c.B * c.T * width_q),
          dk(device, 2 * c.B * c.S * width_k),
          dv(device, 2 * c.B * c.S * width_k),
          lse(device, 4 * c.B * c.NH * c.T) {
        const auto at = [&](const Tensor& own, const View& view) {
            return input(c.packed ? q.at(2 * view.offset) : own.at(), c.dtype);
        };
        forward.q = backward.q = at(q, vq);
        forward.k = backward.k = at(k, vk);
        forward.v = backward.v = at(v, vv);
        forward.out = output(out.at(), c.dtype);
        forward.lse = output(lse.at(), DType::f32);
        backward.out = input(out.at(), c.dtype);
        backward.lse = input(lse.at(), DType::f32);
        backward.dout = input(dout.at(), c.dtype);
        backward.dq = output(dq.at(), c.dtype);
        backward.dk = output(dk.at(), c.dtype);
        backward.dv = output(dv.at(), c.dtype);
        const auto sizes = [&](auto& call) {
            call.causal = c.causal;
            call.window = c.window;
            call.scale = 1 / std::sqrt(static_cast<float>(c.HS));
            call.B = c.B, call.T = c.T, call.S = c.S, call.NH = c.NH, call.KVH = c.KVH, call.HS = c.HS;
            call.ld_q = vq.ld, call.ld_k = vk.ld, call.ld_v = vv.ld, call.ld_out = width_q;
        };
        sizes(forward);
        sizes(backward);
        backward.ld_dout = backward.ld_dq = width_q;
        backward.ld_dk = backward.ld_dv = width_k;
    }

    std::int64_t width_q, width_k, ld;
    View vq, vk, vv;
    Tensor q, k, v, out, dout, dq, dk, dv, lse;
    AttentionForward forward;
    AttentionBackward backward;
};

struct Provider {
    const char* name;
    std::function<bool(const AttentionForward&, Stream&)> forward;
    std::function<bool(const AttentionBackward&, Stream&)> backward;
};

bool check(const Case& c, const Provider& provider, bool must, Device& device, Stream& stream) {
    std::mt19937 generator(7);
    const Calls calls(c, device);
    const auto draw = [&](const Tensor& to, std::int64_t n) {
        std::vector<std::uint16_t> bits = drawn(c.dtype, static_cast<std::size_t>(n), generator);
        to.set(bits.data(), stream);
        return wide(c.dtype, bits);
    };
    const Doubles q = draw(calls.q, c.B * c.T * calls.vq.ld);
    const Doubles k = c.packed ? q : draw(calls.k, c.B * c.S * calls.width_k);
    const Doubles v = c.packed ? q : draw(calls.v, c.B * c.S * calls.width_k);
    const Doubles dout = draw(calls.dout, c.B * c.T * calls.width_q);
    const Results expected = reference(c, calls.forward.scale, q, calls.vq, k, calls.vk, v, calls.vv, dout);
    // What is not written is seen.
    for (const Tensor* t : {&calls.out, &calls.dq, &calls.dk, &calls.dv}) {
        const std::vector<std::uint16_t> nan(t->get<std::uint16_t>(stream).size(), 0x7FFF);
        t->set(nan.data(), stream);
    }
    if (!provider.forward(calls.forward, stream)) {
        std::printf("%s %s, %s: it does not take the forward pass\n", must ? "FAIL" : "ok  ", provider.name, c.name);
        return !must;
    }
    const bool taken = provider.backward(calls.backward, stream);
    stream.synchronize();
    const auto narrow = [&](const Tensor& t) { return wide(c.dtype, t.get<std::uint16_t>(stream)); };
    Doubles lse;
    for (const float x : calls.lse.get<float>(stream)) lse.push_back(x);
    const double e_out = distance(expected.out, narrow(calls.out)), e_lse = distance(expected.lse, lse);
    if (!taken) {
        const bool good = !must && e_out < tolerance(c.dtype) && e_lse < 1e-4;
        std::printf("%s %s, %s: out %.1e, lse %.1e; it does not take the backward pass\n", good ? "ok  " : "FAIL",
                    provider.name, c.name, e_out, e_lse);
        return good;
    }
    const auto gradients = [&] {
        std::vector<std::vector<std::uint16_t>> all;
        for (const Tensor* t : {&calls.dq, &calls.dk, &calls.dv}) all.push_back(t->get<std::uint16_t>(stream));
        return all;
    };
    const auto first = gradients();
    provider.backward(calls.backward, stream);
    stream.synchronize();
    const bool same = gradients() == first;
    const double e_dq = distance(expected.dq, wide(c.dtype, first[0])),
                 e_dk = distance(expected.dk, wide(c.dtype, first[1])),
                 e_dv = distance(expected.dv, wide(c.dtype, first[2]));
    // The sum of exponents is f32, over products of narrow numbers that f32 has exactly.
    const bool good = std::max({e_out, e_dq, e_dk, e_dv}) < tolerance(c.dtype) && e_lse < 1e-4 && same;
    std::printf("%s %s, %s: out %.1e, lse %.1e, dq %.1e, dk %.1e, dv %.1e%s\n", good ? "ok  " : "FAIL", provider.name,
                c.name, e_out, e_lse, e_dq, e_dk, e_dv, same ? "" : ", and other bits in a second run");
    return good;
}

void time_layer(const Provider& provider, Device& device, Stream& stream) {
    constexpr Case layer{"Llama 2 7B", DType::bf16, true, 0, 1, 4096, 4096, 32, 32, 128, true, true};
    std::mt19937 generator(7);
    const Calls calls(layer, device);
    const std::vector<std::uint16_t> qkv = drawn(DType::bf16, layer.T * calls.vq.ld, generator),
                                     dout = drawn(DType::bf16, layer.T * calls.width_q, generator);
    calls.q.set(qkv.data(), stream);
    calls.dout.set(dout.data(), stream);
    const double forward = milliseconds([&] { provider.forward(calls.forward, stream); }, stream);
    const double backward = milliseconds([&] { provider.backward(calls.backward, stream); }, stream);
    // Of pairs that the mask lets through: two products forward, five backward.
    const double product = 2.0 * layer.NH * layer.HS * layer.T * layer.T / 2;
    std::printf(
        "%s, a layer of Llama 2 7B at 4096 positions: forward %.3f ms, %.0f TFLOP/s; backward %.3f ms, %.0f "
        "TFLOP/s; workspace %.0f MB\n",
        provider.name, forward, 2 * product / forward / 1e9, backward, 5 * product / backward / 1e9,
        static_cast<double>(stream.workspace_bytes()) / 1e6);
}

int run(bool with_cudnn) {
    Device device;
    Stream stream(device);
    std::printf("%s, attention: %s\n", device.describe().c_str(), device.describe_attention().c_str());
    const auto always = [](auto call) {
        return [call](const auto& c, Stream& s) {
            call(c, s);
            return true;
        };
    };
    const Provider own{"blocks of our own", always(blocked_attention_forward), always(blocked_attention_backward)};
    const Provider cudnn{"cuDNN", cudnn_attention_forward, cudnn_attention_backward};
    bool good = true;
    for (const Case& c : cases) {
        if (with_cudnn) good = check(c, cudnn, c.must_cudnn, device, stream) && good;
        good = check(c, own, true, device, stream) && good;
    }
    time_layer(own, device, stream);
    if (with_cudnn) {
        time_layer(cudnn, device, stream);
        DeviceOptions quick;
        quick.attention_backward = SumsOfAttention::fast;
        Device other(quick);
        Stream its(other);
        time_layer({"cuDNN, sums as they come", cudnn.forward, cudnn.backward}, other, its);
    }
    return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc < 2 || std::strcmp(argv[1], "--no-cudnn") != 0);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}

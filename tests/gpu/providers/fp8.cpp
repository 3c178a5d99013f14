// SPDX-License-Identifier: Apache-2.0
// Products of FP8 on a GPU, by cuBLASLt and by plain threads, against plain loops in fp64 on the CPU. Then what the
// products and the quantising of a layer of Llama 2 7B take. Prints a line for each; exits with 1 where numbers differ,
// where cuBLASLt declines a product that it has to take, or where a second run has other bits.
#include "device/fp8.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device/cpu/bf16.h"
#include "device/cpu/f16.h"
#include "device/cuda/fp8/products.h"
#include "support/error.h"
#include "tensors.h"

using namespace thunder;
using namespace providers;

namespace {

struct Case {
    std::int64_t m, n, k;
    DType a, b, c;
    enum { nothing, bias, wide_bias, residual, add } more;
    bool must;  // cuBLASLt has to take it as a whole
};

// All types of factors; sums that are short and long; what is added within the product and behind it.
const Case cases[] = {
    {64, 64, 64, DType::e4m3, DType::e4m3, DType::bf16, Case::nothing, true},
    {256, 512, 4096, DType::e4m3, DType::e4m3, DType::bf16, Case::nothing, true},
    {256, 512, 4096, DType::e4m3, DType::e4m3, DType::f32, Case::nothing, true},
    {512, 256, 2048, DType::e5m2, DType::e4m3, DType::bf16, Case::nothing, true},
    {512, 256, 2048, DType::e4m3, DType::e5m2, DType::bf16, Case::nothing, true},
    {512, 256, 2048, DType::e5m2, DType::e4m3, DType::f32, Case::add, true},
    {272, 304, 208, DType::e4m3, DType::e4m3, DType::bf16, Case::residual, true},
    {272, 304, 208, DType::e4m3, DType::e4m3, DType::bf16, Case::add, true},
    {272, 304, 208, DType::e4m3, DType::e4m3, DType::bf16, Case::bias, true},
    {272, 304, 208, DType::e4m3, DType::e4m3, DType::f16, Case::nothing, true},
    {272, 304, 208, DType::e4m3, DType::e4m3, DType::bf16, Case::wide_bias, false},
    {40, 56, 72, DType::e4m3, DType::e4m3, DType::bf16, Case::nothing, false},
};

// Of a result in bf16 its rounding, 2^-9 of a number at most, is the largest error. Tensor cores add up a product's
// terms at the exponent of the largest one, with 13 digits behind it on Hopper, and every 128 terms into f32 where sums
// are not to be fast: as random numbers go, some 2^-12 of the sum. Plain threads add up in f32.
double tolerance(DType c, bool by_library) {
    return c == DType::f32 ? (by_library ? 0x1p-10 : 1e-5) : 0x1p-8;
}

std::vector<std::uint8_t> drawn_codes(std::int64_t n, DType type, std::mt19937& generator, Doubles& numbers) {
    std::normal_distribution<float> normal(0.0F, 30.0F);
    std::vector<std::uint8_t> codes;
    for (std::int64_t i = 0; i < n; ++i) {
        const float x = normal(generator);
        codes.push_back(type == DType::e4m3 ? bits_of(quantised<e4m3>(x)) : bits_of(quantised<e5m2>(x)));
        numbers.push_back(type == DType::e4m3 ? to_float(e4m3{codes.back()}) : to_float(e5m2{codes.back()}));
    }
    return codes;
}

std::vector<std::byte> narrowed(const std::vector<float>& numbers, DType type) {
    std::vector<std::byte> out(numbers.size() * size_of(type));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (type == DType::f32) reinterpret_cast<float*>(out.data())[i] = numbers[i];
        if (type == DType::bf16) reinterpret_cast<bf16*>(out.data())[i] = to_bf16(numbers[i]);
        if (type == DType::f16) reinterpret_cast<f16*>(out.data())[i] = to_f16(numbers[i]);
    }
    return out;
}
Doubles widened(const std::vector<std::byte>& bytes, DType type) {
    Doubles out(bytes.size() / size_of(type));
    for (std::size_t i = 0; i < out.size(); ++i) {
        if (type == DType::f32) out[i] = reinterpret_cast<const float*>(bytes.data())[i];
        if (type == DType::bf16) out[i] = to_float(reinterpret_cast<const bf16*>(bytes.data())[i]);
        if (type == DType::f16) out[i] = to_float(reinterpret_cast<const f16*>(bytes.data())[i]);
    }
    return out;
}

bool check(const Case& c, Device& device, Stream& stream) {
    std::mt19937 generator(7);
    std::normal_distribution<float> normal(0.0F, 100.0F);
    const auto elements = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
    Doubles a, b;
    const Tensor of_a(device, elements(c.m, c.k)), of_b(device, elements(c.n, c.k));
    of_a.set(drawn_codes(c.m * c.k, c.a, generator, a).data(), stream);
    of_b.set(drawn_codes(c.n * c.k, c.b, generator, b).data(), stream);
    const float inverses[] = {0.37F, 0.021F};
    const Tensor scales(device, 2 * sizeof(float));
    scales.set(inverses, stream);
    const bool along_rows = c.more == Case::bias || c.more == Case::wide_bias;
    std::vector<float> added(along_rows ? static_cast<std::size_t>(c.n) : elements(c.m, c.n));
    for (float& x : added) x = normal(generator);
    const DType type_of_added = c.more == Case::wide_bias ? DType::f32 : c.c;
    const std::vector<std::byte> added_bytes = narrowed(added, type_of_added);
    const Doubles more = widened(added_bytes, type_of_added);
    const Tensor of_added(device, added_bytes.size()), result(device, elements(c.m, c.n) * size_of(c.c));
    of_added.set(added_bytes.data(), stream);

    Fp8Product call{.c = output(result.at(), c.c),
                    .a = input(of_a.at(), c.a),
                    .b = input(of_b.at(), c.b),
                    .inverse_a = input(scales.at(), DType::f32),
                    .inverse_b = input(scales.at(sizeof(float)), DType::f32),
                    .m = c.m,
                    .n = c.n,
                    .k = c.k};
    if (along_rows) call.bias = input(of_added.at(), type_of_added);
    if (c.more == Case::residual) call.residual = input(of_added.at(), c.c);
    if (c.more == Case::add) call.mode = WriteMode::add;
    Doubles expected(elements(c.m, c.n));
    for (std::int64_t i = 0; i < c.m; ++i)
        for (std::int64_t j = 0; j < c.n; ++j) {
            double sum = 0;
            for (std::int64_t l = 0; l < c.k; ++l) sum += a[elements(i, c.k) + l] * b[elements(j, c.k) + l];
            double& to = expected[elements(i, c.n) + j];
            to = sum * inverses[0] * inverses[1];
            if (c.more != Case::nothing) to += more[along_rows ? j : elements(i, c.n) + j];
        }

    bool good = true;
    std::string line;
    const auto one = [&](const char* name, bool library, auto&& compute) {
        line += std::string(line.empty() ? "" : ", ") + name;
        const auto run = [&]() -> std::vector<std::byte> {
            const std::vector<std::byte> nan = narrowed(std::vector<float>(expected.size(), NAN), c.c);
            result.set(c.more == Case::add ? added_bytes.data() : nan.data(), stream);
            if (!compute()) return {};
            return result.get<std::byte>(stream);
        };
        const std::vector<std::byte> first = run();
        if (first.empty()) {
            line += " does not take it";
            good = good && !c.must;
            return;
        }
        const double error = distance(expected, widened(first, c.c));
        const bool same = run() == first;
        char text[64];
        std::snprintf(text, sizeof text, " %.1e%s", error, same ? "" : " (other bits in a second run)");
        line += text;
        good = good && error < tolerance(c.c, library) && same;
    };
    try {
        one("cuBLASLt", true, [&] { return fp8_product_by_library(call, false, stream); });
        one("fast sums", true, [&] { return fp8_product_by_library(call, true, stream); });
    } catch (const std::exception& error) {
        line += std::string(": ") + error.what();
        good = false;
    }
    one("threads", false, [&] { return fp8_product_by_threads(call, stream), true; });
    std::printf("%s %s = %s x %s, %lld x %lld x %lld%s: %s\n", good ? "ok  " : "FAIL", name_of(c.c), name_of(c.a),
                name_of(c.b), static_cast<long long>(c.m), static_cast<long long>(c.n), static_cast<long long>(c.k),
                c.more == Case::nothing     ? ""
                : c.more == Case::bias      ? ", a bias"
                : c.more == Case::wide_bias ? ", a bias in f32"
                : c.more == Case::residual  ? ", a residual"
                                            : ", added",
                line.c_str());
    return good;
}

// Codes of every number of bf16, and of two that f32 has between each and the next one, have the bits that the CPU's
// text gives.
template <typename Q>
bool check_codes(const char* name, Device& device, Stream& stream) {
    constexpr std::int64_t numbers = 3 << 16;
    std::vector<std::uint32_t> bits(numbers);
    for (std::uint32_t i = 0; i < numbers; ++i) bits[i] = (i / 3) << 16 | (i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : 0x8000);
    const Tensor x(device, 4 * numbers), q(device, numbers), q_transposed(device, numbers),
        scale(device, sizeof(float));
    const float one = 1;
    x.set(bits.data(), stream);
    scale.set(&one, stream);
    Fp8Quantise call{.x = input(x.at(), DType::f32), .scale = input(scale.at(), DType::f32), .rows = 768, .width = 256};
    call.q = static_cast<Q*>(q.at());
    call.q_transposed = static_cast<Q*>(q_transposed.at());
    fp8_quantise(call, stream);
    const std::vector<std::uint8_t> codes = q.get<std::uint8_t>(stream),
                                    turned = q_transposed.get<std::uint8_t>(stream);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < numbers; ++i) {
        const auto code = bits_of(quantised<Q>(std::bit_cast<float>(bits[i])));
        wrong += code != codes[i] || code != turned[i % 256 * 768 + i / 256];
    }
    std::printf("%s codes of %s: %lld of %lld differ from those of a CPU\n", wrong == 0 ? "ok  " : "FAIL", name,
                static_cast<long long>(wrong), static_cast<long long>(numbers));
    return wrong == 0;
}

// A product and what it is in bf16; how fast quantising is.
void time_layer(const char* name, std::int64_t rows, std::int64_t in, std::int64_t out, Device& device,
                Stream& stream) {
    const auto bytes = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
    const Tensor x(device, 2 * bytes(rows, in)), w(device, 2 * bytes(out, in)), y(device, 2 * bytes(rows, out));
    const Tensor x8(device, bytes(rows, in)), x8_transposed(device, bytes(rows, in)), w8(device, bytes(out, in)),
        y8(device, bytes(rows, out)), y8_transposed(device, bytes(rows, out)), dw(device, 2 * bytes(out, in)),
        numbers(device, 4 * sizeof(float));
    std::mt19937 generator(7);
    std::normal_distribution<float> normal;
    const auto draw = [&](const Tensor& to, std::size_t n) {
        std::vector<bf16> drawn(n);
        for (std::size_t i = 0; i < n; ++i)
            drawn[i] = i < 4096 * 16 ? to_bf16(normal(generator)) : drawn[i - 4096 * 16];
        to.set(drawn.data(), stream);
    };
    draw(x, bytes(rows, in));
    draw(w, bytes(out, in));
    draw(y, bytes(rows, out));
    const float ones[] = {100.0F, 0.0F, 1.0F, 1.0F};
    numbers.set(ones, stream);
    const auto number = [&](int k) { return static_cast<std::int64_t>(k * sizeof(float)); };
    const auto quantise = [&](const Tensor& from, const Tensor* to, const Tensor* transposed, DType type,
                              std::int64_t height, std::int64_t width) {
        Fp8Quantise call{.amax = output(numbers.at(number(1)), DType::f32),
                         .inverse = output(numbers.at(number(2)), DType::f32),
                         .x = input(from.at(), DType::bf16),
                         .scale = input(numbers.at(), DType::f32),
                         .rows = height,
                         .width = width};
        if (to != nullptr) call.q = output(to->at(), type);
        if (transposed != nullptr) call.q_transposed = output(transposed->at(), type);
        fp8_quantise(call, stream);
    };
    const auto report = [&](const char* what, double work, const char* unit, const std::function<void()>& call) {
        const double ms = milliseconds(call, stream);
        std::printf("%s, %s: %.3f ms, %.0f %s\n", name, what, ms, work / ms / 1e9, unit);
    };
    const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
    const auto gigabytes = [](std::size_t n) { return 1e3 * static_cast<double>(n); };
    report("x, one copy", gigabytes(3 * bytes(rows, in)), "GB/s",
           [&] { quantise(x, &x8, nullptr, DType::e4m3, rows, in); });
    report("x, the transposed copy", gigabytes(3 * bytes(rows, in)), "GB/s",
           [&] { quantise(x, nullptr, &x8_transposed, DType::e4m3, rows, in); });
    report("dy, both copies", gigabytes(4 * bytes(rows, out)), "GB/s",
           [&] { quantise(y, &y8, &y8_transposed, DType::e5m2, rows, out); });
    report("W, one copy", gigabytes(3 * bytes(out, in)), "GB/s",
           [&] { quantise(w, &w8, nullptr, DType::e4m3, out, in); });
    bool fast = false;
    const auto product8 = [&](const Tensor& c, const Tensor& a, DType type_a, const Tensor& b, std::int64_t m,
                              std::int64_t n, std::int64_t k) {
        const Fp8Product call{.c = output(c.at(), DType::bf16),
                              .a = input(a.at(), type_a),
                              .b = input(b.at(), DType::e4m3),
                              .inverse_a = input(numbers.at(number(2)), DType::f32),
                              .inverse_b = input(numbers.at(number(2)), DType::f32),
                              .m = m,
                              .n = n,
                              .k = k};
        fp8_product_by_library(call, fast, stream);
    };
    report("y", flops, "TFLOP/s", [&] { product8(y, x8, DType::e4m3, w8, rows, out, in); });
    report("dx", flops, "TFLOP/s", [&] { product8(x, y8, DType::e5m2, w8, rows, in, out); });
    report("dW", flops, "TFLOP/s", [&] { product8(dw, y8_transposed, DType::e5m2, x8_transposed, out, in, rows); });
    fast = true;
    report("y, fast sums", flops, "TFLOP/s", [&] { product8(y, x8, DType::e4m3, w8, rows, out, in); });
    report("y in bf16", flops, "TFLOP/s", [&] {
        linear_forward({.y = output(y.at(), DType::bf16),
                        .x = input(x.at(), DType::bf16),
                        .weight = input(w.at(), DType::bf16),
                        .rows = rows,
                        .in = in,
                        .out = out},
                       stream);
    });
}

int run() {
    Device device;
    Stream stream(device);
    bool good = check_codes<e4m3>("e4m3", device, stream);
    good = check_codes<e5m2>("e5m2", device, stream) && good;
    for (const Case& c : cases) good = check(c, device, stream) && good;
    time_layer("4096 x 4096 to 12288", 4096, 4096, 12288, device, stream);
    time_layer("4096 x 4096 to 4096", 4096, 4096, 4096, device, stream);
    time_layer("4096 x 4096 to 22016", 4096, 4096, 22016, device, stream);
    time_layer("4096 x 11008 to 4096", 4096, 11008, 4096, device, stream);
    return good ? 0 : 1;
}

}  // namespace

int main() {
    try {
        return run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}

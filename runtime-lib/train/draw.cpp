// SPDX-License-Identifier: Apache-2.0
// The numbers that parameters start from: beside init.cpp, which runs once, since a large model has billions of them.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "checkpoint/safetensors.h"
#include "device/cpu/narrow.h"
#include "device/parallel.h"
#include "support/philox.h"
#include "train/init.h"

namespace thunder {

namespace {

// Products and sums are joined by std::fma where they could be: a compiler has nothing left to
// contract, so the bits depend neither on its flags nor on the CPU.

// ln(x) of a normal x > 0: x = 2^e m with m in [sqrt(1/2), sqrt(2)), ln(m) = 2 atanh(s), s = (m - 1) / (m + 1), |s| <
// 0.172: the series to s^21 is off by less than 1e-17.
double natural_log(double x) {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const std::uint64_t shifted = bits + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd);  // sqrt(1/2) moves to 1
    const auto exponent = static_cast<std::int64_t>(shifted >> 52) - 1023;
    const auto m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(exponent) << 52));
    const double s = (m - 1) / (m + 1), z = s * s;
    double series = 1.0 / 21;
    for (int odd = 19; odd >= 1; odd -= 2) series = std::fma(series, z, 1.0 / odd);
    return std::fma(static_cast<double>(exponent), 0.6931471805599453, 2 * s * series);
}

// sin and cos of 2 pi turn / 2^32. The angle within a quadrant is below pi/2, where the Taylor series to t^23 are off
// by less than 1e-17 of 1.
std::array<double, 2> sine_cosine(std::uint32_t turn) {
    const double t = (turn & 0x3fffffff) * (1.5707963267948966 / 0x40000000), z = -(t * t);
    double sine = 1, cosine = 1;
    for (int i = 22; i >= 2; i -= 2) {
        sine = std::fma(sine, z * (1.0 / (i * (i + 1))), 1.0);
        cosine = std::fma(cosine, z * (1.0 / (i * (i - 1))), 1.0);
    }
    sine *= t;
    switch (turn >> 30) {
        case 0: return {sine, cosine};
        case 1: return {cosine, -sine};
        case 2: return {-sine, -cosine};
        default: return {-cosine, sine};
    }
}

// Two independent normal numbers from two uniform ones (Box and Muller, 1958).
std::array<float, 2> normal_pair(std::uint32_t a, std::uint32_t b) {
    const double u = (static_cast<double>(a) + 1) * 0x1p-32;  // in (0, 1]
    const double radius = std::sqrt(-2 * natural_log(u));
    const auto [sine, cosine] = sine_cosine(b);
    return {static_cast<float>(radius * cosine), static_cast<float>(radius * sine)};
}

}  // namespace

void random_normal(float* out, std::uint64_t first, std::size_t count, std::uint64_t seed, std::string_view name) {
    const PhiloxKey key = philox_key(seed, name);
    parallel_for(static_cast<std::int64_t>(count), 4096, [&](std::int64_t begin, std::int64_t end) {
        std::array<float, 4> numbers{};
        std::uint64_t made = ~std::uint64_t{0};
        for (std::int64_t i = begin; i < end; ++i) {
            const std::uint64_t element = first + static_cast<std::uint64_t>(i), block = element / 4;
            if (block != made) {
                const PhiloxCounter random =
                    philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
                const auto [a, b] = normal_pair(random[0], random[1]);
                const auto [c, d] = normal_pair(random[2], random[3]);
                numbers = {a, b, c, d};
                made = block;
            }
            out[i] = numbers[element % 4];
        }
    });
}

void random_uniform(float* out, std::uint64_t first, std::size_t count, std::uint64_t seed, std::string_view name) {
    const PhiloxKey key = philox_key(seed, name);
    parallel_for(static_cast<std::int64_t>(count), 4096, [&](std::int64_t begin, std::int64_t end) {
        PhiloxCounter random{};
        std::uint64_t made = ~std::uint64_t{0};
        for (std::int64_t i = begin; i < end; ++i) {
            const std::uint64_t element = first + static_cast<std::uint64_t>(i), block = element / 4;
            if (block != made)
                random =
                    philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
            made = block;
            // 24 bits are a float: a multiple of 2^-23 in [-1, 1).
            out[i] = static_cast<float>(random[element % 4] >> 8) * 0x1p-23F - 1.0F;
        }
    });
}

void draw_elements(std::byte* out, const ParameterSpec& parameter, std::uint64_t first, std::size_t count,
                   const Options& options) {
    std::vector<float> values(count, parameter.init == ParameterSpec::Init::ones ? 1.0F : 0.0F);
    if (parameter.init == ParameterSpec::Init::normal) {
        random_normal(values.data(), first, count, options.seed, parameter.name);
        const auto std_dev = static_cast<float>(options.init_std);
        for (float& value : values) value *= std_dev;
    }
    if (parameter.init == ParameterSpec::Init::uniform) {
        random_uniform(values.data(), first, count, options.seed, parameter.name);
        const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(parameter.shape.back())));
        for (float& value : values) value *= bound;
    }
    with_float(parameter.dtype, [&]<typename T>(T*) {
        for (std::size_t i = 0; i < count; ++i) {
            const T value = narrowed<T>(values[i]);
            std::memcpy(out + sizeof value * i, &value, sizeof value);
        }
    });
}

}  // namespace thunder

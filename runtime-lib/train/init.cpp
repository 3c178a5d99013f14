#include "train/init.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "checkpoint/safetensors.h"
#include "device/parallel.h"
#include "program/transfer.h"
#include "program/weights.h"
#include "support/philox.h"
#include "support/text.h"
#include "train/world.h"

namespace thunder {

namespace {

// ---- normal numbers. Products and sums are joined by std::fma where they could be: a compiler has nothing left to
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

// What a rank holds of the parameter: a number depends on its place in the whole.
void draw(const ParameterSpec& parameter, const Piece& piece, const Options& options, std::byte* arena,
          Stream& stream) {
    fill_on_device(arena + static_cast<std::size_t>(piece.at) * size_of(parameter.dtype), parameter.dtype,
                   static_cast<std::size_t>(piece.count), stream, [&](std::size_t done, std::size_t n, std::byte* out) {
                       const std::uint64_t first = static_cast<std::uint64_t>(piece.first) + done;
                       std::vector<float> values(n, parameter.init == ParameterSpec::Init::ones ? 1.0F : 0.0F);
                       if (parameter.init == ParameterSpec::Init::normal) {
                           random_normal(values.data(), first, n, options.seed, parameter.name);
                           const auto std_dev = static_cast<float>(options.init_std);
                           for (float& value : values) value *= std_dev;
                       }
                       if (parameter.dtype == DType::bf16) {
                           for (std::size_t i = 0; i < n; ++i) {
                               const std::uint16_t bits = bf16_from_f32(values[i]);
                               std::memcpy(out + 2 * i, &bits, sizeof bits);
                           }
                       } else {
                           std::memcpy(out, values.data(), n * sizeof(float));
                       }
                   });
}

std::string drawn_text(std::size_t count, const Options& options) {
    return cat(count_text(count, "parameter"), " drawn: norm scales 1, biases 0, all else N(0, ", options.init_std,
               ") with seed ", options.seed);
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

std::vector<std::string> initialise_parameters(const ProgramSpec& program, const Options& options, int rank,
                                               std::byte* arena, Stream& stream) {
    const auto piece = [&](const ParameterSpec& parameter) { return piece_of(program, parameter, rank); };
    std::string path = options.init == "random" ? "" : options.init;
    if (options.init.empty()) path = exported_weights(options.program_folder);
    if (path.empty()) {
        for (const ParameterSpec& parameter : program.parameters)
            draw(parameter, piece(parameter), options, arena, stream);
        return {drawn_text(program.parameters.size(), options)};
    }
    const Weights weights(path);
    std::set<std::string> used;
    const std::vector<Weights::Found> found = find_parameters(program.parameters, weights, used);
    std::vector<const ParameterSpec*> missing;
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i].tensor == nullptr) missing.push_back(&program.parameters[i]);
    }
    if (!missing.empty() && !options.init_missing_random)
        fail_missing(weights, missing, "--init-missing random draws what is missing");
    for (std::size_t i = 0; i < found.size(); ++i) {
        const ParameterSpec& parameter = program.parameters[i];
        const Piece held = piece(parameter);
        if (found[i].tensor != nullptr)
            load_elements(*found[i].file, *found[i].tensor, parameter.dtype, static_cast<std::size_t>(held.first),
                          static_cast<std::size_t>(held.count),
                          arena + static_cast<std::size_t>(held.at) * size_of(parameter.dtype), stream);
    }
    for (const ParameterSpec* parameter : missing) draw(*parameter, piece(*parameter), options, arena, stream);

    std::vector<std::string> lines{cat("parameters from ", path)};
    if (!missing.empty()) lines.push_back(drawn_text(missing.size(), options));
    std::vector<std::string> unused;
    for (const std::string& name : weights.names()) {
        if (!used.contains(name)) unused.push_back(name);
    }
    if (!unused.empty()) lines.push_back(cat("not used from there: ", list_text(unused)));
    return lines;
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// --numerics: what is counted of a tensor beside a naive count, the noise of calls beside values that say what it is,
// which call's results get which name, and a whole run's lines beside its log and its gradients.
#include "watch/numerics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "device/call_results.h"
#include "device/cpu/narrow.h"
#include "device/describe.h"
#include "device/fp8.h"
#include "device/team.h"
#include "program_test.h"

namespace thunder {
namespace numerics_test {

constexpr float infinity = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();

// ---- a tensor -------------------------------------------------------------------------------------------------------

// One loop over values in double, by what types of floating point are (digits, exponents), not by bits.
TensorStatistics counted(const std::vector<double>& values, double least_normal, double too_large) {
    TensorStatistics out;
    for (const double x : values) {
        ++out.elements;
        const double magnitude = std::fabs(x);
        if (std::isnan(x)) ++out.nans;
        if (x == 0) ++out.zeros;
        if (magnitude > 0 && magnitude < least_normal) ++out.underflow;
        if (magnitude >= too_large) ++out.overflow;
        if (!std::isfinite(x) || x == 0) continue;
        out.amax = std::max(out.amax, magnitude);
        out.least = out.least == 0 ? magnitude : std::min(out.least, magnitude);
        out.sum_of_squares += x * x;
    }
    return out;
}

void expect_same(const TensorStatistics& found, const TensorStatistics& wanted) {
    EXPECT_EQ(found.elements, wanted.elements);
    EXPECT_EQ(found.zeros, wanted.zeros);
    EXPECT_EQ(found.underflow, wanted.underflow);
    EXPECT_EQ(found.overflow, wanted.overflow);
    EXPECT_EQ(found.nans, wanted.nans);
    EXPECT_EQ(found.amax, wanted.amax);
    EXPECT_EQ(found.least, wanted.least);
    // Both add up in double, in another order.
    EXPECT_NEAR(found.sum_of_squares, wanted.sum_of_squares, 1e-12 * wanted.sum_of_squares);
}

// Each type with numbers at its edges planted among others, in more elements than one piece has.
template <typename T, typename Narrow>
void expect_counted(DType dtype, double least_normal, double too_large, const std::vector<float>& planted,
                    Narrow narrow) {
    std::mt19937 random(5);
    std::vector<T> stored;
    std::vector<double> values;
    for (int k = 0; k < 200000; ++k) {
        const float x = k % 1000 < static_cast<int>(planted.size())
                            ? planted[static_cast<std::size_t>(k % 1000)]
                            : std::ldexp(static_cast<float>(random() % 2000) - 1000.0F, -10);
        stored.push_back(narrow(x));
        values.push_back(static_cast<double>(to_float(stored.back())));
    }
    const auto n = static_cast<std::int64_t>(stored.size());
    const TensorStatistics wanted = counted(values, least_normal, too_large);
    EXPECT_GT(wanted.zeros, 0);
    EXPECT_GT(wanted.underflow, 0);
    EXPECT_GT(wanted.overflow, 0);
    EXPECT_GT(wanted.nans, 0);
    const TensorStatistics found = statistics_of(stored.data(), dtype, 1, n, n);
    expect_same(found, wanted);
    set_team_size(1);
    const TensorStatistics alone = statistics_of(stored.data(), dtype, 1, n, n);
    set_team_size(3);
    EXPECT_EQ(statistics_of(stored.data(), dtype, 1, n, n).sum_of_squares, alone.sum_of_squares);
    set_team_size(2);
}

TEST(TensorStatistics, AreThoseOfANaiveCount) {
    const auto f32 = [](float x) { return x; };
    expect_counted<float>(DType::f32, 0x1p-126, infinity, {0, 0x1p-126F, 0x1p-127F, 0x1p-149F, infinity, none}, f32);
    expect_counted<bf16>(DType::bf16, 0x1p-126, infinity, {-0.0F, 0x1p-126F, 0x1p-130F, -infinity, none, 3e38F},
                         [](float x) { return to_bf16(x); });
    expect_counted<f16>(DType::f16, 0x1p-14, infinity, {0x1p-14F, 0x1p-15F, -0x1p-24F, 1e6F, none, 65504},
                        [](float x) { return to_f16(x); });
    expect_counted<e4m3>(DType::e4m3, 0x1p-6, 448, {447, -1000, 0x1p-9F, none, 416},
                         [](float x) { return quantised<e4m3>(x); });
    expect_counted<e5m2>(DType::e5m2, 0x1p-14, 57344, {1e9F, 49152, 0x1p-16F, none, infinity},
                         [](float x) { return quantised<e5m2>(x); });
}

TEST(TensorStatistics, OfRowsLeaveOutWhatLiesBetween) {
    std::vector<float> memory(7 * 10, none);
    std::vector<double> values;
    for (int row = 0; row < 7; ++row)
        for (int column = 0; column < 4; ++column) {
            memory[static_cast<std::size_t>(row * 10 + column)] = static_cast<float>(row - column);
            values.push_back(row - column);
        }
    expect_same(statistics_of(memory.data(), DType::f32, 7, 4, 10), counted(values, 0x1p-126, infinity));
}

TEST(TensorStatistics, OfAScaledLossAreDividedByTheScale) {
    const std::vector<float> scaled = {1024, -2048};
    const TensorStatistics s = statistics_of(scaled.data(), DType::f32, 1, 2, 2, 1024);
    EXPECT_EQ(s.amax, 2);
    EXPECT_EQ(s.least, 1);
    EXPECT_EQ(s.sum_of_squares, 5);
}

TEST(TensorStatistics, OfNothingAreNone) {
    EXPECT_EQ(statistics_of(nullptr, DType::f32, 0, 4, 4).mean_square(), 0);
    EXPECT_FALSE(has_statistics(DType::i64));
    EXPECT_FALSE(has_statistics(DType::boolean));
    EXPECT_FALSE(has_statistics(DType::e8m0));
}

// ---- codes that were clipped ----------------------------------------------------------------------------------------

// Of a type with so many digits in base 2 that goes on above its largest number, in double.
bool rounds_above(double x, int digits, double largest) {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(x), &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(fraction, digits)), exponent - digits) > largest;
}

// What the call's copy `field` was made of.
template <typename Call>
Quantised made_of(const Call& call, std::string_view field) {
    for (const CallResult& result : results_of(call))
        if (field == result.field) return result.from;
    return {};
}

struct Clipped : testing::Test {
    Device device{2};
    Stream stream{device};

    // Rows of 0 to 1000 in steps of 1/8, `ld` apart, infinities between.
    static std::vector<float> numbers(std::int64_t rows, std::int64_t width, std::int64_t ld) {
        std::mt19937 random(7);
        std::vector<float> out(static_cast<std::size_t>(rows * ld), infinity);
        for (std::int64_t row = 0; row < rows; ++row)
            for (std::int64_t column = 0; column < width; ++column)
                out[static_cast<std::size_t>(row * ld + column)] =
                    static_cast<float>(random() % 8001) / 8 * (random() % 2 == 0 ? 1 : -1);
        return out;
    }
};

TEST_F(Clipped, AreThoseThatRoundingTakesPastTheLargestNumber) {
    constexpr std::int64_t rows = 70, width = 90, ld = 100;
    std::vector<float> x = numbers(rows, width, ld);
    // At a scale of 1: the largest number, what is rounded to it, halfway (to even: to it), and what is not.
    const float edges[] = {448, 463.9F, 464, 464.1F, 512, infinity, -infinity, none, -465};
    std::copy(std::begin(edges), std::end(edges), x.begin());
    for (const float scale : {1.0F, 0.4F, 100.0F}) {
        std::int64_t of_e4m3 = 0, of_e5m2 = 0;
        for (std::int64_t row = 0; row < rows; ++row)
            for (std::int64_t column = 0; column < width; ++column) {
                const double number = static_cast<double>(x[static_cast<std::size_t>(row * ld + column)] * scale);
                of_e4m3 += rounds_above(number, 4, 448) ? 1 : 0;
                of_e5m2 += rounds_above(number, 3, 57344) ? 1 : 0;
            }
        std::vector<e4m3> q(rows * width), transposed(rows * width);
        const Fp8Quantise call{.q = q.data(),
                               .q_transposed = transposed.data(),
                               .x = x.data(),
                               .scale = &scale,
                               .rows = rows,
                               .width = width,
                               .ld_x = ld};
        EXPECT_EQ(clipped_of(made_of(call, "q"), DType::e4m3), of_e4m3) << scale;
        EXPECT_EQ(clipped_of(made_of(call, "q_transposed"), DType::e4m3), of_e4m3) << scale;
        EXPECT_EQ(clipped_of(made_of(call, "q"), DType::e5m2), of_e5m2) << scale;
    }
}

// By its own amax nothing is, of a tensor or of blocks, though the amax becomes the largest number, or near it. In a
// block with an infinity the rule has a scale of 1, or the largest one: what that clips is known block by block.
TEST_F(Clipped, AreNoneByTheirOwnAmaxUnlessThatIsNone) {
    constexpr std::int64_t rows = 150, width = 300, ld = 310;
    std::vector<float> x = numbers(rows, width, ld);
    std::vector<e4m3> q(rows * width), transposed(rows * width);
    float inverse = 0, scale = 0;
    Fp8Quantise whole{.q = q.data(),
                      .inverse = &inverse,
                      .own_scale = &scale,
                      .x = x.data(),
                      .rows = rows,
                      .width = width,
                      .ld_x = ld};
    fp8_quantise(whole, stream);
    whole.scale = &scale;
    EXPECT_EQ(clipped_of(made_of(whole, "q"), DType::e4m3), 0);
    EXPECT_EQ(*std::max_element(q.begin(), q.end(), [](e4m3 a, e4m3 b) { return to_float(a) < to_float(b); }),
              quantised<e4m3>(448));

    constexpr std::int64_t at_row = 131, at_column = 260;  // of the infinity, in blocks that are cut short
    for (const Fp8Blocks blocks : {Fp8Blocks::rows_of_128, Fp8Blocks::squares_of_128, Fp8Blocks::rows_of_32})
        for (const bool powers_of_two : {false, true})
            for (const bool infinite : {false, true}) {
                x[at_row * ld + at_column] = infinite ? infinity : 1;
                const bool mx = blocks == Fp8Blocks::rows_of_32;
                std::vector<float> f32(rows * width), f32_transposed(rows * width);
                std::vector<e8m0> e8(rows * width), e8_transposed(rows * width);
                Fp8QuantiseBlocks call{.q = q.data(),
                                       .q_transposed = transposed.data(),
                                       .x = x.data(),
                                       .blocks = blocks,
                                       .powers_of_two = powers_of_two,
                                       .rows = rows,
                                       .width = width,
                                       .ld_x = ld};
                call.scales = mx ? Output(e8.data()) : Output(f32.data());
                call.scales_transposed = mx ? Output(e8_transposed.data()) : Output(f32_transposed.data());
                fp8_quantise_blocks(call, stream);
                // Elements of the infinity's block that are too large by a scale of 1.
                const auto of_block = [&](std::int64_t row, std::int64_t row_end, std::int64_t begin,
                                          std::int64_t end) {
                    std::int64_t count = 0;
                    for (; row < row_end; ++row)
                        for (std::int64_t column = begin; column < end; ++column)
                            count += rounds_above(static_cast<double>(x[static_cast<std::size_t>(row * ld + column)]),
                                                  4, 448)
                                         ? 1
                                         : 0;
                    return count;
                };
                std::int64_t plain = 0, turned = 0;
                if (infinite && mx) plain = turned = 1;  // by 2^-127 all others vanish
                if (infinite && blocks == Fp8Blocks::rows_of_128) {
                    plain = of_block(at_row, at_row + 1, 256, 300);
                    turned = of_block(128, 150, at_column, at_column + 1);
                }
                if (infinite && blocks == Fp8Blocks::squares_of_128) plain = turned = of_block(128, 150, 256, 300);
                EXPECT_EQ(clipped_of(made_of(call, "q"), DType::e4m3), plain);
                EXPECT_EQ(clipped_of(made_of(call, "q_transposed"), DType::e4m3), turned);
            }
}

TEST(Numerics, ALayerIsWhatHasANumber) {
    EXPECT_EQ(layer_of("model.layers.3.mlp.up_proj.weight"), "model.layers.3");
    EXPECT_EQ(layer_of("model.norm.weight"), "model.norm");
    EXPECT_EQ(layer_of("0.weight"), "0");
    EXPECT_EQ(layer_of("scale"), "scale");
}

// ---- noise ----------------------------------------------------------------------------------------------------------

TEST(Numerics, NoiseIsTakenInDecibels) {
    const std::vector<double> exact = {3, 4};
    EXPECT_NEAR(*signal_to_noise(exact, std::vector<double>{3, 4.5}), 20, 1e-12);  // 25 beside 0.25
    EXPECT_EQ(*signal_to_noise(exact, exact), std::numeric_limits<double>::infinity());
    EXPECT_FALSE(signal_to_noise(std::vector<double>{0, 0}, std::vector<double>{0, 1}));
}

struct Products : testing::Test {
    static constexpr std::int64_t rows = 5, in = 7, out = 6;
    std::vector<float> x, weight, dy, bias, residual;
    Device device{2};
    Stream stream{device};

    Products() {
        std::mt19937 random(3);
        const auto fill = [&](std::vector<float>& v, std::int64_t n) {
            for (std::int64_t k = 0; k < n; ++k) v.push_back(static_cast<float>(random() % 1000) / 500 - 1);
        };
        fill(x, rows * in);
        fill(weight, out * in);
        fill(dy, rows * out);
        fill(bias, out);
        fill(residual, rows * out);
    }

    // Of the call's result in f32, whose sums of 7 products are off by some units of 2^-24: what is computed again,
    // which is another computation by another rule of where elements lie.
    template <typename Call>
    static void expect_as_computed(const Call& call, const std::vector<float>& result, const Recomputation& again) {
        static_cast<void>(call);
        std::vector<const void*> operands;
        for (const auto& operand : again.operands) operands.push_back(operand.tensor ? operand.tensor.data : nullptr);
        for (std::int64_t row = 0; row < again.rows; ++row)
            for (std::int64_t column = 0; column < again.columns; ++column) {
                const float found = result[static_cast<std::size_t>(row * again.ld + column)];
                EXPECT_NEAR(again.element(operands, row, column), found, 1e-5) << row << ", " << column;
            }
    }
};

TEST_F(Products, AreComputedAgainElementByElement) {
    for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh,
                                        Activation::silu, Activation::tanh}) {
        std::vector<float> y(rows * out);
        const LinearForward call{.y = y.data(),
                                 .x = x.data(),
                                 .weight = weight.data(),
                                 .bias = bias.data(),
                                 .residual = residual.data(),
                                 .activation = activation,
                                 .rows = rows,
                                 .in = in,
                                 .out = out};
        linear_forward(call, stream);
        expect_as_computed(call, y, *recomputation_of(call));
    }
    for (const WriteMode mode : {WriteMode::overwrite, WriteMode::add}) {
        std::vector<float> dx(rows * in, 2), dweight(out * in, 3);
        std::vector<float> before = dx;
        const LinearBackwardInput input{.dx = dx.data(),
                                        .dy = dy.data(),
                                        .weight = weight.data(),
                                        .mode = mode,
                                        .rows = rows,
                                        .in = in,
                                        .out = out};
        Recomputation again = *recomputation_of(input);
        linear_backward_input(input, stream);
        if (mode == WriteMode::add) again.operands[3].tensor = before.data();
        expect_as_computed(input, dx, again);

        before = dweight;
        const LinearBackwardWeight gradient{.dweight = dweight.data(),
                                            .dy = dy.data(),
                                            .x = x.data(),
                                            .mode = mode,
                                            .rows = rows,
                                            .in = in,
                                            .out = out};
        again = *recomputation_of(gradient);
        linear_backward_weight(gradient, stream);
        if (mode == WriteMode::add) again.operands[2].tensor = before.data();
        expect_as_computed(gradient, dweight, again);
    }
    for (const bool transpose_a : {false, true})
        for (const bool transpose_b : {false, true}) {
            std::vector<float> c(2 * 3 * 4);
            const Matmul call{.c = c.data(),
                              .a = x.data(),
                              .b = weight.data(),
                              .transpose_a = transpose_a,
                              .transpose_b = transpose_b,
                              .batch = 2,
                              .m = 3,
                              .n = 4,
                              .k = 5,
                              .stride_a = 15,
                              .stride_b = 20,
                              .stride_c = 12};
            matmul(call, stream);
            expect_as_computed(call, c, *recomputation_of(call));
        }
}

// ---- calls ----------------------------------------------------------------------------------------------------------

// Two calls of one name in a block that runs for two layers, and a kernel.
constexpr std::string_view modules[] = {"layers.0", "layers.1"};
constexpr ResultSpec of_block[] = {
    {0, "linear_forward", "y", 0, "up", "mlp", "[2,3]", 1, 6, 6},
    {1, "linear_forward", "y", 0, "down", "mlp", "[2,3]", 1, 6, 6},
};
constexpr ResultSpec of_forward[] = {{0, "kernel", "", 1, "second", "", "[2]", 1, 2, 2}};
constexpr FunctionResults results[] = {{"block", modules, of_block}, {"forward", {}, of_forward}};

struct Calls : InFolder {
    ProgramSpec program = {};
    Options options;
    Device device{2};
    Stream stream{device};

    Calls() { program.results = results; }

    std::vector<nlohmann::json> lines() const {
        std::vector<nlohmann::json> out;
        std::istringstream text(read_file(path("n.jsonl")));
        for (std::string line; std::getline(text, line);) out.push_back(nlohmann::json::parse(line));
        return out;
    }

    // A micro-step; both products are written to one buffer.
    void micro_step() {
        const std::vector<bf16> x(2 * 4, to_bf16(1.25F)), weight(3 * 4, to_bf16(1.0078125F));
        std::vector<bf16> y(6);
        const Range forward("forward");
        for (int layer = 0; layer < 2; ++layer) {
            const Range block("block");
            const LinearForward call{
                .y = y.data(), .x = x.data(), .weight = weight.data(), .rows = 2, .in = 4, .out = 3};
            linear_forward(call, stream);
            std::fill(y.begin(), y.end(), to_bf16(0));
            linear_forward(call, stream);
            for (bf16& element : y) element = to_bf16(static_cast<float>(layer) + 1);
        }
        std::vector<float> first(2, 9), second(2);
        const Timed timed("kernel", {}, {first.data(), second.data()}, stream);
        second = {0.5F, -2};
    }
};

TEST_F(Calls, AreSeenWhenTheyHaveWritten) {
    options.numerics = path("n.jsonl");
    options.numerics_every = 2;
    options.numerics_tensors = "layers.1.up$";
    Numerics numerics(program, options, true);
    numerics.open(0);
    for (std::int64_t step = 0; step < 4; ++step) {
        for (std::int64_t micro = 0; micro < 2; ++micro) {
            numerics.begin_micro_step(step, micro, stream);
            EXPECT_EQ(device.observer() != nullptr, step % 2 == 0 && micro == 0);
            micro_step();
        }
        numerics.begin_micro_step(step, 2, stream);
    }
    const std::vector<nlohmann::json> all = lines();
    ASSERT_EQ(all.size(), 10U);  // five of each step that is due
    const char* names[] = {"layers.0.up", "layers.0.down", "layers.1.up", "layers.1.down", "second"};
    for (std::size_t k = 0; k < 10; ++k) {
        EXPECT_EQ(all[k].at("tensor"), names[k % 5]);
        EXPECT_EQ(all[k].at("step"), k < 5 ? 0 : 2);
        if (k % 5 == 4) continue;
        // 4 * 1.25 * 1.0078125 is 5.0390625, which bf16 has as 5.03125 (its units there are 2^-5).
        EXPECT_EQ(all[k].at("amax"), 5.03125);
        EXPECT_EQ(all[k].at("dtype"), "bf16");
        EXPECT_EQ(all[k].contains("snr_db"), k % 5 == 2);
    }
    EXPECT_NEAR(all[2].at("snr_db").get<double>(), 20 * std::log10(5.0390625 / 0.0078125), 1e-6);
    EXPECT_EQ(all[4].at("amax"), 2);
    EXPECT_EQ(all[4].at("least"), 0.5);
    EXPECT_EQ(all[4].at("function"), "forward");
}

TEST_F(Calls, OfCodesHaveTheirScaleAndTheirNoise) {
    constexpr ResultSpec quantised_results[] = {{0, "fp8_quantise", "q", 0, "codes", "mlp", "[1,5]", 1, 5, 5}};
    const FunctionResults functions[] = {{"forward", {}, quantised_results}};
    program.results = functions;
    options.numerics = path("n.jsonl");
    options.numerics_tensors = "codes";
    Numerics numerics(program, options, true);
    numerics.open(0);
    numerics.begin_micro_step(0, 0, stream);
    // By a scale of 64, 1 is 64, and 1 + 2^-4 is 68: halfway between 64 and 72, to even; 10 is too large: 448 / 64
    // is 7, which is the largest number, and no overflow.
    const std::vector<float> x = {1, 1.0625F, 10, 0x1p-14F, 7};
    const float scale = 64;
    float inverse = 0;
    std::vector<e4m3> codes(5);
    {
        const Range range("forward");
        fp8_quantise({.q = codes.data(), .inverse = &inverse, .x = x.data(), .scale = &scale, .rows = 1, .width = 5},
                     stream);
    }
    const auto all = lines();
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].at("scale"), 64);
    EXPECT_EQ(all[0].at("overflow"), 0.2);
    // 2^-14 is 2^-8, below the least normal code, 2^-6, and a multiple of the least one, 2^-9.
    EXPECT_EQ(all[0].at("underflow"), 0.2);
    EXPECT_EQ(all[0].at("zeros"), 0);
    EXPECT_EQ(all[0].at("least"), 0x1p-8);
    const double signal = 1 + 1.0625 * 1.0625 + 100 + 49 + 0x1p-28, noise = 0.0625 * 0.0625 + 9;
    EXPECT_NEAR(all[0].at("snr_db").get<double>(), 10 * std::log10(signal / noise), 1e-6);
}

// An expression that none of these has is refused (check_options).
TEST_F(Calls, WhoseNoiseIsKnownHaveNames) {
    EXPECT_EQ(names_with_noise(program),
              (std::vector<std::string>{"layers.0.up", "layers.0.down", "layers.1.up", "layers.1.down"}));
}

// Codes that a call writes twice are computed again as they lie; where it writes them transposed alone, as those.
TEST(Numerics, OfTwoCopiesOneHasANoise) {
    constexpr ResultSpec results[] = {{0, "fp8_quantise", "q", 0, "both", "", "[1,5]", 1, 5, 5},
                                      {0, "fp8_quantise", "q_transposed", 0, "both_transposed", "", "[5,1]", 5, 1, 1},
                                      {1, "fp8_quantise", "q_transposed", 0, "alone_transposed", "", "[5,1]", 5, 1, 1}};
    const FunctionResults functions[] = {{"forward", {}, results}};
    ProgramSpec of_copies{};
    of_copies.results = functions;
    EXPECT_EQ(names_with_noise(of_copies), (std::vector<std::string>{"both", "alone_transposed"}));
    float number = 0;
    e4m3 code{};
    EXPECT_STREQ(recomputation_of(Fp8Quantise{.q = &code, .q_transposed = &code, .inverse = &number})->field, "q");
}

// By the names of calls and fields, which programs say, as by the calls themselves.
TEST(Numerics, NoiseIsKnownOfTheSameCallsByName) {
    float number = 0;
    e4m3 code{};
    const auto expect_known = [](std::string_view name, const auto& call, bool known) {
        const auto again = recomputation_of(call);
        EXPECT_EQ(again.has_value(), known) << name;
        for (const CallResult& result : results_of(call))
            EXPECT_EQ(has_recomputation(name, result.field), again && std::string_view(again->field) == result.field)
                << name << " " << result.field;
    };
    expect_known("linear_forward", LinearForward{.y = &number, .pre_activation = &number}, true);
    expect_known("linear_backward_input", LinearBackwardInput{.dx = &number}, true);
    expect_known("linear_backward_weight", LinearBackwardWeight{.dweight = &number, .dbias = &number}, true);
    expect_known("matmul", Matmul{.c = &number}, true);
    expect_known("fp8_quantise", Fp8Quantise{.q = &code, .amax = &number, .inverse = &number}, true);
    expect_known("fp8_quantise", Fp8Quantise{.q_transposed = &code, .inverse = &number}, true);
    expect_known("fp8_product", Fp8Product{.c = &number}, true);
    expect_known("attention_forward", AttentionForward{.out = &number, .lse = &number}, false);
    expect_known("fp8_block_product", Fp8BlockProduct{.c = &number}, false);
}

// An edited program: a call that the table does not have is left out, and those behind it keep their names.
TEST_F(Calls, ThatTheProgramDoesNotNameAreLeftOut) {
    options.numerics = path("n.jsonl");
    Numerics numerics(program, options, true);
    numerics.open(0);
    numerics.begin_micro_step(0, 0, stream);
    std::vector<float> first(2, 1), second(2, 3);
    {
        const Range range("forward");
        { const Timed timed("another", {}, {first.data()}, stream); }
        { const Timed timed("kernel", {}, {first.data(), second.data()}, stream); }
        const Range unknown("unknown");
        { const Timed timed("kernel", {}, {first.data(), second.data()}, stream); }
    }
    ASSERT_EQ(lines().size(), 1U);
    EXPECT_EQ(lines()[0].at("amax"), 3);
}

// ---- a run ----------------------------------------------------------------------------------------------------------

class NumericsOfARun : public ProgramTest {};

TEST_F(NumericsOfARun, HaveTheNormsOfItsGradients) {
    write_feed("feed.safetensors", 3, 4);
    const std::string flags = "--feed feed.safetensors --quiet --steps 5 --lr 0.1 --seed 4 ";
    expect_success(run("words_train", flags + "--log plain.jsonl"));
    expect_success(run("words_train", flags + "--log log.jsonl --numerics n.jsonl --numerics-every 2 "
                                              "--dump-gradients g.safetensors"));
    EXPECT_EQ(without_times(read_file(path("log.jsonl"))), without_times(read_file(path("plain.jsonl"))));
    const auto log = read_log("log.jsonl"), lines = read_log("n.jsonl");
    for (const int step : {0, 2, 4}) {
        double of_parameters = 0, of_layers = 0;
        int parameters = 0;
        for (const auto& line : lines) {
            if (line.at("step") != step) continue;
            const double norm = line.at("norm");
            (line.contains("gradient") ? of_parameters : of_layers) += norm * norm;
            parameters += line.contains("gradient") ? 1 : 0;
            if (step > 0 || !line.contains("gradient")) continue;
            const std::vector<float> dumped = read_floats(path("g.safetensors"), line.at("gradient"));
            double squares = 0;
            for (const float x : dumped) squares += static_cast<double>(x) * static_cast<double>(x);
            EXPECT_NEAR(norm, std::sqrt(squares), 1e-8 * norm) << line;  // nine digits are written
        }
        EXPECT_EQ(parameters, 4);  // the frozen one has none
        const double logged = log[static_cast<std::size_t>(step)].at("grad_norm");
        // The log's is added up in f32.
        EXPECT_NEAR(std::sqrt(of_parameters), logged, 1e-6 * logged);
        EXPECT_NEAR(of_layers, of_parameters, 1e-7 * of_parameters);
    }
    for (const auto& line : lines) EXPECT_EQ(line.at("step").get<int>() % 2, 0);
}

TEST_F(NumericsOfARun, GoOnBehindTheCheckpoint) {
    write_feed("feed.safetensors", 3, 4);
    const std::string flags =
        "--feed feed.safetensors --quiet --lr 0.1 --seed 4 --schedule constant --numerics-every 1 ";
    expect_success(run("words_train", flags + "--steps 6 --numerics whole.jsonl"));
    expect_success(
        run("words_train", flags + "--steps 4 --numerics n.jsonl --checkpoint c --checkpoint-every 2 --keep 3"));
    std::filesystem::remove_all(path("c/step-00000004"));
    expect_success(run("words_train", flags + "--steps 6 --numerics n.jsonl --checkpoint c --resume"));
    EXPECT_EQ(read_file(path("n.jsonl")), read_file(path("whole.jsonl")));
}

TEST_F(NumericsOfARun, AskForWhatGoesTogether) {
    write_feed("feed.safetensors", 1, 4);
    const auto refused = [&](const std::string& flags) {
        const Outcome outcome = run("words_train", "--feed feed.safetensors " + flags);
        EXPECT_EQ(outcome.status, 2) << outcome.err;
        return outcome.err;
    };
    EXPECT_EQ(refused("--numerics-every 3"),
              "error: --numerics-every is about --numerics, which is not given\n"
              "help: add --numerics FILE, or leave it away\n");
    EXPECT_EQ(refused("--numerics n.jsonl --profile"),
              "error: --numerics looks at each call, and --profile would time that too\n"
              "help: leave one of them away\n");
    EXPECT_NE(refused("--numerics n.jsonl --numerics-tensors '('").find("a regular expression"), std::string::npos);
    EXPECT_EQ(refused("--numerics n.jsonl --numerics-tensors nothing"),
              "error: --numerics-tensors nothing finds no tensor of words whose noise is known, a product's or one "
              "that is quantised by one scale\n"
              "help: leave it away: there are none\n");
    EXPECT_NE(refused("--numerics feed.safetensors").find("are one file"), std::string::npos);
}

}  // namespace numerics_test
}  // namespace thunder

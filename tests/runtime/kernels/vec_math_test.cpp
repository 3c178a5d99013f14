// SPDX-License-Identifier: Apache-2.0
// The elementary functions of vec_math.h against libm in double, over all magnitudes of floats and the special values.
#include "device/cpu/vec_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "device/cpu/activations.h"

namespace thunder {
namespace vec_math_test {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// The distance of `got` from the exact value, in units of the last place that a float near the exact value has.
double ulps(float got, double exact) {
    const auto nearest = static_cast<float>(exact);
    if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : 1e30;
    if (std::isinf(nearest)) return got == nearest || std::abs(got) >= 3.4028233e38F ? 0 : 1e30;
    int exponent = 0;
    std::frexp(exact, &exponent);
    const double unit = std::ldexp(1.0, std::max(exponent, -125) - 24);  // never below the subnormals' spacing
    return std::abs(static_cast<double>(got) - exact) / unit;
}

#ifdef THUNDERC_FULL
constexpr std::uint64_t every = 997;
#else
constexpr std::uint64_t every = 9973;
#endif

// Every 997th float, or 9973rd, of both signs whose magnitude lies in [low, high]: some four million of them at most.
template <typename Visit>
void for_floats(float low, float high, Visit&& visit) {
    for (std::uint64_t bits = math::bits_of(low); bits <= math::bits_of(high); bits += every) {
        visit(math::float_of(static_cast<std::uint32_t>(bits)));
        visit(-math::float_of(static_cast<std::uint32_t>(bits)));
    }
}

struct Function {
    std::string name;
    float (*ours)(float);
    double (*exact)(double);
    float low, high;  // magnitudes
    double bound;     // ulp
    double absolute;  // an error of no more than this is good enough too
};

double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

const std::vector<Function> functions = {
    {"exp", math::exp, std::exp, 0, infinity, 1.1, 0},    {"expm1", math::expm1, std::expm1, 0, infinity, 2, 0},
    {"log", math::log, std::log, 0, infinity, 1, 0},      {"log1p", math::log1p, std::log1p, 0, infinity, 2, 0},
    {"tanh", math::tanh, std::tanh, 0, infinity, 2.5, 0}, {"sigmoid", math::sigmoid, sigmoid, 0, infinity, 3, 0},
    {"erf", math::erf, std::erf, 0, infinity, 1.5, 0},    {"sin", math::sin, std::sin, 0, 1e7F, 2, 3e-9},
    {"cos", math::cos, std::cos, 0, 1e7F, 2, 3e-9},
};

TEST(VecMath, StaysWithinItsBounds) {
    for (const Function& f : functions) {
        double worst = 0;
        float at = 0;
        for_floats(f.low, f.high, [&](float x) {
            const double exact = f.exact(static_cast<double>(x));
            const float got = f.ours(x);
            if (std::abs(static_cast<double>(got) - exact) <= f.absolute) return;
            const double error = ulps(got, exact);
            if (error > worst) worst = error, at = x;
        });
        EXPECT_LE(worst, f.bound) << f.name << " at " << at << ": " << f.ours(at) << " instead of "
                                  << f.exact(static_cast<double>(at));
        RecordProperty(f.name, std::to_string(worst));
    }
}

TEST(VecMath, SpecialValuesAreTheStandards) {
    for (const Function& f : functions) {
        for (const float x : {0.0F, -0.0F, infinity, -infinity, nan, 1e-40F, -1e-40F, 1.0F, -1.0F}) {
            const auto expected = static_cast<float>(f.exact(static_cast<double>(x)));
            const float got = f.ours(x);
            if (std::isnan(expected)) {
                EXPECT_TRUE(std::isnan(got)) << f.name << "(" << x << ") = " << got;
            } else {
                EXPECT_FLOAT_EQ(got, expected) << f.name << "(" << x << ")";
                // log1p(-0), tanh(-0) and their like keep the sign of zero; it matters in 1/x alone
                if (expected == 0 && f.name != "log1p" && f.name != "erf") {
                    EXPECT_EQ(std::signbit(got), std::signbit(expected)) << f.name << "(" << x << ")";
                }
            }
        }
    }
}

TEST(VecMath, SineAndCosineNeverLeaveTheUnitInterval) {
    for_floats(1e7F, 3e38F, [](float x) {
        ASSERT_LE(std::abs(math::sin(x)), 1.0F) << x;
        ASSERT_LE(std::abs(math::cos(x)), 1.0F) << x;
    });
}

// Against two's complement by hand. With a sanitizer of undefined behaviour the tests stop at a signed overflow.
TEST(VecMath, IntegersWrapAround) {
    constexpr std::int32_t most = INT32_MAX, least = INT32_MIN;
    EXPECT_EQ(math::add<std::int32_t>(most, 1), least);
    EXPECT_EQ(math::sub<std::int32_t>(least, 1), most);
    EXPECT_EQ(math::mul<std::int32_t>(60000, 60000), -694967296);
    EXPECT_EQ(math::neg<std::int32_t>(least), least);
    EXPECT_EQ(math::abs<std::int32_t>(least), least);
    EXPECT_EQ(math::abs<std::int32_t>(-7), 7);
    EXPECT_EQ(math::pow<std::int32_t>(-3, 21), -1870418611);  // modulo 2^32
    EXPECT_EQ(math::add<std::int64_t>(INT64_MAX, 1), INT64_MIN);
    EXPECT_EQ(math::sub<std::int64_t>(INT64_MIN, INT64_MAX), 1);
    EXPECT_EQ(math::mul<std::int64_t>(-7046029254386353131, 3), -2691343689449507777);
    EXPECT_EQ(math::neg<std::int64_t>(INT64_MIN), INT64_MIN);
    EXPECT_EQ(math::quotient<std::int64_t>(INT64_MIN, -1), INT64_MIN);
    EXPECT_EQ(math::pow<std::int64_t>(10, 20), 7766279631452241920);
}

TEST(VecMath, PowIsTheStandards) {
    double worst = 0;
    for (const float y : {-3.5F, -2.0F, -1.0F, -0.75F, -0.5F, 0.25F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 7.0F, 13.37F}) {
        for_floats(1e-38F, 1e38F, [&](float x) {
            worst = std::max(worst, ulps(math::pow(x, y), std::pow(static_cast<double>(x), static_cast<double>(y))));
        });
    }
    EXPECT_LE(worst,
              1.0);  // the double in between is good to 1e-9: what is left is one rounding, or two for subnormals
    const float values[] = {0.0F, -0.0F, infinity, -infinity, nan,   1.0F,   -1.0F,       0.5F,        -0.5F,
                            2.0F, -2.0F, 3.0F,     -3.0F,     1e30F, -1e30F, 16777218.0F, 16777217.0F, 8388609.0F};
    for (const float x : values) {
        for (const float y : values) {
            const auto expected = static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y)));
            const float got = math::pow(x, y);
            if (std::isnan(expected)) {
                EXPECT_TRUE(std::isnan(got)) << x << " ^ " << y << " = " << got;
            } else {
                EXPECT_FLOAT_EQ(got, expected) << x << " ^ " << y;
                EXPECT_EQ(std::signbit(got), std::signbit(expected)) << x << " ^ " << y;
            }
        }
    }
}

// A derivative agrees with the central difference of its function in double where the function is smooth.
TEST(Activations, DerivativesAreThoseOfTheFunctions) {
    const auto gelu = [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); };
    const auto gelu_tanh = [](double x) {
        return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    };
    const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
    const auto check = [](const char* name, auto exact, auto ours, auto derivative) {
        for (double x = -12; x <= 12; x += 0.0137) {
            const double h = 1e-5;
            const double slope = (exact(x + h) - exact(x - h)) / (2 * h);
            // values of size 1 to 12 in float; the tails' relative error is that of a difference, hence the absolute
            // term
            EXPECT_NEAR(ours(static_cast<float>(x)), exact(x), 3e-7 * (1 + std::abs(x))) << name << " at " << x;
            EXPECT_NEAR(derivative(static_cast<float>(x)), slope, 1e-6) << name << " at " << x;
        }
    };
    check("gelu", gelu, math::gelu, math::gelu_derivative);
    check("gelu_tanh", gelu_tanh, math::gelu_tanh, math::gelu_tanh_derivative);
    check("silu", silu, math::silu, math::silu_derivative);
    EXPECT_TRUE(std::isnan(math::relu(nan)));
    EXPECT_EQ(math::relu(-2.0F), 0.0F);
    EXPECT_EQ(math::relu(2.0F), 2.0F);
}

}  // namespace vec_math_test
}  // namespace thunder

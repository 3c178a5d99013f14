// SPDX-License-Identifier: Apache-2.0
// The calls of FP8 on CPUs: scales against a table of an implementation apart, quantising and products against their
// definitions.
#include "check.h"
#include "device/cpu/narrow.h"
#include "fp8_block_cases.h"
#include "fp8_quantise_cases.h"
#include "fp8_recipes.h"
#include "support/error.h"

namespace thunder {
namespace fp8_calls_test {

template <typename T>
class OnHost {
  public:
    OnHost(const char* /*name*/, const std::vector<T>& values) : values_(values) {}
    T* data() { return values_.data(); }

  private:
    std::vector<T> values_;
};

template <typename Body>
void with_threads(Body&& body) {
    for (const int threads : {1, 3}) {
        Device device(threads);
        Stream stream(device);
        body(stream);
    }
}

TEST(Fp8Calls, ScalesAreThoseOfTheTable) {
    with_threads([](Stream& stream) {
        for (const testing::RecordedRecipe& recorded : testing::recorded_recipes())
            testing::expect_recorded_states<OnHost>(recorded, stream);
    });
}

TEST(Fp8Calls, CurrentScalesAreThoseOfTheTable) {
    with_threads([](Stream& stream) { testing::expect_current_scales<OnHost>(stream); });
}

TEST(Fp8Calls, AmaxesAreFoundWithoutQuantising) {
    with_threads([](Stream& stream) {
        for (const testing::QuantiseCase& c : testing::quantise_cases) {
            const auto check = [&]<typename X>(X*) {
                testing::expect_amax<OnHost, X>(
                    c, [](float x) { return narrowed<X>(x); }, [](X x) { return to_float(x); }, stream);
            };
            check(static_cast<float*>(nullptr));
            check(static_cast<bf16*>(nullptr));
        }
    });
}

TEST(Fp8Calls, ARecipeSaysWhichTypeAndHowLarge) {
    constexpr DelayedScaling hybrid, plain{.format = Fp8Format::e4m3, .margin = 2};
    EXPECT_FALSE(hybrid.is_e5m2(false));
    EXPECT_TRUE(hybrid.is_e5m2(true));
    EXPECT_FALSE(plain.is_e5m2(true));
    EXPECT_EQ(hybrid.largest(false), 448);
    EXPECT_EQ(hybrid.largest(true), 57344);
    EXPECT_EQ(plain.largest(true), 112);
}

template <typename Q, typename X>
void expect_quantised(Stream& stream) {
    for (const testing::QuantiseCase& c : testing::quantise_cases)
        for (const bool special : {false, true}) {
            SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.width << (special ? ", with NaN" : ""));
            testing::expect_quantised<OnHost, Q, X>(
                c, special, [](float x) { return narrowed<X>(x); }, [](X x) { return to_float(x); }, stream);
        }
}

TEST(Fp8Calls, BothCopiesAndTheAmaxAreMadeInOnePass) {
    with_threads([](Stream& stream) {
        expect_quantised<e4m3, float>(stream);
        expect_quantised<e4m3, bf16>(stream);
        expect_quantised<e5m2, bf16>(stream);
        expect_quantised<e5m2, f16>(stream);
    });
}

TEST(Fp8Calls, CodesThatAKernelHasWrittenAreFinished) {
    with_threads([](Stream& stream) {
        for (const testing::QuantiseCase& c : testing::quantise_cases) {
            SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.width);
            testing::expect_finished<OnHost, e4m3>(c, stream);
            testing::expect_finished<OnHost, e5m2>(c, stream);
        }
    });
}

// f32: each of up to 130 additions rounds, and three products; narrow results are rounded to 8 or 11 digits once more.
template <typename A, typename B, typename C>
void expect_products(double relative, Stream& stream) {
    for (const testing::ProductCase& p : testing::product_cases) {
        SCOPED_TRACE(::testing::Message() << p.m << " x " << p.n << " x " << p.k);
        testing::expect_product<OnHost, A, B, C>(
            p, relative, [](float x) { return narrowed<C>(x); }, [](C x) { return to_float(x); }, stream);
    }
}

TEST(Fp8Calls, ProductsAreThoseOfWhatTheCodesMean) {
    with_threads([](Stream& stream) {
        expect_products<e4m3, e4m3, float>(2e-6, stream);
        expect_products<e5m2, e4m3, float>(2e-6, stream);
        expect_products<e4m3, e5m2, bf16>(0x1p-8, stream);
        expect_products<e4m3, e4m3, f16>(0x1p-10, stream);
    });
}

TEST(Fp8Calls, ScalesOfBlocksAreThoseOfTheTable) {
    const std::vector<float> amaxes = testing::recorded_floats("current/amax");
    std::vector<float> of_bf16, of_mx, factors;
    for (const float amax : amaxes) {
        const Fp8BlockScale<float> scale = scale_of_block(amax, false, 0, 0x1.fep127F);
        of_bf16.push_back(scale.factor);
        EXPECT_EQ(scale.scale, 1 / scale.factor);
        of_mx.push_back(to_float(mx_scale_of_block(amax).scale));
        factors.push_back(mx_scale_of_block(amax).factor);
    }
    testing::expect_bits(of_bf16, testing::recorded_floats("current/bf16"), "factors of bf16");
    testing::expect_bits(of_mx, testing::recorded_floats("current/mx"), "scales of MX");
    for (std::size_t k = 0; k < factors.size(); ++k)
        EXPECT_TRUE(std::isnan(of_mx[k]) || factors[k] * of_mx[k] == 1) << amaxes[k];
}

template <typename X>
void expect_blocks(float most, Stream& stream) {
    for (const testing::BlockCase& c : testing::block_cases) {
        SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.width);
        const auto narrow = [](float x) { return narrowed<X>(x); };
        const auto widen = [](X x) { return to_float(x); };
        testing::expect_blocks<OnHost, float, X>(c, Fp8Blocks::rows_of_128, most, narrow, widen, stream);
        testing::expect_blocks<OnHost, float, X>(c, Fp8Blocks::squares_of_128, most, narrow, widen, stream);
        testing::expect_blocks<OnHost, e8m0, X>(c, Fp8Blocks::rows_of_32, most, narrow, widen, stream);
    }
}

TEST(Fp8Calls, BlocksAreQuantisedApartInBothCopies) {
    with_threads([](Stream& stream) {
        expect_blocks<float>(fp8_most, stream);
        expect_blocks<bf16>(0x1.fep127F, stream);
        expect_blocks<f16>(65504.F, stream);
    });
}

// As of products with one scale.
TEST(Fp8Calls, ProductsOfBlocksAreThoseOfWhatTheCodesMean) {
    with_threads([](Stream& stream) {
        for (const testing::BlockProductCase& p : testing::block_products) {
            const auto f32 = [](float x) { return x; };
            const auto to_narrow = [](float x) { return to_bf16(x); };
            const auto to_wide = [](bf16 x) { return to_float(x); };
            testing::expect_block_product<OnHost, float, float>(p, Fp8Blocks::rows_of_128, Fp8Blocks::squares_of_128,
                                                                2e-6, f32, f32, stream);
            testing::expect_block_product<OnHost, e8m0, float>(p, Fp8Blocks::rows_of_32, Fp8Blocks::rows_of_32, 2e-6,
                                                               f32, f32, stream);
            testing::expect_block_product<OnHost, float, bf16>(p, Fp8Blocks::rows_of_128, Fp8Blocks::rows_of_128,
                                                               0x1p-8, to_narrow, to_wide, stream);
        }
    });
}

std::string refusal(const Fp8Product& call) {
    Device device(1);
    Stream stream(device);
    try {
        fp8_product(call, stream);
    } catch (const Error& error) {
        return error.message();
    }
    return "";
}

TEST(Fp8Calls, TypesThatNoProductHasAreRefused) {
    e5m2 a{}, other{};
    e4m3 b{};
    float c = 0, inverse = 1;
    const auto product = [&](Input left, Input right, Output result) {
        return refusal(
            {.c = result, .a = left, .b = right, .inverse_a = &inverse, .inverse_b = &inverse, .m = 1, .n = 1, .k = 1});
    };
    EXPECT_EQ(product(&a, &b, &c), "");
    EXPECT_EQ(product(&a, &other, &c), "b of fp8_product is e5m2, expected e4m3");
    EXPECT_EQ(product(&c, &b, &c), "a of fp8_product is f32, expected e4m3 or e5m2");
    EXPECT_EQ(product(&a, &b, &b), "c of fp8_product is e4m3, expected f32 or bf16 or f16");
}

}  // namespace fp8_calls_test
}  // namespace thunder

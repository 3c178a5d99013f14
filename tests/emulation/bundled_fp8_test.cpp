// SPDX-License-Identifier: Apache-2.0
// FP8 on the emulated GPU: what is quantised and the scales bit for bit as on CPUs, by the same tables.
#include "device/cuda/fp8/products.h"
#include "emulation/bundled.h"
#include "runtime/kernels/fp8_block_cases.h"
#include "runtime/kernels/fp8_quantise_cases.h"
#include "runtime/kernels/fp8_recipes.h"
#include "runtime/kernels/fp8_tables.h"
#include "support/full_form.h"

namespace thunder {

// There is no library of products: its kernel of plain threads.
void fp8_product(const Fp8Product& call, Stream& stream) {
    fp8_product_by_threads(call, stream);
}

namespace {

class BundledFp8 : public Bundled {
  protected:
    template <typename T>
    void expect_table(const std::string& type);
};

// Every float where rounding turns, as a row.
template <typename T>
void BundledFp8::expect_table(const std::string& type) {
    std::vector<float> numbers;
    const std::vector<testing::RoundingRow> rows = testing::fp8_roundings(type);
    for (const testing::RoundingRow& row : rows) {
        numbers.push_back(row.x);
        numbers.push_back(-row.x);
    }
    Buffer<float> x("x", numbers), scale("scale", std::vector<float>{1.F});
    Buffer<T> q("q", std::vector<T>(numbers.size()));
    fp8_quantise({.q = q.data(),
                  .x = static_cast<const float*>(x.data()),
                  .scale = static_cast<const float*>(scale.data()),
                  .rows = 2,
                  .width = static_cast<std::int64_t>(rows.size())},
                 stream);
    for (std::size_t k = 0; k < numbers.size(); ++k)
        testing::expect_code(q.data()[k], rows[k / 2].saturated, numbers[k], "what is quantised");
}

TEST_F(BundledFp8, RoundingTurnsWhereTheTableSays) {
    expect_table<e4m3>("e4m3");
    expect_table<e5m2>("e5m2");
}

TEST_F(BundledFp8, ScalesAreThoseOfTheTable) {
    for (const testing::RecordedRecipe& recorded : testing::recorded_recipes()) {
        // In CI a long history as far as an amax has passed from one part of it to the next.
        const bool whole = thunderc::full_form || recorded.recipe.length == 3;
        testing::expect_recorded_states<Buffer>(recorded, stream, whole ? testing::recorded_steps : 300);
    }
}

TEST_F(BundledFp8, CurrentScalesAreThoseOfTheTable) {
    testing::expect_current_scales<Buffer>(stream);
}

TEST_F(BundledFp8, AmaxesAreFoundWithoutQuantising) {
    for (const testing::QuantiseCase& c : testing::quantise_cases) {
        const auto check = [&]<typename X>(X*) {
            testing::expect_amax<Buffer, X>(
                c, [](float x) { return narrow_to<X>(x); }, [](X x) { return wide(x); }, stream);
        };
        check(static_cast<float*>(nullptr));
        check(static_cast<bf16*>(nullptr));
    }
}

TEST_F(BundledFp8, BothCopiesAndTheAmaxAreMadeInOnePass) {
    for (const testing::QuantiseCase& c : testing::quantise_cases) {
        SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.width);
        const auto check = [&]<typename Q, typename X>(Q*, X*) {
            testing::expect_quantised<Buffer, Q, X>(
                c, true, [](float x) { return narrow_to<X>(x); }, [](X x) { return wide(x); }, stream);
        };
        check(static_cast<e4m3*>(nullptr), static_cast<float*>(nullptr));
        check(static_cast<e4m3*>(nullptr), static_cast<bf16*>(nullptr));
        check(static_cast<e5m2*>(nullptr), static_cast<f16*>(nullptr));
    }
}

TEST_F(BundledFp8, CodesThatAKernelHasWrittenAreFinished) {
    for (const testing::QuantiseCase& c : testing::quantise_cases) {
        SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.width);
        testing::expect_finished<Buffer, e4m3>(c, stream);
        testing::expect_finished<Buffer, e5m2>(c, stream);
    }
}

TEST_F(BundledFp8, BlocksAreQuantisedApartInBothCopies) {
    for (const testing::BlockCase& c : testing::block_cases) {
        SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.width);
        const auto check = [&]<typename X>(float most, X*) {
            const auto narrow = [](float x) { return narrow_to<X>(x); };
            const auto widen = [](X x) { return wide(x); };
            testing::expect_blocks<Buffer, float, X>(c, Fp8Blocks::rows_of_128, most, narrow, widen, stream);
            testing::expect_blocks<Buffer, float, X>(c, Fp8Blocks::squares_of_128, most, narrow, widen, stream);
            testing::expect_blocks<Buffer, e8m0, X>(c, Fp8Blocks::rows_of_32, most, narrow, widen, stream);
        };
        check(fp8_most, static_cast<float*>(nullptr));
        check(0x1.fep127F, static_cast<bf16*>(nullptr));
    }
}

TEST_F(BundledFp8, ProductsOfBlocksAreThoseOfWhatTheCodesMean) {
    for (const testing::BlockProductCase& p : testing::block_products) {
        const auto f32 = [](float x) { return x; };
        const auto to_narrow = [](float x) { return to_bf16(x); };
        const auto to_wide = [](bf16 x) { return wide(x); };
        testing::expect_block_product<Buffer, float, float>(p, Fp8Blocks::rows_of_128, Fp8Blocks::squares_of_128, 2e-6,
                                                            f32, f32, stream);
        testing::expect_block_product<Buffer, e8m0, bf16>(p, Fp8Blocks::rows_of_32, Fp8Blocks::rows_of_32, 0x1p-8,
                                                          to_narrow, to_wide, stream);
    }
}

// The tolerances of tests/runtime/kernels/fp8_calls_test.cpp.
TEST_F(BundledFp8, ProductsAreThoseOfWhatTheCodesMean) {
    for (const testing::ProductCase& p : testing::product_cases) {
        SCOPED_TRACE(::testing::Message() << p.m << " x " << p.n << " x " << p.k);
        const auto check = [&]<typename A, typename B, typename C>(double relative, A*, B*, C*) {
            testing::expect_product<Buffer, A, B, C>(
                p, relative, [](float x) { return narrow_to<C>(x); }, [](C x) { return wide(x); }, stream);
        };
        check(2e-6, static_cast<e4m3*>(nullptr), static_cast<e4m3*>(nullptr), static_cast<float*>(nullptr));
        check(0x1p-8, static_cast<e5m2*>(nullptr), static_cast<e4m3*>(nullptr), static_cast<bf16*>(nullptr));
        check(0x1p-10, static_cast<e4m3*>(nullptr), static_cast<e5m2*>(nullptr), static_cast<f16*>(nullptr));
    }
}

}  // namespace
}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Cross entropy against its definition in fp64.
#include <bit>
#include <limits>

#include "check.h"
#include "device/api.h"
#include "device/cpu/bf16.h"

namespace thunder {
namespace cross_entropy_test {

using testing::random;

struct Case {
    std::int64_t rows, classes;
    std::vector<float> logits;
    std::vector<std::int64_t> labels;
};

Case make(std::int64_t rows, std::int64_t classes, float scale) {
    Case c{rows, classes, random(rows * classes, 11, scale), {}};
    for (std::int64_t i = 0; i < rows; ++i) c.labels.push_back(i % 5 == 3 ? -100 : (i * 7919) % classes);
    return c;
}

TEST(CrossEntropy, ForwardAndBackward) {
    for (const auto& [rows, classes] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 3}, {33, 257}, {64, 1000}, {5, 32003}}) {
        for (const float scale : {1.0F, 40.0F}) {  // 40: exponentials that would overflow without the maximum
            const Case c = make(rows, classes, scale);
            Device device(2);
            Stream stream(device);
            float loss = -1;
            std::vector<float> lse(static_cast<std::size_t>(rows), -1.0F);
            cross_entropy_forward({.loss = &loss,
                                   .lse = lse.data(),
                                   .logits = c.logits.data(),
                                   .labels = c.labels.data(),
                                   .rows = rows,
                                   .classes = classes},
                                  stream);
            std::vector<float> dlogits = c.logits;
            const float dloss = 0.37F;
            cross_entropy_backward({.dlogits = dlogits.data(),
                                    .logits = dlogits.data(),
                                    .labels = c.labels.data(),
                                    .lse = lse.data(),
                                    .dloss = &dloss,
                                    .rows = rows,
                                    .classes = classes},
                                   stream);
            double expected_loss = 0;
            for (std::int64_t i = 0; i < rows; ++i) {
                const float* row = c.logits.data() + i * classes;
                const std::int64_t label = c.labels[static_cast<std::size_t>(i)];
                double largest = row[0], sum = 0;
                for (std::int64_t j = 0; j < classes; ++j) largest = std::max<double>(largest, row[j]);
                for (std::int64_t j = 0; j < classes; ++j) sum += std::exp(row[j] - largest);
                const double exact = largest + std::log(sum);
                if (label >= 0) {
                    expected_loss += exact - row[label];
                    // one rounding of a number of that size, and the sum's own error of some 1e-6
                    ASSERT_NEAR(lse[static_cast<std::size_t>(i)], exact, 2e-6 + 1e-7 * std::abs(exact));
                }
                for (std::int64_t j = 0; j < classes; ++j) {
                    const double p = label < 0 ? 0 : std::exp(row[j] - exact) - (j == label ? 1 : 0);
                    // exp(x - lse) passes on the absolute error of lse as a relative one
                    ASSERT_NEAR(dlogits[static_cast<std::size_t>(i * classes + j)], 0.37F * p,
                                2e-6 + 1e-7 * std::abs(exact))
                        << i << ", " << j;
                }
            }
            EXPECT_NEAR(loss, expected_loss, 1e-6 * (1 + std::abs(expected_loss)) + 1e-6 * static_cast<double>(rows));
        }
    }
}

TEST(CrossEntropy, SameBitsAtAnyThreadCount) {
    const Case c = make(203, 1003, 2.0F);
    testing::expect_same_bits_at_any_thread_count([&](Stream& stream) {
        std::vector<float> result(1 + c.labels.size() + c.logits.size());
        float* loss = result.data();
        float* lse = loss + 1;
        float* dlogits = lse + c.rows;
        cross_entropy_forward({.loss = loss,
                               .lse = lse,
                               .logits = c.logits.data(),
                               .labels = c.labels.data(),
                               .rows = c.rows,
                               .classes = c.classes},
                              stream);
        const float dloss = 0.01F;
        cross_entropy_backward({.dlogits = dlogits,
                                .logits = c.logits.data(),
                                .labels = c.labels.data(),
                                .lse = lse,
                                .dloss = &dloss,
                                .rows = c.rows,
                                .classes = c.classes},
                               stream);
        return result;
    });
}

// A head and its loss in chunks against the calls that have all rows at once, which are held against fp64 elsewhere:
// whichever gradients are wanted, overwritten and added to, in f32 and in bf16. Chunks are products of fewer rows, and
// what a chunk adds to a gradient is a sum of its own.
TEST(LinearCrossEntropy, ChunksGiveWhatAllRowsAtOnceGive) {
    constexpr std::int64_t rows = 24, in = 40, classes = 70;
    const auto narrow = [](const std::vector<float>& from) {
        std::vector<bf16> to;
        for (const float x : from) to.push_back(to_bf16(x));
        return to;
    };
    const std::vector<float> x = random(rows * in, 1), weight = random(classes * in, 2), bias = random(classes, 3),
                             start = random(classes * (in + 1), 4);
    const std::vector<bf16> x16 = narrow(x), weight16 = narrow(weight);
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < rows; ++i) labels.push_back(i % 5 == 3 ? -100 : (i * 7919) % classes);
    const float dloss = 0.37F;
    Device device(2);
    Stream stream(device);
    for (const bool bf16_ : {false, true})
        for (const std::int64_t chunk : {1, 8, 24})
            for (const bool with_bias : {false, true})
                for (const WriteMode mode : {WriteMode::overwrite, WriteMode::add}) {
                    const std::string what = std::string(bf16_ ? "bf16" : "f32") + ", chunks of " +
                                             std::to_string(chunk) + (with_bias ? ", bias" : "") +
                                             (mode == WriteMode::add ? ", added" : "");
                    struct Memory {
                        std::vector<float> losses, lse, logits, dx, gradients;
                        std::vector<bf16> logits16, dx16;
                    };
                    const auto fresh = [&] {
                        return Memory{std::vector<float>(rows, -1.0F),
                                      std::vector<float>(rows),
                                      std::vector<float>(rows * classes),
                                      std::vector<float>(rows * in, -1.0F),
                                      start,
                                      std::vector<bf16>(rows * classes),
                                      std::vector<bf16>(rows * in)};
                    };
                    Memory whole = fresh(), parts = fresh();
                    const Input of_x = bf16_ ? Input(x16.data()) : Input(x.data()),
                                of_weight = bf16_ ? Input(weight16.data()) : Input(weight.data());
                    const auto of_logits = [&](Memory& m) {
                        return bf16_ ? Output(m.logits16.data()) : Output(m.logits.data());
                    };
                    const auto of_dx = [&](Memory& m) { return bf16_ ? Output(m.dx16.data()) : Output(m.dx.data()); };
                    linear_forward({.y = of_logits(whole),
                                    .x = of_x,
                                    .weight = of_weight,
                                    .bias = with_bias ? Input(bias.data()) : Input(),
                                    .rows = rows,
                                    .in = in,
                                    .out = classes},
                                   stream);
                    cross_entropy_forward({.loss = whole.losses.data(),
                                           .lse = whole.lse.data(),
                                           .logits = as_input(of_logits(whole)),
                                           .labels = labels.data(),
                                           .rows = rows,
                                           .classes = classes},
                                          stream);
                    const float* lse = whole.lse.data();
                    cross_entropy_backward({.dlogits = of_logits(whole),
                                            .logits = as_input(of_logits(whole)),
                                            .labels = labels.data(),
                                            .lse = lse,
                                            .dloss = &dloss,
                                            .rows = rows,
                                            .classes = classes},
                                           stream);
                    linear_backward_input({.dx = of_dx(whole),
                                           .dy = as_input(of_logits(whole)),
                                           .weight = of_weight,
                                           .rows = rows,
                                           .in = in,
                                           .out = classes},
                                          stream);
                    float *dw = whole.gradients.data(), *db = dw + classes * in;
                    linear_backward_weight({.dweight = dw,
                                            .dbias = with_bias ? Output(db) : Output(),
                                            .dy = as_input(of_logits(whole)),
                                            .x = of_x,
                                            .mode = mode,
                                            .rows = rows,
                                            .in = in,
                                            .out = classes},
                                           stream);

                    dw = parts.gradients.data(), db = dw + classes * in;
                    linear_cross_entropy({.losses = parts.losses.data(),
                                          .dx = of_dx(parts),
                                          .dweight = dw,
                                          .dbias = with_bias ? Output(db) : Output(),
                                          .logits = of_logits(parts),
                                          .lse = parts.lse.data(),
                                          .x = of_x,
                                          .weight = of_weight,
                                          .bias = with_bias ? Input(bias.data()) : Input(),
                                          .labels = labels.data(),
                                          .dloss = &dloss,
                                          .mode = mode,
                                          .chunk = chunk,
                                          .rows = rows,
                                          .in = in,
                                          .classes = classes},
                                         stream);
                    double sum = 0;
                    for (std::int64_t k = 0; k < rows / chunk; ++k) sum += parts.losses[static_cast<std::size_t>(k)];
                    EXPECT_NEAR(sum, whole.losses[0], 1e-6 * std::abs(whole.losses[0])) << what;
                    // Sums of up to 70 and 24 products of numbers below 1, in another order; of bf16 a logit may be
                    // rounded to its neighbour, 2^-8 of 8, and its gradient with it.
                    const float tolerance = bf16_ ? 0.03F : 2e-5F;
                    for (std::size_t k = 0; k < parts.gradients.size(); ++k)
                        ASSERT_NEAR(parts.gradients[k], whole.gradients[k], tolerance) << what << ", " << k;
                    for (std::size_t k = 0; k < parts.dx.size(); ++k)
                        ASSERT_NEAR(bf16_ ? to_float(parts.dx16[k]) : parts.dx[k],
                                    bf16_ ? to_float(whole.dx16[k]) : whole.dx[k], tolerance)
                            << what << ", " << k;

                    // Of an evaluation the losses alone, the same bits; nothing else is written.
                    Memory alone = fresh();
                    linear_cross_entropy({.losses = alone.losses.data(),
                                          .logits = of_logits(alone),
                                          .lse = alone.lse.data(),
                                          .x = of_x,
                                          .weight = of_weight,
                                          .bias = with_bias ? Input(bias.data()) : Input(),
                                          .labels = labels.data(),
                                          .chunk = chunk,
                                          .rows = rows,
                                          .in = in,
                                          .classes = classes},
                                         stream);
                    EXPECT_EQ(alone.losses, parts.losses) << what;
                    EXPECT_EQ(alone.gradients, start) << what;
                }
}

TEST(CrossEntropy, AnotherIgnoredLabelAndANumberThatIsNone) {
    Device device(1);
    Stream stream(device);
    const float logits[] = {1.0F, 2.0F, std::numeric_limits<float>::quiet_NaN(), 0.0F};
    const std::int64_t labels[] = {0, 1};
    float loss = 0, lse[2];
    cross_entropy_forward(
        {.loss = &loss, .lse = lse, .logits = logits, .labels = labels, .ignore_index = 1, .rows = 2, .classes = 2},
        stream);
    EXPECT_NEAR(loss, std::log1p(std::exp(1.0)), 1e-6);  // the row with NaN is ignored
    cross_entropy_forward({.loss = &loss, .lse = lse, .logits = logits, .labels = labels, .rows = 2, .classes = 2},
                          stream);
    EXPECT_TRUE(std::isnan(loss));
}

}  // namespace cross_entropy_test
}  // namespace thunder

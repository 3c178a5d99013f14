// SPDX-License-Identifier: Apache-2.0
// Cross entropy against its definition in fp64.
#include <bit>
#include <limits>

#include "check.h"
#include "device/api.h"

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

// SPDX-License-Identifier: Apache-2.0
// Nothing is allocated within a parallel region: what throws there ends the process without a message.
#include <atomic>
#include <cstdlib>
#include <new>

#include "check.h"
#include "device/cpu/products.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<int> counted{0};
}  // namespace

// These take the place of the library's in this test program; never inlined, since g++ 12 would then warn of new and
// free.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    if (counting) ++counted;
    if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
    throw std::bad_alloc();
}
// std::stable_sort takes its buffer by this one, and would give it back to another library's delete.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    if (counting) ++counted;
    return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace thunder {
namespace allocation_test {

TEST(Allocation, ThePlainProductsTakeNoMemory) {
    Device device(2);
    Stream stream(device);
    // More columns than a tile of sums has, and not a multiple of it; both ways to walk through b.
    constexpr std::int64_t m = 5, n = 1100, k = 7;
    const std::vector<float> a = testing::random(m * k, 1), b = testing::random(n * k, 2);
    for (const bool transpose_b : {false, true}) {
        std::vector<float> c(m * n);
        const Product product{.c = c.data(),
                              .a = a.data(),
                              .b = b.data(),
                              .transpose_b = transpose_b,
                              .m = m,
                              .n = n,
                              .k = k,
                              .ld_a = k,
                              .ld_b = transpose_b ? k : n,
                              .ld_c = n};
        counted = 0;
        counting = true;
        const bool done = reference::product(product, stream);
        counting = false;
        EXPECT_TRUE(done);
        EXPECT_EQ(counted, 0);
        std::vector<double> expected(m * n);
        for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n; ++j)
                for (std::int64_t p = 0; p < k; ++p)
                    expected[static_cast<std::size_t>(i * n + j)] +=
                        static_cast<double>(a[static_cast<std::size_t>(i * k + p)]) *
                        static_cast<double>(b[static_cast<std::size_t>(transpose_b ? j * k + p : p * n + j)]);
        testing::expect_close(c, expected, 1e-7, 1.0, "c");  // one rounding to f32 of a sum in double: 6e-8
    }
}

}  // namespace allocation_test
}  // namespace thunder

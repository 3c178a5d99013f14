// SPDX-License-Identifier: Apache-2.0
// Kernels for GPUs: which schedule a kernel gets, where vectors are taken, what is launched. What they compute is
// tested on the emulated GPU.
#include "codegen/kernels/cuda/kernels_cuda.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/text.h"
#include "compiler/ir/parse.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace kernels_cuda_test {

KernelDescription described(const std::string& text) {
    return describe_kernel(parse_module("module \"m\" values\n\n" + text).main());
}

PrintedCudaKernel printed(const std::string& text, const KernelAlignment& alignment = {}) {
    return print_kernel_cuda(described(text), {}, alignment);
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::string tanh_of(const std::string& type) {
    return fmt::format("func @f(%x: {0}) -> (%y) {{\n  %y = tanh(%x) : {0}\n}}\n", type);
}

// A tensor may be called as a function is that the text calls: what does not read it is not given it.
TEST(KernelsCuda, FunctionsAreNoTensors) {
    EXPECT_TRUE(names_identifier("y[i] = math::abs(abs[i]);", "abs"));
    for (const char* text : {"y[i] = math::abs(x[i]);", "y.abs = 1;", "abs::lowest()", "abs_2 + kabs", ""})
        EXPECT_FALSE(names_identifier(text, "abs")) << text;
    // The finishing kernel takes the root of the sum alone.
    const PrintedCudaKernel kernel = printed(
        "func @f(%abs: f32[64,64]) -> (%y) {\n  %a = abs(%abs) : f32[64,64]\n"
        "  %s = reduce_sum(%a) {axes = [0], keep_dims = false} : f32[64]\n  %y = abs(%s) : f32[64]\n}\n");
    EXPECT_TRUE(has(kernel.device, "f_finish(Global<float> y, Global<const float> partials)")) << kernel.device;
}

TEST(KernelsCuda, PointwiseKernelsTakeVectors) {
    const PrintedCudaKernel kernel = printed(tanh_of("f32[3,1024]"));
    EXPECT_EQ(kernel.device, R"(// f:
//   y = tanh(x)
// A thread for each 4 elements.
THUNDER_KERNEL(256) f_kernel(Aliased<float> y, Aliased<const float> x) {
    wait_for_previous_kernel();
    const int i = (block_index() * 256 + thread_index()) * 4;
    const auto x_v = load<4>(x + i);
    Vec<float, 4> y_v;
    THUNDER_UNROLL
    for (int e = 0; e < 4; ++e) {
        y_v[e] = math::tanh(x_v[e]);
    }
    store(y + i, y_v);
}
)");
    EXPECT_EQ(kernel.launcher, R"(void f(float* y, const float* x, Stream& stream) {
    const Timed timed("f", {.bytes = 24576, .flops = 36864}, {y}, stream);
    launch("f", f_kernel, 3, 256, stream, y, x);
}
)");
}

TEST(KernelsCuda, ThreadsPastTheEndDoNothing) {
    EXPECT_TRUE(has(printed(tanh_of("f32[3,1000]")).device, "if (i >= n) return;"));
}

TEST(KernelsCuda, OddExtentsAreTakenOneByOne) {
    const PrintedCudaKernel kernel = printed(tanh_of("f32[3,5]"));
    EXPECT_FALSE(has(kernel.device, "load<")) << kernel.device;
    EXPECT_TRUE(has(kernel.device, "y[i] = math::tanh(x[i]);")) << kernel.device;
}

TEST(KernelsCuda, VectorsAreAsWideAsAddressesAreAligned) {
    EXPECT_TRUE(has(printed(tanh_of("f32[64]"), {{8}, {8}}).device, "load<2>(x + i)"));
    EXPECT_FALSE(has(printed(tanh_of("f32[64]"), {{4}, {4}}).device, "load<"));
    // One of them aligned: its vectors are worth it.
    const std::string one = printed(tanh_of("f32[64]"), {{4}, {16}}).device;
    EXPECT_TRUE(has(one, "store(y + i, y_v);") && has(one, "math::tanh(x[(i + e)])")) << one;
}

TEST(KernelsCuda, IndicesPastAnIntAreWide) {
    const std::string text = printed(tanh_of("f32[65536,65536]")).device;
    EXPECT_TRUE(has(text, "const std::int64_t i = (static_cast<std::int64_t>(block_index()) * 256")) << text;
}

std::string row_norm(std::int64_t rows, std::int64_t width) {
    return fmt::format(R"(func @f(%x: f32[{0},{1}]) -> (%y) {{
  %m = reduce_max(%x) {{axes = [1], keep_dims = true}} : f32[{0},1]
  %d = sub(%x, %m) : f32[{0},{1}]
  %e = exp(%d) : f32[{0},{1}]
  %s = reduce_sum(%e) {{axes = [1], keep_dims = true}} : f32[{0},1]
  %y = div(%e, %s) : f32[{0},{1}]
}}
)",
                       rows, width);
}

TEST(KernelsCuda, NarrowRowsAreAWarps) {
    const PrintedCudaKernel kernel = printed(row_norm(100000, 512));
    EXPECT_TRUE(has(kernel.device, "warp_max(") && has(kernel.device, "warp_sum(")) << kernel.device;
    EXPECT_TRUE(has(kernel.device, "Vec<float, 4> x_v[4];")) << kernel.device;
    EXPECT_FALSE(has(kernel.device, "barrier()")) << kernel.device;
    EXPECT_TRUE(has(kernel.launcher, "launch(\"f\", f_kernel, 12500, 256, stream, y, x);")) << kernel.launcher;
}

TEST(KernelsCuda, WideRowsAreABlocks) {
    const PrintedCudaKernel kernel = printed(row_norm(100000, 4096));
    EXPECT_TRUE(has(kernel.device, "THUNDER_SHARED(float, shared, 4);")) << kernel.device;
    EXPECT_TRUE(has(kernel.device, "block_sum<128>(s, shared);")) << kernel.device;
    EXPECT_TRUE(has(kernel.launcher, "f_kernel, 100000, 128, stream")) << kernel.launcher;
}

TEST(KernelsCuda, FewRowsAreSharedByMoreThreads) {
    EXPECT_TRUE(has(printed(row_norm(16, 4096)).launcher, "f_kernel, 16, 1024, stream"));
}

TEST(KernelsCuda, RowsThatRegistersDoNotHoldAreReadAgain) {
    const std::string text = printed(row_norm(64, 131072)).device;
    EXPECT_FALSE(has(text, "Vec<float, 4> x_v")) << text;
    EXPECT_TRUE(has(text, "for (int c = thread_index() * 4; c < width; c += 4096) {")) << text;
    EXPECT_TRUE(has(text, "too wide for registers")) << text;
}

TEST(KernelsCuda, SumsOverRowsHaveFixedPartials) {
    const PrintedCudaKernel kernel = printed(R"(func @f(%x: f32[4096,1024]) -> (%y) {
  %y = reduce_sum(%x) {axes = [0], keep_dims = false} : f32[1024]
}
)");
    EXPECT_TRUE(has(kernel.device, "A block for each 128 columns of 64 rows")) << kernel.device;
    EXPECT_EQ(kernel.launcher, R"(void f(float* y, const float* x, Stream& stream) {
    const Timed timed("f", {.bytes = 16781312, .flops = 4194304}, {y}, stream);
    auto* partials = reinterpret_cast<float*>(stream.workspace(65536 * sizeof(float)));
    launch("f", f_kernel, 512, 256, stream, x, partials);
    launch("f", f_finish, 32, 256, stream, y, partials);
}
)");
}

TEST(KernelsCuda, TransposesGoThroughSharedMemory) {
    const PrintedCudaKernel kernel = printed(R"(func @f(%x: f32[100,200]) -> (%y) {
  %y = transpose(%x) {permutation = [1, 0]} : f32[200,100]
}
)");
    EXPECT_TRUE(has(kernel.device, "THUNDER_SHARED(float, x_tile, 32 * 33);")) << kernel.device;
    EXPECT_TRUE(has(kernel.device, "barrier();")) << kernel.device;
    EXPECT_TRUE(has(kernel.launcher, "f_kernel, 28, 256, stream")) << kernel.launcher;
}

TEST(KernelsCuda, SmallTransposesDoNot) {
    EXPECT_FALSE(has(printed(R"(func @f(%x: f32[4,4]) -> (%y) {
  %y = transpose(%x) {permutation = [1, 0]} : f32[4,4]
}
)")
                         .device,
                     "THUNDER_SHARED"));
}

TEST(KernelsCuda, OperandsMayBeCalledAsDeviceFunctionsAre) {
    const std::string text =
        printed("func @f(%load: f32[8]) -> (%store) {\n  %store = tanh(%load) : f32[8]\n}\n").device;
    EXPECT_TRUE(has(text, "Aliased<float> store_2, Aliased<const float> load_2")) << text;
}

TEST(KernelsCuda, UnknownArchitecturesAreRefused) {
    EXPECT_EQ(cuda_tuning("sm_80").multiprocessors, 108);
    try {
        cuda_tuning("sm_42");
        FAIL() << "sm_42 is taken";
    } catch (const UserError& e) {
        EXPECT_EQ(e.diagnostic().text(),
                  "error: 'sm_42' is no architecture that kernels are tuned for\n"
                  "help: known are sm_80, sm_86, sm_87, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_103, sm_103a, "
                  "sm_110, sm_110a, sm_120, sm_120a, sm_121, sm_121a\n");
    }
}

std::string sum_of(const std::string& type, const std::string& axes) {
    return fmt::format(
        "func @f(%x: {0}) -> (%y) {{\n  %y = reduce_sum(%x) {{axes = [{1}], keep_dims = false}} : f32[]\n}}\n", type,
        axes);
}

TEST(KernelsCuda, SumsOfAllElementsHaveManyBlocks) {
    const PrintedCudaKernel kernel = printed(sum_of("f32[1048576]", "0"));
    EXPECT_TRUE(has(kernel.launcher, R"(    launch("f", f_kernel, 128, 256, stream, x, partials);
    launch("f", f_finish, 1, 256, stream, y, partials);
)")) << kernel.launcher;
    // what one block does as quickly, and what no row divides
    EXPECT_TRUE(has(printed(sum_of("f32[4096]", "0")).launcher, "launch(\"f\", f_kernel, 1, "));
    EXPECT_TRUE(has(printed(sum_of("f32[1048583]", "0")).launcher, "launch(\"f\", f_kernel, 1, "));
    EXPECT_FALSE(has(printed(sum_of("f32[1048583]", "0")).launcher, "finish"));
}

}  // namespace kernels_cuda_test
}  // namespace thunderc

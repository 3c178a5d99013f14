// SPDX-License-Identifier: Apache-2.0
// One name is one value: in a kernel's formula, in its text for CPUs and in that for GPUs.
#include "codegen/kernels/value_names.h"

#include <gtest/gtest.h>

#include "codegen/kernels/cpu/kernels_cpu.h"
#include "codegen/kernels/cuda/kernels_cuda.h"
#include "compiler/ir/parse.h"

namespace thunderc {
namespace value_names_test {

struct Texts {
    explicit Texts(const std::string& functions) {
        const KernelDescription kernel = describe_kernel(parse_module("module \"m\" values\n\n" + functions).main());
        cpu = print_kernel_cpu(kernel, {}, {}, {}, false).definition;
        cuda = print_kernel_cuda(kernel).device;
    }
    void expect(const std::string& part) const {
        EXPECT_NE(cpu.find(part), std::string::npos) << part << "\n" << cpu;
        EXPECT_NE(cuda.find(part), std::string::npos) << part << "\n" << cuda;
    }
    std::string cpu, cuda;
};

// The text comes to the second difference first, since the reduction needs it.
TEST(ValueNames, DoNotFollowTheOrderOfTheText) {
    const Texts texts(R"(
func @f(%x: f32[4,64], %y: f32[4,64]) -> (%u, %v, %total) {
  %product = mul(%x, %y) : f32[4,64]
  %sine = sin(%product) : f32[4,64]
  %difference = sub(%sine, %x) : f32[4,64]
  %a = mul(%difference, %difference) : f32[4,64]
  %u = mul(%a, %difference) : f32[4,64]
  %cosine = cos(%product) : f32[4,64]
  %difference_2 = sub(%cosine, %y) : f32[4,64]
  %b = mul(%difference_2, %difference_2) : f32[4,64]
  %v = mul(%b, %difference_2) : f32[4,64]
  %total = reduce_sum(%v) {axes = [1], keep_dims = false} : f32[4]
}
)");
    texts.expect("//   where difference = sin(x * y) - x\n");
    texts.expect("//   where difference_2 = cos(x * y) - y\n");
    EXPECT_NE(texts.cpu.find("const float difference_2 = vec_math::cos(x_row[c] * y_row[c]) - y_row[c];"),
              std::string::npos)
        << texts.cpu;
    EXPECT_NE(texts.cpu.find("const float difference = vec_math::sin(product) - x_row[c];"), std::string::npos)
        << texts.cpu;
    EXPECT_EQ(texts.cuda.find("difference = math::cos"), std::string::npos) << texts.cuda;
    EXPECT_NE(texts.cuda.find("difference_2 = math::cos"), std::string::npos) << texts.cuda;
}

// What the text calls by its function is not called after a tensor of that name, which is another value.
TEST(ValueNames, AreNotThoseOfOtherTensors) {
    const Texts texts(R"(
func @f(%x: f32[4,64]) -> (%softplus) {
  %one = constant() {value = <f32[] splat 1>} : f32[]
  %abs = abs(%x) : f32[4,64]
  %neg = neg(%abs) : f32[4,64]
  %exp = exp(%neg) : f32[4,64]
  %add = add(%exp, %one) : f32[4,64]
  %log = log(%add) : f32[4,64]
  %relu = relu(%x) : f32[4,64]
  %add_2 = add(%relu, %log) : f32[4,64]
  %mul = mul(%add_2, %add_2) : f32[4,64]
  %softplus = sin(%mul) : f32[4,64]
}
)");
    texts.expect("//   softplus = sin(softplus(x)^2)\n");
    texts.expect("const float softplus_2 = ");
    EXPECT_EQ(texts.cpu.find("const float softplus_i = std::max"), std::string::npos) << texts.cpu;
}

// Nests that both need a value call it alike, also where another value of the one has the same op.
TEST(ValueNames, AreTheSameInAllNests) {
    const Texts texts(R"(
func @f(%x: f32[4,6], %y: f32[4,6], %z: f32[6,4]) -> (%u, %v) {
  %product = mul(%x, %y) : f32[4,6]
  %p = mul(%product, %product) : f32[4,6]
  %u = add(%p, %product) : f32[4,6]
  %turned = transpose(%product) {permutation = [1, 0]} : f32[6,4]
  %product_2 = mul(%z, %z) : f32[6,4]
  %q = mul(%product_2, %product_2) : f32[6,4]
  %r = add(%q, %product_2) : f32[6,4]
  %s = mul(%r, %turned) : f32[6,4]
  %v = add(%s, %turned) : f32[6,4]
}
)");
    std::size_t nests = 0;
    for (std::size_t at = texts.cpu.find("const float product = "); at != std::string::npos;
         at = texts.cpu.find("const float product = ", at + 1), ++nests)
        EXPECT_EQ(texts.cpu.substr(at, 30).find("product = x"), std::size_t{12}) << texts.cpu;
    EXPECT_EQ(nests, 2U) << texts.cpu;
    EXPECT_NE(texts.cpu.find("const float product_2 = z"), std::string::npos) << texts.cpu;
}

}  // namespace value_names_test
}  // namespace thunderc

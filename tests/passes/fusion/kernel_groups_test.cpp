// SPDX-License-Identifier: Apache-2.0
// How ops are grouped into kernels, and what that takes. What comes of it is in fuse_test.cpp.
#include "compiler/passes/fusion/kernel_groups.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/ir/parse.h"
#include "compiler/kernels/costs.h"
#include "tests/kernels/random_graphs.h"

namespace thunderc {
namespace kernel_groups_test {

// Of the groups that were joined without a description each has one, and costs no more than was reckoned with.
int expect_as_reckoned(const Function& function) {
    KernelFacts facts;
    KernelGroups groups(function, facts);
    groups.merge_all();
    groups.describe_all();
    int joined = 0;
    for (int g = 0; g < static_cast<int>(groups.groups().size()); ++g) {
        const Group& group = groups.groups()[static_cast<std::size_t>(g)];
        if (group.ops.size() < 2 || group.cost) continue;
        ++joined;
        const KernelDescription description = describe_kernel(groups.extract(g).function);
        EXPECT_EQ(description.nests.size(), 1U);
        EXPECT_LE(cost_of(description), group.most);
        std::size_t values = 0;
        for (const KernelNest& nest : description.nests) values += nest.nodes.size();
        EXPECT_LE(values, group.values);
    }
    return joined;
}

TEST(KernelGroups, JoinLoopsOverTheSameElementsWithoutADescription) {
    int joined = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        SCOPED_TRACE(fmt::format("seed {}", seed));
        joined += expect_as_reckoned(testing::RandomGraph(seed).values().main());
    }
    EXPECT_GT(joined, 100);
}

// As one loop it would compute everything twice: where an element is, and where it is transposed.
TEST(KernelGroups, ReckonWithWhatIsReadThroughAView) {
    const Module module = parse_module(R"(module "m" values

func @main(%x: f32[64,64]) -> (%y) {
  %a = tanh(%x) : f32[64,64]
  %b = tanh(%a) : f32[64,64]
  %c = tanh(%b) : f32[64,64]
  %d = tanh(%c) : f32[64,64]
  %t = transpose(%d) {permutation = [1, 0]} : f32[64,64]
  %y = add(%t, %d) : f32[64,64]
}
)");
    KernelFacts facts;
    KernelGroups groups(module.main(), facts);
    groups.merge_all();
    EXPECT_EQ(groups.of(0), groups.of(3));
    EXPECT_NE(groups.of(3), groups.of(5));
    EXPECT_EQ(groups.why_apart(groups.of(3), groups.of(5)),
              "it would cost more in recomputation than it saves in memory traffic");
}

std::string chain(int ops, const char* type) {
    std::string text =
        fmt::format("module \"m\" values\n\nfunc @main(%v0: {0}[6,8], %w: {0}[6,8]) -> (%v{1}) {{\n", type, ops);
    for (int k = 0; k < ops; k += 2)
        text += fmt::format("  %v{1} = mul(%v{0}, %w) : {3}[6,8]\n  %v{2} = tanh(%v{1}) : {3}[6,8]\n", k, k + 1, k + 2,
                            type);
    return text + "}\n";
}

// Each op is described alone; not once more with each that joins it.
// Layers that are written out have the same kernels.
TEST(KernelGroups, DescribeOneLayerOfThoseThatAreAlike) {
    const auto described = [](int layers, bool last_differs) {
        std::string arguments = "%x0: f32[4,8]", ops;
        for (int i = 0; i < layers; ++i) {
            arguments += fmt::format(", %w{}: f32[8]", i);
            ops += fmt::format(
                "  %m{0} = {2}(%x{0}, %w{0}) : f32[4,8]\n  %t{0} = tanh(%m{0}) : f32[4,8]\n"
                "  %s{0} = reduce_sum(%t{0}) {{axes = [1], keep_dims = true}} : f32[4,1]\n"
                "  %x{1} = sub(%t{0}, %s{0}) : f32[4,8]\n",
                i, i + 1, last_differs && i + 1 == layers ? "add" : "mul");
        }
        const Module module = parse_module(
            fmt::format("module \"m\" values\nfunc @main({}) -> (%x{}) {{\n{}}}\n", arguments, layers, ops));
        KernelFacts facts;
        KernelGroups groups(module.main(), facts);  // each op by itself, as it begins
        return facts.size();
    };
    EXPECT_EQ(described(6, false), described(2, false));
    EXPECT_EQ(described(6, true), described(2, false) + 1);
}

TEST(KernelGroups, DescribeNoMoreKernelsThanThereAreOps) {
    for (const char* type : {"f32", "bf16"}) {
        const Module module = parse_module(chain(400, type));
        KernelFacts facts;
        KernelGroups groups(module.main(), facts);
        groups.merge_all();
        EXPECT_LE(facts.size(), 400U + 4U) << type;
        EXPECT_GT(expect_as_reckoned(module.main()), 0) << type;
        // What is known of a kernel is known when the ops are grouped anew.
        const std::size_t known = facts.size();
        KernelGroups again(module.main(), facts);
        again.merge_all();
        EXPECT_EQ(facts.size(), known) << type;
    }
}

}  // namespace kernel_groups_test
}  // namespace thunderc

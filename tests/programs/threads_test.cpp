// SPDX-License-Identifier: Apache-2.0
// The number of threads changes no bit of what a program computes, but where a library multiplies: for this machine's
// CPU and for one without AVX-512, at sizes that no number of threads, no vector and no block divides.
#include <gtest/gtest.h>

#include <cstdio>

#include "checkpoint/safetensors.h"
#include "tests/programs/generated_program.h"

namespace thunderc::tests {
namespace threads_test {
namespace fs = std::filesystem;

// 17 x 67 rows of 16 to 48 numbers: enough work for several threads in kernels, products and attention.
constexpr const char* odd_sizes = "--batch 17 --seq 67";
constexpr std::int64_t batch = 17, seq = 67, vocabulary = 48, steps = 2;

void write_tokens(const fs::path& path) {
    std::vector<thunder::TensorToWrite> tensors;
    for (std::int64_t step = 0; step < steps; ++step)
        for (const char* input : {"input_ids", "labels"})
            tensors.push_back({std::string(input) + "_" + std::to_string(step), thunder::DType::i64, {batch, seq}});
    thunder::SafetensorsWriter writer(path.string(), tensors);
    std::uint64_t state = 1;
    for (std::size_t k = 0; k < tensors.size() * batch * seq; ++k) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        const auto token = static_cast<std::int64_t>(state >> 33) % vocabulary;
        writer.append(&token, sizeof token);
    }
    writer.commit();
}

// Loops of models this small are shared among threads as those of large ones are where two elements are worth it: this
// is the largest grain that there is, but of copies and conversions, which keep 16 bytes and 4 elements.
constexpr const char* all_loops_are_shared = "THUNDER_GRAIN_DIVISOR=16384 ";

// How many loops of a run were shared, where it counts them, and how many were not.
struct Loops {
    int shared = 0, alone = 0;
};

Loops loops_of(const Outcome& outcome) {
    Loops out;
    const std::size_t at = outcome.err.find("loops: ");
    if (at == std::string::npos ||
        std::sscanf(outcome.err.c_str() + at, "loops: %d shared, %d on one", &out.shared, &out.alone) != 2)
        ADD_FAILURE() << "the program counted no loops: " << outcome.err;
    return out;
}

// Gradients of the first step, and parameters after the last.
std::string run(const GeneratedProgram& program, const std::string& flags, const std::string& variables,
                Loops* loops = nullptr) {
    const Outcome outcome = program.train(
        "--steps 2 --lr 0.01 --warmup 0 --seed 3 --init random --dump-gradients bits.gradients --save bits.after " +
            flags,
        variables);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    if (loops != nullptr) *loops = loops_of(outcome);
    return read_file(program.file("bits.gradients")) + read_file(program.file("bits.after"));
}

void expect_one_result(const GeneratedProgram& program, const std::string& flags, const std::string& variables,
                       int least_shared) {
    const std::string one = run(program, flags + " --threads 1", variables);
    ASSERT_FALSE(one.empty());
    for (const char* threads : {"2", "3", "5", "7"}) {
        EXPECT_TRUE(run(program, flags + " --threads " + threads, variables) == one) << threads << " threads";
        Loops loops;
        EXPECT_TRUE(run(program, flags + " --threads " + threads, all_loops_are_shared + variables, &loops) == one)
            << threads << " threads, small loops";
        EXPECT_GE(loops.shared, least_shared) << threads << " threads";
        EXPECT_LE(100 * loops.alone, loops.shared) << threads << " threads";
    }
}

class Threads : public testing::TestWithParam<Cpu> {
  protected:
    void SetUp() override {
        if (tried_on(GetParam()) != GetParam()) GTEST_SKIP() << "native programs are those for " << name_of(GetParam());
        if (!runs(GetParam())) GTEST_SKIP() << "this CPU runs no program for " << name_of(GetParam());
    }
};

// Everything in a naive program is generated or bundled code.
TEST_P(Threads, ChangeNoBitOfReferencePrograms) {
    const GeneratedProgram program("llama2_odd_reference", "llama2", "dyn.logits",
                                   std::string(odd_sizes) + " --executors reference", "train", 1, GetParam());
    ASSERT_TRUE(program.built()) << program.failure();
    write_tokens(program.file("tokens"));
    expect_one_result(program, "--feed tokens", "", 150);
}

// Attention, embedding, cross entropy, norms, the optimizer and fused kernels have fixed trees: with products in plain
// loops, which a variable chooses, nothing is left that follows the number of threads.
TEST_P(Threads, ChangeNoBitOfGeneratedKernels) {
    const GeneratedProgram program("llama2_odd", "llama2", "dyn.logits", odd_sizes, "train", 1, GetParam());
    ASSERT_TRUE(program.built()) << program.failure();
    write_tokens(program.file("tokens"));
    expect_one_result(program, "--feed tokens", "THUNDER_PRODUCTS=reference", 250);
    // the library's products: the same bits on the same number of threads
    for (const char* threads : {" --threads 2", " --threads 3"})
        EXPECT_TRUE(run(program, std::string("--feed tokens") + threads, "") ==
                    run(program, std::string("--feed tokens") + threads, ""))
            << threads;
}

// A program of which every call is a kernel that was made for it: nothing in it is a library's.
TEST_P(Threads, ChangeNoBitWithoutProducts) {
    const GeneratedProgram program("odd", "odd", "tides.loss", "", "train", 1, GetParam());
    ASSERT_TRUE(program.built()) << program.failure();
    expect_one_result(program, "--feed feed.safetensors", "", 30);
}

INSTANTIATE_TEST_SUITE_P(Cpus, Threads, testing::Values(Cpu::native, Cpu::x86_64_v3),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace threads_test
}  // namespace thunderc::tests

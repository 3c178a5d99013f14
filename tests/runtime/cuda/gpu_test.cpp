// SPDX-License-Identifier: Apache-2.0
// What a program says on machines that cannot run it: one message, exit status 1. The driver is a stub, so that these
// machines need not be had.
#include "device/cuda/driver/gpu.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "device/cuda/attention/attention.h"
#include "device/cuda/gemm/plan_file.h"
#include "device/cuda/gemm/product_key.h"

namespace thunder {
namespace {

struct Ended {
    std::string text;
    int status;
    bool operator==(const Ended&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Ended& e) {
    return out << e.text << "(exit " << e.status << ")";
}

// The probe with those variables and arguments: all that it prints, and its exit status.
Ended probe(const std::string& variables, const std::string& arguments) {
    std::FILE* pipe = popen((variables + " " PROBE " " + arguments + " 2>&1").c_str(), "r");
    Ended ended{"", -1};
    std::array<char, 256> part{};
    while (std::fgets(part.data(), part.size(), pipe) != nullptr) ended.text += part.data();
    ended.status = WEXITSTATUS(pclose(pipe));
    return ended;
}

const std::string with_stub = "LD_LIBRARY_PATH=" STUB_FOLDER;

TEST(Gpu, IsDescribedByItsDriver) {
    EXPECT_EQ(probe(with_stub, "90a 1000"), (Ended{"NVIDIA H100 80GB HBM3, sm_90, 132 multiprocessors\n", 0}));
}

TEST(Gpu, ItsDriverIsMissing) {
    if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) GTEST_SKIP() << "this machine has a driver";
    EXPECT_EQ(probe("LD_LIBRARY_PATH=", "90a 1000"),
              (Ended{"error: the driver of an NVIDIA GPU is not there: no libcuda.so.1 is found\n"
                     "help: on a machine without a GPU, build the program for the CPU: cmake -DDEVICE=cpu\n",
                     1}));
}

TEST(Gpu, ItsDriverIsTooOld) {
    EXPECT_EQ(
        probe(with_stub + " STUB_DRIVER=12080", "90a 1000"),
        (Ended{"error: the GPU's driver is too old: it knows CUDA up to 12.8, and the program was built with CUDA "
               "13.0\nhelp: install a newer driver, or build the program with a toolkit of CUDA 12\n",
               1}));
    EXPECT_EQ(probe(with_stub + " STUB_DRIVER=14010", "90a 1000").status, 0);
}

TEST(Gpu, ThereIsNone) {
    EXPECT_EQ(probe(with_stub + " STUB_INIT=100 CUDA_VISIBLE_DEVICES=7", "90a 1000"),
              (Ended{"error: the driver sees no GPU, with CUDA_VISIBLE_DEVICES=7\n"
                     "help: on a machine without a GPU, build the program for the CPU: cmake -DDEVICE=cpu\n",
                     1}));
    EXPECT_EQ(probe(with_stub + " STUB_INIT=999", "90a 1000"),
              (Ended{"error: the GPU's driver fails: cuInit says CUDA_ERROR_UNKNOWN\n"
                     "help: nvidia-smi shows whether the driver and the GPU work\n",
                     1}));
}

TEST(Gpu, HasAnArchitectureThatTheProgramWasNotBuiltFor) {
    EXPECT_EQ(probe(with_stub + " STUB_ARCHITECTURE=80 STUB_NAME='NVIDIA A100-SXM4-80GB'", "'90a,100f' 1000"),
              (Ended{"error: the program was built for sm_90a, sm_100f, and NVIDIA A100-SXM4-80GB is sm_80\n"
                     "help: build it with -DCMAKE_CUDA_ARCHITECTURES=80\n",
                     1}));
}

TEST(Gpu, IsTooSmall) {
    EXPECT_EQ(
        probe(with_stub + " STUB_GIGABYTES=16", "90a 200000000000"),
        (Ended{
            "error: the program wants 200.0 GB, and NVIDIA H100 80GB HBM3 has 16.0 GB: memory 200 GB: parameters "
            "200 GB\nhelp: thunderc train needs less with --recompute block, a smaller --batch (and --grad-accum), a "
            "shorter --seq, --dtype bf16 (and --master none, --grad-dtype bf16, --optim-dtype bf16), or --fsdp N, "
            "which "
            "shares it among ranks; thunderc plan shows what takes how much\n",
            1}));
}

TEST(Gpu, ALibraryIsMissingOrAnotherOne) {
    EXPECT_EQ(
        probe(with_stub, "90a 1000 libcublasLt.so.77"),
        (Ended{"error: cuBLASLt is not there: no libcublasLt.so.77 is found\nhelp: it comes with the CUDA toolkit\n",
               1}));
    EXPECT_EQ(probe(with_stub, "90a 1000 libcuda.so.1"),
              (Ended{"error: cuBLASLt is another version than the program was built with: it has no cublasLtCreate\n"
                     "help: build the program on this machine, or install the version that it was built with\n",
                     1}));
}

TEST(Gpu, RunsCodeOfItsFamilyAndVirtualCodeOfOlderOnes) {
    EXPECT_TRUE(runs_on("90a", 90));
    EXPECT_FALSE(runs_on("90a", 100));  // what has a letter has no virtual code for others
    EXPECT_TRUE(runs_on("80", 86));
    EXPECT_TRUE(runs_on("80", 90));        // by its virtual code
    EXPECT_FALSE(runs_on("80-real", 90));  // without it
    EXPECT_TRUE(runs_on("80-real", 86));
    EXPECT_FALSE(runs_on("86-real", 80));
    EXPECT_TRUE(runs_on("80-virtual", 80));
    EXPECT_FALSE(runs_on("90", 80));
    EXPECT_TRUE(runs_on("100f", 103));
    EXPECT_FALSE(runs_on("100f", 120));
    EXPECT_TRUE(runs_on("80;90a", 90));
    EXPECT_FALSE(runs_on("", 90));
}

TEST(Roof, IsKnownOfDataSheetsAndNotGuessed) {
    EXPECT_EQ(roof_of("NVIDIA H100 80GB HBM3").narrow_flops, 989.4e12);
    EXPECT_EQ(roof_of("NVIDIA H100 PCIe").narrow_flops, 756e12);
    EXPECT_EQ(roof_of("NVIDIA H200").bytes_per_second, 4.8e12);
    EXPECT_EQ(roof_of("NVIDIA GH200 480GB").bytes_per_second, 4.0e12);
    EXPECT_EQ(roof_of("Some GPU").bytes_per_second, 0);
}

TEST(PlanFile, KeepsWhatWasFoundOnEachGpu) {
    const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "thunder-plans";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    {
        PlanFile plans(folder.string(), "NVIDIA H100 80GB HBM3", "cuBLASLt 130100");
        EXPECT_FALSE(plans.find("1 2 3").has_value());
        plans.add("1 2 3", {0xffffffffffffffffULL, 0, 0x10});
        plans.add("4", {7});
    }
    PlanFile(folder.string(), "NVIDIA H200", "cuBLASLt 130100").add("4", {9});
    const PlanFile again(folder.string(), "NVIDIA H100 80GB HBM3", "cuBLASLt 130100");
    EXPECT_EQ(again.find("1 2 3"), (std::vector<std::uint64_t>{0xffffffffffffffffULL, 0, 0x10}));
    EXPECT_EQ(again.find("4"), std::vector<std::uint64_t>{7});
    EXPECT_EQ(PlanFile(folder.string(), "NVIDIA H200", "cuBLASLt 130100").find("4"), std::vector<std::uint64_t>{9});
    EXPECT_FALSE(PlanFile(folder.string(), "NVIDIA H200", "cuBLASLt 130200").find("4").has_value());
    // what is no such file counts for nothing
    std::ofstream(folder / "cublaslt.nvidia-h100-80gb-hbm3.plans")
        << "plans of products, found by --autotune on NVIDIA H100 80GB HBM3, cuBLASLt 130100\n4: xyz\n\n:";
    EXPECT_FALSE(PlanFile(folder.string(), "NVIDIA H100 80GB HBM3", "cuBLASLt 130100").find("4").has_value());
    std::filesystem::remove_all(folder);
}

// The numbers are those of cublasLtReductionScheme_t: what is bf16 must not be added up in place (1) nor in the
// result's type (4).
TEST(ProductKey, PartialSumsOfABf16ResultAreF32) {
    EXPECT_EQ(reduction_schemes(DType::bf16), 2U);
    EXPECT_EQ(reduction_schemes(DType::f32), 7U);
}

TEST(ProductKey, TellsApartWhatMayBeAddedUpInOtherWays) {
    alignas(256) static std::byte memory[256];
    const auto* operand = reinterpret_cast<const bf16*>(memory);
    const Product rounded{.c = reinterpret_cast<bf16*>(memory), .a = operand, .b = operand, .m = 64, .n = 32, .k = 8};
    Product exact = rounded;
    exact.c = reinterpret_cast<float*>(memory);
    const ProductKey key = key_of(rounded, false);
    EXPECT_EQ(key.schemes, 2U);
    EXPECT_EQ(key_of(exact, false).schemes, 7U);
    EXPECT_EQ(key, key_of(rounded, false));
    // the line of a file that was written when all ways were allowed has another beginning
    ProductKey any = key;
    any.schemes = 7;
    EXPECT_FALSE(any == key);
    EXPECT_NE(any.text(), key.text());
    // and so has that of a product which leaves multiprocessors to others
    const ProductKey beside = key_of(rounded, false, 16);
    EXPECT_FALSE(beside == key);
    EXPECT_NE(beside.text(), key.text());
}

TEST(CudnnAttention, TakesABackwardWhereAllOfItsTensorsFit) {
    alignas(16) static bf16 memory[16];
    AttentionBackward fits{.B = 1, .T = 4, .S = 4, .NH = 2, .KVH = 2, .HS = 8};
    fits.q = fits.k = fits.v = fits.out = fits.dout = static_cast<const bf16*>(memory);
    fits.dq = fits.dk = fits.dv = memory;
    ASSERT_TRUE(cudnn_takes(fits));
    for (Input AttentionBackward::*tensor : {&AttentionBackward::q, &AttentionBackward::k, &AttentionBackward::v,
                                             &AttentionBackward::out, &AttentionBackward::dout}) {
        AttentionBackward call = fits;
        (call.*tensor).data = memory + 1;  // at 2 bytes
        EXPECT_FALSE(cudnn_takes(call));
        (call.*tensor).data = memory;
        (call.*tensor).dtype = DType::f32;
        EXPECT_FALSE(cudnn_takes(call));
    }
    for (Output AttentionBackward::*tensor : {&AttentionBackward::dq, &AttentionBackward::dk, &AttentionBackward::dv}) {
        AttentionBackward call = fits;
        (call.*tensor).data = memory + 1;
        EXPECT_FALSE(cudnn_takes(call));
        (call.*tensor).data = memory;
        (call.*tensor).dtype = DType::f32;
        EXPECT_FALSE(cudnn_takes(call));
    }
    for (std::int64_t AttentionBackward::*ld :
         {&AttentionBackward::ld_q, &AttentionBackward::ld_k, &AttentionBackward::ld_v, &AttentionBackward::ld_out,
          &AttentionBackward::ld_dout, &AttentionBackward::ld_dq, &AttentionBackward::ld_dk,
          &AttentionBackward::ld_dv}) {
        AttentionBackward call = fits;
        call.*ld = 20;
        EXPECT_FALSE(cudnn_takes(call));
        call.*ld = 24;
        EXPECT_TRUE(cudnn_takes(call));
    }
}

TEST(CudnnRefusal, SaysWhatCudnnSays) {
    EXPECT_EQ(cudnn_refusal("attention_backward", "dq bf16 (1, 64, 4, 32)", "no engine configs"),
              "note: cuDNN has no plan for attention_backward dq bf16 (1, 64, 4, 32): no engine configs; blocks of our "
              "own compute it, which is slower");
}

}  // namespace
}  // namespace thunder

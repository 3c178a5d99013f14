// SPDX-License-Identifier: Apache-2.0
// thunderc check: what it prints of kernels, what makes it fail, and the arithmetic behind its table. Where this
// machine has no NVRTC, what needs it is skipped.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "cli/nvrtc.h"
#include "cli/occupancy.h"
#include "codegen/program/program.h"
#include "compiler/support/error.h"
#include "tests/commands/commands_test.h"
#include "tests/support/full_form.h"

#ifdef HAVE_CUDA_OCCUPANCY
#include <cuda_occupancy.h>
#endif

namespace thunderc {
namespace check_test {

using namespace commands;

bool have_nvrtc() {
    try {
        Nvrtc nvrtc("");
        return true;
    } catch (const UserError&) {
        return false;
    }
}

class Check : public Commands {
  protected:
    // A program's folder with kernels that a test writes.
    void program(const std::string& kernels) {
        fs::create_directories("out");
        write("out/kernels_cuda.cuh", "#include \"device/cuda/device.h\"\n\nusing namespace thunder;\n\n" + kernels);
    }
    void SetUp() override {
        Commands::SetUp();
        if (!have_nvrtc()) GTEST_SKIP() << "this machine has no NVRTC";
    }
};

constexpr const char* healthy = R"(
THUNDER_KERNEL(256) double_kernel(Global<float> y, Global<const float> x) {
    wait_for_previous_kernel();
    const int i = block_index() * 256 + thread_index();
    y[i] = x[i] * 2.0F;
}
THUNDER_KERNEL(64) sum_kernel(Global<float> y, Global<const float> x) {
    wait_for_previous_kernel();
    THUNDER_SHARED(float, shared, 2);
    const float sum = block_sum<64>(x[64 * block_index() + thread_index()], shared);
    if (thread_index() == 0) y[block_index()] = sum;
}
)";

// Each of 1024 threads may have 64 registers, and keeps 128 numbers through all rounds.
constexpr const char* spilling = R"(
THUNDER_KERNEL(1024) spilling_kernel(Global<float> y, Global<const float> x, int rounds) {
    wait_for_previous_kernel();
    float kept[128];
    THUNDER_UNROLL
    for (int k = 0; k < 128; ++k) kept[k] = x[k * 1024 + thread_index()];
    for (int round = 0; round < rounds; ++round) {
        THUNDER_UNROLL
        for (int k = 0; k < 128; ++k) kept[k] = kept[(k + 1) % 128] * kept[k];
    }
    THUNDER_UNROLL
    for (int k = 0; k < 128; ++k) y[k * 1024 + thread_index()] = kept[k];
}
)";

std::vector<std::string> words_of_line(const std::string& text, const std::string& begin) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(begin)) continue;
        std::istringstream words(line);
        return {std::istream_iterator<std::string>(words), {}};
    }
    return {};
}

TEST_F(Check, ShowsWhatEachKernelTakes) {
    program(healthy);
    const Ran ran = run("check out");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    EXPECT_TRUE(ran.out.starts_with("sm_90a, by NVRTC ")) << ran.out;
    EXPECT_NE(ran.out.find("\nkernel         threads  registers  spilled  stack  shared  occupancy  limited by\n"),
              std::string::npos)
        << ran.out;
    // a kernel of two floats fills a GPU; one with blocks of 64 threads is kept from it by 32 blocks of 2048 / 64
    const std::vector<std::string> first = words_of_line(ran.out, "double_kernel ");
    ASSERT_EQ(first.size(), 8U) << ran.out;
    EXPECT_EQ(first[1], "256");
    EXPECT_GT(std::stoi(first[2]), 4);
    EXPECT_LE(std::stoi(first[2]), 32);
    EXPECT_EQ((std::vector<std::string>{first.begin() + 3, first.end()}),
              (std::vector<std::string>{"0", "0", "0", "100%", "threads"}));
    const std::vector<std::string> second = words_of_line(ran.out, "sum_kernel ");
    ASSERT_EQ(second.size(), 8U) << ran.out;
    EXPECT_EQ(second[1], "64");
    EXPECT_EQ(second[5], "8");  // two floats
    EXPECT_LT(ran.out.find("double_kernel"), ran.out.find("sum_kernel"));
}

// A kernel begins while the one in front of it still runs, from sm_90 on.
TEST_F(Check, FailsWhereAKernelUsesMemoryBeforeItWaits) {
    const std::string begin = "THUNDER_KERNEL(256) early_kernel(", end = "y[thread_index()] = x[thread_index()];\n}\n";
    const std::string plain = "Global<float> y, Global<const float> x) {\n",
                      waits = "    wait_for_previous_kernel();\n";
    const std::string texts[] = {
        begin + plain + "    " + end,
        begin + plain + "    y[1] = 1.0F;\n" + waits + "    " + end,
        begin + "float* y, const float* __restrict__ x) {\n" + waits + "    " + end,
    };
    for (const std::string& text : texts) {
        program(healthy + text);
        const Ran ran = run("check out --arch sm_80,sm_90a");
        EXPECT_EQ(ran.status, 1) << text;
        EXPECT_TRUE(
            ran.err.starts_with("error: device memory is used before the kernel in front has ended, or taken for "
                                "constant: early_kernel on sm_90a\nhelp: "))
            << text << ran.err;
        EXPECT_EQ(run("check out --arch sm_80").status, 0) << text;
    }
}

TEST_F(Check, FailsWhereRegistersAreSpilled) {
    program(std::string(healthy) + spilling);
    const Ran ran = run("check out");
    EXPECT_EQ(ran.status, 1);
    EXPECT_TRUE(ran.err.starts_with("error: registers are spilled to memory: spilling_kernel on sm_90a\nhelp: "))
        << ran.err;
    const std::vector<std::string> row = words_of_line(ran.out, "spilling_kernel ");
    ASSERT_EQ(row.size(), 8U) << ran.out;
    EXPECT_GT(std::stoi(row[3]), 0);
    EXPECT_EQ(words_of_line(ran.out, "double_kernel ").at(3), "0");
}

TEST_F(Check, CompilesForEveryArchitectureThatIsAskedFor) {
    program(healthy);
    const Ran ran = run("check out --arch sm_80,sm_90a,sm_100");
    EXPECT_EQ(ran.status, 0) << ran.err;
    for (const char* head : {"sm_80, by NVRTC ", "\nsm_90a, by NVRTC ", "\nsm_100, by NVRTC "})
        EXPECT_NE(ran.out.find(head), std::string::npos) << head << ran.out;
}

TEST_F(Check, UsesTheRuntimeBesideTheProgram) {
    program(healthy);
    fs::create_directories("out/runtime/device/cuda");
    write("out/runtime/device/cuda/device.h", "#error the program's own\n");
    const Ran ran = run("check out");
    EXPECT_EQ(ran.status, 1);
    EXPECT_TRUE(ran.err.ends_with("error: out/kernels_cuda.cuh does not compile for sm_90a\n"
                                  "help: the compiler's messages stand above\n") &&
                ran.err.find("the program's own") != std::string::npos)
        << ran.err;
}

TEST_F(Check, ShowsTheCompilersErrors) {
    program("THUNDER_KERNEL(32) wrong_kernel(Global<float> y) { z[0] = 1.0F; }\n");
    const Ran ran = run("check out");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(ran.err.ends_with("error: out/kernels_cuda.cuh does not compile for sm_90a\n"
                                  "help: the compiler's messages stand above\n") &&
                ran.err.find("identifier \"z\" is undefined") != std::string::npos)
        << ran.err;
}

TEST_F(Check, FilesWithoutKernels) {
    program("");
    const Ran ran = run("check out");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err, "error: out/kernels_cuda.cuh has no kernel\nhelp: a kernel begins with THUNDER_KERNEL\n");
}

// What thunderc prints: as it stands in tests/goldens.
TEST_F(Check, GoldensDoNotSpill) {
    int programs = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(GOLDENS)) {
        if (!fs::exists(entry.path() / "kernels_cuda.cuh")) continue;
        const bool every = entry.path().filename() == "llama2";
        fs::path program = entry.path();
        if (std::ifstream but_for(program / "but_for"); but_for) {  // what is the same in another golden lies there
            std::string other;
            but_for >> other;
            program = fs::current_path() / entry.path().filename();
            fs::copy(fs::path(GOLDENS) / other, program);
            fs::copy(entry.path(), program, fs::copy_options::overwrite_existing);
        }
        const Ran ran = run("check " + program.string() + " --arch " + (every ? "sm_80,sm_90a,sm_100" : "sm_90a"));
        EXPECT_EQ(ran.status, 0) << entry.path() << "\n" << ran.out << ran.err;
        EXPECT_EQ(ran.err, "") << entry.path();
        ++programs;
    }
    EXPECT_GE(programs, 4);
}

// The runtime's own, of every file that a program may have: attention, an optimizer, indexed access. For what programs
// are compiled for where nothing is said; with -DTHUNDERC_FULL=ON for others too, and of every optimizer.
TEST_F(Check, TheRuntimesKernelsDoNotSpill) {
    program(healthy);
    std::set<std::string> calls = {"adamw"};
    for (const CallFamily& family : call_families()) calls.emplace(family.calls);
    if (full_form)
        fs::create_directory_symlink(RUNTIME, "out/runtime");
    else
        for (const OutputFile& file : runtime_files(true, true, calls)) {
            const fs::path path = "out" / fs::path(file.path);
            fs::create_directories(path.parent_path());
            write(path.string(), file.text);
        }
    const Ran ran = run(full_form ? "check out --arch sm_80,sm_90a,sm_100" : "check out --arch sm_90a");
    EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
    EXPECT_EQ(ran.err, "");
    for (const char* kernel : {"bundled_attention_forward_f32_64 ", "bundled_attention_dkv_bf16_256 ",
                               "bundled_cross_entropy_backward_bf16_8 ", "bundled_epilogue_f32 ",
                               "bundled_embedding_parts_f32 ", "bundled_adamw_bf16_bf16_bf16 "})
        EXPECT_GE(words_of_line(ran.out, kernel).size(), 8U) << kernel;
    EXPECT_LT(ran.out.find("double_kernel"), ran.out.find("bundled_"));
}

TEST_F(Check, NamesTheFileOfTheRuntimeThatDoesNotCompile) {
    program(healthy);
    fs::create_directories("out/runtime/device/cuda");
    fs::create_directories("out/runtime/support");
    for (const std::string header : {"device/scalars.h", "device/fp8.h", "support/mix_bits.h", "device/cuda/device.h",
                                     "device/cuda/device_math.h"})
        fs::copy_file(RUNTIME "/" + header, "out/runtime/" + header);
    write("out/runtime/device/cuda/wrong.cuh", "#include \"device/cuda/nowhere.h\"\n");
    const Ran ran = run("check out");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(ran.err.ends_with("error: out/runtime/device/cuda/wrong.cuh does not compile for sm_90a\n"
                                  "help: the compiler's messages stand above\n") &&
                ran.err.find("device/cuda/nowhere.h") != std::string::npos)
        << ran.err;
}

// ---- without NVRTC ----

TEST_F(Commands, CheckWantsAProgram) {
    fs::create_directories("empty");
    const Ran ran = run("check empty");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(
        ran.err,
        "error: the folder empty has no kernels_cuda.cuh\nhelp: thunderc train MODEL -o DIR, or emit, writes it\n");
}

TEST_F(Commands, CheckWantsAFolder) {
    write("text", "");
    for (const std::string name : {"nowhere", "text"}) {
        const Ran ran = run("check " + name);
        EXPECT_EQ(ran.status, 1);
        EXPECT_EQ(ran.err,
                  "error: there is no folder " + name + "\nhelp: check takes what train or emit was given with -o\n");
    }
}

TEST_F(Commands, CheckSaysThatAProgramIsForCpus) {
    fs::create_directories("out");
    write("out/kernels_cpu.cpp", "");
    const Ran ran = run("check out");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err,
              "error: the folder out has no kernels_cuda.cuh\nhelp: the program was written for CPUs alone; --device "
              "cpu,cuda writes kernels for both\n");
}

TEST_F(Commands, CheckKnowsArchitectures) {
    const Ran ran = run("check out --arch sm_90a,sm_75");
    EXPECT_EQ(ran.status, 2);
    EXPECT_EQ(ran.err,
              "error: --arch does not know sm_75\nhelp: it takes some of sm_80, sm_86, sm_87, sm_89, sm_90[a], "
              "sm_100[a], sm_103[a], sm_110[a], sm_120[a], sm_121[a], separated by commas\n");
}

TEST_F(Commands, CheckSaysWhichLibraryIsNotNvrtc) {
    fs::create_directories("out");
    write("out/kernels_cuda.cuh", "");
    fs::create_directories("empty");
    write("text.so", "no library");
    Ran ran = run("check out --nvrtc nowhere/libnvrtc.so");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err,
              "error: there is no nowhere/libnvrtc.so\nhelp: --nvrtc takes the library or the folder that holds it\n");
    ran = run("check out --nvrtc empty");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err,
              "error: the folder empty has no libnvrtc.so\nhelp: --nvrtc takes the library or the folder that holds "
              "it\n");
    ran = run("check out --nvrtc text.so");
    EXPECT_EQ(ran.status, 1);
    EXPECT_TRUE(ran.err.starts_with("error: cannot load text.so: ")) << ran.err;
    EXPECT_TRUE(ran.err.ends_with("\nhelp: --nvrtc takes the library or the folder that holds it\n")) << ran.err;
    ran = run("check out --nvrtc " OTHER_LIBRARY);
    EXPECT_EQ(ran.status, 1);
    EXPECT_TRUE(ran.err.find(" is not NVRTC: it lacks nvrtcVersion\nhelp: --nvrtc takes the library or the folder that "
                             "holds it\n") != std::string::npos)
        << ran.err;
}

// What two versions of the assembler write.
TEST(ReadUsage, OfTheAssemblersText) {
    const std::string ptx =
        ".visible .entry second(\n.param .u64 x\n)\n.maxntid 64, 1, 1\n{\n}\n"
        ".visible .entry first(\n)\n.maxntid 256, 1, 1\n.minnctapersm 4\n{\ngriddepcontrol.wait;\n"
        "ld.global.f32 %f1, [%rd1];\n}\n";
    const std::string log = R"(kernels.cuh(7): warning #177-D: variable "x" was declared but never referenced

ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 26 registers, used 1 barriers, 16 bytes stack frame
ptxas info    : Compile time = 18.970 ms
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 14 registers, 1040 bytes smem, 368 bytes cmem[0]
)";
    std::string rest;
    const std::vector<KernelUsage> kernels = read_usage(log, ptx, rest);
    ASSERT_EQ(kernels.size(), 2U);
    EXPECT_EQ(kernels[0].name, "second");
    EXPECT_EQ(kernels[0].threads, 64);
    EXPECT_EQ(kernels[0].registers, 14);
    EXPECT_EQ(kernels[0].shared, 1040);
    EXPECT_EQ(kernels[0].spill_stores + kernels[0].spill_loads, 0);
    EXPECT_FALSE(kernels[0].waits_first);
    EXPECT_TRUE(kernels[1].waits_first);
    EXPECT_EQ(kernels[1].name, "first");
    EXPECT_EQ(kernels[1].threads, 256);
    EXPECT_EQ(kernels[0].blocks, 1);
    EXPECT_EQ(kernels[1].blocks, 4);
    EXPECT_EQ(kernels[1].registers, 26);
    EXPECT_EQ(kernels[1].stack, 16);
    EXPECT_EQ(kernels[1].spill_stores, 8);
    EXPECT_EQ(kernels[1].spill_loads, 12);
    EXPECT_EQ(rest, "kernels.cuh(7): warning #177-D: variable \"x\" was declared but never referenced\n");
    EXPECT_THROW(read_usage("", ptx, rest), UserError);
}

// By hand: on sm_90, 2048 threads, 32 blocks, 65536 registers and 228 KiB.
TEST(Occupancy, LimitedByEachResource) {
    const GpuArchitecture gpu = *gpu_architecture("sm_90a");
    auto of = [&](int threads, int registers, int shared) {
        KernelUsage kernel;
        kernel.threads = threads;
        kernel.registers = registers;
        kernel.shared = shared;
        return occupancy(gpu, kernel);
    };
    EXPECT_EQ(of(256, 32, 0).blocks, 8);
    EXPECT_EQ(of(256, 32, 0).share, 1.0);
    EXPECT_EQ(of(256, 32, 0).limit, "threads");
    EXPECT_EQ(of(32, 32, 0).blocks, 32);  // half of the threads
    EXPECT_EQ(of(32, 32, 0).share, 0.5);
    EXPECT_EQ(of(32, 32, 0).limit, "blocks");
    EXPECT_EQ(of(256, 64, 0).blocks, 4);  // 4 * 256 * 64 registers
    EXPECT_EQ(of(256, 64, 0).limit, "registers");
    EXPECT_EQ(of(256, 65, 0).blocks, 3);          // 72 of them are taken: 28 warps have room
    EXPECT_EQ(of(256, 32, 36 * 1024).blocks, 6);  // and 1 KiB each
    EXPECT_EQ(of(256, 32, 36 * 1024).limit, "shared memory");
}

// Spills of a kernel that could have more registers are the assembler's choice.
TEST(Occupancy, TellsWantOfRegistersFromChoice) {
    const auto lacks = [](int threads, int registers, int spill_stores, int spill_loads, int blocks = 1) {
        KernelUsage kernel;
        kernel.blocks = blocks;
        kernel.threads = threads;
        kernel.registers = registers;
        kernel.spill_stores = spill_stores;
        kernel.spill_loads = spill_loads;
        return lacks_registers(kernel);
    };
    EXPECT_EQ(most_registers(32), 255);
    EXPECT_EQ(most_registers(256), 255);
    EXPECT_EQ(most_registers(512), 128);
    EXPECT_EQ(most_registers(1024), 64);
    EXPECT_TRUE(lacks(1024, 64, 8, 12));
    EXPECT_TRUE(lacks(256, 255, 0, 4));
    EXPECT_FALSE(lacks(256, 255, 0, 0));
    EXPECT_FALSE(lacks(256, 32, 4, 4));
    EXPECT_TRUE(lacks(1024, 33, 4, 4));
    EXPECT_TRUE(lacks(256, 64, 8, 12, 4));  // of which there are to be four at once
    EXPECT_FALSE(lacks(256, 64, 8, 12));
}

#ifdef HAVE_CUDA_OCCUPANCY
// NVIDIA's own arithmetic, at every size that a kernel may have.
TEST(Occupancy, AsTheToolkitComputesIt) {
    for (const char* target :
         {"sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"}) {
        const GpuArchitecture gpu = *gpu_architecture(target);
        cudaOccDeviceProp properties;
        properties.computeMajor = gpu.capability / 10;
        properties.computeMinor = gpu.capability % 10;
        // the shared memory of the table is the most that the header knows of
        std::size_t most = static_cast<std::size_t>(gpu.shared_kib) * 1024, more = most + 1;
        EXPECT_EQ(cudaOccAlignUpShmemSizeVoltaPlus(&most, &properties), CUDA_OCC_SUCCESS) << target;
        EXPECT_EQ(most, static_cast<std::size_t>(gpu.shared_kib) * 1024) << target;
        EXPECT_NE(cudaOccAlignUpShmemSizeVoltaPlus(&more, &properties), CUDA_OCC_SUCCESS) << target;
        properties.maxThreadsPerBlock = 1024;
        properties.maxThreadsPerMultiprocessor = gpu.threads;
        properties.regsPerBlock = properties.regsPerMultiprocessor = 65536;
        properties.warpSize = 32;
        properties.sharedMemPerBlock = 48 * 1024;
        properties.sharedMemPerMultiprocessor = static_cast<std::size_t>(gpu.shared_kib) * 1024;
        properties.sharedMemPerBlockOptin = properties.sharedMemPerMultiprocessor - 1024;
        properties.reservedSharedMemPerBlock = 1024;
        properties.numSms = 100;
        const cudaOccDeviceState state;
        for (int threads = 32; threads <= 1024; threads += 32)
            for (int registers = 16; registers <= 255; registers += 13)
                for (int shared : {0, 128, 4100, 20000, 48 * 1024}) {
                    if ((registers * 32 + 255) / 256 * 256 * ((threads / 32 + 3) / 4 * 4) > 65536) continue;
                    cudaOccFuncAttributes attributes;
                    attributes.maxThreadsPerBlock = 1024;
                    attributes.numRegs = registers;
                    attributes.sharedSizeBytes = static_cast<std::size_t>(shared);
                    cudaOccResult expected;
                    ASSERT_EQ(cudaOccMaxActiveBlocksPerMultiprocessor(&expected, &properties, &attributes, &state,
                                                                      threads, 0),
                              CUDA_OCC_SUCCESS);
                    KernelUsage kernel;
                    kernel.threads = threads;
                    kernel.registers = registers;
                    kernel.shared = shared;
                    ASSERT_EQ(occupancy(gpu, kernel).blocks, expected.activeBlocksPerMultiprocessor)
                        << target << ", " << threads << " threads, " << registers << " registers, " << shared
                        << " bytes";
                }
    }
}
#endif

}  // namespace check_test
}  // namespace thunderc

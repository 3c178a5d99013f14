// SPDX-License-Identifier: Apache-2.0
// thunderc check: compiles a program's kernels for GPUs, without one, and shows what they take.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "cli/command.h"
#include "cli/nvrtc.h"
#include "cli/occupancy.h"
#include "codegen/bundle/bundle.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {
namespace fs = std::filesystem;

struct CheckOptions {
    fs::path folder, nvrtc;
    std::string arch = "sm_90a";  // a,b,c
};

std::vector<std::string> targets(const std::string& list) {
    std::vector<std::string> out;
    std::istringstream words(list);
    for (std::string word; std::getline(words, word, ',');) {
        if (!gpu_architecture(word)) {
            Diagnostic d;
            d.message = fmt::format("--arch does not know {}", word.empty() ? "an empty name" : word);
            d.help = fmt::format("it takes some of {}, separated by commas", known_targets());
            throw UsageError(d);
        }
        out.push_back(word);
    }
    return out;
}

std::string read_text(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    if (!in)
        fail(fmt::format("{} cannot be read", file.string()), "check says what it compiles; it has to be allowed to");
    return text.str();
}

// The program's kernels, then those of its runtime. A program without a runtime of its own, as tests/goldens has them,
// is compiled with the one that this compiler writes beside programs.
std::vector<Nvrtc::Source> read_sources(const fs::path& folder) {
    if (!fs::is_directory(folder))
        fail(fmt::format("there is no folder {}", folder.string()), "check takes what train or emit was given with -o");
    const fs::path own = folder / "kernels_cuda.cuh", runtime = folder / "runtime";
    if (!fs::exists(own)) {
        const bool program = fs::exists(folder / "kernels_cpu.cpp");
        fail(fmt::format("the folder {} has no kernels_cuda.cuh", folder.string()),
             program ? "the program was written for CPUs alone; --device cpu,cuda writes kernels for both"
                     : "thunderc train MODEL -o DIR, or emit, writes it");
    }
    Nvrtc::Source shared;
    shared.headers.emplace_back("cstdint", "");  // which NVRTC lacks; device.h has its names
    if (fs::exists(folder / "sizes.h")) shared.headers.emplace_back("sizes.h", read_text(folder / "sizes.h"));
    std::vector<fs::path> files = {own};
    if (fs::exists(runtime / "device/cuda/device.h")) {
        shared.folders.push_back(runtime);
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(runtime))
            if (entry.path().extension() == ".cuh") files.push_back(entry.path());
        std::sort(files.begin() + 1, files.end());
    } else {
        const std::string root = "runtime-lib/";
        for (unsigned k = 0; k < bundled_file_count; ++k)
            if (const std::string path = bundled_files[k].path;
                path.ends_with(".h") && (path.starts_with(root + "device/") || path.starts_with(root + "support/")))
                shared.headers.emplace_back(path.substr(root.size()), bundled_files[k].text);
    }
    std::vector<Nvrtc::Source> sources;
    for (const fs::path& file : files) {
        sources.push_back(shared);
        sources.back().file = file;
        sources.back().text = read_text(file);
    }
    return sources;
}

void print_table(const std::vector<KernelUsage>& kernels, const GpuArchitecture& gpu) {
    std::size_t width = 6;
    for (const KernelUsage& kernel : kernels) width = std::max(width, kernel.name.size());
    fmt::print("{:<{}}  threads  registers  spilled  stack  shared  occupancy  limited by\n", "kernel", width);
    for (const KernelUsage& kernel : kernels) {
        const Occupancy o = occupancy(gpu, kernel);
        fmt::print("{:<{}}  {:>7}  {:>9}  {:>7}  {:>5}  {:>6}  {:>8.0f}%  {}\n", kernel.name, width, kernel.threads,
                   kernel.registers, kernel.spill_stores + kernel.spill_loads, kernel.stack, kernel.shared,
                   100 * o.share, o.limit);
    }
}

int check_command(const CheckOptions& o) {
    const std::vector<std::string> all = targets(o.arch);
    const std::vector<Nvrtc::Source> sources = read_sources(o.folder);
    const Nvrtc nvrtc(o.nvrtc);
    std::vector<std::string> spilling, early;
    for (std::size_t k = 0; k < all.size(); ++k) {
        std::vector<KernelUsage> kernels;
        for (const Nvrtc::Source& source : sources) {
            const Nvrtc::Compiled compiled = nvrtc.compile(source, all[k]);
            fmt::print(stderr, "{}", compiled.warnings);
            if (compiled.kernels.empty())
                fail(fmt::format("{} has no kernel", source.file.string()), "a kernel begins with THUNDER_KERNEL");
            kernels.insert(kernels.end(), compiled.kernels.begin(), compiled.kernels.end());
        }
        const GpuArchitecture gpu = *gpu_architecture(all[k]);
        fmt::print("{}{}, by NVRTC {}; stack and spilled: bytes of a thread, shared: bytes of a block\n",
                   k == 0 ? "" : "\n", all[k], nvrtc.version());
        print_table(kernels, gpu);
        for (const KernelUsage& kernel : kernels) {
            if (kernel.threads == 0)
                fail(fmt::format("the kernel {} does not say how many threads a block has", kernel.name),
                     "a kernel begins with THUNDER_KERNEL");
            if (gpu.capability >= 90 && !kernel.waits_first)
                early.push_back(fmt::format("{} on {}", kernel.name, all[k]));
            if (lacks_registers(kernel)) spilling.push_back(fmt::format("{} on {}", kernel.name, all[k]));
        }
    }
    std::fflush(stdout);
    if (!early.empty())
        fail(fmt::format("device memory is used before the kernel in front has ended, or taken for constant: {}",
                         fmt::join(early, ", ")),
             "wait_for_previous_kernel() stands first in a kernel, which begins while the one in front of it still "
             "runs; __ldg and const pointers that are __restrict__ read what that one may not have written yet");
    if (!spilling.empty())
        fail(
            fmt::format("registers are spilled to memory: {}", fmt::join(spilling, ", ")),
            "a thread has at most 255 registers, and 65536 divided by the threads of its block: fewer of them, or less "
            "work for each, leaves enough");
    return 0;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
    auto o = std::make_shared<CheckOptions>();
    CLI::App* sub = app.add_subcommand("check", "compile a program's kernels for GPUs and show what they take");
    sub->footer(
        "It compiles DIR/kernels_cuda.cuh, and the kernels of DIR/runtime, with NVRTC, which needs no GPU: for each\n"
        "kernel the registers, what is spilled of them, shared memory, and the share of a GPU's threads that can be\n"
        "resident. Exit status 1 where a kernel does not compile, spills and takes more than half of the registers\n"
        "that it may have, or uses memory before it waits for the kernel in front of it (wait_for_previous_kernel()).");
    sub->add_option("dir", o->folder, "the folder of a program")->required()->type_name("DIR");
    sub->add_option("--arch", o->arch, "what it compiles for: sm_80,sm_90a,...")
        ->check(not_empty())
        ->capture_default_str()
        ->type_name("LIST");
    sub->add_option("--nvrtc", o->nvrtc, "NVRTC's library or the folder that holds it, instead of searching for it")
        ->type_name("PATH");
    sub->callback([o, &action] { action = [o] { return check_command(*o); }; });
}

}  // namespace thunderc

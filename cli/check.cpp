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

[[noreturn]] void fail(const std::string& message, const std::string& help) {
    Diagnostic d;
    d.message = message;
    d.help = help;
    throw UserError(d);
}

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

// The program's own runtime where it has one, else the one that this compiler writes beside programs.
Nvrtc::Source read_source(const fs::path& folder) {
    Nvrtc::Source source;
    source.file = folder / "kernels_cuda.cuh";
    std::ifstream in(source.file, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    if (!in)
        fail(fmt::format("the folder {} has no kernels_cuda.cuh", folder.string()),
             "thunderc train MODEL -o DIR, or emit, writes it");
    source.text = text.str();
    if (fs::exists(folder / "runtime/device/cuda/device.h")) {
        source.folders.push_back(folder / "runtime");
    } else {
        const std::string root = "runtime-lib/";
        for (unsigned k = 0; k < bundled_file_count; ++k)
            if (const std::string path = bundled_files[k].path;
                path.starts_with(root + "device/cuda/") && path.ends_with(".h"))
                source.headers.emplace_back(path.substr(root.size()), bundled_files[k].text);
    }
    return source;
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
    const Nvrtc::Source source = read_source(o.folder);
    const Nvrtc nvrtc(o.nvrtc);
    std::vector<std::string> spilling;
    for (std::size_t k = 0; k < all.size(); ++k) {
        const Nvrtc::Compiled compiled = nvrtc.compile(source, all[k]);
        fmt::print(stderr, "{}", compiled.warnings);
        if (compiled.kernels.empty())
            fail(fmt::format("{} has no kernel", source.file.string()), "a kernel begins with THUNDER_KERNEL");
        const GpuArchitecture gpu = *gpu_architecture(all[k]);
        fmt::print("{}{}, by NVRTC {}; stack and spilled: bytes of a thread, shared: bytes of a block\n",
                   k == 0 ? "" : "\n", all[k], nvrtc.version());
        print_table(compiled.kernels, gpu);
        for (const KernelUsage& kernel : compiled.kernels) {
            if (kernel.threads == 0)
                fail(fmt::format("the kernel {} does not say how many threads a block has", kernel.name),
                     "a kernel begins with THUNDER_KERNEL");
            if (kernel.spill_stores + kernel.spill_loads > 0)
                spilling.push_back(fmt::format("{} on {}", kernel.name, all[k]));
        }
    }
    std::fflush(stdout);
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
        "It compiles DIR/kernels_cuda.cuh with NVRTC, which needs no GPU: for each kernel the registers, what is\n"
        "spilled of them, shared memory, and the share of a GPU's threads that can be resident. Exit status 1 where\n"
        "a kernel spills or does not compile.");
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

// SPDX-License-Identifier: Apache-2.0
#include "cli/occupancy.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace thunderc {
namespace {

constexpr GpuArchitecture architectures[] = {
    {80, 2048, 32, 164},  {86, 1536, 16, 100},  {87, 1536, 16, 164},  {89, 1536, 24, 100},  {90, 2048, 32, 228},
    {100, 2048, 32, 228}, {103, 2048, 32, 228}, {110, 1536, 24, 228}, {120, 1536, 24, 100}, {121, 1536, 24, 100},
};

// The same on all of them. Units of allocation: CUDA's header cuda_occupancy.h.
constexpr int warp = 32;
constexpr int registers_of_part = 16384;  // a multiprocessor has four parts; a warp lives in one of them
constexpr int parts = 4;
constexpr int register_unit = 256;     // that a warp's registers are rounded up to
constexpr int shared_unit = 128;       // bytes that a block's shared memory is rounded up to
constexpr int shared_reserved = 1024;  // bytes of it in each block that the system takes

int round_up(int n, int unit) {
    return (n + unit - 1) / unit * unit;
}

}  // namespace

std::optional<GpuArchitecture> gpu_architecture(const std::string& target) {
    for (const GpuArchitecture& gpu : architectures) {
        const std::string name = fmt::format("sm_{}", gpu.capability);
        // a: what only this architecture has, f: what its family has
        if (target == name || (gpu.capability >= 90 && target == name + "a") ||
            (gpu.capability >= 100 && target == name + "f"))
            return gpu;
    }
    return std::nullopt;
}

std::string known_targets() {
    std::string names;
    for (const GpuArchitecture& gpu : architectures)
        names += fmt::format("{}sm_{}{}", names.empty() ? "" : ", ", gpu.capability, gpu.capability >= 90 ? "[a]" : "");
    return names;
}

int most_registers(int threads, int blocks) {
    constexpr int of_a_thread = 255;  // that an instruction can name
    const int warps = std::max((threads + warp - 1) / warp, 1);
    return std::min(of_a_thread, registers_of_part * parts / (warps * warp * std::max(blocks, 1)));
}

bool lacks_registers(const KernelUsage& kernel) {
    return kernel.spill_stores + kernel.spill_loads > 0 &&
           2 * kernel.registers > most_registers(kernel.threads, kernel.blocks);
}

Occupancy occupancy(const GpuArchitecture& gpu, const KernelUsage& kernel) {
    const int warps = (kernel.threads + warp - 1) / warp;  // of a block
    if (warps == 0) return {};
    const int by_threads = gpu.threads / warp / warps;
    const int of_warp = round_up(std::max(kernel.registers, 1) * warp, register_unit);
    const int by_registers = registers_of_part / of_warp * parts / warps;
    const int by_shared = gpu.shared_kib * 1024 / round_up(kernel.shared + shared_reserved, shared_unit);
    const std::pair<int, const char*> limits[] = {
        {by_threads, "threads"}, {gpu.blocks, "blocks"}, {by_registers, "registers"}, {by_shared, "shared memory"}};
    const auto* least = std::min_element(std::begin(limits), std::end(limits),
                                         [](const auto& a, const auto& b) { return a.first < b.first; });
    Occupancy result;
    result.blocks = least->first;
    result.threads = result.blocks * warps * warp;
    result.share = static_cast<double>(result.threads) / gpu.threads;
    result.limit = least->second;
    return result;
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/cost_model/machines.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

namespace thunderc {
namespace {

// Seconds a hop, and the share of a link that NCCL's rings get.
//
// Hops are those that NCCL itself assumes when it chooses an algorithm (src/graph/tuning.cc: `hwLat`, rings, protocol
// Simple).
constexpr double nvlink_hop = 3.4e-6, pcie_hop = 5.7e-6, network_hop = 9.6e-6;
// NVLink of an A100: 232 of 300 GB/s on eight of them (NVIDIA/nccl, issue 1048; tuning.cc takes 235 at most). Of an
// H100: 360 of 450 GB/s at least, which rings over four nodes get (NVIDIA/nccl, issue 1229).
constexpr double nvlink_reach = 0.78, nvlink4_reach = 0.80;
// InfiniBand: 46 to 48 of 50 GB/s a card (NVIDIA/nccl-tests, issue 290) where the test is alone; 86 of 100 GB/s between
// two nodes of A100 with four cards (NVIDIA/nccl, issue 1048). The lower one: trainings are not alone.
constexpr double infiniband_reach = 0.86;
// Ethernet with remote access to memory; no better source than that it is not said to be better than InfiniBand.
constexpr double ethernet_reach = 0.80;
constexpr double pcie_reach = 0.75;

constexpr Link nvlink3{"NVLink", 300e9, nvlink_reach, nvlink_hop};   // A100 data sheet: 600 GB/s, both directions
constexpr Link nvlink4{"NVLink", 450e9, nvlink4_reach, nvlink_hop};  // H100 and H200: 900 GB/s
constexpr Link nvlink5{"NVLink", 900e9, nvlink4_reach, nvlink_hop};  // B200: 1.8 TB/s
constexpr Link pcie4{"PCIe 4", 31.5e9, pcie_reach, pcie_hop};        // 16 lanes of 16 GT/s
constexpr Link pcie5{"PCIe 5", 63e9, pcie_reach, pcie_hop};          // 16 lanes of 32 GT/s
constexpr Link ndr{"InfiniBand NDR", 50e9, infiniband_reach, network_hop};  // DGX H100: a card of 400 Gb/s a GPU
constexpr Link hdr{"InfiniBand HDR", 25e9, infiniband_reach, network_hop};  // DGX A100: a card of 200 Gb/s a GPU
// HGX A100 with four cards of 200 Gb/s, two GPUs a card.
constexpr Link hdr_shared{"InfiniBand HDR", 12.5e9, infiniband_reach, network_hop};
constexpr Link ethernet_400{"Ethernet", 6.25e9, ethernet_reach, 3 * network_hop};    // AWS p4de: 400 Gb/s for 8 GPUs
constexpr Link ethernet_100{"Ethernet", 1.5625e9, ethernet_reach, 3 * network_hop};  // 100 Gb/s for 8 GPUs
// 10 Gb/s and TCP's round trips.
constexpr Link ethernet_10{"Ethernet", 1.25e9, 0.9, 30e-6};
constexpr Link within_one_rank{"memory", 10e9, 1, 1e-6};  // of a node with one rank: nobody is there to send to

// A step of Llama 2 7B in bf16 on an H200, each kind of kernel by itself, as tests/gpu/run.sh measures it: positions
// 4096, heads of 128, gradients of attention in a fixed order (docs/performance.md), and products of FP8 with delayed
// scaling. The H100 is the same chip.
constexpr Reach measured_reach{0.72, 0.70, 0.48, 0.33, 0.74, 0.84, 0.46, 1.5e-6, "measured on an H200 with Llama 2 7B"};

constexpr std::int64_t GB = 1'000'000'000;

struct Unit {
    std::string_view name;
    double factor;
};
constexpr Unit rates[] = {{"kB/s", 1e3},     {"MB/s", 1e6},     {"GB/s", 1e9},     {"TB/s", 1e12},
                          {"kb/s", 1e3 / 8}, {"Mb/s", 1e6 / 8}, {"Gb/s", 1e9 / 8}, {"Tb/s", 1e12 / 8}};
constexpr Unit times[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};

// A number and one of the units right behind it.
std::optional<double> quantity(std::string_view text, std::span<const Unit> units) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    for (const Unit& unit : units)
        if (text == unit.name) return number * unit.factor;
    return std::nullopt;
}

}  // namespace

const std::vector<Machine>& machines() {
    // NVIDIA's data sheets: dense rates, without sparsity; of bf16, f32 (on CUDA cores), FP8 (added up in f32).
    static const std::vector<Machine> all = {
        {"h100", "H100 SXM", 3.35e12, 989.4e12, 66.9e12, 1978.9e12, 80 * GB, 8, nvlink4, ndr, true, measured_reach},
        {"h200", "H200 SXM", 4.8e12, 989.4e12, 66.9e12, 1978.9e12, 141 * GB, 8, nvlink4, ndr, true, measured_reach},
        {"h100-pcie", "H100 PCIe", 2.0e12, 756e12, 51.2e12, 1513e12, 80 * GB, 8, pcie5, ethernet_400},
        {"a100", "A100 SXM 80 GB", 2.039e12, 312e12, 19.5e12, 0, 80 * GB, 8, nvlink3, ethernet_400},
        {"a100-ib", "A100 SXM 80 GB", 2.039e12, 312e12, 19.5e12, 0, 80 * GB, 8, nvlink3, hdr},
        {"a100-ib4", "A100 SXM 80 GB", 2.039e12, 312e12, 19.5e12, 0, 80 * GB, 8, nvlink3, hdr_shared},
        {"b200", "B200", 8.0e12, 2250e12, 80e12, 4500e12, 180 * GB, 8, nvlink5, ndr},
        {"rtx4090", "RTX 4090", 1.008e12, 165.2e12, 82.6e12, 330.3e12, 24 * GB, 8, pcie4, ethernet_100},
        // The machine of docs/performance.md: two cores of an EPYC (Zen 5) at 4.1 GHz, which add 64 products of f32 a
        // cycle each; bf16 is multiplied as f32. 30 GB/s: what reading two arrays and writing one gets. A node has one
        // rank, with both cores.
        {"cpu", "pair of EPYC cores", 30e9, 525e9, 525e9, 0, 24 * GB, 1, within_one_rank, ethernet_10, false,
         assumed_reach, false},
    };
    return all;
}

double Machine::flops_of(DType products) const {
    if (is_quantised(products)) return fp8_flops > 0 ? fp8_flops : f32_flops;
    return is_narrow(products) ? bf16_flops : f32_flops;
}

const Machine* find_machine(std::string_view name) {
    const auto at =
        std::find_if(machines().begin(), machines().end(), [&](const Machine& m) { return m.name == name; });
    return at == machines().end() ? nullptr : &*at;
}

std::optional<Link> parse_link(std::string_view text) {
    const std::size_t comma = text.find(',');
    const std::optional<double> rate = quantity(text.substr(0, comma), rates);
    if (!rate || !(*rate > 0) || !std::isfinite(*rate)) return std::nullopt;
    Link link{"link", *rate};
    link.once = true;
    if (comma == std::string_view::npos) return link;
    const std::optional<double> latency = quantity(text.substr(comma + 1), times);
    if (!latency) return std::nullopt;
    link.latency = *latency;
    return link;
}

Machine joined_by(Machine machine, const Link& link) {
    machine.node = 1;
    machine.inside = machine.between = link;
    return machine;
}

}  // namespace thunderc

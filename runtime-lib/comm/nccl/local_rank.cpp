// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/local_rank.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "support/error.h"
#include "support/philox.h"
#include "support/text.h"

namespace thunder {

namespace {

// As NCCL tells hosts apart: by NCCL_HOSTID where it is set, else by name and boot, since names may be alike.
std::uint64_t host_number() {
    if (const char* given = std::getenv("NCCL_HOSTID"); given != nullptr && *given != '\0') return hash_text(given);
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    return hash_text(cat(name, " ", boot));
}

std::vector<std::string> split(const char* text) {
    std::vector<std::string> parts(1);
    for (; *text != '\0'; ++text) {
        if (*text == ',') {
            parts.emplace_back();
        } else {
            parts.back() += *text;
        }
    }
    return parts;
}

}  // namespace

void find_neighbours(Launch& launch, Rendezvous& rendezvous) {
    std::vector<std::uint64_t> hosts(static_cast<std::size_t>(launch.world), host_number());
    const auto of = [&](int rank) { return std::span(hosts).subspan(static_cast<std::size_t>(rank), 1); };
    if (launch.rank != 0) {
        rendezvous.send(std::as_bytes(of(launch.rank)), 0);
        rendezvous.receive(std::as_writable_bytes(std::span(hosts)), 0);
    } else {
        for (int r = 1; r < launch.world; ++r) rendezvous.receive(std::as_writable_bytes(of(r)), r);
        for (int r = 1; r < launch.world; ++r) rendezvous.send(std::as_bytes(std::span(hosts)), r);
    }
    int before = 0, together = 0;
    for (int r = 0; r < launch.world; ++r) {
        if (of(r).front() != of(launch.rank).front()) continue;
        ++together;
        if (r < launch.rank) ++before;
    }
    if (launch.local_rank < 0) launch.local_rank = before;
    if (launch.local_world < 1) launch.local_world = together;
}

void choose_gpu(const Launch& launch) {
    const char* given = std::getenv("CUDA_VISIBLE_DEVICES");
    if (given == nullptr || *given == '\0') {
        if (launch.local_world > 1) setenv("CUDA_VISIBLE_DEVICES", cat(launch.local_rank).c_str(), 1);
        return;
    }
    const std::vector<std::string> devices = split(given);
    if (devices.size() == 1) return;  // the launcher has chosen
    if (static_cast<std::size_t>(launch.local_rank) >= devices.size())
        fail(cat("CUDA_VISIBLE_DEVICES names ", devices.size(), " GPUs, and ", launch.local_world,
                 " ranks run on this host"),
             "start one rank for each GPU");
    setenv("CUDA_VISIBLE_DEVICES", devices[static_cast<std::size_t>(launch.local_rank)].c_str(), 1);
}

}  // namespace thunder

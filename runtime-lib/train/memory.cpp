// SPDX-License-Identifier: Apache-2.0
#include "train/memory.h"

#include <sys/resource.h>

#include <iterator>
#include <numeric>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "device/stream.h"
#include "support/file.h"
#include "support/host_memory.h"
#include "support/text.h"
#include "watch/console.h"

namespace thunder {

namespace {

struct ArenaName {
    const char *in_files, *in_messages;
};

// By Arena.
constexpr ArenaName names[] = {{"parameters", "parameters"},
                               {"gradients", "gradients"},
                               {"optimizer", "optimizer state"},
                               {"saved", "saved activations"},
                               {"scratch", "scratch"},
                               {"constants", "constants"},
                               {"batch", "batch"},
                               {"narrow_copies", "narrow copies"},
                               {"gathered", "gathered parameters"},
                               {"unit_gradients", "gradients of this rank"},
                               {"scaling", "scales and codes"}};
static_assert(std::size(names) == static_cast<std::size_t>(Arena::count));

}  // namespace

std::string memory_text(const ArenaBytes& arenas, std::size_t average, std::size_t copies) {
    std::size_t sum = average + copies;
    std::string parts;
    for (std::size_t i = 0; i < arenas.size(); ++i) {
        sum += arenas[i];
        if (arenas[i] > 0) parts += cat(parts.empty() ? ": " : ", ", names[i].in_messages, " ", bytes_text(arenas[i]));
    }
    if (average > 0) parts += cat(", average of weights ", bytes_text(average));
    if (copies > 0) parts += cat(", copies for checkpoints ", bytes_text(copies));
    return cat("memory ", bytes_text(sum), parts);
}

std::size_t bytes_of(const ArenaBytes& arenas) {
    return std::accumulate(arenas.begin(), arenas.end(), std::size_t{0});
}

void check_room(Device& device, Console& console, const ArenaBytes& arenas, std::size_t average, std::size_t copies) {
    const std::string plan = memory_text(arenas, average, copies);
    console.line(plan);
    const std::size_t on_device = bytes_of(arenas) + average;
    device.check_room(on_device + (device.is_gpu() ? 0 : copies), plan, less_memory());
    if (device.is_gpu()) check_host_memory(host_memory(), copies, plan, "--checkpoint-async off takes no copies");
}

std::string memory_line(int rank, const MemoryUse& use) {
    std::string line = cat("{\"rank\":", rank);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < use.arenas.size(); ++i) {
        line += cat(",\"", names[i].in_files, "\":", use.arenas[i]);
        sum += use.arenas[i];
    }
    return line + cat(",\"arenas\":", sum, ",\"average\":", use.average, ",\"workspace\":", use.workspace,
                      ",\"staging\":", use.staging, ",\"process_peak\":", use.process_peak, "}");
}

std::byte** place_of(TrainingArenas& arenas, Arena arena) {
    std::byte** const places[] = {&arenas.parameters, &arenas.gradients,      &arenas.optimizer, &arenas.saved,
                                  &arenas.scratch,    &arenas.constants,      &arenas.batch,     &arenas.narrow_copies,
                                  &arenas.gathered,   &arenas.unit_gradients, &arenas.scaling};
    static_assert(std::size(places) == static_cast<std::size_t>(Arena::count));
    return places[static_cast<std::size_t>(arena)];
}

std::uint64_t MemoryUse::taken(bool gpu) const {
    return gpu ? std::accumulate(arenas.begin(), arenas.end(), average + workspace) : process_peak;
}

void write_memory(const std::string& path, const MemoryUse& mine, Communicator& communicator) {
    std::vector<MemoryUse> all(static_cast<std::size_t>(communicator.world()));
    communicator.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                            "what ranks took of memory");
    if (communicator.rank() != 0) return;
    std::string lines;
    for (std::size_t r = 0; r < all.size(); ++r) lines += memory_line(static_cast<int>(r), all[r]) + "\n";
    AtomicFile file(path);
    file.write(lines.data(), lines.size());
    file.commit();
}

std::uint64_t process_peak() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;  // Linux counts it in kB
}

}  // namespace thunder

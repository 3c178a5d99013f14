// SPDX-License-Identifier: Apache-2.0
#include "support/host_memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "support/environment.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

// Files of the system have no size: they are read to their end.
std::string system_text(const std::string& path) {
    std::string text;
    std::FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) return text;
    char part[4096];
    for (std::size_t n = 0; (n = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, n);
    std::fclose(file);
    return text;
}

// The number behind a word that begins a line; false where there is none ("max").
bool number_after(std::string_view text, std::string_view word, std::uint64_t& number) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string_view line = text.substr(at, end - at);
        at = end + 1;
        if (line.substr(0, word.size()) != word) continue;
        line.remove_prefix(word.size());
        while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
        if (line.empty() || line.front() < '0' || line.front() > '9') return false;
        number = std::strtoull(std::string(line).c_str(), nullptr, 10);
        return true;
    }
    return false;
}

bool number_in(const std::string& path, std::uint64_t& number) {
    return number_after(system_text(path), "", number);
}

// What the files of one version of control groups are called, and the lines of memory.stat. Pages of files that are
// cached go when memory is wanted, whether they were read once (inactive) or again (active).
struct GroupFiles {
    const char *limit, *usage, *inactive, *active;
    const char *swap_limit, *swap_usage;
    bool swap_has_memory;  // these two count memory and swap together
};
constexpr GroupFiles of_version_1{"/memory.limit_in_bytes",
                                  "/memory.usage_in_bytes",
                                  "total_inactive_file",
                                  "total_active_file",
                                  "/memory.memsw.limit_in_bytes",
                                  "/memory.memsw.usage_in_bytes",
                                  true};
constexpr GroupFiles of_version_2{"/memory.max", "/memory.current",  "inactive_file",
                                  "active_file", "/memory.swap.max", "/memory.swap.current",
                                  false};

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

std::uint64_t minus(std::uint64_t a, std::uint64_t b) {
    return a - std::min(a, b);
}

// What a group has left of its memory, of its swap, and of both together.
struct Room {
    std::uint64_t memory = unlimited, swap = unlimited, both = unlimited;
};

Room room_of(const std::string& folder, const GroupFiles& files, std::uint64_t& total) {
    const std::string stat = system_text(folder + "/memory.stat");
    std::uint64_t inactive = 0, active = 0;
    number_after(stat, files.inactive, inactive);
    number_after(stat, files.active, active);
    // below the limit that one file says, where it says any, with the use that another says
    const auto left = [&](const char* limit_file, const char* usage_file, std::uint64_t cached) {
        std::uint64_t limit = 0, usage = 0;
        if (!number_in(folder + limit_file, limit)) return unlimited;
        number_in(folder + usage_file, usage);
        return minus(limit, minus(usage, cached));
    };
    Room room;
    room.memory = left(files.limit, files.usage, inactive + active);
    (files.swap_has_memory ? room.both : room.swap) =
        left(files.swap_limit, files.swap_usage, files.swap_has_memory ? inactive + active : 0);
    if (std::uint64_t limit = 0; number_in(folder + files.limit, limit)) total = std::min(total, limit);
    return room;
}

// The least that any of the groups has left from `path` up to the root that is seen from here; in a container the outer
// ones are not. One whose limit is larger may have less left: its other members take more.
void bound_by_groups(const std::string& mount, std::string path, const GroupFiles& files, Room& least,
                     std::uint64_t& total) {
    for (;;) {
        while (!path.empty() && path.back() == '/') path.pop_back();
        const Room room = room_of(mount + path, files, total);
        least.memory = std::min(least.memory, room.memory);
        least.swap = std::min(least.swap, room.swap);
        least.both = std::min(least.both, room.both);
        if (path.empty()) return;
        path.resize(std::min(path.rfind('/'), path.size()));
    }
}

}  // namespace

HostMemory host_memory(const std::string& root) {
    HostMemory memory;
    if (root.empty()) {
        if (const auto given = number_of_environment("THUNDER_MEMORY", 1, std::numeric_limits<std::int64_t>::max(),
                                                     "it is in bytes; leave it unset for what the system tells")) {
            memory.total = memory.available = static_cast<std::uint64_t>(*given);
            return memory;
        }
    }
    const std::string info = system_text(root + "/proc/meminfo");
    std::uint64_t swap = 0;
    if (!number_after(info, "MemTotal:", memory.total) || !number_after(info, "MemAvailable:", memory.available))
        return {};
    number_after(info, "SwapFree:", swap);
    for (std::uint64_t* kilobytes : {&memory.total, &memory.available, &swap}) *kilobytes *= 1024;
    Room room;
    // "0::/user.slice/job" for the one hierarchy of version 2, "9:memory:/job" for that of version 1.
    const std::string groups = system_text(root + "/proc/self/cgroup");
    for (std::size_t at = 0; at < groups.size();) {
        const std::size_t end = std::min(groups.find('\n', at), groups.size());
        const std::string line = groups.substr(at, end - at);
        at = end + 1;
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
        const std::string path = line.substr(second + 1);
        if (controllers == ",,")
            bound_by_groups(root + "/sys/fs/cgroup", path, of_version_2, room, memory.total);
        else if (controllers.find(",memory,") != std::string::npos)
            bound_by_groups(root + "/sys/fs/cgroup/memory", path, of_version_1, room, memory.total);
    }
    swap = std::min(swap, room.swap);  // what lies there takes nothing of a group's memory
    const std::uint64_t of_groups = room.memory == unlimited ? unlimited : room.memory + swap;
    memory.available = std::min({memory.available + swap, of_groups, room.both});
    return memory;
}

std::string less_memory() {
    return "thunderc train needs less with --recompute block, a smaller --batch (and --grad-accum), a shorter --seq, "
           "--dtype bf16 (and --master none, --grad-dtype bf16, --optim-dtype bf16), or --fsdp N, which shares it "
           "among ranks; "
           "thunderc plan shows what takes how much";
}

void check_host_memory(const HostMemory& memory, std::uint64_t bytes, const std::string& plan,
                       const std::string& help) {
    if (memory.total == 0 || bytes <= memory.available) return;
    fail(cat("the program wants ", bytes_text(bytes), ", and this machine has ",
             memory.available < memory.total ? cat(bytes_text(memory.available), " free of ", bytes_text(memory.total))
                                             : bytes_text(memory.total),
             ": ", plan),
         cat(help, "; THUNDER_MEMORY=BYTES in the environment says how much there is, where that is not so"));
}

}  // namespace thunder

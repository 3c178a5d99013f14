// SPDX-License-Identifier: Apache-2.0
// What a run takes of memory: as planned, in a line for people, and as it turned out, rank by rank, for programs to
// compare (--memory).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "train/arenas.h"
#include "train/program.h"

namespace thunder {

class Communicator;
class Console;
class Device;

// The planned arenas, and what this run keeps beside them: "memory 5.2 GB: parameters 0.4 GB, ...". `copies`: of the
// state, on their way to checkpoints.
std::string memory_text(const ArenaBytes& arenas, std::size_t average, std::size_t copies);

// Where the arenas of a program say that one lies.
std::byte** place_of(TrainingArenas& arenas, Arena arena);

std::size_t bytes_of(const ArenaBytes& arenas);

// Says that line, and fails where the device, or the host that has the copies, has not so much left.
void check_room(Device& device, Console& console, const ArenaBytes& arenas, std::size_t average, std::size_t copies);

// In bytes, of one rank.
struct MemoryUse {
    std::array<std::uint64_t, static_cast<std::size_t>(Arena::count)> arenas{};  // what the device gave for each
    std::uint64_t average = 0;       // of weights, which --ema asks for: in no plan
    std::uint64_t workspace = 0;     // of calls and of the libraries below them, which is in no plan
    std::uint64_t staging = 0;       // of the host: what is copied to and from the device
    std::uint64_t process_peak = 0;  // of the host: the most that was resident, code and libraries included

    // What is said of it in a number: of a GPU what was planned and what was taken beside it, else the process's.
    std::uint64_t taken(bool gpu) const;
};

// {"rank":0,"parameters":4096,...,"arenas":123456,"average":0,"workspace":0,"staging":8192,"process_peak":31457280};
// arenas by the names that thunderc plan and the program's README.md give them, and their sum.
std::string memory_line(int rank, const MemoryUse& use);

// A line of each rank, in a file that the first one writes. On all ranks.
void write_memory(const std::string& path, const MemoryUse& mine, Communicator& communicator);

// The most memory that this process had resident.
std::uint64_t process_peak();

}  // namespace thunder

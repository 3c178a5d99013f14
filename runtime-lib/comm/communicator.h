// SPDX-License-Identifier: Apache-2.0
// The ranks of a training run, as far as the trainer talks to them. Collectives of a step are issued by the generated
// program on its streams (comm/collectives.h); these here are for the few numbers between steps, and for what is
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/mesh.h"

namespace thunder {

class Device;
class Stream;
struct Options;
struct ProgramSpec;

// What the command line says of how ranks work together.
struct WatchdogOptions {
    double hang_timeout = 1800;      // seconds
    std::uint64_t chaos = 0;         // a seed; 0: off
    std::string timeline{};          // a file; "": none
    int (*interrupted)() = nullptr;  // the signal that this process got, or 0
};

class Communicator {
  public:
    virtual ~Communicator() = default;

    virtual int world() const = 0;
    virtual int rank() const = 0;
    // Of this host, this one among them: a launcher may have given each rank cores of its own.
    virtual int ranks_on_these_cores() const = 0;

    // In host memory, on the thread that calls. All ranks call the same, in the same order; `what` is for messages:
    // "the step's loss".
    // Sums over the ranks in rank order, into all of them.
    virtual void all_reduce_sum(std::span<float> values, const char* what) = 0;
    // What rank `root` has, everywhere.
    virtual void broadcast(std::span<std::byte> bytes, int root, const char* what) = 0;
    // What all have, everywhere: as many bytes of each, in rank order.
    virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) = 0;
    virtual void barrier(const char* what) = 0;
    // From one rank to another, which receives as much.
    virtual void send(std::span<const std::byte> bytes, int to, const char* what) = 0;
    virtual void receive(std::span<std::byte> bytes, int from, const char* what) = 0;

    // Streams of these names, on which the collectives of a step are issued.
    virtual std::vector<std::unique_ptr<Stream>> make_streams(Device& device, const Mesh& mesh,
                                                              std::span<const std::string_view> names) = 0;

    // Fails where ranks run different programs, or with different options or data, or go on from different checkpoints:
    // `checkpoint` is the one that this rank sees, or "".
    virtual void check_config(const ProgramSpec& program, const Options& options, const std::string& checkpoint) = 0;
    // From here on it is seen to that no rank waits for ever for one that does not come. Behind make_streams.
    virtual void watch(const WatchdogOptions& options) = 0;
    // This rank is in that step, and has got on; -1: before the first.
    virtual void note_progress(std::int64_t step) = 0;
    // All is done: writes the timeline. All ranks come here, or none.
    virtual void finish() = 0;
};

// The communicator that this program was linked with.
std::unique_ptr<Communicator> make_communicator();

}  // namespace thunder

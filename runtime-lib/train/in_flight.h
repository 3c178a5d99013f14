// SPDX-License-Identifier: Apache-2.0
// What is on its way between the host and the device, or from rank to rank, while a run goes on.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/writer.h"
#include "device/stream.h"
#include "train/ending.h"

namespace thunder {

// A micro-batch on its way to the device.
struct Staged {
    Memory memory;
    Event taken;  // the device has it: the memory may be written again
};

// A step that was issued: its StepNumbers on their way to the device, and back.
struct StepInFlight {
    Memory memory;  // two of them: as sent, as read
    Event arrived;
    double began = 0, ended = 0;  // in milliseconds; ended: 0 until the host has seen it
};

// Of a stream of communication.
struct Joint {
    Event fork, joined;

    // `stream` goes on behind what the other one has been told so far, which the other one does behind `stream`.
    void join(Stream& stream, Stream& other) {
        stream.record(fork);
        other.wait(fork);
        other.record(joined);
        stream.wait(joined);
    }
};

// What ranks tell one another of a step.
struct StepOfRank {
    float loss_sum;
    EndRequest end;
    CheckpointWriter::Told checkpoint;
};
inline std::vector<CheckpointWriter::Told> told_of(std::span<const StepOfRank> ranks) {
    std::vector<CheckpointWriter::Told> all;
    for (const StepOfRank& rank : ranks) all.push_back(rank.checkpoint);
    return all;
}

}  // namespace thunder

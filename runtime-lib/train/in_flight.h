// SPDX-License-Identifier: Apache-2.0
// What is on its way between the host and the device, or from rank to rank, while a run goes on.
#pragma once

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
    Event fork, join;
};

// What ranks tell one another of a step.
struct StepOfRank {
    float loss_sum;
    EndRequest end;
};

}  // namespace thunder

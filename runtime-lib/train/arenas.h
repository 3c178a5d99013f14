// SPDX-License-Identifier: Apache-2.0
// The memory of a training program, as the generated model sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/types.h"
#include "optim/segments.h"
#include "optim/step_scalars.h"
#include "program/arenas.h"

namespace thunder {

class Stream;
class Updates;  // train/updates.h

// The optimizer arena holds the states one after the other, in the order of the rule's States: optim/state_layout.h.
struct TrainingArenas : Arenas {
    std::byte* optimizer = nullptr;
    StepScalars* scalars = nullptr;
    // Of a loss of several terms (Loss::terms), as scalars->loss_weight: what the forward pass divides each of them by.
    // On the device, behind the scalars.
    std::span<float> loss_weights;
    // What the optimizer works on: the trainable parameters, with or without weight decay as --decay says.
    std::span<const ParameterSegment> segments;
    const Updates* updates = nullptr;  // whose parts a forward pass waits for; null: all are done before it
};

// What one call of the optimizer steps, and the numbers that it steps it by.
struct UpdatePart {
    std::span<const ParameterSegment> segments;
    const StepScalars* scalars = nullptr;  // on the device
};

// Where the update of the step before runs beside the forward pass (train/updates.h), this waits before what reads
// parameters of a part, and of none that comes behind it; and for all parts before what writes gradients.
void wait_for_update(const TrainingArenas& arenas, std::int64_t part, Stream& stream);
void wait_for_updates(const TrainingArenas& arenas, Stream& stream);

// The streams of a program: the one that computes, and those that its ranks communicate on, in the order of
// ProgramSpec::streams.
struct Streams {
    Stream& compute;
    std::span<Stream* const> communication;

    // NOLINTNEXTLINE(google-explicit-constructor): most programs have one alone
    operator Stream&() const { return compute; }
};

// What a model is told of a micro-step.
struct MicroStep {
    WriteMode mode;        // gradients are overwritten, as in the first, or added to
    bool last;             // of its step: ranks that add their gradients up once a step do it in this one
    bool updates = false;  // the update of the step before runs beside its forward pass

    // The kinds that there are, by which a captured one is found again.
    static constexpr std::size_t kinds = 8;
    std::size_t kind() const { return (updates ? 4 : 0) + 2 * static_cast<std::size_t>(mode) + (last ? 1 : 0); }

    // NOLINTNEXTLINE(google-explicit-constructor): on one rank the last one is as the others
    operator WriteMode() const { return mode; }
};

}  // namespace thunder

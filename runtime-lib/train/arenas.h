// SPDX-License-Identifier: Apache-2.0
// The memory of a training program, as the generated model sees it.
#pragma once

#include <cstddef>
#include <span>

#include "device/types.h"
#include "optim/segments.h"
#include "optim/step_scalars.h"
#include "program/arenas.h"

namespace thunder {

class Stream;

// The optimizer arena holds the states one after the other, in the order of the rule's States: optim/state_layout.h.
struct TrainingArenas : Arenas {
    std::byte* optimizer = nullptr;
    StepScalars* scalars = nullptr;
    // Of a loss of several terms (Loss::terms), as scalars->loss_weight: what the forward pass divides each of them by.
    // On the device, behind the scalars.
    std::span<float> loss_weights;
    // What the optimizer works on: the trainable parameters, with or without weight decay as --decay says.
    std::span<const ParameterSegment> segments;
};

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
    WriteMode mode;  // gradients are overwritten, as in the first, or added to
    bool last;       // of its step: ranks that add their gradients up once a step do it in this one

    // The kinds that there are, by which a captured one is found again.
    static constexpr std::size_t kinds = 4;
    std::size_t kind() const { return 2 * static_cast<std::size_t>(mode) + (last ? 1 : 0); }

    // NOLINTNEXTLINE(google-explicit-constructor): on one rank the last one is as the others
    operator WriteMode() const { return mode; }
};

}  // namespace thunder

// The memory of a training program, as the generated model sees it.
#pragma once

#include <cstddef>
#include <span>

#include "optim/segments.h"
#include "optim/step_scalars.h"
#include "program/arenas.h"

namespace thunder {

// The optimizer arena holds the states one after the other, each laid out like the parameter arena: AdamW's first
// moments, then its second moments at half the arena; SGD's momentum buffer, where the arena is not empty.
struct TrainingArenas : Arenas {
    std::byte* optimizer = nullptr;
    StepScalars* scalars = nullptr;
    // What the optimizer works on: the trainable parameters, with or without weight decay as --decay says.
    std::span<const ParameterSegment> segments;
};

}  // namespace thunder

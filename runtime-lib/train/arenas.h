// The memory of a training program, as the generated model sees it.
#pragma once

#include <cstddef>
#include <span>

#include "optim/segments.h"
#include "optim/step_scalars.h"

namespace thunder {

// One arena for each class of lifetime, on the device; offsets into them are in ProgramSpec and in the program's
// model.h.
//
// The optimizer arena holds the states one after the other, each laid out like the parameter arena: AdamW's first
// moments, then its second moments at half the arena; SGD's momentum buffer, where the arena is not empty.
struct Arenas {
    std::byte* parameters = nullptr;
    std::byte* gradients = nullptr;
    std::byte* optimizer = nullptr;
    std::byte* saved = nullptr;      // activations kept from forward to backward
    std::byte* scratch = nullptr;    // reused within forward and backward
    std::byte* constants = nullptr;  // tables that the trainer reads from constants.safetensors
    std::byte* batch = nullptr;      // the micro-batch that the trainer loaded last
    StepScalars* scalars = nullptr;
    // What the optimizer works on: the trainable parameters, with or without weight decay as --decay says.
    std::span<const ParameterSegment> segments;
};

}  // namespace thunder

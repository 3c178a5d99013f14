// SPDX-License-Identifier: Apache-2.0
// Files of parameters, or of what is laid out as they are: --save, --save-ema, --dump-gradients.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "train/program.h"

namespace thunder {

class Stream;
class World;

struct SavedParameters {
    std::byte* trained = nullptr;  // an arena in which those lie that train
    std::optional<DType> dtype{};  // of what lies in it; none: the parameters' own
    std::byte* frozen = nullptr;   // where those lie that do not train; null: they are left out
    float divided_by = 0;          // on the way to the file, which has f32 then; 0: not
};

// As safetensors, by the framework's names. On all ranks.
void save_parameters(const std::string& path, const SavedParameters& which, const ProgramSpec& program,
                     const World& world, Stream& stream);

}  // namespace thunder

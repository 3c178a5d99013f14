// SPDX-License-Identifier: Apache-2.0
#include "train/save.h"

#include <utility>
#include <vector>

#include "train/world.h"

namespace thunder {

void save_parameters(const std::string& path, const SavedParameters& which, const ProgramSpec& program,
                     const World& world, Stream& stream) {
    std::vector<HeldTensor> tensors;
    for (const ParameterSpec& parameter : program.parameters) {
        if (which.frozen == nullptr && !parameter.trainable) continue;
        const DType dtype = parameter.trainable ? which.dtype.value_or(parameter.dtype) : parameter.dtype;
        tensors.push_back({{std::string(parameter.name), dtype, {parameter.shape.begin(), parameter.shape.end()}},
                           &parameter,
                           parameter.trainable ? which.trained : which.frozen,
                           which.divided_by});
    }
    const std::pair<std::string, std::string> metadata[] = {{"format", "pt"}};  // what loaders of Hugging Face look for
    world.save(path, std::move(tensors), metadata, stream);
}

}  // namespace thunder

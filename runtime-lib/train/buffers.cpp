// SPDX-License-Identifier: Apache-2.0
#include "train/buffers.h"

#include <algorithm>
#include <vector>

#include "program/transfer.h"

namespace thunder {

std::string_view name_of(Buffers buffers) {
    return buffers == Buffers::average ? "average" : "first";
}

bool has_buffers(const ProgramSpec& program) {
    return std::any_of(program.parameters.begin(), program.parameters.end(),
                       [](const ParameterSpec& parameter) { return parameter.moves; });
}

void agree_on_buffers(const ProgramSpec& program, const Options& options, Communicator& communicator,
                      std::byte* parameters, Stream& stream) {
    const int world = communicator.world();
    if (world == 1 || options.buffers == Buffers::first) return;
    for (const ParameterSpec& buffer : program.parameters) {
        if (!buffer.moves) continue;
        std::vector<float> numbers(buffer.bytes / sizeof(float));
        auto* const bytes = reinterpret_cast<std::byte*>(numbers.data());
        from_device(bytes, parameters + buffer.offset, buffer.bytes, stream);
        communicator.all_reduce_sum(numbers, "buffers that the model moves");
        for (float& number : numbers) number /= static_cast<float>(world);
        to_device(parameters + buffer.offset, bytes, buffer.bytes, stream);
    }
}

}  // namespace thunder

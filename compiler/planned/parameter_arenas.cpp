// SPDX-License-Identifier: Apache-2.0
#include "compiler/planned/parameter_arenas.h"

#include <algorithm>
#include <string>

#include "compiler/planned/step_form.h"

namespace thunderc {

using Arena = Placement::Arena;

ParameterArenas::ParameterArenas(const Module& planned) {
    const auto bytes_of = [&](Arena arena) {
        const auto at = planned.arena_bytes.find(std::string(name_of(arena)));
        return at == planned.arena_bytes.end() ? 0 : at->second;
    };
    std::int64_t gradient = 0, narrow_copy = 0;  // bytes of an element
    for (const Function& f : planned.functions)
        for (std::size_t k = 0; k < f.argument_info.size(); ++k) {
            const ArgInfo& info = f.argument_info[k];
            const auto size = static_cast<std::int64_t>(size_of(f.type(f.arguments[k]).dtype));
            const Arena arena = f.info(f.arguments[k]).placement.arena;
            if (arena == Arena::parameters && info.trainable) size_ = size;
            if (arena == Arena::gradients) gradient = size;
            if (arena == Arena::narrow_copies) narrow_copy = size;
        }
    if (is_step(planned)) states_as_parameters_ = thunderc::states_as_parameters(planned);
    bytes_ = bytes_of(Arena::parameters);
    // A function library that gives no gradients has parameters alone.
    trained_ = gradient > 0 ? bytes_of(Arena::gradients) / gradient : bytes_ / size_;
    beside_ = std::max(trained_, narrow_copy > 0 ? bytes_of(Arena::narrow_copies) / narrow_copy : 0);
}

std::optional<std::int64_t> ParameterArenas::element(Arena arena, std::int64_t offset, DType dtype) const {
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    switch (arena) {
        case Arena::parameters:
            if (offset >= beside_ * size_) return std::nullopt;
            return offset / size;
        case Arena::narrow_copies:
        case Arena::gradients: return offset / size;
        case Arena::optimizer:
            if (!states_as_parameters_) return std::nullopt;
            return trained_ == 0 ? offset / size : offset / size % trained_;
        default: return std::nullopt;
    }
}

}  // namespace thunderc

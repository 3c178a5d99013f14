// SPDX-License-Identifier: Apache-2.0
// How the arenas of parameters, gradients, optimizer states and narrow copies lie to one another in a planned module.
//
// What trains comes first in the parameters' arena, and has gradients, states and narrow copies at the same elements of
// their arenas; of these, gradients and states end there. Frozen parameters that have a narrow copy come next, at the
// same elements of both arenas; behind them lies what is frozen and has nothing beside it, each in its own type.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ir/module.h"

namespace thunderc {

class ParameterArenas {
  public:
    explicit ParameterArenas(const Module& planned);

    // Elements of what trains, which gradients have as well.
    std::int64_t trained() const { return trained_; }
    // The bytes of these in the parameters' arena.
    std::int64_t trained_bytes() const { return trained_ * size_; }
    // Whether each state has as many; else the optimizer has states of shapes of their own.
    bool states_as_parameters() const { return states_as_parameters_; }
    // Whether there is anything behind it.
    bool any_frozen() const { return trained_bytes() < bytes_; }

    // The element at a byte offset of one of these arenas, the same for all that belongs to one parameter. Nothing
    // where nothing lies beside a parameter.
    std::optional<std::int64_t> element(Placement::Arena arena, std::int64_t offset, DType dtype) const;

  private:
    bool states_as_parameters_ = true;
    std::int64_t trained_ = 0, beside_ = 0;  // elements: of what trains; up to where there are narrow copies
    std::int64_t size_ = 4, bytes_ = 0;      // of an element of what trains; of the parameters' arena
};

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// What a kernel is of, where no composite and no gradient of a parameter says it: "basins_forward", the module whose
// ops it computes and the direction. A part of `fuse`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/fusion/kernel_groups.h"

namespace thunderc {

class KernelPlaces {
  public:
    explicit KernelPlaces(const KernelGroups& groups);

    // "" where nothing is known, or it says less than the names of ops: in what is no forward and no backward pass,
    // where no module is known or three of them, of one operator of the exported graph, or of less than half of what
    // the modules compute in kernels.
    std::string of(int group) const;

  private:
    enum class Direction : std::uint8_t { none, forward, backward, both };

    void find_directions();
    Direction direction_of(Value v) const;
    Direction direction_of(int group) const;
    bool gives_the_loss(int group) const;
    std::vector<std::string> modules_of_parameters(int group) const;
    void count_ops();

    const KernelGroups& g_;
    const Function& f_;
    Direction all_ = Direction::none;
    std::vector<bool> depends_;          // by value, where a function has both: on the gradient of its result
    std::vector<Direction> directions_;  // by group
    std::vector<std::string> modules_;   // by op
    std::vector<std::optional<std::size_t>> argument_;  // by value
    // How many ops kernels take in a direction, by module: those of modules within it too.
    std::map<std::pair<std::string, Direction>, std::size_t> ops_within_;
};

// The last part of a module path that is no number: "input_layernorm" of "model.layers.0.input_layernorm".
std::string scope_leaf(const std::string& scope);

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// Which ops are of one kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

// A number for each kind of op: what is of one kind has the same name, attributes and types.
class OpKinds {
  public:
    std::uint32_t of(const Function& f, const Op& op);

  private:
    struct Kind {
        std::string name;
        Attributes attributes;
        std::vector<std::optional<Type>> types;  // of operands, then of results
    };
    std::unordered_multimap<std::size_t, std::uint32_t> by_hash_;
    std::vector<Kind> kinds_;
};

}  // namespace thunderc

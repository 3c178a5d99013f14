// SPDX-License-Identifier: Apache-2.0
// Which dimensions of a planned module's tensors are the same size by construction, not by chance: two tensors that are
// added have the same dimensions, a product's columns are its weight's rows, an argument has those of the value that is
// given for it. What a size is made of is known where a reshape folds dimensions, or tensors lie side by side.
//
// So generated text can call a size by what it is: T and the width may both be 4096.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

class Dimensions {
  public:
    // A class of equal dimensions.
    using Id = std::int32_t;
    static constexpr Id none = -1;

    explicit Dimensions(const Module& module);

    Id of(const Function& function, Value v, std::size_t axis) const;
    std::int64_t extent(Id id) const { return extents_[static_cast<std::size_t>(root(id))]; }

    // What the size is made of: a product, or a sum in the order in which the parts lie.
    struct Parts {
        bool product = false;
        std::vector<Id> ids;
    };
    std::vector<Parts> made_of(Id id) const;

    // A size of a call of the runtime API, by the call's name for it: "in", "rows"; none where the call has no such
    // size.
    Id of_call(const Function& function, const Op& op, const std::string& name) const;

    // The sizes of all calls with their names, in the order of the program.
    struct Named {
        std::string name;
        Id id;
    };
    const std::vector<Named>& named() const { return named_; }

    Id root(Id id) const;

  private:
    class Finder;

    std::map<const Function*, std::vector<Id>> first_;  // by function and value: the id of its first dimension
    std::vector<std::int64_t> extents_;                 // by id
    mutable std::vector<Id> parent_;                    // by id: another one of its class, itself at last
    std::map<Id, std::vector<Parts>> parts_;            // by root
    std::map<std::pair<const Op*, std::string>, Id> calls_;
    std::vector<Named> named_;
};

}  // namespace thunderc

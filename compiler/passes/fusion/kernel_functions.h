// SPDX-License-Identifier: Apache-2.0
// The kernel functions of a module: equal ones are one, each has a name that says what it does. A part of `fuse`.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/passes/fusion/kernel_groups.h"

namespace thunderc {

class KernelFunctions {
  public:
    explicit KernelFunctions(const Module& module);

    // The name of the kernel function; an equal one that is there already is taken.
    std::string add(const Extracted& kernel);
    std::deque<Function>& functions() { return functions_; }
    // When all are there: what is called after a place, and was added for another as well, gets a name that is true of
    // both. By the old name.
    std::map<std::string, std::string> rename_shared();

  private:
    struct Place {
        std::string name, by_ops;
        bool several = false;
    };
    std::string unique(const std::string& wanted, const std::string& second);

    std::set<std::string> taken_;
    std::map<std::string, std::string> known_;  // printed form without names -> name
    std::map<std::string, Place> places_;       // by name of the function that is called after it
    std::deque<Function> functions_;            // a vector that grows copies them
};

}  // namespace thunderc

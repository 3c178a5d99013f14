// SPDX-License-Identifier: Apache-2.0
// The kernel functions of a module: equal ones are one, each has a name that says what it does. A part of `fuse`.
#pragma once

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
    std::vector<Function>& functions() { return functions_; }

  private:
    std::set<std::string> taken_;
    std::map<std::string, std::string> known_;  // printed form without names -> name
    std::vector<Function> functions_;
};

}  // namespace thunderc

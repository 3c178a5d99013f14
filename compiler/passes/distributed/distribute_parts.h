// SPDX-License-Identifier: Apache-2.0
// What `distribute` is made of: loops whose bodies hold collectives, and the gradients of a step. Parts of distribute.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/passes/distributed/distribute.h"

namespace thunderc::distributing {

// Each loop of the function `caller` over `body` gets a body of its own, of kind "loop", that calls `body`. What `body`
// gave back of its arguments alone it gives no more: the loop's body does.
void wrap_loops(Module& module, const std::string& caller, const std::string& body);

// Where a gradient of `forward_backward` comes from.
struct GradientResult {
    std::size_t result = 0;  // of the function
    std::string parameter;   // its first framework name
    std::int32_t op = -1;    // which gives it
    std::size_t op_result = 0;
    bool layered = false;  // a family that the loop `op` collects, member by member
};
std::vector<GradientResult> gradient_results(const Function& f);

Module distribute_shards(Module module, const DistributeOptions& options, Report& report);
Module distribute_replicas(Module module, const DistributeOptions& options, Report& report);

}  // namespace thunderc::distributing

// SPDX-License-Identifier: Apache-2.0
// Who carries out a composite: an executor claims it as one call of the runtime API, or says why it does not.
//
// The order of executors is the user's (`--executors`); the first one that claims an op has it. What none claims is
// decomposed into primitives, and those become kernels. Nothing here knows how a call is printed: that stands in the
// op's definition.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

struct Executor {
    std::string name;  // "products": the word of --executors and of the attribute `executor`
    std::string summary;
    // Why the executor leaves the op to others; nullopt: it claims it. An empty reason: the op is none of its business.
    std::function<std::optional<std::string>(const Op&, const Function&)> declines;
    // What is to be said of an op that it claims: who computes it on which device, and why. May be absent.
    std::function<std::string(const Op&, const Function&)> note = {};
};

// One for each file of this folder.
Executor products_executor();
Executor convolutions_executor();
Executor attention_executor();
Executor cross_entropy_executor();
Executor embedding_executor();
Executor optimizer_executor();
Executor fused_executor();
Executor reference_executor();

// All there are, in the default order.
const std::vector<Executor>& all_executors();

// Without `reference`, which stands for claiming nothing.
std::vector<std::string> default_executors();

// Whether these give the naive program: `reference` comes first.
bool gives_naive_program(const std::vector<std::string>& names);

// Throws UsageError that lists the names where there is none of that name.
const Executor& executor(const std::string& name);

// Whether all floats among the op's operands and results are f32, which is what the runtime API computes in; the reason
// where not.
std::optional<std::string> not_of_the_api(const Op& op, const Function& function);

}  // namespace thunderc

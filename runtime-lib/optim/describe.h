// SPDX-License-Identifier: Apache-2.0
// The optimizers' calls as messages and --profile name them, and what they cost.
#pragma once

#include <string>

#include "device/describe.h"
#include "optim/average.h"
#include "optim/global_norm.h"
#include "optim/update.h"

namespace thunder {

std::string describe(const OptimizerUpdate& call);
std::string describe(const GlobalNorm& call);
std::string describe(const AverageUpdate& call);
Cost cost_of(const OptimizerUpdate& call);
Cost cost_of(const GlobalNorm& call);
Cost cost_of(const AverageUpdate& call);

}  // namespace thunder

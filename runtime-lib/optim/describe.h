// The optimizers' calls as messages and --profile name them, and what they cost.
#pragma once

#include <string>

#include "device/describe.h"
#include "optim/adamw.h"
#include "optim/global_norm.h"
#include "optim/sgd.h"

namespace thunder {

std::string describe(const AdamW& call);
std::string describe(const Sgd& call);
std::string describe(const GlobalNorm& call);
Cost cost_of(const AdamW& call);
Cost cost_of(const Sgd& call);
Cost cost_of(const GlobalNorm& call);

}  // namespace thunder

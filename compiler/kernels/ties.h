// SPDX-License-Identifier: Apache-2.0
// Ties: where a gradient goes to the elements that equal a maximum, they are found by comparison, bit by bit.
#pragma once

#include <string>

#include "compiler/ir/module.h"

namespace thunderc {

// Why a kernel of these ops might find none of them, "" where it finds all. Each loop of a kernel computes anew what it
// needs, and the compiler of one may make one operation of a product and a sum where that of another rounds twice: so
// where one float is compared for equality with another that a loop gave, one of them has to be read from memory; and
// what is stored for a later comparison has to be in memory before its maximum is taken.
std::string loses_ties(const Function& kernel);

}  // namespace thunderc

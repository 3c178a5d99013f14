// SPDX-License-Identifier: Apache-2.0
// Ties: where a gradient goes to the elements that equal a maximum, they are found by comparison, bit by bit.
#pragma once

#include <string>

#include "compiler/ir/function_tools.h"
#include "compiler/ir/module.h"

namespace thunderc {

// Whether the op compares floats so that one bit decides: for equality, or anything with a maximum or a minimum.
bool finds_ties(const Function& f, const Uses& uses, const Op& op);

// Why a kernel of these ops might find none of them, "" where it finds all. Each loop of a kernel computes anew what it
// needs, and the compiler of one may make one operation of a product and a sum where that of another rounds twice: so
// where one float is compared with another that a loop gave, one of them has to be read from memory; and what is stored
// for a later comparison has to be in memory before its maximum is taken.
// `compared_later`: by result, whether something else may compare it.
std::string loses_ties(const Function& kernel, const Mask& compared_later);

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// name_results: what nobody named is called by what it is.
//
//     %mul = mul(%x, %y)                    %product = mul(%x, %y)
//     %log = log(%mul)              =>      %logarithm = log(%product)
//     %normed = mul(%x, %rstd)              %normed = mul(%x, %rstd)
//
// The noun of each op's result stands in its definition. In the text of a program a tensor or a local called `log` or
// `div` would hide a function of C's library from whoever reads it. Values of one noun that nothing in the text names
// leave no gap in the numbers of the others, as far as that can be known here; a cotangent keeps the number of its
// value, and one number stands for one value in all functions and kernels:
//
//     %mul, %mul_4, %dmul_4         =>      %product, %product_2, %dproduct_2
//
// Runs behind fusion, which names kernels after their ops, and before memory is planned. What no op gave keeps its
// name: parameters, states, inputs, the tables `cos` and `sin` of a rotation. Only names change. Tests:
// tests/passes/fusion/name_results_test.cpp
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module name_results(Module module, Report& report);

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// Kernels that read or write bf16 compute in f32. A part of `fuse`.
#pragma once

#include "compiler/ir/module.h"

namespace thunderc {

// A kernel function anew: what it reads in bf16 is cast to f32 and all that it computes is f32. So what ops hand on
// within a kernel has not lost anything, with two exceptions, where numbers have to be the same whoever computes them:
//
//   - What leaves the kernel in bf16 is rounded for all: whoever in the kernel reads it reads what is stored. Else a
//     layer would compute with one number, and its backward pass, which reads what was stored, with another.
//   - A comparison reads operands that are rounded if their type says so: a maximum of bf16 is equal to the element
//     that it is, wherever either was computed. So does what gives another type than it
//     reads, as what quantises does.
//
//     %a = exp(%x) : bf16[8]                      %a = exp(%x_1) : f32[8]               %x_1: %x in f32
//     %y = mul(%a, %x) : bf16[8]                  %a_1 = cast(%a) : bf16[8]             stored
//     results %a, %y                              %a_2 = cast(%a_1) : f32[8]
//                                                 %y = mul(%a_2, %x_1) : f32[8]
//                                                 %y_1 = cast(%y) : bf16[8]             results %a_1, %y_1
//
// A kernel that only moves elements, and one without bf16, stays as it is.
Function widen_kernel(Function kernel);

// A cast from bf16 to f32: whoever reads the result may as well read what was cast.
bool is_widening(const Function& function, const Op& op);

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// quantise_in_kernels: what quantises a tensor by a scale that is known becomes the end of the kernel that makes it.
//
// Before:   %y = mul(%n, %w) : bf16[4,8]
//           %after, %inverse, %q = fp8_quantise(%scale, %amax, %y) {copies = "plain", dtype = e4m3}
// After:    %y = mul(%n, %w) : bf16[4,8]
//           %q = fp8_code(%y, %scale) {dtype = e4m3} : e4m3[4,8]
//           %size = fp8_magnitude(%y) : f32[4,8]
//           %maxima = reduce_max(%size) {axes = [1], keep_dims = false} : f32[4]
//           %after, %inverse = fp8_finish(%scale, %amax, %maxima) : f32[], f32[]
//
// which fuse makes one kernel of, but for the last op, a call. A copy that is transposed is made of the codes, by that
// call (of fp8_requantise, which notes no amax, by fp8_transpose). Codes and amaxes are those of the numbers that would
// have been stored (widen_kernel.h), so that nothing changes but what is moved; %y is no longer stored where
// nothing else reads it.
//
// Requires that composites are claimed or decomposed. Does not touch what quantises by a scale of its own or in blocks,
// which follow from all of x, nor weights; nor an x that is not made by ops that kernels are made of: an argument, what
// a call gives, or pieces side by side of which one is that or that are not equally wide.
#pragma once

#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module quantise_in_kernels(Module module, Report& report);

}  // namespace thunderc

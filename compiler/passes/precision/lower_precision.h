// SPDX-License-Identifier: Apache-2.0
// lower_precision: a training step in bf16, with f32 where bf16 would lose what counts.
//
// Requires the three functions that compose_step leaves, in f32; does nothing where the compute type is f32, but fail
// where the other options ask for bf16. What becomes of an op is a field of its definition (OpDef::precision):
//
//   products  read and give bf16 and add up in f32: linear layers, attention, embedding tables. Gradients of
//             parameters come in the gradients' own type
//   islands   stay f32: statistics of norms, softmax, the log-sum-exp, cross entropy, rotary tables, reductions
//   others    are bf16 where an operand is. A kernel computes in f32 whatever it reads, and rounds what it stores
//             (widen_kernel.h). An operand in f32, as a parameter or an input, is not rounded to be read: the op reads
//             the others widened, and its result is rounded
//
//     %y, %rstd = rms_norm(%x, %norm) : f32[2,8,16], f32[2,8]
//     %u = linear(%y, %w) : f32[2,8,24]
//     %p = softmax(%u) : f32[2,8,24]
//
// becomes
//
//     %y, %rstd = rms_norm(%x, %norm) : bf16[2,8,16], f32[2,8]
//     %u = linear(%y, %narrow_copy_w) : bf16[2,8,24]
//     %c = cast(%u) {dtype = f32} : f32[2,8,24]
//     %s = softmax(%c) : f32[2,8,24]
//     %p = cast(%s) {dtype = bf16} : bf16[2,8,24]
//
// With masters, the parameters are f32 and products read their narrow copies: arguments "narrow_copy.<parameter>" of
// type bf16, which `update` gives anew beside the parameters. Without masters the parameters themselves are bf16, and
// so are those that are frozen and that products alone read: no step is to be kept of them that bf16 could not hold. A
// product that no parameter reaches, as that of positions and frequencies, stays f32. Gradients of parameters are f32,
// or bf16, all the way from where they are made, but for what comes through attention: that gives its three gradients
// in bf16. So are the optimizer's states. Does not: choose by size or speed, or touch functions of a library.
//
// Of a model that is cut over ranks (`gathered`) a parameter is gathered in one type, whole: what is read in f32 beside
// products, as a weight with a penalty in the loss, has no narrow copy there. Its master is gathered, and rounded in
// the step where products read it: the bits are the narrow copy's.
#pragma once

#include <string>

#include "compiler/passes/pass_manager.h"

namespace thunderc {

struct PrecisionOptions {
    DType compute = DType::f32;   // of products
    bool master = true;           // parameters in f32, with narrow copies; else in `compute`
    DType gradient = DType::f32;  // of parameters
    DType optimizer = DType::f32;
    bool gathered = false;       // parameters are cut over ranks, and gathered to be read
    bool compute_given = false;  // by who compiles, rather than the export's; for messages
};

// The type of the export: that in which all its parameters of floating point are stored, where programs compute in it
// without being asked to; else f32.
DType stored_dtype(const Module& module);

Module lower_precision(Module module, const PrecisionOptions& options, Report& report);

}  // namespace thunderc

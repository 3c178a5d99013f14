// SPDX-License-Identifier: Apache-2.0
// The function of a layer, of its forward or its backward pass, is written anew with products of codes. A part of
// `quantise_products`, which says what becomes of it.
#pragma once

#include "compiler/passes/precision/quantise_products.h"
#include "compiler/passes/precision/scaled_tensors.h"

namespace thunderc {

// A function that one call or loop of an entry runs.
struct BlockCallOfStep {
    Module& module;
    Function& entry;
    Op& call;
};

// Whether it is of a backward pass.
bool is_of_backward_pass(const Function& f);

// Which layers it reads, before any is quantised: what a backward pass computes again is no other reading.
void note_reads(const BlockCallOfStep& of, ScaledTensors& tensors, const Fp8Options& options, Report& report);

// `of_step`: else of an evaluation, which notes no amaxes, and quantises the layers that the step does.
void quantise_block(const BlockCallOfStep& of, ScaledTensors& tensors, const Fp8Options& options, bool of_step,
                    Report& report);

}  // namespace thunderc

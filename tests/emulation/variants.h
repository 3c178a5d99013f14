// SPDX-License-Identifier: Apache-2.0
// How the operands of a case's kernels lie in memory: the same for what is printed and what is run.
#pragma once

#include <string>
#include <vector>

#include "codegen/kernels/cuda/kernels_cuda.h"
#include "tests/kernels/cases.h"

namespace thunderc::testing {

// Of primitives, or a kernel already.
inline Module kernels_of(const KernelCase& c) {
    return c.module.functions.size() > 1 ? c.module : fused(c);
}

struct Variant {
    std::string name;
    bool strided = false;       // rows apart
    bool aligned = true;        // to 16 bytes; otherwise to an element, and no more
    int multiprocessors = 132;  // of the GPU that grids are cut for: with few of them a thread has more of a row
};

inline std::vector<Variant> variants(const KernelCase& c) {
    std::vector<Variant> all = {{"dense"}, {"small", false, true, 1}};
    if (c.strided) {
        all.push_back({"strided", true, true});
        all.push_back({"unaligned", false, false, 1});
    }
    return all;
}

inline KernelLayouts layouts_of(const Variant& variant, const KernelDescription& kernel) {
    KernelLayouts layouts;
    if (!variant.strided) return layouts;
    for (const KernelOperand& operand : kernel.inputs) layouts.inputs.push_back(padded_strides(operand.type.dims));
    for (const KernelOperand& operand : kernel.outputs) layouts.outputs.push_back(padded_strides(operand.type.dims));
    return layouts;
}

inline KernelAlignment alignment_of(const Variant& variant, const KernelDescription& kernel) {
    KernelAlignment alignment;
    if (variant.aligned) return alignment;
    for (const KernelOperand& operand : kernel.inputs)
        alignment.inputs.push_back(static_cast<std::int64_t>(size_of(operand.type.dtype)));
    for (const KernelOperand& operand : kernel.outputs)
        alignment.outputs.push_back(static_cast<std::int64_t>(size_of(operand.type.dtype)));
    return alignment;
}

}  // namespace thunderc::testing

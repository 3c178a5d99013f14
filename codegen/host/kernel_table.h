// SPDX-License-Identifier: Apache-2.0
// The kernels that a program calls, in the order of first use: one for each pair of kernel function and operand layout,
// and one for all whose text is the same but for the name.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/kernels/cpu/kernels_cpu.h"
#include "codegen/kernels/cuda/kernels_cuda.h"
#include "compiler/ir/module.h"
#include "compiler/ir/structure.h"
#include "compiler/planned/planned_kernels.h"

namespace thunderc {

// What the program calls the sizes of a kernel's tensors. Both are read as long as these are.
KernelSizes kernel_sizes(const Symbols& symbols, const Function& kernel);

class KernelTable {
  public:
    // `symbols`: what sizes are called; with none they are numbers.
    explicit KernelTable(const Module& module, const Symbols* symbols = nullptr)
        : module_(&module), calls_(module), symbols_(symbols) {}

    // `inputs`, `outputs`: what the call hands over, as text. Of tensors that are called alike, x, x_2, x_3, the
    // kernel has each by the number that it has where the kernel is called first: one tensor, one name. Good until the
    // next use.
    const PrintedKernel& use(const Function& caller, const Op& fused, const std::vector<std::string>& inputs = {},
                             const std::vector<std::string>& outputs = {});
    // What a kernel that was used is called.
    const std::string& name(const Function& caller, const Op& fused) const;
    // What a kernel that was used computes: equations, in the names of its parameters, or in others.
    const std::vector<std::string>& formula(const Function& caller, const Op& fused) const;
    std::vector<std::string> formula(const Function& caller, const Op& fused, const std::vector<std::string>& inputs,
                                     const std::vector<std::string>& outputs) const;
    // What each replaces, in all the places that use it, stands in its comment.
    std::vector<PrintedKernel> all(bool naive = false) const;  // `naive`: as a naive program has them
    // The same kernels for GPUs.
    std::vector<PrintedCudaKernel> all_cuda(const CudaTuning& tuning) const;

  private:
    struct Entry {
        KernelDescription description;
        KernelSizes sizes;
        KernelLayouts layouts;
        PrintedKernel printed;
        KernelAlignment alignment;               // of the operands, in all the places that use it
        std::vector<std::string> nodes, scopes;  // that it replaces
    };
    struct Key {
        std::string kernel;
        KernelLayouts layouts;
        std::vector<bool> flags;                           // KernelOperand::is_flag
        std::vector<std::optional<std::size_t>> in_place;  // KernelOperand::same_as
        std::vector<std::optional<WithinResult>> within;
        bool operator==(const Key&) const = default;
    };
    Key key_of(const Function& caller, const Op& fused) const;
    const Entry& used(const Function& caller, const Op& fused) const;
    std::size_t find(const Function& caller, const Op& fused, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs);
    void align(Entry& entry, const Function& caller, const Op& fused) const;

    const Module* module_;
    CallSites calls_;
    const Symbols* symbols_;
    std::vector<Entry> entries_;
    std::map<std::string, std::vector<std::pair<Key, std::size_t>>> known_;  // by kernel
    std::map<std::string, std::size_t> by_text_;
    std::map<std::pair<std::string, Value>, std::size_t> of_call_;  // by caller and its first result
};

}  // namespace thunderc

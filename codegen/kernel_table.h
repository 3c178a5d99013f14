// The kernels that a program calls, in the order of first use: one for each pair of kernel function and operand layout,
// and one for all whose text is the same but for the name.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/kernels_cpu.h"
#include "compiler/ir/module.h"

namespace thunderc {

class KernelTable {
  public:
    explicit KernelTable(const Module& module) : module_(&module) {}

    // Good until the next use.
    const PrintedKernel& use(const Function& caller, const Op& fused);
    // What each replaces, in all the places that use it, stands in its comment.
    std::vector<PrintedKernel> all() const;

  private:
    struct Entry {
        KernelDescription description;
        KernelLayouts layouts;
        PrintedKernel printed;
        std::vector<std::string> nodes, scopes;  // that it replaces
    };
    std::size_t find(const Function& caller, const Op& fused);

    const Module* module_;
    std::vector<Entry> entries_;
    std::vector<std::pair<std::pair<std::string, KernelLayouts>, std::size_t>> known_;
    std::map<std::string, std::size_t> by_text_;
};

}  // namespace thunderc

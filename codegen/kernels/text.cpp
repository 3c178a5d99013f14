// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/text.h"

#include <fmt/format.h>

#include "compiler/kernels/costs.h"

namespace thunderc {

std::string timed_statement(const KernelDescription& kernel) {
    const double flops = work(kernel);
    return fmt::format("const Timed timed(\"{}\", {{.bytes = {}{}}}, stream);\n", kernel.name, bytes_moved(kernel),
                       flops > 0 ? fmt::format(", .flops = {:.0f}", flops) : "");
}

}  // namespace thunderc

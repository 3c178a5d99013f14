// SPDX-License-Identifier: Apache-2.0
// The formula of a kernel, for comments: "rstd = rsqrt(mean(x^2) + 1e-05)", "y = x * rstd * weight".
#pragma once

#include <string>
#include <vector>

#include "codegen/kernels/sizes.h"
#include "codegen/text.h"
#include "compiler/kernels/description.h"

namespace thunderc {

// An equation for each output, and then, each beginning with "where", what several of them share. An accumulated
// gradient is "dw += ...". What is read or stored as a transpose is xᵀ, a sum along C sum_C(x), one of all there is
// sum(x), the slope of silu silu'(x). input_names and output_names: of the kernel's parameters. `sizes`: what the axes
// are called. `reserved`: of PieceNames.
std::vector<std::string> kernel_formula(const KernelDescription& kernel, const std::vector<std::string>& input_names,
                                        const std::vector<std::string>& output_names, const KernelSizes& sizes = {},
                                        const UsedNames& reserved = {});

// Fills {0}, {1}, ... and {t} of an elementwise op's text; operands that bind less tightly than the text get
// parentheses.
struct ExpressionText {
    std::string text;
    int precedence = 4;  // 4: an atom or a call
};
std::string fill_template(std::string_view form, int precedence, const std::vector<ExpressionText>& operands,
                          std::string_view type);

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// What every op's samples are judged by. Each check returns what is wrong, or "".
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/op_def.h"

namespace thunderc::testing {

// The operands of a sample, seeded by its name; absent ones are empty tensors.
std::vector<Tensor> make_operands(const std::string& op_name, const Sample& sample);

std::string empty_fields(const OpDef& def);
std::string shape_problem(const OpDef& def, const Sample& sample);          // shape rule and reference agree
std::string text_problem(const OpDef& def, const Sample& sample);           // printed, parsed, printed: the same text
std::string gradient_problem(const OpDef& def, const Sample& sample);       // VJP against central differences
std::string decomposition_problem(const OpDef& def, const Sample& sample);  // against the reference
std::string in_place_problem(const OpDef& def, const Sample& sample);       // element i depends on element i alone
std::string commutative_problem(const OpDef& def, const Sample& sample);
std::string smoothness_problem(const OpDef& def);  // what says that it is smooth has the same slope on both sides

}  // namespace thunderc::testing

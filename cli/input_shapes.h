// SPDX-License-Identifier: Apache-2.0
// --input NAME=f32[2,3,64,64]: the type and the shape of an input whose file does not say them.
#pragma once

#include <string>

#include "compiler/options.h"

namespace thunderc {

// Adds what one --input says. Throws UsageError.
void add_input_shape(const std::string& text, CompileOptions& compile);
// As the command line has it.
std::string input_shape_text(const std::string& name, const CompileOptions::InputShape& input);

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// What frontends say of a model's inputs, however the model was read.
#pragma once

#include <string>

#include "compiler/frontend/shared/dimensions.h"
#include "compiler/ir/module.h"
#include "compiler/options.h"
#include "compiler/support/report.h"

namespace thunderc {

// A name as the IR prints values: letters, digits, dots and underscores.
std::string value_name(std::string name);

// What is known of an input before anything reads it. Warns of a batch that stands second; throws UserError where no
// tensor can have its shape.
ArgInfo input_info(const ShapedInput& input, const CompileOptions& options, Report& report);

// By their usual names, inputs get a role for packed data.
void describe_ids(Function& main);

// An input whose numbers no result depends on. torch.export takes two arguments that are one tensor for one: whatever
// reads the one reads the other in the graph, and the first is left over.
void warn_of_unused_inputs(const Function& main, Report& report);

// What passes would have recognised, and the graph has as one operator. A softmax is one in every graph.
void report_composites(const Function& main, Report& report);

}  // namespace thunderc

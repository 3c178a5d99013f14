// SPDX-License-Identifier: Apache-2.0
// Groups of parameters that are stepped by numbers of their own: --group.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "optim/rules/info.h"
#include "optim/segments.h"
#include "optim/step_scalars.h"
#include "train/options.h"

namespace thunder {

// "embed:lr=1e-3;bias|norm:weight_decay=0.05,beta1=0.8": several by semicolons. `reject(value, expected)` does not
// return.
std::vector<ParameterGroup> parse_groups(const std::string& text, const RuleInfo& rule,
                                         const std::function<void(const std::string&, const std::string&)>& reject);
// As it is written.
std::string groups_text(const std::vector<ParameterGroup>& groups);

// Of which group a parameter is: the first whose expression finds one of its names, of which a tied one has several;
// -1: of none.
int group_of(const std::vector<ParameterGroup>& groups, const ParameterSpec& parameter);

// How a parameter of this group is stepped: of a rule of matrices hidden ones as wholes, unless the group or the run
// says something else.
rules::Stepped stepped_as(const ProgramSpec& program, const Options& options, int group,
                          const ParameterSpec& parameter);

// The numbers of the rule in a step: those of all parameters, then those of each group. The learning rate goes by the
// step, all else by how many were taken: `skipped` of those before it were not.
std::vector<std::vector<double>> numbers_of_groups(const RuleInfo& rule, const Options& options, std::int64_t step,
                                                   std::int64_t skipped = 0);

// The parts of the parameter arena that the optimizer works on; neighbours of one kind are one part.
std::vector<ParameterSegment> segments_of(const ProgramSpec& program, const Options& options, int rank);

// Fails where nothing is in a group that trains.
void check_groups(const ProgramSpec& program, const Options& options);
// A line for each group: what is in it, and how it is stepped; and for each tensor whose other names it does not find.
std::vector<std::string> describe_groups(const ProgramSpec& program, const Options& options);

}  // namespace thunder

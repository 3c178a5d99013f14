// SPDX-License-Identifier: Apache-2.0
// Parameter or constant: what is decided for each initializer, and by what. Part of lift_parameters.
//
// In this order: --constant and --trainable; what the exporter says (kind parameter or constant); the name; the module
// scope and class of the consumers; the numbers and the structure (analysis/weight_numbers.h, read_structure.h). What
// none of these decides is asked for: one error for all of them.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/passes/recognise/lift_parameters.h"
#include "compiler/passes/recognise/parameter_sites.h"

namespace thunderc {

struct Decision {
    enum class Verdict : std::uint8_t { none, unused, parameter, constant } verdict = Verdict::none;
    std::string why;          // "weight of a product, by structure"; "" where a name or a scope says it
    std::vector<Site> sites;  // with scopes as they are below
};

struct Decisions {
    std::vector<Decision> arguments;  // by argument of main; none for inputs
    bool exporters_scopes = true;     // false: the scopes of main's ops were made up from structure
};

// Where no op of main has a scope, ops get those that read_structure makes up. Sites point into main.
Decisions decide_parameters(Module& module, const LiftOptions& options, Report& report);

}  // namespace thunderc

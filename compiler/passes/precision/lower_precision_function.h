// SPDX-License-Identifier: Apache-2.0
// A part of lower_precision: one function, op by op.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/passes/precision/gradient_paths.h"
#include "compiler/passes/precision/lower_precision.h"

namespace thunderc {

// How a function is lowered: by argument its type, and what the values are that come in.
struct Request {
    std::vector<DType> dtypes;
    Mask masters;        // by argument: a parameter in f32, whose narrow copy can be had
    Mask of_parameters;  // by argument: parameters reach it
    Mask gradients;      // by result: becomes a gradient of a parameter and nothing else
    std::size_t carried = 0;

    auto operator<=>(const Request&) const = default;
};

struct Lowered {
    Function function;
    Mask reads_master, reads_narrow_copy;  // by argument of the request: what the function takes in its place
    Mask of_parameters;                    // by result
};

// What the functions of a module share.
struct LoweringContext {
    const Module& module;
    const PrecisionOptions& options;
    Report& report;
    // The body or callee of this name, lowered as asked.
    std::function<const Lowered&(const std::string& name, const Request& request)> body;
};

Lowered lower_function(const Function& f, Request request, const LoweringContext& context);

}  // namespace thunderc

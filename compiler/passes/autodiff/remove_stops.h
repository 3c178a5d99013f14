// SPDX-License-Identifier: Apache-2.0
// remove_stops: a stop of the gradient becomes its operand, since what it is for is done.
//
//     %t = stop_gradient(%x)
//     %y = mul(%t, %w)           =>     %y = mul(%x, %w)
//
// Requires that nothing is differentiated any more. Behind it no function has a stop_gradient, so that fusion, plans
// and printers know nothing of it; the report says how many there were. Tests:
// tests/passes/autodiff/remove_stops_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module remove_stops(Module module, Report& report);

// Whether a function of the module stops a gradient: differences of the loss show what its gradient does not. So they
// do along a row that pads; of a table that is a parameter these are told by themselves, and do not count here.
bool stops_gradients(const Module& module);

struct PaddedRow {
    std::string table;  // framework name
    std::int64_t row = 0;
};
// Of parameters of the module's entry function, in the order of their lookups, each once.
std::vector<PaddedRow> padded_rows(const Module& module);

}  // namespace thunderc

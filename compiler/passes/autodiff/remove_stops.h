// remove_stops: a stop of the gradient becomes its operand, since what it is for is done.
//
//     %t = stop_gradient(%x)
//     %y = mul(%t, %w)           =>     %y = mul(%x, %w)
//
// Requires that nothing is differentiated any more. Behind it no function has a stop_gradient, so that fusion, plans
// and printers know nothing of it; the report says how many there were. Tests:
// tests/passes/autodiff/remove_stops_test.cpp
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module remove_stops(Module module, Report& report);

// Whether a function of the module stops a gradient, of a table's row that pads as well: differences of the loss show
// what its gradient does not.
bool stops_gradients(const Module& module);

}  // namespace thunderc

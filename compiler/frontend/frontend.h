// SPDX-License-Identifier: Apache-2.0
// Reads exported models: the one door between files and the IR.
#pragma once

#include <filesystem>

#include "compiler/ir/module.h"
#include "compiler/options.h"
#include "compiler/support/report.h"

namespace thunderc {

// Reads a model file of any kind that thunderc knows; the kind is told from the bytes, not from the name.
//
// The module has one function, `main`, of imported and primitive ops with static shapes: --batch, --seq and --dim bind
// what was dynamic. Its arguments are the graph's inputs, then every initializer that may be a parameter
// (`lift_parameters` decides: kind parameter or constant where the exporter says which, kind value where it does not).
// Their data is read only when asked for.
//
// Throws UserError: no such file, not a model, truncated, an operator or opset that is not supported, a dimension left
// unbound, shapes that do not match. Warnings (f16 computed in f32, …) go to the report.
Module import_model(const std::filesystem::path& path, const CompileOptions& options, Report& report);
Module import_model(const std::filesystem::path& path, const CompileOptions& options);

// Writes the model again without its weights, for the report of a bug: float initializers of more than 1 KiB refer to
// an external file that is not there, as in an export whose weights were left out; in a .pt2 file the weights are
// empty. Everything else is kept.
void write_graph(const std::filesystem::path& model, const std::filesystem::path& out);

}  // namespace thunderc

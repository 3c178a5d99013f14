// SPDX-License-Identifier: Apache-2.0
// The ONNX frontend's entry. Protobuf is known in this folder only, and not in this header.
#pragma once

#include <filesystem>

#include "compiler/ir/module.h"
#include "compiler/options.h"
#include "compiler/support/report.h"

namespace thunderc {

// See import_model. Opsets 13 to 28 of the default domain; functions of the model and function bodies of ONNX's own
// schemas are expanded where there is no importer for the operator.
Module import_onnx(const std::filesystem::path& path, const CompileOptions& options, Report& report);

// See write_graph.
void write_onnx_graph(const std::filesystem::path& model, const std::filesystem::path& out);

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "compiler/frontend/shared/zip_archive.h"
#include "compiler/ir/module.h"
#include "compiler/options.h"
#include "compiler/support/report.h"

namespace thunderc {

// Whether an archive is one of torch.jit.save.
bool is_torchscript(const ZipArchive& archive);

// Throws UserError: damaged, code that depends on data, an operator that is not supported, inputs of no known shape.
Module import_torchscript(std::shared_ptr<const ZipArchive> archive, const CompileOptions& options, Report& report);

// Writes the archive again without weights.
void write_torchscript_graph(const ZipArchive& archive, const std::filesystem::path& out);

}  // namespace thunderc

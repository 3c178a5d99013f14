// SPDX-License-Identifier: Apache-2.0
// Reads what torch.export.save wrote.
#pragma once

#include <filesystem>
#include <memory>

#include "compiler/frontend/shared/zip_archive.h"
#include "compiler/ir/module.h"
#include "compiler/options.h"
#include "compiler/support/report.h"

namespace thunderc {

// Whether an archive is one of torch.export.save, of the form that import_pt2 reads.
bool is_pt2(const ZipArchive& archive);

// Throws UserError: not a program of a schema that is known, damaged, an operator that is not supported, a dimension
// left unbound or outside of what the model was exported for, shapes that do not match.
Module import_pt2(std::shared_ptr<const ZipArchive> archive, const CompileOptions& options, Report& report);

// Writes the archive again without weights, and without the inputs that it was exported with.
void write_pt2_graph(const ZipArchive& archive, const std::filesystem::path& out);

}  // namespace thunderc

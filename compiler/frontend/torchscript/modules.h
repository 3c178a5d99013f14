// SPDX-License-Identifier: Apache-2.0
// The modules of an archive and what they hold, from its pickle and its classes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/frontend/aten/named_tensors.h"
#include "compiler/frontend/torchscript/item.h"
#include "compiler/frontend/torchscript/library.h"
#include "compiler/frontend/torchscript/pickle.h"

namespace thunderc::torchscript {

struct Modules {
    std::vector<std::unique_ptr<ModuleObject>> all;  // the root first, each before those within it
    std::vector<aten::NamedTensor> tensors;          // parameters, buffers and other attributes
    const ModuleObject& root() const { return *all.front(); }
};

// Tensors are known to the import as "self.model.norm.weight". Throws UserError: the root is no module, a class has no
// code, modules within one another without an end.
Modules modules_of(const ZipArchive& archive, const Pickle& pickle, Library& library);

}  // namespace thunderc::torchscript

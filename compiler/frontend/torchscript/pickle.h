// SPDX-License-Identifier: Apache-2.0
// Pickles of archives, read as programs read theirs: as data.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/torch_pickle.h"
#include "compiler/frontend/aten/stored_tensor.h"
#include "compiler/frontend/shared/zip_archive.h"

namespace thunderc::torchscript {

using Pickled = thunder::PickledValue;

struct Pickle {
    thunder::TorchPickle read;
    std::string storages;  // where bytes of tensors are entries: a folder with its slash

    const Pickled& root() const { return read.at(read.root); }
    const Pickled& at(Pickled::Index index) const { return read.at(index); }
    // Keys and values in turns, of a dictionary or of an object's attributes.
    const std::vector<Pickled::Index>& entries(const Pickled& of) const;
    // By a key that is text; nullptr where there is none.
    const Pickled* member(const Pickled& of, const std::string& key) const;
    // Of a value that is a tensor: where its elements lie.
    aten::StoredTensor tensor(const Pickled& of) const;
};

// Reads an entry of an archive. Throws UserError: what thunder::read_torch_pickle refuses, larger than any model's.
Pickle read_pickle(const ZipArchive& archive, const std::string& entry, const std::string& storages);

}  // namespace thunderc::torchscript

// SPDX-License-Identifier: Apache-2.0
// Tensors of an archive, whose bytes are read when they are asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "compiler/frontend/aten/types.h"
#include "compiler/frontend/shared/zip_archive.h"
#include "compiler/ir/module.h"
#include "compiler/ir/tensor.h"

namespace thunderc::aten {

// Where a tensor's elements lie.
struct StoredTensor {
    std::string name;   // for messages
    std::string entry;  // of the archive: a storage, which several tensors may share
    ScalarType type = ScalarType::unknown;
    Dims dims, strides;
    std::int64_t offset = 0;  // elements, into the storage
};

// Complex numbers as pairs of real ones, in one more dimension behind the others.
StoredTensor with_pairs(StoredTensor tensor);
// Throws UserError: of a type that is not ours, of a shape that no tensor has.
Type type_of(const StoredTensor& tensor);
// The elements in order, f32 or integers, not read yet; `missing` says why there are none. Throws UserError where they
// are beyond the storage.
std::shared_ptr<const WeightSource> source_of(const std::shared_ptr<const ZipArchive>& archive,
                                              const StoredTensor& tensor);
// All elements. Throws UserError where there are none.
Tensor numbers_of(const std::shared_ptr<const ZipArchive>& archive, const StoredTensor& tensor);
// Two names of one tensor are one parameter: the storage that they share, and where it lies in it. "" where the
// archive has no numbers, and nothing says what is one.
std::string place_of(const ZipArchive& archive, const StoredTensor& tensor);
// Whether two have some of the same elements.
bool overlap(const StoredTensor& a, const StoredTensor& b);

}  // namespace thunderc::aten

// SPDX-License-Identifier: Apache-2.0
// The tensors of an archive: parameters, buffers and constants, whose bytes are read when they are asked for.
#pragma once

#include <memory>
#include <string>

#include "compiler/frontend/pt2/program.h"
#include "compiler/frontend/shared/zip_archive.h"
#include "compiler/ir/module.h"
#include "compiler/ir/tensor.h"

namespace thunderc::pt2_frontend {

class Weights {
  public:
    Weights(std::shared_ptr<const ZipArchive> archive, std::shared_ptr<const Program> program)
        : archive_(std::move(archive)), program_(std::move(program)) {}

    // Of a parameter, a buffer or a constant by its name in the model; complex numbers are pairs in a last dimension.
    // Throws UserError: not in the archive, of a type that is not ours, pickled, beyond its storage.
    Type type(const std::string& name) const;
    // The elements in order, f32 or integers, not read yet; `missing` says why there are none.
    std::shared_ptr<const WeightSource> source(const std::string& name) const;
    // All elements. Throws UserError where there are none.
    Tensor tensor(const std::string& name) const;
    // Two names of one tensor are one parameter: the storage that they share, and where it lies in it. "" where the
    // archive has no numbers, and nothing says what is one.
    std::string place(const std::string& name) const;
    // Another parameter that has some of the same elements, in other places or of another shape; "" where there is
    // none.
    std::string shares_storage(const std::string& name) const;
    bool overlap(const std::string& a, const std::string& b) const;  // of two of these some numbers are the same

  private:
    const Payload& payload(const std::string& name) const;

    std::shared_ptr<const ZipArchive> archive_;
    std::shared_ptr<const Program> program_;
};

}  // namespace thunderc::pt2_frontend

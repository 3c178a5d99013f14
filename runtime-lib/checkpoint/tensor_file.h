// SPDX-License-Identifier: Apache-2.0
// A file of named tensors, of whichever format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/file.h"

namespace thunder {

// A tensor as it lies in a file.
struct StoredTensor {
    std::string name;
    std::string dtype;  // as safetensors spells it: F32, BF16, F16, I64, I32, BOOL, …
    std::vector<std::int64_t> shape;
    std::span<const std::byte> bytes;

    std::size_t elements() const;
    std::string describe() const;  // "F32 [64, 32]"
};

class TensorFile {
  public:
    // Maps the file: fails where it cannot be read.
    explicit TensorFile(const std::string& path) : file_(path) {}
    TensorFile(TensorFile&&) = default;
    TensorFile& operator=(TensorFile&&) = default;
    virtual ~TensorFile() = default;

    const std::string& path() const { return file_.path(); }
    std::span<const StoredTensor> tensors() const { return tensors_; }  // by name
    const StoredTensor* find(std::string_view name) const;              // null where there is none
    std::vector<std::string> names() const;

    // The tensor will not be read again soon.
    void release(const StoredTensor& tensor) const;

  protected:
    void sort_by_name();

    MappedFile file_;
    std::vector<StoredTensor> tensors_;
};

// Elements [first, first + count) of a tensor, flattened, which are all of `tensor` of `file`.
struct TensorPart {
    const TensorFile* file;
    const StoredTensor* tensor;
    std::int64_t first, count;
};

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Tensors in files, whoever wrote them: a checkpoint's folder with its manifest, one safetensors file, as earlier
// programs wrote checkpoints and --save writes parameters, or a folder of Hugging Face.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace thunder {

class StoredCheckpoint {
  public:
    using Part = TensorPart;
    struct Tensor {
        std::string name, dtype;
        std::vector<std::int64_t> shape;
        std::vector<Part> parts;  // one behind the other, without holes

        std::int64_t elements() const;
        std::string describe() const;  // "F32 [64, 32]"
    };

    // Reads headers alone. Fails as damaged where a file is missing, was cut short, or is not what the manifest says.
    explicit StoredCheckpoint(const std::string& path);

    const std::string& path() const { return path_; }
    bool is_sharded() const { return sharded_; }  // it has a manifest
    const std::map<std::string, std::string>& metadata() const { return metadata_; }
    std::string entry(const std::string& key) const;              // of the metadata; "" where there is none
    std::span<const Tensor> tensors() const { return tensors_; }  // by name
    const Tensor* find(std::string_view name) const;              // null where there is none
    std::span<const std::unique_ptr<SafetensorsFile>> files() const { return files_; }
    // Whether all bytes were written with a checksum: what was not cannot be verified.
    bool has_checksum() const;
    // Reads every `of`-th file, beginning with the `first`: whether it is as it was written. Fails as damaged where
    // not.
    void verify(const std::function<void()>& on_progress, std::size_t first = 0, std::size_t of = 1) const;

  private:
    void open_manifest();
    void open_index(const std::string& index);
    void add_all(const SafetensorsFile& file);

    std::string path_;
    bool sharded_ = false;
    std::map<std::string, std::string> metadata_;
    std::vector<std::unique_ptr<SafetensorsFile>> files_;
    std::vector<Tensor> tensors_;
};

// Elements [first, first + count) of a tensor, converted, as read_elements of one that lies in one file.
bool read_elements(const StoredCheckpoint::Tensor& tensor, DType dtype, std::size_t first, std::size_t count,
                   void* out);

// A tensor of a run's optimizer, not of its model.
bool is_optimizer_state(std::string_view name);

}  // namespace thunder

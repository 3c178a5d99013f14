// SPDX-License-Identifier: Apache-2.0
// ONNX tensors: their types, their data inside the file or beside it, read only when asked for.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "compiler/ir/module.h"
#include "compiler/ir/tensor.h"

namespace thunderc::onnx_frontend {

// What an element type becomes: f16, bf16 and f64 are computed in f32, small integers widened. nullopt: no type of ours
// (strings, complex).
std::optional<DType> dtype_of(std::int32_t data_type);
std::size_t stored_size(std::int32_t data_type);  // bytes of an element in raw data, where dtype_of knows the type
std::optional<DType> stored_float(std::int32_t data_type);  // what the file holds, of floating point; read as f32
std::string data_type_name(std::int32_t data_type);         // ONNX's own name: "FLOAT16"

// Reads tensors of one model. Copies share the model, so sources outlive the import.
class TensorReader {
  public:
    TensorReader(std::shared_ptr<const onnx::ModelProto> model, std::filesystem::path folder)
        : model_(std::move(model)), folder_(std::move(folder)) {}

    // The IR's type. Throws UserError where there is none.
    Type type(const onnx::TensorProto& tensor) const;
    // All elements. Throws UserError where external data is missing or too short.
    Tensor tensor(const onnx::TensorProto& tensor) const;
    // The elements as raw bytes of `type(tensor)`, not read yet.
    std::shared_ptr<const WeightSource> source(const onnx::TensorProto& tensor) const;

  private:
    std::shared_ptr<const onnx::ModelProto> model_;
    std::filesystem::path folder_;
    mutable std::map<std::string, bool> exists_;  // external files, by location
};

}  // namespace thunderc::onnx_frontend

// SPDX-License-Identifier: Apache-2.0
// Reads the protobuf file itself, and tells what is wrong with one that cannot be read.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <memory>

namespace thunderc::onnx_frontend {

// Throws UserError: not an ONNX file, truncated. External data is not touched.
std::shared_ptr<onnx::ModelProto> read_model(const std::filesystem::path& path);

}  // namespace thunderc::onnx_frontend

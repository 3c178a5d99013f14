// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace thunderc {

// What to do where a file is no model that can be read.
inline constexpr const char* export_help =
    "export the model: torch.export.save(torch.export.export(model, args), \"model.pt2\"), or torch.onnx.export(model, "
    "args, \"model.onnx\", dynamo=True, optimize=False)";

}  // namespace thunderc

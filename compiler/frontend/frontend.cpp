// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/frontend.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <string>
#include <system_error>

#include "compiler/frontend/onnx/onnx_frontend.h"
#include "compiler/support/error.h"

namespace thunderc {
Module import_model(const std::filesystem::path& path, const CompileOptions& options, Report& report) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
        fail(fmt::format("{} cannot be read: {}", path.string(), error.message()),
             "check the path and its permissions");
    if (!std::filesystem::exists(status))
        fail(fmt::format("there is no file {}", path.string()), "give the path of an exported model, e.g. model.onnx");
    if (std::filesystem::is_directory(status))
        fail(fmt::format("{} is a folder, not a model file", path.string()),
             "give the path of the exported model inside it, e.g. model.onnx");
    if (!std::filesystem::is_regular_file(status))
        fail(fmt::format("{} is a device or a pipe, not a file", path.string()),
             "write the model into a file, and give its path");
    std::ifstream file(path, std::ios::binary);
    if (!file) fail(fmt::format("{} cannot be read", path.string()), "check the file's permissions");
    std::array<char, 4> magic{};
    file.read(magic.data(), magic.size());
    if (file.gcount() == 4 && magic == std::array<char, 4>{'P', 'K', '\x03', '\x04'})
        fail(fmt::format("{} is a zip archive, as TorchScript and torch.export write; only ONNX files are read",
                         path.string()),
             "export the model with torch.onnx.export(model, args, \"model.onnx\", dynamo=True)");
    return import_onnx(path, options, report);
}

Module import_model(const std::filesystem::path& path, const CompileOptions& options) {
    Report report;
    return import_model(path, options, report);
}

void write_graph(const std::filesystem::path& model, const std::filesystem::path& out) {
    write_onnx_graph(model, out);
}

}  // namespace thunderc

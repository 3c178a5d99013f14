// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/frontend.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "compiler/frontend/file_kinds.h"
#include "compiler/frontend/onnx/onnx_frontend.h"
#include "compiler/frontend/pt2/pt2_frontend.h"
#include "compiler/frontend/torchscript/torchscript_frontend.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Graphs say what their inputs are.
void require_no_shapes(const CompileOptions& options) {
    if (options.inputs.empty()) return;
    Diagnostic d;
    d.message = fmt::format("--input {}: the model says itself which types and shapes its inputs have",
                            options.inputs.begin()->first);
    d.help = "leave --input out; --batch, --seq and --dim bind dimensions that are dynamic";
    throw UsageError(std::move(d));
}

}  // namespace

Module import_model(const std::filesystem::path& path, const CompileOptions& options, Report& report) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
        fail(fmt::format("{} cannot be read: {}", path.string(), error.message()),
             "check the path and its permissions");
    if (!std::filesystem::exists(status))
        fail(fmt::format("there is no file {}", path.string()),
             "give the path of an exported model, e.g. model.pt2 or model.onnx");
    if (std::filesystem::is_directory(status)) {
        if (std::filesystem::exists(path / "config.json"))
            fail(fmt::format("{} is a folder of Hugging Face: weights and a configuration, and no graph of a model",
                             path.string()),
                 fmt::format("export the model: python -m thunderc.export {} -o model.pt2 (docs/python.md)",
                             path.string()));
        fail(fmt::format("{} is a folder, not a model file", path.string()),
             "give the path of the exported model inside it, e.g. model.pt2 or model.onnx");
    }
    if (!std::filesystem::is_regular_file(status))
        fail(fmt::format("{} is a device or a pipe, not a file", path.string()),
             "write the model into a file, and give its path");
    switch (const FileKind kind = kind_of_file(path)) {
        case FileKind::zip: {
            auto archive = std::make_shared<const ZipArchive>(path);
            if (is_torchscript(*archive)) return import_torchscript(std::move(archive), options, report);
            require_no_shapes(options);
            if (is_pt2(*archive)) return import_pt2(std::move(archive), options, report);
            refuse_archive(*archive);
        }
        case FileKind::onnx: break;
        default: refuse_file(path, kind);
    }
    require_no_shapes(options);
    return import_onnx(path, options, report);
}

Module import_model(const std::filesystem::path& path, const CompileOptions& options) {
    Report report;
    return import_model(path, options, report);
}

void write_graph(const std::filesystem::path& model, const std::filesystem::path& out) {
    if (kind_of_file(model) == FileKind::zip) {
        const ZipArchive archive(model);
        return is_torchscript(archive) ? write_torchscript_graph(archive, out) : write_pt2_graph(archive, out);
    }
    write_onnx_graph(model, out);
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/file_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/frontend/shared/export_help.h"
#include "compiler/frontend/torchscript/pickle.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Weights without a graph.
[[noreturn]] void refuse_weights(const std::filesystem::path& path, std::string_view what, bool init) {
    fail(fmt::format("{} {}: weights, and no graph of a model", path.string(), what),
         fmt::format("{}{}", export_help, init ? "; its program begins with such weights by --init" : ""));
}

// Of torch.save: a dictionary of tensors, or a model's objects, whose classes are the author's.
[[noreturn]] void refuse_saved(const ZipArchive& archive, const std::string& pickle) {
    const std::string path = archive.path().string();
    const std::string root = pickle.substr(0, pickle.size() - std::string_view("data.pkl").size());
    std::string other;
    std::size_t tensors = 0;
    try {
        const torchscript::Pickle read = torchscript::read_pickle(archive, pickle, root + "data/");
        for (const torchscript::Pickled& value : read.read.values)
            if (value.kind == torchscript::Pickled::Kind::tensor) ++tensors;
    } catch (const UserError& error) {
        other = error.diagnostic().message;
    }
    if (other.empty() && tensors > 0)
        fail(fmt::format("{} was written by torch.save: a state dict of {} tensor{}, and no graph of a model", path,
                         tensors, tensors == 1 ? "" : "s"),
             fmt::format("{}; its program begins with such weights by --init weights.pt", export_help));
    fail(fmt::format("{} was written by torch.save: objects of a model, whose code is not in it{}", path,
                     other.empty() ? "" : fmt::format(" ({})", other)),
         fmt::format("load it where its code is, and {}", export_help));
}

bool has_entry(const ZipArchive& archive, std::string_view part) {
    return std::any_of(archive.entries().begin(), archive.entries().end(),
                       [&](const auto& entry) { return entry.first.find(part) != std::string::npos; });
}

}  // namespace

FileKind kind_of_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail(fmt::format("{} cannot be read", path.string()), "check the file's permissions");
    std::array<char, 24> bytes{};
    file.read(bytes.data(), bytes.size());
    const std::string_view begin(bytes.data(), static_cast<std::size_t>(file.gcount()));
    if (begin.starts_with("PK\x03\x04") || begin.starts_with("PK\x05\x06")) return FileKind::zip;
    if (begin.starts_with("GGUF")) return FileKind::gguf;
    if (begin.starts_with("\x89HDF")) return FileKind::hdf5;
    // What a download leaves in place of a file.
    if (begin.starts_with("version https://git-lfs")) return FileKind::lfs_pointer;
    if (begin.starts_with("<!DOCTYPE html") || begin.starts_with("<!doctype html") || begin.starts_with("<html"))
        return FileKind::web_page;
    // A pickle of protocol 2 or later begins with its number; before torch 1.6 a whole file was one.
    if (begin.size() > 2 && begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5) return FileKind::pickle;
    if (begin.size() > 9 && begin[8] == '{') {  // the length of a header of JSON
        std::uint64_t length = 0;
        std::memcpy(&length, begin.data(), 8);
        if (length < (std::uint64_t{1} << 32)) return FileKind::safetensors;
    }
    return FileKind::onnx;
}

void refuse_file(const std::filesystem::path& path, FileKind kind) {
    switch (kind) {
        case FileKind::safetensors: refuse_weights(path, "is a safetensors file", true);
        case FileKind::gguf: refuse_weights(path, "is a GGUF file, as llama.cpp reads", false);
        case FileKind::hdf5: refuse_weights(path, "is an HDF5 file, as Keras writes", false);
        case FileKind::pickle: refuse_weights(path, "is a pickle, as torch.save wrote before PyTorch 1.6", false);
        case FileKind::lfs_pointer:
            fail(fmt::format("{} is a pointer of Git LFS, in place of the file itself", path.string()),
                 "fetch the file: git lfs pull");
        case FileKind::web_page:
            fail(fmt::format("{} is a web page, in place of the file itself", path.string()),
                 "download it again: what the server sent may say why it did not");
        case FileKind::onnx:
        case FileKind::zip: break;
    }
    throw InternalError("a file that is read is refused");
}

void refuse_archive(const ZipArchive& archive) {
    const std::string path = archive.path().string();
    if (archive.find("serialized_exported_program.json") != nullptr) {
        // PyTorch itself loads no file of another major version of its schema, which it wrote until 2.5.
        const std::string version = archive.find("version") != nullptr ? archive.text("version") : "";
        fail(fmt::format("{} is a program of torch.export in the form that PyTorch saved before 2.8, which is not "
                         "supported",
                         path),
             version.starts_with("8.") ? "load and save it with PyTorch 2.13: "
                                         "torch.export.save(torch.export.load(\"model.pt2\"), \"again.pt2\")"
                                       : "export the model again with PyTorch 2.9 or later, which does not load this "
                                         "file either");
    }
    if (has_entry(archive, "data/aotinductor/"))
        fail(fmt::format("{} is a package of AOTInductor, which has compiled code and no graph", path),
             "save the program itself: torch.export.save(program, \"model.pt2\")");
    if (has_entry(archive, "/models/"))
        fail(fmt::format("{} has no model of the name \"model\"", path),
             "save the program by itself: torch.export.save(program, \"model.pt2\")");
    if (const std::optional<std::string> pickle = archive.only_with_end("data.pkl")) refuse_saved(archive, *pickle);
    fail(fmt::format("{} is a zip archive, and none of torch.export.save or torch.jit.save", path), export_help);
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// Archives as torch.export.save writes them, changed for tests.
#pragma once

#include <unistd.h>
#include <zip.h>

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "compiler/frontend/shared/zip_archive.h"
#include "tests/frontend/fixture.h"

namespace thunderc {

// A file of its own among the temporary ones, which goes with it.
class TemporaryFile {
  public:
    explicit TemporaryFile(const std::string& name)
        : path_(std::filesystem::temp_directory_path() / (std::to_string(getpid()) + "_" + name)) {}
    ~TemporaryFile() { std::filesystem::remove(path_); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

// The numbers that an argument of main has in the archive: f32.
inline Tensor stored_numbers(const ArgInfo& info, const Type& type) {
    const std::vector<std::byte> bytes = info.sources.front()->read();
    Tensor out(type);
    for (std::size_t k = 0; k < out.f.size(); ++k) {
        float v = 0;
        std::memcpy(&v, bytes.data() + 4 * k, 4);
        out.f[k] = static_cast<double>(v);
    }
    return out;
}

using Entries = std::map<std::string, std::string>;  // name -> bytes

inline Entries entries_of(const std::filesystem::path& path) {
    const ZipArchive archive(path);
    Entries out;
    for (const auto& [name, entry] : archive.entries()) out[name] = archive.text(name);
    return out;
}

inline void write_zip(const std::filesystem::path& path, const Entries& entries, bool deflated = true) {
    zipFile file = zipOpen64(path.c_str(), APPEND_STATUS_CREATE);
    for (const auto& [name, bytes] : entries) {
        zip_fileinfo info{};
        zipOpenNewFileInZip(file, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, deflated ? Z_DEFLATED : 0,
                            deflated ? Z_DEFAULT_COMPRESSION : 0);
        zipWriteInFileInZip(file, bytes.data(), static_cast<unsigned>(bytes.size()));
        zipCloseFileInZip(file);
    }
    zipClose(file, nullptr);
}

inline constexpr const char* model_entry = "model/models/model.json";

// A fixture with its program changed.
inline void write_changed(const std::filesystem::path& to, const std::string& file,
                          const std::function<void(nlohmann::json&)>& change) {
    Entries entries = entries_of(fixture(file));
    nlohmann::json program = nlohmann::json::parse(entries.at(model_entry));
    change(program);
    entries[model_entry] = program.dump();
    write_zip(to, entries);
}

}  // namespace thunderc

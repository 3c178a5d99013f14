// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/model_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "compiler/frontend/shared/export_help.h"
#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {
namespace {

// A ModelProto's fields on the wire, as far as they tell one file from another.
constexpr std::uint64_t field_ir_version = 1;
constexpr std::uint64_t field_graph = 7;
constexpr std::uint64_t last_field = 25;

struct Wire {
    bool plausible = false;                // starts as a ModelProto does
    std::optional<std::uint64_t> missing;  // bytes that the last field wants past the end of the file
};

std::optional<std::uint64_t> read_varint(std::istream& in) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        const int byte = in.get();
        if (byte < 0) return std::nullopt;
        value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) return value;
    }
    return std::nullopt;
}

// Walks the outermost fields. Only their lengths are read.
Wire walk(const std::filesystem::path& path) {
    Wire wire;
    std::ifstream in(path, std::ios::binary);
    const std::uint64_t size = std::filesystem::file_size(path);
    bool first = true;
    while (true) {
        const auto position = static_cast<std::uint64_t>(in.tellg());
        if (position >= size) return wire;
        const std::optional<std::uint64_t> tag = read_varint(in);
        if (!tag) {
            if (wire.plausible) wire.missing = 1;
            return wire;
        }
        const std::uint64_t field = *tag >> 3;
        const std::uint64_t kind = *tag & 7;
        if (field == 0 || field > last_field || (kind != 0 && kind != 2)) {
            wire.plausible = false;
            return wire;
        }
        if (first) wire.plausible = (field == field_ir_version && kind == 0) || (field == field_graph && kind == 2);
        first = false;
        const std::optional<std::uint64_t> value = read_varint(in);
        if (!value) {
            if (wire.plausible) wire.missing = 1;
            return wire;
        }
        if (kind == 0) continue;
        const auto here = static_cast<std::uint64_t>(in.tellg());
        if (*value > size - here) {
            wire.missing = *value - (size - here);
            return wire;
        }
        in.seekg(static_cast<std::streamoff>(*value), std::ios::cur);
    }
}

// The parser's own complaints would go to stderr; we say what is wrong ourselves.
void silent(google::protobuf::LogLevel, const char*, int, const std::string&) {}

}  // namespace

std::shared_ptr<onnx::ModelProto> read_model(const std::filesystem::path& path) {
    const std::uint64_t size = std::filesystem::file_size(path);
    if (size == 0) fail(fmt::format("{} is empty", path.string()), "export the model again");
    auto model = std::make_shared<onnx::ModelProto>();
    google::protobuf::LogHandler* before = google::protobuf::SetLogHandler(&silent);
    bool parsed = false;
    if (const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC); descriptor >= 0) {
        google::protobuf::io::FileInputStream stream(descriptor, 1 << 20);
        stream.SetCloseOnDelete(true);
        google::protobuf::io::CodedInputStream coded(&stream);
        coded.SetTotalBytesLimit(std::numeric_limits<int>::max());
        parsed = model->ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
    }
    google::protobuf::SetLogHandler(before);
    if (parsed && model->has_graph() && model->ir_version() > 0) return model;
    const Wire wire = walk(path);
    if (wire.plausible && wire.missing)
        fail(fmt::format("{} is truncated: at least {} bytes are missing at its end", path.string(), *wire.missing),
             "copy or export the model again");
    if (!parsed && wire.plausible && size > static_cast<std::uint64_t>(std::numeric_limits<int>::max()))
        fail(fmt::format("{} has {} bytes; protobuf cannot hold more than 2 GB", path.string(), size),
             "export with external_data=True, which writes the weights beside the graph");
    if (wire.plausible)
        fail(fmt::format("{} is damaged: it starts as an ONNX file and cannot be read to its end", path.string()),
             "copy or export the model again");
    fail(fmt::format("{} is no model: neither an ONNX file nor an archive of torch.export.save or torch.jit.save",
                     path.string()),
         export_help);
}

}  // namespace thunderc::onnx_frontend

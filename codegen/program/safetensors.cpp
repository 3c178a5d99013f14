// SPDX-License-Identifier: Apache-2.0
#include "codegen/program/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include "codegen/host/parameters.h"
#include "compiler/interpreter/constant_value.h"
#include "compiler/ir/print.h"
#include "compiler/ir/structure.h"
#include "compiler/support/error.h"
#include "compiler/support/interrupt.h"

namespace thunderc {
namespace {

template <typename T>
void append(std::vector<std::byte>& out, T value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), p, p + sizeof value);
}

std::vector<std::byte> encode(const Tensor& tensor) {
    std::vector<std::byte> out;
    out.reserve(tensor.type.bytes());
    for (std::int64_t k = 0; k < tensor.size(); ++k) {
        switch (tensor.type.dtype) {
            case DType::f32: append(out, static_cast<float>(tensor.at(k))); break;
            case DType::f64: append(out, tensor.at(k)); break;
            case DType::i64: append(out, tensor.i[static_cast<std::size_t>(k)]); break;
            case DType::i32: append(out, static_cast<std::int32_t>(tensor.i[static_cast<std::size_t>(k)])); break;
            case DType::u8: append(out, static_cast<std::uint8_t>(tensor.i[static_cast<std::size_t>(k)])); break;
            case DType::boolean:
                append(out, static_cast<std::uint8_t>(tensor.i[static_cast<std::size_t>(k)] != 0));
                break;
            case DType::f16:
            case DType::bf16: append(out, half_bits(tensor.type.dtype, tensor.at(k))); break;
            case DType::e4m3:
            case DType::e5m2:
            case DType::e8m0: throw InternalError("no value of a module is quantised");
        }
    }
    return out;
}

// Stored bytes of any float type as f32.
std::vector<std::byte> to_f32(std::vector<std::byte> stored, DType dtype) {
    if (dtype == DType::f32) return stored;
    const std::size_t n = stored.size() / size_of(dtype);
    std::vector<std::byte> out(n * 4);
    for (std::size_t k = 0; k < n; ++k) {
        float value = 0;
        if (dtype == DType::f64) {
            double d = 0;
            std::memcpy(&d, stored.data() + k * 8, 8);
            value = static_cast<float>(d);
        } else {
            std::uint16_t h = 0;
            std::memcpy(&h, stored.data() + k * 2, 2);
            value = static_cast<float>(half_value(dtype, h));
        }
        std::memcpy(out.data() + k * 4, &value, 4);
    }
    return out;
}

std::vector<std::byte> transposed(const std::vector<std::byte>& stored, std::int64_t rows, std::int64_t columns) {
    std::vector<std::byte> out(stored.size());
    const auto* from = reinterpret_cast<const std::uint32_t*>(stored.data());
    auto* to = reinterpret_cast<std::uint32_t*>(out.data());
    constexpr std::int64_t tile = 32;  // so that both sides stay in the cache
    for (std::int64_t r0 = 0; r0 < rows; r0 += tile)
        for (std::int64_t c0 = 0; c0 < columns; c0 += tile)
            for (std::int64_t r = r0; r < std::min(r0 + tile, rows); ++r)
                for (std::int64_t c = c0; c < std::min(c0 + tile, columns); ++c)
                    to[c * rows + r] = from[r * columns + c];
    return out;
}

// A table that an expression gives is written out when compiling: it has to fit into memory, as fp64. Data of the model
// does.
void check_table(const Op& op, const Type& type) {
    constexpr std::int64_t most_elements = std::int64_t{1} << 26;
    if (type.elements() <= most_elements || op.attributes.constant("value")->kind == ConstExpr::Kind::dense) return;
    Diagnostic d;
    d.message = fmt::format("the program would need a constant table of {} elements", type.elements());
    if (!op.provenance.nodes.empty()) d.node = op.provenance.nodes.back();
    if (!op.provenance.node_ops.empty()) d.op = op.provenance.node_ops.back();
    d.module = op.provenance.scope;
    d.expected = fmt::format("no more than {}", most_elements);
    d.actual = to_string(type);
    d.help = "make the table an input of the model, or choose a smaller --batch and --seq";
    throw UserError(std::move(d));
}

// The length of the JSON header, and the header.
std::string header_of(const std::vector<StoredTensor>& tensors) {
    std::string header = "{";
    std::size_t offset = 0;
    for (const StoredTensor& t : tensors) {
        header += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                              header.size() > 1 ? "," : "", quote(t.name), row_of(t.type.dtype).stored,
                              to_string(t.type.dims), offset, offset + t.type.bytes());
        offset += t.type.bytes();
    }
    header += "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');  // data begins at a multiple of 8
    const auto size = static_cast<std::uint64_t>(header.size());
    return std::string(reinterpret_cast<const char*>(&size), sizeof size) + header;
}

}  // namespace

bool holds_safetensors(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors) {
    std::ifstream in(path, std::ios::binary);
    auto follows = [&in, held = std::vector<char>()](const void* bytes, std::size_t size) mutable {
        held.resize(size);
        in.read(held.data(), static_cast<std::streamsize>(size));
        return static_cast<std::size_t>(in.gcount()) == size &&
               (size == 0 || std::memcmp(held.data(), bytes, size) == 0);
    };
    const std::string header = header_of(tensors);
    if (!follows(header.data(), header.size())) return false;
    for (const StoredTensor& t : tensors) {
        const std::vector<std::byte> bytes = t.bytes();
        if (!follows(bytes.data(), bytes.size())) return false;
    }
    return in.peek() == std::ifstream::traits_type::eof();
}

void write_safetensors(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors) {
    write_safetensors(path, tensors, path.filename().string(),
                      "make room on the disk, or choose another folder with -o");
}

void write_safetensors(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors,
                       const std::string& called, const std::string& help) {
    const std::string header = header_of(tensors);
    std::ofstream out(path, std::ios::binary);
    out.write(header.data(), static_cast<std::streamsize>(header.size()));
    for (const StoredTensor& t : tensors) {
        if (!out) break;
        stop_if_interrupted();
        const std::vector<std::byte> bytes = t.bytes();
        check(bytes.size() == t.type.bytes(),
              fmt::format("{} has {} bytes, expected {}", t.name, bytes.size(), t.type.bytes()));
        constexpr std::size_t piece = std::size_t{1} << 24;  // a table of gigabytes is no reason to wait for Ctrl-C
        for (std::size_t at = 0; at < bytes.size() && out; at += piece) {
            stop_if_interrupted();
            out.write(reinterpret_cast<const char*>(bytes.data()) + at,
                      static_cast<std::streamsize>(std::min(piece, bytes.size() - at)));
        }
    }
    out.close();
    if (out) return;
    Diagnostic d;
    d.message = fmt::format("cannot write {}: {}", called, std::strerror(errno));
    d.help = help;
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    throw UserError(std::move(d));
}

StoredTensor stored_tensor(std::string name, Tensor tensor) {
    Type type = tensor.type;
    return {std::move(name), std::move(type), [t = std::move(tensor)] { return encode(t); }};
}

std::vector<std::byte> source_bytes(const WeightSource& source) {
    std::vector<std::byte> bytes = to_f32(source.read(), source.type.dtype);
    return source.transposed ? transposed(bytes, source.type.dims.at(0), source.type.dims.at(1)) : bytes;
}

std::vector<StoredTensor> stored_parameters(const Module& module, std::string* missing) {
    std::vector<StoredTensor> out;
    for (const ModelParameter& parameter : model_parameters(module)) {
        const ArgInfo& info = *parameter.info;
        if (info.adapter) continue;
        const Type type = Type::tensor(DType::f32, parameter.type.dims);
        for (std::size_t m = 0; m < info.names.size(); ++m) {
            const WeightSource* source = m < info.sources.size() ? info.sources[m].get() : nullptr;
            if (source == nullptr || !source->read) {
                if (missing != nullptr) *missing = source == nullptr ? std::string() : source->missing;
                return {};
            }
            out.push_back({info.names[m], type, [s = info.sources[m]] { return source_bytes(*s); }});
        }
    }
    return out;
}

std::vector<StoredTensor> stored_constants(const Module& planned) {
    std::map<std::int64_t, StoredTensor> by_offset;
    for (const Function& f : planned.functions) {
        if (!f.kind.empty()) continue;
        for (const Op& op : f.ops) {
            if (!is_constant_op(op)) continue;
            const std::int64_t offset = f.info(op.results[0]).placement.offset;
            check_table(op, f.type(op.results[0]));
            by_offset.try_emplace(
                offset, StoredTensor{fmt::format("table_{}", offset), f.type(op.results[0]),
                                     [expr = op.attributes.constant("value")] { return encode(materialize(*expr)); }});
        }
    }
    std::vector<StoredTensor> out;
    for (auto& [offset, tensor] : by_offset) out.push_back(std::move(tensor));
    return out;
}

}  // namespace thunderc

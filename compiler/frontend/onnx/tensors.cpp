// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/tensors.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <span>
#include <system_error>

#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {
namespace {

using onnx::TensorProto;

static_assert(std::endian::native == std::endian::little, "ONNX's raw data is little-endian and is used as it lies");

std::int64_t elements(const TensorProto& tensor) {
    std::int64_t count = 1;
    for (std::int64_t dim : tensor.dims()) count *= dim;
    return count;
}

// Where external data lies.
struct External {
    std::string location;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    bool has_length = false;
};

std::uint64_t number(const TensorProto& tensor, const std::string& key, const std::string& text) {
    std::uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
        fail(fmt::format("the {} of the external data of {} is no number: \"{}\"", key, tensor.name(), text),
             "export the model again");
    return value;
}

External external(const TensorProto& tensor) {
    External out;
    for (const auto& entry : tensor.external_data()) {
        if (entry.key() == "location") out.location = entry.value();
        if (entry.key() == "offset") out.offset = number(tensor, "offset", entry.value());
        if (entry.key() == "length") {
            out.length = number(tensor, "length", entry.value());
            out.has_length = true;
        }
    }
    return out;
}

// `constant`: whether its numbers are needed when compiling.
std::vector<std::byte> read_external(const std::filesystem::path& folder, const TensorProto& tensor, std::size_t wanted,
                                     bool constant) {
    const External at = external(tensor);
    const std::filesystem::path path = folder / at.location;
    std::error_code error;
    if (!std::filesystem::exists(path, error))
        fail(fmt::format("the {} {} is in the external file {}, which is missing", constant ? "constant" : "data of",
                         tensor.name(), path.string()),
             constant ? "put the file beside the model: constants are compiled into the program"
                      : "put the file beside the model, or give the weights with --init");
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (error || !std::filesystem::is_regular_file(path, error))
        fail(fmt::format("the data of {} is in {}, which is not a file", tensor.name(), path.string()),
             "put the file with the data in its place");
    if (at.has_length && at.length < wanted)
        fail(fmt::format("the external data of {} has {} bytes, and its shape [{}] needs {}", tensor.name(), at.length,
                         to_string(Dims(tensor.dims().begin(), tensor.dims().end())), wanted),
             "export the model again");
    if (at.offset > size || wanted > size - at.offset)
        fail(fmt::format("the external file {} is too short: {} needs {} bytes at offset {}, the file has {}",
                         path.string(), tensor.name(), wanted, at.offset, size),
             "copy or export the file again");
    std::vector<std::byte> bytes(wanted);
    std::ifstream in(path, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(at.offset));
    if (!in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(wanted)))
        fail(fmt::format("the external file {} cannot be read", path.string()), "check the file's permissions");
    return bytes;
}

// The element `k` of raw data of an ONNX type. Integers of 64 bits lose nothing: they are read by `raw_integer`.
double raw_float(std::int32_t data_type, const std::byte* at) {
    switch (data_type) {
        case TensorProto::FLOAT: {
            float v;
            std::memcpy(&v, at, 4);
            return v;
        }
        case TensorProto::DOUBLE: {
            double v;
            std::memcpy(&v, at, 8);
            return v;
        }
        default: {
            std::uint16_t v;
            std::memcpy(&v, at, 2);
            return half_value(*stored_float(data_type), v);
        }
    }
}

template <typename T>
std::int64_t as_integer(const std::byte* at) {
    T v;
    std::memcpy(&v, at, sizeof(T));
    return static_cast<std::int64_t>(v);
}

std::uint64_t as_unsigned(const std::byte* at) {
    std::uint64_t v;
    std::memcpy(&v, at, sizeof v);
    return v;
}

// Integers have a sign here: one of 2^63 and more would be taken for a negative number.
std::int64_t within_64_bits(std::uint64_t v) {
    if (v > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        fail(fmt::format("a constant of type uint64 is {}, which is not supported", v),
             "use numbers below 2^63 in the model");
    return static_cast<std::int64_t>(v);
}

std::int64_t raw_integer(std::int32_t data_type, const std::byte* at) {
    switch (data_type) {
        case TensorProto::INT64: return as_integer<std::int64_t>(at);
        case TensorProto::UINT64: return within_64_bits(as_unsigned(at));
        case TensorProto::INT32: return as_integer<std::int32_t>(at);
        case TensorProto::UINT32: return as_integer<std::uint32_t>(at);
        case TensorProto::INT16: return as_integer<std::int16_t>(at);
        case TensorProto::UINT16: return as_integer<std::uint16_t>(at);
        case TensorProto::INT8: return as_integer<std::int8_t>(at);
        default: return as_integer<std::uint8_t>(at);
    }
}

// Data in the typed fields, of which small tensors make use.
Tensor from_fields(const TensorProto& tensor, Type type) {
    Tensor out(std::move(type));
    const std::int64_t count = out.size();
    std::int64_t held = 0;
    switch (tensor.data_type()) {
        case TensorProto::FLOAT: held = tensor.float_data_size(); break;
        case TensorProto::DOUBLE: held = tensor.double_data_size(); break;
        case TensorProto::INT64: held = tensor.int64_data_size(); break;
        case TensorProto::UINT64:
        case TensorProto::UINT32: held = tensor.uint64_data_size(); break;
        default: held = tensor.int32_data_size(); break;
    }
    if (held != count)
        fail(fmt::format("the tensor {} has {} elements and data for {}", tensor.name(), count, held),
             "export the model again");
    for (int k = 0; k < static_cast<int>(count); ++k) {
        const auto at = static_cast<std::size_t>(k);
        switch (tensor.data_type()) {
            case TensorProto::FLOAT: out.f[at] = static_cast<double>(tensor.float_data(k)); break;
            case TensorProto::DOUBLE: out.f[at] = tensor.double_data(k); break;
            case TensorProto::INT64: out.i[at] = tensor.int64_data(k); break;
            case TensorProto::UINT64:
            case TensorProto::UINT32: out.i[at] = within_64_bits(tensor.uint64_data(k)); break;
            default:
                if (out.floating())
                    out.f[at] =
                        half_value(*stored_float(tensor.data_type()), static_cast<std::uint16_t>(tensor.int32_data(k)));
                else
                    out.i[at] = tensor.int32_data(k);
                break;
        }
    }
    return out;
}

Tensor from_raw(const TensorProto& tensor, Type type, std::span<const std::byte> raw) {
    Tensor out(std::move(type));
    const std::size_t step = stored_size(tensor.data_type());
    const auto count = static_cast<std::size_t>(out.size());
    if (raw.size() < count * step)
        fail(fmt::format("the tensor {} needs {} bytes and has {}", tensor.name(), count * step, raw.size()),
             "export the model again");
    for (std::size_t k = 0; k < count; ++k) {
        if (out.floating())
            out.f[k] = raw_float(tensor.data_type(), raw.data() + k * step);
        else
            out.i[k] = raw_integer(tensor.data_type(), raw.data() + k * step);
    }
    if (out.type.dtype == DType::boolean)
        for (std::int64_t& v : out.i) v = v != 0 ? 1 : 0;
    return out;
}

bool is_external(const TensorProto& tensor) {
    return tensor.data_location() == TensorProto::EXTERNAL;
}

Tensor read_tensor(const std::filesystem::path& folder, const TensorProto& tensor, Type type, bool constant) {
    if (is_external(tensor)) {
        const std::size_t wanted = static_cast<std::size_t>(elements(tensor)) * stored_size(tensor.data_type());
        return from_raw(tensor, std::move(type), read_external(folder, tensor, wanted, constant));
    }
    if (tensor.has_raw_data()) return from_raw(tensor, std::move(type), std::as_bytes(std::span(tensor.raw_data())));
    return from_fields(tensor, std::move(type));
}

// The bytes as they are used: f32.
std::vector<std::byte> read_bytes(const std::filesystem::path& folder, const TensorProto& tensor, const Type& type) {
    const bool as_stored = tensor.data_type() == TensorProto::FLOAT;
    if (as_stored && is_external(tensor)) return read_external(folder, tensor, type.bytes(), false);
    if (as_stored && tensor.has_raw_data() && tensor.raw_data().size() == type.bytes()) {
        const auto raw = std::as_bytes(std::span(tensor.raw_data()));
        return {raw.begin(), raw.end()};
    }
    const Tensor values = read_tensor(folder, tensor, type, false);
    std::vector<std::byte> bytes(type.bytes());
    for (std::size_t k = 0; k < values.f.size(); ++k) {
        const auto value = static_cast<float>(values.f[k]);
        std::memcpy(bytes.data() + 4 * k, &value, 4);
    }
    return bytes;
}

}  // namespace

std::size_t stored_size(std::int32_t data_type) {
    if (const std::optional<DType> dtype = stored_float(data_type)) return size_of(*dtype);
    switch (data_type) {
        case TensorProto::INT64:
        case TensorProto::UINT64: return 8;
        case TensorProto::INT32:
        case TensorProto::UINT32: return 4;
        case TensorProto::INT16:
        case TensorProto::UINT16: return 2;
        default: return 1;
    }
}

std::optional<DType> dtype_of(std::int32_t data_type) {
    if (stored_float(data_type)) return DType::f32;
    switch (data_type) {
        case TensorProto::INT64:
        case TensorProto::UINT64:
        case TensorProto::UINT32: return DType::i64;
        case TensorProto::INT32:
        case TensorProto::INT16:
        case TensorProto::UINT16:
        case TensorProto::INT8:
        case TensorProto::UINT8: return DType::i32;
        case TensorProto::BOOL: return DType::boolean;
        default: return std::nullopt;
    }
}

std::optional<DType> stored_float(std::int32_t data_type) {
    if (!TensorProto::DataType_IsValid(data_type)) return std::nullopt;
    const std::string& name = TensorProto::DataType_Name(static_cast<TensorProto::DataType>(data_type));
    for (const DTypeRow& row : all_dtypes())
        if (is_float(row.dtype) && row.onnx == name) return row.dtype;
    return std::nullopt;
}

std::string data_type_name(std::int32_t data_type) {
    return TensorProto::DataType_IsValid(data_type)
               ? TensorProto::DataType_Name(static_cast<TensorProto::DataType>(data_type))
               : std::to_string(data_type);
}

Type TensorReader::type(const TensorProto& tensor) const {
    const std::optional<DType> dtype = dtype_of(tensor.data_type());
    if (!dtype)
        fail(fmt::format("the tensor {} is of type {}, which is not supported", tensor.name(),
                         data_type_name(tensor.data_type())),
             "export the model in float32");
    return Type::tensor(*dtype, Dims(tensor.dims().begin(), tensor.dims().end()));
}

Tensor TensorReader::tensor(const TensorProto& tensor) const {
    return read_tensor(folder_, tensor, type(tensor), true);
}

std::shared_ptr<const WeightSource> TensorReader::source(const TensorProto& tensor) const {
    auto source = std::make_shared<WeightSource>();
    source->type = type(tensor);
    source->stored = stored_float(tensor.data_type()).value_or(source->type.dtype);
    if (is_external(tensor)) {
        const std::string location = external(tensor).location;
        auto known = exists_.find(location);
        if (known == exists_.end()) {
            std::error_code error;
            known = exists_.emplace(location, std::filesystem::exists(folder_ / location, error)).first;
        }
        if (!known->second) {
            source->missing = (folder_ / location).string();
            return source;
        }
    }
    source->read = [model = model_, folder = folder_, &tensor, type = source->type] {
        return read_bytes(folder, tensor, type);
    };
    return source;
}

}  // namespace thunderc::onnx_frontend

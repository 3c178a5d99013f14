// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>

#include "device/cpu/narrow.h"
#include "support/error.h"
#include "support/json.h"
#include "support/text.h"

namespace thunder {

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian, and so is this code");

constexpr std::size_t max_header = 100'000'000;  // the format's own limit

struct StoredType {
    std::string_view name;
    std::size_t bytes;
};
constexpr std::array<StoredType, 15> stored_types = {{{"BOOL", 1},
                                                      {"U8", 1},
                                                      {"I8", 1},
                                                      {"F8_E5M2", 1},
                                                      {"F8_E4M3", 1},
                                                      {"I16", 2},
                                                      {"U16", 2},
                                                      {"F16", 2},
                                                      {"BF16", 2},
                                                      {"I32", 4},
                                                      {"U32", 4},
                                                      {"F32", 4},
                                                      {"F64", 8},
                                                      {"I64", 8},
                                                      {"U64", 8}}};

std::optional<std::size_t> stored_size(std::string_view dtype) {
    for (const StoredType& type : stored_types) {
        if (type.name == dtype) return type.bytes;
    }
    return std::nullopt;
}

std::size_t stored_size_of(const StoredTensor& tensor) {
    return stored_size(tensor.dtype).value_or(1);
}

// Reads one tensor's entry of the header. `data` holds the bytes behind the header.
StoredTensor parse_entry(const std::string& path, const std::string& name, const Json& entry,
                         std::span<const std::byte> data, std::uint64_t& begin) {
    const auto invalid = [&](const std::string& what) {
        fail(cat(path, ": tensor ", name, ": ", what), "the file is damaged, or was not written as safetensors");
    };
    if (!entry.is(Json::Kind::object)) invalid("its header entry is not an object");
    const Json* dtype = entry.find("dtype");
    const Json* shape = entry.find("shape");
    const Json* offsets = entry.find("data_offsets");
    if (dtype == nullptr || !dtype->is(Json::Kind::string)) invalid("its header entry has no dtype");
    if (shape == nullptr || !shape->is(Json::Kind::array)) invalid("its header entry has no shape");
    if (offsets == nullptr || !offsets->is(Json::Kind::array) || offsets->array.size() != 2)
        invalid("its header entry has no data_offsets");

    StoredTensor tensor;
    tensor.name = name;
    tensor.dtype = dtype->string;
    const std::optional<std::size_t> width = stored_size(tensor.dtype);
    if (!width) invalid(cat("unknown dtype ", json_quote(tensor.dtype)));
    std::uint64_t bytes = *width;
    for (const Json& extent : shape->array) {
        if (!extent.is(Json::Kind::integer) || extent.integer < 0) invalid("its shape is not a list of sizes");
        tensor.shape.push_back(extent.integer);
        if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent.integer), &bytes))
            invalid(cat("its shape ", shape_text(tensor.shape), " is too large"));
    }
    for (const Json& offset : offsets->array) {
        if (!offset.is(Json::Kind::integer) || offset.integer < 0) invalid("its data_offsets are not offsets");
    }
    begin = static_cast<std::uint64_t>(offsets->array[0].integer);
    const auto end = static_cast<std::uint64_t>(offsets->array[1].integer);
    if (begin > end) invalid(cat("it ends (at byte ", end, ") before it begins (at byte ", begin, ")"));
    if (end - begin != bytes) invalid(cat("it takes ", end - begin, " bytes, but ", tensor.describe(), " has ", bytes));
    if (end > data.size()) {
        fail(cat(path, " is truncated: tensor ", name, " ends at byte ", end, " of the data, and there are ",
                 data.size()),
             "copy or download the file again");
    }
    tensor.bytes = data.subspan(begin, bytes);
    return tensor;
}

std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename T>
T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// Calls store(i, value) for each element as f32.
template <typename Store>
void for_each_float(std::string_view dtype, const std::byte* from, std::size_t count, Store&& store) {
    if (dtype == "F32") {
        for (std::size_t i = 0; i < count; ++i) store(i, load<float>(from + 4 * i));
    } else if (dtype == "BF16") {
        for (std::size_t i = 0; i < count; ++i) store(i, to_float(load<bf16>(from + 2 * i)));
    } else if (dtype == "F16") {
        for (std::size_t i = 0; i < count; ++i) store(i, to_float(load<f16>(from + 2 * i)));
    } else {  // F64
        for (std::size_t i = 0; i < count; ++i) store(i, static_cast<float>(load<double>(from + 8 * i)));
    }
}

std::int64_t load_integer(const std::byte* from, std::size_t bytes, bool is_signed) {
    if (bytes == 1) return is_signed ? load<std::int8_t>(from) : load<std::uint8_t>(from);
    if (bytes == 2) return is_signed ? load<std::int16_t>(from) : load<std::uint16_t>(from);
    if (bytes == 4) return is_signed ? std::int64_t{load<std::int32_t>(from)} : load<std::uint32_t>(from);
    return load<std::int64_t>(from);
}

}  // namespace

std::string checksum_text(std::uint64_t checksum) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(checksum));
    return digits;
}

std::size_t StoredTensor::elements() const {
    return bytes.size() / stored_size_of(*this);
}

std::string StoredTensor::describe() const {
    return cat(dtype, " ", shape_text(shape));
}

SafetensorsFile::SafetensorsFile(const std::string& path) : TensorFile(path) {
    try {
        read_header(path);
    } catch (const Error& error) {
        throw DamagedFile(error);
    }
}

void SafetensorsFile::read_header(const std::string& path) {
    const std::span<const std::byte> bytes = file_.bytes();
    // torch.save writes an archive, or a pickle as it did before
    const bool torch_file = bytes.size() >= 2 && ((bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'}) ||
                                                  (bytes[0] == std::byte{0x80} && bytes[1] == std::byte{2}));
    const std::string damaged = torch_file ? "where torch.save wrote it: write it with safetensors.torch.save_file"
                                           : "the file is damaged, or was not written as safetensors";
    if (bytes.size() < 8)
        fail(cat(path, " is not a safetensors file: it has ", count_text(bytes.size(), "byte")), damaged);
    const auto header_bytes = load<std::uint64_t>(bytes.data());
    const bool starts_like_one = bytes.size() < 9 || bytes[8] == std::byte{'{'};
    if (header_bytes > max_header || !starts_like_one) fail(cat(path, " is not a safetensors file"), damaged);
    if (header_bytes > bytes.size() - 8) {
        fail(cat(path, " is truncated: its header takes ", header_bytes, " bytes, and there are ", bytes.size() - 8),
             "copy or download the file again");
    }
    const std::span<const std::byte> data = bytes.subspan(8 + header_bytes);
    const Json header = parse_json(as_text(bytes.subspan(8, header_bytes)), cat(path, "'s header"), damaged);
    if (!header.is(Json::Kind::object))
        fail(cat(path, " is not a safetensors file: its header is not an object"), damaged);

    std::vector<std::pair<std::uint64_t, std::size_t>> places;  // begin, index
    for (const auto& [name, entry] : header.object) {
        if (name == "__metadata__") {
            for (const auto& [key, value] : entry.object) {
                if (!value.is(Json::Kind::string)) fail(cat(path, ": the metadata ", key, " is not a string"), damaged);
                metadata_[key] = value.string;
            }
            continue;
        }
        std::uint64_t begin = 0;
        tensors_.push_back(parse_entry(path, name, entry, data, begin));
        places.emplace_back(begin, tensors_.size() - 1);
    }
    // The format asks for tensors side by side, without holes: whatever is not so was not written by its rules.
    std::sort(places.begin(), places.end(), [&](const auto& a, const auto& b) {
        return std::pair(a.first, tensors_[a.second].bytes.size()) <
               std::pair(b.first, tensors_[b.second].bytes.size());
    });
    std::uint64_t end = 0;
    for (const auto& [begin, index] : places) {
        const StoredTensor& tensor = tensors_[index];
        if (begin != end) {
            fail(cat(path, ": tensor ", tensor.name, " begins at byte ", begin, ", but the one before it ends at byte ",
                     end),
                 "the file is damaged, or was not written as safetensors");
        }
        end = begin + tensor.bytes.size();
    }
    if (end != data.size()) {
        fail(cat(path, ": ", count_text(data.size() - end, "byte"), " stand behind its last tensor"),
             "the file is damaged, or was not written as safetensors");
    }
    sort_by_name();
}

std::string SafetensorsFile::checksum() const {
    const auto stored = metadata_.find(std::string(checksum_key));
    return stored == metadata_.end() ? "" : stored->second;
}

void SafetensorsFile::verify(const std::function<void()>& on_progress) const {
    const std::string stored = checksum();
    if (stored.empty() && !metadata_.contains(std::string(checksum_key))) return;
    const std::span<const std::byte> bytes = file_.bytes();
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);  // read_header looked at it
    const std::span<const std::byte> header = bytes.subspan(sizeof length, length);
    std::string text(reinterpret_cast<const char*>(header.data()), header.size());
    const std::size_t digits = text.find(cat("\"", checksum_key, "\":\"", stored, "\""));
    Checksum checksum;
    if (digits != std::string::npos && stored.size() == no_checksum.size()) {
        text.replace(digits + checksum_key.size() + 4, no_checksum.size(), no_checksum);
        checksum.add(text.data(), text.size());
        constexpr std::size_t at_once = std::size_t{64} << 20;
        for (std::size_t at = sizeof length + length; at < bytes.size(); at += at_once) {
            const std::span<const std::byte> part = bytes.subspan(at, std::min(at_once, bytes.size() - at));
            checksum.add(part.data(), part.size());
            file_.release(part);
            on_progress();
        }
        if (checksum_text(checksum.value()) == stored) return;
    }
    throw DamagedFile(cat(path(), " is damaged: its bytes are not those that were written (their checksum is another)"),
                      "copy or download the file again");
}

bool readable_as(std::string_view stored_dtype, DType dtype) {
    if (is_float(dtype))
        return stored_dtype == "F32" || stored_dtype == "BF16" || stored_dtype == "F16" || stored_dtype == "F64";
    switch (dtype) {
        case DType::i64:
        case DType::i32: {
            const std::string_view integers[] = {"I64", "I32", "U32", "I16", "U16", "I8", "U8"};
            return std::find(std::begin(integers), std::end(integers), stored_dtype) != std::end(integers);
        }
        case DType::u8: return stored_dtype == stored_name(DType::u8);
        default: return stored_dtype == "BOOL" || stored_dtype == "U8";
    }
}

bool read_elements(const StoredTensor& tensor, DType dtype, std::size_t first, std::size_t count, void* out) {
    const std::size_t bytes = stored_size_of(tensor);
    const bool is_signed = tensor.dtype.starts_with('I');
    const std::byte* from = tensor.bytes.data() + first * bytes;
    if (count == 0) return true;
    if (tensor.dtype == stored_name(dtype) && dtype != DType::boolean) {
        std::memcpy(out, from, count * size_of(dtype));
        return true;
    }
    const bool floating = with_float(dtype, [&]<typename T>(T*) {
        for_each_float(tensor.dtype, from, count,
                       [to = static_cast<T*>(out)](std::size_t i, float value) { to[i] = narrowed<T>(value); });
    });
    if (floating) return true;
    switch (dtype) {
        case DType::i64: {
            auto* to = static_cast<std::int64_t*>(out);
            for (std::size_t i = 0; i < count; ++i) to[i] = load_integer(from + i * bytes, bytes, is_signed);
            return true;
        }
        case DType::i32: {
            auto* to = static_cast<std::int32_t*>(out);
            for (std::size_t i = 0; i < count; ++i) {
                const std::int64_t value = load_integer(from + i * bytes, bytes, is_signed);
                to[i] = static_cast<std::int32_t>(value);
                if (to[i] != value) return false;
            }
            return true;
        }
        default: {  // any byte but 0 is true, and true is 1
            auto* to = static_cast<std::uint8_t*>(out);
            for (std::size_t i = 0; i < count; ++i) to[i] = from[i] != std::byte{0};
            return true;
        }
    }
}

std::string_view stored_name(DType dtype) {
    return dtype_stored_names[static_cast<std::size_t>(dtype)];
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::span<const TensorToWrite> tensors,
                                     std::span<const std::pair<std::string, std::string>> metadata)
    : file_(path) {
    std::string header = "{";
    if (!metadata.empty()) {
        header += "\"__metadata__\":{";
        for (const auto& [key, value] : metadata) {
            if (header.back() != '{') header += ",";
            const bool checksum = key == checksum_key;
            header += cat(json_quote(key), ":", checksum ? json_quote(no_checksum) : json_quote(value));
            if (checksum) checksum_at_ = sizeof(std::uint64_t) + header.size() - 1 - no_checksum.size();
        }
        header += "}";
    }
    std::size_t end = 0;
    for (const TensorToWrite& tensor : tensors) {
        std::size_t bytes = size_of(tensor.dtype);
        std::string shape;
        for (const std::int64_t extent : tensor.shape) {
            bytes *= static_cast<std::size_t>(extent);
            shape += cat(shape.empty() ? "" : ",", extent);
        }
        if (header.size() > 1) header += ",";
        header += cat(json_quote(tensor.name), ":{\"dtype\":\"", stored_name(tensor.dtype), "\",\"shape\":[", shape,
                      "],\"data_offsets\":[", end, ",", end + bytes, "]}");
        end += bytes;
    }
    header += "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');  // the data begins at a multiple of eight
    const std::uint64_t length = header.size();
    file_.write(&length, sizeof length);
    file_.write(header.data(), header.size());
    if (checksum_at_ > 0) checksum_.add(header.data(), header.size());
    remaining_ = end;
    bytes_ = sizeof length + header.size() + end;
}

void SafetensorsWriter::append(const void* data, std::size_t bytes) {
    if (bytes > remaining_) fail("a safetensors file was given more bytes than were announced");
    file_.write(data, bytes);
    if (checksum_at_ > 0) checksum_.add(data, bytes);
    remaining_ -= bytes;
}

void SafetensorsWriter::commit() {
    if (remaining_ != 0) fail("a safetensors file was given fewer bytes than were announced");
    if (checksum_at_ > 0) {
        const std::string digits = checksum_text(checksum_.value());
        file_.rewrite(checksum_at_, digits.data(), digits.size());
    }
    file_.commit();
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/aten/stored_tensor.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc::aten {
namespace {

static_assert(std::endian::native == std::endian::little, "bytes of an archive are used as they lie");

// The part of a storage that elements lie in.
struct Layout {
    Dims dims, strides;
    std::int64_t offset = 0;
    std::int64_t end = 0;  // elements of the storage up to the last of them
    bool dense = false;
};

Layout layout_of(const StoredTensor& tensor) {
    Layout out{tensor.dims, tensor.strides, tensor.offset};
    const std::string help = "the archive is damaged: save the model again";
    bool possible = out.dims.size() == out.strides.size() && countable(out.dims) && out.offset >= 0;
    for (const std::int64_t stride : out.strides) possible = possible && stride >= 0;
    if (!possible)
        fail(fmt::format("the weight {} has a shape that no tensor can have: [{}]", tensor.name, to_string(out.dims)),
             help);
    out.end = out.offset;
    if (element_count(out.dims) > 0) {
        bool beyond = __builtin_add_overflow(out.end, 1, &out.end);
        for (std::size_t d = 0; d < out.dims.size(); ++d) {
            std::int64_t reach = 0;
            beyond = beyond || __builtin_mul_overflow(out.dims[d] - 1, out.strides[d], &reach) ||
                     __builtin_add_overflow(out.end, reach, &out.end);
        }
        if (beyond) fail(fmt::format("the strides of the weight {} lead out of all memory", tensor.name), help);
    }
    const Dims dense = dense_strides(out.dims);
    out.dense = true;
    for (std::size_t d = 0; d < out.dims.size(); ++d)
        out.dense = out.dense && (out.dims[d] == 1 || out.strides[d] == dense[d]);
    return out;
}

// The storage's bytes that elements lie in, in the order of the elements.
std::vector<std::byte> in_order(const std::vector<std::byte>& bytes, const Layout& layout, std::size_t size) {
    if (layout.dense) return bytes;
    const std::int64_t count = element_count(layout.dims);
    std::vector<std::byte> out(static_cast<std::size_t>(count) * size);
    Dims index(layout.dims.size(), 0);
    std::int64_t from = 0;
    for (std::int64_t k = 0; k < count; ++k) {
        std::memcpy(out.data() + static_cast<std::size_t>(k) * size,
                    bytes.data() + static_cast<std::size_t>(from) * size, size);
        for (std::size_t d = layout.dims.size(); d-- > 0;) {
            from += layout.strides[d];
            if (++index[d] < layout.dims[d]) break;
            from -= index[d] * layout.strides[d];
            index[d] = 0;
        }
    }
    return out;
}

template <typename T>
T as(const std::byte* at) {
    T v;
    std::memcpy(&v, at, sizeof(T));
    return v;
}

double float_at(ScalarType type, const std::byte* at) {
    if (type == ScalarType::f32) return static_cast<double>(as<float>(at));
    if (type == ScalarType::f64) return as<double>(at);
    return half_value(*stored_float(type), as<std::uint16_t>(at));
}

std::int64_t integer_at(ScalarType type, const std::byte* at) {
    switch (type) {
        case ScalarType::i64:
        case ScalarType::u64: return as<std::int64_t>(at);
        case ScalarType::i32: return as<std::int32_t>(at);
        case ScalarType::u32: return as<std::uint32_t>(at);
        case ScalarType::i16: return as<std::int16_t>(at);
        case ScalarType::u16: return as<std::uint16_t>(at);
        case ScalarType::i8: return as<std::int8_t>(at);
        case ScalarType::boolean: return as<std::uint8_t>(at) != 0 ? 1 : 0;
        default: return as<std::uint8_t>(at);
    }
}

Tensor tensor_of(const std::vector<std::byte>& bytes, ScalarType stored, const Type& type) {
    Tensor out(type);
    const std::size_t size = stored_size(stored);
    for (std::size_t k = 0; k < static_cast<std::size_t>(out.size()); ++k) {
        if (out.floating())
            out.f[k] = float_at(stored, bytes.data() + k * size);
        else
            out.i[k] = integer_at(stored, bytes.data() + k * size);
    }
    return out;
}

// As they are used: f32, or integers of our types.
std::vector<std::byte> as_used(std::vector<std::byte> bytes, ScalarType stored, const Type& type) {
    if (stored == ScalarType::f32 || stored == ScalarType::i64 || stored == ScalarType::i32) return bytes;
    const Tensor values = tensor_of(bytes, stored, type);
    std::vector<std::byte> out(type.bytes());
    const std::size_t size = thunderc::size_of(type.dtype);
    for (std::size_t k = 0; k < static_cast<std::size_t>(values.size()); ++k) {
        if (values.floating()) {
            const auto v = static_cast<float>(values.f[k]);
            std::memcpy(out.data() + 4 * k, &v, 4);
        } else {
            std::memcpy(out.data() + size * k, &values.i[k], size);  // the low bytes
        }
    }
    return out;
}

struct Stored {
    Layout layout;
    std::size_t size = 0;  // bytes of an element

    std::uint64_t begin() const { return static_cast<std::uint64_t>(layout.offset) * size; }
    std::uint64_t bytes() const { return static_cast<std::uint64_t>(layout.end - layout.offset) * size; }
};

}  // namespace

StoredTensor with_pairs(StoredTensor tensor) {
    const ScalarType part = part_of_complex(tensor.type);
    if (part == ScalarType::unknown) return tensor;
    const auto twice = [](std::int64_t& number) {  // or what leads out of all memory
        if (__builtin_mul_overflow(number, 2, &number)) number = INT64_MAX;
    };
    tensor.type = part;
    tensor.dims.push_back(2);
    for (std::int64_t& stride : tensor.strides) twice(stride);
    tensor.strides.push_back(1);
    twice(tensor.offset);
    return tensor;
}

Type type_of(const StoredTensor& tensor) {
    const std::optional<DType> dtype = dtype_of(tensor.type);
    if (!dtype)
        fail(fmt::format("the tensor {} is of type {}, which is not supported", tensor.name, name_of(tensor.type)),
             "export the model in float32");
    return Type::tensor(*dtype, layout_of(tensor).dims);
}

std::shared_ptr<const WeightSource> source_of(const std::shared_ptr<const ZipArchive>& archive,
                                              const StoredTensor& tensor) {
    auto out = std::make_shared<WeightSource>();
    out->type = type_of(tensor);
    out->stored = stored_float(tensor.type).value_or(out->type.dtype);
    const Stored stored{layout_of(tensor), stored_size(tensor.type)};
    const ZipArchive::Entry* entry = archive->find(tensor.entry);
    // Fake tensors have no bytes, and all of them are one entry.
    if (entry == nullptr || (entry->size == 0 && stored.bytes() != 0)) {
        out->missing = fmt::format("{} in {}", tensor.entry, archive->path().string());
        return out;
    }
    if (stored.layout.end > (std::int64_t{1} << 50) || entry->size < stored.begin() + stored.bytes())
        fail(fmt::format("the tensor {} needs {} bytes of {}, which has {}", tensor.name,
                         stored.begin() + stored.bytes(), tensor.entry, entry->size),
             "the archive is damaged: save the model again");
    out->read = [archive, where = tensor.entry, stored, type = tensor.type, used = out->type] {
        return as_used(in_order(archive->read(where, stored.begin(), stored.bytes()), stored.layout, stored.size), type,
                       used);
    };
    return out;
}

Tensor numbers_of(const std::shared_ptr<const ZipArchive>& archive, const StoredTensor& tensor) {
    const std::shared_ptr<const WeightSource> from = source_of(archive, tensor);
    if (!from->read)
        fail(fmt::format("the numbers of {} are not in the archive", tensor.name),
             "constants are compiled into the program: export the model with its numbers");
    const std::vector<std::byte> bytes = from->read();
    const ScalarType as_read = from->type.dtype == DType::f32       ? ScalarType::f32
                               : from->type.dtype == DType::i64     ? ScalarType::i64
                               : from->type.dtype == DType::boolean ? ScalarType::boolean
                                                                    : ScalarType::i32;
    return tensor_of(bytes, as_read, from->type);
}

std::string place_of(const ZipArchive& archive, const StoredTensor& tensor) {
    const ZipArchive::Entry* entry = archive.find(tensor.entry);
    if (entry == nullptr || entry->size == 0) return "";
    return fmt::format("{} {} [{}] [{}] {}", tensor.entry, tensor.offset, to_string(tensor.dims),
                       to_string(tensor.strides), static_cast<int>(tensor.type));
}

bool overlap(const StoredTensor& a, const StoredTensor& b) {
    if (a.entry != b.entry) return false;
    const Layout here = layout_of(a), there = layout_of(b);
    return there.offset < here.end && here.offset < there.end;
}

}  // namespace thunderc::aten

// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/pt2/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cstring>
#include <utility>

#include "compiler/frontend/aten/types.h"
#include "compiler/support/error.h"

namespace thunderc::pt2_frontend {
namespace {

using aten::dtype_of;
using aten::name_of;
using aten::stored_float;
using aten::stored_size;

static_assert(std::endian::native == std::endian::little, "bytes of an archive are used as they lie");

// Where elements lie in a storage.
struct Layout {
    Dims dims, strides;
    std::int64_t offset = 0;
    std::int64_t end = 0;  // elements of the storage up to the last of them
    bool dense = false;
};

Layout layout_of(const std::string& name, const TensorMeta& meta) {
    Layout out;
    const auto fixed = [&](const Size& size) {
        if (!size.expression.empty() || size.value < 0)
            fail(fmt::format("the shape of the weight {} is not fixed", name), "save the model again");
        return size.value;
    };
    for (const Size& size : meta.sizes) out.dims.push_back(fixed(size));
    for (const Size& stride : meta.strides) out.strides.push_back(fixed(stride));
    out.offset = fixed(meta.offset);
    const std::string help = "the archive is damaged: save the model again";
    if (out.dims.size() != out.strides.size() || !countable(out.dims))
        fail(fmt::format("the weight {} has a shape that no tensor can have: [{}]", name, to_string(out.dims)), help);
    out.end = out.offset;
    if (element_count(out.dims) > 0) {
        out.end += 1;
        for (std::size_t d = 0; d < out.dims.size(); ++d) {
            std::int64_t reach = 0;
            if (__builtin_mul_overflow(out.dims[d] - 1, out.strides[d], &reach) ||
                __builtin_add_overflow(out.end, reach, &out.end))
                fail(fmt::format("the strides of the weight {} lead out of all memory", name), help);
        }
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

const Payload& Weights::payload(const std::string& name) const {
    const auto at = program_->payloads.find(name);
    if (at == program_->payloads.end())
        fail(fmt::format("the archive has no tensor {}", name), "the archive is damaged: save the model again");
    if (at->second.pickled || !at->second.meta)
        fail(fmt::format("the tensor {} is of a class of its own, which the archive keeps as a pickle", name),
             "export a model of plain tensors: pickles are not read, since they run what is in them");
    return at->second;
}

Type Weights::type(const std::string& name) const {
    const TensorMeta& meta = *payload(name).meta;
    const std::optional<DType> dtype = dtype_of(meta.type);
    if (!dtype)
        fail(fmt::format("the tensor {} is of type {}, which is not supported", name, name_of(meta.type)),
             "export the model in float32");
    return Type::tensor(*dtype, layout_of(name, meta).dims);
}

std::shared_ptr<const WeightSource> Weights::source(const std::string& name) const {
    auto out = std::make_shared<WeightSource>();
    const Payload& from = payload(name);
    const ScalarType stored_type = from.meta->type;
    out->type = type(name);
    out->stored = stored_float(stored_type).value_or(out->type.dtype);
    const Stored stored{layout_of(name, *from.meta), stored_size(stored_type)};
    const ZipArchive::Entry* entry = archive_->find(from.entry);
    // Fake tensors have no bytes, and all of them are one entry.
    if (entry == nullptr || (entry->size == 0 && stored.bytes() != 0)) {
        out->missing = fmt::format("{} in {}", from.entry, archive_->path().string());
        return out;
    }
    if (stored.layout.end > (std::int64_t{1} << 50) || entry->size < stored.begin() + stored.bytes())
        fail(fmt::format("the tensor {} needs {} bytes of {}, which has {}", name, stored.begin() + stored.bytes(),
                         from.entry, entry->size),
             "the archive is damaged: save the model again");
    out->read = [archive = archive_, where = from.entry, stored, stored_type, type = out->type] {
        return as_used(in_order(archive->read(where, stored.begin(), stored.bytes()), stored.layout, stored.size),
                       stored_type, type);
    };
    return out;
}

Tensor Weights::tensor(const std::string& name) const {
    const std::shared_ptr<const WeightSource> from = source(name);
    if (!from->read)
        fail(fmt::format("the numbers of {} are not in the archive", name),
             "constants are compiled into the program: export the model with its numbers");
    const std::vector<std::byte> bytes = from->read();
    const ScalarType as_read = from->type.dtype == DType::f32       ? ScalarType::f32
                               : from->type.dtype == DType::i64     ? ScalarType::i64
                               : from->type.dtype == DType::boolean ? ScalarType::boolean
                                                                    : ScalarType::i32;
    return tensor_of(bytes, as_read, from->type);
}

std::string Weights::shares_storage(const std::string& name) const {
    const std::string own = place(name);
    if (own.empty()) return "";
    const Layout layout = layout_of(name, *payload(name).meta);
    for (const auto& [other, from] : program_->payloads) {
        if (other == name || from.entry != payload(name).entry || from.pickled || !from.meta || place(other) == own)
            continue;
        const Layout there = layout_of(other, *from.meta);
        if (there.offset < layout.end && layout.offset < there.end) return other;
    }
    return "";
}

std::string Weights::place(const std::string& name) const {
    const Payload& from = payload(name);
    const ZipArchive::Entry* entry = archive_->find(from.entry);
    if (entry == nullptr || entry->size == 0) return "";
    const Layout layout = layout_of(name, *from.meta);
    return fmt::format("{} {} [{}] [{}] {}", from.entry, layout.offset, to_string(layout.dims),
                       to_string(layout.strides), static_cast<int>(from.meta->type));
}

}  // namespace thunderc::pt2_frontend

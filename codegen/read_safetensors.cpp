// The reader of safetensors files: eight bytes of length, a JSON header, then the tensors' bytes.
#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "codegen/safetensors.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what, const std::string& help) {
    Diagnostic d;
    d.message = fmt::format("{} {}", path.string(), what);
    d.help = help;
    throw UserError(std::move(d));
}

[[noreturn]] void damaged(const std::filesystem::path& path, const std::string& what) {
    fail(path, what, "the file is damaged, or was not written as safetensors");
}

std::optional<DType> dtype_of(const std::string& name) {
    static const std::map<std::string, DType> known = {
        {"F64", DType::f64}, {"F32", DType::f32}, {"F16", DType::f16},     {"BF16", DType::bf16},
        {"I64", DType::i64}, {"I32", DType::i32}, {"BOOL", DType::boolean}};
    auto found = known.find(name);
    return found == known.end() ? std::nullopt : std::optional(found->second);
}

template <typename T>
T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

double half_value(std::uint16_t h) {
    const int exponent = (h >> 10) & 0x1f;
    const double mantissa = h & 0x3ff;
    const double magnitude = exponent == 31  ? (mantissa == 0 ? HUGE_VAL : std::nan(""))
                             : exponent == 0 ? std::ldexp(mantissa, -24)
                                             : std::ldexp(1024 + mantissa, exponent - 25);
    return (h & 0x8000) != 0 ? -magnitude : magnitude;
}

Tensor decode(const Type& type, const std::byte* data) {
    Tensor out(type);
    for (std::int64_t k = 0; k < out.size(); ++k) {
        const std::byte* at = data + static_cast<std::size_t>(k) * size_of(type.dtype);
        const auto i = static_cast<std::size_t>(k);
        switch (type.dtype) {
            case DType::f64: out.f[i] = load<double>(at); break;
            case DType::f32: out.f[i] = load<float>(at); break;
            case DType::f16: out.f[i] = half_value(load<std::uint16_t>(at)); break;
            case DType::bf16:
                out.f[i] = std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(at)) << 16);
                break;
            case DType::i64: out.i[i] = load<std::int64_t>(at); break;
            case DType::i32: out.i[i] = load<std::int32_t>(at); break;
            case DType::boolean: out.i[i] = load<std::uint8_t>(at) != 0 ? 1 : 0; break;
        }
    }
    return out;
}

}  // namespace

std::map<std::string, Tensor> read_safetensors(const std::filesystem::path& path) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) fail(path, "does not exist", "check the name of the file");
    if (std::filesystem::is_directory(path, error)) fail(path, "is a folder", "name a file in it");
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    if (!in) fail(path, fmt::format("cannot be read: {}", std::strerror(errno)), "check the file's permissions");
    const auto size = static_cast<std::uint64_t>(in.tellg());
    if (size < 10) damaged(path, "is not a safetensors file");
    std::vector<std::byte> bytes(size);
    in.seekg(0);
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
    const auto header_bytes = load<std::uint64_t>(bytes.data());
    if (bytes[8] != std::byte{'{'}) damaged(path, "is not a safetensors file");
    if (header_bytes > size - 8) damaged(path, "is truncated: it ends within its header");
    const auto* text = reinterpret_cast<const char*>(bytes.data()) + 8;
    const nlohmann::json header = nlohmann::json::parse(text, text + header_bytes, nullptr, false);
    if (!header.is_object()) damaged(path, "is not a safetensors file: its header is no JSON object");
    const std::byte* data = bytes.data() + 8 + header_bytes;
    const std::uint64_t data_bytes = size - 8 - header_bytes;

    std::map<std::string, Tensor> out;
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__") continue;
        try {
            const auto dtype_name = entry.at("dtype").get<std::string>();
            const std::optional<DType> dtype = dtype_of(dtype_name);
            if (!dtype)
                fail(path, fmt::format("holds {} as {}, which no program computes in", name, dtype_name),
                     "store it as F32 or I64");
            const Type type = Type::tensor(*dtype, entry.at("shape").get<Dims>());
            const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>();
            const auto end = entry.at("data_offsets").at(1).get<std::uint64_t>();
            for (std::int64_t extent : type.dims)
                if (extent < 0) damaged(path, fmt::format("gives {} a negative extent", name));
            if (begin > end || end > data_bytes)
                damaged(path, fmt::format("is truncated: {} ends at byte {} of the data, and there are {}", name, end,
                                          data_bytes));
            if (end - begin != type.bytes())
                damaged(path, fmt::format("holds {} bytes for {}, which is {}", end - begin, name, to_string(type)));
            out.emplace(name, decode(type, data + begin));
        } catch (const nlohmann::json::exception&) {
            damaged(path, fmt::format("does not describe {} as a tensor", name));
        }
    }
    return out;
}

}  // namespace thunderc

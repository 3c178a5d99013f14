// SPDX-License-Identifier: Apache-2.0
#include "data/npy.h"

#include <charconv>
#include <cstdint>
#include <string_view>
#include <utility>

#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr const char* npy_help = "numpy.save(FILE, numpy.ascontiguousarray(x)) writes one that is read";

// What stands behind 'key': in the header, which is a dictionary of Python's on one line; "" where it is not there.
std::string_view value_behind(std::string_view header, std::string_view key) {
    std::size_t at = header.find(cat("'", key, "'"));
    if (at == std::string_view::npos) return "";
    at = header.find(':', at);
    if (at == std::string_view::npos) return "";
    header.remove_prefix(at + 1);
    while (header.starts_with(' ')) header.remove_prefix(1);
    if (header.starts_with('(')) return header.substr(0, header.find(')'));
    return header.substr(0, header.find_first_of(",}"));
}

// As safetensors spells a type of numpy's; "" where no program reads it.
std::string stored_dtype(std::string_view descr) {
    constexpr std::pair<std::string_view, std::string_view> types[] = {
        {"'<f4'", "F32"}, {"'<f2'", "F16"}, {"'<f8'", "F64"}, {"'<i8'", "I64"}, {"'<i4'", "I32"}, {"'<u4'", "U32"},
        {"'<i2'", "I16"}, {"'<u2'", "U16"}, {"'|i1'", "I8"},  {"'|u1'", "U8"},  {"'|b1'", "BOOL"}};
    for (const auto& [numpy, ours] : types)
        if (numpy == descr) return std::string(ours);
    return "";
}

std::size_t width_of(std::string_view dtype) {
    return dtype == "BOOL" ? 1 : dtype.ends_with("64") ? 8 : dtype.ends_with("32") ? 4 : dtype.ends_with("16") ? 2 : 1;
}

}  // namespace

StoredTensor read_npy(std::span<const std::byte> bytes, const std::string& path) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(bytes[at]); };
    if (bytes.size() < 10 || !text.starts_with("\x93NUMPY")) fail(cat(path, " is no .npy file"), npy_help);
    const bool wide = byte(6) >= 2;  // the header's length has four bytes
    std::size_t begin = wide ? 12 : 10, length = byte(8) | byte(9) << 8;
    if (wide && bytes.size() >= begin) length |= byte(10) << 16 | byte(11) << 24;
    if (bytes.size() < begin || length > bytes.size() - begin)
        fail(cat(path, " is truncated: its header is not there"), "copy it again");
    const std::string_view header = text.substr(begin, length);
    begin += length;

    StoredTensor tensor;
    tensor.dtype = stored_dtype(value_behind(header, "descr"));
    if (tensor.dtype.empty())
        fail(cat(path, " holds numbers of type ", value_behind(header, "descr"), ", which no program reads"), npy_help);
    if (value_behind(header, "fortran_order") != "False")
        fail(cat(path, " has its numbers in Fortran's order"), npy_help);
    std::string_view shape = value_behind(header, "shape");
    std::size_t size = width_of(tensor.dtype);
    const std::size_t held = bytes.size() - begin;
    for (std::size_t at = 0; (at = shape.find_first_of("0123456789")) != std::string_view::npos;) {
        shape.remove_prefix(at);
        std::int64_t dim = 0;
        const auto [end, error] = std::from_chars(shape.data(), shape.data() + shape.size(), dim);
        if (error != std::errc() || (dim > 0 && size > (std::size_t{1} << 62) / static_cast<std::size_t>(dim)))
            fail(cat(path, " has a shape that no file can have"), npy_help);
        shape.remove_prefix(static_cast<std::size_t>(end - shape.data()));
        tensor.shape.push_back(dim);
        size *= static_cast<std::size_t>(dim);
    }
    if (size != held)
        fail(cat(path, held < size ? " is truncated" : " is damaged", ": ", shape_text(tensor.shape), " takes ", size,
                 " bytes, and it holds ", held),
             "copy it again");
    tensor.bytes = bytes.subspan(begin);
    return tensor;
}

}  // namespace thunder

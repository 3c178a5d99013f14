// SPDX-License-Identifier: Apache-2.0
#include "cli/tensor_file.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "checkpoint/safetensors.h"
#include "compiler/frontend/shared/runtime_errors.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// `Stored` is what the file's elements are read as.
template <typename Stored, typename Element>
void read(const thunder::StoredTensor& stored, thunder::DType dtype, std::vector<Element>& out) {
    std::vector<Stored> values(out.size());
    thunder::read_elements(stored, dtype, 0, values.size(), values.data());
    out.assign(values.begin(), values.end());
}

Tensor decode(const thunder::StoredTensor& stored, DType dtype) {
    Tensor out(Type::tensor(dtype, stored.shape));
    switch (dtype) {
        case DType::f64: std::memcpy(out.f.data(), stored.bytes.data(), stored.bytes.size()); break;
        case DType::i64:
        case DType::i32: read<std::int64_t>(stored, thunder::DType::i64, out.i); break;
        case DType::boolean: read<std::uint8_t>(stored, thunder::DType::boolean, out.i); break;
        default: read<float>(stored, thunder::DType::f32, out.f); break;
    }
    return out;
}

}  // namespace

std::map<std::string, Tensor> read_safetensors(const std::filesystem::path& path) {
    static const std::map<std::string, DType> known = [] {
        std::map<std::string, DType> all = {
            {"U32", DType::i64}, {"I16", DType::i32}, {"U16", DType::i32}, {"I8", DType::i32}, {"U8", DType::i32}};
        for (const DTypeRow& row : all_dtypes())
            if (!is_code(row.dtype)) all.emplace(row.stored, row.dtype);
        return all;
    }();
    std::map<std::string, Tensor> out;
    const bool there = std::filesystem::is_regular_file(path);
    with_runtime_errors(there ? "the file is damaged, or was not written as safetensors" : "check the name of the file",
                        [&] {
                            const thunder::SafetensorsFile file(path.string());
                            for (const thunder::StoredTensor& stored : file.tensors()) {
                                const auto dtype = known.find(stored.dtype);
                                if (dtype == known.end()) {
                                    Diagnostic d;
                                    d.message = fmt::format("{} holds {} as {}, which no program computes in",
                                                            path.string(), stored.name, stored.dtype);
                                    d.help = "store it as F32 or I64";
                                    throw UserError(std::move(d));
                                }
                                out.emplace(stored.name, decode(stored, dtype->second));
                            }
                        });
    return out;
}

}  // namespace thunderc

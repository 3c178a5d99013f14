// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/torchscript/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "compiler/support/error.h"
#include "support/error.h"

namespace thunderc::torchscript {
namespace {

using aten::ScalarType;

constexpr std::uint64_t largest_pickle = std::uint64_t{64} << 20U;

// As pickles are read, types have the names that they have in safetensors.
constexpr std::array<std::pair<std::string_view, ScalarType>, 15> types = {{
    {"F32", ScalarType::f32},
    {"F64", ScalarType::f64},
    {"F16", ScalarType::f16},
    {"BF16", ScalarType::bf16},
    {"I64", ScalarType::i64},
    {"I32", ScalarType::i32},
    {"I16", ScalarType::i16},
    {"I8", ScalarType::i8},
    {"U8", ScalarType::u8},
    {"BOOL", ScalarType::boolean},
    {"C64", ScalarType::c64},
    {"C128", ScalarType::c128},
    {"U16", ScalarType::u16},
    {"U32", ScalarType::u32},
    {"U64", ScalarType::u64},
}};

}  // namespace

const std::vector<Pickled::Index>& Pickle::entries(const Pickled& of) const {
    static const std::vector<Pickled::Index> none;
    if (of.kind == Pickled::Kind::dictionary) return of.items;
    return of.kind == Pickled::Kind::object && !of.items.empty() ? at(of.items.front()).items : none;
}

const Pickled* Pickle::member(const Pickled& of, const std::string& key) const {
    const std::vector<Pickled::Index>& all = entries(of);
    for (std::size_t k = 0; k + 1 < all.size(); k += 2)
        if (at(all[k]).kind == Pickled::Kind::text && at(all[k]).text == key) return &at(all[k + 1]);
    return nullptr;
}

aten::StoredTensor Pickle::tensor(const Pickled& of) const {
    const thunder::PickledTensor& from = *of.tensor;
    const auto type =
        std::find_if(types.begin(), types.end(), [&](const auto& named) { return named.first == from.dtype; });
    return {from.storage,
            storages + from.storage,
            type == types.end() ? ScalarType::unknown : type->second,
            from.shape,
            from.strides,
            from.offset};
}

Pickle read_pickle(const ZipArchive& archive, const std::string& entry, const std::string& storages) {
    const std::string what = fmt::format("the pickle {} of {}", entry, archive.path().string());
    const ZipArchive::Entry* found = archive.find(entry);
    if (found == nullptr || found->size > largest_pickle)
        fail(fmt::format("{} is damaged: it is {}", what, found == nullptr ? "not there" : "larger than any model's"),
             "save the model again");
    const std::string bytes = archive.text(entry);
    try {
        return {thunder::read_torch_pickle(std::as_bytes(std::span(bytes)), what), storages};
    } catch (const thunder::DamagedFile& e) {
        fail(e.message(), e.help());
    } catch (const thunder::Error& e) {
        fail(e.message(),
             "pickles are read as data, and nothing in them is run: save tensors, numbers and modules alone");
    }
}

}  // namespace thunderc::torchscript

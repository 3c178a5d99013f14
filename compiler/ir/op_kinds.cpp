// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/op_kinds.h"

#include <algorithm>
#include <functional>
#include <variant>

namespace thunderc {
namespace {

void mix(std::size_t& hash, std::size_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
}

void mix(std::size_t& hash, const Type& type) {
    mix(hash, static_cast<std::size_t>(type.dtype));
    for (std::int64_t extent : type.dims) mix(hash, static_cast<std::size_t>(extent));
}

// Of those attributes that tell most ops of a name apart.
void mix(std::size_t& hash, const Attribute& value) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) mix(hash, static_cast<std::size_t>(*integer));
    if (const auto* number = std::get_if<double>(&value)) mix(hash, std::hash<double>()(*number));
    if (const auto* text = std::get_if<std::string>(&value)) mix(hash, std::hash<std::string>()(*text));
    if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value))
        for (std::int64_t one : *integers) mix(hash, static_cast<std::size_t>(one));
    if (const auto* constant = std::get_if<ConstPtr>(&value)) mix(hash, std::hash<double>()((*constant)->value));
}

bool same(const Attribute& a, const Attribute& b) {
    // Trees that are compared at length are large masks, and two ops that have one share it.
    constexpr std::size_t most_nodes = 64;
    if (const auto* constant = std::get_if<ConstPtr>(&a); constant != nullptr && (*constant)->nodes > most_nodes)
        return a == b;
    return equal(a, b);
}

bool same(const Attributes& a, const Attributes& b) {
    return std::equal(a.entries().begin(), a.entries().end(), b.entries().begin(), b.entries().end(),
                      [](const auto& x, const auto& y) { return x.first == y.first && same(x.second, y.second); });
}

}  // namespace

std::uint32_t OpKinds::of(const Function& f, const Op& op) {
    std::size_t hash = std::hash<std::string>()(op.name);
    for (const auto& [name, value] : op.attributes.entries()) mix(hash, value);
    for (Value v : op.operands)
        if (v) mix(hash, f.type(v));
    for (Value v : op.results) mix(hash, f.type(v));
    const auto is_type = [&](const std::optional<Type>& known, Value v) {
        return v ? known && *known == f.type(v) : !known;
    };
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto at = begin; at != end; ++at) {
        const Kind& kind = kinds_[at->second];
        const auto results =
            kind.types.begin() + static_cast<std::ptrdiff_t>(std::min(op.operands.size(), kind.types.size()));
        if (kind.name == op.name && kind.types.size() == op.operands.size() + op.results.size() &&
            std::equal(kind.types.begin(), results, op.operands.begin(), op.operands.end(), is_type) &&
            std::equal(results, kind.types.end(), op.results.begin(), op.results.end(), is_type) &&
            same(kind.attributes, op.attributes))
            return at->second;
    }
    Kind kind{op.name, op.attributes, {}};
    for (Value v : op.operands) kind.types.push_back(v ? std::optional<Type>(f.type(v)) : std::nullopt);
    for (Value v : op.results) kind.types.emplace_back(f.type(v));
    kinds_.push_back(std::move(kind));
    const auto number = static_cast<std::uint32_t>(kinds_.size() - 1);
    by_hash_.emplace(hash, number);
    return number;
}

}  // namespace thunderc

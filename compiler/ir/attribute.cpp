// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/attribute.h"

#include <algorithm>

#include "compiler/support/lazy_check.h"

namespace thunderc {
namespace {

template <typename T>
const T* lookup(const Attributes& attributes, std::string_view name) {
    const Attribute* found = attributes.find(name);
    if (found == nullptr) return nullptr;
    const T* value = std::get_if<T>(found);
    check(value != nullptr,
          [&] { return "the attribute " + std::string(name) + " is of another kind than its op expects"; });
    return value;
}

template <typename T>
const T& get(const Attributes& attributes, std::string_view name) {
    const T* value = lookup<T>(attributes, name);
    check(value != nullptr, [&] { return "an op lacks its attribute " + std::string(name); });
    return *value;
}

template <typename T>
T get(const Attributes& attributes, std::string_view name, const std::optional<T>& otherwise) {
    if (!otherwise) return get<T>(attributes, name);
    const T* value = lookup<T>(attributes, name);
    return value == nullptr ? *otherwise : *value;
}

bool name_less(const std::pair<std::string, Attribute>& entry, std::string_view name) {
    return entry.first < name;
}

}  // namespace

bool equal(const Attribute& a, const Attribute& b) {
    if (a.index() != b.index()) return false;
    if (const ConstPtr* pa = std::get_if<ConstPtr>(&a)) return equal(**pa, *std::get<ConstPtr>(b));
    return a == b;
}

Attributes::Attributes(std::initializer_list<std::pair<std::string, Attribute>> entries) {
    for (const auto& [name, value] : entries) set(name, value);
}

const Attribute* Attributes::find(std::string_view name) const {
    auto at = std::lower_bound(entries_.begin(), entries_.end(), name, name_less);
    return at != entries_.end() && at->first == name ? &at->second : nullptr;
}

void Attributes::set(std::string name, Attribute value) {
    auto at = std::lower_bound(entries_.begin(), entries_.end(), name, name_less);
    if (at != entries_.end() && at->first == name)
        at->second = std::move(value);
    else
        entries_.insert(at, {std::move(name), std::move(value)});
}

void Attributes::erase(std::string_view name) {
    std::erase_if(entries_, [name](const auto& entry) { return entry.first == name; });
}

bool Attributes::boolean(std::string_view name, std::optional<bool> otherwise) const {
    return get<bool>(*this, name, otherwise);
}
std::int64_t Attributes::integer(std::string_view name, std::optional<std::int64_t> otherwise) const {
    return get<std::int64_t>(*this, name, otherwise);
}
double Attributes::number(std::string_view name, std::optional<double> otherwise) const {
    return get<double>(*this, name, otherwise);
}
std::string Attributes::string(std::string_view name, const std::optional<std::string>& otherwise) const {
    return get<std::string>(*this, name, otherwise);
}
DType Attributes::dtype(std::string_view name) const {
    return get<DType>(*this, name);
}
std::vector<std::int64_t> Attributes::integers(std::string_view name) const {
    return get<std::vector<std::int64_t>>(*this, name);
}
std::vector<std::string> Attributes::strings(std::string_view name) const {
    return get<std::vector<std::string>>(*this, name);
}
ConstPtr Attributes::constant(std::string_view name) const {
    return get<ConstPtr>(*this, name);
}

bool Attributes::operator==(const Attributes& other) const {
    return std::equal(entries_.begin(), entries_.end(), other.entries_.begin(), other.entries_.end(),
                      [](const auto& a, const auto& b) { return a.first == b.first && equal(a.second, b.second); });
}

}  // namespace thunderc

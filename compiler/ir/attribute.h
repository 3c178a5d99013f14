// SPDX-License-Identifier: Apache-2.0
// Attributes of ops: a small sorted map from names to values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/ir/type.h"

namespace thunderc {

using Attribute = std::variant<bool, std::int64_t, double, std::string, DType, std::vector<std::int64_t>,
                               std::vector<std::string>, ConstPtr>;

bool equal(const Attribute& a, const Attribute& b);

// Kept in the order of names, so that text and comparison are deterministic.
class Attributes {
  public:
    Attributes() = default;
    Attributes(std::initializer_list<std::pair<std::string, Attribute>> entries);

    bool has(std::string_view name) const { return find(name) != nullptr; }
    const Attribute* find(std::string_view name) const;
    void set(std::string name, Attribute value);
    void erase(std::string_view name);

    // Throw InternalError where the attribute is missing (and no default is given) or of another kind.
    bool boolean(std::string_view name, std::optional<bool> otherwise = std::nullopt) const;
    std::int64_t integer(std::string_view name, std::optional<std::int64_t> otherwise = std::nullopt) const;
    double number(std::string_view name, std::optional<double> otherwise = std::nullopt) const;
    std::string string(std::string_view name, const std::optional<std::string>& otherwise = std::nullopt) const;
    DType dtype(std::string_view name) const;
    std::vector<std::int64_t> integers(std::string_view name) const;
    std::vector<std::string> strings(std::string_view name) const;
    ConstPtr constant(std::string_view name) const;

    const std::vector<std::pair<std::string, Attribute>>& entries() const { return entries_; }
    bool operator==(const Attributes& other) const;

  private:
    std::vector<std::pair<std::string, Attribute>> entries_;
};

}  // namespace thunderc

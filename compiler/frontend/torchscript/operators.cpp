// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/torchscript/operators.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "compiler/frontend/aten/importer.h"

namespace thunderc::torchscript {
namespace {

using aten::Argument;
using aten::ScalarType;
using aten::Schema;

struct NumberedType {
    std::int64_t number;
    ScalarType type;
};
constexpr std::array numbered_types = {
    NumberedType{0, ScalarType::u8},    NumberedType{1, ScalarType::i8},    NumberedType{2, ScalarType::i16},
    NumberedType{3, ScalarType::i32},   NumberedType{4, ScalarType::i64},   NumberedType{5, ScalarType::f16},
    NumberedType{6, ScalarType::f32},   NumberedType{7, ScalarType::f64},   NumberedType{8, ScalarType::c32},
    NumberedType{9, ScalarType::c64},   NumberedType{10, ScalarType::c128}, NumberedType{11, ScalarType::boolean},
    NumberedType{15, ScalarType::bf16}, NumberedType{27, ScalarType::u16},  NumberedType{28, ScalarType::u32},
    NumberedType{29, ScalarType::u64},
};

// Where tensors lie and who draws numbers: nothing that a program is asked for.
bool says_nothing(const Schema::Parameter& p) {
    static constexpr std::array<std::string_view, 6> names = {"layout",        "device",    "pin_memory",
                                                              "memory_format", "generator", "non_blocking"};
    return std::find(names.begin(), names.end(), p.name) != names.end();
}

Argument argument(Argument::Kind kind) {
    Argument out;
    out.kind = kind;
    return out;
}

// An item as an argument of a type; nullopt where it is none. `exactly`: without conversions.
class Converter {
  public:
    Converter(const Conversions& conversions, bool exactly) : conversions_(conversions), exactly_(exactly) {}

    std::optional<Argument> operator()(const Item& item, std::string_view type) const {
        if (type.ends_with('?')) {
            if (item.kind == Item::Kind::none) return Argument{};
            type.remove_suffix(1);
        }
        if (const std::size_t bracket = type.find('['); bracket != std::string_view::npos)
            return list(item, type.substr(0, bracket), type.substr(bracket) != "[]");
        if (type == "Tensor") return tensor(item);
        if (type == "Scalar") return scalar(item);
        if (type == "int") return whole(item);
        if (type == "float") return real(item);
        if (type == "ScalarType") return scalar_type(item);
        if (type == "bool" && item.kind == Item::Kind::boolean) return number(item);
        if (type == "str" && item.kind == Item::Kind::text) {
            Argument out = argument(Argument::Kind::text);
            out.text = item.text;
            return out;
        }
        return std::nullopt;
    }

  private:
    static Argument number(const Item& item) {
        Argument out = argument(item.kind == Item::Kind::boolean   ? Argument::Kind::boolean
                                : item.kind == Item::Kind::integer ? Argument::Kind::integer
                                                                   : Argument::Kind::number);
        out.integer = item.integer;
        out.number = item.number;
        return out;
    }
    static Argument name(std::string text) {
        Argument out = argument(Argument::Kind::name);
        out.text = std::move(text);
        return out;
    }

    std::optional<Argument> tensor(const Item& item) const {
        if (item.kind == Item::Kind::tensor) return name(item.text);
        if (exactly_ || !item.is_number()) return std::nullopt;
        return name(conversions_.as_tensor(item));
    }
    std::optional<Argument> scalar(const Item& item) const {
        if (item.is_number()) return number(item);
        if (exactly_ || item.kind != Item::Kind::tensor) return std::nullopt;
        return name(item.text);
    }
    std::optional<Argument> whole(const Item& item) const {
        if (item.kind == Item::Kind::integer) return number(item);
        if (exactly_ || item.kind != Item::Kind::tensor) return std::nullopt;
        const std::optional<Item> known = conversions_.as_number(item, true);
        return known ? std::optional(number(*known)) : std::nullopt;
    }
    std::optional<Argument> real(const Item& item) const {
        if (item.kind == Item::Kind::number) return number(item);
        if (item.kind == Item::Kind::integer && !exactly_) return number(Item::of(item.number));
        if (exactly_ || item.kind != Item::Kind::tensor) return std::nullopt;
        const std::optional<Item> known = conversions_.as_number(item, false);
        return known ? std::optional(number(Item::of(known->number))) : std::nullopt;
    }
    std::optional<Argument> scalar_type(const Item& item) const {
        const std::optional<ScalarType> type =
            item.kind == Item::Kind::integer ? scalar_type_of(item.integer) : std::nullopt;
        if (!type) return std::nullopt;
        Argument out = argument(Argument::Kind::scalar_type);
        out.integer = static_cast<std::int64_t>(*type);
        return out;
    }
    // `broadcasts`: one number stands for a list of them.
    std::optional<Argument> list(const Item& item, std::string_view type, bool broadcasts) const {
        Argument out = argument(Argument::Kind::list);
        if (!item.is_sequence()) {
            const std::optional<Argument> one = broadcasts ? (*this)(item, type) : std::nullopt;
            if (one) out.items.push_back(*one);
            return one ? std::optional(out) : std::nullopt;
        }
        for (const Item& each : *item.items) {
            std::optional<Argument> one = (*this)(each, type);
            if (!one) return std::nullopt;
            out.items.push_back(std::move(*one));
        }
        return out;
    }

    const Conversions& conversions_;
    bool exactly_;
};

std::optional<MatchedCall> match(const OperatorCall& call, const Schema& schema, const Converter& convert) {
    MatchedCall out;
    out.schema = &schema;
    std::size_t next = 0, used = 0;
    for (const Schema::Parameter& p : schema.parameters) {
        const Item* given = nullptr;
        if (!p.keyword && next < call.arguments.size()) {
            given = &call.arguments[next++];
        } else {
            const auto named = std::find_if(call.named.begin(), call.named.end(),
                                            [&](const auto& one) { return one.first == p.name; });
            if (named != call.named.end()) {
                given = &named->second;
                ++used;
            }
        }
        if (given == nullptr) {
            if (!p.optional) return std::nullopt;
            continue;
        }
        if (says_nothing(p) || p.type.starts_with("Device")) {
            const bool dtype_instead = given->kind == Item::Kind::integer && p.type.starts_with("Device");
            if (given->kind == Item::Kind::tensor || dtype_instead) return std::nullopt;
            continue;
        }
        std::optional<Argument> argument = convert(*given, p.type);
        if (!argument) return std::nullopt;
        if (argument->kind != Argument::Kind::none) out.arguments.push_back({p.name, std::move(*argument)});
    }
    if (next != call.arguments.size() || used != call.named.size()) return std::nullopt;
    return out;
}

}  // namespace

std::optional<MatchedCall> matched(const OperatorCall& call, const Conversions& conversions) {
    const std::vector<Schema>* schemas = &aten::schemas_of(call.name);
    std::string base = call.name;
    if (schemas->empty() && aten::writes_in_place("aten." + call.name)) {
        base.pop_back();
        schemas = &aten::schemas_of(base);
    }
    for (const bool exactly : {true, false})
        for (const Schema& schema : *schemas)
            if (std::optional<MatchedCall> out = match(call, schema, Converter(conversions, exactly))) return out;
    return std::nullopt;
}

std::optional<ScalarType> scalar_type_of(std::int64_t number) {
    const auto at = std::find_if(numbered_types.begin(), numbered_types.end(),
                                 [&](const NumberedType& t) { return t.number == number; });
    return at == numbered_types.end() ? std::nullopt : std::optional(at->type);
}

std::int64_t number_of(ScalarType type) {
    const auto at = std::find_if(numbered_types.begin(), numbered_types.end(),
                                 [&](const NumberedType& t) { return t.type == type; });
    return at == numbered_types.end() ? -1 : at->number;
}

std::int64_t number_of(DType dtype) {
    return dtype == DType::boolean ? 11 : dtype == DType::i64 ? 4 : dtype == DType::i32 ? 3 : 6;
}

}  // namespace thunderc::torchscript

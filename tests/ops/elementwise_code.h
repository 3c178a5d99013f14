// SPDX-License-Identifier: Apache-2.0
// The compiled text of elementwise ops (written by print_elementwise), by op and element types.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/op_def.h"

namespace thunderc::testing {

using ElementwiseFunction = void (*)(const std::vector<const void*>& operands, void* result, std::int64_t count);

struct ElementwiseEntry {
    std::string signature;
    ElementwiseFunction function;
};

const std::vector<ElementwiseEntry>& elementwise_entries();

// "float" for f32 and so on; "" for types that are not computed with (f16, bf16, f64).
inline std::string cpp_type(DType dtype) {
    switch (dtype) {
        case DType::f32: return "float";
        case DType::i64: return "std::int64_t";
        case DType::i32: return "std::int32_t";
        case DType::boolean: return "bool";
        default: return "";
    }
}

// The types of a sample's operands and of its result.
inline std::vector<DType> element_types(const OpDef& def, const Sample& sample) {
    std::vector<std::optional<Type>> types;
    std::vector<DType> out;
    for (const SampleOperand& operand : sample.operands) {
        types.emplace_back(operand.type);
        out.push_back(operand.type.dtype);
    }
    out.push_back(def.infer({types, sample.attributes})[0].dtype);
    return out;
}

// "select_bool_f32_f32_f32"; "" where one of the types is not computed with.
inline std::string signature(const OpDef& def, const Sample& sample) {
    std::string out = def.name;
    for (DType dtype : element_types(def, sample)) {
        if (cpp_type(dtype).empty()) return "";
        out += "_" + std::string(name_of(dtype));
    }
    return out;
}

}  // namespace thunderc::testing

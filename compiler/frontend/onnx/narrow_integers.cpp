// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/narrow_integers.h"

#include "compiler/frontend/onnx/importer.h"

namespace thunderc::onnx_frontend {
namespace {

using onnx::TensorProto;

int narrow_bits(std::int32_t narrow) {
    switch (narrow) {
        case TensorProto::INT8:
        case TensorProto::UINT8: return 8;
        case TensorProto::INT16:
        case TensorProto::UINT16: return 16;
        default: return 32;
    }
}

bool is_signed(std::int32_t narrow) {
    return narrow == TensorProto::INT8 || narrow == TensorProto::INT16;
}

}  // namespace

std::int32_t narrow_type(std::int32_t data_type) {
    switch (data_type) {
        case TensorProto::INT8:
        case TensorProto::UINT8:
        case TensorProto::INT16:
        case TensorProto::UINT16:
        case TensorProto::UINT32: return data_type;
        default: return 0;
    }
}

int bits_of(std::int32_t narrow, DType dtype) {
    return narrow != 0 ? narrow_bits(narrow) : static_cast<int>(8 * size_of(dtype));
}

std::int64_t narrow_entries(std::int32_t narrow) {
    return is_signed(narrow) ? -1 : std::int64_t{1} << narrow_bits(narrow);
}

Value wrapped(Builder& b, Value v, std::int32_t narrow) {
    const auto count = static_cast<double>(std::int64_t{1} << narrow_bits(narrow));
    const Value modulus = b.scalar(b.type(v).dtype, count);
    if (!is_signed(narrow)) return b.op("mod", {v, modulus});
    return b.add(b.op("mod", {b.add(v, count / 2), modulus}), -count / 2);
}

// Of a node that was just imported: its integers stay in the range of their type, and know that they do.
void Importer::keep_narrow(const onnx::NodeProto& node, Integers integers) {
    if (integers.are_own() || integers.operand() >= node.input_size()) return;
    const Binding* operand = find(node.input(integers.operand()));
    if (operand == nullptr || operand->narrow == 0) return;
    const std::int32_t narrow = operand->narrow;
    for (const auto& name : node.output()) {
        const Binding* result = name.empty() ? nullptr : find(name);
        if (result == nullptr) continue;
        Binding binding = *result;
        if (binding.value && !is_integer(type(binding.value).dtype)) continue;
        if (binding.tensor && (binding.tensor->floating() || binding.tensor->type.dtype == DType::boolean)) continue;
        binding.narrow = narrow;
        if (integers.computed()) {
            binding.value = wrapped(builder_, value(name), narrow);
            binding.tensor = nullptr;
            binding.proto = nullptr;
        }
        bind(name, std::move(binding));
    }
}

}  // namespace thunderc::onnx_frontend

#include "compiler/frontend/onnx/narrow_integers.h"

#include <algorithm>
#include <array>

#include "compiler/frontend/onnx/importer.h"

namespace thunderc::onnx_frontend {
namespace {

using onnx::TensorProto;

int bits_of(std::int32_t narrow) {
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

std::int64_t narrow_entries(std::int32_t narrow) {
    return is_signed(narrow) ? -1 : std::int64_t{1} << bits_of(narrow);
}

Value wrapped(Builder& b, Value v, std::int32_t narrow) {
    const auto count = static_cast<double>(std::int64_t{1} << bits_of(narrow));
    const Value modulus = b.scalar(b.type(v).dtype, count);
    if (!is_signed(narrow)) return b.op("mod", {v, modulus});
    return b.add(b.op("mod", {b.add(v, count / 2), modulus}), -count / 2);
}

int typing_operand(std::string_view op) {
    constexpr std::array<std::string_view, 4> counting = {"Shape", "Size", "ArgMax", "ArgMin"};
    if (std::find(counting.begin(), counting.end(), op) != counting.end()) return -1;
    return op == "Where" || op == "CastLike" ? 1 : op == "OneHot" ? 2 : 0;
}

bool leaves_range(std::string_view op) {
    constexpr std::array<std::string_view, 18> arithmetic = {
        "Add",      "Sub",      "Mul",    "Div",       "Neg",        "Abs",
        "Pow",      "Sum",      "Mean",   "ReduceSum", "ReduceProd", "ReduceSumSquare",
        "ReduceL1", "ReduceL2", "CumSum", "Gemm",      "Range",      "MatMul"};
    return op == "Cast" || op == "CastLike" || std::find(arithmetic.begin(), arithmetic.end(), op) != arithmetic.end();
}

// Of a node that was just imported: its integers stay in the range of their type, and know that they do.
void Importer::keep_narrow(const onnx::NodeProto& node) {
    const std::string& op = node.op_type();
    std::int32_t narrow = 0, before = 0;
    bool boolean = false;
    if (const int k = typing_operand(op); k >= 0 && k < node.input_size())
        if (const Binding* operand = find(node.input(k))) narrow = operand->narrow;
    if (op == "Cast" || op == "CastLike") {
        const Binding* operand = node.input_size() > 0 ? find(node.input(0)) : nullptr;
        before = operand == nullptr ? 0 : operand->narrow;
        boolean = operand != nullptr && operand->value && type(operand->value).dtype == DType::boolean;
        for (const auto& attribute : node.attribute())
            if (op == "Cast" && attribute.name() == "to")
                narrow = narrow_type(static_cast<std::int32_t>(attribute.i()));
        if (op == "Cast" && narrow == 0) return;
    }
    if (narrow == 0) return;
    for (const auto& name : node.output()) {
        const Binding* result = name.empty() ? nullptr : find(name);
        if (result == nullptr) continue;
        Binding binding = *result;
        if (binding.value && !is_integer(type(binding.value).dtype)) continue;
        if (binding.tensor && (binding.tensor->floating() || binding.tensor->type.dtype == DType::boolean)) continue;
        binding.narrow = narrow;
        // A boolean is 0 or 1 in any type.
        if (leaves_range(op) && before != narrow && !boolean && !binding.is_sequence) {
            binding.value = wrapped(builder_, value(name), narrow);
            binding.tensor = nullptr;
            binding.proto = nullptr;
        }
        bind(name, std::move(binding));
    }
}

}  // namespace thunderc::onnx_frontend

// SPDX-License-Identifier: Apache-2.0
// What generated kernels compute against what the evaluator computes, for every elementwise op.
#include "elementwise_code.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "sample_checks.h"

namespace thunderc::testing {
namespace elementwise_code_test {

template <typename T>
std::vector<std::byte> bytes_as(const Tensor& t) {
    std::vector<std::byte> out(static_cast<std::size_t>(t.size()) * sizeof(T));
    for (std::size_t k = 0; k < static_cast<std::size_t>(t.size()); ++k) {
        T value = t.floating() ? static_cast<T>(t.f[k]) : static_cast<T>(t.i[k]);
        std::memcpy(out.data() + k * sizeof(T), &value, sizeof(T));
    }
    return out;
}

std::vector<std::byte> to_bytes(const Tensor& t) {
    switch (t.type.dtype) {
        case DType::f32: return bytes_as<float>(t);
        case DType::i64: return bytes_as<std::int64_t>(t);
        case DType::i32: return bytes_as<std::int32_t>(t);
        default: return bytes_as<bool>(t);
    }
}

template <typename T>
Tensor from(const std::vector<std::byte>& bytes, const Type& type) {
    Tensor out(type);
    for (std::size_t k = 0; k < static_cast<std::size_t>(out.size()); ++k) {
        T value;
        std::memcpy(&value, bytes.data() + k * sizeof(T), sizeof(T));
        if (out.floating())
            out.f[k] = static_cast<double>(value);
        else
            out.i[k] = static_cast<std::int64_t>(value);
    }
    return out;
}

Tensor from_bytes(const std::vector<std::byte>& bytes, const Type& type) {
    switch (type.dtype) {
        case DType::f32: return from<float>(bytes, type);
        case DType::i64: return from<std::int64_t>(bytes, type);
        case DType::i32: return from<std::int32_t>(bytes, type);
        default: return from<bool>(bytes, type);
    }
}

// The functions are within 4 units in the last place of f32 (2^-23 each; vec_math_test holds them to less). What fp64
// gives beyond the range of floats is infinite or 0 there.
bool agrees(double code, double reference) {
    auto expected = static_cast<float>(reference);
    if (std::isnan(expected) || std::isinf(expected)) return std::isnan(expected) ? std::isnan(code) : code == expected;
    return std::abs(code - expected) <= std::abs(expected) * 4 * 0x1p-23 + 1e-44;
}

TEST(ElementwiseCode, ComputesWhatTheReferenceDoes) {
    std::size_t judged = 0;
    for (const OpDef* def : all_ops()) {
        if (!def->elementwise) continue;
        for (const Sample& sample : def->samples) {
            const std::string name = signature(*def, sample);
            if (name.empty()) continue;
            SCOPED_TRACE(name + ", sample " + sample.name);
            ElementwiseFunction function = nullptr;
            for (const ElementwiseEntry& entry : elementwise_entries())
                if (entry.signature == name) function = entry.function;
            ASSERT_NE(function, nullptr);

            std::vector<Tensor> operands = make_operands(def->name, sample);
            std::vector<std::optional<Type>> types;
            Op op;
            op.name = def->name;
            op.attributes = sample.attributes;
            for (Tensor& t : operands) {
                for (double& v : t.f) v = static_cast<float>(v);
                types.emplace_back(t.type);
                op.operands.push_back({static_cast<std::uint32_t>(types.size() - 1)});
            }
            std::vector<Type> result = def->infer({types, sample.attributes});
            Tensor expected = def->reference(op, operands, result)[0];

            std::vector<std::vector<std::byte>> held;
            std::vector<const void*> pointers;
            for (const Tensor& t : operands) held.push_back(to_bytes(broadcast_tensor(t, result[0].dims)));
            for (const auto& bytes : held) pointers.push_back(bytes.data());
            std::vector<std::byte> out(static_cast<std::size_t>(expected.size()) * size_of(result[0].dtype));
            function(pointers, out.data(), expected.size());
            Tensor actual = from_bytes(out, result[0]);
            for (std::int64_t k = 0; k < expected.size(); ++k) {
                ++judged;
                if (expected.floating())
                    EXPECT_TRUE(agrees(actual.at(k), expected.at(k)))
                        << "element " << k << ": " << actual.at(k) << " for " << expected.at(k);
                else
                    EXPECT_EQ(actual.i[static_cast<std::size_t>(k)], expected.i[static_cast<std::size_t>(k)])
                        << "element " << k;
            }
        }
    }
    EXPECT_GT(judged, 1000U);
}

}  // namespace elementwise_code_test
}  // namespace thunderc::testing

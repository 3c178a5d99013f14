// SPDX-License-Identifier: Apache-2.0
// A dense tensor on the host, for constants and for the fp64 reference. Floating point types are held as doubles,
// integers and booleans as int64; the type says what they stand for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/ir/type.h"

namespace thunderc {

struct Tensor {
    Type type;
    std::vector<double> f;        // where is_float(type.dtype), and of codes what they are as numbers
    std::vector<std::int64_t> i;  // else

    Tensor() = default;
    explicit Tensor(Type tensor_type);  // zeros
    static Tensor scalar(DType dtype, double value);
    static Tensor ints(const std::vector<std::int64_t>& values);  // i64[n]
    static Tensor floats(const Dims& dims, std::vector<double> values, DType dtype = DType::f32);

    bool floating() const { return is_float(type.dtype) || is_code(type.dtype); }
    std::int64_t size() const { return type.elements(); }
    double at(std::int64_t index) const {  // as a double, whatever the type
        auto k = static_cast<std::size_t>(index);
        return floating() ? f[k] : static_cast<double>(i[k]);
    }
    // Integers saturate: an exporter's "to the end" is 2^63 - 1, which a double holds only as 2^63. What
    // is no number becomes 0.
    void set(std::int64_t index, double value) {
        auto k = static_cast<std::size_t>(index);
        if (floating())
            f[k] = value;
        else
            i[k] = value >= 0x1p63    ? INT64_MAX
                   : value <= -0x1p63 ? INT64_MIN
                   : value == value   ? static_cast<std::int64_t>(value)
                                      : 0;
    }
    bool operator==(const Tensor&) const = default;
};

// The parts of a tensor along axis 0, and the tensor of such parts, of which there is one at least.
std::vector<Tensor> unstacked(const Tensor& whole);
Tensor stacked(std::span<const Tensor* const> parts);

}  // namespace thunderc

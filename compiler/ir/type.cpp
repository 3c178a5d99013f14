// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/type.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace thunderc {

std::int64_t element_count(const Dims& dims) {
    std::int64_t count = 1;
    bool more = false;
    for (std::int64_t d : dims) {
        if (d == 0) return 0;
        more = __builtin_mul_overflow(count, d, &count) || more;
    }
    return more ? std::numeric_limits<std::int64_t>::max() : count;
}

bool countable(const Dims& dims) {
    constexpr std::int64_t most = std::int64_t{1} << 40;
    std::int64_t count = 1;
    for (std::int64_t d : dims) {
        if (d < 0 || d > most / count) return false;
        count *= std::max<std::int64_t>(d, 1);
    }
    return true;
}

Dims dense_strides(const Dims& dims) {
    Dims strides(dims.size(), 1);
    for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
    return strides;
}

std::string to_string(const Dims& dims) {
    return fmt::format("{}", fmt::join(dims, ","));
}

std::string to_string(const Type& type) {
    if (type.kind == Type::Kind::token) return "token";
    std::string tensor = fmt::format("{}[{}]", name_of(type.dtype), to_string(type.dims));
    return type.is_family() ? fmt::format("{} x {}", type.count, tensor) : tensor;
}

std::optional<Dims> broadcast(const Dims& a, const Dims& b) {
    Dims out(std::max(a.size(), b.size()), 1);
    for (std::size_t i = 0; i < out.size(); ++i) {
        std::int64_t da = i < a.size() ? a[a.size() - 1 - i] : 1;
        std::int64_t db = i < b.size() ? b[b.size() - 1 - i] : 1;
        if (da != db && da != 1 && db != 1) return std::nullopt;
        out[out.size() - 1 - i] = da == 1 ? db : da;
    }
    return out;
}

std::optional<std::int64_t> normalize_axis(std::int64_t axis, std::int64_t rank) {
    if (axis < -rank || axis >= rank) return std::nullopt;
    return axis < 0 ? axis + rank : axis;
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/rules.h"

namespace thunderc {
namespace {

std::int64_t axis_of(std::size_t d) {
    return static_cast<std::int64_t>(d) + 2;
}

// Each element along `axis` is followed by step - 1 zeros, but for the last one.
Value spread(Builder& b, Value v, std::int64_t axis, std::int64_t step) {
    Dims dims = b.type(v).dims;
    const auto at = static_cast<std::size_t>(axis);
    const std::int64_t count = dims[at];
    if (step == 1 || count <= 1) return v;
    Dims apart = dims;
    apart.insert(apart.begin() + axis + 1, 1);
    Dims low(apart.size(), 0), high = low;
    high[at + 1] = step - 1;
    v = b.op("pad", {b.reshape(v, apart)}, {{"low", low}, {"high", high}, {"value", 0.0}});
    dims[at] = count * step;
    return b.slice(b.reshape(v, dims), axis, 0, (count - 1) * step + 1);
}

// Zeros around v, and what is negative cut off; none where nothing is left.
Value framed(Builder& b, Value v, const Dims& low, const Dims& high) {
    Dims more_low = low, more_high = high;
    for (std::size_t d = 0; d < low.size(); ++d) {
        const std::int64_t begin = std::max<std::int64_t>(0, -low[d]),
                           end = b.type(v).dims[d] - std::max<std::int64_t>(0, -high[d]);
        if (begin >= end) return {};
        v = b.slice(v, static_cast<std::int64_t>(d), begin, end);
        more_low[d] = std::max<std::int64_t>(0, low[d]);
        more_high[d] = std::max<std::int64_t>(0, high[d]);
    }
    const auto none = [](const Dims& widths) {
        return std::all_of(widths.begin(), widths.end(), [](std::int64_t w) { return w == 0; });
    };
    if (none(more_low) && none(more_high)) return v;
    return b.op("pad", {v}, {{"low", more_low}, {"high", more_high}, {"value", 0.0}});
}

// What one place sees, (N, C, steps…), where it sees it; none where it sees nothing.
Value at_elements(Builder& b, Value part, const Window& w, const Dims& place) {
    Dims low(b.type(part).dims.size(), 0), high = low;
    for (std::size_t d = 0; d < w.rank(); ++d) {
        part = spread(b, part, axis_of(d), w.strides[d]);
        low[d + 2] = place[d] - w.before[d];
        high[d + 2] = w.in[d] - low[d + 2] - b.type(part).dims[d + 2];
    }
    return framed(b, part, low, high);
}

}  // namespace

void Window::for_each_place(const std::function<void(const Dims&)>& f) const {
    const Dims steps = [&] {
        Dims out(size.size(), 1);
        for (std::size_t d = size.size(); d-- > 1;) out[d - 1] = out[d] * size[d];
        return out;
    }();
    for (std::int64_t k = 0; k < places(); ++k) {
        Dims offsets(size.size());
        for (std::size_t d = 0; d < size.size(); ++d) offsets[d] = k / steps[d] % size[d] * dilations[d];
        f(offsets);
    }
}

Value padded(Builder& b, Value x, const Window& w, double value) {
    Dims low(w.rank() + 2, 0), high = low;
    bool any = false;
    for (std::size_t d = 0; d < w.rank(); ++d) {
        low[d + 2] = w.before[d];
        high[d + 2] = w.behind[d] + w.beyond(d);
        any = any || low[d + 2] != 0 || high[d + 2] != 0;
    }
    return any ? b.op("pad", {x}, {{"low", low}, {"high", high}, {"value", value}}) : x;
}

Value at_place(Builder& b, Value padded, const Window& w, const Dims& place) {
    for (std::size_t d = 0; d < w.rank(); ++d)
        padded = b.slice(padded, axis_of(d), place[d], place[d] + (w.out[d] - 1) * w.strides[d] + 1, w.strides[d]);
    return padded;
}

Value summed_at_elements(Builder& b, const Type& result, const Window& w,
                         const std::function<Value(std::int64_t)>& part) {
    Value sum;
    std::int64_t k = 0;
    w.for_each_place([&](const Dims& place) {
        const Value v = at_elements(b, part(k++), w, place);
        if (v) sum = sum ? b.add(sum, v) : v;
    });
    return sum ? sum : b.splat(result, 0);
}

Value folded(Builder& b, Value columns, const Window& w) {
    Type result = b.type(columns);
    Dims part = result.dims;
    part.erase(part.begin() + 2);
    result.dims = {part[0], part[1]};
    result.dims.insert(result.dims.end(), w.in.begin(), w.in.end());
    return summed_at_elements(b, result, w,
                              [&](std::int64_t k) { return b.reshape(b.slice(columns, 2, k, k + 1), part); });
}

std::int64_t groups_of(const Attributes& attributes, std::int64_t channels) {
    const std::int64_t groups = attributes.integer("groups");
    require(groups >= 1 && groups <= std::max<std::int64_t>(channels, 1),
            fmt::format("{} groups of {} channels", groups, channels));
    return groups;
}

}  // namespace thunderc

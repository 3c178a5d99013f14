// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/aten/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace thunderc::aten {
namespace {

// How many steps a window makes; with ceil_mode one more where elements are left, which begins on them or before.
std::int64_t steps_of_pool(Node& n, const Window& w, std::size_t d) {
    const std::int64_t room = w.in[d] + w.before[d] + w.behind[d] - w.reach(d);
    if (room < 0 && !n.boolean("ceil_mode", false)) return 0;
    if (!n.boolean("ceil_mode", false)) return room / w.strides[d] + 1;
    const std::int64_t steps = (std::max<std::int64_t>(room, -w.strides[d]) + w.strides[d] - 1) / w.strides[d] + 1;
    return (steps - 1) * w.strides[d] >= w.in[d] + w.before[d] ? steps - 1 : steps;
}

}  // namespace

std::size_t dimensions_of(const std::string& op) {
    return op.find("1d") != std::string::npos ? 1 : op.find("2d") != std::string::npos ? 2 : 3;
}

Dims for_each_dimension(Node& n, std::string_view name, std::size_t rank, std::int64_t otherwise) {
    Dims out = n.integers(name).value_or(Dims{});
    if (out.empty()) out = {otherwise};
    if (out.size() == 1) out.resize(rank, out[0]);
    if (out.size() != rank) n.fail(fmt::format("\"{}\" of {} has {} numbers", name, n.call().target, out.size()));
    return out;
}

Window window_form_of(Node& n, const Dims& in, const Dims& size, const Dims& strides) {
    Window w;
    w.in = in;
    w.size = size;
    w.strides = strides;
    w.dilations = for_each_dimension(n, "dilation", in.size(), 1);
    w.before = w.behind = n.argument("padding") != nullptr && n.argument("padding")->kind == Argument::Kind::text
                              ? Dims(in.size(), 0)
                              : for_each_dimension(n, "padding", in.size(), 0);
    const auto inside = [](const Dims& numbers, std::int64_t least) {
        return std::all_of(numbers.begin(), numbers.end(), [&](std::int64_t v) { return v >= least && v < 1 << 30; });
    };
    if (!inside(w.size, 1) || !inside(w.strides, 1) || !inside(w.dilations, 1) || !inside(w.before, 0))
        n.fail(fmt::format("the windows of {} do not fit its input", n.call().target));
    if (w.places() > most_window_places)
        n.fail(fmt::format("{} with windows of {} places is not supported", n.call().target, w.places()),
               "use smaller windows", fmt::format("{} at most", most_window_places));
    return w;
}

Value with_batch_of(Builder& b, Value x, std::size_t spatial) {
    Dims dims = b.type(x).dims;
    if (dims.size() != spatial + 1) return x;
    dims.insert(dims.begin(), 1);
    return b.reshape(x, dims);
}

Value as_it_came(Node& n, Value y, std::int64_t rank) {
    Dims dims = n.b().type(y).dims;
    if (static_cast<std::int64_t>(dims.size()) == rank) return y;
    dims.erase(dims.begin());
    return n.b().reshape(y, dims);
}

Pooled pooled(Node& n) {
    Builder& b = n.b();
    const std::size_t spatial = dimensions_of(n.op());
    const Value x = with_batch_of(b, n.tensor(n.has("self") ? "self" : "input"), spatial);
    const Dims dims = b.type(x).dims;
    if (dims.size() != spatial + 2)
        n.fail(fmt::format("{} takes rows of channels", n.call().target), {}, {}, to_string(b.type(x)));
    const Dims size = for_each_dimension(n, "kernel_size", spatial, 1);
    const bool given = n.has("stride") && !n.integers("stride")->empty();
    Window w = window_form_of(n, Dims(dims.begin() + 2, dims.end()), size,
                              given ? for_each_dimension(n, "stride", spatial, 1) : size);
    for (std::size_t d = 0; d < spatial; ++d) {
        w.out.push_back(steps_of_pool(n, w, d));
        if (w.out[d] < 1)
            n.fail(fmt::format("the windows of {} are larger than its input with its padding", n.call().target));
    }
    return {x, w, n.type(n.has("self") ? "self" : "input").rank()};
}

AdaptiveWindow adaptive_window(std::int64_t in, std::int64_t out, std::int64_t k) {
    return {k * in / out, ((k + 1) * in + out - 1) / out};
}

Tensor adaptive_shares(Node& n, std::int64_t in, std::int64_t out, DType dtype) {
    constexpr std::int64_t most = std::int64_t{1} << 24U;  // numbers: the matrix is a constant
    if (in < 1 || element_count({out, in}) > most)
        n.fail(fmt::format("{} of {} elements to {} is not supported", n.call().target, in, out));
    Tensor matrix(Type::tensor(dtype, {out, in}));
    for (std::int64_t k = 0; k < out; ++k) {
        const auto [begin, end] = adaptive_window(in, out, k);
        for (std::int64_t i = begin; i < end; ++i)
            matrix.f[static_cast<std::size_t>(k * in + i)] = 1 / static_cast<double>(end - begin);
    }
    return matrix;
}

}  // namespace thunderc::aten

// SPDX-License-Identifier: Apache-2.0
// Fourier transforms: products with constant matrices, of n^2 numbers each.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "compiler/frontend/onnx/importer.h"

namespace thunderc::onnx_frontend {
namespace {

constexpr std::int64_t longest = 4096;
constexpr std::int64_t largest_matrix = std::int64_t{1} << 23;  // 32 MB of f32; 2048 real numbers make as many

struct Spectrum {
    std::int64_t length = 0, used = 0;  // of the transform; of what goes in
    std::int64_t parts = 1;             // of a number that goes in: 2 for complex ones
    std::int64_t results = 0, result_parts = 2;
    bool inverse = false;
    bool of_half = false;  // what goes in is the first half of a spectrum, whose other half mirrors it
};

// Row (i, part) and column (k, part): what element i gives to result k. exp(∓2πi ik/n), by n for the inverse.
Tensor matrix(const Spectrum& t, DType dtype) {
    Tensor out(Type::tensor(dtype, {t.used * t.parts, t.results * t.result_parts}));
    const double sign = t.inverse ? 1 : -1, share = t.inverse ? 1 / static_cast<double>(t.length) : 1;
    for (std::int64_t i = 0; i < t.used; ++i)
        for (std::int64_t k = 0; k < t.results; ++k) {
            const double angle =
                2 * std::numbers::pi * static_cast<double>(i * k % t.length) / static_cast<double>(t.length);
            const bool mirrored = t.of_half && i != 0 && 2 * i != t.length;
            const double weight = mirrored ? 2 * share : share;
            const double real = weight * std::cos(angle), imaginary = weight * sign * std::sin(angle);
            const auto at = [&](std::int64_t from, std::int64_t to) -> double& {
                const std::int64_t columns = t.results * t.result_parts;
                return out.f[static_cast<std::size_t>((i * t.parts + from) * columns + k * t.result_parts + to)];
            };
            at(0, 0) = real;
            if (t.result_parts == 2) at(0, 1) = imaginary;
            if (t.parts == 2) at(1, 0) = -imaginary;
            if (t.parts == 2 && t.result_parts == 2) at(1, 1) = real;
        }
    return out;
}

// x [rows…, n, parts] -> [rows…, results, result parts]
Value transformed(Node& n, Value x, const Spectrum& t) {
    if (t.length < 1 || t.length > longest)
        n.fail(fmt::format("{} of the length {} is not supported", n.proto().op_type(), t.length), {},
               fmt::format("1 to {}", longest));
    if (const std::int64_t elements = t.used * t.parts * t.results * t.result_parts; elements > largest_matrix)
        n.fail(fmt::format("{} of the length {} is not supported: it would be a product with a matrix of {} by {}",
                           n.proto().op_type(), t.length, t.used * t.parts, t.results * t.result_parts),
               "take it of shorter rows, of real numbers in place of complex ones, or of half the spectrum (onesided)",
               fmt::format("{} elements at most", largest_matrix), fmt::format("{} elements", elements));
    Builder& b = n.b();
    Dims dims = b.type(x).dims;
    const auto axis = static_cast<std::int64_t>(dims.size()) - 2;
    x = b.slice(x, axis, 0, t.used);
    const std::int64_t width = t.used * t.parts, rows = b.type(x).elements() / width;
    const Value table = b.constant(ConstExpr::dense(matrix(t, b.type(x).dtype)));
    const Value y =
        b.op("matmul", {b.reshape(x, {rows, width}), table}, {{"transpose_a", false}, {"transpose_b", false}});
    dims[dims.size() - 2] = t.results;
    dims.back() = t.result_parts;
    return b.reshape(y, dims);
}

std::int64_t parts_of(Node& n) {
    n.take_floats_only();
    const Type type = n.type(0);
    if (type.rank() < 2 || type.dims.back() < 1 || type.dims.back() > 2 || type.elements() == 0)
        n.fail(fmt::format("{} takes real numbers or complex ones, whose parts are the last dimension",
                           n.proto().op_type()),
               {}, {}, to_string(type));
    return type.dims.back();
}

// The axis is an attribute before opset 20.
void fourier(Node& n) {
    Builder& b = n.b();
    const std::int64_t rank = n.type(0).rank();
    Spectrum t;
    t.parts = parts_of(n);
    t.inverse = n.integer("inverse", 0) != 0;
    const bool half = n.integer("onesided", 0) != 0;
    const std::int64_t given = n.opset() < 20 ? n.integer("axis", 1) : n.has(2) ? n.integer(2, "axis") : -2;
    const std::int64_t axis = n.axis(given, rank);
    if (axis == rank - 1) n.fail("DFT along the parts of its numbers");
    const std::int64_t size = n.type(0).dims[static_cast<std::size_t>(axis)];
    t.of_half = t.inverse && half;
    t.length = n.has(1) ? n.integer(1, "length") : t.of_half ? 2 * (size - 1) : size;
    t.used = std::min(size, t.of_half ? t.length / 2 + 1 : t.length);
    t.results = half && !t.inverse ? t.length / 2 + 1 : t.length;
    if (t.of_half) t.result_parts = 1;
    Dims order(static_cast<std::size_t>(rank)), back(order.size());
    std::iota(order.begin(), order.end(), 0);
    order.erase(order.begin() + axis);
    order.insert(order.end() - 1, axis);
    for (std::size_t d = 0; d < order.size(); ++d)
        back[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
    n.output(0, b.transpose(transformed(n, b.transpose(n.input(0), order), t), back));
}

// Of frames of the signal, each times the window: (N, length, parts) -> (N, frames, frequencies, 2).
void short_time_fourier(Node& n) {
    Builder& b = n.b();
    Spectrum t;
    t.parts = parts_of(n);
    const Dims dims = n.type(0).dims;
    const std::int64_t step = n.integer(1, "frame_step");
    if (dims.size() != 3 || step < 1)
        n.fail("STFT takes rows of signals, and a positive step", {}, {}, to_string(n.type(0)));
    t.length = n.has(3) ? n.integer(3, "frame_length") : n.has(2) ? n.type(2).elements() : dims[1];
    if (t.length < 1 || t.length > dims[1] || (n.has(2) && n.type(2).dims != Dims{t.length}))
        n.fail("the frames of STFT do not fit its signal and its window", {}, {}, std::to_string(t.length));
    const std::int64_t frames = 1 + (dims[1] - t.length) / step;
    t.used = t.length;
    t.results = n.integer("onesided", 1) != 0 ? t.length / 2 + 1 : t.length;
    const ConstPtr places =
        ConstExpr::affine(Type::tensor(DType::i64, {frames, t.length}), 0, {static_cast<double>(step), 1});
    Value v = b.op("gather", {n.input(0), b.constant(places)}, {{"axis", std::int64_t{1}}});
    if (n.has(2)) v = b.mul(v, b.reshape(n.input(2), {t.length, 1}));
    n.output(0, transformed(n, v, t));
}

constexpr OpImporter signal_importers[] = {
    {"DFT", 17, last_opset, fourier, own},
    {"STFT", 17, last_opset, short_time_fourier, own},
};

}  // namespace

std::span<const OpImporter> signal_ops() {
    return signal_importers;
}

}  // namespace thunderc::onnx_frontend

// SPDX-License-Identifier: Apache-2.0
// Fourier transforms: products with constant matrices, of n^2 numbers each.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/shared/fourier.h"

namespace thunderc::onnx_frontend {
namespace {

// Where a transform is one that a program does.
void check_spectrum(Node& n, const Spectrum& t) {
    if (!t.has_length())
        n.fail(fmt::format("{} of the length {} is not supported", n.proto().op_type(), t.length), {},
               fmt::format("1 to {}", Spectrum::longest));
    if (!t.fits())
        n.fail(fmt::format("{} of the length {} is not supported: it would be a product with a matrix of {} by {}",
                           n.proto().op_type(), t.length, t.used * t.parts, t.results * t.result_parts),
               "take it of shorter rows, of real numbers in place of complex ones, or of half the spectrum (onesided)",
               fmt::format("{} elements at most", Spectrum::largest_matrix), fmt::format("{} elements", t.elements()));
}

Value transformed(Node& n, Value x, const Spectrum& t) {
    check_spectrum(n, t);
    return fourier_transformed(n.b(), x, t);
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

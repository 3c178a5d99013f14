// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of real and of complex tensors, along one dimension after the other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/frontend/aten/complex.h"
#include "compiler/frontend/shared/fourier.h"

namespace thunderc::aten {
namespace {

// What a transform makes of its operand.
enum class Form : std::uint8_t { complex, half, from_half };  // c2c, r2c, c2r

struct Transform {
    Form form = Form::complex;
    bool inverse = false;
    Dims axes;                 // the last one is that of the half
    Dims lengths;              // of the signal along each of them; -1: as long as it is
    double share = 1;          // what the result is multiplied with, behind sums without one
    bool both_halves = false;  // of a real signal the whole spectrum
};

// A tensor, of real or of complex numbers.
Binding operand_of(Node& n) {
    const Argument* given = n.argument("self");
    Binding value = given == nullptr ? Binding{} : n.importer().resolve(*given);
    if (value.kind != Binding::Kind::tensor && value.kind != Binding::Kind::complex)
        n.fail(fmt::format("{} has no tensor \"self\"", n.call().target), "the program is damaged: save it again");
    return value;
}

// Numbers with their parts in a last dimension: one of real tensors, two of complex ones.
Value with_parts(Node& n) {
    Builder& b = n.b();
    const Binding value = operand_of(n);
    const auto column = [&](Value v) {
        Dims dims = b.type(v).dims;
        dims.push_back(1);
        return b.reshape(is_float(b.type(v).dtype) ? v : b.cast(v, DType::f32), dims);
    };
    if (value.kind == Binding::Kind::tensor) return column(value.value);
    const Value real = column(value.items[0].value), imaginary = column(value.items[1].value);
    return b.op("concat", {real, imaginary}, {{"axis", b.type(real).rank() - 1}});
}

// Along one dimension, whose elements are cut off or followed by zeros to the length of the transform.
Value along(Node& n, Value x, std::int64_t axis, Spectrum t) {
    Builder& b = n.b();
    const Type type = b.type(x);
    const std::int64_t there = type.dims[static_cast<std::size_t>(axis)];
    t.parts = type.dims.back();
    t.used = std::min(there, t.of_half ? t.length / 2 + 1 : t.length);
    if (!t.has_length() || !t.fits() || type.elements() == 0)
        n.fail(fmt::format("{} of the length {} is not supported", n.call().target, t.length),
               "take it of shorter rows: it is a product with a matrix",
               fmt::format("a length of 1 to {}, and {} elements at most", Spectrum::longest, Spectrum::largest_matrix),
               fmt::format("{} elements", t.elements()));
    Dims order(type.dims.size()), back(order.size());
    std::iota(order.begin(), order.end(), 0);
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(axis));
    order.insert(order.end() - 1, axis);
    for (std::size_t d = 0; d < order.size(); ++d)
        back[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
    return b.transpose(fourier_transformed(b, b.transpose(x, order), t), back);
}

void give_transformed(Node& n, const Transform& t) {
    Builder& b = n.b();
    Value x = with_parts(n);
    const bool complex = b.type(x).dims.back() == 2;
    if (t.axes.empty()) n.fail(fmt::format("{} along no dimension", n.call().target));
    if (t.form == Form::half && complex) n.fail(fmt::format("{} takes real numbers", n.call().target));
    const auto spectrum = [&](std::size_t k) {
        Spectrum out;
        out.inverse = t.inverse;
        out.length = t.lengths[k];
        out.results = out.length;
        return out;
    };
    const std::size_t last = t.axes.size() - 1;
    if (t.form == Form::half) {
        Spectrum first = spectrum(last);
        if (!t.both_halves) first.results = first.length / 2 + 1;
        x = along(n, x, t.axes[last], first);
    }
    for (std::size_t k = t.axes.size(); k-- > 0;)
        if (t.form == Form::complex || k != last) x = along(n, x, t.axes[k], spectrum(k));
    if (t.form == Form::from_half) {
        Spectrum end = spectrum(last);
        end.of_half = true;
        end.result_parts = 1;
        x = along(n, x, t.axes[last], end);
    }
    // Each inverse one has divided by its length.
    const double factor = t.inverse ? t.share * static_cast<double>(element_count(t.lengths)) : t.share;
    if (std::abs(factor - 1) > 1e-12) x = b.mul(x, factor);
    if (t.form != Form::from_half) return n.give(complex_of_pairs(b, x));
    Dims dims = b.type(x).dims;
    dims.pop_back();
    n.give(b.reshape(x, dims));
}

Dims shape_of_operand(Node& n) {
    const Binding value = operand_of(n);
    const bool complex = value.kind == Binding::Kind::complex;
    return n.importer().type(complex ? value.items[0].value : value.value).dims;
}

// _fft_r2c(self, dim, normalization, onesided), _fft_c2r(…, last_dim_size), _fft_c2c(…, forward): of sums that are
// divided by nothing, by the root of the signal's size, or by that.
void plain_transform(Node& n) {
    const Dims dims = shape_of_operand(n);
    Transform t;
    const std::string op = n.op();
    t.form = op == "_fft_r2c" ? Form::half : op == "_fft_c2r" ? Form::from_half : Form::complex;
    t.inverse = t.form == Form::from_half || !n.boolean("forward", true);
    t.both_halves = !n.boolean("onesided", true);
    for (const std::int64_t d : n.integers("dim").value_or(Dims{})) {
        t.axes.push_back(n.dimension(d, static_cast<std::int64_t>(dims.size())));
        t.lengths.push_back(dims[static_cast<std::size_t>(t.axes.back())]);
    }
    if (t.form == Form::from_half && !t.lengths.empty()) t.lengths.back() = n.integer("last_dim_size");
    const auto size = static_cast<double>(element_count(t.lengths));
    const std::int64_t divided = n.integer("normalization", 0);
    t.share = divided == 0 ? 1 : divided == 1 ? 1 / std::sqrt(size) : 1 / size;
    give_transformed(n, t);
}

// torch.fft.fft(self, n, dim, norm), and those of two and more dimensions, (self, s, dim, norm).
void named_transform(Node& n) {
    const Dims dims = shape_of_operand(n);
    const auto rank = static_cast<std::int64_t>(dims.size());
    const std::string op = n.op().substr(4);  // "fft_"
    Transform t;
    t.form = op.starts_with("rfft") ? Form::half : op.starts_with("irfft") ? Form::from_half : Form::complex;
    t.inverse = op.starts_with("i");
    const bool plane = op.ends_with("2"), any = op.ends_with("n");
    const Dims given = n.integers(plane || any ? "s" : "n").value_or(Dims{});
    Dims axes = n.integers("dim").value_or(Dims{});
    if (axes.empty() && any)
        for (std::int64_t d = given.empty() ? 0 : rank - static_cast<std::int64_t>(given.size()); d < rank; ++d)
            axes.push_back(d);
    if (axes.empty()) axes = plane ? Dims{-2, -1} : Dims{-1};
    for (std::size_t k = 0; k < axes.size(); ++k) {
        t.axes.push_back(n.dimension(axes[k], rank));
        const std::int64_t there = dims[static_cast<std::size_t>(t.axes.back())];
        const bool half = t.form == Form::from_half && k + 1 == axes.size();
        const std::int64_t said = k < given.size() ? given[k] : -1;
        t.lengths.push_back(said >= 0 ? said : half ? 2 * (there - 1) : there);
    }
    const auto size = static_cast<double>(element_count(t.lengths));
    const std::string norm = n.text("norm", "backward");
    const bool divides = norm == (t.inverse ? "backward" : "forward");
    t.share = norm == "ortho" ? 1 / std::sqrt(size) : divides ? 1 / size : 1;
    give_transformed(n, t);
}

constexpr OpImporter fourier_importers[] = {
    {"_fft_r2c", plain_transform},  {"_fft_c2r", plain_transform},   {"_fft_c2c", plain_transform},
    {"fft_fft", named_transform},   {"fft_ifft", named_transform},   {"fft_rfft", named_transform},
    {"fft_irfft", named_transform}, {"fft_fft2", named_transform},   {"fft_ifft2", named_transform},
    {"fft_rfft2", named_transform}, {"fft_irfft2", named_transform}, {"fft_fftn", named_transform},
    {"fft_ifftn", named_transform}, {"fft_rfftn", named_transform},  {"fft_irfftn", named_transform},
};

}  // namespace

std::span<const OpImporter> fourier_ops() {
    return fourier_importers;
}

}  // namespace thunderc::aten

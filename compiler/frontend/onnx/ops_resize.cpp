// SPDX-License-Identifier: Apache-2.0
// Resize: one axis after the other, each a gather by constant indices, or a product with a constant matrix that holds
// how much of each element is in each of the result.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "compiler/frontend/onnx/dropped_arguments.h"
#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/shared/resize.h"

namespace thunderc::onnx_frontend {
namespace {

std::vector<double> known_numbers(Node& n, std::size_t i, const char* what) {
    if (!n.has(i)) return {};
    const std::optional<Tensor> known = n.known(i);
    if (!known)
        n.fail(fmt::format("the {} of Resize depend on the model's data; shapes are fixed when compiling", what),
               "export the model so that its shapes follow from the shapes of its inputs alone");
    std::vector<double> out;
    for (std::int64_t k = 0; k < known->size(); ++k) out.push_back(known->at(k));
    return out;
}

ResizeForm form_of(Node& n) {
    ResizeForm form;
    form.mode = n.one_of("mode", {"nearest", "linear", "cubic"});
    form.coordinates =
        n.one_of("coordinate_transformation_mode", {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                                    "align_corners", "asymmetric", "tf_crop_and_resize"});
    form.nearest = n.one_of("nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
    form.antialias = n.integer("antialias", 0) != 0;
    form.exclude_outside = n.integer("exclude_outside", 0) != 0;
    form.cubic = n.number("cubic_coeff_a", -0.75);
    form.outside = n.number("extrapolation_value", 0);
    if (form.mode == "nearest" && form.antialias)
        n.fail("Resize to the nearest element has no antialias", "leave it out, or choose the mode linear or cubic");
    if (form.mode != "nearest") n.take_floats_only();
    return form;
}

// The axes that change, with how long they get: by sizes, of which a policy may keep the ratio, or by scales.
std::vector<ResizedAxis> sizes_of(Node& n, const ResizeForm& form, const std::vector<std::int64_t>& axes) {
    const Dims dims = n.type(0).dims;
    const std::vector<double> scales = known_numbers(n, 2, "scales"), sizes = known_numbers(n, 3, "sizes");
    const std::vector<double> region = known_numbers(n, 1, "region");
    const std::vector<double>& given = sizes.empty() ? scales : sizes;
    if (!scales.empty() && !sizes.empty())
        n.fail("Resize has both scales and sizes", "give one of the two: the other one follows");
    if (given.size() != axes.size())
        n.fail("Resize has not one scale or size for each axis", {}, std::to_string(axes.size()),
               std::to_string(given.size()));
    for (const double v : given)
        if (!(v > 0 && v < 0x1p31))
            n.fail(fmt::format("Resize with the {} {}", sizes.empty() ? "scale" : "size", v),
                   "choose a positive number that leaves a tensor of a size that there can be");
    if (form.coordinates == "tf_crop_and_resize" && region.size() != 2 * axes.size())
        n.fail("Resize of a region has not its two ends along each axis",
               "give roi, or choose other coordinates than tf_crop_and_resize", std::to_string(2 * axes.size()),
               std::to_string(region.size()));
    std::vector<ResizedAxis> out;
    for (std::size_t k = 0; k < axes.size(); ++k) {
        ResizedAxis a;
        a.in = dims[static_cast<std::size_t>(axes[k])];
        if (a.in == 0) n.fail("Resize of a dimension without elements");
        a.scale = sizes.empty() ? scales[k] : sizes[k] / static_cast<double>(a.in);
        a.out = static_cast<std::int64_t>(sizes.empty() ? std::floor(scales[k] * static_cast<double>(a.in)) : sizes[k]);
        if (form.coordinates == "tf_crop_and_resize") {
            a.begin = region[k];
            a.end = region[k + axes.size()];
        }
        out.push_back(a);
    }
    const std::string policy = n.one_of("keep_aspect_ratio_policy", {"stretch", "not_larger", "not_smaller"});
    if (policy == "stretch" || sizes.empty()) return out;
    const auto by_scale = [](const ResizedAxis& x, const ResizedAxis& y) { return x.scale < y.scale; };
    const double scale = policy == "not_larger" ? std::min_element(out.begin(), out.end(), by_scale)->scale
                                                : std::max_element(out.begin(), out.end(), by_scale)->scale;
    for (ResizedAxis& a : out) {
        a.scale = scale;
        a.out = static_cast<std::int64_t>(scale * static_cast<double>(a.in) + 0.5);
    }
    return out;
}

// The factors of torch's upsampling, of the last dimensions, by which it samples where they are given: the exporter
// writes the sizes that follow alone. Where the corners are aligned torch goes by sizes.
void take_factors(Node& n, const ResizeForm& form, const std::vector<std::int64_t>& axes,
                  std::vector<ResizedAxis>& sizes) {
    if (form.coordinates == "align_corners") return;
    const std::int64_t rank = n.type(0).rank();
    const std::pair<const char*, std::int64_t> names[] = {
        {"scales", rank - 1}, {"scales_w", rank - 1}, {"scales_h", rank - 2}, {"scales_d", rank - 3}};
    for (const auto& [name, axis] : names) {
        const std::string text = dropped_argument(n.proto(), name);
        if (text.empty() || text == "None") continue;
        double factor = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
        if (error != std::errc() || end != text.data() + text.size() || !(factor > 0))
            n.fail(fmt::format("the factor {} of an upsampling is not known, and the exporter dropped it", name),
                   "give the size that the result is to have in the model", "a positive number", text);
        for (std::size_t k = 0; k < axes.size(); ++k)
            if (axes[k] == axis) sizes[k].scale = factor;
    }
}

// Before anything is computed for each element along an axis.
void check_size(Node& n, const ResizeForm& form, const std::vector<std::int64_t>& axes,
                const std::vector<ResizedAxis>& sizes) {
    constexpr std::int64_t most = 1 << 24;
    Dims dims = n.type(0).dims;
    for (std::size_t k = 0; k < axes.size(); ++k) {
        dims[static_cast<std::size_t>(axes[k])] = sizes[k].out;
        const std::int64_t numbers = form.mode == "nearest" ? 1 : sizes[k].in;
        if (sizes[k].out > most / numbers)
            n.fail(
                fmt::format("Resize of a dimension of {} to {} elements is not supported", sizes[k].in, sizes[k].out),
                "choose a smaller scale or size", fmt::format("{} at most", most / numbers));
    }
    if (!countable(dims))
        n.fail("Resize gives a tensor that is too large", "choose smaller scales or sizes", {},
               fmt::format("[{}]", to_string(dims)));
}

void resize(Node& n) {
    const ResizeForm form = form_of(n);
    std::vector<std::int64_t> axes(static_cast<std::size_t>(n.type(0).rank()));
    std::iota(axes.begin(), axes.end(), 0);
    if (const auto given = n.integers("axes")) axes = n.axes(*given, n.type(0).rank());
    std::vector<ResizedAxis> sizes = sizes_of(n, form, axes);
    take_factors(n, form, axes, sizes);
    check_size(n, form, axes, sizes);
    Value v = n.input(0);
    for (std::size_t k = 0; k < axes.size(); ++k) {
        const ResizedAxis& a = sizes[k];
        const bool region = form.coordinates == "tf_crop_and_resize" && (a.begin != 0 || a.end != 1);
        if (a.scale == 1 && a.out == a.in && !region) continue;
        if (a.out == 0) n.fail("Resize leaves no elements");
        v = resized(n.b(), form, a, v, static_cast<std::size_t>(axes[k]));
    }
    n.output(0, v);
}

constexpr OpImporter resize_importers[] = {
    {"Resize", 13, last_opset, resize, moved},
};

}  // namespace

std::span<const OpImporter> resize_ops() {
    return resize_importers;
}

}  // namespace thunderc::onnx_frontend

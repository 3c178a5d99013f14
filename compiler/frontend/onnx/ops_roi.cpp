// SPDX-License-Identifier: Apache-2.0
// RoiAlign: of each region of an image a grid of cells, each the mean (or the largest) of points within it, which lie
// between four elements. Which elements follows from the regions, so they are gathered; the gradient goes to them and,
// through the distances, to the regions. He et al., "Mask R-CNN", 2017.
#include <fmt/format.h>

#include "compiler/frontend/onnx/importer.h"

namespace thunderc::onnx_frontend {
namespace {

class RoiAlign {
  public:
    explicit RoiAlign(Node& n) : n_(n), b_(n.b()) {}

    void run() {
        check();
        const Dims image = n_.type(0).dims;
        const std::int64_t regions = n_.type(1).dims[0], batch = image[0], channels = image[1], height = image[2],
                           width = image[3];
        const Value rows = b_.transpose(b_.reshape(n_.input(0), {batch, channels, height * width}), {0, 2, 1});
        const Value table = b_.reshape(rows, {batch * height * width, channels});
        const Value own = b_.mul(b_.reshape(n_.input(2), {regions, 1, 1}), static_cast<double>(height * width));
        Value made;
        for (const Tap& y : taps(1, height, cells_high_))
            for (const Tap& x : taps(0, width, cells_wide_)) {
                const std::int64_t down = cells_high_ * points_, along = cells_wide_ * points_;
                const auto column = [&](Value v) { return b_.reshape(v, {regions, down, 1}); };
                const auto row = [&](Value v) { return b_.reshape(v, {regions, 1, along}); };
                const Value index =
                    b_.add(own, b_.add(b_.mul(column(y.index), static_cast<double>(width)), row(x.index)));
                const Value weight = b_.reshape(b_.mul(column(y.weight), row(x.weight)), {regions, down, along, 1});
                const Value v = b_.mul(b_.op("gather", {table, index}, {{"axis", std::int64_t{0}}}), weight);
                made = !made ? v : largest_ ? b_.op("max", {made, v}) : b_.add(made, v);
            }
        made = b_.reshape(made, {regions, cells_high_, points_, cells_wide_, points_, channels});
        made = b_.op(largest_ ? "reduce_max" : "reduce_mean", {made}, {{"axes", Dims{2, 4}}, {"keep_dims", false}});
        n_.output(0, b_.transpose(made, {0, 3, 1, 2}));
    }

  private:
    // An element along one dimension, for each region and point: [regions, points].
    struct Tap {
        Value index, weight;
    };

    void check() {
        n_.take_floats_only();
        largest_ = n_.one_of("mode", {"avg", "max"}) == "max";
        // Before 16 regions were not moved by half an element.
        const bool has_half = n_.opset() >= 16;
        half_ = has_half &&
                n_.one_of("coordinate_transformation_mode", {"half_pixel", "output_half_pixel"}) == "half_pixel";
        cells_high_ = n_.integer("output_height", 1);
        cells_wide_ = n_.integer("output_width", 1);
        points_ = n_.integer("sampling_ratio", 0);
        scale_ = n_.number("spatial_scale", 1);
        const Type x = n_.type(0), regions = n_.type(1), batch = n_.type(2);
        if (x.rank() != 4 || regions.rank() != 2 || regions.dims[1] != 4 || batch.dims != Dims{regions.dims[0]} ||
            cells_high_ < 1 || cells_wide_ < 1 || x.elements() == 0 || regions.elements() == 0)
            n_.fail("the regions of RoiAlign do not fit its input", {},
                    "images (N, C, H, W), regions (R, 4), and an image's number for each (R)",
                    fmt::format("{}, {}, {}", to_string(x), to_string(regions), to_string(batch)));
        if (points_ < 1)
            n_.fail("RoiAlign with as many points as a region is large is not supported",
                    "set sampling_ratio to a number of points, 2 for example");
    }

    Value number(Value like, double value) { return b_.scalar(b_.type(like).dtype, value); }

    // Along the columns (axis 0) or rows of an image: the element before each point and the one behind it. Points more
    // than one element outside count as 0, those beyond the outer elements as these.
    std::vector<Tap> taps(std::int64_t axis, std::int64_t size, std::int64_t cells) {
        const Value begin = edge(axis), end = edge(axis + 2);
        Value length = b_.sub(end, begin);
        if (!half_) length = b_.op("max", {length, number(length, 1)});
        std::vector<double> steps;
        for (std::int64_t k = 0; k < cells * points_; ++k)
            steps.push_back((static_cast<double>(k) + 0.5) / static_cast<double>(cells * points_));
        Tensor line(Type::tensor(b_.type(length).dtype, {1, cells * points_}));
        line.f = steps;
        const Value at = b_.add(begin, b_.mul(length, b_.constant(ConstExpr::dense(std::move(line)))));
        const auto last = static_cast<double>(size - 1);
        const Value inside = b_.op("and", {b_.op("ge", {at, number(at, -1)}), b_.op("le", {at, number(at, last + 1)})});
        const Value clipped = b_.op("clip", {at, number(at, 0), number(at, last)});
        const Value floor = b_.op("floor", {clipped}), part = b_.sub(clipped, floor);
        // Once more as an integer: of coordinates that are no numbers the conversion gives any.
        const Value most = b_.scalar(DType::i64, last), first = b_.scalar(DType::i64, 0);
        const Value index = b_.op("clip", {b_.cast(floor, DType::i64), first, most});
        const auto seen = [&](Value weight) { return b_.op("select", {inside, weight, number(weight, 0)}); };
        return {{index, seen(b_.add(b_.neg(part), 1))}, {b_.op("min", {b_.add(index, 1), most}), seen(part)}};
    }

    // A coordinate of each region, [regions, 1].
    Value edge(std::int64_t column) {
        return b_.add(b_.mul(b_.slice(n_.input(1), 1, column, column + 1), scale_), half_ ? -0.5 : 0.0);
    }

    Node& n_;
    Builder& b_;
    bool largest_ = false, half_ = false;
    std::int64_t cells_high_ = 1, cells_wide_ = 1, points_ = 0;
    double scale_ = 1;
};

void roi_align(Node& n) {
    RoiAlign(n).run();
}

constexpr OpImporter roi_importers[] = {
    {"RoiAlign", 13, last_opset, roi_align, own},
};

}  // namespace

std::span<const OpImporter> roi_ops() {
    return roi_importers;
}

}  // namespace thunderc::onnx_frontend

// SPDX-License-Identifier: Apache-2.0
// DeformConv: a convolution each of whose places is moved by an offset, of the data, and may be weighed by a mask. What
// lies between elements is interpolated. Which elements follows from the offsets, so they are gathered; the gradient
// goes to them and, through the distances, to the offsets. Dai et al., "Deformable Convolutional Networks", 2017; with
// a mask: Zhu et al., "Deformable ConvNets v2", 2018.
#include <fmt/format.h>

#include "compiler/frontend/onnx/windows.h"
#include "compiler/frontend/shared/taps.h"

namespace thunderc::onnx_frontend {
namespace {

class DeformConv {
  public:
    explicit DeformConv(Node& n) : n_(n), b_(n.b()) {}

    void run() {
        check();
        const std::int64_t batch = image_[0], channels = image_[1], of_group = channels / offset_groups_;
        const std::int64_t places = window_.places(), steps = element_count(window_.out),
                           cells = element_count(window_.in);
        // Of each image and each group of channels that is moved alike a row for each element.
        const Value rows =
            b_.transpose(b_.reshape(n_.input(0), {batch, offset_groups_, of_group, cells}), {0, 1, 3, 2});
        const Value table = b_.reshape(rows, {batch * offset_groups_ * cells, of_group});
        const Value sum = sum_of_rows(b_, table, terms(batch, places, steps, cells));
        Value columns = sum;  // [batch, offset groups, places, steps, channels of the group]
        if (n_.has(4)) columns = b_.mul(columns, b_.reshape(n_.input(4), {batch, offset_groups_, places, steps, 1}));
        columns =
            b_.reshape(b_.transpose(columns, {0, 1, 4, 2, 3}), {batch, groups_, channels / groups_ * places, steps});
        const std::int64_t features = weight_[0];
        const Value weight =
            b_.broadcast_to(b_.reshape(n_.input(1), {1, groups_, features / groups_, weight_[1] * places}),
                            {batch, groups_, features / groups_, weight_[1] * places});
        Value y = b_.op("matmul", {weight, columns}, {{"transpose_a", false}, {"transpose_b", false}});
        y = b_.reshape(y, {batch, features, steps});
        if (n_.has(3)) y = b_.add(y, b_.reshape(n_.input(3), {1, features, 1}));
        Dims result = {batch, features};
        result.insert(result.end(), window_.out.begin(), window_.out.end());
        n_.output(0, b_.reshape(y, result));
    }

  private:
    void check() {
        n_.take_floats_only();
        image_ = n_.type(0).dims;
        weight_ = n_.type(1).dims;
        const Dims offset = n_.type(2).dims;
        groups_ = n_.integer("group", 1);
        offset_groups_ = n_.integer("offset_group", 1);
        const std::size_t rank = image_.size();
        bool fits = rank >= 3 && weight_.size() == rank && offset.size() == rank && groups_ > 0 && offset_groups_ > 0 &&
                    image_[1] == weight_[1] * groups_ && image_[1] % offset_groups_ == 0 && weight_[0] % groups_ == 0 &&
                    n_.type(0).elements() > 0 && n_.type(1).elements() > 0;
        if (fits) {
            window_ = window_of(n_, Dims(image_.begin() + 2, image_.end()), Dims(weight_.begin() + 2, weight_.end()));
            const std::int64_t moved = offset_groups_ * window_.places();
            const auto expected = [&](std::int64_t of_places) {
                Dims dims = {image_[0], of_places};
                dims.insert(dims.end(), window_.out.begin(), window_.out.end());
                return dims;
            };
            fits = offset == expected(moved * static_cast<std::int64_t>(window_.rank())) &&
                   (!n_.has(3) || n_.type(3).dims == Dims{weight_[0]}) &&
                   (!n_.has(4) || n_.type(4).dims == expected(moved));
        }
        if (!fits)
            n_.fail("the operands of DeformConv do not fit each other", {},
                    "images (N, C, d...), weights (M, C / group, k...), an offset for each dimension of each place of "
                    "the window, "
                    "and a mask for each place",
                    fmt::format("{}, {}, {}", to_string(n_.type(0)), to_string(n_.type(1)), to_string(n_.type(2))));
    }

    // Where the window's places are along dimension d before they are moved: [places, steps].
    Value unmoved(std::size_t d, DType dtype, std::int64_t places, std::int64_t steps) {
        Dims dims = window_.size;
        dims.insert(dims.end(), window_.out.begin(), window_.out.end());
        std::vector<double> by(dims.size(), 0);
        by[d] = static_cast<double>(window_.dilations[d]);
        by[window_.rank() + d] = static_cast<double>(window_.strides[d]);
        const Type type = Type::tensor(dtype, dims);
        const ConstPtr at = ConstExpr::affine(type, -static_cast<double>(window_.before[d]), by);
        return b_.reshape(b_.constant(at), {places, steps});
    }

    // [batch, offset groups, places, steps]: one for each of the elements around a point.
    std::vector<Tap> terms(std::int64_t batch, std::int64_t places, std::int64_t steps, std::int64_t cells) {
        const auto rank = static_cast<std::int64_t>(window_.rank());
        const Dims dims = {batch, offset_groups_, places, steps};
        const Value offsets = b_.reshape(n_.input(2), {batch, offset_groups_, places, rank, steps});
        const ConstPtr own =
            ConstExpr::affine(Type::tensor(DType::i64, dims), 0,
                              {static_cast<double>(offset_groups_ * cells), static_cast<double>(cells), 0, 0});
        std::vector<Tap> terms = {{b_.constant(own), {}}};
        std::int64_t stride = cells;
        for (std::int64_t d = 0; d < rank; ++d) {
            const std::int64_t size = window_.in[static_cast<std::size_t>(d)];
            const Value moved = b_.reshape(b_.slice(offsets, 3, d, d + 1), dims);
            const Value at = b_.add(moved, unmoved(static_cast<std::size_t>(d), b_.type(moved).dtype, places, steps));
            const Value floor = b_.op("floor", {at}), part = b_.sub(at, floor);
            const Value first = element_number(b_, floor, size);
            stride /= size;
            terms = combined(b_, terms,
                             {zero_outside(b_, first, b_.add(b_.neg(part), 1), size),
                              zero_outside(b_, b_.add(first, 1), part, size)},
                             stride);
        }
        return terms;
    }

    Node& n_;
    Builder& b_;
    Dims image_, weight_;
    Window window_;
    std::int64_t groups_ = 1, offset_groups_ = 1;
};

void deform_conv(Node& n) {
    DeformConv(n).run();
}

constexpr OpImporter deform_importers[] = {
    {"DeformConv", 19, last_opset, deform_conv, own},
};

}  // namespace

std::span<const OpImporter> deform_ops() {
    return deform_importers;
}

}  // namespace thunderc::onnx_frontend

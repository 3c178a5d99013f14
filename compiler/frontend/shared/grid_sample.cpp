// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/grid_sample.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "compiler/frontend/shared/taps.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

class GridSampler {
  public:
    GridSampler(Builder& b, Value x, Value grid, const GridForm& form)
        : b_(b), x_(x), grid_(grid), form_(form), mode_(form.mode), padding_(form.padding), aligned_(form.aligned) {}

    Value run() {
        const Dims image = b_.type(x_).dims, grid = b_.type(grid_).dims;
        const std::int64_t batch = image[0], channels = image[1];
        const Dims in(image.begin() + 2, image.end()), out(grid.begin() + 1, grid.end() - 1);
        const std::int64_t cells = element_count(in), places = element_count(out);
        const auto rank = static_cast<std::int64_t>(in.size());
        // A row of all channels for each element of each image.
        const Value rows = b_.transpose(b_.reshape(x_, {batch, channels, cells}), {0, 2, 1});
        const Value table = b_.reshape(rows, {batch * cells, channels});
        const Value coordinates = b_.reshape(grid_, {batch, places, rank});
        // Terms of the sum, [N, places]: one for each combination of taps.
        const ConstPtr own =
            ConstExpr::affine(Type::tensor(DType::i64, {batch, places}), 0, {static_cast<double>(cells), 0});
        std::vector<Tap> terms = {{b_.constant(own), {}}};
        std::int64_t stride = cells;
        for (std::int64_t d = 0; d < rank; ++d) {
            const std::int64_t size = in[static_cast<std::size_t>(d)], last = rank - 1 - d;  // the last one is x
            const Value c = b_.reshape(b_.slice(coordinates, 2, last, last + 1), {batch, places});
            stride /= size;
            terms = combined(b_, terms, taps(c, size), stride);
        }
        const Value sum = sum_of_rows(b_, table, terms);
        Dims result = {batch, channels};
        result.insert(result.end(), out.begin(), out.end());
        return b_.reshape(b_.transpose(sum, {0, 2, 1}), result);
    }

  private:
    Value number(Value like, double value) { return b_.scalar(b_.type(like).dtype, value); }
    Value clipped(Value v, double low, double high) { return b_.op("clip", {v, number(v, low), number(v, high)}); }

    // -1 and 1 are the outer elements' middles where they are aligned, else their outer borders.
    Value located(Value c, std::int64_t size) {
        const auto length = static_cast<double>(size);
        if (aligned_) return b_.mul(b_.add(c, 1), (length - 1) / 2);
        return b_.mul(b_.add(b_.mul(b_.add(c, 1), length), -1), 0.5);
    }

    // Folded back and forth between the borders.
    Value reflected(Value v, std::int64_t size) {
        const auto length = static_cast<double>(size);
        const double low = aligned_ ? 0 : -0.5, range = aligned_ ? length - 1 : length;
        if (range == 0) return b_.mul(v, 0.0);
        const Value t = b_.op("mod", {b_.add(v, -low), number(v, 2 * range)});
        const Value back = b_.add(b_.neg(t), 2 * range);
        return b_.add(b_.op("select", {b_.op("le", {t, number(t, range)}), t, back}), low);
    }

    Value inside_borders(Value v, std::int64_t size) {
        if (padding_ == "zeros" || (padding_ == "border" && form_.clips_elements)) return v;
        const auto length = static_cast<double>(size);
        const double low = aligned_ ? 0 : -0.5, high = aligned_ ? length - 1 : length - 0.5;
        const Value other = padding_ == "border" ? clipped(v, 0, length - 1) : reflected(v, size);
        const Value outside = b_.op("or", {b_.op("lt", {v, number(v, low)}), b_.op("gt", {v, number(v, high)})});
        return b_.op("select", {outside, other, v});
    }

    // The element i of a dimension, which may lie outside: its index, and its weight where the padding leaves one.
    Tap tap(Value i, Value weight, std::int64_t size) {
        const auto last = static_cast<double>(size - 1);
        if (padding_ == "zeros") return zero_outside(b_, i, weight ? weight : number(grid_, 1), size);
        if (padding_ == "reflection" && size > 1) {
            const double period = aligned_ ? 2 * last : 2 * (last + 1);
            const Value m = b_.op("mod", {i, number(i, period)});
            const Value back = b_.add(b_.neg(m), aligned_ ? period : period - 1);
            i = b_.op("select", {b_.op("le", {m, number(m, last)}), m, back});
        }
        return {clipped(i, 0, last), weight};
    }

    // Keys' cubic convolution with a = -3/4, of the distance t = 0 to 2.
    Value cubic(Value t, bool near) {
        const double a = -0.75;
        if (near) return b_.add(b_.mul(b_.mul(b_.add(b_.mul(t, a + 2), -(a + 3)), t), t), 1);
        const Value inner = b_.add(b_.mul(b_.add(b_.mul(t, a), -5 * a), t), 8 * a);
        return b_.add(b_.mul(inner, t), -4 * a);
    }

    std::vector<Tap> taps(Value coordinate, std::int64_t size) {
        Value at = located(coordinate, size);
        if (mode_ == "nearest") at = b_.op("round", {at});
        at = inside_borders(at, size);
        const auto integer = [&](Value v) { return element_number(b_, v, size); };
        if (mode_ == "nearest") return {tap(integer(at), {}, size)};
        const Value floor = b_.op("floor", {at}), part = b_.sub(at, floor), first = integer(floor);
        const Value rest = b_.add(b_.neg(part), 1);
        if (mode_ == "linear") return {tap(first, rest, size), tap(b_.add(first, 1), part, size)};
        return {tap(b_.add(first, -1), cubic(b_.add(part, 1), false), size), tap(first, cubic(part, true), size),
                tap(b_.add(first, 1), cubic(rest, true), size),
                tap(b_.add(first, 2), cubic(b_.add(rest, 1), false), size)};
    }

    Builder& b_;
    Value x_, grid_;
    const GridForm& form_;
    std::string mode_, padding_;
    bool aligned_ = false;
};

}  // namespace

Value grid_sampled(Builder& b, Value x, Value grid, const GridForm& form) {
    const Type of = b.type(x), at = b.type(grid);
    if (of.rank() < 3 || of.rank() > 5 || at.rank() != of.rank() || at.dims[0] != of.dims[0] ||
        at.dims.back() != of.rank() - 2 || of.elements() == 0) {
        Diagnostic d;
        d.message = "the grid of GridSample does not fit its input";
        d.expected = "one to three spatial dimensions, and as many coordinates";
        d.actual = fmt::format("{}, {}", to_string(of), to_string(at));
        throw UserError(std::move(d));
    }
    return GridSampler(b, x, grid, form).run();
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/ir/structure.h"

namespace thunderc::onnx_frontend {
namespace {

constexpr std::int64_t most_places = 4096;  // each is an operation of its own

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

// Zeros around v, and what is negative cut off.
Value framed(Builder& b, Value v, const Dims& low, const Dims& high) {
    Dims more_low = low, more_high = high;
    for (std::size_t d = 0; d < low.size(); ++d) {
        const std::int64_t size = b.type(v).dims[d];
        v = b.slice(v, static_cast<std::int64_t>(d), std::max<std::int64_t>(0, -low[d]),
                    size - std::max<std::int64_t>(0, -high[d]));
        more_low[d] = std::max<std::int64_t>(0, low[d]);
        more_high[d] = std::max<std::int64_t>(0, high[d]);
    }
    const auto none = [](const Dims& widths) {
        return std::all_of(widths.begin(), widths.end(), [](std::int64_t w) { return w == 0; });
    };
    if (none(more_low) && none(more_high)) return v;
    return b.op("pad", {v}, {{"low", more_low}, {"high", more_high}, {"value", 0.0}});
}

// Halves of what SAME pads; the larger one behind for SAME_UPPER.
void share_padding(Window& w, std::size_t d, std::int64_t total, bool upper) {
    total = std::max<std::int64_t>(0, total);
    w.before[d] = upper ? total / 2 : total - total / 2;
    w.behind[d] = total - w.before[d];
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

Window window_form(Node& n, const Dims& in, const Dims& size) {
    const std::size_t rank = in.size();
    Window w;
    w.in = in;
    w.size = size;
    w.strides = n.integers("strides").value_or(Dims(rank, 1));
    w.dilations = n.integers("dilations").value_or(Dims(rank, 1));
    const Dims pads = n.integers("pads").value_or(Dims(2 * rank, 0));
    const auto positive = [](const Dims& numbers) {
        return std::all_of(numbers.begin(), numbers.end(), [](std::int64_t v) { return v > 0 && v < 1 << 30; });
    };
    const auto is_padding = [](std::int64_t v) { return v >= 0 && v < 1 << 30; };
    if (rank == 0 || w.size.size() != rank || w.strides.size() != rank || w.dilations.size() != rank ||
        pads.size() != 2 * rank || !positive(w.size) || !positive(w.strides) || !positive(w.dilations) ||
        !std::all_of(pads.begin(), pads.end(), is_padding))
        n.fail(fmt::format("the windows of {} do not fit its input", n.proto().op_type()), {},
               fmt::format("positive sizes, strides and dilations of {} dimensions, and two pads for each", rank),
               fmt::format("sizes [{}], strides [{}], dilations [{}], pads [{}]", to_string(size), to_string(w.strides),
                           to_string(w.dilations), to_string(pads)));
    if (w.places() > most_places)
        n.fail(fmt::format("{} with windows of {} places is not supported", n.proto().op_type(), w.places()),
               "use smaller windows", fmt::format("{} at most", most_places));
    w.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
    w.behind.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
    return w;
}

std::string padding_of(Node& n) {
    return n.one_of("auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"});
}

Window window_of(Node& n, const Dims& in, const Dims& size) {
    Window w = window_form(n, in, size);
    const std::string automatic = padding_of(n);
    const bool same = automatic.starts_with("SAME");
    if (automatic != "NOTSET") w.before = w.behind = Dims(w.rank(), 0);
    for (std::size_t d = 0; d < w.rank(); ++d) {
        if (same) {
            w.out.push_back((in[d] + w.strides[d] - 1) / w.strides[d]);
            share_padding(w, d, (w.out[d] - 1) * w.strides[d] + w.reach(d) - in[d], automatic == "SAME_UPPER");
            continue;
        }
        const std::int64_t room = in[d] + w.before[d] + w.behind[d] - w.reach(d);
        if (room < 0)
            n.fail(fmt::format("the windows of {} are larger than its input with its padding", n.proto().op_type()), {},
                   fmt::format("{} at most", in[d] + w.before[d] + w.behind[d]), std::to_string(w.reach(d)));
        w.out.push_back(room / w.strides[d] + 1);
        // A step more for what is left over, unless it would begin in the padding behind.
        if (n.integer("ceil_mode", 0) != 0 && room % w.strides[d] != 0 && w.out[d] * w.strides[d] < in[d] + w.before[d])
            ++w.out[d];
    }
    return w;
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

Value folded(Builder& b, Value columns, const Window& w) {
    const Dims dims = b.type(columns).dims;
    Value sum;
    std::int64_t k = 0;
    w.for_each_place([&](const Dims& place) {
        Dims part = dims;
        part.erase(part.begin() + 2);
        Value v = b.reshape(b.slice(columns, 2, k, k + 1), part);
        ++k;
        Dims low(part.size(), 0), high = low;
        for (std::size_t d = 0; d < w.rank(); ++d) {
            v = spread(b, v, axis_of(d), w.strides[d]);
            low[d + 2] = place[d] - w.before[d];
            high[d + 2] = w.in[d] - low[d + 2] - b.type(v).dims[d + 2];
        }
        v = framed(b, v, low, high);
        sum = sum ? b.add(sum, v) : v;
    });
    return sum;
}

namespace {

struct Convolved {
    std::int64_t batch, channels, groups, filters;  // filters: of all groups
    Dims in, size;
};

// Whether an operand is zeros throughout: torch's exporter makes such a bias where there is none, of a wrong shape for
// convolutions of three dimensions.
bool are_zeros(Node& n, std::size_t i) {
    const Function& f = n.b().function();
    for (Value v = n.input(i); v;) {
        const auto op = std::find_if(f.ops.rbegin(), f.ops.rend(), [&](const Op& o) { return o.results.front() == v; });
        if (op == f.ops.rend()) return false;
        if (is_constant_op(*op)) return splat_value(*op->attributes.constant("value")) == 0.0;
        if (op->name != "cast" && op->name != "broadcast_to" && op->name != "reshape") return false;
        v = op->operands.front();
    }
    return false;
}

// `transposed`: the weight is (C, M / groups, size…), else (M, C / groups, size…).
Convolved convolved(Node& n, bool transposed) {
    n.take_floats_only();
    const Dims x = n.type(0).dims, w = n.type(1).dims;
    const std::int64_t groups = n.integer("group", 1);
    const bool ranks = x.size() >= 3 && w.size() == x.size() && groups > 0;
    if (!ranks || x[1] % groups != 0 || w[0] % groups != 0 || w[0] == 0 ||
        (transposed ? w[0] != x[1] : w[1] * groups != x[1]))
        n.fail(fmt::format("the weight of {} does not fit its input", n.proto().op_type()), {},
               fmt::format("for {} in {} groups", to_string(n.type(0)), groups), to_string(n.type(1)));
    Convolved c{x[0],
                x[1],
                groups,
                transposed ? w[1] * groups : w[0],
                Dims(x.begin() + 2, x.end()),
                Dims(w.begin() + 2, w.end())};
    if (const auto size = n.integers("kernel_shape"); size && *size != c.size)
        n.fail(fmt::format("the kernel_shape of {} is not its weight's", n.proto().op_type()),
               "leave the attribute out, or export the model again", fmt::format("[{}]", to_string(c.size)),
               fmt::format("[{}]", to_string(*size)));
    if (n.has(2) && n.type(2).dims != Dims{c.filters} && !are_zeros(n, 2))
        n.fail(fmt::format("the bias of {} has not one number for each filter", n.proto().op_type()), {},
               fmt::format("[{}]", c.filters), to_string(n.type(2)));
    return c;
}

Dims joined(Dims front, const Dims& behind) {
    front.insert(front.end(), behind.begin(), behind.end());
    return front;
}

void output_with_bias(Node& n, Value y, const Convolved& c) {
    if (n.has(2) && !are_zeros(n, 2)) {
        Dims column(c.in.size() + 2, 1);
        column[1] = c.filters;
        y = n.b().add(y, n.b().reshape(n.input(2), column));
    }
    n.output(0, y);
}

}  // namespace

// A product with the columns that the window sees, side by side; where each channel has a filter of its own, a sum of
// as many terms as the window has places.
void convolution(Node& n) {
    Builder& b = n.b();
    const Convolved c = convolved(n, false);
    const Window w = window_of(n, c.in, c.size);
    const Value x = padded(b, n.input(0), w, 0);
    const std::int64_t places = w.places(), steps = element_count(w.out);
    const Dims result = joined({c.batch, c.filters}, w.out);
    Value y;
    if (c.groups == c.channels && c.filters == c.channels) {
        const Value weights = b.reshape(n.input(1), {c.channels, places});
        Dims column(w.rank() + 2, 1);
        column[1] = c.channels;
        std::int64_t k = 0;
        w.for_each_place([&](const Dims& place) {
            const Value weight = b.reshape(b.slice(weights, 1, k, k + 1), column);
            ++k;
            const Value term = b.mul(at_place(b, x, w, place), weight);
            y = y ? b.add(y, term) : term;
        });
        return output_with_bias(n, y, c);
    }
    const std::int64_t depth = c.channels / c.groups;
    std::vector<Value> seen;
    w.for_each_place([&](const Dims& place) {
        seen.push_back(b.reshape(at_place(b, x, w, place), {c.batch, c.groups, depth, 1, steps}));
    });
    Value columns = seen.size() == 1 ? seen[0] : b.op("concat", seen, {{"axis", std::int64_t{3}}});
    const Dims product = {c.batch, c.groups, depth * places, steps};
    Value weights = b.reshape(n.input(1), {c.groups, c.filters / c.groups, depth * places});
    if (c.groups == 1) {
        columns = b.reshape(columns, {c.batch, depth * places, steps});
        weights = b.reshape(weights, {c.filters, depth * places});
    } else {
        columns = b.reshape(columns, product);
    }
    y = b.op("matmul", {weights, columns}, {{"transpose_a", false}, {"transpose_b", false}});
    output_with_bias(n, b.reshape(y, result), c);
}

// Products of each element with the filters, added up where the windows of the convolution that it transposes have
// their elements.
void transposed_convolution(Node& n) {
    Builder& b = n.b();
    const Convolved c = convolved(n, true);
    Window w = window_form(n, c.in, c.size);
    const std::string automatic = padding_of(n);
    const Dims more = n.integers("output_padding").value_or(Dims(w.rank(), 0));
    const std::optional<std::vector<std::int64_t>> wanted = n.integers("output_shape");
    if (more.size() != w.rank() || (wanted && wanted->size() != w.rank()))
        n.fail("output_padding and output_shape of ConvTranspose are to have a number for each spatial dimension");
    if (std::any_of(more.begin(), more.end(), [](std::int64_t v) { return v < 0 || v >= 1 << 30; }))
        n.fail("the output_padding of ConvTranspose is to be 0 or more", "take more padding, by pads, instead", {},
               fmt::format("[{}]", to_string(more)));
    w.out = c.in;  // the transposed windows' steps
    for (std::size_t d = 0; d < w.rank(); ++d) {
        const std::int64_t whole = (c.in[d] - 1) * w.strides[d] + w.reach(d) + more[d];
        if (wanted || automatic.starts_with("SAME")) {
            const std::int64_t size = wanted ? (*wanted)[d] : c.in[d] * w.strides[d];
            share_padding(w, d, whole - size, automatic == "SAME_UPPER");
            w.in[d] = size;
        } else {
            if (automatic == "VALID") w.before[d] = w.behind[d] = 0;
            w.in[d] = whole - w.before[d] - w.behind[d];
        }
        if (w.in[d] <= 0)
            n.fail("the padding of ConvTranspose leaves nothing of its output", {}, {}, std::to_string(w.in[d]));
    }
    const std::int64_t depth = c.channels / c.groups, filters = c.filters / c.groups, steps = element_count(c.in);
    const Value x = b.reshape(n.input(0), {c.batch, c.groups, depth, steps});
    const Value weights = b.reshape(n.input(1), {c.groups, depth, filters * w.places()});
    const Value columns = b.op("matmul", {weights, x}, {{"transpose_a", true}, {"transpose_b", false}});
    const Value apart = b.reshape(columns, joined({c.batch, c.filters, w.places()}, c.in));
    output_with_bias(n, folded(b, apart, w), c);
}

// (N, C places, steps) → (N, C, image_shape): what windows saw, added up where it came from.
void columns_to_image(Node& n) {
    const Dims dims = n.type(0).dims, image = n.integers(1, "image_shape");
    Window w = window_form(n, image, n.integers(2, "block_shape"));
    for (std::size_t d = 0; d < w.rank(); ++d) {
        const std::int64_t room = image[d] + w.before[d] + w.behind[d] - w.reach(d);
        w.out.push_back(room < 0 ? 0 : room / w.strides[d] + 1);
    }
    if (dims.size() != 3 || dims[1] % w.places() != 0 || element_count(w.out) != dims[2])
        n.fail("the columns of Col2Im do not fit its image", {},
               fmt::format("[N,C {},{}]", w.places(), element_count(w.out)), to_string(n.type(0)));
    Dims apart = {dims[0], dims[1] / w.places(), w.places()};
    apart.insert(apart.end(), w.out.begin(), w.out.end());
    n.output(0, folded(n.b(), n.b().reshape(n.input(0), apart), w));
}

}  // namespace thunderc::onnx_frontend

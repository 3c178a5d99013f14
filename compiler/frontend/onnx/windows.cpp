// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/ir/structure.h"

namespace thunderc::onnx_frontend {
namespace {

constexpr std::int64_t most_places = 4096;  // each is an operation of its own

// Halves of what SAME pads; the larger one behind for SAME_UPPER.
void share_padding(Window& w, std::size_t d, std::int64_t total, bool upper) {
    total = std::max<std::int64_t>(0, total);
    w.before[d] = upper ? total / 2 : total - total / 2;
    w.behind[d] = total - w.before[d];
}

}  // namespace

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

Attributes form_of(const Window& w, const Convolved& c) {
    return {{"strides", w.strides}, {"dilations", w.dilations}, {"before", w.before}, {"groups", c.groups}};
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

void convolution(Node& n) {
    const Convolved c = convolved(n, false);
    const Window w = window_of(n, c.in, c.size);
    Attributes form = form_of(w, c);
    form.set("steps", w.out);
    output_with_bias(n, n.b().op("convolution", {n.input(0), n.input(1)}, std::move(form)), c);
}

void transposed_convolution(Node& n) {
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
    // Its weight is that of the convolution that it transposes: (C, M / groups, size...).
    Attributes form = form_of(w, c);
    form.set("image", w.in);
    output_with_bias(n, n.b().op("convolution_backward_input", {n.input(0), n.input(1)}, std::move(form)), c);
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

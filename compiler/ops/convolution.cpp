// SPDX-License-Identifier: Apache-2.0
// Convolutions of any number of dimensions, and what their gradients are made of.
//
//   y[n, m, s] = Σ_{c, k} x[n, c, s · stride + k · dilation - before] w[m, c, k],  x being 0 beyond its elements
//
// s are the window's steps, k its places, c the channels of m's group. Both gradients are sums of the same products, dx
// over m, k and s, dw over n and s; each of the three is linear in two tensors and has the other two as its gradients.
// The gradient of the input is a transposed convolution: torch.nn.ConvTranspose. Dumoulin and Visin, "A guide to
// convolution arithmetic for deep learning", 2016.
#include <fmt/format.h>

#include "compiler/ops/composite.h"
#include "compiler/ops/windows.h"

namespace thunderc {
namespace {

// What the three have in common.
struct Convolution {
    std::int64_t batch, channels, filters, groups;  // filters: of all groups
    Window window;

    std::int64_t depth() const { return channels / groups; }
    std::int64_t filters_of_group() const { return filters / groups; }
    std::int64_t steps() const { return element_count(window.out); }
    std::int64_t products_of_sum() const { return depth() * window.places(); }  // of one element of y
    bool by_channel() const { return groups == channels && filters == channels; }
    double flops() const {
        return 2.0 * static_cast<double>(batch * filters * steps()) * static_cast<double>(products_of_sum());
    }
};

Dims joined(Dims front, const Dims& behind) {
    front.insert(front.end(), behind.begin(), behind.end());
    return front;
}

Dims spatial(const Dims& dims) {
    return {dims.begin() + 2, dims.end()};
}

// Of (N, C, d…), (M, C / groups, k…) and (N, M, s…).
Convolution convolution_of(const Dims& x, const Dims& w, const Dims& y, const Attributes& attributes) {
    const std::int64_t groups = attributes.integer("groups");
    Convolution c{x[0], x[1], w[0], groups, {}};
    c.window.in = spatial(x);
    c.window.size = spatial(w);
    c.window.out = spatial(y);
    c.window.strides = attributes.integers("strides");
    c.window.dilations = attributes.integers("dilations");
    c.window.before = attributes.integers("before");
    c.window.behind.assign(c.window.rank(), 0);  // what is needed there is `beyond`
    return c;
}

// What a window can be: of one element and more, moved by one and more.
void check_window(const Dims& x, const Dims& w, const Dims& y, const Attributes& attributes) {
    const auto all = [](const Dims& numbers, std::int64_t least) {
        return std::all_of(numbers.begin(), numbers.end(), [&](std::int64_t v) { return v >= least; });
    };
    require(all(x, 1) && all(w, 1) && all(y, 1),
            fmt::format("x is {}, the weight {}, y {}: nothing to compute", dims_text(x), dims_text(w), dims_text(y)));
    require(all(attributes.integers("strides"), 1) && all(attributes.integers("dilations"), 1) &&
                all(attributes.integers("before"), 0),
            "strides and dilations are 1 and more, and `before` is 0 and more");
}

void check_form(const Dims& x, const Dims& w, const Dims& y, const Attributes& attributes) {
    const std::size_t rank = x.size();
    require(rank >= 3 && w.size() == rank && y.size() == rank,
            fmt::format("x is {}, the weight {}, y {}: (N, C, d...), (M, C / groups, k...) and (N, M, s...) expected",
                        dims_text(x), dims_text(w), dims_text(y)));
    const std::int64_t groups = attributes.integer("groups");
    require(
        groups > 0 && x[1] == w[1] * groups && w[0] % groups == 0 && y[0] == x[0] && y[1] == w[0],
        fmt::format("x is {}, the weight {}, y {}, in {} groups", dims_text(x), dims_text(w), dims_text(y), groups));
    for (const char* name : {"strides", "dilations", "before"})
        require(attributes.integers(name).size() == rank - 2,
                fmt::format("{} are {}, and there are {} dimensions", name, dims_text(attributes.integers(name)),
                            rank - 2));
    check_window(x, w, y, attributes);
}

Attributes form_of(const Attributes& attributes) {
    Attributes form;
    for (const char* name : {"strides", "dilations", "before"}) form.set(name, attributes.integers(name));
    form.set("groups", attributes.integer("groups"));
    return form;
}

// Where a window has its elements: for each step and place the element of a channel, or -1 beyond them.
std::vector<std::int64_t> elements_seen(const Window& w) {
    const std::int64_t steps = element_count(w.out), places = w.places();
    std::vector<std::int64_t> seen(static_cast<std::size_t>(steps * places), 0);
    for (std::int64_t s = 0; s < steps; ++s)
        for (std::int64_t k = 0; k < places; ++k) {
            std::int64_t& at = seen[static_cast<std::size_t>(s * places + k)];
            std::int64_t step = s, place = k, size = 1;
            for (std::size_t d = w.rank(); d-- > 0 && at >= 0;) {
                const std::int64_t i =
                    step % w.out[d] * w.strides[d] + place % w.size[d] * w.dilations[d] - w.before[d];
                at = i < 0 || i >= w.in[d] ? -1 : at + i * size;
                step /= w.out[d];
                place /= w.size[d];
                size *= w.in[d];
            }
        }
    return seen;
}

// Calls body(element of x, of w, of y) for each product of the sums.
template <typename Body>
void for_each_product(const Convolution& c, Body&& body) {
    const std::vector<std::int64_t> seen = elements_seen(c.window);
    const std::int64_t elements = element_count(c.window.in), places = c.window.places(), steps = c.steps();
    for (std::int64_t n = 0; n < c.batch; ++n)
        for (std::int64_t m = 0; m < c.filters; ++m)
            for (std::int64_t s = 0; s < steps; ++s)
                for (std::int64_t q = 0; q < c.depth(); ++q)
                    for (std::int64_t k = 0; k < places; ++k) {
                        const std::int64_t at = seen[static_cast<std::size_t>(s * places + k)];
                        if (at < 0) continue;
                        const std::int64_t channel = m / c.filters_of_group() * c.depth() + q;
                        body((n * c.channels + channel) * elements + at, (m * c.depth() + q) * places + k,
                             (n * c.filters + m) * steps + s);
                    }
}

// ---- as products of columns -----------------------------------------------------------------------------------------

// Images of a few elements are no wide matrices: what all of them see are the rows of one.
bool few_steps(const Convolution& c) {
    return c.groups == 1 && c.steps() <= 64;
}

// (C) or (C, 1...) beside an image.
Value beside_image(Builder& b, Value channels, const Convolution& c) {
    Dims dims(c.window.rank() + 2, 1);
    dims[1] = c.channels;
    return b.reshape(channels, dims);
}

// Each channel's number at a place of the window, of a weight (C, 1, k…).
Value of_channels(Builder& b, Value w, const Convolution& c, std::int64_t place) {
    const Value flat = b.reshape(w, {c.channels, c.window.places()});
    return beside_image(b, b.slice(flat, 1, place, place + 1), c);
}

Value with_padding(Builder& b, Value x, const Convolution& c) {
    return padded(b, x, c.window, 0);
}

// What the window sees, (N, groups, depth · places, steps).
Value columns_of(Builder& b, Value x, const Convolution& c) {
    const Value whole = with_padding(b, x, c);
    std::vector<Value> seen;
    c.window.for_each_place([&](const Dims& place) {
        seen.push_back(b.reshape(at_place(b, whole, c.window, place), {c.batch, c.groups, c.depth(), 1, c.steps()}));
    });
    const Value columns = seen.size() == 1 ? seen[0] : b.op("concat", seen, {{"axis", std::int64_t{3}}});
    return b.reshape(columns, {c.batch, c.groups, c.products_of_sum(), c.steps()});
}

// The same of one group, by steps: (N, steps, depth · places).
Value rows_of(Builder& b, Value x, const Convolution& c) {
    const Value whole = with_padding(b, x, c);
    std::vector<Value> seen;
    c.window.for_each_place([&](const Dims& place) {
        const Value v = b.reshape(at_place(b, whole, c.window, place), {c.batch, c.channels, c.steps()});
        seen.push_back(b.reshape(b.transpose(v, {0, 2, 1}), {c.batch, c.steps(), c.channels, 1}));
    });
    const Value rows = seen.size() == 1 ? seen[0] : b.op("concat", seen, {{"axis", std::int64_t{3}}});
    return b.reshape(rows, {c.batch, c.steps(), c.products_of_sum()});
}

// (N, M, s…) by steps: (N, steps, M).
Value by_steps(Builder& b, Value y, const Convolution& c) {
    return b.transpose(b.reshape(y, {c.batch, c.filters, c.steps()}), {0, 2, 1});
}

// ---- forward --------------------------------------------------------------------------------------------------------

Convolution forward_of(const Type& x, const Type& w, const Attributes& attributes) {
    return convolution_of(x.dims, w.dims, joined({x.dims[0], w.dims[0]}, attributes.integers("steps")), attributes);
}
Convolution forward_of(const Op& op, const Function& f) {
    return forward_of(f.type(op.operands[0]), f.type(op.operands[1]), op.attributes);
}

std::vector<Value> decompose_forward(Builder& b, const Op& op) {
    const Value x = op.operands[0], w = op.operands[1];
    const Convolution c = forward_of(b.type(x), b.type(w), op.attributes);
    const Dims result = joined({c.batch, c.filters}, c.window.out);
    if (c.by_channel()) {
        const Value whole = with_padding(b, x, c);
        Value y;
        std::int64_t k = 0;
        c.window.for_each_place([&](const Dims& place) {
            const Value term = b.mul(at_place(b, whole, c.window, place), of_channels(b, w, c, k++));
            y = y ? b.add(y, term) : term;
        });
        return {y};
    }
    if (few_steps(c)) {
        const Value weight = b.reshape(w, {c.filters, c.products_of_sum()});
        const Value y =
            matmul(b, b.reshape(rows_of(b, x, c), {c.batch * c.steps(), c.products_of_sum()}), weight, false, true);
        return {b.reshape(b.transpose(b.reshape(y, {c.batch, c.steps(), c.filters}), {0, 2, 1}), result)};
    }
    Value columns = columns_of(b, x, c);
    Value weight = b.reshape(w, {c.groups, c.filters_of_group(), c.products_of_sum()});
    if (c.groups == 1) {  // one matrix for the whole batch
        columns = b.reshape(columns, {c.batch, c.products_of_sum(), c.steps()});
        weight = b.reshape(weight, {c.filters, c.products_of_sum()});
    }
    return {b.reshape(matmul(b, weight, columns), result)};
}

bool all_are(const Dims& numbers, std::int64_t value) {
    return std::all_of(numbers.begin(), numbers.end(), [&](std::int64_t v) { return v == value; });
}

// ConvolutionForm of the runtime API, which has three dimensions.
CallField form_field(const Convolution& c) {
    const Window& w = c.window;
    std::string text = fmt::format(".N = {}, .C = {}, .M = {}", c.batch, c.channels, c.filters);
    if (c.groups != 1) text += fmt::format(", .groups = {}", c.groups);
    auto add = [&text](const char* name, const Dims& sizes, std::int64_t otherwise) {
        Dims three(3 - sizes.size(), otherwise);
        three.insert(three.end(), sizes.begin(), sizes.end());
        text += fmt::format(", .{} = {{{}, {}, {}}}", name, three[0], three[1], three[2]);
    };
    add("in", w.in, 1);
    add("out", w.out, 1);
    add("window", w.size, 1);
    if (!all_are(w.strides, 1)) add("strides", w.strides, 1);
    if (!all_are(w.dilations, 1)) add("dilations", w.dilations, 1);
    if (!all_are(w.before, 0)) add("before", w.before, 0);
    return literal_field("form", "{" + text + "}");
}

RuntimeCall call_forward(const Op& op, const Function& f) {
    const Convolution c = forward_of(op, f);
    if (c.window.rank() > 3) return {};
    RuntimeCall call{"convolution_forward", {}, "y = x * w, a convolution"};
    call.fields = {result_field("y", 0), operand_field("x", 0), operand_field("weight", 1), form_field(c)};
    return call;
}

VjpResult vjp_forward(const VjpInput& in) {
    VjpResult result(2);
    const Dims x = in.type(in.operand(0)).dims, w = in.type(in.operand(1)).dims;
    if (in.wants(0)) {
        Attributes form = form_of(in.op.attributes);
        form.set("image", spatial(x));
        result[0] = in.b.op("convolution_backward_input", {in.cotangent(), in.operand(1)}, std::move(form));
    }
    if (in.wants(1)) {
        Attributes form = form_of(in.op.attributes);
        form.set("window", spatial(w));
        result[1] = in.b.op("convolution_backward_weight", {in.cotangent(), in.operand(0)}, std::move(form));
    }
    return result;
}

// ---- backward: the input --------------------------------------------------------------------------------------------

Convolution backward_input_of(const Type& dy, const Type& w, const Attributes& attributes) {
    const Dims x = joined({dy.dims[0], w.dims[1] * attributes.integer("groups")}, attributes.integers("image"));
    return convolution_of(x, w.dims, dy.dims, attributes);
}
Convolution backward_input_of(const Op& op, const Function& f) {
    return backward_input_of(f.type(op.operands[0]), f.type(op.operands[1]), op.attributes);
}

std::vector<Value> decompose_backward_input(Builder& b, const Op& op) {
    const Value dy = op.operands[0], w = op.operands[1];
    const DType dtype = gradient_dtype(op.attributes, b.type(dy).dtype), wide = statistics_dtype(b.type(dy).dtype);
    const Convolution c = backward_input_of(b.type(dy), b.type(w), op.attributes);
    if (c.by_channel()) {
        const Value d = b.cast(dy, wide), weight = b.cast(w, wide);
        const Type result = Type::tensor(wide, joined({c.batch, c.channels}, c.window.in));
        const Value dx = summed_at_elements(b, result, c.window,
                                            [&](std::int64_t k) { return b.mul(d, of_channels(b, weight, c, k)); });
        return {b.cast(dx, dtype)};
    }
    Value columns;
    if (few_steps(c)) {
        const Value rows = b.reshape(by_steps(b, dy, c), {c.batch * c.steps(), c.filters});
        columns = matmul(b, rows, b.reshape(w, {c.filters, c.products_of_sum()}), false, false, wide);
        columns = b.transpose(b.reshape(columns, {c.batch, c.steps(), c.products_of_sum()}), {0, 2, 1});
    } else {
        columns = matmul(b, b.reshape(w, {c.groups, c.filters_of_group(), c.products_of_sum()}),
                         b.reshape(dy, {c.batch, c.groups, c.filters_of_group(), c.steps()}), true, false, wide);
    }
    const Dims apart = joined({c.batch, c.channels, c.window.places()}, c.window.out);
    return {b.cast(folded(b, b.reshape(columns, apart), c.window), dtype)};
}

RuntimeCall call_backward_input(const Op& op, const Function& f) {
    const Convolution c = backward_input_of(op, f);
    if (c.window.rank() > 3) return {};
    RuntimeCall call{"convolution_backward_input", {}, "dx = dy * w turned round"};
    call.fields = {result_field("dx", 0), operand_field("dy", 0), operand_field("weight", 1), form_field(c)};
    return call;
}

VjpResult vjp_backward_input(const VjpInput& in) {
    VjpResult result(2);
    const Dims dy = in.type(in.operand(0)).dims, w = in.type(in.operand(1)).dims;
    if (in.wants(0)) {
        Attributes form = form_of(in.op.attributes);
        form.set("steps", spatial(dy));
        result[0] = in.b.op("convolution", {in.cotangent(), in.operand(1)}, std::move(form));
    }
    if (in.wants(1)) {
        Attributes form = form_of(in.op.attributes);
        form.set("window", spatial(w));
        result[1] = in.b.op("convolution_backward_weight", {in.operand(0), in.cotangent()}, std::move(form));
    }
    return result;
}

// ---- backward: the weight -------------------------------------------------------------------------------------------

Dims weight_of(const Type& dy, const Type& x, const Attributes& attributes) {
    return joined({dy.dims[1], x.dims[1] / std::max<std::int64_t>(1, attributes.integer("groups"))},
                  attributes.integers("window"));
}
Convolution backward_weight_of(const Type& dy, const Type& x, const Attributes& attributes) {
    return convolution_of(x.dims, weight_of(dy, x, attributes), dy.dims, attributes);
}

std::vector<Value> decompose_backward_weight(Builder& b, const Op& op) {
    const Value dy = op.operands[0], x = op.operands[1];
    const DType dtype = gradient_dtype(op.attributes, b.type(dy).dtype), wide = statistics_dtype(b.type(dy).dtype);
    const Convolution c = backward_weight_of(b.type(dy), b.type(x), op.attributes);
    const Dims weight = weight_of(b.type(dy), b.type(x), op.attributes);
    Value dw;
    if (c.by_channel()) {
        const Value whole = with_padding(b, b.cast(x, wide), c), d = b.cast(dy, wide);
        Dims axes = {0};
        for (std::size_t k = 0; k < c.window.rank(); ++k) axes.push_back(static_cast<std::int64_t>(k) + 2);
        std::vector<Value> sums;
        c.window.for_each_place([&](const Dims& place) {
            const Value sum = b.reduce_sum(b.mul(d, at_place(b, whole, c.window, place)), axes);
            sums.push_back(b.reshape(sum, {c.channels, 1}));
        });
        dw = sums.size() == 1 ? sums[0] : b.op("concat", sums, {{"axis", std::int64_t{1}}});
    } else if (few_steps(c)) {
        const std::int64_t rows = c.batch * c.steps();
        dw = matmul(b, b.reshape(by_steps(b, dy, c), {rows, c.filters}),
                    b.reshape(rows_of(b, x, c), {rows, c.products_of_sum()}), true, false, wide);
    } else {
        const Value d = b.reshape(dy, {c.batch, c.groups, c.filters_of_group(), c.steps()});
        dw = b.reduce_sum(matmul(b, d, columns_of(b, x, c), false, true, wide), {0});
    }
    dw = b.reshape(dw, weight);
    if (has_operand(op, 2)) dw = add_before(b, b.cast(op.operands[2], wide), dw, operand_or_none(op, 3));
    return {b.cast(dw, dtype)};
}

RuntimeCall call_backward_weight(const Op& op, const Function& f) {
    const Convolution c = backward_weight_of(f.type(op.operands[0]), f.type(op.operands[1]), op.attributes);
    if (c.window.rank() > 3) return {};
    RuntimeCall call{"convolution_backward_weight", {}, has_operand(op, 2) ? "dW += dy * x" : "dW = dy * x"};
    call.fields = {result_field("dweight", 0), operand_field("dy", 0), operand_field("x", 1)};
    gradient_field(call, op, 2, 1);
    call.fields.push_back(form_field(c));
    return call;
}

// ---- samples --------------------------------------------------------------------------------------------------------

// A convolution's form, with what each of the three has of its own.
struct Form {
    const char* name;
    Dims x, w, steps, strides, dilations, before;
    std::int64_t groups = 1;

    Attributes with(const char* own, const Dims& sizes) const {
        return {{"strides", strides}, {"dilations", dilations}, {"before", before}, {"groups", groups}, {own, sizes}};
    }
    Dims y() const { return joined({x[0], w[0]}, steps); }
};

std::vector<Form> forms() {
    return {
        {"images", {2, 3, 5, 4}, {4, 3, 3, 2}, {5, 2}, {1, 2}, {1, 1}, {1, 0}},
        {"groups, with gaps", {2, 4, 6}, {6, 2, 3}, {3}, {2}, {2}, {2}, 2},
        {"each channel its own", {2, 3, 4, 4}, {3, 1, 2, 2}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, 3},
        {"three dimensions", {1, 2, 3, 3, 2}, {3, 2, 2, 2, 1}, {2, 3, 2}, {1, 1, 1}, {1, 1, 1}, {0, 1, 0}},
        {"many steps", {2, 2, 9, 8}, {3, 2, 2, 3}, {9, 8}, {1, 1}, {1, 1}, {0, 1}},
        {"some elements are not seen", {2, 2, 9}, {2, 2, 2}, {2}, {3}, {1}, {0}},
        {"a window larger than the image", {2, 2, 2}, {3, 2, 7}, {2}, {1}, {1}, {3}},
        {"that of each channel", {2, 2, 2}, {2, 1, 7}, {2}, {1}, {1}, {3}, 2},
        {"steps in the padding alone", {1, 2, 2}, {2, 2, 2}, {8}, {1}, {1}, {4}},
        {"one place", {3, 4, 2, 2}, {2, 4, 1, 1}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    };
}

constexpr const char* linear_in_both = "a polynomial";

}  // namespace

std::vector<OpDef> define_convolution() {
    OpDef forward;
    forward.name = "convolution";
    forward.level = OpLevel::composite;
    forward.summary =
        "Convolution of x (N, C, d...) with a weight (M, C / groups, k...), whose window makes so many `steps` of "
        "`strides` from `before` the first element on, its places `dilations` apart: (N, M, steps...).";
    forward.formula =
        "y[n,m,s] = sum over c, k of x[n, c, s stride + k dilation - before] w[m,c,k]; dx and dw are sums of dy w and "
        "dy x over the same";
    forward.source = "ONNX Conv; Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016";
    forward.infer = [](const InferInput& in) {
        require_operands(in, 2);
        const Type &x = float_operand(in, 0), &w = float_operand(in, 1);
        require_same_dtype(x, w);
        const Dims steps = in.attributes.integers("steps");
        Dims y = {x.rank() > 0 ? x.dims[0] : 0, w.rank() > 0 ? w.dims[0] : 0};
        y = joined(y, steps);
        check_form(x.dims, w.dims, y, in.attributes);
        return std::vector<Type>{Type::tensor(x.dtype, y)};
    };
    forward.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        Tensor y(types[0]);
        const Convolution c =
            convolution_of(operands[0].type.dims, operands[1].type.dims, types[0].dims, op.attributes);
        for_each_product(c, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
            y.f[static_cast<std::size_t>(o)] += operands[0].at(i) * operands[1].at(k);
        });
        return std::vector<Tensor>{std::move(y)};
    };
    forward.vjp = vjp_forward;
    forward.decompose = decompose_forward;
    forward.call = call_forward;
    forward.flops = [](const Op& op, const Function& f) { return forward_of(op, f).flops(); };
    forward.precision = {.kind = Precision::Kind::product};
    forward.rows = {.kind = Rows::Kind::first, .operands = {0}};
    forward.recompute = Recompute::expensive;
    forward.linear_in = {0, 1};
    forward.parameter_roles = {ParameterRole::other, ParameterRole::product};
    forward.operand_names = {"x", "weight"};
    forward.smooth = linear_in_both;

    OpDef input;
    input.name = "convolution_backward_input";
    input.level = OpLevel::composite;
    input.summary =
        "The cotangent of a convolution's input (N, C, image...), from dy (N, M, s...) and the weight (M, C / groups, "
        "k...): a transposed convolution; of the element type `dtype` where that is given.";
    input.formula = "dx[n,c,i] = sum of dy[n,m,s] w[m,c,k] where s stride + k dilation - before = i";
    input.source = "the VJP of convolution; ONNX ConvTranspose";
    input.infer = [](const InferInput& in) {
        require_operands(in, 2);
        const Type &dy = float_operand(in, 0), &w = float_operand(in, 1);
        require_same_dtype(dy, w);
        require(dy.rank() >= 3 && w.rank() == dy.rank(),
                fmt::format("dy is {}, the weight {}: (N, M, s...) and (M, C / groups, k...) expected",
                            dims_text(dy.dims), dims_text(w.dims)));
        const Dims x =
            joined({dy.dims[0], w.dims[1] * groups_of(in.attributes, dy.dims[1])}, in.attributes.integers("image"));
        check_form(x, w.dims, dy.dims, in.attributes);
        return std::vector<Type>{Type::tensor(gradient_dtype(in.attributes, dy.dtype), x)};
    };
    input.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        Tensor dx(types[0]);
        const Convolution c =
            convolution_of(types[0].dims, operands[1].type.dims, operands[0].type.dims, op.attributes);
        for_each_product(c, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
            dx.f[static_cast<std::size_t>(i)] += operands[0].at(o) * operands[1].at(k);
        });
        return std::vector<Tensor>{std::move(dx)};
    };
    input.vjp = vjp_backward_input;
    input.decompose = decompose_backward_input;
    input.call = call_backward_input;
    input.flops = [](const Op& op, const Function& f) { return backward_input_of(op, f).flops(); };
    input.precision = {.kind = Precision::Kind::product, .gradient = true};
    input.rows = {.kind = Rows::Kind::first, .operands = {0}};
    input.recompute = Recompute::expensive;
    input.linear_in = {0, 1};
    input.parameter_roles = {ParameterRole::other, ParameterRole::product};
    input.operand_names = {"dy", "weight"};
    input.smooth = linear_in_both;

    OpDef weight;
    weight.name = "convolution_backward_weight";
    weight.level = OpLevel::composite;
    weight.summary =
        "The cotangent of a convolution's weight (M, C / groups, window...), from dy (N, M, s...) and x (N, C, d...), "
        "overwritten or added to; of the element type `dtype` where that is given.";
    weight.formula =
        "dw[m,c,k] = before + sum over n, s of dy[n,m,s] x[n, c, s stride + k dilation - before]; nothing is before "
        "where `first` holds";
    weight.source = "the VJP of convolution";
    weight.infer = [](const InferInput& in) {
        require_operands(in, 2, 4);
        const Type &dy = float_operand(in, 0), &x = float_operand(in, 1);
        require_same_dtype(dy, x);
        require(dy.rank() >= 3 && x.rank() == dy.rank(),
                fmt::format("dy is {}, x {}: (N, M, s...) and (N, C, d...) expected", dims_text(dy.dims),
                            dims_text(x.dims)));
        const Dims w = weight_of(dy, x, in.attributes);
        check_form(x.dims, w, dy.dims, in.attributes);
        const Type dw = Type::tensor(gradient_dtype(in.attributes, dy.dtype), w);
        if (in.has(2))
            require(in.operand(2) == dw,
                    fmt::format("the gradient before is {}, the sum is {}", to_string(in.operand(2)), to_string(dw)));
        if (in.has(3)) require(boolean_operand(in, 3).rank() == 0, "first is to be bool[]");
        return std::vector<Type>{dw};
    };
    weight.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        Tensor dw(types[0]);
        if (has_operand(op, 2) && !(has_operand(op, 3) && operands[3].at(0) != 0)) dw = operands[2];
        const Convolution c =
            convolution_of(operands[1].type.dims, types[0].dims, operands[0].type.dims, op.attributes);
        for_each_product(c, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
            dw.f[static_cast<std::size_t>(k)] += operands[0].at(o) * operands[1].at(i);
        });
        return std::vector<Tensor>{std::move(dw)};
    };
    weight.not_differentiable = "a gradient of first order only: its decomposition can be differentiated";
    weight.decompose = decompose_backward_weight;
    weight.call = call_backward_weight;
    weight.flops = [](const Op& op, const Function& f) {
        return backward_weight_of(f.type(op.operands[0]), f.type(op.operands[1]), op.attributes).flops();
    };
    weight.precision = {.kind = Precision::Kind::product, .gradient = true};
    weight.recompute = Recompute::expensive;
    weight.result_names = {"dw"};
    weight.operand_names = {"dy", "x"};
    weight.in_place = {{0, 2}};
    weight.addend = {.operand = 2, .over_steps = true};
    weight.sums = sums_over_rows;

    for (const Form& form : forms()) {
        forward.samples.push_back(
            {.name = form.name, .operands = {f32(form.x), f32(form.w)}, .attributes = form.with("steps", form.steps)});
        input.samples.push_back({.name = form.name,
                                 .operands = {f32(form.y()), f32(form.w)},
                                 .attributes = form.with("image", spatial(form.x))});
        weight.samples.push_back({.name = form.name,
                                  .operands = {f32(form.y()), f32(form.x)},
                                  .attributes = form.with("window", spatial(form.w))});
    }
    const Form form = forms()[0];
    Attributes in_f32 = form.with("image", spatial(form.x));
    in_f32.set("dtype", DType::f32);
    forward.samples.push_back(
        {.name = "of bf16", .operands = {bf16(form.x), bf16(form.w)}, .attributes = form.with("steps", form.steps)});
    input.samples.push_back(
        {.name = "of bf16, in f32", .operands = {bf16(form.y()), bf16(form.w)}, .attributes = in_f32});
    Attributes weight_in_f32 = form.with("window", spatial(form.w));
    weight_in_f32.set("dtype", DType::f32);
    weight.samples.push_back({.name = "of bf16, in f32, added to",
                              .operands = {bf16(form.y()), bf16(form.x), f32(form.w)},
                              .attributes = weight_in_f32});
    for (const double first : {1.0, 0.0})
        weight.samples.push_back({.name = first != 0 ? "added to, first micro-step" : "added to, later micro-step",
                                  .operands = {f32(form.y()), f32(form.x), f32(form.w), bool_of({}, {first})},
                                  .attributes = form.with("window", spatial(form.w))});

    const Attributes steps = form.with("steps", form.steps);
    forward.errors = {
        {{f32_type({2, 3, 5, 4}), f32_type({4, 2, 3, 2})},
         steps,
         "x is (2,3,5,4), the weight (4,2,3,2), y (2,4,5,2), in 1 groups"},
        {{f32_type({2, 3}), f32_type({4, 2})},
         steps,
         "x is (2,3), the weight (4,2), y (2,4,5,2): (N, C, d...), (M, C / groups, k...) and (N, M, s...) expected"},
        {{f32_type({2, 3, 5, 4, 1}), f32_type({4, 3, 3, 2, 1})},
         form.with("steps", {5, 2, 1}),
         "strides are (1,2), and there are 3 dimensions"},
        {{f32_type({0, 3, 5, 4}), f32_type({4, 3, 3, 2})},
         steps,
         "x is (0,3,5,4), the weight (4,3,3,2), y (0,4,5,2): nothing to compute"},
        {{f32_type({2, 3, 5}), f32_type({4, 3, 3})},
         {{"strides", Dims{0}},
          {"dilations", Dims{1}},
          {"before", Dims{0}},
          {"groups", std::int64_t{1}},
          {"steps", Dims{3}}},
         "strides and dilations are 1 and more, and `before` is 0 and more"},
    };
    input.errors = {{{f32_type({2, 3}), f32_type({3, 2})},
                     form.with("image", {5, 4}),
                     "dy is (2,3), the weight (3,2): (N, M, s...) and (M, C / groups, k...) expected"}};
    weight.errors = {{{f32_type({2, 4, 5, 2}), f32_type({2, 3, 5, 4}), f32_type({4, 3, 3, 3})},
                      form.with("window", {3, 2}),
                      "the gradient before is f32[4,3,3,3], the sum is f32[4,3,3,2]"},
                     {{f32_type({2, 4}), f32_type({2, 3})},
                      form.with("window", {3, 2}),
                      "dy is (2,4), x (2,3): (N, M, s...) and (N, C, d...) expected"}};
    return {forward, input, weight};
}

}  // namespace thunderc

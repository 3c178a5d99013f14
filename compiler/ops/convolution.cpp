// SPDX-License-Identifier: Apache-2.0
// Convolutions of any number of dimensions, and what their gradients are made of.
//
//   y[n, m, s] = Σ_{c, k} x[n, c, s · stride + k · dilation - before] w[m, c, k],  x being 0 beyond its elements
//
// s are the window's steps, k its places, c the channels of m's group. Both gradients are sums of the same products, dx
// over m, k and s, dw over n and s; each of the three is linear in two tensors and has the other two as its gradients.
// Where nothing follows the sums, that is: the first and the gradient of the input can add a bias, apply an activation
// and add a residual to them. The gradient of the input is a transposed convolution: torch.nn.ConvTranspose. Dumoulin
// and Visin, "A guide to convolution arithmetic for deep learning", 2016.
#include <fmt/format.h>

#include "compiler/ops/convolution_form.h"

namespace thunderc {
namespace convolutions {
namespace {

// ---- forward --------------------------------------------------------------------------------------------------------

Convolution form_of_forward(const Op& op, const Function& f) {
    return forward_of(f.type(op.operands[0]), f.type(op.operands[1]), op.attributes);
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
    const Convolution c = form_of_forward(op, f);
    if (c.window.rank() > 3) return {};
    RuntimeCall call{"convolution_forward", {}, "y = x * w, a convolution"};
    call.fields = {result_field("y", 0), operand_field("x", 0), operand_field("weight", 1)};
    epilogue_fields(call, op);
    call.fields.push_back(form_field(c));
    return call;
}

VjpResult vjp_forward(const VjpInput& in) {
    VjpResult result(in.op.operands.size());
    const Dims x = in.type(in.operand(0)).dims, w = in.type(in.operand(1)).dims;
    const Value d = cotangent_of_sums(in, result);
    if (in.wants(0)) {
        Attributes form = form_of(in.op.attributes);
        form.set("image", spatial(x));
        result[0] = in.b.op("convolution_backward_input", {d, in.operand(1)}, std::move(form));
    }
    if (in.wants(1)) {
        Attributes form = form_of(in.op.attributes);
        form.set("window", spatial(w));
        result[1] = in.b.op("convolution_backward_weight", {d, in.operand(0)}, std::move(form));
    }
    return result;
}

// ---- backward: the input --------------------------------------------------------------------------------------------

Convolution form_of_input(const Op& op, const Function& f) {
    return backward_input_of(f.type(op.operands[0]), f.type(op.operands[1]), op.attributes);
}

RuntimeCall call_backward_input(const Op& op, const Function& f) {
    const Convolution c = form_of_input(op, f);
    if (c.window.rank() > 3) return {};
    RuntimeCall call{"convolution_backward_input", {}, "dx = dy * w turned round"};
    call.fields = {result_field("dx", 0), operand_field("dy", 0), operand_field("weight", 1)};
    epilogue_fields(call, op);
    call.fields.push_back(form_field(c));
    return call;
}

VjpResult vjp_backward_input(const VjpInput& in) {
    VjpResult result(in.op.operands.size());
    const Dims dy = in.type(in.operand(0)).dims, w = in.type(in.operand(1)).dims;
    const Value d = cotangent_of_sums(in, result);
    if (in.wants(0)) {
        Attributes form = form_of(in.op.attributes);
        form.set("steps", spatial(dy));
        result[0] = in.b.op("convolution", {d, in.operand(1)}, std::move(form));
    }
    if (in.wants(1)) {
        Attributes form = form_of(in.op.attributes);
        form.set("window", spatial(w));
        result[1] = in.b.op("convolution_backward_weight", {in.operand(0), d}, std::move(form));
    }
    return result;
}

// ---- backward: the weight -------------------------------------------------------------------------------------------

RuntimeCall call_backward_weight(const Op& op, const Function& f) {
    const Convolution c = backward_weight_of(f.type(op.operands[0]), f.type(op.operands[1]), op.attributes);
    if (c.window.rank() > 3) return {};
    const bool adds = has_operand(op, before_operand);
    RuntimeCall call{"convolution_backward_weight", {}, adds ? "dW += dy * x" : "dW = dy * x"};
    call.fields = {result_field("dweight", 0)};
    if (op.results.size() > 1) {
        call.fields.push_back(result_field("dbias", 1));
        call.comment += adds ? ", dbias += sums of dy" : ", dbias = sums of dy";
    }
    call.fields.push_back(operand_field("dy", 0));
    call.fields.push_back(operand_field("x", 1));
    gradient_field(call, op, before_operand, op.results.size());
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

// What follows the sums, of a convolution of x that gives y.
void add_epilogues(std::vector<Sample>& samples, const Attributes& form, const Dims& x, const Dims& w, const Dims& y) {
    const auto with = [&](const char* activation) {
        Attributes attributes = form;
        attributes.set("activation", std::string(activation));
        return attributes;
    };
    const SampleOperand bias = f32({y[1]}), positive = f32(w, 0.1, 1);
    samples.push_back({.name = "bias", .operands = {f32(x), f32(w), bias}, .attributes = form});
    samples.push_back({.name = "residual", .operands = {f32(x), f32(w), absent(), f32(y)}, .attributes = form});
    samples.push_back(
        {.name = "bias and residual", .operands = {f32(x), f32(w), bias, f32(y)}, .attributes = with("none")});
    samples.push_back({.name = "gelu", .operands = {f32(x), f32(w), bias}, .attributes = with("gelu")});
    samples.push_back({.name = "gelu_tanh", .operands = {f32(x), f32(w)}, .attributes = with("gelu_tanh")});
    samples.push_back(
        {.name = "silu and residual", .operands = {f32(x), f32(w), absent(), f32(y)}, .attributes = with("silu")});
    samples.push_back({.name = "tanh", .operands = {f32(x), f32(w), bias, f32(y)}, .attributes = with("tanh")});
    // positive operands keep what relu reads away from the kink at 0, where differences do not converge
    samples.push_back({.name = "relu, active",
                       .operands = {f32(x, 0.1, 1), positive, f32({y[1]}, 0.1, 1), f32(y)},
                       .attributes = with("relu")});
    samples.push_back({.name = "relu, inactive",
                       .operands = {f32(x, -1, -0.1), positive, f32({y[1]}, -1, -0.1)},
                       .attributes = with("relu")});
    samples.push_back({.name = "of bf16, with all that follows",
                       .operands = {bf16(x), bf16(w), bf16({y[1]}), bf16(y)},
                       .attributes = with("silu")});
}

Attributes with_bias(Attributes attributes) {
    attributes.set("bias", true);
    return attributes;
}

}  // namespace
}  // namespace convolutions

std::vector<OpDef> define_convolution() {
    using namespace convolutions;
    OpDef forward;
    forward.name = "convolution";
    forward.level = OpLevel::composite;
    forward.summary =
        "Convolution of x (N, C, d...) with a weight (M, C / groups, k...), whose window makes so many `steps` of "
        "`strides` from `before` the first element on, its places `dilations` apart: (N, M, steps...); bias, "
        "activation "
        "and residual on the way.";
    forward.formula =
        "y[n,m,s] = activation(sum over c, k of x[n, c, s stride + k dilation - before] w[m,c,k] + bias[m]) + "
        "residual[n,m,s]; dx and dw are sums of dsum w and dsum x over the same, dbias of dsum; dsum = "
        "activation'(sum + bias) dy; dresidual = dy";
    forward.source = "ONNX Conv; Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016";
    forward.infer = [](const InferInput& in) {
        require_operands(in, 2, residual_operand + 1);
        const Type &x = float_operand(in, 0), &w = float_operand(in, 1);
        require_same_dtype(x, w);
        const Dims steps = in.attributes.integers("steps");
        Dims y = {x.rank() > 0 ? x.dims[0] : 0, w.rank() > 0 ? w.dims[0] : 0};
        y = joined(y, steps);
        check_form(x.dims, w.dims, y, in.attributes);
        check_epilogue(in, Type::tensor(x.dtype, y));
        return std::vector<Type>{Type::tensor(x.dtype, y)};
    };
    forward.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        Tensor y(types[0]);
        const Convolution c =
            convolution_of(operands[0].type.dims, operands[1].type.dims, types[0].dims, op.attributes);
        for_each_product(c, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
            y.f[static_cast<std::size_t>(o)] += operands[0].at(i) * operands[1].at(k);
        });
        finish(op, operands, y);
        return std::vector<Tensor>{std::move(y)};
    };
    forward.vjp = vjp_forward;
    forward.decompose = decompose_forward;
    forward.call = call_forward;
    forward.flops = [](const Op& op, const Function& f) { return form_of_forward(op, f).flops(); };
    forward.precision = {.kind = Precision::Kind::product};
    forward.autocast = Autocast::low;
    forward.rows = {.kind = Rows::Kind::first, .operands = {0, residual_operand}};
    forward.recompute = Recompute::expensive;
    forward.linear_in = {0, 1};
    forward.epilogue = Epilogue{.bias = bias_operand, .axis = 1};
    forward.addend = {.operand = residual_operand};
    forward.parameter_roles = {ParameterRole::other, ParameterRole::product, ParameterRole::shift};
    forward.operand_names = {"x", "weight"};
    forward.kinks = {"relu of 0"};

    OpDef input;
    input.name = "convolution_backward_input";
    input.level = OpLevel::composite;
    input.summary =
        "The cotangent of a convolution's input (N, C, image...), from dy (N, M, s...) and the weight (M, C / groups, "
        "k...): a transposed convolution; bias, activation and residual on the way; of the element type `dtype` where "
        "that is given.";
    input.formula =
        "dx[n,c,i] = activation(sum of dy[n,m,s] w[m,c,k] where s stride + k dilation - before = i, + bias[c]) + "
        "residual[n,c,i]";
    input.source = "the VJP of convolution; ONNX ConvTranspose";
    input.infer = [](const InferInput& in) {
        require_operands(in, 2, residual_operand + 1);
        const Type &dy = float_operand(in, 0), &w = float_operand(in, 1);
        require_same_dtype(dy, w);
        require(dy.rank() >= 3 && w.rank() == dy.rank(),
                fmt::format("dy is {}, the weight {}: (N, M, s...) and (M, C / groups, k...) expected",
                            dims_text(dy.dims), dims_text(w.dims)));
        const Dims x =
            joined({dy.dims[0], w.dims[1] * groups_of(in.attributes, dy.dims[1])}, in.attributes.integers("image"));
        check_form(x, w.dims, dy.dims, in.attributes);
        const Type dx = Type::tensor(gradient_dtype(in.attributes, dy.dtype), x);
        check_epilogue(in, dx);
        return std::vector<Type>{dx};
    };
    input.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        Tensor dx(types[0]);
        const Convolution c =
            convolution_of(types[0].dims, operands[1].type.dims, operands[0].type.dims, op.attributes);
        for_each_product(c, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
            dx.f[static_cast<std::size_t>(i)] += operands[0].at(o) * operands[1].at(k);
        });
        finish(op, operands, dx);
        return std::vector<Tensor>{std::move(dx)};
    };
    input.vjp = vjp_backward_input;
    input.decompose = decompose_backward_input;
    input.call = call_backward_input;
    input.flops = [](const Op& op, const Function& f) { return form_of_input(op, f).flops(); };
    input.precision = {.kind = Precision::Kind::product, .gradient = true};
    input.rows = {.kind = Rows::Kind::first, .operands = {0, residual_operand}};
    input.recompute = Recompute::expensive;
    input.linear_in = {0, 1};
    input.epilogue = Epilogue{.bias = bias_operand, .axis = 1};
    input.addend = {.operand = residual_operand};
    input.parameter_roles = {ParameterRole::other, ParameterRole::product, ParameterRole::shift};
    input.operand_names = {"dy", "weight"};
    input.kinks = {"relu of 0"};

    OpDef weight;
    weight.name = "convolution_backward_weight";
    weight.level = OpLevel::composite;
    weight.summary =
        "The cotangent of a convolution's weight (M, C / groups, window...), from dy (N, M, s...) and x (N, C, d...), "
        "and with `bias` that of its bias (M), overwritten or added to; of the element type `dtype` where that is "
        "given.";
    weight.formula =
        "dw[m,c,k] = before + sum over n, s of dy[n,m,s] x[n, c, s stride + k dilation - before]; dbias[m] = before + "
        "sum "
        "over n, s of dy[n,m,s]; nothing is before where `first` holds";
    weight.source = "the VJP of convolution";
    weight.infer = [](const InferInput& in) {
        require_operands(in, 2, before_operand + 3);
        const Type &dy = float_operand(in, 0), &x = float_operand(in, 1);
        require_same_dtype(dy, x);
        require(dy.rank() >= 3 && x.rank() == dy.rank(),
                fmt::format("dy is {}, x {}: (N, M, s...) and (N, C, d...) expected", dims_text(dy.dims),
                            dims_text(x.dims)));
        const Dims w = weight_of(dy, x, in.attributes);
        check_form(x.dims, w, dy.dims, in.attributes);
        const DType dtype = gradient_dtype(in.attributes, dy.dtype);
        std::vector<Type> results = {Type::tensor(dtype, w)};
        if (in.attributes.boolean("bias", false)) results.push_back(Type::tensor(dtype, {dy.dims[1]}));
        if (in.operands.size() <= before_operand) return results;
        const std::size_t first = before_operand + results.size();
        require(in.operands.size() == first || in.operands.size() == first + 1,
                fmt::format("{} gradients and a flag at most are to be added to, {} operands given", results.size(),
                            in.operands.size() - before_operand));
        for (std::size_t r = 0; r < results.size(); ++r)
            require(in.has(before_operand + r) && in.operand(before_operand + r) == results[r],
                    fmt::format("the gradient before is {}, the sum is {}", to_string(in.operand(before_operand + r)),
                                to_string(results[r])));
        if (in.has(first)) require(boolean_operand(in, first).rank() == 0, "first is to be bool[]");
        return results;
    };
    weight.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        const std::size_t first = before_operand + types.size();
        const bool begins = has_operand(op, first) && operands[first].at(0) != 0;
        std::vector<Tensor> results;
        for (std::size_t r = 0; r < types.size(); ++r)
            results.push_back(has_operand(op, before_operand + r) && !begins ? operands[before_operand + r]
                                                                             : Tensor(types[r]));
        const Tensor &dy = operands[0], &x = operands[1];
        const Convolution c = convolution_of(x.type.dims, types[0].dims, dy.type.dims, op.attributes);
        for_each_product(c, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
            results[0].f[static_cast<std::size_t>(k)] += dy.at(o) * x.at(i);
        });
        if (results.size() > 1)
            for (std::int64_t o = 0; o < dy.size(); ++o)
                results[1].f[static_cast<std::size_t>(o / c.steps() % c.filters)] += dy.at(o);
        return results;
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
    weight.in_place_from = before_operand;
    weight.addend = {.operand = before_operand, .over_steps = true};
    weight.bias_axis = 1;
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

    weight.samples.push_back({.name = "of bf16, in f32, with the bias, added to",
                              .operands = {bf16(form.y()), bf16(form.x), f32(form.w), f32({form.w[0]})},
                              .attributes = with_bias(weight_in_f32)});
    for (const Form& f : forms())
        weight.samples.push_back({.name = std::string(f.name) + ", with the bias",
                                  .operands = {f32(f.y()), f32(f.x)},
                                  .attributes = with_bias(f.with("window", spatial(f.w)))});
    weight.samples.push_back({.name = "with the bias, added to, first micro-step",
                              .operands = {f32(form.y()), f32(form.x), f32(form.w), f32({form.w[0]}), bool_of({}, {1})},
                              .attributes = with_bias(form.with("window", spatial(form.w)))});

    const Attributes steps = form.with("steps", form.steps);
    add_epilogues(forward.samples, steps, form.x, form.w, form.y());
    add_epilogues(input.samples, form.with("image", spatial(form.x)), form.y(), form.w, form.x);
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
        {{f32_type({2, 3, 5, 4}), f32_type({4, 3, 3, 2}), f32_type({3})},
         steps,
         "the bias is (3), one value for each of 4 channels expected"},
        {{f32_type({2, 3, 5, 4}), f32_type({4, 3, 3, 2}), Type::tensor(DType::bf16, {4})},
         steps,
         "the bias is bf16, the result f32: that or f32 expected"},
        {{f32_type({2, 3, 5, 4}), f32_type({4, 3, 3, 2}), std::nullopt, f32_type({2, 4, 5, 1})},
         steps,
         "the residual is f32[2,4,5,1], the result f32[2,4,5,2]"},
    };
    input.errors = {{{f32_type({2, 3}), f32_type({3, 2})},
                     form.with("image", {5, 4}),
                     "dy is (2,3), the weight (3,2): (N, M, s...) and (M, C / groups, k...) expected"}};
    weight.errors = {{{f32_type({2, 4, 5, 2}), f32_type({2, 3, 5, 4}), f32_type({4, 3, 3, 3})},
                      form.with("window", {3, 2}),
                      "the gradient before is f32[4,3,3,3], the sum is f32[4,3,3,2]"},
                     {{f32_type({2, 4, 5, 2}), f32_type({2, 3, 5, 4}), f32_type({4, 3, 3, 2})},
                      with_bias(form.with("window", {3, 2})),
                      "2 gradients and a flag at most are to be added to, 1 operands given"},
                     {{f32_type({2, 4}), f32_type({2, 3})},
                      form.with("window", {3, 2}),
                      "dy is (2,4), x (2,3): (N, M, s...) and (N, C, d...) expected"}};
    return {forward, input, weight};
}

}  // namespace thunderc

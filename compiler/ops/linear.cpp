// SPDX-License-Identifier: Apache-2.0
// Linear layers, y = x Wᵀ, with what a product can do on the way: bias, activation, residual, and several products of
// one input.
#include "compiler/ops/linear.h"

#include <fmt/format.h>

#include <utility>

#include "compiler/ops/activations.h"
#include "compiler/ops/composite.h"

namespace thunderc {

namespace {

// x as a matrix of rows.
Value as_matrix(Builder& b, Value x) {
    const Dims dims = b.type(x).dims;
    return b.reshape(x, {row_count(dims), last_dim(dims)});
}

// Slices of the last dimension as wide as each weight is high.
std::vector<Value> split_columns(Builder& b, Value v, const Dims& widths) {
    std::vector<Value> out;
    std::int64_t begin = 0;
    for (std::int64_t width : widths) {
        out.push_back(b.slice(v, b.type(v).rank() - 1, begin, begin + width));
        begin += width;
    }
    return out;
}

std::string mismatch(const char* what, const Dims& is, const char* than, const Dims& wanted) {
    return fmt::format("{} is {}, {} {}", what, dims_text(is), than, dims_text(wanted));
}

// ---- forward --------------------------------------------------------------------------------------------------------

std::vector<Type> infer_linear(const InferInput& in) {
    const Type& x = in.operand(0);
    require(x.rank() >= 1, "x is a scalar");
    const std::size_t n = linear_products(in.operands.size());
    std::int64_t out = 0;
    for (std::size_t k = 0; k < n; ++k) {
        const Type& w = in.operand(linear_weight(k));
        require(w.rank() == 2 && w.dims[1] == x.dims.back(),
                fmt::format("the weight is {}, x is {}: the weight is (out, in), and in is the last dimension of x",
                            dims_text(w.dims), dims_text(x.dims)));
        require(w.dtype == x.dtype, fmt::format("the weight is {}, x is {}", name_of(w.dtype), name_of(x.dtype)));
        require(in.has(linear_bias(k)) == in.has(linear_bias(0)),
                "some of the products have a bias and some have none");
        if (in.has(linear_bias(k))) {
            const Type& bias = in.operand(linear_bias(k));
            require(bias.dims == Dims{w.dims[0]},
                    mismatch("the bias", bias.dims, "one value for each output is", {w.dims[0]}));
            require(
                bias.dtype == x.dtype || bias.dtype == DType::f32,
                fmt::format("the bias is {}, x is {}: that or f32 expected", name_of(bias.dtype), name_of(x.dtype)));
        }
        out += w.dims[0];
    }
    Type y = Type::tensor(x.dtype, with_last(x.dims, out));
    if (in.has(linear_residual))
        require(in.operand(linear_residual) == y,
                mismatch("the residual", in.operand(linear_residual).dims, "the product is", y.dims));
    std::string activation = in.attributes.string("activation", "none");
    require(is_activation(activation), fmt::format("there is no activation {}", activation));
    if (in.attributes.boolean("keep_pre_activation", false)) return {y, y};
    return {y};
}

// Row r of a matrix of floats. The references below are what most of a model's reference takes.
const double* row(const Tensor& t, std::int64_t r, std::int64_t width) {
    return t.f.data() + r * width;
}
double* row(Tensor& t, std::int64_t r, std::int64_t width) {
    return t.f.data() + r * width;
}

std::vector<Tensor> reference_linear(const Op& op, std::span<const Tensor> operands, std::span<const Type> results) {
    const Tensor& x = operands[0];
    const std::int64_t rows = row_count(x.type.dims), in = last_dim(x.type.dims), out = last_dim(results[0].dims);
    std::vector<Tensor> result(results.begin(), results.end());
    const std::string activation = op.attributes.string("activation", "none");
    std::int64_t column = 0;
    for (std::size_t k = 0; k < linear_products(op.operands.size()); ++k) {
        const Tensor& w = operands[linear_weight(k)];
        for (std::int64_t o = 0; o < w.type.dims[0]; ++o, ++column) {
            for (std::int64_t r = 0; r < rows; ++r) {
                double sum = has_operand(op, linear_bias(k)) ? operands[linear_bias(k)].at(o) : 0;
                const double *from = row(x, r, in), *by = row(w, o, in);
                for (std::int64_t i = 0; i < in; ++i) sum += from[i] * by[i];
                if (result.size() > 1) result[1].set(r * out + column, sum);
                sum = activation_value(activation, sum);
                if (has_operand(op, linear_residual)) sum += operands[linear_residual].at(r * out + column);
                result[0].set(r * out + column, sum);
            }
        }
    }
    return result;
}

std::vector<Value> decompose_linear(Builder& b, const Op& op) {
    Value x = as_matrix(b, op.operands[0]);
    const DType dtype = b.type(x).dtype, wide = statistics_dtype(dtype);  // rounded once, at the end
    std::vector<Value> parts;
    std::int64_t out = 0;
    for (std::size_t k = 0; k < linear_products(op.operands.size()); ++k) {
        Value w = op.operands[linear_weight(k)];
        Value y = matmul(b, x, w, false, true, wide);
        if (has_operand(op, linear_bias(k))) y = b.add(y, b.cast(op.operands[linear_bias(k)], wide));
        parts.push_back(y);
        out += b.type(w).dims[0];
    }
    Value y = parts.size() == 1 ? parts[0] : b.op("concat", parts, {{"axis", std::int64_t{1}}});
    Value pre = b.reshape(y, with_last(b.type(op.operands[0]).dims, out));
    y = activation_in_primitives(b, pre, op.attributes.string("activation", "none"));
    if (has_operand(op, linear_residual)) y = b.add(y, b.cast(op.operands[linear_residual], wide));
    y = b.cast(y, dtype);
    if (op.attributes.boolean("keep_pre_activation", false)) return {y, b.cast(pre, dtype)};
    return {y};
}

VjpResult vjp_linear(const VjpInput& in) {
    Builder& b = in.b;
    const Op& op = in.op;
    VjpResult result(op.operands.size());
    const std::string activation = op.attributes.string("activation", "none");
    const bool keeps = op.results.size() > 1;
    if (in.wants(linear_residual)) result[linear_residual] = in.cotangent();
    Value d = in.cotangent();
    if (d && activation != "none") {
        Value pre;
        if (keeps) {
            pre = in.result(1);
        } else {
            std::vector<Value> operands = op.operands;
            if (operands.size() > linear_residual) operands[linear_residual] = {};
            pre = b.op("linear", operands, without(op.attributes, {"activation"}));
        }
        d = activation_backward(b, d, pre, activation);
    }
    if (keeps && in.cotangents[1]) d = add_optional(b, d, in.cotangents[1]);
    if (!d) return result;

    const std::size_t n = linear_products(op.operands.size());
    std::vector<Value> weights;
    Dims widths;
    bool want_weights = false, want_biases = false;
    for (std::size_t k = 0; k < n; ++k) {
        weights.push_back(op.operands[linear_weight(k)]);
        widths.push_back(b.type(weights.back()).dims[0]);
        want_weights = want_weights || in.wants(linear_weight(k));
        want_biases = want_biases || (has_operand(op, linear_bias(k)) && in.wants(linear_bias(k)));
    }
    Attributes attributes;
    if (op.attributes.boolean("adjacent_weights", false)) attributes.set("adjacent_weights", true);
    if (in.wants(0)) {
        std::vector<Value> operands = {d, weights[0]};
        if (n > 1) operands.push_back({});  // no residual
        operands.insert(operands.end(), weights.begin() + 1, weights.end());
        result[0] = b.op("linear_backward_input", operands, attributes);
    }
    if (want_weights) {
        if (want_biases) attributes.set("bias", true);
        if (n > 1) attributes.set("outs", widths);
        std::vector<Value> gradients = b.emit("linear_backward_weight", {d, op.operands[0]}, attributes);
        for (std::size_t k = 0; k < n; ++k) {
            if (in.wants(linear_weight(k))) result[linear_weight(k)] = gradients[k];
            if (want_biases && in.wants(linear_bias(k))) result[linear_bias(k)] = gradients[n + k];
        }
    } else if (want_biases) {
        Value sums = b.sum_to(d, {last_dim(b.type(d).dims)});
        std::vector<Value> parts = split_columns(b, sums, widths);
        for (std::size_t k = 0; k < n; ++k)
            if (in.wants(linear_bias(k))) result[linear_bias(k)] = parts[k];
    }
    return result;
}

RuntimeCall call_linear(const Op& op, const Function& f) {
    const Type& x = f.type(op.operands[0]);
    const Type& y = f.type(op.results[0]);
    const auto leading = static_cast<std::size_t>(x.rank() - 1);
    RuntimeCall call{"linear_forward", {}, "y = x Wᵀ"};
    call.fields = {result_field("y", 0, "ld_y", leading).shaped("... out"),
                   operand_field("x", 0, "ld_x", leading).shaped("... in"),
                   operand_field("weight", 1).shaped("out in")};
    if (has_operand(op, linear_bias(0))) {
        call.fields.push_back(operand_field("bias", linear_bias(0)).shaped("out"));
        call.comment += " + bias";
    }
    if (const std::size_t products = linear_products(op.operands.size()); products > 1)
        call.comment += fmt::format(" for {} weights that lie side by side", products);
    const std::string activation = op.attributes.string("activation", "none");
    if (activation != "none") {
        call.fields.push_back(literal_field("activation", "Activation::" + activation));
        call.comment = fmt::format("y = {}({})", activation, call.comment.substr(4));
    }
    if (has_operand(op, linear_residual)) {
        call.fields.push_back(operand_field("residual", linear_residual, "ld_residual", leading).shaped("... out"));
        call.comment += " + residual";
    }
    if (op.results.size() > 1) call.fields.push_back(result_field("pre_activation", 1).shaped("... out"));
    call.fields.push_back(literal_field("rows", row_count(x.dims)));
    call.fields.push_back(literal_field("in", last_dim(x.dims)));
    call.fields.push_back(literal_field("out", last_dim(y.dims)));
    return call;
}

// ---- backward: the input --------------------------------------------------------------------------------------------

std::vector<Type> infer_backward_input(const InferInput& in) {
    const Type& dy = in.operand(0);
    require(dy.rank() >= 1, "dy is a scalar");
    std::int64_t out = 0;
    for (std::size_t k = 0; k < backward_input_products(in.operands.size()); ++k) {
        const Type& w = in.operand(backward_input_weight(k));
        require(w.rank() == 2 && w.dims[1] == in.operand(1).dims[1] && w.dtype == dy.dtype,
                fmt::format("the weight is {}, dy is {}", to_string(w), to_string(dy)));
        out += w.dims[0];
    }
    require(out == dy.dims.back(), fmt::format("dy has {} columns, the weights have {} rows", dy.dims.back(), out));
    Type dx = Type::tensor(gradient_dtype(in.attributes, dy.dtype), with_last(dy.dims, in.operand(1).dims[1]));
    if (in.has(backward_input_residual))
        require(in.operand(backward_input_residual) == dx,
                mismatch("the residual", in.operand(backward_input_residual).dims, "the product is", dx.dims));
    return {dx};
}

std::vector<Tensor> reference_backward_input(const Op& op, std::span<const Tensor> operands,
                                             std::span<const Type> results) {
    const Tensor& dy = operands[0];
    Tensor dx(results[0]);
    const std::int64_t rows = row_count(dx.type.dims), in = last_dim(dx.type.dims), out = last_dim(dy.type.dims);
    std::int64_t column = 0;
    for (std::size_t k = 0; k < backward_input_products(op.operands.size()); ++k) {
        const Tensor& w = operands[backward_input_weight(k)];
        for (std::int64_t o = 0; o < w.type.dims[0]; ++o, ++column)
            for (std::int64_t r = 0; r < rows; ++r) {
                const double d = dy.at(r * out + column), *by = row(w, o, in);
                double* to = row(dx, r, in);
                for (std::int64_t i = 0; i < in; ++i) to[i] += d * by[i];
            }
    }
    if (has_operand(op, backward_input_residual))
        for (std::int64_t i = 0; i < dx.size(); ++i) dx.set(i, dx.at(i) + operands[backward_input_residual].at(i));
    return {dx};
}

std::vector<Value> decompose_backward_input(Builder& b, const Op& op) {
    Value dy = as_matrix(b, op.operands[0]);
    std::vector<Value> weights;
    Dims widths;
    for (std::size_t k = 0; k < backward_input_products(op.operands.size()); ++k) {
        weights.push_back(op.operands[backward_input_weight(k)]);
        widths.push_back(b.type(weights.back()).dims[0]);
    }
    std::vector<Value> parts = split_columns(b, dy, widths);
    const DType dtype = gradient_dtype(op.attributes, b.type(dy).dtype);
    const DType wide = statistics_dtype(b.type(dy).dtype);
    Value dx;
    for (std::size_t k = 0; k < parts.size(); ++k)
        dx = add_optional(b, dx, matmul(b, parts[k], weights[k], false, false, wide));
    dx = b.reshape(dx, with_last(b.type(op.operands[0]).dims, b.type(weights[0]).dims[1]));
    if (has_operand(op, backward_input_residual)) dx = b.add(dx, b.cast(op.operands[backward_input_residual], wide));
    return {b.cast(dx, dtype)};
}

RuntimeCall call_backward_input(const Op& op, const Function& f) {
    const Type& dy = f.type(op.operands[0]);
    const Type& dx = f.type(op.results[0]);
    const auto leading = static_cast<std::size_t>(dy.rank() - 1);
    RuntimeCall call{"linear_backward_input", {}, "dx = dy W"};
    call.fields = {result_field("dx", 0, "ld_dx", leading).shaped("... in"),
                   operand_field("dy", 0, "ld_dy", leading).shaped("... out"),
                   operand_field("weight", 1).shaped("out in")};
    if (has_operand(op, backward_input_residual)) {
        call.fields.push_back(
            operand_field("residual", backward_input_residual, "ld_residual", leading).shaped("... in"));
        call.comment += " + residual";
    }
    call.fields.push_back(literal_field("rows", row_count(dx.dims)));
    call.fields.push_back(literal_field("in", last_dim(dx.dims)));
    call.fields.push_back(literal_field("out", last_dim(dy.dims)));
    return call;
}

// ---- backward: the weights ------------------------------------------------------------------------------------------

std::vector<Type> infer_backward_weight(const InferInput& in) {
    const Type& dy = in.operand(0);
    const Type& x = in.operand(1);
    require(dy.rank() >= 1 && leading_dims(dy.dims) == leading_dims(x.dims) && dy.rank() == x.rank(),
            mismatch("dy", dy.dims, "x is", x.dims));
    require(dy.dtype == x.dtype, fmt::format("dy is {}, x is {}", name_of(dy.dtype), name_of(x.dtype)));
    const DType dtype = gradient_dtype(in.attributes, dy.dtype);
    Dims outs = {dy.dims.back()};
    if (in.attributes.has("outs")) outs = in.attributes.integers("outs");
    std::int64_t sum = 0;
    std::vector<Type> results;
    for (std::int64_t out : outs) {
        results.push_back(Type::tensor(dtype, {out, x.dims.back()}));
        sum += out;
    }
    require(sum == dy.dims.back(), fmt::format("dy has {} columns, the weights have {} rows", dy.dims.back(), sum));
    if (in.attributes.boolean("bias", false))
        for (std::int64_t out : outs) results.push_back(Type::tensor(dtype, {out}));
    if (in.operands.size() > backward_weight_before) {
        const std::size_t before = in.operands.size() - backward_weight_before;
        require(before == results.size() || before == results.size() + 1,
                fmt::format("{} gradients and a flag at most are to be added to, {} operands given", results.size(),
                            before));
        for (std::size_t r = 0; r < results.size(); ++r)
            require(in.operand(backward_weight_before + r) == results[r],
                    mismatch("the gradient before", in.operand(backward_weight_before + r).dims, "the product is",
                             results[r].dims));
        if (before > results.size())
            require(in.operand(backward_weight_before + results.size()) == Type::tensor(DType::boolean, {}),
                    "first is to be bool[]");
    }
    return results;
}

std::vector<Tensor> reference_backward_weight(const Op& op, std::span<const Tensor> operands,
                                              std::span<const Type> results) {
    const Tensor& dy = operands[0];
    const Tensor& x = operands[1];
    const std::int64_t rows = row_count(x.type.dims), in = last_dim(x.type.dims), out = last_dim(dy.type.dims);
    const bool first = has_operand(op, backward_weight_before + results.size()) && operands.back().at(0) != 0;
    std::vector<Tensor> result;
    for (std::size_t r = 0; r < results.size(); ++r) {
        result.emplace_back(results[r]);
        if (operands.size() > backward_weight_before && !first) result.back() = operands[backward_weight_before + r];
    }
    const std::size_t n = op.attributes.boolean("bias", false) ? results.size() / 2 : results.size();
    std::int64_t column = 0;
    for (std::size_t k = 0; k < n; ++k) {
        for (std::int64_t o = 0; o < results[k].dims[0]; ++o, ++column) {
            for (std::int64_t r = 0; r < rows; ++r) {
                const double d = dy.at(r * out + column), *by = row(x, r, in);
                double* to = row(result[k], o, in);
                for (std::int64_t i = 0; i < in; ++i) to[i] += d * by[i];
                if (n < results.size()) result[n + k].set(o, result[n + k].at(o) + d);
            }
        }
    }
    return result;
}

std::vector<Value> decompose_backward_weight(Builder& b, const Op& op) {
    Value dy = as_matrix(b, op.operands[0]);
    Value x = as_matrix(b, op.operands[1]);
    Dims outs = {last_dim(b.type(dy).dims)};
    if (op.attributes.has("outs")) outs = op.attributes.integers("outs");
    std::vector<Value> parts = split_columns(b, dy, outs);
    std::vector<Value> results;
    results.reserve(parts.size());
    const DType dtype = gradient_dtype(op.attributes, b.type(dy).dtype);
    const DType wide = statistics_dtype(b.type(dy).dtype);
    for (Value part : parts) results.push_back(matmul(b, part, x, true, false, wide));
    if (op.attributes.boolean("bias", false))
        for (Value part : parts) results.push_back(b.reduce_sum(b.cast(part, wide), {0}));
    Value first = operand_or_none(op, backward_weight_before + results.size());
    for (std::size_t r = 0; r < results.size(); ++r) {
        if (Value before = operand_or_none(op, backward_weight_before + r))
            results[r] = add_before(b, b.cast(before, wide), results[r], first);
        results[r] = b.cast(results[r], dtype);
    }
    return results;
}

RuntimeCall call_backward_weight(const Op& op, const Function& f) {
    const Type& dy = f.type(op.operands[0]);
    const Type& x = f.type(op.operands[1]);
    const auto leading = static_cast<std::size_t>(dy.rank() - 1);
    const bool adds = op.operands.size() > backward_weight_before;
    RuntimeCall call{"linear_backward_weight", {}, adds ? "dW += dyᵀ x" : "dW = dyᵀ x"};
    call.fields = {result_field("dweight", 0).shaped("out in")};
    if (op.attributes.boolean("bias", false)) {
        call.fields.push_back(result_field("dbias", op.results.size() / 2).shaped("out"));
        call.comment += adds ? ", dbias += column sums of dy" : ", dbias = column sums of dy";
    }
    call.fields.push_back(operand_field("dy", 0, "ld_dy", leading).shaped("... out"));
    call.fields.push_back(operand_field("x", 1, "ld_x", leading).shaped("... in"));
    gradient_field(call, op, backward_weight_before, op.results.size());
    call.fields.push_back(literal_field("rows", row_count(x.dims)));
    call.fields.push_back(literal_field("in", last_dim(x.dims)));
    call.fields.push_back(literal_field("out", last_dim(dy.dims)));
    return call;
}

double product_flops(const Op& op, const Function& f, std::size_t rows_of, std::size_t other) {
    const Dims& a = f.type(op.operands[rows_of]).dims;
    return 2.0 * static_cast<double>(row_count(a)) * static_cast<double>(last_dim(a)) * static_cast<double>(other);
}

}  // namespace

std::vector<OpDef> define_linear() {
    const std::string again = "a gradient of first order only: its decomposition can be differentiated";

    OpDef linear;
    linear.name = "linear";
    linear.level = OpLevel::composite;
    linear.rows = {.kind = Rows::Kind::but_last, .operands = {0, linear_residual}};
    linear.summary =
        "x (..., in) times the transposes of weights (out, in), side by side in the last dimension; bias, activation "
        "and residual on the way.";
    linear.formula =
        "y = activation(x Wᵀ + bias) + residual. dpre = activation'(pre) dy; dx = dpre W; dW = dpreᵀ x; dbias = column "
        "sums of dpre; "
        "dresidual = dy";
    linear.source = "torch.nn.Linear";
    linear.infer = infer_linear;
    linear.reference = reference_linear;
    linear.vjp = vjp_linear;
    linear.decompose = decompose_linear;
    linear.call = call_linear;
    linear.flops = [](const Op& op, const Function& f) {
        return product_flops(op, f, 0, static_cast<std::size_t>(last_dim(f.type(op.results[0]).dims)));
    };
    linear.precision = {.kind = Precision::Kind::product};
    linear.autocast = Autocast::low;
    linear.recompute = Recompute::expensive;
    linear.in_place = {{0, linear_residual}};
    linear.addend = {.operand = linear_residual};
    linear.epilogue = Epilogue{.bias = linear_bias(0), .axis = -1, .keeps_sums = true};
    linear.parameter_roles = {ParameterRole::other, ParameterRole::product, ParameterRole::shift};
    linear.result_names = {"y", "pre_activation"};
    auto activation = [](const char* name, bool keep = false) {
        Attributes a{{"activation", std::string(name)}};
        if (keep) a.set("keep_pre_activation", true);
        return a;
    };
    linear.samples = {
        {.name = "plain", .operands = {f32({2, 3, 5}), f32({4, 5})}},
        {.name = "vector", .operands = {f32({5}), f32({3, 5}), f32({3})}},
        {.name = "bias and residual", .operands = {f32({3, 4}), f32({7, 4}), f32({7}), f32({3, 7})}},
        {.name = "gelu", .operands = {f32({3, 4}), f32({5, 4}), f32({5})}, .attributes = activation("gelu")},
        {.name = "gelu_tanh, kept",
         .operands = {f32({3, 4}), f32({5, 4}), f32({5})},
         .attributes = activation("gelu_tanh", true)},
        {.name = "silu and residual",
         .operands = {f32({3, 4}), f32({5, 4}), absent(), f32({3, 5})},
         .attributes = activation("silu")},
        {.name = "tanh", .operands = {f32({3, 4}), f32({5, 4})}, .attributes = activation("tanh")},
        // positive operands keep pre-activations away from the kink at 0, where differences do not converge
        {.name = "relu, active",
         .operands = {f32({3, 4}, 0.1, 1), f32({5, 4}, 0.1, 1)},
         .attributes = activation("relu", true)},
        {.name = "relu, inactive",
         .operands = {f32({3, 4}, 0.1, 1), f32({5, 4}, -1, -0.1)},
         .attributes = activation("relu")},
        {.name = "three products",
         .operands = {f32({2, 3, 4}), f32({4, 4}), absent(), absent(), f32({2, 4}), absent(), f32({3, 4})}},
        {.name = "two products with biases",
         .operands = {f32({3, 4}), f32({5, 4}), f32({5}), f32({3, 8}), f32({3, 4}), f32({3})}},
        {.name = "of bf16", .operands = {bf16({3, 4}), bf16({5, 4}), bf16({5}), bf16({3, 5})}},
    };
    linear.kinks = {"relu of 0"};
    linear.errors = {
        {{f32_type({2, 4}), f32_type({3, 5})},
         {},
         "the weight is (3,5), x is (2,4): the weight is (out, in), and in is the last dimension of x"},
        {{f32_type({2, 4}), f32_type({3, 4}), f32_type({4})}, {}, "the bias is (4), one value for each output is (3)"},
        {{f32_type({2, 4}), f32_type({3, 4}), std::nullopt, f32_type({2, 4})},
         {},
         "the residual is (2,4), the product is (2,3)"},
        {{f32_type({2, 4}), f32_type({3, 4}), Type::tensor(DType::bf16, {3})},
         {},
         "the bias is bf16, x is f32: that or f32 expected"},
        {{f32_type({2, 4}), f32_type({3, 4})}, activation("softplus"), "there is no activation softplus"},
    };

    OpDef input;
    input.name = "linear_backward_input";
    input.level = OpLevel::composite;
    input.rows = {.kind = Rows::Kind::but_last, .operands = {0, backward_input_residual}};
    input.summary =
        "The cotangent of a linear layer's input: dy (..., out) times weights (out, in), with an optional residual "
        "added; of the element type `dtype` where that is given.";
    input.formula = "dx = dy W + residual";
    input.source = "the VJP of linear";
    input.infer = infer_backward_input;
    input.reference = reference_backward_input;
    input.not_differentiable = again;
    input.decompose = decompose_backward_input;
    input.call = call_backward_input;
    input.flops = [](const Op& op, const Function& f) {
        return product_flops(op, f, 0, static_cast<std::size_t>(last_dim(f.type(op.results[0]).dims)));
    };
    input.precision = {.kind = Precision::Kind::product, .gradient = true};
    input.recompute = Recompute::expensive;
    input.in_place = {{0, backward_input_residual}};
    input.addend = {.operand = backward_input_residual};
    input.samples = {
        {.name = "plain", .operands = {f32({2, 3, 5}), f32({5, 4})}},
        {.name = "residual", .operands = {f32({3, 5}), f32({5, 4}), f32({3, 4})}},
        {.name = "three products", .operands = {f32({2, 3, 9}), f32({4, 4}), absent(), f32({2, 4}), f32({3, 4})}},
        {.name = "of bf16", .operands = {bf16({3, 6}), bf16({4, 4}), bf16({3, 4}), bf16({2, 4})}},
        {.name = "of bf16, in f32",
         .operands = {bf16({3, 6}), bf16({4, 4}), absent(), bf16({2, 4})},
         .attributes = {{"dtype", DType::f32}}},
    };
    input.errors = {{{f32_type({2, 4}), f32_type({3, 5})}, {}, "dy has 4 columns, the weights have 3 rows"},
                    {{f32_type({2, 4}), f32_type({4, 5})},
                     {{"dtype", DType::bf16}},
                     "the result is bf16, what it is made of f32: that or f32 expected"}};

    OpDef weight;
    weight.name = "linear_backward_weight";
    weight.level = OpLevel::composite;
    weight.summary =
        "The cotangents of a linear layer's weights and biases: dy (..., out) and x (..., in) give dW (out, in), "
        "overwritten or added to; of the element type `dtype` where that is given.";
    weight.formula = "dW = before + dyᵀ x; dbias = before + column sums of dy; nothing is before where `first` holds";
    weight.source = "the VJP of linear";
    weight.infer = infer_backward_weight;
    weight.reference = reference_backward_weight;
    weight.not_differentiable = again;
    weight.decompose = decompose_backward_weight;
    weight.call = call_backward_weight;
    weight.flops = [](const Op& op, const Function& f) {
        return product_flops(op, f, 1, static_cast<std::size_t>(last_dim(f.type(op.operands[0]).dims)));
    };
    weight.precision = {.kind = Precision::Kind::product, .low_operands = {0, 1}, .gradient = true};
    weight.recompute = Recompute::expensive;
    weight.result_names = {"dw"};
    weight.in_place_from = backward_weight_before;
    weight.addend = {.operand = backward_weight_before, .over_steps = true};
    weight.bias_axis = -1;
    weight.sums = sums_over_rows;
    weight.samples = {
        {.name = "plain", .operands = {f32({2, 3, 5}), f32({2, 3, 4})}},
        {.name = "bias", .operands = {f32({3, 5}), f32({3, 4})}, .attributes = {{"bias", true}}},
        {.name = "added to",
         .operands = {f32({3, 5}), f32({3, 4}), f32({5, 4}), f32({5})},
         .attributes = {{"bias", true}}},
        {.name = "added to, first micro-step",
         .operands = {f32({3, 5}), f32({3, 4}), f32({5, 4}), f32({5}), bool_of({}, {1})},
         .attributes = {{"bias", true}}},
        {.name = "added to, later micro-step", .operands = {f32({3, 5}), f32({3, 4}), f32({5, 4}), bool_of({}, {0})}},
        {.name = "three products", .operands = {f32({3, 9}), f32({3, 4})}, .attributes = {{"outs", Dims{4, 2, 3}}}},
        {.name = "two products with biases, added to",
         .operands = {f32({3, 6}), f32({3, 4}), f32({4, 4}), f32({2, 4}), f32({4}), f32({2})},
         .attributes = {{"outs", Dims{4, 2}}, {"bias", true}}},
        {.name = "of bf16, in f32",
         .operands = {bf16({3, 5}), bf16({3, 4}), f32({5, 4}), f32({5}), bool_of({}, {0})},
         .attributes = {{"bias", true}, {"dtype", DType::f32}}},
        {.name = "of bf16", .operands = {bf16({3, 5}), bf16({3, 4}), bf16({5, 4}), bool_of({}, {0})}},
    };
    weight.errors = {
        {{f32_type({2, 4}), f32_type({3, 5})}, {}, "dy is (2,4), x is (3,5)"},
        {{f32_type({2, 4}), f32_type({2, 5})}, {{"outs", Dims{2, 3}}}, "dy has 4 columns, the weights have 5 rows"},
    };
    return {linear, input, weight};
}

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
#include "device/describe.h"

#include <algorithm>

#include "support/text.h"

namespace thunder {

namespace {

// "y f32 (16, 48), x f32 (16, 16)"; what a call does without is not named.
class TensorList {
  public:
    template <typename Tensor>
    TensorList& add(const char* name, const Tensor& tensor, std::initializer_list<std::int64_t> shape) {
        if (!tensor) return *this;
        text_ += cat(text_.empty() ? "" : ", ", name, " ", name_of(tensor.dtype), " (");
        const char* separator = "";
        for (const std::int64_t extent : shape) {
            text_ += cat(separator, extent);
            separator = ", ";
        }
        text_ += ")";
        return *this;
    }
    TensorList& note(const std::string& what) {
        text_ += ", " + what;
        return *this;
    }
    std::string text() const { return text_; }

  private:
    std::string text_;
};

template <typename Tensor>
double bytes(const Tensor& tensor, std::int64_t elements, int times = 1) {
    return tensor ? static_cast<double>(elements) * static_cast<double>(size_of(tensor.dtype)) * times : 0;
}

template <typename Tensor>
Cost::Arithmetic arithmetic(const Tensor& tensor) {
    return is_narrow(tensor.dtype) ? Cost::Arithmetic::narrow : Cost::Arithmetic::f32;
}

double product_flops(std::int64_t m, std::int64_t n, std::int64_t k) {
    return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

std::int64_t size_of_x(const ConvolutionForm& form) {
    return form.N * form.C * count(form.in);
}
std::int64_t size_of_y(const ConvolutionForm& form) {
    return form.N * form.M * form.steps();
}
std::int64_t size_of_weight(const ConvolutionForm& form) {
    return form.M * form.depth();
}

template <typename Call>
double attention_pairs(const Call& call) {
    double keys = static_cast<double>(call.S);
    if (call.causal) keys = static_cast<double>(call.S) - static_cast<double>(std::min(call.T, call.S) - 1) / 2;
    if (call.window > 0) keys = std::min(keys, static_cast<double>(call.window));
    return static_cast<double>(call.B * call.NH * call.T) * keys;
}

template <typename Call>
std::string attention_notes(const Call& call) {
    return cat(call.causal ? "causal" : "full", call.window > 0 ? cat(", window ", call.window) : std::string());
}

}  // namespace

std::string describe(const LinearForward& c) {
    return TensorList()
        .add("y", c.y, {c.rows, c.out})
        .add("x", c.x, {c.rows, c.in})
        .add("weight", c.weight, {c.out, c.in})
        .add("bias", c.bias, {c.out})
        .add("residual", c.residual, {c.rows, c.out})
        .add("pre_activation", c.pre_activation, {c.rows, c.out})
        .text();
}
Cost cost_of(const LinearForward& c) {
    return {bytes(c.y, c.rows * c.out) + bytes(c.x, c.rows * c.in) + bytes(c.weight, c.out * c.in) +
                bytes(c.residual, c.rows * c.out) + bytes(c.pre_activation, c.rows * c.out),
            product_flops(c.rows, c.out, c.in), arithmetic(c.x)};
}

std::string describe(const LinearBackwardInput& c) {
    return TensorList()
        .add("dx", c.dx, {c.rows, c.in})
        .add("dy", c.dy, {c.rows, c.out})
        .add("weight", c.weight, {c.out, c.in})
        .add("residual", c.residual, {c.rows, c.in})
        .text();
}
Cost cost_of(const LinearBackwardInput& c) {
    return {bytes(c.dx, c.rows * c.in, c.mode == WriteMode::add ? 2 : 1) + bytes(c.dy, c.rows * c.out) +
                bytes(c.weight, c.out * c.in) + bytes(c.residual, c.rows * c.in),
            product_flops(c.rows, c.out, c.in), arithmetic(c.dy)};
}

std::string describe(const LinearBackwardWeight& c) {
    return TensorList()
        .add("dweight", c.dweight, {c.out, c.in})
        .add("dbias", c.dbias, {c.out})
        .add("dy", c.dy, {c.rows, c.out})
        .add("x", c.x, {c.rows, c.in})
        .text();
}
Cost cost_of(const LinearBackwardWeight& c) {
    return {bytes(c.dweight, c.out * c.in, c.mode == WriteMode::add ? 2 : 1) + bytes(c.dy, c.rows * c.out) +
                bytes(c.x, c.rows * c.in),
            c.dweight ? product_flops(c.rows, c.out, c.in) : 0, arithmetic(c.dy)};
}

std::string describe(const GroupedLinear& c) {
    return TensorList()
        .add("y", c.y, {c.rows, c.out})
        .add("x", c.x, {c.rows, c.in})
        .add("weight", c.weight, {c.groups, c.transpose ? c.in : c.out, c.transpose ? c.out : c.in})
        .text();
}
Cost cost_of(const GroupedLinear& c) {
    return {bytes(c.y, c.rows * c.out) + bytes(c.x, c.rows * c.in) +
                bytes(c.weight, std::min(c.rows, c.groups) * c.out * c.in),
            product_flops(c.rows, c.out, c.in), arithmetic(c.x)};
}

std::string describe(const GroupedLinearBackwardWeight& c) {
    return TensorList()
        .add("dweight", c.dweight, {c.groups, c.transpose ? c.in : c.out, c.transpose ? c.out : c.in})
        .add("dy", c.dy, {c.rows, c.out})
        .add("x", c.x, {c.rows, c.in})
        .text();
}
Cost cost_of(const GroupedLinearBackwardWeight& c) {
    return {bytes(c.dweight, c.groups * c.out * c.in, c.mode == WriteMode::add ? 2 : 1) + bytes(c.dy, c.rows * c.out) +
                bytes(c.x, c.rows * c.in),
            product_flops(c.rows, c.out, c.in), arithmetic(c.dy)};
}

std::string describe(const Matmul& c) {
    return TensorList()
        .add("c", c.c, {c.batch, c.m, c.n})
        .add("a", c.a, {c.batch, c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k})
        .add("b", c.b, {c.batch, c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n})
        .text();
}
Cost cost_of(const Matmul& c) {
    return {bytes(c.c, c.batch * c.m * c.n) + bytes(c.a, c.batch * c.m * c.k) + bytes(c.b, c.batch * c.k * c.n),
            static_cast<double>(c.batch) * product_flops(c.m, c.n, c.k), arithmetic(c.a)};
}

std::string describe(const ConvolutionForward& c) {
    const ConvolutionForm& form = c.form;
    return TensorList()
        .add("y", c.y, {form.N, form.M, form.out[0], form.out[1], form.out[2]})
        .add("x", c.x, {form.N, form.C, form.in[0], form.in[1], form.in[2]})
        .add("weight", c.weight, {form.M, form.C / form.groups, form.window[0], form.window[1], form.window[2]})
        .add("bias", c.bias, {form.M})
        .add("residual", c.residual, {form.N, form.M, form.out[0], form.out[1], form.out[2]})
        .text();
}
Cost cost_of(const ConvolutionForward& c) {
    const ConvolutionForm& form = c.form;
    return {bytes(c.y, size_of_y(form)) + bytes(c.x, size_of_x(form)) + bytes(c.weight, size_of_weight(form)) +
                bytes(c.residual, size_of_y(form)),
            product_flops(form.N * form.steps(), form.M, form.depth())};
}

std::string describe(const ConvolutionBackwardInput& c) {
    const ConvolutionForm& form = c.form;
    return TensorList()
        .add("dx", c.dx, {form.N, form.C, form.in[0], form.in[1], form.in[2]})
        .add("dy", c.dy, {form.N, form.M, form.out[0], form.out[1], form.out[2]})
        .add("weight", c.weight, {form.M, form.C / form.groups, form.window[0], form.window[1], form.window[2]})
        .add("bias", c.bias, {form.C})
        .add("residual", c.residual, {form.N, form.C, form.in[0], form.in[1], form.in[2]})
        .text();
}
Cost cost_of(const ConvolutionBackwardInput& c) {
    const ConvolutionForm& form = c.form;
    return {bytes(c.dx, size_of_x(form)) + bytes(c.dy, size_of_y(form)) + bytes(c.weight, size_of_weight(form)) +
                bytes(c.residual, size_of_x(form)),
            product_flops(form.N * form.steps(), form.M, form.depth())};
}

std::string describe(const ConvolutionBackwardWeight& c) {
    const ConvolutionForm& form = c.form;
    return TensorList()
        .add("dweight", c.dweight, {form.M, form.C / form.groups, form.window[0], form.window[1], form.window[2]})
        .add("dbias", c.dbias, {form.M})
        .add("dy", c.dy, {form.N, form.M, form.out[0], form.out[1], form.out[2]})
        .add("x", c.x, {form.N, form.C, form.in[0], form.in[1], form.in[2]})
        .text();
}
Cost cost_of(const ConvolutionBackwardWeight& c) {
    const ConvolutionForm& form = c.form;
    return {bytes(c.dweight, size_of_weight(form), c.mode == WriteMode::add ? 2 : 1) + bytes(c.dy, size_of_y(form)) +
                bytes(c.x, size_of_x(form)),
            product_flops(form.N * form.steps(), form.M, form.depth())};
}

std::string describe(const AttentionForward& c) {
    return TensorList()
        .add("out", c.out, {c.B, c.T, c.NH, c.HS})
        .add("q", c.q, {c.B, c.T, c.NH, c.HS})
        .add("k", c.k, {c.B, c.S, c.KVH, c.HS})
        .add("v", c.v, {c.B, c.S, c.KVH, c.HS})
        .add("padding", c.padding, {c.B, c.S})
        .note(attention_notes(c))
        .text();
}
Cost cost_of(const AttentionForward& c) {
    const std::int64_t queries = c.B * c.T * c.NH * c.HS, keys = c.B * c.S * c.KVH * c.HS;
    return {bytes(c.out, queries) + bytes(c.q, queries) + bytes(c.k, keys) + bytes(c.v, keys),
            4 * attention_pairs(c) * static_cast<double>(c.HS), arithmetic(c.q)};
}

std::string describe(const AttentionBackward& c) {
    return TensorList()
        .add("dq", c.dq, {c.B, c.T, c.NH, c.HS})
        .add("dk", c.dk, {c.B, c.S, c.KVH, c.HS})
        .add("dv", c.dv, {c.B, c.S, c.KVH, c.HS})
        .add("dout", c.dout, {c.B, c.T, c.NH, c.HS})
        .add("padding", c.padding, {c.B, c.S})
        .note(attention_notes(c))
        .text();
}
Cost cost_of(const AttentionBackward& c) {
    const std::int64_t queries = c.B * c.T * c.NH * c.HS, keys = c.B * c.S * c.KVH * c.HS;
    return {bytes(c.q, queries, 4) + bytes(c.k, keys, 4), 10 * attention_pairs(c) * static_cast<double>(c.HS),
            arithmetic(c.q)};
}

std::string describe(const EmbeddingForward& c) {
    return TensorList()
        .add("y", c.y, {c.rows, c.width})
        .add("weight", c.weight, {c.entries, c.width})
        .add("ids", c.ids, {c.rows})
        .text();
}
Cost cost_of(const EmbeddingForward& c) {
    return {bytes(c.y, c.rows * c.width) + bytes(c.weight, c.rows * c.width)};
}

std::string describe(const EmbeddingBackward& c) {
    return TensorList()
        .add("dweight", c.dweight, {c.entries, c.width})
        .add("dy", c.dy, {c.rows, c.width})
        .add("ids", c.ids, {c.rows})
        .text();
}
Cost cost_of(const EmbeddingBackward& c) {
    const std::int64_t written = c.mode == WriteMode::overwrite ? c.entries : 2 * c.rows;
    return {bytes(c.dweight, written * c.width) + bytes(c.dy, c.rows * c.width)};
}

std::string describe(const CrossEntropyForward& c) {
    return TensorList().add("logits", c.logits, {c.rows, c.classes}).add("labels", c.labels, {c.rows}).text();
}
Cost cost_of(const CrossEntropyForward& c) {
    return {bytes(c.logits, c.rows * c.classes)};
}

std::string describe(const CrossEntropyBackward& c) {
    return TensorList()
        .add("dlogits", c.dlogits, {c.rows, c.classes})
        .add("logits", c.logits, {c.rows, c.classes})
        .add("labels", c.labels, {c.rows})
        .text();
}
Cost cost_of(const CrossEntropyBackward& c) {
    return {bytes(c.dlogits, c.rows * c.classes) + bytes(c.logits, c.rows * c.classes)};
}

std::string describe(const LinearCrossEntropy& c) {
    return TensorList()
        .add("dx", c.dx, {c.rows, c.in})
        .add("dweight", c.dweight, {c.classes, c.in})
        .add("x", c.x, {c.rows, c.in})
        .add("weight", c.weight, {c.classes, c.in})
        .add("labels", c.labels, {c.rows})
        .text();
}
Cost cost_of(const LinearCrossEntropy& c) {
    // Each chunk reads the weight and the logits anew for each of its products, and adds to the weight's gradient.
    const std::int64_t chunks = c.rows / c.chunk, products = c.dx ? c.dweight ? 3 : 2 : 1;
    const double weights = static_cast<double>(chunks) * bytes(c.weight, c.classes * c.in, c.dx ? 2 : 1),
                 gradients = bytes(c.dweight, c.classes * c.in,
                                   static_cast<int>(2 * chunks) - (c.mode == WriteMode::add ? 0 : 1)),
                 logits = bytes(c.logits, c.rows * c.classes, c.dx ? 3 + static_cast<int>(products) : 2);
    return {bytes(c.x, c.rows * c.in, c.dweight ? 2 : 1) + bytes(c.dx, c.rows * c.in) + weights + gradients + logits,
            static_cast<double>(products) * product_flops(c.rows, c.classes, c.in), arithmetic(c.x)};
}

std::string describe(const Gather& c) {
    return TensorList()
        .add("y", c.y, {c.outer, c.count, c.inner})
        .add("x", c.x, {c.outer, c.entries, c.inner})
        .add("index", c.index, {c.count})
        .text();
}
Cost cost_of(const Gather& c) {
    return {bytes(c.y, c.outer * c.count * c.inner, 2)};
}

std::string describe(const ScatterAdd& c) {
    return TensorList()
        .add("y", c.y, {c.outer, c.entries, c.inner})
        .add("x", c.x, {c.outer, c.count, c.inner})
        .add("index", c.index, {c.count})
        .text();
}
Cost cost_of(const ScatterAdd& c) {
    return {bytes(c.y, c.outer * c.entries * c.inner) + bytes(c.x, c.outer * c.count * c.inner)};
}

std::string describe(const RandomUniform& c) {
    return TensorList().add("y", c.y, {c.rows, c.width}).text();
}
Cost cost_of(const RandomUniform& c) {
    return {bytes(c.y, c.rows * c.width)};
}

std::string describe(const RandomBernoulli& c) {
    return TensorList().add("y", c.y, {c.rows, c.width}).text();
}
Cost cost_of(const RandomBernoulli& c) {
    return {bytes(c.y, c.rows * c.width)};
}

std::string describe(const Fp8Quantise& c) {
    return TensorList()
        .add("q", c.q, {c.rows, c.width})
        .add("q_transposed", c.q_transposed, {c.width, c.rows})
        .add("x", c.x, {c.rows, c.width})
        .text();
}
Cost cost_of(const Fp8Quantise& c) {
    if (c.mode == WriteMode::add) return {};  // what an earlier micro-step has made stays
    const std::int64_t size = c.rows * c.width;
    return {bytes(c.q, size) + bytes(c.q_transposed, size) + bytes(c.x, size)};
}

std::string describe(const Fp8Finish& c) {
    return TensorList()
        .add("q_transposed", c.q_transposed, {c.width, c.rows})
        .add("q", c.q, {c.rows, c.width})
        .add("maxima", c.maxima, {c.rows})
        .text();
}
Cost cost_of(const Fp8Finish& c) {
    const std::int64_t size = c.rows * c.width;
    return {bytes(c.q_transposed, size) + (c.q_transposed ? bytes(c.q, size) : 0) + bytes(c.maxima, c.rows)};
}

std::string describe(const Fp8Product& c) {
    return TensorList()
        .add("c", c.c, {c.m, c.n})
        .add("a", c.a, {c.m, c.k})
        .add("b", c.b, {c.n, c.k})
        .add("bias", c.bias, {c.n})
        .add("residual", c.residual, {c.m, c.n})
        .text();
}
Cost cost_of(const Fp8Product& c) {
    return {bytes(c.c, c.m * c.n, c.mode == WriteMode::add ? 2 : 1) + bytes(c.a, c.m * c.k) + bytes(c.b, c.n * c.k) +
                bytes(c.residual, c.m * c.n),
            product_flops(c.m, c.n, c.k), Cost::Arithmetic::narrow};
}

std::string describe(const Fp8QuantiseBlocks& c) {
    return TensorList()
        .add("q", c.q, {c.rows, c.width})
        .add("q_transposed", c.q_transposed, {c.width, c.rows})
        .add("x", c.x, {c.rows, c.width})
        .text();
}
Cost cost_of(const Fp8QuantiseBlocks& c) {
    if (c.mode == WriteMode::add) return {};  // what an earlier micro-step has made stays
    const std::int64_t size = c.rows * c.width;
    return {bytes(c.q, size) + bytes(c.q_transposed, size) + bytes(c.x, size)};
}

std::string describe(const Fp8BlockProduct& c) {
    return TensorList()
        .add("c", c.c, {c.m, c.n})
        .add("a", c.a, {c.m, c.k})
        .add("b", c.b, {c.n, c.k})
        .add("bias", c.bias, {c.n})
        .add("residual", c.residual, {c.m, c.n})
        .text();
}
Cost cost_of(const Fp8BlockProduct& c) {
    return {bytes(c.c, c.m * c.n, c.mode == WriteMode::add ? 2 : 1) + bytes(c.a, c.m * c.k) + bytes(c.b, c.n * c.k) +
                bytes(c.residual, c.m * c.n),
            product_flops(c.m, c.n, c.k), Cost::Arithmetic::narrow};
}

std::string describe(const Fp8Amax& c) {
    return TensorList().add("x", c.x, {c.rows, c.width}).text();
}
Cost cost_of(const Fp8Amax& c) {
    return {bytes(c.x, c.rows * c.width)};
}

std::string describe(const Fp8CurrentScales& c) {
    return TensorList().add("scale", c.scale, {c.tensors}).add("amax", c.amax, {c.tensors}).text();
}
Cost cost_of(const Fp8CurrentScales& c) {
    return {bytes(c.scale, c.tensors) + bytes(c.amax, c.tensors, 2)};
}

std::string describe(const Fp8UpdateScales& c) {
    return TensorList().add("scale", c.scale, {c.tensors}).add("history", c.history, {c.tensors, c.length}).text();
}
Cost cost_of(const Fp8UpdateScales& c) {
    return {bytes(c.history, c.tensors * c.length, 2)};
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
#include "device/call_types.h"

#include <string>

#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

// The tensors of one call; absent ones pass.
struct Types {
    const char* call;

    template <typename Tensor>
    void either(const char* name, const Tensor& t, DType one, DType other) const {
        if (!t || t.dtype == one || t.dtype == other) return;
        fail(cat(name, " of ", call, " is ", name_of(t.dtype), ", expected ", name_of(one),
                 one == other ? "" : cat(" or ", name_of(other))));
    }
    template <typename Tensor>
    void is(const char* name, const Tensor& t, DType expected) const {
        either(name, t, expected, expected);
    }
    template <typename Tensor>
    void floating(const char* name, const Tensor& t) const {
        if (!t || is_float(t.dtype)) return;
        std::string names = name_of(DType::f32);
#define THUNDER_OR(type) names += cat(" or ", name_of(DType::type));
        THUNDER_NARROW_TYPES(THUNDER_OR)
#undef THUNDER_OR
        fail(cat(name, " of ", call, " is ", name_of(t.dtype), ", expected ", names));
    }
    template <typename Tensor>
    void quantised(const char* name, const Tensor& t) const {
        either(name, t, DType::e4m3, DType::e5m2);
    }
    void index(const char* name, const Input& t) const {
        either(name, t, DType::i64, DType::i32);
    }

    // Factors of one type, and a result of theirs or in f32.
    void product(const char* a_name, const Input& a, const char* b_name, const Input& b, const char* c_name,
                 const Output& c) const {
        floating(a_name, a);
        is(b_name, b, a.dtype);
        either(c_name, c, DType::f32, a.dtype);
    }
};

}  // namespace

void check_types(const LinearForward& call) {
    const Types types{"linear_forward"};
    types.product("x", call.x, "weight", call.weight, "y", call.y);
    types.either("bias", call.bias, DType::f32, call.y.dtype);
    types.is("residual", call.residual, call.y.dtype);
    types.is("pre_activation", call.pre_activation, call.y.dtype);
}

void check_types(const LinearBackwardInput& call) {
    const Types types{"linear_backward_input"};
    types.product("dy", call.dy, "weight", call.weight, "dx", call.dx);
    types.is("residual", call.residual, call.dx.dtype);
}

void check_types(const LinearBackwardWeight& call) {
    const Types types{"linear_backward_weight"};
    types.product("dy", call.dy, "x", call.x, "dweight", call.dweight);
    types.either("dbias", call.dbias, DType::f32, call.dy.dtype);
}

void check_types(const GroupedLinear& call) {
    const Types types{"grouped_linear"};
    types.product("x", call.x, "weight", call.weight, "y", call.y);
    types.index("ids", call.ids);
}

void check_types(const GroupedLinearBackwardWeight& call) {
    const Types types{"grouped_linear_backward_weight"};
    types.product("dy", call.dy, "x", call.x, "dweight", call.dweight);
    types.index("ids", call.ids);
}

void check_types(const Matmul& call) {
    Types{"matmul"}.product("a", call.a, "b", call.b, "c", call.c);
}

void check_types(const ConvolutionForward& call) {
    const Types types{"convolution_forward"};
    types.product("x", call.x, "weight", call.weight, "y", call.y);
    types.either("bias", call.bias, DType::f32, call.y.dtype);
    types.is("residual", call.residual, call.y.dtype);
}

void check_types(const ConvolutionBackwardInput& call) {
    const Types types{"convolution_backward_input"};
    types.product("dy", call.dy, "weight", call.weight, "dx", call.dx);
    types.either("bias", call.bias, DType::f32, call.dx.dtype);
    types.is("residual", call.residual, call.dx.dtype);
}

void check_types(const ConvolutionBackwardWeight& call) {
    const Types types{"convolution_backward_weight"};
    types.product("dy", call.dy, "x", call.x, "dweight", call.dweight);
    types.either("dbias", call.dbias, DType::f32, call.dy.dtype);
}

void check_types(const AttentionForward& call) {
    const Types types{"attention_forward"};
    types.floating("q", call.q);
    types.is("k", call.k, call.q.dtype);
    types.is("v", call.v, call.q.dtype);
    types.is("out", call.out, call.q.dtype);
    types.is("lse", call.lse, DType::f32);
    types.is("padding", call.padding, DType::boolean);
    types.is("seed", call.seed, DType::i64);
    types.is("draw", call.draw, DType::i64);
    types.is("numbers", call.numbers, DType::i64);
}

void check_types(const AttentionBackward& call) {
    const Types types{"attention_backward"};
    types.floating("q", call.q);
    types.is("k", call.k, call.q.dtype);
    types.is("v", call.v, call.q.dtype);
    types.is("out", call.out, call.q.dtype);
    types.is("dout", call.dout, call.q.dtype);
    types.is("dq", call.dq, call.q.dtype);
    types.is("dk", call.dk, call.q.dtype);
    types.is("dv", call.dv, call.q.dtype);
    types.is("lse", call.lse, DType::f32);
    types.is("padding", call.padding, DType::boolean);
    types.is("seed", call.seed, DType::i64);
    types.is("draw", call.draw, DType::i64);
    types.is("numbers", call.numbers, DType::i64);
}

void check_types(const EmbeddingForward& call) {
    const Types types{"embedding_forward"};
    types.floating("weight", call.weight);
    types.is("y", call.y, call.weight.dtype);
    types.index("ids", call.ids);
}

void check_types(const EmbeddingBackward& call) {
    const Types types{"embedding_backward"};
    types.floating("dy", call.dy);
    types.either("dweight", call.dweight, DType::f32, call.dy.dtype);
    types.index("ids", call.ids);
}

void check_types(const CrossEntropyForward& call) {
    const Types types{"cross_entropy_forward"};
    types.floating("logits", call.logits);
    types.is("labels", call.labels, DType::i64);
    types.is("loss", call.loss, DType::f32);
    types.is("lse", call.lse, DType::f32);
}

void check_types(const CrossEntropyBackward& call) {
    const Types types{"cross_entropy_backward"};
    types.floating("logits", call.logits);
    types.is("dlogits", call.dlogits, call.logits.dtype);
    types.is("labels", call.labels, DType::i64);
    types.is("lse", call.lse, DType::f32);
    types.is("dloss", call.dloss, DType::f32);
}

void check_types(const LinearCrossEntropy& call) {
    const Types types{"linear_cross_entropy"};
    types.product("x", call.x, "weight", call.weight, "dweight", call.dweight);
    types.is("dx", call.dx, call.x.dtype);
    types.is("logits", call.logits, call.x.dtype);
    types.either("bias", call.bias, DType::f32, call.x.dtype);
    types.either("dbias", call.dbias, DType::f32, call.x.dtype);
    types.is("losses", call.losses, DType::f32);
    types.is("lse", call.lse, DType::f32);
    types.is("labels", call.labels, DType::i64);
    types.is("dloss", call.dloss, DType::f32);
}

void check_types(const Gather& call) {
    const Types types{"gather"};
    types.is("x", call.x, call.y.dtype);
    types.index("index", call.index);
}

void check_types(const ScatterAdd& call) {
    const Types types{"scatter_add"};
    types.is("y", call.y, DType::f32);
    types.is("x", call.x, DType::f32);
    types.index("index", call.index);
}

void check_types(const RandomUniform& call) {
    const Types types{"random_uniform"};
    types.is("y", call.y, DType::f32);
    types.is("seed", call.seed, DType::i64);
    types.is("draw", call.draw, DType::i64);
    types.is("numbers", call.numbers, DType::i64);
}

void check_types(const RandomBernoulli& call) {
    const Types types{"random_bernoulli"};
    types.is("y", call.y, DType::boolean);
    types.is("seed", call.seed, DType::i64);
    types.is("draw", call.draw, DType::i64);
    types.is("numbers", call.numbers, DType::i64);
}

void check_types(const Fp8Quantise& call) {
    const Types types{"fp8_quantise"};
    types.quantised("q", call.q);
    types.quantised("q_transposed", call.q_transposed);
    if (call.q) types.is("q_transposed", call.q_transposed, call.q.dtype);
    types.floating("x", call.x);
    types.is("scale", call.scale, DType::f32);
    types.is("amax", call.amax, DType::f32);
    types.is("inverse", call.inverse, DType::f32);
    types.is("own_scale", call.own_scale, DType::f32);
}

void check_types(const Fp8Finish& call) {
    const Types types{"fp8_finish"};
    types.quantised("q", call.q);
    types.quantised("q_transposed", call.q_transposed);
    if (call.q_transposed) types.is("q", call.q, call.q_transposed.dtype);
    types.is("amax", call.amax, DType::f32);
    types.is("maxima", call.maxima, DType::f32);
    types.is("scale", call.scale, DType::f32);
    types.is("inverse", call.inverse, DType::f32);
}

void check_types(const Fp8Product& call) {
    const Types types{"fp8_product"};
    types.quantised("a", call.a);
    types.quantised("b", call.b);
    if (call.a.dtype == DType::e5m2) types.is("b", call.b, DType::e4m3);
    types.floating("c", call.c);
    types.is("inverse_a", call.inverse_a, DType::f32);
    types.is("inverse_b", call.inverse_b, DType::f32);
    types.either("bias", call.bias, DType::f32, call.c.dtype);
    types.is("residual", call.residual, call.c.dtype);
}

void check_types(const Fp8QuantiseBlocks& call) {
    const Types types{"fp8_quantise_blocks"};
    const DType scales = call.blocks == Fp8Blocks::rows_of_32 ? DType::e8m0 : DType::f32;
    types.is("q", call.q, DType::e4m3);
    types.is("q_transposed", call.q_transposed, DType::e4m3);
    types.is("scales", call.scales, scales);
    types.is("scales_transposed", call.scales_transposed, scales);
    types.floating("x", call.x);
}

void check_types(const Fp8BlockProduct& call) {
    const Types types{"fp8_block_product"};
    const bool mx = call.blocks_a == Fp8Blocks::rows_of_32;
    if (mx != (call.blocks_b == Fp8Blocks::rows_of_32))
        fail("the factors of fp8_block_product have blocks of 32 and of 128");
    types.is("a", call.a, DType::e4m3);
    types.is("b", call.b, DType::e4m3);
    types.is("scales_a", call.scales_a, mx ? DType::e8m0 : DType::f32);
    types.is("scales_b", call.scales_b, mx ? DType::e8m0 : DType::f32);
    types.floating("c", call.c);
    types.either("bias", call.bias, DType::f32, call.c.dtype);
    types.is("residual", call.residual, call.c.dtype);
}

void check_types(const Fp8Amax& call) {
    const Types types{"fp8_amax"};
    types.floating("x", call.x);
    types.is("amax", call.amax, DType::f32);
}

void check_types(const Fp8CurrentScales& call) {
    const Types types{"fp8_current_scales"};
    types.is("scale", call.scale, DType::f32);
    types.is("amax", call.amax, DType::f32);
}

void check_types(const Fp8UpdateScales& call) {
    const Types types{"fp8_update_scales"};
    types.is("scale", call.scale, DType::f32);
    types.is("history", call.history, DType::f32);
    types.is("amax", call.amax, DType::f32);
}

}  // namespace thunder

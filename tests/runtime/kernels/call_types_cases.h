// SPDX-License-Identifier: Apache-2.0
// The calls of the runtime API with every combination of types that their tensors of floating point could have: what
// api.h allows gives the right numbers, what it does not is refused. One table for both devices.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "device/api.h"
#include "support/error.h"
#ifdef THUNDER_EMULATION
#include "device/cuda/device.h"
#else
#include "device/cpu/bf16.h"
#endif

namespace thunder::testing {

// Elements that are f32 or bf16, in what a device has for memory.
template <template <typename> typename Memory>
class Floats {
  public:
    Floats(char type, std::size_t n, float value) {
        if (type == 'f')
            f32_ = std::make_unique<Memory<float>>("f32", std::vector<float>(n, value));
        else
            bf16_ = std::make_unique<Memory<bf16>>("bf16", std::vector<bf16>(n, to_bf16(value)));
    }
    operator Output() { return f32_ ? Output(f32_->data()) : Output(bf16_->data()); }  // NOLINT: reads like the pointer
    operator Input() { return f32_ ? Input(f32_->data()) : Input(bf16_->data()); }     // NOLINT
    // All of them. The numbers of these tests are small whole ones, or halves, which bf16 holds.
    void expect(float value, const std::string& what) {
        const std::size_t n = f32_ ? f32_->size() : bf16_->size();
        for (std::size_t i = 0; i < n; ++i)
            EXPECT_NEAR(f32_ ? f32_->data()[i] : to_float(bf16_->data()[i]), value, 1e-5F) << what << " at " << i;
    }

  private:
    std::unique_ptr<Memory<float>> f32_;
    std::unique_ptr<Memory<bf16>> bf16_;
};

// `types`: a letter for each tensor, f for f32 and b for bf16, in the order of `tensors`.
struct TypesCase {
    std::string call, tensors;
    std::set<std::string> allowed;
    std::function<void(const std::string& types, Stream& stream)> run;
};

inline void expect_types(const TypesCase& c, Stream& stream) {
    const std::size_t tensors = c.allowed.begin()->size();
    for (std::size_t bits = 0; bits < std::size_t{1} << tensors; ++bits) {
        std::string types;
        for (std::size_t k = 0; k < tensors; ++k) types += (bits >> k & 1U) != 0 ? 'b' : 'f';
        std::string refused;
        try {
            c.run(types, stream);
        } catch (const Error& error) {
            refused = error.message();
        }
        EXPECT_EQ(refused.empty(), c.allowed.contains(types))
            << c.call << ", " << c.tensors << " of " << types << ": " << (refused.empty() ? "taken" : refused);
        if (!refused.empty()) {
            EXPECT_NE(refused.find(" of " + c.call + " is "), std::string::npos) << refused;
        }
    }
}

// Four elements of one channel, by one number.
inline const ConvolutionForm one_filter{.N = 1, .C = 1, .M = 1, .in = {1, 1, 4}, .out = {1, 1, 4}, .window = {1, 1, 1}};

template <template <typename> typename Memory>
std::vector<TypesCase> types_of_products() {
    using T = Floats<Memory>;
    constexpr std::int64_t rows = 2, in = 4, out = 3;
    return {
        {"linear_forward",
         "y, x, weight, bias, residual",
         {"fffff", "fbbff", "bbbbb", "bbbfb"},
         [](const std::string& t, Stream& stream) {
             T y(t[0], 6, 0), x(t[1], 8, 1), weight(t[2], 12, 1), bias(t[3], 3, 1), residual(t[4], 6, 1);
             linear_forward({.y = y,
                             .x = x,
                             .weight = weight,
                             .bias = bias,
                             .residual = residual,
                             .rows = rows,
                             .in = in,
                             .out = out},
                            stream);
             y.expect(6, "y of " + t);
         }},
        {"linear_forward",
         "y, x, pre_activation",
         {"fff", "fbf", "bbb"},
         [](const std::string& t, Stream& stream) {
             T y(t[0], 6, 0), x(t[1], 8, 1), weight(t[1], 12, -1), pre(t[2], 6, 0);
             linear_forward({.y = y,
                             .x = x,
                             .weight = weight,
                             .activation = Activation::relu,
                             .pre_activation = pre,
                             .rows = rows,
                             .in = in,
                             .out = out},
                            stream);
             y.expect(0, "y of " + t);
             pre.expect(-4, "pre_activation of " + t);
         }},
        {"linear_backward_input",
         "dx, dy, weight, residual",
         {"ffff", "fbbf", "bbbb"},
         [](const std::string& t, Stream& stream) {
             T dx(t[0], 8, 1), dy(t[1], 6, 1), weight(t[2], 12, 1), residual(t[3], 8, 1);
             linear_backward_input({.dx = dx,
                                    .dy = dy,
                                    .weight = weight,
                                    .mode = WriteMode::add,
                                    .residual = residual,
                                    .rows = rows,
                                    .in = in,
                                    .out = out},
                                   stream);
             dx.expect(5, "dx of " + t);
         }},
        {"linear_backward_weight",
         "dweight, dbias, dy, x",
         {"ffff", "ffbb", "fbbb", "bfbb", "bbbb"},
         [](const std::string& t, Stream& stream) {
             T dweight(t[0], 12, 1), dbias(t[1], 3, 1), dy(t[2], 6, 1), x(t[3], 8, 1);
             linear_backward_weight({.dweight = dweight,
                                     .dbias = dbias,
                                     .dy = dy,
                                     .x = x,
                                     .mode = WriteMode::add,
                                     .rows = rows,
                                     .in = in,
                                     .out = out},
                                    stream);
             dweight.expect(3, "dweight of " + t);
             dbias.expect(3, "dbias of " + t);
         }},
        {"matmul",
         "c, a, b",
         {"fff", "fbb", "bbb"},
         [](const std::string& t, Stream& stream) {
             T c(t[0], 6, 0), a(t[1], 8, 1), b(t[2], 12, 1);
             matmul({.c = c, .a = a, .b = b, .m = rows, .n = out, .k = in}, stream);
             c.expect(4, "c of " + t);
         }},
        {"convolution_forward",
         "y, x, weight, bias, residual",
         {"fffff", "fbbff", "bbbbb", "bbbfb"},
         [](const std::string& t, Stream& stream) {
             T y(t[0], 4, 0), x(t[1], 4, 2), weight(t[2], 1, 3), bias(t[3], 1, 4), residual(t[4], 4, 5);
             convolution_forward(
                 {.y = y, .x = x, .weight = weight, .bias = bias, .residual = residual, .form = one_filter}, stream);
             y.expect(15, "y of " + t);
         }},
        {"convolution_backward_input",
         "dx, dy, weight, bias, residual",
         {"fffff", "fbbff", "bbbbb", "bbbfb"},
         [](const std::string& t, Stream& stream) {
             T dx(t[0], 4, 0), dy(t[1], 4, 2), weight(t[2], 1, 3), bias(t[3], 1, 4), residual(t[4], 4, 5);
             convolution_backward_input(
                 {.dx = dx, .dy = dy, .weight = weight, .bias = bias, .residual = residual, .form = one_filter},
                 stream);
             dx.expect(15, "dx of " + t);
         }},
        {"convolution_backward_weight",
         "dweight, dbias, dy, x",
         {"ffff", "ffbb", "fbbb", "bfbb", "bbbb"},
         [](const std::string& t, Stream& stream) {
             T dweight(t[0], 1, 0), dbias(t[1], 1, 0), dy(t[2], 4, 2), x(t[3], 4, 3);
             convolution_backward_weight({.dweight = dweight, .dbias = dbias, .dy = dy, .x = x, .form = one_filter},
                                         stream);
             dweight.expect(24, "dweight of " + t);
             dbias.expect(8, "dbias of " + t);
         }},
    };
}

// Two rows of one group.
template <template <typename> typename Memory>
std::vector<TypesCase> types_of_grouped_calls() {
    using T = Floats<Memory>;
    return {
        {"grouped_linear",
         "y, x, weight",
         {"fff", "fbb", "bbb"},
         [](const std::string& t, Stream& stream) {
             T y(t[0], 6, 0), x(t[1], 8, 1), weight(t[2], 12, 1);
             Memory<std::int64_t> ids("ids", std::vector<std::int64_t>{0, 0});
             grouped_linear(
                 {.y = y, .x = x, .weight = weight, .ids = ids.data(), .rows = 2, .groups = 1, .in = 4, .out = 3},
                 stream);
             y.expect(4, "y of " + t);
         }},
        {"grouped_linear_backward_weight",
         "dweight, dy, x",
         {"fff", "fbb", "bbb"},
         [](const std::string& t, Stream& stream) {
             T dweight(t[0], 12, 1), dy(t[1], 6, 1), x(t[2], 8, 1);
             Memory<std::int64_t> ids("ids", std::vector<std::int64_t>{0, 0});
             grouped_linear_backward_weight({.dweight = dweight,
                                             .dy = dy,
                                             .x = x,
                                             .ids = ids.data(),
                                             .mode = WriteMode::add,
                                             .rows = 2,
                                             .groups = 1,
                                             .in = 4,
                                             .out = 3},
                                            stream);
             dweight.expect(3, "dweight of " + t);
         }},
    };
}

// One position of one head: its probability is 1, and the scores' gradients are 0.
template <template <typename> typename Memory>
std::vector<TypesCase> types_of_other_calls() {
    using T = Floats<Memory>;
    return {
        {"attention_forward",
         "out, q, k, v",
         {"ffff", "bbbb"},
         [](const std::string& t, Stream& stream) {
             T out(t[0], 8, 0), q(t[1], 8, 1), k(t[2], 8, 1), v(t[3], 8, 3), lse('f', 1, 0);
             attention_forward(
                 {.out = out, .lse = lse, .q = q, .k = k, .v = v, .B = 1, .T = 1, .S = 1, .NH = 1, .KVH = 1, .HS = 8},
                 stream);
             out.expect(3, "out of " + t);
             lse.expect(8, "lse of " + t);
         }},
        {"attention_backward",
         "dq, dk, dv, dout, q, k, v, out",
         {"ffffffff", "bbbbbbbb"},
         [](const std::string& t, Stream& stream) {
             T dq(t[0], 8, 9), dk(t[1], 8, 9), dv(t[2], 8, 9), dout(t[3], 8, 2), q(t[4], 8, 1), k(t[5], 8, 1),
                 v(t[6], 8, 3), out(t[7], 8, 3), lse('f', 1, 8);
             attention_backward({.dq = dq,
                                 .dk = dk,
                                 .dv = dv,
                                 .dout = dout,
                                 .q = q,
                                 .k = k,
                                 .v = v,
                                 .out = out,
                                 .lse = lse,
                                 .B = 1,
                                 .T = 1,
                                 .S = 1,
                                 .NH = 1,
                                 .KVH = 1,
                                 .HS = 8},
                                stream);
             dq.expect(0, "dq of " + t);
             dk.expect(0, "dk of " + t);
             dv.expect(2, "dv of " + t);
         }},
        {"embedding_forward",
         "y, weight",
         {"ff", "bb"},
         [](const std::string& t, Stream& stream) {
             T y(t[0], 6, 0), weight(t[1], 9, 2);
             Memory<std::int64_t> ids("ids", std::vector<std::int64_t>{2, 0});
             embedding_forward({.y = y, .weight = weight, .ids = ids.data(), .rows = 2, .entries = 3, .width = 3},
                               stream);
             y.expect(2, "y of " + t);
         }},
        {"embedding_backward",
         "dweight, dy",
         {"ff", "fb", "bb"},
         [](const std::string& t, Stream& stream) {
             T dweight(t[0], 3, 1), dy(t[1], 6, 2);
             Memory<std::int64_t> ids("ids", std::vector<std::int64_t>{0, 0});
             embedding_backward({.dweight = dweight,
                                 .dy = dy,
                                 .ids = ids.data(),
                                 .mode = WriteMode::add,
                                 .rows = 2,
                                 .entries = 1,
                                 .width = 3},
                                stream);
             dweight.expect(5, "dweight of " + t);
         }},
        {"cross_entropy_backward",
         "dlogits, logits",
         {"ff", "bb"},
         [](const std::string& t, Stream& stream) {
             // one class, and an lse of -log(3): exp(logit - lse) is 3; less the label's 1, times dloss
             T dlogits(t[0], 1, 9), logits(t[1], 1, 0), lse('f', 1, -1.0986123F), dloss('f', 1, 2);
             Memory<std::int64_t> labels("labels", std::vector<std::int64_t>{0});
             cross_entropy_backward({.dlogits = dlogits,
                                     .logits = logits,
                                     .labels = labels.data(),
                                     .lse = lse,
                                     .dloss = dloss,
                                     .rows = 1,
                                     .classes = 1},
                                    stream);
             dlogits.expect(4, "dlogits of " + t);
         }},
    };
}

}  // namespace thunder::testing

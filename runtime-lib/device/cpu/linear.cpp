// SPDX-License-Identifier: Apache-2.0
// The linear layer's three products and the general product: what they are as matrices, who computes them, and the
// kernels for what a provider cannot do within the product.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "device/api.h"
#include "device/call_types.h"
#include "device/cpu/activations.h"
#include "device/cpu/elements.h"
#include "device/cpu/products.h"
#include "device/cpu/require.h"
#include "device/describe.h"
#include "device/parallel.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

bool provider_product(const Product& product, Stream& stream) {
#ifdef THUNDER_PRODUCTS_ONEDNN
    if (products_by_library()) return onednn::product(product, stream);
#endif
    return reference::product(product, stream);
}

bool widened_in_tiles([[maybe_unused]] const Product& product, [[maybe_unused]] Stream& stream) {
#ifdef THUNDER_PRODUCTS_ONEDNN
    return products_by_library() && onednn::widened_product(product, stream);
#else
    return false;
#endif
}

// Whether products of this type are the provider's own: decided when the program starts with them.
bool native(DType narrow) {
    bool result = false;
    with_narrow(narrow, [&]<typename T>(T*) {
        constexpr DType type = dtype_of<T>::value;
        static const bool known = native_products(type, std::getenv(products_variable(type).c_str()));
        result = known;
    });
    return result;
}

// Read where a bias or a residual is absent: adding -0 changes no number, not even a zero's sign.
constexpr auto nothing = [] {
    std::array<float, piece_elements> zeros{};
    zeros.fill(-0.0F);
    return zeros;
}();

// out = f(in + bias) + residual over n elements; bias and residual may be null, out and residual the memory of in.
// Of a function that costs more than reading there are two loops alone: each is long, and every program compiles them.
template <bool cheap, typename Function>
void finish_elements(float* out, const float* in, const float* bias, const float* residual, std::int64_t n,
                     Function&& f) {
    if (bias == nullptr && residual == nullptr) {
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) out[j] = f(in[j]);
        return;
    }
    if constexpr (cheap) {
        if (residual == nullptr) {
#pragma omp simd
            for (std::int64_t j = 0; j < n; ++j) out[j] = f(in[j] + bias[j]);
            return;
        }
        if (bias == nullptr) {
#pragma omp simd
            for (std::int64_t j = 0; j < n; ++j) out[j] = f(in[j]) + residual[j];
            return;
        }
    }
    if (bias == nullptr) bias = nothing.data();
    if (residual == nullptr) residual = nothing.data();
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) out[j] = f(in[j] + bias[j]) + residual[j];
}
void finish_elements(float* out, const float* in, const float* bias, Activation activation, const float* residual,
                     std::int64_t n) {
    const auto with = [&](auto f) { finish_elements<false>(out, in, bias, residual, n, f); };
    const auto cheap = [&](auto f) { finish_elements<true>(out, in, bias, residual, n, f); };
    switch (activation) {
        case Activation::none: return cheap([](float x) { return x; });
        case Activation::relu: return cheap([](float x) { return math::relu(x); });
        case Activation::gelu: return with([](float x) { return math::gelu(x); });
        case Activation::gelu_tanh: return with([](float x) { return math::gelu_tanh(x); });
        case Activation::silu: return with([](float x) { return math::silu(x); });
        case Activation::tanh: return with([](float x) { return math::tanh(x); });
    }
}

// A matrix of each of the batch, dense, in f32.
Input widened(const Input& from, std::int64_t batch, std::int64_t rows, std::int64_t columns, std::int64_t ld,
              std::int64_t stride, float* to) {
    parallel_rows(batch * rows, columns, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
            load_elements(to + i * columns, from, i / rows * stride + i % rows * ld, columns);
    });
    return static_cast<const float*>(to);
}

// Operands of a narrow type where the library has no products for them: their f32 copies are multiplied. The workspace
// holds these, and c as f32 where it is to be rounded or to get more than the product.
void run_widened(const Product& product, Stream& stream) {
    const std::int64_t copies_a = product.stride_a == 0 ? 1 : product.batch;
    const std::int64_t copies_b = product.stride_b == 0 ? 1 : product.batch;
    const bool whole = product.c.dtype == DType::f32 && !product.bias && !product.residual &&
                       product.activation == Activation::none;  // `accumulate` it does itself
    const std::int64_t a_size = copies_a * product.m * product.k, b_size = copies_b * product.k * product.n;
    const std::int64_t c_size = whole ? 0 : product.batch * product.m * product.n;
    auto* memory =
        reinterpret_cast<float*>(stream.workspace(static_cast<std::size_t>(a_size + b_size + c_size) * sizeof(float)));
    Product wide = product;
    const std::int64_t a_rows = product.transpose_a ? product.k : product.m;
    const std::int64_t b_rows = product.transpose_b ? product.n : product.k;
    wide.ld_a = product.m * product.k / a_rows;
    wide.ld_b = product.k * product.n / b_rows;
    wide.a = widened(product.a, copies_a, a_rows, wide.ld_a, product.ld_a, product.stride_a, memory);
    wide.b = widened(product.b, copies_b, b_rows, wide.ld_b, product.ld_b, product.stride_b, memory + a_size);
    wide.stride_a = copies_a == 1 ? 0 : product.m * product.k;
    wide.stride_b = copies_b == 1 ? 0 : product.k * product.n;
    if (whole) {
        provider_product(wide, stream);
        return;
    }
    float* c = memory + a_size + b_size;
    wide.c = c;
    wide.ld_c = product.n;
    wide.stride_c = product.m * product.n;
    wide.bias = wide.residual = {};
    wide.activation = Activation::none;
    wide.accumulate = false;
    provider_product(wide, stream);
    for (std::int64_t i = 0; i < product.batch; ++i) {
        const Output out = advanced(product.c, i * product.stride_c);
        const Input before = as_input(out);
        apply_epilogue(out, product.ld_c, static_cast<const float*>(c + i * wide.stride_c), product.n, product.bias,
                       product.activation, product.accumulate ? before : product.residual,
                       product.accumulate ? product.ld_c : product.ld_residual, product.m, product.n);
    }
}

// The product with whatever epilogue it has, by the provider as a whole or by the provider and a kernel.
// `residual_in_c`: the residual is what c holds before.
void run(Product product, bool residual_in_c, Stream& stream) {
    if (residual_in_c) {
        // c += act(..) is the same sum
        product.residual = {};
        product.accumulate = true;
    }
    const Input before = as_input(product.c);
    if (is_narrow(product.a.dtype) && !native(product.a.dtype)) {
        if (widened_in_tiles(product, stream)) return;
        run_widened(product, stream);
    } else if (provider_product(product, stream)) {
        return;
    } else {
        Product plain = product;
        plain.bias = {};
        plain.activation = Activation::none;
        plain.residual = {};
        plain.accumulate = false;
        if (product.accumulate || is_narrow(product.c.dtype)) {
            // what c holds is still needed, or the sum would be rounded twice: the product goes elsewhere first
            plain.c = reinterpret_cast<float*>(
                stream.workspace(static_cast<std::size_t>(product.m * product.n) * sizeof(float)));
            plain.ld_c = product.n;
        }
        provider_product(plain, stream);
        apply_epilogue(product.c, product.ld_c, as_input(plain.c), plain.ld_c, product.bias, product.activation,
                       product.accumulate ? before : product.residual,
                       product.accumulate ? product.ld_c : product.ld_residual, product.m, product.n);
    }
    if (product.accumulate && product.residual) {
        apply_epilogue(product.c, product.ld_c, product.residual, product.ld_residual, {}, Activation::none, before,
                       product.ld_c, product.m, product.n);
    }
}

}  // namespace

void apply_epilogue(const Output& c, std::int64_t ld_c, const Input& source, std::int64_t ld_source, const Input& bias,
                    Activation activation, const Input& residual, std::int64_t ld_residual, std::int64_t rows,
                    std::int64_t columns) {
    parallel_rows(rows, columns, [&](std::int64_t begin, std::int64_t end) {
        float made[piece_elements], read[piece_elements], biases[piece_elements], added[piece_elements];
        for (std::int64_t i = begin; i < end; ++i) {
            for (std::int64_t j = 0; j < columns; j += piece_elements) {
                const std::int64_t n = std::min(piece_elements, columns - j), at = i * ld_c + j;
                float* out = place_of(c, at, made);
                finish_elements(out, elements(source, i * ld_source + j, n, read), elements(bias, j, n, biases),
                                activation, elements(residual, i * ld_residual + j, n, added), n);
                put_back(c, at, out, n);
            }
        }
    });
}

void finish_tile(const Product& p, std::int64_t first_row, std::int64_t first_column, std::int64_t rows,
                 std::int64_t columns, const float* sums, std::int64_t ld) {
    float made[piece_elements], read[piece_elements], biases[piece_elements];
    const bool as_it_is = !p.bias && !p.residual && !p.accumulate && p.activation == Activation::none;
    for (std::int64_t i = 0; i < rows; ++i) {
        if (as_it_is) {
            store_elements(p.c, (first_row + i) * p.ld_c + first_column, sums + i * ld, columns);
            continue;
        }
        for (std::int64_t j = 0; j < columns; j += piece_elements) {
            const std::int64_t n = std::min(piece_elements, columns - j);
            const std::int64_t row = first_row + i, column = first_column + j, at = row * p.ld_c + column;
            finish_elements(made, sums + i * ld + j, elements(p.bias, column, n, biases), p.activation,
                            elements(p.residual, row * p.ld_residual + column, n, read), n);
            if (p.accumulate)
                finish_elements(made, made, nullptr, Activation::none, elements(as_input(p.c), at, n, read), n);
            store_elements(p.c, at, made, n);
        }
    }
}

void plain_product(const Product& call, Stream& stream) {
    provider_product(call, stream);
}

bool products_by_library() {
    static const bool library = products_by_library(std::getenv("THUNDER_PRODUCTS"));
    return library;
}

bool products_by_library(const char* asked) {
#ifdef THUNDER_PRODUCTS_ONEDNN
    constexpr bool linked = true;
#else
    constexpr bool linked = false;
#endif
    if (asked == nullptr) return linked;
    const std::string_view way(asked);
    if (way != "onednn" && way != "reference")
        fail(cat("THUNDER_PRODUCTS is '", way, "': products are onednn's or those of plain loops, reference"),
             "set it to onednn or to reference, or leave it unset: onednn where the program was built with it");
    if (way == "onednn" && !linked)
        fail("THUNDER_PRODUCTS is onednn, and this program was built without oneDNN",
             "build it with -DTHUNDERC_PRODUCTS=onednn, or leave THUNDER_PRODUCTS unset");
    return way == "onednn";
}

std::string products_provider() {
#ifdef THUNDER_PRODUCTS_ONEDNN
    if (products_by_library()) return onednn::version();
#endif
    return "plain loops";
}

std::string products_variable(DType narrow) {
    std::string name = "THUNDER_";
    for (const char c : std::string_view(name_of(narrow))) name += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    return name;
}

bool native_products(DType narrow, const char* asked) {
    const std::string variable = products_variable(narrow), type = name_of(narrow);
    bool usual = false, possible = asked == nullptr || std::string_view(asked) != "native";
#ifdef THUNDER_PRODUCTS_ONEDNN
    usual = products_by_library() && onednn::has_instructions(narrow);
    possible = possible || (products_by_library() && onednn::multiplies(narrow));
#endif
    if (asked == nullptr) return usual;
    if (const std::string_view way(asked); way != "native" && way != "emulated")
        fail(cat(variable, " is '", way, "': a program multiplies ", type, " natively or emulated"),
             cat("set it to native or to emulated, or leave it unset: native where the CPU has instructions for ",
                 type));
    if (!possible)
        fail(cat(variable, " is native, and ", products_provider(), " has no products of ", type, " on this CPU"),
             cat("leave ", variable, " unset, or set it to emulated"));
    return std::string_view(asked) == "native";
}

std::string narrow_provider(DType narrow) {
    return native(narrow) ? "products of the CPU's own" : "products in f32, of operands that are widened first";
}

void linear_forward(const LinearForward& call, Stream& stream) {
    const Timed timed = timed_call("linear_forward", call, stream);
    if (call.rows <= 0 || call.out <= 0) return;
    check_types(call);
    Product product{.c = call.y,
                    .a = call.x,
                    .b = call.weight,
                    .transpose_b = true,
                    .bias = call.bias,
                    .activation = call.activation,
                    .residual = call.residual,
                    .m = call.rows,
                    .n = call.out,
                    .k = call.in,
                    .ld_a = or_dense(call.ld_x, call.in),
                    .ld_b = call.in,
                    .ld_c = or_dense(call.ld_y, call.out),
                    .ld_residual = or_dense(call.ld_residual, call.out)};
    if (call.pre_activation) {
        // the product ends in pre_activation; one pass over it gives y
        const Input residual = product.residual;
        const std::int64_t ld_y = product.ld_c;
        product.c = call.pre_activation;
        product.ld_c = call.out;
        product.activation = Activation::none;
        product.residual = {};
        run(product, false, stream);
        apply_epilogue(call.y, ld_y, as_input(call.pre_activation), call.out, {}, call.activation, residual,
                       product.ld_residual, call.rows, call.out);
        return;
    }
    run(product, product.residual.data == call.y.data && product.ld_residual == product.ld_c, stream);
}

void linear_backward_input(const LinearBackwardInput& call, Stream& stream) {
    const Timed timed = timed_call("linear_backward_input", call, stream);
    if (call.rows <= 0 || call.in <= 0) return;
    check_types(call);
    Product product{.c = call.dx,
                    .a = call.dy,
                    .b = call.weight,
                    .accumulate = call.mode == WriteMode::add,
                    .residual = call.residual,
                    .m = call.rows,
                    .n = call.in,
                    .k = call.out,
                    .ld_a = or_dense(call.ld_dy, call.out),
                    .ld_b = call.in,
                    .ld_c = or_dense(call.ld_dx, call.in),
                    .ld_residual = or_dense(call.ld_residual, call.in)};
    const bool same = product.residual.data == call.dx.data;
    if (same && product.accumulate) {
        // dx + (dy W + dx): the residual counts twice
        const Input dx = as_input(call.dx);
        apply_epilogue(call.dx, product.ld_c, dx, product.ld_c, {}, Activation::none, dx, product.ld_c, call.rows,
                       call.in);
    }
    run(product, same, stream);
}

void linear_backward_weight(const LinearBackwardWeight& call, Stream& stream) {
    const Timed timed = timed_call("linear_backward_weight", call, stream);
    if (call.out <= 0) return;
    check_types(call);
    const bool add = call.mode == WriteMode::add;
    const std::int64_t ld_dy = or_dense(call.ld_dy, call.out);
    if (call.dweight && call.in > 0) {
        run({.c = call.dweight,
             .a = call.dy,
             .b = call.x,
             .transpose_a = true,
             .accumulate = add,
             .m = call.out,
             .n = call.in,
             .k = call.rows,
             .ld_a = ld_dy,
             .ld_b = or_dense(call.ld_x, call.in),
             .ld_c = call.in},
            false, stream);
    }
    if (!call.dbias) return;
    const std::int64_t piece = piece_of(call.out, {call.dy.dtype});
    column_reduction(
        call.rows, call.out, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            float buffer[piece_elements];
            for (std::int64_t i = begin; i < end; ++i) {
                for (std::int64_t at = 0; at < call.out; at += piece) {
                    const std::int64_t n = std::min(piece, call.out - at);
                    const float* row = elements(call.dy, i * ld_dy + at, n, buffer);
                    float* to = partial + at;
#pragma omp simd
                    for (std::int64_t j = 0; j < n; ++j) to[j] += row[j];
                }
            }
        },
        [&](std::int64_t j, float sum) {
            float buffer = 0;
            float* dbias = elements(call.dbias, j, 1, &buffer);
            *dbias = add ? *dbias + sum : sum;
            put_back(call.dbias, j, dbias, 1);
        });
}

void matmul(const Matmul& call, Stream& stream) {
    const Timed timed = timed_call("matmul", call, stream);
    if (call.batch <= 0 || call.m <= 0 || call.n <= 0) return;
    check_types(call);
    run({.c = call.c,
         .a = call.a,
         .b = call.b,
         .transpose_a = call.transpose_a,
         .transpose_b = call.transpose_b,
         .accumulate = call.mode == WriteMode::add,
         .batch = call.batch,
         .m = call.m,
         .n = call.n,
         .k = call.k,
         .ld_a = call.transpose_a ? call.m : call.k,
         .ld_b = call.transpose_b ? call.k : call.n,
         .ld_c = call.n,
         .stride_a = call.stride_a,
         .stride_b = call.stride_b,
         .stride_c = or_dense(call.stride_c, call.m * call.n)},
        false, stream);
}

}  // namespace thunder

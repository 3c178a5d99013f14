// The linear layer's three products and the general product: what they are as matrices, who computes them, and the
// kernels for what a provider cannot do within the product.
#include <algorithm>
#include <cstring>

#include "device/cpu/activations.h"
#include "device/cpu/products.h"
#include "device/cpu/require.h"
#include "device/menu.h"
#include "device/parallel.h"

namespace thunder {

namespace {

bool provider_product(const Product& product, Stream& stream) {
#ifdef THUNDER_PRODUCTS_ONEDNN
    return onednn::product(product, stream);
#else
    return reference::product(product, stream);
#endif
}

template <typename Function>
void epilogue_rows(float* c, std::int64_t ld_c, const float* source, std::int64_t ld_source, const float* bias,
                   const float* residual, std::int64_t ld_residual, std::int64_t rows, std::int64_t columns,
                   Function&& f) {
    parallel_rows(rows, columns, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            float* out = c + i * ld_c;
            const float* in = source + i * ld_source;
            const float* add = residual == nullptr ? nullptr : residual + i * ld_residual;
            if (bias != nullptr && add != nullptr) {
#pragma omp simd
                for (std::int64_t j = 0; j < columns; ++j) out[j] = f(in[j] + bias[j]) + add[j];
            } else if (bias != nullptr) {
#pragma omp simd
                for (std::int64_t j = 0; j < columns; ++j) out[j] = f(in[j] + bias[j]);
            } else if (add != nullptr) {
#pragma omp simd
                for (std::int64_t j = 0; j < columns; ++j) out[j] = f(in[j]) + add[j];
            } else {
#pragma omp simd
                for (std::int64_t j = 0; j < columns; ++j) out[j] = f(in[j]);
            }
        }
    });
}

// The product with whatever epilogue it has, by the provider as a whole or by the provider and a kernel.
// `residual_in_c`: the residual is what c holds before.
void run(Product product, bool residual_in_c, Stream& stream) {
    if (residual_in_c) {
        // c += act(..) is the same sum
        product.residual = nullptr;
        product.accumulate = true;
    }
    if (provider_product(product, stream)) return;
    Product plain = product;
    plain.bias = nullptr;
    plain.activation = Activation::none;
    plain.residual = nullptr;
    plain.accumulate = false;
    if (product.accumulate) {
        // what c holds is still needed: the product goes elsewhere first
        plain.c =
            reinterpret_cast<float*>(stream.workspace(static_cast<std::size_t>(product.m * product.n) * sizeof(float)));
        plain.ld_c = product.n;
    }
    provider_product(plain, stream);
    apply_epilogue(product.c, product.ld_c, plain.c, plain.ld_c, product.bias, product.activation,
                   product.accumulate ? product.c : product.residual,
                   product.accumulate ? product.ld_c : product.ld_residual, product.m, product.n);
    if (product.accumulate && product.residual != nullptr) {
        apply_epilogue(product.c, product.ld_c, product.residual, product.ld_residual, nullptr, Activation::none,
                       product.c, product.ld_c, product.m, product.n);
    }
}

}  // namespace

void apply_epilogue(float* c, std::int64_t ld_c, const float* source, std::int64_t ld_source, const float* bias,
                    Activation activation, const float* residual, std::int64_t ld_residual, std::int64_t rows,
                    std::int64_t columns) {
    const auto with = [&](auto f) {
        epilogue_rows(c, ld_c, source, ld_source, bias, residual, ld_residual, rows, columns, f);
    };
    switch (activation) {
        case Activation::none: return with([](float x) { return x; });
        case Activation::relu: return with([](float x) { return math::relu(x); });
        case Activation::gelu: return with([](float x) { return math::gelu(x); });
        case Activation::gelu_tanh: return with([](float x) { return math::gelu_tanh(x); });
        case Activation::silu: return with([](float x) { return math::silu(x); });
        case Activation::tanh: return with([](float x) { return math::tanh(x); });
    }
}

std::string products_provider() {
#ifdef THUNDER_PRODUCTS_ONEDNN
    return onednn::version();
#else
    return "plain loops";
#endif
}

void linear_forward(const LinearForward& call, Stream& stream) {
    if (call.rows <= 0 || call.out <= 0) return;
    constexpr const char* name = "linear_forward";
    float* y = f32(name, "y", call.y);
    float* pre = f32(name, "pre_activation", call.pre_activation);
    Product product{.c = y,
                    .a = f32(name, "x", call.x),
                    .b = f32(name, "weight", call.weight),
                    .transpose_b = true,
                    .bias = f32(name, "bias", call.bias),
                    .activation = call.activation,
                    .residual = f32(name, "residual", call.residual),
                    .m = call.rows,
                    .n = call.out,
                    .k = call.in,
                    .ld_a = or_dense(call.ld_x, call.in),
                    .ld_b = call.in,
                    .ld_c = or_dense(call.ld_y, call.out),
                    .ld_residual = or_dense(call.ld_residual, call.out)};
    if (pre != nullptr) {
        // the product ends in pre_activation; one pass over it gives y
        const float* residual = product.residual;
        const std::int64_t ld_y = product.ld_c;
        product.c = pre;
        product.ld_c = call.out;
        product.activation = Activation::none;
        product.residual = nullptr;
        run(product, false, stream);
        apply_epilogue(y, ld_y, pre, call.out, nullptr, call.activation, residual, product.ld_residual, call.rows,
                       call.out);
        return;
    }
    run(product, product.residual == y && product.ld_residual == product.ld_c, stream);
}

void linear_backward_input(const LinearBackwardInput& call, Stream& stream) {
    if (call.rows <= 0 || call.in <= 0) return;
    constexpr const char* name = "linear_backward_input";
    float* dx = f32(name, "dx", call.dx);
    Product product{.c = dx,
                    .a = f32(name, "dy", call.dy),
                    .b = f32(name, "weight", call.weight),
                    .accumulate = call.gradient == Gradient::add,
                    .residual = f32(name, "residual", call.residual),
                    .m = call.rows,
                    .n = call.in,
                    .k = call.out,
                    .ld_a = or_dense(call.ld_dy, call.out),
                    .ld_b = call.in,
                    .ld_c = or_dense(call.ld_dx, call.in),
                    .ld_residual = or_dense(call.ld_residual, call.in)};
    const bool same = product.residual == dx;
    if (same && product.accumulate) {
        // dx + (dy W + dx): the residual counts twice
        apply_epilogue(dx, product.ld_c, dx, product.ld_c, nullptr, Activation::none, dx, product.ld_c, call.rows,
                       call.in);
    }
    run(product, same, stream);
}

void linear_backward_weight(const LinearBackwardWeight& call, Stream& stream) {
    if (call.out <= 0) return;
    constexpr const char* name = "linear_backward_weight";
    const bool add = call.gradient == Gradient::add;
    const float* dy = f32(name, "dy", call.dy);
    const std::int64_t ld_dy = or_dense(call.ld_dy, call.out);
    if (call.dweight && call.in > 0) {
        run({.c = f32(name, "dweight", call.dweight),
             .a = dy,
             .b = f32(name, "x", call.x),
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
    if (float* dbias = f32(name, "dbias", call.dbias)) {
        column_reduction(
            call.rows, call.out, stream,
            [&](std::int64_t begin, std::int64_t end, float* partial) {
                for (std::int64_t i = begin; i < end; ++i) {
                    const float* row = dy + i * ld_dy;
#pragma omp simd
                    for (std::int64_t j = 0; j < call.out; ++j) partial[j] += row[j];
                }
            },
            [&](std::int64_t j, float sum) { dbias[j] = add ? dbias[j] + sum : sum; });
    }
}

void matmul(const Matmul& call, Stream& stream) {
    if (call.batch <= 0 || call.m <= 0 || call.n <= 0) return;
    constexpr const char* name = "matmul";
    run({.c = f32(name, "c", call.c),
         .a = f32(name, "a", call.a),
         .b = f32(name, "b", call.b),
         .transpose_a = call.transpose_a,
         .transpose_b = call.transpose_b,
         .accumulate = call.gradient == Gradient::add,
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

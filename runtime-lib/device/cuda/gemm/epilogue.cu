// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/api.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/driver/require.h"
#include "device/cuda/gemm/epilogue.cuh"
#include "device/cuda/gemm/epilogue.h"
#include "device/cuda/launch.h"

namespace thunder {

namespace {

bool aligned(const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

template <typename T, typename S, typename B, typename Kernel>
void launch_epilogue(Kernel* one, Kernel* vector, const Epilogue& e, Stream& stream) {
    constexpr std::int64_t width = 16 / sizeof(T);
    bool vectors = e.columns % width == 0 && e.ld_y % width == 0 && e.ld_source % width == 0 &&
                   (!e.residual || e.ld_residual % width == 0);
    for (const void* p : {static_cast<const void*>(e.y.data), static_cast<const void*>(e.pre_activation.data),
                          e.source.data, e.residual.data})
        vectors = vectors && aligned(p);
    const std::int64_t threads = e.rows * e.columns / (vectors ? width : 1);
    launch("epilogue", vectors ? vector : one, (threads + 255) / 256, 256, stream, static_cast<T*>(e.y.data),
           static_cast<T*>(e.pre_activation.data), static_cast<const S*>(e.source.data),
           static_cast<const B*>(e.bias.data), static_cast<const T*>(e.residual.data),
           bundled::EpilogueSizes{e.rows, e.columns, e.ld_y, e.ld_source, e.ld_residual, static_cast<int>(e.activation),
                                  e.accumulate});
}

}  // namespace

void epilogue(const Epilogue& e, Stream& stream) {
    using namespace bundled;
    require_dtype("pre_activation", e.pre_activation, e.y.dtype);
    require_float("the product", e.source);
    require_dtype("residual", e.residual, e.y.dtype);
    require_float("bias", e.bias);
    if (e.y.dtype == DType::f32) {
        require_dtype("the product", e.source, DType::f32);
        require_dtype("bias", e.bias, DType::f32);
        return launch_epilogue<float, float, float>(bundled_epilogue_f32, bundled_epilogue_f32_4, e, stream);
    }
    const bool wide_bias = e.bias && e.bias.dtype == DType::f32;
    if (e.source.dtype == DType::f32) {
        if (wide_bias)
            return launch_epilogue<bf16, float, float>(bundled_epilogue_round_f32, bundled_epilogue_round_f32_8, e,
                                                       stream);
        return launch_epilogue<bf16, float, bf16>(bundled_epilogue_round, bundled_epilogue_round_8, e, stream);
    }
    if (wide_bias)
        return launch_epilogue<bf16, bf16, float>(bundled_epilogue_bf16_f32, bundled_epilogue_bf16_f32_8, e, stream);
    launch_epilogue<bf16, bf16, bf16>(bundled_epilogue_bf16, bundled_epilogue_bf16_8, e, stream);
}

void column_sums(const Output& sums, const Input& x, std::int64_t rows, std::int64_t columns, std::int64_t ld_x,
                 Gradient gradient, Stream& stream) {
    using namespace bundled;
    require_float("the sums of columns", sums);
    // some 64 blocks of rows: enough to fill a GPU together with the blocks of columns
    const std::int64_t block_rows = std::max<std::int64_t>(16, (rows + 63) / 64);
    const std::int64_t blocks = (rows + block_rows - 1) / block_rows, column_blocks = (columns + 127) / 128;
    auto* partials = reinterpret_cast<float*>(
        stream.workspace(static_cast<std::size_t>(std::max<std::int64_t>(blocks, 1) * columns) * sizeof(float)));
    const bool add = gradient == Gradient::add;
    if (x.dtype == DType::bf16) {
        launch("column_partials", bundled_column_partials_bf16, blocks * column_blocks, 128, stream, partials,
               static_cast<const bf16*>(x.data), rows, columns, ld_x, block_rows);
    } else {
        launch("column_partials", bundled_column_partials_f32, blocks * column_blocks, 128, stream, partials,
               static_cast<const float*>(x.data), rows, columns, ld_x, block_rows);
    }
    if (sums.dtype == DType::bf16) {
        launch("column_finish", bundled_column_finish_bf16, column_blocks, 128, stream, static_cast<bf16*>(sums.data),
               partials, blocks, columns, add);
    } else {
        launch("column_finish", bundled_column_finish_f32, column_blocks, 128, stream, static_cast<float*>(sums.data),
               partials, blocks, columns, add);
    }
}

void convert(const Output& dst, const Input& src, std::int64_t elements, Stream& stream) {
    require_float("dst", dst);
    require_float("src", src);
    if (elements <= 0) return;
    if (dst.dtype == src.dtype)
        return copy(dst.data, src.data, static_cast<std::size_t>(elements) * size_of(dst.dtype), stream);
    const std::int64_t blocks = (elements + 1023) / 1024;  // four elements a thread
    if (dst.dtype == DType::bf16) {
        launch("convert", bundled::bundled_narrow, blocks, 256, stream, static_cast<bf16*>(dst.data),
               static_cast<const float*>(src.data), elements);
    } else {
        launch("convert", bundled::bundled_widen, blocks, 256, stream, static_cast<float*>(dst.data),
               static_cast<const bf16*>(src.data), elements);
    }
}

}  // namespace thunder

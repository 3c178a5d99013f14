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
    const bool wide_source = e.source.dtype == DType::f32;
    if (!wide_source) require_dtype("the product", e.source, e.y.dtype);
    if (!wide_bias) require_dtype("bias", e.bias, e.y.dtype);
#define THUNDER_EPILOGUE(T)                                                                                            \
    if (e.y.dtype == DType::T) {                                                                                       \
        if (wide_source && wide_bias)                                                                                  \
            return launch_epilogue<T, float, float>(bundled_epilogue_##T##_f32_f32, bundled_epilogue_##T##_f32_f32_8,  \
                                                    e, stream);                                                        \
        if (wide_source)                                                                                               \
            return launch_epilogue<T, float, T>(bundled_epilogue_##T##_f32_##T, bundled_epilogue_##T##_f32_##T##_8, e, \
                                                stream);                                                               \
        if (wide_bias)                                                                                                 \
            return launch_epilogue<T, T, float>(bundled_epilogue_##T##_##T##_f32, bundled_epilogue_##T##_##T##_f32_8,  \
                                                e, stream);                                                            \
        return launch_epilogue<T, T, T>(bundled_epilogue_##T##_##T##_##T, bundled_epilogue_##T##_##T##_##T##_8, e,     \
                                        stream);                                                                       \
    }
    THUNDER_NARROW_TYPES(THUNDER_EPILOGUE)
#undef THUNDER_EPILOGUE
    require_float("the result", e.y);
}

void column_sums(const Output& sums, const Input& x, std::int64_t rows, std::int64_t columns, std::int64_t ld_x,
                 WriteMode mode, Stream& stream) {
    using namespace bundled;
    require_float("the sums of columns", sums);
    // some 64 blocks of rows: enough to fill a GPU together with the blocks of columns
    const std::int64_t block_rows = std::max<std::int64_t>(16, (rows + 63) / 64);
    const std::int64_t blocks = (rows + block_rows - 1) / block_rows, column_blocks = (columns + 127) / 128;
    auto* partials = reinterpret_cast<float*>(
        stream.workspace(static_cast<std::size_t>(std::max<std::int64_t>(blocks, 1) * columns) * sizeof(float)));
    const bool add = mode == WriteMode::add;
    const auto width = 16 / static_cast<std::int64_t>(size_of(x.dtype));
    const bool vectors = columns % width == 0 && ld_x % width == 0 && aligned(x.data);
    const auto sum = [&](auto* one, auto* vector, auto* from) {
        launch("column_partials", vectors ? vector : one, blocks * column_blocks, 128, stream, partials, from, rows,
               columns, ld_x, block_rows);
    };
    const auto finish = [&](auto* kernel, auto* to) {
        launch("column_finish", kernel, (columns + 31) / 32, 256, stream, to, partials, blocks, columns, add);
    };
    if (x.dtype == DType::f32)
        sum(bundled_column_partials_f32, bundled_column_partials_f32_vector, static_cast<const float*>(x.data));
#define THUNDER_COLUMNS(T)   \
    if (x.dtype == DType::T) \
        sum(bundled_column_partials_##T, bundled_column_partials_##T##_vector, static_cast<const T*>(x.data));
    THUNDER_NARROW_TYPES(THUNDER_COLUMNS)
#undef THUNDER_COLUMNS
    if (sums.dtype == DType::f32) finish(bundled_column_finish_f32, static_cast<float*>(sums.data));
#define THUNDER_COLUMNS(T) \
    if (sums.dtype == DType::T) finish(bundled_column_finish_##T, static_cast<T*>(sums.data));
    THUNDER_NARROW_TYPES(THUNDER_COLUMNS)
#undef THUNDER_COLUMNS
}

void convert(const Output& dst, const Input& src, std::int64_t elements, Stream& stream) {
    require_float("dst", dst);
    require_float("src", src);
    if (elements <= 0) return;
    if (dst.dtype == src.dtype)
        return copy(dst.data, src.data, static_cast<std::size_t>(elements) * size_of(dst.dtype), stream);
    const std::int64_t blocks = (elements + 1023) / 1024;  // four elements a thread
#define THUNDER_CONVERT(T)                                                                                       \
    if (dst.dtype == DType::T)                                                                                   \
        return launch("convert", bundled::bundled_narrow_##T, blocks, 256, stream, static_cast<T*>(dst.data),    \
                      static_cast<const float*>(src.data), elements);                                            \
    if (src.dtype == DType::T)                                                                                   \
        return launch("convert", bundled::bundled_widen_##T, blocks, 256, stream, static_cast<float*>(dst.data), \
                      static_cast<const T*>(src.data), elements);
    THUNDER_NARROW_TYPES(THUNDER_CONVERT)
#undef THUNDER_CONVERT
}

}  // namespace thunder

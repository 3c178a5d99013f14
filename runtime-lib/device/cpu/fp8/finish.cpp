// SPDX-License-Identifier: Apache-2.0
// What is left of quantising on a CPU where the kernel that made a tensor has written its codes.
#include <algorithm>

#include "device/api.h"
#include "device/call_types.h"
#include "device/describe.h"
#include "device/fp8_recipe.h"
#include "device/parallel.h"

namespace thunder {

namespace {

// Codes are bytes, whatever they mean: in squares, so that the lines that are read and written stay in L1.
void transpose(std::uint8_t* to, const std::uint8_t* from, std::int64_t rows, std::int64_t width) {
    constexpr std::int64_t side = 64;
    parallel_rows((rows + side - 1) / side, side * width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t block = begin; block < end; ++block) {
            const std::int64_t first = block * side, last = std::min(rows, first + side);
            for (std::int64_t column = 0; column < width; column += side)
                for (std::int64_t c = column; c < std::min(width, column + side); ++c)
                    for (std::int64_t r = first; r < last; ++r) to[c * rows + r] = from[r * width + c];
        }
    });
}

}  // namespace

void fp8_finish(const Fp8Finish& call, Stream& stream) {
    const Timed timed = timed_call("fp8_finish", call, stream);
    check_types(call);
    if (call.q_transposed)
        transpose(static_cast<std::uint8_t*>(call.q_transposed.data), static_cast<const std::uint8_t*>(call.q.data),
                  call.rows, call.width);
    if (auto* amax = static_cast<float*>(call.amax.data); amax != nullptr) {
        const auto* maxima = static_cast<const float*>(call.maxima.data);
        for (std::int64_t row = 0; row < call.rows; ++row) *amax = larger_amax(*amax, maxima[row]);
    }
    *static_cast<float*>(call.inverse.data) = 1 / *static_cast<const float*>(call.scale.data);
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Every elementary function in a loop; see VecMath.LoopsCallNothing in ../CMakeLists.txt.
#include <cstdint>

#include "device/cpu/activations.h"

namespace thunder {

template <float (*function)(float)>
void loop(float* __restrict y, const float* __restrict x, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = function(x[i]);
}

void power(float* __restrict z, const float* __restrict x, const float* __restrict y, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) z[i] = math::pow(x[i], y[i]);
}

template void loop<math::abs>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::sqrt>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::rsqrt>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::exp>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::expm1>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::log>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::log1p>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::sigmoid>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::tanh>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::erf>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::sin>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::cos>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::softplus>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::relu>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::gelu>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::gelu_derivative>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::gelu_tanh>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::gelu_tanh_derivative>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::silu>(float* __restrict, const float* __restrict, std::int64_t);
template void loop<math::silu_derivative>(float* __restrict, const float* __restrict, std::int64_t);

}  // namespace thunder

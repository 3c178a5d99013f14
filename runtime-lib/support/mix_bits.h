// SPDX-License-Identifier: Apache-2.0
// A permutation of 64-bit numbers, for hosts and devices.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define THUNDER_HOST_DEVICE __host__ __device__
#else
#define THUNDER_HOST_DEVICE
#endif

namespace thunder {

// Every bit of the argument moves about half of the result's: the finisher of SplitMix64 (Steele, Lea and Flood, 2014).
THUNDER_HOST_DEVICE constexpr std::uint64_t mix_bits(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

}  // namespace thunder

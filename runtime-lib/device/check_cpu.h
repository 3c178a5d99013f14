// SPDX-License-Identifier: Apache-2.0
// Tells a CPU that lacks the instructions this program was built for, before one of them is met.
#pragma once

namespace thunder {

// Instruction sets, as bits.
enum CpuFeature : unsigned {
    cpu_sse42 = 1U << 0,
    cpu_avx = 1U << 1,
    cpu_avx2 = 1U << 2,
    cpu_fma = 1U << 3,
    cpu_bmi2 = 1U << 4,
    cpu_avx512f = 1U << 5,
    cpu_avx512bw = 1U << 6,
    cpu_avx512dq = 1U << 7,
    cpu_avx512vl = 1U << 8,
    cpu_avx512vnni = 1U << 9,
};

// What the file that includes this header is compiled for.
constexpr unsigned built_for() {
    unsigned features = 0;
#ifdef __SSE4_2__
    features |= cpu_sse42;
#endif
#ifdef __AVX__
    features |= cpu_avx;
#endif
#ifdef __AVX2__
    features |= cpu_avx2;
#endif
#ifdef __FMA__
    features |= cpu_fma;
#endif
#ifdef __BMI2__
    features |= cpu_bmi2;
#endif
#ifdef __AVX512F__
    features |= cpu_avx512f;
#endif
#ifdef __AVX512BW__
    features |= cpu_avx512bw;
#endif
#ifdef __AVX512DQ__
    features |= cpu_avx512dq;
#endif
#ifdef __AVX512VL__
    features |= cpu_avx512vl;
#endif
#ifdef __AVX512VNNI__
    features |= cpu_avx512vnni;
#endif
    return features;
}

// The name of a feature in `features` that this CPU lacks, or null. Compiled for the plainest CPU.
const char* missing_cpu_feature(unsigned features);

// Prints "error: …" and ends the program with status 1 where this CPU lacks one of them; the first statement of main.
void require_cpu(unsigned features);

inline void check_cpu() {
    require_cpu(built_for());
}

}  // namespace thunder

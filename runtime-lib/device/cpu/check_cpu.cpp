// SPDX-License-Identifier: Apache-2.0
// Compiled without -march (see CMakeLists.txt) and from C functions alone, so that nothing here needs what it asks for.
#include "device/check_cpu.h"

#include <cstdio>
#include <cstdlib>

namespace thunder {

const char* missing_cpu_feature(unsigned features) {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if ((features & cpu_sse42) != 0 && !__builtin_cpu_supports("sse4.2")) return "SSE4.2";
    if ((features & cpu_avx) != 0 && !__builtin_cpu_supports("avx")) return "AVX";
    if ((features & cpu_avx2) != 0 && !__builtin_cpu_supports("avx2")) return "AVX2";
    if ((features & cpu_fma) != 0 && !__builtin_cpu_supports("fma")) return "FMA";
    if ((features & cpu_bmi2) != 0 && !__builtin_cpu_supports("bmi2")) return "BMI2";
    if ((features & cpu_avx512f) != 0 && !__builtin_cpu_supports("avx512f")) return "AVX-512F";
    if ((features & cpu_avx512bw) != 0 && !__builtin_cpu_supports("avx512bw")) return "AVX-512BW";
    if ((features & cpu_avx512dq) != 0 && !__builtin_cpu_supports("avx512dq")) return "AVX-512DQ";
    if ((features & cpu_avx512vl) != 0 && !__builtin_cpu_supports("avx512vl")) return "AVX-512VL";
    if ((features & cpu_avx512vnni) != 0 && !__builtin_cpu_supports("avx512vnni")) return "AVX-512VNNI";
#else
    (void)features;
#endif
    return nullptr;
}

void require_cpu(unsigned features) {
    const char* missing = missing_cpu_feature(features);
    if (missing == nullptr) return;
    std::fprintf(stderr,
                 "error: this program was built for a CPU with %s, which this one lacks\n"
                 "help: build it here, or with cmake -DTHUNDERC_CPU=x86-64-v3 (or x86-64) for older machines\n",
                 missing);
    std::exit(1);
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Does what a program does before it uses a GPU, and ends as a program does: PROBE ARCHITECTURES BYTES [LIBRARY]
#include <cstdio>
#include <cstdlib>

#include "device/cuda/driver/gpu.h"
#include "device/cuda/driver/library.h"
#include "support/error.h"
#include "support/host_memory.h"

int main(int argc, char** argv) try {
    if (argc < 3) return 3;
    const thunder::Gpu gpu = thunder::find_gpu({13000, argv[1]});
    thunder::check_memory(gpu, std::strtoull(argv[2], nullptr, 10), gpu.memory, "memory 200 GB: parameters 200 GB",
                          thunder::less_memory());
    if (argc > 3)
        thunder::Library("cuBLASLt", {argv[3]}, "it comes with the CUDA toolkit").function<int()>("cublasLtCreate");
    std::printf("%s, sm_%d, %d multiprocessors\n", gpu.name.c_str(), gpu.architecture, gpu.multiprocessors);
    return 0;
} catch (...) {
    return thunder::report_error();
}

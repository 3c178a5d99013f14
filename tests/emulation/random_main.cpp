// SPDX-License-Identifier: Apache-2.0
// test_random_kernels LIBRARY: runs the kernels of random graphs that the library has.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <iostream>

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    if (argc != 2) {
        std::cerr << "usage: test_random_kernels LIBRARY [gtest's flags]\n";
        return 2;
    }
    // As it is loaded, it lists its kernels (kernel_table.h). It stays until the end.
    if (dlopen(argv[1], RTLD_NOW) == nullptr) {
        std::cerr << "error: " << dlerror() << '\n';
        return 2;
    }
    return RUN_ALL_TESTS();
}

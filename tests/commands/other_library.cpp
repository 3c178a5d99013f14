// SPDX-License-Identifier: Apache-2.0
// A library that is not NVRTC.
extern "C" int not_nvrtc() {
    return 0;
}

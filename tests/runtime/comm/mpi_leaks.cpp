// SPDX-License-Identifier: Apache-2.0
// Open MPI keeps what it allocated for its components until the process ends, in libraries that are unloaded by then:
// the leak detector would blame every rank for it, and no suppression can name them. Ranks are looked through for
// everything else.
extern "C" const char* __asan_default_options();   // NOLINT: the sanitizer's own name
extern "C" const char* __asan_default_options() {  // NOLINT
    return "detect_leaks=0";
}

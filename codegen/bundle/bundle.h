// SPDX-License-Identifier: Apache-2.0
// The runtime's sources and the templates, bundled into the compiler by codegen/bundle/embed.cpp.
#pragma once

namespace thunderc {

struct BundledFile {
    const char* path;  // from the root of the repository: "runtime-lib/device/api.h"
    const char* text;
};

extern const BundledFile bundled_files[];
extern const unsigned bundled_file_count;

}  // namespace thunderc

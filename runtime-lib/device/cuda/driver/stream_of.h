// SPDX-License-Identifier: Apache-2.0
// CUDA's stream of one of ours.
#pragma once

#include <cuda_runtime_api.h>

namespace thunder {

class Stream;

// Made, and the GPU chosen, with the first call.
cudaStream_t stream_of(Stream& stream);

}  // namespace thunder

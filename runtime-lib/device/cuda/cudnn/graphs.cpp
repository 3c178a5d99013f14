// SPDX-License-Identifier: Apache-2.0
#ifdef THUNDER_CUDNN_FRONTEND
#include "device/cuda/cudnn/graphs.h"

#include <cstdlib>

#include "device/cuda/driver/native.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // where the headers look for cuDNN's functions
}

namespace thunder::cudnn {

namespace {

struct Opened {
    Opened()
        : runtime("CUDA's runtime", {cat("libcudart.so.", CUDART_VERSION / 1000)}, help()),
          cudnn("cuDNN", {cat("libcudnn.so.", CUDNN_MAJOR)}, help()) {
        fe::cudnn_dlhandle = cudnn.handle();
        // The headers open CUDA's runtime by name, and take an older one where they find it.
        setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", cat("libcudart.so.", CUDART_VERSION / 1000).c_str(), 0);
    }
    static std::string help() {
        return "it comes as the package libcudnn9-cuda or as the Python wheel nvidia-cudnn; LD_LIBRARY_PATH may name "
               "its folder; a build with -DTHUNDER_CUDNN=OFF computes without it";
    }

    Library runtime, cudnn;
};

}  // namespace

const Library& library() {
    static const Opened opened;
    return opened.cudnn;
}

void check_status(cudnnStatus_t status, const char* call) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    fail(cat(call, " says ", library().function<decltype(cudnnGetErrorString)>("cudnnGetErrorString")(status)));
}

void execute(const Plan& plan, cudnnHandle_t handle, std::unordered_map<std::int64_t, void*> tensors, Stream& stream) {
    check_status(library().function<decltype(cudnnSetStream)>("cudnnSetStream")(handle, stream_of(stream)),
                 "cudnnSetStream");
    std::byte* const workspace = stream.provider_scratch(static_cast<std::size_t>(plan.workspace));
    auto status = plan.graph->execute(handle, tensors, workspace);
    if (!status.is_good()) fail(cat("cuDNN says ", status.get_message()));
}

}  // namespace thunder::cudnn
#endif

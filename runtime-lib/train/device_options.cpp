// SPDX-License-Identifier: Apache-2.0
#include "train/device_options.h"

#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "support/text.h"

namespace thunder {
namespace {

// Cores that this process may use, shared with other ranks of its host.
int default_threads(const Communicator& communicator) {
    if (std::getenv("OMP_NUM_THREADS") != nullptr) return 0;
    const auto cores = omp_get_num_procs();
    return communicator.ranks_on_these_cores() == 1 ? 0 : std::max(1, cores / communicator.ranks_on_these_cores());
}

}  // namespace

DeviceOptions device_options(const Options& options, const Communicator& communicator) {
    return {.threads = options.threads > 0 ? options.threads : default_threads(communicator),
            .profile = options.profile,
            .graphs = !options.no_cuda_graph,
            .tf32 = options.tf32,
            .autotune = options.autotune,
            .folder = options.program_folder,
            .attention_backward = options.attention_backward};
}

std::string gpu_options(const Options& options) {
    std::string names;
    const std::pair<const char*, bool> flags[] = {
        {"--tf32", options.tf32},
        {"--autotune", options.autotune},
        {"--no-cuda-graph", options.no_cuda_graph},
        {"--attention-backward", options.attention_backward != SumsOfAttention::automatic}};
    for (const auto& [name, given] : flags)
        if (given) names += cat(names.empty() ? "" : ", ", name);
    return names;
}

std::string parameter_text(const ProgramSpec& program) {
    std::uint64_t count = 0, trained = 0;
    for (const ParameterSpec& parameter : program.parameters) {
        if (parameter.moves) continue;
        const std::uint64_t elements = parameter.bytes / size_of(parameter.dtype);
        count += elements;
        trained += parameter.trainable ? elements : 0;
    }
    std::string text = count_text(count, "parameter");
    if (trained < count) text += cat(", of which ", trained, trained == 1 ? " trains" : " train");
    return text;
}

std::string provider_text(const Providers& providers, const Device& device) {
    std::string products = providers.products ? device.describe_products() : "";
    if (const std::string loops = "plain loops"; providers.plain_loops && products != loops)
        products += (products.empty() ? "" : " and ") + loops;
    const std::string attention = providers.attention ? device.describe_attention() : "";
    return cat(products.empty() ? "" : ", products: ", products, attention.empty() ? "" : ", attention: ", attention);
}

}  // namespace thunder

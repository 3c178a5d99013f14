// SPDX-License-Identifier: Apache-2.0
// What calls that graphs of cuDNN compute have in common: the library, opened once, and plans of graphs, made when a
// call is first met and kept. Behind THUNDER_CUDNN_FRONTEND, and only for the files that make graphs: the frontend's
// headers take a minute to compile.
#pragma once

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>
#if CUDNN_FRONTEND_VERSION < 11300
#error "cuDNN's frontend is older than 1.13: newer headers (wheel nvidia-cudnn-frontend), or -DTHUNDER_CUDNN=OFF"
#endif

#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "device/cuda/driver/library.h"
#include "device/stream.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder::cudnn {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// The library; an Error where it is not found.
const Library& library();
// An Error that says what `call` says.
void check_status(cudnnStatus_t status, const char* call);

struct Plan {
    std::shared_ptr<fe::graph::Graph> graph;  // null: cuDNN does not take it
    std::int64_t workspace = 0;
};

// Of one stream: the plans of one family of calls, by what a plan depends on.
template <typename Key>
struct Cache : ProviderCache {
    Cache() { check_status(library().function<decltype(cudnnCreate)>("cudnnCreate")(&handle), "cudnnCreate"); }
    ~Cache() override {
        plans.clear();
        library().function<decltype(cudnnDestroy)>("cudnnDestroy")(handle);
    }
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    cudnnHandle_t handle = nullptr;
    std::map<Key, Plan> plans;
};

inline fe::DataType_t type_of(DType dtype) {
    return dtype == DType::f32   ? fe::DataType_t::FLOAT
           : dtype == DType::f16 ? fe::DataType_t::HALF
                                 : fe::DataType_t::BFLOAT16;
}

// Sums are of f32.
inline std::shared_ptr<fe::graph::Graph> new_graph(DType dtype) {
    auto graph = std::make_shared<fe::graph::Graph>();
    graph->set_io_data_type(type_of(dtype))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    return graph;
}

// Gives a result of the graph the place that an output of the call has.
inline void set_output(const Tensor& result, const fe::graph::Tensor_attributes& as) {
    result->set_output(true)
        .set_uid(as.get_uid())
        .set_data_type(as.get_data_type())
        .set_dim(as.get_dim())
        .set_stride(as.get_stride());
}

// The plan of the graph that make() gives, which build(graph) looks for; without a graph, and `refusal` set, where
// cuDNN has none.
template <typename Make, typename Build>
Plan plan_of(Make&& make, Build&& build, std::string& refusal) {
    Plan plan;
    try {
        auto graph = make();
        if (auto built = build(*graph); built.is_good()) {
            plan.graph = graph;
            plan.workspace = graph->get_workspace_size();
        } else {
            refusal = built.get_message();
        }
    } catch (const std::exception& thrown) {  // the headers throw where they do not find a library
        refusal = thrown.what();
    }
    return plan;
}

// Issues a plan on the stream that the handle is for, by its tensors' numbers.
void execute(const Plan& plan, cudnnHandle_t handle, std::unordered_map<std::int64_t, void*> tensors, Stream& stream);

}  // namespace thunder::cudnn

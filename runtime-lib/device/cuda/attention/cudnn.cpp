// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN's fused kernels, through its frontend's headers: a graph for each kind of call, made when it is
// first met and kept.
#include <array>
#include <cstdio>

#include "device/cuda/attention/attention.h"
#include "device/cuda/driver/native.h"
#include "device/cuda/driver/require.h"
#include "device/describe.h"
#include "support/error.h"
#include "support/text.h"

#ifdef THUNDER_CUDNN_FRONTEND
#include "device/cuda/cudnn/graphs.h"
#endif

namespace thunder {

#ifdef THUNDER_CUDNN_FRONTEND

namespace {

namespace fe = cudnn_frontend;
using cudnn::new_graph, cudnn::Plan, cudnn::set_output, cudnn::Tensor, cudnn::type_of;

// Names of the graph's tensors.
enum Uid : std::int64_t { uid_q = 1, uid_k, uid_v, uid_out, uid_stats, uid_dout, uid_dq, uid_dk, uid_dv };

// What a graph depends on.
struct Key {
    bool backward, causal;
    DType dtype;
    float scale;
    std::array<std::int64_t, 15> sizes;
    auto operator<=>(const Key&) const = default;
};

// A (B, positions, heads, HS) tensor as cuDNN orders its dimensions.
fe::graph::Tensor_attributes tensor(const char* name, std::int64_t uid, std::int64_t B, std::int64_t positions,
                                    std::int64_t heads, std::int64_t HS, std::int64_t ld, DType dtype) {
    const std::int64_t row = or_dense(ld, heads * HS);
    return fe::graph::Tensor_attributes()
        .set_name(name)
        .set_uid(uid)
        .set_data_type(type_of(dtype))
        .set_dim({B, heads, positions, HS})
        .set_stride({positions * row, HS, row, 1});
}

template <typename Call>
fe::graph::Tensor_attributes stats_tensor(const Call& c) {
    return fe::graph::Tensor_attributes()
        .set_name("lse")
        .set_uid(uid_stats)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim({c.B, c.NH, c.T, 1})
        .set_stride({c.NH * c.T, c.T, 1, 1});
}

template <typename Options, typename Call>
void set_mask(Options& options, const Call& c) {
    options.set_attn_scale(c.scale);
    if (!c.causal) return;
    options.set_diagonal_alignment(c.T == c.S ? fe::DiagonalAlignment_t::TOP_LEFT
                                              : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
    options.set_diagonal_band_right_bound(0);
    if (c.window > 0) options.set_diagonal_band_left_bound(static_cast<int>(c.window));
}

std::shared_ptr<fe::graph::Graph> graph_of(const AttentionForward& c, bool /*in_order*/) {
    auto graph = new_graph(c.q.dtype);
    auto options = fe::graph::SDPA_attributes().set_name("attention_forward").set_generate_stats(true);
    set_mask(options, c);
    const Tensor q = graph->tensor(tensor("q", uid_q, c.B, c.T, c.NH, c.HS, c.ld_q, c.q.dtype));
    const Tensor k = graph->tensor(tensor("k", uid_k, c.B, c.S, c.KVH, c.HS, c.ld_k, c.q.dtype));
    const Tensor v = graph->tensor(tensor("v", uid_v, c.B, c.S, c.KVH, c.HS, c.ld_v, c.q.dtype));
    const auto [out, stats] = graph->sdpa(q, k, v, options);
    set_output(out, tensor("out", uid_out, c.B, c.T, c.NH, c.HS, c.ld_out, c.q.dtype));
    set_output(stats, stats_tensor(c));
    return graph;
}

// `in_order`: the same bits in every run, no atomic additions.
std::shared_ptr<fe::graph::Graph> graph_of(const AttentionBackward& c, bool in_order) {
    auto graph = new_graph(c.q.dtype);
    auto options =
        fe::graph::SDPA_backward_attributes().set_name("attention_backward").set_deterministic_algorithm(in_order);
    set_mask(options, c);
    const Tensor q = graph->tensor(tensor("q", uid_q, c.B, c.T, c.NH, c.HS, c.ld_q, c.q.dtype));
    const Tensor k = graph->tensor(tensor("k", uid_k, c.B, c.S, c.KVH, c.HS, c.ld_k, c.q.dtype));
    const Tensor v = graph->tensor(tensor("v", uid_v, c.B, c.S, c.KVH, c.HS, c.ld_v, c.q.dtype));
    const Tensor out = graph->tensor(tensor("out", uid_out, c.B, c.T, c.NH, c.HS, c.ld_out, c.q.dtype));
    const Tensor dout = graph->tensor(tensor("dout", uid_dout, c.B, c.T, c.NH, c.HS, c.ld_dout, c.q.dtype));
    const Tensor stats = graph->tensor(stats_tensor(c));
    const auto [dq, dk, dv] = graph->sdpa_backward(q, k, v, out, dout, stats, options);
    set_output(dq, tensor("dq", uid_dq, c.B, c.T, c.NH, c.HS, c.ld_dq, c.q.dtype));
    set_output(dk, tensor("dk", uid_dk, c.B, c.S, c.KVH, c.HS, c.ld_dk, c.q.dtype));
    set_output(dv, tensor("dv", uid_dv, c.B, c.S, c.KVH, c.HS, c.ld_dv, c.q.dtype));
    return graph;
}

// The plan of a call's graph; without a graph, and `refusal` set, where cuDNN has none.
template <typename Call>
Plan plan_of(const Call& call, bool in_order, cudnnHandle_t handle, std::string& refusal) {
    return cudnn::plan_of([&] { return graph_of(call, in_order); },
                          [&](fe::graph::Graph& graph) { return graph.build(handle, {fe::HeurMode_t::A}); }, refusal);
}

// Of the backward pass: sums in order take memory that grows with the square of the positions before cuDNN 9.25.
Plan plan_of(const AttentionBackward& call, Stream& stream, cudnnHandle_t handle, std::string& refusal) {
    const SumsOfAttention asked = stream.device().options().attention_backward;
    if (asked == SumsOfAttention::fast) return plan_of(call, false, handle, refusal);
    Plan ordered = plan_of(call, true, handle, refusal);
    if (asked == SumsOfAttention::deterministic) return ordered;
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    if (ordered.graph != nullptr && static_cast<std::size_t>(ordered.workspace) <= free) return ordered;
    Plan quick = plan_of(call, false, handle, refusal);
    if (quick.graph == nullptr) return ordered;
    std::fprintf(
        stderr,
        "note: the gradients of attention %s are summed as they come, so their last bits differ from run to run: %s; "
        "--attention-backward deterministic insists\n",
        describe(call).c_str(),
        ordered.graph == nullptr ? "cuDNN has no plan that sums in order"
                                 : cat("in order takes ", bytes_text(static_cast<std::size_t>(ordered.workspace)),
                                       " more, and ", bytes_text(free), " are free")
                                       .c_str());
    return quick;
}

Plan plan_of(const AttentionForward& call, Stream&, cudnnHandle_t handle, std::string& refusal) {
    return plan_of(call, true, handle, refusal);
}

// Runs the graph of a call, where cuDNN has one for it.
template <typename Call>
bool run(const char* name, const Call& call, const Key& key, std::unordered_map<std::int64_t, void*> tensors,
         Stream& stream) {
    std::unique_ptr<ProviderCache>& kept = stream.native()->attention;
    if (kept == nullptr) kept = std::make_unique<cudnn::Cache<Key>>();
    auto& cache = static_cast<cudnn::Cache<Key>&>(*kept);
    const auto [found, is_new] = cache.plans.try_emplace(key);
    Plan& plan = found->second;
    if (is_new) {
        std::string refusal;
        plan = plan_of(call, stream, cache.handle, refusal);
        if (plan.graph == nullptr) std::fprintf(stderr, "%s\n", cudnn_refusal(name, describe(call), refusal).c_str());
    }
    if (plan.graph == nullptr) return false;
    cudnn::execute(plan, cache.handle, std::move(tensors), stream);
    return true;
}

void* pointer(const Input& t) {
    return const_cast<void*>(t.data);
}

}  // namespace

bool cudnn_attention_forward(const AttentionForward& c, Stream& stream) {
    if (!cudnn_takes(c)) return false;
    const Key key{false,
                  c.causal,
                  c.q.dtype,
                  c.scale,
                  {c.B, c.T, c.S, c.NH, c.KVH, c.HS, c.window, c.ld_q, c.ld_k, c.ld_v, c.ld_out}};
    return run("attention_forward", c, key,
               {{uid_q, pointer(c.q)},
                {uid_k, pointer(c.k)},
                {uid_v, pointer(c.v)},
                {uid_out, c.out.data},
                {uid_stats, c.lse.data}},
               stream);
}

bool cudnn_attention_backward(const AttentionBackward& c, Stream& stream) {
    if (!cudnn_takes(c)) return false;
    const Key key{true,
                  c.causal,
                  c.q.dtype,
                  c.scale,
                  {c.B, c.T, c.S, c.NH, c.KVH, c.HS, c.window, c.ld_q, c.ld_k, c.ld_v, c.ld_out, c.ld_dout, c.ld_dq,
                   c.ld_dk, c.ld_dv}};
    return run("attention_backward", c, key,
               {{uid_q, pointer(c.q)},
                {uid_k, pointer(c.k)},
                {uid_v, pointer(c.v)},
                {uid_out, pointer(c.out)},
                {uid_stats, pointer(c.lse)},
                {uid_dout, pointer(c.dout)},
                {uid_dq, c.dq.data},
                {uid_dk, c.dk.data},
                {uid_dv, c.dv.data}},
               stream);
}

std::string attention_provider() {
    return "cuDNN in bf16 and f16, else blocks of our own";
}

#else

bool cudnn_attention_forward(const AttentionForward&, Stream&) {
    return false;
}

bool cudnn_attention_backward(const AttentionBackward&, Stream&) {
    return false;
}

std::string attention_provider() {
    return "blocks of our own (the build found no cuDNN)";
}

#endif

}  // namespace thunder

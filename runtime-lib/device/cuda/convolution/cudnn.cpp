// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN, through its frontend's headers: a graph for each form of a call, made when it is first met and
// kept: of the convolution with the bias and the residual behind it, where cuDNN has a plan for that, else of the
// convolution alone, which a kernel finishes. Activations are that kernel's, as all others of a program.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/convolution/epilogue.h"
#include "device/cuda/convolution/convolution.h"
#include "device/describe.h"
#include "support/text.h"

#ifdef THUNDER_CUDNN_FRONTEND
#include "device/cuda/cudnn/graphs.h"
#endif

namespace thunder {

#ifdef THUNDER_CUDNN_FRONTEND

namespace {

namespace fe = cudnn_frontend;

enum class ConvolutionPass : std::uint8_t { forward, input, weight };
enum ConvolutionUid : std::int64_t { uid_x = 1, uid_weight, uid_y, uid_bias, uid_residual };

// What a graph depends on: the pass, whether tensor cores may round, what it adds, and the form.
struct ConvolutionKey {
    ConvolutionPass pass;
    bool tf32, bias, residual;
    std::array<std::int64_t, 22> sizes;
    auto operator<=>(const ConvolutionKey&) const = default;
};

// The form as cuDNN takes it: two dimensions or three, with what the window reaches beyond the elements on both sides.
struct ConvolutionSizes {
    std::size_t first;  // of the dimensions: those in front of it are 1 throughout
    std::vector<std::int64_t> x, weight, y, strides, dilations, before, behind;

    explicit ConvolutionSizes(const ConvolutionForm& f)
        : first(f.in[0] == 1 && f.out[0] == 1 && f.window[0] == 1 && f.before[0] == 0 ? 1 : 0),
          x{f.N, f.C},
          weight{f.M, f.C / f.groups},
          y{f.N, f.M} {
        for (std::size_t d = first; d < 3; ++d) {
            x.push_back(f.in[d]);
            weight.push_back(f.window[d]);
            y.push_back(f.out[d]);
            strides.push_back(f.strides[d]);
            dilations.push_back(f.dilations[d]);
            before.push_back(f.before[d]);
            behind.push_back((f.out[d] - 1) * f.strides[d] + (f.window[d] - 1) * f.dilations[d] + 1 - f.in[d] -
                             f.before[d]);
        }
    }
};

fe::graph::Tensor_attributes dense_tensor(const char* name, ConvolutionUid uid, const std::vector<std::int64_t>& dims) {
    std::vector<std::int64_t> strides(dims.size(), 1);
    for (std::size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
    return fe::graph::Tensor_attributes()
        .set_name(name)
        .set_uid(uid)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(dims)
        .set_stride(strides);
}

template <typename Attributes>
Attributes attributes_of(const ConvolutionSizes& sizes) {
    // Where the last window ends before the last element, the sizes of x say so; padding is never less than none.
    std::vector<std::int64_t> behind = sizes.behind;
    for (std::int64_t& n : behind) n = std::max<std::int64_t>(n, 0);
    Attributes attributes;
    attributes.set_pre_padding(sizes.before).set_post_padding(behind);
    attributes.set_stride(sizes.strides).set_dilation(sizes.dilations);
    return attributes;
}

// sums + bias, then + residual, which are of `like`'s dimensions, the bias by channel.
cudnn::Tensor with_additions(fe::graph::Graph& graph, cudnn::Tensor sums, bool bias, bool residual,
                             const std::vector<std::int64_t>& like) {
    const auto add = [&](const fe::graph::Tensor_attributes& more) {
        sums = graph.pointwise(sums, graph.tensor(more),
                               fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
    };
    std::vector<std::int64_t> channels(like.size(), 1);
    channels[1] = like[1];
    // Sums that are no tensor of the call have the layout of those that are; those of dy do not follow from it.
    const auto dense = dense_tensor("sums", uid_y, like);
    if (bias || residual) sums->set_dim(dense.get_dim()).set_stride(dense.get_stride());
    if (bias) add(dense_tensor("bias", uid_bias, channels));
    if (residual) add(dense_tensor("residual", uid_residual, like));
    return sums;
}

std::shared_ptr<fe::graph::Graph> convolution_graph(const ConvolutionKey& key, const ConvolutionSizes& sizes) {
    auto graph = cudnn::new_graph(DType::f32);
    const auto x = dense_tensor("x", uid_x, sizes.x), weight = dense_tensor("weight", uid_weight, sizes.weight),
               y = dense_tensor("y", uid_y, sizes.y);
    switch (key.pass) {
        case ConvolutionPass::forward: {
            auto sums = graph->conv_fprop(graph->tensor(x), graph->tensor(weight),
                                          attributes_of<fe::graph::Conv_fprop_attributes>(sizes));
            cudnn::set_output(with_additions(*graph, sums, key.bias, key.residual, sizes.y), y);
            break;
        }
        case ConvolutionPass::input: {
            auto sums = graph->conv_dgrad(graph->tensor(y), graph->tensor(weight),
                                          attributes_of<fe::graph::Conv_dgrad_attributes>(sizes));
            cudnn::set_output(with_additions(*graph, sums, key.bias, key.residual, sizes.x), x);
            break;
        }
        case ConvolutionPass::weight:
            cudnn::set_output(graph->conv_wgrad(graph->tensor(y), graph->tensor(x),
                                                attributes_of<fe::graph::Conv_wgrad_attributes>(sizes)),
                              weight);
            break;
    }
    return graph;
}

// The first plan of those that cuDNN proposes that has the same bits in every run and sums products of f32 as they are:
// no transforms of images, and, without --tf32, no tensor cores.
fe::error_t choose_plan(fe::graph::Graph& graph, cudnnHandle_t handle, bool tf32) {
    using Note = fe::NumericalNote_t;
    std::vector<Note> unwanted = {Note::NONDETERMINISTIC, Note::REDUCED_PRECISION_REDUCTION, Note::FFT,
                                  Note::WINOGRAD_TILE_6x6, Note::WINOGRAD_TILE_13x13};
    if (!tf32) unwanted.insert(unwanted.end(), {Note::TENSOR_CORE, Note::DOWN_CONVERT_INPUTS});
    fe::error_t status = graph.validate();
    if (status.is_good()) status = graph.build_operation_graph(handle);
    if (status.is_good()) status = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
    if (status.is_good()) status = graph.deselect_numeric_notes(unwanted).check_support(handle);
    if (status.is_good()) status = graph.build_plans(handle, fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
    return status;
}

bool aligned(const void* data) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

// Where the tensors of a pass lie; of x, weight and y it writes the one that it is of.
struct ConvolutionTensors {
    const void *x, *weight, *y, *bias = nullptr, *residual = nullptr;

    bool all_aligned() const {
        return aligned(x) && aligned(weight) && aligned(y) && aligned(bias) && aligned(residual);
    }
};

// A pass by its graph, where cuDNN has one for it. `told`: that it has none is worth a note.
template <typename Call>
bool run_convolution(ConvolutionPass pass, const char* name, const Call& call, const ConvolutionTensors& tensors,
                     bool exact, bool told, Stream& stream) {
    if (!tensors.all_aligned()) return false;
    const ConvolutionForm& form = call.form;
    if (stream.convolutions() == nullptr) stream.keep_convolutions(new cudnn::Cache<ConvolutionKey>);
    auto& cache = *static_cast<cudnn::Cache<ConvolutionKey>*>(stream.convolutions());
    ConvolutionKey key{pass,
                       exact || stream.device().options().tf32,
                       tensors.bias != nullptr,
                       tensors.residual != nullptr,
                       {form.N, form.C, form.M, form.groups}};
    std::size_t at = 4;
    for (const Sizes* sizes : {&form.in, &form.out, &form.window, &form.strides, &form.dilations, &form.before})
        for (const std::int64_t size : *sizes) key.sizes[at++] = size;
    const auto [found, is_new] = cache.plans.try_emplace(key);
    if (is_new) {
        std::string refusal;
        found->second = cudnn::plan_of(
            [&] { return convolution_graph(key, ConvolutionSizes(form)); },
            [&](fe::graph::Graph& graph) { return choose_plan(graph, cache.handle, key.tf32); }, refusal);
        if (told && found->second.graph == nullptr)
            std::fprintf(stderr,
                         "note: cuDNN has no plan for %s %s%s%s; products of rows compute it, which are slower\n", name,
                         describe(call).c_str(), refusal.empty() ? "" : ": ", refusal.c_str());
    }
    if (found->second.graph == nullptr) return false;
    std::unordered_map<std::int64_t, void*> places = {{uid_x, const_cast<void*>(tensors.x)},
                                                      {uid_weight, const_cast<void*>(tensors.weight)},
                                                      {uid_y, const_cast<void*>(tensors.y)}};
    if (key.bias) places[uid_bias] = const_cast<void*>(tensors.bias);
    if (key.residual) places[uid_residual] = const_cast<void*>(tensors.residual);
    cudnn::execute(found->second, cache.handle, std::move(places), stream);
    return true;
}

// The same with what follows the sums.
template <typename Call>
bool run_and_finish(ConvolutionPass pass, const char* name, const Call& call, ConvolutionTensors tensors, float* result,
                    bool exact, Stream& stream) {
    const ConvolutionEpilogue epilogue = epilogue_of(call);
    if (epilogue.any() && epilogue.activation == Activation::none) {
        ConvolutionTensors all = tensors;
        all.bias = epilogue.bias;
        all.residual = epilogue.residual;
        if (run_convolution(pass, name, call, all, exact, false, stream)) return true;
    }
    if (!run_convolution(pass, name, call, tensors, exact, true, stream)) return false;
    finish_from(0, result, epilogue, call.form.N, stream);
    return true;
}

}  // namespace

bool cudnn_convolution(const ConvolutionForward& c, bool exact, std::size_t, Stream& stream) {
    return run_and_finish(ConvolutionPass::forward, "convolution_forward", c, {c.x.data, c.weight.data, c.y.data},
                          static_cast<float*>(c.y.data), exact, stream);
}

bool cudnn_convolution(const ConvolutionBackwardInput& c, bool exact, std::size_t, Stream& stream) {
    return run_and_finish(ConvolutionPass::input, "convolution_backward_input", c,
                          {c.dx.data, c.weight.data, c.dy.data}, static_cast<float*>(c.dx.data), exact, stream);
}

bool cudnn_convolution(const ConvolutionBackwardWeight& c, bool exact, std::size_t taken, Stream& stream) {
    const ConvolutionForm& form = c.form;
    const auto run = [&](const void* dweight) {
        return run_convolution(ConvolutionPass::weight, "convolution_backward_weight", c,
                               {c.x.data, dweight, c.dy.data}, exact, true, stream);
    };
    if (c.mode == WriteMode::overwrite) {
        if (!run(c.dweight.data)) return false;
    } else {
        // Graphs do not add to what is there: the gradient is written beside it.
        const std::int64_t elements = form.M * form.depth();
        auto* const beside = reinterpret_cast<float*>(
            stream.workspace(taken + static_cast<std::size_t>(elements) * sizeof(float)) + taken);
        if (!run(beside)) return false;
        add_to(static_cast<float*>(c.dweight.data), beside, elements, stream);
    }
    add_up_bias(c, taken, stream);
    return true;
}

#else

bool cudnn_convolution(const ConvolutionForward&, bool, std::size_t, Stream&) {
    return false;
}

bool cudnn_convolution(const ConvolutionBackwardInput&, bool, std::size_t, Stream&) {
    return false;
}

bool cudnn_convolution(const ConvolutionBackwardWeight&, bool, std::size_t, Stream&) {
    return false;
}

#endif

}  // namespace thunder

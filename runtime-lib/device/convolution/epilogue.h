// SPDX-License-Identifier: Apache-2.0
// What stands around the sums of a convolution of f32, on all devices: what follows those of a result, and those of a
// bias's gradient.
#pragma once

#include "device/api.h"
#include "device/stream.h"

namespace thunder {

// result[n, m, i] = activation(sums[n, m, i] + bias[m]) + residual[n, m, i]
struct ConvolutionEpilogue {
    std::int64_t channels = 0, elements = 0;  // of the result: of an image, of a channel
    const float* bias = nullptr;
    Activation activation = Activation::none;
    const float* residual = nullptr;

    bool any() const { return bias != nullptr || activation != Activation::none || residual != nullptr; }
};

inline ConvolutionEpilogue epilogue_of(const ConvolutionForward& call) {
    return {call.form.M, call.form.steps(), static_cast<const float*>(call.bias.data), call.activation,
            static_cast<const float*>(call.residual.data)};
}
inline ConvolutionEpilogue epilogue_of(const ConvolutionBackwardInput& call) {
    return {call.form.C, count(call.form.in), static_cast<const float*>(call.bias.data), call.activation,
            static_cast<const float*>(call.residual.data)};
}

// What a device has for it: so many images of `result`, which has the sums.
void finish(float* result, const ConvolutionEpilogue& epilogue, std::int64_t images, Stream& stream);
// The same of the images from `first` on, where there is something to be done.
inline void finish_from(std::int64_t first, float* result, ConvolutionEpilogue epilogue, std::int64_t images,
                        Stream& stream) {
    if (!epilogue.any()) return;
    const std::int64_t before = first * epilogue.channels * epilogue.elements;
    if (epilogue.residual != nullptr) epilogue.residual += before;
    finish(result + before, epilogue, images, stream);
}

// sums[m] = the sum over n and i of dy[n, m, i], or added to what is there. Behind `taken` bytes of the workspace that
// are in use, of so many more.
void add_up_channels(float* sums, const float* dy, std::int64_t images, std::int64_t channels, std::int64_t elements,
                     WriteMode mode, std::size_t taken, Stream& stream);
std::size_t bytes_to_add_up(std::int64_t images, std::int64_t channels);

// The same for dbias of a call, where that is asked for.
inline void add_up_bias(const ConvolutionBackwardWeight& call, std::size_t taken, Stream& stream) {
    if (!call.dbias) return;
    add_up_channels(static_cast<float*>(call.dbias.data), static_cast<const float*>(call.dy.data), call.form.N,
                    call.form.M, call.form.steps(), call.mode, taken, stream);
}

}  // namespace thunder

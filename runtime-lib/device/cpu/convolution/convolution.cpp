// SPDX-License-Identifier: Apache-2.0
// The calls of the runtime API: who computes them.
#include "device/api.h"
#include "device/call_types.h"
#include "device/cpu/convolution/providers.h"
#include "device/cpu/products.h"
#include "device/describe.h"

namespace thunder {

namespace {

template <typename Call>
void compute(const char* name, const Call& call, Stream& stream) {
    const Timed timed = timed_call(name, call, stream);
    check_types(call);
#ifdef THUNDER_PRODUCTS_ONEDNN
    if (products_by_library() && onednn::convolution(call, stream)) return;
#endif
    by_rows::convolution(call, stream);
}

}  // namespace

void convolution_forward(const ConvolutionForward& call, Stream& stream) {
    compute("convolution_forward", call, stream);
}

void convolution_backward_input(const ConvolutionBackwardInput& call, Stream& stream) {
    compute("convolution_backward_input", call, stream);
}

void convolution_backward_weight(const ConvolutionBackwardWeight& call, Stream& stream) {
    compute("convolution_backward_weight", call, stream);
}

}  // namespace thunder

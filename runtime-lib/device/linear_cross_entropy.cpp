// SPDX-License-Identifier: Apache-2.0
// A head and the cross entropy of its logits, chunk by chunk, of the calls that do it whole: the same on every device.
#include "device/api.h"
#include "device/call_types.h"
#include "device/describe.h"

namespace thunder {

void linear_cross_entropy(const LinearCrossEntropy& call, Stream& stream) {
    const Timed timed = timed_call("linear_cross_entropy", call, stream);
    check_types(call);
    const Input logits = as_input(call.logits), lse = as_input(call.lse);
    const std::int64_t rows = call.chunk;
    for (std::int64_t begin = 0; begin < call.rows; begin += rows) {
        const Input x = advanced(call.x, begin * call.in), labels = advanced(call.labels, begin);
        linear_forward({.y = call.logits,
                        .x = x,
                        .weight = call.weight,
                        .bias = call.bias,
                        .rows = rows,
                        .in = call.in,
                        .out = call.classes},
                       stream);
        cross_entropy_forward({.loss = advanced(call.losses, begin / rows),
                               .lse = call.lse,
                               .logits = logits,
                               .labels = labels,
                               .ignore_index = call.ignore_index,
                               .rows = rows,
                               .classes = call.classes},
                              stream);
        if (!call.dx && !call.dweight) continue;
        cross_entropy_backward({.dlogits = call.logits,
                                .logits = logits,
                                .labels = labels,
                                .lse = lse,
                                .dloss = call.dloss,
                                .ignore_index = call.ignore_index,
                                .rows = rows,
                                .classes = call.classes},
                               stream);
        if (call.dx)
            linear_backward_input({.dx = advanced(call.dx, begin * call.in),
                                   .dy = logits,
                                   .weight = call.weight,
                                   .rows = rows,
                                   .in = call.in,
                                   .out = call.classes},
                                  stream);
        if (call.dweight)
            linear_backward_weight({.dweight = call.dweight,
                                    .dbias = call.dbias,
                                    .dy = logits,
                                    .x = x,
                                    .mode = begin == 0 ? call.mode : WriteMode::add,
                                    .rows = rows,
                                    .in = call.in,
                                    .out = call.classes},
                                   stream);
    }
}

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Access by index in naive programs: element by element.
#include <cstring>
#include <vector>

#include "device/call_types.h"
#include "device/describe.h"
#include "device/reference.h"

namespace thunder {

namespace reference {
namespace {

std::int64_t entry(const Input& index, std::int64_t i) {
    return index.dtype == DType::i32 ? static_cast<const std::int32_t*>(index.data)[i]
                                     : static_cast<const std::int64_t*>(index.data)[i];
}

}  // namespace
}  // namespace reference

void reference_gather(const Gather& call, Stream& stream) {
    const Timed timed = timed_call("reference_gather", call, stream);
    check_types(call);
    const std::size_t bytes = size_of(call.y.dtype);
    auto* y = static_cast<std::byte*>(call.y.data);
    const auto* x = static_cast<const std::byte*>(call.x.data);
    for (std::int64_t o = 0; o < call.outer; ++o)
        for (std::int64_t i = 0; i < call.count; ++i)
            for (std::int64_t k = 0; k < call.inner; ++k) {
                const std::int64_t from = (o * call.entries + reference::entry(call.index, i)) * call.inner + k;
                const std::int64_t to = (o * call.count + i) * call.inner + k;
                std::memcpy(y + static_cast<std::size_t>(to) * bytes, x + static_cast<std::size_t>(from) * bytes,
                            bytes);
            }
}

void reference_scatter_add(const ScatterAdd& call, Stream& stream) {
    const Timed timed = timed_call("reference_scatter_add", call, stream);
    check_types(call);
    auto* y = static_cast<float*>(call.y.data);
    const auto* x = static_cast<const float*>(call.x.data);
    std::vector<double> sums(static_cast<std::size_t>(call.entries));  // of one column
    for (std::int64_t o = 0; o < call.outer; ++o)
        for (std::int64_t k = 0; k < call.inner; ++k) {
            sums.assign(sums.size(), 0.0);
            for (std::int64_t i = 0; i < call.count; ++i)
                sums[static_cast<std::size_t>(reference::entry(call.index, i))] +=
                    static_cast<double>(x[(o * call.count + i) * call.inner + k]);
            for (std::int64_t e = 0; e < call.entries; ++e)
                y[(o * call.entries + e) * call.inner + k] = static_cast<float>(sums[static_cast<std::size_t>(e)]);
        }
}

}  // namespace thunder

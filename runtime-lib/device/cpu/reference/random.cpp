// SPDX-License-Identifier: Apache-2.0
// Numbers that naive programs draw: element by element.
#include "device/call_types.h"
#include "device/describe.h"
#include "device/reference.h"
#include "support/philox.h"

namespace thunder {

namespace reference {
namespace {

// A multiple of 2^-24 in [0, 1).
template <typename Call>
double drawn(const Call& call, std::int64_t row, std::int64_t place) {
    const auto word = [](std::int64_t value, int half) {
        return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> (32 * half));
    };
    const std::int64_t number = static_cast<const std::int64_t*>(call.numbers.data)[row];
    const std::int64_t draw = *static_cast<const std::int64_t*>(call.draw.data);
    const std::int64_t seed = *static_cast<const std::int64_t*>(call.seed.data);
    const PhiloxCounter words = philox({word(place / 4, 0), word(place / 4, 1), word(number, 0), word(number, 1)},
                                       {word(draw, 0), word(seed, 0)});
    return (words[static_cast<std::size_t>(place % 4)] >> 8) * 0x1p-24;
}

}  // namespace
}  // namespace reference

void reference_random_uniform(const RandomUniform& call, Stream& stream) {
    const Timed timed = timed_call("reference_random_uniform", call, stream);
    check_types(call);
    for (std::int64_t row = 0; row < call.rows; ++row)
        for (std::int64_t i = 0; i < call.width; ++i)
            static_cast<float*>(call.y.data)[row * call.width + i] = static_cast<float>(reference::drawn(call, row, i));
}

void reference_random_bernoulli(const RandomBernoulli& call, Stream& stream) {
    const Timed timed = timed_call("reference_random_bernoulli", call, stream);
    check_types(call);
    for (std::int64_t row = 0; row < call.rows; ++row)
        for (std::int64_t i = 0; i < call.width; ++i)
            static_cast<bool*>(call.y.data)[row * call.width + i] = reference::drawn(call, row, i) < call.p;
}

}  // namespace thunder

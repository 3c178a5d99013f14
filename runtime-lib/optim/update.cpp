// SPDX-License-Identifier: Apache-2.0
#include "optim/update.h"

#include <algorithm>
#include <bit>

#include "device/cpu/elements.h"
#include "optim/describe.h"
#include "optim/rounding.h"
#include "optim/walk_segments.h"

namespace thunder {

namespace {

using rules::fields_of;

// Of parameters in bf16, which `rounding` decides of.
void put_back_at_random(const Output& parameters, std::int64_t at, const float* from, std::int64_t n,
                        std::uint64_t rounding, const ParameterSegment& segment) {
    bf16* to = static_cast<bf16*>(parameters.data) + at;
    const auto first = static_cast<std::uint64_t>(segment.first + at - segment.begin);
    for (std::int64_t i = 0; i < n; ++i)
        to[i].bits = rounded_at_random(std::bit_cast<std::uint32_t>(from[i]),
                                       rounding_bits(rounding, segment.tensor, first + static_cast<std::uint64_t>(i)));
}

using rules::Indices;
using rules::IndicesBelow;

template <typename Rule, int... k>
void update(const OptimizerUpdate& call, Stream& stream, Indices<k...>) {
    const Timed timed = timed_call(Rule::name, call, stream);
    require_float(Rule::name, "parameters", call.parameters);
    require_float(Rule::name, "gradients", call.gradients);
    require_float(Rule::name, "states", call.states[0]);
    (require_dtype(Rule::name, "states", call.states[k], call.states[0].dtype), ...);
    require_dtype(Rule::name, "bf16_copies", call.bf16_copies, DType::bf16);
    const float clip = call.scalars->clip_factor;
    const bool rounds_at_random = call.scalars->rounding != 0 && call.parameters.dtype == DType::bf16;
    walk_segments(call.segments, [&](std::int64_t begin, std::int64_t end, const ParameterSegment& segment) {
        const double* of_run = call.scalars->rule;
        auto numbers = fields_of<Rule::template Numbers, float>(of_run + numbers_of_group(segment.group));
        Rule::decay_where(segment.decay, numbers);
        float buffers[2 + sizeof...(k)][piece_elements];
        const std::int64_t piece =
            piece_of(end - begin, {call.parameters.dtype, call.gradients.dtype, call.states[k].dtype...,
                                   call.bf16_copies ? DType::bf16 : DType::f32});
        for (std::int64_t at = begin; at < end; at += piece) {
            const std::int64_t n = std::min(piece, end - at);
            float* __restrict p = elements(call.parameters, at, n, buffers[0]);
            const float* __restrict g = elements(call.gradients, at, n, buffers[1]);
            float* s[] = {elements(call.states[k], at, n, buffers[2 + k])..., nullptr};
#pragma omp simd
            for (std::int64_t i = 0; i < n; ++i)
                Rule::element(p[i], clip * g[i], typename Rule::template States<float&>{s[k][i]...}, numbers);
            if (rounds_at_random)
                put_back_at_random(call.parameters, at, p, n, call.scalars->rounding, segment);
            else
                put_back(call.parameters, at, p, n);
            (put_back(call.states[k], at, s[k], n), ...);
            put_back(call.bf16_copies, at, p, n);
        }
    });
}

}  // namespace

#define THUNDER_DEFINE_UPDATE(name, Rule)                                               \
    static_assert(rules::states<Rule> <= rules::most_states);                           \
    static_assert(rules::count<Rule::template Numbers> <= rules::most_numbers);         \
    void name(const OptimizerUpdate& call, Stream& stream) {                            \
        update<Rule>(call, stream, typename IndicesBelow<rules::states<Rule>>::type()); \
    }
THUNDER_RULES(THUNDER_DEFINE_UPDATE)
#undef THUNDER_DEFINE_UPDATE

}  // namespace thunder

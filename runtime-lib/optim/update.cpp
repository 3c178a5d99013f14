// SPDX-License-Identifier: Apache-2.0
#include "optim/update.h"

#include <algorithm>

#include "device/cpu/elements.h"
#include "optim/describe.h"
#include "optim/walk_segments.h"

namespace thunder {

namespace {

using rules::fields_of;
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

// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <cstring>

#include "device/stream.h"
#include "optim/global_norm.h"
#include "optim/update.h"

namespace {

using thunder::DType;
using thunder::ParameterSpec;

constexpr std::int64_t B = 2, D = 3;
constexpr std::size_t WEIGHT = 0, BIAS = 64, PARAMETERS = 128;
constexpr std::size_t X = 0, USE = 64, KIND = 128, OFFSET = 192, TARGET = 256, BATCH = 320;
constexpr std::int64_t row[] = {1, D}, one[] = {1}, points[] = {B, D}, rows[] = {B}, offset[] = {D};

constexpr ParameterSpec parameters[] = {
    {"weight", DType::f32, row, WEIGHT, D * 4, true, ParameterSpec::Init::normal, {}, ""},
    {"bias", DType::f32, one, BIAS, 4, true, ParameterSpec::Init::zeros, {}, ""},
};
constexpr thunder::InputSpec inputs[] = {
    {"x", DType::f32, points, X, B* D * 4, true, -1, 0, ""},
    {"use", DType::boolean, rows, USE, B, true, -1, 0, ""},
    {"kind", DType::i32, rows, KIND, B * 4, true, 2, 0, ""},
    {"offset", DType::f32, offset, OFFSET, D * 4, false, -1, 0, ""},
    {"target", DType::f32, rows, TARGET, B * 4, true, -1, 0, ""},
};

}  // namespace

const thunder::ProgramSpec PROGRAM = {
    .name = "line",
    .optimizer = "sgd",
    .parameters = parameters,
    .constants = {},
    .inputs = inputs,
    .arena_bytes = {PARAMETERS, PARAMETERS, PARAMETERS, 0, 0, 0, BATCH},
    .batch = B,
    .tokens = B,
#ifdef LINE_TERMS
    .loss = thunder::Loss::terms,
    .default_grad_accum = 1,
    .flops_per_micro_step = 0,
    .loss_weights = 2,
#else
    .loss = thunder::Loss::average,
    .default_grad_accum = 1,
    .flops_per_micro_step = 0,
#endif
};

void Model::loss_weight() {
    arenas_.loss_weights[0] += 1;
    for (std::int64_t b = 0; b < B; ++b)
        arenas_.loss_weights[1] += arenas_.batch[USE + static_cast<std::size_t>(b)] == std::byte{0} ? 0 : 1;
}

void Model::forward_backward(thunder::WriteMode mode) {
    const auto input = [&](std::size_t offset) { return reinterpret_cast<const float*>(arenas_.batch + offset); };
    const auto* weight = reinterpret_cast<const float*>(arenas_.parameters + WEIGHT);
    const auto* bias = reinterpret_cast<const float*>(arenas_.parameters + BIAS);
    const auto* kind = reinterpret_cast<const std::int32_t*>(arenas_.batch + KIND);
    auto* dweight = reinterpret_cast<float*>(arenas_.gradients + WEIGHT);
    auto* dbias = reinterpret_cast<float*>(arenas_.gradients + BIAS);
    if (mode == thunder::WriteMode::overwrite) std::memset(arenas_.gradients, 0, PARAMETERS);
    const bool terms = PROGRAM.loss == thunder::Loss::terms;
    const float count = terms ? arenas_.loss_weights[1] : B;
    float sum = 0;
    for (std::int64_t b = 0; b < B; ++b) {
        if (arenas_.batch[USE + static_cast<std::size_t>(b)] == std::byte{0}) continue;
        float y = *bias * static_cast<float>(1 - kind[b]);
        for (std::int64_t d = 0; d < D; ++d) y += weight[d] * (input(X)[b * D + d] + input(OFFSET)[d]);
        const float error = y - input(TARGET)[b], dy = 2 * error / count * arenas_.scalars->dloss;
        sum += error * error;
        for (std::int64_t d = 0; d < D; ++d) dweight[d] += dy * (input(X)[b * D + d] + input(OFFSET)[d]);
        *dbias += dy * static_cast<float>(1 - kind[b]);
    }
    arenas_.scalars->loss_sum += sum / count;
}

void Model::clip() {
    const auto* gradients = reinterpret_cast<const float*>(arenas_.gradients);
    thunder::global_norm(arenas_.scalars, gradients, PARAMETERS / 4, stream_);
}

void Model::update(const thunder::UpdatePart& part, thunder::Stream& stream) {
    const auto* gradients = reinterpret_cast<const float*>(arenas_.gradients);
    thunder::sgd({.parameters = reinterpret_cast<float*>(arenas_.parameters),
                  .gradients = gradients,
                  .states = {reinterpret_cast<float*>(arenas_.optimizer)},
                  .segments = part.segments,
                  .scalars = part.scalars},
                 stream);
}

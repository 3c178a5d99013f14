#include "model.h"

#include <cmath>
#include <cstring>

#include "device/stream.h"
#include "optim/adamw.h"
#include "optim/global_norm.h"

#ifndef WORDS_BATCH
#define WORDS_BATCH 4
#endif

namespace {

using thunder::DType;
using thunder::ParameterSpec;

constexpr std::int64_t B = WORDS_BATCH, T = 6, V = 11, D = 8;

// Parameters begin at multiples of 64 bytes; what lies between is padding.
constexpr std::size_t EMBED = 0, HEAD = 384, BIAS = 768, SCALE = 832, FROZEN = 896, PARAMETERS = 960;
constexpr std::size_t IDS = 0, LABELS = B * T * 8, BATCH = 2 * B * T * 8;

constexpr std::int64_t matrix[] = {V, D}, vocabulary[] = {V}, width[] = {D}, tokens[] = {B, T};
constexpr std::string_view embed_aliases[] = {"model.tied.weight"};

constexpr ParameterSpec parameters[] = {
    {"model.embed.weight", DType::f32, matrix, EMBED, V* D * 4, true, ParameterSpec::Init::normal, embed_aliases, ""},
    {"model.head.weight", DType::f32, matrix, HEAD, V* D * 4, true, ParameterSpec::Init::normal, {}, ""},
    {"model.head.bias", DType::f32, vocabulary, BIAS, V * 4, true, ParameterSpec::Init::zeros, {}, ""},
    {"model.norm.one_plus_weight",
     DType::f32,
     width,
     SCALE,
     D * 4,
     true,
     ParameterSpec::Init::ones,
     {},
     "the exporter stored 1 + model.norm.weight"},
    {"model.frozen.weight", DType::f32, width, FROZEN, D * 4, false, ParameterSpec::Init::ones, {}, ""},
};
constexpr thunder::ConstantSpec constants[] = {{"table", DType::f32, width, 0, D * 4}};
constexpr thunder::InputSpec inputs[] = {
    {"input_ids", DType::i64, tokens, IDS, B* T * 8, true, V, 0, "tokens"},
    {"labels", DType::i64, tokens, LABELS, B* T * 8, true, V, -100, "next_tokens"},
};

}  // namespace

const thunder::ProgramSpec PROGRAM = {
    .name = "words",
    .optimizer = "adamw",
    .parameters = parameters,
    .constants = constants,
    .inputs = inputs,
    .arena_bytes = {PARAMETERS, PARAMETERS, 2 * PARAMETERS, 0, 0, D * 4, BATCH},
    .batch = B,
    .tokens = B * T,
    .weighted_loss = true,
    .default_grad_accum = 1,
    .flops_per_micro_step = 0,
};

void Model::loss_weight() {
    const auto* labels = reinterpret_cast<const std::int64_t*>(arenas_.batch + LABELS);
    for (std::int64_t i = 0; i < B * T; ++i) arenas_.scalars->loss_weight += labels[i] == -100 ? 0.0F : 1.0F;
}

void Model::forward_backward(thunder::Gradient gradient) {
    const auto parameter = [&](std::size_t offset) {
        return reinterpret_cast<const float*>(arenas_.parameters + offset);
    };
    const auto grad = [&](std::size_t offset) { return reinterpret_cast<float*>(arenas_.gradients + offset); };
    const float *embed = parameter(EMBED), *head = parameter(HEAD), *bias = parameter(BIAS), *scale = parameter(SCALE),
                *frozen = parameter(FROZEN);
    const auto* table = reinterpret_cast<const float*>(arenas_.constants);
    const auto* ids = reinterpret_cast<const std::int64_t*>(arenas_.batch + IDS);
    const auto* labels = reinterpret_cast<const std::int64_t*>(arenas_.batch + LABELS);
    if (gradient == thunder::Gradient::overwrite) std::memset(arenas_.gradients, 0, PARAMETERS);

    // Position after position, each adding to the gradients at once: two half batches give the same bits as a whole
    // one.
    for (std::int64_t i = 0; i < B * T; ++i) {
        if (labels[i] == -100) continue;
        float x[D], dx[D] = {}, probability[V], largest = -INFINITY, sum = 0;
        for (std::int64_t d = 0; d < D; ++d) x[d] = embed[ids[i] * D + d] * scale[d] * frozen[d] + table[d];
        for (std::int64_t v = 0; v < V; ++v) {
            probability[v] = bias[v];
            for (std::int64_t d = 0; d < D; ++d) probability[v] += x[d] * head[v * D + d];
            largest = std::fmax(largest, probability[v]);
        }
        const float logit = probability[labels[i]];
        for (float& p : probability) sum += p = std::exp(p - largest);
        arenas_.scalars->loss_sum += largest + std::log(sum) - logit;
        for (std::int64_t v = 0; v < V; ++v) {
            const float dlogit = (probability[v] / sum - (v == labels[i] ? 1.0F : 0.0F)) * arenas_.scalars->dloss;
            grad(BIAS)[v] += dlogit;
            for (std::int64_t d = 0; d < D; ++d) {
                grad(HEAD)[v * D + d] += dlogit * x[d];
                dx[d] += dlogit * head[v * D + d];
            }
        }
        for (std::int64_t d = 0; d < D; ++d) {
            grad(EMBED)[ids[i] * D + d] += dx[d] * scale[d] * frozen[d];
            grad(SCALE)[d] += dx[d] * embed[ids[i] * D + d] * frozen[d];
        }
    }
}

void Model::update() {
    auto* parameters = reinterpret_cast<float*>(arenas_.parameters);
    const auto* gradients = reinterpret_cast<const float*>(arenas_.gradients);
    auto* moments = reinterpret_cast<float*>(arenas_.optimizer);
    constexpr std::int64_t elements = PARAMETERS / 4;
    thunder::global_norm(arenas_.scalars, gradients, elements, stream_);
    thunder::adamw({.parameters = parameters,
                    .gradients = gradients,
                    .first_moments = moments,
                    .second_moments = moments + elements,
                    .segments = arenas_.segments,
                    .scalars = arenas_.scalars},
                   stream_);
}

// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <cstring>

#include "device/stream.h"
#include "optim/global_norm.h"
#include "optim/update.h"
#include "words.h"

#ifndef WORDS_BATCH
#define WORDS_BATCH 4
#endif

namespace {

using thunder::DType;
using thunder::ParameterSpec;

using words::D;
using words::T;
using words::V;

constexpr std::int64_t B = WORDS_BATCH;

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
    .loss = thunder::Loss::mean,
    .default_grad_accum = 1,
    .flops_per_micro_step = 6.0 * B * T * D * V,  // one product, and two of its gradients
#ifndef WORDS_WITHOUT_PAIR                        // one whose compiler found none
    .tieable = {"model.embed.weight", "model.head.weight"},
#endif
};

void Model::loss_weight() {
    arenas_.scalars->loss_weight += words::weight(reinterpret_cast<const std::int64_t*>(arenas_.batch + LABELS), B);
}

void Model::forward_backward(thunder::WriteMode mode) {
    if (mode == thunder::WriteMode::overwrite) std::memset(arenas_.gradients, 0, PARAMETERS);
    const auto tensors = [](std::byte* arena) {
        const auto at = [&](std::size_t offset) { return reinterpret_cast<float*>(arena + offset); };
        return words::Tensors{at(EMBED), at(HEAD), at(BIAS), at(SCALE), at(FROZEN)};
    };
    words::forward_backward(tensors(arenas_.parameters), tensors(arenas_.gradients),
                            reinterpret_cast<const float*>(arenas_.constants),
                            reinterpret_cast<const std::int64_t*>(arenas_.batch + IDS),
                            reinterpret_cast<const std::int64_t*>(arenas_.batch + LABELS), B, *arenas_.scalars);
}

void Model::clip() {
    const auto* gradients = reinterpret_cast<const float*>(arenas_.gradients);
    thunder::global_norm(arenas_.scalars, gradients, PARAMETERS / 4, stream_);
}

void Model::update(const thunder::UpdatePart& part, thunder::Stream& stream) {
    auto* parameters = reinterpret_cast<float*>(arenas_.parameters);
    const auto* gradients = reinterpret_cast<const float*>(arenas_.gradients);
    auto* moments = reinterpret_cast<float*>(arenas_.optimizer);
    constexpr std::int64_t elements = PARAMETERS / 4;
    thunder::adamw({.parameters = parameters,
                    .gradients = gradients,
                    .states = {moments, moments + elements},
                    .segments = part.segments,
                    .scalars = part.scalars},
                   stream);
}

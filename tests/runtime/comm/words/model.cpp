// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "optim/global_norm.h"
#include "optim/update.h"
#include "words.h"

#ifndef WORDS_BATCH
#define WORDS_BATCH 2
#endif
#ifndef WORDS_STREAMS
#define WORDS_STREAMS 2
#endif

namespace {

using thunder::DType;
using thunder::ParameterSpec;
using words::D;
using words::T;
using words::V;

constexpr std::int64_t B = WORDS_BATCH;
constexpr thunder::Mesh mesh{WORDS_REPLICAS, WORDS_SHARDS};
constexpr bool sharded = mesh.shards > 1;

// Two units: the matrices, and all vectors. Shards of whole cache lines; a rank holds shard after shard.
constexpr std::int64_t matrices = 2 * V * D + 16, vectors = 48;  // elements, with padding between parameters
constexpr std::int64_t shard_of(std::int64_t elements) {
    return (elements + mesh.shards * 16 - 1) / (mesh.shards * 16) * 16;
}
constexpr std::int64_t M = shard_of(matrices), N = shard_of(vectors), HELD = M + N;
// In the gathered units, in elements.
constexpr std::size_t EMBED = 0, HEAD = 96, BIAS = 0, SCALE = 16, FROZEN = 32;
constexpr std::size_t at_matrices = 0, at_vectors = sharded ? 0 : M * 4;  // of ParameterSpec::offset
constexpr std::int32_t of_matrices = sharded ? 0 : -1, of_vectors = sharded ? 1 : -1;
constexpr std::size_t IDS = 0, LABELS = B * T * 8, BATCH = 2 * B * T * 8;

constexpr std::int64_t matrix[] = {V, D}, vocabulary[] = {V}, width[] = {D}, tokens[] = {B, T};
constexpr std::string_view embed_aliases[] = {"model.tied.weight"};

// Unit by unit, the vectors first: another order than the same model's on one rank.
constexpr ParameterSpec parameters[] = {
    {"model.head.bias",
     DType::f32,
     vocabulary,
     at_vectors + BIAS * 4,
     V * 4,
     true,
     ParameterSpec::Init::zeros,
     {},
     "",
     of_vectors},
    {"model.norm.one_plus_weight",
     DType::f32,
     width,
     at_vectors + SCALE * 4,
     D * 4,
     true,
     ParameterSpec::Init::ones,
     {},
     "the exporter stored 1 + model.norm.weight",
     of_vectors},
    {"model.frozen.weight",
     DType::f32,
     width,
     at_vectors + FROZEN * 4,
     D * 4,
     false,
     ParameterSpec::Init::ones,
     {},
     "",
     of_vectors},
    {"model.embed.weight", DType::f32, matrix, at_matrices + EMBED * 4, V* D * 4, true, ParameterSpec::Init::normal,
     embed_aliases, "", of_matrices},
    {"model.head.weight",
     DType::f32,
     matrix,
     at_matrices + HEAD * 4,
     V* D * 4,
     true,
     ParameterSpec::Init::normal,
     {},
     "",
     of_matrices},
};
constexpr thunder::ConstantSpec constants[] = {{"table", DType::f32, width, 0, D * 4}};
constexpr thunder::InputSpec inputs[] = {
    {"input_ids", DType::i64, tokens, IDS, B* T * 8, true, V, 0, "tokens"},
    {"labels", DType::i64, tokens, LABELS, B* T * 8, true, V, -100, "next_tokens"},
};
constexpr thunder::UnitSpec units[] = {{"matrices", M, 0}, {"vectors", N, M * 4}};
constexpr std::string_view streams[] = {"gather", "reduce"};

// What is gathered of the parameters, and what is to be reduced of the gradients: scratch memory.
constexpr std::int64_t GATHERED = (M + N) * mesh.shards;

// What tests make a rank do in a step of their choice: WORDS_DIES="1 in step 3", WORDS_HANGS; "-1 in step 3": all.
void misbehave(const char* variable, std::int64_t step, void (*how)()) {
    const char* told = std::getenv(variable);
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    if (told == nullptr || rank == nullptr) return;
    int which = 0, when = 0;
    if (std::sscanf(told, "%d in step %d", &which, &when) == 2 && (which == std::atoi(rank) || which < 0) &&
        when == step)
        how();
}

// An error that takes its time to be told, and all that was built for the step is gone by then.
struct SlowlyTold : std::exception {
    const char* what() const noexcept override {
        sleep(1);
        return "this step has failed";
    }
};

}  // namespace

const thunder::ProgramSpec PROGRAM = {
    .name = "words",
    .optimizer = "adamw",
    .parameters = parameters,
    .constants = constants,
    .inputs = inputs,
    .arena_bytes = {HELD * 4, HELD * 4, 2 * HELD * 4, 0, 2 * GATHERED * 4, D * 4, BATCH},
    .batch = B,
    .tokens = B * T,
    .loss = thunder::Loss::mean,
    .default_grad_accum = 1,
    .flops_per_micro_step = 0,
    .mesh = mesh,
    .units = sharded ? std::span<const thunder::UnitSpec>(units) : std::span<const thunder::UnitSpec>(),
    .streams = std::span(streams).first<WORDS_STREAMS>(),
    .schedule = WORDS_SCHEDULE};

void Model::loss_weight() {
    arenas_.scalars->loss_weight += words::weight(reinterpret_cast<const std::int64_t*>(arenas_.batch + LABELS), B);
}

void Model::forward_backward(const thunder::MicroStep& step) {
    misbehave("WORDS_DIES", arenas_.scalars->step, [] { raise(SIGKILL); });
    misbehave("WORDS_STOPS", arenas_.scalars->step, [] { raise(SIGSTOP); });
    misbehave("WORDS_HANGS", arenas_.scalars->step, [] {
        for (;;) sleep(1);
    });
    misbehave("WORDS_INT", arenas_.scalars->step, [] { raise(SIGINT); });
    misbehave("WORDS_TERM", arenas_.scalars->step, [] { raise(SIGTERM); });
    misbehave("WORDS_LAGS", arenas_.scalars->step, [] { usleep(500000); });
    const auto floats = [](std::byte* arena) { return reinterpret_cast<float*>(arena); };
    float *held = floats(arenas_.parameters), *gradients = floats(arenas_.gradients);
    float *weights = held, *dweights = gradients;
    if (sharded) {
        weights = floats(arenas_.scratch);
        dweights = weights + GATHERED;
        stream_.record(updated_);
        gather_.wait(updated_);
        all_gather({.unit = weights, .shard = held, .elements = M, .what = "weights of the matrices"}, gather_);
        all_gather({.unit = weights + M * mesh.shards, .shard = held + M, .elements = N, .what = "vectors"}, gather_);
        gather_.record(gathered_);
        stream_.wait(gathered_);
        std::memset(dweights, 0, GATHERED * 4);
    } else if (step.mode == thunder::WriteMode::overwrite) {
        std::memset(dweights, 0, HELD * 4);
    }
    const auto tensors = [](float* units) {
        float* of_vectors = units + M * mesh.shards;
        return words::Tensors{units + EMBED, units + HEAD, of_vectors + BIAS, of_vectors + SCALE, of_vectors + FROZEN};
    };
    words::forward_backward(tensors(weights), tensors(dweights), reinterpret_cast<const float*>(arenas_.constants),
                            reinterpret_cast<const std::int64_t*>(arenas_.batch + IDS),
                            reinterpret_cast<const std::int64_t*>(arenas_.batch + LABELS), B, *arenas_.scalars);
    stream_.record(computed_);
    reduce_.wait(computed_);
    if (sharded) {
        reduce_scatter({.shard = gradients,
                        .unit = dweights,
                        .elements = M,
                        .mode = step.mode,
                        .what = "gradients of the matrices"},
                       reduce_);
        reduce_scatter({.shard = gradients + M,
                        .unit = dweights + M * mesh.shards,
                        .elements = N,
                        .mode = step.mode,
                        .what = "gradients of the vectors"},
                       reduce_);
    }
    if (step.last && mesh.replicas > 1)
        all_reduce({.buffer = gradients,
                    .elements = HELD,
                    .group = sharded ? thunder::Group::replica : thunder::Group::world,
                    .what = "gradients"},
                   reduce_);
    misbehave("WORDS_FAILS", arenas_.scalars->step, [] { throw SlowlyTold(); });
    reduce_.record(reduced_);
    stream_.wait(reduced_);
}

void Model::clip() {
    const auto* gradients = reinterpret_cast<const float*>(arenas_.gradients);
    thunder::sharded_norm({.scalars = arenas_.scalars, .gradients = gradients, .elements = HELD}, stream_);
}

void Model::update(const thunder::UpdatePart& part, thunder::Stream& stream) {
    auto* held = reinterpret_cast<float*>(arenas_.parameters);
    const auto* gradients = reinterpret_cast<const float*>(arenas_.gradients);
    auto* moments = reinterpret_cast<float*>(arenas_.optimizer);
    thunder::adamw({.parameters = held,
                    .gradients = gradients,
                    .states = {moments, moments + HELD},
                    .segments = part.segments,
                    .scalars = part.scalars},
                   stream);
}

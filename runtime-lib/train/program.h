// SPDX-License-Identifier: Apache-2.0
// What a generated program says of itself to the part of the runtime that trains it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "comm/mesh.h"
#include "program/tensors.h"

namespace thunder {

enum class Arena : std::uint8_t {
    parameters,
    gradients,
    optimizer,
    saved,
    scratch,
    constants,
    batch,
    narrow_copies,
    gathered,
    unit_gradients,
    scaling,
    count
};

using ArenaBytes = std::array<std::size_t, static_cast<std::size_t>(Arena::count)>;

// A unit of parameters that are sharded together: a flat tensor in which they lie one behind the other, padded to
// shards of equal length. A rank holds one shard of it; gathered, they are as the model reads them.
struct UnitSpec {
    std::string_view name;  // "model.layers.3", for messages
    std::int64_t elements;  // of one shard
    std::size_t offset;     // bytes into the parameter arena where this rank's shard lies
    DType dtype = DType::f32;
};

// What a step's loss is of the numbers that forward_backward adds up over micro-steps and ranks.
enum class Loss : std::uint8_t {
    average,  // their mean: each micro-batch of each rank counts the same
    mean,     // their sum, divided by the sum of the weights that Model::loss_weight adds up first: loss_weight
    terms,    // their sum: each term has been divided by its own sum of weights, loss_weights, on the way
};

// The table of the model's embedding and the weight of the product that makes its logits, where they have one shape:
// parameters that checkpoints of models which tie the two have one of. "" where there is no such pair.
struct TieablePair {
    std::string_view embedding, logits;
};

// A row of a table that has no gradient where it is looked up (padding_idx).
struct PaddedRow {
    std::string_view parameter;
    std::int64_t row;
};

// Elements [begin, end) of the arena of parameters, as a part of the update steps them; of a loop's layers `layers`
// parts, numbered one behind the other, whose elements lie `stride` apart.
struct UpdateRange {
    std::int64_t part, layers, begin, end, stride;
};

// Adapters of low rank that are trained beside frozen weights; their parameters are called as PEFT calls them.
struct AdapterSpec {
    std::int64_t rank;
    double alpha, dropout;
    bool rank_stabilized;                                // scaled by alpha / sqrt(rank), not by alpha / rank
    bool fan_in_fan_out;                                 // there are layers whose weights are (in, out)
    std::span<const std::string_view> targets, saved{};  // modules with adapters, and those that are trained whole
};

// What is quantised, by a scale for each tensor that follows from its amaxes (device/fp8_recipe.h). In the arena
// `scaling` lie an amax of each, then a scale of each, then a history of each.
struct ScalingSpec {
    std::string_view recipe{};                    // that of --fp8; empty: nothing is
    std::span<const std::string_view> tensors{};  // "model.layers.0.mlp.down_proj.input"
    std::span<const ParameterSpec> states{};      // of all tensors side by side: their scales, their histories
};

// Whom the first line of a run names: those who have calls that the program makes.
struct Providers {
    bool products = false;     // of the device's library, or of whoever stands in for it: linear_forward, matmul, ...
    bool plain_loops = false;  // products of a naive program: reference_matmul
    bool attention = false;
};

// A tensor that a call of the step writes, as --numerics names it: results of one call stand behind one another.
struct ResultSpec {
    std::int32_t call;               // which of its function's, in the order of the text
    std::string_view name;           // of the call: "linear_forward", or the kernel's
    std::string_view field;          // of the call's struct; of a kernel "": its results have their order
    std::int32_t result;             // of a kernel: which one
    std::string_view tensor, scope;  // "qkv_proj", as the text has it; "self_attn.{q,k,v}_proj", the module it is of
    std::string_view shape;          // "[2,8,16]"
    std::int64_t rows, width, ld;    // its elements in memory: rows that lie `ld` apart
};

// The calls of a function of the program, as its Range names it.
struct FunctionResults {
    std::string_view function;
    std::span<const std::string_view> modules;  // one for each time that a micro-step comes to it; empty: one, the root
    std::span<const ResultSpec> results;
};

struct ProgramSpec {
    std::string_view name;       // of the model, for messages
    std::string_view optimizer;  // the name of its rule, in optim/rules/list.h
    std::span<const ParameterSpec> parameters;
    std::span<const ConstantSpec> constants;
    std::span<const InputSpec> inputs;
    ArenaBytes arena_bytes;
    DType gradient_dtype = DType::f32, optimizer_dtype = DType::f32;  // of the elements of these arenas
    DType compute = DType::f32;                                       // what products read and write
    bool coded_states = false;  // those of matrices are codes of 8 bits (optim/rules/codes.h), not of optimizer_dtype
    std::int64_t batch;         // rows of one micro-batch of one rank
    std::int64_t tokens;        // positions in it (rows where there is no sequence)
    Loss loss;
    // Why the loss of batches that are not trained on is not to be had, and what to do; "": it is.
    struct NotEvaluated {
        std::string_view why, help;
    } not_evaluated{};
    bool token_entropy = false;    // the loss is the mean cross entropy of tokens alone
    bool counts_hits = false;      // Model::evaluate counts labels, and those with the largest score (StepScalars)
    bool synced_norms = false;     // batch norms take the rows of a micro-step of all ranks
    bool stops_gradients = false;  // the model detaches something: its gradient is not the slope of its loss
    std::int64_t default_grad_accum;
    double flops_per_micro_step;  // of the matrix products, forward and backward; 0: not known
    Providers providers{};

    std::int64_t loss_weights = 0;  // of Loss::terms: how many there are
    // Where in the batch arena the trainer writes the running numbers of a micro-batch's samples, an i64 for each of
    // its rows: what is drawn (dropout) is drawn by them. -1: nothing is.
    std::int64_t sample_numbers = -1;
    TieablePair tieable{};
    // Parameters that are looked up, and those whose product is what the model gives: those of two dimensions between
    // are hidden matrices, which some optimizers step as wholes. Empty where the optimizer does not.
    std::span<const std::string_view> outer_matrices{};
    std::span<const PaddedRow> padded_rows{};  // along these its gradient is not the slope of its loss
    const AdapterSpec* adapters = nullptr;
    ScalingSpec scaling{};

    std::span<const FunctionResults> results{};  // of its steps
    // Parts of the update, in the order in which the forward pass waits for them; none: it waits for none.
    std::span<const UpdateRange> update_parts{};

    // of a program for several ranks
    Mesh mesh{};                                  // that it was generated for
    std::span<const UnitSpec> units{};            // that parameters are sharded in; one of each layer
    std::span<const std::string_view> streams{};  // that ranks communicate on, beside the one that computes
    std::string_view schedule{};                  // a hash of what a step does, in which order: alike on all ranks

    bool is_sharded() const { return !streams.empty(); }
    std::size_t bytes_of(Arena arena) const { return arena_bytes[static_cast<std::size_t>(arena)]; }
};

// The rule that steps the program's parameters.
struct RuleInfo;
const RuleInfo& rule_of(const ProgramSpec& program);

}  // namespace thunder

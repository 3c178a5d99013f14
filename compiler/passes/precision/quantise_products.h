// SPDX-License-Identifier: Apache-2.0
// quantise_products: the linear layers of blocks multiply numbers of eight bits.
//
// Requires what lower_precision leaves of a step in bf16. Takes the linear layers of functions that a loop runs for
// each layer, or that are called, whose weights are the layer's own parameters; not those of the step's own functions,
// as heads and embeddings are. All three products of a layer, or none: y = x Wᵀ, dx = dy W, dW = dyᵀ x.
//
//     %y = linear(%x, %w) : bf16[2,8,32]                          // x: bf16[2,8,16], w: bf16[32,16]
//
// becomes, in the forward pass, with delayed scaling,
//
//     %amax_x, %inverse_x, %q = fp8_quantise(%input_scale, %input_amax, %x) {copies = "plain", dtype = e4m3}
//     %amax_w, %inverse_w, %wq = fp8_quantise(%weight_scale, %weight_amax, %w) {copies = "plain", dtype = e4m3}
//     %y = fp8_linear(%q, %wq, %inverse_x, %inverse_w) {dtype = bf16} : bf16[2,8,32]
//
// and in the backward pass dy is quantised to e5m2, by a scale of its own, and x and w once more by the scales of the
// forward pass, which are the same until the micro-step ends: transposed, as the products there read them.
//
// With `keep_weights` a weight is quantised in the first micro-step of a step alone, both copies, and what that gives
// is state of the program as well, "fp8.<module>.weight_e4m3" and so on, which the backward pass reads as it is:
//
//     %amax_w, %inverse_w, %wq, %wt = fp8_quantise_once(%weight_scale, %weight_amax, %inverse_before, %wq_before,
//                                                       %wt_before, %w, %first) {copies = "both", dtype = e4m3}
//
// Scales, amaxes and histories are states "fp8.<module>.input_scale" and so on: arguments of the entries, a family for
// each loop. Those of inputs and gradients are updated at the end of forward_backward, those of weights in `update`: a
// weight has one scale for all micro-steps of a step. With ranks the amaxes are those of all ranks.
//
// The other recipes have no states: a tensor is quantised by its own amax (fp8_quantise_current), or each block of it
// by its own (fp8_quantise_blocks, e4m3 throughout), wherever a product reads it, and products read those scales:
//
//     %scales_x, %q = fp8_quantise_blocks(%x) {blocks = "rows_of_128", copies = "plain", dtype = e4m3}
//     %y = fp8_linear(%q, %wq, %scales_x, %scales_w) {blocks_a = "rows_of_128", blocks_b = "squares_of_128", …}
//
// Does not: move quantising into what makes a tensor, which quantise_in_kernels does, keep codes of activations from
// forward to backward, or touch products that exempt_layers has marked, whose mark it takes off. A layer stays in bf16
// where a dimension of its products is no multiple of 16 (MX: 32), and says so.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/ir/dtype.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

// Transformer Engine's DelayedScaling, Float8CurrentScaling, Float8BlockScaling and MXFP8BlockScaling.
enum class Fp8Recipe : std::uint8_t { delayed, current, blockwise, mxfp8 };
std::string_view name_of(Fp8Recipe recipe);
std::span<const Fp8Recipe> fp8_recipes();
std::optional<Fp8Recipe> parse_fp8_recipe(std::string_view name);
// The first GPUs whose tensor cores multiply so: 90 of sm_90a.
int least_architecture(Fp8Recipe recipe);

struct Fp8Options {
    Fp8Recipe recipe = Fp8Recipe::delayed;
    DType compute = DType::bf16;   // of products; another one is refused
    std::int64_t history = 1024;   // amaxes that a scale follows from
    bool weight_gradients = true;  // their products too; else these stay as they are
    bool ranks = false;            // several, which compare their amaxes
    bool keep_weights = false;     // as codes, from the first micro-step of a step on
};

Module quantise_products(Module module, const Fp8Options& options, Report& report);

}  // namespace thunderc

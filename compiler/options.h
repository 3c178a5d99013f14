// SPDX-License-Identifier: Apache-2.0
// Every choice of the command line that the compiler, its frontends and its code generation follow.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/ir/tensor.h"

namespace thunderc {

// What becomes of the graph: a training program, or a library with one function.
enum class Transform : std::uint8_t { train, forward, vjp };
std::string_view name_of(Transform transform);

// States of an optimizer as codes of 8 bits, with a scale for each block: of matrices, with any type of products.
inline constexpr std::string_view eight_bits = "8bit";

// Every choice of the command line that the compiler follows.
struct CompileOptions {
    Transform transform = Transform::train;
    // binding of symbolic dimensions
    std::int64_t batch = 0;  // 0: as exported
    std::int64_t seq = 0;
    std::map<std::string, std::int64_t> dims;  // by symbol
    // Inputs of the graph that are constants of the program, by name: of a list its numbers, of a file a tensor.
    struct BoundInput {
        Tensor values;
        bool shaped = true;  // a list has as many numbers as the input has elements
    };
    std::map<std::string, BoundInput> bound;
    // Shapes and types of inputs whose file does not say them, by name: --input x=f32[batch,3,64,64].
    struct InputShape {
        struct Extent {
            std::int64_t value = 0;
            std::string symbol;  // "": the value
        };
        std::string type;  // "f32"
        std::vector<Extent> shape;
    };
    std::map<std::string, InputShape> inputs;
    // the loss
    std::string loss = "auto";          // auto, none, or what parse_losses takes: "huber:delta=0.5"
    std::string logits_chunk = "auto";  // rows at a time in which logits are made and read: auto, whole, or a number
    bool token_accuracy = false;        // evaluation counts tokens whose score is the largest
    // the rate of every dropout, 0: none; without one that of the export
    std::optional<double> dropout;
    // Whether what is drawn is drawn; else it is what it is on average.
    bool draws = true;
    // parameters
    std::vector<std::string> trainable, constant;  // regular expressions over names
    std::string freeze, train_only;                // one; empty: none; at most one of the two
    // Adapters of low rank, as parse_lora takes them ("r=16,alpha=32"): they alone are trained; none: there are none.
    std::optional<std::string> lora;
    // differentiation
    std::string recompute = "none";  // none, selective, block, auto
    std::string memory_budget;       // of auto, as parse_bytes takes it ("78GB"), of one rank; "": see machine
    std::string machine;  // of auto: whose times count, and whose memory is the budget where there is none; "": none
    // optimizer
    std::string optimizer = "adamw";
    // executors, in order; "reference" alone gives the naive program
    std::vector<std::string> executors = {"products",  "convolutions", "attention", "cross_entropy",
                                          "embedding", "optimizer",    "fused"};
    // Whether functions that users bring are called; else the program has what their patterns or the model's own bodies
    // say, where there is one.
    bool calls_user_functions = true;
    std::string dtype = "auto";     // of products: auto (that of the export), or a name
    std::string fp8;                // the recipe by which products of blocks are quantised; "": they are not
    std::string fp8_wgrad = "fp8";  // of products that give gradients of weights: fp8, bf16
    std::string fp8_skip;           // modules that stay as they are (parse_fp8_skip); empty: none
    // Weights are quantised once a step and kept as codes; or where they are read, each time; auto: once where a step
    // has several micro-steps, which is where it pays by more than its memory costs.
    std::string fp8_weights = "auto";  // auto, once, each
    std::int64_t micro_steps = 1;      // of a step, as far as who compiles knows: a run may have another number
    bool keeps_fp8_weights() const {
        if (fp8.empty() || mesh.has_shards()) return false;  // no rank has whole weights for longer than a layer
        return fp8_weights == "once" || (fp8_weights == "auto" && micro_steps > 1);
    }
    // several ranks
    Mesh mesh;
    std::int64_t bucket_bytes = 25 << 20;  // gradients that copies of the model sum together
    std::string reshard = "forward";       // never, forward, always
    bool sync_batch_norm = false;          // every batch norm takes the statistics of all ranks' rows
    bool roll = true;                      // --no-roll keeps every layer
    // with products of a narrow type
    std::string master = "f32";                           // f32, none
    std::string grad_dtype = "f32", optim_dtype = "f32";  // f32, or that of products
    // How many decisions that change numbers are taken, in the order of the passes; none: all (counted_decisions.h).
    std::optional<std::size_t> decisions;
    std::optional<std::size_t> without_decision;  // the number of one that is not taken, from 1
    bool coded_states() const { return optim_dtype == eight_bits; }
};

}  // namespace thunderc

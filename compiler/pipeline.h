// The order of all passes: the compiler's table of contents.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/transforms/pass_manager.h"

namespace thunderc {

// Every choice of the command line that the compiler follows.
struct CompileOptions {
    // binding of symbolic dimensions
    std::int64_t batch = 0;  // 0: as exported
    std::int64_t seq = 0;
    std::map<std::string, std::int64_t> dims;  // by symbol
    // the loss
    std::string loss = "auto";  // auto, cross-entropy, mse, none
    // parameters
    std::string trainable, constant, freeze;  // regular expressions over names; empty: none
    // differentiation
    std::string recompute = "none";  // none, selective, block
    // optimizer
    std::string optimizer = "adamw";
    // executors, in order; "reference" alone gives the naive program
    std::vector<std::string> executors = {"products", "attention", "cross_entropy", "embedding", "optimizer", "fused"};
    std::string dtype = "f32";
    bool roll = true;  // --no-roll keeps every layer
};

// From an imported module to a planned one. `transform` is "train" or "forward".
std::vector<Pass> pipeline(const CompileOptions& options);

}  // namespace thunderc

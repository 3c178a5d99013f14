// SPDX-License-Identifier: Apache-2.0
// Cuts a function that holds forward and backward ops in two, by what recompute.h decides to save.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/passes/autodiff/recompute.h"

namespace thunderc {

// What backward takes and gives. Its arguments are: `first`, what is saved, `behind_saved`, the arguments of the
// function that it reads. `first` and `behind_saved` are values that no op of the function defines.
struct BackwardSignature {
    std::vector<Value> first, behind_saved;
    std::vector<Value> results;
};

struct SplitOptions {
    Keeping keeping;
    Mask available;                         // by argument: backward is given it at no cost
    bool arguments_pass = false;            // arguments that are to be saved are passed as arguments
    std::size_t first_reusable_result = 0;  // a value to be saved that is such a result is not made a result again
};

struct SplitFunction {
    Function forward;  // its own results, then what is saved
    Function backward;
    std::vector<Type> saved_types;
    std::vector<std::string> saved_names;
    std::vector<std::size_t> saved_results;  // results of the function that backward takes, before what is saved
    std::vector<std::size_t> arguments;      // arguments of the function that backward takes
};

SplitFunction split_function(const Function& joint, std::size_t forward_ops, const BackwardSignature& signature,
                             const SplitOptions& options);

// Both halves stay in one function: what is not saved is computed again where backward needs it. With the policy `none`
// that is nothing, and all that backward reads is said to be saved.
void recompute_in_place(Function& joint, std::size_t forward_ops, std::vector<Value>& results, const Keeping& keeping);

}  // namespace thunderc

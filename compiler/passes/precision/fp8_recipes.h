// SPDX-License-Identifier: Apache-2.0
// What the recipes of --fp8 differ in. A part of `quantise_products`.
#pragma once

#include <cstdint>
#include <string_view>

#include "compiler/passes/precision/quantise_products.h"

namespace thunderc {

struct Fp8RecipeRow {
    Fp8Recipe recipe;
    std::string_view name, says;
    std::int64_t multiple;  // what FP8 products of GPUs take, in each dimension
    int architecture;       // the first that has them
    DType gradient;
    const char *rows, *weights;  // blocks of activations and gradients, and of weights; "": one scale for all
};
const Fp8RecipeRow& row_of(Fp8Recipe recipe);

}  // namespace thunderc

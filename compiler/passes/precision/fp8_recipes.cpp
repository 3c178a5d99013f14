// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/precision/fp8_recipes.h"

namespace thunderc {
namespace {

constexpr Fp8RecipeRow recipes[] = {
    {Fp8Recipe::delayed, "delayed", "delayed scaling", 16, 89, DType::e5m2, "", ""},
    {Fp8Recipe::current, "current", "current scaling", 16, 89, DType::e5m2, "", ""},
    {Fp8Recipe::blockwise, "blockwise", "blocks of 128", 16, 90, DType::e4m3, "rows_of_128", "squares_of_128"},
    {Fp8Recipe::mxfp8, "mxfp8", "MX", 32, 100, DType::e4m3, "rows_of_32", "rows_of_32"},
};

}  // namespace

const Fp8RecipeRow& row_of(Fp8Recipe recipe) {
    return recipes[static_cast<std::size_t>(recipe)];
}

std::string_view name_of(Fp8Recipe recipe) {
    return row_of(recipe).name;
}

std::span<const Fp8Recipe> fp8_recipes() {
    static constexpr Fp8Recipe all[] = {Fp8Recipe::delayed, Fp8Recipe::current, Fp8Recipe::blockwise, Fp8Recipe::mxfp8};
    return all;
}

std::optional<Fp8Recipe> parse_fp8_recipe(std::string_view name) {
    for (const Fp8RecipeRow& row : recipes)
        if (row.name == name) return row.recipe;
    return std::nullopt;
}

int least_architecture(Fp8Recipe recipe) {
    return row_of(recipe).architecture;
}

}  // namespace thunderc

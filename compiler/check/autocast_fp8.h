// SPDX-License-Identifier: Apache-2.0
// The yardstick of `thunderc verify --dtype bf16 --fp8`: linear layers as torchao's Float8Linear and Transformer
// Engine's Float8CurrentScaling multiply them, in a step under torch.autocast.
//
// x, w and dy of a layer are quantised where a product reads them, each whole tensor by its own amax, x and w to e4m3
// and dy to e5m2; the three products sum in f32 and give the narrow type. Whatever the recipe of the program is: scales
// of before, or of blocks, are not to lose more than that.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

// The modules whose linear layers a step multiplies in FP8, by what quantise_products left: each by its own name,
// without patterns.
std::vector<std::string> fp8_modules(const Module& program);

// "layers.{0..1}.{q,k}_proj" as the four names that it stands for.
std::vector<std::string> expand_names(const std::string& pattern);

// `step` is what autocast_step gives. `weight_gradients`: their products too.
Module quantise_like_pytorch(Module step, const std::vector<std::string>& modules, bool weight_gradients);

}  // namespace thunderc

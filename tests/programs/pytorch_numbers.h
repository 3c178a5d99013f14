// SPDX-License-Identifier: Apache-2.0
// What a run of a program wrote, judged by the numbers that PyTorch recorded for the fixture.
//
// Both compute in f32, in different orders of summation. PyTorch's own f32 and f64 runs of the fixtures (loss and
// loss64, grad_norm and grad_norm64 in reference.json) differ by up to 2e-7; a longer chain of products makes that some
// 1e-6 in single gradients. What is wrong is wrong by far more: a missing bias correction, epsilon in the wrong place
// or one token too many in a mean change these numbers by 1e-3 and more.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/programs/generated_program.h"

namespace thunderc::tests {

// Relative error of the loss: 1e-5 at the first step. It grows to 1e-4 at the last, as Adam's first steps divide by the
// gradient's own size and so turn relative errors of small gradients into errors of whole updates.
inline constexpr double loss_tolerance = 1e-5;
// Of the gradient's norm, a sum of squares: ten times that, and growing in the same way.
inline constexpr double norm_tolerance = 1e-4;
// Of a parameter's gradient at the first step, in the L2 norm.
inline constexpr double gradient_tolerance = 1e-4;
// Of a gradient that is nothing but rounding in PyTorch (a key's bias under softmax): absolute, of the norm of all, of
// whose size the terms are that cancel each other. PyTorch's own are some 1e-8 of it.
inline constexpr double noise_tolerance = 1e-6;
// Of a parameter's whole update, after - before: what single small elements are off by counts as much as what large
// ones are.
inline constexpr double update_tolerance = 1e-3;
// Of an update by such noise: times what PyTorch's own runs in f32 and f64 differ by, since noise is as good as any.
inline constexpr double spread_tolerance = 10;

// Trains the program on the fixture's batches, from its weights or, by --init in `flags`, from params.safetensors
// beside it, and holds everything that it writes against the fixture.
void expect_pytorchs_numbers(const GeneratedProgram& program, const std::string& flags);

void expect_pytorchs_log(const GeneratedProgram& program, const std::filesystem::path& log);
void expect_pytorchs_gradients(const GeneratedProgram& program, const std::filesystem::path& gradients);
// `buffers`: the fixture's file of those that ranks come to, instead of the ones of a rank alone.
void expect_pytorchs_updates(const GeneratedProgram& program, const std::filesystem::path& after,
                             const std::string& buffers = "");

// Of a program that trains a part of the model: the gradients that are in the file. Returns their norm as PyTorch has
// it.
double expect_some_of_pytorchs_gradients(const GeneratedProgram& program, const std::filesystem::path& gradients);
// Which parameters of a file are those of the fixture, bit for bit, as they were at the start.
std::vector<std::string> untouched(const GeneratedProgram& program, const std::filesystem::path& after);

// Two files hold the same bits: the tensor a_names[k] of the one and b_names[k] of the other.
void expect_equal_tensors(const std::filesystem::path& a, const std::vector<std::string>& a_names,
                          const std::filesystem::path& b, const std::vector<std::string>& b_names);

}  // namespace thunderc::tests

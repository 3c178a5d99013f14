// SPDX-License-Identifier: Apache-2.0
// What the parameters start from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "train/options.h"
#include "train/program.h"

namespace thunder {

class Stream;
class World;

// Elements [first, first + count) of a standard normal tensor with this name: Philox4x32-10, block = element / 4, then
// Box-Muller in fp64 with logarithm, sine and cosine of our own, so that the bits are the same on every machine.
void random_normal(float* out, std::uint64_t first, std::size_t count, std::uint64_t seed, std::string_view name);

// The same of numbers between -1 and 1, each as likely: multiples of 2^-23.
void random_uniform(float* out, std::uint64_t first, std::size_t count, std::uint64_t seed, std::string_view name);

// Elements [first, first + count) of a parameter that is drawn, of its type, as --init-std and --seed say.
void draw_elements(std::byte* out, const ParameterSpec& parameter, std::uint64_t first, std::size_t count,
                   const Options& options);

// "lora_B=zeros,random": an entry ends where one of the words does, since expressions may have commas. A bare word is
// for what no expression finds, wherever it stands: it comes last.
// `reject(value, expected)` does not return.
std::vector<MissingRule> parse_missing_rules(const std::string& value,
                                             const std::function<void(const std::string&, const std::string&)>& reject);

// The file or folder that the parameters start from; "" where all are drawn.
std::string initial_weights(const Options& options);

// Fills the parameter arena as --init and --init-missing say, with what this rank holds. Returns lines for the log:
// where the values come from, what was drawn, what a file held beside.
std::vector<std::string> initialise_parameters(const ProgramSpec& program, const Options& options, const World& world,
                                               std::byte* arena, Stream& stream);

}  // namespace thunder

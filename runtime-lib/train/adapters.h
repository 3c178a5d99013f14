// SPDX-License-Identifier: Apache-2.0
// Adapters of low rank that a program trains beside frozen weights, in files as PEFT has them: a folder with
// adapter_config.json and adapter_model.safetensors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "train/flags.h"
#include "train/options.h"
#include "train/program.h"

namespace thunder {

class Stream;
class World;

// Whether it is of an adapter: no file of the model itself has it.
bool is_adapter(const ProgramSpec& program, std::string_view parameter);

// Those of a program with adapters.
void add_adapter_flags(std::vector<Flag>& flags);
// Of the command line alone. Fails with exit status 2.
void check_adapter_options(const Options& options);

// Reads what --init-adapter names into the parameter arena, with what this rank holds. Fails where the folder holds
// adapters of another kind, rank, scale or of other modules. Returns a line for the log. On all ranks.
std::string load_adapters(const ProgramSpec& program, const Options& options, const World& world, std::byte* arena,
                          Stream& stream);

// Writes what trains into the folder of --save-adapter. Returns a line for the log. On all ranks.
std::string save_adapters(const ProgramSpec& program, const Options& options, const World& world, std::byte* arena,
                          Stream& stream);

}  // namespace thunder

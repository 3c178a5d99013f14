// SPDX-License-Identifier: Apache-2.0
// Files and folders of parameters, or of what is laid out as they are: --save, --save-ema, --dump-gradients.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "train/flags.h"
#include "train/options.h"
#include "train/program.h"

namespace thunder {

class Stream;
class World;

struct SavedParameters {
    std::byte* trained = nullptr;  // an arena in which those lie that train
    std::optional<DType> dtype{};  // of what lies in it; none: the parameters' own
    std::byte* frozen = nullptr;   // where those lie that do not train; null: they are left out
    float divided_by = 0;          // on the way to the file, which has f32 then; 0: not
};

// As safetensors, by the framework's names. On all ranks.
void save_parameters(const std::string& path, const SavedParameters& which, const ProgramSpec& program,
                     const World& world, Stream& stream);

// --save, --save-ema and --save-dtype.
void add_save_flags(std::vector<Flag>& flags);
void check_save_options(const ProgramSpec& program, const Options& options);
// Fails as writing what a run leaves behind would, as far as that can be told before.
void check_results(const Options& options);

// How a path of these is written: "not given", "a file", "a folder", "a folder as --init names one". Ranks are to be of
// one mind.
std::string how_saved(const std::string& path, const Options& options);

// What --save and --save-ema name, of the arena of parameters and that of their average: a file, or a folder that
// transformers loads (checkpoint/model_folder.h), with the names, the configuration and the tokenizer of the folder
// that
// --init names. On all ranks. Returns lines for the log.
std::vector<std::string> save_at_end(const ProgramSpec& program, const Options& options, const World& world,
                                     std::byte* parameters, std::byte* average, Stream& stream);

}  // namespace thunder

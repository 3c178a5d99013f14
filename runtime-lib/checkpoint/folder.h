// SPDX-License-Identifier: Apache-2.0
// The folder that a run keeps its checkpoints in: step-00001000/ and so on, one folder each, which has its name when
// all in it is on the disk. Earlier programs wrote one file each, step-00001000.safetensors: these are checkpoints as
// well.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace thunder {

// The checkpoints in a folder, the oldest first.
std::vector<std::string> checkpoints_in(const std::string& folder);

// "c/step-00001000"
std::string checkpoint_path(const std::string& folder, std::int64_t step);

// "rank-00003.safetensors"
std::string rank_file_name(int rank);

// Where a checkpoint's files are written to, "c/step-00001000.tmp"; and makes that folder, empty.
std::string aside_of(const std::string& path);
void begin_checkpoint(const std::string& path);
// All files of it are on the disk: writes their manifest, and gives the folder its name. Where a checkpoint has that
// name, as after a run went back, this one takes its place.
void commit_checkpoint(const std::string& path, const Manifest& manifest);
// It will not be one.
void give_up_checkpoint(const std::string& path);

// From here on this is no checkpoint of its folder: it has another name, "step-00000008.damaged".
void put_aside(const std::string& path);

// Removes all but the newest `keep` and those of steps that `keep_every` divides, and what an interrupted writer left.
// 0 of `keep`: all stay; of `keep_every`: none but the newest. That of the step `spared` stays.
void prune_checkpoints(const std::string& folder, std::int64_t keep, std::int64_t keep_every, std::int64_t spared = -1);

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// What `thunderc ckpt` writes: parameters in one file or in a model's folder, checkpoints cut for other ranks, means.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/stored.h"

namespace thunderc {

struct LowRank;  // cli/ckpt_merge.h

struct ConvertOptions {
    std::filesystem::path out;
    std::filesystem::path merge;   // a folder of adapters that are added to the weights
    bool folder = false;           // a model's folder, not a file
    std::filesystem::path like;    // the folder of a model with its configuration
    std::string dtype;             // f32, bf16, f16: of all numbers of floating point; "": as they are
    bool ema = false;              // the average of the weights, of what has one
    std::uint64_t file_bytes = 0;  // of a folder's files of weights; 0: what is usual
};

// What is written of a checkpoint without its optimizer: tensors and the names that they get.
struct Outgoing {
    const thunder::StoredCheckpoint::Tensor* tensor;
    std::string name;
    const LowRank* added = nullptr;  // what is added to it on the way
};
std::vector<Outgoing> parameters_of(const thunder::StoredCheckpoint& checkpoint, bool ema);

// Lines for the person who waits.
std::vector<std::string> convert(const thunder::StoredCheckpoint& checkpoint, const ConvertOptions& options);
// A checkpoint of the same state in `ranks` files of about the same length, below `out`; returns its path.
std::string reshard(const thunder::StoredCheckpoint& checkpoint, std::int64_t ranks, const std::filesystem::path& out);
// The mean of the parameters of several, summed in double; of one type, as the first has it.
void average(const std::vector<thunder::StoredCheckpoint>& all, const std::filesystem::path& out);

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// Adapters of low rank in a folder of PEFT's, on their way into the weights that they stand beside: thunderc ckpt
// convert --merge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/stored.h"
#include "cli/ckpt_files.h"

namespace thunderc {

// What is added to a matrix W: scale B A, where W is (out, in); the transpose of that where W is (in, out).
struct LowRank {
    std::int64_t rank = 0, in = 0, out = 0;
    double scale = 0;
    bool transposed = false;
    std::vector<float> a, b;  // (rank, in), (out, rank)

    // To `numbers`, elements [first, first + count) of W. Products are summed in double, and the sum is rounded once.
    void add_to(float* numbers, std::size_t first, std::size_t count) const;
};

class MergedAdapters {
  public:
    // Reads adapter_config.json and adapter_model.safetensors. Refuses what is no LoRA, and what merging does not know.
    explicit MergedAdapters(const std::filesystem::path& folder);

    // Gives tensors what is added to them, puts those in their place that the folder has whole (modules_to_save,
    // biases), and leaves out adapters that the checkpoint itself has. What the folder has has to find its own. Returns
    // a line for the person who waits. The tensors refer to this.
    std::string apply(std::vector<Outgoing>& tensors);

  private:
    void read_config();
    void read_tensors();

    std::string folder_;
    double alpha_ = 0;
    bool rank_stabilized_ = false, fan_in_fan_out_ = false;
    thunder::StoredCheckpoint file_;
    std::map<std::string, LowRank> added_;  // by the name of the weight, "model.layers.0.self_attn.q_proj.weight"
    std::map<std::string, const thunder::StoredCheckpoint::Tensor*> whole_;  // by the name of the parameter
};

}  // namespace thunderc

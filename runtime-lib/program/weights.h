// SPDX-License-Identifier: Apache-2.0
// Where a program's parameters and tables are found in files.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "program/tensors.h"

namespace thunder {

class Stream;

// The tensors of --init or --in: one file of safetensors or of torch.save, those that the index of a Hugging Face
// folder names; or the parameters of a checkpoint's folder. "FILE#KEY" is a part of a checkpoint of torch.save.
class Weights {
  public:
    explicit Weights(const std::string& path);

    struct Found {
        const TensorFile* file = nullptr;
        const StoredTensor* tensor = nullptr;  // of one in parts what it is, without its bytes
        std::vector<TensorPart> parts{};       // of a checkpoint that ranks wrote together; none: it lies in one piece

        std::vector<TensorPart> all_parts() const;  // or the one piece
    };

    const std::string& path() const { return path_; }
    const Found* find(const std::string& name) const;  // null where there is none
    const std::map<std::string, Found>& all() const { return tensors_; }
    std::vector<std::string> names() const;
    // Which part of a checkpoint was taken, where nothing had asked for one; "" where there was nothing to choose.
    const std::string& chosen() const { return chosen_; }

  private:
    void open(const std::string& path, const std::set<std::string>* wanted);
    void open_shards(const std::string& index);
    void open_checkpoint();

    std::string path_;
    std::vector<std::unique_ptr<TensorFile>> files_;
    std::deque<StoredTensor> in_parts_;
    std::map<std::string, Found> tensors_;  // by their names, without those of wrappers within
    std::string chosen_;
};

// The tensor of each parameter, in their order; with null pointers where there is none. A parameter answers to its name
// and its aliases, once one common wrapper's prefix is removed or put before. Fails where a tensor's type or shape does
// not fit, and where a tied parameter has two tensors that differ. `used` takes the names of the tensors that were
// found.
std::vector<Weights::Found> find_parameters(std::span<const ParameterSpec> parameters, const Weights& weights,
                                            std::set<std::string>& used);

// "w.safetensors lacks 2 parameters of the program: a, b", with what it holds, and `help`.
[[noreturn]] void fail_missing(const Weights& weights, std::span<const ParameterSpec* const> missing,
                               const std::string& help);

// Fails where the tensor cannot be read as that type, or has another shape; `what` is "parameter a.weight".
void check_fits(const std::string& path, const StoredTensor& tensor, DType dtype, std::span<const std::int64_t> shape,
                std::string_view what);

// The weights that the export had and that were written beside the program; "" where there are none.
std::string exported_weights(const std::string& program_folder);

// Reads constants.safetensors of the program's folder into the constant arena.
void read_constants(std::span<const ConstantSpec> constants, const std::string& folder, std::byte* arena,
                    Stream& stream);

}  // namespace thunder

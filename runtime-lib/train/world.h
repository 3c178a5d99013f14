// SPDX-License-Identifier: Apache-2.0
// One rank of a training run among the others: what it holds of the parameters, what all do as one, and files that one
// writes for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/stored.h"
#include "comm/communicator.h"
#include "support/error.h"
#include "train/options.h"
#include "train/program.h"

namespace thunder {

// What a rank holds of a parameter: elements [first, first + count) of the tensor, from element `at` of the parameter
// arena on; gradients and optimizer state lie at the same element of their arenas.
struct Piece {
    std::int64_t first = 0, count = 0, at = 0;
};
Piece piece_of(const ProgramSpec& program, const ParameterSpec& parameter, int rank);

// A tensor of which ranks may hold pieces, and the name that it gets in a file.
struct HeldTensor {
    TensorToWrite as;
    const ParameterSpec* parameter;
    std::byte* arena;
    float divided_by = 0;  // on the way to a file, which has it in f32 then; 0: it is not
    // What a rank holds of it: what it does of the parameter, element by element or a number for each block of codes
    // (rules/codes.h); or all.
    enum class Part : std::uint8_t { elements, blocks, whole } part = Part::elements;
    // From which byte of the arena on this rank's part lies; none: at the elements at which the parameter does.
    std::optional<std::int64_t> begins{};
    // As which type of floating point a file has it; none: as it lies.
    std::optional<DType> stored{};
};

class World {
  public:
    World(const ProgramSpec& program, Communicator& communicator)
        : program_(program), communicator_(communicator), rank_(communicator.rank()) {}

    int rank() const { return rank_; }
    bool is_first() const { return rank_ == 0; }
    bool is_alone() const { return communicator_.world() == 1; }

    // Fails where the program was generated for another number of ranks.
    void check_mesh() const;
    // What all ranks found alike: one tells of it.
    [[noreturn]] void fail_as_one(const std::string& message, const std::string& help) const;
    // Runs the body, which fails on all ranks where it does on some: one of these tells of it.
    template <typename Body>
    void together(Body&& body) const {
        if (is_alone()) return body();
        std::optional<Error> failure;
        try {
            body();
        } catch (const Error& error) {
            failure = error;
        }
        end_together(failure);
    }

    // This rank gets on before the first step: others, which may be done, are not to think that it hangs.
    void gets_on() const { communicator_.note_progress(-1); }

    // Writes a file of all tensors, in the order of their names, with what each rank holds of them; some megabytes at a
    // time pass through rank 0, which writes. On all ranks.
    void save(const std::string& path, std::vector<HeldTensor> tensors,
              std::span<const std::pair<std::string, std::string>> metadata, Stream& stream) const;
    // Is told how many bytes were read, tensor by tensor.
    void on_read(std::function<void(std::size_t)> told) { on_read_ = std::move(told); }
    // Reads what this rank holds of a tensor.
    void load(std::span<const TensorPart> parts, const HeldTensor& tensor, Stream& stream) const;

    // What a rank holds of a tensor: `at` is nothing.
    Piece part_of(const HeldTensor& tensor, int rank) const;
    // Where element `first` of the tensor lies, which this rank holds.
    std::byte* place_of(const HeldTensor& tensor, std::int64_t first) const;

  private:
    void end_together(const std::optional<Error>& failure) const;

    const ProgramSpec& program_;
    Communicator& communicator_;
    int rank_;
    std::function<void(std::size_t)> on_read_;
};

}  // namespace thunder

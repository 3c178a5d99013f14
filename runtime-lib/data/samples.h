// SPDX-License-Identifier: Apache-2.0
// The samples of one source of --data: what rows of batches are made of. In which order they come, row_order.h says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/mixture.h"
#include "train/options.h"
#include "train/program.h"

namespace thunder {

// A file is known by what it holds: its name is for messages, and may be another one when a run goes on.
struct SampleFile {
    std::string name;
    std::uint64_t size = 0;     // what it holds, whatever samples are made of it: tokens, rows
    std::uint64_t samples = 0;  // that a run takes from it
    std::string fingerprint{};  // of what it holds, in hexadecimal figures
};

class Samples {
  public:
    virtual ~Samples() = default;

    // In the order in which they are numbered.
    virtual std::span<const SampleFile> files() const = 0;

    // Sample `sample` of file `file` becomes row `row` of a micro-batch that is laid out like the batch arena. What is
    // random of it (a flip) follows from `draw` alone, which is another number under another seed and each time that
    // the sample is drawn. Fails with a message on a number out of range.
    virtual void fill(std::size_t file, std::uint64_t sample, std::uint64_t draw, std::int64_t row,
                      std::span<std::byte> batch) = 0;
    // Of the inputs that have no rows.
    virtual void fill_whole(std::span<std::byte> batch) = 0;

    // "54 tokens from corpus (3 files), 13 windows of 4"
    virtual std::string describe() const = 0;
    // Lines for the log: what is not as one might think.
    virtual std::vector<std::string> notes() const { return {}; }
};

// SampleFile::name of a file of a source: with its folder where the source has several paths.
std::string shown_name(const DataSource& source, const std::string& path);

std::unique_ptr<Samples> make_samples(const ProgramSpec& program, const Options& options, const DataSource& source);

// Of files of packed tokens (token_samples.cpp), and of tensors by the names of the inputs (tensor_samples.cpp).
std::unique_ptr<Samples> make_token_samples(const ProgramSpec& program, const Options& options,
                                            const DataSource& source);
std::unique_ptr<Samples> make_tensor_samples(const ProgramSpec& program, const Options& options,
                                             const DataSource& source);
// Whether a source is of the second kind: a file of tensors, or a folder that has some and no packed tokens.
bool holds_tensors(const DataSource& source);

}  // namespace thunder

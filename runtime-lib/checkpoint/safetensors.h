// SPDX-License-Identifier: Apache-2.0
// Reading and writing .safetensors: eight bytes with the length of a JSON header, the header, then the tensors' bytes.
// The format: https://github.com/huggingface/safetensors (README, "Format").
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/tensor_file.h"
#include "device/types.h"
#include "support/checksum.h"
#include "support/file.h"

namespace thunder {

class SafetensorsFile : public TensorFile {
  public:
    // Maps the file and validates its header: whatever is cut short, overlaps or contradicts itself fails with a
    // message. No tensor is read.
    explicit SafetensorsFile(const std::string& path);

    std::uint64_t bytes() const { return file_.bytes().size(); }  // of the whole file
    const std::map<std::string, std::string>& metadata() const { return metadata_; }

    // The one that it was written with, 16 digits; "" where it has none.
    std::string checksum() const;
    // Reads all of it: whether it is as it was written, where that was with a checksum. Fails as damaged where not.
    // `on_progress` is called for each 64 MiB.
    void verify(const std::function<void()>& on_progress) const;

  private:
    void read_header(const std::string& path);

    std::map<std::string, std::string> metadata_;
};

// Whether a stored type can be read as `dtype`: floating point types as one another, integers but uint64 as int32 or
// int64 where each value fits, unsigned bytes as booleans.
bool readable_as(std::string_view stored_dtype, DType dtype);

// Elements [first, first + count) of a tensor, converted; `out` has room for count elements of `dtype`. The type must
// be readable as it. False where a value does not fit (an int64 that is no int32).
bool read_elements(const StoredTensor& tensor, DType dtype, std::size_t first, std::size_t count, void* out);

// "F32", "BF16", "F16", "I64", "I32", "BOOL"
std::string_view stored_name(DType dtype);

struct TensorToWrite {
    std::string name;
    DType dtype;
    std::vector<std::int64_t> shape;
};

// A key of the metadata. Given to a writer, with any value, it becomes the checksum of the header (with as many zeros
// in its place) and of the tensors, as 16 hexadecimal digits.
inline constexpr std::string_view checksum_key = "checksum";
// 16 hexadecimal digits; those that stand where a checksum will be, while it is made.
std::string checksum_text(std::uint64_t checksum);
inline constexpr std::string_view no_checksum = "0000000000000000";

// Writes a file whose tensors are appended one after the other, in the order in which they were announced. The file
// appears when commit() is called; where the disk is full, one message is given and nothing is left.
class SafetensorsWriter {
  public:
    SafetensorsWriter(const std::string& path, std::span<const TensorToWrite> tensors,
                      std::span<const std::pair<std::string, std::string>> metadata = {});

    // The next bytes of the tensors, in any portions.
    void append(const void* data, std::size_t bytes);
    void commit();
    // Behind commit: the checksum that the file was given, and its length.
    std::uint64_t checksum() const { return checksum_.value(); }
    std::uint64_t bytes() const { return bytes_; }

  private:
    AtomicFile file_;
    std::uint64_t bytes_ = 0;
    std::size_t remaining_ = 0;
    std::size_t checksum_at_ = 0;  // where its digits stand in the file; 0: it has none
    Checksum checksum_;
};

}  // namespace thunder

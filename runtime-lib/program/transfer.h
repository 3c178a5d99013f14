// SPDX-License-Identifier: Apache-2.0
// Tensors on their way between files and the device.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/safetensors.h"

namespace thunder {

class Stream;

// Copies and waits. One of the two sides is the host's.
void to_device(std::byte* device, const void* host, std::size_t bytes, Stream& stream);
void from_device(void* host, const std::byte* device, std::size_t bytes, Stream& stream);

// Fills `count` elements on the device in portions: make(first, n, out) writes elements [first, first + n) to host
// memory.
void fill_on_device(std::byte* device, DType dtype, std::size_t count, Stream& stream,
                    const std::function<void(std::size_t first, std::size_t n, std::byte* out)>& make);

// A stored tensor, converted to what the device holds; the types were found to fit before.
void load_tensor(const TensorFile& file, const StoredTensor& tensor, DType dtype, std::byte* device, Stream& stream);

// Elements [first, first + count) of a parameter or a state of a training run. Fails where a number is infinite or
// none, with the tensor and the file: the run would end in its first step, and blame the learning rate.
void load_elements(const TensorFile& file, const StoredTensor& tensor, DType dtype, std::size_t first,
                   std::size_t count, std::byte* device, Stream& stream);

// A tensor on the device, and the name that it gets in a file.
struct DeviceTensor {
    TensorToWrite as;
    const std::byte* device;
};

// Writes them all to one file, atomically.
void save_tensors(const std::string& path, std::span<const DeviceTensor> tensors,
                  std::span<const std::pair<std::string, std::string>> metadata, Stream& stream);

}  // namespace thunder

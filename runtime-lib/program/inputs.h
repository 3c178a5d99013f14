// SPDX-License-Identifier: Apache-2.0
// Inputs on their way from files to the batch arena: converted, and ids looked at before a kernel follows them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "checkpoint/safetensors.h"
#include "program/tensors.h"

namespace thunder {

// Reads an input from the elements [first, ...) of a tensor of the file `path`, into host memory. Fails where a number
// does not fit into the input's type, and where an id is out of range. The tensor's type must be readable as the
// input's.
void read_input(const std::string& path, const StoredTensor& tensor, const InputSpec& input, std::size_t first,
                std::byte* values);

// What one element may be.
struct IdRange {
    std::int64_t entries, ignore_index;  // as in InputSpec
    const ColumnSpec* column = nullptr;  // that says so, where columns differ
    std::int64_t position = 0;           // along their axis

    bool holds(std::int64_t id) const {
        return entries < 0 || (id >= 0 && id < entries) || (ignore_index != 0 && id == ignore_index);
    }
};
IdRange ids_at(const InputSpec& input, std::int64_t element);

// The first element that is no id the input may hold, or -1.
std::int64_t find_bad_id(const InputSpec& input, const std::byte* values);
// Such an element's value, and what is wrong with it: "is 300, and ids go from 0 to 255", or "is 300, and
// pixels takes 0 to 255".
std::string bad_id_text(const InputSpec& input, const std::byte* values, std::int64_t element);

}  // namespace thunder

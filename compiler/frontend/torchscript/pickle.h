// SPDX-License-Identifier: Apache-2.0
// Pickles of TorchScript archives and of torch.save, read as data: nothing in them is run. What a stack of numbers,
// lists and tensors does not need is refused by its name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/frontend/aten/stored_tensor.h"
#include "compiler/frontend/shared/zip_archive.h"

namespace thunderc::torchscript {

// A value of a pickle. What stands twice is one value: others are named by their place in Pickle::values, so that what
// refers to itself is no cycle of owners.
struct Pickled {
    enum class Kind : std::uint8_t {
        none,
        boolean,
        integer,
        number,
        text,
        tuple,
        list,
        dictionary,
        object,  // of a class of the archive: `items` has the dictionary of its attributes, if any
        tensor,
        global,   // a class or a function by its name
        storage,  // of a tensor
    };
    using Index = std::uint32_t;

    Kind kind = Kind::none;
    std::int64_t integer = 0;  // of booleans as well
    double number = 0;
    std::string text;          // of a global its name, of an object its class: "__torch__.zoo_models.MLP"
    std::vector<Index> items;  // of dictionaries key, value, key, value
    std::shared_ptr<const aten::StoredTensor> tensor;  // of storages as well, as one dimension
    bool requires_grad = false;
};

struct Pickle {
    std::vector<Pickled> values;
    Pickled::Index root = 0;

    const Pickled& at(Pickled::Index index) const { return values[index]; }
    // Keys and values in turns, of a dictionary or of an object's attributes.
    const std::vector<Pickled::Index>& entries(const Pickled& of) const;
    // By a key that is text; nullptr where there is none.
    const Pickled* member(const Pickled& of, const std::string& key) const;
};

// Reads an entry of an archive. Bytes of tensors are entries of `storages`, a folder with its slash. Throws UserError:
// a class or an opcode that is not torch's, damaged.
Pickle read_pickle(const ZipArchive& archive, const std::string& entry, const std::string& storages);

}  // namespace thunderc::torchscript

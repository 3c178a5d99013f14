// SPDX-License-Identifier: Apache-2.0
// Pickles of torch.save and of TorchScript's archives, read as data: nothing in them is run. Tensors, numbers, text,
// collections and objects of an archive's own classes are all that they may hold; whatever else one names is refused by
// its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace thunder {

// A tensor as a pickle describes it.
struct PickledTensor {
    std::string storage;  // its key in the archive
    std::string dtype;    // as safetensors spells it, or "C64" and the like, of what it does not know
    std::size_t element_bytes = 0;
    std::uint64_t storage_bytes = 0;  // that the storage has to have
    std::int64_t offset = 0;          // elements
    std::vector<std::int64_t> shape, strides;
};

// What stands twice in a pickle is one value: others are named by their place in TorchPickle::values, so that what
// contains itself is no cycle of owners.
struct PickledValue {
    enum class Kind : std::uint8_t {
        other,  // what nobody asks for, as sets and numbers of more than 64 bits
        none,
        boolean,
        integer,
        number,
        text,
        tuple,
        list,
        dictionary,
        object,  // of a class of the archive: `items` has the dictionary of its attributes, if any
        name,    // of a class or a function
        storage,
        tensor,
    };
    using Index = std::uint32_t;

    Kind kind = Kind::other;
    bool requires_grad = false;                   // of a tensor
    std::int64_t integer = 0;                     // of booleans as well
    double number = 0;                            // of integers as well
    std::string text;                             // of a name "collections.OrderedDict", of an object its class
    std::vector<Index> items;                     // of dictionaries key, value, key, value
    std::shared_ptr<const PickledTensor> tensor;  // of storages as well
};

struct TorchPickle {
    std::vector<PickledValue> values;
    PickledValue::Index root = 0;

    const PickledValue& at(PickledValue::Index index) const { return values[index]; }
};

// `what` is how messages call it: "the pickle of model.pt". Fails with DamagedFile or, where it names what is no data,
// an Error.
TorchPickle read_torch_pickle(std::span<const std::byte> bytes, const std::string& what);

}  // namespace thunder

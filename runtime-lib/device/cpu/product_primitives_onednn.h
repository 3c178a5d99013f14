// SPDX-License-Identifier: Apache-2.0
// oneDNN's matmul primitives. One is compiled for one shape, one set of strides and one epilogue when that product is
// first met, and kept in the stream with its arguments: a call sets pointers and executes. Primitives run on one thread
// each; who computes products cuts them into tiles, which are products themselves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "device/cpu/onednn.h"
#include "device/cpu/products.h"
#include "device/stream.h"

namespace thunder::onednn {

// What a primitive depends on.
struct Key {
    std::array<std::int64_t, 11> sizes;
    unsigned flags;
    bool operator==(const Key&) const = default;
};
struct KeyHash {
    std::size_t operator()(const Key& key) const {
        std::uint64_t hash = 1469598103934665603ULL ^ key.flags;
        for (const std::int64_t v : key.sizes) hash = (hash ^ static_cast<std::uint64_t>(v)) * 1099511628211ULL;
        return hash ^ (hash >> 29);
    }
};

// With `packed` of a product whose b is in the library's order.
Key key_of(const Product& p, bool packed);

// What a thread gives a primitive; where the tensors lie is said at each call.
struct Arguments {
    Tensor a{}, b{}, c{}, scratchpad{}, bias{}, residual{};
    std::array<dnnl_exec_arg_t, 6> list{};  // these tensors, as far as there are any
    int count = 0;
};

struct Compiled {
    Primitive primitive{};  // null: not to be used
    Layout a{}, b{}, c{}, bias{}, residual{};
    // Of a product that reads b in the library's own order: what brings it there, from the given one, into so much.
    Primitive pack{};
    Layout given_b{};
    std::size_t packed_bytes = 0;
    const_dnnl_memory_desc_t scratchpad = nullptr;  // the primitive's own
    std::size_t scratchpad_bytes = 0;
    int residual_argument = 0;
    std::vector<Arguments> of_thread{};
};

// The library, as one stream uses it.
struct Library {
    Engine engine{};
    std::vector<Queue> queues{};  // one for each thread
    std::unordered_map<Key, Compiled, KeyHash> compiled{};

    Library();
    void provide_queues(int threads);
};

// What there is for a product or a part of one, as it is executed by that many threads. A primitive that is null: the
// library refuses it, or would take a loop that is slower than a plain product and a kernel behind it, or the product
// has an activation. These are ours, of a tile behind its sums: forward and backward pass evaluate one and the same
// function, and the library's relu makes 0 of what is no number. `packed`: b is
// in the library's own order.
const Compiled& compiled_for(const Product& product, bool packed, int threads, Library& library);

// Where the tensors of one execution lie.
struct Places {
    const void *a = nullptr, *b = nullptr;
    void* c = nullptr;
    const void *bias = nullptr, *residual = nullptr;
    std::byte* scratchpad = nullptr;
};
// In a piece of a loop, where nothing may be thrown: what went wrong is for who shares it to say.
dnnl_status_t execute(const Compiled& compiled, const Places& places, std::size_t thread, dnnl_stream_t queue) noexcept;

// A part of c: of which matrix of the batch, where it begins, and its size.
struct Tile {
    std::int64_t batch = 0, i = 0, j = 0, rows = 0, columns = 0;
};

inline std::int64_t parts_of(std::int64_t n, std::int64_t length) {
    return (n + length - 1) / length;
}

}  // namespace thunder::onednn

// SPDX-License-Identifier: Apache-2.0
// Products of narrow types, in tiles whose matrices lie in one piece.
//
// The library has its products by tile units (AMX) and dot products (AVX512-BF16) for matrices without gaps between
// their rows, and multiplies all others at a third to a tenth of that rate. A tile of a larger product has gaps. So
// what has some is brought together first, a tile at a time and within a core's own cache; c is summed there, in f32,
// and gets bias, activation and residual on its way to where it belongs, rounded once. Where the CPU has no products of
// the type, tiles are widened as they are brought together, and the library multiplies f32: neither a widened matrix
// nor sums in f32 are ever whole in memory. Tests: tests/runtime/kernels/narrow_products_test.cpp
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "device/cpu/product_primitives_onednn.h"

namespace thunder::onednn {

class DenseTiles {
  public:
    // c with everything that the product ends in. `widened`: products are of f32. False, and c is as it was: the
    // product is of f32 itself, too small to be worth it, or the library has none of this type.
    bool product(const Product& call, bool widened, Library& library, Stream& stream);

  private:
    // A part of a tile's sum; where its operands begin, in elements.
    struct Part {
        const Compiled* compiled = nullptr;
        std::int64_t a = 0, b = 0, k = 0;  // so many terms
    };
    struct Plan {
        int threads = 0;  // of the team that it was made for
        bool widened = false;
        std::vector<Tile> tiles{};
        std::vector<Part> parts{};  // of the first tile, of the second ...
        bool gathers_a = false, gathers_b = false, direct = false;
        std::size_t a_bytes = 0, b_bytes = 0, c_bytes = 0, scratchpad = 0;  // for each thread

        std::size_t bytes() const { return a_bytes + b_bytes + c_bytes + scratchpad; }
    };

    static Plan plan_of(const Product& p, bool widened, int threads, bool direct, Library& library);
    static dnnl_status_t compute(const Plan& plan, std::size_t tile, const Product& call, std::byte* memory,
                                 std::size_t thread, dnnl_stream_t queue) noexcept;

    std::unordered_map<Key, Plan, KeyHash> plans_{};
};

}  // namespace thunder::onednn

// SPDX-License-Identifier: Apache-2.0
// Which objects of a function are needed at one moment, for who compares every value with every other.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "compiler/check/check_plan_parts.h"

namespace thunderc::checking {

// Objects that are needed now, by where they begin. Those of a length are found together: between a place less the
// most that one of them is long, and another, there are no more of them than have room there.
class Needed {
  public:
    void add(const Region& region, std::size_t object) {
        by_length_[length_class(region)].emplace(region.begin(), object);
    }
    void remove(const Region& region, std::size_t object) {
        auto& of_length = by_length_[length_class(region)];
        auto [at, end] = of_length.equal_range(region.begin());
        while (at != end && at->second != object) ++at;
        if (at != end) of_length.erase(at);
    }
    // Those that may reach into the region, in order.
    std::vector<std::size_t> around(const Region& region) const {
        std::vector<std::size_t> out;
        for (const auto& [width, of_length] : by_length_) {
            const std::int64_t most = std::int64_t{1} << width;
            const auto end = of_length.lower_bound(region.end());
            for (auto at = of_length.upper_bound(region.begin() - most); at != end; ++at) out.push_back(at->second);
        }
        std::sort(out.begin(), out.end());
        return out;
    }

  private:
    // Of a length that is less than two to that power, and not less than half of it.
    static int length_class(const Region& region) {
        const std::int64_t length = std::max<std::int64_t>(region.end() - region.begin(), 0);
        return std::min(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(length))), 62);
    }

    std::map<int, std::multimap<std::int64_t, std::size_t>> by_length_;
};

}  // namespace thunderc::checking

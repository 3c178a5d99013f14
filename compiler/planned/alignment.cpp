// SPDX-License-Identifier: Apache-2.0
#include "compiler/planned/alignment.h"

#include <algorithm>

#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

using Arena = Placement::Arena;

constexpr std::int64_t most = 64;

// The greatest power of two, up to 64, that divides both.
std::int64_t common(std::int64_t a, std::int64_t b) {
    const std::int64_t bits = a | b | most;
    return bits & -bits;
}

// What a body's argument or result is outside: the least aligned of the operands or results in its place.
std::int64_t outside(const CallSites& calls, const Function& body, Value root) {
    std::int64_t least = most;
    for (const auto& [caller, op] : calls.of(body.name)) {
        for (std::size_t k = 0; k < body.arguments.size() && k < op->operands.size(); ++k)
            if (body.arguments[k] == root && op->operands[k])
                least = std::min(least, alignment_of(calls, *caller, op->operands[k]));
        for (std::size_t r = 0; r < body.results.size() && r < op->results.size(); ++r)
            if (body.results[r] == root) least = std::min(least, alignment_of(calls, *caller, op->results[r]));
    }
    return least;
}

}  // namespace

std::int64_t alignment_of(const CallSites& calls, const Function& function, Value v) {
    const Placement& place = function.info(v).placement;
    const std::int64_t here = common(place.offset, place.layer_stride);
    if (place.arena != Arena::caller) return here;
    Value root = v;
    while (function.info(root).placement.view_of) root = function.info(root).placement.view_of;
    return common(here, outside(calls, function, root));
}

}  // namespace thunderc

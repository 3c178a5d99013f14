// SPDX-License-Identifier: Apache-2.0
// chunk_logits: a head and the cross entropy of its logits become one op, which goes over the rows in chunks.
//
//     %y = linear(%x, %w)                                     // (rows, classes)
//     %loss, %lse = cross_entropy(%y, %labels)
//     %dy = cross_entropy_backward(%y, %labels, %lse, %dloss)
//     %dx = linear_backward_input(%dy, %w)
//     %dw = linear_backward_weight(%dy, %x)
//     %after = accumulate_gradient(%before, %dw, %first)
// becomes
//     %losses, %logits, %lse, %dx, %after =
//         linear_cross_entropy_gradients(%x, %w, %labels, _, %dloss, %before, %first) {chunk = 512, …}
//     %loss = reduce_sum(%losses)
//
// and, where nothing reads a gradient (an evaluation), linear_cross_entropy. Views between them are looked through. A
// gradient that other products add to as well (a table that is the head too) goes on from the head's.
//
// Chunks are all of one size: as many rows as the number says, or as divide the batch's rows and are nearest below it;
// none where that is half of it or less. What was asked for and is not done is warned of.
// Costs what each chunk but the first adds to the gradient of the weight: so by itself where whole logits are larger
// than most_logits_bytes.
//
// Leaves alone: logits that anything else reads (a second loss, a smoothed one, what counts hits), what stands between
// head and loss, a head with an activation, a loss whose gradient depends on the loss; and, where nobody asked for
// chunks, a narrow gradient of the weight, which each chunk would round. Behind lower_precision, which has decided
// types; before attach_epilogues, which would make the head's products add to others. Tests:
// tests/passes/step/chunk_logits_test.cpp
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

inline constexpr std::int64_t most_logits_bytes = std::int64_t{256} << 20;

struct LogitsChunk {
    // Rows of a chunk at most: given; by most_logits_bytes; 0: never.
    std::optional<std::int64_t> rows;

    // Of so many rows, each of so many bytes of logits; nullopt: all of them at once.
    std::optional<std::int64_t> of(std::int64_t all_rows, std::int64_t row_bytes) const;
};

// "auto", "whole", or a number of rows; nullopt: none of them.
std::optional<LogitsChunk> parse_logits_chunk(std::string_view text);

// Whether these executors have both the products and the cross entropy of which the one call is made.
bool can_chunk_logits(std::span<const std::string> executors);

// Whether there may be something to do in `f`, products being of that type: then a step's forward pass makes gradients.
bool may_chunk_logits(const Function& f, const LogitsChunk& chunk, DType compute);

Module chunk_logits(Module module, const LogitsChunk& chunk, Report& report);

}  // namespace thunderc

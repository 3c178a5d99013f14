// SPDX-License-Identifier: Apache-2.0
// Decisions that change what numbers a program computes with, in the order in which passes take them, and a limit.
//
// With the limit N a program has the first N of them and declines the others, so that it differs from that of N-1 in
// one decision: `thunderc bisect` finds by halves the one behind which a loss departs from the reference's. A program
// without the one that was found has all others.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace thunderc {

struct CountedDecision {
    std::string pass;   // "attach_epilogues"
    std::string what;   // "activation"
    std::string where;  // module or function: "model.layers.{0..3}.mlp"
    std::string text;   // of the several there: "gelu to h"; may be empty
};

// "attach_epilogues: activation in model.layers.0.mlp: gelu to h"
std::string to_string(const CountedDecision& decision);

// One compilation's.
class CountedDecisions {
  public:
    // `without`: the number of one that is declined, from 1.
    explicit CountedDecisions(std::optional<std::size_t> limit = std::nullopt,
                              std::optional<std::size_t> without = std::nullopt)
        : limit_(limit), without_(without) {}

    // Those that follow are this pass's.
    void begin(std::string pass) { pass_ = std::move(pass); }
    // Whether the pass may decide so. The same question of a pass is the same decision, and has the answer that it had:
    // of a body that is rewritten until nothing changes, or of what the backward pass computes again.
    bool take(std::string what, std::string where, std::string text);

    std::optional<std::size_t> limit() const { return limit_; }
    std::optional<std::size_t> without() const { return without_; }
    // All that were asked for, taken or not, in order: the k-th has the number k + 1.
    const std::vector<CountedDecision>& asked() const { return asked_; }

  private:
    std::optional<std::size_t> limit_, without_;  // none: all are taken
    std::string pass_;
    std::vector<CountedDecision> asked_;
    std::map<std::tuple<std::string, std::string, std::string, std::string>, std::size_t> known_;  // place in `asked_`
};

}  // namespace thunderc

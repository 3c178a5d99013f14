// SPDX-License-Identifier: Apache-2.0
// Maximum flow and minimum cut, of recompute.h: what is kept is a cut through the graph of values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace thunderc {

// Maximum flow by Dinic's algorithm (E. A. Dinic, 1970): shortest augmenting paths in phases.
class FlowNetwork {
  public:
    static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max() / 4;

    explicit FlowNetwork(std::size_t nodes) : edges_of_(nodes) {}

    void connect(std::size_t from, std::size_t to, std::int64_t capacity);
    void run(std::size_t source, std::size_t sink);
    // Nodes from which the sink can still be reached: the sink's side of the minimum cut nearest to the sink.
    std::vector<bool> reaching(std::size_t sink) const;

  private:
    struct Edge {
        std::size_t to;
        std::int64_t capacity;  // what is left; edge e ^ 1 is the same edge backwards
    };

    bool levels(std::size_t source, std::size_t sink);
    bool augment(std::size_t source, std::size_t sink);

    std::vector<Edge> edges_;
    std::vector<std::vector<std::size_t>> edges_of_;
    std::vector<std::int32_t> level_;
    std::vector<std::size_t> next_;
};

}  // namespace thunderc

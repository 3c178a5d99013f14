// SPDX-License-Identifier: Apache-2.0
// In which order kernels can run while ops are grouped into them. A part of `fuse`.
#pragma once

#include <cstddef>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace thunderc {

// An order of groups of ops in which each stands behind those that it reads. It is mended as groups become one: two of
// them meet between where they stood, and only what stands between them has to move.
class GroupOrder {
  public:
    // By op: the ops that read its results, all of them behind it. Each op is a group of its own.
    explicit GroupOrder(std::vector<std::vector<int>> readers);

    // Whether something that depends on the group of one of the two ops is needed by that of the other: they cannot be
    // one group then.
    bool stand_apart(int a, int b);
    // Makes one group of two that do not stand apart.
    void merge(int a, int b);

  private:
    std::size_t at(int op) const { return static_cast<std::size_t>(op); }
    int group_of(int op);
    void stand_early();
    void find_longest_path();
    // The groups between the two that depend on the first of them; `last` itself among them where it does so through
    // another.
    std::vector<int> between(int first, int last);

    std::vector<int> parent_;                // by op: towards the op that stands for its group
    std::vector<std::vector<int>> readers_;  // by group; ops
    std::vector<std::size_t> position_;      // by group
    std::vector<int> order_;                 // groups by position; -1: none stands there any more
    std::vector<int> seen_;                  // by group: the last walk that came by
    int walk_ = 0;

    // A longest path of the ops answers most questions without a walk: of two groups far apart one stands between that
    // lies on it. By group: where the path is first reached from it, and from where on the path it is last reached.
    std::vector<int> reaches_, reached_from_;
    std::vector<int> size_;  // by group, in ops

    // What is known of the groups that depend on one, while questions are of the same one and nothing is merged: of
    // steps one behind the other each is asked about with all that follow.
    using Place = std::pair<std::size_t, int>;  // position, group
    int from_ = -1;
    int question_ = 0;
    std::vector<int> reached_, through_;  // by group: the last question in which it depends on from_; through another
    std::priority_queue<Place, std::vector<Place>, std::greater<>> ahead_;  // reached, and not gone on from
};

}  // namespace thunderc

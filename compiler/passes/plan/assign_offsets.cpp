// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/passes/plan/plan_parts.h"

namespace thunderc::planning {
namespace {

// Bytes that are taken: runs in order that neither overlap nor touch.
class Taken {
  public:
    void add(std::int64_t begin, std::int64_t end) {
        auto from = first_behind(begin - 1);  // what ends where this one begins becomes one with it
        auto to = from;
        for (; to != runs_.end() && to->first <= end; ++to) {
            begin = std::min(begin, to->first);
            end = std::max(end, to->second);
        }
        if (from == to) {
            runs_.emplace(from, begin, end);
            return;
        }
        *from = {begin, end};
        runs_.erase(from + 1, to);
    }

    // The lowest place at or behind `at` where so many bytes are free.
    std::int64_t free_from(std::int64_t at, std::int64_t bytes) const {
        for (auto run = first_behind(at); run != runs_.end() && run->first < at + bytes; ++run) at = run->second;
        return at;
    }

    bool empty() const { return runs_.empty(); }

  private:
    using Runs = std::vector<std::pair<std::int64_t, std::int64_t>>;

    // The first run that ends behind a place.
    Runs::iterator first_behind(std::int64_t at) {
        return runs_.begin() + (std::as_const(*this).first_behind(at) - runs_.cbegin());
    }
    Runs::const_iterator first_behind(std::int64_t at) const {
        return std::partition_point(runs_.begin(), runs_.end(), [at](const auto& run) { return run.second <= at; });
    }

    Runs runs_;
};

// What is taken during which ops: a tree whose leaves are ops. A piece is noted at the highest nodes below which it is
// needed all the time. What many pieces take together is few runs, so that a place is found without looking at each.
class TakenOverTime {
  public:
    explicit TakenOverTime(std::size_t ops) : leaves_(std::bit_ceil(ops)), whole_(2 * leaves_), some_(2 * leaves_) {}

    void add(const Piece& piece) {
        const std::int64_t begin = piece.offset, end = piece.offset + piece.bytes;
        for_nodes_within(piece, [&](std::size_t node) {
            whole_[node].add(begin, end);
            some_[node].add(begin, end);
        });
        for_nodes_above(piece, [&](std::size_t node) { some_[node].add(begin, end); });
    }

    // The lowest place that is free as long as the piece is needed.
    std::int64_t lowest_place(const Piece& piece) {
        in_the_way_.clear();
        const auto note = [&](const Taken& taken) {
            if (!taken.empty()) in_the_way_.push_back(&taken);
        };
        for_nodes_within(piece, [&](std::size_t node) { note(some_[node]); });
        for_nodes_above(piece, [&](std::size_t node) { note(whole_[node]); });
        std::int64_t at = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (const Taken* taken : in_the_way_) {
                const std::int64_t free = taken->free_from(at, piece.bytes);
                moved = moved || free != at;
                at = free;
            }
        }
        return at;
    }

  private:
    // The highest nodes of whose ops the piece needs all.
    template <typename Visit>
    void for_nodes_within(const Piece& piece, const Visit& visit) const {
        std::size_t left = leaves_ + piece.first, right = leaves_ + piece.last + 1;
        for (; left < right; left /= 2, right /= 2) {
            if (left % 2 == 1) visit(left++);
            if (right % 2 == 1) visit(--right);
        }
    }

    // The nodes above its first op and its last, and these themselves.
    template <typename Visit>
    void for_nodes_above(const Piece& piece, const Visit& visit) const {
        std::size_t left = leaves_ + piece.first, right = leaves_ + piece.last;
        for (; left != right; left /= 2, right /= 2) {
            visit(left);
            visit(right);
        }
        for (; left > 0; left /= 2) visit(left);
    }

    std::size_t leaves_;
    std::vector<Taken> whole_;  // by node: by pieces that are needed during all of its ops
    std::vector<Taken> some_;   // … by pieces of nodes below, and its own
    std::vector<const Taken*> in_the_way_;
};

}  // namespace

// Largest first, each at the lowest place where no piece of an overlapping lifetime lies. A good heuristic for
// interval packing; MiniMalloc's search would come closer to the optimum.
std::int64_t assign_offsets(std::vector<Piece>& pieces) {
    std::vector<std::size_t> order(pieces.size());
    std::size_t ops = 1;
    for (std::size_t k = 0; k < order.size(); ++k) {
        order[k] = k;
        ops = std::max(ops, pieces[k].last + 1);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return pieces[a].bytes > pieces[b].bytes; });
    std::int64_t total = 0;
    TakenOverTime taken(ops);
    for (std::size_t k : order) {
        Piece& piece = pieces[k];
        piece.offset = 0;
        if (piece.bytes == 0) continue;  // it is in nobody's way
        piece.offset = taken.lowest_place(piece);
        taken.add(piece);
        total = std::max(total, aligned(piece.offset + piece.bytes));
    }
    return total;
}

}  // namespace thunderc::planning

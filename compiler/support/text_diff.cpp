// SPDX-License-Identifier: Apache-2.0
#include "compiler/support/text_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace thunderc {
namespace {

// With their ends, so that a last line without one differs from the same line with one.
std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
        lines.push_back(text.substr(begin, end - begin));
        begin = end;
    }
    return lines;
}

struct Pair {
    std::size_t i, j;
};

// Patience diff (Bram Cohen, 2009): lines that stand once in each text are matched where their order is the same, and
// what lies between them is compared in turn. It follows functions and statements better than a shortest edit script,
// which likes to match braces, and takes n log n where texts have little in common. Between them, where no line is
// unique, a longest common subsequence.
class Matcher {
  public:
    Matcher(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b) {
        std::unordered_map<std::string_view, int> numbers;
        auto numbered = [&](const std::vector<std::string_view>& lines) {
            std::vector<int> out;
            for (std::string_view line : lines)
                out.push_back(numbers.try_emplace(line, static_cast<int>(numbers.size())).first->second);
            return out;
        };
        a_ = numbered(a);
        b_ = numbered(b);
        match(0, a_.size(), 0, b_.size());
    }

    const std::vector<Pair>& pairs() const { return pairs_; }  // equal lines, ascending in both

  private:
    void match(std::size_t a0, std::size_t a1, std::size_t b0, std::size_t b1) {
        for (; a0 < a1 && b0 < b1 && a_[a0] == b_[b0]; ++a0, ++b0) pairs_.push_back({a0, b0});
        std::size_t tail = 0;
        while (a0 < a1 - tail && b0 < b1 - tail && a_[a1 - 1 - tail] == b_[b1 - 1 - tail]) ++tail;
        a1 -= tail;
        b1 -= tail;
        if (a0 < a1 && b0 < b1) {
            if (const std::vector<Pair> anchors = unique_pairs(a0, a1, b0, b1); !anchors.empty()) {
                for (const Pair& p : anchors) {
                    match(a0, p.i, b0, p.j);
                    pairs_.push_back(p);
                    a0 = p.i + 1;
                    b0 = p.j + 1;
                }
                match(a0, a1, b0, b1);
            } else {
                common_subsequence(a0, a1, b0, b1);
            }
        }
        for (std::size_t k = 0; k < tail; ++k) pairs_.push_back({a1 + k, b1 + k});
    }

    // The longest chain, ascending in both texts, of lines that stand once in each range.
    std::vector<Pair> unique_pairs(std::size_t a0, std::size_t a1, std::size_t b0, std::size_t b1) const {
        struct Place {
            std::size_t in_a = 0, in_b = 0, at_b = 0;
        };
        std::unordered_map<int, Place> places;
        for (std::size_t i = a0; i < a1; ++i) ++places[a_[i]].in_a;
        for (std::size_t j = b0; j < b1; ++j)
            if (auto found = places.find(b_[j]); found != places.end()) ++found->second.in_b, found->second.at_b = j;
        // Patience sorting: piles of growing length, each entry knows the one that it lies behind.
        std::vector<Pair> candidates;
        std::vector<std::size_t> behind, piles;
        for (std::size_t i = a0; i < a1; ++i) {
            const Place& place = places.at(a_[i]);
            if (place.in_a != 1 || place.in_b != 1) continue;
            const auto pile = std::lower_bound(piles.begin(), piles.end(), place.at_b,
                                               [&](std::size_t c, std::size_t j) { return candidates[c].j < j; });
            behind.push_back(pile == piles.begin() ? SIZE_MAX : *(pile - 1));
            if (pile == piles.end())
                piles.push_back(candidates.size());
            else
                *pile = candidates.size();
            candidates.push_back({i, place.at_b});
        }
        std::vector<Pair> out;
        for (std::size_t c = piles.empty() ? SIZE_MAX : piles.back(); c != SIZE_MAX; c = behind[c])
            out.push_back(candidates[c]);
        std::reverse(out.begin(), out.end());
        return out;
    }

    // By the usual table; ranges for which that would be large count as different altogether.
    void common_subsequence(std::size_t a0, std::size_t a1, std::size_t b0, std::size_t b1) {
        const std::size_t n = a1 - a0, m = b1 - b0;
        if (n * m > 4'000'000) return;
        std::vector<std::uint32_t> length((n + 1) * (m + 1));  // of what follows line i of the one and j of the other
        auto at = [&](std::size_t i, std::size_t j) -> std::uint32_t& { return length[i * (m + 1) + j]; };
        for (std::size_t i = n; i-- > 0;)
            for (std::size_t j = m; j-- > 0;)
                at(i, j) = a_[a0 + i] == b_[b0 + j] ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
        for (std::size_t i = 0, j = 0; i < n && j < m;) {
            if (a_[a0 + i] == b_[b0 + j])
                pairs_.push_back({a0 + i++, b0 + j++});
            else if (at(i + 1, j) >= at(i, j + 1))
                ++i;
            else
                ++j;
        }
    }

    std::vector<int> a_, b_;  // equal lines have equal numbers
    std::vector<Pair> pairs_;
};

}  // namespace

std::vector<LineEdit> diff_lines(std::string_view before, std::string_view after) {
    const std::vector<std::string_view> a = lines_of(before), b = lines_of(after);
    const Matcher matcher(a, b);
    std::vector<LineEdit> out;
    std::size_t i = 0, j = 0;
    auto until = [&](std::size_t i_end, std::size_t j_end) {
        for (; i < i_end; ++i) out.push_back({LineEdit::Kind::removed, a[i]});
        for (; j < j_end; ++j) out.push_back({LineEdit::Kind::added, b[j]});
    };
    for (const Pair& p : matcher.pairs()) {
        until(p.i, p.j);
        out.push_back({LineEdit::Kind::same, a[i]});
        ++i, ++j;
    }
    until(a.size(), b.size());
    return out;
}

std::string unified_diff(std::string_view before_name, std::string_view after_name, std::string_view before,
                         std::string_view after) {
    constexpr std::size_t context = 3;
    const std::vector<LineEdit> edits = diff_lines(before, after);
    std::string out;
    std::size_t a_line = 0, b_line = 0;  // lines before edits[at]
    std::size_t at = 0;
    auto pass = [&](const LineEdit& e) {
        a_line += e.kind != LineEdit::Kind::added;
        b_line += e.kind != LineEdit::Kind::removed;
    };
    while (true) {
        std::size_t first = at;
        while (first < edits.size() && edits[first].kind == LineEdit::Kind::same) ++first;
        if (first == edits.size()) return out;
        // Up to where more equal lines follow than two changes share as their surroundings.
        std::size_t end = first + 1;
        for (std::size_t equal = 0, k = end; k < edits.size() && equal <= 2 * context; ++k) {
            equal = edits[k].kind == LineEdit::Kind::same ? equal + 1 : 0;
            if (equal == 0) end = k + 1;
        }
        const std::size_t begin = first - std::min(context, first - at), stop = std::min(end + context, edits.size());
        for (; at < begin; ++at) pass(edits[at]);
        const std::size_t a_begin = a_line, b_begin = b_line;
        std::string lines;
        for (; at < stop; ++at) {
            const LineEdit& e = edits[at];
            lines += e.kind == LineEdit::Kind::same ? ' ' : e.kind == LineEdit::Kind::removed ? '-' : '+';
            lines += e.line;
            if (!e.line.ends_with('\n')) lines += "\n\\ No newline at end of file\n";
            pass(e);
        }
        if (out.empty()) out = fmt::format("--- {}\n+++ {}\n", before_name, after_name);
        // An empty range is named by the line before it.
        auto range = [](std::size_t from, std::size_t to) {
            const std::size_t count = to - from;
            return count == 1 ? fmt::format("{}", from + 1) : fmt::format("{},{}", count == 0 ? from : from + 1, count);
        };
        out += fmt::format("@@ -{} +{} @@\n{}", range(a_begin, a_line), range(b_begin, b_line), lines);
    }
}

}  // namespace thunderc

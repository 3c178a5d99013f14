// SPDX-License-Identifier: Apache-2.0
#include "data/row_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "data/permutation.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

// Whole numbers in the ratio of the weights that add up to the rows of a block: by largest remainder, of equal ones the
// first.
std::vector<std::uint64_t> quotas(std::span<const double> weights, std::span<const std::string> names,
                                  std::uint64_t block_rows) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<std::uint64_t> rows(weights.size());
    std::vector<std::pair<double, std::size_t>> left;
    std::uint64_t given = 0;
    for (std::size_t k = 0; k < weights.size(); ++k) {
        const double share = weights[k] / sum * static_cast<double>(block_rows);
        rows[k] = static_cast<std::uint64_t>(share);
        given += rows[k];
        left.emplace_back(-(share - std::floor(share)), k);
    }
    std::sort(left.begin(), left.end());
    for (std::size_t i = 0; given < block_rows; ++given, ++i) ++rows[left[i % left.size()].second];
    for (std::size_t k = 0; k < weights.size(); ++k)
        if (weights[k] > 0 && rows[k] == 0)
            fail(cat("the weight of ", names[k], " is ", digits("%.2g", weights[k] / sum),
                     " of all, which is less than one row in ", block_rows),
                 "give it more, or leave it away");
    return rows;
}

// Epochs of two sources of one size are not in one order.
std::uint64_t seed_of_source(std::uint64_t seed, std::size_t source) {
    return source == 0 ? seed : mix_bits(seed + source);
}

}  // namespace

RowOrder::RowOrder(std::vector<std::vector<EpochsOfSource>> sources, const std::vector<MixturePiece>& pieces,
                   std::span<const std::string> names, std::uint64_t seed, std::uint64_t block_rows)
    : sources_(std::move(sources)), seed_(seed), block_rows_(block_rows) {
    std::vector<std::uint64_t> before(sources_.size());
    for (const MixturePiece& given : pieces) {
        if (!pieces_.empty())
            for (std::size_t k = 0; k < before.size(); ++k)
                before[k] += drawn_in(pieces_.size() - 1, k, given.first - pieces_.back().first);
        Piece piece{.first = given.first, .quota = quotas(given.weights, names, block_rows), .before = before};
        const auto drawn_from = [](std::uint64_t rows) { return rows > 0; };
        piece.is_mixed = std::count_if(piece.quota.begin(), piece.quota.end(), drawn_from) > 1;
        piece.only = static_cast<std::size_t>(std::find_if(piece.quota.begin(), piece.quota.end(), drawn_from) -
                                              piece.quota.begin());
        pieces_.push_back(std::move(piece));
    }
}

std::size_t RowOrder::piece_of(std::uint64_t row) const {
    const auto behind = std::upper_bound(pieces_.begin(), pieces_.end(), row,
                                         [](std::uint64_t at, const Piece& piece) { return at < piece.first; });
    return static_cast<std::size_t>(behind - pieces_.begin() - 1);
}

const std::vector<RowOrder::Draw>& RowOrder::block(std::size_t piece, std::uint64_t block) {
    if (!block_.empty() && block_piece_ == piece && block_number_ == block) return block_;
    // The i-th of q rows of a source lies at (i + u) / q of the block, u being random: sorted, these are the block.
    std::vector<std::uint64_t> places;  // 48 bits of where, 16 of the source
    places.reserve(block_rows_);
    const PhiloxKey key = philox_key(seed_, "mixture");
    const std::vector<std::uint64_t>& quota = pieces_[piece].quota;
    const std::uint64_t begin = pieces_[piece].first + block * block_rows_;  // a row of the run: no two blocks have one
    for (std::size_t k = 0; k < quota.size(); ++k) {
        PhiloxCounter random{};
        for (std::uint64_t i = 0; i < quota[k]; ++i) {
            if (i % 4 == 0)
                random = philox({static_cast<std::uint32_t>(i / 4 | (k << 16)), static_cast<std::uint32_t>(begin),
                                 static_cast<std::uint32_t>(begin >> 32), 0},
                                key);
            const std::uint64_t where = ((i << 32 | random[i % 4]) << 16) / quota[k];
            places.push_back(where << 16 | k);
        }
    }
    std::sort(places.begin(), places.end());
    std::vector<std::uint32_t> numbers(quota.size());
    block_.resize(block_rows_);
    for (std::size_t i = 0; i < block_rows_; ++i) {
        const auto source = static_cast<std::uint32_t>(places[i] & 0xffff);
        block_[i] = {source, numbers[source]++};
    }
    block_piece_ = piece;
    block_number_ = block;
    return block_;
}

std::uint64_t RowOrder::drawn_in(std::size_t piece, std::size_t source, std::uint64_t rows) {
    const Piece& p = pieces_[piece];
    if (!p.is_mixed) return p.only == source ? rows : 0;
    const std::uint64_t whole = rows / block_rows_, rest = rows % block_rows_;
    std::uint64_t count = whole * p.quota[source];
    if (rest == 0 || p.quota[source] == 0) return count;
    const std::vector<Draw>& draws = block(piece, whole);
    for (std::uint64_t i = 0; i < rest; ++i) count += draws[i].source == source ? 1 : 0;
    return count;
}

std::uint64_t RowOrder::drawn(std::size_t source, std::uint64_t row) {
    const std::size_t piece = piece_of(row);
    return pieces_[piece].before[source] + drawn_in(piece, source, row - pieces_[piece].first);
}

RowOrder::Place RowOrder::operator()(std::uint64_t row) {
    const std::size_t piece = piece_of(row);
    const Piece& p = pieces_[piece];
    const std::uint64_t within = row - p.first;
    Place place;
    std::uint64_t draw = within;
    if (p.is_mixed) {
        const Draw& found = block(piece, within / block_rows_)[within % block_rows_];
        place.source = found.source;
        draw = within / block_rows_ * p.quota[place.source] + found.number;
    } else {
        place.source = p.only;
    }
    draw += p.before[place.source];

    const std::vector<EpochsOfSource>& all = sources_[place.source];
    place.epochs = all.size() - 1;
    while (place.epochs > 0 && all[place.epochs].first > draw) --place.epochs;
    const EpochsOfSource& epochs = all[place.epochs];
    place.draw = draw;
    place.epoch = epochs.epoch + (draw - epochs.first) / epochs.samples;
    place.sample = Permutation(epochs.samples, seed_of_source(seed_, place.source),
                               place.epoch)((draw - epochs.first) % epochs.samples);
    return place;
}

std::uint64_t RowOrder::rows_of_first_epochs() {
    // Draws never fall behind as rows go on: halving finds the first row that begins a second epoch.
    std::uint64_t low = 0, high = 0;
    for (const std::vector<EpochsOfSource>& source : sources_) high += source.front().samples;
    const auto fits = [&](std::uint64_t rows) {
        for (std::size_t k = 0; k < sources_.size(); ++k)
            if (drawn(k, rows) > sources_[k].front().samples) return false;
        return true;
    };
    while (low < high) {
        const std::uint64_t middle = low + (high - low + 1) / 2;
        if (fits(middle)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

}  // namespace thunder

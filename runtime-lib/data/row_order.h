// SPDX-License-Identifier: Apache-2.0
// Which sample each row of a run is. The order is a function of the seed and of a row's number alone: not of ranks, of
// micro-steps or of what was read before. So all that a run remembers of its data is how many rows it took, and it goes
// on from there on any number of ranks without a sample lost or taken twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace thunder {

// Epochs of a source that have the same samples: from its draw `first` on, which begins epoch `epoch`.
struct EpochsOfSource {
    std::uint64_t first = 0, epoch = 0;
    std::uint64_t samples = 0;  // in each
};

// From row `first` of the run on, sources are drawn from by these weights, until the next one.
struct MixturePiece {
    std::uint64_t first = 0;
    std::vector<double> weights;  // of each source; 0: not drawn from
};

// A source's draws take its samples epoch by epoch, each sample once in each, in an order of that epoch
// (permutation.h). Which source a row draws from is decided for blocks of `block_rows` rows of a piece: a block has of
// each source as many rows as its weight says, to the nearest one (by largest remainder), each at a random place of its
// own part of the block, so that any rows side by side have about as many of each. One block is kept: memory and time
// do not depend on how many rows there are.
class RowOrder {
  public:
    static constexpr std::uint64_t usual_block = 65536;

    // `pieces` begin with row 0 and ascend; each has a weight for each source. `names` are the sources', for messages.
    // Fails where a weight is too small for a row in each block, which has `block_rows` of all, at most 65536.
    RowOrder(std::vector<std::vector<EpochsOfSource>> sources, const std::vector<MixturePiece>& pieces,
             std::span<const std::string> names, std::uint64_t seed, std::uint64_t block_rows = usual_block);

    struct Place {
        std::size_t source = 0;
        std::uint64_t draw = 0;  // from that source, in the whole run
        std::uint64_t epoch = 0, sample = 0;
        std::size_t epochs = 0;  // which of the source's EpochsOfSource
    };
    Place operator()(std::uint64_t row);

    // How many rows before `row` were drawn from a source.
    std::uint64_t drawn(std::size_t source, std::uint64_t row);

    // Rows from 0 on of which each has a sample of its own, before any source begins its second epoch.
    std::uint64_t rows_of_first_epochs();

  private:
    struct Piece {
        std::uint64_t first = 0;
        std::vector<std::uint64_t> quota;   // rows of each source in a block
        std::vector<std::uint64_t> before;  // draws of each source before this piece
        std::size_t only = 0;               // the one source, where there is one alone
        bool is_mixed = false;
    };
    struct Draw {
        std::uint32_t source, number;  // number: of the source's rows of this block
    };

    std::size_t piece_of(std::uint64_t row) const;
    const std::vector<Draw>& block(std::size_t piece, std::uint64_t block);
    std::uint64_t drawn_in(std::size_t piece, std::size_t source, std::uint64_t rows);

    std::vector<std::vector<EpochsOfSource>> sources_;
    std::vector<Piece> pieces_;
    std::uint64_t seed_, block_rows_;
    std::vector<Draw> block_;  // the one that was looked at last
    std::size_t block_piece_ = 0;
    std::uint64_t block_number_ = ~std::uint64_t{0};
};

}  // namespace thunder

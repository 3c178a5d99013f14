// SPDX-License-Identifier: Apache-2.0
// What a checkpoint keeps of the data beside the number of rows: which files the epochs of each source have, and by
// which weights rows were drawn so far. So a run goes on within an epoch when files were added meanwhile, weights were
// changed or a source is new: rows that are drawn stay what they were. Files are known by what they hold, and sources
// by their files: where they lie, how they are called and in which order they are named may change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/row_order.h"
#include "data/samples.h"

namespace thunder {

struct DataRecord {
    // Epochs that have the same files; the next ones begin where they end.
    struct Epochs {
        std::uint64_t first = 0, epoch = 0;  // as in EpochsOfSource
        std::vector<SampleFile> files;

        std::uint64_t samples() const;
    };
    struct Source {
        std::string name;
        std::vector<Epochs> epochs;
    };
    std::vector<Source> sources;
    std::vector<MixturePiece> pieces;
    std::uint64_t block = RowOrder::usual_block;

    RowOrder order(std::uint64_t seed) const;
};

// As JSON.
std::string record_text(const DataRecord& record);
DataRecord parse_record(const std::string& text, const std::string& path);

struct GoneOn {
    DataRecord record;
    std::vector<std::size_t> places;  // in it, of the sources that the run has now
};

// The record of a run that goes on at row `position` with what it has now; sources that it had stay in front, drawn
// from or not. A source goes on as the one that it shares the most files with, or, where it shares none, the one of its
// name. Where files were added, they count from the source's next epoch on; where files are gone or changed within an
// epoch, it fails, or, with `restarts`, begins another epoch without them. A source with other samples (of another
// length) is a new one. `notes`: lines that say so.
GoneOn go_on(DataRecord before, const DataRecord& now, std::uint64_t position, std::uint64_t seed, bool restarts,
             std::vector<std::string>& notes);

}  // namespace thunder

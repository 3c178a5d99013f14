// SPDX-License-Identifier: Apache-2.0
// What --data and --data-schedule name: sources, and by which weights rows are drawn from them.
//
//     corpus.bin                      one file, or one folder
//     a.bin,b.bin                     several that are one source: each sample once in an epoch of all of them
//     web:0.7,code:0.3                two sources: 70% of the rows from the one, 30% from the other
//
// A schedule is JSON: [{"step": 0, "data": "web:0.9,code:0.1"}, {"step": 1000, "data": "web:0.5,code:0.5"}], or with
// "row" for "step": rows of all steps before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/row_order.h"
#include "train/options.h"

namespace thunder {

struct DataSource {
    std::string name;                // as it was written: "web", "a.bin,b.bin"
    std::vector<std::string> paths;  // files and folders
};

struct Mixture {
    std::vector<DataSource> sources;
    std::vector<MixturePiece> pieces;
};

// Of --data. Fails (exit status 2) where weights are no numbers above 0, are given for some alone, or where a file or
// folder is named twice.
Mixture parse_mixture(const std::string& data);

// What is drawn from when, as it was written.
struct DataSchedule {
    struct Piece {
        bool by_row = false;  // of the run; else by its steps
        std::int64_t begins = 0;
        std::string data;
    };
    std::string path;  // of a --data-schedule; "" of --data
    std::vector<Piece> pieces;
};

// Of --data, one piece, or of the file of --data-schedule.
DataSchedule data_schedule_of(const Options& options);

// Its sources, in the order of the mixture below, whatever its pieces begin at.
std::vector<DataSource> sources_of(const DataSchedule& schedule);

// Of a run that goes on at step `step` and row `position`, with `rows` rows in each step to come. Steps that are done
// may have had others: pieces that began before are in order, and no more.
Mixture mixture_of(const DataSchedule& schedule, std::int64_t rows, std::int64_t step, std::int64_t position);

// All files and folders that a --data, or a --data-schedule, names.
std::vector<std::string> paths_of(const std::string& data);
std::vector<std::string> paths_of(const DataSchedule& schedule);

// What --data or --data-schedule names, as far as some pages of it tell (fingerprint.h), with the weights.
std::string sample_of_data(const Options& options);

}  // namespace thunder

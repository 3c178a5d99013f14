// SPDX-License-Identifier: Apache-2.0
// What a report shows of a program beside its runs: where its tensors lie (LAYOUT in model.h), and when what runs (a
// file that --timeline wrote).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace thunderc {

struct ReportTensor {
    std::string name, shape, type, arena;
    std::int64_t offset = 0, bytes = 0;  // of one
    std::int64_t count = 1, stride = 0;  // so many, one for each layer
    std::string lifetime, shares;
};

struct ReportProgram {
    std::string model, command;                                // of its train.json
    std::vector<ReportTensor> tensors;                         // in the order of LAYOUT; of a large model the largest
    std::size_t left_out = 0;                                  // of them
    std::vector<std::pair<std::string, std::int64_t>> arenas;  // bytes, in the order of LAYOUT
};

// Throws UserError where the folder holds no training program.
ReportProgram read_report_program(const std::filesystem::path& folder);

// A span of time in which something ran.
struct ReportSpan {
    std::string name, kind;
    std::size_t lane = 0;
    double begin = 0, duration = 0;    // microseconds
    double bytes = 0;                  // of a collective; else 0
    std::int64_t id = -1, after = -1;  // as the file numbers them: which one it waited for; -1: it does not say
};

struct ReportTimeline {
    std::vector<std::string> lanes;  // "rank 0: compute"
    std::vector<ReportSpan> spans;   // in the order of their beginnings
    std::size_t left_out = 0;        // that begin later
};

// A file in Chrome's trace format, as `thunderc plan --timeline` and a program's own --timeline write it.
ReportTimeline read_report_timeline(const std::filesystem::path& path);

}  // namespace thunderc

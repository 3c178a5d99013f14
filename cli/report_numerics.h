// SPDX-License-Identifier: Apache-2.0
// What a run wrote with --numerics, as a report shows it: a row for each tensor and each gradient, over all steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace thunderc {

struct NumericsRow {
    std::string name, dtype, call;  // of a gradient no call
    // The worst of all steps: parts of its elements, and how many were no numbers.
    double underflow = 0, overflow = 0;
    std::int64_t nan = 0;
    std::optional<double> least_snr;    // decibels, where it was asked for
    std::int64_t worst_step = 0;        // the first one with most that is no number, else overflow, else underflow
    std::int64_t lines = 0;             // steps in which it was looked at
    std::optional<double> first, last;  // how large it was in the first and the last of these: the root mean square of
                                        // a tensor, the norm of a gradient

    // How many times as large it became; none where it was 0 or no number at either end, or looked at once.
    std::optional<double> growth() const;
};

struct ReportNumerics {
    std::string path;
    std::int64_t first_step = 0, last_step = 0, steps = 0;
    std::int64_t tensors = 0;       // rows of the file, of which these are the ones to look at
    std::vector<NumericsRow> rows;  // no number first, then the largest overflow, underflow, the least decibels
    std::vector<std::string> notes;
};

// Each reason to look at a tensor gives at most `most` rows. Lines that are none are left out, with a note. Throws
// UserError where the file is there and no line of it is of --numerics.
ReportNumerics read_report_numerics(const std::filesystem::path& path, std::size_t most = 8);

// The table for a terminal.
std::string numerics_text(const ReportNumerics& numerics);

// Rows of a table in a page.
std::string numerics_rows(const ReportNumerics& numerics);

}  // namespace thunderc

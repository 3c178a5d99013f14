// SPDX-License-Identifier: Apache-2.0
// The page of `thunderc report`: templates/report with what was read put into it. It loads nothing, and the same input
// gives the same bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/report_log.h"
#include "cli/report_numerics.h"
#include "cli/report_program.h"

namespace thunderc {

struct RunReport {
    std::string title;
    std::vector<ReportLog> logs;
    std::optional<ReportProgram> program;
    std::optional<ReportTimeline> timeline;
    std::optional<ReportNumerics> numerics;
};

std::string report_page(const RunReport& report);

// Text within an element or an attribute in double quotes.
std::string html_text(std::string_view text);

}  // namespace thunderc

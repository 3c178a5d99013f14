// SPDX-License-Identifier: Apache-2.0
// Reads the text of a function of model.cpp as the host runs it: loops, conditions, what is recorded, waited for and
// sent. It knows nothing of how the text is printed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace thunderc {

struct ScheduleStep {
    enum class Kind { compute, record, wait, collective } kind = Kind::compute;
    std::string stream;               // "stream" is that of compute
    std::string what;                 // the collective's call
    std::vector<std::string> places;  // of a collective on units: "gathered+128", in the order of its fields
    std::int64_t record = -1;         // of a wait: the step that recorded what it waits for; -1: nothing did
};

// `text`: model.cpp; `constants`: model.h, which says where units lie. Neighbouring calls on compute are one step, and
// so are neighbouring calls of one collective.
std::vector<ScheduleStep> read_schedule(const std::string& text, const std::string& constants,
                                        const std::string& function, bool first_micro_step, bool last_micro_step);

std::string to_string(const std::vector<ScheduleStep>& steps);

}  // namespace thunderc

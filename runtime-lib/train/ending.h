// SPDX-License-Identifier: Apache-2.0
// What ends a run: its last step, --max-tokens, --max-time, a signal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "data/batch_source.h"
#include "train/options.h"

namespace thunder {

// From here on a page of a mapped file that cannot be read ends the program with a message.
void catch_lost_pages();

// From here on the first SIGINT, SIGTERM or SIGUSR1 lets the step end; a second one ends the program at once. Batch
// systems send such signals some time before they end a job: Slurm with --signal=B:USR1@300.
void catch_signals();
int caught_signal();  // 0: none

// Why a rank would end the run; together, why all ranks do.
struct EndRequest {
    std::int32_t signal = 0;          // of several, the one of the largest number
    std::int32_t is_out_of_time = 0;  // a bool, of a size that ranks exchange

    explicit operator bool() const { return signal != 0 || is_out_of_time != 0; }
    void add(const EndRequest& other);
};

// This rank's. `began`: when the run did, as steady_ms() has it.
EndRequest end_request(const Options& options, double began);

// The step before which the run ends, by --steps and by --max-tokens; of the run that `progress` stands in. Where
// --max-tokens is given and --steps is not, it is --steps as well, which the schedule follows.
std::int64_t last_step(const ProgramSpec& program, Options& options, const BatchCut& cut, const Progress& progress);

// What a run says that goes on where it would end: "8 steps are done, --steps is 8: nothing to train".
std::string nothing_left(const Options& options, std::int64_t done, std::int64_t last);

// "90s", "1.5h", "2d" or "90", in seconds; negative: it is no such text.
double seconds_of(std::string_view text);

}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// How much of its time a long job trains, whose machines fail now and then.
//
// The model: failures are a Poisson process, at any time, also while a checkpoint is written and while the job starts
// again. After so many seconds of training a checkpoint stops it for a while; a failure throws away what was done since
// the last whole one, and the job trains again after so many seconds more, unless it fails before.
//
// With S = interval + checkpoint seconds and M the mean time between failures, a segment that ends with its checkpoint
// takes M exp(restart / M) (exp(S / M) - 1) on average (Daly, "A higher order estimate of the optimum checkpoint
// interval for restart dumps", FGCS 22, 2006, (13)), and the interval for which the part of it that trains is largest
// solves ln(1 - x) + x + checkpoint / M = 0 for x = interval / M: where its derivative is 0.
#pragma once

#include <cstdint>
#include <string>

namespace thunderc {

struct FailingJob {
    double mtbf = 0;        // seconds between two failures of the job, on average
    double checkpoint = 0;  // seconds for which a checkpoint stops training
    double restart = 0;     // seconds from a failure until it trains again, but for what is done again
};

// Parts of a job's time; they add up to 1.
struct Goodput {
    double training = 0;     // that lasts
    double checkpoints = 0;  // writing those that were whole
    double again = 0;        // training and checkpoints that a failure threw away
    double restarts = 0;
};

// On average, with a checkpoint after so many seconds of training.
Goodput goodput(const FailingJob& job, double interval);

// Seconds of training between two checkpoints: what the formulas say, and what is best.
double young_interval(const FailingJob& job);  // sqrt(2 checkpoint mtbf): Young, CACM 17, 1974
double daly_interval(const FailingJob& job);   // Daly's higher order estimate, (37)
double best_interval(const FailingJob& job);

// `gpus`: of how many the job's mean time is; 0: nobody said.
std::string goodput_table(const FailingJob& job, std::int64_t gpus);
std::string goodput_json(const FailingJob& job, std::int64_t gpus);

}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// thunderc plan --mtbf, against a job that is simulated, failure by failure, and a search over intervals.
#include "cli/goodput.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/commands/commands_test.h"

namespace thunderc {
namespace goodput_test {

using namespace commands;

// Runs the job until so many seconds of training lasted. Draws of our own from 53 bits: the same ones everywhere.
Goodput simulated(const FailingJob& job, double interval, double training) {
    std::mt19937_64 bits(20240731);
    const auto next_failure = [&] {
        const double uniform = static_cast<double>((bits() >> 11U) + 1) * 0x1p-53;  // above 0
        return -job.mtbf * std::log(uniform);
    };
    Goodput seconds;
    double left = next_failure();
    while (seconds.training < training) {
        if (left > interval + job.checkpoint) {
            left -= interval + job.checkpoint;
            seconds.training += interval;
            seconds.checkpoints += job.checkpoint;
            continue;
        }
        seconds.again += left;
        // A restart that fails begins anew.
        for (left = next_failure(); left < job.restart; left = next_failure()) seconds.restarts += left;
        left -= job.restart;
        seconds.restarts += job.restart;
    }
    const double all = seconds.training + seconds.checkpoints + seconds.again + seconds.restarts;
    return {seconds.training / all, seconds.checkpoints / all, seconds.again / all, seconds.restarts / all};
}

// A job of Llama 3's size, one that hardly fails, and one that fails all the time.
const FailingJob jobs[] = {{54 * 86400.0 / 419, 60, 600}, {1e6, 5, 300}, {900, 120, 400}};

TEST(Goodput, IsThatOfASimulatedJob) {
    for (const FailingJob& job : jobs)
        for (const double factor : {0.3, 1.0, 3.0}) {
            const double interval = factor * best_interval(job);
            const Goodput expected = simulated(job, interval, 20'000 * job.mtbf), got = goodput(job, interval);
            // Some 20,000 failures or more: their number, and so each part, is known to 1 part in 140; three times
            // that.
            EXPECT_NEAR(got.training, expected.training, 0.02 * (1 - expected.training)) << job.mtbf << " " << factor;
            EXPECT_NEAR(got.checkpoints, expected.checkpoints, 0.02 * expected.checkpoints);
            EXPECT_NEAR(got.again, expected.again, 0.02 * expected.again);
            EXPECT_NEAR(got.restarts, expected.restarts, 0.02 * expected.restarts);
            EXPECT_NEAR(got.training + got.checkpoints + got.again + got.restarts, 1, 1e-12);
        }
}

TEST(Goodput, IsBestWhereNoOtherIntervalIsBetter) {
    for (const FailingJob& job : jobs) {
        const double best = best_interval(job), most = goodput(job, best).training;
        for (double interval = best / 30; interval < 30 * best; interval *= 1.01)
            EXPECT_LE(goodput(job, interval).training, most * (1 + 1e-12)) << interval;
        // The restart has no part in it.
        EXPECT_EQ(best, best_interval({job.mtbf, job.checkpoint, 10 * job.restart}));
    }
    // Where checkpoints are short beside the time between failures, the formulas are right.
    const FailingJob rare{1e6, 5, 300};
    EXPECT_NEAR(young_interval(rare), best_interval(rare), 0.002 * best_interval(rare));
    EXPECT_NEAR(daly_interval(rare), best_interval(rare), 2e-5 * best_interval(rare));
    // Young's is too long by the checkpoint's own part elsewhere; Daly's is not.
    const FailingJob often{900, 120, 400};
    EXPECT_GT(young_interval(often), 1.1 * best_interval(often));
    EXPECT_NEAR(daly_interval(often), best_interval(often), 0.002 * best_interval(often));
}

class PlanGoodput : public Commands {};

// The 54 days of Llama 3 405B's training: 419 unexpected interruptions on 16,384 GPUs.
TEST_F(PlanGoodput, OfLlama3) {
    const std::string costs = " --checkpoint-seconds 60 --restart-seconds 600";
    const Ran ran = run("plan --mtbf 3.093" + costs + " --json");
    ASSERT_EQ(ran.status, 0) << ran.err;
    const nlohmann::json json = nlohmann::json::parse(ran.out);
    EXPECT_NEAR(json.at("best").at("interval_seconds").get<double>(), best_interval({3.093 * 3600, 60, 600}), 1e-4);
    EXPECT_EQ(json.at("gpus"), nullptr);
    const nlohmann::json by_gpu =
        nlohmann::json::parse(run("plan --mtbf 50675.712 --gpus 16384" + costs + " --json").out);
    EXPECT_NEAR(by_gpu.at("mtbf_seconds").get<double>(), 3.093 * 3600, 1e-3);
    const Ran table = run("plan --mtbf 3.093" + costs);
    EXPECT_NE(table.out.find("a failure every 3.1 h on average; a checkpoint stops training for 60.0 s"),
              std::string::npos)
        << table.out;
    EXPECT_NE(table.out.find("| the best of this model |"), std::string::npos);
}

TEST_F(PlanGoodput, RefusesWhatDoesNotGoTogether) {
    const auto refused = [](const std::string& options, const std::string& message) {
        const Ran ran = run("plan " + options);
        EXPECT_EQ(ran.status, 2) << options;
        EXPECT_EQ(ran.err.substr(0, ran.err.find('\n')), "error: " + message);
    };
    refused("--mtbf 3", "--mtbf needs --checkpoint-seconds");
    refused("--mtbf 3 --checkpoint-seconds 60", "--mtbf needs --restart-seconds");
    refused(fixtures + "/mlp/dynamo.logits.onnx --mtbf 3 --checkpoint-seconds 60 --restart-seconds 600",
            "--mtbf is about a job, whatever it trains, and a model is given");
    refused(fixtures + "/mlp/dynamo.logits.onnx --gpus 3", "--gpus is about a job that fails now and then");
    refused("", "model is required");
    EXPECT_EQ(run("plan --mtbf 0").status, 2);
}

}  // namespace goodput_test
}  // namespace thunderc

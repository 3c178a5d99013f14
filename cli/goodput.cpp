// SPDX-License-Identifier: Apache-2.0
#include "cli/goodput.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace thunderc {

Goodput goodput(const FailingJob& job, double interval) {
    const double segment = interval + job.checkpoint;
    const double failures = std::expm1(segment / job.mtbf);  // until a segment is whole
    const double restarts = failures * std::expm1(job.restart / job.mtbf) * job.mtbf;
    const double work = failures * job.mtbf;  // the segment, and what of it is done again
    const double all = work + restarts;
    return {interval / all, job.checkpoint / all, (work - segment) / all, restarts / all};
}

double young_interval(const FailingJob& job) {
    return std::sqrt(2 * job.checkpoint * job.mtbf);
}

double daly_interval(const FailingJob& job) {
    if (job.checkpoint >= 2 * job.mtbf) return job.mtbf;
    const double part = job.checkpoint / (2 * job.mtbf);
    return young_interval(job) * (1 + std::sqrt(part) / 3 + part / 9) - job.checkpoint;
}

double best_interval(const FailingJob& job) {
    // Falls from checkpoint / mtbf, at 0, to minus infinity, at 1.
    const auto slope = [&](double x) { return std::log1p(-x) + x + job.checkpoint / job.mtbf; };
    double low = 0, high = 1;
    for (int k = 0; k < 100; ++k) (slope((low + high) / 2) > 0 ? low : high) = (low + high) / 2;
    return low * job.mtbf;
}

namespace {

// "13.5 min"
std::string time_text(double seconds) {
    if (seconds < 120) return fmt::format("{:.1f} s", seconds);
    if (seconds < 7200) return fmt::format("{:.1f} min", seconds / 60);
    if (seconds < 2 * 86400) return fmt::format("{:.1f} h", seconds / 3600);
    return fmt::format("{:.1f} days", seconds / 86400);
}

}  // namespace

std::string goodput_table(const FailingJob& job, std::int64_t gpus) {
    const double best = best_interval(job);
    std::string out = fmt::format("a failure every {} on average", time_text(job.mtbf));
    if (gpus > 0)
        out += fmt::format(": {} GPU{}, each of which has one every {}", gpus, gpus == 1 ? "" : "s",
                           time_text(job.mtbf * static_cast<double>(gpus)));
    out += fmt::format("; a checkpoint stops training for {}, a restart takes {}\n\n", time_text(job.checkpoint),
                       time_text(job.restart));
    out += "| a checkpoint every | goodput | checkpoints | done again | restarts | |\n|---:|---:|---:|---:|---:|---|\n";
    const std::pair<double, const char*> rows[] = {{best / 4, "a quarter of the best"},
                                                   {best / 2, "half"},
                                                   {best, "the best of this model"},
                                                   {young_interval(job), "Young: sqrt(2 checkpoint mtbf)"},
                                                   {daly_interval(job), "Daly's estimate"},
                                                   {best * 2, "twice"},
                                                   {best * 4, "four times"}};
    for (const auto& [interval, what] : rows) {
        const Goodput g = goodput(job, interval);
        out += fmt::format("| {} | {:.2f}% | {:.2f}% | {:.2f}% | {:.2f}% | {} |\n", time_text(interval),
                           100 * g.training, 100 * g.checkpoints, 100 * g.again, 100 * g.restarts, what);
    }
    const Goodput g = goodput(job, best);
    out += fmt::format(
        "\nin 30 days: {:.1f} failures, {:.1f} days of training that lasts; failures are taken to be independent of "
        "each "
        "other and of time\n",
        30 * 86400 / job.mtbf, 30 * g.training);
    return out;
}

std::string goodput_json(const FailingJob& job, std::int64_t gpus) {
    const auto object = [&](double interval) {
        const Goodput g = goodput(job, interval);
        return fmt::format(
            "{{\"interval_seconds\": {:.9g}, \"goodput\": {:.9g}, \"checkpoints\": {:.9g}, \"again\": {:.9g}, "
            "\"restarts\": {:.9g}}}",
            interval, g.training, g.checkpoints, g.again, g.restarts);
    };
    return fmt::format(
        "{{\n  \"mtbf_seconds\": {:.9g}, \"checkpoint_seconds\": {:.9g}, \"restart_seconds\": {:.9g}, \"gpus\": {},\n"
        "  \"best\": {},\n  \"young\": {},\n  \"daly\": {}\n}}\n",
        job.mtbf, job.checkpoint, job.restart, gpus == 0 ? "null" : std::to_string(gpus), object(best_interval(job)),
        object(young_interval(job)), object(daly_interval(job)));
}

}  // namespace thunderc

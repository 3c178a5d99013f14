// SPDX-License-Identifier: Apache-2.0
#include "train/best.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "checkpoint/folder.h"
#include "support/file.h"
#include "support/json.h"
#include "support/text.h"
#include "train/flags.h"

namespace thunder {

// The step of the checkpoint that best.json names; -1: none.
std::int64_t BestEvaluation::named_step() const {
    const std::string path = join_path(options_.checkpoint, "best.json");
    if (!is_file(path)) return -1;
    const MappedFile file(path);
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    const Json json = parse_json(text, path);
    const Json* const step = json.find("step");
    return step != nullptr && step->is(Json::Kind::integer) ? step->integer : -1;
}

void BestEvaluation::begin(const Progress& progress) {
    step_ = last_ = kept_ = -1;
    since_ = 0;
    // A checkpoint that was written before its loss was known does not say of itself that it is kept.
    if (named_step() == progress.step) kept_ = progress.step;
    const auto kept = progress.kept.find("best_evaluation");
    if (kept == progress.kept.end()) return;
    long long step = -1, since = 0, last = -1;
    if (std::sscanf(kept->second.c_str(), "%lld %lf %lld %lld", &step, &loss_, &since, &last) != 4) return;
    step_ = step;
    since_ = since;
    last_ = last;
    const auto checkpoint = progress.kept.find("best_checkpoint");
    if (checkpoint != progress.kept.end() && kept_ < 0) kept_ = std::atoll(checkpoint->second.c_str());
}

bool BestEvaluation::add(const EvaluationReport& report, Progress& progress) {
    const bool asked = options_.keep_best || options_.early_stop > 0;
    if (!asked || report.step <= last_) return false;
    last_ = report.step;
    // A loss that is no number is lower than none.
    const bool better = std::isfinite(report.loss) && (step_ < 0 || report.loss < loss_);
    since_ = better ? 0 : since_ + 1;
    if (better) {
        step_ = report.step;
        loss_ = report.loss;
    }
    if (better && options_.keep_best) {
        kept_ = step_;
        progress.kept["best_checkpoint"] = cat(kept_);
    }
    progress.kept["best_evaluation"] = cat(step_, " ", loss_, " ", since_, " ", last_);
    return better;
}

std::string BestEvaluation::describe() const {
    return cat("--early-stop ", options_.early_stop, ": no lower loss in ",
               count_text(static_cast<std::uint64_t>(since_), "evaluation"),
               step_ < 0 ? std::string()
                         : cat(": the lowest is ", digits("%.4f", loss_), ", after ",
                               count_text(static_cast<std::uint64_t>(step_), "step")));
}

void BestEvaluation::write(const std::string& checkpoint) const {
    const std::string name = checkpoint.substr(checkpoint.rfind('/') + 1);
    const std::string text =
        cat("{\"checkpoint\":", json_quote(name), ",\"step\":", step_, ",\"eval_loss\":", loss_, "}\n");
    AtomicFile file(join_path(options_.checkpoint, "best.json"));
    file.write(text.data(), text.size());
    file.commit();
}

void BestEvaluation::name(const std::string& checkpoint, CheckpointWriter& writer, const World& world) const {
    writer.finish();
    world.together([&] {
        if (!world.is_first()) return;
        write(checkpoint);
        prune_checkpoints(options_.checkpoint, options_.keep, options_.keep_every, kept_step());
    });
}

void add_best_flags(std::vector<Flag>& flags) {
    const std::string group = "Evaluation (of the same batches each time, by the forward pass alone)";
    flags.push_back({{"keep-best", "",
                      "write a checkpoint after each evaluation whose loss is lower than all before, and keep the last "
                      "such one: best.json beside it names it",
                      group},
                     [](Options& o, const std::string&, const Place&) { o.keep_best = true; }});
    flags.push_back({{"early-stop", "N", "end the run after N evaluations in a row without a lower loss", group},
                     [](Options& o, const std::string& value, const Place& place) {
                         o.early_stop = integer(value, place, 1, "a whole number of 1 or more");
                     }});
}

}  // namespace thunder

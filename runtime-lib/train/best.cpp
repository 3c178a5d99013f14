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
#include "train/evaluation.h"
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

std::string BestEvaluation::begin(const Progress& progress) {
    step_ = last_ = kept_ = -1;
    since_ = 0;
    const auto kept = [&](const char* name) {
        const auto at = progress.kept.find(name);
        return at == progress.kept.end() ? std::string() : at->second;
    };
    if (const std::string text = kept("best_checkpoint"); !text.empty()) kept_ = std::atoll(text.c_str());
    // A checkpoint that was written before its loss was known does not say of itself that it is kept.
    if (named_step() == progress.step) kept_ = progress.step;
    long long step = -1, since = 0, last = -1;
    double loss = 0;
    if (std::sscanf(kept("best_evaluation").c_str(), "%lld %lf %lld %lld", &step, &loss, &since, &last) != 4) return "";
    last_ = last;
    const std::string of = kept("best_evaluation_of");
    if (is_asked() && evaluates(options_) && !of.empty() && of != evaluated_batches(options_)) {
        last_ = -1;
        return cat("warning: the checkpoint's evaluations were of other batches: which loss is the lowest, begins anew",
                   kept_ < 0 ? std::string() : cat("; the checkpoint of step ", kept_, " stays until one is kept"));
    }
    step_ = step;
    loss_ = loss;
    since_ = since;
    return "";
}

bool BestEvaluation::add(const EvaluationReport& report, Progress& progress) {
    if (!is_asked() || report.step <= last_) return false;
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
    progress.kept["best_evaluation_of"] = evaluated_batches(options_);
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

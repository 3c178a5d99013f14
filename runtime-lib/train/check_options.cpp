// SPDX-License-Identifier: Apache-2.0
#include "train/check_options.h"

#include <algorithm>
#include <iterator>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/torch_file.h"
#include "data/mixture.h"
#include "support/error.h"
#include "support/file.h"
#include "support/text.h"
#include "train/adapters.h"
#include "train/buffers.h"
#include "train/evaluation.h"
#include "train/groups.h"
#include "train/init.h"
#include "train/loss_scaler.h"
#include "train/save.h"
#include "watch/numerics.h"

namespace thunder {

namespace {

// Nothing is written over what is read, nor over something else that is written.
void check_files(const Options& o) {
    const std::pair<const char*, const std::string*> written[] = {
        {"--log", &o.log},           {"--save", &o.save},
        {"--save-ema", &o.save_ema}, {"--dump-gradients", &o.dump_gradients},
        {"--timeline", &o.timeline}, {"--memory", &o.memory},
        {"--numerics", &o.numerics}};
    const std::string init = file_of(o.init);
    std::vector<std::pair<const char*, const std::string*>> read = {
        {"--data-schedule", &o.data_schedule}, {"--feed", &o.feed}, {"--init", &init}, {"--eval-feed", &o.eval_feed}};
    const std::vector<std::string> data = o.data_schedule.empty() ? paths_of(o.data) : paths_of(data_schedule_of(o)),
                                   eval_data = paths_of(o.eval_data);
    for (const std::string& path : data) read.emplace_back("--data", &path);
    for (const std::string& path : eval_data) read.emplace_back("--eval-data", &path);
    const auto differ = [](const auto& a, const auto& b) {
        if (!a.second->empty() && !b.second->empty() && same_file(*a.second, *b.second))
            fail_usage(cat(a.first, " and ", b.first, " are one file: ", *a.second), "name two files");
    };
    for (std::size_t i = 0; i < std::size(written); ++i) {
        for (std::size_t j = 0; j < i; ++j) differ(written[j], written[i]);
        for (const auto& other : read) {
            if (*other.second != "random") differ(other, written[i]);
        }
    }
}

// What is about --data alone.
void check_data(const Options& o) {
    if (!o.data.empty() && !o.data_schedule.empty())
        fail_usage("--data and --data-schedule exclude each other", "leave one of them away");
    const bool given = !o.data.empty() || !o.data_schedule.empty() || !o.eval_data.empty();
    const std::pair<const char*, bool> about[] = {{"--map", !o.map.empty()},
                                                  {"--documents", o.documents != Options::Documents::join},
                                                  {"--normalize", !o.normalize.empty()},
                                                  {"--flip", o.flip},
                                                  {"--data-errors", o.skip_damaged},
                                                  {"--verify-data", o.verify_data},
                                                  {"--change-data", o.change_data}};
    for (const auto& [name, asked] : about)
        if (asked && !given)
            fail_usage(cat(name, " is about --data, and there is none"), "train --help says what there is");
    for (const auto& [input, role] : o.map)
        if (role == "documents" && o.documents == Options::Documents::join)
            fail_usage(cat("--map ", input, "=documents keeps documents apart, and --documents join does not"),
                       "add --documents separate, or leave it away");
    if (o.skip_long_documents && o.documents != Options::Documents::one)
        fail_usage("--long-documents is about documents that are a row each", "add --documents one, or leave it away");
}

bool finds_any(const std::string& pattern, const std::vector<std::string>& names) {
    const std::regex expression(pattern);
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return std::regex_search(name, expression); });
}

DType stepped_dtype(const ProgramSpec& program) {
    const auto trained = std::find_if(program.parameters.begin(), program.parameters.end(),
                                      [](const ParameterSpec& p) { return p.trainable; });
    return trained == program.parameters.end() ? DType::f32 : trained->dtype;
}

void check_evaluation(const Options& o, const ProgramSpec& program) {
    if (!evaluates(o)) {
        if (o.eval_only || o.eval_batches > 0 || o.eval_every > 0 || o.keep_best || o.early_stop > 0 || o.eval_ema)
            fail_usage(cat(o.eval_only          ? "--eval-only"
                           : o.eval_batches > 0 ? "--eval-batches"
                           : o.eval_every > 0   ? "--eval-every"
                           : o.keep_best        ? "--keep-best"
                           : o.eval_ema         ? "--eval-ema"
                                                : "--early-stop",
                           " has nothing to evaluate"),
                       "add --eval-data PATH for packed tokens, or --eval-feed FILE for fixed batches");
        return;
    }
    if (o.eval_ema && o.ema == 0)
        fail_usage("--eval-ema evaluates the average of the weights, and none is kept",
                   "add --ema DECAY, such as 0.999");
    if (o.eval_ema && stepped_dtype(program) != DType::f32)
        fail_usage(cat("--eval-ema is of programs whose parameters are f32, as their average is, and those that ",
                       program.name, " trains are ", name_of(stepped_dtype(program))),
                   "evaluate what --save-ema wrote: --init FILE --eval-only");
    if (o.keep_best && o.checkpoint.empty())
        fail_usage("--keep-best is about checkpoints, and none are written", "add --checkpoint DIR");
    if (!o.eval_data.empty() && !o.eval_feed.empty())
        fail_usage("--eval-data and --eval-feed exclude each other", "leave one of them away");
    if (o.eval_only && !o.resume && !program.scaling.tensors.empty())
        fail_usage(cat("--eval-only: products of ", program.name,
                       " read numbers of eight bits, whose scales are in checkpoints, and weights alone have none"),
                   "add --resume --checkpoint DIR, or compile without --fp8");
    if (!program.not_evaluated.why.empty())
        fail_usage(cat(program.name, " is not evaluated as it is: ", program.not_evaluated.why),
                   std::string(program.not_evaluated.help));
}

void check_bad_steps(const Options& o, const ProgramSpec& program) {
    using OnNan = Options::OnNan;
    if (o.on_nan == OnNan::stop) {
        if (o.spike_factor > 0 || o.spike_window > 0 || o.nan_limit > 0)
            fail_usage(cat(o.spike_factor > 0   ? "--spike-factor"
                           : o.spike_window > 0 ? "--spike-window"
                                                : "--nan-limit",
                           " is about steps that are not taken, and --on-nan is stop"),
                       "add --on-nan skip, or --on-nan rollback");
        return;
    }
    if (o.spike_window > 0 && o.spike_factor == 0)
        fail_usage("--spike-window is the window of --spike-factor, which is not given", "add --spike-factor 10");
    if (o.on_nan == OnNan::skip && has_buffers(program))
        fail_usage(
            cat("--on-nan skip: the forward pass of ", program.name,
                " moves running statistics, which a step that is skipped has moved, perhaps to what is no number"),
            "--on-nan rollback goes back to a checkpoint, which has them as they were");
    if (o.on_nan != OnNan::rollback) return;
    if (o.checkpoint.empty())
        fail_usage("--on-nan rollback goes back to a checkpoint, and none are written", "add --checkpoint DIR");
    if (o.data.empty() && o.data_schedule.empty() && !o.eval_only)
        fail_usage("--on-nan rollback goes on with other data, and --feed has the same batch for a step each time",
                   "train on --data, or choose --on-nan skip");
}

}  // namespace

void check_options(const Options& o, const ProgramSpec& program) {
    const std::string help = "train --help says what there is";
    check_evaluation(o, program);
    check_bad_steps(o, program);
    check_data(o);
    if (o.data.empty() && o.data_schedule.empty() && o.feed.empty() && !o.eval_only)
        fail_usage("nothing to train on", "--data PATH for packed tokens, or --feed FILE for fixed batches");
    if (!(o.data.empty() && o.data_schedule.empty()) && !o.feed.empty())
        fail_usage("--data and --feed exclude each other", "leave one of them away");
    if (o.resume && o.checkpoint.empty())
        fail_usage("--resume needs to know where the checkpoints are", "add --checkpoint DIR");
    if (o.checkpoint_every > 0 && o.checkpoint.empty())
        fail_usage("--checkpoint-every needs a place to write to", "add --checkpoint DIR");
    if (o.checkpoint_async == Options::Background::on && o.checkpoint_every == 0)
        fail_usage("--checkpoint-async is about checkpoints that steps go on beside, and there are none",
                   "add --checkpoint-every N");
    if (o.keep > 0 && o.checkpoint.empty())
        fail_usage("--keep is about checkpoints, and none are written", "add --checkpoint DIR");
    if (o.keep_every > 0 && o.keep == 0)
        fail_usage("--keep-every says which checkpoints stay beside the newest, and without --keep all stay",
                   "add --keep K, or leave it away");
    if (!o.save_ema.empty() && o.ema == 0)
        fail_usage("--save-ema writes the average of the weights, and none is kept", "add --ema DECAY, such as 0.999");
    if (o.ema > 0 && o.save_ema.empty() && o.checkpoint.empty())
        fail_usage("--ema keeps an average of the weights that nothing writes",
                   "add --save-ema FILE, or --checkpoint DIR");
    if (!o.init_missing.empty() && initial_weights(o).empty())
        fail_usage(o.init.empty() ? "--init-missing is about files, and this program has none of its own"
                                  : "--init-missing is about files, and --init random reads none",
                   "give --init FILE, or leave it away: all parameters begin as the model's layers do");
    for (const MissingRule& rule : o.init_missing) {
        if (rule.pattern.empty()) continue;
        std::vector<std::string> names;
        for (const ParameterSpec& parameter : program.parameters) names.emplace_back(parameter.name);
        if (!finds_any(rule.pattern, names))
            fail_usage(cat("--init-missing ", rule.pattern, " matches no parameter of ", program.name),
                       cat("the parameters are ", list_text(names)));
    }
    check_groups(program, o);
    if (o.loss_scaling != Options::LossScaling::dynamic && (o.loss_scale_start > 0 || o.loss_scale_interval > 0))
        fail_usage(cat(o.loss_scale_start > 0 ? "--loss-scale-start" : "--loss-scale-interval",
                       " is about a dynamic scale of the loss, and --loss-scale is ", loss_scale_text(o)),
                   "add --loss-scale dynamic, or leave it away");
    const DType stepped = stepped_dtype(program);
    if (o.stochastic_rounding && stepped != DType::bf16)
        fail_usage(cat("--stochastic-rounding is about parameters in bf16, and those that ", program.name,
                       " trains are ", name_of(stepped)),
                   "leave it away; thunderc train --dtype bf16 --master none makes a program with such parameters");
    if (o.overlap_update && (o.no_overlap || o.ema > 0))
        fail_usage(cat("--overlap-update leaves the step of the parameters to the next forward pass, and ",
                       o.no_overlap ? "--no-overlap has it done behind the backward pass" : "--ema follows each step"),
                   "leave one of them away");
    if (o.numerics.empty() && (o.numerics_every > 0 || !o.numerics_tensors.empty()))
        fail_usage(cat(o.numerics_every > 0 ? "--numerics-every" : "--numerics-tensors",
                       " is about --numerics, which is not given"),
                   "add --numerics FILE, or leave it away");
    if (!o.numerics_tensors.empty()) {
        const std::vector<std::string> names = names_with_noise(program);
        if (!finds_any(o.numerics_tensors, names))
            fail_usage(cat("--numerics-tensors ", o.numerics_tensors, " finds no tensor of ", program.name,
                           " whose noise is known, a product's or one that is quantised by one scale"),
                       names.empty() ? "leave it away: there are none" : cat("these are ", list_text(names)));
    }
    if (!o.numerics.empty() && o.profile)
        fail_usage("--numerics looks at each call, and --profile would time that too", "leave one of them away");
    check_files(o);
    check_adapter_options(o);
    check_save_options(program, o);
    for (const auto& [input, role] : o.map) {
        std::vector<std::string> names;
        for (const InputSpec& spec : program.inputs) names.emplace_back(spec.name);
        if (std::find(names.begin(), names.end(), input) == names.end()) {
            fail_usage(cat("--map names ", input, ", which is not an input of ", program.name),
                       cat("the inputs are ", list_text(names)));
        }
    }
}

}  // namespace thunder

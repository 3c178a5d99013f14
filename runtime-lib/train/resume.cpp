// SPDX-License-Identifier: Apache-2.0
#include "train/resume.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "checkpoint/folder.h"
#include "comm/communicator.h"
#include "data/fingerprint.h"
#include "data/mixture.h"
#include "support/error.h"
#include "support/file.h"
#include "support/json.h"
#include "support/philox.h"
#include "support/text.h"
#include "train/bad_steps.h"
#include "train/groups.h"
#include "train/loss_scaler.h"
#include "train/world.h"
#include "watch/console.h"

namespace thunder {

namespace {

std::string batches_from(const Options& options) {
    return options.feed.empty() ? "--data" : "--feed";
}

// What thunderc train was told that steps follow, and no tensor of a checkpoint shows: from the command in train.json.
std::map<std::string, std::string> compiled_with(const std::string& folder) {
    const std::string path = join_path(folder, "train.json");
    if (folder.empty() || !is_file(path)) return {};
    const MappedFile file(path);
    const Json json = parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
    const Json* command = json.find("command");
    if (command == nullptr || !command->is(Json::Kind::string)) return {};
    std::vector<std::string> words(1);
    bool quoted = false;
    for (const char c : command->string) {
        if (c == '\'')
            quoted = !quoted;
        else if (c == ' ' && !quoted)
            words.emplace_back();
        else
            words.back() += c;
    }
    std::map<std::string, std::string> all;
    for (const char* flag : {"--output", "--loss", "--dropout", "--fp8-skip", "--fp8-wgrad"}) {
        const auto at = std::find(words.begin(), words.end(), flag);
        all.emplace(cat("thunderc train ", flag), at != words.end() && at + 1 != words.end() ? at[1] : "not given");
    }
    const bool synced = std::find(words.begin(), words.end(), "--sync-batch-norm") != words.end();
    all.emplace("thunderc train --sync-batch-norm", synced ? "given" : "not given");
    return all;
}

// What the steps of a run are made by. A run that keeps no checkpoints tells nobody.
std::map<std::string, std::string> made_by(const ProgramSpec& program, const Options& options, std::int64_t rows) {
    if (options.checkpoint.empty()) return {};
    std::map<std::string, std::string> all;
    for (const auto& [name, value] : step_options(program, options)) all.emplace(cat("--", name), value);
    all.merge(compiled_with(options.program_folder));
    all.emplace("--on-nan", std::string(name_of(options.on_nan)));
    all.emplace("--spike-factor", options.spike_factor > 0 ? cat(options.spike_factor) : "not given");
    all.emplace("--tf32", options.tf32 ? "given" : "not given");
    all.emplace("--min-lr", options.min_lr == options.lr / 10 ? "a tenth of --lr" : cat(options.min_lr));
    all.emplace(rows_a_step, cat(rows));
    all.emplace(batches_from(options), options.feed.empty() ? sample_of_data(options) : sample_of(options.feed));
    if (!options.feed.empty()) return all;
    all.emplace("--documents", std::string(name_of(options.documents)));
    all.emplace("--long-documents", options.skip_long_documents ? "skip" : "cut");
    all.emplace("--flip", options.flip ? "given" : "not given");
    std::string numbers = options.normalize.empty() ? "not given" : "", roles = options.map.empty() ? "not given" : "";
    for (const double x : options.normalize) numbers += cat(numbers.empty() ? "" : " ", x);
    std::map<std::string, std::string> map;  // as token_roles.cpp reads it: of two of one input the first
    for (const auto& [input, role] : options.map) map.emplace(input, role);
    for (const auto& [input, role] : map) roles += cat(roles.empty() ? "" : ",", input, "=", role);
    all.emplace("--normalize", numbers);
    all.emplace("--map", roles);
    return all;
}

// Masters and states of one type are what both have: such a run goes on, but not as if nothing had happened.
void note_compute(const Progress& before, const ProgramSpec& program, std::vector<std::string>& notes) {
    if (before.rounded > 0)
        notes.push_back(cat("note: ", count_text(before.rounded, "frozen parameter"),
                            before.rounded == 1 ? " comes" : " come", " from there in ", before.rounded_to,
                            ", as the program that wrote it holds them: what they were before is in "
                            "the file that the run began with alone, from which a new run has them by --init"));
    if (before.compute.empty() || before.compute == compute_type(program)) return;
    notes.push_back(cat("note: the checkpoint is of a program with products of ", before.compute,
                        ", this one's are of ", compute_type(program),
                        ": the steps to come are not those that it would have done"));
}

// Where the learning rate of the steps to come is another one than the run before would have given them.
void note_schedule(const Progress& before, const Options& options, std::vector<std::string>& notes) {
    if (before.steps < 0 || before.warmup < 0 || before.step >= options.steps) return;
    const bool warm = before.step >= std::max(before.warmup, options.warmup);
    const bool same = before.warmup == options.warmup && before.steps == options.steps;
    // A constant one follows neither, once both are warm.
    if (same || (options.schedule == Schedule::constant && (warm || before.warmup == options.warmup))) return;
    notes.push_back(cat("note: the checkpoint was made with --steps ", before.steps, " --warmup ", before.warmup,
                        "; with --steps ", options.steps, " --warmup ", options.warmup,
                        " the schedule of the learning rate changes"));
}

// With --data rows are counted on, whatever they are rows of; --feed has batches of a step each.
void note_batches(const Progress& before, const Options& options, std::vector<std::string>& notes) {
    if (before.batches.empty() || before.batches == batches_from(options)) return;
    notes.push_back(cat("note: the checkpoint's batches came from ", before.batches, ", these come from ",
                        batches_from(options), ", from ",
                        !options.feed.empty() ? cat("step ", before.step) : cat("row ", before.data_position), " on"));
}

// Where the steps to come are made by something else than those before. Where batches come from --feed now and from
// --data before, that was said.
void note_options(const Progress& before, const std::map<std::string, std::string>& now, const Options& options,
                  std::vector<std::string>& notes) {
    std::string others;
    for (const auto& [name, value] : now) {
        const auto found = before.made_by.find(name);
        // A run before an option was there did without it; of other things it does not tell.
        const bool without = value == "given" ||
                             (name == "--documents" && value != name_of(Options::Documents::join)) ||
                             (name == "--group" && value != groups_text({})) ||
                             (name == "--on-nan" && value != "stop") || (name == "--loss-scale" && value != "off");
        if (found == before.made_by.end() && (before.made_by.empty() || !without)) continue;
        const std::string old = found == before.made_by.end() ? "not given" : found->second;
        if (old == value) continue;
        others += others.empty() ? "" : ", ";
        if (name == batches_from(options))
            others += cat("another ", name);
        else if (name.starts_with("--") || name.starts_with("thunderc "))
            others += cat(name, " ", old, " (now ", value, ")");
        else
            others += cat(old, " ", name, " (now ", value, ")");
    }
    if (others.empty() || before.step >= options.steps) return;
    notes.push_back(cat("note: the checkpoint was made with ", others,
                        ": the steps to come are not those that it would have done"));
}

// The average of the weights is made beside the steps, which are what they would have been.
void note_average(const Progress& before, const Options& options, std::vector<std::string>& notes) {
    const double now = options.ema;
    if (before.ema == now) return;
    if (before.ema == 0) {
        notes.push_back(cat("note: the checkpoint has no average of weights: that of --ema ", now,
                            " begins with the parameters that are there"));
    } else if (now == 0) {
        notes.push_back(cat("note: the checkpoint has an average of weights, made with --ema ", before.ema,
                            ": without --ema it ends here"));
    } else {
        notes.push_back(cat("note: the checkpoint's average of weights was made with --ema ", before.ema,
                            ", and goes on with ", now));
    }
}

// What a command has that begins a run and goes on with it, as a requeued job's.
void note_init(const Options& options, std::vector<std::string>& notes) {
    std::string also;
    if (!options.save.empty() || !options.save_ema.empty()) also = ", and for the names of --save";
    if (!options.save_adapter.empty()) also += ", and for the base that --save-adapter names";
    if (!options.init.empty())
        notes.push_back(cat("note: parameters are the checkpoint's: --init is for a run that begins", also));
    if (!options.init_adapter.empty())
        notes.emplace_back("note: adapters are the checkpoint's: --init-adapter is for a run that begins");
}

}  // namespace

void begin_progress(Progress& progress, const ProgramSpec& program, const Options& options, std::int64_t rows) {
    progress.seed = options.seed;
    progress.batches = batches_from(options);
    progress.made_by = made_by(program, options, rows);
    progress.steps = options.steps;
    progress.warmup = options.warmup;
    if (options.loss_scaling != Options::LossScaling::dynamic) progress.loss_scale = 0;
}

void keep_seed(Options& options, const Progress& progress, const std::string& checkpoint) {
    if (options.seed_given && options.seed != progress.seed)
        fail(cat(checkpoint, " was begun with --seed ", progress.seed, ", not ", options.seed), "leave --seed away");
    options.seed = progress.seed;
}

std::vector<std::string> resume_progress(Progress& progress, const ProgramSpec& program, const Options& options,
                                         std::int64_t rows) {
    const Progress before = progress;
    begin_progress(progress, program, options, rows);
    std::vector<std::string> notes;
    note_compute(before, program, notes);
    note_schedule(before, options, notes);
    note_batches(before, options, notes);
    note_average(before, options, notes);
    note_loss_scale(before, options, notes);
    note_options(before, progress.made_by, options, notes);
    note_init(options, notes);
    return notes;
}

void tell_notes(const std::vector<std::string>& notes, Console& console) {
    for (const std::string& note : notes)
        if (!note.empty()) note.starts_with("warning") ? console.alarm(note) : console.line(note);
}

DataStart data_start_of(const Progress& progress, const std::string& checkpoint) {
    const auto record = progress.made_by.find(data_record);
    return {progress.step, progress.data_position, record == progress.made_by.end() ? "" : record->second, checkpoint,
            progress.seed};
}

namespace {

// What a rank found, as ranks exchange it.
struct Finding {
    std::int32_t is_damaged = 0;
    char message[500] = {}, help[300] = {};

    void set(const DamagedFile& damage) {
        is_damaged = 1;
        std::snprintf(message, sizeof message, "%s", damage.message().c_str());
        std::snprintf(help, sizeof help, "%s", damage.help().c_str());
    }
};

double bytes_in(const std::string& path) {
    if (!is_folder(path)) return is_file(path) ? static_cast<double>(MappedFile(path).bytes().size()) : 0;
    double bytes = 0;
    for (const std::string& name : names_in(path)) bytes += bytes_in(join_path(path, name));
    return bytes;
}

// Ranks read a checkpoint's files side by side, where all of them see the same ones.
std::optional<DamagedFile> damage_found(const std::string& path, Communicator& communicator, const World& world,
                                        Console& console) {
    const std::uint64_t mine = hash_text(path);
    std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.world()));
    communicator.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                            "which checkpoint is looked at");
    const bool shared = std::all_of(all.begin(), all.end(), [&](std::uint64_t one) { return one == all[0]; });
    Finding finding;
    world.together([&] {
        if (!shared && !world.is_first()) return;
        // Of all files, of which this rank reads its part; each time that it is told of one of so many bytes is done.
        constexpr double at_once = 64 << 20;
        LongWait waiting(console, "verifying the checkpoint",
                         bytes_in(path) / at_once / (shared ? static_cast<double>(all.size()) : 1));
        const auto gets_on = [&] {
            communicator.note_progress(0);
            waiting.add(1);
        };
        const auto damage =
            damage_of(path, gets_on, shared ? static_cast<std::size_t>(world.rank()) : 0, shared ? all.size() : 1);
        if (damage) finding.set(*damage);
    });
    std::vector<Finding> findings(all.size());
    communicator.all_gather(std::as_bytes(std::span(&finding, 1)), std::as_writable_bytes(std::span(findings)),
                            "whether a checkpoint is whole");
    for (const Finding& one : findings)
        if (one.is_damaged != 0) return DamagedFile(one.message, one.help);
    return std::nullopt;
}

}  // namespace

void leave_out_damaged(std::vector<std::string>& checkpoints, const Options& options, Communicator& communicator,
                       const World& world, Console& console) {
    std::uint64_t left = checkpoints.size();
    communicator.broadcast(std::as_writable_bytes(std::span(&left, 1)), 0, "how many checkpoints there are");
    if (!options.resume || left == 0) {
        checkpoints.resize(std::min<std::size_t>(left, checkpoints.size()));
        return;
    }
    std::optional<DamagedFile> first;
    for (; left > 0; --left) {
        const auto damage =
            damage_found(left <= checkpoints.size() ? checkpoints[left - 1] : "", communicator, world, console);
        if (!damage) break;
        if (!first) first = damage;
    }
    world.together([&] {
        if (!world.is_first()) return;
        if (left == 0) throw DamagedFile(*first);
        if (first) console.alarm(cat("warning: ", first->message(), ": the run goes on from ", checkpoints[left - 1]));
        if (!StoredCheckpoint(checkpoints[left - 1]).has_checksum())
            console.alarm(cat("warning: ", checkpoints[left - 1],
                              " was written without a checksum: whether its bytes are as they were is not known"));
        // Nobody takes them for the newest.
        for (std::size_t k = left; !options.eval_only && k < checkpoints.size(); ++k) put_aside(checkpoints[k]);
    });
    checkpoints.resize(std::min<std::size_t>(left, checkpoints.size()));
}

}  // namespace thunder

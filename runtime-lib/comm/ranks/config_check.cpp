// SPDX-License-Identifier: Apache-2.0
#include "comm/ranks/config_check.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "data/fingerprint.h"
#include "data/mixture.h"
#include "program/weights.h"
#include "support/file.h"
#include "support/philox.h"
#include "support/text.h"
#include "train/bad_steps.h"
#include "train/init.h"
#include "train/loss_scaler.h"
#include "train/save.h"
#include "train/world.h"

namespace thunder {

namespace {

std::string sample_of_eval_data(Options options) {
    options.data = options.eval_data;
    options.data_schedule.clear();
    return sample_of_data(options);
}

// Fails where a rank has another value than rank 0 of something, with what it is: "--lr", "0.1".
void compare(Communicator& communicator, std::span<const std::pair<std::string, std::string>> facts) {
    std::string text;
    for (const auto& [name, value] : facts) text += cat(name, "\n", value, "\n");
    const std::uint64_t hash[2] = {hash_text(text), text.size()};
    std::vector<std::uint64_t> hashes(2 * static_cast<std::size_t>(communicator.world()));
    communicator.all_gather(std::as_bytes(std::span(hash)), std::as_writable_bytes(std::span(hashes)),
                            "the fingerprint");
    for (int other = 1; other < communicator.world(); ++other) {
        const auto at = 2 * static_cast<std::size_t>(other);
        if (hashes[at] == hashes[0] && hashes[at + 1] == hashes[1]) continue;
        // Of the first that differs, rank 0 gets it all, to say what.
        if (communicator.rank() == other) communicator.send(std::as_bytes(std::span(text)), 0, "the fingerprint");
        if (communicator.rank() != 0) fail_quietly(1);
        std::string theirs(hashes[at + 1], '\0');
        communicator.receive(std::as_writable_bytes(std::span(theirs)), other, "the fingerprint");
        for (const auto& [name, value] : facts) {
            const std::size_t end = theirs.find('\n'), next = theirs.find('\n', end + 1);
            if (end == std::string::npos || next == std::string::npos) break;
            const std::string their_name = theirs.substr(0, end), their_value = theirs.substr(end + 1, next - end - 1);
            theirs.erase(0, next + 1);
            if (their_name == name && their_value == value) continue;
            const auto shown = [](const std::string& v) { return v.empty() ? std::string("nothing") : v; };
            fail(cat("rank ", other, " differs from rank 0 in ", name, ": ", shown(their_value), " there, and ",
                     shown(value), " on rank 0"),
                 "all ranks start the same program with the same options, and see the same files");
        }
        fail(cat("rank ", other, " runs another program than rank 0"), "let all ranks start the same file");
    }
}

// Of each tensor three pages: whoever trained one of them, or another number of steps, has moved all of it.
std::string sample_of_tensors(const std::string& path) {
    if (path.empty()) return "";
    const Weights weights(path);
    std::uint64_t hash = 0;
    for (const auto& [name, found] : weights.all()) {
        hash = hash_text(cat(name, found.tensor->describe()), hash);
        for (const TensorPart& part : found.all_parts()) hash = sampled_hash(part.tensor->bytes, 3, hash);
    }
    return cat(count_text(weights.all().size(), "tensor"), ", ", hex(hash));
}

// All of a file, eight bytes at a time: some gigabytes a second.
std::string hash_of(const std::string& path) {
    const MappedFile file(path);
    std::span<const std::byte> rest = file.bytes();
    std::uint64_t hash = 0;
    for (std::uint64_t word = 0; rest.size() >= sizeof word; rest = rest.subspan(sizeof word)) {
        std::memcpy(&word, rest.data(), sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
        hash ^= hash >> 32U;
    }
    return hex(hash_text({reinterpret_cast<const char*>(rest.data()), rest.size()}, hash));
}

std::string sample_of_checkpoint(const std::string& path) {
    if (path.empty()) return "";
    const std::string name = path.substr(path.rfind('/') + 1), manifest = join_path(path, manifest_name);
    // A manifest has the checksums of all bytes.
    if (is_folder(path)) return cat(name, ", ", is_file(manifest) ? hash_of(manifest) : "");
    return cat(name, ", ", sample_of(path), ", ", sample_of_tensors(path));
}

std::vector<std::pair<std::string, std::string>> facts_of(const ProgramSpec& program, const Options& o,
                                                          const std::string& checkpoint) {
    std::string layout = cat(program.name, " ", hex(program_identity(program)), " ", program.schedule, " ",
                             program.mesh.replicas, "x", program.mesh.shards, " ", program.batch);
    for (const std::size_t bytes : program.arena_bytes) layout += cat(" ", bytes);
    for (const UnitSpec& unit : program.units) layout += cat(" ", unit.name, " ", unit.elements, " ", unit.offset);
    std::string map;
    for (const auto& [input, role] : o.map) map += cat(input, "=", role, " ");
    std::string missing;
    for (const MissingRule& rule : o.init_missing) missing += cat(rule.pattern, "=", static_cast<int>(rule.start), " ");
    std::string normalize;
    for (const double x : o.normalize) normalize += cat(x, " ");
    const auto yes = [](bool given) { return std::string(given ? "given" : "not given"); };
    const std::string constants = program.constants.empty() ? "" : join_path(o.program_folder, "constants.safetensors");
    // The layout tells programs apart by what they hold and communicate, the executable by what they compute.
    std::vector<std::pair<std::string, std::string>> facts = {
        {"its program", hex(hash_text(layout))},
        {"the bytes of its executable", hash_of("/proc/self/exe")},
        {"its constants.safetensors", sample_of_tensors(constants)},
        {"the data that it sees",
         cat(sample_of_data(o), sample_of_all(o.feed), sample_of_eval_data(o), sample_of_all(o.eval_feed))},
        {"--documents", cat(name_of(o.documents), o.skip_long_documents ? " skip" : "")},
        {"--normalize", normalize},
        {"--flip", yes(o.flip)},
        {"--data-errors", o.skip_damaged ? "skip" : "refuse"},
        {"--eval-every", cat(o.eval_every)},
        {"--eval-batches", cat(o.eval_batches)},
        {"--eval-only", yes(o.eval_only)},
        {"--eval-ema", yes(o.eval_ema)},
        {"the checkpoint that it goes on from", o.resume ? sample_of_checkpoint(checkpoint) : ""},
        {"the parameters that it starts from", o.resume ? "" : sample_of_tensors(initial_weights(o))},
        {"--map", map},
        {"--init", o.init == "random" ? o.init : ""},
        {"--init-missing", missing},
        {"--init-adapter", o.init_adapter},
        {"--save-adapter", o.save_adapter},
        {"--init-std", cat(o.init_std)},
        {"--seed", cat(o.seed)},
        {"--steps", cat(o.steps)},
        {"--max-tokens", cat(o.max_tokens)}};
    // --lr among them, of which --min-lr follows where it is not given
    for (const auto& [name, value] : step_options(program, o)) facts.emplace_back(cat("--", name), value);
    facts.insert(facts.end(), {{"--min-lr", cat(o.min_lr)},
                               {"--loss-scale-start", cat(loss_scale_start(o))},
                               {"--warmup", cat(o.warmup)},
                               {"--grad-accum", cat(o.grad_accum)},
                               {"--change-batch", yes(o.change_batch)},
                               {"--change-data", yes(o.change_data)},
                               {"--checkpoint", o.checkpoint},
                               {"--checkpoint-every", cat(o.checkpoint_every)},
                               {"--resume", yes(o.resume)},
                               {"--dump-gradients", yes(!o.dump_gradients.empty())},
                               {"--numerics", yes(!o.numerics.empty())},
                               {"--numerics-every", cat(o.numerics_every)},
                               {"--on-nan", std::string(name_of(o.on_nan))},
                               {"--spike-factor", cat(o.spike_factor)},
                               {"--spike-window", cat(o.spike_window)},
                               {"--nan-limit", cat(o.nan_limit)},
                               {"--keep-best", yes(o.keep_best)},
                               {"--early-stop", cat(o.early_stop)},
                               {"--ema", cat(o.ema)},
                               {"--save", how_saved(o.save, o)},
                               {"--save-ema", how_saved(o.save_ema, o)},
                               {"--buffers", std::string(name_of(o.buffers))},
                               {"--no-overlap", yes(o.no_overlap)},
                               {"--overlap-update", yes(o.overlap_update)},
                               {"--memory", yes(!o.memory.empty())},
                               {"--timeline", yes(!o.timeline.empty())}});
    return facts;
}

}  // namespace

void check_config(Communicator& communicator, const ProgramSpec& program, const Options& options,
                  const std::string& checkpoint) {
    const World world(program, communicator);
    std::vector<std::pair<std::string, std::string>> facts;
    world.together([&] { facts = facts_of(program, options, checkpoint); });
    compare(communicator, facts);
}

}  // namespace thunder

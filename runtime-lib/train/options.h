// SPDX-License-Identifier: Apache-2.0
// The command line of a training program.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/stream.h"
#include "train/program.h"

namespace thunder {

enum class Schedule : std::uint8_t { cosine, linear, constant, wsd };
enum class Decay : std::uint8_t { matrices, all };

// What parameters begin as that --init does not have: those whose name the expression finds.
struct MissingRule {
    std::string pattern;  // ECMAScript, anywhere in the name; "": all that no rule before it took
    enum class Start : std::uint8_t { drawn, zeros, ones } start = Start::drawn;
};

// Parameters whose names the expression finds, and what steps them otherwise than the rest: lr (at its height: the
// schedule takes the part of it that it takes of --lr), weight_decay, and options of the optimizer's rule by their
// names.
struct ParameterGroup {
    std::string pattern;  // ECMAScript, anywhere in the name
    std::map<std::string, double> numbers;
};

// Of buffers that the model moves, where each rank has its own: what is written.
enum class Buffers : std::uint8_t { average, first };
std::string_view name_of(Buffers buffers);

struct Options {
    // where batches come from: one of the two
    std::string data;                                      // sources and their weights (data/mixture.h)
    std::string data_schedule;                             // a file that says them by steps, instead
    std::string feed;                                      // fixed batches in a safetensors file
    std::vector<std::pair<std::string, std::string>> map;  // input, what windows of --data feed it with

    // what becomes of documents, where files say where they end: windows across them, windows that keep them apart, one
    // in each row, or as many whole ones as fit
    enum class Documents : std::uint8_t { join, separate, one, fit } documents = Documents::join;
    bool skip_long_documents = false;                    // that a row does not hold; else they are cut
    bool skip_damaged = false;                           // files of --data
    bool verify_data = false;                            // all bytes of packed tokens, at the start
    std::map<std::string, std::string> damaged_files{};  // that this found, and in what way, where they are left out
    std::vector<double> normalize;  // of images: means of channels, or one for all, then as many deviations
    bool flip = false;              // images, at random

    // what the parameters start from
    std::string init;                       // "", "random", a file or a folder
    std::vector<MissingRule> init_missing;  // the first that fits
    std::string init_adapter;               // a folder of adapters
    double init_std = 0.02;
    std::uint64_t seed = 0;
    bool seed_given = false;

    // how they are trained
    std::int64_t steps = 100;
    bool steps_given = false;
    std::int64_t max_tokens = 0;  // 0: as many as --steps takes
    double max_seconds = 0;       // 0: as long as it takes
    std::string max_time;         // these, as they were given
    double lr = 3e-4;
    double min_lr = -1;        // negative: a tenth of lr
    std::int64_t warmup = -1;  // negative: a tenth of steps, at most 100
    Schedule schedule = Schedule::cosine;
    double weight_decay = 0;  // of the optimizer's rule, where the command line says none
    Decay decay = Decay::matrices;
    std::vector<double> rule;            // the Options of the optimizer's rule
    std::vector<ParameterGroup> groups;  // the first that fits
    bool stochastic_rounding = false;    // of parameters in bf16
    double grad_clip = 1.0;              // 0: off
    enum class LossScaling : std::uint8_t { off, fixed, dynamic } loss_scaling = LossScaling::off;
    double loss_scale = 0;                 // a fixed one
    double loss_scale_start = 0;           // of a dynamic one; 0: 65536
    std::int64_t loss_scale_interval = 0;  // 0: 2000
    // What is done with a step whose gradient is no number, or far larger than those before.
    enum class OnNan : std::uint8_t { stop, skip, rollback } on_nan = OnNan::stop;
    double spike_factor = 0;        // from how many times the median norm on it is far larger; 0: never
    std::int64_t spike_window = 0;  // of how many steps; 0: 100
    std::int64_t nan_limit = 0;     // such steps in a row, or ways back, that end the run; 0: 10
    double ema = 0;                 // decay of the average of weights; 0: there is none
    std::int64_t grad_accum = 1;
    bool grad_accum_given = false;
    bool change_batch = false;  // a run that goes on may take other numbers of rows
    bool change_data = false;   // and need not have the files of the epoch that is under way

    // what is evaluated, and when
    std::string eval_data, eval_feed;  // one of the two, or neither
    std::int64_t eval_every = 0;       // 0: 100
    std::int64_t eval_batches = 0;     // 0: all of a feed, ten of tokens
    bool eval_only = false;
    bool eval_ema = false;        // the average of weights, in place of the weights
    bool keep_best = false;       // the checkpoint of the lowest loss
    std::int64_t early_stop = 0;  // evaluations without a lower loss that end the run; 0: never

    // what is written
    std::string log;
    std::string checkpoint;
    std::int64_t checkpoint_every = 0;  // 0: only at the end
    std::int64_t keep = 0;              // 0: all
    std::int64_t keep_every = 0;        // those whose step it divides are kept all the same; 0: none
    std::int64_t log_every = 10;        // steps; of lines that a person reads where there is no terminal
    enum class Background : std::uint8_t { automatic, on, off } checkpoint_async = Background::automatic;
    bool resume = false;
    std::string dump_gradients;
    std::string save, save_ema;
    std::optional<DType> save_dtype{};  // of what these write; none: as parameters are held
    std::string save_adapter;           // a folder
    std::string memory;
    std::string tensorboard;          // a folder
    std::string numerics;             // a file
    std::int64_t numerics_every = 0;  // steps; 0: 100
    std::string numerics_tensors;     // ECMAScript, anywhere in the name; "": none
    double peak_tflops = 0;           // of one rank's device; 0: what is known of it

    int threads = 0;  // 0: the cores of this host, over the ranks on it
    bool quiet = false;

    Buffers buffers = Buffers::average;

    // of a GPU
    bool overlap_update = false;  // the update runs beside the next forward pass, as it does on a GPU
    bool tf32 = false, autotune = false, no_cuda_graph = false, no_early_start = false, profile = false;
    SumsOfAttention attention_backward = SumsOfAttention::automatic;

    // of several ranks
    double hang_timeout = 1800;  // seconds
    std::uint64_t chaos = 0;     // 0: off
    bool no_overlap = false;     // collectives are issued on the stream that computes, updates behind the backward pass
    std::string timeline;

    std::string program_folder;  // where train.json, weights and constants lie

    // Whether a step may leave everything as it was, as the device finds.
    bool skips_steps() const { return loss_scaling != LossScaling::off || on_nan != OnNan::stop; }
};

std::string_view name_of(Options::Documents documents);

// The options of a run: built-in defaults, then those of the folder's train.json, then the command line. Nothing, where
// --help was asked for and printed. A wrong command line fails with exit status 2, a wrong train.json with 1; of
// several ranks one tells of it.
std::optional<Options> parse_options(int argc, char** argv, const ProgramSpec& program,
                                     const std::string& program_folder);

// The options that say what a step computes, by their names, as text.
std::vector<std::pair<std::string, std::string>> step_options(const ProgramSpec& program, const Options& options);

// What --help prints, with these defaults.
std::string help_text(const ProgramSpec& program, const Options& defaults);

}  // namespace thunder

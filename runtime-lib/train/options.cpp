// SPDX-License-Identifier: Apache-2.0
#include "train/options.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <regex>
#include <span>

#include "comm/communicator.h"
#include "optim/rules/info.h"
#include "support/command_line.h"
#include "support/environment.h"
#include "support/error.h"
#include "support/file.h"
#include "support/json.h"
#include "support/text.h"
#include "train/adapters.h"
#include "train/bad_steps.h"
#include "train/buffers.h"
#include "train/check_options.h"
#include "train/ending.h"
#include "train/evaluation.h"
#include "train/flags.h"
#include "train/groups.h"
#include "train/init.h"
#include "train/loss_scaler.h"
#include "train/save.h"
#include "train/schedule.h"
#include "train/world.h"

namespace thunder {

namespace {

constexpr std::string_view not_negative = "a number of 0 or more";

// As the command line spells a name of C++.
std::string option_name(std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
}

double rule_option(rules::Range range, const std::string& value, const Place& place) {
    if (range == rules::Range::flag) return 1;
    if (range == rules::Range::not_negative) return real(value, place, 0, std::string(not_negative));
    if (range == rules::Range::positive) return real(value, place, 0, "a number above 0", true);
    const std::string expected = "a number from 0 to below 1";
    const double number = real(value, place, 0, expected);
    if (number >= 1) place.reject(value, expected);
    return number;
}

// A power of two multiplies and divides without an error; others are allowed.
double scale_of_loss(const std::string& value, const Place& place, const std::string& expected) {
    const double scale = real(value, place, 0, expected, true);
    if (scale > static_cast<double>(std::numeric_limits<float>::max()) ||
        scale < static_cast<double>(std::numeric_limits<float>::min()))
        place.reject(value, expected);
    return scale;
}

std::vector<Flag> make_flags(const ProgramSpec& program) {
    std::vector<Flag> flags;
    std::string group;
    const auto add = [&](std::string name, std::string argument, std::string help, auto set) {
        flags.push_back({{std::move(name), std::move(argument), std::move(help), group}, set});
    };
    const auto text = [](std::string Options::*field) {
        return [field](Options& o, const std::string& value, const Place& place) {
            if (value.empty()) place.reject(value, "a name");
            o.*field = value;
        };
    };
    const auto number = [](double Options::*field, std::string_view expected, double least = 0) {
        return [=](Options& o, const std::string& value, const Place& place) {
            o.*field = real(value, place, least, std::string(expected));
        };
    };
    const auto count = [](std::int64_t Options::*field, std::int64_t least) {
        return [=](Options& o, const std::string& value, const Place& place) {
            o.*field = integer(value, place, least, cat("a whole number of ", least, " or more"));
        };
    };
    const auto flag = [](bool Options::*field) {
        return [field](Options& o, const std::string&, const Place&) { o.*field = true; };
    };

    add_data_flags(flags);

    group = "Parameters";
    add("init", "WHERE",
        "random, a FILE of safetensors or torch.save, a part of one (FILE#KEY), or a Hugging Face DIR (default: the "
        "weights of the export, if it had any, else random)",
        text(&Options::init));
    add("init-missing", "HOW",
        "what parameters begin as that --init lacks, instead of refusing: random, zeros or ones; 'lora_B=zeros,random' "
        "says it by regular expressions, the first that fits, and for the rest",
        [](Options& o, const std::string& value, const Place& place) {
            o.init_missing = parse_missing_rules(
                value, [&](const std::string& what, const std::string& expected) { place.reject(what, expected); });
        });
    add("init-std", "X", "standard deviation of random parameters (norm scales start at 1, biases at 0)",
        number(&Options::init_std, not_negative));
    add("seed", "N", "of random parameters and of the order of the data",
        [](Options& o, const std::string& value, const Place& place) {
            o.seed = static_cast<std::uint64_t>(integer(value, place, 0, "a whole number of 0 or more"));
            o.seed_given = true;
        });

    group = "Training";
    add("steps", "N", "optimizer steps, counted from the very first",
        [](Options& o, const std::string& value, const Place& place) {
            o.steps = integer(value, place, 0, "a whole number of 0 or more");
            o.steps_given = true;
        });
    add("max-tokens", "N",
        "end after the step in which the run has seen that many tokens (of inputs without a sequence: rows), counted "
        "from the very first; without --steps the schedule of the learning rate ends there as well",
        count(&Options::max_tokens, 1));
    add("max-time", "TIME",
        "end after the step in which this time is over, counted from the start of the process: 90s, 30m, 1.5h or 2d; "
        "with --checkpoint, --resume goes on from there",
        [](Options& o, const std::string& value, const Place& place) {
            o.max_seconds = seconds_of(value);
            o.max_time = value;
            if (o.max_seconds <= 0) place.reject(value, "a time above 0 such as 90s, 30m, 1.5h or 2d");
        });
    add("lr", "X", "learning rate at its height", number(&Options::lr, not_negative));
    add("min-lr", "X", "where the schedule ends (default: a tenth of --lr)", number(&Options::min_lr, not_negative));
    add("warmup", "N", "steps in which the learning rate rises (default: a tenth of --steps, at most 100)",
        count(&Options::warmup, 0));
    add("schedule", "NAME", "cosine, linear, constant or wsd (constant, then down over the last 20%)",
        [](Options& o, const std::string& value, const Place& place) {
            const std::pair<std::string, Schedule> choices[] = {{"cosine", Schedule::cosine},
                                                                {"linear", Schedule::linear},
                                                                {"constant", Schedule::constant},
                                                                {"wsd", Schedule::wsd}};
            o.schedule = choice<Schedule>(value, place, choices);
        });
    add("weight-decay", "X", "of the optimizer", number(&Options::weight_decay, not_negative));
    add("decay", "WHICH", "what decays: matrices (parameters of two or more dimensions) or all",
        [](Options& o, const std::string& value, const Place& place) {
            const std::pair<std::string, Decay> choices[] = {{"matrices", Decay::matrices}, {"all", Decay::all}};
            o.decay = choice<Decay>(value, place, choices);
        });
    const std::vector<RuleInfo::Option>& of_rule = rule_of(program).options;
    for (std::size_t k = 0; k < of_rule.size(); ++k) {
        const rules::Range range = of_rule[k].range;
        add(option_name(of_rule[k].name), range == rules::Range::flag ? "" : "X", of_rule[k].help,
            [k, range](Options& o, const std::string& value, const Place& place) {
                o.rule[k] = rule_option(range, value, place);
            });
    }
    add("group", "REGEX:NAME=X,...",
        "parameters whose names the expression finds are stepped by numbers of their own: lr (at its height), "
        "weight_decay (of all of them, whatever --decay says) and options of the optimizer; the first group that fits; "
        "several are given by semicolons or by several --group",
        [&rule = rule_of(program)](Options& o, const std::string& value, const Place& place) {
            const auto reject = [&](const std::string& what, const std::string& expected) {
                place.reject(what, expected);
            };
            for (ParameterGroup& group : parse_groups(value, rule, reject)) o.groups.push_back(std::move(group));
        });
    add("stochastic-rounding", "",
        "parameters in bf16 are rounded up or down at random, the nearer the likelier, so that small steps are not "
        "lost",
        flag(&Options::stochastic_rounding));
    add("grad-clip", "X", "largest norm of the gradient; 0: off", number(&Options::grad_clip, not_negative));
    add("loss-scale", "HOW",
        "multiply the loss before the backward pass, and divide gradients again: off, a number, or dynamic: begin with "
        "--loss-scale-start, skip each step whose gradient is not finite and halve the scale, double it after "
        "--loss-scale-interval steps in a row that were taken",
        [](Options& o, const std::string& value, const Place& place) {
            using LossScaling = Options::LossScaling;
            if (value == "off" || value == "dynamic") {
                o.loss_scaling = value == "off" ? LossScaling::off : LossScaling::dynamic;
                return;
            }
            o.loss_scale = scale_of_loss(value, place, "dynamic, off, or a number above 0 that a float has");
            o.loss_scaling = LossScaling::fixed;
        });
    add("loss-scale-start", "X", "what --loss-scale dynamic begins with",
        [](Options& o, const std::string& value, const Place& place) {
            o.loss_scale_start = scale_of_loss(value, place, "a number above 0 that a float has");
        });
    add("loss-scale-interval", "N", "steps after which --loss-scale dynamic doubles the scale",
        [](Options& o, const std::string& value, const Place& place) {
            const std::string expected = "a whole number from 1 to 1000000000";
            o.loss_scale_interval = integer(value, place, 1, expected);
            if (o.loss_scale_interval > 1'000'000'000) place.reject(value, expected);
        });
    add("grad-accum", "N", "micro-steps of one step", [](Options& o, const std::string& value, const Place& place) {
        const std::string expected = "a whole number from 1 to 1000000";
        o.grad_accum = integer(value, place, 1, expected);
        o.grad_accum_given = true;
        if (o.grad_accum > 1'000'000) place.reject(value, expected);
    });
    add("change-batch", "", "with --resume: steps may take another number of rows than those before",
        flag(&Options::change_batch));

    add("ema", "DECAY",
        "keep an exponential moving average of the weights beside them, in f32: after the first step they themselves, "
        "then DECAY of itself and the rest of them",
        [](Options& o, const std::string& value, const Place& place) {
            const std::string expected = "a number above 0 and below 1";
            o.ema = real(value, place, 0, expected, true);
            if (o.ema >= 1) place.reject(value, expected);
        });

    add_bad_step_flags(flags);

    group = "Evaluation (of the same batches each time, by the forward pass alone)";
    add("eval-data", "PATH", "files, as --data takes them, that the loss is evaluated on",
        [](Options& o, const std::string& value, const Place& place) { add_data(o.eval_data, value, place); });
    add("eval-feed", "FILE", "fixed batches, as --feed takes them", text(&Options::eval_feed));
    add("eval-every", "N", "steps between evaluations; the last step is followed by one",
        count(&Options::eval_every, 1));
    add("eval-batches", "N",
        "batches of an evaluation, each of a step's rows (default: 10, or all that --eval-feed has)",
        count(&Options::eval_batches, 1));
    add_best_flags(flags);
    add("eval-ema", "", "evaluate the average of the weights that --ema keeps, in place of the weights",
        flag(&Options::eval_ema));
    add("eval-only", "", "evaluate the parameters of --init or --resume, print the loss as JSON, and train nothing",
        flag(&Options::eval_only));

    group = "Output";
    add("log", "FILE", "one line of JSON for each step and each evaluation", text(&Options::log));
    add_watch_flags(flags);
    add("checkpoint", "DIR", "write checkpoints there: at the end, when interrupted, and as --checkpoint-every says",
        text(&Options::checkpoint));
    add("checkpoint-every", "N", "steps between checkpoints", count(&Options::checkpoint_every, 1));
    add("checkpoint-async", "WHEN",
        "write --checkpoint-every's checkpoints in the background, from a copy in memory of the host: on, off, or "
        "auto: "
        "where that takes, with the rest, no more than half of the memory (default: auto)",
        [](Options& o, const std::string& value, const Place& place) {
            using Background = Options::Background;
            const std::pair<std::string, Background> choices[] = {
                {"auto", Background::automatic}, {"on", Background::on}, {"off", Background::off}};
            o.checkpoint_async = choice<Background>(value, place, choices);
        });
    add("keep", "K", "keep the newest K checkpoints (default: all)", count(&Options::keep, 1));
    add("keep-every", "N", "keep those of steps that N divides as well", count(&Options::keep_every, 1));
    add("resume", "", "go on from the newest checkpoint in --checkpoint that is whole", flag(&Options::resume));
    add("dump-gradients", "FILE", "write the gradients of the first step, before clipping, as safetensors",
        text(&Options::dump_gradients));
    add_save_flags(flags);
    add("memory", "FILE", "write at the end how much memory each rank took, and for what: a line of JSON each",
        text(&Options::memory));

    if (program.adapters != nullptr) add_adapter_flags(flags);

    group = "On a GPU";
    add("tf32", "", "f32 products on tensor cores, which round their factors to 10 bits of mantissa",
        flag(&Options::tf32));
    add("autotune", "", "try several plans of each product at start; what is found is kept beside the program",
        flag(&Options::autotune));
    add("no-cuda-graph", "", "issue each step's calls one by one, instead of replaying a captured step",
        flag(&Options::no_cuda_graph));
    add("no-early-start", "",
        "begin each kernel when the one before it has ended, which shows what the early start is worth",
        flag(&Options::no_early_start));

    const char* const behind = "step the parameters behind the backward pass, not beside the next forward pass";
    if (!program.update_parts.empty())
        add("overlap-update", "", "step them beside it, as a GPU does unless --ema follows each step",
            flag(&Options::overlap_update));
    if (!program.update_parts.empty() && !program.is_sharded())
        add("no-overlap", "", cat(behind, ", which shows what overlap is worth"), flag(&Options::no_overlap));
    if (program.providers.attention)
        add("attention-backward", "HOW",
            "deterministic: its gradients have the same bits in every run, for some memory and time; fast: "
            "sums as they come; auto: deterministic where the memory is there (default: auto)",
            [](Options& o, const std::string& value, const Place& place) {
                const std::pair<std::string, SumsOfAttention> choices[] = {
                    {"auto", SumsOfAttention::automatic},
                    {"deterministic", SumsOfAttention::deterministic},
                    {"fast", SumsOfAttention::fast}};
                o.attention_backward = choice<SumsOfAttention>(value, place, choices);
            });

    if (program.is_sharded()) {
        group = "Ranks";
        add("hang-timeout", "SECONDS", "end the run when its ranks wait that long for one that does not get on",
            [](Options& o, const std::string& value, const Place& place) {
                const std::int64_t seconds = integer(value, place, 1, "a whole number of 1 or more");
                o.hang_timeout = static_cast<double>(seconds);
            });
        add("timeline", "FILE", "write what each stream of each rank did, for chrome://tracing or ui.perfetto.dev",
            text(&Options::timeline));
        if (has_buffers(program))
            add("buffers", "WHICH",
                "what checkpoints and --save have of running statistics, which each rank moves by its own part of the "
                "batch: average, their mean over the ranks, or first, those of the first rank",
                [](Options& o, const std::string& value, const Place& place) {
                    std::vector<std::pair<std::string, Buffers>> choices;
                    for (const Buffers one : {Buffers::average, Buffers::first})
                        choices.emplace_back(name_of(one), one);
                    o.buffers = choice<Buffers>(value, place, choices);
                });
        add("no-overlap", "",
            cat("wait for each collective where it is issued",
                program.update_parts.empty() ? "" : cat(", and ", behind), ", which shows what overlap is worth"),
            flag(&Options::no_overlap));
        add("chaos", "SEED", "sleep at random places of each stream: results must not change",
            [](Options& o, const std::string& value, const Place& place) {
                o.chaos = static_cast<std::uint64_t>(integer(value, place, 1, "a whole number of 1 or more"));
            });
    }

    group = "Other";
    add("profile", "", "time each call by itself, and print a table at the end, the longest first",
        flag(&Options::profile));
    add("threads", "N",
        "threads of this process (default: the cores of this host, divided by the ranks on it). Where products are "
        "oneDNN's, runs have the same bits on the same number of threads of the same kind of CPU; all else, and with "
        "THUNDER_PRODUCTS=reference in the environment products too, slowly, has them on any number",
        [](Options& o, const std::string& value, const Place& place) {
            const std::string expected = "a whole number from 1 to 4096";
            const std::int64_t threads = integer(value, place, 1, expected);
            if (threads > 4096) place.reject(value, expected);
            o.threads = static_cast<int>(threads);
        });
    add("log-every", "N", "steps from line to line, where standard error is no terminal",
        count(&Options::log_every, 1));
    add("quiet", "", "print nothing but errors", flag(&Options::quiet));
    add("help", "", "print this", [](Options&, const std::string&, const Place&) {});
    return flags;
}

// "--threads N: threads of this process ...": the first sentence of its help.
std::string help_of(const Flag& flag) {
    return cat("--", flag.text.name, flag.text.argument.empty() ? "" : " ", flag.text.argument, ": ",
               flag.text.help.substr(0, flag.text.help.find(". ")));
}

const Flag* find_flag(const std::vector<Flag>& flags, const std::string& name) {
    for (const Flag& flag : flags) {
        if (flag.text.name == name) return &flag;
    }
    return nullptr;
}

std::vector<FlagText> texts_of(const std::vector<Flag>& flags) {
    std::vector<FlagText> texts;
    for (const Flag& flag : flags) texts.push_back(flag.text);
    return texts;
}

// A value in train.json as it would stand on the command line.
std::string as_argument(const Json& value, const Place& place) {
    switch (value.kind) {
        case Json::Kind::string: return value.string;
        case Json::Kind::integer: return cat(value.integer);
        case Json::Kind::real: return cat(value.real);
        case Json::Kind::boolean: return value.boolean ? "true" : "false";
        default: fail(cat(place.name, " is neither a number nor a string"), place.help);
    }
}

void read_defaults(const std::string& path, const std::vector<Flag>& flags, Options& options) {
    const MappedFile file(path);
    const Json json = parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
    const Json* defaults = json.find("defaults");
    if (defaults == nullptr) return;
    if (!defaults->is(Json::Kind::object)) fail(cat(path, ": defaults is not an object"));
    for (const auto& [name, value] : defaults->object) {
        const Flag* flag = find_flag(flags, name);
        if (flag == nullptr) fail(cat(path, ": ", name, " is not an option"), did_you_mean(texts_of(flags), name, ""));
        const Place place{cat(path, ": ", name), false, help_of(*flag)};
        const std::string argument = as_argument(value, place);
        if (!flag->text.argument.empty()) {
            flag->set(options, argument, place);
        } else if (argument == "true") {
            flag->set(options, "", place);
        } else if (argument != "false") {
            place.reject(argument, "true or false");
        }
    }
}

// What launchers of ranks tell each of them: Open MPI's, those of MPICH's family, srun, and the variables of PyTorch's.
// Nothing where this process was started by itself.
std::optional<int> launched_rank() {
    for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"})
        if (const auto rank = number_of_environment(variable, 0, std::numeric_limits<int>::max(),
                                                    "launchers of ranks set it; unset it where there is one rank"))
            return static_cast<int>(*rank);
    return std::nullopt;
}

std::optional<Options> read_options(int argc, char** argv, const ProgramSpec& program,
                                    const std::string& program_folder) {
    const std::vector<Flag> flags = make_flags(program);
    Options options;
    options.program_folder = program_folder;
    options.grad_accum = program.default_grad_accum;
    options.rule = usual_options(rule_of(program));
    options.weight_decay = rule_of(program).usual_weight_decay;
    const std::string defaults = join_path(program_folder, "train.json");
    if (!program_folder.empty() && is_file(defaults)) read_defaults(defaults, flags, options);

    if (asks_for_help(argc, argv)) {
        if (!program.is_sharded() || launched_rank().value_or(0) == 0)
            std::fputs(help_text(program, options).c_str(), stdout);
        return std::nullopt;
    }
    options.steps_given = options.grad_accum_given = false;  // which the command line alone says
    bool mapped = false, fed = false, evaluated = false, grouped = false;
    for (const auto& [name, value] : read_command_line(argc, argv, texts_of(flags), "train")) {
        // The command line replaces what train.json says about the same thing.
        if ((name == "data" || name == "data-schedule" || name == "feed") && !fed) {
            options.data.clear();
            options.data_schedule.clear();
            options.feed.clear();
            fed = true;
        }
        if ((name == "eval-data" || name == "eval-feed") && !evaluated) {
            options.eval_data.clear();
            options.eval_feed.clear();
            evaluated = true;
        }
        if (name == "map" && !mapped) {
            options.map.clear();
            mapped = true;
        }
        if (name == "group" && !grouped) {
            options.groups.clear();
            grouped = true;
        }
        const Flag& flag = *find_flag(flags, name);
        flag.set(options, value, {"--" + name, true, help_of(flag)});
    }
    check_options(options, program);
    if (options.min_lr < 0) options.min_lr = options.lr / 10;
    if (options.warmup < 0 && (options.steps_given || options.max_tokens == 0))
        options.warmup = usual_warmup(options.steps);
    return options;
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, const ProgramSpec& program,
                                     const std::string& program_folder) {
    if (!program.is_sharded() || !launched_rank()) return read_options(argc, argv, program, program_folder);
    try {
        return read_options(argc, argv, program, program_folder);
    } catch (const Error& error) {
        // Most often all ranks find the same. Those that find nothing come here as their trainers begin.
        const auto communicator = make_communicator();
        World(program, *communicator).together([&] { throw Error(error); });
        throw;
    }
}

std::vector<std::pair<std::string, std::string>> step_options(const ProgramSpec& program, const Options& o) {
    const char* const schedules[] = {"cosine", "linear", "constant", "wsd"};
    std::vector<std::pair<std::string, std::string>> options = {
        {"lr", cat(o.lr)},
        {"schedule", schedules[static_cast<std::size_t>(o.schedule)]},
        {"weight-decay", cat(o.weight_decay)},
        {"decay", o.decay == Decay::all ? "all" : "matrices"},
        {"group", groups_text(o.groups)},
        {"stochastic-rounding", o.stochastic_rounding ? "given" : "not given"},
        {"grad-clip", cat(o.grad_clip)},
        {"loss-scale", loss_scale_text(o)}};
    if (o.loss_scaling == Options::LossScaling::dynamic)
        options.emplace_back("loss-scale-interval", cat(loss_scale_interval(o)));
    const std::vector<RuleInfo::Option>& of_rule = rule_of(program).options;
    for (std::size_t k = 0; k < of_rule.size(); ++k) {
        const double value = k < o.rule.size() ? o.rule[k] : of_rule[k].usual;
        options.emplace_back(option_name(of_rule[k].name), of_rule[k].range != rules::Range::flag ? cat(value)
                                                           : value != 0                           ? "given"
                                                                                                  : "not given");
    }
    return options;
}

std::string help_text(const ProgramSpec& program, const Options& o) {
    std::vector<std::pair<std::string, std::string>> defaults = step_options(program, o);
    defaults.insert(defaults.end(), {{"init-std", cat(o.init_std)},
                                     {"loss-scale-start", cat(loss_scale_start(o))},
                                     {"seed", cat(o.seed)},
                                     {"steps", cat(o.steps)},
                                     {"log-every", cat(o.log_every)},
                                     {"on-nan", std::string(name_of(o.on_nan))},
                                     {"spike-window", cat(spike_window(o))},
                                     {"nan-limit", cat(nan_limit(o))},
                                     {"eval-every", cat(eval_every(o))},
                                     {"grad-accum", cat(o.grad_accum)},
                                     {"buffers", std::string(name_of(o.buffers))},
                                     {"hang-timeout", cat(o.hang_timeout)}});
    if (o.loss_scaling != Options::LossScaling::dynamic)
        defaults.emplace_back("loss-scale-interval", cat(loss_scale_interval(o)));
    std::string text = cat("Trains ", program.name, ". Options are written --name value or --name=value.\n");
    std::vector<FlagText> shown;
    for (const Flag& flag : make_flags(program)) {
        FlagText entry = flag.text;
        for (const auto& [name, value] : defaults) {
            if (name == entry.name && !entry.argument.empty()) entry.help += cat(" (default: ", value, ")");
        }
        shown.push_back(std::move(entry));
    }
    text += help_entries(shown);
    text += cat("\nInputs of ", program.name, ":\n");
    for (const InputSpec& input : program.inputs) {
        text += cat("  ", input.name, " ", shape_text(input.shape),
                    input.source.empty() ? "" : cat(", from --data: ", input.source), "\n");
    }
    return text;
}

}  // namespace thunder

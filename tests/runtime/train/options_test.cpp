// SPDX-License-Identifier: Apache-2.0
#include "train/options.h"

#include "helpers.h"
#include "optim/rules/info.h"
#include "train/groups.h"
#include "train/schedule.h"
#include "train/states.h"

namespace thunder {
namespace options_test {

constexpr std::int64_t shape[] = {2, 4};
constexpr InputSpec inputs[] = {{"input_ids", DType::i64, shape, 0, 64, true, 10, 0, "tokens"}};

ProgramSpec program() {
    ProgramSpec spec{};
    spec.name = "tiny";
    spec.optimizer = "adamw";
    spec.inputs = inputs;
    spec.default_grad_accum = 3;
    return spec;
}

std::optional<Options> parse(std::vector<std::string> words, const std::string& folder = "",
                             const ProgramSpec& of = program()) {
    words.insert(words.begin(), "train");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    return parse_options(static_cast<int>(argv.size()), argv.data(), of, folder);
}

std::string parse_error(const std::vector<std::string>& words, int* status = nullptr, const std::string& folder = "",
                        const ProgramSpec& of = program()) {
    try {
        parse(words, folder, of);
    } catch (const Error& error) {
        if (status != nullptr) *status = error.exit_code();
        return error.what();
    }
    return "";
}

TEST(OptionsTest, HasDefaults) {
    const Options o = *parse({"--feed", "f"});
    EXPECT_EQ(o.feed, "f");
    EXPECT_EQ(o.grad_accum, 3);  // the program's
    EXPECT_EQ(o.min_lr, o.lr / 10);
    EXPECT_EQ(o.warmup, 10);  // a tenth of 100 steps
    EXPECT_EQ(parse({"--feed", "f", "--steps", "5000"})->warmup, 100);
    EXPECT_EQ(parse({"--feed", "f", "--warmup", "0"})->warmup, 0);
}

TEST(OptionsTest, SumsOfAttentionAreAskedOfProgramsThatHaveIt) {
    ProgramSpec spec = program();
    spec.providers.attention = true;
    const auto sums = [&](const std::string& how) {
        return parse({"--feed", "f", "--attention-backward", how}, "", spec)->attention_backward;
    };
    EXPECT_EQ(parse({"--feed", "f"}, "", spec)->attention_backward, SumsOfAttention::automatic);
    EXPECT_EQ(sums("auto"), SumsOfAttention::automatic);
    EXPECT_EQ(sums("deterministic"), SumsOfAttention::deterministic);
    EXPECT_EQ(sums("fast"), SumsOfAttention::fast);
    EXPECT_EQ(
        parse_error({"--feed", "f", "--attention-backward", "quick"}, nullptr, "", spec),
        "error: --attention-backward takes one of auto, deterministic, fast, not \"quick\"\n"
        "help: --attention-backward HOW: deterministic: its gradients have the same bits in every run, for some "
        "memory and time; fast: sums as they come; auto: deterministic where the memory is there (default: auto)");
    EXPECT_EQ(parse_error({"--feed", "f", "--attention-backward", "fast"}),
              "error: unknown option --attention-backward\nhelp: train --help lists the options");
}

TEST(OptionsTest, ReadsEveryOptionInBothSpellings) {
    const std::vector<std::pair<std::string, std::string>> given = {{"data", "d"},       {"map", "input_ids=ones"},
                                                                    {"init", "i"},       {"init-missing", "random"},
                                                                    {"init-std", "0.5"}, {"seed", "9"},
                                                                    {"steps", "8"},      {"lr", "1e-2"},
                                                                    {"min-lr", "0"},     {"warmup", "2"},
                                                                    {"schedule", "wsd"}, {"weight-decay", "0.25"},
                                                                    {"decay", "all"},    {"beta1", "0.5"},
                                                                    {"beta2", "0.75"},   {"eps", "1e-6"},
                                                                    {"grad-clip", "0"},  {"grad-accum", "4"},
                                                                    {"ema", "0.999"},    {"log", "l"},
                                                                    {"checkpoint", "c"}, {"checkpoint-every", "3"},
                                                                    {"keep", "2"},       {"dump-gradients", "g"},
                                                                    {"keep-every", "7"}, {"log-every", "5"},
                                                                    {"max-time", "2m"},  {"max-tokens", "64"},
                                                                    {"save", "s"},       {"save-ema", "e"},
                                                                    {"threads", "6"}};
    std::vector<std::string> apart, joined;
    for (const auto& [name, value] : given) {
        apart.insert(apart.end(), {"--" + name, value});
        joined.push_back("--" + name + "=" + value);
    }
    for (std::vector<std::string> words : {apart, joined}) {
        words.insert(words.end(), {"--resume", "--quiet"});
        const Options o = *parse(words);
        EXPECT_EQ(o.data, "d");
        EXPECT_EQ(o.map, (std::vector<std::pair<std::string, std::string>>{{"input_ids", "ones"}}));
        EXPECT_EQ(o.init, "i");
        ASSERT_EQ(o.init_missing.size(), 1U);
        EXPECT_EQ(o.init_missing[0].pattern, "");
        EXPECT_EQ(o.init_std, 0.5);
        EXPECT_EQ(o.seed, 9U);
        EXPECT_EQ(o.steps, 8);
        EXPECT_EQ(o.lr, 0.01);
        EXPECT_EQ(o.min_lr, 0);
        EXPECT_EQ(o.warmup, 2);
        EXPECT_EQ(o.schedule, Schedule::wsd);
        EXPECT_EQ(o.weight_decay, 0.25);
        EXPECT_EQ(o.decay, Decay::all);
        EXPECT_EQ(o.rule, (std::vector<double>{0.5, 0.75, 1e-6}));
        EXPECT_EQ(o.grad_clip, 0);
        EXPECT_EQ(o.grad_accum, 4);
        EXPECT_EQ(o.log, "l");
        EXPECT_EQ(o.checkpoint, "c");
        EXPECT_EQ(o.checkpoint_every, 3);
        EXPECT_EQ(o.keep, 2);
        EXPECT_EQ(o.keep_every, 7);
        EXPECT_EQ(o.log_every, 5);
        EXPECT_EQ(o.max_seconds, 120);
        EXPECT_EQ(o.max_tokens, 64);
        EXPECT_TRUE(o.steps_given);
        EXPECT_TRUE(o.resume);
        EXPECT_EQ(o.dump_gradients, "g");
        EXPECT_EQ(o.save, "s");
        EXPECT_EQ(o.ema, 0.999);
        EXPECT_EQ(o.save_ema, "e");
        EXPECT_EQ(o.threads, 6);
        EXPECT_TRUE(o.quiet);
    }
}

TEST(OptionsTest, SaysWhatIsWrongWithACommandLine) {
    const std::pair<std::vector<std::string>, std::string> cases[] = {
        {{}, "error: nothing to train on\nhelp: --data PATH for packed tokens, or --feed FILE for fixed batches"},
        {{"--feed", "f", "--data", "d"}, "error: --data and --feed exclude each other\nhelp: leave one of them away"},
        {{"--feed", "f", "--stepz", "3"}, "error: unknown option --stepz\nhelp: did you mean --steps?"},
        {{"--feed", "f", "--warm-up=3"}, "error: unknown option --warm-up\nhelp: did you mean --warmup?"},
        {{"--feed", "f", "--foo"}, "error: unknown option --foo\nhelp: train --help lists the options"},
        {{"--feed", "f", "--frobnicate"}, "error: unknown option --frobnicate\nhelp: train --help lists the options"},
        {{"feed"}, "error: unexpected argument \"feed\"\nhelp: options begin with --; train --help lists them"},
        {{"--feed", "f", "-q"},
         "error: unexpected argument \"-q\"\nhelp: options begin with --; train --help lists them"},
        {{"--feed"}, "error: --feed needs a value: --feed FILE"},
        {{"--log", "--quiet"}, "error: --log needs a value: --log FILE"},
        {{"--feed", ""},
         "error: --feed takes a name, not \"\"\nhelp: --feed FILE: train on fixed batches: for step s and input X the "
         "tensor X_s of a safetensors file"},
        {{"--feed", "f", "--quiet=yes"}, "error: --quiet takes no value"},
        {{"--feed", "f", "--steps", "3.5"},
         "error: --steps takes a whole number of 0 or more, not \"3.5\"\nhelp: --steps N: optimizer steps, counted "
         "from the very first"},
        {{"--feed", "f", "--max-time", "soon"},
         "error: --max-time takes a time above 0 such as 90s, 30m, 1.5h or 2d, not \"soon\"\nhelp: --max-time TIME: "
         "end "
         "after the step in which this time is over, counted from the start of the process: 90s, 30m, 1.5h or 2d; with "
         "--checkpoint, --resume goes on from there"},
        {{"--feed", "f", "--keep-every", "5"},
         "error: --keep-every says which checkpoints stay beside the newest, and without --keep all stay\nhelp: add "
         "--keep K, or leave it away"},
        {{"--feed", "f", "--steps", "-1"},
         "error: --steps takes a whole number of 0 or more, not \"-1\"\nhelp: --steps N: optimizer steps, counted from "
         "the very first"},
        {{"--feed", "f", "--lr", "fast"},
         "error: --lr takes a number of 0 or more, not \"fast\"\nhelp: --lr X: learning rate at its height"},
        {{"--feed", "f", "--lr", "nan"},
         "error: --lr takes a number of 0 or more, not \"nan\"\nhelp: --lr X: learning rate at its height"},
        {{"--feed", "f", "--beta1", "1"},
         "error: --beta1 takes a number from 0 to below 1, not \"1\"\nhelp: --beta1 X: AdamW's decay of the first "
         "moment"},
        {{"--feed", "f", "--grad-accum", "0"},
         "error: --grad-accum takes a whole number from 1 to 1000000, not \"0\"\nhelp: --grad-accum N: micro-steps of "
         "one step"},
        {{"--feed", "f", "--threads", "5000"},
         "error: --threads takes a whole number from 1 to 4096, not \"5000\"\nhelp: --threads N: threads of this "
         "process (default: the cores of this host, divided by the ranks on it)"},
        {{"--feed", "f", "--schedule", "cos"},
         "error: --schedule takes one of cosine, linear, constant, wsd, not \"cos\"\nhelp: --schedule NAME: cosine, "
         "linear, constant or wsd (constant, then down over the last 20%)"},
        {{"--feed", "f", "--decay", "none"},
         "error: --decay takes one of matrices, all, not \"none\"\nhelp: --decay WHICH: what decays: matrices "
         "(parameters of two or more dimensions) or all"},
        {{"--feed", "f", "--init-missing", "zero"},
         "error: --init-missing takes random, zeros, ones, or REGEX=zeros and the like, by commas, not \"zero\"\nhelp: "
         "--init-missing HOW: what parameters begin as that --init lacks, instead of refusing: random, zeros or ones; "
         "'lora_B=zeros,random' says it by regular expressions, the first that fits, and for the rest"},
        {{"--feed", "f", "--init-missing", "a{1,2}=zeros,"},
         "error: --init-missing takes random, zeros, ones, or REGEX=zeros and the like, by commas, not "
         "\"a{1,2}=zeros,\"\nhelp: --init-missing HOW: what parameters begin as that --init lacks, instead of "
         "refusing: random, zeros or ones; 'lora_B=zeros,random' says it by regular expressions, the first that fits, "
         "and for the rest"},
        {{"--feed", "f", "--init-missing", "(=zeros"},
         "error: --init-missing takes a regular expression, not \"(\"\nhelp: --init-missing HOW: what parameters begin "
         "as that --init lacks, instead of refusing: random, zeros or ones; 'lora_B=zeros,random' says it by regular "
         "expressions, the first that fits, and for the rest"},
        {{"--feed", "f", "--init-missing", "ones,lora=random,zeros"},
         "error: --init-missing takes one of random, zeros and ones for what no REGEX finds, not "
         "\"ones,lora=random,zeros\"\nhelp: --init-missing HOW: what parameters begin as that --init lacks, instead of "
         "refusing: random, zeros or ones; 'lora_B=zeros,random' says it by regular expressions, the first that fits, "
         "and for the rest"},
        {{"--feed", "f", "--init", "random", "--init-missing", "random"},
         "error: --init-missing is about files, and --init random reads none\nhelp: give --init FILE, or leave it "
         "away: "
         "all parameters begin as the model's layers do"},
        {{"--feed", "f", "--init-missing", "zeros"},
         "error: --init-missing is about files, and this program has none of its own\nhelp: give --init FILE, or leave "
         "it "
         "away: all parameters begin as the model's layers do"},
        {{"--feed", "f", "--map", "input_ids=ones"},
         "error: --map is about --data, and there is none\nhelp: train --help says what there "
         "is"},
        {{"--data", "d", "--map", "input_ids"},
         "error: --map takes INPUT=ROLE, not \"input_ids\"\nhelp: --map INPUT=ROLE: how windows of tokens feed an "
         "input: tokens, next_tokens, ones, positions or documents; several are given by commas or by several --map"},
        {{"--data", "d", "--map", "input_ids=zeros"},
         "error: --map takes one of tokens, next_tokens, ones, positions, documents as a role, not \"zeros\"\nhelp: "
         "--map "
         "INPUT=ROLE: how windows of tokens feed an input: tokens, next_tokens, ones, positions or documents; several "
         "are given "
         "by commas or by several --map"},
        {{"--data", "d", "--map", "input_ids=documents"},
         "error: --map input_ids=documents keeps documents apart, and --documents join does not\nhelp: add --documents "
         "separate, or leave it away"},
        {{"--data", "d", "--map", "ids=ones"},
         "error: --map names ids, which is not an input of tiny\nhelp: the inputs are input_ids"},
        {{"--feed", "f", "--stochastic-rounding"},
         "error: --stochastic-rounding is about parameters in bf16, and those that tiny trains are f32\nhelp: leave it "
         "away; thunderc train --dtype bf16 --master none makes a program with such parameters"},
        {{"--feed", "f", "--ema", "1"},
         "error: --ema takes a number above 0 and below 1, not \"1\"\nhelp: --ema DECAY: keep an exponential moving "
         "average of the weights beside them, in f32: after the first step they themselves, then DECAY of itself and "
         "the rest of them"},
        {{"--feed", "f", "--ema", "0"},
         "error: --ema takes a number above 0 and below 1, not \"0\"\nhelp: --ema DECAY: keep an exponential moving "
         "average of the weights beside them, in f32: after the first step they themselves, then DECAY of itself and "
         "the rest of them"},
        {{"--feed", "f", "--ema", "0.9"},
         "error: --ema keeps an average of the weights that nothing writes\nhelp: add --save-ema FILE, or --checkpoint "
         "DIR"},
        {{"--feed", "f", "--save-ema", "e"},
         "error: --save-ema writes the average of the weights, and none is kept\nhelp: add --ema DECAY, such as 0.999"},
        {{"--feed", "f", "--ema", "0.9", "--save", "s", "--save-ema", "s"},
         "error: --save and --save-ema are one file: s\nhelp: name two files"},
        {{"--feed", "f", "--resume"},
         "error: --resume needs to know where the checkpoints are\nhelp: add --checkpoint DIR"},
        {{"--feed", "f", "--checkpoint-every", "3"},
         "error: --checkpoint-every needs a place to write to\nhelp: add --checkpoint DIR"},
        {{"--feed", "f", "--keep", "3"},
         "error: --keep is about checkpoints, and none are written\nhelp: add --checkpoint DIR"},
    };
    for (const auto& [words, expected] : cases) {
        int status = 0;
        EXPECT_EQ(parse_error(words, &status), expected);
        EXPECT_EQ(status, 2) << expected;
    }
}

TEST(OptionsTest, NamesTheTypeThatIsNotRoundedAtRandom) {
    ParameterSpec parameter{};
    parameter.dtype = DType::f16;
    parameter.trainable = true;
    ProgramSpec spec = program();
    spec.parameters = {&parameter, 1};
    EXPECT_EQ(
        parse_error({"--feed", "f", "--stochastic-rounding"}, nullptr, "", spec),
        "error: --stochastic-rounding is about parameters in bf16, and those that tiny trains are f16\nhelp: leave "
        "it away; thunderc train --dtype bf16 --master none makes a program with such parameters");
}

using TrainJsonTest = InFolder;

TEST_F(TrainJsonTest, GivesDefaultsThatTheCommandLineReplaces) {
    write_file(
        path("train.json"),
        R"({"model":"tiny","defaults":{"lr":0.125,"steps":7,"schedule":"linear","feed":"from.json","quiet":true,"resume":false}})");
    Options o = *parse({"--lr", "0.25"}, folder_.string());
    EXPECT_EQ(o.lr, 0.25);
    EXPECT_EQ(o.steps, 7);
    EXPECT_EQ(o.schedule, Schedule::linear);
    EXPECT_EQ(o.feed, "from.json");
    EXPECT_TRUE(o.quiet);
    EXPECT_FALSE(o.resume);
    o = *parse({"--data", "d"}, folder_.string());
    EXPECT_EQ(o.data, "d");
    EXPECT_EQ(o.feed, "");  // the command line's --data takes its place
}

TEST_F(TrainJsonTest, SaysWhatIsWrongInIt) {
    const std::string json = path("train.json");
    const std::pair<std::string, std::string> cases[] = {
        {R"({"defaults":{"lrr":1}})", cat("error: ", json, ": lrr is not an option\nhelp: did you mean lr?")},
        {R"({"defaults":{"lr":"x"}})",
         cat("error: ", json,
             ": lr takes a number of 0 or more, not \"x\"\nhelp: --lr X: learning rate at its height")},
        {R"({"defaults":{"lr":[1]}})",
         cat("error: ", json, ": lr is neither a number nor a string\nhelp: --lr X: learning rate at its height")},
        {R"({"defaults":{"quiet":1}})",
         cat("error: ", json, ": quiet takes true or false, not \"1\"\nhelp: --quiet: print nothing but errors")},
        {R"({"defaults":[]})", cat("error: ", json, ": defaults is not an object")},
        {R"({"defaults":)", cat("error: ", json,
                                " is not valid JSON at byte 13: Invalid value.\nhelp: the file is damaged: "
                                "write or copy it again")},
    };
    for (const auto& [text, expected] : cases) {
        write_file(json, text);
        int status = 0;
        EXPECT_EQ(parse_error({"--feed", "f"}, &status, folder_.string()), expected);
        EXPECT_EQ(status, 1) << expected;
    }
}

TEST(OptionsTest, HelpNamesEveryOptionAndInput) {
    Options defaults;
    defaults.grad_accum = 3;
    defaults.schedule = Schedule::wsd;
    const std::string help = help_text(program(), defaults);
    for (const char* option : {"--data PATH",
                               "--map INPUT=ROLE",
                               "--feed FILE",
                               "--init WHERE",
                               "--init-missing HOW",
                               "--init-std X",
                               "--seed N",
                               "--steps N",
                               "--lr X",
                               "--min-lr X",
                               "--warmup N",
                               "--schedule NAME",
                               "--weight-decay X",
                               "--decay WHICH",
                               "--group REGEX:NAME=X,...",
                               "--stochastic-rounding",
                               "--beta1 X",
                               "--beta2 X",
                               "--eps X",
                               "--grad-clip X",
                               "--grad-accum N",
                               "--log FILE",
                               "--checkpoint DIR",
                               "--checkpoint-every N",
                               "--keep K",
                               "--resume",
                               "--dump-gradients FILE",
                               "--save PATH",
                               "--threads N",
                               "--quiet",
                               "--help",
                               "(default: 3)",
                               "(default: wsd)",
                               "input_ids [2, 4], from --data: tokens"}) {
        EXPECT_NE(help.find(option), std::string::npos) << option << "\n" << help;
    }
    EXPECT_EQ(help.find("momentum"), std::string::npos);  // AdamW has none
    std::size_t begin = 0;
    for (std::size_t end; (end = help.find('\n', begin)) != std::string::npos; begin = end + 1)
        EXPECT_LE(end - begin, 100U) << help.substr(begin, end - begin);
}

// Each alone, in its place, by the name that a command line spells with dashes; what step_options tells of it.
TEST(OptionsTest, HasThoseOfTheProgramsOptimizer) {
    std::size_t flags = 0;
    for (const RuleInfo& rule : all_rules()) {
        ProgramSpec spec = program();
        spec.optimizer = rule.name;
        const Options unsaid = *parse({"--feed", "f"}, "", spec);
        EXPECT_EQ(unsaid.rule, usual_options(rule));
        const bool decoupled = rule.name == "adamw" || rule.name == "lion" || rule.name == "muon";
        EXPECT_EQ(unsaid.weight_decay, decoupled ? 0.1 : 0) << rule.name;
        const std::string help = help_text(spec, unsaid);
        for (std::size_t k = 0; k < rule.options.size(); ++k) {
            const bool flag = rule.options[k].range == rules::Range::flag;
            std::string name = "--" + rule.options[k].name;
            std::replace(name.begin() + 2, name.end(), '_', '-');
            EXPECT_NE(help.find("  " + name + (flag ? " " : " X ")), std::string::npos) << name << "\n" << help;
            std::vector<std::string> words = {"--feed", "f", name};
            if (!flag) words.emplace_back("0.25");
            const Options said = *parse(words, "", spec);
            std::vector<double> expected = unsaid.rule;
            expected[k] = flag ? 1 : 0.25;
            EXPECT_EQ(said.rule, expected) << rule.name << " " << name;
            std::string told;
            for (const auto& [option, value] : step_options(spec, said))
                if (option == name.substr(2)) told += value;
            EXPECT_EQ(told, flag ? "given" : "0.25") << rule.name << " " << name;
            flags += flag ? 1 : 0;
        }
    }
    EXPECT_GT(flags, 0U);
}

// What a step is divided by to be no longer than that: torch refuses its d below 1, and 0 would move nothing.
TEST(OptionsTest, RefusesToDivideBy0) {
    ProgramSpec spec = program();
    spec.optimizer = "adafactor";
    for (const std::string& value : {std::string("0"), std::string("-1"), std::string("nan"), std::string("inf")}) {
        const std::string error = parse_error({"--feed", "f", "--update-clip", value}, nullptr, "", spec);
        EXPECT_TRUE(error.starts_with(cat("error: --update-clip takes a number above 0, not \"", value, "\"\n")))
            << error;
        const std::string of_group =
            parse_error({"--feed", "f", "--group", "w:update_clip=" + value}, nullptr, "", spec);
        EXPECT_TRUE(
            of_group.starts_with(cat("error: --group takes a number as update_clip above 0, not \"", value, "\"\n")))
            << of_group;
    }
}

constexpr std::int64_t matrix[] = {4, 2}, vector[] = {4};
constexpr ParameterSpec parameters[] = {
    {"embed.weight", DType::f32, matrix, 0, 32, true, ParameterSpec::Init::normal, {}, ""},
    {"norm.weight", DType::f32, vector, 64, 16, true, ParameterSpec::Init::ones, {}, ""},
    {"norm.bias", DType::f32, vector, 128, 16, true, ParameterSpec::Init::zeros, {}, ""},
    {"head.weight", DType::f32, matrix, 192, 32, true, ParameterSpec::Init::normal, {}, ""},
    {"frozen.weight", DType::f32, matrix, 256, 32, false, ParameterSpec::Init::normal, {}, ""}};

ProgramSpec with_parameters() {
    ProgramSpec spec = program();
    spec.parameters = parameters;
    return spec;
}

TEST(GroupsTest, AreReadAndDescribed) {
    const ProgramSpec spec = with_parameters();
    const std::vector<std::string> given = {
        "--feed",  "f",     "--lr", "1e-3", "--group", "bias|norm:weight-decay=0.5,beta1=0.8;a:b|head:lr=0.25,eps=0.01",
        "--group", "e:lr=0"};
    const Options o = *parse(given, "", spec);
    EXPECT_EQ(groups_text(o.groups), "bias|norm:beta1=0.8,weight_decay=0.5;a:b|head:eps=0.01,lr=0.25;e:lr=0");
    EXPECT_EQ(describe_groups(spec, o),
              (std::vector<std::string>{"group bias|norm: 8 parameters in 2 tensors, beta1 0.8, weight_decay 0.5",
                                        "group a:b|head: 8 parameters in 1 tensor, eps 0.01, lr 0.25",
                                        "group e: 8 parameters in 1 tensor, lr 0"}));
    const std::vector<int> expected = {2, 0, 0, 1, 1};  // the first that fits
    for (std::size_t k = 0; k < expected.size() - 1; ++k)
        EXPECT_EQ(group_of(o.groups, parameters[k]), expected[k]) << parameters[k].name;
    EXPECT_EQ(groups_text(parse({"--feed", "f"}, "", spec)->groups), "none");
}

// A tied tensor is in a group by any of its names, whichever the program calls it by.
TEST(GroupsTest, FindTiedParametersByEachOfTheirNames) {
    static constexpr std::string_view aliases[] = {"head.weight"};
    static constexpr ParameterSpec tied[] = {
        {"embed.weight", DType::f32, matrix, 0, 32, true, ParameterSpec::Init::normal, aliases, ""},
        {"head.bias", DType::f32, vector, 64, 16, true, ParameterSpec::Init::zeros, {}, ""}};
    ProgramSpec spec = program();
    spec.parameters = tied;
    const Options o = *parse({"--feed", "f", "--group", "head:lr=0.25"}, "", spec);
    EXPECT_EQ(group_of(o.groups, tied[0]), 0);
    EXPECT_EQ(
        describe_groups(spec, o),
        (std::vector<std::string>{"group head: 12 parameters in 2 tensors, lr 0.25",
                                  "note: head.weight is in group head, and so is embed.weight: they are one tensor"}));
    EXPECT_EQ(describe_groups(spec, *parse({"--feed", "f", "--group", "weight:lr=0.25"}, "", spec)),
              std::vector<std::string>{"group weight: 8 parameters in 1 tensor, lr 0.25"});
}

// Names, decay and numbers of what each segment is stepped by.
TEST(GroupsTest, SegmentsAreThoseOfTheirNumbers) {
    const ProgramSpec spec = with_parameters();
    const Options o = *parse({"--feed", "f", "--group", "norm:weight_decay=0.5;head:lr=0.25"}, "", spec);
    const std::vector<ParameterSegment> segments = segments_of(spec, o, 0);
    struct {
        std::int64_t begin, end;
        bool decay;
        std::int32_t group;
    } const expected[] = {{0, 8, true, 0}, {16, 20, true, 1}, {32, 36, true, 1}, {48, 56, true, 2}};
    ASSERT_EQ(segments.size(), std::size(expected));
    for (std::size_t k = 0; k < segments.size(); ++k) {
        EXPECT_EQ(segments[k].begin, expected[k].begin);
        EXPECT_EQ(segments[k].end, expected[k].end);
        EXPECT_EQ(segments[k].decay, expected[k].decay) << "weight_decay of a group is for its vectors too";
        EXPECT_EQ(segments[k].group, expected[k].group);
    }
    // A group without weight_decay follows --decay.
    for (const ParameterSegment& s : segments_of(spec, *parse({"--feed", "f", "--group", "norm:lr=1"}, "", spec), 0))
        EXPECT_EQ(s.decay, s.group == 0);
}

// Hidden matrices come behind all else, each by itself; a group says otherwise.
TEST(GroupsTest, SegmentsOfMatricesThatAreSteppedWhole) {
    ProgramSpec spec = with_parameters();
    spec.optimizer = "muon";
    static constexpr std::string_view outer[] = {"embed.weight"};
    spec.outer_matrices = outer;
    const auto whole = [&](const std::vector<std::string>& words) {
        std::vector<std::string> all = {"--feed", "f"};
        all.insert(all.end(), words.begin(), words.end());
        std::vector<std::int64_t> begins;
        for (const ParameterSegment& s : segments_of(spec, *parse(all, "", spec), 0)) {
            EXPECT_TRUE(s.is_whole() || begins.empty()) << "elements behind a matrix";
            if (!s.is_whole()) continue;
            EXPECT_EQ(s.rows * s.columns, s.end - s.begin);
            begins.push_back(s.begin);
        }
        return begins;
    };
    using Begins = std::vector<std::int64_t>;
    EXPECT_EQ(whole({}), Begins{48});
    EXPECT_EQ(whole({"--group", "embed:adamw=0"}), (Begins{0, 48}));
    EXPECT_EQ(whole({"--group", "head:adamw=1"}), Begins{});
    EXPECT_EQ(whole({"--adamw"}), Begins{});
    // Second moments are kept of what is stepped by elements alone: behind the first ones of all, each at the element
    // of a line of 16 at which its parameter begins.
    const auto second = [&](const std::vector<std::string>& words) {
        std::vector<std::string> all = {"--feed", "f"};
        all.insert(all.end(), words.begin(), words.end());
        std::vector<std::pair<std::int64_t, std::int64_t>> out;
        for (const ParameterSegment& s : segments_of(spec, *parse(all, "", spec), 0)) {
            EXPECT_EQ(s.shift[0], 0);
            if (!s.is_whole()) out.emplace_back(s.begin, s.begin + s.shift[1]);
        }
        return out;
    };
    using Places = std::vector<std::pair<std::int64_t, std::int64_t>>;
    EXPECT_EQ(second({}), (Places{{0, 64}, {16, 80}, {32, 96}}));
    EXPECT_EQ(second({"--group", "embed:adamw=0"}), (Places{{16, 64}, {32, 80}}));
    EXPECT_EQ(second({"--adamw"}), (Places{{0, 64}, {16, 80}, {32, 96}, {48, 112}}));
    EXPECT_EQ(states_of(spec, *parse({"--feed", "f"}, "", spec), 0).bytes, 4 * 112);
    EXPECT_EQ(describe_groups(spec, *parse({"--feed", "f"}, "", spec)),
              std::vector<std::string>{"Muon steps 1 matrix; adamw all else, of two or more dimensions embed.weight"});
}

// The schedule takes the same part of each group's height; other numbers are the run's where a group does not say them.
TEST(GroupsTest, NumbersFollowTheSchedule) {
    const ProgramSpec spec = with_parameters();
    const RuleInfo& rule = *find_rule("adamw");
    const Options o = *parse({"--feed", "f", "--steps", "20", "--warmup", "4", "--lr", "1e-3", "--weight-decay", "0.2",
                              "--group", "embed:lr=0.5;norm:weight_decay=0.5,beta2=0.75"},
                             "", spec);
    for (const std::int64_t step : {0, 3, 4, 11, 19}) {
        const double number = static_cast<double>(step + 1), rate = learning_rate(o, step);
        const auto numbers = numbers_of_groups(rule, o, step);
        ASSERT_EQ(numbers.size(), 3U);
        EXPECT_EQ(numbers[0], rule.step_numbers({0.9, 0.95, 1e-8}, {rate, 0.2, number}));
        EXPECT_EQ(numbers[2], rule.step_numbers({0.9, 0.75, 1e-8}, {rate, 0.5, number}));
        const auto expected = rule.step_numbers({0.9, 0.95, 1e-8}, {500 * rate, 0.2, number});
        for (std::size_t k = 0; k < expected.size(); ++k)
            EXPECT_NEAR(numbers[1][k], expected[k], 1e-15 * std::abs(expected[k])) << k << " in step " << step;
    }
    // A run whose own rate is 0 steps the groups alone, down to a tenth.
    const Options alone = *parse(
        {"--feed", "f", "--lr", "0", "--steps", "11", "--warmup", "1", "--schedule", "linear", "--group", "embed:lr=1"},
        "", spec);
    EXPECT_EQ(learning_rate(alone, 1, 1.0), 1.0);
    EXPECT_NEAR(learning_rate(alone, 11, 1.0), 0.1, 1e-15);
}

TEST(GroupsTest, SaysWhatIsWrong) {
    const std::string names = "lr, weight_decay, beta1, beta2, eps";
    const std::pair<std::string, std::string> cases[] = {
        {"embed", cat("--group takes REGEX:NAME=X,... with ", names, ", not \"embed\"")},
        {":lr=1", cat("--group takes REGEX:NAME=X,... with ", names, ", not \":lr=1\"")},
        {"embed:", cat("--group takes REGEX:NAME=X,... with ", names, ", not \"embed:\"")},
        {"embed:lr", cat("--group takes NAME=X with ", names, ", not \"lr\"")},
        {"embed:momentum=1", cat("--group takes NAME=X with ", names, ", not \"momentum=1\"")},
        {"embed:lr=1,", cat("--group takes NAME=X with ", names, ", not \"\"")},
        {"embed:lr=x", "--group takes a number as lr of 0 or more, not \"x\""},
        {"embed:lr=-1", "--group takes a number as lr of 0 or more, not \"-1\""},
        {"embed:beta1=1", "--group takes a number as beta1 from 0 to below 1, not \"1\""},
        {"embed:lr=1,lr=2", "--group takes lr once, not \"lr=2\""},
        {"(:lr=1", "--group takes a regular expression, not \"(\""},
        {"embed:lr=1;", cat("--group takes REGEX:NAME=X,... with ", names, ", not \"\"")},
        {"tail:lr=1",
         "--group tail matches no parameter of tiny that trains and is in no group before it\nhelp: those in no group "
         "are embed.weight, norm.weight, norm.bias, head.weight"},
        {"frozen:lr=1",
         "--group frozen matches no parameter of tiny that trains and is in no group before it\nhelp: those in no "
         "group are embed.weight, norm.weight, norm.bias, head.weight"},
        {"norm:lr=1;norm.bias:lr=2",
         "--group norm.bias matches no parameter of tiny that trains and is in no group before it\nhelp: those in no "
         "group are embed.weight, head.weight"},
    };
    for (const auto& [group, expected] : cases) {
        int status = 0;
        std::string error;
        try {
            parse({"--feed", "f", "--group", group}, "", with_parameters());
        } catch (const Error& e) {
            error = e.what();
            status = e.exit_code();
        }
        EXPECT_EQ(error.substr(0, expected.size() + 7), "error: " + expected);
        EXPECT_EQ(status, 2) << expected;
    }
}

}  // namespace options_test
}  // namespace thunder

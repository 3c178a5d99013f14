// SPDX-License-Identifier: Apache-2.0
// What the subcommands share.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/program/program.h"
#include "compiler/options.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

// Registers a subcommand; what it does is put into `action`, which main runs and whose result is the exit status.
using Action = std::function<int()>;

void add_train(CLI::App& app, Action& action);
void add_emit(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_trace(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_verify(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_ckpt(CLI::App& app, Action& action);
void add_bisect(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_completion(CLI::App& app, Action& action);

// The options that choose what the compiler makes of a model: the same for every subcommand that compiles.
struct ModelOptions {
    std::filesystem::path model;
    CompileOptions compile;
    std::vector<std::string> dims;                      // NAME=N
    std::vector<std::string> bind;                      // NAME=V,... or a file
    std::vector<std::string> inputs;                    // NAME=TYPE[N,...]
    std::vector<std::string> outputs;                   // of the graph; none: all
    std::string dropout = "export";                     // export, off, or a rate
    std::string executors;                              // a,b,c
    std::vector<std::string> disabled;                  // passes that are left out
    std::vector<std::filesystem::path> user_executors;  // files of functions that the user brings
    std::string fail_in;                                // a pass that fails as if it had a bug
    // Changes the module behind the pass of that name: a fault that a test plants, for which there is no option.
    std::function<void(Module&, const std::string&)> planted;
    std::optional<std::string> transform;  // forward,vjp; none: a training program
    bool no_roll = false;
    std::optional<std::int64_t> dp, fsdp;  // not given: one rank that communicates with nobody
    std::int64_t bucket_mb = 25;
    std::string hsdp;        // RxS
    bool silent = false;     // what warnings there are has been said before
    bool estimates = false;  // --machine is for the command itself as well
    bool any_ranks = false;  // of programs of several ranks, however few the options say: of plan --ranks

    void add_to(CLI::App& app);
    void add_graph_to(CLI::App& app);  // those that do not take training for granted
    void add_ranks_to(CLI::App& app);  // those of a program of several ranks
    void add_transform_to(CLI::App& app, const std::string& help);
    // After parsing: splits lists; throws UsageError.
    void finish();
};

// What the program is written for: the options of the subcommands that write one.
struct DeviceOptions {
    std::vector<std::string> devices{"cpu", "cuda"};
    std::vector<std::string> architectures = default_architectures();

    void add_to(CLI::App& app);
    void set(EmitOptions& emit) const;  // after parsing; throws UsageError
    // The same where none of the GPUs that are asked for multiplies so.
    void require_fp8(const std::string& recipe) const;
    std::string command_text() const;  // " --device cpu": those that are not the defaults
};

// A program that calls functions of the user's without a form for GPUs is written for CPUs alone, with a note on
// stderr.
void leave_out_cuda(EmitOptions& emit, const Module& module);

// The command that makes the program again: file names without folders, so that the text does not depend on where it
// ran. Behind the subcommand's name come the options of the model that are not the defaults.
std::string command_text(const std::string& subcommand, const ModelOptions& options);

// Checks of values whose messages say what is taken.
CLI::Validator at_least_one();
CLI::Validator at_least(std::int64_t least);
CLI::Validator between(std::int64_t least, std::int64_t most);

// That a program is made for, or planned on.
constexpr std::int64_t most_ranks = 65536;
CLI::Validator positive_number();
CLI::Validator not_empty();
CLI::Validator one_of(const std::vector<std::string>& words);

// Import and every pass, or as far as `last_pass`, with warnings on stderr.
struct Compiled {
    Module module;
    std::vector<PassRun> runs;
};
Compiled compile(const ModelOptions& options, const PassOptions& pass_options = {}, const std::string& last_pass = {});
// Says on stderr where a program of this module takes more than this machine's whole memory: it may be meant for
// another.
void warn_of_memory(const Module& module);
// The naive program of the same model, from the module after the pass `parting`. Where the longest loop of the program
// has many layers, it is a loop in the reference as well.
Module compile_reference(const ModelOptions& options, Module module, const std::string& parting, std::int64_t layers);
// What `compile` gives as far as this pass.
Module compile_until(const ModelOptions& options, const std::string& last_pass);
// The same of a model with that many rows in its batch, without a word; none where the graph's batch cannot be bound
// so.
std::optional<Module> compile_with_batch(ModelOptions options, std::int64_t batch, const std::string& last_pass);
// What `compile` gives as far as this pass, without a word, with what the user's functions are to compute in the place
// of calls of them, wherever a pattern or a body of the model says it.
Module compile_without_user_functions(ModelOptions options, const std::string& last_pass);
// "import" and the passes that these options ask for, in order.
std::vector<std::string> pass_names(const ModelOptions& options);
// --recompute, and what says more of its auto.
void add_recompute_to(CLI::App& app, CompileOptions& compile);
// Throws UsageError where that is said, and auto is not. `estimates`: the command itself takes --machine as well.
void check_recompute(const CompileOptions& compile, bool estimates);
// Throws UsageError where the optimizer cannot be sharded as asked, or its states not be kept so.
void check_optimizer_choices(const CompileOptions& compile);
// Throws UsageError where --lora is none, or another option says as well what is trained.
void check_adapters(const CompileOptions& compile);
// Throws UsageError, which lists them, where there is none of this name.
void require_pass(const ModelOptions& options, const std::string& name);
// Does what follows the passes; a bug in it is reported as that of a pass of this name.
void as_pass(const ModelOptions& options, const std::string& name, const Module& module,
             const std::function<void()>& what);

}  // namespace thunderc

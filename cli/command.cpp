#include "cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>

#include "compiler/frontend/frontend.h"
#include "compiler/support/error.h"

namespace thunderc {

CLI::Validator at_least_one() {
    return CLI::Validator(
        [](std::string& text) -> std::string {
            std::int64_t number = 0;
            const char* end = text.data() + text.size();
            const auto [stop, error] = std::from_chars(text.data(), end, number);
            if (error == std::errc() && stop == end && number >= 1) return {};
            return fmt::format("{} is not a whole number of at least 1", text);
        },
        "");
}

CLI::Validator one_of(const std::vector<std::string>& words) {
    return CLI::Validator(
        [words](std::string& text) -> std::string {
            if (std::find(words.begin(), words.end(), text) != words.end()) return {};
            return fmt::format("{} is not among {}", text, fmt::join(words, ", "));
        },
        fmt::format("{}", fmt::join(words, "|")));
}

void ModelOptions::add_to(CLI::App& app) {
    app.add_option("model", model, "the exported graph: an ONNX file")->required()->type_name("MODEL");
    app.add_option("--batch", compile.batch, "sequences in a micro-batch: binds dimension 0 of the inputs")
        ->check(at_least_one())
        ->type_name("B");
    app.add_option("--seq", compile.seq, "positions in a sequence: binds dimension 1 of the inputs")
        ->check(at_least_one())
        ->type_name("T");
    app.add_option("--dim", dims, "binds a symbolic dimension by name")->type_name("NAME=N");
    app.add_option("--loss", compile.loss, "the loss added to a graph that ends in logits")
        ->check(one_of({"auto", "cross-entropy", "mse", "none"}))
        ->capture_default_str();
    app.add_option("--recompute", compile.recompute, "activations computed again on the way back instead of kept")
        ->check(one_of({"none", "selective", "block"}))
        ->capture_default_str();
    app.add_option("--optimizer", compile.optimizer, "what steps the parameters")
        ->check(one_of({"adamw", "sgd"}))
        ->capture_default_str();
    app.add_option("--freeze", compile.freeze, "parameters that are not trained")->type_name("REGEX");
    app.add_option("--trainable", compile.trainable, "tensors of the graph that are parameters")->type_name("REGEX");
    app.add_option("--constant", compile.constant, "tensors of the graph that are constants")->type_name("REGEX");
    app.add_option("--executors", executors,
                   fmt::format("who computes what, in order of preference; 'reference' gives a naive program [{}]",
                               fmt::join(compile.executors, ",")))
        ->type_name("LIST");
    app.add_flag("--no-roll", no_roll, "keeps every layer as code of its own");
}

void ModelOptions::finish() {
    compile.roll = !no_roll;
    if (!executors.empty()) {
        compile.executors.clear();
        for (std::size_t begin = 0; begin <= executors.size();) {
            std::size_t comma = std::min(executors.find(',', begin), executors.size());
            compile.executors.push_back(executors.substr(begin, comma - begin));
            begin = comma + 1;
        }
    }
    for (const std::string& dim : dims) {
        std::size_t equals = dim.find('=');
        char* end = nullptr;
        const std::int64_t size = equals == std::string::npos ? 0 : std::strtoll(dim.c_str() + equals + 1, &end, 10);
        if (size <= 0 || *end != 0) {
            Diagnostic d;
            d.message = fmt::format("--dim takes NAME=N, not {}", dim);
            d.help = "--dim seq=256, for example";
            throw UsageError(std::move(d));
        }
        compile.dims[dim.substr(0, equals)] = size;
    }
}

namespace {

void print_warnings(const std::vector<PassRun>& runs) {
    for (const PassRun& run : runs)
        for (const Note& note : run.report.notes)
            if (note.kind == Note::Kind::warning)
                fmt::print(stderr, "warning: {}{}{}{}{}\n", note.what, note.where.empty() ? "" : ", ", note.where,
                           note.text.empty() ? "" : ": ", note.text);
}

}  // namespace

Compiled compile(const ModelOptions& options, const PassOptions& pass_options) {
    Compiled out;
    PassRun import;
    import.name = "import";
    const auto begin = std::chrono::steady_clock::now();
    Module module = import_model(options.model, options.compile);
    import.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    out.runs.push_back(import);
    if (pass_options.after) pass_options.after(module, import);
    out.module = run_passes(std::move(module), pipeline(options.compile), out.runs, pass_options);
    print_warnings(out.runs);
    return out;
}

Module compile_twin(const ModelOptions& options, Module module, const std::string& parting) {
    CompileOptions naive = options.compile;
    naive.executors = {"reference"};
    naive.roll = false;  // a loop's way back is checked against that of calls in a row
    std::vector<Pass> passes = pipeline(naive);
    const auto at = std::find_if(passes.begin(), passes.end(), [&](const Pass& pass) { return pass.name == parting; });
    check(at != passes.end(), "there is no pass " + parting);
    passes.erase(passes.begin(), at + 1);
    std::vector<PassRun> runs;
    return run_passes(std::move(module), passes, runs);
}

Module compile_until(const ModelOptions& options, const std::string& last_pass) {
    std::vector<Pass> passes = pipeline(options.compile);
    const auto last =
        std::find_if(passes.begin(), passes.end(), [&](const Pass& pass) { return pass.name == last_pass; });
    check(last != passes.end(), fmt::format("there is no pass {}", last_pass));
    passes.erase(last + 1, passes.end());
    std::vector<PassRun> runs;
    Module module = run_passes(import_model(options.model, options.compile), passes, runs);
    print_warnings(runs);
    return module;
}

}  // namespace thunderc

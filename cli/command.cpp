// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <tuple>
#include <utility>

#include "cli/input_shapes.h"
#include "cli/tensor_file.h"
#include "cli/user_executor.h"
#include "codegen/kernels/cuda/kernels_cuda.h"
#include "codegen/program/model_files.h"
#include "codegen/program/user_files.h"
#include "compiler/losses/losses.h"
#include "compiler/passes/precision/quantise_products.h"
#include "compiler/passes/step/chunk_logits.h"
#include "compiler/pipeline.h"
#include "compiler/support/error.h"
#include "runtime-lib/optim/rules/codes.h"
#include "runtime-lib/optim/rules/info.h"

namespace thunderc {

namespace {

// An option that takes what it is given each time. CLI11 marks those whose values are a list, not those that are
// joined.
CLI::Option* repeatable(CLI::Option* option) {
    return option->description(option->get_description() + "; may be repeated");
}

// The whole text as a number.
template <typename Number>
std::optional<Number> number_in(const std::string& text) {
    Number number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

// Says "x is not WHAT" of every other text.
template <typename Number, typename Admits>
CLI::Validator number_that(Admits admits, std::string what) {
    return CLI::Validator(
        [admits, what = std::move(what)](std::string& text) -> std::string {
            const std::optional<Number> number = number_in<Number>(text);
            return number && admits(*number) ? "" : fmt::format("{} is not {}", text, what);
        },
        "");
}

}  // namespace

CLI::Validator at_least(std::int64_t least) {
    return number_that<std::int64_t>([least](std::int64_t n) { return n >= least; },
                                     fmt::format("a whole number of at least {}", least));
}

CLI::Validator between(std::int64_t least, std::int64_t most) {
    return number_that<std::int64_t>([least, most](std::int64_t n) { return n >= least && n <= most; },
                                     fmt::format("a whole number from {} to {}", least, most));
}

CLI::Validator at_least_one() {
    return at_least(1);
}

CLI::Validator positive_number() {
    return number_that<double>([](double n) { return std::isfinite(n) && n > 0; }, "a number above 0");
}

CLI::Validator not_empty() {
    return CLI::Validator([](std::string& text) { return text.empty() ? "the text is empty" : ""; }, "");
}

CLI::Validator one_of(const std::vector<std::string>& words) {
    return CLI::Validator(
        [words](std::string& text) -> std::string {
            if (std::find(words.begin(), words.end(), text) != words.end()) return {};
            if (text.empty()) return "the text is empty";
            return fmt::format("{} is not among {}", text, fmt::join(words, ", "));
        },
        fmt::format("{}", fmt::join(words, "|")));
}

void ModelOptions::add_graph_to(CLI::App& app) {
    app.add_option("model", model,
                   "the exported model: a .pt2 file of torch.export.save, one of torch.jit.save, or an ONNX file")
        ->required()
        ->check(not_empty())
        ->type_name("MODEL");
    app.add_option("--batch", compile.batch, "sequences in a micro-batch: binds dimension 0 of the inputs")
        ->check(at_least_one())
        ->type_name("B");
    app.add_option("--seq", compile.seq, "positions in a sequence: binds dimension 1 of the inputs")
        ->check(at_least_one())
        ->type_name("T");
    repeatable(app.add_option("--dim", dims, "binds dynamic dimensions by name"))->type_name("NAME=N,...");
    repeatable(
        app.add_option("--bind", bind,
                       "inputs of the graph that are constants of the program, as what only shapes depend on has "
                       "to be: numbers, or a safetensors file of such inputs"))
        ->type_name("NAME=V,...|FILE");
    repeatable(app.add_option("--input", inputs,
                              "the type and the shape of an input, which a scripted model does not say; in place of "
                              "a number a name that --batch, --seq and --dim bind"))
        ->type_name("NAME=f32[N,...]");
    repeatable(app.add_option(
                   "--output", outputs,
                   "the output of the graph that is trained on, or those that a library gives; the rest is dropped"))
        ->check(not_empty())
        ->type_name("NAME,...")
        ->delimiter(',');
    app.add_option(
           "--dropout", dropout,
           "the rate of each dropout that the export shows, whatever it says; off: none; export: as it was exported")
        ->check(CLI::Validator(
            [](std::string& text) -> std::string {
                if (text == "off" || text == "export") return {};
                const std::optional<double> rate = number_in<double>(text);
                return rate && *rate >= 0 && *rate < 1 ? "" : text + " is neither off nor a rate from 0 to below 1";
            },
            "export|off|P"))
        ->capture_default_str();
    add_recompute_to(app, compile);
    app.add_option("--freeze", compile.freeze, "parameters that are not trained: no gradient, no optimizer state")
        ->check(not_empty())
        ->type_name("REGEX");
    app.add_option("--train-only", compile.train_only,
                   "parameters that are trained, as LoRA's 'lora_': all others are frozen")
        ->check(not_empty())
        ->type_name("REGEX");
    repeatable(
        app.add_option(
            "--trainable", compile.trainable,
            "initializers of the graph that are parameters, not constants, where thunderc asks; freezes nothing"))
        ->check(not_empty())
        ->type_name("REGEX")
        ->allow_extra_args(false);
    repeatable(app.add_option("--constant", compile.constant,
                              "initializers of the graph that are constants: they are compiled in"))
        ->check(not_empty())
        ->type_name("REGEX")
        ->allow_extra_args(false);
    app.add_option("--executors", executors,
                   fmt::format("who computes what, in order of preference; 'reference' gives a naive program: plain "
                               "loops, no library, the same bits on any number of threads [{}]",
                               fmt::join(compile.executors, ",")))
        ->check(not_empty())
        ->type_name("LIST");
    repeatable(app.add_option("--user-executor", user_executors,
                              "a file of functions of your own that compute operators or patterns of the model"))
        ->check(not_empty())
        ->type_name("FILE");
    app.add_flag("--no-roll", no_roll, "keeps every layer as code of its own");
    repeatable(app.add_option("--disable", disabled, "leaves passes out, to find the one that is wrong"))
        ->type_name("PASS,...")
        ->delimiter(',');
    app.add_option("--fail-in", fail_in)->group("");  // not in the help: how the report of a bug is tested
}

void require_pass(const ModelOptions& options, const std::string& name) {
    const std::vector<std::string> known = pass_names(options);
    if (std::find(known.begin(), known.end(), name) != known.end()) return;
    Diagnostic d;
    d.message = fmt::format("there is no pass {}", name);
    d.help = fmt::format("the passes are {}", fmt::join(known, ", "));
    throw UsageError(std::move(d));
}

void ModelOptions::add_transform_to(CLI::App& app, const std::string& help) {
    CLI::Option* option = app.add_option("--transform", transform, help)->type_name("LIST");
    if (transform) option->default_str(*transform);
}

void ModelOptions::add_to(CLI::App& app) {
    add_graph_to(app);
    std::string losses = "auto";  // what a shell completes
    for (const AddedLoss& loss : added_losses()) losses += "|" + loss.name;
    app.add_option("--lora", compile.lora,
                   "adapters of low rank beside linear layers, which alone are trained: r=N (8), alpha=X (8), "
                   "targets=REGEX of modules or all-linear (all but the head), rslora, dropout=P, "
                   "modules_to_save=REGEX of what is trained whole")
        ->check(not_empty())
        ->type_name("r=16,alpha=32,...");
    app.add_option("--loss", compile.loss,
                   "the loss added to a graph that ends in none, with options where it takes some (huber:delta=0.5), "
                   "or several "
                   "(cross-entropy@logits+0.5*mse@value, own@NAME a result that is a loss itself); "
                   "auto: its own, or cross-entropy where inputs are ids and the result is [batch, positions, classes]")
        ->check(not_empty())
        ->type_name(losses + "|none")
        ->capture_default_str();
    app.add_option("--logits-chunk", compile.logits_chunk,
                   fmt::format("rows of a chunk in which a head and its cross entropy are computed, where these stand "
                               "side by side, so that the logits of all rows are never in memory; auto: where whole "
                               "ones are larger than {} MiB",
                               most_logits_bytes >> 20))
        ->check(CLI::Validator(
            [](std::string& text) -> std::string {
                return parse_logits_chunk(text) ? "" : text + " is not auto, whole, or a number of rows from 1 on";
            },
            ""))
        ->type_name("auto|whole|ROWS")
        ->capture_default_str();
    app.add_flag("--token-accuracy", compile.token_accuracy,
                 "evaluation also counts the tokens whose score is the largest, as it does of classes in any case, for "
                 "one more pass over the scores");
    std::vector<std::string> optimizers;
    std::string titles;
    for (const thunder::RuleInfo& rule : thunder::all_rules()) {
        optimizers.push_back(rule.name);
        titles += fmt::format("{}{} ({})", titles.empty() ? "" : ", ", rule.name, rule.title);
    }
    app.add_option("--optimizer", compile.optimizer, "what steps the parameters: " + titles)
        ->check(one_of(optimizers))
        ->capture_default_str();
    std::vector<std::string> dtypes;
    for (const DType dtype : product_dtypes()) dtypes.emplace_back(name_of(dtype));
    std::vector<std::string> with_auto = dtypes;
    with_auto.insert(with_auto.begin(), "auto");
    app.add_option("--dtype", compile.dtype,
                   "of products and activations; auto: bf16 for an export in bf16, else f32; f16 has little range: the "
                   "loss is scaled")
        ->check(one_of(with_auto))
        ->capture_default_str();
    std::vector<std::string> recipes;
    for (const Fp8Recipe recipe : fp8_recipes()) recipes.emplace_back(name_of(recipe));
    app.add_option(
           "--fp8", compile.fp8,
           "with bf16: products of the linear layers of blocks are of eight bits, by Transformer Engine's recipe "
           "of this name")
        ->check(one_of(recipes));
    app.add_option("--fp8-skip", compile.fp8_skip,
                   "with --fp8: linear layers that stay in bf16: so many at the ends of each stack, and those whose "
                   "modules this is found in")
        ->check(not_empty())
        ->type_name("[first=N,][last=N,]REGEX");
    app.add_option("--fp8-wgrad", compile.fp8_wgrad, "with --fp8: of the products that give gradients of weights")
        ->check(one_of({"fp8", "bf16"}))
        ->capture_default_str();
    app.add_option(
           "--fp8-weights", compile.fp8_weights,
           "with --fp8: weights are quantised once a step and kept as codes, two bytes an element, or each time "
           "that a product reads them; auto: once where --grad-accum is above 1, and there is no --fsdp")
        ->check(one_of({"auto", "once", "each"}))
        ->capture_default_str();
    app.add_option("--master", compile.master,
                   "with bf16, f16: parameters that the optimizer steps; none: in that type as well")
        ->check(one_of({"f32", "none"}))
        ->capture_default_str();
    app.add_option("--grad-dtype", compile.grad_dtype, "with bf16, f16: gradients of parameters")
        ->check(one_of(dtypes))
        ->capture_default_str();
    std::vector<std::string> of_states = dtypes;
    of_states.emplace_back(eight_bits);
    app.add_option(
           "--optim-dtype", compile.optim_dtype,
           fmt::format("the optimizer's states: with bf16, f16 in that type; {}, with any: of matrices codes of "
                       "8 bits, with a scale for each {} elements, of all else f32",
                       eight_bits, thunder::rules::block_elements))
        ->check(one_of(of_states))
        ->capture_default_str();
}

void ModelOptions::add_ranks_to(CLI::App& app) {
    CLI::Option* copies = app.add_option("--dp", dp,
                                         "ranks that each hold the whole model and sum their gradients; 1: one rank "
                                         "that communicates with itself")
                              ->check(between(1, most_ranks))
                              ->type_name("N");
    CLI::Option* shards =
        app.add_option(
               "--fsdp", fsdp,
               "ranks over which the model is cut: each holds a shard of it; 1: one that gathers and sums all the same")
            ->check(between(1, most_ranks))
            ->type_name("N")
            ->excludes(copies);
    app.add_option("--hsdp", hsdp, "R copies of the model, each cut over S ranks")
        ->check(not_empty())
        ->type_name("RxS")
        ->excludes(copies)
        ->excludes(shards);
    app.add_option(
           "--fsdp-reshard", compile.reshard,
           "whether layers are gathered again in the backward pass: never, all but the last two (forward), always")
        ->check(one_of({"never", "forward", "always"}))
        ->capture_default_str();
    app.add_flag("--sync-batch-norm", compile.sync_batch_norm,
                 "every batch norm takes the statistics of all ranks' rows, as a SyncBatchNorm of the model does");
    app.add_option("--bucket-mb", bucket_mb, "with --dp: gradients that are summed as one, in MiB")
        ->check(between(1, 65536))
        ->capture_default_str()
        ->type_name("MB");
}

void DeviceOptions::add_to(CLI::App& app) {
    repeatable(app.add_option("--device", devices, "what the program can be built for"))
        ->delimiter(',')
        ->check(one_of({"cpu", "cuda"}))
        ->type_name("LIST")
        ->default_str("cpu,cuda");
    repeatable(
        app.add_option("--arch", architectures, "GPUs that the program is built for; kernels are tuned for the first"))
        ->delimiter(',')
        ->check(not_empty())
        ->type_name("LIST")
        ->default_str(fmt::format("{}", fmt::join(architectures, ",")));
}

void DeviceOptions::set(EmitOptions& emit) const {
    emit.cuda = std::find(devices.begin(), devices.end(), "cuda") != devices.end();
    if (std::find(devices.begin(), devices.end(), "cpu") == devices.end()) {
        Diagnostic d;
        d.message = "--device: a program can always be built for a cpu";
        d.help = "write --device cpu,cuda";
        throw UsageError(std::move(d));
    }
    for (const std::string& one : architectures) cuda_tuning(one);
    emit.architectures = architectures;
}

void DeviceOptions::require_fp8(const std::string& recipe) const {
    const std::optional<Fp8Recipe> known = parse_fp8_recipe(recipe);
    if (!known || std::find(devices.begin(), devices.end(), "cuda") == devices.end()) return;
    const int least = least_architecture(*known);
    const auto multiplies = [least](const std::string& name) {
        return std::stoi(name.substr(name.find('_') + 1)) >= least;
    };
    if (std::any_of(architectures.begin(), architectures.end(), multiplies)) return;
    Diagnostic d;
    d.message = fmt::format("--fp8 {}: {} {} no such products", recipe, fmt::join(architectures, ", "),
                            architectures.size() == 1 ? "has" : "have");
    d.help = fmt::format("GPUs from sm_{} on have: add one to --arch, or leave --fp8 out", least);
    throw UsageError(std::move(d));
}

void leave_out_cuda(EmitOptions& emit, const Module& module) {
    const std::vector<std::string> names = user_functions_without_cuda(module);
    if (!emit.cuda || names.empty()) return;
    emit.cuda = false;
    fmt::print(stderr, "note: the program is written for CPUs alone, since there is no form for GPUs of {}\n",
               fmt::join(names, ", "));
}

namespace {

[[noreturn]] void refuse(const std::string& list, const std::string& why) {
    Diagnostic d;
    d.message = fmt::format("--transform {}: {}", list, why);
    d.help = "supported are forward, vjp, and forward,vjp, which is vjp";
    throw UsageError(std::move(d));
}

// A list that composes from left to right, beginning with the model's own function.
Transform parse_transform(const std::string& list) {
    Transform composed = Transform::forward;
    std::string before;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t comma = std::min(list.find(',', begin), list.size());
        const std::string word = list.substr(begin, comma - begin);
        begin = comma + 1;
        if (word != "forward" && word != "vjp")
            refuse(list, word.empty() ? "a transform has no name" : word + " is not supported");
        if (word == "forward" ? !before.empty() : composed == Transform::vjp)
            refuse(list, fmt::format("{} of {} is not supported", word, before));
        if (word == "vjp") composed = Transform::vjp;
        before = word;
    }
    return composed;
}

// Whether a pass may be left out.
void require_optional(const ModelOptions& options, const std::string& name) {
    std::vector<std::string> optional;
    for (const Pass& pass : pipeline(options.compile))
        if (!pass.required) optional.push_back(pass.name);
    if (std::find(optional.begin(), optional.end(), name) != optional.end()) return;
    Diagnostic d;
    d.message = fmt::format("{} cannot be left out: what comes behind it needs what it makes", name);
    d.help = fmt::format("{}those that can are {}", name == "roll_repeats" ? "--no-roll keeps every layer; " : "",
                         fmt::join(optional, ", "));
    throw UsageError(std::move(d));
}

// "2x4": two copies, each cut over four ranks.
Mesh parse_mesh(const std::string& text) {
    const std::size_t cross = std::min(text.find('x'), text.size());
    const auto replicas = number_in<std::int64_t>(text.substr(0, cross));
    const auto shards = number_in<std::int64_t>(text.substr(std::min(cross + 1, text.size())));
    auto fits = [](const std::optional<std::int64_t>& n) { return n && *n >= 1 && *n <= most_ranks; };
    if (!fits(replicas) || !fits(shards)) {
        Diagnostic d;
        d.message = fmt::format("--hsdp takes RxS, not {}", text);
        d.help = "--hsdp 2x4, for example: two copies of the model, each cut over four ranks";
        throw UsageError(std::move(d));
    }
    if (*replicas * *shards > most_ranks) {
        Diagnostic d;
        d.message = fmt::format("--hsdp {}: {} ranks are more than {}", text, *replicas * *shards, most_ranks);
        d.help = "fewer copies, or fewer ranks to each of them";
        throw UsageError(std::move(d));
    }
    return {*replicas, *shards};
}

// "batch=4,seq=64" is two; an exporter's name may have commas of its own, as in "max(1, n)=4".
std::vector<std::string> split_dims(const std::vector<std::string>& given) {
    std::vector<std::string> dims;
    for (const std::string& text : given)
        for (std::size_t begin = 0; begin <= text.size();) {
            const std::size_t equals = text.find('=', begin);
            const std::size_t comma =
                equals == std::string::npos ? text.size() : std::min(text.find(',', equals), text.size());
            dims.push_back(text.substr(begin, comma - begin));
            begin = comma + 1;
        }
    return dims;
}

// "axes=0,2": whole numbers where all are, true and false among them; else of floating point.
std::optional<Tensor> numbers_of(const std::string& list) {
    std::vector<double> numbers;
    std::vector<std::int64_t> whole;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t comma = std::min(list.find(',', begin), list.size());
        const std::string text = list.substr(begin, comma - begin);
        begin = comma + 1;
        if (text == "true" || text == "false") {
            whole.push_back(text == "true" ? 1 : 0);
            numbers.push_back(text == "true" ? 1 : 0);
            continue;
        }
        if (const std::optional<std::int64_t> integer = number_in<std::int64_t>(text)) whole.push_back(*integer);
        const std::optional<double> number = number_in<double>(text);
        if (!number) return std::nullopt;
        numbers.push_back(*number);
    }
    const bool integers = whole.size() == numbers.size();
    Tensor out(Type::tensor(integers ? DType::i64 : DType::f64, {static_cast<std::int64_t>(numbers.size())}));
    if (integers)
        out.i = whole;
    else
        out.f = numbers;
    return out;
}

// What one --bind says.
void bind_inputs(const std::string& text, CompileOptions& compile) {
    const std::size_t equals = text.find('=');
    std::map<std::string, CompileOptions::BoundInput> bound;
    if (equals == std::string::npos) {
        for (auto& [name, tensor] : read_safetensors(text)) bound[name] = {std::move(tensor), true};
    } else {
        std::optional<Tensor> numbers = numbers_of(text.substr(equals + 1));
        if (equals == 0 || !numbers) {
            Diagnostic d;
            d.message = fmt::format("--bind takes NAME=V,... or a file, not {}", text);
            d.help = "--bind axes=0,2, for example, or --bind scales.safetensors";
            throw UsageError(std::move(d));
        }
        bound[text.substr(0, equals)] = {*std::move(numbers), false};
    }
    for (auto& [name, input] : bound) {
        if (compile.bound.emplace(name, std::move(input)).second) continue;
        Diagnostic d;
        d.message = fmt::format("--bind gives {} twice", name);
        d.help = "leave one of the two out";
        throw UsageError(std::move(d));
    }
}

}  // namespace

void ModelOptions::finish() {
    if (transform) compile.transform = parse_transform(*transform);
    load_user_executors(user_executors);
    compile.roll = !no_roll;
    if (dropout != "export") compile.dropout = dropout == "off" ? 0 : number_in<double>(dropout).value();
    if (compile.loss != "auto" && compile.loss != "none") parse_losses(compile.loss);  // which refuses what is none
    compile.mesh = hsdp.empty() ? Mesh{dp.value_or(1), fsdp.value_or(1)} : parse_mesh(hsdp);
    if (compile.mesh.world() == 1)
        compile.mesh.alone = !hsdp.empty() ? Mesh::Alone::both
                             : fsdp        ? Mesh::Alone::shards
                             : dp          ? Mesh::Alone::copies
                                           : Mesh::Alone::silent;
    const ModelOptions defaults;
    if (!any_ranks && compile.mesh.world() == 1 && compile.mesh.alone == Mesh::Alone::silent)
        for (const auto& [given, flag, ranks] :
             {std::tuple{bucket_mb != defaults.bucket_mb, "--bucket-mb", "--dp"},
              {compile.reshard != defaults.compile.reshard, "--fsdp-reshard", "--fsdp"},
              {compile.sync_batch_norm, "--sync-batch-norm", "--dp"}}) {
            if (!given) continue;
            Diagnostic d;
            d.message = fmt::format("{} is of several ranks alone", flag);
            d.help = fmt::format("leave it away, or say how many there are: {} N", ranks);
            throw UsageError(std::move(d));
        }
    if (compile.mesh.has_shards() && bucket_mb != defaults.bucket_mb) {
        Diagnostic d;
        d.message = "--bucket-mb is of --dp alone";
        d.help = "with --fsdp and --hsdp gradients are summed layer by layer: leave it away";
        throw UsageError(std::move(d));
    }
    if (!compile.mesh.has_shards() && compile.mesh.has_copies() && compile.reshard != defaults.compile.reshard) {
        Diagnostic d;
        d.message = "--fsdp-reshard is of --fsdp and --hsdp alone";
        d.help = "with --dp each rank holds all parameters, and none are gathered: leave it away";
        throw UsageError(std::move(d));
    }
    for (const auto& [given, flag] : {std::pair{!compile.fp8_skip.empty(), "--fp8-skip"},
                                      {compile.fp8_weights != defaults.compile.fp8_weights, "--fp8-weights"},
                                      {compile.fp8_wgrad != defaults.compile.fp8_wgrad, "--fp8-wgrad"}}) {
        if (!given || !compile.fp8.empty()) continue;
        Diagnostic d;
        d.message = fmt::format("{} is about --fp8, which is not given", flag);
        d.help = "add --fp8 delayed, for example, or leave it away";
        throw UsageError(std::move(d));
    }
    if (compile.fp8_weights == "once" && compile.mesh.has_shards()) {
        Diagnostic d;
        d.message = "--fp8-weights once is not for --fsdp and --hsdp";
        d.help = "no rank keeps whole weights there: leave it away";
        throw UsageError(std::move(d));
    }
    check_recompute(compile, estimates);
    check_optimizer_choices(compile);
    check_adapters(compile);
    compile.bucket_bytes = bucket_mb << 20;
    if (!executors.empty()) {
        compile.executors.clear();
        for (std::size_t begin = 0; begin <= executors.size();) {
            std::size_t comma = std::min(executors.find(',', begin), executors.size());
            compile.executors.push_back(executors.substr(begin, comma - begin));
            begin = comma + 1;
        }
    }
    if (parse_logits_chunk(compile.logits_chunk)->rows.value_or(0) > 0 && !can_chunk_logits(compile.executors)) {
        Diagnostic d;
        d.message =
            "--logits-chunk is about what the executors products and cross_entropy compute, not both of which "
            "--executors names";
        d.help = "leave --logits-chunk away, or name both";
        throw UsageError(std::move(d));
    }
    for (const std::string& text : bind) bind_inputs(text, compile);
    for (const std::string& text : inputs) add_input_shape(text, compile);
    for (const std::string& dim : split_dims(dims)) {
        const std::size_t equals = std::min(dim.find('='), dim.size());
        std::int64_t size = 0;
        const char* begin = dim.data() + std::min(equals + 1, dim.size());
        const auto [stop, error] = std::from_chars(begin, dim.data() + dim.size(), size);
        if (equals == 0 || error != std::errc() || stop != dim.data() + dim.size() || size <= 0) {
            Diagnostic d;
            d.message = fmt::format("--dim takes NAME=N, not {}", dim);
            d.help = "--dim seq=256, for example";
            throw UsageError(std::move(d));
        }
        const auto [known, fresh] = compile.dims.emplace(dim.substr(0, equals), size);
        if (!fresh && known->second != size) {
            Diagnostic d;
            d.message = fmt::format("--dim binds {} twice, to {} and to {}", known->first, known->second, size);
            d.help = "leave one of the two out";
            throw UsageError(std::move(d));
        }
    }
    for (const std::string& pass : disabled) {
        require_pass(*this, pass);
        require_optional(*this, pass);
    }
}

}  // namespace thunderc

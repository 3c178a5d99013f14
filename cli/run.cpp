// SPDX-License-Identifier: Apache-2.0
// thunderc run: evaluates a model's graph, as the exporter wrote it, in double precision; or executes the planned
// program.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "cli/command.h"
#include "cli/tensor_file.h"
#include "codegen/program/safetensors.h"
#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/op_def.h"
#include "compiler/passes/recognise/bound_indices.h"
#include "compiler/plan_interpreter/run_ranks.h"
#include "compiler/support/error.h"
#include "program/inputs.h"

namespace thunderc {
namespace {

struct RunOptions {
    ModelOptions model;
    std::filesystem::path in, out;
    bool planned = false;
    std::int64_t ranks = 0;  // as many as the program is made for
};

[[noreturn]] void fail_comparing(const std::string& message, const std::string& help, const std::string& expected,
                                 const std::string& actual) {
    Diagnostic d;
    d.message = message;
    d.help = help;
    d.expected = expected;
    d.actual = actual;
    throw UserError(std::move(d));
}

Tensor from_source(const WeightSource& source, const Type& type) {
    const std::vector<std::byte> bytes = source_bytes(source);
    Tensor out(type);
    check(bytes.size() == static_cast<std::size_t>(out.size()) * sizeof(float), "a weight of another size");
    for (std::int64_t k = 0; k < out.size(); ++k) {
        float value = 0;
        std::memcpy(&value, bytes.data() + static_cast<std::size_t>(k) * sizeof value, sizeof value);
        out.set(k, value);
    }
    return out;
}

// What the file gives for an argument under one of its names, else the export's own data; floats of any width are
// taken for floats, integers of any width for integers.
Tensor argument(const std::map<std::string, Tensor>& given, const std::filesystem::path& file, const ArgInfo& info,
                const Type& type, std::size_t member) {
    std::vector<std::string> names = {info.names.at(member)};
    if (member < info.aliases.size())
        names.insert(names.end(), info.aliases[member].begin(), info.aliases[member].end());
    for (const std::string& name : names) {
        auto found = given.find(name);
        if (found == given.end()) continue;
        const Tensor& t = found->second;
        if (t.type.dims != type.dims || t.floating() != is_float(type.dtype))
            fail_comparing(fmt::format("{} in {} does not fit the model", name, file.string()),
                           "give it the model's shape, or choose the model's with --batch, --seq and --dim",
                           to_string(type), to_string(t.type));
        Tensor out(type);
        for (std::int64_t k = 0; k < out.size(); ++k) {
            if (t.floating())
                out.f[static_cast<std::size_t>(k)] = t.f[static_cast<std::size_t>(k)];
            else
                out.i[static_cast<std::size_t>(k)] = t.i[static_cast<std::size_t>(k)];
        }
        for (std::int64_t k = 0; info.kind == ArgInfo::Kind::input && !out.floating() && k < out.size(); ++k) {
            const ArgInfo::Ids ids = info.ids_at(type, k);
            const std::int64_t id = out.i[static_cast<std::size_t>(k)];
            if (thunder::IdRange{ids.entries, ids.ignore_index}.holds(id)) continue;  // as the program has it
            fail(fmt::format("{} in {} holds {}, which is no id", name, file.string(), id),
                 fmt::format("ids are at least 0 and below {}{}", ids.entries,
                             info.columns.empty() ? "" : " there: other columns have tables of other sizes"));
        }
        return out;
    }
    if (info.source == sample_numbers_source) {  // the first samples of a run
        Tensor out(type);
        for (std::int64_t k = 0; k < out.size(); ++k) out.set(k, static_cast<double>(k));
        return out;
    }
    const WeightSource* source = member < info.sources.size() ? info.sources[member].get() : nullptr;
    if (source != nullptr && source->read) return from_source(*source, type);
    std::vector<std::string> present;
    for (const auto& [name, tensor] : given) present.push_back(name);
    if (present.size() > 8) present.resize(8);
    fail(fmt::format("there is no tensor {} in {}", names.front(), file.string()),
         fmt::format("add it: {}; the file holds {}{}", to_string(type),
                     present.empty() ? "nothing" : fmt::format("{}", fmt::join(present, ", ")),
                     given.size() > present.size() ? fmt::format(" and {} more", given.size() - present.size()) : ""));
}

// Before anything is computed.
void require_file(const std::filesystem::path& path) {
    if (std::filesystem::is_directory(path))
        fail(fmt::format("--out {} is a folder, not a file", path.string()),
             fmt::format("name a file in it: --out {}", (path / "outputs.safetensors").string()));
}

void write(const std::filesystem::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors) {
    std::vector<StoredTensor> stored;
    std::string listing;
    for (auto [name, t] : tensors) {
        if (t.floating() && t.type.dtype != DType::f64) t.type.dtype = DType::f32;
        listing += fmt::format("{:<24} {}\n", name, to_string(t.type));
        stored.push_back(stored_tensor(name, std::move(t)));
    }
    write_safetensors(path, stored, path.string(), "make room on the disk, or choose another file with --out");
    fmt::print("{}", listing);
}

// One micro-batch through the program as it lies in memory: its loss and its gradients. Of several ranks each takes the
// same one: the mean over all of them is that of one, and so are its gradients.
int run_planned(const RunOptions& o) {
    PlannedRanks ranks(compile(o.model).module);
    const std::map<std::string, Tensor> given = read_safetensors(o.in);
    std::vector<std::string> trained;
    MicroBatch batch;
    const Function& main = ranks.module().main();
    auto parameter = [&](const ArgInfo& info, const Type& type, std::size_t m) {
        ranks.set(info.names[m], argument(given, o.in, info, type, m));
        if (ranks.has("grad." + info.names[m])) trained.push_back(info.names[m]);
    };
    const bool sharded = !ranks.module().units.empty();
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const ArgInfo& info = main.argument_info.at(k);
        const Type type = main.type(main.arguments[k]).member();
        for (std::size_t m = 0; m < info.names.size(); ++m) {
            if (info.kind == ArgInfo::Kind::input) batch[info.names[m]] = argument(given, o.in, info, type, m);
            if (info.kind == ArgInfo::Kind::buffer || (info.kind == ArgInfo::Kind::parameter && !sharded))
                parameter(info, type, m);
        }
    }
    for (const ShardUnit& unit : ranks.module().units)
        for (const ShardUnit::Tensor& t : unit.tensors)
            for (std::size_t m = 0; m < t.info.names.size(); ++m)
                parameter(t.info, Type::tensor(DType::f32, t.dims), m);
    make_narrow_copies(ranks);
    const PlannedStep step = planned_gradients(ranks, {std::vector<MicroBatch>(ranks.size(), batch)});
    std::vector<std::pair<std::string, Tensor>> out = {{"loss", Tensor::scalar(DType::f32, step.loss)}};
    for (const std::string& name : trained) out.emplace_back("d" + name, ranks.get("grad." + name));
    write(o.out, out);
    return 0;
}

// Inputs with the ranges that keep indices inside of their tables, where they can be told. Evaluating looks at every
// index: here none is too hard to follow.
Module with_ranges(Module module) {
    Report report;
    try {
        return bound_indices(module, report);
    } catch (const UserError&) {
        return module;
    }
}

int run_command(RunOptions o) {
    o.model.finish();
    if (const std::int64_t made_for = o.model.compile.mesh.world(); o.ranks > 0 && o.ranks != made_for) {
        Diagnostic d;
        d.message =
            fmt::format("--ranks {}: the program is for {} rank{}", o.ranks, made_for, made_for == 1 ? "" : "s");
        d.help = "leave --ranks out";
        throw UsageError(std::move(d));
    }
    require_file(o.out);
    if (o.planned) return run_planned(o);
    // Names and orientation are the framework's from here on; nothing else has been changed.
    const Module module = with_ranges(compile_until(o.model, "simplify"));
    const std::map<std::string, Tensor> given = read_safetensors(o.in);
    const Function& main = module.main();
    std::vector<Members> arguments;
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const ArgInfo& info = main.argument_info.at(k);
        arguments.emplace_back();
        for (std::size_t m = 0; m < info.names.size(); ++m)
            arguments.back().push_back(argument(given, o.in, info, main.type(main.arguments[k]).member(), m));
    }
    if (std::any_of(main.ops.begin(), main.ops.end(), [](const Op& op) { return op_def(op.name).draws; })) {
        fmt::print(
            stderr,
            "note: nothing is drawn: dropouts are left out, and a random number is its mean; --planned draws what "
            "the program's first micro-step does\n");
        std::fflush(stderr);
    }
    const std::vector<Members> results = evaluate(module, main, std::span<const Members>(arguments));
    std::vector<std::pair<std::string, Tensor>> out;
    for (std::size_t r = 0; r < results.size(); ++r) out.emplace_back(main.result_names.at(r), results[r].at(0));
    write(o.out, out);
    return 0;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
    auto o = std::make_shared<RunOptions>();
    CLI::App* sub = app.add_subcommand("run", "evaluate a model's graph by the reference, in double precision");
    sub->footer(
        "Inputs are read by their names in the graph; parameters by the framework's names where the file has them,\n"
        "else they are the export's. Outputs are written by their names in the graph. It is slow and exact: a\n"
        "reference for small models, not a way to use one.\n\n"
        "With --planned it is the training program that is executed, operation by operation, in memory laid out as\n"
        "the program's: the file gives the inputs, labels included, and the loss and a gradient d<parameter> for\n"
        "every parameter are written.\n\n"
        "  thunderc run model.onnx --in inputs.safetensors --out outputs.safetensors");
    o->model.add_to(*sub);
    o->model.add_ranks_to(*sub);
    sub->add_option("--in", o->in, "tensors by name")->required()->check(not_empty())->type_name("X.safetensors");
    sub->add_option("--out", o->out, "the file to write")->required()->check(not_empty())->type_name("Y.safetensors");
    CLI::Option* planned = sub->add_flag("--planned", o->planned, "execute the planned training program instead");
    sub->add_option("--ranks", o->ranks, "how many ranks the planned program is executed on: those it was made for")
        ->check(at_least_one())
        ->needs(planned)
        ->type_name("N");
    sub->callback([o, &action] { action = [o] { return run_command(*o); }; });
}

}  // namespace thunderc

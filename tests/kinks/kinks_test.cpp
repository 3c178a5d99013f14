// SPDX-License-Identifier: Apache-2.0
// Poles, kinks and jumps: what PyTorch gives there, recorded by scripts/record_kinks.py, and what ours gives. Every op
// says in its definition where it has one; each of these places is held to PyTorch's value and gradient, the op alone
// and in graphs as PyTorch exports them. docs/numerics.md has the same numbers as a table.
//
// Where PyTorch's gradient is a number, ours is that number. Where it is none (0 times infinity at a pole), ours may be
// any number that is one. Where it is infinite, so is ours, unless the case says what it is instead.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/op_def.h"
#include "compiler/ops/rules.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/passes/step/compose_function.h"
#include "compiler/pipeline.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace {

using nlohmann::json;
using Tensors = std::map<std::string, Tensor>;

const json& cases() {
    static const json all = reference("kinks").at("cases");
    return all;
}

const Tensors& given() {
    static const Tensors all = tensors("kinks/in.safetensors");
    return all;
}

const Tensors& torchs() {
    static const Tensors all = tensors("kinks/out.safetensors");
    return all;
}

// The names of a case's inputs: CASE_x and so on.
std::vector<std::string> inputs_of(const std::string& name) {
    std::vector<std::string> out;
    for (const char* letter : {"_x", "_y", "_z"})
        if (given().contains(name + letter)) out.push_back(name + letter);
    return out;
}

// Some roundings of f32 in a row, in another order than PyTorch's.
constexpr double tolerance = 1e-5;

std::string problem(double ours, double theirs, bool gradient, bool milder) {
    bool fine = std::isnan(theirs)   ? (gradient ? !std::isinf(ours) : std::isnan(ours))
                : std::isinf(theirs) ? ours == theirs || (milder && std::isfinite(ours))
                                     : std::abs(ours - theirs) <= tolerance * std::max(1.0, std::abs(theirs));
    // What is 0 there is 0 here: no tolerance makes a gradient of nothing.
    if (gradient && theirs == 0 && std::abs(ours) > 1e-12) fine = false;
    return fine ? "" : fmt::format("{}, PyTorch gives {}", ours, theirs);
}

// Everything that differs, a line each.
std::string problems(const json& c, const Tensors& ours) {
    const std::string name = c.at("name");
    std::string out;
    std::vector<std::string> names = {name};
    for (const std::string& input : inputs_of(name)) names.push_back("d" + input);
    for (const std::string& what : names) {
        const auto at = ours.find(what);
        const Tensor& theirs = torchs().at(what);
        if (at == ours.end() || at->second.size() != theirs.size()) {
            out += what + " is missing\n";
            continue;
        }
        for (std::int64_t k = 0; k < theirs.size(); ++k)
            if (std::string p = problem(at->second.at(k), theirs.at(k), what != name, c.contains("gives")); !p.empty())
                out += fmt::format("{}: {}[{}] is {}\n", c.at("torch").get<std::string>(), what, k, p);
    }
    return out;
}

// The entry function's results by name, every value rounded to its type.
Tensors run(const Module& module, const Function& f) {
    std::vector<Members> arguments;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        const ArgInfo& info = f.argument_info[k];
        const auto at = given().find(info.names.empty() ? "" : info.names[0]);
        arguments.push_back({at != given().end() ? at->second : Tensor(f.type(f.arguments[k]))});
    }
    const std::vector<Members> results = evaluate(module, f, arguments, {.round_to_dtype = true, .observe = {}});
    Tensors out;
    // Results stand in the order of the arguments whose places they take.
    std::size_t r = 0;
    for (std::size_t k = 0; k < f.arguments.size(); ++k)
        if (f.argument_info[k].kind == ArgInfo::Kind::output) out[f.argument_info[k].names[0]] = results[r++][0];
    return out;
}

// ---- the op alone ---------------------------------------------------------------------------------------------------

Attributes attributes_of(const json& c) {
    Attributes out;
    if (!c.contains("attributes")) return out;
    for (const auto& [name, value] : c.at("attributes").items()) {
        if (value.is_boolean()) out.set(name, value.get<bool>());
        if (value.is_number_integer()) out.set(name, value.get<std::int64_t>());
        if (value.is_string()) out.set(name, value.get<std::string>());
        if (value.is_array()) out.set(name, value.get<Dims>());
    }
    return out;
}

Value constant_of(Builder& b, const json& value) {
    const bool list = value.is_array();
    const json& first = list ? value.at(0) : value;
    const DType dtype = first.is_boolean() ? DType::boolean : first.is_number_integer() ? DType::i64 : DType::f32;
    Tensor t(Type::tensor(dtype, list ? Dims{static_cast<std::int64_t>(value.size())} : Dims{}));
    for (std::int64_t k = 0; k < t.size(); ++k) {
        const json& v = list ? value.at(static_cast<std::size_t>(k)) : value;
        t.set(k, v.is_boolean() ? (v.get<bool>() ? 1 : 0) : v.get<double>());
    }
    return b.constant(ConstExpr::dense(std::move(t)));
}

Module op_alone(const json& c) {
    const std::string name = c.at("name");
    Module module;
    module.name = "kink";
    Function& f = module.functions.emplace_back();
    f.name = "main";
    std::map<std::string, Value> inputs;
    for (const std::string& input : inputs_of(name)) {
        inputs[input] = f.add_argument(given().at(input).type, input);
        ArgInfo info;
        info.kind = ArgInfo::Kind::input;
        info.names = {input};
        f.argument_info.back() = info;
    }
    Builder b(f);
    std::vector<Value> operands;
    for (const json& o : c.at("operands"))
        operands.push_back(o.contains("input") ? inputs.at(name + "_" + o.at("input").get<std::string>())
                                               : constant_of(b, o.at("value")));
    f.results = {b.emit(c.at("op").get<std::string>(), operands, attributes_of(c), name)[0]};
    f.result_names = {name};
    return module;
}

Module with_gradient(Module module) {
    Report report;
    DifferentiateOptions options;
    options.wanted = wants_gradient;
    options.cotangent_for_each_result = true;
    module = compose_function(differentiate(std::move(module), options, report), "vjp", report);
    verify(module);
    return module;
}

TEST(Kinks, OpsAloneGiveWhatPyTorchGives) {
    for (const json& c : cases()) {
        if (!c.contains("operands")) continue;
        const Module module = with_gradient(op_alone(c));
        EXPECT_EQ(problems(c, run(module, module.main())), "") << c.at("name");
    }
}

// ---- in graphs ------------------------------------------------------------------------------------------------------

class KinksInGraphs : public ::testing::TestWithParam<const char*> {};

// As composites, and decomposed into the primitives that kernels are made of.
TEST_P(KinksInGraphs, GiveWhatPyTorchGives) {
    CompileOptions options;
    options.transform = Transform::vjp;
    options.constant = {".*"};  // numbers that stand in the functions
    options.executors = {"reference"};
    std::map<std::string, Module> stages;
    std::vector<PassRun> runs;
    std::vector<Pass> passes = pipeline(options);
    const auto end = std::find_if(passes.begin(), passes.end(), [](const Pass& p) { return p.name == "fuse"; });
    passes.erase(end, passes.end());
    run_passes(imported(std::string("kinks/") + GetParam()), passes, runs,
               {.disabled = {}, .after = [&](const Module& m, const PassRun& pass) { stages[pass.name] = m; }});
    for (const char* stage : {"simplify_function", "simplify_claimed"}) {
        const Module& module = stages.at(stage);
        const Tensors ours = run(module, module.main());
        for (const json& c : cases()) EXPECT_EQ(problems(c, ours), "") << stage << " " << c.at("name");
    }
}

INSTANTIATE_TEST_SUITE_P(Export, KinksInGraphs, ::testing::Values("dynamo.onnx", "noopt.onnx"), [](const auto& info) {
    return std::string(info.param).substr(0, std::string(info.param).find('.'));
});

// What the exporter's optimizer joined is not what it was: said once for each, unless both bounds are certain. Without
// it, nothing is.
TEST(Kinks, JoinedClipsAreWarnedOf) {
    auto warnings = [](const char* graph) {
        Report report;
        import_model(fixture(std::string("kinks/") + graph), {}, report);
        std::string out;
        for (const Note& note : report.notes)
            if (note.what == "Clip") out += note.where + ": " + note.text.substr(note.text.find(": ") + 2, 39) + "\n";
        return out;
    };
    EXPECT_EQ(warnings("noopt.onnx"), "");
    EXPECT_EQ(warnings("dynamo.onnx"),
              "node_Clip_255: 0 on the lower one, 1 on the upper one;\n"
              "node_Clip_256: 0 on the lower one, 1 on the upper one;\n");
}

// ---- who has one ----------------------------------------------------------------------------------------------------

TEST(Kinks, EachIsRecordedAndEachRecordIsOfOne) {
    std::set<std::pair<std::string, std::string>> recorded, claimed;
    for (const json& c : cases())
        if (c.contains("op")) recorded.emplace(c.at("op"), c.at("at"));
    for (const OpDef* def : all_ops())
        for (const std::string& kink : def->kinks) claimed.emplace(def->name, kink);
    for (const auto& [op, at] : claimed)
        EXPECT_TRUE(recorded.contains({op, at}))
            << op << " has a kink at " << at << ", of which scripts/record_kinks.py records nothing";
    for (const auto& [op, at] : recorded)
        EXPECT_TRUE(claimed.contains({op, at})) << op << " does not say that it has a kink at " << at;
}

// ---- the table ------------------------------------------------------------------------------------------------------

std::string number(double v) {
    if (std::isnan(v)) return "NaN";
    if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
    return v == 0 ? "0" : fmt::format("{:.4g}", v);
}

std::string row_text(const Tensor& t) {
    std::string out;
    for (std::int64_t k = 0; k < t.size(); ++k) out += (k == 0 ? "" : ", ") + number(t.at(k));
    return out;
}

std::string cell(std::string text) {
    for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
    return text;
}

std::string table(const Tensors& ours) {
    std::string out = "| torch | at | by | cotangent | torch's gradient | ours |\n|---|---|---|---|---|---|\n";
    for (const json& c : cases()) {
        const std::string name = c.at("name");
        for (const std::string& input : inputs_of(name)) {
            const Tensor &mine = ours.at("d" + input), &theirs = torchs().at("d" + input);
            const std::string own = row_text(mine), torch = row_text(theirs);
            std::string at;
            for (const std::string& i : inputs_of(name))
                at += fmt::format("{}{} = {}", at.empty() ? "" : "; ", i.substr(name.size() + 1),
                                  row_text(given().at(i)));
            const bool same = problems(c, ours).empty() && own == torch;
            out += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", cell(c.at("torch")), at,
                               input.substr(name.size() + 1), row_text(given().at("d" + name)), torch,
                               same ? "the same"
                                    : own + (c.contains("gives") && own.find("inf") == std::string::npos
                                                 ? fmt::format(" ({})", c.at("gives").get<std::string>())
                                                 : ""));
        }
    }
    return out;
}

TEST(Kinks, TableInTheDocsIsUpToDate) {
    CompileOptions options;
    options.transform = Transform::vjp;
    options.constant = {".*"};  // numbers that stand in the functions
    std::vector<PassRun> runs;
    std::vector<Pass> passes = pipeline(options);
    passes.erase(std::find_if(passes.begin(), passes.end(), [](const Pass& p) { return p.name == "attach_epilogues"; }),
                 passes.end());
    const Module module = run_passes(imported("kinks/noopt.onnx"), passes, runs);
    const std::string path = std::string(FIXTURES) + "/../../docs/numerics.md";
    const std::string begin = "<!-- kinks: written by scripts/generate_docs.sh -->\n", end = "<!-- end of kinks -->\n";
    std::stringstream file;
    file << std::ifstream(path).rdbuf();
    std::string text = file.str();
    const std::size_t from = text.find(begin), to = text.find(end);
    ASSERT_TRUE(from != std::string::npos && to != std::string::npos) << path << " has no place for the table";
    const std::string now = table(run(module, module.main()));
    if (std::getenv("THUNDERC_UPDATE") != nullptr) {
        text.replace(from + begin.size(), to - from - begin.size(), now);
        std::ofstream(path) << text;
        return;
    }
    EXPECT_TRUE(text.substr(from + begin.size(), to - from - begin.size()) == now)
        << path << " is out of date: run scripts/generate_docs.sh";
}

}  // namespace
}  // namespace thunderc

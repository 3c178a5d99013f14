// SPDX-License-Identifier: Apache-2.0
// The reference program shares nothing with what it judges: no call of the runtime API, and no function, sum or loop
// that other programs' kernels are made of.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "codegen/program/program.h"
#include "codegen/text.h"
#include "compiler/executors/executor.h"
#include "compiler/ir/op_def.h"
#include "compiler/ops/batch_norm.h"
#include "compiler/ops/plain_call.h"
#include "compiler/passes/fusion/claim.h"
#include "tests/planned/reference_step.h"
#include "tests/support/full_form.h"

namespace thunderc {
namespace reference_program_test {
namespace fs = std::filesystem;

// The sample as a function of its own.
Module module_of(const OpDef& def, const Sample& sample) {
    Module module;
    Function f;
    f.name = "main";
    std::vector<Value> operands;
    for (const SampleOperand& operand : sample.operands)
        operands.push_back(operand.absent ? Value{}
                                          : f.add_argument(operand.type, fmt::format("x{}", operands.size())));
    f.argument_info.clear();
    Builder b(f);
    f.results = b.emit(def.name, operands, sample.attributes);
    module.functions.push_back(std::move(f));
    return module;
}

// Whatever an op becomes, what is left as a call is one of the reference's own.
TEST(ReferenceProgram, MakesNoCallOfTheRuntimeApi) {
    std::set<std::string> seen;
    for (const OpDef* def : all_ops()) {
        // Programs with products of eight bits are judged by naive ones without.
        if (def->name.starts_with("fp8_")) continue;
        // A reference is one rank.
        if (def->name == sum_over_ranks_name) continue;
        // The optimizer's calls end a step whose gradients were compared before.
        if (def->level == OpLevel::structural || def->optimizer || def->samples.empty()) continue;
        for (const Sample& sample : def->samples) {
            Module module = module_of(*def, sample);
            Report report;
            try {
                module = claim(std::move(module), {"optimizer", "reference"}, report);
            } catch (const UserError&) {
                continue;  // no program computes it of these types
            }
            for (const Op& op : module.main().ops) {
                const OpDef& left = op_def(op.name);
                if (!left.call || left.optimizer || op.attributes.string("executor", "") == "optimizer") continue;
                const RuntimeCall call = left.call(op, module.main());
                if (call.function.empty()) continue;
                EXPECT_TRUE(call.function.starts_with("reference_"))
                    << def->name << ", " << sample.name << ": " << call.function;
                EXPECT_EQ(call.header, "device/reference.h");
                seen.insert(call.function);
            }
        }
    }
    EXPECT_EQ(seen, (std::set<std::string>{"reference_gather", "reference_matmul", "reference_random_bernoulli",
                                           "reference_random_uniform", "reference_scatter_add"}));
}

// Of whole programs: the text of the program and of the one in its tests/reference.
TEST(ReferenceProgram, IncludesNothingThatItJudges) {
    for (const char* model : {"llama2/dynamo.logits.onnx", "odd/tides.loss.onnx"}) {
        CompileOptions options, naive;
        naive.executors = {"reference"};
        EmitOptions emit;
        emit.compile = options;
        std::set<std::string> judged, judge;  // calls in camel case or not: words before "({" and headers
        const std::regex word("(\\w+)\\(\\{|#include \"device/cpu/([\\w/.]+)\"|#include \"device/(parallel.h)\"");
        for (const OutputFile& file : print_program(compiled(model, options), compiled(model, naive), emit)) {
            const bool reference = file.path.starts_with("tests/reference/");
            const fs::path name = fs::path(file.path).filename();
            if (!reference && file.path.find('/') != std::string::npos) continue;
            if (name != "model.cpp" && name != "blocks.cpp" && name != "kernels_cpu.cpp") continue;
            for (std::sregex_iterator at(file.text.begin(), file.text.end(), word), end; at != end; ++at) {
                std::string what = (*at)[1].matched ? (*at)[1].str() : (*at)[2].matched ? (*at)[2] : (*at)[3];
                (reference ? judge : judged).insert(what);
            }
        }
        EXPECT_TRUE(judged.contains("vec_math.h") && judged.contains("row_reduction.h") &&
                    judged.contains("parallel.h"));
        EXPECT_TRUE(judge.contains("reference_kernels.h"));
        for (const char* behind_what_is_compared : {"adamw", "global_norm"}) judge.erase(behind_what_is_compared);
        for (const std::string& shared : judge)
            EXPECT_FALSE(judged.contains(shared)) << model << " and its reference have in common: " << shared;
    }
}

// Parameters are stepped whoever computes the rest: every choice of executors gives a program; in the short form those
// of up to two executors, and of all but one.
TEST(ReferenceProgram, EveryChoiceOfExecutorsGivesAProgram) {
    const std::vector<Executor>& executors = all_executors();
    for (const char* model : {"mlp/dynamo.logits.onnx", "odd/tides.loss.onnx"})
        for (unsigned chosen = 1; chosen < 1U << executors.size(); ++chosen) {
            const auto count = static_cast<std::size_t>(std::popcount(chosen));
            if (!full_form && count > 2 && count + 1 < executors.size()) continue;
            CompileOptions options;
            options.executors.clear();
            for (std::size_t k = 0; k < executors.size(); ++k)
                if ((chosen >> k & 1U) != 0) options.executors.push_back(executors[k].name);
            EXPECT_NO_THROW(compiled(model, options))
                << model << " by " << fmt::format("{}", fmt::join(options.executors, ","));
        }
}

// What a program's specification says of who has its products and its attention, for the first line of a run, is what
// the text calls: of programs, of their reference programs, of a program whose linear layers are the library's and
// whose attention is decomposed, and of one without a product.
TEST(ReferenceProgram, NamesThoseWhoHaveItsCalls) {
    const std::pair<const char*, std::regex> calls[] = {
        {"products", std::regex("\\b(linear_\\w+|matmul)\\(\\{")},
        {"plain_loops", std::regex("\\breference_matmul\\(\\{")},
        {"attention", std::regex("\\battention_(for|back)ward\\(\\{")},
    };
    std::set<std::string> seen;
    for (const char* model : {"llama2/dynamo.logits.onnx", "mlp/dynamo.logits.onnx", "odd/tides.loss.onnx"}) {
        CompileOptions naive;
        naive.executors = {reference_name};
        const Module reference = compiled(model, naive);
        for (const std::vector<std::string>& executors :
             {default_executors(), naive.executors, {"optimizer", "products", reference_name}}) {
            EmitOptions emit;
            emit.compile.executors = executors;
            std::map<std::string, std::string> text, specification;  // of the program, and of its reference program
            for (const OutputFile& file : print_program(compiled(model, emit.compile), reference, emit)) {
                const std::string folder = fs::path(file.path).parent_path();
                if (folder != "" && folder != "tests/reference") continue;
                const fs::path name = fs::path(file.path).filename();
                if (name == "model.cpp" || name == "blocks.cpp") text[folder] += file.text;
                if (name == "spec.cpp") specification[folder] = file.text;
            }
            ASSERT_EQ(text.size(), 2U);
            for (const auto& [folder, made] : text) {
                std::string want;
                for (const auto& [provider, call] : calls)
                    if (std::regex_search(made, call))
                        want += fmt::format("{}.{} = true", want.empty() ? "" : ", ", provider);
                seen.insert(want);
                std::smatch got;
                const std::regex line("\\n    \\.providers = \\{(.*)\\},\\n");
                std::regex_search(specification.at(folder), got, line);
                EXPECT_EQ(got[1].str(), want)
                    << model << " " << folder << " by " << fmt::format("{}", fmt::join(executors, ","));
            }
        }
    }
    EXPECT_EQ(seen,
              (std::set<std::string>{"", ".products = true", ".plain_loops = true",
                                     ".products = true, .attention = true", ".products = true, .plain_loops = true"}));
}

std::string filled(std::string_view code, const std::vector<std::string>& operands, const std::string& type) {
    std::string out;
    for (std::size_t at = 0; at < code.size(); ++at) {
        if (code[at] != '{') {
            out += code[at];
            continue;
        }
        const char what = code[at + 1];
        out += what == 't' ? type : operands[static_cast<std::size_t>(what - '0')];
        at += 2;
    }
    return out;
}

// Each function that kernels call is there under its name, and is the fp64 value, rounded once.
TEST(ReferenceProgram, HasEachFunctionThatKernelsCall) {
    const double floats[] = {-3.5, -1, -0.25, 0, 0.125, 0.5, 1, 2.75, 40};
    std::string text =
        "#include \"device/cpu/reference_kernels.h\"\n#include <cstdio>\n#include <cstring>\n"
        "namespace vec_math = thunder::reference::math;\nstatic int failures = 0;\n"
        "static void is(float got, float want, const char* what) {\n"
        "    if (std::memcmp(&got, &want, sizeof got) == 0 || (got != got && want != want)) return;\n"
        "    std::printf(\"%s is %a, not %a\\n\", what, static_cast<double>(got), static_cast<double>(want));\n"
        "    ++failures;\n}\nint main() {\n";
    std::size_t functions = 0;
    for (const OpDef* def : all_ops()) {
        if (!def->elementwise || def->elementwise->code.find("vec_math::") == std::string_view::npos) continue;
        ++functions;
        const bool binary = def->elementwise->code.find("{1}") != std::string_view::npos;
        for (const double a : floats)
            for (const double b : floats) {
                if (!binary && b != 1) continue;
                const double operands[] = {a, b};
                const double exact = def->elementwise->evaluate(operands);
                const auto literal = [](double x) { return fmt::format("static_cast<float>({:a})", x); };
                const std::string code = filled(def->elementwise->code, {literal(a), literal(b)}, "float");
                const std::string want = std::isnan(exact) ? "std::numeric_limits<float>::quiet_NaN()"
                                         : std::isinf(static_cast<float>(exact))
                                             ? std::string(exact < 0 ? "-" : "") + "INFINITY"
                                             : literal(exact);
                text += fmt::format("    is({}, {}, \"{} of {} and {}\");\n", code, want, def->name, a, b);
            }
        if (def->elementwise->integer_code.empty()) continue;
        const double six[] = {6, 3};
        text +=
            fmt::format("    is(static_cast<float>({}), {}.0F, \"{} of integers\");\n",
                        filled(def->elementwise->integer_code, {"std::int64_t{6}", "std::int64_t{3}"}, "std::int64_t"),
                        def->elementwise->evaluate(six), def->name);
    }
    text += "    return failures;\n}\n";
    EXPECT_GT(functions, 12U);
    const fs::path folder = fs::path(testing::TempDir()) / "reference_functions";
    fs::create_directories(folder);
    std::ofstream(folder / "functions.cpp") << text;
    const std::string command = fmt::format(
        "{0} -std=c++20 -I '{1}/../../runtime-lib' '{2}/functions.cpp' -o '{2}/functions' && '{2}/functions'",
        CXX_COMPILER, FIXTURES, folder.string());
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    fs::remove_all(folder);
}

}  // namespace reference_program_test
}  // namespace thunderc

// SPDX-License-Identifier: Apache-2.0
// What holds of every program, tried on small ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/programs/generated_program.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace properties_test {
namespace fs = std::filesystem;

std::string without_times(const fs::path& log) {
    std::string kept;
    std::istringstream text(read_file(log));
    for (std::string line; std::getline(text, line);) kept += line.substr(0, line.find(",\"step_ms\"")) + "\n";
    return kept;
}

TEST(Resume, IsTheUninterruptedRun) {
    const GeneratedProgram program("llama1_noopt", "llama1", "noopt.logits", "");
    ASSERT_TRUE(program.built()) << program.failure();
    for (const char* old : {"whole.jsonl", "half.jsonl", "checkpoints"}) fs::remove_all(program.file(old));
    // The schedule runs over all steps in both, so that a wrong step would be another learning rate.
    const std::string flags =
        "--feed feed.safetensors --steps 12 --lr 0.01 --warmup 3 --schedule cosine --grad-clip 1 ";
    const Outcome whole = program.train(flags + "--log whole.jsonl --save whole.safetensors");
    ASSERT_EQ(whole.status, 0) << whole.err;
    const Outcome half = program.train(flags + "--log half.jsonl --checkpoint checkpoints --checkpoint-every 7");
    ASSERT_EQ(half.status, 0) << half.err;
    ASSERT_GT(fs::remove_all(program.file("checkpoints/step-00000012")), 0U);
    const Outcome rest =
        program.train(flags + "--log half.jsonl --checkpoint checkpoints --resume --save rest.safetensors");
    ASSERT_EQ(rest.status, 0) << rest.err;
    EXPECT_EQ(read_file(program.file("rest.safetensors")), read_file(program.file("whole.safetensors")));
    EXPECT_EQ(without_times(program.file("half.jsonl")), without_times(program.file("whole.jsonl")));
    EXPECT_EQ(read_log(program.file("half.jsonl")).size(), 12U);
}

// The tests that a program brings along: its gradients against its reference program, and against the slope of its
// loss.
struct Own {
    const char *name, *model, *graph, *options;
    Cpu cpu;
    friend void PrintTo(const Own& x, std::ostream* out) { *out << x.name; }
};
class OwnTests : public testing::TestWithParam<Own> {};

TEST_P(OwnTests, Pass) {
    const Own& own = GetParam();
    const Cpu cpu = tried_on(own.cpu);
    if (!runs(cpu)) GTEST_SKIP() << "this CPU runs no program for " << name_of(cpu);
    const GeneratedProgram program(own.name, own.model, own.graph, own.options, "train", 1, cpu, Compiled::lightly);
    ASSERT_TRUE(program.built()) << program.failure();
    const Outcome outcome = program.own_tests("", own.cpu == Cpu::native ? "" : "OMP_NUM_THREADS=3");
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("100% tests passed"), std::string::npos) << outcome.out;
}

// llama2_odd: sizes that no number of threads, no vector and no block divides, and enough rows for several threads.
const Own owns[] = {
    {"llama1_noopt", "llama1", "noopt.logits", "", Cpu::native},
    {"ladder", "ladder", "dynamo.logits", "", Cpu::native},
    {"odd", "odd", "tides.loss", "", Cpu::native},
    {"deep", "deep", "dynamo.logits", "", Cpu::native},
    {"lora", "lora", "dyn.logits", "--batch 1 --seq 8 --train-only lora_", Cpu::native},
    // and states of 8 bits
    {"lora_bf16", "lora", "dyn.logits", "--batch 1 --seq 8 --train-only lora_ --dtype bf16 --optim-dtype 8bit",
     Cpu::native},
    {"dropout_bf16", "dropout", "dyn.logits", "--batch 3 --dtype bf16", Cpu::native},
    // a gradient that overflows at the scale that runs begin with
    {"mlp_f16", "mlp", "dynamo.logits", "--loss '100*mse' --dtype f16 --grad-dtype f16", Cpu::native},
    {"odd", "odd", "tides.loss", "", Cpu::x86_64_v3},
    {"llama2_odd", "llama2", "dyn.logits", "--batch 17 --seq 67", Cpu::x86_64_v3},
};

INSTANTIATE_TEST_SUITE_P(Programs, OwnTests,
                         testing::ValuesIn(in_short(owns, {"odd", "mlp_f16", "llama2_odd", "dropout_bf16"})),
                         [](const auto& info) {
                             return std::string(info.param.name) +
                                    (info.param.cpu == Cpu::native ? "" : "_" + name_of(info.param.cpu));
                         });

// The first line of a run names whose products the program has, and nobody where it has none. `call`: one of them, as
// the run itself timed it, which leaves first calls out.
struct Line {
    const char *name, *model, *graph, *options, *call;
    friend void PrintTo(const Line& x, std::ostream* out) { *out << x.name; }
};
class FirstLine : public testing::TestWithParam<Line> {};

TEST_P(FirstLine, NamesWhoseProductsTheProgramHas) {
    const GeneratedProgram program(GetParam().name, GetParam().model, GetParam().graph, GetParam().options, "train", 1,
                                   Cpu::native, Compiled::lightly);
    ASSERT_TRUE(program.built()) << program.failure();
    const Outcome outcome =
        shell(program.folder(), "out/build/train --threads 2 --feed feed.safetensors --steps 2 --profile");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const std::string line = outcome.err.substr(0, outcome.err.find('\n')),
                      calls = outcome.err.substr(outcome.err.find('\n'));
    ASSERT_NE(line.find(" parameters, cpu, 2 threads"), std::string::npos) << line;
    ASSERT_NE(calls.find("adamw"), std::string::npos) << outcome.err;
    std::string timed;
    for (const char* call : {"linear_forward", "reference_matmul"})
        if (calls.find(call) != std::string::npos) timed += call;
    ASSERT_EQ(timed, GetParam().call);
    EXPECT_EQ(line.find(", products: ") != std::string::npos, !timed.empty()) << line;
    if (timed != "reference_matmul") return;
    EXPECT_TRUE(line.ends_with(", products: plain loops")) << line;  // whatever library the runtime was built with
}

INSTANTIATE_TEST_SUITE_P(Programs, FirstLine,
                         testing::Values(Line{"llama1_noopt", "llama1", "noopt.logits", "", "linear_forward"},
                                         Line{"mlp_legacy", "mlp", "legacy.logits", "--executors reference",
                                              "reference_matmul"},
                                         Line{"odd", "odd", "tides.loss", "", ""}),
                         [](const auto& info) { return std::string(info.param.name); });

// Every file of a folder, by its path in it.
std::map<std::string, std::string> contents(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = read_file(entry.path());
    return files;
}

struct Written {
    const char *graph, *command;
    friend void PrintTo(const Written& x, std::ostream* out) { *out << x.graph << " " << x.command; }
};
class Text : public testing::TestWithParam<Written> {};

TEST_P(Text, DependsOnTheModelAlone) {
    const std::string graph = GetParam().graph, command = GetParam().command;
    std::string name = graph + "/" + command;
    std::replace(name.begin(), name.end(), '/', '-');
    std::replace(name.begin(), name.end(), ' ', '-');
    const fs::path folder = fs::path(PROGRAMS_FOLDER) / ("text-" + name),
                   model = fs::path(FIXTURES) / (graph + ".onnx");
    fs::remove_all(folder);
    fs::create_directories(folder / "elsewhere");
    fs::copy_file(model, folder / "elsewhere" / model.filename());
    // From another folder, by another path, with another home, locale, time zone and place of temporary files.
    const Outcome first = shell(folder, "'" THUNDERC "' " + command + " '" + model.string() + "' -o first");
    ASSERT_EQ(first.status, 0) << first.err;
    const Outcome second =
        shell(folder / "elsewhere", "HOME=/ LC_ALL=C.UTF-8 TZ=Asia/Tokyo TMPDIR=/var/tmp MALLOC_PERTURB_=165 '" THUNDERC
                                    "' " +
                                        command + " " + model.filename().string() + " -o ../second");
    ASSERT_EQ(second.status, 0) << second.err;
    const auto a = contents(folder / "first"), b = contents(folder / "second");
    ASSERT_TRUE(a.contains("model.cpp"));
    for (const auto& [path, text] : a) {
        ASSERT_TRUE(b.contains(path)) << path;
        EXPECT_TRUE(b.at(path) == text) << path << " differs: diff -r " << folder / "first"
                                        << " " << folder / "second";
        for (const char* place : {REPOSITORY, PROGRAMS_FOLDER, "/home/", "/tmp/"})
            EXPECT_EQ(text.find(place), std::string::npos) << path << " names the folder " << place;
    }
    EXPECT_EQ(a.size(), b.size());
}

INSTANTIATE_TEST_SUITE_P(OfPrograms, Text,
                         testing::Values(Written{"mlp/dynamo.loss", "train"}, Written{"llama2/noopt.logits", "train"},
                                         Written{"llama2_tied/dynamo.logits", "train"},
                                         Written{"llama2/dynamo.logits", "emit --transform vjp"},
                                         Written{"mlp/dynamo.logits", "emit"}),
                         [](const auto& info) {
                             std::string name = std::string(info.param.command) + "_" + info.param.graph;
                             std::erase_if(name, [](char c) { return c == '-' || c == ' '; });
                             for (char& c : name)
                                 if (c == '/' || c == '.') c = '_';
                             return name;
                         });

}  // namespace properties_test
}  // namespace thunderc::tests

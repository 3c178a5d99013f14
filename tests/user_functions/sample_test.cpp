// SPDX-License-Identifier: Apache-2.0
// The sample samples/user_executor as a user has it: an operator that nobody here has heard of and a pattern, compiled,
// built with the user's sources, tested by the program's own test, and trained beside what PyTorch recorded.
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/user_functions/folder.h"

namespace thunderc::tests::sample_test {

class UserExecutorSample : public UserFolder {
  protected:
    Outcome thunderc(const std::string& arguments) const { return shell(folder_, "'" THUNDERC "' " + arguments); }
};

constexpr const char* options = "model.onnx --user-executor my.json --loss mse --batch 8";

TEST_F(UserExecutorSample, IsRefusedWithoutItsFunctions) {
    const Outcome outcome = thunderc("train model.onnx --loss mse --batch 16 -o out");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err,
              "error: the operator Snake of the domain com.example is not supported\n"
              "  node: node__symbolic\n  module: snake\n  operator: Snake\n"
              "help: express it by other operators in the model, or export it as a model-local function; a function of "
              "your own can compute such an operator: --user-executor FILE\n");
}

TEST_F(UserExecutorSample, IsRefusedWhereTheModelIsAnother) {
    const std::string train = std::string("train ") + options + " -o out";
    auto expect = [&](const std::string& from, const std::string& to, const std::string& said) {
        replace("my.json", from, to);
        const Outcome outcome = thunderc(train);
        EXPECT_EQ(outcome.status, 1);
        EXPECT_EQ(outcome.err, "error: " + said + "\n");
        EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
        replace("my.json", to, from);
    };
    expect("\"alpha\": \"f32[C]\"", "\"alpha\": \"f32[2*C]\"",
           "user.snake: alpha is f32[24], and f32[2*C] is expected, which is f32[48] here\n  node: node__symbolic\n"
           "  module: snake\n  operator: Snake\nhelp: my.json says which types it takes, and how their sizes hang "
           "together: change it there");
    expect("{\"bend\": 4.0}", "{\"bend\": 4}",
           "squareplus of my.json takes an INT for bend, which the node has in another form\n  node: "
           "node__symbolic_1\n  module: squareplus\n  operator: Squareplus (bend = 0.5)\nhelp: \"attributes\" says of "
           "which type it is: 1 is an INT, 1.0 a FLOAT, [1, 2] two INTS");
}

TEST_F(UserExecutorSample, SaysWhereTheyAreTaken) {
    const Outcome outcome = thunderc(std::string("inspect ") + options);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("snake in snake: snake_forward of my.json in the place of Snake"), std::string::npos)
        << outcome.out;
    EXPECT_NE(outcome.out.find("squareplus in squareplus: squareplus_forward of my.json in the place of Squareplus"),
              std::string::npos)
        << outcome.out;
    EXPECT_NE(outcome.out.find("learned_swish in swish: learned_swish_forward of my.json, from Mul, Sigmoid, Mul"),
              std::string::npos)
        << outcome.out;
}

TEST_F(UserExecutorSample, IsNotExecutedHere) {
    const std::string header =
        R"({"x":{"dtype":"F32","shape":[2,6],"data_offsets":[0,48]},"labels":{"dtype":"F32","shape":[2,3],"data_offsets":[48,72]}})";
    std::string length(8, '\0');
    length[0] = static_cast<char>(header.size());
    write_file(folder_ / "in.safetensors", length + header + std::string(72, '\0'));
    for (const std::string form : {"--in in.safetensors", "--in in.safetensors --planned"}) {
        const Outcome outcome =
            thunderc("run model.onnx --user-executor my.json --loss mse --batch 2 --out y.safetensors " + form);
        EXPECT_EQ(outcome.status, 1);
        EXPECT_TRUE(
            outcome.err.starts_with("error: user.snake cannot be evaluated: a function that a user brings is "
                                    "known to its program alone\nhelp: build and run the program"))
            << outcome.err;
    }
}

// What stands for the functions: patterns, and the body that the model has of Squareplus.
TEST_F(UserExecutorSample, IsEvaluatedWhereSomethingSaysWhatIsComputed) {
    const std::string verify = "verify model.onnx --user-executor my.json --loss mse --batch 2 --no-program";
    Outcome outcome = thunderc(verify);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(
        outcome.err,
        "error: my.json, snake: there is no pattern, so that there is nothing to evaluate it by\n"
        "help: give \"pattern\", a file of text IR that says what it computes; without one the program's own test "
        "holds its gradients against differences: leave --no-program away\n");
    write_file(folder_ / "snake.ir",
               "func @snake(%x: f32[..., C], %alpha: f32[C]) -> (%y) {\n  %a = mul(%x, %alpha) : f32[..., C]\n"
               "  %s = sin(%a) : f32[..., C]\n  %t = mul(%s, %s) : f32[..., C]\n  %u = div(%t, %alpha) : f32[..., C]\n"
               "  %y = add(%x, %u) : f32[..., C]\n}\n");
    replace("my.json", "\"operator\": \"com.example::Snake\"",
            "\"operator\": \"com.example::Snake\", \"pattern\": \"snake.ir\"");
    outcome = thunderc(verify);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("13 gradients agree with differences"), std::string::npos) << outcome.out;
}

// The functions themselves, in a program of their own. One that computes something else is found by the body that the
// model has, though its gradient is that of what it computes.
TEST_F(UserExecutorSample, IsVerifiedByAProgramThatCallsTheFunctions) {
    const std::string verify =
        "verify model.onnx --user-executor my.json --loss mse --batch 2 --cmake=-DTHUNDERC_RUNTIME='" RUNTIME_FOLDER
        "' --cmake=-DCMAKE_CXX_FLAGS='" PROGRAM_FLAGS "'";
    Outcome outcome = thunderc(verify);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_EQ(outcome.err,
              "building a program that calls snake, squareplus, learned_swish, and running its own test\n");
    EXPECT_TRUE(
        outcome.out.starts_with("my.json, snake: there is no pattern, so that there is nothing to evaluate it by: "
                                "the model is not evaluated in double precision\n"))
        << outcome.out;
    EXPECT_NE(outcome.out.find("\nfunctions: snake, squareplus, learned_swish, in a program of their own\npass  loss "),
              std::string::npos)
        << outcome.out;
    EXPECT_TRUE(outcome.out.ends_with("all gradients agree\n")) << outcome.out;

    replace("squareplus.cpp", "+ call.bend)", "+ 2 * call.bend)");
    outcome = thunderc(verify);
    EXPECT_EQ(outcome.status, 1) << outcome.out;
    EXPECT_NE(outcome.err.find("\nFAIL  loss "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("pass  along the gradient"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("\nerror: the program's own test fails: see above\n"), std::string::npos) << outcome.err;

    replace("squareplus.cpp", "+ 2 * call.bend)", "+ call.band)");
    outcome = thunderc(verify);
    EXPECT_EQ(outcome.status, 1) << outcome.out;
    EXPECT_NE(outcome.err.find("has no member named"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("\nerror: the program that calls the functions does not build: see above\n"),
              std::string::npos)
        << outcome.err;
}

TEST_F(UserExecutorSample, TrainsAsPyTorchDoes) {
    Outcome outcome = thunderc(std::string("train ") + options + " --device cpu -o out");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    for (const char* file : {"snake.h", "snake.cpp", "learned_swish.cpp", "squareplus.cpp"})
        EXPECT_EQ(read_file(folder_ / "out/user" / file), read_file(folder_ / file));
    outcome = shell(folder_, "cmake -S out -B build -DDEVICE=cpu -DTHUNDERC_RUNTIME='" RUNTIME_FOLDER
                             "' -DCMAKE_CXX_FLAGS='" PROGRAM_FLAGS " -Werror' && cmake --build build -j 2");
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    // Two micro-batches for the 16 rows of a step: gradients begin with one call and are added to by the next.
    outcome = shell(folder_,
                    "build/train --feed batch.safetensors --steps 5 --lr 1e-2 --schedule constant --weight-decay 0 "
                    "--beta2 0.999 --grad-clip 0 --warmup 0 --grad-accum 2 --log run.jsonl");
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const auto reference = nlohmann::json::parse(read_file(folder_ / "reference.json"));
    std::istringstream log(read_file(folder_ / "run.jsonl"));
    std::size_t steps = 0;
    for (std::string line; std::getline(log, line); ++steps) {
        const double expected = reference.at("loss").at(steps), actual = nlohmann::json::parse(line).at("loss");
        // f32 against fp64: some 30 roundings of 6e-8 in a loss and in what it was stepped by.
        EXPECT_NEAR(actual, expected, 2e-6 * expected) << "step " << steps;
    }
    EXPECT_EQ(steps, reference.at("loss").size());
}

}  // namespace thunderc::tests::sample_test

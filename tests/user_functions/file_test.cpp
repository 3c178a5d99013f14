// SPDX-License-Identifier: Apache-2.0
// What a file of --user-executor may say, and what is refused: one whole message for each.
#include "tests/user_functions/folder.h"

namespace thunderc::tests::file_test {

class UserFile : public UserFolder {
  protected:
    void expect_refused(const std::string& from, const std::string& to, const std::string& message,
                        const std::string& file = "my.json") const {
        const std::string before = read_file(folder_ / file);
        replace(file, from, to);
        EXPECT_EQ(said(), "error: " + message + "\n") << to << " for " << from;
        write_file(folder_ / file, before);
    }
};

TEST_F(UserFile, OfTheSampleIsTaken) {
    EXPECT_EQ(said(), "");
    ASSERT_EQ(user_functions().size(), 3U);
    EXPECT_EQ(user_functions()[0].domain, "com.example");
    EXPECT_EQ(user_functions()[0].op_type, "Snake");
    EXPECT_EQ(std::get<double>(user_functions()[1].attributes.at(0).second), 4);
    EXPECT_EQ(to_string(user_functions()[2].saved.at(0).type), "f32[..., C]");
}

TEST_F(UserFile, Keys) {
    expect_refused(
        "\"summary\"", "\"sumary\"",
        "my.json, snake: \"sumary\" means nothing here\nhelp: there are name, summary, operator, pattern, "
        "inputs, outputs, saved, attributes, no_gradient, rows, forward, backward, header, cpu, cuda, sizes");
    expect_refused("\"operator\": \"com.example::Snake\"", "\"operator\": \"Snake\"",
                   "my.json, snake: \"operator\" is \"Snake\"\nhelp: write \"DOMAIN::TYPE\", as "
                   "\"com.example::Swish\"; ONNX's own domain is ai.onnx");
    expect_refused("\"operator\": \"com.example::Snake\",", "",
                   "my.json, snake: nothing says what it is taken for\nhelp: give \"operator\": \"DOMAIN::TYPE\" of a "
                   "node of ONNX, or \"pattern\": a file of text IR, or both");
    expect_refused("[\"snake.cpp\"]", "[]",
                   "my.json, snake: there are no sources\nhelp: \"cpu\": {\"sources\": [\"swish.cpp\"]}, for example");
    expect_refused(
        "{\"sources\": [\"snake.cpp\"]}", "{\"sources\": [\"snake.cpp\"], \"link\": [\"-lm; rm\"]}",
        "my.json, snake: \"-lm; rm\" is nothing to link with\nhelp: one word for each entry, an option, a library's "
        "name or its absolute path: \"link\": [\"-lfftw3f\"]");
    expect_refused(
        "{\"sources\": [\"snake.cpp\"]}", "{\"sources\": [\"snake.cpp\"], \"link\": [\"lib/libsnake.a\"]}",
        "my.json, snake: \"lib/libsnake.a\" is nothing to link with\nhelp: one word for each entry, an option, a "
        "library's name or its absolute path: \"link\": [\"-lfftw3f\"]");
    expect_refused("{\"sources\": [\"snake.cpp\"]}",
                   "{\"sources\": [\"snake.cpp\"], \"link\": [\"-L../lib\", \"-lsnake\"]}",
                   "my.json, snake: \"-L../lib\" is nothing to link with\nhelp: one word for each entry, an option, a "
                   "library's name or its absolute path: \"link\": [\"-lfftw3f\"]");
    expect_refused("\"header\": \"snake.h\"", "\"header\": \"snail.h\"",
                   "my.json, snake, its header: there is no file " + (folder_ / "snail.h").string() +
                       "\nhelp: paths are relative to the file that names them");
    expect_refused(
        "y = x + sin(alpha x)^2 / alpha", "y = x\\n#error",
        "my.json, snake: the summary is no line of a comment\nhelp: one line of text without a \\ at its end");
    expect_refused(
        "\"bend\": 4.0", "\"bend\": 1e99",
        "my.json, squareplus: the attribute bend is no finite number, string, list of whole numbers, true or "
        "false\nhelp: \"attributes\": {\"alpha\": 1.5} says its type, and what it is where an operator does "
        "not say");
    expect_refused("\"operator\": \"com.example::Squareplus\"", "\"operator\": \"com.example::Snake\"",
                   "snake and squareplus both compute com.example::Snake\nhelp: an operator has one function: leave "
                   "\"operator\" out of the other");
}

TEST_F(UserFile, Types) {
    expect_refused("\"alpha\": \"f32[C]\"", "\"alpha\": \"f16[C]\"",
                   "my.json, snake, alpha: functions that users bring take and give no f16\nhelp: write f32: where a "
                   "program computes in a narrow type, thunderc converts what such a function is given");
    expect_refused(
        "\"alpha\": \"f32[C]\"", "\"alpha\": \"e4m3[C]\"",
        "my.json, snake, alpha: e4m3[C] is no type\nhelp: a type is written \"f32[..., C]\": f32, i64, i32 or "
        "bool, and in brackets its dimensions, which are letters, numbers or made of them (2*C); \"...\" in "
        "front stands for any number of dimensions");
    expect_refused("\"outputs\": {\"y\": \"f32[..., C]\"}", "\"outputs\": {\"y\": \"f32[..., D]\"}",
                   "my.json, snake: y is f32[..., D], and no input says what D is\nhelp: a size follows from the "
                   "inputs: one of them has it as a dimension of its own");
    expect_refused("\"alpha\": \"f32[C]\"", "\"C\": \"f32[C]\"",
                   "my.json, snake: two things are called C\nhelp: inputs, outputs, their gradients, saved values, "
                   "attributes and letters of sizes are members of one struct: each has a name of its own");
    expect_refused("\"x\": \"f32[..., C]\", \"alpha\"", "\"x\": \"f32[..., C]\", \"dx\"",
                   "my.json, snake: two things are called dx\nhelp: inputs, outputs, their gradients, saved values, "
                   "attributes and letters of sizes are members of one struct: each has a name of its own");
    expect_refused("\"rows\": \"by_element\"", "\"sizes\": {\"D\": 4}",
                   "my.json, squareplus: \"sizes\" names D, which is no letter of a size\nhelp: letters are those of "
                   "\"inputs\"; what \"...\" stands for is chosen");
    expect_refused(
        "\"inputs\": {\"x\": \"f32[..., C]\", \"alpha\"", "\"inputs\": {\"x\": \"f32[2, C]\", \"alpha\"",
        "my.json, snake: y is f32[..., C], and no input says what \"...\" is\nhelp: write \"...\" in an input "
        "as well");
    expect_refused(
        "\"outputs\": {\"y\": \"f32[..., C]\"},\n      \"rows\"",
        "\"outputs\": {\"y\": \"f32[2, C]\"},\n      \"rows\"",
        "my.json, snake: \"rows\" promises rows of a batch, and no input begins with 2\nhelp: an input has the "
        "rows that those of the outputs are made of; leave \"rows\" out else");
}

TEST_F(UserFile, Backward) {
    expect_refused("\"gives\": [\"dx\", \"dalpha\"]", "\"gives\": [\"dx\"]",
                   "my.json, snake: the backward function gives no dalpha\nhelp: give it, or say that there is none: "
                   "\"no_gradient\": [\"alpha\"]");
    expect_refused("\"rows\": \"first\",\n      \"forward\": \"snake_forward\"",
                   "\"no_gradient\": [\"alpha\"],\n      \"forward\": \"snake_forward\"",
                   "my.json, snake: the backward function gives dalpha, and \"no_gradient\" says that there is "
                   "none\nhelp: leave it out of one of the two");
    expect_refused("[\"dy\", \"x\", \"alpha\"]", "[\"x\", \"alpha\"]",
                   "my.json, snake: the backward function does not read dy\nhelp: without the gradient of an output it "
                   "cannot give those of the inputs");
    expect_refused("[\"dy\", \"x\", \"alpha\"]", "[\"dy\", \"z\"]",
                   "my.json, snake: the backward function reads z, which is not there\nhelp: it may read dy, x, alpha, "
                   "y");
    expect_refused("[\"dy\", \"x\", \"alpha\"]", "[\"dy\", \"x\", \"dy\"]",
                   "my.json, snake: the backward function names dy twice\nhelp: \"reads\" and \"gives\" have each name "
                   "once");
}

TEST_F(UserFile, Header) {
    expect_refused(
        "void snake_forward", "void snake",
        "my.json, snake: snake.h does not declare snake_forward\nhelp: it is declared as `void "
        "snake_forward(const CALL& call, thunder::Stream& stream);`, with `struct CALL {`, a member for each "
        "tensor and a line `};` in the same header (docs/executors.md)",
        "snake.h");
    expect_refused(
        "const float* alpha = nullptr;  // (C)\n", "",
        "my.json, snake: struct SnakeForward of snake.h has no member alpha\nhelp: each input, output, saved "
        "value, gradient and attribute that the function is given has a member of its name; sizes may be "
        "left out",
        "snake.h");
    expect_refused("C = 0;", "C = 0, B = 0;",
                   "my.json, snake: struct SnakeForward of snake.h has a member B, for which there is nothing\nhelp: "
                   "its members are what the file names, letters of sizes, and rows where \"...\" is written",
                   "snake.h");
}

TEST_F(UserFile, Pattern) {
    const std::string begin = "error: my.json, learned_swish: ";
    replace("learned_swish.ir", "%beta: f32[C]", "%beta: f32[2*C]");
    EXPECT_TRUE(said().starts_with(begin + "the pattern: ")) << said();
    replace("learned_swish.ir", "%beta: f32[2*C]", "%beta: f32[C], %other: f32[C]");
    EXPECT_EQ(said(), begin +
                          "the pattern has 3 arguments, and there are 2 inputs\nhelp: they are the same, in the same "
                          "order\n");
    write_file(folder_ / "learned_swish.ir", "no text IR");
    EXPECT_TRUE(said().starts_with(begin + "the pattern: line 1 of the program text: expected 'func'\n")) << said();
    write_file(folder_ / "learned_swish.ir",
               "func @f(%x: f32[..., C], %beta: f32[C]) -> (%y) {\n  %y = neg(%x) : f32[..., C]\n}\n");
    EXPECT_EQ(said(),
              begin +
                  "the pattern does not read beta\nhelp: where a pattern is found, its arguments are what its ops "
                  "read\n");
    write_file(folder_ / "learned_swish.ir", "func @f(%x: f32[..., C], %beta: f32[C]) -> (%x) {\n}\n");
    EXPECT_EQ(said(), begin + "the pattern computes nothing\nhelp: it is what the function is to be taken for\n");
}

}  // namespace thunderc::tests::file_test

// SPDX-License-Identifier: Apache-2.0
// The loss of batches that are not trained on: that of a step that takes them, and nothing of the run changes by it.
#include "data/token_file.h"
#include "program_test.h"

namespace thunder {
namespace evaluation_test {

class EvaluationTest : public ProgramTest {
  protected:
    EvaluationTest() {
        write_feed("feed.safetensors", 3, 4);
        write_feed("other.safetensors", 2, 4);
    }

    // The losses that the log has of evaluations, by the step before.
    std::map<std::int64_t, double> evaluated(const std::string& name) const {
        std::map<std::int64_t, double> out;
        for (const nlohmann::json& line : read_log(name))
            if (line.contains("eval_loss")) out[line.at("step")] = line.at("eval_loss");
        return out;
    }
    static std::string without_evaluations(const std::string& log) {
        std::string kept;
        std::istringstream text(log);
        for (std::string line; std::getline(text, line);)
            if (line.find("eval_loss") == std::string::npos) kept += line + "\n";
        return kept;
    }
};

const std::string flags = "--feed feed.safetensors --steps 8 --lr 0.1 --seed 4 --quiet";

TEST_F(EvaluationTest, ChangesNothing) {
    expect_success(run("words_train", flags + " --log a.jsonl --checkpoint a --ema 0.9"));
    expect_success(run("words_train", flags + " --log b.jsonl --checkpoint b --ema 0.9 --eval-feed other.safetensors "
                                              "--eval-every 3"));
    EXPECT_EQ(without_times(without_evaluations(read_file(path("b.jsonl")))),
              without_times(read_file(path("a.jsonl"))));
    EXPECT_EQ(read_file(path(file_of_step("b", 8))), read_file(path(file_of_step("a", 8))));
    const auto losses = evaluated("b.jsonl");
    ASSERT_EQ(losses.size(), 3U);
    for (const std::int64_t step : {3, 6, 8}) EXPECT_TRUE(losses.contains(step)) << step;
}

// A step of those batches has the loss that the parameters before it have: with one of a feed's steps, and the batches
// of two as micro-batches of one.
TEST_F(EvaluationTest, IsTheLossOfAStepThatTakesThem) {
    expect_success(
        run("words_train", flags + " --log a.jsonl --save trained.safetensors --eval-feed other.safetensors"));
    const double loss = evaluated("a.jsonl").at(8);
    for (const char* const program : {"words_train", "words_half_train"}) {
        const bool half = std::string(program) == "words_half_train";
        const Outcome only = run(program, cat("--init trained.safetensors --eval-feed other.safetensors --eval-only "
                                              "--quiet --grad-accum ",
                                              half ? 2 : 1));
        expect_success({only.status, "", only.err});
        const nlohmann::json line = nlohmann::json::parse(only.out);
        EXPECT_EQ(line.at("step"), 0);
        EXPECT_EQ(line.at("eval_batches"), 2);
        EXPECT_NEAR(line.at("eval_loss").get<double>(), loss, 1e-6);  // sums in another order
    }
    // The two batches as one of eight rows, twice the micro-steps.
    std::vector<TestTensor> joined;
    const SafetensorsFile other(path("other.safetensors"));
    for (const std::string name : {"input_ids", "labels"}) {
        std::vector<std::int64_t> values(2 * 4 * T);
        for (std::size_t k = 0; k < 2; ++k)
            read_elements(*other.find(cat(name, "_", k)), DType::i64, 0, 4 * T, values.data() + k * 4 * T);
        joined.push_back(longs(name + "_0", {8, T}, values));
    }
    write_tensors(path("joined.safetensors"), joined);
    expect_success(run("words_train",
                       "--feed joined.safetensors --grad-accum 2 --steps 1 --quiet --log step.jsonl "
                       "--init trained.safetensors"));
    EXPECT_NEAR(read_log("step.jsonl").front().at("loss").get<double>(), loss, 1e-6);
}

// Losses without a weight, and losses of terms.
TEST_F(EvaluationTest, AveragesAsTheLossDoes) {
    for (const char* const program : {"line_train", "line_terms_train"}) {
        std::vector<TestTensor> tensors;
        for (const std::string step : {"_0", "_1"}) {
            const float at = step == "_0" ? 1 : 3;
            tensors.push_back(floats("x" + step, {2, 3}, {1, 2, 3, at, at, at}));
            tensors.push_back(tensor<std::uint8_t>("use" + step, DType::boolean, {2}, {1, step == "_0"}));
            tensors.push_back(longs("kind" + step, {2}, {0, 1}));
            tensors.push_back(floats("offset" + step, {3}, {0, 0, 0}));
            tensors.push_back(floats("target" + step, {2}, {at, 2}));
        }
        write_tensors(path("line.safetensors"), tensors);
        const std::string common = "--feed line.safetensors --quiet --lr 0.01 --seed 3 ";
        expect_success(
            run(program, common + "--steps 1 --save p.safetensors --eval-feed line.safetensors --log a.jsonl"));
        // The parts of the same loss, from steps that are not taken: a learning rate of 0.
        expect_success(run(program, common + "--steps 2 --lr 0 --min-lr 0 --init p.safetensors --log b.jsonl"));
        const auto steps = read_log("b.jsonl");
        const double first = steps[0].at("loss"), second = steps[1].at("loss");
        // Of terms, 2 rows of the first batch are used and 1 of the second; a plain mean counts both batches alike.
        const bool terms = std::string(program) == "line_terms_train";
        EXPECT_NEAR(evaluated("a.jsonl").at(1), terms ? (2 * first + second) / 3 : (first + second) / 2, 1e-6);
    }
}

TEST_F(EvaluationTest, TakesTheSameTokensEachTime) {
    for (const char* const name : {"corpus.bin", "held_out.bin"}) {
        TokenFileWriter writer(path(name), V);
        for (std::uint32_t i = 0; i < 500; ++i)
            writer.append(std::vector<std::uint32_t>{(i * i + (name[0] == 'h' ? i : 0)) % 11});
        writer.commit();
    }
    const std::string common = "--data corpus.bin --eval-data held_out.bin --quiet --seed 4 ";
    expect_success(run("words_train", common + "--steps 40 --lr 0 --min-lr 0 --eval-every 10 --log a.jsonl"));
    const auto losses = evaluated("a.jsonl");
    ASSERT_EQ(losses.size(), 4U);
    for (const auto& [step, loss] : losses) EXPECT_EQ(loss, losses.begin()->second);
    // A run that goes on leaves the log as one that did not stop.
    expect_success(run("words_train", common + "--steps 20 --eval-every 6 --log whole.jsonl"));
    expect_success(run("words_train", common + "--steps 20 --eval-every 6 --log run.jsonl --checkpoint c "
                                               "--checkpoint-every 12"));
    std::filesystem::remove_all(path("c/step-00000020"));
    // The seed is the checkpoint's. What was due behind the twelfth step is done again, and stands there once.
    expect_success(run("words_train",
                       "--data corpus.bin --eval-data held_out.bin --quiet --steps 20 --eval-every 6 --log "
                       "run.jsonl --checkpoint c --resume"));
    EXPECT_EQ(evaluated("run.jsonl"), evaluated("whole.jsonl"));
    const std::size_t lines = read_log("whole.jsonl").size();
    EXPECT_EQ(read_log("run.jsonl").size(), lines);
    // By itself, of what the run has written: the log is added to, and the folder stays as it is.
    const Outcome only =
        run("words_train", "--eval-data held_out.bin --eval-only --checkpoint c --resume --log run.jsonl");
    EXPECT_EQ(nlohmann::json::parse(only.out).at("eval_loss"), evaluated("whole.jsonl").at(20));
    EXPECT_EQ(read_log("run.jsonl").size(), lines + 1);
    EXPECT_EQ(only.err.find("note"), std::string::npos) << only.err;
    EXPECT_EQ(only.err.find("--max-time"), std::string::npos) << only.err;
    // As many batches as there are of their own.
    const Outcome few = run("words_train", "--eval-data held_out.bin --eval-only --eval-batches 1000 --quiet");
    EXPECT_EQ(nlohmann::json::parse(few.out).at("eval_batches"), 20);  // 83 windows of 6, 4 a batch
}

// The average that --save-ema writes has the loss that is told of it, and the run is what it would have been.
TEST_F(EvaluationTest, OfTheAverageOfTheWeights) {
    const std::string constant = flags + " --schedule constant --warmup 0 --ema 0.5 ";
    expect_success(run("words_train", constant + "--checkpoint a --save-ema a.ema"));
    expect_success(run("words_train", constant + "--steps 3 --save-ema a.three"));
    const std::string of_average = constant + "--eval-feed other.safetensors --eval-ema ";
    expect_success(run("words_train", of_average + "--eval-every 3 --log b.jsonl --checkpoint b --save-ema b.ema"));
    EXPECT_EQ(read_file(path("b.ema")), read_file(path("a.ema")));
    EXPECT_EQ(read_file(path(file_of_step("b", 8))), read_file(path(file_of_step("a", 8))));
    const auto loss_of = [&](const std::string& arguments) {
        const Outcome outcome = run("words_train", "--eval-feed other.safetensors --eval-only --quiet " + arguments);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return nlohmann::json::parse(outcome.out).at("eval_loss").get<double>();
    };
    const auto losses = evaluated("b.jsonl");
    EXPECT_EQ(losses.at(3), loss_of("--init a.three"));
    EXPECT_EQ(losses.at(8), loss_of("--init a.ema"));
    EXPECT_EQ(losses.at(8), loss_of("--checkpoint b --resume --ema 0.5 --eval-ema"));
    EXPECT_NE(losses.at(8), loss_of("--checkpoint b --resume"));
    EXPECT_EQ(
        run("words_train", flags + " --eval-feed other.safetensors --eval-ema").err,
        "error: --eval-ema evaluates the average of the weights, and none is kept\nhelp: add --ema DECAY, such as "
        "0.999\n");
}

TEST_F(EvaluationTest, SaysWhatIsWrong) {
    const auto error = [&](const std::string& options) {
        const Outcome outcome = run("words_train", options);
        EXPECT_NE(outcome.status, 0);
        return outcome.err;
    };
    EXPECT_EQ(
        error("--feed feed.safetensors --eval-only"),
        "error: --eval-only has nothing to evaluate\nhelp: add --eval-data PATH for packed tokens, or --eval-feed "
        "FILE for fixed batches\n");
    EXPECT_EQ(error(flags + " --eval-feed other.safetensors --eval-data corpus.bin"),
              "error: --eval-data and --eval-feed exclude each other\nhelp: leave one of them away\n");
    EXPECT_EQ(
        error(flags + " --eval-every 3"),
        "error: --eval-every has nothing to evaluate\nhelp: add --eval-data PATH for packed tokens, or --eval-feed "
        "FILE for fixed batches\n");
    write_tensors(path("ignored.safetensors"), {longs("input_ids_0", {4, T}, std::vector<std::int64_t>(4 * T, 1)),
                                                longs("labels_0", {4, T}, std::vector<std::int64_t>(4 * T, -100))});
    EXPECT_EQ(error(flags + " --eval-feed ignored.safetensors"),
              "error: the batches of the evaluation have nothing to learn from: their loss has no weight, as where all "
              "labels are ignored\nhelp: look at the labels of --eval-feed\n");
    TokenFileWriter writer(path("short.bin"), V);
    writer.append(std::vector<std::uint32_t>(20, 1));
    writer.commit();
    EXPECT_EQ(error(flags + " --eval-data short.bin"),
              "error: short.bin has no 4 rows, which a batch of the evaluation takes\nhelp: give it more\n");
}

}  // namespace evaluation_test
}  // namespace thunder

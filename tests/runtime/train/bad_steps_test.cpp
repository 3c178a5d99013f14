// SPDX-License-Identifier: Apache-2.0
// Steps whose gradient is no number or far too large: skipped, a run is what it would have been without them; rolled
// back, what it would have been from the checkpoint on with the data behind them.
#include "train/bad_steps.h"

#include <cmath>
#include <map>

#include "checkpoint/folder.h"
#include "data/token_file.h"
#include "program_test.h"

namespace thunder {
namespace bad_steps_test {

class BadStepsTest : public ProgramTest {
  protected:
    // Weights with which a row that has this token gets an embedding of that size; of an infinite one the gradient is
    // no number.
    static constexpr std::int64_t poison = 10;
    void write_weights(const std::string& name, float size) {
        std::mt19937 random(3);
        std::vector<float> embed(V * D), head(V * D);
        for (float& x : embed) x = 0.1F * static_cast<float>(static_cast<int>(random() % 200) - 100) / 100;
        for (float& x : head) x = 2 * static_cast<float>(static_cast<int>(random() % 200) - 100) / 100;
        std::fill_n(embed.begin() + poison * D, D, size);
        write_tensors(path(name),
                      {floats("model.embed.weight", {V, D}, embed), floats("model.head.weight", {V, D}, head)});
    }
    // Batches without that token but where `bad` says; as if they were no batch at all where `left_out`.
    void write_batches(const std::string& name, std::size_t steps, const std::vector<std::size_t>& bad, bool left_out) {
        std::mt19937 random(5);
        std::vector<TestTensor> tensors;
        std::size_t written = 0;
        for (std::size_t step = 0; step < steps; ++step) {
            std::vector<std::int64_t> ids, labels;
            for (std::int64_t i = 0; i < 4 * T; ++i) {
                ids.push_back(random() % (V - 1));
                labels.push_back(random() % (V - 1));
            }
            if (std::find(bad.begin(), bad.end(), step) != bad.end()) {
                if (left_out) continue;
                ids[7] = poison;
            }
            tensors.push_back(longs(cat("input_ids_", written), {4, T}, ids));
            tensors.push_back(longs(cat("labels_", written), {4, T}, labels));
            ++written;
        }
        write_tensors(path(name), tensors);
    }
    static constexpr const char* flags = " --lr 0.05 --schedule constant --warmup 0 --init-missing ones --ema 0.5 ";

    bool same(const std::string& a, const std::string& b) const { return read_file(path(a)) == read_file(path(b)); }
    std::vector<std::string> events(const std::string& log) const {
        std::vector<std::string> out;
        for (const nlohmann::json& line : read_log(log))
            if (line.contains("event")) out.push_back(line.at("event"));
        return out;
    }
};

// AdamW counts the steps that it takes, and so does the average of the weights.
TEST_F(BadStepsTest, SkippedStepsLeaveNoTrace) {
    write_weights("weights.safetensors", 3e38F);
    write_batches("bad.safetensors", 12, {3, 7, 8}, false);
    write_batches("good.safetensors", 12, {3, 7, 8}, true);
    const auto train = [&](const std::string& arguments) {
        expect_success(run("words_train", "--init weights.safetensors --quiet" + std::string(flags) + arguments));
    };
    train("--feed bad.safetensors --steps 12 --on-nan skip --log a.jsonl --save a --save-ema a_ema");
    train("--feed good.safetensors --steps 9 --save b --save-ema b_ema");
    EXPECT_TRUE(same("a", "b"));
    EXPECT_TRUE(same("a_ema", "b_ema"));
    EXPECT_EQ(events("a.jsonl"), (std::vector<std::string>{"step 3 is skipped: its gradient is not finite",
                                                           "step 7 is skipped: its gradient is not finite",
                                                           "step 8 is skipped: its gradient is not finite"}));
    std::vector<std::int64_t> skipped;
    for (const nlohmann::json& line : read_log("a.jsonl"))
        if (line.contains("loss")) {
            skipped.push_back(line.at("skipped"));
            EXPECT_FALSE(line.contains("loss_scale"));
        }
    EXPECT_EQ(skipped, (std::vector<std::int64_t>{0, 0, 0, 1, 1, 1, 1, 2, 3, 3, 3, 3}));
    // Where there is nothing to skip it changes no bit, and a run that goes on is as one that was never stopped.
    train("--feed good.safetensors --steps 9 --on-nan skip --save c --save-ema c_ema");
    EXPECT_TRUE(same("c", "b"));
    EXPECT_TRUE(same("c_ema", "b_ema"));
    train("--feed bad.safetensors --steps 8 --on-nan skip --checkpoint d --log d.jsonl");
    train("--feed bad.safetensors --steps 12 --on-nan skip --checkpoint d --resume --log d.jsonl --save d.all");
    EXPECT_TRUE(same("d.all", "b"));
    EXPECT_EQ(without_times(read_file(path("d.jsonl"))), without_times(read_file(path("a.jsonl"))));
}

TEST_F(BadStepsTest, WithoutThePolicyTheRunStops) {
    write_weights("weights.safetensors", 3e38F);
    write_batches("bad.safetensors", 12, {3}, false);
    const Outcome stopped = run("words_train", "--init weights.safetensors --quiet --feed bad.safetensors --steps 12" +
                                                   std::string(flags) + "--save-ema e");
    EXPECT_EQ(stopped.status, 1);
    EXPECT_NE(stopped.err.find(" at step 3"), std::string::npos) << stopped.err;
}

TEST_F(BadStepsTest, TooManyInARowEndTheRun) {
    write_weights("weights.safetensors", 3e38F);
    write_batches("bad.safetensors", 12, {2, 4, 5, 6, 7}, false);
    const std::string all =
        "--init weights.safetensors --quiet --feed bad.safetensors --steps 12" + std::string(flags) + "--save-ema e";
    expect_success(run("words_train", all + " --on-nan skip --nan-limit 4"));
    const Outcome ended = run("words_train", all + " --on-nan skip --nan-limit 3");
    EXPECT_EQ(ended.status, 1);
    EXPECT_NE(ended.err.find("error: step 7 is skipped (its gradient is not finite), as were the 3 before it already"),
              std::string::npos)
        << ended.err;
}

TEST_F(BadStepsTest, SpikesAreSkippedByTheMedianOfThoseBefore) {
    write_weights("weights.safetensors", 3000);
    write_batches("bad.safetensors", 30, {5, 20}, false);
    write_batches("good.safetensors", 30, {20}, true);
    const std::string all = "--init weights.safetensors --quiet --grad-clip 0" + std::string(flags);
    expect_success(run("words_train", all + "--feed bad.safetensors --steps 30 --on-nan skip --spike-factor 20 "
                                            "--spike-window 16 --log a.jsonl --save a --save-ema e"));
    const std::vector<std::string> told = events("a.jsonl");
    // Of the first one too little is known yet.
    ASSERT_EQ(told.size(), 1U);
    EXPECT_TRUE(told[0].starts_with("step 20 is skipped: the norm of its gradient, ")) << told[0];
    EXPECT_TRUE(told[0].ends_with(", is more than 20 times the median of those before")) << told[0];
}

// A dynamic scale halves with those whose gradient is not finite, by a power of two, which changes no bit; where the
// gradient is finite, and a spike, it stays.
TEST_F(BadStepsTest, BesideADynamicScale) {
    write_weights("weights.safetensors", 3e38F);
    write_batches("bad.safetensors", 12, {3, 7, 8}, false);
    write_batches("good.safetensors", 12, {3, 7, 8}, true);
    const std::string all = "--init weights.safetensors --quiet" + std::string(flags);
    expect_success(run("words_train", all + "--feed bad.safetensors --steps 12 --on-nan skip --loss-scale dynamic "
                                            "--log a.jsonl --save a --save-ema a_ema"));
    expect_success(run("words_train", all + "--feed good.safetensors --steps 9 --save b --save-ema b_ema"));
    EXPECT_TRUE(same("a", "b"));
    EXPECT_TRUE(same("a_ema", "b_ema"));
    EXPECT_EQ(events("a.jsonl").size(), 3U);
    EXPECT_EQ(read_log("a.jsonl").back().at("loss_scale"), 65536.0 / 8);

    write_weights("weights.safetensors", 3000);
    write_batches("bad.safetensors", 30, {20, 25}, false);
    expect_success(run("words_train", all + "--feed bad.safetensors --steps 30 --grad-clip 0 --on-nan skip "
                                            "--spike-factor 20 --loss-scale dynamic --loss-scale-interval 8 "
                                            "--log a.jsonl --save-ema e"));
    EXPECT_EQ(events("a.jsonl").size(), 2U);
    std::vector<double> scales;  // doubled after eight steps that were taken, and no more
    for (const nlohmann::json& line : read_log("a.jsonl"))
        if (line.contains("loss")) scales.push_back(line.at("loss_scale"));
    ASSERT_EQ(scales.size(), 30U);
    for (std::size_t step = 0, taken = 0; step < 30; ++step) {
        EXPECT_EQ(scales[step], 65536.0 * std::pow(2, taken / 8)) << step;
        taken += step == 20 || step == 25 ? 0 : 1;
    }
    // A scale that is too large for the gradient is no bad step: none is told of, however many there are in a row.
    write_batches("good.safetensors", 12, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, false);
    expect_success(
        run("words_train", all + "--grad-clip 0 --feed good.safetensors --steps 12 --on-nan skip --nan-limit 1 "
                                 "--loss-scale dynamic --loss-scale-start 1.7e38 --log a.jsonl --save-ema e"));
    EXPECT_EQ(events("a.jsonl").size(), 0U);
    EXPECT_GT(read_log("a.jsonl").back().at("skipped").get<int>(), 1);
}

// An error of 1e30: its square is infinite, and its gradient finite.
TEST_F(BadStepsTest, ALossThatIsNoNumberBesideAGradientThatIsOne) {
    const auto write = [&](const std::string& name, bool with_bad) {
        std::vector<TestTensor> tensors;
        for (int step = 0, written = 0; step < 6; ++step) {
            if (step == 2 && !with_bad) continue;
            const auto x = static_cast<float>(step);
            tensors.push_back(floats(cat("x_", written), {2, 3}, {1, x, 1, 1, 0, x}));
            tensors.push_back(tensor<std::uint8_t>(cat("use_", written), DType::boolean, {2}, {1, 1}));
            tensors.push_back(longs(cat("kind_", written), {2}, {0, 0}));
            tensors.push_back(floats(cat("offset_", written), {3}, {0, 0, 0}));
            tensors.push_back(floats(cat("target_", written), {2}, {1, step == 2 ? 1e30F : 2}));
            ++written;
        }
        write_tensors(path(name), tensors);
    };
    write("bad.safetensors", true);
    write("good.safetensors", false);
    const std::string all = "--lr 0.01 --schedule constant --warmup 0 --quiet ";
    for (const char* scale : {"off", "4", "dynamic"}) {
        SCOPED_TRACE(scale);
        const std::string scaled = cat(all, "--loss-scale ", scale, " ");
        const Outcome stopped = run("line_train", scaled + "--feed bad.safetensors --steps 6");
        EXPECT_EQ(stopped.status, 1);
        EXPECT_TRUE(stopped.err.starts_with("error: the loss is inf at step 2\n")) << stopped.err;
        expect_success(run("line_train", scaled + "--feed bad.safetensors --steps 6 --on-nan skip --log a --save s"));
        expect_success(run("line_train", scaled + "--feed good.safetensors --steps 5 --save t"));
        EXPECT_TRUE(same("s", "t"));
        EXPECT_EQ(events("a"),
                  std::vector<std::string>{"step 2 is skipped: its loss is not finite, and its gradient is"});
        if (std::string_view(scale) == "dynamic") {
            EXPECT_EQ(read_log("a").back().at("loss_scale"), 65536.0);
        }
    }
}

// Against a naive median, with gaps where steps were skipped, and through a checkpoint.
TEST(BadStepsMedian, IsThatOfTheWindow) {
    Options options;
    options.on_nan = Options::OnNan::skip;
    options.spike_factor = 3;
    options.spike_window = 12;
    BadSteps steps(options);
    Progress progress;
    steps.begin(progress);
    std::mt19937 random(9);
    std::vector<std::pair<std::int64_t, float>> taken;
    for (std::int64_t step = 0; step < 200; ++step) {
        std::vector<float> known;
        for (auto norm = taken.rbegin(); norm != taken.rend() && known.size() < 12; ++norm)
            if (norm->first <= step - 2) known.push_back(norm->second);
        std::sort(known.begin(), known.end());
        const double expected = known.size() < 10 ? HUGE_VAL : 3.0 * static_cast<double>(known[known.size() / 2]);
        ASSERT_EQ(steps.most_norm(step), expected) << step;
        StepReport report;
        report.step = step;
        report.grad_norm = static_cast<double>(static_cast<float>(random() % 1000) / 7);
        report.may_skip = true;
        report.was_skipped = random() % 6 == 0;
        EXPECT_EQ(steps.add(report, progress), report.was_skipped);
        if (!report.was_skipped) taken.emplace_back(step, static_cast<float>(report.grad_norm));
        if (step % 37 != 36) continue;
        BadSteps other(options);
        other.begin(progress);
        EXPECT_EQ(other.most_norm(step + 1), steps.most_norm(step + 1));
    }
}

// ---- back to a checkpoint ------------------------------------------------------------------------------------------

// The checkpoint of this step, as if it had been at another place in the data.
void move_in_data(const std::string& checkpoint, std::int64_t position) {
    Manifest manifest = read_manifest(checkpoint);
    manifest.metadata.at("data_position") = std::to_string(position);
    seal(checkpoint, manifest);
}

TEST_F(BadStepsTest, ARunThatWentBackIsOneThatLeftTheDataOut) {
    write_weights("weights.safetensors", 3e38F);
    std::mt19937 random(11);
    std::vector<std::uint32_t> tokens(6 * 4 * 20 + 1);
    for (std::uint32_t& token : tokens) token = random() % (V - 1);
    tokens[6 * 31 + 3] = poison;
    TokenFileWriter writer(path("corpus.bin"), V);
    writer.append(tokens);
    writer.commit();
    for (const char* scale : {"off", "dynamic"}) {
        SCOPED_TRACE(scale);
        for (const char* folder : {"a", "b"}) std::filesystem::remove_all(path(folder));
        const std::string all =
            cat("--init weights.safetensors --quiet --data corpus.bin --steps 16 --loss-scale ", scale, flags);
        expect_success(run("words_train",
                           all + "--checkpoint-every 3 --on-nan rollback --checkpoint a --log a.jsonl --save a.all"));
        const std::vector<std::string> told = events("a.jsonl");
        ASSERT_EQ(told.size(), 1U) << "that of the step itself is behind the checkpoint, and gone";
        long long back = -1, bad = -1, rows = -1;
        ASSERT_EQ(std::sscanf(told[0].c_str(), "back to a/step-%lld after step %lld: %lld rows", &back, &bad, &rows), 3)
            << told[0];
        ASSERT_GE(bad, 3);  // there is a checkpoint before it
        ASSERT_LT(bad, 16);
        EXPECT_EQ(back, bad / 3 * 3);
        EXPECT_EQ(rows, (bad + 1 - back) * 4);
        std::vector<std::int64_t> steps;
        for (const nlohmann::json& line : read_log("a.jsonl"))
            if (line.contains("loss")) steps.push_back(line.at("step"));
        ASSERT_EQ(steps.size(), 16U);
        for (std::int64_t step = 0; step < 16; ++step) EXPECT_EQ(steps[static_cast<std::size_t>(step)], step);

        // By hand: as far as that checkpoint, and from there on at that place.
        expect_success(run("words_train", all + "--on-nan skip --checkpoint b --checkpoint-every 3"));
        for (const std::string& checkpoint : checkpoints_in(path("b")))
            if (checkpoint > path(step_in("b", static_cast<int>(back)))) std::filesystem::remove_all(checkpoint);
        move_in_data(path(step_in("b", static_cast<int>(back))), (bad + 1) * 4);
        expect_success(run("words_train", all + "--on-nan skip --checkpoint b --resume --save b.all"));
        EXPECT_TRUE(same("a.all", "b.all"));
    }
}

// What is counted in tokens, or follows from the number of steps, is the same whether a run that went back is stopped
// behind that and goes on, or is not: where it ends, which sources its rows are from, what was evaluated, the average.
TEST_F(BadStepsTest, ARunThatWentBackGoesOnAsOneThatWasNotStopped) {
    write_weights("weights.safetensors", 3e38F);
    for (const char* name : {"first.bin", "second.bin"}) {
        std::mt19937 random(name[0]);
        std::vector<std::uint32_t> tokens(6 * 4 * 20 + 1);
        for (std::uint32_t& token : tokens) token = random() % (V - 1);
        if (name[0] == 'f') tokens[6 * 31 + 3] = poison;
        TokenFileWriter writer(path(name), V);
        writer.append(tokens);
        writer.commit();
    }
    write_batches("other.safetensors", 1, {}, false);
    long long bad = -1, back = -1;
    const std::string all =
        "--init weights.safetensors --quiet --data-schedule schedule --on-nan rollback --steps 18 "
        "--eval-feed other.safetensors --eval-every 2 --checkpoint-every 5" +
        std::string(flags);
    const auto write_schedule = [&](long long step) {
        write_file(path("schedule"),
                   cat("[{\"step\": 0, \"data\": \"first.bin\"}, {\"step\": ", step, ", \"data\": \"second.bin\"}]"));
    };
    write_schedule(18);
    expect_success(run("words_train", all + "--checkpoint a --log a.jsonl --save-ema e"));
    ASSERT_EQ(events("a.jsonl").size(), 1U);
    ASSERT_EQ(std::sscanf(events("a.jsonl")[0].c_str(), "back to a/step-%lld after step %lld", &back, &bad), 2);
    ASSERT_LT(bad, 8);  // so that the rows below are of the first epoch, which has it once
    // The sources change between the step that was bad and the end, and tokens end the run before its steps do.
    std::filesystem::remove_all(path("a"));
    write_schedule(bad + 6);  // behind the checkpoint that follows the one that it went back to
    const std::string with_end = cat(all, "--max-tokens ", (bad + 9) * 4 * 6, " ");
    expect_success(run("words_train", with_end + "--checkpoint a --log a.jsonl --save a.all --save-ema a.ema"));
    std::map<std::int64_t, int> evaluated;
    std::int64_t steps = 0;
    for (const nlohmann::json& line : read_log("a.jsonl")) {
        if (line.contains("eval_loss")) ++evaluated[line.at("step")];
        if (line.contains("loss")) steps = line.at("step").get<std::int64_t>() + 1;
    }
    EXPECT_EQ(steps, bad + 9) << "rows that were left out count as tokens";
    for (std::int64_t step = 2; step <= steps; step += 2) EXPECT_EQ(evaluated[step], 1) << step;
    // Stopped at each checkpoint behind that.
    int stops = 0;
    for (const std::string& checkpoint : checkpoints_in(path("a"))) {
        const int step = std::stoi(checkpoint.substr(checkpoint.rfind('-') + 1));
        if (step < back || step >= steps) continue;
        std::filesystem::remove_all(path("b"));
        std::filesystem::create_directories(path("b"));
        std::filesystem::copy(checkpoint, path(step_in("b", step)), std::filesystem::copy_options::recursive);
        write_file(path("b.jsonl"), read_file(path("a.jsonl")));
        expect_success(
            run("words_train", with_end + "--checkpoint b --resume --log b.jsonl --save b.all --save-ema b.ema"));
        EXPECT_TRUE(same("a.all", "b.all")) << step;
        EXPECT_TRUE(same("a.ema", "b.ema")) << step;
        ++stops;
    }
    EXPECT_GT(stops, 1);
}

// The checkpoint that is written before the first step: the average is the parameters there, and no average yet.
TEST_F(BadStepsTest, GoesBackToTheBeginning) {
    write_weights("weights.safetensors", 3e38F);
    std::mt19937 random(12);
    std::vector<std::uint32_t> tokens(6 * 4 * 20 + 1);
    for (std::uint32_t& token : tokens) token = random() % (V - 1);
    const auto pack = [&](const std::string& name) {
        TokenFileWriter writer(path(name), V);
        writer.append(tokens);
        writer.commit();
    };
    pack("good.bin");
    const std::string all = "--init weights.safetensors --quiet --steps 6 " + std::string(flags);
    const std::string rollback = all + "--on-nan rollback ";
    expect_success(run("words_train", rollback + "--data good.bin --checkpoint a --save a.all --save-ema a.ema"));
    const auto only_the_first = [&] {
        ASSERT_EQ(checkpoints_in(path("a")).size(), 2U);
        std::filesystem::remove_all(checkpoints_in(path("a")).back());
    };
    only_the_first();
    expect_success(
        run("words_train", rollback + "--data good.bin --checkpoint a --resume --save b.all --save-ema b.ema"));
    EXPECT_TRUE(same("a.all", "b.all"));
    EXPECT_TRUE(same("a.ema", "b.ema"));
    // And from within the run: some window is in the third step.
    for (std::size_t window = 0;; ++window) {
        ASSERT_LT(window, 80U);
        const std::uint32_t before = std::exchange(tokens[6 * window + 3], poison);
        pack("bad.bin");
        tokens[6 * window + 3] = before;
        std::filesystem::remove_all(path("a"));
        expect_success(run("words_train", rollback + "--data bad.bin --checkpoint a --log a.jsonl --save a.all "
                                                     "--save-ema a.ema"));
        if (events("a.jsonl") ==
            std::vector<std::string>{"back to a/step-00000000 after step 2: 12 rows of the data are left out"})
            break;
    }
    only_the_first();
    move_in_data(path(step_in("a", 0)), 12);
    expect_success(run("words_train", all + "--on-nan skip --data bad.bin --checkpoint a --resume --save b.all "
                                            "--save-ema b.ema"));
    EXPECT_TRUE(same("a.all", "b.all"));
    EXPECT_TRUE(same("a.ema", "b.ema"));
}

TEST_F(BadStepsTest, IsRefusedWhereItCannotBeDone) {
    write_batches("feed.safetensors", 2, {}, false);
    const auto refused = [&](const std::string& arguments, const std::string& message) {
        const Outcome outcome = run("words_train", "--feed feed.safetensors " + arguments);
        EXPECT_EQ(outcome.status, 2) << arguments;
        EXPECT_TRUE(outcome.err.starts_with("error: " + message + "\n")) << outcome.err;
    };
    refused("--on-nan rollback", "--on-nan rollback goes back to a checkpoint, and none are written");
    refused("--on-nan rollback --checkpoint c",
            "--on-nan rollback goes on with other data, and --feed has the same batch for a step each time");
    refused("--spike-factor 5", "--spike-factor is about steps that are not taken, and --on-nan is stop");
    refused("--on-nan skip --spike-window 5", "--spike-window is the window of --spike-factor, which is not given");
    refused("--on-nan later", "--on-nan takes one of stop, skip, rollback, not \"later\"");
    refused("--keep-best", "--keep-best has nothing to evaluate");
    refused("--keep-best --eval-feed feed.safetensors", "--keep-best is about checkpoints, and none are written");
}

// ---- evaluations that decide ---------------------------------------------------------------------------------------

class BestTest : public ProgramTest {
  protected:
    BestTest() {
        write_feed("feed.safetensors", 2, 4);  // few batches, which are learned by heart
        std::mt19937 random(77);
        std::vector<std::int64_t> ids, labels;
        for (std::int64_t i = 0; i < 4 * T; ++i) {
            ids.push_back(random() % V);
            labels.push_back(random() % V);
        }
        write_tensors(path("other.safetensors"),
                      {longs("input_ids_0", {4, T}, ids), longs("labels_0", {4, T}, labels)});
    }
    std::vector<std::pair<std::int64_t, double>> evaluated(const std::string& log) const {
        std::vector<std::pair<std::int64_t, double>> out;
        for (const nlohmann::json& line : read_log(log))
            if (line.contains("eval_loss")) out.emplace_back(line.at("step"), line.at("eval_loss"));
        return out;
    }
};

const std::string overfitting =
    "--feed feed.safetensors --eval-feed other.safetensors --eval-every 2 --lr 0.05 --schedule constant --warmup 4 "
    "--seed 4 --quiet ";

TEST_F(BestTest, TheCheckpointOfTheLowestLossIsKept) {
    expect_success(run("words_train", overfitting + "--steps 40 --checkpoint c --keep 1 --keep-best --log a.jsonl"));
    const auto losses = evaluated("a.jsonl");
    const auto best = *std::min_element(losses.begin(), losses.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    ASSERT_GT(best.first, 0);
    ASSERT_LT(best.first, 40) << "the run was to learn by heart";
    const nlohmann::json told = nlohmann::json::parse(read_file(path("c/best.json")));
    EXPECT_EQ(told.at("step"), best.first);
    EXPECT_NEAR(told.at("eval_loss").get<double>(), best.second, 1e-8);
    const std::string name = told.at("checkpoint");
    EXPECT_EQ("c/" + name, step_in("c", static_cast<int>(best.first)));
    EXPECT_EQ(checkpoints_in(path("c")), (std::vector<std::string>{path("c/" + name), path("c/step-00000040")}));
    // It is the one that has this loss.
    const Outcome again = run("words_train", "--init c/" + name + " --eval-feed other.safetensors --eval-only --quiet");
    EXPECT_NEAR(nlohmann::json::parse(again.out).at("eval_loss").get<double>(), best.second, 1e-6 * best.second);
}

// Nobody asked for the best one any more, and nobody asked to remove it.
TEST_F(BestTest, TheBestCheckpointStaysWhereTheRunGoesOnWithoutThat) {
    expect_success(run("words_train", overfitting + "--steps 40 --checkpoint c --keep 1 --keep-best"));
    const std::string told = read_file(path("c/best.json"));
    const std::string best = path("c/" + nlohmann::json::parse(told).at("checkpoint").get<std::string>());
    ASSERT_TRUE(std::filesystem::exists(best));
    expect_success(
        run("words_train", overfitting + "--steps 60 --checkpoint c --keep 1 --checkpoint-every 5 --resume"));
    EXPECT_EQ(checkpoints_in(path("c")), (std::vector<std::string>{best, path("c/step-00000060")}));
    EXPECT_EQ(read_file(path("c/best.json")), told);
    // Asked for again, it is the best so far, unless another is better.
    expect_success(run("words_train", overfitting + "--steps 64 --checkpoint c --keep 1 --keep-best --resume"));
    EXPECT_EQ(checkpoints_in(path("c")), (std::vector<std::string>{best, path("c/step-00000064")}));
}

// Evaluations and checkpoints of the same steps: the checkpoint is there before its loss is known.
TEST_F(BestTest, ACheckpointThatWasWrittenAnywayIsNamed) {
    expect_success(run("words_train", overfitting + "--steps 40 --checkpoint alone --keep-best --log a.jsonl"));
    const nlohmann::json best = nlohmann::json::parse(read_file(path("alone/best.json")));
    const std::string name = best.at("checkpoint");
    for (const std::string how : {"auto", "off"}) {
        SCOPED_TRACE(how);
        const std::string folder = "c" + how,
                          options = overfitting + "--steps 40 --checkpoint " + folder +
                                    " --checkpoint-every 2 --keep 1 --keep-best --checkpoint-async " + how;
        // Stopped in a step that is evaluated, and lower than all before: its checkpoint does not know that yet.
        const std::int64_t tokens = best.at("step").get<std::int64_t>() * 4 * T;
        expect_success(run("words_train", options + " --max-tokens " + std::to_string(tokens)));
        EXPECT_EQ(nlohmann::json::parse(read_file(path(folder + "/best.json"))), best);
        EXPECT_EQ(checkpoints_in(path(folder)), (std::vector<std::string>{path(folder + "/" + name)}));
        // On without it, it stays; and is found again where nothing names it.
        std::filesystem::copy(path(folder), path("without"), std::filesystem::copy_options::recursive);
        expect_success(run("words_train", overfitting + "--steps 40 --checkpoint without --keep 1 --resume"));
        EXPECT_EQ(checkpoints_in(path("without")),
                  (std::vector<std::string>{path("without/" + name), path("without/step-00000040")}));
        std::filesystem::remove_all(path("without"));
        std::filesystem::remove(path(folder + "/best.json"));
        expect_success(run("words_train", options + " --resume"));
        EXPECT_EQ(nlohmann::json::parse(read_file(path(folder + "/best.json"))), best);
        EXPECT_EQ(checkpoints_in(path(folder)),
                  (std::vector<std::string>{path(folder + "/" + name), path(folder + "/step-00000040")}));
    }
}

// What is learned by heart has a low loss, which no other batches come to.
TEST_F(BestTest, LossesOfOtherBatchesAreNotCompared) {
    const std::string of_feed =
        "--feed feed.safetensors --eval-every 2 --lr 0.05 --schedule constant --warmup 4 "
        "--seed 4 --quiet --checkpoint c --keep 1 --keep-best --early-stop 50 ";
    expect_success(run("words_train", of_feed + "--eval-feed feed.safetensors --steps 40"));
    const nlohmann::json before = nlohmann::json::parse(read_file(path("c/best.json")));
    const std::string best = before.at("checkpoint");
    // The same again is said nothing of.
    expect_success(run("words_train", of_feed + "--eval-feed feed.safetensors --steps 40 --resume"));
    const Outcome other = run("words_train", of_feed + "--eval-feed other.safetensors --steps 44 --resume");
    EXPECT_EQ(other.status, 0);
    EXPECT_EQ(other.err,
              "warning: the checkpoint's evaluations were of other batches: which loss is the lowest, begins "
              "anew; the checkpoint of step 40 stays until one is kept\n");
    const nlohmann::json after = nlohmann::json::parse(read_file(path("c/best.json")));
    EXPECT_EQ(best, "step-00000040");
    EXPECT_GT(after.at("eval_loss").get<double>(), 2 * before.at("eval_loss").get<double>());
}

TEST_F(BestTest, ARunEndsWhereTheLossFallsNoMore) {
    expect_success(run("words_train", overfitting + "--steps 60 --checkpoint c --early-stop 3 --log a.jsonl"));
    const auto losses = evaluated("a.jsonl");
    std::size_t best = 0;
    for (std::size_t k = 0; k < losses.size(); ++k)
        if (losses[k].second < losses[best].second) best = k;
    EXPECT_EQ(losses.size(), best + 1 + 3);
    ASSERT_LT(losses.back().first, 60);
    // Stopped on the way, behind an evaluation that is done again where it goes on, it ends where it would have ended.
    const std::int64_t tokens = (losses[best].first + 2) * 4 * T;
    expect_success(run("words_train", overfitting + "--steps 60 --max-tokens " + std::to_string(tokens) +
                                          " --checkpoint d --early-stop 3 --log b.jsonl"));
    expect_success(run("words_train", overfitting + "--steps 60 --checkpoint d --resume --early-stop 3 --log b.jsonl"));
    EXPECT_EQ(evaluated("b.jsonl"), losses);
    // And what has ended does not begin again.
    const Outcome after = run("words_train",
                              "--feed feed.safetensors --eval-feed other.safetensors --eval-every 2 --lr 0.05 "
                              "--schedule constant --warmup 4 --steps 60 --checkpoint c --resume --early-stop 3");
    EXPECT_EQ(after.status, 0);
    EXPECT_NE(after.err.find("--early-stop 3: no lower loss in 3 evaluations: the lowest is "), std::string::npos)
        << after.err;
    EXPECT_EQ(after.err.find("\nstep "), std::string::npos) << after.err;
}

}  // namespace bad_steps_test
}  // namespace thunder

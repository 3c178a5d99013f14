// SPDX-License-Identifier: Apache-2.0
// Steps that are skipped on several ranks: what is wrong stands in one rank's rows, and all leave the step out.
#include "ranks_test.h"

namespace thunder {
namespace bad_steps_ranks_test {

class BadStepsRanksTest : public RanksTest {
  protected:
    // Batches of 4 rows. In those that are bad the last row, the second rank's, has a token whose embedding is so large
    // that its logits overflow; or they are left out.
    void write_batches(const std::string& name, bool left_out) {
        std::mt19937 random(2);
        std::vector<TestTensor> tensors;
        std::size_t written = 0;
        for (std::size_t step = 0; step < 12; ++step) {
            std::vector<std::int64_t> ids, labels;
            for (std::int64_t i = 0; i < 4 * T; ++i) {
                ids.push_back(random() % (V - 1));
                labels.push_back(random() % (V - 1));
            }
            const bool bad = step == 3 || step == 7 || step == 8;
            if (bad && left_out) continue;
            if (bad) ids[4 * T - 2] = V - 1;
            tensors.push_back(longs(cat("input_ids_", written), {4, T}, ids));
            tensors.push_back(longs(cat("labels_", written), {4, T}, labels));
            ++written;
        }
        write_tensors(path(name), tensors);
    }
};

TEST_F(BadStepsRanksTest, AllSkipWhatOneCannotTake) {
    std::mt19937 random(3);
    std::vector<float> embed(V * D), head(V * D);
    for (float& x : embed) x = 0.001F * static_cast<float>(static_cast<int>(random() % 200) - 100);
    for (float& x : head) x = 0.02F * static_cast<float>(static_cast<int>(random() % 200) - 100);
    std::fill_n(embed.end() - D, D, 3e38F);
    write_tensors(path("weights.safetensors"),
                  {floats("model.embed.weight", {V, D}, embed), floats("model.head.weight", {V, D}, head)});
    write_batches("bad.safetensors", false);
    write_batches("good.safetensors", true);
    const std::string flags =
        "--init weights.safetensors --init-missing ones --lr 0.05 --schedule constant --warmup 0 --quiet ";
    for (const std::string program : {"words_dp2", "words_fsdp2"}) {
        expect_success(
            run_ranks(2, program, flags + "--feed bad.safetensors --steps 12 --on-nan skip --log a.jsonl --save a"));
        expect_success(run_ranks(2, program, flags + "--feed good.safetensors --steps 9 --save b"));
        EXPECT_EQ(read_file(path("a")) == read_file(path("b")), true) << program;
        std::vector<std::int64_t> steps;
        for (const nlohmann::json& line : read_log("a.jsonl"))
            if (line.contains("event")) steps.push_back(line.at("step"));
        EXPECT_EQ(steps, (std::vector<std::int64_t>{3, 7, 8})) << program;
    }
}

// A logit of -2.5e38 that two labels of the second rank ask for: its loss is infinite, that of the first and all
// gradients are finite.
TEST_F(BadStepsRanksTest, AllSkipWhereTheLossOfOneIsNoNumber) {
    std::mt19937 random(3);
    std::vector<float> embed(V * D), head(V * D), bias(V);
    for (float& x : embed) x = 0.001F * static_cast<float>(static_cast<int>(random() % 200) - 100);
    for (float& x : head) x = 0.02F * static_cast<float>(static_cast<int>(random() % 200) - 100);
    bias.back() = -2.5e38F;
    write_tensors(path("weights.safetensors"),
                  {floats("model.embed.weight", {V, D}, embed), floats("model.head.weight", {V, D}, head),
                   floats("model.head.bias", {V}, bias)});
    const auto write = [&](const std::string& name, bool left_out) {
        std::vector<TestTensor> tensors;
        std::size_t written = 0;
        for (std::size_t step = 0; step < 8; ++step) {
            std::vector<std::int64_t> ids, labels;
            std::mt19937 of_step(static_cast<std::uint32_t>(step));
            for (std::int64_t i = 0; i < 4 * T; ++i) {
                ids.push_back(of_step() % V);
                labels.push_back(of_step() % (V - 1));
            }
            const bool bad = step == 3 || step == 4;
            if (bad && left_out) continue;
            if (bad) labels[4 * T - 2] = labels[4 * T - 4] = V - 1;
            tensors.push_back(longs(cat("input_ids_", written), {4, T}, ids));
            tensors.push_back(longs(cat("labels_", written), {4, T}, labels));
            ++written;
        }
        write_tensors(path(name), tensors);
    };
    write("bad.safetensors", false);
    write("good.safetensors", true);
    using Case = std::pair<const char*, std::string>;
    for (const auto& [scale, program] : {Case{"off", "words_dp2"}, Case{"dynamic", "words_fsdp2"}}) {
        SCOPED_TRACE(cat(program, ", scale ", scale));
        const std::string flags =
            cat("--init weights.safetensors --init-missing ones --lr 0.05 --schedule constant "
                "--warmup 0 --quiet --loss-scale ",
                scale, " ");
        expect_success(
            run_ranks(2, program, flags + "--feed bad.safetensors --steps 8 --on-nan skip --log a.jsonl --save a"));
        expect_success(run_ranks(2, program, flags + "--feed good.safetensors --steps 6 --save b"));
        EXPECT_EQ(read_file(path("a")) == read_file(path("b")), true);
        std::vector<std::string> events;
        for (const nlohmann::json& line : read_log("a.jsonl"))
            if (line.contains("event")) events.push_back(line.at("event"));
        EXPECT_EQ(events, (std::vector<std::string>{"step 3 is skipped: its loss is not finite, and its gradient is",
                                                    "step 4 is skipped: its loss is not finite, and its gradient is"}));
        const Outcome stopped = run_ranks(2, program, flags + "--feed bad.safetensors --steps 8");
        EXPECT_EQ(stopped.status, 1);
        EXPECT_NE(stopped.err.find("error: the loss is inf at step 3\n"), std::string::npos) << stopped.err;
    }
}

}  // namespace bad_steps_ranks_test
}  // namespace thunder

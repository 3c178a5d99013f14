// SPDX-License-Identifier: Apache-2.0
// Whole programs: what they compute against fp64 references, how batches are cut, how a run goes on.
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "program_test.h"

namespace thunder {
namespace trainer_test {

// ---- the arithmetic, against a reference in fp64 -----------------------------------------------------------------

using Tensors = std::map<std::string, std::vector<double>>;

struct Reference {
    Tensors p, m, v;
    std::vector<double> table;

    // loss and gradients of one step
    double gradients(const WordsBatch& batch, Tensors& g) const {
        double loss = 0, weight = 0;
        for (const auto& [name, values] : p) g[name].assign(values.size(), 0);
        for (const std::int64_t label : batch.labels) weight += label != -100;
        const auto &embed = p.at("model.embed.weight"), &head = p.at("model.head.weight"),
                   &bias = p.at("model.head.bias"), &scale = p.at("model.norm.one_plus_weight");
        for (std::size_t i = 0; i < batch.ids.size(); ++i) {
            if (batch.labels[i] == -100) continue;
            const auto id = static_cast<std::size_t>(batch.ids[i]), label = static_cast<std::size_t>(batch.labels[i]);
            std::vector<double> x(D), logits(V), dx(D);
            double sum = 0;
            for (std::size_t d = 0; d < D; ++d) x[d] = embed[id * D + d] * scale[d] + table[d];
            for (std::size_t w = 0; w < V; ++w) {
                logits[w] = bias[w];
                for (std::size_t d = 0; d < D; ++d) logits[w] += x[d] * head[w * D + d];
                sum += std::exp(logits[w]);
            }
            loss += std::log(sum) - logits[label];
            for (std::size_t w = 0; w < V; ++w) {
                const double dlogit = (std::exp(logits[w]) / sum - (w == label)) / weight;
                g["model.head.bias"][w] += dlogit;
                for (std::size_t d = 0; d < D; ++d) {
                    g["model.head.weight"][w * D + d] += dlogit * x[d];
                    dx[d] += dlogit * head[w * D + d];
                }
            }
            for (std::size_t d = 0; d < D; ++d) {
                g["model.embed.weight"][id * D + d] += dx[d] * scale[d];
                g["model.norm.one_plus_weight"][d] += dx[d] * embed[id * D + d];
            }
        }
        return loss / weight;
    }
};

// What a parameter is stepped by.
struct AdamWNumbers {
    double height, decay, beta1;  // of the learning rate
};

// A run with these flags and groups, beside AdamW in fp64.
class AdamWTest : public ProgramTest {
  protected:
    void expect_as_torch(const std::string& flags, const std::function<AdamWNumbers(const std::string&)>& numbers_of);
};

void AdamWTest::expect_as_torch(const std::string& flags,
                                const std::function<AdamWNumbers(const std::string&)>& numbers_of) {
    const auto batches = write_feed("feed.safetensors", 3, 4);
    const double lr = 0.05, min_lr = 0.01, beta2 = 0.9, eps = 1e-6, clip = 0.2;
    const std::int64_t steps = 7, warmup = 2;
    expect_success(run("words_train",
                       "--feed feed.safetensors --steps 7 --lr 0.05 --min-lr 0.01 --warmup 2 --schedule cosine "
                       "--weight-decay 0.3 --beta1 0.8 --beta2 0.9 "
                       "--eps 1e-6 --grad-clip 0.2 --seed 3 --init-std 0.5 --log run.jsonl --save after.safetensors "
                       "--dump-gradients gradients.safetensors --quiet " +
                           flags));
    expect_success(run("words_train",
                       "--feed feed.safetensors --steps 0 --seed 3 --init-std 0.5 --save before.safetensors --quiet"));

    Reference exact;
    for (std::size_t d = 0; d < D; ++d) exact.table.push_back(static_cast<double>(0.05F * static_cast<float>(d)));
    for (const std::string name :
         {"model.embed.weight", "model.head.weight", "model.head.bias", "model.norm.one_plus_weight"}) {
        const std::vector<float> start = read_floats(path("before.safetensors"), name);
        ASSERT_FALSE(start.empty()) << name;
        exact.p[name].assign(start.begin(), start.end());
        exact.m[name].assign(start.size(), 0);
        exact.v[name].assign(start.size(), 0);
    }
    const auto log = read_log("run.jsonl");
    ASSERT_EQ(log.size(), 7U);
    bool clipped = false;
    for (std::int64_t s = 0; s < steps; ++s) {
        Tensors g;
        const double loss = exact.gradients(batches[static_cast<std::size_t>(s % 3)], g);
        double squares = 0;
        for (const auto& [name, values] : g) {
            for (const double x : values) squares += x * x;
            if (s > 0) continue;
            const std::vector<float> dumped = read_floats(path("gradients.safetensors"), name);
            ASSERT_EQ(dumped.size(), values.size()) << name;
            // f32 sums of at most 24 terms below 1: 24 half ulps of 1.
            for (std::size_t i = 0; i < values.size(); ++i)
                EXPECT_NEAR(dumped[i], values[i], 24 * 0x1p-24) << name << " " << i;
        }
        const double norm = std::sqrt(squares), factor = std::min(1.0, clip / (norm + 1e-6));
        clipped |= factor < 1;
        const double rate = s < warmup ? lr * static_cast<double>(s + 1) / warmup
                                       : min_lr + (lr - min_lr) *
                                                      (1 + std::cos(M_PI * static_cast<double>(s - warmup) /
                                                                    static_cast<double>(steps - warmup))) /
                                                      2;
        EXPECT_EQ(log[static_cast<std::size_t>(s)]["step"], s);
        // Errors of f32 training grow from step to step; a wrong formula is off by 1e-2 and more.
        EXPECT_NEAR(log[static_cast<std::size_t>(s)]["loss"].get<double>(), loss,
                    2e-6 * loss * static_cast<double>(s + 1))
            << s;
        EXPECT_NEAR(log[static_cast<std::size_t>(s)]["grad_norm"].get<double>(), norm,
                    1e-5 * norm * static_cast<double>(s + 1))
            << s;
        EXPECT_NEAR(log[static_cast<std::size_t>(s)]["lr"].get<double>(), rate, 1e-8);  // nine digits are printed
        EXPECT_EQ(log[static_cast<std::size_t>(s)]["tokens"], 24);
        for (auto& [name, p] : exact.p) {
            const auto [height, decay, beta1] = numbers_of(name);
            const double its_rate = rate * (height / lr);
            for (std::size_t i = 0; i < p.size(); ++i) {
                const double x = g[name][i] * factor;
                double &m = exact.m[name][i], &v = exact.v[name][i];
                m = beta1 * m + (1 - beta1) * x;
                v = beta2 * v + (1 - beta2) * x * x;
                const double power = static_cast<double>(s + 1);
                p[i] *= 1 - its_rate * decay;
                p[i] -=
                    its_rate * m / (1 - std::pow(beta1, power)) / (std::sqrt(v / (1 - std::pow(beta2, power))) + eps);
            }
        }
    }
    EXPECT_TRUE(clipped);
    for (const auto& [name, values] : exact.p) {
        const std::vector<float> after = read_floats(path("after.safetensors"), name);
        ASSERT_EQ(after.size(), values.size()) << name;
        // Adam divides by the gradient's size, so the error of a parameter is relative to its lr, not to its gradient.
        for (std::size_t i = 0; i < values.size(); ++i)
            EXPECT_NEAR(after[i], values[i], 1e-4 * numbers_of(name).height * static_cast<double>(steps))
                << name << " " << i;
    }
    EXPECT_EQ(read_floats(path("after.safetensors"), "model.frozen.weight"), std::vector<float>(D, 1));
    EXPECT_TRUE(read_floats(path("gradients.safetensors"), "model.frozen.weight").empty());  // it has none
}

bool is_matrix(const std::string& name) {
    return name.ends_with("embed.weight") || name.ends_with("head.weight");
}

TEST_F(AdamWTest, TrainsAsTorchsWould) {
    expect_as_torch("", [](const std::string& name) { return AdamWNumbers{0.05, is_matrix(name) ? 0.3 : 0, 0.8}; });
}

TEST_F(AdamWTest, TrainsGroupsAsTorchsWould) {
    expect_as_torch("--group 'bias|norm:weight_decay=0.6,lr=0.02' --group 'head:beta1=0.5'",
                    [](const std::string& name) {
                        if (name.ends_with("bias") || name.find("norm") != std::string::npos)
                            return AdamWNumbers{0.02, 0.6, 0.8};
                        return AdamWNumbers{0.05, 0.3, name.find("head") != std::string::npos ? 0.5 : 0.8};
                    });
}

TEST_F(ProgramTest, TrainsAsTorchsSgdWouldOnAMeanWithoutWeight) {
    // Two points a micro-batch, two micro-steps: the loss is the mean of the two means.
    const std::vector<float> x = {1, 0, 2, -1, 1, 0.5F, 0, 0, 1, 2, -2, 1}, target = {1, 2, -1, 0.5F},
                             offset = {0.5F, 0, -0.5F};
    const std::vector<std::uint8_t> use = {1, 1, 0, 1};
    const std::vector<std::int64_t> kind = {0, 1, 0, 0};  // int64 in the file, int32 in the program
    write_tensors(path("feed.safetensors"),
                  {floats("x_0", {4, 3}, x), tensor("use_0", DType::boolean, {4}, use), longs("kind_0", {4}, kind),
                   floats("offset_0", {3}, offset), floats("target_0", {4}, target)});
    write_tensors(path("init.safetensors"),
                  {floats("weight", {1, 3}, {0.1F, -0.2F, 0.3F}), floats("bias", {1}, {0.4F})});
    expect_success(
        run("line_train",
            "--feed feed.safetensors --init init.safetensors --grad-accum 2 --steps 3 --lr 0.1 --schedule constant "
            "--warmup 0 --momentum 0.5 "
            "--weight-decay 0.2 --decay all --grad-clip 0 --log run.jsonl --save after.safetensors --quiet"));
    double p[4] = {static_cast<double>(0.1F), static_cast<double>(-0.2F), static_cast<double>(0.3F),
                   static_cast<double>(0.4F)},
           b[4] = {};
    const auto log = read_log("run.jsonl");
    ASSERT_EQ(log.size(), 3U);
    for (std::size_t s = 0; s < 3; ++s) {
        double loss = 0, g[4] = {};
        for (std::size_t i = 0; i < 4; ++i) {
            if (!use[i]) continue;
            double in[4] = {x[3 * i] + 0.5, x[3 * i + 1], x[3 * i + 2] - 0.5, 1.0 - static_cast<double>(kind[i])},
                   error = -target[i];
            for (std::size_t d = 0; d < 4; ++d) error += p[d] * in[d];
            loss += error * error / 4;
            for (std::size_t d = 0; d < 4; ++d) g[d] += 2 * error * in[d] / 4;
        }
        EXPECT_NEAR(log[s]["loss"].get<double>(), loss, 1e-6 * loss);  // f32: a dozen roundings
        EXPECT_EQ(log[s]["tokens"], 4);
        for (std::size_t d = 0; d < 4; ++d) {
            b[d] = (s == 0 ? 0 : 0.5 * b[d]) + g[d] + 0.2 * p[d];
            p[d] -= 0.1 * b[d];
        }
    }
    const std::vector<float> weight = read_floats(path("after.safetensors"), "weight"),
                             bias = read_floats(path("after.safetensors"), "bias");
    for (std::size_t d = 0; d < 3; ++d) EXPECT_NEAR(weight[d], p[d], 1e-6);
    EXPECT_NEAR(bias[0], p[3], 1e-6);
}

// ---- batches -------------------------------------------------------------------------------------------------------

TEST_F(ProgramTest, HalfBatchesTwiceAreTheWholeBatch) {
    write_feed("feed.safetensors", 2, 4);
    const std::string flags = "--feed feed.safetensors --steps 5 --lr 0.1 --seed 3 --quiet";
    expect_success(run("words_train", flags + " --log whole.jsonl --save whole.safetensors --dump-gradients whole.g"));
    expect_success(run("words_half_train",
                       flags + " --grad-accum 2 --log half.jsonl --save half.safetensors --dump-gradients half.g"));
    // The program adds position after position, so that not a bit may differ.
    EXPECT_EQ(without_times(read_file(path("whole.jsonl"))), without_times(read_file(path("half.jsonl"))));
    EXPECT_EQ(read_file(path("whole.safetensors")), read_file(path("half.safetensors")));
    EXPECT_EQ(read_file(path("whole.g")), read_file(path("half.g")));
}

// Of every step's parameters, which its checkpoint has: the first step's are taken whole, of later ones a quarter of
// the way is gone.
TEST_F(ProgramTest, AveragesItsWeights) {
    write_feed("feed.safetensors", 3, 4);
    const std::string trained[] = {"model.embed.weight", "model.head.weight", "model.head.bias",
                                   "model.norm.one_plus_weight"};
    constexpr int steps = 120;
    const std::string flags = "--feed feed.safetensors --lr 0.1 --seed 3 --quiet --checkpoint c --checkpoint-every 1 ";
    expect_success(run("words_train", cat(flags, "--steps ", steps, " --ema 0.75 --save-ema average.safetensors")));
    for (const std::string& name : trained) {
        std::vector<double> average;
        std::vector<float> kept;
        for (int step = 1; step <= steps; ++step) {
            const std::string file = file_of_step("c", step);
            const std::vector<float> now = read_floats(path(file), name);
            ASSERT_FALSE(now.empty());
            if (step == 1) average.assign(now.begin(), now.end());
            for (std::size_t i = 0; i < now.size(); ++i)
                average[i] = 0.75 * average[i] + 0.25 * static_cast<double>(now[i]);
            kept = read_floats(path(file), "optimizer.ema." + name);
            ASSERT_EQ(kept.size(), average.size());
            // Three roundings a step of parameters of up to 4, of which a quarter is lost in the next.
            for (std::size_t i = 0; i < now.size(); ++i)
                ASSERT_NEAR(static_cast<double>(kept[i]), average[i], 3 * 4 * 4 * 0x1p-24) << name << " after " << step;
        }
        EXPECT_EQ(read_floats(path("average.safetensors"), name), kept);
    }
    // What does not train is its own average, and steps are what they are without one.
    EXPECT_EQ(read_floats(path("average.safetensors"), "model.frozen.weight"), std::vector<float>(D, 1));
    expect_success(run("words_train", cat("--feed feed.safetensors --lr 0.1 --seed 3 --quiet --steps ", steps,
                                          " --save without.safetensors")));
    const std::string last = path(file_of_step("c", 120));
    for (const std::string& name : trained)
        EXPECT_EQ(read_floats(path("without.safetensors"), name), read_floats(last, name));
}

// An average that begins with a checkpoint begins with the step behind it; one that ends there is in no checkpoint
// more.
TEST_F(ProgramTest, AnAverageBeginsAndEndsWithACheckpoint) {
    write_feed("feed.safetensors", 3, 4);
    const std::string flags = "--feed feed.safetensors --lr 0.1 --schedule constant --checkpoint c --threads 1 ";
    expect_success(run("words_train", flags + "--steps 2 --quiet"));
    const auto go_on = [&](const std::string& more) {
        const Outcome outcome = run("words_train", flags + "--resume " + more);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return outcome.err;
    };
    const std::string name = "model.head.weight";
    std::string said = go_on("--steps 2 --ema 0.75 --save-ema average.safetensors");
    EXPECT_NE(said.find("note: the checkpoint has no average of weights: that of --ema 0.75 begins with the parameters "
                        "that are there\n"),
              std::string::npos)
        << said;
    EXPECT_NE(said.find(", average of weights 864 bytes"), std::string::npos) << said;
    EXPECT_EQ(read_floats(path("average.safetensors"), name), read_floats(path(file_of_step("c", 2)), name));
    go_on("--steps 3 --ema 0.75");
    const std::string third = path(file_of_step("c", 3));
    EXPECT_EQ(read_floats(third, "optimizer.ema." + name), read_floats(third, name));
    said = go_on("--steps 4");
    EXPECT_NE(said.find("note: the checkpoint has an average of weights, made with --ema 0.75: without --ema it ends "
                        "here\n"),
              std::string::npos)
        << said;
    EXPECT_TRUE(read_floats(path(file_of_step("c", 4)), "optimizer.ema." + name).empty());
}

TEST_F(ProgramTest, FeedsWrapAround) {
    write_feed("two.safetensors", 2, 4);
    const auto batches = write_feed("one.safetensors", 2, 4);
    std::vector<TestTensor> long_feed;
    for (std::size_t step = 0; step < 5; ++step) {
        long_feed.push_back(longs(cat("input_ids_", step), {4, T}, batches[step % 2].ids));
        long_feed.push_back(longs(cat("labels_", step), {4, T}, batches[step % 2].labels));
    }
    write_tensors(path("five.safetensors"), long_feed);
    expect_success(run("words_train", "--feed two.safetensors --steps 5 --log a.jsonl --quiet"));
    expect_success(run("words_train", "--feed five.safetensors --steps 5 --log b.jsonl --quiet"));
    EXPECT_EQ(without_times(read_file(path("a.jsonl"))), without_times(read_file(path("b.jsonl"))));
    // Which is said, where it happens.
    for (const auto& [steps, said] : {std::pair<const char*, const char*>{"3", "(2 steps, repeated); 4 rows a step\n"},
                                      {"2", "(2 steps); 4 rows a step\n"}}) {
        const Outcome outcome = run("words_train", cat("--feed two.safetensors --steps ", steps));
        EXPECT_EQ(outcome.status, 0);
        EXPECT_NE(outcome.err.find(cat("\nbatches from two.safetensors ", said)), std::string::npos) << outcome.err;
    }
}

TEST_F(ProgramTest, WritesTheLogInItsFormat) {
    write_feed("feed.safetensors", 1, 4);
    expect_success(
        run("words_train",
            "--feed feed.safetensors --steps 1 --lr 0.001 --schedule constant --warmup 0 --log run.jsonl --quiet"));
    const std::string line = read_file(path("run.jsonl"));
    std::vector<std::string> keys;
    const nlohmann::ordered_json parsed = nlohmann::ordered_json::parse(line);
    for (const auto& [key, value] : parsed.items()) {
        EXPECT_TRUE(value.is_number()) << key;
        keys.push_back(key);
    }
    EXPECT_EQ(keys, (std::vector<std::string>{"step", "loss", "grad_norm", "lr", "tokens", "step_ms",
                                              "tokens_per_second", "memory"}));
    EXPECT_EQ(line.find_first_of(" \n"), line.size() - 1) << line;  // one line, no spaces
    EXPECT_NE(line.find(",\"lr\":0.001,\"tokens\":24,"), std::string::npos) << line;
}

}  // namespace trainer_test
}  // namespace thunder

// SPDX-License-Identifier: Apache-2.0
// Training on ranks is training on one: the same losses, norms, gradients and parameters, whatever is sharded.
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/token_file.h"
#include "ranks_test.h"

namespace thunder {
namespace training_test {

struct Sharding {
    const char* program;
    int ranks;
    int accumulation;  // so that a step takes four rows
};
constexpr Sharding shardings[] = {
    {"words_dp2", 2, 1}, {"words_fsdp2", 2, 1}, {"words_fsdp4", 4, 1}, {"words_hsdp2x2", 4, 1}};

// Sums of some dozen terms in two orders, in f32: a few units in the last place of their size, which steps pass on.
constexpr double tolerance = 1e-5;

void expect_near(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
    ASSERT_EQ(a.size(), b.size()) << what;
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
        size += std::pow(static_cast<double>(b[i]), 2);
    }
    EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(size)) << what;
}

class TrainingTest : public RanksTest {
  protected:
    void expect_same_tensors(const std::string& a, const std::string& b) const {
        const SafetensorsFile ours(path(a)), theirs(path(b));
        ASSERT_EQ(ours.names(), theirs.names());
        for (const std::string& name : theirs.names())
            expect_near(read_floats(path(a), name), read_floats(path(b), name), cat(a, " ", name));
    }
    void expect_same_log(const std::string& a, const std::string& b) const {
        const auto ours = read_log(a), theirs = read_log(b);
        ASSERT_EQ(ours.size(), theirs.size()) << a;
        for (std::size_t i = 0; i < theirs.size(); ++i) {
            for (const char* key : {"loss", "grad_norm"})
                EXPECT_NEAR(ours[i][key].get<double>(), theirs[i][key].get<double>(),
                            tolerance * theirs[i][key].get<double>())
                    << a << " step " << i << " " << key;
            for (const char* key : {"step", "lr", "tokens"}) EXPECT_EQ(ours[i][key], theirs[i][key]) << key;
        }
    }

    const std::string flags = "--feed feed.safetensors --lr 0.05 --grad-clip 0.2 --seed 3 --init-std 0.5 --quiet ";
};

// Each rank steps what it holds of a group by the group's numbers.
TEST_F(TrainingTest, GroupsAreThoseOfOneRank) {
    write_feed("feed.safetensors", 3, 4);
    const std::string same = flags + "--steps 5 --group 'head:lr=0.2,weight_decay=0.5,beta1=0.5;norm:lr=0.01' --save ";
    expect_success(run("words_train", flags + "--steps 5 --save plain.safetensors"));
    expect_success(run("words_train", same + "one.safetensors"));
    EXPECT_NE(read_floats(path("plain.safetensors"), "model.norm.one_plus_weight"),
              read_floats(path("one.safetensors"), "model.norm.one_plus_weight"));
    for (const Sharding& sharding : shardings) {
        expect_success(run_ranks(sharding.ranks, sharding.program, same + "ranks.safetensors"));
        expect_same_tensors("ranks.safetensors", "one.safetensors");
    }
}

TEST_F(TrainingTest, EveryShardingIsOneRank) {
    for (const int accumulation : {1, 3}) {
        write_feed("feed.safetensors", 3, 4 * accumulation);  // with labels that are ignored, more on one rank
        const std::string same =
            cat(flags, "--steps 7 --grad-accum ", accumulation,
                " --log run.jsonl --save after.safetensors --dump-gradients gradients.safetensors --ema 0.75 "
                "--save-ema average.safetensors ");
        expect_success(run("words_train", same));
        for (const char* name : {"run.jsonl", "after.safetensors", "average.safetensors", "gradients.safetensors"})
            std::filesystem::rename(path(name), path(cat("one.", name)));
        for (const Sharding& sharding : shardings) {
            expect_success(run_ranks(sharding.ranks, sharding.program, same));
            expect_same_log("run.jsonl", "one.run.jsonl");
            expect_same_tensors("after.safetensors", "one.after.safetensors");
            expect_same_tensors("average.safetensors", "one.average.safetensors");
            expect_same_tensors("gradients.safetensors", "one.gradients.safetensors");
        }
    }
}

// All ranks skip the same steps, and learn of a step after they began the next: bit by bit the same ranks' run without
// them, and a power of two changes nothing.
TEST_F(TrainingTest, RanksSkipStepsAsOne) {
    write_feed("feed.safetensors", 1, 4);
    const std::string same =
        "--feed feed.safetensors --lr 0.05 --warmup 0 --schedule constant --seed 3 --init-std 8 "
        "--ema 0.9 --quiet --grad-clip 50 ";
    for (const Sharding& sharding : shardings) {
        SCOPED_TRACE(sharding.program);
        const auto run_it = [&](const std::string& more) {
            expect_success(run_ranks(sharding.ranks, sharding.program, same + more));
        };
        run_it(
            "--steps 20 --loss-scale dynamic --loss-scale-start 1.7014118346046923e38 --loss-scale-interval 3 "
            "--log run.jsonl --save a --save-ema a.ema");
        const int skipped = read_log("run.jsonl").back()["skipped"];
        EXPECT_GT(skipped, 6);
        EXPECT_LT(skipped, 14);
        run_it(cat("--steps ", 20 - skipped, " --save b --save-ema b.ema"));
        EXPECT_TRUE(read_file(path("a")) == read_file(path("b")));
        EXPECT_TRUE(read_file(path("a.ema")) == read_file(path("b.ema")));
        run_it(cat("--steps ", 20 - skipped, " --loss-scale 65536 --save b --save-ema b.ema"));
        EXPECT_TRUE(read_file(path("a")) == read_file(path("b")));
    }
}

TEST_F(TrainingTest, DrawsTheSameParametersOnEveryWorld) {
    write_feed("feed.safetensors", 1, 4);
    expect_success(run("words_train", flags + "--steps 0 --save one.safetensors"));
    for (const Sharding& sharding : shardings) {
        expect_success(run_ranks(sharding.ranks, sharding.program, flags + "--steps 0 --save ranks.safetensors"));
        EXPECT_EQ(read_file(path("ranks.safetensors")), read_file(path("one.safetensors"))) << sharding.program;
    }
}

TEST_F(TrainingTest, ReadsParametersOnEveryWorld) {
    write_feed("feed.safetensors", 1, 4);
    expect_success(run("words_train", flags + "--steps 0 --save one.safetensors"));
    for (const Sharding& sharding : shardings) {
        expect_success(run_ranks(sharding.ranks, sharding.program,
                                 "--feed feed.safetensors --quiet --init one.safetensors --steps 0 "
                                 "--save ranks.safetensors"));
        EXPECT_EQ(read_file(path("ranks.safetensors")), read_file(path("one.safetensors"))) << sharding.program;
    }
}

TEST_F(TrainingTest, ACheckpointOfOneWorldGoesOnAtAnother) {
    write_feed("feed.safetensors", 5, 4);
    const std::string whole = flags + "--schedule constant --warmup 0 --ema 0.75 ";
    expect_success(run("words_train", whole + "--steps 6 --save one.safetensors --save-ema one_average.safetensors"));
    const Sharding one{"words_train", 1, 1};
    // Each begins where the one before stopped.
    const Sharding order[] = {one, shardings[1], shardings[2], shardings[0], shardings[3], one};
    for (int step = 1; step <= 6; ++step) {
        const Sharding& now = order[step - 1];
        const std::string arguments =
            cat(whole, "--steps ", step, " --checkpoint kept --save ranks.safetensors --save-ema average.safetensors ",
                step > 1 ? "--resume" : "");
        expect_success(now.ranks == 1 ? run(now.program, arguments) : run_ranks(now.ranks, now.program, arguments));
    }
    expect_same_tensors("ranks.safetensors", "one.safetensors");
    expect_same_tensors("average.safetensors", "one_average.safetensors");
}

// Within an epoch and into the next one, with eight rows a step on any world: nobody says how many micro-steps that is.
TEST_F(TrainingTest, TheOrderOfTheDataGoesOnAtAnotherWorld) {
    TokenFileWriter writer(path("corpus.bin"), V);
    for (std::uint32_t i = 0; i < 300; ++i) writer.append(std::vector<std::uint32_t>{i * i * i % 11});
    writer.commit();  // 49 windows: six steps of eight, and one left
    const std::string whole =
        "--data corpus.bin --lr 0.05 --seed 3 --init-std 0.5 --quiet --schedule constant --warmup 0 --log run.jsonl ";
    expect_success(run("words_train", whole + "--grad-accum 2 --steps 8"));
    std::filesystem::rename(path("run.jsonl"), path("one.run.jsonl"));
    const Sharding one{"words_train", 1, 1};
    const Sharding order[] = {one, shardings[0], shardings[2], one};
    int steps = 0;
    for (const Sharding& now : order) {
        const std::string arguments =
            cat(whole, "--steps ", steps + 2, " --checkpoint kept ", steps > 0 ? "--resume" : "--grad-accum 2");
        expect_success(now.ranks == 1 ? run(now.program, arguments) : run_ranks(now.ranks, now.program, arguments));
        steps += 2;
    }
    expect_same_log("run.jsonl", "one.run.jsonl");
}

TEST_F(TrainingTest, TheSameRunGivesTheSameBits) {
    write_feed("feed.safetensors", 3, 4);
    for (const Sharding& sharding : {shardings[1], shardings[3]}) {
        for (const char* name : {"a.safetensors", "b.safetensors"})
            expect_success(run_ranks(sharding.ranks, sharding.program, cat(flags, "--steps 5 --save ", name)));
        EXPECT_EQ(read_file(path("a.safetensors")), read_file(path("b.safetensors"))) << sharding.program;
    }
}

}  // namespace training_test
}  // namespace thunder
